/* SPDX-License-Identifier: Apache-2.0 */
#include "view/groupings.h"

#include <stdlib.h>
#include <string.h>

const struct view_grouping *const view_groupings[] = {
	&view_by_domain,
	&view_by_kind,
	&view_by_detail,
	&view_by_size,
	&view_by_mapping,
	&view_by_module,
	NULL,
};

const struct view_grouping *view_grouping_find(const char *name)
{
	for (size_t i = 0; view_groupings[i]; i++)
		if (strcmp(view_groupings[i]->name, name) == 0)
			return view_groupings[i];
	return NULL;
}

const struct view_column *view_column_find(const struct view_grouping *grouping, const char *name)
{
	for (size_t i = 0; i < grouping->n_columns; i++)
		if (strcmp(grouping->columns[i].name, name) == 0)
			return &grouping->columns[i];
	return NULL;
}

void view_row_add(struct view_row *sum, const struct view_row *row)
{
	sum->count += row->count;
	sum->virtual_ += row->virtual_;
	sum->resident += row->resident;
	sum->swapped += row->swapped;
}

/* ---- order ---------------------------------------------------------------------------- */

int view_compare_text(const char *a, const char *b)
{
	if (!a || !b)
		return !a - !b;
	return a == b ? 0 : strcmp(a, b);
}

int view_compare_names(const void *a, const void *b)
{
	const struct view_row *x = a, *y = b;
	int order = view_compare_text(x->domain, y->domain);

	order = order ? order : view_compare_text(x->kind, y->kind);
	return order ? order : view_compare_text(x->detail, y->detail);
}

/* Equal rows fall back to what nobody can be equal in, so that the order is always the same. */
static int compare_largest(const struct view_row *x, const struct view_row *y)
{
	int order;

	if (x->resident != y->resident)
		return x->resident > y->resident ? -1 : 1;
	if (x->virtual_ != y->virtual_)
		return x->virtual_ > y->virtual_ ? -1 : 1;
	order = view_compare_names(x, y);
	order = order ? order : view_compare_text(x->module, y->module);
	if (order)
		return order;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->block_size > y->block_size ? -1 : x->block_size < y->block_size;
}

struct order {
	const struct view_column *column; /* NULL: the largest first */
	bool reverse;
};

static int compare_rows(const void *a, const void *b, void *context)
{
	const struct order *by = context;
	const struct view_row *x = a, *y = b;
	int order = 0;

	if (by->column && by->column->type == VIEW_TEXT) {
		order = view_compare_text(view_text(x, by->column), view_text(y, by->column));
	} else if (by->column) {
		uint64_t m = view_number(x, by->column), n = view_number(y, by->column);

		order = m > n ? -1 : m < n;
		order = by->column->type == VIEW_ADDRESS ? -order : order;
	}
	order = order ? order : compare_largest(x, y);
	return by->reverse ? -order : order;
}

void view_rows_sort(struct view_rows *rows, const struct view_column *column, bool reverse)
{
	struct order order = { column, reverse };

	if (rows->rows.len)
		qsort_r(rows->rows.items, rows->rows.len, sizeof(*rows->rows.items), compare_rows, &order);
}

struct fh_error *view_rows_create(struct fh_census *census, const struct view_grouping *grouping,
				  struct view_rows *ret)
{
	*ret = (struct view_rows){ .grouping = grouping };
	TRY(grouping->collect(census, ret));
	for (size_t i = 0; i < ret->rows.len; i++)
		view_row_add(&ret->total, &ret->rows.items[i]);
	view_rows_sort(ret, NULL, false);
	return NULL;
}

void view_rows_deinit(struct view_rows *rows)
{
	vec_free(&rows->rows);
}
