/* SPDX-License-Identifier: Apache-2.0 */
/*
 * malloc's parameters and counters (mp_), found by structure in the data that holds the main arena: sbrk_base
 * is where the main arena's memory begins by its own account, the counters agree with their maxima, and most
 * parameters have the values that they are compiled with. Any of these can be otherwise (mallopt, tunables,
 * another sbrk), so they vote; what can't be is ruled out.
 */
#include <string.h>

#include "alloc/glibc/internal.h"

#define ENOUGH 4 /* votes */

static uint64_t word(const uint8_t *bytes, uint32_t offset)
{
	uint64_t ret;

	memcpy(&ret, bytes + offset, sizeof(ret));
	return ret;
}

static uint32_t half(const uint8_t *bytes, uint32_t offset)
{
	uint32_t ret;

	memcpy(&ret, bytes + offset, sizeof(ret));
	return ret;
}

/* 2.43 counts a header too many at each mremap, so mmapped_mem is not always whole pages. */
static bool counters_agree(const uint8_t *mp, const struct mp_layout *layout)
{
	uint32_t n = half(mp, layout->n_mmaps), most = half(mp, layout->max_n_mmaps);
	uint64_t bytes = word(mp, layout->mmapped_mem), most_bytes = word(mp, layout->max_mmapped_mem);

	return n <= most && most <= INT32_MAX && bytes <= most_bytes && most_bytes < UINT64_C(1) << 48 &&
	       bytes % 16 == 0 && most_bytes % 16 == 0 && (bytes > 0 || n == 0) && (most_bytes > 0) == (most > 0) &&
	       bytes / PAGE >= n;
}

/* How much speaks for mp_; 0 when it can't be it. The fields before n_mmaps: trim_threshold, top_pad,
 * mmap_threshold, arena_test, arena_max; those behind sbrk_base: tcache_bins, tcache_max_bytes. */
static unsigned votes_for(const uint8_t *mp, const struct mp_layout *layout, uint64_t expected_base,
			  const struct source *source)
{
	uint64_t base = word(mp, layout->sbrk_base), threshold = word(mp, 16);
	unsigned votes = 0;

	if (!counters_agree(mp, layout) || (base && !source_mapping_at(source, base)))
		return 0;
	votes += base && base == expected_base ? 4 : 0;
	votes += word(mp, 8) == 131072;
	votes += threshold >= 131072 && threshold <= UINT64_C(32) << 20;
	votes += word(mp, 0) == 131072 || word(mp, 0) == 2 * threshold;
	votes += word(mp, 24) == 8;
	votes += half(mp, layout->n_mmaps_max) == 65536;
	votes += word(mp, layout->sbrk_base + 8) == 64;
	return votes;
}

/* Where the main arena says that its memory begins, or 0. */
static uint64_t base_by_arena(const struct glibc *glibc, uint64_t bins)
{
	struct source *source = glibc->target->source;
	uint64_t top, size, system;

	if (!source_u64(source, bins + (uint64_t)(int64_t)STATE_TOP, &top) || !source_u64(source, top + 8, &size) ||
	    !source_u64(source, bins + STATE_SYSTEM_MEM, &system))
		return 0;
	return top + (size & ~SIZE_BITS) - system;
}

void params_find(struct glibc *glibc, uint64_t main_state)
{
	struct source *source = glibc->target->source;
	uint64_t expected = base_by_arena(glibc, main_state + glibc->layout->bins);
	unsigned best = ENOUGH - 1;

	for (uint64_t at = glibc->data_start; at + 112 <= glibc->data_end; at += 8) {
		uint8_t scratch[144];
		uint64_t room = glibc->data_end - at;
		size_t len = room < sizeof(scratch) ? room : sizeof(scratch);
		const uint8_t *bytes = source_get(source, at, len, scratch);

		if (!bytes)
			continue;
		if (word(bytes, 24) - 1 >= 1u << 20 || word(bytes, 32) > 1u << 20) /* arena_test is 8 or so */
			continue;
		for (size_t i = 0; i < n_mp_layouts; i++) {
			const struct mp_layout *layout = &mp_layouts[i];
			unsigned votes = len < layout->size ? 0 : votes_for(bytes, layout, expected, source);

			if (votes > best) {
				best = votes;
				glibc->mp = at;
				glibc->mp_layout = layout;
			}
		}
	}
}

bool params_mmapped(const struct glibc *glibc, uint64_t *ret_count, uint64_t *ret_bytes)
{
	struct source *source = glibc->target->source;
	uint32_t count;

	if (!glibc->mp || !source_u32(source, glibc->mp + glibc->mp_layout->n_mmaps, &count) ||
	    !source_u64(source, glibc->mp + glibc->mp_layout->mmapped_mem, ret_bytes))
		return false;
	*ret_count = count;
	return true;
}

uint64_t params_sbrk_base(const struct glibc *glibc)
{
	uint64_t base = 0;

	if (!glibc->mp || !source_u64(glibc->target->source, glibc->mp + glibc->mp_layout->sbrk_base, &base))
		return 0;
	return base;
}
