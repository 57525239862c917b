/* SPDX-License-Identifier: Apache-2.0 */
/* Rows by what single blocks are, or where: one pass over all of them. */
#include "view/groupings.h"

#include <string.h>

#include "base/hashmap.h"

/* ---- by size of block ---------------------------------------------------------- */

struct blocks_context {
	struct fh_census *census;
	struct view_rows *rows;
	struct hashmap index; /* key -> row */
	size_t at;	      /* the mapping or image that blocks have come to */
	VEC(struct fh_image) images;
	bool no_memory;
};

static void add_block(struct view_row *row, const struct fh_block *block)
{
	row->count++;
	row->virtual_ += block->end - block->start;
	row->resident += block->resident;
	row->swapped += block->swapped;
}

/* The row of a key, made when it isn't there yet. */
static struct view_row *row_of(struct blocks_context *blocks, uint64_t key, bool *ret_new)
{
	uint64_t *at = hashmap_get(&blocks->index, key);

	*ret_new = !at;
	if (at)
		return &blocks->rows->rows.items[*at];
	if (!hashmap_put(&blocks->index, key, blocks->rows->rows.len) ||
	    !vec_push(&blocks->rows->rows, (struct view_row){ 0 })) {
		blocks->no_memory = true;
		return NULL;
	}
	return vec_last(&blocks->rows->rows);
}

static const char *common(const char *a, const char *b)
{
	return a && b && (a == b || strcmp(a, b) == 0) ? a : NULL;
}

static bool take_by_size(void *context, const struct fh_block *block)
{
	struct blocks_context *blocks = context;
	bool new;
	struct view_row *row = row_of(blocks, block->end - block->start, &new);

	if (!row)
		return false;
	if (new) {
		row->block_size = block->end - block->start;
		row->domain = block->domain;
		row->kind = block->kind;
		row->detail = block->detail;
	} else if (row->domain) { /* a name stays as long as all blocks of the row have it */
		row->domain = common(row->domain, block->domain);
		row->kind = row->domain ? common(row->kind, block->kind) : NULL;
		row->detail = row->kind ? common(row->detail, block->detail) : NULL;
	}
	add_block(row, block);
	return true;
}

static struct fh_error *collect_blocks(struct fh_census *census, struct view_rows *rows, fh_block_visitor *visit)
{
	struct blocks_context blocks = { .census = census, .rows = rows };

	fh_census_each_block(census, visit, &blocks);
	hashmap_deinit(&blocks.index);
	return blocks.no_memory ? error_no_memory() : NULL;
}

static struct fh_error *collect_sizes(struct fh_census *census, struct view_rows *rows)
{
	return collect_blocks(census, rows, take_by_size);
}

static const struct view_column size_columns[] = {
	{ "size", VIEW_AMOUNT, 0, offsetof(struct view_row, block_size) },
	FIGURES,
	TEXT(domain, VIEW_FLEXIBLE),
	TEXT(kind, VIEW_FLEXIBLE),
	TEXT(detail, VIEW_FLEXIBLE),
};

const struct view_grouping view_by_size = {
	.name = "size", .title = "how large the blocks are; with a name where all of one size share it",
	COLUMNS(size_columns), .collect = collect_sizes,
};

/* ---- by mapping ------------------------------------------------------------------ */

/* The same text for as long as the program runs. */
static const char *permissions_text(const char *permissions)
{
	static const char all[][5] = {
		"---p", "r--p", "-w-p", "rw-p", "--xp", "r-xp", "-wxp", "rwxp",
		"---s", "r--s", "-w-s", "rw-s", "--xs", "r-xs", "-wxs", "rwxs",
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (strcmp(all[i], permissions) == 0)
			return all[i];
	return "";
}

static bool take_mapping(void *context, const struct fh_mapping *mapping)
{
	struct blocks_context *blocks = context;
	struct view_row row = {
		.start = mapping->start, .end = mapping->end,
		.mapping = *mapping->path ? mapping->path : NULL,
		.virtual_ = mapping->end - mapping->start,
		.resident = mapping->resident, .swapped = mapping->swapped,
		.permissions = permissions_text(mapping->permissions),
	};

	blocks->no_memory = !vec_push(&blocks->rows->rows, row);
	return !blocks->no_memory;
}

/* Counts the blocks only: one may reach over a border between mappings, so the sizes are the mapping's own. */
static bool take_by_mapping(void *context, const struct fh_block *block)
{
	struct blocks_context *blocks = context;

	while (blocks->at < blocks->rows->rows.len && blocks->rows->rows.items[blocks->at].end <= block->start)
		blocks->at++;
	if (blocks->at < blocks->rows->rows.len)
		blocks->rows->rows.items[blocks->at].count++;
	return true;
}

static struct fh_error *collect_mappings(struct fh_census *census, struct view_rows *rows)
{
	struct blocks_context blocks = { .census = census, .rows = rows };

	fh_census_each_mapping(census, take_mapping, &blocks);
	if (blocks.no_memory)
		return error_no_memory();
	fh_census_each_block(census, take_by_mapping, &blocks);
	return NULL;
}

static const struct view_column mapping_columns[] = {
	ADDRESS(start),
	ADDRESS(end),
	TEXT(permissions, 0),
	FIGURES,
	TEXT(mapping, VIEW_FLEXIBLE),
};

const struct view_grouping view_by_mapping = {
	.name = "mapping", .title = "the operating system's mappings, as in /proc/PID/maps",
	COLUMNS(mapping_columns), .collect = collect_mappings,
};

/* ---- by module --------------------------------------------------------------------- */

static bool take_image(void *context, const struct fh_image *image)
{
	struct blocks_context *blocks = context;

	blocks->no_memory = !vec_push(&blocks->images, *image);
	return !blocks->no_memory;
}

static bool take_by_module(void *context, const struct fh_block *block)
{
	struct blocks_context *blocks = context;
	struct fh_image image = { 0 };
	struct view_row *row;
	bool new;

	while (blocks->at < blocks->images.len && blocks->images.items[blocks->at].end <= block->start)
		blocks->at++;
	if (blocks->at < blocks->images.len && blocks->images.items[blocks->at].start < block->end)
		fh_census_find_image(blocks->census, block->start, &image);
	row = row_of(blocks, image.path ? image.start : UINT64_MAX, &new);
	if (!row)
		return false;
	row->module = image.path;
	add_block(row, block);
	return true;
}

static struct fh_error *collect_modules(struct fh_census *census, struct view_rows *rows)
{
	struct blocks_context blocks = { .census = census, .rows = rows };

	fh_census_each_image(census, take_image, &blocks);
	if (!blocks.no_memory)
		fh_census_each_block(census, take_by_module, &blocks);
	vec_free(&blocks.images);
	hashmap_deinit(&blocks.index);
	return blocks.no_memory ? error_no_memory() : NULL;
}

static const struct view_column module_columns[] = {
	TEXT(module, VIEW_FLEXIBLE),
	FIGURES,
};

const struct view_grouping view_by_module = {
	.name = "module", .title = "the program and its libraries; the rest has no name",
	COLUMNS(module_columns), .collect = collect_modules,
};
