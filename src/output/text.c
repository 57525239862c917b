/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text for people: columns as wide as what is in them. So rows wait until the table ends or enough of them
 * have come to know the widths; those that follow stream.
 */
#include "output/text.h"

#include <inttypes.h>
#include <string.h>

#include "output/escape.h"

#define MOST_WAITING 2000
#define GAP 2 /* between columns */
#define LEAST_WIDTH 12 /* that a flexible column is cut to */

enum row_kind {
	ROW_CELLS,
	ROW_NOTE,
	ROW_FOOTER,
	ROW_RULE,
};

struct emitter_text_row {
	enum row_kind kind;
	struct buffer text;		      /* the cells, then the label or note */
	uint32_t ends[EMITTER_COLUMNS + 1]; /* of the cells in it, and the label */
	uint64_t numbers, filled;	      /* a bit for each cell */
};

static void row_deinit(struct emitter_text_row *row)
{
	buffer_deinit(&row->text);
}

void text_rows_deinit(struct emitter *e)
{
	for (size_t i = 0; i < e->waiting.len; i++)
		row_deinit(&e->waiting.items[i]);
	vec_free(&e->waiting);
}

static const char *row_cell(const struct emitter_text_row *row, size_t i, size_t *ret_len)
{
	uint32_t start = i ? row->ends[i - 1] : 0;

	*ret_len = row->ends[i] - start;
	return row->text.bytes.items + start;
}

static size_t cell_width(const struct emitter_text_row *row, size_t i)
{
	size_t len;
	const char *bytes = row_cell(row, i, &len);

	return len ? escape_width(bytes, len) : 0;
}

/* ---- cells -------------------------------------------------------------- */

static void add_value(struct buffer *out, const struct emitter_value *value, bool utf8)
{
	switch (value->type) {
	case EMIT_NULL:
		buffer_char(out, '-');
		break;
	case EMIT_TEXT:
		escape_terminal(out, value->text, value->len, utf8);
		break;
	case EMIT_LITERAL:
		escape_literal(out, value->text, value->len, utf8);
		break;
	case EMIT_AMOUNT:
		buffer_amount(out, value->amount);
		break;
	case EMIT_INTEGER:
		buffer_format(out, "%" PRId64, value->integer);
		break;
	case EMIT_REAL:
		buffer_format(out, "%.15g", value->real);
		break;
	case EMIT_PERCENT:
		buffer_format(out, "%.1f %%", value->real);
		break;
	case EMIT_BOOL:
		buffer_string(out, value->boolean ? "yes" : "no");
		break;
	case EMIT_ADDRESS:
		buffer_format(out, "0x%" PRIx64, value->amount);
		break;
	case EMIT_BYTES:
		for (size_t i = 0; i < value->len; i++)
			buffer_format(out, "%02x", (unsigned char)value->text[i]);
		break;
	}
}

static bool is_number(const struct emitter_value *value)
{
	return value->type == EMIT_AMOUNT || value->type == EMIT_INTEGER || value->type == EMIT_REAL ||
	       value->type == EMIT_PERCENT;
}

static bool is_filled(const struct emitter_value *value)
{
	switch (value->type) {
	case EMIT_NULL:
		return false;
	case EMIT_TEXT:
	case EMIT_LITERAL:
	case EMIT_BYTES:
		return value->len;
	case EMIT_AMOUNT:
		return value->amount;
	case EMIT_INTEGER:
		return value->integer;
	default:
		return true;
	}
}

static struct emitter_text_row make_row(const struct emitter *e, enum row_kind kind, const char *label,
					const struct emitter_value *cells)
{
	struct emitter_text_row row = { .kind = kind };

	for (size_t i = 0; i < e->n_columns; i++) {
		if (cells && (kind == ROW_CELLS || cells[i].type != EMIT_NULL)) {
			add_value(&row.text, &cells[i], e->utf8);
			row.numbers |= (uint64_t)is_number(&cells[i]) << i;
			row.filled |= (uint64_t)is_filled(&cells[i]) << i;
		}
		row.ends[i] = (uint32_t)row.text.bytes.len;
	}
	if (label)
		buffer_string(&row.text, label);
	row.ends[e->n_columns] = (uint32_t)row.text.bytes.len;
	return row;
}

/* ---- widths --------------------------------------------------------------- */

/* Which columns are shown, and on which side their cells stand. */
static void settle_columns(struct emitter *e)
{
	for (size_t i = 0; i < e->n_columns; i++) {
		bool number = false, text = false, filled = false;

		for (size_t r = 0; r < e->waiting.len; r++) {
			const struct emitter_text_row *row = &e->waiting.items[r];

			if (row->kind != ROW_CELLS)
				continue;
			number |= row->numbers >> i & 1;
			text |= !(row->numbers >> i & 1) && (row->filled >> i & 1);
			filled |= row->filled >> i & 1;
		}
		e->right[i] = number && !text;
		e->hidden[i] = (e->columns[i].flags & COLUMN_OPTIONAL) && !filled;
		e->widths[i] = strlen(e->columns[i].name);
	}
}

/* Columns of the line that a footer's label may take, up to the first number; *ret_last is the last of
 * them. */
static size_t label_span(const struct emitter *e, size_t *ret_last)
{
	size_t span = 0;

	*ret_last = SIZE_MAX;
	for (size_t i = 0; i < e->n_columns; i++) {
		if (e->hidden[i])
			continue;
		if (e->right[i])
			break;
		span += (span ? GAP : 0) + e->widths[i];
		*ret_last = i;
	}
	return span;
}

static size_t line_width(const struct emitter *e)
{
	size_t width = 0;

	for (size_t i = 0; i < e->n_columns; i++)
		if (!e->hidden[i])
			width += (width ? GAP : 0) + e->widths[i];
	return width;
}

/* Takes from the widest flexible column until the line fits, or nothing can be taken. */
static void squeeze(struct emitter *e)
{
	size_t line = line_width(e);

	while (e->width && line > e->width) {
		size_t widest = SIZE_MAX;

		for (size_t i = 0; i < e->n_columns; i++)
			if (!e->hidden[i] && (e->columns[i].flags & COLUMN_FLEXIBLE) && e->widths[i] > LEAST_WIDTH &&
			    (widest == SIZE_MAX || e->widths[i] > e->widths[widest]))
				widest = i;
		if (widest == SIZE_MAX)
			return;
		e->widths[widest]--;
		line--;
	}
}

static void settle(struct emitter *e)
{
	size_t last;

	settle_columns(e);
	for (size_t r = 0; r < e->waiting.len; r++) {
		const struct emitter_text_row *row = &e->waiting.items[r];

		for (size_t i = 0; i < e->n_columns; i++) {
			size_t width = cell_width(row, i);

			if (width > e->widths[i] && (row->kind == ROW_CELLS || e->right[i]))
				e->widths[i] = width;
		}
	}
	squeeze(e);
	for (size_t r = 0; r < e->waiting.len; r++) {
		const struct emitter_text_row *row = &e->waiting.items[r];
		size_t label = cell_width(row, e->n_columns), span = label_span(e, &last);

		if (row->kind == ROW_FOOTER && last != SIZE_MAX && label > span)
			e->widths[last] += label - span;
	}
	e->settled = true;
}

/* ---- lines ---------------------------------------------------------------- */

static void add_padded(struct buffer *out, const char *bytes, size_t len, size_t width, bool right)
{
	size_t have = len ? escape_width(bytes, len) : 0, padding = have < width ? width - have : 0;

	if (right)
		buffer_repeat(out, ' ', padding);
	buffer_add(out, bytes, len);
	if (!right)
		buffer_repeat(out, ' ', padding);
}

/* Cut in the middle: the ends of names and paths tell most. */
static void add_shortened(struct buffer *out, const char *bytes, size_t len, size_t width)
{
	size_t head = (width - 3) / 2, tail = width - 3 - head, total = escape_width(bytes, len);
	size_t cut = escape_cut(bytes, len, head), rest = escape_cut(bytes, len, total - tail);

	buffer_add(out, bytes, cut);
	buffer_string(out, "...");
	add_padded(out, bytes + rest, len - rest, tail, false);
}

static void add_cell(struct emitter *e, size_t i, const char *bytes, size_t len)
{
	if ((e->columns[i].flags & COLUMN_FLEXIBLE) && len && e->widths[i] >= 4 &&
	    escape_width(bytes, len) > e->widths[i])
		add_shortened(&e->out, bytes, len, e->widths[i]);
	else
		add_padded(&e->out, bytes, len, e->widths[i], e->right[i]);
}

static void end_line(struct buffer *out)
{
	while (out->bytes.len && *vec_last(&out->bytes) == ' ')
		out->bytes.len--;
	buffer_char(out, '\n');
}

static void print_titles(struct emitter *e)
{
	bool first = true;

	for (size_t i = 0; i < e->n_columns; i++) {
		if (e->hidden[i])
			continue;
		buffer_repeat(&e->out, ' ', first ? 0 : GAP);
		first = false;
		add_padded(&e->out, e->columns[i].name, strlen(e->columns[i].name), e->widths[i], e->right[i]);
	}
	end_line(&e->out);
}

static void print_footer(struct emitter *e, const struct emitter_text_row *row)
{
	size_t last, len, span = label_span(e, &last), label_len;
	const char *label = row_cell(row, e->n_columns, &label_len);
	bool gap = last != SIZE_MAX;

	if (gap)
		add_padded(&e->out, label, label_len, span, false);
	for (size_t i = gap ? last + 1 : 0; i < e->n_columns; i++) {
		const char *bytes = row_cell(row, i, &len);

		if (e->hidden[i])
			continue;
		if (!e->right[i]) /* text behind the numbers: there's nothing to sum there */
			len = 0;
		buffer_repeat(&e->out, ' ', gap ? GAP : 0);
		add_cell(e, i, bytes, len);
		gap = true;
	}
	if (last == SIZE_MAX) {
		while (e->out.bytes.len && *vec_last(&e->out.bytes) == ' ')
			e->out.bytes.len--;
		buffer_repeat(&e->out, ' ', GAP);
		buffer_add(&e->out, label, label_len);
	}
	end_line(&e->out);
}

static void print_cells(struct emitter *e, const struct emitter_text_row *row)
{
	bool first = true;

	for (size_t i = 0; i < e->n_columns; i++) {
		size_t len;
		const char *bytes = row_cell(row, i, &len);

		if (e->hidden[i])
			continue;
		buffer_repeat(&e->out, ' ', first ? 0 : GAP);
		first = false;
		add_cell(e, i, bytes, len);
	}
	end_line(&e->out);
}

static void print_row(struct emitter *e, const struct emitter_text_row *row)
{
	switch (row->kind) {
	case ROW_CELLS:
		print_cells(e, row);
		break;
	case ROW_NOTE:
		buffer_add(&e->out, row->text.bytes.items, row->text.bytes.len);
		buffer_char(&e->out, '\n');
		break;
	case ROW_FOOTER:
		print_footer(e, row);
		break;
	case ROW_RULE:
		buffer_repeat(&e->out, '-', line_width(e));
		buffer_char(&e->out, '\n');
		break;
	}
}

static void print_waiting(struct emitter *e)
{
	settle(e);
	print_titles(e);
	for (size_t r = 0; r < e->waiting.len; r++) {
		print_row(e, &e->waiting.items[r]);
		emitter_flush(e, false);
	}
	text_rows_deinit(e);
}

static void take_row(struct emitter *e, struct emitter_text_row row)
{
	if (row.text.no_memory)
		e->out.no_memory = true;
	if (e->settled) {
		print_row(e, &row);
		row_deinit(&row);
	} else if (!vec_push(&e->waiting, row)) {
		e->out.no_memory = true;
		row_deinit(&row);
	} else if (e->waiting.len >= MOST_WAITING) {
		print_waiting(e);
	}
}

/* ---- the format ------------------------------------------------------------- */

static void table_begin(struct emitter *e, const char *key)
{
	(void)key;
	e->settled = false;
}

static void row(struct emitter *e, const struct emitter_value *cells)
{
	take_row(e, make_row(e, ROW_CELLS, NULL, cells));
}

static void note(struct emitter *e, const char *text)
{
	take_row(e, make_row(e, ROW_NOTE, text, NULL));
}

static void footer(struct emitter *e, const char *label, const struct emitter_value *cells)
{
	take_row(e, make_row(e, cells ? ROW_FOOTER : ROW_RULE, label, cells));
}

static void table_end(struct emitter *e)
{
	if (!e->settled)
		print_waiting(e);
}

static void line(struct emitter *e, const char *text)
{
	buffer_string(&e->out, text);
	buffer_char(&e->out, '\n');
	emitter_flush(e, false);
}

const struct emitter_format emitter_text = {
	.name = "text",
	.title = "a table for people",
	.table_begin = table_begin,
	.row = row,
	.note = note,
	.footer = footer,
	.table_end = table_end,
	.line = line,
};
