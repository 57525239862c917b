/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ranges.h"

bool ranges_append(struct ranges *set, uint64_t start, uint64_t end)
{
	if (start >= end)
		return true;
	if (set->v.len && vec_last(&set->v)->end == start) {
		vec_last(&set->v)->end = end;
		return true;
	}
	return vec_push(&set->v, (struct range){ start, end });
}

uint64_t ranges_count_next(const struct ranges *set, size_t *cursor, uint64_t start, uint64_t end)
{
	uint64_t sum = 0;
	size_t i = *cursor;

	while (i < set->v.len && set->v.items[i].end <= start)
		i++;
	*cursor = i;
	for (; i < set->v.len && set->v.items[i].start < end; i++) {
		uint64_t from = set->v.items[i].start > start ? set->v.items[i].start : start;
		uint64_t to = set->v.items[i].end < end ? set->v.items[i].end : end;

		sum += to - from;
		*cursor = i;
	}
	return sum;
}

uint64_t ranges_count(const struct ranges *set, uint64_t start, uint64_t end)
{
	size_t cursor = vec_after(&set->v, .end, start);

	return ranges_count_next(set, &cursor, start, end);
}

void ranges_deinit(struct ranges *set)
{
	vec_free(&set->v);
}
