/* SPDX-License-Identifier: Apache-2.0 */
/* Help, made from the tables of commands, options, groupings and formats: what isn't there isn't in it. */
#include <stdio.h>

#include "alloc/alloc.h"
#include "cli/cli.h"
#include "runtime/runtime.h"

static void list_options(struct emitter *e, unsigned options)
{
	for (size_t i = 0; i < N_OPTIONS; i++) {
		const struct option_description *o = &option_table[i];
		char left[64], letter[8] = "    ";

		if (!(options & OPTION_BIT(i)))
			continue;
		if (o->letter)
			snprintf(letter, sizeof(letter), "-%c, ", o->letter);
		snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name, o->argument ? " " : "",
			 o->argument ? o->argument : "");
		emitter_line(e, "  %-24s %s", left, o->help);
	}
}

static void list_formats(struct emitter *e)
{
	emitter_line(e, "%s", "");
	emitter_line(e, "FORMAT is one of");
	for (size_t i = 0; emitter_formats[i]; i++)
		emitter_line(e, "  %-10s %s", emitter_formats[i]->name, emitter_formats[i]->title);
}

static void list_groupings(struct emitter *e)
{
	emitter_line(e, "%s", "");
	emitter_line(e, "WHAT is one of");
	for (size_t i = 0; view_groupings[i]; i++) {
		emitter_line(e, "  %-10s %s", view_groupings[i]->name, view_groupings[i]->title);
	}
}

static void list_known(struct emitter *e)
{
	emitter_line(e, "%s", "");
	emitter_line(e, "What is known of a process, from within or by name");
	for (size_t i = 0; allocators[i]; i++)
		emitter_line(e, "  %s", allocators[i]->title);
	for (size_t i = 0; runtimes[i]; i++)
		emitter_line(e, "  %s", runtimes[i]->title);
}

static bool list_name(void *context, const char *name, const char *text)
{
	emitter_line(context, "  %-24s %s", name, text);
	return true;
}

static bool list_table(void *context, const char *name, const char *text)
{
	emitter_line(context, "%s", "");
	emitter_line(context, "table %s: %s", name, text);
	fh_query_each_column(name, list_name, context);
	return true;
}

static void list_tables(struct emitter *e)
{
	fh_query_each_table(list_table, e);
	emitter_line(e, "%s", "");
	emitter_line(e, "functions beyond SQLite's own");
	fh_query_each_function(list_name, e);
}

static const char target_text[] =
	"TARGET is the id of a process, or a core file. The process is only read, and stands still for\n"
	"the time that one copy of its memory takes.";

static const char status_text[] =
	"exit status: 0 done, 1 could not, 2 bad usage, 3 done but something of the target was unreadable\n"
	"or corrupt, as the warnings say";

void help_program(struct emitter *e)
{
	emitter_line(e, "Freehold shows where the memory of a process is, and who holds it, to the byte.");
	emitter_line(e, "%s", "");
	emitter_line(e, "usage: freehold [COMMAND] TARGET [ARGUMENTS] [OPTIONS]; without a COMMAND it is the census");
	emitter_line(e, "%s", "");
	for (size_t i = 0; commands[i]; i++) {
		char left[64];

		snprintf(left, sizeof(left), "%s %s", commands[i]->name, commands[i]->arguments);
		emitter_line(e, "  %-26s %s", left, commands[i]->title);
	}
	emitter_line(e, "%s", "");
	emitter_line(e, "%s", target_text);
	emitter_line(e, "%s", "");
	emitter_line(e, "Options of all commands:");
	list_options(e, OPTIONS_OF_TARGETS | OPTIONS_OF_ALL);
	list_formats(e);
	list_known(e);
	emitter_line(e, "%s", "");
	emitter_line(e, "freehold COMMAND --help tells more of each.");
	emitter_line(e, "%s", status_text);
}

void help_command(struct emitter *e, const struct command *command)
{
	unsigned own = command->options & ~(OPTIONS_OF_TARGETS | OPTIONS_OF_ALL);

	emitter_line(e, "usage: freehold %s %s [OPTIONS]", command->name, command->arguments);
	emitter_line(e, "%s", command->title);
	emitter_line(e, "%s", "");
	emitter_line(e, "%s", command->text);
	emitter_line(e, "%s", "");
	if (own)
		list_options(e, own);
	list_options(e, (command->options & OPTIONS_OF_TARGETS) | OPTIONS_OF_ALL);
	if (command->options & OPTION_BIT(OPTION_BY))
		list_groupings(e);
	if (command->options & OPTION_BIT(OPTION_FORMAT))
		list_formats(e);
	if (command == &cmd_select) {
		emitter_line(e, "%s", "");
		emitter_line(e, "columns of a block");
		fh_query_each_column("block", list_name, e);
	}
	if (command == &cmd_sql)
		list_tables(e);
	emitter_line(e, "%s", "");
	emitter_line(e, "%s", target_text);
	emitter_line(e, "%s", "");
	emitter_line(e, "%s", status_text);
}
