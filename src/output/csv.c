/* SPDX-License-Identifier: Apache-2.0 */
/* CSV as RFC 4180 has it, but with plain newlines: the rows of the tables, below their titles. */
#include <inttypes.h>
#include <string.h>

#include "output/emitter.h"
#include "output/escape.h"

static void table_begin(struct emitter *e, const char *key)
{
	(void)key;
	if (e->table_flags & TABLE_ASIDE)
		return;
	for (size_t i = 0; i < e->n_columns; i++) {
		if (i)
			buffer_char(&e->out, ',');
		escape_csv(&e->out, e->columns[i].name, strlen(e->columns[i].name));
	}
	buffer_char(&e->out, '\n');
}

static void add_cell(struct emitter *e, const struct emitter_value *cell)
{
	switch (cell->type) {
	case EMIT_NULL:
		break;
	case EMIT_TEXT:
		escape_csv(&e->out, cell->text, cell->len);
		break;
	case EMIT_LITERAL:
		escape_csv_literal(&e->out, cell->text, cell->len);
		break;
	case EMIT_AMOUNT:
		buffer_format(&e->out, "%" PRIu64, cell->amount);
		break;
	case EMIT_INTEGER:
		buffer_format(&e->out, "%" PRId64, cell->integer);
		break;
	case EMIT_REAL:
		buffer_format(&e->out, "%.15g", cell->real);
		break;
	case EMIT_PERCENT:
		buffer_format(&e->out, "%.1f", cell->real);
		break;
	case EMIT_BOOL:
		buffer_string(&e->out, cell->boolean ? "true" : "false");
		break;
	case EMIT_ADDRESS:
		buffer_format(&e->out, "0x%" PRIx64, cell->amount);
		break;
	case EMIT_BYTES:
		for (size_t i = 0; i < cell->len; i++)
			buffer_format(&e->out, "%02x", (unsigned char)cell->text[i]);
		break;
	}
}

static void row(struct emitter *e, const struct emitter_value *cells)
{
	if (e->table_flags & TABLE_ASIDE)
		return;
	for (size_t i = 0; i < e->n_columns; i++) {
		if (i)
			buffer_char(&e->out, ',');
		add_cell(e, &cells[i]);
	}
	buffer_char(&e->out, '\n');
}

const struct emitter_format emitter_csv = {
	.name = "csv",
	.title = "comma-separated values with a line of titles",
	.table_begin = table_begin,
	.row = row,
};
