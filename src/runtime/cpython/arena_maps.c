/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Since 3.10 pymalloc answers "is this address mine?" by a radix tree over addresses (Objects/obmalloc.c,
 * arena_map_get): a root of pointers to nodes of pointers to leaves. Nodes and leaves are blocks of malloc's, the
 * root lies in _obmalloc_state, or up to 3.11 is a static variable.
 */
#include "runtime/cpython/pymalloc.h"

/* Bits of an address, from the arena's size up, that index a leaf and a node. 64-bit addresses are covered since
 * 3.11, 48 bits before; so user space is below the first pointer of the newer root. */
static const struct map_shape {
	uint32_t leaf_bits, node_bits;
} shapes[] = {
	{ 14, 15 },
	{ 8, 10 },
};

#define SLACK (4u * PAGE) /* headers and rounding of a block */

struct map {
	struct pymalloc *pm;
	const struct map_shape *shape;
};

/* The live block that an address is at the beginning of, if it has about that size. */
static bool find_node(const struct map *map, uint64_t address, uint32_t bits, struct block *ret)
{
	struct ledger *ledger = map->pm->py->target->ledger;
	uint64_t bytes = UINT64_C(8) << bits;

	return address % 16 == 0 && ledger_find(ledger, address, ret) &&
	       ledger_category_of(ledger, ret->category)->unknown && address - ret->start <= 32 &&
	       ret->end - address >= bytes && ret->end - address < bytes + SLACK;
}

static bool name_leaves(void *context, uint64_t address, const uint64_t *words, size_t n)
{
	const struct map *map = context;
	struct block leaf;

	(void)address;
	for (size_t i = 0; i < n; i++)
		if (words[i] && find_node(map, words[i], map->shape->leaf_bits, &leaf))
			ledger_name(map->pm->py->target->ledger, &leaf, "pymalloc", "arena map", "");
	return true;
}

static void name_tree(struct map *map, uint64_t node)
{
	struct target *target = map->pm->py->target;
	struct block block;

	if (!find_node(map, node, map->shape->node_bits, &block))
		return;
	scan_range(target, node, node + (UINT64_C(8) << map->shape->node_bits), name_leaves, map);
	ledger_name(target->ledger, &block, "pymalloc", "arena map", "");
}

/* ---- up to 3.11 ---------------------------------------------------------------- */

/* Whether the tree below a node knows the first arena. */
static bool knows_arena(const struct map *map, uint64_t node)
{
	const struct py_arena *arena = &map->pm->py->arenas.items[0];
	uint64_t number = arena->start / (arena->end - arena->start), leaf, entry; /* sizes are powers of two */
	uint64_t in_node = (number >> map->shape->leaf_bits) % (UINT64_C(1) << map->shape->node_bits);
	uint64_t in_leaf = number % (UINT64_C(1) << map->shape->leaf_bits);
	struct source *source = map->pm->py->target->source;
	struct block block;

	return find_node(map, node, map->shape->node_bits, &block) && source_u64(source, node + in_node * 8, &leaf) &&
	       find_node(map, leaf, map->shape->leaf_bits, &block) &&
	       source_u64(source, leaf + in_leaf * 8, &entry) && entry;
}

static bool visit_words(void *context, uint64_t address, const uint64_t *words, size_t n)
{
	struct map *map = context;

	(void)address;
	for (size_t i = 0; i < n; i++)
		if (words[i] % 16 == 0 && words[i] >> 47 == 0 && words[i] >= PAGE && knows_arena(map, words[i]))
			name_tree(map, words[i]);
	return true;
}

void arena_maps_name(struct pymalloc *pm)
{
	int root = layout_offset(&pm->py->layout, "_obmalloc_state", "usage.arena_map_root");
	struct map map = { pm, &shapes[0] };
	uint64_t node;

	for (size_t i = 0; root >= 0 && i < pm->states.len; i++)
		if (source_u64(pm->py->target->source, pm->states.items[i] + (uint64_t)root, &node))
			name_tree(&map, node);
	if (root >= 0 || !pm->py->arenas.len || pm->geometry.pool_size != POOL_MOST)
		return; /* 4 KiB pools know their arena without a tree */
	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
		map.shape = &shapes[i];
		scan_writable(pm->py->target, pm->py->image, visit_words, &map);
	}
}
