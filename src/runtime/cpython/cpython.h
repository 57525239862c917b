/* SPDX-License-Identifier: Apache-2.0 */
/* CPython 2.7 and 3.6 to 3.15, found by structure in stripped programs. */
#ifndef FREEHOLD_RUNTIME_CPYTHON_CPYTHON_H
#define FREEHOLD_RUNTIME_CPYTHON_CPYTHON_H

#include "runtime/runtime.h"

extern const struct runtime cpython_runtime;

#endif
