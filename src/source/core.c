/* SPDX-License-Identifier: Apache-2.0 */
#include "source/source.h"

struct fh_error *source_open_core(const char *path, const struct fh_options *options, struct source **ret)
{
	(void)options;
	(void)ret;
	return error_create(FH_ERROR_FORMAT, "%s: core files are not read yet", path);
}
