/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carving arenas into pools and pools into blocks (Objects/obmalloc.c; pool_header measured, the same from 2.7
 * to 3.15). A block is live when it lies below nextoffset and is not on the pool's list of freed blocks; as a
 * check, ref.count says how many are.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/cpython/internal.h"

#define POOL_OVERHEAD 48u
#define MOST_BLOCKS 2048u /* 16384 / 8 */
#define CLASSES 64u

struct pool_header {
	uint32_t count, pad;
	uint64_t freeblock, nextpool, prevpool;
	uint32_t arenaindex, szidx, nextoffset, maxnextoffset;
};

_Static_assert(sizeof(struct pool_header) == POOL_OVERHEAD, "as in the target");

struct carver {
	struct cpython *py;
	uint32_t alignment;
	category_id live[CLASSES + 1], freed[CLASSES + 1], header, tail, free_pool, unused;
	uint64_t odd_pools, first_odd; /* whose count is not what their list says */
};

static void make_categories(struct carver *carver)
{
	struct ledger *ledger = carver->py->target->ledger;

#define CATEGORY(...) ledger_category(ledger, &(struct category){ .domain = "pymalloc", __VA_ARGS__ })
	carver->header = CATEGORY(.kind = "pool header", .state = FH_OVERHEAD);
	carver->tail = CATEGORY(.kind = "pool tail", .state = FH_OVERHEAD);
	carver->free_pool = CATEGORY(.kind = "free pool", .state = FH_FREE);
	carver->unused = CATEGORY(.kind = "unused arena space", .state = FH_FREE);
	for (uint32_t i = 0; i < CLASSES; i++) {
		char size[32];

		snprintf(size, sizeof(size), "%u bytes", (i + 1) * carver->alignment);
		carver->freed[i] = CATEGORY(.kind = "free block", .detail = size, .state = FH_FREE);
		carver->live[i] = ledger_category(ledger, &(struct category){ .domain = "uncategorized", .kind = size,
									      .state = FH_LIVE, .unknown = true });
	}
#undef CATEGORY
}

/* Every initialised pool votes: POOL_SIZE - maxnextoffset is its block size (set by init_pool). */
static uint32_t vote_alignment(struct cpython *py)
{
	uint64_t size = (uint64_t)py->o.pool_size, eight = 0, sixteen = 0;

	for (size_t a = 0; a < py->arenas.len && eight + sixteen < 1000; a++)
		for (uint64_t at = py->arenas.items[a].start; at < py->arenas.items[a].pool_address; at += size) {
			struct pool_header h;
			uint64_t block;

			if (!source_read(py->target->source, at, &h, sizeof(h)) || h.szidx >= CLASSES || !h.count)
				continue;
			block = size - h.maxnextoffset;
			eight += block == (h.szidx + 1) * UINT64_C(8);
			sixteen += block == (h.szidx + 1) * UINT64_C(16);
		}
	return eight > sixteen ? 8 : 16;
}

/* Marks the blocks of the free list in a bitmap; false when the list is not sound. */
static bool mark_free(const struct pool_header *h, const uint8_t *pool, uint64_t address, uint32_t block,
		      uint64_t bitmap[MOST_BLOCKS / 64])
{
	uint64_t at = h->freeblock;

	for (unsigned steps = 0; at; steps++) {
		uint64_t offset = at - address, index = (offset - POOL_OVERHEAD) / block;

		if (steps >= MOST_BLOCKS || offset < POOL_OVERHEAD || offset >= h->nextoffset ||
		    (offset - POOL_OVERHEAD) % block || bitmap[index / 64] >> index % 64 & 1)
			return false;
		bitmap[index / 64] |= UINT64_C(1) << index % 64;
		at = word_at(pool, offset);
	}
	return true;
}

static void carve_pool(struct carver *carver, uint64_t address, const uint8_t *pool)
{
	struct ledger *ledger = carver->py->target->ledger;
	uint64_t bitmap[MOST_BLOCKS / 64] = { 0 };
	uint32_t size = (uint32_t)carver->py->o.pool_size, block, live = 0;
	struct pool_header h;

	memcpy(&h, pool, sizeof(h));
	if (h.count == 0) {
		ledger_carve_add(ledger, address, carver->free_pool);
		return;
	}
	block = (h.szidx + 1) * carver->alignment;
	if (h.szidx >= CLASSES || block > 512 || h.nextoffset > size || h.nextoffset < POOL_OVERHEAD) {
		target_damaged(carver->py->target, "pymalloc: the pool at 0x%" PRIx64 " has no sound header", address);
		ledger_carve_add(ledger, address, 0);
		return;
	}
	ledger_carve_add(ledger, address, carver->header);
	mark_free(&h, pool, address, block, bitmap);
	for (uint32_t i = 0, at = POOL_OVERHEAD; at + block <= size; i++, at += block) {
		bool is_free = at >= h.nextoffset || bitmap[i / 64] >> i % 64 & 1;

		live += !is_free;
		ledger_carve_add(ledger, address + at, is_free ? carver->freed[h.szidx] : carver->live[h.szidx]);
	}
	if ((size - POOL_OVERHEAD) % block)
		ledger_carve_add(ledger, address + size - (size - POOL_OVERHEAD) % block, carver->tail);
	if (live != h.count && carver->odd_pools++ == 0)
		carver->first_odd = address;
}

static void carve_arena(struct carver *carver, const struct py_arena *arena)
{
	struct target *target = carver->py->target;
	uint32_t size = (uint32_t)carver->py->o.pool_size;
	uint8_t scratch[16384];

	ledger_carve_begin(target->ledger, arena->base, arena->base_end);
	if (arena->start > arena->base)
		ledger_carve_add(target->ledger, arena->base, carver->unused);
	for (uint64_t at = arena->start; at < arena->end; at += size) {
		const uint8_t *pool;

		if (at >= arena->pool_address) {
			ledger_carve_add(target->ledger, at, carver->unused);
			break;
		}
		pool = size <= sizeof(scratch) ? source_get(target->source, at, size, scratch) : NULL;
		if (pool)
			carve_pool(carver, at, pool);
		else /* swapped out, or missing in a truncated core */
			ledger_carve_add(target->ledger, at, 0);
	}
	if (arena->end < arena->base_end && arena->pool_address >= arena->end)
		ledger_carve_add(target->ledger, arena->end, carver->unused);
	ledger_carve_end(target->ledger);
}

struct fh_error *pools_carve(struct cpython *py)
{
	struct carver carver = { .py = py };

	if (!py->arenas.len)
		return NULL;
	carver.alignment = vote_alignment(py);
	make_categories(&carver);
	for (size_t i = 0; i < py->arenas.len; i++)
		carve_arena(&carver, &py->arenas.items[i]);
	if (carver.odd_pools)
		source_warn(py->target->source,
			    "pymalloc: in %" PRIu64 " pools the count is not what the free list says, the first at 0x%" PRIx64,
			    carver.odd_pools, carver.first_odd);
	return ledger_commit(py->target->ledger);
}
