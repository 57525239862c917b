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

/* What a query can ask of a value beyond its category. Strings belong to the target's pool. */
struct runtime_value {
	int64_t refcount, interpreter; /* -1: none */
	const char *package, *flags, *magic; /* NULL: none; flags are words with a space between them */
};

/*
 * A reference that a block holds, or that a root is. Those of a value are told with the value's own block, whatever
 * block of its memory the address lies in; only memory that several values share, like an op, has references of its
 * own.
 */
struct runtime_ref {
	uint64_t target;  /* an address in the block that is referred to; not checked to be one */
	const char *name; /* as a programmer writes it: "{key}", "[3]", "$x in pad of main::f"; only valid during the
			   * call, and NULL unless names were asked for */
	bool weak;        /* keeps nothing alive */
	bool part;        /* memory of the value itself, a table or a buffer: no step that a programmer would write */
	bool guess;       /* a word that looks like an address, in memory whose structure is not known */
};

/* Returns false to hear no more. */
typedef bool runtime_ref_visitor(void *context, const struct runtime_ref *ref);

struct runtime {
	const char *name;  /* "cpython" */
	const char *title; /* one line for help and documentation */
	/* Looks for instances. *ret_state stays NULL when there are none. */
	struct fh_error *(*probe)(struct target *target, void **ret_state);
	/* "cpython 3.11.2", into the target's string pool. */
	const char *(*describe)(struct target *target, void *state);
	/* Divides mappings and blocks that the runtime's own allocators manage (pymalloc). */
	struct fh_error *(*carve)(struct target *target, void *state);
	/* Names blocks: objects, then the buffers that they own. NULL: all got its name as it was carved. */
	struct fh_error *(*classify)(struct target *target, void *state);
	/* Says in words what the block is: type, value shortened, length, refcount. The address is one in it, which
	 * tells what is meant where a block holds many things. May be NULL. */
	void (*show)(struct target *target, void *state, const struct block *block, uint64_t address,
		     runtime_field_visitor *visit, void *context);
	/* False when the block holds no value of this runtime's. May be NULL. */
	bool (*value)(struct target *target, void *state, const struct block *block, struct runtime_value *ret);
	/* Tells every reference of one block; none when it is not the runtime's. Names cost time, so only when they are
	 * asked for. May be NULL. */
	void (*refs)(struct target *target, void *state, const struct block *block, bool named,
		     runtime_ref_visitor *visit, void *context);
	/* Tells what the runtime itself refers to: its variables, its stacks. Always named. May be NULL. */
	void (*roots)(struct target *target, void *state, runtime_ref_visitor *visit, void *context);
	void (*destroy)(void *state);
};

/* NULL-terminated. */
extern const struct runtime *const runtimes[];

#endif
