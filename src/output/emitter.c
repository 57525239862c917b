/* SPDX-License-Identifier: Apache-2.0 */
#include "output/emitter.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "output/text.h"

const struct emitter_format *const emitter_formats[] = {
	&emitter_text,
	&emitter_json,
	&emitter_csv,
	NULL,
};

const struct emitter_format *emitter_format_find(const char *name)
{
	for (size_t i = 0; emitter_formats[i]; i++)
		if (strcmp(emitter_formats[i]->name, name) == 0)
			return emitter_formats[i];
	return NULL;
}

struct emitter_value emit_text(const char *text)
{
	if (!text)
		return emit_null();
	return (struct emitter_value){ .type = EMIT_TEXT, .text = text, .len = strlen(text) };
}

struct emitter_value emit_literal(const char *text)
{
	struct emitter_value value = emit_text(text);

	if (text)
		value.type = EMIT_LITERAL;
	return value;
}

struct emitter_value emit_bytes(const void *bytes, size_t len)
{
	return (struct emitter_value){ .type = EMIT_BYTES, .text = bytes, .len = len };
}

void emitter_init(struct emitter *emitter, const struct emitter_format *format, int fd)
{
	*emitter = (struct emitter){ .format = format, .fd = fd };
}

void emitter_flush(struct emitter *emitter, bool all)
{
	const char *bytes = emitter->out.bytes.items;
	size_t left = emitter->out.bytes.len;

	if (emitter->out.no_memory && !emitter->error)
		emitter->error = ENOMEM;
	if (emitter->fd < 0 || (!all && (left < 65536 || emitter->held)))
		return;
	while (left && !emitter->error) {
		ssize_t n = write(emitter->fd, bytes, left);

		if (n >= 0) {
			bytes += n;
			left -= (size_t)n;
		} else if (errno != EINTR) {
			emitter->error = errno;
		}
	}
	buffer_clear(&emitter->out);
}

bool emitter_finish(struct emitter *emitter)
{
	emitter_flush(emitter, true);
	return !emitter->error;
}

void emitter_deinit(struct emitter *emitter)
{
	text_rows_deinit(emitter);
	buffer_deinit(&emitter->out);
}

void emitter_object_begin(struct emitter *emitter, const char *key)
{
	if (emitter->format->object_begin)
		emitter->format->object_begin(emitter, key);
}

void emitter_object_end(struct emitter *emitter)
{
	if (emitter->format->object_end)
		emitter->format->object_end(emitter);
	emitter_flush(emitter, false);
}

void emitter_array_begin(struct emitter *emitter, const char *key)
{
	if (emitter->format->array_begin)
		emitter->format->array_begin(emitter, key);
}

void emitter_array_end(struct emitter *emitter)
{
	if (emitter->format->array_end)
		emitter->format->array_end(emitter);
}

void emitter_value(struct emitter *emitter, const char *key, struct emitter_value value)
{
	if (emitter->format->value)
		emitter->format->value(emitter, key, &value);
}

void emitter_table_begin(struct emitter *emitter, const char *key, const struct emitter_column *columns, size_t n,
			 unsigned flags)
{
	emitter->table_flags = flags;
	emitter->columns = columns;
	emitter->n_columns = n < EMITTER_COLUMNS ? n : EMITTER_COLUMNS;
	emitter->format->table_begin(emitter, key);
}

void emitter_row(struct emitter *emitter, const struct emitter_value *cells)
{
	emitter->format->row(emitter, cells);
	emitter_flush(emitter, false);
}

void emitter_note(struct emitter *emitter, const char *text)
{
	if (emitter->format->note)
		emitter->format->note(emitter, text);
}

void emitter_footer(struct emitter *emitter, const char *label, const struct emitter_value *cells)
{
	if (emitter->format->footer)
		emitter->format->footer(emitter, label, cells);
}

void emitter_table_end(struct emitter *emitter)
{
	if (emitter->format->table_end)
		emitter->format->table_end(emitter);
	emitter->columns = NULL;
	emitter->n_columns = 0;
	emitter_flush(emitter, false);
}

void emitter_line(struct emitter *emitter, const char *format, ...)
{
	char *text = NULL;
	va_list ap;

	if (!emitter->format->line)
		return;
	va_start(ap, format);
	if (vasprintf(&text, format, ap) < 0)
		text = NULL;
	va_end(ap);
	if (text)
		emitter->format->line(emitter, text);
	else
		emitter->error = ENOMEM;
	free(text);
}
