/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The census as rows: the ledger's blocks, grouped by something, with their sums. A way of grouping is one const
 * struct with the columns that it fills, and a line in rows.c. A model only: no input, no output; it sees
 * a census through the public header as anyone does.
 */
#ifndef FREEHOLD_VIEW_ROWS_H
#define FREEHOLD_VIEW_ROWS_H

#include "base/error.h"
#include "base/vec.h"

/* Names are NULL where a row has several of them, or none. They belong to the census. */
struct view_row {
	const char *domain, *kind, *detail;
	const char *mapping, *module, *permissions;
	uint64_t block_size, start, end;
	uint64_t count, virtual_, resident, swapped;
};

enum view_type {
	VIEW_TEXT,    /* const char * */
	VIEW_AMOUNT,  /* uint64_t: bytes or a number */
	VIEW_ADDRESS, /* uint64_t */
};

enum view_column_flags {
	VIEW_OPTIONAL = 1, /* needs no place where no row has any of it */
	VIEW_FLEXIBLE = 2, /* may be shortened where there's little room */
	VIEW_RESIDENCY = 4, /* not known for a core file */
	VIEW_SUM = 8,	   /* rows add up to the total */
};

struct view_column {
	const char *name;
	enum view_type type;
	unsigned flags;
	size_t offset; /* in struct view_row */
};

struct view_rows;

struct view_grouping {
	const char *name, *title; /* one line for help */
	const struct view_column *columns;
	size_t n_columns;
	struct fh_error *(*collect)(struct fh_census *census, struct view_rows *rows);
};

/* NULL-terminated. */
extern const struct view_grouping *const view_groupings[];
const struct view_grouping *view_grouping_find(const char *name);
const struct view_column *view_column_find(const struct view_grouping *grouping, const char *name);

struct view_rows {
	const struct view_grouping *grouping;
	VEC(struct view_row) rows;
	struct view_row total; /* of all rows */
};

/* Groups the blocks of a census; the largest rows (resident, then virtual) first. */
struct fh_error *view_rows_create(struct fh_census *census, const struct view_grouping *grouping,
				  struct view_rows *ret);
void view_rows_deinit(struct view_rows *rows);
/* Numbers: the largest first; names: in alphabetical order; addresses: the lowest first. */
void view_rows_sort(struct view_rows *rows, const struct view_column *column, bool reverse);
/* Adds the sums of a row to another. */
void view_row_add(struct view_row *sum, const struct view_row *row);

static inline uint64_t view_number(const struct view_row *row, const struct view_column *column)
{
	return *(const uint64_t *)((const char *)row + column->offset);
}

static inline const char *view_text(const struct view_row *row, const struct view_column *column)
{
	return *(const char *const *)((const char *)row + column->offset);
}

#endif
