/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "runtime/cpython/show.h"

#define MOST_LOOKED_AT 65536 /* entries of one dictionary */
#define MOST_MEMBERS 1024    /* of one type */
#define NAME_CHARACTERS 20   /* of one that is no identifier */

/* PyMemberDef (Include/structmember.h, from 3.12 on Include/descrobject.h): the same from 2.7 to 3.15. */
struct member {
	uint64_t name;
	int32_t type;
	int64_t offset;
	int32_t flags;
	uint64_t doc;
};

#define MEMBER_OBJECT 6	     /* T_OBJECT */
#define MEMBER_OBJECT_EX 16  /* T_OBJECT_EX, which __slots__ are */
#define MEMBER_RELATIVE 8    /* Py_RELATIVE_OFFSET: not an offset in the object */

static bool is_identifier(const char *text)
{
	if (!*text || (*text >= '0' && *text <= '9'))
		return false;
	for (; *text; text++)
		if (!((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
		      (*text >= '0' && *text <= '9') || *text == '_'))
			return false;
	return true;
}

/* A name that is there already is hidden by the first: a slot goes before the dictionary, as in Python. */
static void add(struct attributes *attributes, const char *name, uint64_t value)
{
	struct attribute *item = &attributes->items[attributes->n];

	for (size_t i = 0; i < attributes->n; i++)
		if (strcmp(attributes->items[i].name, name) == 0)
			return;
	snprintf(item->name, sizeof(item->name), "%s", name);
	item->value = value;
	attributes->n++;
}

static void name_key(struct cpython *py, uint64_t key, char *name, size_t size)
{
	struct words words = { 0 };
	struct py_units units;
	char text[64];

	if (py_units(py, key, &units) && units.length < sizeof(text) - 1 && py_string(py, key, text, sizeof(text)) &&
	    strlen(text) == units.length && is_identifier(text)) {
		snprintf(name, size, ".%s", text);
		return;
	}
	value_brief(py, key, NAME_CHARACTERS, &words);
	snprintf(name, size, "[%.*s]", (int)size - 3, words.bytes);
}

/* ---- slots --------------------------------------------------------------------------------- */

static void add_members(struct cpython *py, const struct py_object *object, uint64_t at, struct attributes *attributes)
{
	struct source *source = py->target->source;
	int64_t size = py->types.items[object->type].basicsize;
	struct member member;
	uint64_t value;
	char name[sizeof(attributes->items->name)] = ".";

	for (size_t i = 0; i < MOST_MEMBERS; i++, at += sizeof(member)) {
		if (!source_read(source, at, &member, sizeof(member)) || !member.name)
			return;
		if ((member.type != MEMBER_OBJECT && member.type != MEMBER_OBJECT_EX) ||
		    member.flags & MEMBER_RELATIVE ||
		    member.offset < py->o.ob_type + 8 || member.offset > size - 8 || member.offset % 8 ||
		    !source_u64(source, object->address + (uint64_t)member.offset, &value) || !value)
			continue;
		attributes->total++;
		if (attributes->n < MOST_ATTRIBUTES && source_string(source, member.name, name + 1, sizeof(name) - 1) &&
		    is_identifier(name + 1))
			add(attributes, name, value);
	}
}

void attributes_of_slots(struct cpython *py, const struct py_object *object, struct attributes *attributes)
{
	int members = layout_offset(&py->layout, "PyTypeObject", "tp_members"), type = (int)object->type;
	uint64_t at;

	for (int depth = 0; members >= 0 && depth < MOST_BASES && type >= 0; depth++, type = types_base(py, type))
		if (source_u64(py->target->source, py->types.items[type].address + (uint64_t)members, &at) && at)
			add_members(py, object, at, attributes);
}

/* ---- dictionaries and values ------------------------------------------------------------------- */

/* Returns how many items it saw. */
static uint64_t add_entries(struct cpython *py, const struct py_dict *dict, struct attributes *attributes)
{
	uint64_t seen = 0;

	for (uint64_t i = 0; i < dict->n && i < MOST_LOOKED_AT; i++) {
		char name[sizeof(attributes->items->name)];
		uint64_t key, value;

		if (!dict_entry(py, dict, i, &key, &value))
			break;
		if (!key || !value)
			continue;
		seen++;
		if (attributes->n >= MOST_ATTRIBUTES)
			continue;
		name_key(py, key, name, sizeof(name));
		add(attributes, name, value);
	}
	return seen;
}

void attributes_of_instance(struct cpython *py, uint32_t type, const struct py_instance *instance,
			    struct attributes *attributes)
{
	struct py_dict dict;
	int dict_type = instance->dict ? value_type(py, instance->dict) : -1;

	if (dict_type >= 0 && py->types.items[dict_type].flags & TYPE_DICT) {
		if (dict_open(py, instance->dict, &dict)) {
			add_entries(py, &dict, attributes);
			attributes->total += dict.used;
		}
	} else if (instance_open_values(py, type, instance, &dict)) {
		attributes->total += add_entries(py, &dict, attributes);
	}
}
