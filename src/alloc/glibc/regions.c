/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of each arena. The main one has what brk gave, from mp_.sbrk_base to the end of top; where brk
 * failed (or is not its own: a libc in another namespace), mappings of at least 1 MiB that nothing points at,
 * found by their chains of chunks. The others have heaps, aligned to the size that they can grow to; each begins
 * with a heap_info {ar_ptr, prev, size, ...} (malloc/arena.c).
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/glibc/internal.h"
#include "alloc/glibc/scan.h"

static bool add_heap(struct glibc *glibc, struct heap heap)
{
	return heap.start >= heap.end || vec_push(&glibc->heaps, heap);
}

static int compare_heaps(const void *a, const void *b)
{
	const struct heap *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* By address, without overlaps (which only damage can make). */
static void sort_heaps(struct glibc *glibc)
{
	size_t kept = 0;

	if (glibc->heaps.len)
		qsort(glibc->heaps.items, glibc->heaps.len, sizeof(struct heap), compare_heaps);
	for (size_t i = 0; i < glibc->heaps.len; i++) {
		struct heap heap = glibc->heaps.items[i];

		if (kept && glibc->heaps.items[kept - 1].end > heap.start)
			continue;
		glibc->heaps.items[kept++] = heap;
	}
	glibc->heaps.len = kept;
}

const struct heap *regions_heap_at(const struct glibc *glibc, uint64_t address)
{
	size_t i = vec_after(&glibc->heaps, .end, address);

	return i < glibc->heaps.len && glibc->heaps.items[i].start <= address ? &glibc->heaps.items[i] : NULL;
}

/* ---- aligned heaps --------------------------------------------------------------------- */

/* Four times the largest size that is mapped by itself, or four huge pages with the tunable
 * glibc.malloc.hugetlb (malloc/arena.c, HEAP_MAX_SIZE, heap_max_size). */
static const uint64_t heap_sizes[] = { UINT64_C(4) << 30, UINT64_C(64) << 20, UINT64_C(8) << 20 };
static const uint32_t info_sizes[] = { 48, 32 };

struct heap_shape {
	uint64_t most;
	uint32_t info;
};

static bool belongs_to(struct source *source, uint64_t heap, uint64_t state)
{
	uint64_t owner;

	return source_u64(source, heap, &owner) && owner == state;
}

static bool read_heap(struct glibc *glibc, const struct arena *arena, uint64_t address, const struct heap_shape *shape,
		      struct heap *ret, uint64_t *ret_prev)
{
	struct source *source = glibc->target->source;
	uint64_t info[3];

	if (!source_read(source, address, info, sizeof(info)) || info[0] != arena->state)
		return false;
	*ret = (struct heap){ .start = address, .end = address + info[2], .first_chunk = address + shape->info,
			      .reserved_end = address + shape->most, .arena = arena->figures.number };
	if (address + shape->info == arena->state)
		ret->first_chunk = (arena->bins + STATE_END + 15) / 16 * 16;
	*ret_prev = info[1];
	if (info[2] % PAGE == 0 && info[2] >= PAGE && info[2] <= shape->most)
		return true;
	target_damaged(glibc->target, "malloc: the heap at 0x%" PRIx64 " has an impossible size, 0x%" PRIx64, address,
		       info[2]);
	ret->end = scan_reach(source, address);
	if (ret->end > ret->reserved_end)
		ret->end = ret->reserved_end;
	return ret->end > ret->first_chunk;
}

/* Whether [start, end) can be one heap: memory that can be used, then address space in reserve. */
static bool is_one_heap(const struct source *source, uint64_t start, uint64_t end)
{
	bool reserve = false;

	while (start < end) {
		const struct mapping *m = source_mapping_at(source, start);

		if (!m || m->inode || m->flags & MAPPING_SHARED || (reserve && m->flags & MAPPING_WRITE))
			return false;
		reserve = !(m->flags & MAPPING_WRITE);
		start = m->end;
	}
	return true;
}

/* How well a shape goes with an arena: its struct is in place in its first heap, top is inside of a heap of it,
 * and the first heap has the room (a core may lack what was only reserved). */
static unsigned shape_fits(struct glibc *glibc, const struct arena *arena, const struct heap_shape *shape)
{
	struct source *source = glibc->target->source;
	uint64_t first = arena->state - shape->info, last = arena->top & ~(shape->most - 1), size;

	if (first % shape->most || !belongs_to(source, first, arena->state))
		return 0;
	if (!belongs_to(source, last, arena->state) || !source_u64(source, last + 16, &size) ||
	    arena->top - last >= size)
		return 1;
	return is_one_heap(source, first, first + shape->most) ? 3 : 2;
}

static bool find_shape(struct glibc *glibc, const struct arena *arena, struct heap_shape *ret)
{
	unsigned best = 0;

	for (unsigned i = 0; i < 3; i++)
		for (unsigned k = 0; k < 2; k++) {
			struct heap_shape shape = { heap_sizes[i], info_sizes[k] };
			unsigned fits = shape_fits(glibc, arena, &shape);

			if (fits > best || (fits == best && fits && shape.most == UINT64_C(64) << 20)) {
				best = fits;
				*ret = shape;
			}
		}
	return best;
}

/* By looking at every place where a heap of this arena could begin. */
static bool search_heaps(struct glibc *glibc, const struct arena *arena, const struct heap_shape *shape)
{
	const struct source *source = glibc->target->source;

	for (size_t i = 0; i < source->mappings.len; i++) {
		const struct mapping *m = &source->mappings.items[i];
		uint64_t at = (m->start + shape->most - 1) & ~(shape->most - 1), prev;
		struct heap heap;

		for (unsigned n = 0; scan_may_hold_chunks(m) && at >= m->start && at < m->end && n < MOST_ARENAS; n++) {
			if (read_heap(glibc, arena, at, shape, &heap, &prev) && !add_heap(glibc, heap))
				return false;
			at += shape->most;
		}
	}
	return true;
}

static bool add_heaps(struct glibc *glibc, const struct arena *arena)
{
	struct heap_shape shape;
	size_t before = glibc->heaps.len;
	uint64_t at, prev, seen = 0;
	struct heap heap;

	if (!find_shape(glibc, arena, &shape)) {
		target_damaged(glibc->target, "malloc: the arena at 0x%" PRIx64 " is not at the start of a heap",
			       arena->state);
		return true;
	}
	at = arena->top & ~(shape.most - 1);
	for (unsigned i = 0; i < MOST_ARENAS; i++, at = prev) {
		if (at == seen || !read_heap(glibc, arena, at, &shape, &heap, &prev))
			break;
		if ((i & (i - 1)) == 0)
			seen = at; /* Brent: a circle meets it again */
		if (!add_heap(glibc, heap))
			return false;
		if (!prev)
			return true;
	}
	target_damaged(glibc->target, "malloc: the heaps of the arena at 0x%" PRIx64 " are not linked as they should, "
		       "at 0x%" PRIx64, arena->state, at);
	glibc->heaps.len = before;
	return glibc->complaints.heaps++ >= MOST_COMPLAINTS || search_heaps(glibc, arena, &shape);
}

/* ---- the main arena ----------------------------------------------------------------------- */

struct area_search {
	struct glibc *glibc;
	const struct arena *arena;
	uint64_t budget; /* steps left, so that hostile memory can't make it quadratic */
	VEC(struct heap) found;
};

#define CONVINCING 64 /* chunks in a row */

/* Two headers of 16 bytes close a region; a third comes before them where top had 48 bytes left. Behind them is
 * the end of a page, else 0. */
static uint64_t after_fenceposts(struct source *source, uint64_t at)
{
	uint64_t word;
	unsigned n = 0;

	for (; n < 3 && source_u64(source, at + 8, &word) && (word & ~SIZE_BITS) == 16; n++)
		at += 16;
	return n >= 2 && at % PAGE == 0 ? at : 0;
}

/* Where the chain of chunks that begins at a page ends: at top or at the fenceposts of a region that was left;
 * 0 when it is none. A long chain that breaks, below top, is the region of top with damage. */
static uint64_t area_end(struct area_search *search, uint64_t start, uint64_t reach)
{
	struct source *source = search->glibc->target->source;
	const struct arena *arena = search->arena;
	uint64_t at = start, word;
	unsigned n;

	for (n = 0; search->budget; n++, search->budget--) {
		if (at == arena->top)
			return arena->top_end <= reach ? arena->top_end : reach;
		if (!source_u64(source, at + 8, &word) || word & NON_MAIN_ARENA || (n == 0 && !(word & PREV_INUSE)))
			break;
		if ((word & ~SIZE_BITS) == 16)
			return n > 0 ? after_fenceposts(source, at) : 0;
		if (!chunk_is_sound(at, word, reach))
			break;
		at += word & ~SIZE_BITS;
	}
	if (n < CONVINCING || arena->top < at || arena->top >= reach)
		return 0;
	return arena->top_end && arena->top_end <= reach ? arena->top_end : reach;
}

/* Looks for regions of the main arena in all anonymous memory, at the pages where they can begin. */
static bool search_areas(struct area_search *search)
{
	const struct source *source = search->glibc->target->source;
	struct scan scan = { .memory = &source->memory };

	for (size_t i = 0; i < source->mappings.len; i++) {
		const struct mapping *m = &source->mappings.items[i];
		uint64_t at = m->start, reach, end;

		if (!scan_may_hold_chunks(m))
			continue;
		reach = scan_reach(source, m->start);
		while ((at = scan_page(&scan, at, m->end)) < m->end) {
			const struct heap *known = regions_heap_at(search->glibc, at);

			end = known ? known->end : area_end(search, at, reach);
			if (end > at && !known &&
			    !vec_push(&search->found, (struct heap){ .start = at, .first_chunk = at, .end = end }))
				return false;
			at = end > at ? (end + PAGE - 1) / PAGE * PAGE : at + PAGE;
		}
	}
	return true;
}

/* Where a contiguous arena ends: by its sum, or by the size of top; both agree unless one was overwritten. Then
 * the mapping, which ends there too if nobody else used brk, tells which. */
static uint64_t contiguous_end(const struct arena *arena, uint64_t base, uint64_t reach)
{
	uint64_t by_sum = base + arena->figures.system_bytes;

	if (arena->top_end > base && arena->top_end <= reach &&
	    (arena->top_end == reach || by_sum > reach || by_sum <= base))
		return arena->top_end;
	return by_sum > base && by_sum <= reach ? by_sum : reach;
}

/* What brk gave. One that had to take mappings may have left off before top, and where brk moved without malloc,
 * other memory lies between (chunks.c steps over it). */
static bool add_brk(struct glibc *glibc, const struct arena *arena)
{
	const struct source *source = glibc->target->source;
	uint64_t base = params_sbrk_base(glibc), reach;
	bool contiguous = !(arena->flags & NONCONTIGUOUS);
	const struct mapping *m;

	if (!base && contiguous && arena->top_end > arena->figures.system_bytes)
		base = arena->top_end - arena->figures.system_bytes;
	m = base ? source_mapping_at(source, base) : NULL;
	reach = m ? scan_reach(source, base) : 0;
	if (!reach || (!contiguous && strcmp(m->path, "[heap]") != 0))
		return true; /* what is mapped in brk's place is found by its chunks */
	return add_heap(glibc, (struct heap){ .start = base, .first_chunk = (base + 15) / 16 * 16,
					      .end = contiguous ? contiguous_end(arena, base, reach) : reach });
}

static bool add_main(struct glibc *glibc, const struct arena *arena)
{
	struct area_search search = { .glibc = glibc, .arena = arena };
	const struct source *source = glibc->target->source;
	bool good;

	if (!add_brk(glibc, arena))
		return false;
	sort_heaps(glibc);
	if (!arena->top || (!(arena->flags & NONCONTIGUOUS) && regions_heap_at(glibc, arena->top)))
		return true;
	for (size_t i = 0; i < source->mappings.len; i++)
		search.budget += (source->mappings.items[i].end - source->mappings.items[i].start) / CHUNK_MIN + 1;
	good = search_areas(&search);
	for (size_t i = 0; i < search.found.len; i++)
		good = good && add_heap(glibc, search.found.items[i]);
	vec_free(&search.found);
	sort_heaps(glibc);
	return good;
}

/* ---- all ------------------------------------------------------------------------------------- */

static bool read_arena(struct glibc *glibc, uint64_t state, struct arena *ret, uint64_t *ret_next)
{
	struct source *source = glibc->target->source;
	uint64_t bins = state + glibc->layout->bins, size;
	uint32_t mutex = 0;

	*ret = (struct arena){ .state = state, .bins = bins, .main = glibc->arenas.len == 0 };
	ret->figures = (struct alloc_arena){ .allocator = "glibc", .address = state,
					     .number = (uint32_t)glibc->arenas.len };
	if (!source_u64(source, bins + (uint64_t)(int64_t)STATE_TOP, &ret->top) ||
	    !source_u64(source, bins + STATE_SYSTEM_MEM, &ret->figures.system_bytes) ||
	    !source_u64(source, bins + STATE_NEXT, ret_next) ||
	    !source_u32(source, state + glibc->layout->flags, &ret->flags) || !source_u32(source, state, &mutex))
		return false;
	if (mutex)
		glibc->busy = true;
	if (ret->top == bins - 16 || ret->top % 16) /* initial_top: nothing was asked for yet */
		ret->top = 0;
	if (ret->top && source_u64(source, ret->top + 8, &size)) {
		size &= ~SIZE_BITS;
		if (size >= 16 && size % 16 == 0 && ret->top + size > ret->top)
			ret->top_end = ret->top + size;
	}
	return true;
}

struct fh_error *regions_find(struct glibc *glibc, uint64_t main_state)
{
	uint64_t state = main_state, seen = 0, next;

	do {
		struct arena arena;

		if (!read_arena(glibc, state, &arena, &next) || state == seen)
			break; /* find.c has reported it */
		if ((glibc->arenas.len & (glibc->arenas.len - 1)) == 0)
			seen = state; /* Brent: a ring that does not lead back to the main arena meets it again */
		if (!vec_push(&glibc->arenas, arena))
			return error_no_memory();
		if (!arena.main && !add_heaps(glibc, &arena))
			return error_no_memory();
		state = next;
	} while (state != main_state && glibc->arenas.len < MOST_ARENAS);
	sort_heaps(glibc);
	/* after the others, so that their memory is not taken for the main arena's */
	if (glibc->arenas.len && !add_main(glibc, &glibc->arenas.items[0]))
		return error_no_memory();
	return NULL;
}
