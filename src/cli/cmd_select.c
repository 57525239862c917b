/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "cli/cli.h"

#define DEFAULT_LIMIT 100

static const struct emitter_column columns[] = {
	{ "start", 0 }, { "end", 0 }, { "size", 0 }, { "domain", 0 }, { "kind", 0 }, { "detail", COLUMN_FLEXIBLE },
	{ "resident", 0 }, { "bytes", 0 },
};

#define N_COLUMNS (sizeof(columns) / sizeof(*columns))

struct selection {
	struct invocation *invocation;
	uint64_t limit, shown, count, size;
};

static struct emitter_value text_value(const struct fh_value *value)
{
	return value->type == FH_VALUE_TEXT ? emit_text(value->text) : emit_null();
}

static bool take_row(void *context, size_t n, const struct fh_value *values)
{
	struct selection *selection = context;
	struct emitter_value cells[N_COLUMNS];
	uint8_t bytes[16];
	bool readable[16];
	char line[80];
	size_t got, want;

	(void)n;
	selection->count++;
	selection->size += (uint64_t)values[2].integer;
	if (selection->shown >= selection->limit)
		return true;
	selection->shown++;
	want = (uint64_t)values[2].integer < sizeof(bytes) ? (size_t)values[2].integer : sizeof(bytes);
	got = fh_census_read(selection->invocation->census, (uint64_t)values[0].integer, bytes, want);
	for (size_t i = 0; i < sizeof(readable); i++)
		readable[i] = i < got;
	format_bytes(line, bytes, want, readable);
	cells[0] = emit_address((uint64_t)values[0].integer);
	cells[1] = emit_address((uint64_t)values[1].integer);
	cells[2] = emit_amount((uint64_t)values[2].integer);
	cells[3] = text_value(&values[3]);
	cells[4] = text_value(&values[4]);
	cells[5] = text_value(&values[5]);
	cells[6] = values[6].type == FH_VALUE_NULL ? emit_null() : emit_amount((uint64_t)values[6].integer);
	cells[7] = selection->invocation->format == &emitter_text ? emit_text(line) : emit_bytes(bytes, got);
	emitter_row(&selection->invocation->emitter, cells);
	return true;
}

static void finish(struct selection *selection)
{
	struct emitter *e = &selection->invocation->emitter;
	struct emitter_value cells[N_COLUMNS] = { 0 };
	char label[96];

	if (selection->shown < selection->count) {
		snprintf(label, sizeof(label), "... %" PRIu64 " more blocks (--limit N, --all)", selection->count - selection->shown);
		emitter_footer(e, label, cells);
	}
	cells[2] = emit_amount(selection->size);
	snprintf(label, sizeof(label), "%" PRIu64 " blocks", selection->count);
	emitter_footer(e, label, cells);
	emitter_table_end(e);
	emitter_object_begin(e, "total");
	emitter_value(e, "count", emit_amount(selection->count));
	emitter_value(e, "size", emit_amount(selection->size));
	emitter_object_end(e);
	emit_warnings(selection->invocation);
	emitter_object_end(e);
}

static struct fh_error *run(struct invocation *invocation)
{
	static const struct fh_query_visitor visitor = { .row = take_row };
	struct selection selection = { .invocation = invocation, .limit = DEFAULT_LIMIT };
	CLEANUP_FREE char *sql = NULL;

	if (invocation->all || invocation->limit == 0)
		selection.limit = UINT64_MAX;
	else if (invocation->limit > 0)
		selection.limit = (uint64_t)invocation->limit;
	/* The line breaks keep a comment in the expression from swallowing the parenthesis. */
	if (asprintf(&sql, "SELECT start, \"end\", size, domain, kind, detail, resident FROM block WHERE (\n%s\n)",
		     invocation->arguments[0]) < 0)
		return error_no_memory();
	emitter_object_begin(&invocation->emitter, NULL);
	emitter_table_begin(&invocation->emitter, "rows", columns, N_COLUMNS);
	TRY(fh_query(invocation->census, sql, &visitor, &selection));
	finish(&selection);
	return NULL;
}

const struct command cmd_select = {
	.name = "select",
	.arguments = "TARGET EXPR",
	.title = "the blocks for which an SQL expression holds",
	.help = "EXPR is an expression of SQLite over the columns of the table block, for example\n"
		"  'size == 1778224'\n"
		"  'domain = \"python\" and kind = \"dict\" and size > 4096'\n"
		"  'kind like \"%Package%\"'\n",
	.min_arguments = 1,
	.max_arguments = 1,
	.options = OPTIONS_TARGET | OPTIONS_LIMIT | OPTIONS_ALL,
	.run = run,
};
