/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walking lists of free chunks, and marking what is in them. A chunk in a fastbin or a tcache looks in use, so
 * membership is the only way to know; counts are never trusted. Bins are linked both ways and each link is
 * checked against its counterpart, so a walk can't run in circles; in lists that are linked one way, a chunk that
 * has its mark already ends the walk.
 */
#include <inttypes.h>

#include "alloc/glibc/internal.h"

bool free_lists_chunk(const struct glibc *glibc, uint64_t chunk, uint64_t *ret_size, uint64_t *ret_extent)
{
	struct source *source = glibc->target->source;
	uint64_t words[2];

	if (chunk % 16 || !source_read(source, chunk, words, sizeof(words)))
		return false;
	*ret_size = *ret_extent = words[1] & ~SIZE_BITS;
	if (words[1] & IS_MMAPPED) { /* from 2.42 on a tcache takes these too */
		if (((words[0] & ~UINT64_C(1)) + *ret_size) % PAGE)
			*ret_extent += CHUNK_HEADER;
		return *ret_size >= CHUNK_MIN && ((words[0] & ~UINT64_C(1)) + *ret_extent) % PAGE == 0;
	}
	return regions_heap_at(glibc, chunk) && *ret_size >= CHUNK_MIN && *ret_size % 16 == 0;
}

bool free_lists_next(const struct glibc *glibc, uint64_t chunk, bool data_links, uint64_t *ret)
{
	uint64_t stored, next;

	if (!source_u64(glibc->target->source, chunk + 16, &stored))
		return false;
	next = glibc->mangled ? (chunk + 16) >> 12 ^ stored : stored;
	*ret = next && data_links ? next - 16 : next;
	return true;
}

void free_lists_complain(struct glibc *glibc, const char *name, uint64_t at)
{
	if (glibc->complaints.lists++ >= MOST_COMPLAINTS)
		return;
	if (glibc->busy)
		source_warn(glibc->target->source,
			    "malloc: the free list '%s' is corrupt, or was being changed, at 0x%" PRIx64, name, at);
	else
		target_damaged(glibc->target, "malloc: the free list '%s' is corrupt, at 0x%" PRIx64, name, at);
}

static bool keep_bin(struct glibc *glibc, const struct alloc_bin *bin)
{
	return !bin->count || vec_push(&glibc->bins, *bin);
}

/* ---- bins ---------------------------------------------------------------------- */

struct bin_walk {
	uint64_t head;	/* the bin, as a chunk */
	uint64_t link, other; /* offsets of the pointers onwards and back */
	enum mark_kind kind;
	uint64_t last; /* the last good chunk */
	struct alloc_bin bin;
};

/* One direction of a bin's ring. *ret_whole is false when a link is broken, behind `last`. */
static struct fh_error *walk_bin(struct glibc *glibc, struct bin_walk *walk, bool *ret_whole)
{
	struct source *source = glibc->target->source;
	uint64_t next, back, size, extent;
	bool new;

	*ret_whole = false;
	for (walk->last = walk->head;; walk->last = next) {
		if (!source_u64(source, walk->last + walk->link, &next))
			return NULL;
		if (next == walk->head) {
			*ret_whole = true;
			return NULL;
		}
		if (!free_lists_chunk(glibc, next, &size, &extent) || !source_u64(source, next + walk->other, &back) ||
		    back != walk->last)
			return NULL;
		if (!marks_set(glibc->marks, next, walk->kind, &new))
			return error_no_memory();
		if (!new) /* in another list too, or reached from the other side */
			return NULL;
		walk->bin.count++;
		walk->bin.bytes += extent;
	}
}

static struct fh_error *list_bin(struct glibc *glibc, struct arena *arena, unsigned index, struct alloc_bin *large)
{
	enum mark_kind kind = index == 0 ? MARK_UNSORTED : MARK_BINNED;
	struct bin_walk walk = { .head = arena->bins + 16 * index - 16, .link = 16, .other = 24, .kind = kind,
				 .bin = *large };
	uint64_t size = (index + 1) * 16;
	bool whole;

	walk.bin.count = walk.bin.bytes = 0;
	walk.bin.name = categories_list_name(glibc, kind, size);
	TRY(walk_bin(glibc, &walk, &whole));
	if (!whole) { /* what the other direction reaches lies behind the break */
		free_lists_complain(glibc, walk.bin.name, walk.last);
		walk.link = 24;
		walk.other = 16;
		TRY(walk_bin(glibc, &walk, &whole));
	}
	arena->figures.free_bytes += walk.bin.bytes;
	arena->figures.free_blocks += walk.bin.count;
	if (index < FIRST_LARGE)
		return keep_bin(glibc, &walk.bin) ? NULL : error_no_memory();
	large->count += walk.bin.count;
	large->bytes += walk.bin.bytes;
	return NULL;
}

static struct fh_error *list_bins(struct glibc *glibc, struct arena *arena)
{
	struct alloc_bin large = { .allocator = "glibc", .name = "large", .arena = arena->figures.number,
				   .thread = -1 };

	for (unsigned i = 0; i < BINS; i++)
		TRY(list_bin(glibc, arena, i, &large));
	return keep_bin(glibc, &large) ? NULL : error_no_memory();
}

/* ---- lists that are linked one way ------------------------------------------------- */

struct fh_error *free_lists_single(struct glibc *glibc, struct single_list *list)
{
	struct alloc_bin bin = { .allocator = "glibc", .arena = list->arena, .thread = list->thread };
	uint64_t chunk = list->first, before = chunk, bin_extent = 0, size, extent, next;
	bool new;

	list->count = list->bytes = 0;
	for (; chunk; before = chunk, chunk = next) { /* what is wrong is the link that led here */
		if (!free_lists_chunk(glibc, chunk, &size, &extent) || (list->expected && size != list->expected) ||
		    !free_lists_next(glibc, chunk, list->data_links, &next)) {
			free_lists_complain(glibc, categories_list_name(glibc, list->kind, list->expected), before);
			break;
		}
		if (!marks_set(glibc->marks, chunk, list->kind, &new))
			return error_no_memory();
		if (!new) { /* a circle, or two lists that run into one */
			free_lists_complain(glibc, categories_list_name(glibc, list->kind, extent), before);
			break;
		}
		if (extent != bin_extent) {
			if (!keep_bin(glibc, &bin))
				return error_no_memory();
			bin_extent = extent;
			bin.count = bin.bytes = 0;
			bin.name = categories_list_name(glibc, list->kind, extent);
		}
		bin.count++;
		bin.bytes += extent;
		list->count++;
		list->bytes += extent;
	}
	return keep_bin(glibc, &bin) ? NULL : error_no_memory();
}

static bool fastbin_head(const struct glibc *glibc, const struct arena *arena, unsigned index, uint64_t *ret)
{
	return glibc->layout->has_fastbins &&
	       source_u64(glibc->target->source, arena->bins + (uint64_t)(int64_t)STATE_FASTBINS + 8 * index, ret);
}

static struct fh_error *list_fastbins(struct glibc *glibc, struct arena *arena)
{
	for (unsigned i = 0; i < FASTBINS; i++) {
		struct single_list list = { .kind = MARK_FAST, .expected = CHUNK_MIN + 16 * i,
					    .arena = arena->figures.number, .thread = -1 };

		if (!fastbin_head(glibc, arena, i, &list.first))
			continue;
		TRY(free_lists_single(glibc, &list));
		arena->figures.fast_bytes += list.bytes;
		arena->figures.fast_blocks += list.count;
	}
	return NULL;
}

/* ---- all -------------------------------------------------------------------------------- */

struct fh_error *free_lists_walk(struct glibc *glibc)
{
	int votes = 0;
	uint64_t head;

	for (size_t a = 0; a < glibc->arenas.len; a++)
		for (unsigned i = 0; i < FASTBINS; i++)
			if (fastbin_head(glibc, &glibc->arenas.items[a], i, &head) && head)
				tcache_vote_link(glibc, head + 16, &votes);
	TRY(tcache_find(glibc, &votes));
	glibc->mangled = votes > 0;
	for (size_t a = 0; a < glibc->arenas.len; a++) {
		TRY(list_bins(glibc, &glibc->arenas.items[a]));
		TRY(list_fastbins(glibc, &glibc->arenas.items[a]));
	}
	return tcache_walk(glibc);
}
