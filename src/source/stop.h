/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holding a process still: every thread is seized and interrupted by a tracer
 * thread of ours. Linux detaches all that a tracer holds when it ends, however
 * it ends, so the target runs on also when this program is killed.
 * Source: ptrace(2), "PTRACE_SEIZE" (Linux 3.4 and later).
 */
#ifndef FREEHOLD_SOURCE_STOP_H
#define FREEHOLD_SOURCE_STOP_H

#include "source/source.h"

struct stop;

/* Stops all threads and lists them with registers in source->threads. A thread that sleeps in the
 * kernel and can't be interrupted is listed without registers, and there is a warning. */
struct fh_error *stop_begin(pid_t pid, struct source *source, struct stop **ret);
/* Lets all run on. Returns how long they stood, in ms. Accepts NULL. */
double stop_end(struct stop *stop);
/* The error for a process of somebody else's, which says what would help. */
struct fh_error *stop_not_permitted(pid_t pid);

#endif
