/* SPDX-License-Identifier: Apache-2.0 */
#include "output/buffer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void buffer_add(struct buffer *buffer, const char *bytes, size_t len)
{
	if (!len)
		return;
	if (len > SIZE_MAX / 2 || !vec_reserve(&buffer->bytes, buffer->bytes.len + len)) {
		buffer->no_memory = true;
		return;
	}
	memcpy(buffer->bytes.items + buffer->bytes.len, bytes, len);
	buffer->bytes.len += len;
}

void buffer_string(struct buffer *buffer, const char *string)
{
	buffer_add(buffer, string, strlen(string));
}

void buffer_char(struct buffer *buffer, char c)
{
	if (!vec_push(&buffer->bytes, c))
		buffer->no_memory = true;
}

void buffer_repeat(struct buffer *buffer, char c, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buffer_char(buffer, c);
}

void buffer_format(struct buffer *buffer, const char *format, ...)
{
	char small[256], *large = NULL;
	va_list ap;
	int len;

	va_start(ap, format);
	len = vsnprintf(small, sizeof(small), format, ap);
	va_end(ap);
	if (len >= 0 && (size_t)len < sizeof(small)) {
		buffer_add(buffer, small, (size_t)len);
		return;
	}
	va_start(ap, format);
	len = vasprintf(&large, format, ap);
	va_end(ap);
	if (len < 0) {
		buffer->no_memory = true;
		return;
	}
	buffer_add(buffer, large, (size_t)len);
	free(large);
}

void buffer_amount(struct buffer *buffer, uint64_t value)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, value);

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			buffer_char(buffer, ',');
		buffer_char(buffer, digits[i]);
	}
}

const char *buffer_c_string(struct buffer *buffer)
{
	if (!vec_reserve(&buffer->bytes, buffer->bytes.len + 1)) {
		buffer->no_memory = true;
		return "";
	}
	buffer->bytes.items[buffer->bytes.len] = '\0';
	return buffer->bytes.items;
}

void buffer_clear(struct buffer *buffer)
{
	buffer->bytes.len = 0;
}

void buffer_deinit(struct buffer *buffer)
{
	vec_free(&buffer->bytes);
}
