/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Struct layouts at run time. The facts are lines of layouts/<runtime>.def, made from debug
 * information, with their provenance. A runtime asks whether a field is there, never
 * whether a version is newer, and checks a layout on the target before it is used.
 */
#ifndef FREEHOLD_LAYOUT_LAYOUT_H
#define FREEHOLD_LAYOUT_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The names are arrays, as tens of thousands of pointers would have to be relocated at every start. */
struct layout_fact {
	char runtime[8], version[8], flavour[16]; /* "cpython", "3.11", "gil" */
	char structure[24], field[52];		  /* "PyDictObject", "ma_keys"; field "sizeof" is its size */
	uint32_t offset, size;			 /* bytes */
	uint8_t first_bit, bits;		 /* bits 0: no bit field */
};

/* A set of facts for one version and flavour: a slice of the table. */
struct layout {
	const struct layout_fact *facts;
	size_t len;
};

/* The facts of a runtime's version; false when the table has none. */
bool layout_find(const char *runtime, const char *version, const char *flavour, struct layout *ret);
/* Every version and flavour of a runtime that the table has, in its order: from a zeroed layout to the first, and from
 * each to the next; false at the end. */
bool layout_next(const char *runtime, struct layout *layout);

/* The facts of one structure, which lie together: a slice of the layout's; of length 0 when it has none. */
struct layout layout_structure(const struct layout *layout, const char *structure);
/* A field's fact, or NULL when the structure doesn't have it. */
const struct layout_fact *layout_field(const struct layout *layout, const char *structure, const char *field);
/* Its offset, or -1. */
int layout_offset(const struct layout *layout, const char *structure, const char *field);
/* Size of a structure in bytes, or 0 when not known. */
uint32_t layout_size(const struct layout *layout, const char *structure);

#endif
