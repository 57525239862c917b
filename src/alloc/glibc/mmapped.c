/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks that are mappings of their own. Their header begins on a page: {prev_size, size | IS_MMAPPED}, and
 * prev_size + size are whole pages; from 2.43 on (prev_size without its lowest bit, which tells of huge pages) +
 * size + 16 are. A chunk from memalign has its header further in, at an alignment, with the distance as its
 * prev_size, and leaves the first header stale (malloc/malloc.c: sysmalloc_mmap, _int_memalign, mremap_chunk).
 * Mappings that touch are one to the kernel, so that a chunk can begin at any page of unclaimed memory. What looks
 * like one and is not is told by mp_, which counts them.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/glibc/internal.h"
#include "alloc/glibc/scan.h"

struct mmapped {
	uint64_t start, chunk, end;
	bool strong; /* borders on a mapping's, or on another's */
	bool taken;
};

struct mmapped_search {
	struct target *target;
	struct scan scan;
	uint32_t pages_left; /* that may be looked at for headers that moved */
	VEC(struct mmapped) found;
};

struct counted {
	uint64_t count, bytes;
};

/* Whether a header `offset` bytes into a mapping that starts at `start` describes a chunk that ends in bounds. */
static bool read_header(struct source *source, uint64_t start, uint64_t offset, uint64_t limit, struct mmapped *ret)
{
	uint64_t words[2], prev, size, total;

	if (!source_read(source, start + offset, words, sizeof(words)) || (words[1] & SIZE_BITS) != IS_MMAPPED)
		return false;
	prev = words[0] & ~UINT64_C(1);
	size = words[1] & ~SIZE_BITS;
	if (prev != offset || size % 16 || size < CHUNK_MIN || size > limit - start)
		return false;
	total = prev + size;
	if (total % PAGE)
		total += CHUNK_HEADER;
	if (total % PAGE || total > limit - start)
		return false;
	ret->start = start;
	ret->chunk = start + offset;
	ret->end = start + total;
	return true;
}

/* Whether a mapping's first words are a header of its chunk, or one that went stale. */
static bool may_begin(struct source *source, uint64_t start)
{
	uint64_t words[2];

	return source_read(source, start, words, sizeof(words)) && words[0] <= 1 &&
	       (words[1] & SIZE_BITS) == IS_MMAPPED && words[1] >= PAGE - CHUNK_HEADER && words[1] < UINT64_C(1) << 47;
}

#define MOST_PAGES (1u << 16) /* in all: every page of a mapping can look as if a chunk began there */
#define MOST_MOVED_PAGES 4096u /* before one chunk: alignments up to 16 MiB */

/* A chunk of an alignment above a page that mremap moved keeps its distance from the start, which no alignment tells
 * any more: the header still ends a page. What was moved is a mapping of its own, as the kernel joins it to none. */
static bool find_moved(struct mmapped_search *search, const struct mapping *m, uint64_t limit, struct mmapped *ret)
{
	uint64_t offset = PAGE - CHUNK_HEADER;

	for (uint32_t n = 0; n < MOST_MOVED_PAGES && search->pages_left && m->start + offset + CHUNK_HEADER < m->end;
	     n++, search->pages_left--, offset += PAGE)
		if (read_header(search->target->source, m->start, offset, limit, ret) && ret->end == m->end)
			return true;
	return false;
}

/* Whether a chunk ends as the only one of a mapping does, or where another may begin. One that goes on into the next
 * mapping, or stops in the middle of nowhere, has a header that realloc left stale. */
static bool ends_well(struct source *source, const struct mmapped *chunk, uint64_t mapping_end)
{
	return chunk->end == mapping_end || (chunk->end < mapping_end && may_begin(source, chunk->end));
}

/* The chunk of the mapping that starts at an address. A stale header there hides the true one, at an alignment
 * from 32 bytes up; after a realloc its size says nothing. */
static bool find_chunk(struct mmapped_search *search, uint64_t start, uint64_t limit, struct mmapped *ret)
{
	struct source *source = search->target->source;
	struct mmapped moved = { 0 };
	const struct mapping *m;
	bool plain;

	if (!may_begin(source, start))
		return false;
	for (unsigned bit = 5; bit < 47 && UINT64_C(1) << bit < limit; bit++)
		for (unsigned k = 0; k < 2; k++) {
			uint64_t align = UINT64_C(1) << bit;
			uint64_t data = (start + CHUNK_HEADER + align - 1) / align * align + k * align;

			if (data - CHUNK_HEADER > start && data < limit &&
			    read_header(source, start, data - CHUNK_HEADER - start, limit, ret))
				return true;
		}
	plain = read_header(source, start, 0, limit, ret);
	m = source_mapping_at(source, start);
	if (!m || m->start != start || m->end > limit || (plain && ends_well(source, ret, m->end)) ||
	    !find_moved(search, m, limit, &moved))
		return plain;
	*ret = moved;
	return true;
}

/* Looks through [start, end), which nobody claimed, a page at a time. */
static bool search_range(struct mmapped_search *search, uint64_t start, uint64_t end)
{
	struct source *source = search->target->source;
	uint64_t at = (start + PAGE - 1) / PAGE * PAGE, reached = at;

	while ((at = scan_page(&search->scan, at, end)) < end) {
		struct mmapped chunk = { 0 };
		const struct mapping *m;

		if (!find_chunk(search, at, end, &chunk)) {
			at += PAGE;
			continue;
		}
		m = source_mapping_at(source, at);
		chunk.strong = at == reached || chunk.end == end || chunk.chunk > at || (m && m->start == at);
		if (!vec_push(&search->found, chunk))
			return false;
		/* only what is certain may hide what is inside of it */
		at = chunk.strong ? chunk.end : at + PAGE;
		if (chunk.strong)
			reached = chunk.end;
	}
	return true;
}

/* What the loader has was found by mappings, and malloc's may have been joined to one. */
static bool is_unclaimed(const struct target *target, const struct block *block)
{
	const struct category *c = ledger_category_of(target->ledger, block->category);

	return (ledger_is_dark(target->ledger, block->category) || strcmp(c->kind, "loader data") == 0) &&
	       scan_may_hold_chunks(source_mapping_at(target->source, block->start));
}

/* All unclaimed memory; blocks that touch are taken together. */
static struct fh_error *search_all(struct mmapped_search *search)
{
	struct ledger_cursor cursor = { 0 };
	struct block block;
	uint64_t start = 0, end = 0;
	bool more = true;

	while (more) {
		bool wanted;

		more = ledger_next(search->target->ledger, &cursor, &block);
		wanted = more && is_unclaimed(search->target, &block);
		if (wanted && block.start == end) {
			end = block.end;
			continue;
		}
		if (end > start && !search_range(search, start, end))
			return error_no_memory();
		start = wanted ? block.start : 0;
		end = wanted ? block.end : 0;
	}
	return NULL;
}

/* ---- which to believe ------------------------------------------------------------------ */

static uint64_t bytes_of(const struct mmapped *chunk)
{
	return chunk->end - chunk->start;
}

#define MOST_WEIGHED 4096 /* candidates side by side that are compared; more are no accident */

/* Whether one overlaps none that was taken. They are in order, those taken disjoint. */
static bool has_room(const struct mmapped_search *search, size_t i)
{
	const struct mmapped *items = search->found.items;
	size_t k = i;

	while (k > 0 && !items[k - 1].taken && i - k < MOST_WEIGHED)
		k--;
	if (k > 0 && (!items[k - 1].taken || items[k - 1].end > items[i].start))
		return false;
	for (k = i + 1; k < search->found.len && !items[k].taken; k++)
		if (items[k].start >= items[i].end || k - i > MOST_WEIGHED)
			return true;
	return k == search->found.len || items[k].start >= items[i].end;
}

static bool take(struct mmapped_search *search, size_t i, struct counted *taken)
{
	struct mmapped *chunk = &search->found.items[i];

	if (chunk->taken || !has_room(search, i))
		return false;
	chunk->taken = true;
	taken->count++;
	taken->bytes += bytes_of(chunk);
	return true;
}

static void leave(struct mmapped_search *search, size_t i, struct counted *taken)
{
	struct mmapped *chunk = &search->found.items[i];

	chunk->taken = false;
	taken->count--;
	taken->bytes -= bytes_of(chunk);
}

/* The number is right, the sum is not: if one that was left makes it right in place of one that was taken, they
 * change places. */
static void exchange(struct mmapped_search *search, struct counted *taken, uint64_t bytes)
{
	const struct mmapped *items = search->found.items;

	for (size_t i = 0; i < search->found.len; i++) {
		if (!items[i].taken || items[i].strong)
			continue;
		leave(search, i, taken);
		for (size_t k = 0; k < search->found.len; k++)
			if (k != i && !items[k].taken && taken->bytes + bytes_of(&items[k]) == bytes &&
			    take(search, k, taken))
				return;
		take(search, i, taken);
	}
}

static int compare_largest(const void *a, const void *b)
{
	const struct mmapped *const *x = a, *const *y = b;

	if (bytes_of(*x) != bytes_of(*y))
		return bytes_of(*x) > bytes_of(*y) ? -1 : 1;
	return *x < *y ? -1 : *x > *y;
}

/* Of those that border on nothing, as many as malloc counts, the largest first: a header by chance is more
 * likely one of a small chunk. */
static struct fh_error *take_weak(struct mmapped_search *search, uint64_t count, struct counted *taken)
{
	VEC(const struct mmapped *) weak = { 0 };
	bool memory = true;

	for (size_t i = 0; i < search->found.len && memory; i++)
		memory = search->found.items[i].strong || vec_push(&weak, &search->found.items[i]);
	if (weak.len)
		qsort(weak.items, weak.len, sizeof(*weak.items), compare_largest);
	for (size_t i = 0; i < weak.len && taken->count < count; i++)
		take(search, (size_t)(weak.items[i] - search->found.items), taken);
	vec_free(&weak);
	return memory ? NULL : error_no_memory();
}

/* Takes what mp_ counts. 2.43 adds 16 bytes too many to mmapped_mem at each mremap. */
static struct fh_error *choose(struct mmapped_search *search, const glibc_list *list)
{
	struct counted taken = { 0, 0 }, all = { 0, 0 };
	uint64_t count, bytes;
	bool known = true;

	for (size_t i = 0; i < list->len; i++, all.count += count, all.bytes += bytes) {
		count = bytes = 0;
		known = known && params_mmapped(list->items[i], &count, &bytes);
	}
	for (size_t i = 0; i < search->found.len; i++)
		if (search->found.items[i].strong)
			take(search, i, &taken);
	if (!known)
		return NULL;
	TRY(take_weak(search, all.count, &taken));
	if (taken.count == all.count && taken.bytes != all.bytes && search->found.len <= MOST_WEIGHED)
		exchange(search, &taken, all.bytes);
	if (taken.count != all.count || (taken.bytes != all.bytes && (all.bytes - taken.bytes) % PAGE == 0))
		source_warn(search->target->source,
			    "malloc: found %" PRIu64 " chunks that are mappings, of %" PRIu64 " bytes; malloc counts "
			    "%" PRIu64 " of %" PRIu64, taken.count, taken.bytes, all.count, all.bytes);
	return NULL;
}

static void carve(struct glibc *glibc, const struct mmapped *chunk)
{
	struct ledger *ledger = glibc->target->ledger;
	uint64_t size = chunk->end - chunk->chunk;
	enum mark_kind kind = marks_get(glibc->marks, chunk->chunk);

	ledger_carve_begin(ledger, chunk->start, chunk->end);
	if (chunk->chunk > chunk->start)
		ledger_carve_add(ledger, chunk->start, glibc->alignment);
	ledger_carve_add(ledger, chunk->chunk, kind == MARK_TCACHE ? categories_free(glibc, kind, size) :
								     categories_live(glibc, size));
	ledger_carve_end(ledger);
}

struct fh_error *mmapped_carve(struct target *target, const glibc_list *list)
{
	struct mmapped_search search = { .target = target, .scan = { .memory = &target->source->memory },
					 .pages_left = MOST_PAGES };
	struct fh_error *error = list->len ? search_all(&search) : NULL;

	if (!error && list->len)
		error = choose(&search, list);
	for (size_t i = 0; i < search.found.len && !error; i++)
		if (search.found.items[i].taken)
			carve(list->items[0], &search.found.items[i]);
	vec_free(&search.found);
	return error ? error : ledger_commit(target->ledger);
}
