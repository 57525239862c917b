/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks that are mappings of their own. Their header begins on a page: {prev_size, size | IS_MMAPPED}, and
 * prev_size + size are whole pages; from 2.43 on (prev_size without its lowest bit) + size + 16 are. A
 * chunk from memalign has its header further in, at an alignment, with the distance as its prev_size, and leaves
 * the first header stale (malloc/malloc.c, sysmalloc_mmap, _int_memalign).
 */
#include <inttypes.h>
#include <string.h>

#include "alloc/glibc/internal.h"

struct mmapped {
	uint64_t start, chunk, end;
};

/* Whether a header at `chunk`, `offset` bytes into its mapping, describes a chunk that ends in bounds. */
static bool read_header(struct source *source, uint64_t start, uint64_t offset, uint64_t limit, struct mmapped *ret)
{
	uint64_t words[2], prev, size, total;

	if (!source_read(source, start + offset, words, sizeof(words)))
		return false;
	if ((words[1] & SIZE_BITS) != IS_MMAPPED)
		return false;
	prev = words[0] & ~UINT64_C(1);
	size = words[1] & ~SIZE_BITS;
	if (prev != offset || size < PAGE / 2 || size > limit - start)
		return false;
	total = prev + size;
	if (total % PAGE)
		total += CHUNK_HEADER;
	else if (words[0] & 1)
		return false;
	if (total % PAGE || total > limit - start)
		return false;
	*ret = (struct mmapped){ start, start + offset, start + total };
	return true;
}

/* A stale header at the start may hide the true one, at an alignment between 32 and 1 GiB. */
static void find_aligned(struct source *source, struct mmapped *chunk)
{
	for (unsigned bit = 5; bit < 30; bit++)
		for (unsigned k = 1; k <= 2; k++) {
			uint64_t align = UINT64_C(1) << bit;
			uint64_t data = (chunk->start + CHUNK_HEADER + align - 1) / align * align + (k - 1) * align;
			struct mmapped aligned;

			if (data - CHUNK_HEADER <= chunk->start || data + CHUNK_HEADER > chunk->end)
				continue;
			if (read_header(source, chunk->start, data - CHUNK_HEADER - chunk->start, chunk->end, &aligned) &&
			    aligned.end == chunk->end) {
				*chunk = aligned;
				return;
			}
		}
}

static void carve_mmapped(struct target *target, struct glibc *glibc, const struct mmapped *chunk)
{
	struct ledger *ledger = target->ledger;

	ledger_carve_begin(ledger, chunk->start, chunk->end);
	if (chunk->chunk > chunk->start)
		ledger_carve_add(ledger, chunk->start,
				 ledger_category(ledger, &(struct category){ .domain = "glibc", .kind = "chunk header",
									     .detail = "before an aligned chunk",
									     .state = FH_OVERHEAD }));
	ledger_carve_add(ledger, chunk->chunk, chunks_live_category(glibc, chunk->end - chunk->chunk));
	ledger_carve_end(ledger);
}

/* Mappings that touch are one to the kernel: after a chunk the next may follow, and other memory may lie
 * between. Only memory that nobody claimed is looked at, a page at a time. */
static void carve_block(struct target *target, struct glibc *glibc, uint64_t start, uint64_t end, uint64_t found[2])
{
	uint64_t at = (start + PAGE - 1) / PAGE * PAGE;

	while (at + PAGE <= end) {
		struct mmapped chunk;
		size_t span;

		if (!memory_span(&target->source->memory, at, &span) && span == 0)
			return;
		if (!read_header(target->source, at, 0, end, &chunk)) {
			at += PAGE;
			continue;
		}
		find_aligned(target->source, &chunk);
		carve_mmapped(target, glibc, &chunk);
		found[0]++;
		found[1] += chunk.end - chunk.start;
		at = chunk.end;
	}
}

/* What mp_ counts must be what was found: more of ours would be false ones. */
static void cross_check(struct target *target, const glibc_list *list, const uint64_t found[2])
{
	uint64_t count = 0, bytes = 0;

	for (size_t i = 0; i < list->len; i++) {
		const struct glibc *glibc = list->items[i];
		uint32_t n;
		uint64_t size;

		if (!glibc->mp || !source_u32(target->source, glibc->mp + glibc->mp_layout->n_mmaps, &n) ||
		    !source_u64(target->source, glibc->mp + glibc->mp_layout->mmapped_mem, &size))
			return;
		count += n;
		bytes += size;
	}
	if (found[0] > count || found[1] > bytes)
		source_warn(target->source,
			    "malloc: %" PRIu64 " mmapped chunks of %" PRIu64 " bytes were found, malloc counts %" PRIu64
			    " of %" PRIu64, found[0], found[1], count, bytes);
}

static bool may_hold_chunks(const struct target *target, const struct block *block)
{
	const struct mapping *m = source_mapping_at(target->source, block->start);

	return block->category == 0 && m && !m->inode && !(m->flags & MAPPING_SHARED) && m->flags & MAPPING_WRITE;
}

struct fh_error *mmapped_carve(struct target *target, const glibc_list *list)
{
	struct ledger_cursor cursor = { 0 };
	struct block block;
	uint64_t found[2] = { 0, 0 };
	uint64_t start = 0, end = 0;
	bool more = true;

	if (!list->len)
		return NULL;
	while (more) { /* unclaimed blocks that touch are taken together */
		more = ledger_next(target->ledger, &cursor, &block);
		if (more && block.start == end && may_hold_chunks(target, &block)) {
			end = block.end;
			continue;
		}
		if (end > start)
			carve_block(target, list->items[0], start, end, found);
		start = end = 0;
		if (more && may_hold_chunks(target, &block)) {
			start = block.start;
			end = block.end;
		}
	}
	cross_check(target, list, found);
	return ledger_commit(target->ledger);
}
