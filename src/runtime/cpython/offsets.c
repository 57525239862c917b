/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of this CPython: facts of the table, taken only if they are true of the target. Each static type says
 * in tp_basicsize how large its objects are, which tells minor versions, builds with other object headers and
 * private patches apart; since 3.13 _Py_DebugOffsets says where fields are.
 */
#include <string.h>

#include "runtime/cpython/internal.h"

/* ---- what types say of their objects -------------------------------------- */

/* tp_basicsize of a type is the size of a struct, or the offset of its last, open-ended member. */
struct check {
	const char *type, *structure;
	const char *last;		 /* the member; NULL: the whole struct */
	uint32_t less;			 /* bytes that tp_basicsize leaves out */
	const char *needs[2];		 /* only where this field is there */
	const char *unless[2];		 /* only where this one isn't */
};

static const struct check checks[] = {
	{ .type = "type", .structure = "PyHeapTypeObject" },
	{ .type = "dict", .structure = "PyDictObject" },
	{ .type = "list", .structure = "PyListObject" },
	{ .type = "tuple", .structure = "PyTupleObject", .last = "ob_item" },
	{ .type = "set", .structure = "PySetObject" },
	{ .type = "frozenset", .structure = "PySetObject" },
	{ .type = "function", .structure = "PyFunctionObject" },
	{ .type = "float", .structure = "PyFloatObject" },
	{ .type = "cell", .structure = "PyCellObject" },
	{ .type = "bytearray", .structure = "PyByteArrayObject" },
	{ .type = "str", .structure = "PyUnicodeObject", .needs = { "PyASCIIObject", "length" } },
	{ .type = "unicode", .structure = "PyUnicodeObject" },
	{ .type = "method", .structure = "PyMethodObject" },
	{ .type = "generator", .structure = "PyGenObject", .needs = { "PyGenObject", "gi_frame" } },
	{ .type = "code", .structure = "PyCodeObject", .last = "co_code_adaptive",
	  .needs = { "PyCodeObject", "co_code_adaptive" } },
	{ .type = "code", .structure = "PyCodeObject", .unless = { "PyCodeObject", "co_code_adaptive" } },
};

#define N_CHECKS (sizeof(checks) / sizeof(*checks))
#define ENOUGH_CHECKS 8

_Static_assert(N_CHECKS == PY_BUILTINS, "a place for each check");

static bool visit_words(void *context, uint64_t address, const uint64_t *words, size_t n)
{
	struct cpython *py = context;
	struct source *source = py->target->source;
	uint64_t type, name, flags;
	char text[16];

	for (size_t i = 0; i < n; i++) {
		type = address + i * 8 - (uint64_t)py->o.ob_type;
		if (words[i] != py->type_type ||
		    !source_u64(source, type + (uint64_t)py->o.tp_flags, &flags) || !(flags & TYPE_READY) ||
		    !source_u64(source, type + (uint64_t)py->o.tp_name, &name) ||
		    !source_string(source, name, text, sizeof(text)))
			continue;
		for (size_t k = 0; k < N_CHECKS; k++)
			if (!py->builtins[k] && strcmp(text, checks[k].type) == 0)
				py->builtins[k] = type;
	}
	return true;
}

/* With copy relocations a type that the program refers to lies in the program, all else in libpython: the image
 * with most of the types is CPython's. */
static void settle_image(struct cpython *py)
{
	const struct image *images[N_CHECKS];
	size_t most = 0;

	for (size_t i = 0; i < N_CHECKS; i++)
		images[i] = py->builtins[i] ? images_at(py->target->images, py->builtins[i], NULL) : NULL;
	for (size_t i = 0; i < N_CHECKS; i++) {
		size_t same = 0;

		for (size_t k = 0; k < N_CHECKS; k++)
			same += images[i] && images[k] == images[i];
		if (same > most) {
			most = same;
			py->image = images[i];
		}
	}
}

void offsets_find_builtins(struct cpython *py)
{
	scan_writable(py->target, py->image, visit_words, py);
	scan_all_writable(py->target, visit_words, py);
	settle_image(py);
}

static bool applies(const struct layout *layout, const struct check *check)
{
	return (!check->needs[0] || layout_field(layout, check->needs[0], check->needs[1])) &&
	       (!check->unless[0] || !layout_field(layout, check->unless[0], check->unless[1]));
}

bool offsets_agree(struct cpython *py, const struct layout *layout, const char **ret_what)
{
	int tp_basicsize = layout_offset(layout, "PyTypeObject", "tp_basicsize");
	size_t agreed = 0;

	if (ret_what)
		*ret_what = NULL;
	if (tp_basicsize < 0)
		return false;
	for (size_t i = 0; i < N_CHECKS; i++) {
		int last = checks[i].last ? layout_offset(layout, checks[i].structure, checks[i].last) : 0;
		uint64_t want = checks[i].last ? (uint64_t)last : layout_size(layout, checks[i].structure);
		uint64_t got;

		if (!py->builtins[i] || !applies(layout, &checks[i]) || last < 0 || !want)
			continue;
		if (!source_u64(py->target->source, py->builtins[i] + (uint64_t)tp_basicsize, &got) || got != want) {
			if (ret_what)
				*ret_what = checks[i].type;
			return false;
		}
		agreed++;
	}
	return agreed >= ENOUGH_CHECKS;
}

/* ---- what _Py_DebugOffsets says -------------------------------------------- */

/* A number in _Py_DebugOffsets, and the field whose offset (NULL: the struct whose size) it is. */
static const struct {
	const char *said, *structure, *field;
} said_offsets[] = {
	{ "pyobject.ob_type", "PyObject", "ob_type" },
	{ "pyobject.size", "PyObject", NULL },
	{ "type_object.size", "PyTypeObject", NULL },
	{ "type_object.tp_name", "PyTypeObject", "tp_name" },
	{ "type_object.tp_flags", "PyTypeObject", "tp_flags" },
	{ "tuple_object.ob_item", "PyTupleObject", "ob_item" },
	{ "tuple_object.ob_size", "PyTupleObject", "ob_size" },
	{ "list_object.ob_item", "PyListObject", "ob_item" },
	{ "dict_object.ma_keys", "PyDictObject", "ma_keys" },
	{ "dict_object.ma_values", "PyDictObject", "ma_values" },
	{ "set_object.table", "PySetObject", "table" },
	{ "set_object.mask", "PySetObject", "mask" },
	{ "long_object.lv_tag", "PyLongObject", "lv_tag" },
	{ "bytes_object.ob_sval", "PyBytesObject", "ob_sval" },
	{ "unicode_object.length", "PyASCIIObject", "length" },
	{ "unicode_object.asciiobject_size", "PyASCIIObject", NULL },
	{ "code_object.co_code_adaptive", "PyCodeObject", "co_code_adaptive" },
	{ "interpreter_frame.localsplus", "_PyInterpreterFrame", "localsplus" },
};

bool debug_offset(struct cpython *py, const char *name, uint64_t *ret)
{
	int at = layout_offset(&py->layout, "_Py_DebugOffsets", name);

	return py->debug_offsets && at >= 0 &&
	       source_u64(py->target->source, py->debug_offsets + (uint64_t)at, ret);
}

static bool debug_offsets_agree(struct cpython *py, const char **ret_what)
{
	for (size_t i = 0; i < sizeof(said_offsets) / sizeof(*said_offsets); i++) {
		const char *structure = said_offsets[i].structure, *field = said_offsets[i].field;
		int at = field ? layout_offset(&py->layout, structure, field) : 0;
		uint64_t want = field ? (uint64_t)at : layout_size(&py->layout, structure), got;

		if (at < 0 || !want || !debug_offset(py, said_offsets[i].said, &got))
			continue;
		if (got != want) {
			*ret_what = said_offsets[i].said;
			return false;
		}
	}
	return true;
}

/* ---- what is asked for often ------------------------------------------------- */

static int constant(const struct layout *layout, const char *name)
{
	const struct layout_fact *fact = layout_field(layout, "const", name);

	return fact ? (int)fact->size : 0;
}

static void resolve_types(const struct layout *l, struct py_offsets *o)
{
	o->ob_refcnt = layout_offset(l, "PyObject", "ob_refcnt");
	o->refcount_bytes = o->ob_refcnt >= 0 ? (int)layout_field(l, "PyObject", "ob_refcnt")->size : 0;
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

/* ---- choosing ---------------------------------------------------------------- */

/* A free-threaded object is as large as one of a build with Py_TRACE_REFS, which puts two list pointers
 * before the reference count. Free-threaded builds say what they are. */
static bool is_trace_refs(struct cpython *py)
{
	struct layout layout = { 0 };
	uint64_t threaded;

	if (strcmp(py->flavour, "free-threaded") != 0)
		return false;
	while (py->debug_offsets && layout_next("cpython", &layout)) {
		int at = layout_offset(&layout, "_Py_DebugOffsets", "free_threaded");

		if (at >= 0 && source_u64(py->target->source, py->debug_offsets + (uint64_t)at, &threaded))
			return threaded == 0;
	}
	return true;
}

/* Another version's layout that is true of everything that can be checked. */
static bool borrow_layout(struct cpython *py)
{
	struct layout layout = { 0 };
	bool found = false;

	while (layout_next("cpython", &layout)) /* the table ascends: the last is the nearest */
		if (strcmp(layout.facts->flavour, py->flavour) == 0 && offsets_agree(py, &layout, NULL)) {
			py->layout = layout;
			found = true;
		}
	return found;
}

/* Pools are the same in all versions and check themselves, so where objects are not known, the table's newest do. */
static void resolve_pools(struct cpython *py)
{
	struct layout layout = { 0 };

	if (layout_find("cpython", py->series, "gil", &py->layout))
		return;
	while (layout_next("cpython", &layout))
		if (strcmp(layout.facts->flavour, "gil") == 0)
			py->layout = layout;
}

static bool resolve_objects(struct cpython *py)
{
	struct source *source = py->target->source;
	const char *version = py->version[0] ? py->version : "of unknown version", *what = NULL;

	if (is_trace_refs(py)) {
		py->flavour = "trace-refs";
		source_warn(source, "CPython %s is a debug build with Py_TRACE_REFS, whose objects are laid out "
			    "differently: they are not named", version);
		return false;
	}
	if (!layout_find("cpython", py->series, py->flavour, &py->layout)) {
		if (!borrow_layout(py)) {
			source_warn(source, "CPython %s (%s) is not known, and no known layout is true of it: its "
				    "objects are not named", version, py->flavour);
			return false;
		}
		source_warn(source, "CPython %s (%s) is not known; its types agree with the layout of %s, which is used",
			    version, py->flavour, py->layout.facts->version);
	} else if (!offsets_agree(py, &py->layout, &what)) {
		source_warn(source, "CPython %s (%s) is not laid out as it should be%s%s%s: its objects are not named",
			    version, py->flavour, what ? " (objects of type '" : " (too few of its types were found",
			    what ? what : "", what ? "' have another size)" : ")");
		return false;
	}
	if (!debug_offsets_agree(py, &what)) {
		source_warn(source, "CPython %s (%s) says that %s is not where it should be: its objects are not named",
			    version, py->flavour, what);
		return false;
	}
	resolve_types(&py->layout, &py->o);
	resolve_values(&py->layout, &py->o);
	if (py->o.ob_refcnt < 0)
		source_warn(source, "CPython %s is a free-threaded build, whose objects count references in another way: "
			    "they are not named", version);
	return py->o.ob_refcnt >= 0;
}

void offsets_resolve(struct cpython *py)
{
	py->known = resolve_objects(py);
	if (!py->known)
		resolve_pools(py);
}
