/* SPDX-License-Identifier: Apache-2.0 */
/* The malloc of the GNU C library, 2.31 to 2.43, found by structure: no symbols, no version test. */
#ifndef FREEHOLD_ALLOC_GLIBC_GLIBC_H
#define FREEHOLD_ALLOC_GLIBC_GLIBC_H

#include "alloc/alloc.h"

extern const struct allocator glibc_allocator;

#endif
