/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocators: code of the target that divides mappings into blocks. Each is one const table of hooks
 * in a folder of its own, and a line in alloc.c. The census calls probe, then carve; a commit of the
 * ledger follows. An allocator that isn't there says so by leaving *ret_state NULL.
 */
#ifndef FREEHOLD_ALLOC_ALLOC_H
#define FREEHOLD_ALLOC_ALLOC_H

#include "layout/target.h"

struct alloc_arena {
	const char *allocator;
	uint64_t address;	      /* of its management structure */
	uint32_t number;	      /* 0 is the main one */
	uint64_t system_bytes;	      /* got from the operating system */
	uint64_t top_bytes;	      /* at its end, never given out */
	uint64_t free_bytes, free_blocks; /* in lists, without top */
	uint64_t fast_bytes, fast_blocks; /* those in fastbins, in no free_bytes */
};

struct alloc_bin {
	const char *allocator, *name; /* "fast 32", "tcache 64", "small 128", "large", "unsorted" */
	uint32_t arena;		      /* number; UINT32_MAX: none (tcache) */
	int32_t thread;		      /* tid of the owner; -1: none or not known */
	uint64_t count, bytes;
};

struct allocator {
	const char *name;  /* "glibc" */
	const char *title; /* one line for help and documentation */
	/* Looks for instances. *ret_state stays NULL when there are none. */
	struct fh_error *(*probe)(struct target *target, void **ret_state);
	/* "glibc 2.36", into the target's string pool; NULL when nothing can be said. */
	const char *(*describe)(struct target *target, void *state);
	/* Carves into the ledger all that it can walk; live blocks are `unknown`. */
	struct fh_error *(*carve)(struct target *target, void *state);
	/* A line for each arena or heap, and for each list of free blocks: for the tables `arena` and
	 * `bin`. May be NULL. */
	void (*each_arena)(struct target *target, void *state,
			   void (*visit)(void *context, const struct alloc_arena *arena), void *context);
	void (*each_bin)(struct target *target, void *state,
			 void (*visit)(void *context, const struct alloc_bin *bin), void *context);
	void (*destroy)(void *state);
};

/* NULL-terminated, in the order in which they are tried. */
extern const struct allocator *const allocators[];

#endif
