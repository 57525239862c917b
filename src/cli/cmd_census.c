/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "output/escape.h"
#include "view/rows.h"
#include "view/summary.h"

#define TEXT_ROWS 40 /* of a table for people, unless told */

/* ---- what the process is ------------------------------------------------------------------- */

static bool add_name(void *context, const char *text)
{
	struct buffer *names = context;

	if (names->bytes.len)
		buffer_string(names, ", ");
	escape_terminal(names, text, strlen(text), true);
	return true;
}

static void amount(struct buffer *line, const char *label, uint64_t value)
{
	buffer_string(line, label);
	buffer_amount(line, value);
}

static void summary_heading(struct invocation *invocation, const struct fh_info *info)
{
	struct buffer text = { 0 };

	escape_terminal(&text, info->command, strlen(info->command), true);
	emitter_line(&invocation->emitter, "%s %" PRId64 "  %.100s", strcmp(info->source, "live") == 0 ? "process" : "core of process", info->pid,
		     buffer_c_string(&text));
	buffer_clear(&text);
	fh_census_each_allocator(invocation->census, add_name, &text);
	fh_census_each_runtime(invocation->census, add_name, &text);
	buffer_format(&text, "%s%zu thread%s", text.bytes.len ? ", " : "", info->threads, info->threads == 1 ? "" : "s");
	if (info->pause_ms >= 0)
		buffer_format(&text, "; stood still for %.1f ms%s", info->pause_ms,
			      info->streamed ? " (memory was short: while it was analysed)" : "");
	emitter_line(&invocation->emitter, "%s", buffer_c_string(&text));
	buffer_deinit(&text);
}

static void summary_shares(struct invocation *invocation, const struct view_summary *summary, bool resident)
{
	struct buffer line = { 0 };

	emitter_line(&invocation->emitter, "%s", "");
	for (size_t i = 0; i < summary->n_shares; i++) {
		const struct view_share *share = &summary->shares[i];
		uint64_t size = resident ? share->size.resident : share->size.virtual_;
		uint64_t total = resident ? summary->total.resident : summary->total.virtual_;

		if (!share->size.virtual_)
			continue;
		buffer_clear(&line);
		buffer_amount(&line, size);
		emitter_line(&invocation->emitter, "%16s  %5.1f %%  %s", buffer_c_string(&line),
			     total ? 100.0 * (double)size / (double)total : 0.0, share->title);
	}
	buffer_clear(&line);
	buffer_amount(&line, resident ? summary->total.resident : summary->total.virtual_);
	emitter_line(&invocation->emitter, "%16s           %s", buffer_c_string(&line),
		     resident ? "resident, as the operating system says" : "virtual (a core file doesn't say what was resident)");
	buffer_clear(&line);
	if (resident) {
		amount(&line, "of ", summary->total.virtual_);
		amount(&line, " virtual; swapped out: ", summary->total.swapped);
		buffer_string(&line, "; ");
	}
	amount(&line, "live blocks that nothing could name: ", resident ? summary->unnamed.resident : summary->unnamed.virtual_);
	emitter_line(&invocation->emitter, "%18s%s", "", buffer_c_string(&line));
	emitter_line(&invocation->emitter, "%s", "");
	buffer_deinit(&line);
}

static bool emit_name(void *context, const char *text)
{
	emitter_value(context, NULL, emit_text(text));
	return true;
}

static void emit_size(struct emitter *emitter, const char *key, const struct fh_size *size, bool resident)
{
	emitter_object_begin(emitter, key);
	emitter_value(emitter, "virtual", emit_amount(size->virtual_));
	emitter_value(emitter, "resident", resident ? emit_amount(size->resident) : emit_null());
	emitter_value(emitter, "swapped", resident ? emit_amount(size->swapped) : emit_null());
	emitter_object_end(emitter);
}

static void emit_target(struct invocation *invocation, const struct fh_info *info)
{
	struct emitter *e = &invocation->emitter;

	emitter_value(e, "freehold", emit_text(FH_VERSION));
	emitter_object_begin(e, "target");
	emitter_value(e, "source", emit_text(info->source));
	emitter_value(e, "pid", emit_integer(info->pid));
	emitter_value(e, "command", emit_text(info->command));
	emitter_value(e, "exe", emit_text(info->exe));
	emitter_value(e, "threads", emit_integer((int64_t)info->threads));
	emitter_array_begin(e, "allocators");
	fh_census_each_allocator(invocation->census, emit_name, e);
	emitter_array_end(e);
	emitter_array_begin(e, "runtimes");
	fh_census_each_runtime(invocation->census, emit_name, e);
	emitter_array_end(e);
	emitter_object_end(e);
	emitter_value(e, "pause_ms", info->pause_ms >= 0 ? emit_real(info->pause_ms) : emit_null());
}

/* ---- rows --------------------------------------------------------------------------------------- */

static struct emitter_value cell(const struct view_row *row, const struct view_column *column, bool resident)
{
	if (column->flags & VIEW_RESIDENCY && !resident)
		return emit_null();
	switch (column->type) {
	case VIEW_TEXT:
		return emit_text(view_text(row, column));
	case VIEW_ADDRESS:
		return emit_address(view_number(row, column));
	default:
		return emit_amount(view_number(row, column));
	}
}

static void emit_row(struct invocation *invocation, const struct view_rows *rows, const struct view_row *row,
		     const char *footer, bool resident)
{
	struct emitter_value cells[EMITTER_COLUMNS];
	const struct view_grouping *g = rows->grouping;

	for (size_t i = 0; i < g->n_columns; i++)
		cells[i] = footer && !(g->columns[i].flags & VIEW_SUM) ? emit_null() : cell(row, &g->columns[i], resident);
	if (footer)
		emitter_footer(&invocation->emitter, footer, cells);
	else
		emitter_row(&invocation->emitter, cells);
}

static size_t rows_to_show(const struct invocation *invocation, size_t n)
{
	size_t most = n;

	if (invocation->top >= 0)
		most = (size_t)invocation->top;
	else if (invocation->format == &emitter_text && !invocation->all)
		most = TEXT_ROWS;
	return most < n ? most : n;
}

static void emit_rows(struct invocation *invocation, const struct view_rows *rows, bool resident)
{
	struct emitter_column columns[EMITTER_COLUMNS];
	const struct view_grouping *g = rows->grouping;
	size_t shown = rows_to_show(invocation, rows->rows.len);
	struct view_row rest = { 0 };
	char label[64];

	for (size_t i = 0; i < g->n_columns; i++)
		columns[i] = (struct emitter_column){ g->columns[i].name,
						      (g->columns[i].flags & VIEW_OPTIONAL ? COLUMN_OPTIONAL : 0) |
							      (g->columns[i].flags & VIEW_FLEXIBLE ? COLUMN_FLEXIBLE : 0) };
	emitter_table_begin(&invocation->emitter, "rows", columns, g->n_columns);
	for (size_t i = 0; i < shown; i++)
		emit_row(invocation, rows, &rows->rows.items[i], NULL, resident);
	for (size_t i = shown; i < rows->rows.len; i++)
		view_row_add(&rest, &rows->rows.items[i]);
	if (shown < rows->rows.len) {
		snprintf(label, sizeof(label), "... %zu more rows (--all)", rows->rows.len - shown);
		emit_row(invocation, rows, &rest, label, resident);
	}
	emit_row(invocation, rows, &rows->total, "total", resident);
	emitter_table_end(&invocation->emitter);
}

static void emit_total(struct invocation *invocation, const struct view_rows *rows, bool resident)
{
	struct emitter *e = &invocation->emitter;

	emitter_object_begin(e, "total");
	emitter_value(e, "count", emit_amount(rows->total.count));
	emitter_value(e, "virtual", emit_amount(rows->total.virtual_));
	emitter_value(e, "resident", resident ? emit_amount(rows->total.resident) : emit_null());
	emitter_value(e, "swapped", resident ? emit_amount(rows->total.swapped) : emit_null());
	emitter_object_end(e);
}

static void emit_census(struct invocation *invocation, const struct view_rows *rows, const struct view_summary *summary)
{
	struct fh_info info;
	struct fh_size os;

	fh_census_info(invocation->census, &info);
	fh_census_os(invocation->census, &os);
	emitter_object_begin(&invocation->emitter, NULL);
	emit_target(invocation, &info);
	emit_size(&invocation->emitter, "os", &os, info.has_resident);
	if (emitter_has_lines(&invocation->emitter)) {
		summary_heading(invocation, &info);
		summary_shares(invocation, summary, info.has_resident);
	}
	emit_rows(invocation, rows, info.has_resident);
	emit_total(invocation, rows, info.has_resident);
	emit_warnings(invocation);
	emitter_object_end(&invocation->emitter);
}

static struct fh_error *find_grouping(const struct invocation *invocation, const struct view_grouping **ret_grouping,
				      const struct view_column **ret_sort)
{
	char names[256] = "";

	*ret_sort = NULL;
	*ret_grouping = view_grouping_find(invocation->by ? invocation->by : "detail");
	if (!*ret_grouping)
		return error_create(FH_ERROR_USAGE, "--by: '%s' is none of domain, kind, detail, size, mapping, module",
				    invocation->by);
	if (!invocation->sort)
		return NULL;
	*ret_sort = view_column_find(*ret_grouping, invocation->sort);
	for (size_t i = 0; !*ret_sort && i < (*ret_grouping)->n_columns; i++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", i ? ", " : "",
			 (*ret_grouping)->columns[i].name);
	return *ret_sort ? NULL : error_create(FH_ERROR_USAGE, "--sort: there is no column '%s'; there is %s", invocation->sort, names);
}

static struct fh_error *run(struct invocation *invocation)
{
	const struct view_grouping *grouping;
	const struct view_column *sort;
	struct view_summary summary;
	struct view_rows rows = { 0 };

	TRY(find_grouping(invocation, &grouping, &sort));
	TRY(view_summary_make(invocation->census, &summary));
	TRY(view_rows_create(invocation->census, grouping, &rows));
	if (sort || invocation->reverse)
		view_rows_sort(&rows, sort ? sort : view_column_find(grouping, "virtual"), invocation->reverse);
	emit_census(invocation, &rows, &summary);
	view_rows_deinit(&rows);
	return NULL;
}

const struct command cmd_census = {
	.name = "census",
	.arguments = "TARGET",
	.title = "where the memory is, by domain, kind and detail (the default command)",
	.help = "Rows are grouped by detail unless --by says else, the largest (resident, then virtual) first. For people\n"
		"the first 40 are shown, and what is left out as one row; JSON and CSV have all.\n",
	.options = OPTIONS_TARGET | OPTIONS_ROWS | OPTIONS_ALL,
	.run = run,
};
