/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding malloc's arenas without symbols. An empty bin is a pair of words that both point 16 bytes before
 * themselves; 127 pairs in a row that are empty or agree with their chunks are the bins of a
 * malloc_state. Nothing else looks like that. Where the struct begins is told by the ring of arenas: only
 * the right start closes it.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/glibc/internal.h"

#define MOST_ARENAS 65536

void glibc_destroy(struct glibc *glibc)
{
	if (!glibc)
		return;
	for (size_t i = 0; i < glibc->arenas.len; i++)
		vec_free(&glibc->arenas.items[i].heaps);
	vec_free(&glibc->arenas);
	vec_free(&glibc->free_chunks);
	vec_free(&glibc->bins);
	vec_free(&glibc->tcaches);
	free(glibc);
}

/* ---- the bins of a main arena ----------------------------------------------- */

static bool pair_agrees(struct source *source, uint64_t at)
{
	uint64_t fd, bk, back, forth;

	if (!source_u64(source, at, &fd) || !source_u64(source, at + 8, &bk))
		return false;
	if (fd == at - 16 && bk == at - 16)
		return true;
	return source_u64(source, fd + 24, &back) && back == at - 16 && source_u64(source, bk + 16, &forth) &&
	       forth == at - 16;
}

/* The start of the 127 pairs around an empty one, or 0. */
static uint64_t bins_around(struct source *source, uint64_t at, uint64_t low, uint64_t high)
{
	uint64_t first = at, last = at + 16;

	while (first >= low + 16 && last - first < BINS * 16 && pair_agrees(source, first - 16))
		first -= 16;
	while (last + 16 <= high && last - first < BINS * 16 && pair_agrees(source, last))
		last += 16;
	return last - first == BINS * 16 ? first : 0;
}

static bool ring_closes(struct source *source, uint64_t state, const struct state_layout *layout)
{
	uint64_t at = state;

	for (unsigned i = 0; i < MOST_ARENAS; i++) {
		if (at % 8 || !source_u64(source, at + layout->bins + STATE_NEXT, &at))
			return false;
		if (at == state)
			return true;
	}
	return false;
}

static const struct state_layout *layout_of(struct source *source, uint64_t bins)
{
	for (size_t i = 0; i < n_state_layouts; i++)
		if (ring_closes(source, bins - state_layouts[i].bins, &state_layouts[i]))
			return &state_layouts[i];
	return NULL;
}

/* ---- mp_ ---------------------------------------------------------------------- */

/* {trim_threshold, top_pad, mmap_threshold, arena_test, arena_max ...}: top_pad is 128 KiB unless
 * mallopt changed it, n_mmaps_max 65536. */
static bool is_mp(struct source *source, uint64_t at, const struct mp_layout *layout)
{
	uint64_t top_pad, base;
	uint32_t n, most;

	return source_u64(source, at + 8, &top_pad) && top_pad == 131072 &&
	       source_u32(source, at + layout->n_mmaps_max, &most) && most == 65536 &&
	       source_u32(source, at + layout->n_mmaps, &n) && n <= 65536 &&
	       source_u64(source, at + layout->sbrk_base, &base) && base % 16 == 0 &&
	       (base == 0 || source_mapping_at(source, base));
}

static void find_mp(struct glibc *glibc, uint64_t start, uint64_t end)
{
	struct source *source = glibc->target->source;

	for (uint64_t at = start; at + 144 <= end; at += 8) {
		uint64_t top_pad;

		if (!source_u64(source, at + 8, &top_pad) || top_pad != 131072)
			continue;
		for (size_t i = 0; i < n_mp_layouts; i++)
			if (is_mp(source, at, &mp_layouts[i])) {
				glibc->mp = at;
				glibc->mp_layout = &mp_layouts[i];
				return;
			}
	}
}

/* ---- arenas and their heaps ----------------------------------------------------- */

/* The heap_info at the start of an aligned heap: {ar_ptr, prev, size, mprotect_size}. */
static bool read_heap(struct glibc *glibc, uint64_t address, uint64_t state, struct heap *ret, uint64_t *ret_prev)
{
	uint64_t info[4];

	if (!source_read(glibc->target->source, address, info, sizeof(info)) || info[0] != state)
		return false;
	if (info[2] > glibc->heap_max || info[2] < glibc->heap_info || info[2] % 16)
		return false;
	*ret = (struct heap){ .start = address, .end = address + info[2], .first_chunk = address + glibc->heap_info,
			      .reserved_end = address + glibc->heap_max };
	*ret_prev = info[1];
	return true;
}

/* Heaps are aligned to their largest size: 64 MiB, or four huge pages with glibc.malloc.hugetlb
 * (malloc/arena.c, HEAP_MAX_SIZE). An arena's struct follows the heap_info of its first heap. */
static bool find_heap_size(struct glibc *glibc, uint64_t state)
{
	static const uint64_t sizes[] = { UINT64_C(64) << 20, UINT64_C(8) << 20, UINT64_C(4) << 30 };
	static const uint32_t infos[] = { 48, 32 };

	for (size_t i = 0; i < 3 && !glibc->heap_info; i++)
		for (size_t k = 0; k < 2 && !glibc->heap_info; k++) {
			uint64_t heap = state & ~(sizes[i] - 1), owner;

			if (heap + infos[k] == state && source_u64(glibc->target->source, heap, &owner) && owner == state) {
				glibc->heap_max = sizes[i];
				glibc->heap_info = infos[k];
			}
		}
	return glibc->heap_info;
}

static bool add_heaps(struct glibc *glibc, struct arena *arena)
{
	uint64_t at, prev;
	struct heap heap;

	if (!find_heap_size(glibc, arena->state))
		return true;
	at = arena->top & ~(glibc->heap_max - 1);
	for (unsigned i = 0; i < MOST_ARENAS && at; i++, at = prev) {
		for (size_t k = 0; k < arena->heaps.len; k++)
			if (arena->heaps.items[k].start == at)
				return true; /* a ring of heaps: corrupt */
		if (!read_heap(glibc, at, arena->state, &heap, &prev)) {
			target_damaged(glibc->target, "malloc: the heap at 0x%llx of the arena at 0x%llx can't be read",
				       (unsigned long long)at, (unsigned long long)arena->state);
			return true;
		}
		if (arena->state == at + glibc->heap_info)
			heap.first_chunk = (arena->bins + STATE_END + 15) / 16 * 16;
		if (!vec_push(&arena->heaps, heap))
			return false;
	}
	return true;
}

static bool is_anonymous(const struct mapping *m)
{
	return m && !m->inode && !(m->flags & MAPPING_SHARED) && m->flags & MAPPING_WRITE;
}

/* The end of the mappings that follow each other from here without gap and are of one kind. */
static uint64_t joined_end(const struct source *source, uint64_t address)
{
	const struct mapping *m = source_mapping_at(source, address);
	uint64_t end = m->end;

	for (const struct mapping *next; (next = source_mapping_at(source, end)) && is_anonymous(next);)
		end = next->end;
	return end;
}

static bool add_region(struct arena *arena, uint64_t start, uint64_t first, uint64_t end)
{
	for (size_t i = 0; i < arena->heaps.len; i++)
		if (start < arena->heaps.items[i].end && end > arena->heaps.items[i].start)
			return true;
	return vec_push(&arena->heaps, (struct heap){ .start = start, .first_chunk = first, .end = end });
}

/* What the main arena got from brk: from mp_.sbrk_base or what top and system_mem say, to the end of top;
 * and the region that holds top, when sbrk failed and mappings took its place. */
static bool add_main_regions(struct glibc *glibc, struct arena *arena)
{
	struct source *source = glibc->target->source;
	uint64_t size = 0, end, start = 0;
	const struct mapping *m;

	if (!arena->top || !source_u64(source, arena->top + 8, &size))
		return true;
	end = arena->top + (size & ~SIZE_BITS);
	if (arena->top == arena->bins - 16 || end <= arena->top)
		return true; /* initial_top: nothing was asked for yet */
	if (glibc->mp)
		source_u64(source, glibc->mp + glibc->mp_layout->sbrk_base, &start);
	if (!start || !is_anonymous(source_mapping_at(source, start)) || start > arena->top)
		start = arena->system_mem <= end ? end - arena->system_mem : 0;
	m = source_mapping_at(source, start);
	if (is_anonymous(m)) {
		uint64_t reach = joined_end(source, start);

		if (!add_region(arena, start, (start + 15) / 16 * 16, end > start && end <= reach ? end : reach))
			return false;
	}
	m = source_mapping_at(source, arena->top);
	if (is_anonymous(m) && end <= joined_end(source, arena->top) &&
	    !add_region(arena, m->start, m->start, end))
		return false;
	return true;
}

/* Free chunks of the main arena that lie in no known region: an earlier mapping in brk's place. */
static bool add_stray_regions(struct glibc *glibc, struct arena *arena)
{
	struct source *source = glibc->target->source;

	for (unsigned i = 0; i < BINS; i++) {
		uint64_t chunk;
		const struct mapping *m;

		if (!source_u64(source, arena->bins + 16 * i, &chunk) || chunk == arena->bins + 16 * i - 16 ||
		    in_heaps(glibc, chunk))
			continue;
		m = source_mapping_at(source, chunk);
		if (is_anonymous(m) && !add_region(arena, m->start, m->start, m->end))
			return false;
	}
	return true;
}

static struct fh_error *add_arenas(struct glibc *glibc, uint64_t main_state)
{
	struct source *source = glibc->target->source;
	uint64_t state = main_state;

	for (uint32_t number = 0; number < MOST_ARENAS; number++) {
		struct arena arena = { .state = state, .bins = state + glibc->layout->bins, .main = number == 0 };

		if (!source_u64(source, arena.bins + (uint64_t)(int64_t)STATE_TOP, &arena.top) ||
		    !source_u64(source, arena.bins + STATE_SYSTEM_MEM, &arena.system_mem) ||
		    !source_u64(source, arena.bins + STATE_NEXT, &state))
			break;
		arena.figures = (struct alloc_arena){ .allocator = "glibc", .address = arena.state, .number = number,
						      .system_bytes = arena.system_mem };
		if (!(arena.main ? add_main_regions(glibc, &arena) : add_heaps(glibc, &arena)) ||
		    !vec_push(&glibc->arenas, arena)) {
			vec_free(&arena.heaps);
			return error_no_memory();
		}
		if (arena.main && !add_stray_regions(glibc, vec_last(&glibc->arenas)))
			return error_no_memory();
		if (state == main_state)
			break;
	}
	return NULL;
}

/* ---- all together ----------------------------------------------------------------- */

/* "GNU C Library (...) stable release version 2.36." in the read-only data. */
static void find_version(struct glibc *glibc)
{
	static const char needle[] = "release version ";
	struct source *source = glibc->target->source;

	for (size_t i = 0; i < glibc->image->segments.len; i++) {
		const struct image_segment *s = &glibc->image->segments.items[i];
		size_t span;

		if (s->flags & (PF_W | PF_X))
			continue;
		for (uint64_t at = s->start; at < s->file_end; at += span) {
			const char *bytes = memory_span(&source->memory, at, &span), *found;
			char text[64];
			size_t len;

			if (!span)
				break;
			if (span > s->file_end - at)
				span = s->file_end - at;
			found = bytes ? memmem(bytes, span, needle, strlen(needle)) : NULL;
			if (!found || memory_read(&source->memory, at + (uint64_t)(found - bytes), text, sizeof(text)) < sizeof(text))
				continue;
			len = strspn(text + strlen(needle), "0123456789.");
			if (len && text[strlen(needle) + len - 1] == '.')
				len--;
			glibc->version = strings_add_len(source->strings, text + strlen(needle), len);
			return;
		}
	}
}

static struct fh_error *add_glibc(struct target *target, const struct image *image, uint64_t bins, uint64_t low,
				  uint64_t high, glibc_list *list)
{
	const struct state_layout *layout = layout_of(target->source, bins);
	struct glibc *glibc;

	if (!layout) {
		target_damaged(target, "malloc: the ring of arenas of %s does not close (bins at 0x%llx)", image->name,
			       (unsigned long long)bins);
		layout = &state_layouts[0];
	}
	glibc = calloc(1, sizeof(*glibc));
	if (!glibc || !vec_push(list, glibc)) {
		free(glibc);
		return error_no_memory();
	}
	glibc->target = target;
	glibc->image = image;
	glibc->layout = layout;
	find_mp(glibc, low, high);
	find_version(glibc);
	return add_arenas(glibc, bins - layout->bins);
}

/* Looks through the writable data of an image, span by span. */
static struct fh_error *search(struct target *target, const struct image *image, uint64_t low, uint64_t high,
			       glibc_list *list)
{
	struct source *source = target->source;
	uint64_t at = (low + 7) / 8 * 8;

	while (at + 16 <= high) {
		size_t span;
		const uint64_t *words = memory_span(&source->memory, at, &span);
		size_t n = span / 8;

		if (!words && !span)
			break;
		if (!words || n < 2) {
			at += span < 8 ? 8 : span / 8 * 8;
			continue;
		}
		for (size_t i = 0; i + 1 < n && at + 8 * i + 16 <= high; i++) {
			uint64_t address = at + 8 * i, bins;

			if (words[i] != address - 16 || words[i + 1] != address - 16)
				continue;
			bins = bins_around(source, address, low, high);
			if (bins) {
				TRY(add_glibc(target, image, bins, low, high, list));
				at = bins + BINS * 16;
				goto next; /* the words may have moved out of the cache */
			}
		}
		at += 8 * (n - 1);
next:;
	}
	return NULL;
}

struct fh_error *glibc_find(struct target *target, glibc_list *list)
{
	for (size_t i = 0; i < target->images->v.len; i++) {
		const struct image *image = target->images->v.items[i];

		for (size_t k = 0; k < image->segments.len; k++) {
			const struct image_segment *s = &image->segments.items[k];

			if (s->flags & PF_W && s->end - s->start < (UINT64_C(1) << 32))
				TRY(search(target, image, s->start, s->end, list));
		}
	}
	return NULL;
}
