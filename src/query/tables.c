/* SPDX-License-Identifier: Apache-2.0 */
#include "query/tables.h"

#include <string.h>

static struct table_cell text(const char *string)
{
	return (struct table_cell){ .text = string ? string : "" };
}

static struct table_cell number(uint64_t value)
{
	return (struct table_cell){ .integer = (int64_t)value };
}

static struct table_cell none(void)
{
	return (struct table_cell){ .null = true };
}

/* What visitors fill in. */
struct listing {
	table_rows *rows;
	bool resident; /* known */
	bool no_memory;
};

static bool add(struct listing *listing, const struct table_row *row)
{
	if (!vec_push(listing->rows, *row))
		listing->no_memory = true;
	return !listing->no_memory;
}

static bool knows_residency(const struct fh_census *census)
{
	return census->target.source->has_residency;
}

/* ---- category -------------------------------------------------------------------------- */

static const struct table_column category_columns[] = {
	{ "domain", TABLE_TEXT, "who the memory belongs to" },
	{ "kind", TABLE_TEXT, "what it is" },
	{ "detail", TABLE_TEXT, "whose, or which" },
	{ "count", TABLE_INTEGER, "how many blocks" },
	{ "virtual", TABLE_INTEGER, "bytes" },
	{ "resident", TABLE_INTEGER, "bytes in memory" },
	{ "swapped", TABLE_INTEGER, "bytes swapped out" },
};

static bool add_category(void *context, const struct fh_row *r)
{
	struct listing *listing = context;

	return add(listing, &(struct table_row){ {
		text(r->domain), text(r->kind), text(r->detail), number(r->count), number(r->size.virtual_),
		listing->resident ? number(r->size.resident) : none(), listing->resident ? number(r->size.swapped) : none(),
	} });
}

static bool list_categories(struct fh_census *census, table_rows *rows)
{
	struct listing listing = { .rows = rows, .resident = knows_residency(census) };
	struct fh_error *error = fh_census_each_row(census, add_category, &listing);

	fh_error_destroy(error);
	return !error && !listing.no_memory;
}

/* ---- mapping ------------------------------------------------------------------------------ */

static const struct table_column mapping_columns[] = {
	{ "start", TABLE_ADDRESS, "first address" },
	{ "end", TABLE_ADDRESS, "address behind it" },
	{ "size", TABLE_INTEGER, "bytes" },
	{ "resident", TABLE_INTEGER, "bytes in memory" },
	{ "swapped", TABLE_INTEGER, "bytes swapped out" },
	{ "permissions", TABLE_TEXT, "rwxp or rwxs, as in /proc/PID/maps" },
	{ "offset", TABLE_INTEGER, "into the file" },
	{ "path", TABLE_TEXT, "the file, or the kernel's name" },
};

static bool add_mapping(void *context, const struct fh_mapping *m)
{
	struct listing *listing = context;

	return add(listing, &(struct table_row){ {
		number(m->start), number(m->end), number(m->end - m->start),
		listing->resident ? number(m->resident) : none(), listing->resident ? number(m->swapped) : none(),
		text(NULL), number(m->offset), text(m->path),
	} });
}

static bool list_mappings(struct fh_census *census, table_rows *rows)
{
	struct listing listing = { .rows = rows, .resident = knows_residency(census) };
	const struct source *source = census->target.source;

	fh_census_each_mapping(census, add_mapping, &listing);
	for (size_t i = 0; i < rows->len && i < source->mappings.len && !listing.no_memory; i++) {
		unsigned flags = source->mappings.items[i].flags;
		char permissions[] = { flags & MAPPING_READ ? 'r' : '-', flags & MAPPING_WRITE ? 'w' : '-',
				       flags & MAPPING_EXEC ? 'x' : '-', flags & MAPPING_SHARED ? 's' : 'p', '\0' };

		rows->items[i].cells[5] = text(strings_add(source->strings, permissions));
	}
	return !listing.no_memory;
}

/* ---- image, thread ----------------------------------------------------------------------------- */

static const struct table_column image_columns[] = {
	{ "name", TABLE_TEXT, "the file's name" },
	{ "path", TABLE_TEXT, "its path" },
	{ "start", TABLE_ADDRESS, "first address" },
	{ "end", TABLE_ADDRESS, "address behind its last segment" },
	{ "bias", TABLE_ADDRESS, "address in the target minus address in the file" },
	{ "executable", TABLE_INTEGER, "1 for the program itself" },
};

static bool add_image(void *context, const struct fh_image *i)
{
	return add(context, &(struct table_row){ {
		text(i->name), text(i->path), number(i->start), number(i->end), number(i->bias), number(i->executable),
	} });
}

static bool list_images(struct fh_census *census, table_rows *rows)
{
	struct listing listing = { .rows = rows };

	fh_census_each_image(census, add_image, &listing);
	return !listing.no_memory;
}

static const struct table_column thread_columns[] = {
	{ "tid", TABLE_INTEGER, "the kernel's number of it" },
	{ "name", TABLE_TEXT, "as the program named it" },
	{ "sp", TABLE_ADDRESS, "stack pointer" },
	{ "ip", TABLE_ADDRESS, "instruction pointer" },
	{ "tls", TABLE_ADDRESS, "thread pointer" },
};

static bool add_thread(void *context, const struct fh_thread *t)
{
	return add(context, &(struct table_row){ {
		number((uint64_t)t->tid), text(t->name), t->has_registers ? number(t->sp) : none(),
		t->has_registers ? number(t->ip) : none(), t->has_registers ? number(t->tls) : none(),
	} });
}

static bool list_threads(struct fh_census *census, table_rows *rows)
{
	struct listing listing = { .rows = rows };

	fh_census_each_thread(census, add_thread, &listing);
	return !listing.no_memory;
}

/* ---- arena, bin ------------------------------------------------------------------------------------ */

static const struct table_column arena_columns[] = {
	{ "allocator", TABLE_TEXT, "whose arena it is" },
	{ "number", TABLE_INTEGER, "0 is the main one" },
	{ "address", TABLE_ADDRESS, "of its management structure" },
	{ "system", TABLE_INTEGER, "bytes that it got from the operating system" },
	{ "top", TABLE_INTEGER, "bytes at its end, never given out" },
	{ "free", TABLE_INTEGER, "bytes in its lists, without fastbins" },
	{ "free_count", TABLE_INTEGER, "chunks in these" },
	{ "fast", TABLE_INTEGER, "bytes in fastbins" },
	{ "fast_count", TABLE_INTEGER, "chunks in these" },
};

static void add_arena(void *context, const struct alloc_arena *a)
{
	add(context, &(struct table_row){ {
		text(a->allocator), number(a->number), number(a->address), number(a->system_bytes), number(a->top_bytes),
		number(a->free_bytes), number(a->free_blocks), number(a->fast_bytes), number(a->fast_blocks),
	} });
}

static bool list_arenas(struct fh_census *census, table_rows *rows)
{
	struct listing listing = { .rows = rows };

	for (size_t i = 0; i < census->n_allocators; i++) {
		const struct allocator *allocator = census->allocators[i].plugin;

		if (allocator->each_arena)
			allocator->each_arena(&census->target, census->allocators[i].state, add_arena, &listing);
	}
	return !listing.no_memory;
}

static const struct table_column bin_columns[] = {
	{ "allocator", TABLE_TEXT, "whose list it is" },
	{ "arena", TABLE_INTEGER, "number of its arena; NULL for a thread's cache" },
	{ "tid", TABLE_INTEGER, "thread whose cache it is" },
	{ "name", TABLE_TEXT, "tcache, fast, small, large or unsorted, with the size" },
	{ "count", TABLE_INTEGER, "free chunks in it" },
	{ "bytes", TABLE_INTEGER, "their sizes" },
};

static void add_bin(void *context, const struct alloc_bin *b)
{
	add(context, &(struct table_row){ {
		text(b->allocator), b->arena == UINT32_MAX ? none() : number(b->arena),
		b->thread < 0 ? none() : number((uint64_t)b->thread), text(b->name), number(b->count), number(b->bytes),
	} });
}

static bool list_bins(struct fh_census *census, table_rows *rows)
{
	struct listing listing = { .rows = rows };

	for (size_t i = 0; i < census->n_allocators; i++) {
		const struct allocator *allocator = census->allocators[i].plugin;

		if (allocator->each_bin)
			allocator->each_bin(&census->target, census->allocators[i].state, add_bin, &listing);
	}
	return !listing.no_memory;
}

/* ---- all of them ------------------------------------------------------------------------------------- */

#define TABLE(name_, title_)                                                                                  \
	static const struct table name_##_table = { .name = #name_, .title = title_, .columns = name_##_columns, \
						    .n_columns = sizeof(name_##_columns) / sizeof(*name_##_columns), \
						    .list = list_##name_##_rows }
#define list_category_rows list_categories
#define list_mapping_rows list_mappings
#define list_image_rows list_images
#define list_thread_rows list_threads
#define list_arena_rows list_arenas
#define list_bin_rows list_bins

TABLE(category, "the census: blocks summed by domain, kind and detail");
TABLE(mapping, "the operating system's mappings");
TABLE(image, "the program and its libraries");
TABLE(thread, "threads with their registers");
TABLE(arena, "arenas of malloc");
TABLE(bin, "lists of free chunks");

const struct table *const tables[] = {
	&block_table, &category_table, &mapping_table, &image_table, &thread_table, &arena_table, &bin_table, NULL,
};

static const char *const type_names[] = { "TEXT", "INTEGER", "ADDRESS" };

char *table_declaration(const struct table *table)
{
	sqlite3_str *sql = sqlite3_str_new(NULL);

	sqlite3_str_appendf(sql, "CREATE TABLE x(");
	for (size_t i = 0; i < table->n_columns; i++)
		sqlite3_str_appendf(sql, "%s\"%w\" %s", i ? ", " : "", table->columns[i].name,
				    type_names[table->columns[i].type]);
	sqlite3_str_appendf(sql, ")");
	return sqlite3_str_finish(sql);
}

/* ---- the module for tables that are listed ------------------------------------------------------------ */

struct list_vtab {
	sqlite3_vtab base;
	const struct table *table;
	struct fh_census *census;
};

struct list_cursor {
	sqlite3_vtab_cursor base;
	table_rows rows;
	size_t at;
};

static const struct table *find_table(const char *name)
{
	for (size_t i = 0; tables[i]; i++)
		if (strcmp(tables[i]->name, name) == 0)
			return tables[i];
	return NULL;
}

static int list_connect(sqlite3 *db, void *census, int argc, const char *const *argv, sqlite3_vtab **ret, char **error)
{
	const struct table *table = argc > 0 ? find_table(argv[0]) : NULL;
	struct list_vtab *vtab;
	char *declaration;
	int status;

	(void)error;
	if (!table)
		return SQLITE_ERROR;
	declaration = table_declaration(table);
	status = declaration ? sqlite3_declare_vtab(db, declaration) : SQLITE_NOMEM;
	sqlite3_free(declaration);
	if (status != SQLITE_OK)
		return status;
	vtab = sqlite3_malloc(sizeof(*vtab));
	if (!vtab)
		return SQLITE_NOMEM;
	*vtab = (struct list_vtab){ .table = table, .census = census };
	*ret = &vtab->base;
	return SQLITE_OK;
}

static int list_disconnect(sqlite3_vtab *vtab)
{
	sqlite3_free(vtab);
	return SQLITE_OK;
}

static int list_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
	(void)vtab;
	info->estimatedCost = 1000;
	return SQLITE_OK;
}

static int list_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **ret)
{
	struct list_cursor *cursor = sqlite3_malloc(sizeof(*cursor));

	(void)vtab;
	if (!cursor)
		return SQLITE_NOMEM;
	*cursor = (struct list_cursor){ 0 };
	*ret = &cursor->base;
	return SQLITE_OK;
}

static int list_close(sqlite3_vtab_cursor *base)
{
	struct list_cursor *cursor = (struct list_cursor *)base;

	vec_free(&cursor->rows);
	sqlite3_free(cursor);
	return SQLITE_OK;
}

static int list_filter(sqlite3_vtab_cursor *base, int number, const char *string, int argc, sqlite3_value **argv)
{
	struct list_cursor *cursor = (struct list_cursor *)base;
	const struct list_vtab *vtab = (const struct list_vtab *)base->pVtab;

	(void)number;
	(void)string;
	(void)argc;
	(void)argv;
	cursor->rows.len = cursor->at = 0;
	return vtab->table->list(vtab->census, &cursor->rows) ? SQLITE_OK : SQLITE_NOMEM;
}

static int list_next(sqlite3_vtab_cursor *base)
{
	((struct list_cursor *)base)->at++;
	return SQLITE_OK;
}

static int list_eof(sqlite3_vtab_cursor *base)
{
	const struct list_cursor *cursor = (const struct list_cursor *)base;

	return cursor->at >= cursor->rows.len;
}

static int list_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
	const struct list_cursor *cursor = (const struct list_cursor *)base;
	const struct list_vtab *vtab = (const struct list_vtab *)base->pVtab;
	const struct table_cell *cell = &cursor->rows.items[cursor->at].cells[column];

	if (cell->null)
		sqlite3_result_null(context);
	else if (vtab->table->columns[column].type == TABLE_TEXT)
		sqlite3_result_text(context, cell->text, -1, SQLITE_TRANSIENT);
	else
		sqlite3_result_int64(context, cell->integer);
	return SQLITE_OK;
}

static int list_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
	*ret = (sqlite3_int64)((const struct list_cursor *)base)->at;
	return SQLITE_OK;
}

const sqlite3_module list_module = {
	.iVersion = 1,
	.xConnect = list_connect,
	.xBestIndex = list_best_index,
	.xDisconnect = list_disconnect,
	.xOpen = list_open,
	.xClose = list_close,
	.xFilter = list_filter,
	.xNext = list_next,
	.xEof = list_eof,
	.xColumn = list_column,
	.xRowid = list_rowid,
};
