/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"

struct result {
	struct invocation *invocation;
	struct emitter_column columns[EMITTER_COLUMNS];
	char *names[EMITTER_COLUMNS];
	size_t n;
	uint64_t rows;
	bool began, no_memory, too_many;
};

static bool take_columns(void *context, size_t n, const char *const *names)
{
	struct result *result = context;

	if (n > EMITTER_COLUMNS) {
		result->too_many = true;
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		result->names[i] = strdup(names[i] ? names[i] : "");
		if (!result->names[i]) {
			result->no_memory = true;
			return false;
		}
		result->columns[i] = (struct emitter_column){ result->names[i], 0 };
	}
	result->n = n;
	emitter_object_begin(&result->invocation->emitter, NULL);
	emitter_table_begin(&result->invocation->emitter, "rows", result->columns, n);
	result->began = true;
	return true;
}

static struct emitter_value convert(const struct fh_value *value)
{
	switch (value->type) {
	case FH_VALUE_INTEGER: return emit_integer(value->integer);
	case FH_VALUE_REAL: return emit_real(value->real);
	case FH_VALUE_TEXT: return emit_text(value->text);
	case FH_VALUE_ADDRESS: return emit_address((uint64_t)value->integer);
	default: return emit_null();
	}
}

static bool take_row(void *context, size_t n, const struct fh_value *values)
{
	struct result *result = context;
	struct emitter_value cells[EMITTER_COLUMNS];

	for (size_t i = 0; i < n; i++)
		cells[i] = convert(&values[i]);
	emitter_row(&result->invocation->emitter, cells);
	result->rows++;
	return true;
}

static struct fh_error *run(struct invocation *invocation)
{
	static const struct fh_query_visitor visitor = { take_columns, take_row };
	struct result result = { .invocation = invocation };
	struct fh_error *error = fh_query(invocation->census, invocation->arguments[0], &visitor, &result);

	if (!error && result.no_memory)
		error = error_no_memory();
	if (!error && result.too_many)
		error = error_create(FH_ERROR_QUERY, "a query can show %d columns at most", EMITTER_COLUMNS);
	if (!error && result.began) {
		emitter_table_end(&invocation->emitter);
		emit_warnings(invocation);
		emitter_object_end(&invocation->emitter);
	}
	for (size_t i = 0; i < EMITTER_COLUMNS; i++)
		free(result.names[i]);
	return error;
}

const struct command cmd_sql = {
	.name = "sql",
	.arguments = "TARGET QUERY",
	.title = "any SQL query over the tables",
	.help = "Tables: block, category, mapping, image, thread, arena, bin. A name that doesn't exist gets the list of\n"
		"those that do. For example\n"
		"  'select kind, count(*), sum(size) from block where domain = \"python\" group by kind order by 3 desc limit 10'\n",
	.min_arguments = 1,
	.max_arguments = 1,
	.options = OPTIONS_TARGET,
	.run = run,
};
