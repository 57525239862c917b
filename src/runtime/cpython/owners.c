/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each type of object owns beyond its own block. One table: a type's name (its own or a base's), and a
 * function. Offsets come from the layout table by name; a field that this version lacks is passed over.
 */
#include <inttypes.h>
#include <string.h>

#include "runtime/cpython/instances.h"

#define MOST_LINKS (UINT64_C(1) << 32) /* of a chain in the target; each link is another block of it */

/* A field's offset, or -1. Looked up once: structure and name are literals, so their addresses are the key. */
static int field_offset(struct cpython *py, const char *structure, const char *name)
{
	uint64_t key = (uintptr_t)structure * 31 + (uintptr_t)name;
	const uint64_t *known = hashmap_get(&py->fields, key);
	int offset = known ? (int)(int64_t)*known : layout_offset(&py->layout, structure, name);

	if (!known && !hashmap_put(&py->fields, key, (uint64_t)(int64_t)offset))
		py->target->ledger->no_memory = true;
	return offset;
}

static bool field(struct cpython *py, const struct py_object *object, const char *structure, const char *name,
		  uint64_t *ret)
{
	int offset = field_offset(py, structure, name);

	return offset >= 0 && source_u64(py->target->source, object->address + (uint64_t)offset, ret);
}

/* Names the block that a pointer field holds. */
static bool own(struct cpython *py, const struct py_object *object, const char *structure, const char *name,
		const char *kind, const char *detail)
{
	uint64_t pointer;

	return field(py, object, structure, name, &pointer) && claim(py, pointer, "cpython", kind, detail, true);
}

static const char *detail_of(struct cpython *py, const struct block *block)
{
	return ledger_category_of(py->target->ledger, block->category)->detail;
}

/* ---- containers --------------------------------------------------------------------- */

static void visit_dict(struct cpython *py, const struct py_object *object, const struct block *block)
{
	const char *detail = detail_of(py, block);
	struct py_dict dict;
	uint64_t values, size;
	uint8_t prefix;

	if (!dict_open(py, object->address, &dict))
		return;
	if (dict.keys)
		claim(py, dict.keys, "cpython", "dict keys", detail, true);
	if (!dict.values)
		return;
	if (py->o.values_header > 0) { /* 3.13: a block of its own, or inside of the instance */
		claim(py, dict.values - (uint64_t)py->o.values_header, "cpython", "dict values", detail, true);
		return;
	}
	values = dict.values;
	size = values - 1;
	if (!claim(py, values, "cpython", "dict values", detail, true) && py->o.dk_log2_size >= 0 &&
	    source_read(py->target->source, size, &prefix, 1)) /* 3.11, 3.12: a prefix as long as its last byte says */
		claim_inside(py, values, prefix, "dict values", detail);
}

static void visit_list(struct cpython *py, const struct py_object *object, const struct block *block)
{
	uint64_t items;

	(void)block;
	if (source_u64(py->target->source, object->address + (uint64_t)py->o.list_items, &items))
		claim(py, items, "cpython", "list items", "", true);
}

static void visit_set(struct cpython *py, const struct py_object *object, const struct block *block)
{
	(void)block;
	own(py, object, "PySetObject", "table", "set table", "");
}

static void visit_deque(struct cpython *py, const struct py_object *object, const struct block *block)
{
	int right = field_offset(py, "BLOCK", "rightlink"), frees = field_offset(py, "dequeobject", "freeblocks");
	uint64_t at, n;

	(void)block;
	if (right < 0 || !field(py, object, "dequeobject", "leftblock", &at))
		return;
	for (uint64_t i = 0; i < MOST_LINKS && claim(py, at, "cpython", "deque block", "", true); i++)
		if (!source_u64(py->target->source, at + (uint64_t)right, &at))
			break;
	if (frees < 0 || !field(py, object, "dequeobject", "numfreeblocks", &n))
		return;
	for (uint64_t i = 0; i < n && i < 16; i++)
		if (source_u64(py->target->source, object->address + (uint64_t)frees + 8 * i, &at))
			claim(py, at, "cpython", "deque block", "spare", true);
}

/* OrderedDict: the dictionary it is, a node for each item, and an index of nodes. */
static void visit_odict(struct cpython *py, const struct py_object *object, const struct block *block)
{
	int next = field_offset(py, "_odictnode", "next");
	uint64_t node;

	visit_dict(py, object, block);
	own(py, object, "PyODictObject", "od_fast_nodes", "OrderedDict index", "");
	if (next < 0 || !field(py, object, "PyODictObject", "od_first", &node))
		return;
	for (uint64_t i = 0; i < MOST_LINKS && claim(py, node, "cpython", "OrderedDict node", "", true); i++)
		if (!source_u64(py->target->source, node + (uint64_t)next, &node))
			break;
}

/* ---- text and bytes ------------------------------------------------------------------- */

static void visit_unicode(struct cpython *py, const struct py_object *object, const struct block *block)
{
	const struct py_offsets *o = &py->o;
	struct source *source = py->target->source;
	uint64_t data = 0, utf8;
	uint32_t state;

	(void)block;
	if (o->unicode_state < 0) { /* 2.7 */
		own(py, object, "PyUnicodeObject", "str", "str data", "");
		return;
	}
	if (object->len < (size_t)o->unicode_state + 4)
		return;
	memcpy(&state, object->bytes + o->unicode_state, 4);
	if (state >> 5 & 1 && state >> 6 & 1 && field_offset(py, "PyASCIIObject", "wstr") < 0)
		return; /* compact and ASCII: all in one block */
	if (!(state >> 5 & 1) && source_u64(source, object->address + (uint64_t)o->unicode_data, &data))
		claim(py, data, "cpython", "str data", "", true);
	if (!(state >> 6 & 1 && state >> 5 & 1) &&
	    source_u64(source, object->address + (uint64_t)o->unicode_utf8, &utf8) && utf8 != data)
		claim(py, utf8, "cpython", "str data", "UTF-8 copy", true);
	own(py, object, "PyASCIIObject", "wstr", "str data", "wchar_t copy");
}

static void visit_bytearray(struct cpython *py, const struct py_object *object, const struct block *block)
{
	(void)block;
	own(py, object, "PyByteArrayObject", "ob_bytes", "bytearray data", "");
}

static void visit_array(struct cpython *py, const struct py_object *object, const struct block *block)
{
	(void)block;
	own(py, object, "arrayobject", "ob_item", "array data", "");
}

/* PyArrayObject_fields of numpy (numpy/ndarraytypes.h, 1.x and 2.x): data, nd, dimensions, strides. */
static void visit_ndarray(struct cpython *py, const struct py_object *object, const struct block *block)
{
	uint64_t words[4];

	(void)block;
	if (!source_read(py->target->source, object->address + 16, words, sizeof(words)))
		return;
	claim(py, words[0], "cpython", "ndarray data", "", true);
	claim(py, words[2], "cpython", "ndarray shape", "", true);
}

/* ---- code ------------------------------------------------------------------------------- */

static void visit_code(struct cpython *py, const struct py_object *object, const struct block *block)
{
	static const struct {
		const char *field, *detail;
	} parts[] = {
		{ "co_code", "bytecode" },	 { "co_lnotab", "line table" },	  { "co_linetable", "line table" },
		{ "co_exceptiontable", "exception table" }, { "_co_code", "bytecode" },
		{ "co_localspluskinds", "kinds of locals" },
	};
	static const char *const buffers[] = { "co_cell2arg", "co_opcache", "co_opcache_map", "co_extra", "_co_cached",
					       "co_executors", "_co_monitoring", "_co_linearray" };
	struct ledger *ledger = py->target->ledger;

	(void)block;
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		uint64_t bytes;
		struct block part;
		const struct category *c;

		if (!field(py, object, "PyCodeObject", parts[i].field, &bytes) || !block_of_object(py, bytes, &part))
			continue;
		c = ledger_category_of(ledger, part.category);
		if (strcmp(c->domain, "python") == 0 && (strcmp(c->kind, "bytes") == 0 || strcmp(c->kind, "str") == 0))
			ledger_name(ledger, &part, c->domain, c->kind, parts[i].detail);
	}
	for (size_t i = 0; i < sizeof(buffers) / sizeof(*buffers); i++)
		own(py, object, "PyCodeObject", buffers[i], "code data", buffers[i]);
}

/* ---- types --------------------------------------------------------------------------------- */

static const char *dict_detail(struct cpython *py, uint32_t index)
{
	struct py_type *type = &py->types.items[index];

	if (!type->dict_detail)
		type->dict_detail = strings_format(py->target->source->strings, "%s.__dict__", type->short_name);
	return type->dict_detail ? type->dict_detail : "";
}

static void visit_type(struct cpython *py, const struct py_object *object, const struct block *block)
{
	int self = types_at(py, object->address);
	const struct py_type *type;
	uint64_t keys;

	(void)block;
	if (self < 0)
		return;
	type = &py->types.items[self];
	if (type->heap && py->o.ht_cached_keys >= 0 &&
	    source_u64(py->target->source, object->address + (uint64_t)py->o.ht_cached_keys, &keys))
		claim(py, keys, "cpython", "dict keys", dict_detail(py, (uint32_t)self), true);
	type = &py->types.items[self];
	own(py, object, "PyHeapTypeObject", "_ht_tpname", "type data", type->name);
	own(py, object, "PyTypeObject", "tp_doc", "type data", type->name);
	own(py, object, "PyTypeObject", "tp_members", "type data", type->name);
	own(py, object, "PyTypeObject", "tp_name", "type data", type->name);
	own(py, object, "PyTypeObject", "tp_getset", "type data", type->name);
}

/* ---- dictionaries of instances ---------------------------------------------------------------- */

static void name_dict_block(struct cpython *py, uint64_t dict, const char *detail)
{
	struct ledger *ledger = py->target->ledger;
	struct block block;
	const struct category *c;
	int type;
	uint64_t type_at;

	if (dict < PAGE || dict % 8 || !block_of_object(py, dict, &block) ||
	    !source_u64(py->target->source, dict + (uint64_t)py->o.ob_type, &type_at) || (type = types_at(py, type_at)) < 0 ||
	    !(py->types.items[type].flags & TYPE_DICT))
		return;
	c = ledger_category_of(ledger, block.category);
	if (strcmp(c->domain, "python") == 0 && !c->detail[0])
		ledger_name(ledger, &block, c->domain, c->kind, detail);
}

/* The dictionary of an instance, or the block of its values. */
static void name_attributes(struct cpython *py, const struct py_object *object, const char *detail)
{
	struct py_instance instance;
	uint8_t prefix;

	instance_find(py, object, &instance);
	if (instance.dict)
		name_dict_block(py, instance.dict, detail);
	/* 3.11, 3.12: before the values is a prefix as long as its last byte says. */
	if (instance.values && !instance.inside && source_read(py->target->source, instance.values - 1, &prefix, 1))
		claim_inside(py, instance.values, prefix, "dict values", detail);
}

bool owners_has_dict(const struct cpython *py, const struct py_type *type)
{
	return type->dictoffset || type->flags & py->o.managed_dict || type->flags & TYPE_TYPE ||
	       strcmp(type->name, "instance") == 0 || strcmp(type->name, "classobj") == 0;
}

/* 2.7: instances of old-style classes are named by their class. */
static void name_old_instance(struct cpython *py, const struct py_object *object, const struct block *block)
{
	struct ledger *ledger = py->target->ledger;
	struct source *source = py->target->source;
	uint64_t class, dict, name_at, module_at;
	struct py_object of_class;
	char name[256], module[256] = "";
	const char *full, *detail;

	if (!field(py, object, "PyInstanceObject", "in_class", &class))
		return;
	of_class = (struct py_object){ .address = class };
	if (!field(py, &of_class, "PyClassObject", "cl_name", &name_at) || !py_string(py, name_at, name, sizeof(name)))
		return;
	if (field(py, &of_class, "PyClassObject", "cl_dict", &dict) && (module_at = dict_lookup(py, dict, "__module__")))
		py_string(py, module_at, module, sizeof(module));
	full = module[0] ? strings_format(source->strings, "%s.%s", module, name) : strings_add(source->strings, name);
	detail = strings_format(source->strings, "%s.__dict__", name);
	if (!full || !detail)
		return;
	ledger_name(ledger, block, "python", full, "old-style");
	if (field(py, object, "PyInstanceObject", "in_dict", &dict))
		name_dict_block(py, dict, detail);
}

static void name_old_class(struct cpython *py, const struct py_object *object)
{
	uint64_t dict, name_at;
	char name[256];
	const char *detail;

	if (!field(py, object, "PyClassObject", "cl_name", &name_at) || !py_string(py, name_at, name, sizeof(name)) ||
	    !field(py, object, "PyClassObject", "cl_dict", &dict))
		return;
	detail = strings_format(py->target->source->strings, "class %s", name);
	if (detail)
		name_dict_block(py, dict, detail);
}

static const char *module_detail(struct cpython *py, const struct py_object *object, uint64_t dict)
{
	char name[256];
	uint64_t name_at = 0;

	if (!(field(py, object, "PyModuleObject", "md_name", &name_at) && name_at))
		name_at = dict_lookup(py, dict, "__name__");
	if (!name_at || !py_string(py, name_at, name, sizeof(name)))
		return "module.__dict__";
	return strings_format(py->target->source->strings, "%s.__dict__", name);
}

void owners_name_dict(struct cpython *py, const struct py_object *object, const struct block *block)
{
	const struct py_type *type = &py->types.items[object->type];
	const char *detail;
	uint64_t dict;

	if (strcmp(type->name, "instance") == 0 && !type->heap) {
		name_old_instance(py, object, block);
		return;
	}
	if (strcmp(type->name, "classobj") == 0) {
		name_old_class(py, object);
		return;
	}
	if (type->flags & TYPE_TYPE) {
		int self = types_at(py, object->address);

		if (self >= 0 && source_u64(py->target->source, object->address + (uint64_t)py->o.tp_dict, &dict)) {
			detail = strings_format(py->target->source->strings, "class %s", py->types.items[self].short_name);
			name_dict_block(py, dict, detail ? detail : "");
		}
		return;
	}
	if (types_is(py, (int)object->type, "module")) {
		int offset = field_offset(py, "PyModuleObject", "md_dict");

		if (offset >= 0 && source_u64(py->target->source, object->address + (uint64_t)offset, &dict)) {
			detail = module_detail(py, object, dict);
			name_dict_block(py, dict, detail ? detail : "");
		}
		return;
	}
	name_attributes(py, object, dict_detail(py, object->type));
}

/* ---- the table ------------------------------------------------------------------------------------ */

static void visit_nothing(struct cpython *py, const struct py_object *object, const struct block *block)
{
	(void)py;
	(void)object;
	(void)block;
}

/* First match wins, a type's own name before its bases'. Subclasses made in Python match through their base. */
static const struct py_owner owners[] = {
	{ "collections.OrderedDict", visit_odict, false },
	{ "dict", visit_dict, false },
	{ "list", visit_list, false },
	{ "set", visit_set, false },
	{ "frozenset", visit_set, false },
	{ "str", visit_unicode, false },
	{ "unicode", visit_unicode, false },
	{ "bytearray", visit_bytearray, false },
	{ "array.array", visit_array, false },
	{ "numpy.ndarray", visit_ndarray, false },
	{ "collections.deque", visit_deque, false },
	{ "code", visit_code, false },
	{ "type", visit_type, false },
	{ "int", visit_nothing, false },
	{ "float", visit_nothing, false },
	{ "bytes", visit_nothing, false },
	{ "tuple", visit_nothing, false },
	{ "cell", visit_nothing, false },
	{ "function", visit_nothing, false },
};

static const struct py_owner generic_owner = { "object", visit_nothing, true };

const struct py_owner *owners_for(struct cpython *py, uint32_t type)
{
	int at = (int)type;

	for (int depth = 0; depth < MOST_BASES && at >= 0; depth++, at = types_base(py, at))
		for (size_t i = 0; i < sizeof(owners) / sizeof(*owners); i++)
			if (strcmp(owners[i].type, py->types.items[at].name) == 0)
				return &owners[i];
	return &generic_owner;
}
