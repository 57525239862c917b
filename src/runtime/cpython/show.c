/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpython/show.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct show {
	struct cpython *py;
	uint64_t address;
	runtime_field_visitor *visit;
	void *context;
};

static void __attribute__((format(printf, 3, 4)))
tell(const struct show *show, const char *name, const char *format, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	show->visit(show->context, name, text);
}

/* ---- what is known of some types -------------------------------------------------------------- */

static bool field(const struct show *show, uint64_t address, const char *structure, const char *name, uint64_t *ret)
{
	int at = layout_offset(&show->py->layout, structure, name);

	return at >= 0 && source_u64(show->py->target->source, address + (uint64_t)at, ret) && *ret;
}

/* A field that holds a string. */
static bool string_field(const struct show *show, uint64_t address, const char *structure, const char *name,
			 char *buffer, size_t size)
{
	uint64_t string;

	return field(show, address, structure, name, &string) && py_string(show->py, string, buffer, size);
}

static void tell_place(const struct show *show, uint64_t code)
{
	int at = layout_offset(&show->py->layout, "PyCodeObject", "co_firstlineno"), type = value_type(show->py, code);
	char file[256];
	uint32_t line;

	if (type < 0 || !types_is(show->py, type, "code") ||
	    !string_field(show, code, "PyCodeObject", "co_filename", file, sizeof(file)))
		return;
	if (at >= 0 && source_u32(show->py->target->source, code + (uint64_t)at, &line))
		tell(show, "file", "%s:%" PRIu32, file, line);
	else
		tell(show, "file", "%s", file);
}

static void tell_code(const struct show *show)
{
	char name[256];

	if (string_field(show, show->address, "PyCodeObject", "co_qualname", name, sizeof(name)) ||
	    string_field(show, show->address, "PyCodeObject", "co_name", name, sizeof(name)))
		tell(show, "name", "%s", name);
	tell_place(show, show->address);
}

static void tell_function(const struct show *show)
{
	char name[256];
	uint64_t code;

	if (string_field(show, show->address, "PyFunctionObject", "func_qualname", name, sizeof(name)) ||
	    string_field(show, show->address, "PyFunctionObject", "func_name", name, sizeof(name)))
		tell(show, "name", "%s", name);
	if (field(show, show->address, "PyFunctionObject", "func_code", &code))
		tell_place(show, code);
}

static void tell_module(const struct show *show)
{
	char text[256];
	uint64_t dict = 0, value;
	int type;

	if (!field(show, show->address, "PyModuleObject", "md_dict", &dict) ||
	    (type = value_type(show->py, dict)) < 0 || !(show->py->types.items[type].flags & TYPE_DICT))
		dict = 0;
	if (string_field(show, show->address, "PyModuleObject", "md_name", text, sizeof(text)) ||
	    ((value = dict_lookup(show->py, dict, "__name__")) && py_string(show->py, value, text, sizeof(text))))
		tell(show, "name", "%s", text);
	if ((value = dict_lookup(show->py, dict, "__file__")) && py_string(show->py, value, text, sizeof(text)))
		tell(show, "file", "%s", text);
}

static void tell_cell(const struct show *show)
{
	struct words words = { 0 };
	uint64_t content;

	if (field(show, show->address, "PyCellObject", "ob_ref", &content))
		value_brief(show->py, content, 256, &words);
	else
		words_add(&words, "empty");
	show->visit(show->context, "content", words.bytes);
}

static void tell_old_class(const struct show *show)
{
	char name[256];

	if (string_field(show, show->address, "PyClassObject", "cl_name", name, sizeof(name)))
		tell(show, "name", "%s", name);
}

static void tell_class(const struct show *show)
{
	struct cpython *py = show->py;
	int self = types_at(py, show->address), base = types_base(py, self);

	if (self < 0)
		return;
	tell(show, "name", "%s", py->types.items[self].name);
	if (base >= 0)
		tell(show, "base", "%s", py->types.items[base].name);
	tell(show, "instance size", "%" PRId64, py->types.items[self].basicsize);
	if (py->types.items[self].itemsize)
		tell(show, "item size", "%" PRId64, py->types.items[self].itemsize);
}

static void tell_exception(const struct show *show)
{
	struct words words = { 0 };
	uint64_t args;

	if (field(show, show->address, "PyBaseExceptionObject", "args", &args) && value_words(show->py, args, &words))
		show->visit(show->context, "args", words.bytes);
}

/* Those whose members in C would tell the same, or too much. */
static const struct known {
	const char *type;
	void (*tell)(const struct show *show);
	bool attributes; /* it may have some of its own */
} known_types[] = {
	{ "function", tell_function, true },
	{ "code", tell_code, false },
	{ "module", tell_module, false },
	{ "cell", tell_cell, false },
	{ "classobj", tell_old_class, false },
};

static const struct known *find_known(struct cpython *py, int type)
{
	static const struct known class = { "type", tell_class, false };

	if (py->types.items[type].flags & TYPE_TYPE)
		return &class;
	for (size_t i = 0; i < sizeof(known_types) / sizeof(*known_types); i++)
		if (types_is(py, type, known_types[i].type))
			return &known_types[i];
	return NULL;
}

/* ---- what is known of any ------------------------------------------------------------------------ */

/* 2.7: an instance of an old-style class has its class and its dictionary in fields. */
static bool find_old_instance(const struct show *show, const char *type, struct py_instance *instance)
{
	char name[256];
	uint64_t class;

	if (strcmp(type, "instance") != 0 || !field(show, show->address, "PyInstanceObject", "in_class", &class))
		return false;
	if (string_field(show, class, "PyClassObject", "cl_name", name, sizeof(name)))
		tell(show, "class", "%s", name);
	if (!field(show, show->address, "PyInstanceObject", "in_dict", &instance->dict))
		instance->dict = 0;
	return true;
}

static void tell_value(const struct show *show)
{
	struct words words = { 0 };
	uint64_t n;

	if (value_length(show->py, show->address, &n))
		tell(show, "length", "%" PRIu64, n);
	if (value_words(show->py, show->address, &words))
		show->visit(show->context, "value", words.bytes);
}

static void tell_attributes(const struct show *show, const struct py_object *object, bool slots, bool always,
			    const struct py_instance *instance)
{
	struct attributes attributes = { .n = 0 };

	if (slots)
		attributes_of_slots(show->py, object, &attributes);
	attributes_of_instance(show->py, object->type, instance, &attributes);
	if (!attributes.total && !always)
		return;
	tell(show, "attributes", "%" PRIu64, attributes.total);
	for (size_t i = 0; i < attributes.n; i++) {
		struct words words = { 0 };

		value_brief(show->py, attributes.items[i].value, 128, &words);
		show->visit(show->context, attributes.items[i].name, words.bytes);
	}
	if (attributes.total > attributes.n)
		tell(show, "more attributes", "%" PRIu64, attributes.total - attributes.n);
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

static void tell_object(const struct show *show, const struct py_object *object, struct py_instance *instance)
{
	struct cpython *py = show->py;
	const char *type = py->types.items[object->type].name;
	bool heap = py->types.items[object->type].heap, old;
	const struct known *known = find_known(py, (int)object->type);
	char buffer[64];

	tell(show, "object", "0x%" PRIx64, object->address);
	tell(show, "type", "%s", type);
	tell(show, "type object", "0x%" PRIx64, py->types.items[object->type].address);
	tell(show, "refcount", "%s", refcount_text(object, buffer));
	if (object->refcount == 0)
		return; /* what its fields say was true once */
	old = find_old_instance(show, type, instance);
	if (known)
		known->tell(show);
	else if (py->types.items[object->type].flags & TYPE_EXCEPTION)
		tell_exception(show);
	tell_value(show);
	if (!known || known->attributes)
		tell_attributes(show, object, !known, old || (heap && !known), instance);
}

static bool find_object(struct cpython *py, const struct block *block, uint64_t address, struct py_object *ret)
{
	const struct category *c = ledger_category_of(py->target->ledger, block->category);

	if (strcmp(c->domain, "image") == 0)
		return objects_static(py, address, block->end, ret);
	return (strcmp(c->domain, "python") == 0 || strcmp(c->kind, "free list") == 0) &&
	       objects_at(py, block->start + c->head, block->end, ret);
}

void show_object(struct cpython *py, const struct block *block, uint64_t address, runtime_field_visitor *visit,
		 void *context)
{
	struct show show = { .py = py, .visit = visit, .context = context };
	struct py_instance instance;
	struct py_object object;

	if (!find_object(py, block, address, &object))
		return;
	instance_find(py, &object, &instance);
	show.address = object.address;
	tell_object(&show, &object, &instance);
}
