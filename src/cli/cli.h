/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program: one const struct and one file for each command, listed alphabetically in commands.c, and one
 * table of options. Help is made from these tables. Only this folder prints and exits.
 */
#ifndef FREEHOLD_CLI_CLI_H
#define FREEHOLD_CLI_CLI_H

#include <stdbool.h>

#include "freehold.h"
#include "output/emitter.h"

enum exit_status {
	EXIT_DONE = 0,
	EXIT_COULD_NOT = 1,
	EXIT_USAGE = 2,
	EXIT_DAMAGED = 3, /* done, but something was unreadable or corrupt */
};

/* Which options a command takes. */
enum option_group {
	OPTIONS_TARGET = 1, /* how the target is opened, and the format */
	OPTIONS_ROWS = 2,   /* --by --sort --reverse --top */
	OPTIONS_LIMIT = 4,  /* --limit */
	OPTIONS_ALL = 8,    /* --all */
};

struct invocation {
	const struct command *command;
	const char *target;
	const char *const *arguments; /* behind the target */
	int n_arguments;
	struct fh_options options;
	const struct emitter_format *format;
	const char *by, *sort;
	bool reverse, all, help, version;
	long top, limit; /* < 0: not given */
	struct fh_census *census;
	struct emitter emitter;
};

struct command {
	const char *name, *arguments, *title;
	const char *help; /* more lines for its own help */
	int min_arguments, max_arguments; /* behind the target */
	unsigned options;
	/* The census is open and the emitter ready. */
	struct fh_error *(*run)(struct invocation *invocation);
};

/* Alphabetical, NULL-terminated. */
extern const struct command *const commands[];
extern const struct command cmd_census, cmd_hexdump, cmd_select, cmd_show, cmd_sql;

/* options.c: fills the invocation; false when the words make no sense (said on standard error). */
bool options_parse(int argc, char **argv, struct invocation *ret);
void options_help(const struct command *command);

/* common.c */
void print_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "0x..." or decimal; an error names what is wrong. */
struct fh_error *parse_number(const char *what, const char *text, uint64_t *ret);
/* The "warnings" of JSON, at the end of the outermost object; elsewhere they go to standard error. */
void emit_warnings(struct invocation *invocation);
/* Lines of an error of the target's own making, escaped. */
struct emitter_value emit_path(const char *path);
/* 16 bytes as hex and as characters, into a buffer of 80. */
void format_bytes(char line[80], const uint8_t *bytes, size_t n, const bool *readable);
/* Progress on standard error: see struct fh_options. */
void progress_show(void *context, const char *phase, double fraction);
void progress_clear(void);

#endif
