/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which chunks are in lists of free chunks, and in what kind of list: a bit for each 16 bytes of heap and
 * kind, allocated for each MiB and kind where there are any. So it costs at most 3 % of a heap, and setting,
 * asking and going on to the next are all cheap.
 */
#ifndef FREEHOLD_ALLOC_GLIBC_MARKS_H
#define FREEHOLD_ALLOC_GLIBC_MARKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hashmap.h"
#include "base/vec.h"

enum mark_kind {
	MARK_NONE,
	MARK_TCACHE,
	MARK_FAST,
	MARK_UNSORTED,
	MARK_BINNED, /* in a small or large bin */
	MARK_KINDS = MARK_BINNED,
};

#define MARK_REGION (UINT64_C(1) << 20) /* bytes of the target in one page of marks */
#define MARK_WORDS (MARK_REGION / 16 / 64)

struct mark_page {
	uint64_t *bits[MARK_KINDS]; /* of kind i + 1; NULL: no marks */
};

/* Zero-initialised is empty. */
struct marks {
	struct hashmap regions; /* address / MARK_REGION -> index of its page */
	VEC(struct mark_page) pages;
};

/* Marks a chunk. *ret_new is false when it has a mark already, which then stays. False when memory is out. */
bool marks_set(struct marks *marks, uint64_t chunk, enum mark_kind kind, bool *ret_new);
enum mark_kind marks_get(struct marks *marks, uint64_t chunk);
/* The first marked address in [from, end), or `end`. */
uint64_t marks_next(struct marks *marks, uint64_t from, uint64_t end);
void marks_deinit(struct marks *marks);

#endif
