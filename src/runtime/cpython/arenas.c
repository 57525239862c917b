/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which arenas there are. An entry of the array is believed when what it says of its arena is true of the arena:
 * the range is mapped, and the header of its first pool names the entry's own index and a size class that fits.
 */
#include "runtime/cpython/pymalloc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ENTRY 64u
#define MOST_UNUSED 1024u /* entries in a row at the beginning of an array */
#define FEWEST_ENTRIES 16u /* INITIAL_ARENA_OBJECTS */

enum verdict {
	ENTRY_UNUSED,	/* has no arena now */
	ENTRY_GOOD,
	ENTRY_UNSEEN, /* looks right, but the arena's first pool can't be read */
	ENTRY_BAD,
};

struct entry {
	struct py_arena arena;
	struct pool_geometry geometry;
};

static uint64_t align_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) & ~(to - 1);
}

/* An arena is a power of two of pools, and loses one when it doesn't begin at a pool's border. */
static uint32_t whole_pools(uint32_t total)
{
	uint32_t whole = 16;

	while (whole < total && whole < 1024)
		whole *= 2;
	return total == whole || total + 1 == whole ? whole : 0;
}

static bool plausible(const struct pymalloc *pm, const uint8_t *bytes)
{
	uint64_t address = pool_u64(bytes, pm->layout.address);
	uint64_t reached = pool_u64(bytes, pm->layout.pool_address);
	uint32_t total = pool_u32(bytes, pm->layout.ntotalpools);

	return whole_pools(total) && pool_u32(bytes, pm->layout.nfreepools) <= total && address >= PAGE &&
	       address % 8 == 0 && address < UINT64_C(1) << 47 && reached >= address &&
	       reached - address <= (uint64_t)(total + 1) * POOL_MOST;
}

/* What the header of an initialised pool says of the pools' size and the blocks' alignment. */
static bool geometry_of(const struct pool_layout *layout, const uint8_t *header, uint32_t pool_size,
			struct pool_geometry *ret)
{
	uint32_t classes = pool_u32(header, layout->szidx) + 1;
	uint32_t last = pool_u32(header, layout->maxnextoffset);
	uint32_t next = pool_u32(header, layout->nextoffset);

	if (classes == 0 || classes > POOL_MOST_CLASSES || last >= pool_size || next > pool_size ||
	    (pool_size - last) % classes != 0)
		return false;
	*ret = (struct pool_geometry){ pool_size, (pool_size - last) / classes };
	return (ret->alignment == 8 || ret->alignment == 16) && ret->alignment * classes <= 512;
}

static bool is_mapped(struct source *source, uint64_t start, uint64_t end)
{
	const struct mapping *m;

	for (; start < end; start = m->end) {
		m = source_mapping_at(source, start);
		if (!m || !(m->flags & MAPPING_WRITE))
			return false;
	}
	return true;
}

static bool set_range(struct source *source, struct entry *entry)
{
	struct py_arena *arena = &entry->arena;
	uint64_t pool_size = entry->geometry.pool_size;

	arena->end = arena->start + whole_pools(arena->total_pools) * pool_size;
	arena->first_pool = align_up(arena->start, pool_size);
	return arena->reached % pool_size == 0 && arena->reached >= arena->first_pool &&
	       arena->reached <= arena->first_pool + arena->total_pools * pool_size &&
	       is_mapped(source, arena->start, arena->end);
}

/* The pool sizes of all builds; the table's own first. */
static void pool_sizes(const struct pymalloc *pm, uint32_t sizes[2])
{
	sizes[0] = pm->geometry.pool_size;
	sizes[1] = sizes[0] == POOL_MOST ? 4096 : POOL_MOST;
}

/* Reads an entry; its index is what its first pool says. */
static enum verdict read_entry(struct pymalloc *pm, uint64_t address, struct entry *ret)
{
	struct source *source = pm->py->target->source;
	uint8_t scratch[MOST_ENTRY], header_scratch[MOST_ENTRY];
	const uint8_t *bytes = source_get(source, address, pm->layout.arena_sizeof, scratch), *header;
	bool seen = false;
	uint32_t sizes[2];

	if (!bytes)
		return ENTRY_BAD;
	if (pool_u64(bytes, pm->layout.address) == 0)
		return ENTRY_UNUSED;
	if (!plausible(pm, bytes))
		return ENTRY_BAD;
	*ret = (struct entry){ .arena = {
		.start = pool_u64(bytes, pm->layout.address),
		.reached = pool_u64(bytes, pm->layout.pool_address),
		.free_pools = pool_u32(bytes, pm->layout.nfreepools),
		.total_pools = pool_u32(bytes, pm->layout.ntotalpools),
	} };
	pool_sizes(pm, sizes);
	for (int i = 0; i < 2; i++) {
		header = source_get(source, align_up(ret->arena.start, sizes[i]), pm->layout.pool_sizeof, header_scratch);
		seen = seen || header;
		if (!header || !geometry_of(&pm->layout, header, sizes[i], &ret->geometry))
			continue;
		ret->arena.index = pool_u32(header, pm->layout.arenaindex);
		if (set_range(source, ret))
			return ENTRY_GOOD;
	}
	return seen ? ENTRY_BAD : ENTRY_UNSEEN;
}

/* How many entries can follow an address in the block of memory that it lies in; 0: none can. */
static uint32_t room_for(struct pymalloc *pm, uint64_t table, uint64_t entry)
{
	struct block block;
	uint64_t n;

	if (!ledger_find(pm->py->target->ledger, table, &block) || entry >= block.end ||
	    ledger_category_of(pm->py->target->ledger, block.category)->state == FH_FREE)
		return 0;
	n = (block.end - table) / pm->layout.arena_sizeof;
	return n < FEWEST_ENTRIES ? 0 : n < ARENAS_MOST ? (uint32_t)n : ARENAS_MOST;
}

static bool known_table(const struct pymalloc *pm, uint64_t table)
{
	for (size_t i = 0; i < pm->tables.len; i++)
		if (pm->tables.items[i] == table)
			return true;
	return false;
}

/* Arenas whose first pool is unreadable are taken when the others of the array showed what arenas look like. */
static void take(struct pymalloc *pm, struct entry *entry, enum verdict verdict, uint32_t index)
{
	if (verdict == ENTRY_UNSEEN) {
		entry->geometry = pm->geometry;
		entry->arena.index = index;
		if (!set_range(pm->py->target->source, entry))
			return;
	} else {
		pm->votes[entry->geometry.pool_size != POOL_MOST][entry->geometry.alignment != 16]++;
	}
	entry->arena.pool_size = entry->geometry.pool_size;
	entry->arena.alignment = entry->geometry.alignment;
	if (!vec_push(&pm->py->arenas, entry->arena))
		pm->no_memory = true;
}

/* Whether an array begins with an entry that is unused: good ones have to follow soon, and few bad ones. Many
 * pointers lead to zeros, often to the same. */
static bool is_table(struct pymalloc *pm, uint64_t table, uint32_t room)
{
	uint64_t *refused = &pm->refused[table / 8 % 1024];
	uint32_t bad = 0;
	struct entry entry;

	if (*refused == table)
		return false;
	for (uint32_t i = 0; i < room && i < MOST_UNUSED && bad <= 1 && pm->entries < ENTRIES_TRIED; i++) {
		enum verdict verdict = read_entry(pm, table + (uint64_t)i * pm->layout.arena_sizeof, &entry);

		pm->entries++;
		if (verdict == ENTRY_GOOD && entry.arena.index == i)
			return true;
		bad += verdict == ENTRY_GOOD || verdict == ENTRY_BAD;
	}
	*refused = table;
	return false;
}

static void take_table(struct pymalloc *pm, uint64_t table, uint32_t room)
{
	uint32_t bad = 0, bad_before_last = 0;
	uint64_t first_bad = 0;
	struct entry entry;

	for (uint32_t i = 0; i < room && bad - bad_before_last < 1024 && pm->entries < ENTRIES_MOST; i++) {
		uint64_t address = table + (uint64_t)i * pm->layout.arena_sizeof;
		enum verdict verdict = read_entry(pm, address, &entry);

		pm->entries++;
		if (verdict == ENTRY_UNUSED)
			continue;
		if (verdict == ENTRY_BAD || (verdict == ENTRY_GOOD && entry.arena.index != i)) {
			if (bad++ == 0)
				first_bad = address;
			continue;
		}
		take(pm, &entry, verdict, i);
		bad_before_last = bad; /* those after the last are beyond the array's end */
	}
	if (bad_before_last)
		target_damaged(pm->py->target, "pymalloc: %" PRIu32 " arenas are not what their entries say, "
			       "the first at 0x%" PRIx64 ": left undivided", bad_before_last, first_bad);
}

bool arenas_add_table(struct pymalloc *pm, uint64_t at, uint64_t *ret_table)
{
	uint64_t table = at;
	struct entry entry;
	enum verdict verdict = read_entry(pm, at, &entry);
	uint32_t room;

	if (verdict == ENTRY_BAD)
		return false;
	if (verdict == ENTRY_GOOD)
		table -= (uint64_t)entry.arena.index * pm->layout.arena_sizeof;
	if (table > at)
		return false;
	*ret_table = table;
	if (known_table(pm, table))
		return true;
	room = room_for(pm, table, at);
	if (!room || (verdict != ENTRY_GOOD && !is_table(pm, table, room)))
		return false;
	if (!vec_push(&pm->tables, table))
		pm->no_memory = true;
	take_table(pm, table, room);
	return true;
}

/* ---- together ------------------------------------------------------------- */

static int compare_arenas(const void *a, const void *b)
{
	const struct py_arena *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* The majority's geometry counts; ascending, without those that overlap others or that another copy of CPython
 * has carved. */
static void settle(struct pymalloc *pm)
{
	struct target *target = pm->py->target;
	uint32_t best = 0, odd = 0;
	uint64_t reached = 0;
	size_t kept = 0;

	for (uint32_t i = 0; i < 4; i++)
		if (pm->votes[i >> 1][i & 1] > best) {
			best = pm->votes[i >> 1][i & 1];
			pm->geometry = (struct pool_geometry){ i >> 1 ? 4096 : POOL_MOST, i & 1 ? 8 : 16 };
		}
	if (pm->py->arenas.len)
		qsort(pm->py->arenas.items, pm->py->arenas.len, sizeof(*pm->py->arenas.items), compare_arenas);
	for (size_t i = 0; i < pm->py->arenas.len; i++) {
		struct py_arena arena = pm->py->arenas.items[i];
		struct block block;

		if (ledger_find(target->ledger, arena.start, &block) &&
		    strcmp(ledger_category_of(target->ledger, block.category)->domain, "pymalloc") == 0)
			continue;
		if (arena.start < reached || arena.pool_size != pm->geometry.pool_size ||
		    arena.alignment != pm->geometry.alignment) {
			odd += i == 0 || arena.start != pm->py->arenas.items[i - 1].start;
			continue;
		}
		reached = arena.end;
		pm->py->arenas.items[kept++] = arena;
	}
	pm->py->arenas.len = kept;
	if (odd)
		target_damaged(target, "pymalloc: %" PRIu32 " arenas overlap others or are divided unlike them: left "
			       "undivided", odd);
}

struct fh_error *arenas_find(struct pymalloc *pm)
{
	TRY(arena_tables_find(pm));
	if (pm->entries >= ENTRIES_TRIED)
		target_damaged(pm->py->target, "pymalloc: too much looks like arrays of arenas: not all was looked at");
	settle(pm);
	return pm->no_memory ? error_no_memory() : NULL;
}
