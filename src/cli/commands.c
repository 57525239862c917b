/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/cli.h"

const struct command *const commands[] = {
	&cmd_census,
	&cmd_hexdump,
	&cmd_select,
	&cmd_show,
	&cmd_sql,
	NULL,
};

const struct command *command_find(const char *name)
{
	for (size_t i = 0; commands[i]; i++)
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	return NULL;
}
