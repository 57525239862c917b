/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/ledger.h"

#include <stdlib.h>
#include <string.h>

/* Categories by content: open addressing over ids plus one, 0 is unused. */
struct category_index {
	uint32_t *table;
	size_t mask;
};

struct fh_error *ledger_create(struct strings *strings, struct ledger **ret)
{
	struct ledger *ledger = calloc(1, sizeof(*ledger));

	if (!ledger)
		return error_no_memory();
	ledger->strings = strings;
	ledger->index = calloc(1, sizeof(*ledger->index));
	if (ledger->index)
		ledger_category(ledger, &(struct category){ .domain = "uncategorized", .kind = "dark",
							    .detail = "" });
	if (!ledger->index || ledger->no_memory) {
		ledger_destroy(ledger);
		return error_no_memory();
	}
	*ret = ledger;
	return NULL;
}

void ledger_destroy(struct ledger *ledger)
{
	if (!ledger)
		return;
	if (ledger->index)
		free(ledger->index->table);
	free(ledger->index);
	vec_free(&ledger->extents);
	vec_free(&ledger->offsets);
	vec_free(&ledger->categories_of);
	vec_free(&ledger->categories);
	vec_free(&ledger->pending);
	free(ledger);
}

/* ---- categories -------------------------------------------------------- */

static size_t category_hash(const struct category *c)
{
	uint64_t h = (uintptr_t)c->domain;

	h = (h ^ h >> 31) * UINT64_C(0x9e3779b97f4a7c15) + (uintptr_t)c->kind;
	h = (h ^ h >> 31) * UINT64_C(0x9e3779b97f4a7c15) + (uintptr_t)c->detail;
	h = (h ^ h >> 31) * UINT64_C(0x9e3779b97f4a7c15) +
	    ((unsigned)c->state << 9 | c->head << 1 | c->unknown);
	return h ^ h >> 33;
}

static bool category_equal(const struct category *a, const struct category *b)
{
	return a->domain == b->domain && a->kind == b->kind && a->detail == b->detail &&
	       a->state == b->state && a->head == b->head && a->unknown == b->unknown;
}

static bool category_index_grow(struct ledger *ledger)
{
	size_t n = ledger->index->table ? (ledger->index->mask + 1) * 2 : 256;
	uint32_t *table = calloc(n, sizeof(*table));

	if (!table)
		return false;
	for (uint32_t id = 0; id < ledger->categories.len; id++) {
		size_t at = category_hash(&ledger->categories.items[id]) & (n - 1);

		while (table[at])
			at = (at + 1) & (n - 1);
		table[at] = id + 1;
	}
	free(ledger->index->table);
	ledger->index->table = table;
	ledger->index->mask = n - 1;
	return true;
}

category_id ledger_category(struct ledger *ledger, const struct category *category)
{
	struct category c = *category;
	size_t at;

	c.domain = strings_add(ledger->strings, c.domain);
	c.kind = strings_add(ledger->strings, c.kind);
	c.detail = strings_add(ledger->strings, c.detail ? c.detail : "");
	if (!c.domain || !c.kind || !c.detail)
		goto no_memory;
	if ((!ledger->index->table || (ledger->categories.len + 1) * 3 > (ledger->index->mask + 1) * 2) &&
	    !category_index_grow(ledger))
		goto no_memory;
	at = category_hash(&c) & ledger->index->mask;
	for (; ledger->index->table[at]; at = (at + 1) & ledger->index->mask)
		if (category_equal(&ledger->categories.items[ledger->index->table[at] - 1], &c))
			return ledger->index->table[at] - 1;
	if (!vec_push(&ledger->categories, c))
		goto no_memory;
	ledger->index->table[at] = (uint32_t)ledger->categories.len;
	return (category_id)(ledger->categories.len - 1);
no_memory:
	ledger->no_memory = true;
	return 0;
}

void ledger_name(struct ledger *ledger, const struct block *block, const char *domain,
		 const char *kind, const char *detail)
{
	struct category c = *ledger_category_of(ledger, block->category);

	c.domain = domain;
	c.kind = kind;
	c.detail = detail;
	c.unknown = false;
	ledger_rename(ledger, block->slot, ledger_category(ledger, &c));
}

/* ---- carving ----------------------------------------------------------- */

/* A new block at an offset; its slot. */
static uint32_t add_slot(struct ledger *ledger, uint32_t offset, category_id category)
{
	size_t slot = ledger->offsets.len;

	if (slot >= UINT32_MAX - 1 || !vec_push(&ledger->offsets, offset)) {
		ledger->no_memory = true;
		return 0;
	}
	if (!vec_push(&ledger->categories_of, category)) {
		ledger->offsets.len--;
		ledger->no_memory = true;
		return 0;
	}
	return (uint32_t)slot;
}

void ledger_add_mapping(struct ledger *ledger, uint64_t start, uint64_t end, category_id category)
{
	struct extent extent = { .start = start, .end = end, .base = start, .count = 1 };

	if (start >= end || (ledger->extents.len && vec_last(&ledger->extents)->end > start))
		return;
	extent.first = add_slot(ledger, 0, category);
	if (!ledger->no_memory && !vec_push(&ledger->extents, extent))
		ledger->no_memory = true;
}

void ledger_carve_begin(struct ledger *ledger, uint64_t start, uint64_t end)
{
	ledger->carving = (struct extent){ .start = start, .end = end, .base = start,
					   .first = (uint32_t)ledger->offsets.len };
	ledger->carving_open = start < end;
}

static void close_extent(struct ledger *ledger)
{
	if (ledger->carving.count && !vec_push(&ledger->pending, ledger->carving))
		ledger->no_memory = true;
}

void ledger_carve_add(struct ledger *ledger, uint64_t start, category_id category)
{
	struct extent *carving = &ledger->carving;

	if (!ledger->carving_open || ledger->no_memory || start >= carving->end)
		return;
	if (carving->count == 0 && start != carving->start)
		return;
	if (carving->count && start - carving->base <= *vec_last(&ledger->offsets))
		return;
	if (start - carving->base > UINT32_MAX) { /* offsets have 32 bits: another extent */
		uint64_t end = carving->end;

		carving->end = start;
		close_extent(ledger);
		*carving = (struct extent){ .start = start, .end = end, .base = start,
					    .first = (uint32_t)ledger->offsets.len };
	}
	add_slot(ledger, (uint32_t)(start - carving->base), category);
	if (!ledger->no_memory)
		carving->count++;
}

void ledger_carve_end(struct ledger *ledger)
{
	if (ledger->carving_open && !ledger->no_memory)
		close_extent(ledger);
	ledger->carving_open = false;
}

void ledger_carve(struct ledger *ledger, uint64_t start, uint64_t end, category_id category)
{
	ledger_carve_begin(ledger, start, end);
	ledger_carve_add(ledger, start, category);
	ledger_carve_end(ledger);
}

/* Index in the extent of the block that holds an address. Blocks are of much the same size, so
 * the search starts where the address would be if they all were, and widens from there. */
static uint32_t block_index(const struct ledger *ledger, const struct extent *extent, uint64_t address)
{
	const uint32_t *offsets = &ledger->offsets.items[extent->first];
	uint64_t offset = address - extent->base;
	double share = (double)(address - extent->start) / (double)(extent->end - extent->start);
	uint32_t low = 0, high = extent->count;
	uint32_t guess = (uint32_t)(share * extent->count);

	if (guess >= high)
		guess = high - 1;
	for (uint32_t step = 4;; step *= 8) { /* invariant: the block is in [low, high) */
		if (offsets[guess] <= offset) {
			low = guess;
			if (step >= high - low || offsets[low + step] > offset) {
				high = step < high - low ? low + step : high;
				break;
			}
			guess = low + step;
		} else {
			high = guess;
			if (step >= high - low || offsets[high - step] <= offset) {
				low = step < high - low ? high - step : low;
				break;
			}
			guess = high - step;
		}
	}
	while (high - low > 1) {
		uint32_t mid = low + (high - low) / 2;

		if (offsets[mid] <= offset)
			low = mid;
		else
			high = mid;
	}
	return low;
}

/* The extents of the next state, in the making; the room is reserved before. */
struct extent_list {
	struct extent *items;
	size_t len;
};

/* Appends the part of an extent that lies in [start, end) to the new list; a block that is cut
 * keeps its slot in the part that holds its start. */
static void keep_part(struct ledger *ledger, struct extent extent, uint64_t start, uint64_t end,
		      struct extent_list *list)
{
	if (start >= end)
		return;
	if (start > extent.start) {
		uint32_t i = block_index(ledger, &extent, start);
		struct block block = ledger_block(ledger, &extent, i);

		if (block.start < start) { /* cut: its rest becomes a block of its own */
			uint64_t rest_end = block.end < end ? block.end : end;
			uint32_t slot = add_slot(ledger, 0, block.category);

			list->items[list->len++] = (struct extent){ .start = start, .end = rest_end,
							     .base = start, .first = slot, .count = 1 };
			start = rest_end;
			i++;
			if (start >= end)
				return;
		}
		extent.first += i;
		extent.count -= i;
		extent.start = start;
	}
	if (end < extent.end) {
		extent.count = block_index(ledger, &extent, end - 1) + 1;
		extent.end = end;
	}
	list->items[list->len++] = extent;
}

static int compare_extents(const void *a, const void *b)
{
	const struct extent *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Whether old extents from index i on cover [start, end) without a gap. */
static bool covered(const struct ledger *ledger, size_t i, uint64_t start, uint64_t end)
{
	for (; i < ledger->extents.len && ledger->extents.items[i].start <= start; i++) {
		if (ledger->extents.items[i].end >= end)
			return true;
		if (ledger->extents.items[i].end > start)
			start = ledger->extents.items[i].end;
	}
	return false;
}

static void refuse(struct ledger *ledger, uint64_t address)
{
	if (ledger->refused++ == 0)
		ledger->refused_at = address;
}

/* Merges the sorted old and pending extents. Each pending one adds at most three. */
static void merge(struct ledger *ledger, struct extent_list *list)
{
	size_t i = 0;
	uint64_t reached = 0; /* all below is placed */

	for (size_t p = 0; p < ledger->pending.len; p++) {
		struct extent carved = ledger->pending.items[p];

		while (i < ledger->extents.len && ledger->extents.items[i].end <= carved.start) {
			struct extent old = ledger->extents.items[i++];

			keep_part(ledger, old, reached > old.start ? reached : old.start, old.end, list);
		}
		if (carved.start < reached || !covered(ledger, i, carved.start, carved.end)) {
			refuse(ledger, carved.start);
			continue;
		}
		if (i < ledger->extents.len) {
			struct extent old = ledger->extents.items[i];

			keep_part(ledger, old, reached > old.start ? reached : old.start, carved.start,
				  list);
		}
		list->items[list->len++] = carved;
		reached = carved.end;
		while (i < ledger->extents.len && ledger->extents.items[i].end <= reached)
			i++;
	}
	for (; i < ledger->extents.len; i++) {
		struct extent old = ledger->extents.items[i];

		keep_part(ledger, old, reached > old.start ? reached : old.start, old.end, list);
	}
}

struct fh_error *ledger_commit(struct ledger *ledger)
{
	size_t room = 2 * ledger->extents.len + 4 * ledger->pending.len + 1;
	struct extent_list list = { 0 };

	if (ledger->no_memory)
		return error_no_memory();
	if (!ledger->pending.len)
		return NULL;
	list.items = malloc(room * sizeof(*list.items));
	if (!list.items)
		return error_no_memory();
	qsort(ledger->pending.items, ledger->pending.len, sizeof(*ledger->pending.items), compare_extents);
	merge(ledger, &list);
	free(ledger->extents.items);
	ledger->extents.items = list.items;
	ledger->extents.len = list.len;
	ledger->extents.cap = room;
	ledger->pending.len = 0;
	return ledger->no_memory ? error_no_memory() : NULL;
}

/* ---- finding ----------------------------------------------------------- */

bool ledger_find(struct ledger *ledger, uint64_t address, struct block *ret)
{
	uint32_t *recent = &ledger->recent[(address >> 18) % LEDGER_RECENT];
	const struct extent *extent;

	if (*recent >= ledger->extents.len || address < ledger->extents.items[*recent].start ||
	    address >= ledger->extents.items[*recent].end)
		*recent = (uint32_t)vec_after(&ledger->extents, .end, address);
	if (*recent >= ledger->extents.len)
		return false;
	extent = &ledger->extents.items[*recent];
	if (address < extent->start)
		return false;
	*ret = ledger_block(ledger, extent, block_index(ledger, extent, address));
	return true;
}

struct ledger_cursor ledger_cursor_at(const struct ledger *ledger, uint64_t address)
{
	struct ledger_cursor cursor = { .extent = vec_after(&ledger->extents, .end, address) };

	if (cursor.extent < ledger->extents.len && ledger->extents.items[cursor.extent].start <= address)
		cursor.i = block_index(ledger, &ledger->extents.items[cursor.extent], address);
	return cursor;
}

bool ledger_balances(const struct ledger *ledger, uint64_t virtual_)
{
	uint64_t sum = 0, reached = 0;
	struct ledger_cursor cursor = { 0 };
	struct block block;

	while (ledger_next(ledger, &cursor, &block)) {
		if (block.start < reached || block.end <= block.start)
			return false;
		reached = block.end;
		sum += block.end - block.start;
	}
	return sum == virtual_;
}
