/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runtimes: language implementations whose objects we know. Each is one const table of hooks in a
 * folder of its own, and a line in runtime.c. They see the blocks that allocators carved, not the
 * allocators: a live block that nobody named has `unknown` set in its category, and its owner's data
 * begins `head` bytes after its start.
 */
#ifndef FREEHOLD_RUNTIME_RUNTIME_H
#define FREEHOLD_RUNTIME_RUNTIME_H

#include "layout/target.h"

/* A fact about one block, in words, for `show`. Both strings are only valid during the call. Values are in the
 * language's own notation, with its escapes. */
typedef bool runtime_field_visitor(void *context, const char *name, const char *value);

struct runtime {
	const char *name;  /* "cpython" */
	const char *title; /* one line for help and documentation */
	/* Looks for instances. *ret_state stays NULL when there are none. */
	struct fh_error *(*probe)(struct target *target, void **ret_state);
	/* "cpython 3.11.2", into the target's string pool. */
	const char *(*describe)(struct target *target, void *state);
	/* Divides mappings and blocks that the runtime's own allocators manage (pymalloc). */
	struct fh_error *(*carve)(struct target *target, void *state);
	/* Names blocks: objects, then the buffers that they own. */
	struct fh_error *(*classify)(struct target *target, void *state);
	/* Says in words what the block is: type, value shortened, length, refcount. The address is one in it, which
	 * tells what is meant where a block holds many things. May be NULL. */
	void (*show)(struct target *target, void *state, const struct block *block, uint64_t address,
		     runtime_field_visitor *visit, void *context);
	void (*destroy)(void *state);
};

/* NULL-terminated. */
extern const struct runtime *const runtimes[];

#endif
