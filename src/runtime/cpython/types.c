/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which addresses are types. An address is one when its ob_type leads, in a few steps, to the type of types, and
 * its fields make sense. Types are remembered; that an address is none only in a small cache, since every word of
 * the heap that might be an ob_type is asked for, and most differ.
 */
#include <string.h>

#include "runtime/cpython/dicts.h"
#include "runtime/cpython/internal.h"

#define MOST_METATYPES 8
#define MOST_NESTED 16 /* types whose names are being asked for, each for that of the one before */

static bool reaches_type(struct cpython *py, uint64_t address)
{
	uint64_t at = address;

	for (int i = 0; i < MOST_METATYPES; i++) {
		if (at % 8 || !source_u64(py->target->source, at + (uint64_t)py->o.ob_type, &at))
			return false;
		if (at == py->type_type)
			return true;
	}
	return false;
}

static bool is_printable(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return false;
	return true;
}

static bool read_fields(struct cpython *py, uint64_t address, struct py_type *type, char name[256])
{
	const struct py_offsets *o = &py->o;
	uint8_t scratch[432];
	const uint8_t *bytes;
	size_t need = (size_t)o->tp_weaklistoffset + 8, got;
	struct source *source = py->target->source;

	if ((size_t)o->tp_dictoffset + 8 > need)
		need = (size_t)o->tp_dictoffset + 8;
	if (need > sizeof(scratch) || !(bytes = source_get(source, address, need, scratch)))
		return false;
	*type = (struct py_type){
		.address = address,
		.flags = word_at(bytes, (size_t)o->tp_flags),
		.basicsize = (int64_t)word_at(bytes, (size_t)o->tp_basicsize),
		.itemsize = (int64_t)word_at(bytes, (size_t)o->tp_itemsize),
		.dictoffset = (int64_t)word_at(bytes, (size_t)o->tp_dictoffset),
		.weaklistoffset = (int64_t)word_at(bytes, (size_t)o->tp_weaklistoffset),
	};
	/* Not all are ready: array.array of 2.7 never is. */
	if (type->basicsize < (o->ob_type + 8) || type->basicsize > (1 << 24) ||
	    type->itemsize < 0 || type->itemsize > (1 << 16))
		return false;
	type->heap = type->flags & TYPE_HEAP;
	type->presize = (uint8_t)((type->flags & TYPE_GC ? o->gc_head : 0) + (type->flags & o->managed_flags ? 16 : 0));
	/* Longer names are cut. */
	got = memory_read(&source->memory, word_at(bytes, (size_t)o->tp_name), name, 255);
	name[got] = '\0';
	return got && (type->heap || (name[0] && is_printable(name))); /* a class can be called anything */
}

/* Generators end in a frame whose size is the code's to say: from 3.11 on they have items, but no ob_size. */
static bool has_ob_size(struct cpython *py, const char *name)
{
	static const char *const frames[] = { "generator", "coroutine", "async_generator" };

	for (size_t i = 0; i < sizeof(frames) / sizeof(*frames); i++)
		if (strcmp(frames[i], name) == 0)
			return layout_offset(&py->layout, "PyGenObject", "gi_iframe") < 0;
	return true;
}

/* A class made by Python code, or by PyType_FromSpec: module and qualified name. */
static void name_heap_type(struct cpython *py, struct py_type *type, const char *tp_name)
{
	struct source *source = py->target->source;
	char qualname[256], module[256];
	uint64_t name_at = 0, dict = 0, module_at;
	int field = py->o.ht_qualname >= 0 ? py->o.ht_qualname : py->o.ht_name;

	if (!source_u64(source, type->address + (uint64_t)field, &name_at) ||
	    !py_string(py, name_at, qualname, sizeof(qualname)) || !qualname[0])
		strcpy(qualname, tp_name);
	source_u64(source, type->address + (uint64_t)py->o.tp_dict, &dict);
	module_at = dict_lookup(py, dict, "__module__");
	if (!module_at || !py_string(py, module_at, module, sizeof(module)))
		module[0] = '\0';
	type->short_name = strings_add(source->strings, qualname);
	if (!module[0] && strchr(tp_name, '.'))
		type->name = strings_add(source->strings, tp_name);
	else if (!module[0] || strcmp(module, "builtins") == 0 || strcmp(module, "__builtin__") == 0)
		type->name = type->short_name;
	else
		type->name = strings_format(source->strings, "%s.%s", module, qualname);
}

static void name_type(struct cpython *py, struct py_type *type, const char *tp_name)
{
	struct source *source = py->target->source;
	const char *dot = strrchr(tp_name, '.');

	type->name = type->short_name = "?"; /* asking for its own name may come back here */
	/* A class's name can be an instance of another class, whose name can be one of a third: only so deep. */
	if (type->heap && py->naming < MOST_NESTED) {
		py->naming++;
		name_heap_type(py, type, tp_name);
		py->naming--;
	} else {
		type->name = strings_add(source->strings, tp_name);
		type->short_name = strings_add(source->strings, dot && dot[1] ? dot + 1 : tp_name);
	}
	if (!type->name || !type->short_name)
		type->name = type->short_name = "?";
}

static int remember(struct cpython *py, uint64_t address, uint64_t value)
{
	size_t slot = (address >> 4 ^ address >> 14) & 1023;

	if (value && !hashmap_put(&py->type_index, address, value))
		py->target->ledger->no_memory = true;
	py->recent[slot].address = address;
	py->recent[slot].index = (uint32_t)value;
	return (int)value - 1;
}

int types_slow(struct cpython *py, uint64_t address)
{
	const uint64_t *known = hashmap_get(&py->type_index, address);
	struct py_type type;
	char name[256];
	size_t index;

	if (known)
		return remember(py, address, *known);
	if (address < 4096 || address % 8 || address >> 56 || !reaches_type(py, address) ||
	    !read_fields(py, address, &type, name) || py->types.len > (1u << 24))
		return remember(py, address, 0);
	if (type.itemsize && !has_ob_size(py, name))
		type.itemsize = 0;
	type.name = type.short_name = "?";
	index = py->types.len;
	if (!vec_push(&py->types, type))
		return remember(py, address, 0);
	remember(py, address, index + 1);
	name_type(py, &type, name);
	/* Names may have brought other types, and moved the array. */
	py->types.items[index].name = type.name;
	py->types.items[index].short_name = type.short_name;
	return (int)index;
}

/* Not when the type is met: a chain of bases would be a chain of calls. */
int types_base(struct cpython *py, int type)
{
	uint64_t address;
	int base = -1;

	if (type < 0)
		return -1;
	if (py->types.items[type].base_known)
		return py->types.items[type].base;
	if (source_u64(py->target->source, py->types.items[type].address + (uint64_t)py->o.tp_base, &address) && address)
		base = types_at(py, address);
	py->types.items[type].base = base; /* the array may have moved */
	py->types.items[type].base_known = true;
	return base;
}

bool types_is(struct cpython *py, int type, const char *name)
{
	for (int depth = 0; depth < MOST_BASES && type >= 0; depth++, type = types_base(py, type))
		if (strcmp(py->types.items[type].name, name) == 0)
			return true;
	return false;
}
