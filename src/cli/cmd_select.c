/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"

#define DEFAULT_LIMIT 100

static const struct emitter_column columns[] = {
	{ "start", 0 }, { "end", 0 }, { "size", 0 }, { "resident", COLUMN_OPTIONAL },
	{ "domain", 0 }, { "kind", COLUMN_FLEXIBLE }, { "detail", COLUMN_OPTIONAL | COLUMN_FLEXIBLE },
};

#define N_COLUMNS (sizeof(columns) / sizeof(*columns))

struct selection {
	struct session *session; /* the first, for session_goes_on() */
	uint64_t limit;		 /* 0: none */
	uint64_t count, shown;
	struct fh_size size, rest; /* of all, and of those not shown */
};

static struct emitter_value emit_resident(const struct selection *selection, uint64_t resident)
{
	return selection->session->info.has_resident ? emit_amount(resident) : emit_null();
}

static void show_block(struct selection *selection, const struct fh_block *block)
{
	struct emitter *e = &selection->session->emitter;

	emitter_row(e, (struct emitter_value[N_COLUMNS]){
		emit_address(block->start), emit_address(block->end), emit_amount(block->end - block->start),
		emit_resident(selection, block->resident), emit_text(block->domain), emit_text(block->kind),
		emit_text(block->detail) });
	if (emitter_has_lines(e))
		hexdump_block(selection->session, block, 16, emitter_note);
}

static bool take(void *context, const struct fh_block *block)
{
	struct selection *selection = context;
	uint64_t size = block->end - block->start;

	selection->count++;
	selection->size.virtual_ += size;
	selection->size.resident += block->resident;
	if (!selection->limit || selection->shown < selection->limit) {
		selection->shown++;
		show_block(selection, block);
	} else {
		selection->rest.virtual_ += size;
		selection->rest.resident += block->resident;
	}
	return !selection->session->emitter.error;
}

static void emit_sum(struct selection *selection, const char *label, const struct fh_size *size)
{
	struct emitter_value cells[N_COLUMNS] = { 0 };

	cells[2] = emit_amount(size->virtual_);
	cells[3] = emit_resident(selection, size->resident);
	emitter_footer(&selection->session->emitter, label, cells);
}

static void emit_total(struct selection *selection, const char *key, uint64_t count, const struct fh_size *size)
{
	struct emitter *e = &selection->session->emitter;

	emitter_object_begin(e, key);
	emitter_value(e, "count", emit_amount(count));
	emitter_value(e, "size", emit_amount(size->virtual_));
	emitter_value(e, "resident", emit_resident(selection, size->resident));
	emitter_object_end(e);
}

static void finish(struct selection *selection)
{
	struct emitter *e = &selection->session->emitter;
	uint64_t rest = selection->count - selection->shown;
	char label[96];

	if (rest) {
		snprintf(label, sizeof(label), "... %" PRIu64 " more block%s (--limit N, --all)", rest,
			 rest == 1 ? "" : "s");
		emit_sum(selection, label, &selection->rest);
	}
	emitter_footer(e, NULL, NULL);
	snprintf(label, sizeof(label), "%" PRIu64 " block%s", selection->count, selection->count == 1 ? "" : "s");
	emit_sum(selection, label, &selection->size);
	emitter_table_end(e);
	emit_total(selection, "total", selection->count, &selection->size);
	if (rest)
		emit_total(selection, "rest", rest, &selection->rest);
}

static struct fh_error *run(struct session *session, char **arguments, size_t n)
{
	struct selection selection = {
		.session = session,
		.limit = given(session->settings, OPTION_LIMIT) ? session->settings->limit : DEFAULT_LIMIT,
	};
	struct fh_error *error;

	(void)n;
	if (given(session->settings, OPTION_ALL))
		selection.limit = 0;
	TRY(session_open(session, arguments[0], true));
	session->doing = "select";
	emitter_object_begin(&session->emitter, NULL);
	emitter_table_begin(&session->emitter, "rows", columns, N_COLUMNS, 0);
	error = fh_select(session->census, arguments[1], take, session_goes_on, &selection);
	if (error) {
		if (error->code != FH_ERROR_INTERRUPTED) /* nothing was written yet, and nothing will be */
			return error;
		finish(&selection);
		return error;
	}
	finish(&selection);
	session_emit_warnings(session);
	emitter_object_end(&session->emitter);
	return NULL;
}

const struct command cmd_select = {
	.name = "select",
	.arguments = "TARGET EXPR",
	.title = "the blocks for which an expression holds",
	.text = "EXPR is an expression of SQL, in SQLite's dialect, over the columns of a block. In single quotes:\n"
		"  'size == 1778224'\n"
		"  'domain = \"python\" and kind = \"dict\" and size > 4096'\n"
		"  'kind like \"%Package%\" and refcount = 1'\n"
		"  'start <= 0x7f12c0de and end > 0x7f12c0de'\n"
		"Text shows each block's first bytes below it, from where its owner's data begin. What the limit\n"
		"leaves out is counted, and the last line sums all. Blocks come by address; freehold sql has\n"
		"other orders.",
	.options = OPTIONS_OF_TARGETS | OPTION_BIT(OPTION_ALL) | OPTION_BIT(OPTION_LIMIT),
	.least = 2,
	.most = 2,
	.run = run,
};
