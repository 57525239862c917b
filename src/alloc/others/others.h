/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocators that are recognised but not walked: their memory stays what the mappings are called, and the
 * summary says whose it is. Each is a line in others.c; one that learns to walk gets a folder of its own.
 */
#ifndef FREEHOLD_ALLOC_OTHERS_OTHERS_H
#define FREEHOLD_ALLOC_OTHERS_OTHERS_H

#include "alloc/alloc.h"

extern const struct allocator jemalloc_allocator, tcmalloc_allocator, mimalloc_allocator, musl_allocator,
	asan_allocator;

#endif
