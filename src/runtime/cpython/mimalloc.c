/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPython's own copy of mimalloc (Objects/mimalloc, 3.13 and later): used by free-threaded builds, and with
 * PYTHONMALLOC=mimalloc. Memory comes in segments that begin at multiples of 32 MiB. A segment is divided into
 * slices of 64 KiB; runs of slices are spans, of which the first ones hold the segment's own header, and the others
 * are free or pages of blocks of one size. A segment's cookie is its address xored with a key of the process, so
 * segments know each other.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpython/internal.h"

#define SEGMENT_ALIGN (UINT64_C(32) << 20)
#define SLICE (UINT64_C(64) << 10)
#define MOST_SLICES (SEGMENT_ALIGN / SLICE)
#define MOST_CANDIDATES (1u << 20)
#define MOST_BLOCKS 65536u /* capacity has 16 bits */
#define MOST_HEADER 128u   /* of a page's description; 80 to 112 */

/* Offsets in mi_segment_t and mi_page_t. */
struct mi_layout {
	int cookie, segment_slices, info_slices, slice_entries, slices, segment_sizeof;
	int slice_count, slice_offset, capacity, reserved, free, local_free, thread_free, block_size, page_start;
	uint32_t page_sizeof, block_size_bytes;
};

struct segment {
	uint64_t address, key; /* key: cookie ^ address */
	uint64_t slices, info_slices;
};

struct mimalloc {
	struct cpython *py;
	struct ledger *ledger;
	struct mi_layout l;
	VEC(struct segment) segments;
	category_id header, start, tail, span, damaged, unused;
	uint32_t n_damaged;
	uint64_t first_damaged;
	bool no_memory;
	uint8_t marks[MOST_BLOCKS]; /* 1: the block is free */
};

/* ---- finding --------------------------------------------------------------------- */

static uint64_t number(const uint8_t *bytes, int offset, uint32_t size)
{
	uint64_t value = 0;

	memcpy(&value, bytes + offset, size);
	return value;
}

static bool load_layout(struct mimalloc *mi)
{
	const struct layout *l = &mi->py->layout;
	const char *size = layout_field(l, "mi_page_t", "xblock_size") ? "xblock_size" : "block_size";

	mi->l = (struct mi_layout){
		.cookie = layout_offset(l, "mi_segment_t", "cookie"),
		.segment_slices = layout_offset(l, "mi_segment_t", "segment_slices"),
		.info_slices = layout_offset(l, "mi_segment_t", "segment_info_slices"),
		.slice_entries = layout_offset(l, "mi_segment_t", "slice_entries"),
		.slices = layout_offset(l, "mi_segment_t", "slices"),
		.segment_sizeof = (int)layout_size(l, "mi_segment_t"),
		.slice_count = layout_offset(l, "mi_page_t", "slice_count"),
		.slice_offset = layout_offset(l, "mi_page_t", "slice_offset"),
		.capacity = layout_offset(l, "mi_page_t", "capacity"),
		.reserved = layout_offset(l, "mi_page_t", "reserved"),
		.free = layout_offset(l, "mi_page_t", "free"),
		.local_free = layout_offset(l, "mi_page_t", "local_free"),
		.thread_free = layout_offset(l, "mi_page_t", "xthread_free"),
		.block_size = layout_offset(l, "mi_page_t", size),
		.page_start = layout_offset(l, "mi_page_t", "page_start"),
		.page_sizeof = layout_size(l, "mi_page_t"),
		.block_size_bytes = strcmp(size, "xblock_size") == 0 ? 4 : 8,
	};
	return mi->l.cookie >= 0 && mi->l.slices > 0 && mi->l.block_size >= 0 && mi->l.thread_free >= 0 &&
	       mi->l.page_sizeof && mi->l.page_sizeof <= MOST_HEADER;
}

static bool read_segment(struct mimalloc *mi, const struct mapping *m, uint64_t address, struct segment *ret)
{
	struct source *source = mi->py->target->source;
	uint64_t cookie, entries, own = (uint64_t)mi->l.segment_sizeof;

	if (!source_u64(source, address + (uint64_t)mi->l.cookie, &cookie) || !cookie ||
	    !source_u64(source, address + (uint64_t)mi->l.segment_slices, &ret->slices) ||
	    !source_u64(source, address + (uint64_t)mi->l.info_slices, &ret->info_slices) ||
	    !source_u64(source, address + (uint64_t)mi->l.slice_entries, &entries))
		return false;
	ret->address = address;
	ret->key = cookie ^ address;
	/* The header is as long as the struct, and rounded up to slices. */
	return ret->info_slices >= (own + SLICE - 1) / SLICE - 1 && ret->info_slices <= own / SLICE + 2 &&
	       ret->slices > ret->info_slices && ret->slices <= (m->end - address) / SLICE && entries &&
	       entries <= MOST_SLICES && entries <= ret->slices;
}

/* Segments are mappings, so they lie in memory that nobody else divided: not in brk's, which can cross a multiple of
 * 32 MiB too, nor in what malloc mapped. */
static bool is_unclaimed(struct mimalloc *mi, uint64_t address)
{
	struct block block;

	return ledger_find(mi->ledger, address, &block) && ledger_is_dark(mi->ledger, block.category);
}

static void search_mapping(struct mimalloc *mi, const struct mapping *m)
{
	uint64_t at = (m->start + SEGMENT_ALIGN - 1) & ~(SEGMENT_ALIGN - 1);
	struct segment segment;

	for (uint32_t i = 0; at < m->end && i < MOST_CANDIDATES; i++) {
		if (is_unclaimed(mi, at) && read_segment(mi, m, at, &segment)) {
			if (!vec_push(&mi->segments, segment))
				mi->no_memory = true;
			at += (segment.slices * SLICE + SEGMENT_ALIGN - 1) & ~(SEGMENT_ALIGN - 1);
		} else {
			at += SEGMENT_ALIGN;
		}
	}
}

static int compare_keys(const void *a, const void *b)
{
	const struct segment *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->address < y->address ? -1 : x->address > y->address;
}

/* What most agree on is the key of the process; what has another one is no segment. One alone has to do. They are
 * ascending then. */
static void keep_majority(struct mimalloc *mi)
{
	size_t best = 0, length = 0;

	qsort(mi->segments.items, mi->segments.len, sizeof(*mi->segments.items), compare_keys);
	for (size_t i = 0, k; i < mi->segments.len; i = k) {
		for (k = i; k < mi->segments.len && mi->segments.items[k].key == mi->segments.items[i].key; k++)
			;
		if (k - i > length) {
			best = i;
			length = k - i;
		}
	}
	memmove(mi->segments.items, mi->segments.items + best, length * sizeof(*mi->segments.items));
	mi->segments.len = length;
}

static void find_segments(struct mimalloc *mi)
{
	const struct source *source = mi->py->target->source;

	for (size_t i = 0; i < source->mappings.len; i++) {
		const struct mapping *m = &source->mappings.items[i];

		if (!m->inode && m->flags & MAPPING_WRITE && !(m->flags & MAPPING_SHARED))
			search_mapping(mi, m);
	}
	if (mi->segments.len)
		keep_majority(mi);
}

/* ---- carving ----------------------------------------------------------------------- */

struct page {
	uint64_t start, end;   /* of its span */
	uint64_t blocks, size; /* first block; bytes of one */
	uint32_t capacity, reserved; /* blocks given out so far; blocks that fit */
	uint64_t lists[3];
};

/* Up to 3.13 where a page's blocks begin is computed (Objects/mimalloc/segment.c,
 * _mi_segment_page_start_from_slice). */
static uint64_t start_offset(uint64_t size)
{
	return size < 8 ? 0 : size <= 64 ? 3 * size : size <= 512 ? size : 0;
}

static bool read_page(const struct mimalloc *mi, const uint8_t *bytes, uint64_t start, uint64_t end, struct page *ret)
{
	const struct mi_layout *l = &mi->l;

	*ret = (struct page){
		.start = start, .end = end,
		.size = number(bytes, l->block_size, l->block_size_bytes),
		.capacity = (uint32_t)number(bytes, l->capacity, 2),
		.reserved = (uint32_t)number(bytes, l->reserved, 2),
		.lists = { number(bytes, l->free, 8), number(bytes, l->local_free, 8),
			   number(bytes, l->thread_free, 8) & ~UINT64_C(3) },
	};
	ret->blocks = l->page_start >= 0 ? number(bytes, l->page_start, 8) : start + start_offset(ret->size);
	if (ret->reserved == 1 && ret->blocks >= start && ret->blocks < end && ret->size > end - ret->blocks)
		ret->size = end - ret->blocks; /* up to 3.13 a huge one only says that it is */
	return ret->blocks >= start && ret->blocks < end && ret->size >= 8 && ret->capacity <= ret->reserved &&
	       ret->reserved && ret->size <= (end - ret->blocks) / ret->reserved;
}

static void note_damage(struct mimalloc *mi, uint64_t address)
{
	if (mi->n_damaged++ == 0)
		mi->first_damaged = address;
}

static void mark_list(struct mimalloc *mi, const struct page *page, uint64_t at)
{
	while (at) {
		uint64_t distance = at - page->blocks, i = distance / page->size;

		/* A block handed out aligned is freed by its inner address. */
		if (at < page->blocks || i >= page->capacity || distance % page->size || mi->marks[i] ||
		    !source_u64(mi->py->target->source, at, &at)) {
			note_damage(mi, page->start);
			return;
		}
		mi->marks[i] = 1;
	}
}

static void carve_page(struct mimalloc *mi, const struct page *page)
{
	const char *size = strings_format(mi->ledger->strings, "%" PRIu64 " bytes", page->size);
	category_id live, free;
	uint64_t at = page->blocks;

	if (!size) {
		mi->no_memory = true;
		return;
	}
	live = ledger_category(mi->ledger, &(struct category){ .domain = "uncategorized", .kind = size,
							       .state = FH_LIVE, .unknown = true });
	free = ledger_category(mi->ledger, &(struct category){ .domain = "mimalloc", .kind = "free block",
							       .detail = size, .state = FH_FREE });
	memset(mi->marks, 0, page->capacity);
	for (int i = 0; i < 3; i++)
		mark_list(mi, page, page->lists[i]);
	if (page->blocks > page->start)
		ledger_carve_add(mi->ledger, page->start, mi->start);
	for (uint32_t i = 0; i < page->capacity; i++, at += page->size)
		ledger_carve_add(mi->ledger, at, mi->marks[i] ? free : live);
	for (uint32_t i = page->capacity; i < page->reserved; i++, at += page->size)
		ledger_carve_add(mi->ledger, at, free);
	if (at < page->end)
		ledger_carve_add(mi->ledger, at, mi->tail);
}

/* One span, from a slice on; how many slices it has. */
static uint64_t carve_span(struct mimalloc *mi, const struct segment *segment, uint64_t slice)
{
	uint64_t start = segment->address + slice * SLICE, rest = segment->slices - slice, count;
	uint8_t scratch[MOST_HEADER];
	const uint8_t *bytes = slice >= MOST_SLICES ? NULL :
		source_get(mi->py->target->source, segment->address + (uint64_t)mi->l.slices + slice * mi->l.page_sizeof,
			   mi->l.page_sizeof, scratch);
	struct page page;

	count = bytes ? number(bytes, mi->l.slice_count, 4) : 0;
	if (count == 0 || count > rest || number(bytes, mi->l.slice_offset, 4)) {
		note_damage(mi, start);
		ledger_carve_add(mi->ledger, start, mi->damaged);
		return rest;
	}
	if (number(bytes, mi->l.block_size, mi->l.block_size_bytes) <= 1) {
		ledger_carve_add(mi->ledger, start, mi->span);
	} else if (read_page(mi, bytes, start, start + count * SLICE, &page)) {
		carve_page(mi, &page);
	} else {
		note_damage(mi, start);
		ledger_carve_add(mi->ledger, start, mi->damaged);
	}
	return count;
}

static void carve_segment(struct mimalloc *mi, const struct segment *segment)
{
	ledger_carve_begin(mi->ledger, segment->address, segment->address + segment->slices * SLICE);
	ledger_carve_add(mi->ledger, segment->address, mi->header);
	for (uint64_t slice = segment->info_slices; slice < segment->slices;)
		slice += carve_span(mi, segment, slice);
	ledger_carve_end(mi->ledger);
}

/* A mapping of several segments is what mimalloc calls an arena: what has no segment yet is its, too. `i`: the first
 * segment that may lie in it; returns that for the next mapping. */
static size_t carve_arena(struct mimalloc *mi, const struct mapping *m, size_t i)
{
	uint64_t reached = m->start;
	bool arena = m->start % SEGMENT_ALIGN == 0 && (m->end - m->start) % SEGMENT_ALIGN == 0;

	for (; i < mi->segments.len && mi->segments.items[i].address < m->end; i++) {
		const struct segment *s = &mi->segments.items[i];

		if (arena && s->address > reached)
			ledger_carve(mi->ledger, reached, s->address, mi->unused);
		reached = s->address + s->slices * SLICE;
	}
	if (arena && reached > m->start && reached < m->end)
		ledger_carve(mi->ledger, reached, m->end, mi->unused);
	return i;
}

static category_id category(struct mimalloc *mi, const char *kind, enum fh_state state)
{
	return ledger_category(mi->ledger, &(struct category){ .domain = "mimalloc", .kind = kind, .state = state });
}

struct fh_error *mimalloc_carve(struct cpython *py)
{
	struct mimalloc *mi = calloc(1, sizeof(*mi));
	bool no_memory;

	if (!mi)
		return error_no_memory();
	mi->py = py;
	mi->ledger = py->target->ledger;
	if (load_layout(mi))
		find_segments(mi);
	mi->header = category(mi, "segment header", FH_OVERHEAD);
	mi->start = category(mi, "page start", FH_OVERHEAD);
	mi->tail = category(mi, "page tail", FH_OVERHEAD);
	mi->span = category(mi, "free span", FH_FREE);
	mi->unused = category(mi, "unused arena space", FH_FREE);
	mi->damaged = category(mi, "damaged page", FH_LIVE);
	for (size_t i = 0; i < mi->segments.len; i++)
		carve_segment(mi, &mi->segments.items[i]);
	for (size_t i = 0, next = 0; next < mi->segments.len && i < py->target->source->mappings.len; i++)
		next = carve_arena(mi, &py->target->source->mappings.items[i], next);
	if (mi->n_damaged)
		target_damaged(py->target, "mimalloc: %" PRIu32 " pages or lists of free blocks are not sound, the first "
			       "at 0x%" PRIx64, mi->n_damaged, mi->first_damaged);
	no_memory = mi->no_memory;
	vec_free(&mi->segments);
	free(mi);
	return no_memory ? error_no_memory() : NULL;
}
