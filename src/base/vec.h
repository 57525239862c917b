/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing array: VEC(struct thing) things = {0}; zero is empty. Growth is
 * by half, through realloc, which moves large arrays by remapping: no copy,
 * and pages that were not yet written cost nothing.
 */
#ifndef FREEHOLD_BASE_VEC_H
#define FREEHOLD_BASE_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#define VEC(type)                                                              \
	struct {                                                               \
		type *items;                                                   \
		size_t len, cap;                                               \
	}

/* Room for `want` items in all; false when memory is out, the array then is as it was. */
static inline bool vec_grow_(void **items, size_t *cap, size_t want, size_t size)
{
	size_t bytes, n = *cap + *cap / 2;
	void *grown;

	if (want <= *cap)
		return true;
	if (n < want)
		n = want;
	if (n < 8)
		n = 8;
	if (__builtin_mul_overflow(n, size, &bytes))
		return false;
	grown = realloc(*items, bytes);
	if (!grown)
		return false;
	*items = grown;
	*cap = n;
	return true;
}

#define vec_reserve(vec, want)                                                 \
	vec_grow_((void **)&(vec)->items, &(vec)->cap, (want), sizeof(*(vec)->items))

/* Appends a copy of the value; false when memory is out. */
#define vec_push(vec, ...)                                                     \
	(vec_reserve((vec), (vec)->len + 1) &&                                 \
	 ((vec)->items[(vec)->len++] = (__VA_ARGS__), true))

#define vec_last(vec) (&(vec)->items[(vec)->len - 1])

/* Index of the first item whose member is above a value, where they ascend by it; n where none is. With `.end` of
 * ranges: the first that ends after an address. */
#define items_after(items, n, member, value)                                   \
	({                                                                     \
		__typeof__((items)[0]member) value_ = (value);                 \
		size_t low_ = 0, high_ = (n);                                  \
									       \
		while (low_ < high_) {                                         \
			size_t mid_ = low_ + (high_ - low_) / 2;               \
									       \
			if ((items)[mid_] member <= value_)                    \
				low_ = mid_ + 1;                               \
			else                                                   \
				high_ = mid_;                                  \
		}                                                              \
		low_;                                                          \
	})
#define vec_after(vec, member, value) items_after((vec)->items, (vec)->len, member, value)

#define vec_free(vec)                                                          \
	do {                                                                   \
		free((vec)->items);                                            \
		(vec)->items = NULL;                                           \
		(vec)->len = (vec)->cap = 0;                                   \
	} while (0)

#endif
