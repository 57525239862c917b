/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the arrays of arena_objects are. Since 3.12 a struct _obmalloc_state begins with `used`, a pair of words
 * for each size class that either points 16 bytes before itself (no pool has free blocks) or at pools, which are
 * aligned: a pattern that nothing else has. It lies in the image for the main interpreter, and in malloc's memory
 * for subinterpreters. Before 3.12 there are only loose static variables, of which `arenas`, and mostly
 * `usable_arenas` too, point at an entry; the first pool of the entry's arena says which one that is.
 */
#include <inttypes.h>
#include <string.h>

#include "runtime/cpython/pymalloc.h"

#define MOST_STATE_BLOCK (1u << 20) /* an interpreter's state is 0.4 MB */

struct search {
	struct pymalloc *pm;
	const struct image *image; /* being scanned; NULL: none */
	uint32_t state_arenas, state_most, state_allocated; /* offsets in _obmalloc_state */
	uint32_t classes;
};

/* ---- 3.12 and later: _obmalloc_state --------------------------------------- */

/* A pair of `used`: the list's ends, which are pools, or the place itself. */
static bool is_used_pair(const struct search *search, uint64_t address, uint64_t next, uint64_t prev)
{
	uint64_t self = address - 16, mask = search->pm->geometry.pool_size - 1;

	if (next == self || prev == self)
		return next == prev;
	return next && prev && (next & mask) == 0 && (prev & mask) == 0;
}

/* Whether the first pool of a list points back at the pair. */
static bool points_back(const struct search *search, uint64_t address, uint64_t next)
{
	struct source *source = search->pm->py->target->source;
	uint64_t self = address - 16, back;

	if (next == self)
		return true;
	if (source_u64(source, next + search->pm->layout.prevpool, &back))
		return back == self;
	return source_mapping_at(source, next); /* swapped out: can't be told */
}

/* The members behind the pairs: the array and how many entries it has, both or none. */
static bool sound_management(struct search *search, uint64_t state)
{
	struct source *source = search->pm->py->target->source;
	uint64_t arenas;
	uint32_t most;

	return source_u64(source, state + search->state_arenas, &arenas) &&
	       source_u32(source, state + search->state_most, &most) && arenas % 8 == 0 && !arenas == !most &&
	       most <= ARENAS_MOST && (most & (most - 1)) == 0;
}

/* A thread can stand still while it links a pool: one of the lists may not yet point back. The bins of glibc's
 * malloc look like empty lists too, but there are more of them. */
static bool is_state(struct search *search, uint64_t state)
{
	uint64_t used[2 * POOL_MOST_CLASSES], before[2];
	uint32_t odd = 0;

	if (!source_read(search->pm->py->target->source, state, used, search->classes * 16) ||
	    !sound_management(search, state))
		return false;
	for (uint32_t i = 0; i < search->classes; i++)
		if (!is_used_pair(search, state + i * 16, used[2 * i], used[2 * i + 1]))
			return false;
	for (uint32_t i = 0; i < search->classes && odd <= 1; i++)
		odd += !points_back(search, state + i * 16, used[2 * i]);
	return odd <= 1 && !(source_read(search->pm->py->target->source, state - 16, before, sizeof(before)) &&
			     before[0] == state - 32 && before[1] == state - 32);
}

static void name_block(struct target *target, uint64_t address, const char *kind)
{
	struct block block;

	if (ledger_find(target->ledger, address, &block) &&
	    ledger_category_of(target->ledger, block.category)->unknown)
		ledger_name(target->ledger, &block, "pymalloc", kind, "");
}

static void add_state(struct search *search, uint64_t state)
{
	struct pymalloc *pm = search->pm;
	struct source *source = pm->py->target->source;
	uint64_t entry, table, allocated;
	size_t before = pm->py->arenas.len;

	if (!vec_push(&pm->states, state))
		pm->no_memory = true;
	name_block(pm->py->target, state, "state");
	if (!source_u64(source, state + search->state_arenas, &entry) || entry == 0)
		return;
	if (!arenas_add_table(pm, entry, &table) || table != entry)
		target_damaged(pm->py->target, "pymalloc: no arenas where its state at 0x%" PRIx64 " has them", state);
	else if (source_u64(source, state + search->state_allocated, &allocated) &&
		 pm->py->arenas.len != before && pm->py->arenas.len - before != allocated)
		target_damaged(pm->py->target, "pymalloc: %zu arenas were found where its state at 0x%" PRIx64
			       " counts %" PRIu64, pm->py->arenas.len - before, state, allocated);
}

static bool visit_for_states(void *context, uint64_t address, const uint64_t *words, size_t n)
{
	struct search *search = context;

	for (size_t i = 0; i < n; i++) {
		uint64_t at = address + i * 8, second = 0;

		if (i + 1 < n)
			second = words[i + 1];
		else if (words[i]) /* it is in the next stretch */
			source_u64(search->pm->py->target->source, at + 8, &second);
		if (words[i] && is_used_pair(search, at, words[i], second) && is_state(search, at))
			add_state(search, at);
	}
	return !search->pm->no_memory;
}

/* Subinterpreters with a heap of their own have their state in a large block. */
static void scan_blocks(struct search *search)
{
	struct ledger *ledger = search->pm->py->target->ledger;
	uint32_t smallest = layout_size(&search->pm->py->layout, "_obmalloc_state");
	struct ledger_cursor cursor = { 0 };
	struct block block;

	while (ledger_next(ledger, &cursor, &block)) {
		uint64_t size = block.end - block.start;

		if (size >= smallest && size <= MOST_STATE_BLOCK &&
		    ledger_category_of(ledger, block.category)->state == FH_LIVE)
			scan_range(search->pm->py->target, block.start, block.end, visit_for_states, search);
	}
}

/* ---- up to 3.11: static variables ------------------------------------------- */

static bool visit_for_pointers(void *context, uint64_t address, const uint64_t *words, size_t n)
{
	struct search *search = context;
	const struct image *image = search->image;
	uint64_t table;

	for (size_t i = 0; i < n; i++) {
		uint64_t at = address + i * 8;

		if (words[i] % 8 || words[i] < PAGE || words[i] >> 47 ||
		    (words[i] >= image->start && words[i] < image->end) ||
		    (at >= image->relro_start && at < image->relro_end))
			continue;
		arenas_add_table(search->pm, words[i], &table);
	}
	return !search->pm->no_memory;
}

/* ---- together ------------------------------------------------------------------ */

static void scan_image(struct search *search, const struct image *image)
{
	search->image = image;
	scan_writable(search->pm->py->target, image, search->classes ? visit_for_states : visit_for_pointers, search);
}

struct fh_error *arena_tables_find(struct pymalloc *pm)
{
	const struct layout *layout = &pm->py->layout;
	const struct images *images = pm->py->target->images;
	struct search search = { .pm = pm };

	if (layout_field(layout, "_obmalloc_state", "mgmt.arenas")) {
		search.state_arenas = (uint32_t)layout_offset(layout, "_obmalloc_state", "mgmt.arenas");
		search.state_most = (uint32_t)layout_offset(layout, "_obmalloc_state", "mgmt.maxarenas");
		search.state_allocated = (uint32_t)layout_offset(layout, "_obmalloc_state",
								 "mgmt.narenas_currently_allocated");
		search.classes = search.state_arenas / 16;
	}
	if (search.classes > POOL_MOST_CLASSES)
		search.classes = POOL_MOST_CLASSES;
	scan_image(&search, pm->py->image);
	/* With copy relocations the types lie in the program, the rest in libpython. */
	for (size_t i = 0; i < images->v.len && pm->py->alone && !pm->tables.len; i++)
		if (images->v.items[i] != pm->py->image)
			scan_image(&search, images->v.items[i]);
	if (search.classes)
		scan_blocks(&search);
	for (size_t i = 0; i < pm->tables.len; i++)
		name_block(pm->py->target, pm->tables.items[i], "arena table");
	return NULL;
}
