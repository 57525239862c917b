/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQL through SQLite, in a database of its own in memory that holds nothing but virtual tables over the
 * census. An expression is SQLite's, and so are its error messages.
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "query/tables.h"

#define MOST_COLUMNS 256

static void close_database(sqlite3 **db)
{
	sqlite3_close(*db);
}

static void finalize(sqlite3_stmt **statement)
{
	sqlite3_finalize(*statement);
}

/* Nothing outside of this database can be reached; that nothing in it is written is checked by run(). (To connect a
 * virtual table SQLite itself asks for leave to create one, so a list of what is allowed would be longer.) */
static int authorize(void *context, int action, const char *a, const char *b, const char *c, const char *d)
{
	(void)context;
	(void)a;
	(void)b;
	(void)c;
	(void)d;
	return action == SQLITE_ATTACH || action == SQLITE_DETACH || action == SQLITE_PRAGMA ? SQLITE_DENY : SQLITE_OK;
}

static struct fh_error *open_database(struct fh_census *census, sqlite3 **ret)
{
	if (sqlite3_open_v2(":memory:", ret, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
		return error_create(FH_ERROR_SYSTEM, "SQLite can't be started: %s", *ret ? sqlite3_errmsg(*ret) : "no memory");
	/* Double quotes make a string where no column has that name: 'domain = "python"' is what people type. */
	sqlite3_db_config(*ret, SQLITE_DBCONFIG_DQS_DML, 1, NULL);
	sqlite3_db_config(*ret, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	for (size_t i = 0; tables[i]; i++)
		if (sqlite3_create_module(*ret, tables[i]->name, tables[i]->list ? &list_module : &block_module, census) != SQLITE_OK)
			return error_create(FH_ERROR_SYSTEM, "SQLite: %s", sqlite3_errmsg(*ret));
	sqlite3_set_authorizer(*ret, authorize, NULL);
	return NULL;
}

void fh_query_each_column(fh_column_visitor *visit, void *context)
{
	for (size_t i = 0; tables[i]; i++)
		for (size_t k = 0; k < tables[i]->n_columns; k++)
			if (!visit(context, tables[i]->name, tables[i]->columns[k].name, tables[i]->columns[k].title))
				return;
}

/* "block (start, end, ...), category (...)" */
static void list_names(char *buffer, size_t size)
{
	size_t at = 0;

	for (size_t i = 0; tables[i]; i++)
		for (size_t k = 0; k < tables[i]->n_columns && at < size; k++)
			at += (size_t)snprintf(buffer + at, size - at, "%s%s%s%s", k ? ", " : i ? "), " : "",
					       k ? "" : tables[i]->name, k ? "" : " (", tables[i]->columns[k].name);
	if (at < size)
		snprintf(buffer + at, size - at, ")");
}

static struct fh_error *wrong_sql(sqlite3 *db)
{
	const char *message = sqlite3_errmsg(db);
	char names[1024];

	if (sqlite3_errcode(db) == SQLITE_NOMEM)
		return error_no_memory();
	list_names(names, sizeof(names));
	return error_create(FH_ERROR_QUERY, "%s; there is: %s", message, names);
}

static struct fh_value value_of(sqlite3_stmt *statement, int column)
{
	struct fh_value value = { 0 };
	const char *declared;

	switch (sqlite3_column_type(statement, column)) {
	case SQLITE_INTEGER:
		declared = sqlite3_column_decltype(statement, column);
		value.type = declared && strcmp(declared, "ADDRESS") == 0 ? FH_VALUE_ADDRESS : FH_VALUE_INTEGER;
		value.integer = sqlite3_column_int64(statement, column);
		break;
	case SQLITE_FLOAT:
		value.type = FH_VALUE_REAL;
		value.real = sqlite3_column_double(statement, column);
		break;
	case SQLITE_NULL:
		break;
	default:
		value.type = FH_VALUE_TEXT;
		value.text = (const char *)sqlite3_column_text(statement, column);
		value.length = (size_t)sqlite3_column_bytes(statement, column);
	}
	return value;
}

static bool tell_columns(sqlite3_stmt *statement, int n, const struct fh_query_visitor *visitor, void *context)
{
	const char *names[MOST_COLUMNS];

	for (int i = 0; i < n; i++)
		names[i] = sqlite3_column_name(statement, i);
	return !visitor->columns || visitor->columns(context, (size_t)n, names);
}

static struct fh_error *run(sqlite3 *db, sqlite3_stmt *statement, const struct fh_query_visitor *visitor, void *context)
{
	struct fh_value values[MOST_COLUMNS];
	int n = sqlite3_column_count(statement), status;

	if (n > MOST_COLUMNS)
		return error_create(FH_ERROR_QUERY, "a query can have %d columns at most", MOST_COLUMNS);
	if (!tell_columns(statement, n, visitor, context))
		return NULL;
	while ((status = sqlite3_step(statement)) == SQLITE_ROW) {
		for (int i = 0; i < n; i++)
			values[i] = value_of(statement, i);
		if (!visitor->row(context, (size_t)n, values))
			return NULL;
	}
	return status == SQLITE_DONE ? NULL : wrong_sql(db);
}

struct fh_error *fh_query(struct fh_census *census, const char *sql, const struct fh_query_visitor *visitor, void *context)
{
	CLEANUP(close_database) sqlite3 *db = NULL;
	CLEANUP(finalize) sqlite3_stmt *statement = NULL;
	const char *rest = "";

	TRY(open_database(census, &db));
	if (sqlite3_prepare_v2(db, sql, -1, &statement, &rest) != SQLITE_OK)
		return wrong_sql(db);
	if (!statement)
		return error_create(FH_ERROR_QUERY, "the query is empty; try 'select kind, sum(size) from block group by kind'");
	if (rest[strspn(rest, " \t\n;")])
		return error_create(FH_ERROR_QUERY, "one query at a time: what follows the ';' is too much");
	if (!sqlite3_stmt_readonly(statement) || sqlite3_column_count(statement) == 0)
		return error_create(FH_ERROR_QUERY, "only queries can be asked: SELECT ... or WITH ... SELECT");
	return run(db, statement, visitor, context);
}
