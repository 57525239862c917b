/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carving arenas into pools and pools into blocks. A block is live when it lies below nextoffset and is not on the
 * pool's list of freed blocks; as a check, ref.count says how many are.
 */
#include "runtime/cpython/pymalloc.h"

#include <inttypes.h>
#include <string.h>

/* ---- carving --------------------------------------------------------------- */

/* Damage is counted, and told once. */
struct damage {
	uint32_t count;
	uint64_t first;
};

struct carver {
	struct pymalloc *pm;
	struct ledger *ledger;
	category_id header, tail, free_pool, unused, gap, damaged_pool;
	category_id live[POOL_MOST_CLASSES], free[POOL_MOST_CLASSES]; /* by size class */
	struct damage headers, lists, counts;
	uint8_t marks[POOL_MOST / 8]; /* 1: the block that begins there is free */
	uint8_t scratch[POOL_MOST];
};

static category_id category(struct ledger *ledger, const char *kind, const char *detail, enum fh_state state)
{
	return ledger_category(ledger, &(struct category){ .domain = "pymalloc", .kind = kind, .detail = detail,
							   .state = state });
}

static void carver_init(struct carver *c, struct pymalloc *pm)
{
	struct ledger *ledger = pm->py->target->ledger;

	*c = (struct carver){ .pm = pm, .ledger = ledger };
	c->header = category(ledger, "pool header", "", FH_OVERHEAD);
	c->tail = category(ledger, "pool tail", "", FH_OVERHEAD);
	c->gap = category(ledger, "unused arena space", "alignment", FH_OVERHEAD);
	c->unused = category(ledger, "unused arena space", "", FH_FREE);
	c->free_pool = category(ledger, "free pool", "", FH_FREE);
	c->damaged_pool = category(ledger, "damaged pool", "", FH_LIVE);
}

/* Categories of a size class, made when the first pool of it is seen. */
static void prepare_class(struct carver *c, uint32_t szidx)
{
	const char *size;

	if (c->live[szidx])
		return;
	size = strings_format(c->ledger->strings, "%" PRIu32 " bytes", (szidx + 1) * c->pm->geometry.alignment);
	if (!size) {
		c->ledger->no_memory = true;
		return;
	}
	c->free[szidx] = category(c->ledger, "free block", size, FH_FREE);
	c->live[szidx] = ledger_category(c->ledger, &(struct category){ .domain = "uncategorized", .kind = size,
									.state = FH_LIVE, .unknown = true });
}

static void note(struct damage *damage, uint64_t address)
{
	if (damage->count++ == 0)
		damage->first = address;
}

/* What a pool's header says, checked. */
struct pool {
	uint64_t address;
	uint32_t szidx, size; /* class and bytes of its blocks */
	uint32_t used;	      /* offset from which on no block was ever given out */
	uint32_t live;	      /* how many are, as it counts */
	uint64_t free;	      /* the first of its list of free blocks */
};

static bool read_pool(const struct carver *c, const struct py_arena *arena, uint64_t address, const uint8_t *bytes,
		      struct pool *ret)
{
	const struct pool_layout *l = &c->pm->layout;
	const struct pool_geometry *g = &c->pm->geometry;

	*ret = (struct pool){
		.address = address,
		.szidx = pool_u32(bytes, l->szidx),
		.used = pool_u32(bytes, l->nextoffset),
		.live = pool_u32(bytes, l->count),
		.free = pool_u64(bytes, l->freeblock),
	};
	if (ret->live == 0)
		return true;
	if (ret->szidx >= 512 / g->alignment || pool_u32(bytes, l->arenaindex) != arena->index)
		return false;
	ret->size = (ret->szidx + 1) * g->alignment;
	return pool_u32(bytes, l->maxnextoffset) == g->pool_size - ret->size && ret->used <= g->pool_size &&
	       ret->used >= l->pool_sizeof && (ret->used - l->pool_sizeof) % ret->size == 0;
}

/* Marks the blocks of the free list; how many there are. The list ends where it leaves the pool, meets a block
 * twice or can't be read. */
static uint32_t mark_free(struct carver *c, const struct pool *pool, const uint8_t *bytes)
{
	uint64_t at = pool->free, offset;
	uint32_t n = 0;

	for (; at; n++) {
		offset = at - pool->address;
		if (offset < c->pm->layout.pool_sizeof || offset >= pool->used || offset % 8 ||
		    c->marks[offset / 8])
			break;
		c->marks[offset / 8] = 1;
		if (bytes)
			memcpy(&at, bytes + offset, sizeof(at));
		else if (!source_u64(c->pm->py->target->source, at, &at))
			at = 1; /* no block: counted as damage below */
	}
	if (at)
		note(&c->lists, pool->address);
	return n;
}

static void carve_blocks(struct carver *c, const struct pool *pool, uint32_t marked)
{
	uint32_t pool_size = c->pm->geometry.pool_size, offset = c->pm->layout.pool_sizeof, live = 0, met = 0;
	category_id ids[2] = { c->live[pool->szidx], c->free[pool->szidx] };

	ledger_carve_add(c->ledger, pool->address, c->header);
	for (; offset < pool->used; offset += pool->size) {
		bool is_free = c->marks[offset / 8];

		ledger_carve_add(c->ledger, pool->address + offset, ids[is_free]);
		met += is_free;
		live += !is_free;
	}
	for (; offset + pool->size <= pool_size; offset += pool->size)
		ledger_carve_add(c->ledger, pool->address + offset, ids[1]);
	if (offset < pool_size)
		ledger_carve_add(c->ledger, pool->address + offset, c->tail);
	if (met != marked) /* some of the list lie inside blocks */
		note(&c->lists, pool->address);
	else if (live != pool->live)
		note(&c->counts, pool->address);
}

static void carve_pool(struct carver *c, const struct py_arena *arena, uint64_t address)
{
	struct source *source = c->pm->py->target->source;
	const uint8_t *bytes = source_get(source, address, c->pm->geometry.pool_size, c->scratch);
	struct pool pool;
	uint32_t marked;

	/* A pool can be readable in part: pages that are swapped out. */
	if ((!bytes && !source_read(source, address, c->scratch, c->pm->layout.pool_sizeof)) ||
	    !read_pool(c, arena, address, bytes ? bytes : c->scratch, &pool)) {
		note(&c->headers, address);
		ledger_carve_add(c->ledger, address, c->damaged_pool);
		return;
	}
	if (pool.live == 0) {
		ledger_carve_add(c->ledger, address, c->free_pool);
		return;
	}
	prepare_class(c, pool.szidx);
	marked = mark_free(c, &pool, bytes);
	carve_blocks(c, &pool, marked);
	if (marked)
		memset(c->marks, 0, sizeof(c->marks));
}

static void carve_arena(struct carver *c, const struct py_arena *arena)
{
	uint64_t pools_end = arena->first_pool + (uint64_t)arena->total_pools * arena->pool_size;

	ledger_carve_begin(c->ledger, arena->start, arena->end);
	if (arena->first_pool > arena->start)
		ledger_carve_add(c->ledger, arena->start, c->gap);
	for (uint64_t pool = arena->first_pool; pool < arena->reached; pool += arena->pool_size)
		carve_pool(c, arena, pool);
	if (arena->reached < pools_end)
		ledger_carve_add(c->ledger, arena->reached, c->unused);
	ledger_carve_add(c->ledger, pools_end, c->gap); /* left out where it is the arena's end */
	ledger_carve_end(c->ledger);
}

/* An arena inside a block of malloc (builds without mmap): what is left of the block around it. */
static void carve_around(struct carver *c, const struct py_arena *arena)
{
	struct block block;

	if (!ledger_find(c->ledger, arena->start, &block) ||
	    !ledger_category_of(c->ledger, block.category)->unknown)
		return;
	if (block.start < arena->start)
		ledger_carve(c->ledger, block.start, arena->start, c->gap);
	if (block.end > arena->end)
		ledger_carve(c->ledger, arena->end, block.end, c->gap);
}

static void tell_damage(struct carver *c)
{
	struct target *target = c->pm->py->target;

	if (c->headers.count)
		target_damaged(target, "pymalloc: %" PRIu32 " pools have no sound header or can't be read, the first "
			       "at 0x%" PRIx64 ": left undivided", c->headers.count, c->headers.first);
	if (c->lists.count)
		target_damaged(target, "pymalloc: %" PRIu32 " lists of free blocks are broken, the first in the pool at "
			       "0x%" PRIx64 ": what they don't reach counts as live", c->lists.count, c->lists.first);
	/* A thread that was stopped inside malloc leaves its pool a block ahead or behind. */
	if (c->counts.count > target->source->threads.len)
		target_damaged(target, "pymalloc: %" PRIu32 " pools count other live blocks than they have, the first "
			       "at 0x%" PRIx64, c->counts.count, c->counts.first);
}

/* ---- together ------------------------------------------------------------------ */

static uint32_t offset(const struct layout *layout, const char *structure, const char *field)
{
	return (uint32_t)layout_offset(layout, structure, field);
}

/* False when this version's layout has no pymalloc. */
static bool load_layout(struct pymalloc *pm)
{
	const struct layout *l = &pm->py->layout;
	const struct layout_fact *pool_size = layout_field(l, "const", "POOL_SIZE");

	pm->layout = (struct pool_layout){
		.pool_sizeof = layout_size(l, "pool_header"),
		.count = offset(l, "pool_header", "ref.count"),
		.freeblock = offset(l, "pool_header", "freeblock"),
		.prevpool = offset(l, "pool_header", "prevpool"),
		.arenaindex = offset(l, "pool_header", "arenaindex"),
		.szidx = offset(l, "pool_header", "szidx"),
		.nextoffset = offset(l, "pool_header", "nextoffset"),
		.maxnextoffset = offset(l, "pool_header", "maxnextoffset"),
		.arena_sizeof = layout_size(l, "arena_object"),
		.address = offset(l, "arena_object", "address"),
		.pool_address = offset(l, "arena_object", "pool_address"),
		.nfreepools = offset(l, "arena_object", "nfreepools"),
		.ntotalpools = offset(l, "arena_object", "ntotalpools"),
	};
	pm->geometry = (struct pool_geometry){ pool_size && pool_size->size == 4096 ? 4096 : POOL_MOST, 16 };
	return pm->layout.pool_sizeof && pm->layout.pool_sizeof <= 64 && pm->layout.arena_sizeof &&
	       pm->layout.arena_sizeof <= 64;
}

struct fh_error *pools_carve(struct cpython *py)
{
	struct pymalloc pm = { .py = py };
	struct fh_error *error;
	struct carver carver;

	if (!load_layout(&pm))
		return NULL;
	error = arenas_find(&pm);
	if (!error)
		arena_maps_name(&pm);
	vec_free(&pm.tables);
	vec_free(&pm.states);
	if (error)
		return error;
	carver_init(&carver, &pm);
	for (size_t i = 0; i < py->arenas.len; i++) {
		carve_around(&carver, &py->arenas.items[i]);
		carve_arena(&carver, &py->arenas.items[i]);
	}
	tell_damage(&carver);
	return NULL;
}
