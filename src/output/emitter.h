/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One set of calls writes text for people, JSON or CSV: whoever has something to say describes it once, as values and
 * tables inside of objects, and never knows the format. A format is one const table of hooks, and a
 * line in emitter.c. What it has no use for it leaves out: text takes the tables and the lines, CSV the tables,
 * JSON all but the lines.
 *
 * Bytes of the target are escaped here and nowhere else.
 */
#ifndef FREEHOLD_OUTPUT_EMITTER_H
#define FREEHOLD_OUTPUT_EMITTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "output/buffer.h"

enum emitter_type {
	EMIT_NULL,    /* not known, or there is none */
	EMIT_TEXT,
	EMIT_LITERAL, /* text whose backslashes are a language's own: b'\x80' */
	EMIT_AMOUNT,  /* bytes, or a number of things: with separators in text */
	EMIT_INTEGER, /* signed; a number that is not counted with */
	EMIT_REAL,
	EMIT_PERCENT, /* real, with one decimal */
	EMIT_BOOL,
	EMIT_ADDRESS, /* "0x..." */
	EMIT_BYTES,   /* in hex */
};

struct emitter_value {
	enum emitter_type type;
	union {
		struct {
			const char *text; /* or bytes; only needed during the call */
			size_t len;
		};
		uint64_t amount; /* or address */
		int64_t integer;
		double real;
		bool boolean;
	};
};

struct emitter_value emit_text(const char *text); /* NULL: EMIT_NULL */
struct emitter_value emit_literal(const char *text); /* the same */
struct emitter_value emit_bytes(const void *bytes, size_t len);
static inline struct emitter_value emit_null(void)
{
	return (struct emitter_value){ .type = EMIT_NULL };
}
static inline struct emitter_value emit_amount(uint64_t amount)
{
	return (struct emitter_value){ .type = EMIT_AMOUNT, .amount = amount };
}
static inline struct emitter_value emit_integer(int64_t integer)
{
	return (struct emitter_value){ .type = EMIT_INTEGER, .integer = integer };
}
static inline struct emitter_value emit_real(double real)
{
	return (struct emitter_value){ .type = EMIT_REAL, .real = real };
}
static inline struct emitter_value emit_percent(double percent)
{
	return (struct emitter_value){ .type = EMIT_PERCENT, .real = percent };
}
static inline struct emitter_value emit_bool(bool boolean)
{
	return (struct emitter_value){ .type = EMIT_BOOL, .boolean = boolean };
}
static inline struct emitter_value emit_address(uint64_t address)
{
	return (struct emitter_value){ .type = EMIT_ADDRESS, .amount = address };
}

enum emitter_column_flags {
	COLUMN_OPTIONAL = 1, /* text: left out where no row has anything in it but 0 and "" */
	COLUMN_FLEXIBLE = 2, /* text: shortened where the line would be too long */
};

struct emitter_column {
	const char *name; /* the key in JSON, the title elsewhere */
	unsigned flags;
};

enum emitter_table_flags {
	TABLE_ASIDE = 1, /* not what was asked for, but explains it: CSV leaves it out */
};

struct emitter;

/* A `key` is NULL inside of arrays, and for the outermost object. */
struct emitter_format {
	const char *name, *title; /* one line for help */
	void (*object_begin)(struct emitter *emitter, const char *key);
	void (*object_end)(struct emitter *emitter);
	void (*array_begin)(struct emitter *emitter, const char *key);
	void (*array_end)(struct emitter *emitter);
	void (*value)(struct emitter *emitter, const char *key, const struct emitter_value *value);
	void (*table_begin)(struct emitter *emitter, const char *key);
	void (*row)(struct emitter *emitter, const struct emitter_value *cells);
	/* A line below the last row, escaped already. */
	void (*note)(struct emitter *emitter, const char *text);
	/* A row below the others that explains them: what was left out, the sum. No cells: a rule. */
	void (*footer)(struct emitter *emitter, const char *label, const struct emitter_value *cells);
	void (*table_end)(struct emitter *emitter);
	/* A line of text, escaped already. */
	void (*line)(struct emitter *emitter, const char *text);
};

/* NULL-terminated. */
extern const struct emitter_format *const emitter_formats[];
const struct emitter_format *emitter_format_find(const char *name);

#define EMITTER_DEPTH 32
#define EMITTER_COLUMNS 64

struct emitter_text_row;

struct emitter {
	const struct emitter_format *format;
	int fd; /* -1: all stays in `out`, for tests */
	int error; /* errno of the first write that failed, or ENOMEM */
	bool held; /* write nothing before the end */
	bool utf8;  /* text: the terminal takes UTF-8 */
	size_t width; /* text: columns of a line at most; 0: any */
	struct buffer out;
	/* JSON: where we are. */
	unsigned depth;
	bool filled[EMITTER_DEPTH]; /* something was written at this depth */
	/* The table in the making. */
	const struct emitter_column *columns;
	size_t n_columns;
	unsigned table_flags;
	/* Text: rows wait until the widths are known. */
	VEC(struct emitter_text_row) waiting;
	size_t widths[EMITTER_COLUMNS];
	bool right[EMITTER_COLUMNS], hidden[EMITTER_COLUMNS];
	bool settled;
};

void emitter_init(struct emitter *emitter, const struct emitter_format *format, int fd);
/* Writes out what is left; false when anything could not be written, see `error`. */
bool emitter_finish(struct emitter *emitter);
void emitter_deinit(struct emitter *emitter);
/* For formats: passes on what has gathered, now and then. */
void emitter_flush(struct emitter *emitter, bool all);

void emitter_object_begin(struct emitter *emitter, const char *key);
void emitter_object_end(struct emitter *emitter);
void emitter_array_begin(struct emitter *emitter, const char *key);
void emitter_array_end(struct emitter *emitter);
void emitter_value(struct emitter *emitter, const char *key, struct emitter_value value);
/* The columns must live until the table's end; what exceeds EMITTER_COLUMNS is left out. */
void emitter_table_begin(struct emitter *emitter, const char *key, const struct emitter_column *columns, size_t n,
			 unsigned flags);
/* A cell for each column. */
void emitter_row(struct emitter *emitter, const struct emitter_value *cells);
void emitter_note(struct emitter *emitter, const char *text);
void emitter_footer(struct emitter *emitter, const char *label, const struct emitter_value *cells);
void emitter_table_end(struct emitter *emitter);
/* printf, for text only; pass what comes from the target through escape_terminal() before. */
void emitter_line(struct emitter *emitter, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Whether lines are shown at all: where their making costs something. */
static inline bool emitter_has_lines(const struct emitter *emitter)
{
	return emitter->format->line != NULL;
}

extern const struct emitter_format emitter_text, emitter_json, emitter_csv;

#endif
