/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolving a layout, and checking it on the target: every static type says how large its objects are, and
 * that must be what the table says. A layout that fails is refused. When the version is not known, or not in
 * the table, a layout is used only if all sizes agree, and that is said.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/cpython/internal.h"

/* Types whose tp_basicsize is the size of a struct, or the offset of its variable part. */
static const struct check {
	const char *type, *structure, *field; /* field NULL: sizeof */
} checks[] = {
	{ "type", "PyHeapTypeObject", NULL },  { "dict", "PyDictObject", NULL },
	{ "list", "PyListObject", NULL },      { "tuple", "PyTupleObject", "ob_item" },
	{ "set", "PySetObject", NULL },	       { "function", "PyFunctionObject", NULL },
	{ "method", "PyMethodObject", NULL },  { "bytearray", "PyByteArrayObject", NULL },
	{ "float", "PyFloatObject", NULL },    { "cell", "PyCellObject", NULL },
	{ "memoryview", "PyMemoryViewObject", "ob_array" },
	{ "PyCapsule", "PyCapsule", NULL },
};

#define N_CHECKS (sizeof(checks) / sizeof(*checks))

/* What the target's own types say; 0: not found. */
struct sizes {
	struct cpython *py;
	uint32_t ob_type, tp_name;
	int64_t basicsize[N_CHECKS];
};

static bool note_size(void *context, uint64_t address, const uint64_t *words, size_t n)
{
	struct sizes *sizes = context;
	struct source *source = sizes->py->target->source;

	for (size_t i = 0; i < n; i++) {
		uint64_t object = address + 8 * i - sizes->ob_type, name_at, basicsize;
		char name[16];

		if (words[i] != sizes->py->type_type || !source_u64(source, object + sizes->tp_name, &name_at) ||
		    !source_u64(source, object + sizes->tp_name + 8, &basicsize) ||
		    !source_string(source, name_at, name, sizeof(name)))
			continue;
		for (size_t k = 0; k < N_CHECKS; k++)
			if (strcmp(checks[k].type, name) == 0)
				sizes->basicsize[k] = (int64_t)basicsize;
	}
	return true;
}

/* How many checks agree; -1 when one does not. *ret_wrong names it. */
static int agreement(const struct layout *layout, const struct sizes *sizes, const char **ret_wrong)
{
	int agreed = 0;

	for (size_t i = 0; i < N_CHECKS; i++) {
		const struct check *c = &checks[i];
		int want = c->field ? layout_offset(layout, c->structure, c->field) :
				      (int)layout_size(layout, c->structure);

		if (want <= 0 || !sizes->basicsize[i])
			continue;
		if (want != sizes->basicsize[i]) {
			*ret_wrong = c->type;
			return -1;
		}
		agreed++;
	}
	return agreed;
}

static bool choose_layout(struct cpython *py)
{
	bool free_threaded = strcmp(py->flavour, "free-threaded") == 0;
	struct sizes sizes = { .py = py, .ob_type = free_threaded ? 24 : 8, .tp_name = free_threaded ? 40 : 24 };
	struct source *source = py->target->source;
	const char *wrong = "";
	struct layout layout;

	scan_writable(py->target, py->image, note_size, &sizes);
	if (layout_find("cpython", py->series, py->flavour, &layout)) {
		if (agreement(&layout, &sizes, &wrong) >= 5) {
			py->layout = layout;
			return true;
		}
		source_warn(source, "cpython %s: its '%s' objects are not laid out as in any known build of %s "
			    "(a debug build?); its memory is shown as malloc's", py->version, wrong, py->series);
		return false;
	}
	for (size_t i = 0; layout_nth("cpython", i, &layout); i++)
		if (strcmp(layout.facts->flavour, py->flavour) == 0 && agreement(&layout, &sizes, &wrong) >= 8) {
			source_warn(source, "cpython %s: this version is not known; its types have the sizes of %s, "
				    "which is used", py->version[0] ? py->version : "(unknown)", layout.facts->version);
			py->layout = layout;
			return true;
		}
	source_warn(source, "cpython %s (%s): this version is not known; its memory is shown as malloc's",
		    py->version[0] ? py->version : "(unknown)", py->flavour);
	return false;
}

static int constant(const struct layout *layout, const char *name)
{
	const struct layout_fact *fact = layout_field(layout, "const", name);

	return fact ? (int)fact->size : 0;
}

static void resolve_types(const struct layout *l, struct py_offsets *o)
{
	o->ob_refcnt = layout_offset(l, "PyObject", "ob_refcnt");
	o->ob_type = layout_offset(l, "PyObject", "ob_type");
	o->ob_size = layout_offset(l, "PyVarObject", "ob_size");
	o->tp_name = layout_offset(l, "PyTypeObject", "tp_name");
	o->tp_basicsize = layout_offset(l, "PyTypeObject", "tp_basicsize");
	o->tp_itemsize = layout_offset(l, "PyTypeObject", "tp_itemsize");
	o->tp_flags = layout_offset(l, "PyTypeObject", "tp_flags");
	o->tp_base = layout_offset(l, "PyTypeObject", "tp_base");
	o->tp_dict = layout_offset(l, "PyTypeObject", "tp_dict");
	o->tp_dictoffset = layout_offset(l, "PyTypeObject", "tp_dictoffset");
	o->tp_weaklistoffset = layout_offset(l, "PyTypeObject", "tp_weaklistoffset");
	o->ht_name = layout_offset(l, "PyHeapTypeObject", "ht_name");
	o->ht_qualname = layout_offset(l, "PyHeapTypeObject", "ht_qualname");
	o->ht_cached_keys = layout_offset(l, "PyHeapTypeObject", "ht_cached_keys");
	o->heap_type_size = (int)layout_size(l, "PyHeapTypeObject");
	o->gc_head = constant(l, "GC_HEAD_SIZE");
	o->pool_size = constant(l, "POOL_SIZE");
	o->arena_size = constant(l, "ARENA_SIZE");
	o->alignment = constant(l, "ALIGNMENT");
	o->managed_dict = (uint64_t)(unsigned)constant(l, "TPFLAGS_MANAGED_DICT");
	o->managed_flags = o->managed_dict | (uint64_t)(unsigned)constant(l, "TPFLAGS_MANAGED_WEAKREF");
	o->inline_values = (uint64_t)(unsigned)constant(l, "TPFLAGS_INLINE_VALUES");
}

static void resolve_values(const struct layout *l, struct py_offsets *o)
{
	o->ma_keys = layout_offset(l, "PyDictObject", "ma_keys");
	o->ma_values = layout_offset(l, "PyDictObject", "ma_values");
	o->ma_used = layout_offset(l, "PyDictObject", "ma_used");
	o->ma_mask = layout_offset(l, "PyDictObject", "ma_mask");
	o->ma_table = layout_offset(l, "PyDictObject", "ma_table");
	o->ma_smalltable = layout_offset(l, "PyDictObject", "ma_smalltable");
	o->dict_size = (int)layout_size(l, "PyDictObject");
	o->dk_size = layout_offset(l, "PyDictKeysObject", "dk_size");
	o->dk_log2_size = layout_offset(l, "PyDictKeysObject", "dk_log2_size");
	o->dk_log2_index_bytes = layout_offset(l, "PyDictKeysObject", "dk_log2_index_bytes");
	o->dk_kind = layout_offset(l, "PyDictKeysObject", "dk_kind");
	o->dk_nentries = layout_offset(l, "PyDictKeysObject", "dk_nentries");
	o->dk_refcnt = layout_offset(l, "PyDictKeysObject", "dk_refcnt");
	o->keys_header = layout_offset(l, "PyDictKeysObject", "dk_indices");
	o->values_header = layout_offset(l, "PyDictValues", "embedded") >= 0 ?
				   layout_offset(l, "PyDictValues", "values") : -1;
	o->unicode_length = layout_offset(l, "PyASCIIObject", "length");
	o->unicode_state = layout_offset(l, "PyASCIIObject", "state");
	if (o->unicode_state < 0)
		o->unicode_state = layout_offset(l, "PyASCIIObject", "state.interned");
	o->ascii_size = (int)layout_size(l, "PyASCIIObject");
	o->compact_size = (int)layout_size(l, "PyCompactUnicodeObject");
	o->unicode_utf8 = layout_offset(l, "PyCompactUnicodeObject", "utf8");
	o->unicode_data = layout_offset(l, "PyUnicodeObject", "data.any");
	if (o->unicode_data < 0)
		o->unicode_data = layout_offset(l, "PyUnicodeObject", "data");
	o->tuple_items = layout_offset(l, "PyTupleObject", "ob_item");
	o->list_items = layout_offset(l, "PyListObject", "ob_item");
	o->bytes_data = layout_offset(l, "PyBytesObject", "ob_sval");
	o->long_tag = layout_offset(l, "PyLongObject", "lv_tag");
}

bool offsets_resolve(struct cpython *py)
{
	if (!choose_layout(py))
		return false;
	resolve_types(&py->layout, &py->o);
	resolve_values(&py->layout, &py->o);
	if (!py->series[0]) {
		snprintf(py->series, sizeof(py->series), "%s", py->layout.facts->version);
		snprintf(py->version, sizeof(py->version), "%s", py->series);
	}
	return true;
}
