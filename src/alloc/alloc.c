/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/alloc.h"

#include "alloc/glibc/glibc.h"

const struct allocator *const allocators[] = {
	&glibc_allocator,
	NULL,
};
