/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this folder share. The way:
 *
 *	find.c		the main arena by the shape of its bins, which struct layout it has by the ring of arenas
 *	params.c	malloc's parameters (mp_), by what they must agree with
 *	regions.c	the memory of each arena: what brk gave, aligned heaps, mappings in brk's place
 *	free_lists.c	bins and fastbins; tcache.c: the threads' caches. They mark chunks as free
 *	chunks.c	the walk from chunk to chunk that carves; resync.c: where it goes on after damage
 *	mmapped.c	chunks that are mappings of their own
 *
 * A block is a chunk as malloc counts it: from its prev_size word, `size` bytes long; the owner's data
 * begins 16 bytes in (malloc/malloc.c, "malloc_chunk details"). Facts here were measured on the debug
 * information of Debian's 2.31, 2.36, 2.41 and 2.43, or are from malloc/malloc.c and malloc/arena.c.
 */
#ifndef FREEHOLD_ALLOC_GLIBC_INTERNAL_H
#define FREEHOLD_ALLOC_GLIBC_INTERNAL_H

#include "alloc/glibc/glibc.h"
#include "alloc/glibc/marks.h"
#include "base/hashmap.h"

#define CHUNK_HEADER 16u
#define CHUNK_MIN 32u
#define SIZE_BITS UINT64_C(7) /* of a size word: */
#define PREV_INUSE 1u
#define IS_MMAPPED 2u
#define NON_MAIN_ARENA 4u

#define BINS 127u      /* pairs of words: the unsorted bin, 62 small ones, 63 large ones, and one never used */
#define FIRST_LARGE 63 /* index of the first large bin */
#define FASTBINS 10u
#define NONCONTIGUOUS 2u /* in malloc_state.flags */
#define MOST_ARENAS 65536

/* malloc_state from the address of its bins on: the same in all versions. */
#define STATE_TOP (-16) /* top; last_remainder follows */
#define STATE_NEXT 2048 /* ring of arenas */
#define STATE_SYSTEM_MEM 2072
#define STATE_END 2088

/* What differs: where the struct begins, and whether there are fastbins. */
struct state_layout {
	const char *seen_in;
	uint32_t bins;	     /* offset of bins */
	uint32_t flags;	     /* offset of flags */
	bool has_fastbins;   /* from 96 bytes before bins on */
};
#define STATE_FASTBINS (-96)

struct tcache_layout {
	const char *seen_in;
	uint32_t chunk;	  /* least size of the chunk that holds the struct; up to 32 more */
	uint32_t entries; /* offset of the list heads */
	uint32_t small;	  /* lists of one size each, from 32 in steps of 16 */
	uint32_t n;	  /* all lists; those behind the small ones have several sizes each */
};

struct mp_layout {
	const char *seen_in;
	uint32_t n_mmaps, n_mmaps_max, max_n_mmaps; /* 4 bytes each */
	uint32_t mmapped_mem, max_mmapped_mem, sbrk_base;
	uint32_t size;
};

#define TCACHE_CHUNK_LEAST 0x250u /* of all these layouts */
#define TCACHE_CHUNK_MOST 0x320u

extern const struct state_layout state_layouts[];
extern const size_t n_state_layouts;
extern const struct tcache_layout tcache_layouts[];
extern const size_t n_tcache_layouts;
extern const struct mp_layout mp_layouts[];
extern const size_t n_mp_layouts;

struct tcache { /* a tcache_perthread_struct */
	uint64_t data; /* its address */
	const struct tcache_layout *layout;
	int32_t thread; /* tid; -1: none */
};

struct heap { /* a piece of memory that an arena divides into chunks */
	uint64_t start, first_chunk, end;
	uint64_t reserved_end; /* of the address space around it; 0: none */
	uint32_t arena;	       /* number */
};

struct arena {
	uint64_t state, bins; /* addresses */
	uint64_t top;	      /* chunk; 0: none */
	uint64_t top_end;     /* where its size says that it ends; 0: it can't be right */
	uint32_t flags;
	bool main;
	struct alloc_arena figures;
};

/* How much was wrong, so that a heap of damage is not a heap of messages. */
struct complaints {
	uint32_t chunks, lists, heaps;
	uint64_t unreadable, unreadable_at; /* bytes, first address */
};
#define MOST_COMPLAINTS 16

/* One libc in the process; there can be several. */
struct glibc {
	struct target *target;
	const struct image *image;	 /* NULL: found without */
	uint64_t data_start, data_end;	 /* the writable data that the main arena was found in */
	const struct state_layout *layout;
	VEC(struct arena) arenas;	 /* by number: the main one first */
	VEC(struct heap) heaps;		 /* of all arenas, sorted by address, disjoint */
	struct marks *marks;		 /* chunks that lists hold, of all libcs */
	VEC(struct alloc_bin) bins;
	VEC(struct tcache) tcaches;	 /* sorted by address */
	VEC(uint64_t) maybe_tcaches;	 /* live chunks that may be one that no thread has any more */
	bool mangled;			 /* links are xored with their address (safe-linking) */
	uint64_t tcache_key;		 /* what marks a chunk in a tcache; 0: the tcache's address, or not known */
	uint64_t mp;			 /* address of mp_; 0: not found */
	const struct mp_layout *mp_layout;
	const char *version;		 /* "2.36", or NULL */
	bool busy;			 /* a thread was inside malloc when it was stopped */
	struct complaints complaints;
	category_id small_live[1024];	 /* by size / 16; 0: not asked for yet */
	struct hashmap large_live;	 /* size -> category */
	category_id small_free[MARK_KINDS + 1][128];
	uint32_t left_steps;		 /* for checking caches that may be left behind */
	category_id top, arena, tcache, fencepost, alignment, heap_alignment, reserved, hole, foreign;
};

/* find.c: appends every libc whose main arena is found. */
typedef VEC(struct glibc *) glibc_list;
struct fh_error *glibc_find(struct target *target, struct marks *marks, glibc_list *list);
void glibc_destroy(struct glibc *glibc);

/* params.c: sets mp, if it is found. */
void params_find(struct glibc *glibc, uint64_t main_state);
/* What mp_ says: number and bytes of mmapped chunks, where brk's memory began (0: not known). */
bool params_mmapped(const struct glibc *glibc, uint64_t *ret_count, uint64_t *ret_bytes);
uint64_t params_sbrk_base(const struct glibc *glibc);

/* regions.c: fills in arenas and heaps. */
struct fh_error *regions_find(struct glibc *glibc, uint64_t main_state);
/* The heap that holds an address, or NULL. */
const struct heap *regions_heap_at(const struct glibc *glibc, uint64_t address);

/* free_lists.c: marks the members of every list. */
struct fh_error *free_lists_walk(struct glibc *glibc);
/* Reads a chunk that a list leads to; false when it can't be one. *ret_size is its size word without flags,
 * *ret_extent what it takes in memory (more, for some that are mappings of their own). */
bool free_lists_chunk(const struct glibc *glibc, uint64_t chunk, uint64_t *ret_size, uint64_t *ret_extent);
/* A list that is linked in one direction. */
struct single_list {
	enum mark_kind kind;
	uint64_t first;    /* chunk, or 0 */
	uint64_t expected; /* size that all must have; 0: any */
	bool data_links;   /* links lead to the data, not to the chunk */
	uint32_t arena;
	int32_t thread;
	uint64_t count, bytes; /* result */
};
/* Marks its chunks and keeps a bin for each size in it. */
struct fh_error *free_lists_single(struct glibc *glibc, struct single_list *list);
void free_lists_complain(struct glibc *glibc, const char *name, uint64_t at);
/* The chunk that a chunk's link leads to, or 0 at the end; false when it can't be read. */
bool free_lists_next(const struct glibc *glibc, uint64_t chunk, bool data_links, uint64_t *ret);

/* tcache.c: finds the caches of all threads; votes on how the links in them are stored. */
struct fh_error *tcache_find(struct glibc *glibc, int *votes);
struct fh_error *tcache_walk(struct glibc *glibc);
/* A vote on how the link at an address is stored: up for mangled, down for plain. */
void tcache_vote_link(const struct glibc *glibc, uint64_t address, int *votes);
bool tcache_is_known(const struct glibc *glibc, uint64_t data);
/* Whether a live chunk may hold a tcache that belongs to no thread any more; cheap. */
bool tcache_may_be(const struct glibc *glibc, uint64_t chunk, uint64_t size);
/* When all is carved: the caches of threads that a fork left behind, and others that no TLS led to. */
struct fh_error *tcache_name_left_behind(struct glibc *glibc);

/* chunks.c: carves the heaps of all arenas. */
struct fh_error *chunks_carve(struct glibc *glibc);

/* resync.c: the first place in [from, limit) from which a chain of sound chunks leads on, or `limit`. A chain
 * must not step over `limit`. */
uint64_t resync(struct glibc *glibc, const struct heap *heap, uint64_t from, uint64_t limit);
/* Whether the chunks from `chunk` on, by their sizes, arrive exactly at `goal`, or are a long chain on the way there. */
bool resync_arrives(struct glibc *glibc, const struct heap *heap, uint64_t chunk, uint64_t goal);

/* mmapped.c: carves chunks that are mappings of their own, of all libcs together. */
struct fh_error *mmapped_carve(struct target *target, const glibc_list *list);
/* getrandom.c: names the states of vgetrandom and the list of them. */
struct fh_error *getrandom_carve(struct target *target);

/* categories.c */
void categories_init(struct glibc *glibc);
category_id categories_live(struct glibc *glibc, uint64_t size);
category_id categories_free(struct glibc *glibc, enum mark_kind kind, uint64_t size);
/* "tcache 64", in the target's string pool; never NULL. */
const char *categories_list_name(const struct glibc *glibc, enum mark_kind kind, uint64_t size);

/* A size word that a chunk of this heap can have, when it must end at `end` or before. */
static inline bool chunk_is_sound(uint64_t chunk, uint64_t word, uint64_t end)
{
	uint64_t size = word & ~SIZE_BITS;

	return size >= CHUNK_MIN && !(word & (8 | IS_MMAPPED)) && size <= end - chunk;
}

#endif
