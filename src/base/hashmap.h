/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A map from 64-bit keys (addresses, mostly) to 64-bit values: open
 * addressing, linear probing, at most two thirds full, no removal.
 */
#ifndef FREEHOLD_BASE_HASHMAP_H
#define FREEHOLD_BASE_HASHMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hashmap_entry {
	uint64_t key, value;
};

/* Zero-initialised is empty. */
struct hashmap {
	struct hashmap_entry *entries; /* key 0 marks an unused one */
	size_t mask, len;
	bool has_zero; /* the key 0 has its own place */
	uint64_t zero_value;
};

static inline size_t hashmap_slot_(const struct hashmap *map, uint64_t key)
{
	uint64_t h = key * UINT64_C(0x9e3779b97f4a7c15);

	return (size_t)(h ^ h >> 32) & map->mask;
}

/* The value's place, or NULL. Valid until the next hashmap_put(). */
static inline uint64_t *hashmap_get(struct hashmap *map, uint64_t key)
{
	if (key == 0)
		return map->has_zero ? &map->zero_value : NULL;
	if (!map->entries)
		return NULL;
	for (size_t i = hashmap_slot_(map, key);; i = (i + 1) & map->mask) {
		if (map->entries[i].key == key)
			return &map->entries[i].value;
		if (map->entries[i].key == 0)
			return NULL;
	}
}

/* Sets the value of a key; false when memory is out. */
bool hashmap_put(struct hashmap *map, uint64_t key, uint64_t value);
void hashmap_deinit(struct hashmap *map);

#endif
