/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One object in words: what a Python programmer would want to know of it. Bounded, and elements of containers
 * are shown one level deep, so that nothing depends on how the target's data is nested. What is visited are the
 * target's own bytes: escaping is for whoever prints them.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/cpython/dicts.h"
#include "runtime/cpython/internal.h"

#define MOST_ITEMS 8
#define VALUE_LEN 512

static int type_of_object(struct cpython *py, uint64_t address)
{
	uint64_t type;

	return source_u64(py->target->source, address + (uint64_t)py->o.ob_type, &type) ? types_at(py, type) : -1;
}

/* Digits of 30 bits (Include/cpython/longintrepr.h; 15 bits only in 32-bit builds). */
static void int_value(struct cpython *py, uint64_t address, char *buffer, size_t size)
{
	struct source *source = py->target->source;
	uint64_t tag, n, value = 0, digits = address + (uint64_t)py->o.bytes_data - 8;
	bool negative;
	int at = layout_offset(&py->layout, "PyLongObject", "ob_digit");

	if (at >= 0)
		digits = address + (uint64_t)at;
	if (py->o.long_tag >= 0) { /* 3.12: sign in the low bits, then the number of digits */
		if (!source_u64(source, address + (uint64_t)py->o.long_tag, &tag))
			return;
		n = tag >> 3;
		negative = (tag & 3) == 2;
	} else {
		if (!source_u64(source, address + (uint64_t)py->o.ob_size, &tag))
			return;
		negative = (int64_t)tag < 0;
		n = negative ? -tag : tag;
	}
	if (n > 2) {
		snprintf(buffer, size, "%san integer of %" PRIu64 " digits to the base 2**30", negative ? "-" : "", n);
		return;
	}
	for (uint64_t i = n; i-- > 0;) {
		uint32_t digit;

		if (!source_u32(source, digits + 4 * i, &digit))
			return;
		value = value << 30 | digit;
	}
	snprintf(buffer, size, "%s%" PRIu64, negative && value ? "-" : "", value);
}

static void float_value(struct cpython *py, uint64_t address, char *buffer, size_t size)
{
	int at = layout_offset(&py->layout, "PyFloatObject", "ob_fval");
	double value;

	if (at >= 0 && source_read(py->target->source, address + (uint64_t)at, &value, sizeof(value)))
		snprintf(buffer, size, "%.17g", value);
}

static void bytes_value(struct cpython *py, uint64_t address, char *buffer, size_t size)
{
	struct source *source = py->target->source;
	uint64_t length;
	uint8_t bytes[64];
	size_t n, at = 0;

	if (!source_u64(source, address + (uint64_t)py->o.ob_size, &length))
		return;
	n = memory_read(&source->memory, address + (uint64_t)py->o.bytes_data, bytes,
			length < sizeof(bytes) ? length : sizeof(bytes));
	at += (size_t)snprintf(buffer, size, "b'");
	for (size_t i = 0; i < n && at + 8 < size; i++)
		at += (size_t)(bytes[i] >= 0x20 && bytes[i] < 0x7f && bytes[i] != '\'' && bytes[i] != '\\' ?
				       snprintf(buffer + at, size - at, "%c", bytes[i]) :
				       snprintf(buffer + at, size - at, "\\x%02x", bytes[i]));
	snprintf(buffer + at, size - at, "'%s", length > n ? "..." : "");
}

/* A value without looking into it: text and numbers, else only the type. */
static void brief(struct cpython *py, uint64_t address, char *buffer, size_t size)
{
	int index = address ? type_of_object(py, address) : -1;
	const struct py_type *type = index >= 0 ? &py->types.items[index] : NULL;
	char text[80];

	buffer[0] = '\0';
	if (!type) {
		snprintf(buffer, size, address ? "?" : "NULL");
	} else if (strcmp(type->name, "NoneType") == 0) {
		snprintf(buffer, size, "None");
	} else if (type->flags & TYPE_UNICODE || (type->flags & TYPE_BYTES && py->o.unicode_state < 0)) {
		if (py_string(py, address, text, sizeof(text)))
			snprintf(buffer, size, "'%s'", text);
	} else if (type->flags & TYPE_BYTES) {
		bytes_value(py, address, buffer, size);
	} else if (type->flags & TYPE_LONG) {
		int_value(py, address, buffer, size);
	} else if (strcmp(type->name, "float") == 0) {
		float_value(py, address, buffer, size);
	} else if (type->flags & TYPE_TYPE && types_at(py, address) >= 0) {
		snprintf(buffer, size, "<class %s>", py->types.items[types_at(py, address)].name);
	}
	index = address ? type_of_object(py, address) : -1;
	if (!buffer[0])
		snprintf(buffer, size, "<%s at 0x%" PRIx64 ">", index >= 0 ? py->types.items[index].name : "?", address);
}

/* ---- containers ------------------------------------------------------------------------ */

struct text {
	char bytes[VALUE_LEN * 2];
	size_t len;
};

static void add(struct text *text, const char *piece)
{
	size_t n = strlen(piece);

	if (n > sizeof(text->bytes) - 1 - text->len)
		n = sizeof(text->bytes) - 1 - text->len;
	memcpy(text->bytes + text->len, piece, n);
	text->len += n;
	text->bytes[text->len] = '\0';
}

static void sequence_value(struct cpython *py, uint64_t items, uint64_t n, const char *brackets, struct text *text)
{
	char piece[VALUE_LEN], open[2] = { brackets[0], 0 }, close[2] = { brackets[1], 0 };

	add(text, open);
	for (uint64_t i = 0; i < n && i < MOST_ITEMS; i++) {
		uint64_t item = 0;

		if (!source_u64(py->target->source, items + 8 * i, &item))
			break;
		brief(py, item, piece, sizeof(piece));
		add(text, i ? ", " : "");
		add(text, piece);
	}
	add(text, n > MOST_ITEMS ? ", ..." : "");
	add(text, close);
}

static void dict_value(struct cpython *py, uint64_t address, struct text *text, uint64_t *ret_used)
{
	struct py_dict dict;
	char piece[VALUE_LEN];
	unsigned shown = 0;

	if (!dict_open(py, address, &dict))
		return;
	*ret_used = dict.used;
	add(text, "{");
	for (uint64_t i = 0; i < dict.n && i < 65536 && shown < MOST_ITEMS; i++) {
		uint64_t key, value;

		if (!dict_entry(py, &dict, i, &key, &value))
			break;
		if (!key || !value)
			continue;
		add(text, shown++ ? ", " : "");
		brief(py, key, piece, sizeof(piece));
		add(text, piece);
		add(text, ": ");
		brief(py, value, piece, sizeof(piece));
		add(text, piece);
	}
	add(text, dict.used > shown ? ", ...}" : "}");
}

/* ---- fields ------------------------------------------------------------------------------ */

struct show {
	struct cpython *py;
	runtime_field_visitor *visit;
	void *context;
};

static void tell(const struct show *show, const char *name, const char *format, ...)
{
	char text[VALUE_LEN];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	show->visit(show->context, name, text);
}

static void tell_value(const struct show *show, const struct py_object *object)
{
	struct cpython *py = show->py;
	const struct py_type *type = &py->types.items[object->type];
	struct text text = { 0 };
	uint64_t n = UINT64_MAX, items;

	if (type->flags & (TYPE_TUPLE | TYPE_LIST) && source_u64(py->target->source, object->address + (uint64_t)py->o.ob_size, &n)) {
		items = object->address + (uint64_t)py->o.tuple_items;
		if (type->flags & TYPE_TUPLE ||
		    source_u64(py->target->source, object->address + (uint64_t)py->o.list_items, &items))
			sequence_value(py, items, n, type->flags & TYPE_TUPLE ? "()" : "[]", &text);
	} else if (type->flags & TYPE_DICT) {
		dict_value(py, object->address, &text, &n);
	} else if (type->flags & TYPE_UNICODE && py->o.unicode_state >= 0) {
		source_u64(py->target->source, object->address + (uint64_t)py->o.unicode_length, &n);
	} else if (type->flags & TYPE_BYTES) {
		source_u64(py->target->source, object->address + (uint64_t)py->o.ob_size, &n);
	}
	if (n != UINT64_MAX)
		tell(show, "length", "%" PRIu64, n);
	if (!text.len) {
		char value[VALUE_LEN];

		brief(py, object->address, value, sizeof(value));
		add(&text, value);
	}
	if (text.bytes[0] != '<')
		show->visit(show->context, "value", text.bytes);
}

static const char *refcount_text(const struct py_object *object, char buffer[64])
{
	if (object->refcount == 0)
		return "0 (in a free list)";
	if ((uint32_t)object->refcount >> 31)
		return "immortal";
	snprintf(buffer, 64, "%" PRId64, object->refcount);
	return buffer;
}

void show_object(struct cpython *py, const struct block *block, runtime_field_visitor *visit, void *context)
{
	const struct category *c = ledger_category_of(py->target->ledger, block->category);
	struct show show = { py, visit, context };
	struct py_object object;
	char buffer[64];
	const struct py_type *type;

	if (strcmp(c->domain, "python") != 0 && strcmp(c->kind, "free list") != 0)
		return;
	if (!objects_at(py, block->start + c->head, block->end, &object))
		return;
	type = &py->types.items[object.type];
	tell(&show, "object", "0x%" PRIx64, object.address);
	tell(&show, "type", "%s", type->name);
	tell(&show, "type object", "0x%" PRIx64, type->address);
	tell(&show, "refcount", "%s", refcount_text(&object, buffer));
	tell_value(&show, &object);
}
