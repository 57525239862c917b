/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walking the chunks of a heap. Each chunk says where the next one starts and whether the one before is in
 * use. Where a size can't be, the walk goes on at the next place that proves itself: a chunk of a free list,
 * or the first of a chain of sound ones; what lies between is reported and stays unknown.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "alloc/glibc/internal.h"

#define CHAIN 16 /* sound chunks in a row that make a place to go on from */

/* A stretch of the target's memory at hand. */
struct window {
	uint64_t start;
	const uint8_t *bytes;
	size_t len;
};

struct walk {
	struct glibc *glibc;
	const struct arena *arena;
	const struct heap *heap;
	struct window window;
	size_t free_at;	  /* next in free_chunks */
	size_t tcache_at; /* next in tcaches */
};

category_id chunks_live_category(struct glibc *glibc, uint64_t size)
{
	char kind[32];
	category_id *cached = size / 16 < 1024 ? &glibc->live[size / 16] : NULL, id;

	if (cached && *cached)
		return *cached;
	snprintf(kind, sizeof(kind), "%" PRIu64 " bytes", size);
	id = ledger_category(glibc->target->ledger,
			     &(struct category){ .domain = "uncategorized", .kind = kind, .state = FH_LIVE,
						 .head = CHUNK_HEADER, .unknown = true });
	if (cached)
		*cached = id;
	return id;
}

/* The size word of a chunk. */
static bool read_size(struct walk *walk, uint64_t chunk, uint64_t *ret)
{
	struct window *w = &walk->window;

	if (chunk < w->start || chunk + 16 > w->start + w->len) {
		w->start = chunk;
		w->bytes = memory_span(&walk->glibc->target->source->memory, chunk, &w->len);
		if (!w->bytes || w->len < 16) {
			w->len = 0;
			return source_u64(walk->glibc->target->source, chunk + 8, ret);
		}
	}
	memcpy(ret, w->bytes + (chunk + 8 - w->start), 8);
	return true;
}

/* A size that can be: aligned, and inside of the heap. */
static bool sound(const struct walk *walk, uint64_t chunk, uint64_t word)
{
	uint64_t size = word & ~SIZE_BITS;

	return size >= CHUNK_MIN && size % 16 == 0 && !(word & IS_MMAPPED) && size <= walk->heap->end - chunk;
}

/* The two headers that close a region: a chunk of 16 bytes, then a size of 0 in use (sysmalloc). */
static bool is_fencepost(struct walk *walk, uint64_t chunk, uint64_t word)
{
	uint64_t next;

	if ((word & ~SIZE_BITS) != 16)
		return false;
	if (chunk + 32 > walk->heap->end)
		return chunk + 16 <= walk->heap->end;
	return read_size(walk, chunk + 16, &next) && ((next & ~SIZE_BITS) == 0 || (next & ~SIZE_BITS) == 16);
}

/* ---- going on after a hole ---------------------------------------------------------- */

static bool chain_holds(struct walk *walk, uint64_t chunk)
{
	for (unsigned i = 0; i < CHAIN; i++) {
		uint64_t word;

		if (chunk == walk->arena->top || chunk == walk->heap->end)
			return i > 0;
		if (!read_size(walk, chunk, &word) || !sound(walk, chunk, word))
			return i > 2 && is_fencepost(walk, chunk, word);
		chunk += word & ~SIZE_BITS;
	}
	return true;
}

/* The first sound place above an address, or the heap's end. */
static uint64_t resynchronise(struct walk *walk, uint64_t from)
{
	const struct free_chunk *frees = walk->glibc->free_chunks.items;
	uint64_t at = (from + 16) / 16 * 16, listed;
	size_t f = walk->free_at;

	while (f < walk->glibc->free_chunks.len && frees[f].address < at)
		f++;
	listed = f < walk->glibc->free_chunks.len && frees[f].address < walk->heap->end ? frees[f].address :
											 walk->heap->end;
	while (at < listed) {
		size_t span;
		const void *p = memory_span(&walk->glibc->target->source->memory, at, &span);

		if (!p) { /* a hole of unreadable memory is skipped whole */
			at = span && span < listed - at ? (at + span + 15) / 16 * 16 : listed;
			continue;
		}
		if (chain_holds(walk, at))
			return at;
		at += 16;
	}
	return listed;
}

/* ---- naming and carving ----------------------------------------------------------------- */

/* What a list said of a chunk, or 0. Chunks are asked for in ascending order. */
static category_id listed_as(struct walk *walk, uint64_t chunk)
{
	const struct glibc *glibc = walk->glibc;

	while (walk->free_at < glibc->free_chunks.len && glibc->free_chunks.items[walk->free_at].address < chunk)
		walk->free_at++;
	if (walk->free_at < glibc->free_chunks.len && glibc->free_chunks.items[walk->free_at].address == chunk)
		return glibc->free_chunks.items[walk->free_at].category;
	return 0;
}

static bool holds_tcache(struct walk *walk, uint64_t chunk)
{
	const struct glibc *glibc = walk->glibc;

	while (walk->tcache_at < glibc->tcaches.len && glibc->tcaches.items[walk->tcache_at] < chunk)
		walk->tcache_at++;
	return walk->tcache_at < glibc->tcaches.len && glibc->tcaches.items[walk->tcache_at] == chunk;
}

static category_id category_of_chunk(struct walk *walk, uint64_t chunk, uint64_t size, bool in_use)
{
	category_id listed = listed_as(walk, chunk);

	if (listed)
		return listed;
	if (!in_use)
		return walk->glibc->unlisted;
	if (size <= 1024 && holds_tcache(walk, chunk))
		return walk->glibc->tcache;
	return chunks_live_category(walk->glibc, size);
}

/* Carves from one chunk on; returns where the next thing starts. */
static uint64_t carve_chunk(struct walk *walk, uint64_t chunk)
{
	struct glibc *glibc = walk->glibc;
	struct ledger *ledger = glibc->target->ledger;
	uint64_t word, next_word = PREV_INUSE, size;

	if (!read_size(walk, chunk, &word))
		goto broken;
	size = word & ~SIZE_BITS;
	if (chunk == walk->arena->top) {
		if (size == 0 || size > walk->heap->end - chunk || size % 16)
			goto broken;
		ledger_carve_add(ledger, chunk, glibc->top);
		return chunk + size;
	}
	if (is_fencepost(walk, chunk, word)) {
		ledger_carve_add(ledger, chunk, glibc->header);
		return chunk + 32 < walk->heap->end ? chunk + 32 : walk->heap->end;
	}
	if (!sound(walk, chunk, word))
		goto broken;
	if (chunk + size < walk->heap->end && !read_size(walk, chunk + size, &next_word))
		next_word = PREV_INUSE;
	ledger_carve_add(ledger, chunk, category_of_chunk(walk, chunk, size, next_word & PREV_INUSE));
	return chunk + size;
broken:
	target_damaged(glibc->target, "malloc: the chunk at 0x%" PRIx64 " is corrupt or can't be read", chunk);
	ledger_carve_add(ledger, chunk, glibc->corrupt);
	return resynchronise(walk, chunk);
}

/* After the fenceposts of a region comes memory that somebody else got from sbrk, if anything. */
static void carve_heap(struct glibc *glibc, const struct arena *arena, const struct heap *heap)
{
	struct walk walk = { .glibc = glibc, .arena = arena, .heap = heap };
	struct ledger *ledger = glibc->target->ledger;
	uint64_t at = heap->first_chunk;

	if (heap->start >= heap->end || at >= heap->end)
		return;
	ledger_carve_begin(ledger, heap->start, heap->end);
	if (at > heap->start)
		ledger_carve_add(ledger, heap->start, glibc->arena);
	while (at < heap->end) {
		uint64_t before = at;
		uint64_t word;

		at = carve_chunk(&walk, at);
		if (at <= before) /* can't be; but a loop must end */
			break;
		if (at < heap->end && before != arena->top && read_size(&walk, at, &word) && !sound(&walk, at, word) &&
		    at != arena->top && !is_fencepost(&walk, at, word) && word == 0) {
			ledger_carve_add(ledger, at, glibc->corrupt);
			at = resynchronise(&walk, at);
		} else if (before == arena->top && at < heap->end) {
			ledger_carve_add(ledger, at, glibc->reserved);
			break;
		}
	}
	ledger_carve_end(ledger);
}

/* Address space that an aligned heap keeps for its growth. */
static void carve_reserve(struct glibc *glibc, const struct heap *heap)
{
	const struct source *source = glibc->target->source;

	for (uint64_t at = (heap->end + PAGE - 1) / PAGE * PAGE; at < heap->reserved_end;) {
		const struct mapping *m = source_mapping_at(source, at);
		uint64_t end;

		if (!m || m->inode || in_heaps(glibc, at))
			return;
		end = m->end < heap->reserved_end ? m->end : heap->reserved_end;
		ledger_carve(glibc->target->ledger, at, end, glibc->reserved);
		at = end;
	}
}

static void make_categories(struct glibc *glibc)
{
	struct ledger *ledger = glibc->target->ledger;

#define CATEGORY(...) ledger_category(ledger, &(struct category){ .domain = "glibc", __VA_ARGS__ })
	glibc->top = CATEGORY(.kind = "top", .state = FH_FREE);
	glibc->arena = CATEGORY(.kind = "arena", .state = FH_OVERHEAD);
	glibc->tcache = CATEGORY(.kind = "tcache", .state = FH_OVERHEAD, .head = CHUNK_HEADER);
	glibc->header = CATEGORY(.kind = "chunk header", .detail = "fencepost", .state = FH_OVERHEAD);
	glibc->reserved = CATEGORY(.kind = "reserved", .state = FH_FREE);
	glibc->unlisted = CATEGORY(.kind = "free chunk", .detail = "in no list", .state = FH_FREE, .head = CHUNK_HEADER);
#undef CATEGORY
	glibc->corrupt = 0; /* uncategorized / dark */
}

struct fh_error *chunks_carve(struct glibc *glibc)
{
	make_categories(glibc);
	for (size_t a = 0; a < glibc->arenas.len; a++) {
		struct arena *arena = &glibc->arenas.items[a];
		uint64_t top;

		if (source_u64(glibc->target->source, arena->top + 8, &top))
			arena->figures.top_bytes = top & ~SIZE_BITS;
		for (size_t i = 0; i < arena->heaps.len; i++) {
			carve_heap(glibc, arena, &arena->heaps.items[i]);
			if (arena->heaps.items[i].reserved_end)
				carve_reserve(glibc, &arena->heaps.items[i]);
		}
	}
	return ledger_commit(glibc->target->ledger);
}
