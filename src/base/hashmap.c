/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hashmap.h"

#include <stdlib.h>

static bool hashmap_grow(struct hashmap *map)
{
	size_t n = map->entries ? (map->mask + 1) * 2 : 64;
	struct hashmap grown = { .mask = n - 1 };

	grown.entries = calloc(n, sizeof(*grown.entries));
	if (!grown.entries)
		return false;
	for (size_t i = 0; map->entries && i <= map->mask; i++) {
		const struct hashmap_entry *e = &map->entries[i];
		size_t at;

		if (e->key == 0)
			continue;
		at = hashmap_slot_(&grown, e->key);
		while (grown.entries[at].key != 0)
			at = (at + 1) & grown.mask;
		grown.entries[at] = *e;
	}
	free(map->entries);
	map->entries = grown.entries;
	map->mask = grown.mask;
	return true;
}

bool hashmap_put(struct hashmap *map, uint64_t key, uint64_t value)
{
	uint64_t *place = hashmap_get(map, key);
	size_t i;

	if (place) {
		*place = value;
		return true;
	}
	if (key == 0) {
		map->has_zero = true;
		map->zero_value = value;
		return true;
	}
	if ((!map->entries || (map->len + 1) * 3 > (map->mask + 1) * 2) && !hashmap_grow(map))
		return false;
	i = hashmap_slot_(map, key);
	while (map->entries[i].key != 0)
		i = (i + 1) & map->mask;
	map->entries[i] = (struct hashmap_entry){ key, value };
	map->len++;
	return true;
}

void hashmap_deinit(struct hashmap *map)
{
	free(map->entries);
	*map = (struct hashmap){ 0 };
}
