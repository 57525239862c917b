/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/glibc/glibc.h"

static struct fh_error *probe(struct target *target, void **ret_state)
{
	(void)target;
	(void)ret_state;
	return NULL;
}

const struct allocator glibc_allocator = {
	.name = "glibc",
	.title = "malloc of the GNU C library",
	.probe = probe,
};
