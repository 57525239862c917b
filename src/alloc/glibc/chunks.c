/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walking the chunks of a heap. Each chunk says where the next one starts and whether the one before is in
 * use. A size that can't be, or that would swallow a chunk of a free list, is reported; the walk goes on at the
 * next place that proves itself, and what lies between stays unknown.
 */
#include <inttypes.h>
#include <string.h>

#include "alloc/glibc/internal.h"

struct walk {
	struct glibc *glibc;
	const struct heap *heap;
	struct arena *arena;
	uint64_t next_mark; /* the first marked chunk at `at` or above; the heap's end: none */
	uint64_t top;	    /* that can be trusted, in this heap; the heap's end: none */
	uint64_t window;    /* memory at hand */
	const uint8_t *bytes;
	size_t len;
};

static bool read_header(struct walk *walk, uint64_t chunk, uint64_t words[2])
{
	struct source *source = walk->glibc->target->source;

	if (chunk - walk->window >= walk->len || walk->len - (chunk - walk->window) < 16) {
		walk->window = chunk;
		walk->bytes = memory_span(&source->memory, chunk, &walk->len);
		if (!walk->bytes || walk->len < 16) {
			walk->len = 0;
			return source_read(source, chunk, words, 16);
		}
	}
	memcpy(words, walk->bytes + (chunk - walk->window), 16);
	return true;
}

/* The words of the next chunk; past the end of the heap there is none, and what is before it is in use. */
static void read_next(struct walk *walk, uint64_t chunk, uint64_t words[2])
{
	if (chunk >= walk->heap->end || !read_header(walk, chunk, words)) {
		words[0] = 0;
		words[1] = PREV_INUSE;
	}
}

/* ---- damage ------------------------------------------------------------------------- */

static void complain(struct walk *walk, const char *what, uint64_t chunk, uint64_t word)
{
	struct glibc *glibc = walk->glibc;

	if (glibc->complaints.chunks++ >= MOST_COMPLAINTS)
		return;
	if (glibc->busy)
		source_warn(glibc->target->source,
			    "malloc: %s at 0x%" PRIx64 " is corrupt, or was being changed; its size is 0x%" PRIx64,
			    what, chunk, word);
	else
		target_damaged(glibc->target, "malloc: %s at 0x%" PRIx64 " is corrupt, or what comes before it; its "
			       "size is 0x%" PRIx64, what, chunk, word);
}

static void add(struct walk *walk, uint64_t start, category_id category)
{
	ledger_carve_add(walk->glibc->target->ledger, start, category);
}

static uint64_t barrier_above(const struct walk *walk, uint64_t address)
{
	uint64_t barrier = walk->heap->end;

	if (walk->next_mark > address && walk->next_mark < barrier)
		barrier = walk->next_mark;
	if (walk->top > address && walk->top < barrier)
		barrier = walk->top;
	return barrier;
}

/* Leaves a hole from a chunk on; returns where to go on. */
static uint64_t skip(struct walk *walk, uint64_t chunk, uint64_t from, category_id category)
{
	uint64_t on = resync(walk->glibc, walk->heap, from, barrier_above(walk, chunk));

	if (on > chunk)
		add(walk, chunk, category);
	return on;
}

static uint64_t skip_unreadable(struct walk *walk, uint64_t chunk)
{
	struct complaints *complaints = &walk->glibc->complaints;
	uint64_t on = skip(walk, chunk, chunk + 16, walk->glibc->hole);

	if (!complaints->unreadable)
		complaints->unreadable_at = chunk;
	complaints->unreadable += on - chunk;
	return on;
}

static void next_mark(struct walk *walk)
{
	walk->next_mark = marks_next(walk->glibc->marks, walk->next_mark + 16, walk->heap->end);
}

static uint64_t skip_corrupt(struct walk *walk, uint64_t chunk, uint64_t word)
{
	complain(walk, "the chunk", chunk, word);
	return skip(walk, chunk, chunk + 16, walk->glibc->hole);
}

/* Whether a chunk's size can't be because what is known to begin inside of it divides it properly. A mark that
 * does not divide it comes from a list that was led astray, and is dropped. */
static bool swallows(struct walk *walk, uint64_t chunk, uint64_t end)
{
	if (walk->top > chunk && walk->top < end)
		return true;
	while (walk->next_mark > chunk && walk->next_mark < end) {
		enum mark_kind kind = marks_get(walk->glibc->marks, walk->next_mark);

		if (kind == MARK_BINNED || kind == MARK_UNSORTED ||
		    resync_arrives(walk->glibc, walk->heap, walk->next_mark, end))
			return true;
		free_lists_complain(walk->glibc, categories_list_name(walk->glibc, kind, 0), walk->next_mark);
		next_mark(walk);
	}
	return false;
}

/* ---- what is not an ordinary chunk ------------------------------------------------------ */

/* Top reaches to the end of its heap. Only where brk's memory is not all malloc's, its size tells. */
static uint64_t carve_top(struct walk *walk, uint64_t chunk)
{
	const struct arena *arena = walk->arena;
	bool shared = arena->main && arena->flags & NONCONTIGUOUS && arena->top_end > chunk;
	uint64_t end = shared && arena->top_end <= walk->heap->end ? arena->top_end : walk->heap->end, words[2];

	if (arena->top_end != end && read_header(walk, chunk, words))
		complain(walk, "the top chunk", chunk, words[1]);
	add(walk, chunk, walk->glibc->top);
	walk->arena->figures.top_bytes = end - chunk;
	if (end < walk->heap->end)
		add(walk, end, walk->glibc->foreign);
	return walk->heap->end;
}

/* Where a region of the main arena was left, top became two or three headers of 16 bytes; in an aligned heap one
 * of 16 and one of 0, or of 32 and 0 (sysmalloc). Returns their end, or `chunk` when there are none. */
static uint64_t fenceposts_end(struct walk *walk, uint64_t chunk, uint64_t word)
{
	uint64_t at = chunk, words[2] = { 0, word }, size = word & ~SIZE_BITS, end = walk->heap->end;

	if (walk->arena->main) {
		while (at < end && (words[1] & ~SIZE_BITS) == 16) {
			at += 16;
			read_next(walk, at, words);
		}
		return at - chunk > 16 || at == end ? at : chunk;
	}
	if (size == 0 && chunk + 16 == end)
		return end;
	if (!(size == 16 || (size == 32 && !(word & NON_MAIN_ARENA))) || chunk + size + 16 != end)
		return chunk;
	read_next(walk, chunk + size, words);
	return words[1] == PREV_INUSE ? end : chunk;
}

static uint64_t carve_fenceposts(struct walk *walk, uint64_t chunk, uint64_t end)
{
	add(walk, chunk, walk->glibc->fencepost);
	return end < walk->heap->end ? skip(walk, end, end, walk->glibc->foreign) : end;
}

/* ---- chunks ------------------------------------------------------------------------------ */

/* A chunk that no list holds. */
static category_id name_unmarked(struct walk *walk, uint64_t chunk, uint64_t size, const uint64_t next[2])
{
	struct glibc *glibc = walk->glibc;

	if (!(next[1] & PREV_INUSE) && next[0] == size)
		return categories_free(glibc, MARK_NONE, size);
	if (size >= TCACHE_CHUNK_LEAST && size <= TCACHE_CHUNK_MOST) {
		if (tcache_is_known(glibc, chunk + 16))
			return glibc->tcache;
		if (tcache_may_be(glibc, chunk, size) && !vec_push(&glibc->maybe_tcaches, chunk))
			glibc->target->ledger->no_memory = true;
	}
	return categories_live(glibc, size);
}

/* Carves what begins at an address, whose header is `words`; returns where the next thing does. */
static uint64_t carve_one(struct walk *walk, uint64_t chunk, uint64_t words[2])
{
	uint64_t size = words[1] & ~SIZE_BITS, on;
	enum mark_kind kind = MARK_NONE;

	if (size <= CHUNK_MIN && (on = fenceposts_end(walk, chunk, words[1])) > chunk)
		return carve_fenceposts(walk, chunk, on);
	if (!chunk_is_sound(chunk, words[1], walk->heap->end) || (walk->arena->main && words[1] & NON_MAIN_ARENA))
		return skip_corrupt(walk, chunk, words[1]);
	if (walk->next_mark == chunk) {
		kind = marks_get(walk->glibc->marks, chunk);
		next_mark(walk);
	}
	if ((walk->next_mark < chunk + size || (walk->top > chunk && walk->top < chunk + size)) &&
	    swallows(walk, chunk, chunk + size))
		return skip_corrupt(walk, chunk, words[1]);
	read_next(walk, chunk + size, words);
	add(walk, chunk, kind ? categories_free(walk->glibc, kind, size) : name_unmarked(walk, chunk, size, words));
	return chunk + size;
}

static void carve_heap(struct glibc *glibc, const struct heap *heap)
{
	struct arena *arena = &glibc->arenas.items[heap->arena];
	struct walk walk = { .glibc = glibc, .heap = heap, .arena = arena, .top = heap->end,
			     .next_mark = marks_next(glibc->marks, heap->first_chunk, heap->end) };
	uint64_t at = heap->first_chunk, words[2];

	if (arena->top > heap->start && arena->top < heap->end &&
	    (arena->top_end == heap->end || (arena->main && arena->top_end && arena->top_end <= heap->end)))
		walk.top = arena->top;
	ledger_carve_begin(glibc->target->ledger, heap->start, heap->end);
	if (at > heap->start)
		add(&walk, heap->start, arena->main ? glibc->heap_alignment : glibc->arena);
	while (at < heap->end) {
		uint64_t before = at;

		if (walk.next_mark < at)
			walk.next_mark = marks_next(glibc->marks, at, heap->end);
		if (at == arena->top)
			at = carve_top(&walk, at);
		else if (read_header(&walk, at, words))
			at = carve_one(&walk, at, words);
		else
			at = skip_unreadable(&walk, at);
		if (at <= before) /* can't be; but a loop must end */
			break;
	}
	ledger_carve_end(glibc->target->ledger);
}

/* Address space that an aligned heap keeps for its growth. */
static void carve_reserve(struct glibc *glibc, const struct heap *heap)
{
	const struct source *source = glibc->target->source;

	for (uint64_t at = heap->end; at < heap->reserved_end;) {
		const struct mapping *m = source_mapping_at(source, at);
		uint64_t end;

		if (!m || m->inode || m->flags & MAPPING_SHARED)
			return;
		end = m->end < heap->reserved_end ? m->end : heap->reserved_end;
		ledger_carve(glibc->target->ledger, at, end, glibc->reserved);
		at = end;
	}
}

static const struct mapping *brk_mapping(const struct source *source)
{
	for (size_t i = 0; i < source->mappings.len; i++)
		if (strcmp(source->mappings.items[i].path, "[heap]") == 0)
			return &source->mappings.items[i];
	return NULL;
}

/* The first that asks brk for memory may be the loader: for the main thread's TLS in a static program, for a copy
 * of GLIBC_TUNABLES up to 2.33. What malloc got begins behind it, or is elsewhere. */
static void carve_before_malloc(struct glibc *glibc)
{
	const struct mapping *m = brk_mapping(glibc->target->source);
	struct ledger *ledger = glibc->target->ledger;
	uint64_t base = params_sbrk_base(glibc);
	struct category c = { .domain = "image", .kind = "loader data", .detail = "taken from brk before malloc",
			      .state = FH_LIVE };
	struct ledger_cursor cursor;
	struct block block;

	if (!m)
		return;
	if (base < m->start || base > m->end) /* malloc has nothing there: more than a page is some other's */
		base = m->start + PAGE;
	cursor = ledger_cursor_at(ledger, m->start);
	while (ledger_next(ledger, &cursor, &block) && block.end <= base)
		if (block.category == glibc->foreign)
			ledger_carve(ledger, block.start, block.end, ledger_category(ledger, &c));
}

static void sum_up(struct glibc *glibc)
{
	const struct complaints *c = &glibc->complaints;

	if (glibc->busy && c->chunks + c->lists > 2 * glibc->target->source->threads.len)
		glibc->target->damaged = true; /* more than threads can have been about to change */
	if (c->unreadable)
		target_damaged(glibc->target, "malloc: %" PRIu64 " bytes of its heaps can't be read (swapped out, or "
			       "left out of the core), the first at 0x%" PRIx64, c->unreadable, c->unreadable_at);
	if (c->chunks > MOST_COMPLAINTS || c->lists > MOST_COMPLAINTS)
		target_damaged(glibc->target, "malloc: %" PRIu32 " chunks and %" PRIu32 " free lists are corrupt in "
			       "all; the first are listed", c->chunks, c->lists);
}

struct fh_error *chunks_carve(struct glibc *glibc)
{
	for (size_t i = 0; i < glibc->heaps.len; i++) {
		const struct heap *heap = &glibc->heaps.items[i];

		carve_heap(glibc, heap);
		if (heap->reserved_end)
			carve_reserve(glibc, heap);
	}
	sum_up(glibc);
	TRY(ledger_commit(glibc->target->ledger));
	carve_before_malloc(glibc);
	return ledger_commit(glibc->target->ledger);
}
