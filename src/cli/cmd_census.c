/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/cli.h"
#include "output/escape.h"
#include "view/summary.h"

#define MOST_COLUMNS 16
#define COMMAND_WIDTH 100 /* of the command line, in columns */
#define ROWS_ELSEWHERE 30 /* that are shown where there is no terminal */

/* ---- what the target is ------------------------------------------------------------ */

static bool emit_plugin(void *context, const char *text)
{
	emitter_value(context, NULL, emit_text(text));
	return true;
}

static struct emitter_value emit_known(bool known, uint64_t amount)
{
	return known ? emit_amount(amount) : emit_null();
}

static void emit_figures(struct session *session, const char *key, const uint64_t *count, const struct fh_size *size)
{
	struct emitter *e = &session->emitter;

	emitter_object_begin(e, key);
	if (count)
		emitter_value(e, "count", emit_amount(*count));
	emitter_value(e, "virtual", emit_amount(size->virtual_));
	emitter_value(e, "resident", emit_known(session->info.has_resident, size->resident));
	emitter_value(e, "swapped", emit_known(session->info.has_resident, size->swapped));
	emitter_object_end(e);
}

static void emit_target(struct session *session, const struct fh_size *os)
{
	struct emitter *e = &session->emitter;

	emitter_value(e, "freehold", emit_text(FH_VERSION));
	emitter_object_begin(e, "target");
	emitter_value(e, "source", emit_text(session->info.source));
	emitter_value(e, "pid", emit_integer(session->info.pid));
	emitter_value(e, "command", emit_text(session->info.command));
	emitter_value(e, "exe", emit_text(session->info.exe));
	emitter_value(e, "threads", emit_amount(session->info.threads));
	emitter_array_begin(e, "allocators");
	fh_census_each_allocator(session->census, emit_plugin, e);
	emitter_array_end(e);
	emitter_array_begin(e, "runtimes");
	fh_census_each_runtime(session->census, emit_plugin, e);
	emitter_array_end(e);
	emitter_object_end(e);
	emitter_value(e, "pause_ms", session->info.pause_ms < 0 ? emit_null() : emit_real(session->info.pause_ms));
	emitter_value(e, "waited", emit_bool(session->info.streamed));
	emit_figures(session, "os", NULL, os);
}

/* ---- the same for people --------------------------------------------------------------- */

static void title_command(struct session *session)
{
	struct buffer line = { 0 };
	size_t width = session->emitter.width ? session->emitter.width : COMMAND_WIDTH;

	session_escape(session, &line, *session->info.command ? session->info.command : session->info.exe);
	if (escape_width(buffer_c_string(&line), line.bytes.len) > width) {
		line.bytes.len = escape_cut(line.bytes.items, line.bytes.len, width - 3);
		buffer_string(&line, "...");
	}
	emitter_line(&session->emitter, "%s", buffer_c_string(&line));
	buffer_deinit(&line);
}

struct list {
	const struct session *session;
	struct buffer *line;
};

static bool add_to_list(void *context, const char *text)
{
	struct list *list = context;

	buffer_string(list->line, ", ");
	session_escape(list->session, list->line, text);
	return true;
}

static void title_process(struct session *session)
{
	const struct fh_info *info = &session->info;
	struct buffer line = { 0 };
	struct list list = { session, &line };

	buffer_format(&line, "%s %ld, ", strcmp(info->source, "live") == 0 ? "process" : "core of process",
		      (long)info->pid);
	session_escape(session, &line, info->exe);
	fh_census_each_allocator(session->census, add_to_list, &list);
	fh_census_each_runtime(session->census, add_to_list, &list);
	buffer_format(&line, ", %zu thread%s", info->threads, info->threads == 1 ? "" : "s");
	emitter_line(&session->emitter, "%s", buffer_c_string(&line));
	if (info->streamed)
		emitter_line(&session->emitter, "it stood still for %.0f ms, while it was analysed: no copy was made",
			     info->pause_ms);
	else if (info->pause_ms >= 0)
		emitter_line(&session->emitter, "it stood still for %.1f ms", info->pause_ms);
	buffer_deinit(&line);
}

static void title_os(struct session *session, const struct fh_size *os)
{
	struct buffer line = { 0 };

	if (session->info.has_resident) {
		buffer_string(&line, "the system counts ");
		human_size(&line, os->resident);
		buffer_string(&line, " resident of ");
		human_size(&line, os->virtual_);
		buffer_string(&line, " virtual");
		if (os->swapped) {
			buffer_string(&line, ", ");
			human_size(&line, os->swapped);
			buffer_string(&line, " swapped out");
		}
	} else {
		buffer_string(&line, "the core file tells of ");
		human_size(&line, os->virtual_);
		buffer_string(&line, " virtual, not of what was resident");
	}
	emitter_line(&session->emitter, "%s", buffer_c_string(&line));
	buffer_deinit(&line);
}

static double percent(const struct session *session, const struct fh_size *part, const struct fh_size *whole)
{
	double a = (double)(session->info.has_resident ? part->resident : part->virtual_);
	double b = (double)(session->info.has_resident ? whole->resident : whole->virtual_);

	return b > 0 ? a / b * 100 : 0;
}

static void emit_share(struct session *session, const struct view_summary *summary, const char *name,
		       const char *title, const struct fh_size *size)
{
	bool known = session->info.has_resident;

	emitter_row(&session->emitter, (struct emitter_value[]){
		emit_text(name), emit_known(known, size->resident),
		emit_percent(percent(session, size, &summary->total)), emit_amount(size->virtual_),
		emit_known(known, size->swapped), emit_text(title) });
}

static struct fh_error *emit_summary(struct session *session)
{
	static const struct emitter_column columns[] = {
		{ "share", 0 }, { "resident", COLUMN_OPTIONAL }, { "percent", 0 }, { "virtual", 0 },
		{ "swapped", COLUMN_OPTIONAL }, { "what", COLUMN_FLEXIBLE },
	};
	struct view_summary summary;

	TRY(view_summary_make(session->census, &summary));
	emitter_table_begin(&session->emitter, "summary", columns, sizeof(columns) / sizeof(*columns), TABLE_ASIDE);
	for (size_t i = 0; i < summary.n_shares; i++) {
		const struct view_share *share = &summary.shares[i];

		emit_share(session, &summary, share->name, share->title, &share->size);
		if (share->live && emitter_has_lines(&session->emitter)) /* the shares of a program's document add up */
			emit_share(session, &summary, "  unnamed", "of it, blocks that nothing could name",
				   &summary.unnamed);
	}
	emitter_table_end(&session->emitter);
	emit_figures(session, "unnamed", NULL, &summary.unnamed);
	return NULL;
}

/* ---- the rows ------------------------------------------------------------------------------ */

static struct emitter_value emit_cell(const struct session *session, const struct view_row *row,
				      const struct view_column *column)
{
	if ((column->flags & VIEW_RESIDENCY) && !session->info.has_resident)
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

/* A row's cells; of a sum only the figures. */
static void make_cells(const struct session *session, const struct view_grouping *by, const struct view_row *row,
		       bool sum, struct emitter_value *cells)
{
	for (size_t i = 0; i < by->n_columns; i++)
		cells[i] = sum && !(by->columns[i].flags & VIEW_SUM) ? emit_null() :
								       emit_cell(session, row, &by->columns[i]);
}

static void emit_sum(struct session *session, const struct view_grouping *by, const char *label,
		     const struct view_row *sum)
{
	struct emitter_value cells[MOST_COLUMNS];

	make_cells(session, by, sum, true, cells);
	for (size_t i = 0; i < by->n_columns; i++) /* the system has no count */
		if (cells[i].type == EMIT_AMOUNT && strcmp(by->columns[i].name, "count") == 0 && !sum->count)
			cells[i] = emit_null();
	emitter_footer(&session->emitter, label, cells);
}

static void emit_rows(struct session *session, const struct view_rows *rows, size_t shown, const struct fh_size *os)
{
	const struct view_grouping *by = rows->grouping;
	struct emitter_column columns[MOST_COLUMNS];
	struct emitter_value cells[MOST_COLUMNS];
	struct view_row rest = { 0 };
	char label[64];

	for (size_t i = 0; i < by->n_columns; i++)
		columns[i] = (struct emitter_column){
			.name = by->columns[i].name,
			.flags = (by->columns[i].flags & VIEW_OPTIONAL ? COLUMN_OPTIONAL : 0) |
				 (by->columns[i].flags & VIEW_FLEXIBLE ? COLUMN_FLEXIBLE : 0),
		};
	emitter_table_begin(&session->emitter, "rows", columns, by->n_columns, 0);
	for (size_t i = 0; i < shown; i++) {
		make_cells(session, by, &rows->rows.items[i], false, cells);
		emitter_row(&session->emitter, cells);
	}
	for (size_t i = shown; i < rows->rows.len; i++)
		view_row_add(&rest, &rows->rows.items[i]);
	if (shown < rows->rows.len) {
		snprintf(label, sizeof(label), "... %zu more row%s (--all)", rows->rows.len - shown,
			 rows->rows.len - shown == 1 ? "" : "s");
		emit_sum(session, by, label, &rest);
	}
	emitter_footer(&session->emitter, NULL, NULL);
	emit_sum(session, by, "total", &rows->total);
	emit_sum(session, by, session->info.has_resident ? "the system's figures" : "the core file's figures",
		 &(struct view_row){ .virtual_ = os->virtual_, .resident = os->resident, .swapped = os->swapped });
	emitter_table_end(&session->emitter);
	if (shown < rows->rows.len) {
		struct fh_size size = { rest.virtual_, rest.resident, rest.swapped };

		emit_figures(session, "rest", &rest.count, &size);
	}
}

/* How many rows to show: what was asked for; all for programs; what fits for people. */
static size_t rows_to_show(const struct session *session, size_t n)
{
	const struct settings *settings = session->settings;
	uint64_t wanted = n;
	struct winsize size;

	if (given(settings, OPTION_TOP) && settings->top && !given(settings, OPTION_ALL)) {
		wanted = settings->top;
	} else if (emitter_has_lines(&session->emitter) && !given(settings, OPTION_ALL) &&
		   !given(settings, OPTION_TOP)) {
		wanted = ROWS_ELSEWHERE;
		if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
			wanted = size.ws_row > 32 ? size.ws_row - 22 : 10; /* 22: the lines around them */
	}
	return wanted < n ? (size_t)wanted : n;
}

static struct fh_error *find_sort(const struct session *session, const struct view_grouping *by,
				  const struct view_column **ret)
{
	struct buffer names = { 0 };
	struct fh_error *error;

	*ret = NULL;
	if (!session->settings->sort)
		return NULL;
	*ret = view_column_find(by, session->settings->sort);
	if (*ret)
		return NULL;
	for (size_t i = 0; i < by->n_columns; i++)
		buffer_format(&names, "%s%s", i ? ", " : "", by->columns[i].name);
	error = error_create(FH_ERROR_USAGE, "--sort: '%s' is none of the columns %s", session->settings->sort,
			     buffer_c_string(&names));
	buffer_deinit(&names);
	return error;
}

/* ---- the command ------------------------------------------------------------------------------ */

static struct fh_error *emit_census(struct session *session, const struct view_rows *rows)
{
	struct emitter *e = &session->emitter;
	struct fh_size os, total = { rows->total.virtual_, rows->total.resident, rows->total.swapped };

	fh_census_os(session->census, &os);
	emitter_object_begin(e, NULL);
	emit_target(session, &os);
	title_command(session);
	title_process(session);
	title_os(session, &os);
	emitter_line(e, "%s", "");
	TRY(emit_summary(session));
	emitter_line(e, "%s", "");
	emitter_value(e, "by", emit_text(rows->grouping->name));
	emit_rows(session, rows, rows_to_show(session, rows->rows.len), &os);
	emit_figures(session, "total", &rows->total.count, &total);
	session_emit_warnings(session);
	emitter_object_end(e);
	return NULL;
}

static struct fh_error *run(struct session *session, char **arguments, size_t n)
{
	const struct view_grouping *by = session->settings->by ? session->settings->by : view_grouping_find("detail");
	const struct view_column *sort;
	struct view_rows rows;
	struct fh_error *error;

	(void)n;
	TRY(find_sort(session, by, &sort));
	TRY(session_open(session, arguments[0], false));
	error = view_rows_create(session->census, by, &rows);
	if (!error) {
		if (sort || given(session->settings, OPTION_REVERSE))
			view_rows_sort(&rows, sort, given(session->settings, OPTION_REVERSE));
		error = emit_census(session, &rows);
	}
	view_rows_deinit(&rows);
	return error;
}

const struct command cmd_census = {
	.name = "census",
	.arguments = "TARGET",
	.title = "where the memory is, to the byte",
	.text = "Above, a summary: what the process is, what the operating system counts, and how that divides.\n"
		"Below, a row for each domain, kind and detail, the largest first. The rows add up to the total, and\n"
		"the total is the operating system's figure. Text shows as many rows as fit the terminal and sums the\n"
		"others in one; JSON and CSV have all rows unless --top says how many.",
	.options = OPTIONS_OF_TARGETS | OPTION_BIT(OPTION_ALL) | OPTION_BIT(OPTION_BY) | OPTION_BIT(OPTION_REVERSE) |
		   OPTION_BIT(OPTION_SORT) | OPTION_BIT(OPTION_TOP),
	.least = 1,
	.most = 1,
	.run = run,
};
