/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One object in words: what a Python programmer would want to know of it. Bounded, and elements of containers and
 * attributes are shown one level deep, so that nothing depends on how the target's data is nested. Values are in
 * Python's own notation, as repr() has them, so that one notation is right in text, JSON and CSV: whoever prints
 * them keeps their backslashes, and escapes what else must not reach a terminal.
 */
#ifndef FREEHOLD_RUNTIME_CPYTHON_SHOW_H
#define FREEHOLD_RUNTIME_CPYTHON_SHOW_H

#include "runtime/cpython/instances.h"

/* Text that is put together; what has no room is left out, with all that comes after it, and dots are there. */
struct words {
	char bytes[4096];
	size_t len;
	bool full;
};

void words_add(struct words *words, const char *piece);
void words_format(struct words *words, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The type of the object at an address, or -1. */
int value_type(struct cpython *py, uint64_t address);
/* The number of elements, characters or bytes; false where the type has none. */
bool value_length(struct cpython *py, uint64_t address, uint64_t *ret);
/* Without looking into it: constants, numbers, at most `most` characters of text; else the type and where it is. */
void value_brief(struct cpython *py, uint64_t address, size_t most, struct words *words);
/* Also the first elements of what has some, each in brief. False: there is nothing to say but the type. */
bool value_words(struct cpython *py, uint64_t address, struct words *words);

/* An attribute as it is reached: ".name", or "['a b']" where it is no identifier. */
struct attribute {
	char name[96];
	uint64_t value;
};

#define MOST_ATTRIBUTES 24 /* that are shown */

struct attributes {
	struct attribute items[MOST_ATTRIBUTES];
	size_t n;
	uint64_t total; /* with those that have no room here */
};

/* What tp_members of the type and its bases describe: __slots__, and the object members of types made in C. */
void attributes_of_slots(struct cpython *py, const struct py_object *object, struct attributes *attributes);
/* What is in its dictionary, or among its values. */
void attributes_of_instance(struct cpython *py, uint32_t type, const struct py_instance *instance,
			    struct attributes *attributes);

#endif
