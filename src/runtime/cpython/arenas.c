/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arenas of pymalloc. An array of arena_object (48 bytes, the same from 2.7 to 3.15, Objects/obmalloc.c)
 * holds them all; one pointer to it lies in the interpreter's static data (static `arenas` up to 3.11, the
 * main interpreter's obmalloc state later), and one in each subinterpreter's state, a block of its own.
 * Every entry must make sense, or the array is none.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "runtime/cpython/internal.h"

#define ARENA_OBJECT 48u
#define DEBUG_HEAD 16u /* two words: size, and which allocator (_PyMem_DebugRawAlloc, Objects/obmalloc.c) */
#define STATE_SIZE_MIN (256u << 10) /* of a block that can hold an _obmalloc_state (263,248 bytes) */
#define STATE_SIZE_MAX (1u << 20)

struct finder {
	struct cpython *py;
	struct hashmap seen; /* arrays already taken, by address */
	bool no_memory;
};

static bool writable_anonymous(const struct target *target, uint64_t start, uint64_t end)
{
	const struct mapping *m = source_mapping_at(target->source, start);

	while (m && !m->inode && m->flags & MAPPING_WRITE && !(m->flags & MAPPING_SHARED)) {
		if (m->end >= end)
			return true;
		m = source_mapping_at(target->source, m->end);
	}
	return false;
}

/* One entry {address, pool_address, nfreepools, ntotalpools, freepools, nextarena, prevarena}. */
static bool entry_is_sound(const struct cpython *py, const uint64_t entry[6])
{
	uint64_t size = (uint64_t)py->o.arena_size, pools = size / (uint64_t)py->o.pool_size;
	uint32_t free_pools = (uint32_t)entry[2], total = (uint32_t)(entry[2] >> 32);

	if (entry[0] == 0)
		return true; /* not in use */
	return entry[0] % 16 == 0 && entry[1] > entry[0] && entry[1] <= entry[0] + size &&
	       entry[1] % (uint64_t)py->o.pool_size == 0 && total <= pools && total + 1 >= pools &&
	       free_pools <= total && writable_anonymous(py->target, entry[0], entry[0] + size);
}

static bool add_arena(struct cpython *py, const uint64_t entry[6])
{
	uint64_t pool = (uint64_t)py->o.pool_size, end = entry[0] + (uint64_t)py->o.arena_size;

	return vec_push(&py->arenas, (struct py_arena){ .base = entry[0], .base_end = end,
							.start = (entry[0] + pool - 1) / pool * pool,
							.end = end / pool * pool, .pool_address = entry[1] });
}

/* Takes the array at an address if it is one: the whole block must be sound entries. */
static void try_array(struct finder *finder, uint64_t address, uint64_t bytes)
{
	struct cpython *py = finder->py;
	uint64_t n = bytes / ARENA_OBJECT / 16 * 16, entry[6]; /* 16 at first, then doubled (new_arena) */
	size_t in_use = 0;

	for (uint64_t i = 0; i < n; i++) {
		if (!source_read(py->target->source, address + i * ARENA_OBJECT, entry, sizeof(entry)) ||
		    !entry_is_sound(py, entry))
			return;
		in_use += entry[0] != 0;
	}
	if (!in_use || hashmap_get(&finder->seen, address))
		return;
	if (!hashmap_put(&finder->seen, address, 1))
		finder->no_memory = true;
	for (uint64_t i = 0; i < n; i++)
		if (source_read(py->target->source, address + i * ARENA_OBJECT, entry, sizeof(entry)) && entry[0] &&
		    !add_arena(py, entry))
			finder->no_memory = true;
}

static bool look_for_array(void *context, uint64_t address, const uint64_t *words, size_t n)
{
	struct finder *finder = context;
	struct target *target = finder->py->target;

	(void)address;
	for (size_t i = 0; i < n; i++) {
		uint64_t value = words[i];
		struct block block;
		const struct category *c;

		if (value % 16 || value < 65536 || value >> 47 || !ledger_find(target->ledger, value, &block))
			continue;
		c = ledger_category_of(target->ledger, block.category);
		/* The array is all of its block, but for what PYTHONMALLOC=debug puts before and behind. */
		if (!c->unknown || block.end - value < ARENA_OBJECT * 8 ||
		    (value != block.start + c->head && value != block.start + c->head + DEBUG_HEAD))
			continue;
		try_array(finder, value, block.end - value);
	}
	return !finder->no_memory;
}

static int compare_arenas(const void *a, const void *b)
{
	const struct py_arena *x = a, *y = b;

	return x->base < y->base ? -1 : x->base > y->base;
}

/* Subinterpreters have a state of their own from 3.12 on. */
static void search_blocks(struct finder *finder)
{
	struct target *target = finder->py->target;
	struct ledger_cursor cursor = { 0 };
	struct block block;

	if (layout_size(&finder->py->layout, "_obmalloc_state") == 0)
		return;
	while (ledger_next(target->ledger, &cursor, &block)) {
		uint64_t size = block.end - block.start;

		if (size < STATE_SIZE_MIN || size > STATE_SIZE_MAX ||
		    !ledger_category_of(target->ledger, block.category)->unknown)
			continue;
		for (uint64_t at = block.start; at + 8 <= block.end;) {
			size_t span;
			const void *words = memory_span(&target->source->memory, at, &span);

			if (!words && !span)
				break;
			if (span > block.end - at)
				span = block.end - at;
			if (words)
				look_for_array(finder, at, words, span / 8);
			at += span < 8 ? 8 : span & ~(size_t)7;
		}
	}
}

struct fh_error *arenas_find(struct cpython *py)
{
	struct finder finder = { .py = py };

	if (py->o.pool_size <= 0 || py->o.arena_size <= 0)
		return NULL; /* a build without pymalloc */
	scan_writable(py->target, py->image, look_for_array, &finder);
	search_blocks(&finder);
	hashmap_deinit(&finder.seen);
	if (finder.no_memory)
		return error_no_memory();
	if (py->arenas.len)
		qsort(py->arenas.items, py->arenas.len, sizeof(*py->arenas.items), compare_arenas);
	return NULL;
}
