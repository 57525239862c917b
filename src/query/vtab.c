/* SPDX-License-Identifier: Apache-2.0 */
/* struct query_table as SQLite's virtual tables (https://sqlite.org/vtab.html); eponymous, so nothing is created. */
#include "query/tables.h"

#include <stdlib.h>
#include <string.h>

struct binding {
	const struct query_table *table;
	struct fh_census *census;
	bool *connecting;
};

struct vtab {
	sqlite3_vtab base;
	const struct binding *binding;
	struct query_rows rows; /* of a table that is loaded whole */
	bool loaded;
};

struct cursor {
	sqlite3_vtab_cursor base;
	char *row;    /* the current one */
	void *stream; /* cursor of a stream */
	bool streaming, eof;
	uint64_t used;
	size_t at;
};

static const struct query_table *table_of(const sqlite3_vtab *vtab)
{
	return ((const struct vtab *)vtab)->binding->table;
}

/* ---- tables ------------------------------------------------------------------ */

/* Declared types; INT in one gives it SQLite's integer affinity. */
static const char *declared_type(enum query_type type)
{
	switch (type) {
	case QUERY_ADDRESS:
		return "ADDRESS INT";
	case QUERY_TEXT:
	case QUERY_CHARS:
		return "TEXT";
	default:
		return "INT";
	}
}

static char *declaration(const struct query_table *table)
{
	sqlite3_str *sql = sqlite3_str_new(NULL);

	sqlite3_str_appendf(sql, "CREATE TABLE \"%w\"(", table->name);
	for (size_t i = 0; i < table->n_columns; i++)
		sqlite3_str_appendf(sql, "%s\"%w\" %s", i ? ", " : "", table->columns[i].name,
				    declared_type(table->columns[i].type));
	sqlite3_str_appendall(sql, ")");
	return sqlite3_str_finish(sql);
}

static int connect_table(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **ret,
			 char **ret_error)
{
	const struct binding *binding = aux;
	struct vtab *vtab = calloc(1, sizeof(*vtab));
	char *sql = declaration(binding->table);
	int code = SQLITE_NOMEM;

	(void)argc;
	(void)argv;
	(void)ret_error;
	if (vtab && sql) {
		*binding->connecting = true;
		code = sqlite3_declare_vtab(db, sql);
		*binding->connecting = false;
	}
	sqlite3_free(sql);
	if (code != SQLITE_OK) {
		free(vtab);
		return code;
	}
	sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
	vtab->binding = binding;
	*ret = &vtab->base;
	return SQLITE_OK;
}

static int disconnect_table(sqlite3_vtab *base)
{
	struct vtab *vtab = (struct vtab *)base;

	vec_free(&vtab->rows.bytes);
	free(vtab);
	return SQLITE_OK;
}

static int best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
	const struct vtab *vtab = (const struct vtab *)base;

	/* The bits of the columns that are used fit an int in every table here; bit 31 is left out for the sign. */
	info->idxNum = (int)(info->colUsed & 0x7fffffff);
	if (table_of(base)->stream)
		return table_of(base)->stream->plan(vtab->binding->census, info);
	info->estimatedCost = 1000;
	info->estimatedRows = 1000;
	return SQLITE_OK;
}

/* ---- cursors ------------------------------------------------------------------- */

static int open_cursor(sqlite3_vtab *base, sqlite3_vtab_cursor **ret)
{
	const struct query_table *table = table_of(base);
	struct cursor *cursor = calloc(1, sizeof(*cursor));

	if (!cursor)
		return SQLITE_NOMEM;
	if (table->stream) {
		cursor->row = calloc(1, table->row_size);
		cursor->stream = calloc(1, table->stream->cursor_size);
		if (!cursor->row || !cursor->stream) {
			free(cursor->row);
			free(cursor->stream);
			free(cursor);
			return SQLITE_NOMEM;
		}
	}
	*ret = &cursor->base;
	return SQLITE_OK;
}

static void end_stream(struct cursor *cursor, const struct query_stream *stream)
{
	if (cursor->streaming)
		stream->end(cursor->stream);
	cursor->streaming = false;
}

static int close_cursor(sqlite3_vtab_cursor *base)
{
	struct cursor *cursor = (struct cursor *)base;

	if (table_of(base->pVtab)->stream) {
		end_stream(cursor, table_of(base->pVtab)->stream);
		free(cursor->row);
		free(cursor->stream);
	}
	free(cursor);
	return SQLITE_OK;
}

static int next_row(sqlite3_vtab_cursor *base)
{
	const struct query_table *table = table_of(base->pVtab);
	struct cursor *cursor = (struct cursor *)base;
	struct vtab *vtab = (struct vtab *)base->pVtab;

	if (table->stream) {
		cursor->eof = !table->stream->next(cursor->stream, cursor->used, cursor->row);
	} else {
		cursor->eof = ++cursor->at > vtab->rows.n;
		if (!cursor->eof)
			cursor->row = vtab->rows.bytes.items + (cursor->at - 1) * table->row_size;
	}
	return SQLITE_OK;
}

static int load_table(struct vtab *vtab)
{
	const struct query_table *table = vtab->binding->table;
	struct fh_error *error;

	if (vtab->loaded)
		return SQLITE_OK;
	error = table->load(vtab->binding->census, &vtab->rows);
	vtab->loaded = !error;
	if (!error)
		return SQLITE_OK;
	vec_free(&vtab->rows.bytes);
	vtab->rows.n = 0;
	vtab->base.zErrMsg = sqlite3_mprintf("%s", error->message);
	fh_error_destroy(error);
	return SQLITE_ERROR;
}

static int filter(sqlite3_vtab_cursor *base, int used, const char *plan, int n, sqlite3_value **arguments)
{
	const struct query_table *table = table_of(base->pVtab);
	struct cursor *cursor = (struct cursor *)base;
	struct vtab *vtab = (struct vtab *)base->pVtab;

	cursor->used = (uint64_t)used;
	cursor->at = 0;
	if (table->stream) {
		end_stream(cursor, table->stream);
		memset(cursor->stream, 0, table->stream->cursor_size);
		cursor->streaming = true; /* also when it fails: what it has is freed with it */
		if (!table->stream->begin(cursor->stream, vtab->binding->census, plan, arguments, n))
			return SQLITE_NOMEM;
	} else {
		int code = load_table(vtab);

		if (code != SQLITE_OK)
			return code;
	}
	return next_row(base);
}

static int at_end(sqlite3_vtab_cursor *base)
{
	return ((const struct cursor *)base)->eof;
}

static int row_id(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
	const struct query_table *table = table_of(base->pVtab);
	const struct cursor *cursor = (const struct cursor *)base;

	*ret = table->stream && table->stream->rowid ? table->stream->rowid(cursor->row) : (sqlite3_int64)cursor->at;
	return SQLITE_OK;
}

/* ---- values --------------------------------------------------------------------- */

static void result_text(sqlite3_context *context, const char *text)
{
	if (text) /* it belongs to the census, and outlives the query */
		sqlite3_result_text(context, text, -1, SQLITE_STATIC);
	else
		sqlite3_result_null(context);
}

static int column_value(sqlite3_vtab_cursor *base, sqlite3_context *context, int i)
{
	const struct binding *binding = ((const struct vtab *)base->pVtab)->binding;
	const struct query_column *column = &binding->table->columns[i];
	const char *at = ((const struct cursor *)base)->row + column->offset;

	switch (column->type) {
	case QUERY_FIGURE:
		if (binding->census->target.source->has_residency)
			sqlite3_result_int64(context, *(const int64_t *)at);
		break;
	case QUERY_NUMBER:
		if (*(const int64_t *)at != -1)
			sqlite3_result_int64(context, *(const int64_t *)at);
		break;
	case QUERY_ADDRESS:
	case QUERY_AMOUNT:
	case QUERY_INTEGER:
		sqlite3_result_int64(context, *(const int64_t *)at);
		break;
	case QUERY_BOOL:
		sqlite3_result_int(context, *(const bool *)at);
		break;
	case QUERY_TEXT:
		result_text(context, *(const char *const *)at);
		break;
	case QUERY_CHARS:
		sqlite3_result_text(context, at, -1, SQLITE_TRANSIENT);
		break;
	}
	return SQLITE_OK;
}

static const sqlite3_module module = {
	.iVersion = 1,
	.xConnect = connect_table,
	.xDisconnect = disconnect_table,
	.xBestIndex = best_index,
	.xOpen = open_cursor,
	.xClose = close_cursor,
	.xFilter = filter,
	.xNext = next_row,
	.xEof = at_end,
	.xColumn = column_value,
	.xRowid = row_id,
};

struct fh_error *query_add_tables(sqlite3 *db, struct fh_census *census, bool *connecting)
{
	for (size_t i = 0; query_tables[i]; i++) {
		struct binding *binding = malloc(sizeof(*binding));

		if (!binding)
			return error_no_memory();
		*binding = (struct binding){ query_tables[i], census, connecting };
		/* SQLite frees the binding, also when this fails. */
		if (sqlite3_create_module_v2(db, query_tables[i]->name, &module, binding, free) != SQLITE_OK)
			return error_no_memory();
	}
	return NULL;
}
