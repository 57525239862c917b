/* SPDX-License-Identifier: Apache-2.0 */
/* Scope-bound release, instead of `goto out`. */
#ifndef FREEHOLD_BASE_CLEANUP_H
#define FREEHOLD_BASE_CLEANUP_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free_(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_close_(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void cleanup_fclose_(FILE **file)
{
	if (*file)
		fclose(*file);
}

#define CLEANUP(function) __attribute__((cleanup(function)))
#define CLEANUP_FREE CLEANUP(cleanup_free_)
#define CLEANUP_CLOSE CLEANUP(cleanup_close_)
#define CLEANUP_FCLOSE CLEANUP(cleanup_fclose_)

/* Hands the value on and disarms the variable's cleanup. */
#define TAKE(pointer)                                                          \
	({                                                                     \
		__typeof__(pointer) taken_ = (pointer);                        \
		(pointer) = NULL;                                              \
		taken_;                                                        \
	})

#endif
