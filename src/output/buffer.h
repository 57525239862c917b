/* SPDX-License-Identifier: Apache-2.0 */
/* A growing string of bytes. Running out of memory is remembered, so that appending needs no checks. */
#ifndef FREEHOLD_OUTPUT_BUFFER_H
#define FREEHOLD_OUTPUT_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"

/* Zero-initialised is empty. */
struct buffer {
	VEC(char) bytes;
	bool no_memory;
};

void buffer_add(struct buffer *buffer, const char *bytes, size_t len);
void buffer_string(struct buffer *buffer, const char *string);
void buffer_char(struct buffer *buffer, char c);
void buffer_repeat(struct buffer *buffer, char c, size_t n);
void buffer_format(struct buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A number in decimal, with a comma after each three digits. */
void buffer_amount(struct buffer *buffer, uint64_t value);
/* The bytes as a C string, which belongs to the buffer; "" when memory was out. */
const char *buffer_c_string(struct buffer *buffer);
void buffer_clear(struct buffer *buffer);
void buffer_deinit(struct buffer *buffer);

#endif
