/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the stacks of a target's threads are: the main one that the kernel made, those that the C
 * library made for threads, and those that it keeps for threads to come.
 */
#ifndef FREEHOLD_CENSUS_THREADS_H
#define FREEHOLD_CENSUS_THREADS_H

#include "layout/target.h"

enum stack_owner {
	STACK_OF_THREAD,
	STACK_OF_MAIN,
	STACK_KEPT, /* of a thread that ended */
};

struct thread_stack {
	uint64_t start, guard_end, end; /* the guard is [start, guard_end) */
	uint64_t control_block; /* where static TLS and struct pthread begin, at the top; end: they are elsewhere */
	uint64_t sp;		/* 0: not known */
	enum stack_owner owner;
	pid_t tid; /* of STACK_OF_THREAD */
};

struct threads {
	VEC(struct thread_stack) stacks; /* ascending, disjoint, mapped */
	/* The main thread's static TLS and struct pthread; 0, 0: not known. */
	uint64_t main_control_start, main_control_end;
};

struct fh_error *threads_find(struct target *target, struct threads *ret);
void threads_deinit(struct threads *threads);

#endif
