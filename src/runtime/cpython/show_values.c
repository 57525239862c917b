/* SPDX-License-Identifier: Apache-2.0 */
/* Values as Python writes them. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpython/show.h"

#define MOST_ITEMS 8
#define ITEM_CHARACTERS 64   /* of an element */
#define VALUE_CHARACTERS 256 /* of the object itself */
#define MOST_LOOKED_AT 65536 /* entries of one table */

/* ---- words ------------------------------------------------------------------------------ */

void words_add(struct words *words, const char *piece)
{
	size_t n = strlen(piece);

	if (words->full)
		return;
	if (n >= sizeof(words->bytes) - sizeof("...") - words->len) {
		words->full = true;
		piece = "...";
		n = strlen(piece);
	}
	memcpy(words->bytes + words->len, piece, n + 1);
	words->len += n;
}

void words_format(struct words *words, const char *format, ...)
{
	char piece[512];
	va_list ap;

	va_start(ap, format);
	vsnprintf(piece, sizeof(piece), format, ap);
	va_end(ap);
	words_add(words, piece);
}

/* ---- text ------------------------------------------------------------------------------- */

/* Ranges that Python doesn't print: controls, formats, blanks but the space, surrogates, private use
 * (Tools/unicode/makeunicodedata.py; here without what is not assigned). */
static bool is_printable(uint32_t c)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{ 0x00, 0x1f },	    { 0x7f, 0xa0 },	{ 0xad, 0xad },	    { 0x600, 0x605 },	{ 0x61c, 0x61c },
		{ 0x6dd, 0x6dd },   { 0x70f, 0x70f },	{ 0x1680, 0x1680 }, { 0x180e, 0x180e }, { 0x2000, 0x200f },
		{ 0x2028, 0x202f }, { 0x205f, 0x206f }, { 0x3000, 0x3000 }, { 0xd800, 0xf8ff }, { 0xfeff, 0xfeff },
		{ 0xfff9, 0xfffb }, { 0xfffe, 0xffff }, { 0xe0000, 0xffffffff },
	};

	for (size_t i = 0; i < sizeof(ranges) / sizeof(*ranges); i++)
		if (c >= ranges[i].first && c <= ranges[i].last)
			return false;
	return true;
}

static void add_character(struct words *words, uint32_t c, char quote, bool bytes)
{
	char utf8[5] = { 0 };

	if (c == (unsigned char)quote || c == '\\')
		words_format(words, "\\%c", (char)c);
	else if (c == '\n' || c == '\r' || c == '\t')
		words_add(words, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
	else if (is_printable(c) && !(bytes && c >= 0x80) && utf8_put(c, utf8))
		words_add(words, utf8);
	else if (c < 0x100)
		words_format(words, "\\x%02x", c);
	else if (c < 0x10000)
		words_format(words, "\\u%04x", c);
	else
		words_format(words, "\\U%08x", c);
}

static uint32_t unit(const uint8_t *data, size_t i, unsigned width)
{
	uint32_t c = 0;

	memcpy(&c, data + i * width, width);
	return c;
}

/* In quotes: the ' unless only that is in the text. `most` at most, and dots where there is more. */
static void add_quoted(struct cpython *py, const struct py_units *units, const char *prefix, bool bytes, size_t most,
		       struct words *words)
{
	uint8_t data[VALUE_CHARACTERS * 4];
	size_t n = units->length < most ? units->length : most;
	bool single = false, twice = false;
	char quote;

	n = n < VALUE_CHARACTERS ? n : VALUE_CHARACTERS;
	n = memory_read(&py->target->source->memory, units->address, data, n * units->width) / units->width;
	for (size_t i = 0; i < n; i++) {
		single |= unit(data, i, units->width) == '\'';
		twice |= unit(data, i, units->width) == '"';
	}
	quote = single && !twice ? '"' : '\'';
	words_format(words, "%s%c", prefix, quote);
	for (size_t i = 0; i < n; i++)
		add_character(words, unit(data, i, units->width), quote, bytes);
	words_format(words, "%c%s", quote, units->length > n ? "..." : "");
}

/* Text has no prefix but unicode of 2.7, whose str is bytes. */
static void add_text(struct cpython *py, uint64_t address, uint64_t flags, size_t most, struct words *words)
{
	bool old = py->o.unicode_state < 0;
	struct py_units units;

	if (flags & TYPE_UNICODE) {
		if (py_units(py, address, &units))
			add_quoted(py, &units, old ? "u" : "", false, most, words);
	} else {
		units = (struct py_units){ .address = address + (uint64_t)py->o.bytes_data, .width = 1 };
		if (source_u64(py->target->source, address + (uint64_t)py->o.ob_size, &units.length))
			add_quoted(py, &units, old ? "" : "b", true, most, words);
	}
}

/* ---- numbers ------------------------------------------------------------------------------ */

/* 2.7: a machine word. */
static void add_word(struct cpython *py, uint64_t address, bool boolean, struct words *words)
{
	int at = layout_offset(&py->layout, "PyIntObject", "ob_ival");
	uint64_t value;

	if (at < 0 || !source_u64(py->target->source, address + (uint64_t)at, &value))
		return;
	if (boolean)
		words_add(words, value ? "True" : "False");
	else
		words_format(words, "%" PRId64, (int64_t)value);
}

/* Digits of 30 bits (Include/cpython/longintrepr.h; 15 bits only in 32-bit builds). */
static void add_long(struct cpython *py, uint64_t address, bool boolean, struct words *words)
{
	struct source *source = py->target->source;
	uint64_t tag, n, low, digits = address + (uint64_t)py->o.bytes_data - 8;
	unsigned __int128 value = 0;
	bool negative;
	const char *suffix = py->o.unicode_state < 0 ? "L" : ""; /* 2.7 */
	int at = layout_offset(&py->layout, "PyLongObject", "ob_digit");

	if (at >= 0)
		digits = address + (uint64_t)at;
	at = py->o.long_tag >= 0 ? py->o.long_tag : py->o.ob_size;
	if (!source_u64(source, address + (uint64_t)at, &tag))
		return;
	if (py->o.long_tag >= 0) { /* 3.12: sign in the low bits, then the number of digits */
		n = tag >> 3;
		negative = (tag & 3) == 2;
	} else {
		negative = (int64_t)tag < 0;
		n = negative ? -tag : tag;
	}
	if (n > 4) {
		words_format(words, "%san integer of %" PRIu64 " digits to the base 2**30", negative ? "-" : "", n);
		return;
	}
	for (uint64_t i = n; i-- > 0;) {
		uint32_t digit;

		if (!source_u32(source, digits + 4 * i, &digit))
			return;
		value = value << 30 | digit;
	}
	if (boolean) {
		words_add(words, value ? "True" : "False");
		return;
	}
	low = (uint64_t)(value % UINT64_C(10000000000000000000));
	value /= UINT64_C(10000000000000000000);
	if (value)
		words_format(words, "%s%" PRIu64 "%019" PRIu64 "%s", negative ? "-" : "", (uint64_t)value, low, suffix);
	else
		words_format(words, "%s%" PRIu64 "%s", negative && low ? "-" : "", low, suffix);
}

/* As many digits as make it the same number, and an exponent where repr() has one. */
static void add_float(struct cpython *py, uint64_t address, struct words *words)
{
	int at = layout_offset(&py->layout, "PyFloatObject", "ob_fval"), digits = 1, exponent;
	char text[64];
	double value;

	if (at < 0 || !source_read(py->target->source, address + (uint64_t)at, &value, sizeof(value)))
		return;
	if (!isfinite(value)) {
		words_add(words, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
		return;
	}
	do
		snprintf(text, sizeof(text), "%.*e", digits - 1, value);
	while (strtod(text, NULL) != value && ++digits <= 17);
	exponent = atoi(strchr(text, 'e') + 1);
	if (exponent >= -4 && exponent < 16)
		words_format(words, "%.*f", digits - 1 - exponent > 1 ? digits - 1 - exponent : 1, value);
	else
		words_add(words, text);
}

/* ---- any ------------------------------------------------------------------------------------ */

int value_type(struct cpython *py, uint64_t address)
{
	uint64_t type;

	return source_u64(py->target->source, address + (uint64_t)py->o.ob_type, &type) ? types_at(py, type) : -1;
}

bool value_length(struct cpython *py, uint64_t address, uint64_t *ret)
{
	static const struct {
		const char *type, *structure, *field;
	} lengths[] = {
		{ "set", "PySetObject", "used" },
		{ "frozenset", "PySetObject", "used" },
		{ "collections.deque", "dequeobject", "ob_size" },
		{ "collections.deque", "dequeobject", "len" },
		{ "bytearray", "PyByteArrayObject", "ob_size" },
		{ "array.array", "arrayobject", "ob_size" },
	};
	struct source *source = py->target->source;
	int type = value_type(py, address), at = -1;
	uint64_t flags = type >= 0 ? py->types.items[type].flags : 0;
	struct py_units units;
	struct py_dict dict;

	if (type < 0)
		return false;
	if (flags & TYPE_UNICODE) {
		if (!py_units(py, address, &units))
			return false;
		*ret = units.length;
		return true;
	}
	if (flags & TYPE_DICT) {
		if (!dict_open(py, address, &dict))
			return false;
		*ret = dict.used;
		return true;
	}
	if (flags & (TYPE_TUPLE | TYPE_LIST | TYPE_BYTES))
		at = py->o.ob_size;
	for (size_t i = 0; at < 0 && i < sizeof(lengths) / sizeof(*lengths); i++)
		if (types_is(py, type, lengths[i].type))
			at = layout_offset(&py->layout, lengths[i].structure, lengths[i].field);
	return at >= 0 && source_u64(source, address + (uint64_t)at, ret);
}

/* What there is one of. */
static const char *constant(const char *type)
{
	static const char *const constants[][2] = {
		{ "NoneType", "None" },
		{ "ellipsis", "Ellipsis" },
		{ "NotImplementedType", "NotImplemented" },
	};

	for (size_t i = 0; i < sizeof(constants) / sizeof(*constants); i++)
		if (strcmp(type, constants[i][0]) == 0)
			return constants[i][1];
	return NULL;
}

static void add_class(struct cpython *py, uint64_t address, struct words *words)
{
	int self = types_at(py, address);

	if (self >= 0)
		words_format(words, "<class %s>", py->types.items[self].name);
}

void value_brief(struct cpython *py, uint64_t address, size_t most, struct words *words)
{
	int type = address ? value_type(py, address) : -1;
	uint64_t flags = type >= 0 ? py->types.items[type].flags : 0, length;
	size_t before = words->len;
	const char *name = type >= 0 ? py->types.items[type].name : NULL;

	if (!name)
		words_add(words, address ? "?" : "NULL");
	else if (constant(name))
		words_add(words, constant(name));
	else if (flags & (TYPE_UNICODE | TYPE_BYTES))
		add_text(py, address, flags, most, words);
	else if (flags & TYPE_LONG)
		add_long(py, address, strcmp(name, "bool") == 0, words);
	else if (flags & TYPE_INT)
		add_word(py, address, strcmp(name, "bool") == 0, words);
	else if (flags & TYPE_TYPE)
		add_class(py, address, words);
	else if (types_is(py, type, "float"))
		add_float(py, address, words);
	if (words->len > before || words->full)
		return;
	if (value_length(py, address, &length))
		words_format(words, "<%s of %" PRIu64 " at 0x%" PRIx64 ">", name, length, address);
	else
		words_format(words, "<%s at 0x%" PRIx64 ">", name, address);
}

/* ---- with elements ------------------------------------------------------------------------------ */

static void add_items(struct cpython *py, uint64_t items, uint64_t n, bool tuple, struct words *words)
{
	words_add(words, tuple ? "(" : "[");
	for (uint64_t i = 0; i < n && i < MOST_ITEMS; i++) {
		uint64_t item = 0;

		if (!source_u64(py->target->source, items + 8 * i, &item))
			break;
		words_add(words, i ? ", " : "");
		value_brief(py, item, ITEM_CHARACTERS, words);
	}
	words_add(words, n > MOST_ITEMS ? ", ..." : tuple && n == 1 ? "," : "");
	words_add(words, tuple ? ")" : "]");
}

static void add_dict(struct cpython *py, uint64_t address, struct words *words)
{
	struct py_dict dict;
	unsigned shown = 0;

	if (!dict_open(py, address, &dict))
		return;
	words_add(words, "{");
	for (uint64_t i = 0; i < dict.n && i < MOST_LOOKED_AT && shown < MOST_ITEMS; i++) {
		uint64_t key, value;

		if (!dict_entry(py, &dict, i, &key, &value))
			break;
		if (!key || !value)
			continue;
		words_add(words, shown++ ? ", " : "");
		value_brief(py, key, ITEM_CHARACTERS, words);
		words_add(words, ": ");
		value_brief(py, value, ITEM_CHARACTERS, words);
	}
	words_add(words, dict.used > shown ? ", ...}" : "}");
}

static void add_bytearray(struct cpython *py, uint64_t address, uint64_t length, struct words *words)
{
	struct py_units units = { .length = length, .width = 1 };
	int at = layout_offset(&py->layout, "PyByteArrayObject", "ob_start");

	if (at < 0)
		at = layout_offset(&py->layout, "PyByteArrayObject", "ob_bytes");
	if (at < 0 || !source_u64(py->target->source, address + (uint64_t)at, &units.address))
		return;
	words_add(words, "bytearray(");
	add_quoted(py, &units, "b", true, ITEM_CHARACTERS, words);
	words_add(words, ")");
}

bool value_words(struct cpython *py, uint64_t address, struct words *words)
{
	int type = value_type(py, address);
	uint64_t flags = type >= 0 ? py->types.items[type].flags : 0, n = 0;
	uint64_t items = address + (uint64_t)py->o.tuple_items;
	size_t before = words->len;

	if (type < 0)
		return false;
	if (flags & (TYPE_TUPLE | TYPE_LIST)) {
		if (value_length(py, address, &n) &&
		    (flags & TYPE_TUPLE ||
		     source_u64(py->target->source, address + (uint64_t)py->o.list_items, &items)))
			add_items(py, items, n, flags & TYPE_TUPLE, words);
	} else if (flags & TYPE_DICT) {
		add_dict(py, address, words);
	} else if (types_is(py, type, "bytearray")) {
		if (value_length(py, address, &n))
			add_bytearray(py, address, n, words);
	} else {
		value_brief(py, address, VALUE_CHARACTERS, words);
	}
	return words->len > before && words->bytes[before] != '<';
}
