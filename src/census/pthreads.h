/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What glibc says about its threads. A struct pthread lies at the top of each thread's stack, where the
 * thread pointer (fs_base) points, and knows the stack's bounds; lists tie them all together.
 */
#ifndef FREEHOLD_CENSUS_PTHREADS_H
#define FREEHOLD_CENSUS_PTHREADS_H

#include "base/hashmap.h"
#include "layout/target.h"

/* Offsets and sizes of the target's own glibc; see pthreads_learn(). */
struct pthreads {
	struct source *source;
	uint64_t size;	/* of struct pthread */
	uint64_t tls;	/* bytes of static TLS below the thread pointer */
	int list, tid;	/* offsets in struct pthread; -1: not known */
	VEC(uint64_t) v; /* addresses of the struct pthreads that were found */
	struct hashmap known; /* of the same, and of the heads of their lists */
};

struct pthread_stack {
	uint64_t start, size, guard; /* bytes; the guard is at the start */
};

/* Learns what there is to know before threads are looked at. */
struct fh_error *pthreads_learn(struct target *target, struct pthreads *ret);
void pthreads_deinit(struct pthreads *pthreads);

/* Whether the thread pointer of a thread points at a struct pthread, of glibc or another C library that
 * begins it with its own address. */
bool pthreads_check(const struct pthreads *pthreads, uint64_t address);
bool pthreads_is_glibc(const struct pthreads *pthreads, uint64_t address);
/* Adds the struct pthread of a live thread (`tid` 0: not known) and all that are on the same lists. */
struct fh_error *pthreads_follow(struct pthreads *pthreads, uint64_t address, pid_t tid);
/* The stack that a struct pthread lies at the top of; false for the main thread's. */
bool pthreads_stack(const struct pthreads *pthreads, uint64_t address, struct pthread_stack *ret);
/* The thread's id as the target sees it; 0: it ended; -1: not known. */
pid_t pthreads_tid(const struct pthreads *pthreads, uint64_t address);

#endif
