/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger is a partition of the target's memory: blocks without gap or
 * overlap, each with one category (domain, kind, detail). It starts with one
 * block a mapping; allocators and runtimes *carve* ranges into smaller blocks
 * that cover them exactly, or give a block a better name. So whatever they do
 * or get wrong, the sum stays what the operating system says.
 *
 * Storage is columns: 8 bytes a block. Blocks that lie together form an
 * extent; a block's start is an offset from its extent's base, its end is
 * where the next one starts or the extent ends.
 *
 * Running out of memory is remembered and told by ledger_commit(), so that
 * carving needs no checks.
 */
#ifndef FREEHOLD_LEDGER_LEDGER_H
#define FREEHOLD_LEDGER_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strings.h"
#include "base/vec.h"

typedef uint32_t category_id;

/* What a block is. Equal strings are equal pointers. */
struct category {
	const char *domain, *kind, *detail;
	enum fh_state state;
	uint8_t head; /* bytes of allocator header before the owner's data */
	bool unknown; /* a live block that nobody has named yet */
};

struct block {
	uint64_t start, end;
	uint32_t slot; /* stays the block's own as long as it is not carved */
	category_id category;
};

struct extent {
	uint64_t start, end;
	uint64_t base;         /* that the offsets count from */
	uint32_t first, count; /* slots */
};

#define LEDGER_RECENT 4096

struct ledger {
	struct strings *strings;
	VEC(struct extent) extents; /* ascending, disjoint */
	VEC(uint32_t) offsets;      /* by slot */
	VEC(category_id) categories_of; /* by slot */
	VEC(struct category) categories;
	struct category_index *index;
	VEC(struct extent) pending; /* carved, not yet committed */
	struct extent carving;
	bool carving_open, no_memory;
	uint32_t recent[LEDGER_RECENT]; /* extents found last, by address; only hints */
	uint32_t refused; /* carvings that overlapped others, or what is not mapped */
	uint64_t refused_at; /* the first of them */
};

/* `strings` is used and must outlive the ledger. */
struct fh_error *ledger_create(struct strings *strings, struct ledger **ret);
void ledger_destroy(struct ledger *ledger);

/* The id of a category; the same for equal ones. Strings are copied. Category 0 is
 * `uncategorized / dark`. */
category_id ledger_category(struct ledger *ledger, const struct category *category);

static inline const struct category *ledger_category_of(const struct ledger *ledger, category_id id)
{
	return &ledger->categories.items[id];
}

/* Memory of unknown structure: category 0, and the same with the name that the target gave a mapping. */
static inline bool ledger_is_dark(const struct ledger *ledger, category_id id)
{
	const struct category *c = ledger_category_of(ledger, id);

	return c->domain == ledger->categories.items[0].domain && c->kind == ledger->categories.items[0].kind;
}

/* One more mapping, as one block; in ascending order, before anything is carved. */
void ledger_add_mapping(struct ledger *ledger, uint64_t start, uint64_t end, category_id category);

/*
 * Carves [start, end), whatever blocks are there: begin, then one add for each
 * block (the first at `start`, ascending; a block reaches to the next one's
 * start), then end. An add that is not above the last, or not below `end`, is
 * left out. Takes effect at the next commit. One range at a time.
 */
void ledger_carve_begin(struct ledger *ledger, uint64_t start, uint64_t end);
void ledger_carve_add(struct ledger *ledger, uint64_t start, category_id category);
void ledger_carve_end(struct ledger *ledger);
/* The three in one, for a range that is one block. */
void ledger_carve(struct ledger *ledger, uint64_t start, uint64_t end, category_id category);
/* Puts everything carved since the last commit in place. Where two carvings overlap, the one that
 * starts first stands; one that reaches outside the mappings is refused (see `refused`). */
struct fh_error *ledger_commit(struct ledger *ledger);

/* The block that holds an address, as committed; false when none does. */
bool ledger_find(struct ledger *ledger, uint64_t address, struct block *ret);
/* Gives a block another category; its range stays. At once, no commit needed. */
static inline void ledger_rename(struct ledger *ledger, uint32_t slot, category_id category)
{
	ledger->categories_of.items[slot] = category;
}
/* The same, keeping state and head of what it was. */
void ledger_name(struct ledger *ledger, const struct block *block, const char *domain,
		 const char *kind, const char *detail);

/* Block i of an extent. */
static inline struct block ledger_block(const struct ledger *ledger, const struct extent *extent,
					uint32_t i)
{
	uint32_t slot = extent->first + i;

	return (struct block){
		.start = extent->base + ledger->offsets.items[slot],
		.end = i + 1 < extent->count ? extent->base + ledger->offsets.items[slot + 1] :
					       extent->end,
		.slot = slot,
		.category = ledger->categories_of.items[slot],
	};
}

/* Every block in ascending order:
 *   struct ledger_cursor cursor = {0}; struct block block;
 *   while (ledger_next(ledger, &cursor, &block)) ...
 * Renaming meanwhile is fine, committing is not. */
struct ledger_cursor {
	size_t extent;
	uint32_t i;
};

static inline bool ledger_next(const struct ledger *ledger, struct ledger_cursor *cursor,
			       struct block *ret)
{
	const struct extent *extent;

	if (cursor->extent >= ledger->extents.len)
		return false;
	extent = &ledger->extents.items[cursor->extent];
	*ret = ledger_block(ledger, extent, cursor->i);
	if (++cursor->i >= extent->count) {
		cursor->i = 0;
		cursor->extent++;
	}
	return true;
}

/* A cursor at the block that holds an address, or the first above it. */
struct ledger_cursor ledger_cursor_at(const struct ledger *ledger, uint64_t address);

/* Checks that the blocks are a partition of the mappings: virtual_ is the sum that they must have.
 * Also the check of the tests: false when anything is out of order. */
bool ledger_balances(const struct ledger *ledger, uint64_t virtual_);

#endif
