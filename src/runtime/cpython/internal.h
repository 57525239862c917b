/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this folder share. The way of a census: find.c finds the live copies of CPython, version.c
 * asks which version it is, offsets.c resolves and checks its layout; frame_stacks.c, arena_tables.c and arenas.c
 * find what it got from the operating system, and pools.c divides that; types.c knows which addresses are types,
 * objects.c names the objects, buffers.c what they own, owners.c how each type owns it, instances.c finds attributes,
 * show.c describes one object.
 */
#ifndef FREEHOLD_RUNTIME_CPYTHON_INTERNAL_H
#define FREEHOLD_RUNTIME_CPYTHON_INTERNAL_H

#include "base/hashmap.h"
#include "layout/layout.h"
#include "runtime/cpython/cpython.h"

/* Offsets and sizes that are used often, resolved once; -1 (or 0 for sizes) where this version has no such
 * thing. Others are asked for by name with layout_offset(). */
struct py_offsets {
	int ob_refcnt, ob_type, ob_size, refcount_bytes;
	int tp_name, tp_basicsize, tp_itemsize, tp_flags, tp_base, tp_dict, tp_dictoffset, tp_weaklistoffset;
	int ht_name, ht_qualname, ht_cached_keys, heap_type_size;
	int ma_keys, ma_values, ma_used, ma_mask, ma_table, ma_smalltable, dict_size;
	int dk_size, dk_log2_size, dk_log2_index_bytes, dk_kind, dk_nentries, dk_refcnt, keys_header;
	int values_header; /* of a PyDictValues block with a header of its own (3.13); -1: none */
	int unicode_length, unicode_state, ascii_size, compact_size, unicode_utf8, unicode_data;
	int tuple_items, list_items, bytes_data, long_tag;
	int gc_head; /* bytes before a collected object: 32, 16 or 0 */
	uint64_t managed_flags; /* tp_flags by which two words precede the GC head; 0: none */
	uint64_t managed_dict, inline_values;
	int pool_size, arena_size, alignment;
};

/* Bits of tp_flags that are the same from 2.7 to 3.15 (Include/object.h). */
#define TYPE_HEAP (UINT64_C(1) << 9)
#define TYPE_READY (UINT64_C(1) << 12)
#define TYPE_GC (UINT64_C(1) << 14)
#define TYPE_INT (UINT64_C(1) << 23) /* 2.7 only */
#define TYPE_LONG (UINT64_C(1) << 24)
#define TYPE_LIST (UINT64_C(1) << 25)
#define TYPE_TUPLE (UINT64_C(1) << 26)
#define TYPE_BYTES (UINT64_C(1) << 27)
#define TYPE_UNICODE (UINT64_C(1) << 28)
#define TYPE_DICT (UINT64_C(1) << 29)
#define TYPE_EXCEPTION (UINT64_C(1) << 30)
#define TYPE_TYPE (UINT64_C(1) << 31)

#define CPYTHON_MOST_COPIES 4
#define PY_BUILTINS 16

struct py_arena {
	uint64_t start, end;	      /* as it was allocated */
	uint64_t first_pool, reached; /* pools from `reached` on were never used */
	uint32_t index;		      /* in the array of arena_objects */
	uint32_t free_pools, total_pools;
	uint32_t pool_size, alignment;
};

struct py_owner;

/* How an object's bytes are laid out and what it may own. */
struct py_type {
	uint64_t address;
	const char *name;	/* "tuple", "collections.deque", "demo.Package": the kind of its objects */
	const char *short_name; /* without module: for "Package.__dict__" */
	uint64_t flags;
	int64_t basicsize, itemsize, dictoffset, weaklistoffset;
	int base;		      /* see types_base() */
	const struct py_owner *owner; /* knows what its objects own; NULL: nothing special */
	uint8_t presize; /* bytes of GC head and managed words before the object */
	bool heap;
	bool owner_known, has_dict, base_known;
	bool shares_name; /* with another type: a category doesn't tell which of them an object has */
	category_id kind[3];   /* of its objects by head 0, 16, 32; 0: not asked for yet */
	category_id freed[3];  /* those in free lists */
	const char *dict_detail; /* "Package.__dict__"; NULL: not made yet */
};

/* One live copy of CPython in the target. */
struct cpython {
	struct target *target;
	const struct image *image; /* that holds its static types */
	char version[32];	   /* "3.11.2", or the series when only that is known */
	char series[16];	   /* "3.11" */
	const char *flavour;	   /* "gil", "free-threaded", "trace-refs" */
	bool alone;		   /* no other copy in the target: what is found anywhere is its own */
	bool known;		   /* layout and o are those of its objects; else `layout` is good for pools only */
	struct layout layout;
	struct py_offsets o;
	uint64_t type_type;		/* &PyType_Type */
	uint64_t builtins[PY_BUILTINS]; /* the types that a layout is checked on; 0: not found */
	uint64_t debug_offsets;		/* &_PyRuntime since 3.13; 0: none */
	VEC(struct py_arena) arenas; /* of pymalloc, ascending */
	uint8_t unicode_unit; /* 2.7: bytes of a code unit; 0: not known */
	bool unicode_asked;
	uint32_t debug_head; /* bytes that PYTHONMALLOC=debug puts before an object; 0 else */
	struct hashmap type_index; /* address -> index + 1; 0: looked at, no type */
	VEC(struct py_type) types;
	unsigned naming; /* types that are being named right now, see types.c */
	struct {
		uint64_t address;
		uint32_t index;
	} recent[1024]; /* in front of type_index */
	uint8_t scratch[96]; /* the head of any object, with all that may be before it */
	struct hashmap fields; /* see field_offset() in owners.c */
	VEC(uint32_t) type_of_category; /* category -> index of type + 1, see buffers.c */
};

/* find.c: appends every initialised copy of CPython, with image, flavour and type_type filled. */
typedef VEC(struct cpython *) cpython_list;
struct fh_error *find_cpythons(struct target *target, cpython_list *list);
/* version.c: fills version, series and debug_offsets; leaves them empty when the target doesn't say. */
void version_find(struct cpython *py);
/* version.c: warns where no copy was found, and yet one set up its text of the version. */
void version_warn_of_lost(struct target *target);
/* offsets.c: finds `builtins`; before version_find(). */
void offsets_find_builtins(struct cpython *py);
/* Whether a layout is that of the target's own types (tp_basicsize of dict, tuple, list, type ...). If not,
 * *ret_what, if not NULL, is the type that says so, or NULL when there were too few. */
bool offsets_agree(struct cpython *py, const struct layout *layout, const char **ret_what);
/* Fills layout and o from the table and sets `known`; that stays false, with a warning, if nothing agrees. */
void offsets_resolve(struct cpython *py);
/* A number that _Py_DebugOffsets says, by its name there ("thread_state.next"); false: it doesn't. */
bool debug_offset(struct cpython *py, const char *name, uint64_t *ret);

/* scan.c: shows every word of a range, of the writable data of an image, or of all images. What can't be read is
 * left out. The visitor returns false to end it, which scan_range() returns. */
typedef bool scan_words(void *context, uint64_t address, const uint64_t *words, size_t n);
bool scan_range(struct target *target, uint64_t start, uint64_t end, scan_words *visit, void *context);
void scan_writable(struct target *target, const struct image *image, scan_words *visit, void *context);
void scan_all_writable(struct target *target, scan_words *visit, void *context);

/* pools.c: finds the arenas and carves them. Live blocks are `uncategorized`, kind "N bytes", unknown. */
struct fh_error *pools_carve(struct cpython *py);
/* mimalloc.c: the same for what 3.13 and later can use in its place. */
struct fh_error *mimalloc_carve(struct cpython *py);
/* frame_stacks.c: finds the states of threads and carves their stacks of frames. */
void frame_stacks_carve(struct cpython *py);

/* number_blocks.c: int and float objects of 2.7, which share blocks of malloc's. */
struct fh_error *number_blocks_carve(struct cpython *py);

/* types.c: index in types of the type at an address, or -1; remembered either way. */
int types_slow(struct cpython *py, uint64_t address);
static inline int types_at(struct cpython *py, uint64_t address)
{
	size_t slot = (address >> 4 ^ address >> 14) & 1023;

	if (py->recent[slot].address == address)
		return (int)py->recent[slot].index - 1;
	return types_slow(py, address);
}

/* The index of a type's base; -1: none. It may bring a type into the array, which then moves. */
#define MOST_BASES 32
int types_base(struct cpython *py, int type);
/* Whether a type or one of its bases has the name. */
bool types_is(struct cpython *py, int type, const char *name);

/* objects.c: the object in a block: its address and type, from its contents; false when it is none. */
struct py_object {
	uint64_t address;
	uint32_t type;
	int64_t refcount;
	const uint8_t *bytes; /* of the object, `len` of them at hand; good until the next read */
	size_t len;
};
bool objects_at(struct cpython *py, uint64_t data, uint64_t end, struct py_object *ret);
/* One that begins at an address, outside of the heap: the program has those that are never freed. */
bool objects_static(struct cpython *py, uint64_t address, uint64_t end, struct py_object *ret);
/* Names every block that is an object. */
struct fh_error *objects_classify(struct cpython *py);

/* buffers.c: names what objects own. */
struct fh_error *buffers_classify(struct cpython *py);

/* claims.c: gives the block whose data begins at an address a name, on behalf of its owner. `sure`: the owner
 * knows it to be its own, so that what looked like an object there is none. False when there is no such
 * live block, or it has a better name. */
bool claim(struct cpython *py, uint64_t data, const char *domain, const char *kind, const char *detail, bool sure);
/* The same for a pointer into a block, `before` bytes from its data's start. */
bool claim_inside(struct cpython *py, uint64_t pointer, uint64_t before, const char *kind, const char *detail);
/* The block of an object, by the object's address; false when it is in none (a static object). */
bool block_of_object(struct cpython *py, uint64_t address, struct block *ret);

/* owners.c: how the objects of a type own memory, by the type's name or the flags that its base gave it. */
struct py_owner {
	const char *type;
	void (*visit)(struct cpython *py, const struct py_object *object, const struct block *block);
	bool generic; /* any word of the object may also point to memory of its own */
};
const struct py_owner *owners_for(struct cpython *py, uint32_t type);
/* Names the dictionary of an instance, module or type: before the dictionaries name their tables. */
void owners_name_dict(struct cpython *py, const struct py_object *object, const struct block *block);
bool owners_has_dict(const struct cpython *py, const struct py_type *type);

/* show.c: of a static object only if the address is its own. */
void show_object(struct cpython *py, const struct block *block, uint64_t address, runtime_field_visitor *visit,
		 void *context);

/* A word of bytes at hand. */
static inline uint64_t word_at(const uint8_t *bytes, size_t offset)
{
	uint64_t word;

	__builtin_memcpy(&word, bytes + offset, 8);
	return word;
}

#endif
