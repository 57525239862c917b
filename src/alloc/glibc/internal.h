/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this folder share. The way: find.c finds the main arena by the ring of its bins
 * and the others by the ring of arenas; free_lists.c walks every list of free chunks; chunks.c walks the
 * chunks of each heap and carves them; mmapped.c does so for chunks that are mappings of their own.
 *
 * A block is a chunk as malloc counts it: from its prev_size word, `size` bytes long; the owner's data
 * begins 16 bytes in (glibc malloc/malloc.c, "Vital statistics").
 */
#ifndef FREEHOLD_ALLOC_GLIBC_INTERNAL_H
#define FREEHOLD_ALLOC_GLIBC_INTERNAL_H

#include "alloc/glibc/glibc.h"

#define CHUNK_HEADER 16u
#define CHUNK_MIN 32u
#define SIZE_BITS UINT64_C(7) /* PREV_INUSE, IS_MMAPPED, NON_MAIN_ARENA */
#define PREV_INUSE 1u
#define IS_MMAPPED 2u

/* malloc_state, from the address B of its bins: these fields lie alike in 2.23 to 2.43
 * (malloc/malloc.c; measured from debug information of 2.31, 2.36, 2.41 and 2.43). */
#define BINS 127u		 /* pairs of words, from the unsorted bin on */
#define STATE_TOP (-16)		 /* top; last_remainder follows */
#define STATE_NEXT 2048		 /* ring of arenas */
#define STATE_SYSTEM_MEM 2072
#define STATE_END 2088

/* Where the struct begins differs, and whether there are fastbins. */
struct state_layout {
	const char *seen_in;
	uint32_t bins;	 /* offset of bins */
	uint32_t flags;	 /* offset of flags */
	int32_t fastbins; /* relative to bins; 0: none */
};

struct tcache_layout {
	const char *seen_in;
	uint32_t chunk;	  /* size of the chunk that holds the struct */
	uint32_t entries; /* offset of the list heads */
	uint32_t n;	  /* how many */
};

struct mp_layout {
	const char *seen_in;
	uint32_t n_mmaps, n_mmaps_max, mmapped_mem, sbrk_base;
};

extern const struct state_layout state_layouts[];
extern const size_t n_state_layouts;
extern const struct tcache_layout tcache_layouts[];
extern const size_t n_tcache_layouts;
extern const struct mp_layout mp_layouts[];
extern const size_t n_mp_layouts;

struct heap { /* of an arena that is not the main one */
	uint64_t start, first_chunk, end, reserved_end;
};

struct arena {
	uint64_t state, bins; /* addresses */
	uint64_t top, system_mem;
	bool main;
	VEC(struct heap) heaps; /* main: the regions that it got by sbrk or in its place */
	struct alloc_arena figures;
};

struct free_chunk {
	uint64_t address;
	category_id category;
};


/* One libc in the process; there can be several. */
struct glibc {
	struct target *target;
	const struct image *image;
	const struct state_layout *layout;
	VEC(struct arena) arenas; /* the main one first */
	VEC(struct free_chunk) free_chunks; /* sorted by address once all are listed */
	VEC(struct alloc_bin) bins;
	VEC(uint64_t) tcaches; /* chunks that hold a tcache_perthread_struct, sorted */
	bool mangled;	       /* links are xored with their address (safe-linking, 2.32) */
	uint64_t mp;	       /* address of mp_; 0: not found */
	const struct mp_layout *mp_layout;
	uint32_t heap_info;    /* bytes: 32 or 48; 0: no such heap seen */
	uint64_t heap_max;
	const char *version;   /* "2.36", or NULL */
	category_id live[1024]; /* by size / 16; 0: not asked for yet */
	category_id top, arena, tcache, header, reserved, corrupt, unlisted;
};

/* find.c: appends every libc whose main arena is found. */
typedef VEC(struct glibc *) glibc_list;
struct fh_error *glibc_find(struct target *target, glibc_list *list);
void glibc_destroy(struct glibc *glibc);

/* free_lists.c */
struct fh_error *free_lists_walk(struct glibc *glibc);
/* chunks.c: carves the heaps of all arenas. */
struct fh_error *chunks_carve(struct glibc *glibc);
category_id chunks_live_category(struct glibc *glibc, uint64_t size);
/* mmapped.c: carves chunks that are mappings of their own, of all libcs together. */
struct fh_error *mmapped_carve(struct target *target, const glibc_list *list);

static inline bool in_heaps(const struct glibc *glibc, uint64_t address)
{
	for (size_t i = 0; i < glibc->arenas.len; i++)
		for (size_t k = 0; k < glibc->arenas.items[i].heaps.len; k++)
			if (address >= glibc->arenas.items[i].heaps.items[k].start &&
			    address < glibc->arenas.items[i].heaps.items[k].end)
				return true;
	return false;
}

#endif
