/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpython/cpython.h"

static struct fh_error *probe(struct target *target, void **ret_state)
{
	(void)target;
	(void)ret_state;
	return NULL;
}

const struct runtime cpython_runtime = {
	.name = "cpython",
	.title = "CPython",
	.probe = probe,
};
