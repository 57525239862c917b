/* SPDX-License-Identifier: Apache-2.0 */
#include "view/summary.h"

#include <string.h>

static bool is_live(const struct fh_row *row)
{
	return row->state == FH_LIVE;
}

/* Address space that an arena may grow into can't hold anything yet, and would dwarf what is free. */
static bool is_free(const struct fh_row *row)
{
	return row->state == FH_FREE && strcmp(row->kind, "reserved") != 0;
}

static bool is_overhead(const struct fh_row *row)
{
	return row->state == FH_OVERHEAD;
}

static bool is_file(const struct fh_row *row)
{
	return strcmp(row->domain, "image") == 0 ||
	       (strcmp(row->domain, "os") == 0 && strcmp(row->kind, "file mapping") == 0);
}

static bool is_stack(const struct fh_row *row)
{
	return strcmp(row->domain, "stack") == 0;
}

static bool is_dark(const struct fh_row *row)
{
	return strcmp(row->domain, "uncategorized") == 0;
}

static bool is_other(const struct fh_row *row)
{
	(void)row;
	return true;
}

/* The first that holds takes the row. */
static const struct share_kind {
	const char *name, *title;
	bool (*holds)(const struct fh_row *row);
} share_kinds[] = {
	{ "live", "in use by the program", is_live },
	{ "free", "free, held by the allocators", is_free },
	{ "overhead", "the allocators' own", is_overhead },
	{ "files", "program, libraries, files", is_file },
	{ "stacks", "stacks", is_stack },
	{ "dark", "dark: of unknown structure", is_dark },
	{ "other", "shared, the kernel's, reserved", is_other },
};

#define N_KINDS (sizeof(share_kinds) / sizeof(*share_kinds))

static void add(struct fh_size *sum, const struct fh_size *size)
{
	sum->virtual_ += size->virtual_;
	sum->resident += size->resident;
	sum->swapped += size->swapped;
}

static bool take(void *context, const struct fh_row *row)
{
	struct view_summary *summary = context;
	size_t i = 0;

	while (i < N_KINDS - 1 && !share_kinds[i].holds(row))
		i++;
	add(&summary->shares[i].size, &row->size);
	add(&summary->total, &row->size);
	if (row->state == FH_LIVE && strcmp(row->domain, "uncategorized") == 0)
		add(&summary->unnamed, &row->size);
	return true;
}

struct fh_error *view_summary_make(struct fh_census *census, struct view_summary *ret)
{
	_Static_assert(N_KINDS <= VIEW_MOST_SHARES, "a share without a place");
	*ret = (struct view_summary){ .n_shares = N_KINDS };
	for (size_t i = 0; i < N_KINDS; i++)
		ret->shares[i] = (struct view_share){ .name = share_kinds[i].name, .title = share_kinds[i].title,
						      .live = share_kinds[i].holds == is_live };
	return fh_census_each_row(census, take, ret);
}
