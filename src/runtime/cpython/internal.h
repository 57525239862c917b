/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this folder share. The way of a census: find.c finds the live copy of CPython and its
 * version, offsets.c resolves and checks its layout, pymalloc.c finds and carves the arenas, types.c knows
 * which addresses are types, objects.c names the objects, buffers*.c what they own, show.c describes one.
 */
#ifndef FREEHOLD_RUNTIME_CPYTHON_INTERNAL_H
#define FREEHOLD_RUNTIME_CPYTHON_INTERNAL_H

#include "base/hashmap.h"
#include "layout/layout.h"
#include "runtime/cpython/cpython.h"

/* Offsets that the hot loops need, resolved once; -1 where this version has no such field.
 * Others are asked for by name with layout_offset(). */
struct py_offsets {
	int ob_refcnt, ob_type, ob_size;
	int tp_name, tp_basicsize, tp_itemsize, tp_flags, tp_base, tp_dict, tp_dictoffset, tp_weaklistoffset;
	int ht_name, ht_qualname, ht_module, ht_cached_keys;
	int gc_head; /* bytes before a collected object: 32, 16 or 0 */
};

struct py_arena {
	uint64_t start, end;
};

/* How an object's bytes are laid out and what it may own. From the flags of builtin base types
 * (Py_TPFLAGS_*_SUBCLASS) and from names of static types. */
struct py_type {
	uint64_t address;
	const char *name;	/* "tuple", "collections.deque", "demo.Package": the kind of its objects */
	const char *short_name; /* without module: for "Package.__dict__" */
	uint64_t flags;
	int64_t basicsize, itemsize, dictoffset, weaklistoffset;
	uint32_t base;	  /* index of tp_base; UINT32_MAX: none */
	uint32_t owns;	  /* an index into the table of owners in buffers.c, plus one; 0: nothing special */
	uint8_t presize;  /* bytes of GC head and managed-dict words before the object */
	bool heap;	  /* Py_TPFLAGS_HEAPTYPE */
	category_id kinds[8]; /* cache of objects.c: category by head of the block */
};

/* One live copy of CPython in the target. */
struct cpython {
	struct target *target;
	const struct image *image; /* that holds its static types */
	char version[32];	   /* "3.11.2" */
	char series[16];	   /* "3.11" */
	char flavour[16];	   /* "gil", "free-threaded" */
	struct layout layout;
	struct py_offsets o;
	uint64_t type_type; /* &PyType_Type */
	VEC(struct py_arena) arenas; /* of pymalloc, ascending */
	uint32_t debug_head; /* bytes that PYTHONMALLOC=debug puts before an object; 0 else */
	struct hashmap type_index; /* address -> index + 1; 0: looked at, no type */
	VEC(struct py_type) types;
};

/* find.c: fills image, version, series, flavour, type_type; false when there is no CPython. */
struct fh_error *find_cpython(struct target *target, struct cpython *py, bool *ret_found);
/* offsets.c: layout and o, from the table (or from what the target says of itself), checked against the
 * target's own types (tp_basicsize of dict, tuple, list, type ...). False: unknown, with a warning. */
bool offsets_resolve(struct cpython *py);
/* pymalloc.c: fills arenas and carves them. Live blocks are `pymalloc`, kind "N bytes", unknown. */
struct fh_error *pymalloc_carve(struct cpython *py);

/* types.c: the type at an address, or NULL when there is none; remembered either way. Pointers are good
 * until the next call. */
const struct py_type *types_at(struct cpython *py, uint64_t address);
/* objects.c: names every block that is an object. */
struct fh_error *objects_classify(struct cpython *py);
/* buffers.c: names what objects own. */
struct fh_error *buffers_classify(struct cpython *py);
/* show.c */
void show_object(struct cpython *py, const struct block *block, runtime_field_visitor *visit, void *context);

#endif
