/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program: commands and options are const tables, and help is made from them. A command is one file,
 * cmd_NAME.c, and a line in commands.c. It asks the library through freehold.h as anyone does, and says what
 * it found through the emitter. Only this folder prints and exits.
 */
#ifndef FREEHOLD_CLI_CLI_H
#define FREEHOLD_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "output/emitter.h"
#include "view/rows.h"

enum exit_status {
	STATUS_DONE = 0,
	STATUS_FAILED = 1,
	STATUS_USAGE = 2,
	STATUS_DAMAGED = 3, /* done, but something of the target was unreadable or corrupt */
};

/* ---- options (options.c) ---------------------------------------------------- */

enum option_id {
	OPTION_ALL,
	OPTION_BY,
	OPTION_EXE,
	OPTION_FORMAT,
	OPTION_HELP,
	OPTION_LIMIT,
	OPTION_LOW_MEMORY,
	OPTION_REVERSE,
	OPTION_SORT,
	OPTION_SWAPPED,
	OPTION_SYSROOT,
	OPTION_TOP,
	OPTION_VERSION,
	N_OPTIONS
};

#define OPTION_BIT(id) (1u << (id))
/* Those of every command that opens a target. */
#define OPTIONS_OF_TARGETS                                                                           \
	(OPTION_BIT(OPTION_EXE) | OPTION_BIT(OPTION_FORMAT) | OPTION_BIT(OPTION_LOW_MEMORY) |         \
	 OPTION_BIT(OPTION_SWAPPED) | OPTION_BIT(OPTION_SYSROOT))
#define OPTIONS_OF_ALL (OPTION_BIT(OPTION_HELP) | OPTION_BIT(OPTION_VERSION))

struct settings {
	unsigned given; /* OPTION_BITs */
	const struct emitter_format *format;
	const struct view_grouping *by;
	const char *sort, *exe, *sysroot;
	uint64_t top, limit;
};

struct option_description {
	const char *name, *argument; /* "format", "FORMAT" or NULL */
	char letter;		     /* '\0': none */
	const char *help;
	struct fh_error *(*take)(struct settings *settings, const char *value); /* NULL: being given is all */
};

extern const struct option_description option_table[N_OPTIONS]; /* by id */

static inline bool given(const struct settings *settings, enum option_id id)
{
	return settings->given & OPTION_BIT(id);
}

/* Takes the options out of argv, wherever they are; what is left are *ret_words, *ret_n of them. */
struct fh_error *options_parse(int argc, char **argv, struct settings *ret, char ***ret_words, size_t *ret_n);
/* The name that a wrong one was most likely meant to be, or NULL. `next` gives the names one by one, then NULL. */
const char *nearest_name(const char *wrong, const char *(*next)(size_t i));

/* ---- commands (commands.c) ------------------------------------------------------ */

struct session;

struct command {
	const char *name, *arguments, *title; /* "select", "TARGET EXPR", one line for help */
	const char *text;		      /* some lines more, for the command's own help */
	unsigned options;		      /* OPTION_BITs */
	size_t least, most;		      /* number of arguments */
	struct fh_error *(*run)(struct session *session, char **arguments, size_t n);
};

/* In alphabetical order, NULL-terminated. */
extern const struct command *const commands[];
extern const struct command cmd_census, cmd_hexdump, cmd_select, cmd_show, cmd_sql;
const struct command *command_find(const char *name);

/* ---- help (help.c) ---------------------------------------------------------------- */

void help_program(struct emitter *emitter);
void help_command(struct emitter *emitter, const struct command *command);

/* ---- progress (progress.c) ----------------------------------------------------------- */

struct progress {
	double begun, shown_at; /* seconds of a clock that only goes forward */
	bool terminal, shown;
};

void progress_begin(struct progress *progress);
/* The census's progress callback; the context is a struct progress. */
void progress_report(void *context, const char *phase, double fraction);
/* Erases what is shown. */
void progress_end(struct progress *progress);

/* ---- a run of a command (session.c) ----------------------------------------------------- */

struct session {
	const struct settings *settings;
	struct fh_census *census;
	struct fh_info info;
	struct emitter emitter;
	struct progress progress;
	const char *doing; /* for progress */
	bool damaged; /* the command found something unreadable, beyond what the census says */
};

void session_init(struct session *session, const struct settings *settings);
/* Opens the target as the options say, and tells its warnings. `reads`: its bytes are wanted, too; then one that was
 * not copied stands still until all is said, and nothing is written before, as the reader may be a pager. */
struct fh_error *session_open(struct session *session, const char *target, bool reads);
/* For queries, whose context begins with a struct session *: says that it takes long, and false when the user
 * pressed Ctrl-C. */
bool session_goes_on(void *context);
/* The warnings as an array of the document. */
void session_emit_warnings(struct session *session);
/* Writes the rest of the output; an error when it can't be written. A broken pipe is none: *ret_quiet says so. */
struct fh_error *session_finish(struct session *session, bool *ret_quiet);
void session_deinit(struct session *session);

/* "freehold: PREFIXMESSAGE" on standard error, escaped. */
void complain(const char *prefix, const char *message);
/* near_names.c: if an expression of `select` compares with a name that nothing in the census has, one such line that
 * says which names come near. */
struct fh_error *complain_of_names(struct session *session, const char *expression);
/* Appends escaped as for the terminal that the output goes to. */
void session_escape(const struct session *session, struct buffer *buffer, const char *text);
/* A number of bytes for people: "1.4 GiB". */
void human_size(struct buffer *buffer, uint64_t bytes);
/* Decimal or 0x...; FH_ERROR_USAGE when it is neither. `what` names it in the message. */
struct fh_error *parse_number(const char *what, const char *text, uint64_t *ret);
/* The canonical line of up to 16 bytes, with its address. */
void hexdump_line(struct buffer *buffer, uint64_t address, const uint8_t *bytes, size_t len);
/* Up to `most` bytes of what a block's owner has, in such lines; `add` gets each. */
void hexdump_block(struct session *session, const struct fh_block *block, size_t most,
		   void (*add)(struct emitter *emitter, const char *line));

#endif
