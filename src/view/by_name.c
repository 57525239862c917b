/* SPDX-License-Identifier: Apache-2.0 */
/* Rows by name: what fh_census_each_row() says, as fine or coarse as wanted. */
#include "view/groupings.h"

#include <stdlib.h>

struct names_context {
	struct view_rows *rows;
	bool kind, detail, no_memory;
};

static bool take_name_row(void *context, const struct fh_row *row)
{
	struct names_context *names = context;
	struct view_row made = {
		.domain = row->domain,
		.kind = names->kind ? row->kind : NULL,
		.detail = names->detail ? row->detail : NULL,
		.count = row->count, .virtual_ = row->size.virtual_,
		.resident = row->size.resident, .swapped = row->size.swapped,
	};

	names->no_memory = !vec_push(&names->rows->rows, made);
	return !names->no_memory;
}

static struct fh_error *collect_names(struct fh_census *census, struct view_rows *rows, bool kind, bool detail)
{
	struct names_context names = { .rows = rows, .kind = kind, .detail = detail };
	size_t kept = 0;

	TRY(fh_census_each_row(census, take_name_row, &names));
	if (names.no_memory)
		return error_no_memory();
	if (rows->rows.len)
		qsort(rows->rows.items, rows->rows.len, sizeof(*rows->rows.items), view_compare_names);
	for (size_t i = 0; i < rows->rows.len; i++) {
		struct view_row *last = kept ? &rows->rows.items[kept - 1] : NULL;

		if (last && view_compare_names(last, &rows->rows.items[i]) == 0)
			view_row_add(last, &rows->rows.items[i]);
		else
			rows->rows.items[kept++] = rows->rows.items[i];
	}
	rows->rows.len = kept;
	return NULL;
}

static struct fh_error *collect_domains(struct fh_census *census, struct view_rows *rows)
{
	return collect_names(census, rows, false, false);
}

static struct fh_error *collect_kinds(struct fh_census *census, struct view_rows *rows)
{
	return collect_names(census, rows, true, false);
}

static struct fh_error *collect_details(struct fh_census *census, struct view_rows *rows)
{
	return collect_names(census, rows, true, true);
}

static const struct view_column name_columns[] = {
	TEXT(domain, 0),
	TEXT(kind, VIEW_OPTIONAL | VIEW_FLEXIBLE),
	TEXT(detail, VIEW_OPTIONAL | VIEW_FLEXIBLE),
	FIGURES,
};

const struct view_grouping view_by_domain = {
	.name = "domain", .title = "who manages the memory: python, glibc, image, stack ...",
	COLUMNS(name_columns), .collect = collect_domains,
};

const struct view_grouping view_by_kind = {
	.name = "kind", .title = "what it is: python dict, glibc free chunk, image text ...",
	COLUMNS(name_columns), .collect = collect_kinds,
};

const struct view_grouping view_by_detail = {
	.name = "detail", .title = "the same with its owner, size class or file",
	COLUMNS(name_columns), .collect = collect_details,
};
