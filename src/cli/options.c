/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "view/rows.h"

/* The one table of options: parsing and help are made from it. */
static const struct option_text {
	const char *name, *argument, *title;
	unsigned group; /* 0: every command has it */
} option_texts[] = {
	{ "all", NULL, "no limit on the rows", OPTIONS_ALL },
	{ "by", "WHAT", "group by domain, kind, detail, size, mapping or module", OPTIONS_ROWS },
	{ "exe", "FILE", "core files: the executable, where it moved", OPTIONS_TARGET },
	{ "format", "FORMAT", "text, json or csv", OPTIONS_TARGET },
	{ "help", NULL, "this help", 0 },
	{ "limit", "N", "at most N rows (100 unless told; 0: all)", OPTIONS_LIMIT },
	{ "low-memory", NULL, "make no copy: the target waits for the analysis", OPTIONS_TARGET },
	{ "reverse", NULL, "sort the other way round", OPTIONS_ROWS },
	{ "sort", "COLUMN", "sort by any column of the table", OPTIONS_ROWS },
	{ "swapped", NULL, "also read what is swapped out, which swaps it in", OPTIONS_TARGET },
	{ "sysroot", "DIRECTORY", "core files: where the target's file system is", OPTIONS_TARGET },
	{ "top", "N", "the first N rows only", OPTIONS_ROWS },
	{ "version", NULL, "the program's version", 0 },
};

#define N_OPTIONS (sizeof(option_texts) / sizeof(*option_texts))

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; commands[i]; i++)
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	return NULL;
}

static bool parse_count(const char *name, const char *text, long *ret)
{
	char *end;

	errno = 0;
	*ret = strtol(text, &end, 10);
	if (errno || end == text || *end || *ret < 0) {
		print_error("--%s: '%s' is no number of rows", name, text);
		return false;
	}
	return true;
}

static bool parse_format(const char *text, struct invocation *ret)
{
	ret->format = emitter_format_find(text);
	if (!ret->format)
		print_error("--format: '%s' is none of text, json, csv", text);
	return ret->format;
}

static bool apply(const char *name, const char *value, struct invocation *ret)
{
	if (strcmp(name, "all") == 0)
		ret->all = true;
	else if (strcmp(name, "by") == 0)
		ret->by = value;
	else if (strcmp(name, "exe") == 0)
		ret->options.exe = value;
	else if (strcmp(name, "format") == 0)
		return parse_format(value, ret);
	else if (strcmp(name, "help") == 0)
		ret->help = true;
	else if (strcmp(name, "limit") == 0)
		return parse_count(name, value, &ret->limit);
	else if (strcmp(name, "low-memory") == 0)
		ret->options.low_memory = true;
	else if (strcmp(name, "reverse") == 0)
		ret->reverse = true;
	else if (strcmp(name, "sort") == 0)
		ret->sort = value;
	else if (strcmp(name, "swapped") == 0)
		ret->options.swapped = true;
	else if (strcmp(name, "sysroot") == 0)
		ret->options.sysroot = value;
	else if (strcmp(name, "top") == 0)
		return parse_count(name, value, &ret->top);
	else if (strcmp(name, "version") == 0)
		ret->version = true;
	return true;
}

static void list_commands(FILE *file)
{
	fprintf(file, "commands:");
	for (size_t i = 0; commands[i]; i++)
		fprintf(file, "%s%s", i ? ", " : " ", commands[i]->name);
	fprintf(file, "\n");
}

/* The command, the target and what follows it. */
static bool take_words(char **words, int n, struct invocation *ret)
{
	const struct command *command = n > 0 ? find_command(words[0]) : NULL;

	ret->command = command ? command : &cmd_census;
	if (command) {
		words++;
		n--;
	}
	if (ret->help || ret->version)
		return true;
	if (n == 0) {
		print_error("%s: which target? Name a process id or a core file", command ? command->name : "usage");
		options_help(command);
		return false;
	}
	ret->target = words[0];
	ret->arguments = (const char *const *)words + 1;
	ret->n_arguments = n - 1;
	if (ret->n_arguments < ret->command->min_arguments || ret->n_arguments > ret->command->max_arguments) {
		if (!command && ret->n_arguments > 0)
			print_error("'%s' is no command", words[0]);
		else
			print_error("usage: freehold %s %s", ret->command->name, ret->command->arguments);
		list_commands(stderr);
		return false;
	}
	return true;
}

static bool check_groups(const bool *given, const struct command *command)
{
	for (size_t i = 0; i < N_OPTIONS; i++)
		if (given[i] && option_texts[i].group && !(command->options & option_texts[i].group)) {
			print_error("%s does not take --%s; see freehold %s --help", command->name, option_texts[i].name,
				    command->name);
			return false;
		}
	return true;
}

bool options_parse(int argc, char **argv, struct invocation *ret)
{
	struct option longs[N_OPTIONS + 1] = { 0 };
	bool given[N_OPTIONS] = { false };
	int c, at;

	*ret = (struct invocation){ .options = { .size = sizeof(struct fh_options) }, .format = &emitter_text,
				    .top = -1, .limit = -1 };
	for (size_t i = 0; i < N_OPTIONS; i++)
		longs[i] = (struct option){ option_texts[i].name, option_texts[i].argument ? required_argument : no_argument,
					    NULL, 0 };
	opterr = 0;
	while ((c = getopt_long(argc, argv, ":hV", longs, &at)) != -1) {
		if (c == 'h') {
			ret->help = true;
		} else if (c == 'V') {
			ret->version = true;
		} else if (c == ':') {
			print_error("%s needs a value", argv[optind - 1]);
			return false;
		} else if (c == '?') {
			print_error("unknown option %s; see freehold --help", argv[optind - 1]);
			return false;
		} else {
			given[at] = true;
			if (!apply(option_texts[at].name, optarg, ret))
				return false;
		}
	}
	return take_words(argv + optind, argc - optind, ret) && check_groups(given, ret->command);
}

void options_help(const struct command *command)
{
	unsigned groups = command ? command->options : ~0u;

	if (command) {
		printf("usage: freehold %s %s\n%s\n", command->name, command->arguments, command->title);
		if (command->help)
			printf("\n%s", command->help);
	} else {
		printf("usage: freehold [COMMAND] TARGET [ARGUMENTS] [OPTIONS]\n"
		       "Shows where the memory of a process is, and who holds it. TARGET is a process id or a core file.\n\n");
		for (size_t i = 0; commands[i]; i++) {
			char line[64];

			snprintf(line, sizeof(line), "%s %s", commands[i]->name, commands[i]->arguments);
			printf("  %-28s %s\n", line, commands[i]->title);
		}
	}
	printf("\noptions\n");
	for (size_t i = 0; i < N_OPTIONS; i++) {
		char line[64];

		if (option_texts[i].group && !(groups & option_texts[i].group))
			continue;
		snprintf(line, sizeof(line), "--%s%s%s", option_texts[i].name, option_texts[i].argument ? " " : "",
			 option_texts[i].argument ? option_texts[i].argument : "");
		printf("  %-28s %s\n", line, option_texts[i].title);
	}
	printf("\nexit status: 0 done, 1 could not, 2 wrong usage, 3 done but something was unreadable or corrupt\n");
}
