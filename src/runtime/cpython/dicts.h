/* SPDX-License-Identifier: Apache-2.0 */
/* Reading dictionaries and strings of the target, in all their layouts. */
#ifndef FREEHOLD_RUNTIME_CPYTHON_DICTS_H
#define FREEHOLD_RUNTIME_CPYTHON_DICTS_H

#include "runtime/cpython/internal.h"

/* Where a dictionary keeps its entries. */
struct py_dict {
	uint64_t used;		/* how many items */
	uint64_t keys;		/* of the keys object (2.7: the table); 0: inside the object */
	uint64_t entries;	/* first entry */
	uint64_t n;		/* entries to look at */
	uint32_t stride, key;	/* bytes an entry, offset of its key; the value follows */
	uint64_t values;	/* split: array of values; else 0 */
	uint64_t keys_bytes;	/* size of the keys object by its own fields; 0: not known */
};

bool dict_open(struct cpython *py, uint64_t address, struct py_dict *ret);
/* A keys object of 3.11 or later with values that no dictionary has. */
bool dict_open_split(struct cpython *py, uint64_t keys, uint64_t values, struct py_dict *ret);
/* Entry i: *ret_key is 0 where there is none. False: unreadable. */
bool dict_entry(struct cpython *py, const struct py_dict *dict, uint64_t i, uint64_t *ret_key, uint64_t *ret_value);
/* The value under a key that is a plain ASCII string; 0 when there is none. */
uint64_t dict_lookup(struct cpython *py, uint64_t address, const char *key);

/* A code point as UTF-8; returns how many bytes. */
size_t utf8_put(uint32_t c, char out[4]);

/* Where a str (2.7: str or unicode) object has its text: `length` units of 1, 2 or 4 bytes. */
struct py_units {
	uint64_t address, length;
	unsigned width;
};
bool py_units(struct cpython *py, uint64_t address, struct py_units *ret);
/* The text of a str (2.7: str or unicode) object as UTF-8, cut to fit; false when it is none. */
bool py_string(struct cpython *py, uint64_t address, char *buffer, size_t size);

#endif
