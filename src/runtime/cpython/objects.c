/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Naming objects. A live block holds one when, at the distance that its type says (GC head, managed words),
 * there is a header whose type is known, whose reference count can be, and whose size fits. Objects in free
 * lists have a count of 0 and an intact type (facts of Objects/ of 2.7 to 3.13; 3.14 links them through the
 * first word).
 */
#include <string.h>

#include "runtime/cpython/internal.h"

#define MOST_REFERENCES (INT64_C(1) << 33) /* immortal ones of 3.12 have 2^32 - 1 */

/* A compact str holds its text behind a header that is shorter than the type's basic size. */
static uint64_t unicode_bytes(const struct cpython *py, const struct py_type *type, const uint8_t *bytes, size_t len)
{
	const struct py_offsets *o = &py->o;
	uint64_t length;
	uint32_t state;

	if (o->unicode_state < 0)
		return (uint64_t)type->basicsize; /* 2.7 */
	if (len < (size_t)o->unicode_state + 4)
		return UINT64_MAX;
	memcpy(&state, bytes + o->unicode_state, 4);
	length = word_at(bytes, (size_t)o->unicode_length);
	if (!(state >> 5 & 1))
		return (uint64_t)type->basicsize;
	if (length > UINT64_C(1) << 44)
		return UINT64_MAX;
	if (state >> 6 & 1)
		return (uint64_t)o->ascii_size + length + 1;
	return (uint64_t)o->compact_size + (length + 1) * (state >> 2 & 7);
}

/* Bytes that the object needs by its own fields, or UINT64_MAX when they can't be. */
static uint64_t object_bytes(struct cpython *py, const struct py_type *type, const uint8_t *bytes, size_t len)
{
	const struct py_offsets *o = &py->o;
	int64_t n;

	if (type->flags & TYPE_UNICODE)
		return unicode_bytes(py, type, bytes, len);
	if (type->itemsize == 0)
		return (uint64_t)type->basicsize;
	if (type->flags & TYPE_LONG && o->long_tag >= 0) {
		if (len < (size_t)o->long_tag + 8)
			return UINT64_MAX;
		n = (int64_t)(word_at(bytes, (size_t)o->long_tag) >> 3);
	} else if (type->flags & TYPE_TYPE) {
		return (uint64_t)type->basicsize; /* ob_size is not about items of the variable part in all versions */
	} else {
		if (len < (size_t)o->ob_size + 8)
			return UINT64_MAX;
		n = (int64_t)word_at(bytes, (size_t)o->ob_size);
		if (n == INT64_MIN)
			return UINT64_MAX;
		if (n < 0)
			n = -n;
	}
	if (n < 0 || n > (INT64_C(1) << 44))
		return UINT64_MAX;
	return (uint64_t)type->basicsize + (uint64_t)n * (uint64_t)type->itemsize;
}

/* Objects whose count might be an address: only believed when their size is that of the block. */
static bool count_is_plausible(struct cpython *py, int64_t count, uint64_t need, uint64_t have)
{
	if (count < 0 || count > MOST_REFERENCES)
		return false;
	if (count < 65536 || (uint32_t)count >> 31) /* or immortal: 3.12 all ones, 3.14 from 2^31 on */
		return true;
	return (need + 15) / 16 == (have + 15) / 16 || !source_mapping_at(py->target->source, (uint64_t)count);
}

/* From 3.14 on the count has four bytes; the two above overflow never, but a free object has the address of the
 * next one there (Include/refcount.h; pycore_freelist.h, _PyFreeList_Push). */
static int64_t read_count(const struct py_offsets *o, const uint8_t *object)
{
	uint64_t word = word_at(object, (size_t)o->ob_refcnt);

	if (o->refcount_bytes != 4)
		return (int64_t)word;
	return word >> 32 & 0xffff ? 0 : (int64_t)(word & UINT32_MAX);
}

static bool object_here(struct cpython *py, const uint8_t *bytes, size_t len, uint64_t address, uint64_t end,
			unsigned presize, struct py_object *ret)
{
	const struct py_offsets *o = &py->o;
	uint64_t need, have = end - address;
	const struct py_type *type;
	int index = types_at(py, word_at(bytes, presize + (size_t)o->ob_type));

	if (index < 0)
		return false;
	type = &py->types.items[index];
	if (type->presize != presize)
		return false;
	*ret = (struct py_object){ .address = address + presize, .type = (uint32_t)index,
				   .refcount = read_count(o, bytes + presize),
				   .bytes = bytes + presize, .len = len - presize };
	need = object_bytes(py, type, ret->bytes, ret->len);
	if (need == UINT64_MAX || need + presize > have + 8) /* the last word of a chunk is in the next one's header */
		return false;
	return count_is_plausible(py, ret->refcount, need + presize, have);
}

bool objects_static(struct cpython *py, uint64_t address, uint64_t end, struct py_object *ret)
{
	size_t want = end - address < sizeof(py->scratch) ? end - address : sizeof(py->scratch);
	const uint8_t *bytes;
	uint64_t need;
	int index;

	if (py->o.ob_refcnt < 0 || address % 8 || end < address || want < (size_t)py->o.ob_type + 8 ||
	    !(bytes = source_get(py->target->source, address, want, py->scratch)) ||
	    (index = types_at(py, word_at(bytes, (size_t)py->o.ob_type))) < 0)
		return false;
	*ret = (struct py_object){ .address = address, .type = (uint32_t)index, .refcount = read_count(&py->o, bytes),
				   .bytes = bytes, .len = want };
	need = object_bytes(py, &py->types.items[index], bytes, want);
	return need <= end - address && ret->refcount && count_is_plausible(py, ret->refcount, need, end - address);
}

/* The block's bytes are at hand: tries each distance at which a header may be. */
static bool find_object(struct cpython *py, const uint8_t *bytes, uint64_t data, uint64_t end, size_t len,
			struct py_object *ret)
{
	unsigned gc = (unsigned)py->o.gc_head;
	unsigned distances[] = { 0, gc, 16, gc + 16 };
	size_t n = py->o.managed_flags ? 4 : 2;

	if (py->o.ob_refcnt < 0)
		return false; /* free-threaded: no single count */
	for (size_t i = 0; i < n; i++) {
		if (i > 0 && (distances[i] == distances[i - 1] || distances[i] == 0))
			continue;
		if (len < distances[i] + (size_t)py->o.ob_type + 8)
			continue;
		if (object_here(py, bytes, len, data, end, distances[i], ret))
			return true;
	}
	return false;
}

static bool object_from(struct cpython *py, uint64_t data, uint64_t end, struct py_object *ret)
{
	size_t want;
	const uint8_t *bytes;

	if (end < data + 16)
		return false;
	want = end - data < sizeof(py->scratch) ? end - data : sizeof(py->scratch);
	bytes = source_get(py->target->source, data, want, py->scratch);
	if (!bytes || !find_object(py, bytes, data, end, want, ret))
		return false;
	ret->len = want - (size_t)(ret->address - data);
	return true;
}

/* With debug hooks what is too large for pymalloc passes through two of them. */
bool objects_at(struct cpython *py, uint64_t data, uint64_t end, struct py_object *ret)
{
	return object_from(py, data + py->debug_head, end, ret) ||
	       (py->debug_head && object_from(py, data + 2 * py->debug_head, end, ret));
}

/* ---- rows -------------------------------------------------------------------------- */

static bool is_interned(const struct cpython *py, const struct py_object *object, const struct py_type *type)
{
	uint32_t state;

	if (!(type->flags & TYPE_UNICODE) || py->o.unicode_state < 0 || object->len < (size_t)py->o.unicode_state + 4)
		return false;
	memcpy(&state, object->bytes + py->o.unicode_state, 4);
	return state & 3;
}

static category_id make_category(struct cpython *py, const struct py_type *type, unsigned head, bool freed,
				 const char *detail)
{
	return ledger_category(py->target->ledger,
			       &(struct category){ .domain = freed ? "cpython" : "python",
						   .kind = freed ? "free list" : type->name,
						   .detail = freed ? type->name : detail,
						   .state = freed ? FH_FREE : FH_LIVE, .head = (uint8_t)head });
}

static category_id category_of(struct cpython *py, const struct py_object *object, unsigned head)
{
	struct py_type *type = &py->types.items[object->type];
	bool freed = object->refcount == 0;
	category_id *cached;

	if (!freed && is_interned(py, object, type))
		return make_category(py, type, head, false, "interned");
	cached = head / 16 < 3 ? &(freed ? type->freed : type->kind)[head / 16] : NULL;
	if (!cached)
		return make_category(py, type, head, freed, "");
	if (!*cached)
		*cached = make_category(py, type, head, freed, "");
	return *cached;
}

/* PYTHONMALLOC=debug puts two words before each block's data: decided by which way finds more objects. */
static void decide_debug(struct cpython *py)
{
	struct ledger *ledger = py->target->ledger;
	struct ledger_cursor cursor = { 0 };
	size_t plain = 0, debug = 0, seen = 0;
	struct block block;

	while (seen < 20000 && ledger_next(ledger, &cursor, &block)) {
		const struct category *c = ledger_category_of(ledger, block.category);
		struct py_object object;

		if (!c->unknown || block.end - block.start > 512)
			continue;
		seen++;
		py->debug_head = 0;
		plain += objects_at(py, block.start + c->head, block.end, &object);
		py->debug_head = 16;
		debug += objects_at(py, block.start + c->head, block.end, &object);
	}
	py->debug_head = debug > 2 * plain ? 16 : 0;
}

struct fh_error *objects_classify(struct cpython *py)
{
	struct ledger *ledger = py->target->ledger;
	struct ledger_cursor cursor = { 0 };
	struct block block;

	decide_debug(py);
	TRY(number_blocks_carve(py));
	while (ledger_next(ledger, &cursor, &block)) {
		struct category c = *ledger_category_of(ledger, block.category);
		struct py_object object;

		if (c.unknown && objects_at(py, block.start + c.head, block.end, &object))
			ledger_rename(ledger, block.slot, category_of(py, &object, c.head));
	}
	return ledger->no_memory ? error_no_memory() : NULL;
}
