/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Going on after damage, or after memory that is somebody else's: the next place that proves itself by a chain of
 * sound chunks. What is in user data can look like a chunk; a chain of them hardly does, nor one that arrives
 * exactly at a chunk that is known otherwise.
 */
#include <string.h>

#include "alloc/glibc/internal.h"

#define CHAIN 16	/* chunks in a row that are proof enough */
#define CHAIN_READABLE 4 /* before memory that can't be read */
#define CONVINCING 256	/* on the way to a goal */

static bool read_header(const struct glibc *glibc, uint64_t chunk, uint64_t words[2])
{
	uint8_t scratch[16];
	const void *p = source_get(glibc->target->source, chunk, 16, scratch);

	if (p)
		memcpy(words, p, 16);
	return p;
}

static bool is_arena_flag_right(const struct heap *heap, uint64_t word)
{
	return heap->arena != 0 || !(word & NON_MAIN_ARENA);
}

/* The headers that close a region: sizes of 16, and of 0 at the end of an aligned heap. */
static bool is_fencepost(const struct glibc *glibc, const struct heap *heap, uint64_t chunk, uint64_t word)
{
	uint64_t next[2];

	if ((word & ~SIZE_BITS) != 16)
		return false;
	if (chunk + 16 >= heap->end)
		return true;
	if (!read_header(glibc, chunk + 16, next))
		return false;
	return heap->arena == 0 ? (next[1] & ~SIZE_BITS) == 16 : next[1] == PREV_INUSE && chunk + 32 == heap->end;
}

static bool chain_holds(struct glibc *glibc, const struct heap *heap, uint64_t chunk, uint64_t limit)
{
	uint64_t words[2], before = 0;

	for (unsigned i = 0; i < CHAIN; i++) {
		if (chunk == limit)
			return i > 0;
		if (chunk > limit)
			return false;
		if (!read_header(glibc, chunk, words))
			return i >= CHAIN_READABLE;
		if (i > 0 && !(words[1] & PREV_INUSE) && words[0] != before)
			return false;
		if (i > 0 && is_fencepost(glibc, heap, chunk, words[1]))
			return true;
		if (!chunk_is_sound(chunk, words[1], heap->end) || !is_arena_flag_right(heap, words[1]))
			return false;
		before = words[1] & ~SIZE_BITS;
		chunk += before;
	}
	return true;
}

uint64_t resync(struct glibc *glibc, const struct heap *heap, uint64_t from, uint64_t limit)
{
	struct memory *memory = &glibc->target->source->memory;
	uint64_t at = (from + 15) / 16 * 16;

	while (at < limit) {
		size_t span, i;
		const uint8_t *bytes = memory_span(memory, at, &span);

		if (!bytes) { /* a hole of unreadable memory is skipped whole */
			if (!span || span >= limit - at)
				return limit;
			at = (at + span + 15) / 16 * 16;
			continue;
		}
		for (i = 0; i + 16 <= span && at + i < limit; i += 16) {
			uint64_t word;

			memcpy(&word, bytes + i + 8, 8);
			if (!chunk_is_sound(at + i, word, heap->end))
				continue;
			if (chain_holds(glibc, heap, at + i, limit))
				return at + i;
			i += 16; /* the bytes may have moved out of the cache */
			break;
		}
		at += i ? i : 16;
	}
	return limit;
}

bool resync_arrives(struct glibc *glibc, const struct heap *heap, uint64_t chunk, uint64_t goal)
{
	uint64_t words[2];

	for (unsigned i = 0; chunk < goal && i < CONVINCING; i++) {
		if (!read_header(glibc, chunk, words) || !chunk_is_sound(chunk, words[1], heap->end))
			return false;
		chunk += words[1] & ~SIZE_BITS;
	}
	return chunk <= goal;
}
