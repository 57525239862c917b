/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table `block`: every block of the ledger, walked where it lies. Conditions on `start` and `end` narrow the
 * walk; figures of residency are only looked up when they are asked for.
 */
#include "query/tables.h"

enum block_column {
	COLUMN_START, COLUMN_END, COLUMN_SIZE, COLUMN_RESIDENT, COLUMN_SWAPPED, COLUMN_DOMAIN, COLUMN_KIND,
	COLUMN_DETAIL, COLUMN_STATE, COLUMN_HEAD, COLUMN_MAPPING, COLUMN_MODULE,
};

static const struct table_column columns[] = {
	[COLUMN_START] = { "start", TABLE_ADDRESS, "first address" },
	[COLUMN_END] = { "end", TABLE_ADDRESS, "address behind it" },
	[COLUMN_SIZE] = { "size", TABLE_INTEGER, "bytes, all of the block" },
	[COLUMN_RESIDENT] = { "resident", TABLE_INTEGER, "bytes in memory" },
	[COLUMN_SWAPPED] = { "swapped", TABLE_INTEGER, "bytes swapped out" },
	[COLUMN_DOMAIN] = { "domain", TABLE_TEXT, "who it belongs to: python, glibc, image ..." },
	[COLUMN_KIND] = { "kind", TABLE_TEXT, "what it is: dict, free chunk, text ..." },
	[COLUMN_DETAIL] = { "detail", TABLE_TEXT, "whose, or which" },
	[COLUMN_STATE] = { "state", TABLE_TEXT, "live, free, overhead or mapped" },
	[COLUMN_HEAD] = { "head", TABLE_INTEGER, "bytes of allocator header before the data" },
	[COLUMN_MAPPING] = { "mapping", TABLE_TEXT, "path of the mapping that it is in" },
	[COLUMN_MODULE] = { "module", TABLE_TEXT, "program or library whose segment it is in" },
};

const struct table block_table = {
	.name = "block",
	.title = "every block: live, free and overhead",
	.columns = columns,
	.n_columns = sizeof(columns) / sizeof(*columns),
};

struct block_vtab {
	sqlite3_vtab base;
	struct fh_census *census;
};

struct block_cursor {
	sqlite3_vtab_cursor base;
	struct ledger_cursor ledger;
	struct census_cursors residency;
	struct block block;
	struct fh_block filled;
	uint64_t stop; /* blocks that start here or above are not wanted */
	bool eof, is_filled;
};

static int block_connect(sqlite3 *db, void *census, int argc, const char *const *argv, sqlite3_vtab **ret, char **error)
{
	char *declaration = table_declaration(&block_table);
	int status = declaration ? sqlite3_declare_vtab(db, declaration) : SQLITE_NOMEM;
	struct block_vtab *vtab;

	(void)argc;
	(void)argv;
	(void)error;
	sqlite3_free(declaration);
	if (status != SQLITE_OK)
		return status;
	vtab = sqlite3_malloc(sizeof(*vtab));
	if (!vtab)
		return SQLITE_NOMEM;
	*vtab = (struct block_vtab){ .census = census };
	*ret = &vtab->base;
	return SQLITE_OK;
}

static int block_disconnect(sqlite3_vtab *vtab)
{
	sqlite3_free(vtab);
	return SQLITE_OK;
}

/* A lower bound of `start` or `end`, and an upper one of `start`, become arguments; SQLite still checks them itself. idxNum:
 * 1 lower bound, 2 upper bound. */
static int block_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
	int lower = -1, upper = -1, next = 1;

	(void)vtab;
	for (int i = 0; i < info->nConstraint; i++) {
		unsigned char op = info->aConstraint[i].op;
		int column = info->aConstraint[i].iColumn;

		if (!info->aConstraint[i].usable)
			continue;
		if (lower < 0 && (column == COLUMN_START || column == COLUMN_END) &&
		    (op == SQLITE_INDEX_CONSTRAINT_GE || op == SQLITE_INDEX_CONSTRAINT_GT ||
		     (op == SQLITE_INDEX_CONSTRAINT_EQ && column == COLUMN_START)))
			lower = i;
		if (upper < 0 && column == COLUMN_START &&
		    (op == SQLITE_INDEX_CONSTRAINT_LE || op == SQLITE_INDEX_CONSTRAINT_LT ||
		     op == SQLITE_INDEX_CONSTRAINT_EQ))
			upper = i;
	}
	info->idxNum = (lower >= 0 ? 1 : 0) | (upper >= 0 ? 2 : 0);
	if (lower >= 0)
		info->aConstraintUsage[lower].argvIndex = next++;
	if (upper >= 0 && upper != lower)
		info->aConstraintUsage[upper].argvIndex = next++;
	else if (upper >= 0)
		info->idxNum |= 4; /* the same value is both */
	info->estimatedCost = info->idxNum == 7 ? 10 : info->idxNum ? 1e5 : 1e7;
	return SQLITE_OK;
}

static int block_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **ret)
{
	struct block_cursor *cursor = sqlite3_malloc(sizeof(*cursor));

	(void)vtab;
	if (!cursor)
		return SQLITE_NOMEM;
	*cursor = (struct block_cursor){ 0 };
	*ret = &cursor->base;
	return SQLITE_OK;
}

static int block_close(sqlite3_vtab_cursor *cursor)
{
	sqlite3_free(cursor);
	return SQLITE_OK;
}

static int block_next(sqlite3_vtab_cursor *base)
{
	struct block_cursor *cursor = (struct block_cursor *)base;
	const struct block_vtab *vtab = (const struct block_vtab *)base->pVtab;

	cursor->eof = !ledger_next(vtab->census->target.ledger, &cursor->ledger, &cursor->block) ||
		      cursor->block.start > cursor->stop;
	cursor->is_filled = false;
	return SQLITE_OK;
}

/* Addresses are SQLite's signed integers; those in the kernel's half are negative there, and sort first: bounds
 * that are negative narrow nothing. */
static int block_filter(sqlite3_vtab_cursor *base, int number, const char *string, int argc, sqlite3_value **argv)
{
	struct block_cursor *cursor = (struct block_cursor *)base;
	const struct block_vtab *vtab = (const struct block_vtab *)base->pVtab;
	int used = 0;
	int64_t bound;

	(void)string;
	*cursor = (struct block_cursor){ .base = cursor->base, .stop = UINT64_MAX };
	if (number & 1 && used < argc) {
		bound = sqlite3_value_type(argv[used]) == SQLITE_INTEGER ? sqlite3_value_int64(argv[used]) : -1;
		if (bound > 0)
			cursor->ledger = ledger_cursor_at(vtab->census->target.ledger, (uint64_t)bound - 1);
		if (bound > 0 && number & 4)
			cursor->stop = (uint64_t)bound;
		used++;
	}
	if (number & 2 && !(number & 4) && used < argc &&
	    sqlite3_value_type(argv[used]) == SQLITE_INTEGER) {
		bound = sqlite3_value_int64(argv[used]);
		if (bound > 0)
			cursor->stop = (uint64_t)bound;
	}
	return block_next(base);
}

static int block_eof(sqlite3_vtab_cursor *base)
{
	return ((const struct block_cursor *)base)->eof;
}

static const char *mapping_path(const struct fh_census *census, uint64_t address)
{
	const struct mapping *m = source_mapping_at(census->target.source, address);

	return m ? m->path : NULL;
}

static const char *module_name(const struct fh_census *census, uint64_t address)
{
	const struct image *image = images_at(census->target.images, address, NULL);

	return image ? image->name : NULL;
}

static void result_text(sqlite3_context *context, const char *text)
{
	if (text)
		sqlite3_result_text(context, text, -1, SQLITE_STATIC); /* lives as long as the census */
	else
		sqlite3_result_null(context);
}

static int block_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
	static const char *const states[] = { "mapped", "live", "free", "overhead" };
	struct block_cursor *cursor = (struct block_cursor *)base;
	struct fh_census *census = ((const struct block_vtab *)base->pVtab)->census;
	const struct category *c = ledger_category_of(census->target.ledger, cursor->block.category);
	bool residency = census->target.source->has_residency;

	if ((column == COLUMN_RESIDENT || column == COLUMN_SWAPPED) && !cursor->is_filled && residency) {
		census_fill_block(census, &cursor->block, &cursor->residency, &cursor->filled);
		cursor->is_filled = true;
	}
	switch ((enum block_column)column) {
	case COLUMN_START: sqlite3_result_int64(context, (int64_t)cursor->block.start); break;
	case COLUMN_END: sqlite3_result_int64(context, (int64_t)cursor->block.end); break;
	case COLUMN_SIZE: sqlite3_result_int64(context, (int64_t)(cursor->block.end - cursor->block.start)); break;
	case COLUMN_RESIDENT:
		if (residency)
			sqlite3_result_int64(context, (int64_t)cursor->filled.resident);
		break;
	case COLUMN_SWAPPED:
		if (residency)
			sqlite3_result_int64(context, (int64_t)cursor->filled.swapped);
		break;
	case COLUMN_DOMAIN: result_text(context, c->domain); break;
	case COLUMN_KIND: result_text(context, c->kind); break;
	case COLUMN_DETAIL: result_text(context, c->detail); break;
	case COLUMN_STATE: result_text(context, states[c->state]); break;
	case COLUMN_HEAD: sqlite3_result_int64(context, c->head); break;
	case COLUMN_MAPPING: result_text(context, mapping_path(census, cursor->block.start)); break;
	case COLUMN_MODULE: result_text(context, module_name(census, cursor->block.start)); break;
	}
	return SQLITE_OK;
}

static int block_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
	*ret = ((const struct block_cursor *)base)->block.slot;
	return SQLITE_OK;
}

const sqlite3_module block_module = {
	.iVersion = 1,
	.xConnect = block_connect,
	.xBestIndex = block_best_index,
	.xDisconnect = block_disconnect,
	.xOpen = block_open,
	.xClose = block_close,
	.xFilter = block_filter,
	.xNext = block_next,
	.xEof = block_eof,
	.xColumn = block_column,
	.xRowid = block_rowid,
};
