/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of the target on their way out. Names, values and file names are whatever the target put there:
 * escape sequences for a terminal, half a UTF-8 character, text that changes the direction of writing.
 * Nothing of it leaves the program but through here.
 */
#ifndef FREEHOLD_OUTPUT_ESCAPE_H
#define FREEHOLD_OUTPUT_ESCAPE_H

#include "output/buffer.h"

/* Length of the well-formed UTF-8 character at the start, and its code point; 0 when there is none (too
 * long a form, half of a pair, beyond U+10FFFF, cut off). */
size_t escape_decode(const char *bytes, size_t len, uint32_t *ret);
/* Whether a character does something to what it is shown in instead of being shown: C0, DEL, C1, direction and
 * invisible formatting. */
bool escape_is_control(uint32_t c);

/* For people: such characters and wrong bytes become \n \t \r \xNN, a backslash \\. Characters beyond ASCII stay
 * where `utf8` says that the terminal takes them. */
void escape_terminal(struct buffer *buffer, const char *bytes, size_t len, bool utf8);
/* The same for what is written as a language writes its literals, and has escapes of its own: a backslash stays. */
void escape_literal(struct buffer *buffer, const char *bytes, size_t len, bool utf8);
/* A JSON string with its quotes, always valid UTF-8: wrong bytes become U+FFFD. */
void escape_json(struct buffer *buffer, const char *bytes, size_t len);
/* A CSV field: as for people, in quotes where needed; what a spreadsheet would take for a formula gets a '
 * before it. */
void escape_csv(struct buffer *buffer, const char *bytes, size_t len);
void escape_csv_literal(struct buffer *buffer, const char *bytes, size_t len);

/* Columns that escaped text takes on a terminal. */
size_t escape_width(const char *bytes, size_t len);
/* Length of the longest start of escaped text that takes at most `width` columns. */
size_t escape_cut(const char *bytes, size_t len, size_t width);

#endif
