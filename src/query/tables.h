/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables that SQL sees. A table is one const struct: its columns, and a function that lists its rows; another
 * is a struct and a line in tables.c. The table `block` can have millions of rows and is walked where it
 * lies (block.c); the others are listed when they are asked for.
 */
#ifndef FREEHOLD_QUERY_TABLES_H
#define FREEHOLD_QUERY_TABLES_H

#include <sqlite3.h>

#include "base/vec.h"
#include "census/census.h"

enum table_type {
	TABLE_TEXT,
	TABLE_INTEGER,
	TABLE_ADDRESS,
};

struct table_column {
	const char *name;
	enum table_type type;
	const char *title; /* one line for help */
};

struct table_cell {
	bool null;
	int64_t integer;
	const char *text; /* belongs to the census */
};

#define TABLE_MOST_COLUMNS 16

struct table_row {
	struct table_cell cells[TABLE_MOST_COLUMNS];
};

typedef VEC(struct table_row) table_rows;

struct table {
	const char *name, *title;
	const struct table_column *columns;
	size_t n_columns;
	/* Lists all rows; NULL for `block`. False when memory is out. */
	bool (*list)(struct fh_census *census, table_rows *rows);
};

/* NULL-terminated. */
extern const struct table *const tables[];
extern const struct table block_table; /* block.c */

/* SQLite modules: `client data` is the census. */
extern const sqlite3_module list_module, block_module;

/* CREATE TABLE text for a table's columns; the caller sqlite3_free()s it. */
char *table_declaration(const struct table *table);

#endif
