/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/alloc.h"

#include "alloc/glibc/glibc.h"
#include "alloc/others/others.h"

const struct allocator *const allocators[] = {
	&glibc_allocator,
	&jemalloc_allocator,
	&tcmalloc_allocator,
	&mimalloc_allocator,
	&musl_allocator,
	&asan_allocator,
	NULL,
};
