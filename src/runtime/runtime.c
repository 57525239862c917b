/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/runtime.h"

#include "runtime/cpython/cpython.h"

const struct runtime *const runtimes[] = {
	&cpython_runtime,
	NULL,
};
