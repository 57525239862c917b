/* SPDX-License-Identifier: Apache-2.0 */
#include "output/escape.h"

#include <string.h>
#include <wchar.h>

size_t escape_decode(const char *bytes, size_t len, uint32_t *ret)
{
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const uint8_t *p = (const uint8_t *)bytes;
	size_t n;
	uint32_t c;

	if (!len)
		return 0;
	if (p[0] < 0x80) {
		*ret = p[0];
		return 1;
	}
	n = p[0] >= 0xf8 ? 0 : p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : p[0] >= 0xc0 ? 2 : 0;
	if (!n || n > len)
		return 0;
	c = p[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < smallest[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*ret = c;
	return n;
}

bool escape_is_control(uint32_t c)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{ 0x00, 0x1f },	    { 0x7f, 0x9f },	{ 0xad, 0xad },	    { 0x61c, 0x61c },
		{ 0x180e, 0x180e }, { 0x200b, 0x200f }, { 0x2028, 0x202e }, { 0x2060, 0x206f },
		{ 0xfeff, 0xfeff }, { 0xfff9, 0xfffb }, { 0xe0000, 0xe007f },
	};

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		if (c >= ranges[i].first && c <= ranges[i].last)
			return true;
	return false;
}

/* Length of the stretch at the start that needs no thought: plain ASCII without quotes and backslashes. */
static size_t plain(const char *bytes, size_t len)
{
	size_t i = 0;

	while (i < len && bytes[i] >= ' ' && bytes[i] != 0x7f && bytes[i] != '\\' && bytes[i] != '"')
		i++;
	return i;
}

static void add_escaped_byte(struct buffer *buffer, char byte)
{
	switch (byte) {
	case '\n':
		buffer_string(buffer, "\\n");
		break;
	case '\r':
		buffer_string(buffer, "\\r");
		break;
	case '\t':
		buffer_string(buffer, "\\t");
		break;
	case '\\':
		buffer_string(buffer, "\\\\");
		break;
	default:
		buffer_format(buffer, "\\x%02x", (unsigned char)byte);
	}
}

/* Which characters beyond ASCII stay as they are. */
enum keep {
	KEEP_NONE,
	KEEP_SHOWN, /* that a terminal of this locale has a width for */
	KEEP_ALL,
};

static bool keeps(enum keep keep, uint32_t c)
{
	if (keep == KEEP_NONE || escape_is_control(c))
		return false;
	return keep == KEEP_ALL || wcwidth((wchar_t)c) >= 0;
}

static void add_readable(struct buffer *buffer, const char *bytes, size_t len, enum keep keep, bool literal)
{
	while (len) {
		size_t n = plain(bytes, len);
		uint32_t c;

		buffer_add(buffer, bytes, n);
		bytes += n;
		len -= n;
		n = escape_decode(bytes, len, &c);
		if (n == 1 && (*bytes == '"' || (literal && *bytes == '\\'))) {
			buffer_char(buffer, *bytes);
		} else if (n > 1 && keeps(keep, c)) {
			buffer_add(buffer, bytes, n);
		} else if (len) {
			n = n ? n : 1;
			for (size_t i = 0; i < n; i++)
				add_escaped_byte(buffer, bytes[i]);
		}
		bytes += n;
		len -= n;
	}
}

void escape_terminal(struct buffer *buffer, const char *bytes, size_t len, bool utf8)
{
	add_readable(buffer, bytes, len, utf8 ? KEEP_SHOWN : KEEP_NONE, false);
}

void escape_literal(struct buffer *buffer, const char *bytes, size_t len, bool utf8)
{
	add_readable(buffer, bytes, len, utf8 ? KEEP_SHOWN : KEEP_NONE, true);
}

static void add_json_control(struct buffer *buffer, uint32_t c)
{
	if (c == '\n')
		buffer_string(buffer, "\\n");
	else if (c == '\t')
		buffer_string(buffer, "\\t");
	else if (c < 0x10000)
		buffer_format(buffer, "\\u%04x", c);
	else
		buffer_format(buffer, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + (c & 0x3ff));
}

void escape_json(struct buffer *buffer, const char *bytes, size_t len)
{
	buffer_char(buffer, '"');
	while (len) {
		size_t n = plain(bytes, len);
		uint32_t c = 0;

		buffer_add(buffer, bytes, n);
		bytes += n;
		len -= n;
		if (!len)
			break;
		n = escape_decode(bytes, len, &c);
		if (!n)
			buffer_string(buffer, "\xef\xbf\xbd"); /* U+FFFD */
		else if (c == '"' || c == '\\')
			buffer_format(buffer, "\\%c", (char)c);
		else if (escape_is_control(c))
			add_json_control(buffer, c);
		else
			buffer_add(buffer, bytes, n);
		n = n ? n : 1;
		bytes += n;
		len -= n;
	}
	buffer_char(buffer, '"');
}

static void add_csv(struct buffer *buffer, const char *bytes, size_t len, bool literal)
{
	bool formula = len && strchr("=+-@", *bytes) && *bytes;
	bool quoted = formula || memchr(bytes, '"', len) || memchr(bytes, ',', len) ||
		      (len && (*bytes == ' ' || bytes[len - 1] == ' '));

	if (quoted)
		buffer_char(buffer, '"');
	if (formula)
		buffer_char(buffer, '\'');
	while (len) { /* in pieces, because a quote is doubled */
		const char *quote = memchr(bytes, '"', len);
		size_t n = quote ? (size_t)(quote - bytes) + 1 : len;

		add_readable(buffer, bytes, n, KEEP_ALL, literal);
		if (quote)
			buffer_char(buffer, '"');
		bytes += n;
		len -= n;
	}
	if (quoted)
		buffer_char(buffer, '"');
}

void escape_csv(struct buffer *buffer, const char *bytes, size_t len)
{
	add_csv(buffer, bytes, len, false);
}

void escape_csv_literal(struct buffer *buffer, const char *bytes, size_t len)
{
	add_csv(buffer, bytes, len, true);
}

size_t escape_cut(const char *bytes, size_t len, size_t width)
{
	size_t at = 0;

	while (at < len) {
		uint32_t c = 0;
		size_t n = escape_decode(bytes + at, len - at, &c);
		int columns = n > 1 ? wcwidth((wchar_t)c) : 1;

		if (columns > 0 && (size_t)columns > width)
			break;
		width -= columns > 0 ? (size_t)columns : 0;
		at += n ? n : 1;
	}
	return at;
}

size_t escape_width(const char *bytes, size_t len)
{
	size_t width = 0;

	for (size_t at = 0; at < len;) {
		uint32_t c = 0;
		size_t n = escape_decode(bytes + at, len - at, &c);
		int columns = n > 1 ? wcwidth((wchar_t)c) : 1;

		width += columns > 0 ? (size_t)columns : 0;
		at += n ? n : 1;
	}
	return width;
}
