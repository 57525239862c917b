/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQL over an open census: an empty database in memory whose only content are the virtual tables. It can be asked
 * and nothing else: an authorizer lets through what SELECT needs, there are no files, no extensions.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "query/functions.h"
#include "query/tables.h"

#define MOST_LENGTH (64 << 20)	  /* bytes of one value: it is held several times over until it is printed */
#define STEPS_BETWEEN_CALLS 20000 /* of SQLite's machine: well below a hundredth of a second */

struct query {
	sqlite3 *db;
	const struct fh_query_visitor *visitor;
	void *context;
	bool connecting; /* SQLite declares a virtual table */
	bool stopped;	 /* go_on() said so */
};

/* ---- a database that can only be asked ------------------------------------------- */

static int authorize(void *context, int action, const char *a, const char *b, const char *database,
		     const char *trigger)
{
	const struct query *query = context;

	(void)a;
	(void)database;
	(void)trigger;
	if (query->connecting)
		return SQLITE_OK;
	switch (action) {
	case SQLITE_SELECT:
	case SQLITE_READ:
	case SQLITE_RECURSIVE:
		return SQLITE_OK;
	case SQLITE_FUNCTION:
		return b && strcasecmp(b, "load_extension") == 0 ? SQLITE_DENY : SQLITE_OK;
	default:
		return SQLITE_DENY;
	}
}

static int call_go_on(void *context)
{
	struct query *query = context;

	query->stopped = !query->visitor->go_on(query->context);
	return query->stopped;
}

static void harden(struct query *query)
{
	sqlite3 *db = query->db;

	sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	/* domain = "python": what is no column is a string, as people write it in a shell's single quotes. */
	sqlite3_db_config(db, SQLITE_DBCONFIG_DQS_DML, 1, NULL);
	sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
	sqlite3_limit(db, SQLITE_LIMIT_LENGTH, MOST_LENGTH);
	sqlite3_set_authorizer(db, authorize, query);
}

static struct fh_error *open_database(struct query *query, struct fh_census *census)
{
	int code = sqlite3_open_v2(":memory:", &query->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY |
				   SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE, NULL);

	if (code != SQLITE_OK)
		return error_no_memory();
	TRY(query_add_tables(query->db, census, &query->connecting));
	TRY(query_add_functions(query->db, census));
	harden(query);
	if (query->visitor->go_on)
		sqlite3_progress_handler(query->db, STEPS_BETWEEN_CALLS, call_go_on, query);
	return NULL;
}

/* ---- errors ------------------------------------------------------------------------- */

static bool is_word_char(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Whether a name occurs in the text as a word. */
static bool mentions(const char *text, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = text; (at = strcasestr(at, name)); at++)
		if ((at == text || !is_word_char(at[-1])) && !is_word_char(at[len]))
			return true;
	return false;
}

/* Whether a name that is no column stands where people put a text and forget its quotes: kind = dict. */
static bool is_compared_with(const char *sql, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = sql; *name && (at = strstr(at, name)); at++) {
		const char *before = at;

		if ((at > sql && is_word_char(at[-1])) || is_word_char(at[len]))
			continue;
		while (before > sql && isspace((unsigned char)before[-1]))
			before--;
		if (before > sql && strchr("=<>", before[-1]))
			return true;
		if (before < at && before - sql >= 4 && strncasecmp(before - 4, "like", 4) == 0)
			return true;
	}
	return false;
}

static void append_columns(sqlite3_str *text, const struct query_table *table)
{
	sqlite3_str_appendf(text, "; %s has ", table->name);
	for (size_t i = 0; i < table->n_columns; i++)
		sqlite3_str_appendf(text, "%s%s", i ? ", " : "", table->columns[i].name);
}

/* SQLite's message and the names that exist: the tables, and the columns of those that the SQL mentions. */
static struct fh_error *query_error(struct query *query, const char *sql, const char *message)
{
	static const char no_column[] = "no such column: ";
	sqlite3_str *text;
	char *made;
	struct fh_error *error;

	if (query->stopped)
		return error_create(FH_ERROR_INTERRUPTED, "interrupted");
	if (sqlite3_errcode(query->db) == SQLITE_NOMEM)
		return error_no_memory();
	if (sqlite3_errcode(query->db) == SQLITE_AUTH)
		message = "only SELECT can be used here: the target is looked at, nothing is changed or created";
	text = sqlite3_str_new(NULL);
	sqlite3_str_appendall(text, message);
	if (strncmp(message, no_column, strlen(no_column)) == 0 && is_compared_with(sql, message + strlen(no_column)))
		sqlite3_str_appendf(text, "; text needs quotes: '%s'", message + strlen(no_column));
	sqlite3_str_appendall(text, "; the tables are ");
	for (size_t i = 0; query_tables[i]; i++)
		sqlite3_str_appendf(text, "%s%s", i ? ", " : "", query_tables[i]->name);
	for (size_t i = 0; query_tables[i]; i++)
		if (mentions(sql, query_tables[i]->name))
			append_columns(text, query_tables[i]);
	made = sqlite3_str_finish(text);
	error = made ? error_create(FH_ERROR_QUERY, "%s", made) : error_no_memory();
	sqlite3_free(made);
	return error;
}

/* ---- running ---------------------------------------------------------------------------- */

/* Compiles the one statement that there may be. */
static struct fh_error *prepare(struct query *query, const char *sql, sqlite3_stmt **ret)
{
	sqlite3_stmt *more = NULL;
	const char *tail;
	int code = sqlite3_prepare_v2(query->db, sql, -1, ret, &tail);

	if (code != SQLITE_OK)
		return query_error(query, sql, sqlite3_errmsg(query->db));
	if (!*ret)
		return query_error(query, sql, "there is no SQL in it");
	if (!sqlite3_stmt_readonly(*ret) || sqlite3_column_count(*ret) == 0)
		return query_error(query, sql, "only SELECT can be used here");
	code = sqlite3_prepare_v2(query->db, tail, -1, &more, NULL);
	sqlite3_finalize(more);
	if (code != SQLITE_OK || more)
		return query_error(query, sql, "one statement at a time");
	return NULL;
}

static bool visit_columns(struct query *query, sqlite3_stmt *statement, size_t n)
{
	const char **names = calloc(n + 1, sizeof(*names));
	bool go_on;

	if (!names)
		return false;
	for (size_t i = 0; i < n; i++)
		names[i] = sqlite3_column_name(statement, (int)i);
	go_on = query->visitor->columns(query->context, names, n);
	free(names);
	return go_on;
}

static struct fh_value value_of(sqlite3_stmt *statement, int i, bool is_address)
{
	struct fh_value value = { .type = FH_VALUE_NULL };

	switch (sqlite3_column_type(statement, i)) {
	case SQLITE_INTEGER:
		value.type = is_address ? FH_VALUE_ADDRESS : FH_VALUE_INTEGER;
		value.integer = sqlite3_column_int64(statement, i);
		break;
	case SQLITE_FLOAT:
		value.type = FH_VALUE_REAL;
		value.real = sqlite3_column_double(statement, i);
		break;
	case SQLITE_TEXT:
		value.type = FH_VALUE_TEXT;
		value.bytes = (const char *)sqlite3_column_text(statement, i);
		value.length = (size_t)sqlite3_column_bytes(statement, i);
		break;
	case SQLITE_BLOB:
		value.type = FH_VALUE_BYTES;
		value.bytes = sqlite3_column_blob(statement, i);
		value.length = (size_t)sqlite3_column_bytes(statement, i);
		break;
	}
	return value;
}

struct row {
	struct fh_value *values;
	bool *addresses; /* whether a column has them */
	size_t n;
};

static struct fh_error *step_through(struct query *query, const char *sql, sqlite3_stmt *statement, struct row *row)
{
	int code;

	for (size_t i = 0; i < row->n; i++) {
		const char *type = sqlite3_column_decltype(statement, (int)i);

		row->addresses[i] = type && strncmp(type, "ADDRESS", 7) == 0;
	}
	if (query->visitor->columns && !visit_columns(query, statement, row->n))
		return NULL;
	while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
		for (size_t i = 0; i < row->n; i++)
			row->values[i] = value_of(statement, (int)i, row->addresses[i]);
		if (query->visitor->row && !query->visitor->row(query->context, row->values, row->n))
			return NULL;
	}
	return code == SQLITE_DONE ? NULL : query_error(query, sql, sqlite3_errmsg(query->db));
}

static struct fh_error *run(struct query *query, struct fh_census *census, const char *sql)
{
	sqlite3_stmt *statement = NULL;
	struct row row = { 0 };
	struct fh_error *error;

	TRY(open_database(query, census));
	error = prepare(query, sql, &statement);
	if (!error) {
		row.n = (size_t)sqlite3_column_count(statement);
		row.values = calloc(row.n + 1, sizeof(*row.values));
		row.addresses = calloc(row.n + 1, sizeof(*row.addresses));
		error = row.values && row.addresses ? step_through(query, sql, statement, &row) : error_no_memory();
	}
	free(row.values);
	free(row.addresses);
	sqlite3_finalize(statement);
	return error;
}

struct fh_error *fh_query(struct fh_census *census, const char *sql, const struct fh_query_visitor *visitor,
			  void *context)
{
	struct fh_query_visitor known = { .size = sizeof(known) };
	struct query query = { .visitor = &known, .context = context };
	struct fh_error *error;

	memcpy(&known, visitor, visitor->size < sizeof(known) ? visitor->size : sizeof(known));
	error = run(&query, census, sql);
	sqlite3_close(query.db);
	return error;
}

/* ---- blocks for which an expression holds -------------------------------------------------- */

struct selection {
	struct fh_census *census;
	fh_block_visitor *visit;
	bool (*go_on)(void *context);
	void *context;
};

static bool take_start(void *context, const struct fh_value *values, size_t n)
{
	struct selection *selection = context;
	struct fh_block block;

	if (n != 1 || !fh_census_find_block(selection->census, (uint64_t)values[0].integer, &block))
		return true;
	return selection->visit(selection->context, &block);
}

static bool selection_goes_on(void *context)
{
	struct selection *selection = context;

	return !selection->go_on || selection->go_on(selection->context);
}

struct fh_error *fh_select(struct fh_census *census, const char *expression, fh_block_visitor *visit,
			   bool (*go_on)(void *context), void *context)
{
	struct selection selection = { census, visit, go_on, context };
	struct fh_query_visitor visitor = { .size = sizeof(visitor), .row = take_start, .go_on = selection_goes_on };
	static const char end[] = "near \")\": syntax error";
	/* On a line of its own, so that a comment in it ends there, and in parentheses, so that it is an expression: with
	 * LIMIT or GROUP BY the sums were not those of the blocks for which it holds. */
	char *sql = sqlite3_mprintf("SELECT start FROM block WHERE (%s\n)", expression);
	struct fh_error *error;

	if (!sql)
		return error_no_memory();
	error = fh_query(census, sql, &visitor, &selection);
	sqlite3_free(sql);
	/* Our own parenthesis came where more was to follow. */
	if (error && !strchr(expression, ')') && strncmp(error->message, end, strlen(end)) == 0) {
		struct fh_error *incomplete = error_create(error->code, "incomplete input%s", error->message + strlen(end));

		fh_error_destroy(error);
		return incomplete;
	}
	return error;
}

/* ---- names ------------------------------------------------------------------------------------ */

void fh_query_each_table(fh_name_visitor *visit, void *context)
{
	for (size_t i = 0; query_tables[i]; i++)
		if (!visit(context, query_tables[i]->name, query_tables[i]->title))
			return;
}

void fh_query_each_column(const char *table, fh_name_visitor *visit, void *context)
{
	for (size_t i = 0; query_tables[i]; i++) {
		const struct query_table *t = query_tables[i];

		for (size_t c = 0; c < t->n_columns && strcmp(t->name, table) == 0; c++)
			if (!visit(context, t->columns[c].name, t->columns[c].text))
				return;
	}
}

void fh_query_each_function(fh_name_visitor *visit, void *context)
{
	for (size_t i = 0; query_functions[i].name; i++)
		if (!visit(context, query_functions[i].usage, query_functions[i].text))
			return;
}
