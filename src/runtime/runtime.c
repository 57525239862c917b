/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/runtime.h"

#include "runtime/cpython/cpython.h"
#include "runtime/perl/perl.h"

const struct runtime *const runtimes[] = {
	&cpython_runtime,
	&perl_runtime,
	NULL,
};
