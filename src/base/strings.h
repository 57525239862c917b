/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool of distinct strings. An equal string is stored once, so equality of
 * ids (and of pointers) is equality of strings. Pointers stay valid as long
 * as the pool.
 */
#ifndef FREEHOLD_BASE_STRINGS_H
#define FREEHOLD_BASE_STRINGS_H

#include <stddef.h>
#include <stdint.h>

struct strings;

struct strings *strings_create(void);
void strings_destroy(struct strings *pool);
/* The pool's copy of the string; NULL when memory is out. */
const char *strings_add(struct strings *pool, const char *string);
const char *strings_add_len(struct strings *pool, const char *bytes, size_t len);
/* printf into the pool; results are cut at 4095 bytes. */
const char *strings_format(struct strings *pool, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
