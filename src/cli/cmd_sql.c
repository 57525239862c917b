/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

struct result {
	struct session *session; /* the first, for session_goes_on() */
	struct emitter_column columns[EMITTER_COLUMNS];
	char *names[EMITTER_COLUMNS];
	size_t n;
	bool begun;
	struct fh_error *error;
};

/* A column's name that no column before it has: JSON's objects need that. */
static char *unique_name(const struct result *result, size_t i, const char *name)
{
	char *made = strdup(name ? name : "");

	for (unsigned copy = 2; made; copy++) {
		size_t k = 0;

		while (k < i && strcmp(result->names[k], made) != 0)
			k++;
		if (k == i)
			return made;
		free(made);
		if (asprintf(&made, "%s:%u", name ? name : "", copy) < 0)
			return NULL;
	}
	return NULL;
}

static bool take_columns(void *context, const char *const *names, size_t n)
{
	struct result *result = context;

	if (n > EMITTER_COLUMNS) {
		result->error = error_create(FH_ERROR_QUERY, "%zu columns are too many: at most %d", n,
					     EMITTER_COLUMNS);
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		result->names[i] = unique_name(result, i, names[i]);
		if (!result->names[i]) {
			result->error = error_no_memory();
			return false;
		}
		result->columns[i] = (struct emitter_column){ result->names[i], COLUMN_FLEXIBLE };
	}
	result->n = n;
	result->begun = true;
	emitter_object_begin(&result->session->emitter, NULL);
	emitter_table_begin(&result->session->emitter, "rows", result->columns, n, 0);
	return true;
}

static struct emitter_value cell_of(const struct fh_value *value)
{
	switch (value->type) {
	case FH_VALUE_INTEGER:
		return emit_integer(value->integer);
	case FH_VALUE_ADDRESS:
		return emit_address((uint64_t)value->integer);
	case FH_VALUE_REAL:
		return emit_real(value->real);
	case FH_VALUE_TEXT:
		return (struct emitter_value){ .type = EMIT_TEXT, .text = value->bytes, .len = value->length };
	case FH_VALUE_BYTES:
		return emit_bytes(value->bytes, value->length);
	default:
		return emit_null();
	}
}

static bool take_row(void *context, const struct fh_value *values, size_t n)
{
	struct result *result = context;
	struct emitter_value cells[EMITTER_COLUMNS];

	for (size_t i = 0; i < n; i++)
		cells[i] = cell_of(&values[i]);
	emitter_row(&result->session->emitter, cells);
	return !result->session->emitter.error;
}

static struct fh_error *run_query(struct result *result, const char *sql)
{
	static const struct fh_query_visitor visitor = {
		.size = sizeof(visitor), .columns = take_columns, .row = take_row, .go_on = session_goes_on,
	};
	struct session *session = result->session;
	struct fh_error *error = fh_query(session->census, sql, &visitor, result);

	if (result->error) {
		fh_error_destroy(error);
		return result->error;
	}
	if (result->begun && (!error || error->code == FH_ERROR_INTERRUPTED))
		emitter_table_end(&session->emitter);
	if (!error) {
		session_emit_warnings(session);
		emitter_object_end(&session->emitter);
	}
	return error;
}

static struct fh_error *run(struct session *session, char **arguments, size_t n)
{
	struct result result = { .session = session };
	struct fh_error *error;

	(void)n;
	TRY(session_open(session, arguments[0], true));
	session->doing = "query";
	error = run_query(&result, arguments[1]);
	for (size_t i = 0; i < EMITTER_COLUMNS; i++)
		free(result.names[i]);
	return error;
}

const struct command cmd_sql = {
	.name = "sql",
	.arguments = "TARGET QUERY",
	.title = "any SQL query over blocks, mappings, threads ...",
	.text = "QUERY is one SELECT in SQLite's dialect, over the tables below. Nothing can be changed. For example\n"
		"  'select kind, count(*), sum(size) from block where state = \"free\" group by kind order by 3 desc'\n"
		"  'select * from category where domain = \"cpython\" and detail like \"%cache%\"'\n"
		"  'select address(start), memory(start, 16) from block where size == 1778224'",
	.options = OPTIONS_OF_TARGETS,
	.least = 2,
	.most = 2,
	.run = run,
};
