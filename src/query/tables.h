/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The census as tables for SQL. A table is one const struct: its columns say where in a row's struct their value
 * lies, so a table is a struct, a list of columns, and a function that makes rows. To add one is to add these, and
 * a line in tables.c.
 *
 * Small tables are loaded whole; `block` streams over the ledger, and takes over what it can of the conditions.
 */
#ifndef FREEHOLD_QUERY_TABLES_H
#define FREEHOLD_QUERY_TABLES_H

#include <sqlite3.h>

#include "census/census.h"

enum query_type {
	QUERY_ADDRESS, /* uint64_t */
	QUERY_AMOUNT,  /* uint64_t */
	QUERY_FIGURE,  /* uint64_t; NULL where residency is not known */
	QUERY_INTEGER, /* int64_t */
	QUERY_NUMBER,  /* int64_t; NULL where it is -1 */
	QUERY_BOOL,    /* bool */
	QUERY_TEXT,    /* const char *; NULL is NULL */
	QUERY_CHARS,   /* char [], in the row itself */
};

struct query_column {
	const char *name;
	enum query_type type;
	size_t offset;	  /* in the row */
	const char *text; /* one line for help */
};

struct query_rows {
	VEC(char) bytes; /* rows one after the other */
	size_t n;
};

struct query_stream {
	size_t cursor_size;
	/* Chooses what the stream will take care of (see sqlite3_index_info). A condition that it uses is checked by
	 * SQLite again, so it may let too much through, never too little. */
	int (*plan)(struct fh_census *census, sqlite3_index_info *info);
	/* Begins with the conditions that plan() chose. The cursor is zeroed. False when memory is out. */
	bool (*begin)(void *cursor, struct fh_census *census, const char *plan, sqlite3_value **arguments, int n);
	/* The next row, with those columns at least that have their bit in `used`; false at the end. */
	bool (*next)(void *cursor, uint64_t used, void *ret_row);
	void (*end)(void *cursor);
	/* A number for a row that stays the same; NULL: its place in the order. */
	int64_t (*rowid)(const void *row);
};

struct query_table {
	const char *name, *title; /* one line for help */
	const struct query_column *columns;
	size_t n_columns, row_size;
	struct fh_error *(*load)(struct fh_census *census, struct query_rows *ret); /* or */
	const struct query_stream *stream;
};

/* NULL-terminated. */
extern const struct query_table *const query_tables[];
extern const struct query_table query_block; /* block.c */

#define QUERY_COLUMNS(array) .columns = (array), .n_columns = sizeof(array) / sizeof(*(array))

/* "live", "free", "overhead", "mapped" */
const char *query_state_name(enum fh_state state);

/* Makes the tables known to a database (vtab.c). While one is connected, SQLite asks the authorizer for leave to create
 * it: then *connecting is set. */
struct fh_error *query_add_tables(sqlite3 *db, struct fh_census *census, bool *connecting);
/* The functions beyond SQLite's own (functions.c). */
struct fh_error *query_add_functions(sqlite3 *db, struct fh_census *census);

#endif
