/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one pass over a stopped target: its resident private pages, copied at
 * the speed of process_vm_readv into memory that was made of huge pages and
 * touched before the stop.
 */
#ifndef FREEHOLD_SOURCE_COPY_H
#define FREEHOLD_SOURCE_COPY_H

#include "base/error.h"
#include "base/vec.h"

#include <stdint.h>
#include <sys/types.h>

struct copy_run {
	uint64_t start, end; /* of the target; pages */
	uint8_t *to;
	uint64_t copied; /* bytes from the start that arrived */
};

struct copy {
	uint8_t *bytes; /* a mapping of its own */
	size_t size;	/* reserved address space */
	size_t touched;
	VEC(struct copy_run) runs;
	size_t used;
};

/* Reserves room and touches the first `expected` bytes. */
struct fh_error *copy_init(struct copy *copy, size_t expected, size_t most);
void copy_deinit(struct copy *copy);
/* Another range to copy, in ascending order; false when the room or memory is out. */
bool copy_add(struct copy *copy, uint64_t start, uint64_t end);
/* Copies all; on two processors if there are two. What can't be read is short in `copied`. */
void copy_run_all(struct copy *copy, pid_t pid, int mem_fd);

#endif
