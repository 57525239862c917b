/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPython's allocator for requests of up to 512 bytes (Objects/obmalloc.c). It takes arenas from the operating
 * system, divides each into pools, and each pool into blocks of one size class. An array of arena_objects, which
 * malloc holds, knows the arenas; up to 3.11 static variables point at it, since 3.12 it is a member of
 * _obmalloc_state, of which each interpreter with a heap of its own has one.
 */
#ifndef FREEHOLD_RUNTIME_CPYTHON_PYMALLOC_H
#define FREEHOLD_RUNTIME_CPYTHON_PYMALLOC_H

#include "runtime/cpython/internal.h"

/* Offsets in pool_header and arena_object, from the layout. */
struct pool_layout {
	uint32_t pool_sizeof, count, freeblock, prevpool, arenaindex, szidx, nextoffset, maxnextoffset;
	uint32_t arena_sizeof, address, pool_address, nfreepools, ntotalpools;
};

/* How large things are. Builds differ, so every pool has a vote: its header tells both. */
struct pool_geometry {
	uint32_t pool_size, alignment;
};

#define POOL_MOST 16384u       /* bytes; the largest pool of any build */
#define ARENAS_MOST (1u << 20)	 /* entries of one array that are looked at */
#define ENTRIES_MOST (4u << 20)	 /* of all arrays */
#define ENTRIES_TRIED (2u << 20) /* from then on nothing is tried that doesn't begin with an arena */
#define POOL_MOST_CLASSES 64u  /* 512 / 8 */

struct pymalloc {
	struct cpython *py;
	struct pool_layout layout;
	struct pool_geometry geometry; /* the table's, until the pools have voted */
	uint32_t votes[2][2];	       /* by pool size (16384, 4096) and alignment (16, 8) */
	VEC(uint64_t) states; /* addresses of _obmalloc_state */
	VEC(uint64_t) tables; /* addresses of arrays of arena_objects */
	uint32_t entries;     /* that were looked at */
	uint64_t refused[1024]; /* addresses where no array begins, by their last bits */
	bool no_memory;
};

static inline uint32_t pool_u32(const uint8_t *header, uint32_t offset)
{
	uint32_t value;

	__builtin_memcpy(&value, header + offset, sizeof(value));
	return value;
}

static inline uint64_t pool_u64(const uint8_t *header, uint32_t offset)
{
	uint64_t value;

	__builtin_memcpy(&value, header + offset, sizeof(value));
	return value;
}

/* arenas.c: fills py->arenas and the geometry; none are found where pymalloc isn't used. */
struct fh_error *arenas_find(struct pymalloc *pymalloc);
/* arena_tables.c: the arrays of arena_objects of this CPython, which it hands to arenas_add_table(). */
struct fh_error *arena_tables_find(struct pymalloc *pymalloc);
/* arenas.c: takes the arenas of the array that the entry at an address belongs to; false when it is none. */
bool arenas_add_table(struct pymalloc *pymalloc, uint64_t entry, uint64_t *ret_table);
/* arena_maps.c: names the tables by which pymalloc knows its own addresses. */
void arena_maps_name(struct pymalloc *pymalloc);

#endif
