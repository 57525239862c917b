/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walker of glibc's heaps on memory that an attacker writes. An input is a sound heap (fake_heap.h) made by
 * its first bytes, and then words of it overwritten: with numbers, with addresses of chunks, with other sizes. So
 * most inputs get past the search for the arena and into the walks. Whatever the input, the ledger must balance.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/fake_heap.h"
#include "alloc/glibc/glibc.h"

#define MOST_CHUNKS 200

struct input {
	const uint8_t *bytes;
	size_t len;
};

static uint8_t next(struct input *input)
{
	if (!input->len)
		return 0;
	input->len--;
	return *input->bytes++;
}

static uint64_t next_word(struct input *input)
{
	uint64_t word = 0;

	for (unsigned i = 0; i < 8; i++)
		word = word << 8 | next(input);
	return word;
}

struct chunks {
	uint64_t at[MOST_CHUNKS];
	unsigned n;
};

static bool is_room(const struct fake_heap *heap, uint64_t size)
{
	return heap->brk_at + size + 64 < FAKE_BRK + FAKE_BRK_SIZE &&
	       heap->arena_at + size + 64 < FAKE_ARENA + FAKE_ARENA_SIZE;
}

/* A heap with chunks of all kinds, one byte each. */
static void build(struct fake_heap *heap, struct input *input, struct chunks *chunks)
{
	unsigned n = next(input) % MOST_CHUNKS;

	for (unsigned i = 0; i < n; i++) {
		uint8_t how = next(input);
		uint64_t size = 32 + 16 * (how / 8 % 16) + (how % 8 == 7 ? 1024 : 0), chunk;

		if (!is_room(heap, size))
			return;
		chunk = how & 128 ? fake_heap_arena_chunk(heap, size) : fake_heap_chunk(heap, size);
		chunks->at[chunks->n++] = chunk;
		switch (how % 8) {
		case 1:
			if (heap->flavour != FAKE_2_43 && size <= 176)
				fake_heap_to_fastbin(heap, chunk);
			break;
		case 2:
			fake_heap_to_tcache(heap, chunk);
			break;
		case 3:
		case 4:
			if (how & 128 ? fake_heap_arena_chunk(heap, 32) : fake_heap_chunk(heap, 32))
				fake_heap_to_bin(heap, chunk, how % 8 == 3 ? FAKE_UNSORTED : FAKE_SMALL(size));
			break;
		}
	}
}

/* An address of the heap that an input means: near a chunk, in the arenas, in mp_, in the tcache, anywhere. */
static uint64_t pick(const struct fake_heap *heap, struct input *input, const struct chunks *chunks)
{
	uint8_t how = next(input), where = next(input);

	switch (how % 8) {
	case 0: return heap->state + where * 8u;
	case 1: return heap->state + 2048 + where % 32 * 8u;
	case 2: return heap->arena_state + where * 8u;
	case 3: return heap->mp + where % 20 * 8u;
	case 4: return heap->tcache + where % 100 * 8u;
	case 5: return FAKE_ARENA + where % 8 * 8u;
	case 6: return FAKE_MMAPPED + where * 64u % FAKE_MMAPPED_SIZE;
	default: return chunks->n ? chunks->at[where % chunks->n] + how / 8 % 5 * 8 : FAKE_BRK + where * 8u;
	}
}

static void overwrite(struct fake_heap *heap, struct input *input, const struct chunks *chunks)
{
	while (input->len >= 3) {
		uint8_t how = next(input);
		uint64_t at = pick(heap, input, chunks), old = fake_heap_word(heap, at), value;

		switch (how % 6) {
		case 0: value = next_word(input); break;
		case 1: value = old ^ UINT64_C(1) << next(input) % 64; break;
		case 2: value = old + (uint64_t)(int64_t)(int8_t)next(input) * 16; break;
		case 3: value = pick(heap, input, chunks); break;
		case 4: value = pick(heap, input, chunks) ^ at >> 12; break;
		default: value = next(input) * 16u + next(input) % 8; break;
		}
		fake_heap_put(heap, at, value);
	}
}

static void visit_arena(void *context, const struct alloc_arena *arena)
{
	*(uint64_t *)context += arena->system_bytes;
}

static void visit_bin(void *context, const struct alloc_bin *bin)
{
	*(uint64_t *)context += bin->bytes + strlen(bin->name);
}

static void walk(struct fake_heap *heap)
{
	struct target *target = &heap->target;
	void *state = NULL;
	uint64_t sum = 0;

	if (glibc_allocator.probe(target, &state))
		abort();
	if (!state)
		return;
	if (glibc_allocator.carve(target, state) || ledger_commit(target->ledger))
		abort();
	if (!ledger_balances(target->ledger, heap->fake.source.os_virtual))
		abort();
	glibc_allocator.each_arena(target, state, visit_arena, &sum);
	glibc_allocator.each_bin(target, state, visit_bin, &sum);
	if (!glibc_allocator.describe(target, state))
		abort();
	glibc_allocator.destroy(state);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	static struct fake_heap heap;
	struct input input = { bytes, len };
	struct chunks chunks = { .n = 0 };

	fake_heap_init(&heap, next(&input) % FAKE_FLAVOURS);
	build(&heap, &input, &chunks);
	if (next(&input) & 1)
		fake_heap_mmapped(&heap, next(&input) % 2 ? 4080 : 0);
	fake_heap_finish(&heap); /* the mappings are of the same bytes that are overwritten now */
	overwrite(&heap, &input, &chunks);
	walk(&heap);
	fake_heap_deinit(&heap);
	return 0;
}
