/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of addresses as ascending, disjoint ranges: the resident pages of a
 * target, the swapped ones.
 */
#ifndef FREEHOLD_BASE_RANGES_H
#define FREEHOLD_BASE_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"

struct range {
	uint64_t start, end;
};

struct ranges {
	VEC(struct range) v;
};

/* Appends a range that starts at or after the end of the last; joins touching ones. */
bool ranges_append(struct ranges *set, uint64_t start, uint64_t end);
/* Bytes of the set inside [start, end). */
uint64_t ranges_count(const struct ranges *set, uint64_t start, uint64_t end);
/* The same for ascending, disjoint questions in a row: *cursor starts at 0. */
uint64_t ranges_count_next(const struct ranges *set, size_t *cursor, uint64_t start, uint64_t end);
void ranges_deinit(struct ranges *set);

#endif
