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
	bool edge;
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
	*ret = (struct mmapped){ start, start + offset, start + total, false };
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

/* What was found, before it is believed. */
struct candidates {
	VEC(struct mmapped) v;
};

/* Mappings that touch are one to the kernel: after a chunk the next may follow, and other memory may lie
 * between. Only memory that nobody claimed is looked at, a page at a time. A header in the middle of other memory
 * may be by chance: `edge` says that the chunk begins or ends where something else does. */
static bool search_block(struct target *target, uint64_t start, uint64_t end, struct candidates *found)
{
	uint64_t at = (start + PAGE - 1) / PAGE * PAGE, before = at;

	while (at + PAGE <= end) {
		struct mmapped chunk;
		size_t span;

		if (!memory_span(&target->source->memory, at, &span) && span == 0)
			break;
		if (!read_header(target->source, at, 0, end, &chunk)) {
			at += PAGE;
			continue;
		}
		find_aligned(target->source, &chunk);
		chunk.edge = at == before || chunk.end == end || chunk.chunk > chunk.start;
		if (!vec_push(&found->v, chunk))
			return false;
		at = before = chunk.end;
	}
	return true;
}

/* What mp_ counts, of all libcs together; false when it isn't known. */
static bool counted(struct target *target, const glibc_list *list, uint64_t *ret_count, uint64_t *ret_bytes)
{
	*ret_count = *ret_bytes = 0;
	for (size_t i = 0; i < list->len; i++) {
		const struct glibc *glibc = list->items[i];
		uint32_t n;
		uint64_t size;

		if (!glibc->mp || !source_u32(target->source, glibc->mp + glibc->mp_layout->n_mmaps, &n) ||
		    !source_u64(target->source, glibc->mp + glibc->mp_layout->mmapped_mem, &size))
			return false;
		*ret_count += n;
		*ret_bytes += size;
	}
	return true;
}

/* More than malloc counts: those that begin in the middle of nowhere are dropped, the smallest first. */
static void drop_chance(struct candidates *found, uint64_t count)
{
	while (found->v.len > count) {
		size_t smallest = found->v.len;

		for (size_t i = 0; i < found->v.len; i++)
			if (!found->v.items[i].edge &&
			    (smallest == found->v.len || found->v.items[i].end - found->v.items[i].start <
							     found->v.items[smallest].end - found->v.items[smallest].start))
				smallest = i;
		if (smallest == found->v.len)
			return;
		memmove(&found->v.items[smallest], &found->v.items[smallest + 1],
			(found->v.len - smallest - 1) * sizeof(struct mmapped));
		found->v.len--;
	}
}

static void carve_found(struct target *target, const glibc_list *list, struct candidates *found)
{
	uint64_t count, bytes, sum = 0;
	bool known = counted(target, list, &count, &bytes);

	if (known)
		drop_chance(found, count);
	for (size_t i = 0; i < found->v.len; i++) {
		carve_mmapped(target, list->items[0], &found->v.items[i]);
		sum += found->v.items[i].end - found->v.items[i].start;
	}
	if (known && (found->v.len != count || sum != bytes))
		source_warn(target->source,
			    "malloc: %zu mmapped chunks of %" PRIu64 " bytes were found, malloc counts %" PRIu64 " of %" PRIu64,
			    found->v.len, sum, count, bytes);
}

static bool may_hold_chunks(const struct target *target, const struct block *block)
{
	const struct mapping *m = source_mapping_at(target->source, block->start);

	return ledger_is_dark(target->ledger, block->category) && m && !m->inode &&
	       !(m->flags & MAPPING_SHARED) && m->flags & MAPPING_WRITE;
}

struct fh_error *mmapped_carve(struct target *target, const glibc_list *list)
{
	struct ledger_cursor cursor = { 0 };
	struct block block;
	struct candidates found = { 0 };
	uint64_t start = 0, end = 0;
	bool more = true, memory = true;

	if (!list->len)
		return NULL;
	while (more && memory) { /* unclaimed blocks that touch are taken together */
		more = ledger_next(target->ledger, &cursor, &block);
		if (more && block.start == end && may_hold_chunks(target, &block)) {
			end = block.end;
			continue;
		}
		if (end > start)
			memory = search_block(target, start, end, &found);
		start = end = 0;
		if (more && may_hold_chunks(target, &block)) {
			start = block.start;
			end = block.end;
		}
	}
	if (memory)
		carve_found(target, list, &found);
	vec_free(&found.v);
	if (!memory)
		return error_no_memory();
	return ledger_commit(target->ledger);
}
