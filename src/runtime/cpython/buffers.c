/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What objects own, in passes from certain to weak: the dictionaries of instances, modules and types get their
 * owner's name; then every type's own buffers, by the table of owners; then whatever a word of an object
 * of another C type points to; last what the interpreter's static data points to.
 */
#include <string.h>

#include "runtime/cpython/internal.h"

#define ROUNDS 1 /* of pointers followed from memory that was named by a pointer itself */
#define STATIC_ROUNDS 8 /* the same from static data: to tables, and the chains of their entries */

typedef void visit_object(struct cpython *py, uint32_t type, const struct block *block);

/* The type of all objects of a category, once one of them was opened; NULL: not known, or several. */
static struct py_type *type_of(struct cpython *py, category_id id)
{
	struct py_type *type;

	if (id >= py->type_of_category.len || !py->type_of_category.items[id])
		return NULL;
	type = &py->types.items[py->type_of_category.items[id] - 1];
	return type->shares_name ? NULL : type;
}

static bool mark_shared_names(struct cpython *py)
{
	struct hashmap first = { 0 }; /* name, of the pool -> index + 1 */
	bool done = true;

	for (size_t i = 0; i < py->types.len && done; i++) {
		const uint64_t *other = hashmap_get(&first, (uintptr_t)py->types.items[i].name);

		if (other)
			py->types.items[i].shares_name = py->types.items[*other - 1].shares_name = true;
		else
			done = hashmap_put(&first, (uintptr_t)py->types.items[i].name, i + 1);
	}
	hashmap_deinit(&first);
	return done;
}

/* Room for all categories that there are by now. Which type the objects of one have is noted when one is opened. */
static bool index_categories(struct cpython *py)
{
	struct ledger *ledger = py->target->ledger;

	for (size_t id = py->type_of_category.len; id < ledger->categories.len; id++)
		if (!vec_push(&py->type_of_category, 0))
			return false;
	return true;
}

/* The object in a block that was named as one. Types of equal names share a category, so only its bytes tell which. */
static bool open_object(struct cpython *py, const struct block *block, struct py_object *ret)
{
	const struct category *c = ledger_category_of(py->target->ledger, block->category);

	return objects_at(py, block->start + c->head, block->end, ret);
}

static bool is_python(const struct cpython *py, const struct block *block, const char *python)
{
	const struct category *c = ledger_category_of(py->target->ledger, block->category);

	return c->domain == python && c->state == FH_LIVE;
}

/* A type that knows what its objects own. */
static struct py_type *know_owner(struct cpython *py, uint32_t index)
{
	const struct py_owner *owner;
	struct py_type *type = &py->types.items[index];

	if (type->owner_known)
		return type;
	owner = owners_for(py, index); /* its bases may come into the array, which then moves */
	type = &py->types.items[index];
	type->owner = owner;
	type->has_dict = owners_has_dict(py, type);
	type->owner_known = true;
	return type;
}

/* ---- first pass: dictionaries -------------------------------------------------------------- */

static void name_dicts(struct cpython *py, const char *python)
{
	struct ledger_cursor cursor = { 0 };
	struct block block;

	while (ledger_next(py->target->ledger, &cursor, &block)) {
		struct py_object object;
		struct py_type *type = type_of(py, block.category);

		if ((type && type->owner_known && !type->has_dict) || !is_python(py, &block, python) ||
		    !open_object(py, &block, &object))
			continue;
		type = know_owner(py, object.type);
		if (block.category < py->type_of_category.len)
			py->type_of_category.items[block.category] = object.type + 1;
		if (type->has_dict)
			owners_name_dict(py, &object, &block);
	}
	/* Static types have dictionaries, too. */
	for (size_t i = 0; i < py->types.len; i++) {
		struct py_object object = { .address = py->types.items[i].address };
		uint64_t metatype;
		int type;

		if (py->types.items[i].heap || !source_u64(py->target->source, object.address + (uint64_t)py->o.ob_type, &metatype))
			continue;
		type = types_at(py, metatype);
		if (type < 0)
			continue;
		object.type = (uint32_t)type;
		owners_name_dict(py, &object, &block);
	}
}

/* ---- second pass: what the table of owners knows ------------------------------------------- */

static void visit_owners(struct cpython *py, const char *python)
{
	struct ledger_cursor cursor = { 0 };
	struct block block;

	while (ledger_next(py->target->ledger, &cursor, &block)) {
		struct py_object object;
		struct py_type *type = type_of(py, block.category);

		if ((type && type->owner && type->owner->generic) || !is_python(py, &block, python) ||
		    !open_object(py, &block, &object))
			continue;
		type = know_owner(py, object.type);
		type->owner->visit(py, &object, &block);
	}
}

/* ---- third pass: words of other objects ------------------------------------------------------ */

/* Names what any word of a range points to, if nobody has. */
static void claim_words(struct cpython *py, uint64_t start, uint64_t end, const char *kind, const char *detail,
			size_t *count)
{
	uint64_t words[64];

	for (uint64_t at = start; at + 8 <= end; at += sizeof(words)) {
		size_t want = end - at < sizeof(words) ? end - at : sizeof(words);
		size_t n = memory_read(&py->target->source->memory, at, words, want) / 8;

		for (size_t i = 0; i < n; i++)
			if (words[i] >= 65536 && words[i] % 8 == 0 && words[i] >> 47 == 0 &&
			    claim(py, words[i], "cpython", kind, detail, false))
				++*count;
		if (n * 8 < want)
			return;
	}
}

#define MOST_SCANNED 65536 /* bytes of one block that are looked through */

static uint64_t scan_end(const struct block *block)
{
	return block->end - block->start > MOST_SCANNED ? block->start + MOST_SCANNED : block->end;
}

static void visit_generic(struct cpython *py, const char *python, const char *detail)
{
	struct ledger_cursor cursor = { 0 };
	struct block block;
	size_t count = 0;

	while (ledger_next(py->target->ledger, &cursor, &block)) {
		struct py_object object;
		struct py_type *type = type_of(py, block.category);
		const char *kind;

		if ((type && type->owner && !type->owner->generic) || !is_python(py, &block, python) ||
		    !open_object(py, &block, &object))
			continue;
		type = know_owner(py, object.type);
		if (!type->owner->generic)
			continue;
		kind = strings_format(py->target->source->strings, "%s data", type->name);
		claim_words(py, object.address + (uint64_t)py->o.ob_type + 8, scan_end(&block), kind ? kind : "", detail,
			    &count);
	}
}

/* What memory that was named by a pointer points to, in turn. From objects only a step: beyond lies the data of
 * libraries, which the one who holds a handle to it does not own alone. */
static size_t visit_named(struct cpython *py, const char *kind, const char *detail)
{
	struct ledger_cursor cursor = { 0 };
	struct block block;
	size_t count = 0;

	while (ledger_next(py->target->ledger, &cursor, &block)) {
		const struct category *c = ledger_category_of(py->target->ledger, block.category);

		if (c->state == FH_LIVE && c->detail == detail && strcmp(c->domain, "cpython") == 0 &&
		    (!kind || c->kind == kind))
			claim_words(py, block.start + c->head, scan_end(&block), c->kind, detail, &count);
	}
	return count;
}

/* ---- last: static data -------------------------------------------------------------------------- */

struct static_scan {
	struct cpython *py;
	const char *kind;
	size_t count;
};

static bool claim_static(void *context, uint64_t address, const uint64_t *words, size_t n)
{
	struct static_scan *scan = context;

	(void)address;
	for (size_t i = 0; i < n; i++)
		if (words[i] >= 65536 && words[i] % 8 == 0 && words[i] >> 47 == 0 &&
		    claim(scan->py, words[i], "cpython", scan->kind, "", false))
			scan->count++;
	return true;
}

/* ---- syntax trees ------------------------------------------------------------------------------------ */

#define TREE_LEAST 8192u /* bytes of a block, DEFAULT_BLOCK_SIZE there */
#define TREE_HEADER 32u /* {bytes, used, next block, memory behind this header}: struct _block in Python/pyarena.c */

/* What the parser built of a script that runs is kept until its end, in blocks that only a stack points to. */
static void name_syntax_trees(struct cpython *py)
{
	struct ledger_cursor cursor = { 0 };
	struct block block;

	while (ledger_next(py->target->ledger, &cursor, &block)) {
		const struct category *c = ledger_category_of(py->target->ledger, block.category);
		uint64_t data = block.start + c->head, words[4];

		if (c->unknown && c->state == FH_LIVE && block.end - block.start > TREE_LEAST &&
		    source_read(py->target->source, data, words, sizeof(words)) && words[3] == data + TREE_HEADER &&
		    words[0] <= block.end - data && words[1] <= words[0])
			ledger_name(py->target->ledger, &block, "cpython", "syntax tree", "");
	}
}

struct fh_error *buffers_classify(struct cpython *py)
{
	struct strings *strings = py->target->source->strings;
	const char *python = strings_add(strings, "python"), *none = strings_add(strings, "");
	const char *detail = strings_add(strings, "by pointer");
	struct static_scan scan = { .py = py, .kind = strings_add(strings, "interpreter data") };

	if (!python || !none || !detail || !scan.kind || !index_categories(py) || !mark_shared_names(py))
		return error_no_memory();
	name_dicts(py, python);
	if (!index_categories(py))
		return error_no_memory();
	visit_owners(py, python);
	visit_generic(py, python, detail);
	scan_writable(py->target, py->image, claim_static, &scan);
	for (int i = 0; i < ROUNDS && visit_named(py, NULL, detail); i++)
		;
	for (int i = 0; i < STATIC_ROUNDS && visit_named(py, scan.kind, none); i++)
		;
	name_syntax_trees(py);
	return py->target->ledger->no_memory ? error_no_memory() : NULL;
}
