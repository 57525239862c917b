/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "cli/cli.h"

const struct command *const commands[] = {
	&cmd_census,
	&cmd_hexdump,
	&cmd_select,
	&cmd_show,
	&cmd_sql,
	NULL,
};
