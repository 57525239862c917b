/* SPDX-License-Identifier: Apache-2.0 */
/* JSON: one document. A table is an array of objects, a row a line. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "output/emitter.h"
#include "output/escape.h"

static void new_line(struct emitter *e)
{
	buffer_char(&e->out, '\n');
	buffer_repeat(&e->out, ' ', e->depth);
}

/* The comma and the key before anything that is written. */
static void begin(struct emitter *e, const char *key)
{
	if (e->filled[e->depth])
		buffer_char(&e->out, ',');
	if (e->depth)
		new_line(e);
	e->filled[e->depth] = true;
	if (key) {
		escape_json(&e->out, key, strlen(key));
		buffer_string(&e->out, ": ");
	}
}

static void open_with(struct emitter *e, const char *key, char bracket)
{
	begin(e, key);
	buffer_char(&e->out, bracket);
	if (e->depth + 1 < EMITTER_DEPTH)
		e->depth++;
	e->filled[e->depth] = false;
}

static void close_with(struct emitter *e, char bracket)
{
	bool filled = e->filled[e->depth];

	if (e->depth)
		e->depth--;
	if (filled)
		new_line(e);
	buffer_char(&e->out, bracket);
	if (e->depth == 0)
		buffer_char(&e->out, '\n');
}

static void object_begin(struct emitter *e, const char *key)
{
	open_with(e, key, '{');
}

static void object_end(struct emitter *e)
{
	close_with(e, '}');
}

static void array_begin(struct emitter *e, const char *key)
{
	open_with(e, key, '[');
}

static void array_end(struct emitter *e)
{
	close_with(e, ']');
}

static void add_hex(struct buffer *out, const char *bytes, size_t len)
{
	buffer_char(out, '"');
	for (size_t i = 0; i < len; i++)
		buffer_format(out, "%02x", (unsigned char)bytes[i]);
	buffer_char(out, '"');
}

static void add_value(struct emitter *e, const struct emitter_value *value)
{
	switch (value->type) {
	case EMIT_NULL:
		buffer_string(&e->out, "null");
		break;
	case EMIT_TEXT:
	case EMIT_LITERAL:
		escape_json(&e->out, value->text, value->len);
		break;
	case EMIT_AMOUNT:
		buffer_format(&e->out, "%" PRIu64, value->amount);
		break;
	case EMIT_INTEGER:
		buffer_format(&e->out, "%" PRId64, value->integer);
		break;
	case EMIT_REAL: /* JSON has no infinity */
		if (isfinite(value->real))
			buffer_format(&e->out, "%.15g", value->real);
		else
			buffer_string(&e->out, "null");
		break;
	case EMIT_PERCENT:
		buffer_format(&e->out, "%.1f", value->real);
		break;
	case EMIT_BOOL:
		buffer_string(&e->out, value->boolean ? "true" : "false");
		break;
	case EMIT_ADDRESS:
		buffer_format(&e->out, "\"0x%" PRIx64 "\"", value->amount);
		break;
	case EMIT_BYTES:
		add_hex(&e->out, value->text, value->len);
		break;
	}
}

static void add(struct emitter *e, const char *key, const struct emitter_value *value)
{
	begin(e, key);
	add_value(e, value);
}

static void row(struct emitter *e, const struct emitter_value *cells)
{
	begin(e, NULL);
	buffer_char(&e->out, '{');
	for (size_t i = 0; i < e->n_columns; i++) {
		if (i)
			buffer_string(&e->out, ", ");
		escape_json(&e->out, e->columns[i].name, strlen(e->columns[i].name));
		buffer_string(&e->out, ": ");
		add_value(e, &cells[i]);
	}
	buffer_char(&e->out, '}');
}

const struct emitter_format emitter_json = {
	.name = "json",
	.title = "one JSON document, with all figures as numbers",
	.object_begin = object_begin,
	.object_end = object_end,
	.array_begin = array_begin,
	.array_end = array_end,
	.value = add,
	.table_begin = array_begin,
	.row = row,
	.table_end = array_end,
};
