/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_heap.h"

#include <string.h>

/* From facts of the releases: offsets in malloc_state, malloc_par and tcache_perthread_struct. */
static const struct flavour {
	bool mangled;
	uint64_t fastbins, top, bins, next, system_mem, state_size;
	uint64_t heap_info;
	uint64_t tcache_chunk, tcache_entries;
	uint64_t n_mmaps, n_mmaps_max, max_n_mmaps, mmapped_mem, max_mmapped_mem, sbrk_base;
	uint64_t tail; /* of an mmapped chunk, not in its size */
} flavours[FAKE_FLAVOURS] = {
	[FAKE_2_31] = { false, 16, 96, 112, 2160, 2184, 2200, 32, 0x290, 128, 40, 44, 48, 56, 64, 72, 0 },
	[FAKE_2_36] = { true, 16, 96, 112, 2160, 2184, 2200, 48, 0x290, 128, 60, 64, 68, 80, 88, 96, 0 },
	[FAKE_2_43] = { true, 0, 8, 24, 2072, 2096, 2112, 48, 0x300, 152, 68, 72, 76, 88, 96, 104, 16 },
};

/* ---- memory ------------------------------------------------------------------------- */

static uint8_t *at(const struct fake_heap *heap, uint64_t address)
{
	const struct {
		uint64_t start;
		size_t size;
		const uint8_t *bytes;
	} parts[] = {
		{ FAKE_DATA, FAKE_DATA_SIZE, heap->data },	    { FAKE_BRK, FAKE_BRK_SIZE, heap->brk },
		{ FAKE_ARENA, FAKE_ARENA_SIZE, heap->arena },	    { FAKE_TLS, FAKE_TLS_SIZE, heap->tls },
		{ FAKE_MMAPPED, FAKE_MMAPPED_SIZE, heap->mmapped },
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (address >= parts[i].start && address + 8 <= parts[i].start + parts[i].size)
			return (uint8_t *)(uintptr_t)(parts[i].bytes + (address - parts[i].start));
	__builtin_trap();
}

uint64_t fake_heap_word(const struct fake_heap *heap, uint64_t address)
{
	uint64_t value;

	memcpy(&value, at(heap, address), 8);
	return value;
}

void fake_heap_put(struct fake_heap *heap, uint64_t address, uint64_t value)
{
	memcpy(at(heap, address), &value, 8);
}

static void put32(struct fake_heap *heap, uint64_t address, uint32_t value)
{
	memcpy(at(heap, address & ~UINT64_C(7)) + (address & 7), &value, 4);
}

static const struct flavour *flavour_of(const struct fake_heap *heap)
{
	return &flavours[heap->flavour];
}

/* ---- the parts ------------------------------------------------------------------------ */

static void init_state(struct fake_heap *heap, uint64_t state, uint64_t next)
{
	uint64_t bins = state + flavour_of(heap)->bins;

	for (unsigned i = 0; i < 127; i++) {
		fake_heap_put(heap, bins + 16 * i, bins + 16 * i - 16);
		fake_heap_put(heap, bins + 16 * i + 8, bins + 16 * i - 16);
	}
	fake_heap_put(heap, state + flavour_of(heap)->next, next);
	fake_heap_put(heap, state + flavour_of(heap)->next + 16, 1); /* attached_threads */
}

static void init_mp(struct fake_heap *heap)
{
	const struct flavour *f = flavour_of(heap);
	uint64_t mp = heap->mp;

	fake_heap_put(heap, mp, 131072);
	fake_heap_put(heap, mp + 8, 131072);
	fake_heap_put(heap, mp + 16, 131072);
	fake_heap_put(heap, mp + 24, 8);
	put32(heap, mp + f->n_mmaps_max, 65536);
	fake_heap_put(heap, mp + f->sbrk_base, FAKE_BRK);
	fake_heap_put(heap, mp + f->sbrk_base + 8, 64);
}

static void init_arena(struct fake_heap *heap)
{
	const struct flavour *f = flavour_of(heap);

	heap->arena_state = FAKE_ARENA + f->heap_info;
	fake_heap_put(heap, FAKE_ARENA, heap->arena_state);
	fake_heap_put(heap, FAKE_ARENA + 16, FAKE_ARENA_SIZE);
	fake_heap_put(heap, FAKE_ARENA + 24, FAKE_ARENA_SIZE);
	init_state(heap, heap->arena_state, heap->state);
	heap->arena_at = (heap->arena_state + f->state_size + 15) / 16 * 16;
}

void fake_heap_init(struct fake_heap *heap, enum fake_flavour flavour)
{
	memset(heap, 0, sizeof(*heap));
	heap->flavour = flavour;
	fake_source_init(&heap->fake);
	heap->mp = FAKE_DATA + 0x180;
	heap->state = FAKE_DATA + 0x500;
	heap->brk_at = FAKE_BRK;
	init_mp(heap);
	init_state(heap, heap->state, FAKE_ARENA + flavour_of(heap)->heap_info);
	init_arena(heap);
	heap->tcache = fake_heap_chunk(heap, flavour_of(heap)->tcache_chunk) + 16;
	fake_heap_put(heap, FAKE_TLS + 0x800 - 0x48, heap->tcache);
	fake_heap_put(heap, FAKE_TLS + 0x800, FAKE_TLS + 0x800);
}

void fake_heap_deinit(struct fake_heap *heap)
{
	ledger_destroy(heap->target.ledger);
	fake_source_deinit(&heap->fake);
}

/* ---- chunks and lists -------------------------------------------------------------------- */

uint64_t fake_heap_chunk(struct fake_heap *heap, uint64_t size)
{
	uint64_t chunk = heap->brk_at;

	heap->brk_at += size;
	fake_heap_put(heap, chunk + 8, size | 1);
	return chunk;
}

uint64_t fake_heap_arena_chunk(struct fake_heap *heap, uint64_t size)
{
	uint64_t chunk = heap->arena_at;

	heap->arena_at += size;
	fake_heap_put(heap, chunk + 8, size | 5);
	return chunk;
}

static bool in_arena(uint64_t chunk)
{
	return chunk >= FAKE_ARENA && chunk < FAKE_ARENA + FAKE_ARENA_SIZE;
}

void fake_heap_to_bin(struct fake_heap *heap, uint64_t chunk, unsigned bin)
{
	uint64_t head = (in_arena(chunk) ? heap->arena_state : heap->state) + flavour_of(heap)->bins + 16 * bin - 16;
	uint64_t first = fake_heap_word(heap, head + 16), size = fake_heap_word(heap, chunk + 8) & ~UINT64_C(7);

	fake_heap_put(heap, chunk + 16, first);
	fake_heap_put(heap, chunk + 24, head);
	fake_heap_put(heap, head + 16, chunk);
	fake_heap_put(heap, first + 24, chunk);
	fake_heap_put(heap, chunk + size, size); /* the next one's prev_size, and its PREV_INUSE */
	fake_heap_put(heap, chunk + size + 8, fake_heap_word(heap, chunk + size + 8) & ~UINT64_C(1));
}

static void link_in(struct fake_heap *heap, uint64_t link, uint64_t head, uint64_t target)
{
	uint64_t first = fake_heap_word(heap, head);

	fake_heap_put(heap, link, flavour_of(heap)->mangled ? link >> 12 ^ first : first);
	fake_heap_put(heap, head, target);
}

void fake_heap_to_fastbin(struct fake_heap *heap, uint64_t chunk)
{
	uint64_t size = fake_heap_word(heap, chunk + 8) & ~UINT64_C(7);
	uint64_t state = in_arena(chunk) ? heap->arena_state : heap->state;

	link_in(heap, chunk + 16, state + flavour_of(heap)->fastbins + 8 * (size / 16 - 2), chunk);
}

void fake_heap_to_tcache(struct fake_heap *heap, uint64_t chunk)
{
	uint64_t size = fake_heap_word(heap, chunk + 8) & ~UINT64_C(7);

	link_in(heap, chunk + 16, heap->tcache + flavour_of(heap)->tcache_entries + 8 * (size / 16 - 2), chunk + 16);
	fake_heap_put(heap, chunk + 24, heap->flavour == FAKE_2_31 ? heap->tcache : UINT64_C(0x5a17f00d12345678));
}

void fake_heap_mmapped(struct fake_heap *heap, uint64_t offset)
{
	const struct flavour *f = flavour_of(heap);

	fake_heap_put(heap, FAKE_MMAPPED + 8, (FAKE_MMAPPED_SIZE - f->tail) | 2);
	fake_heap_put(heap, FAKE_MMAPPED + offset, offset);
	fake_heap_put(heap, FAKE_MMAPPED + offset + 8, (FAKE_MMAPPED_SIZE - offset - f->tail) | 2);
	put32(heap, heap->mp + f->n_mmaps, 1);
	put32(heap, heap->mp + f->max_n_mmaps, 1);
	fake_heap_put(heap, heap->mp + f->mmapped_mem, FAKE_MMAPPED_SIZE);
	fake_heap_put(heap, heap->mp + f->max_mmapped_mem, FAKE_MMAPPED_SIZE);
}

/* ---- all ------------------------------------------------------------------------------------ */

static void put_top(struct fake_heap *heap, uint64_t state, uint64_t top, uint64_t end, uint64_t system)
{
	fake_heap_put(heap, top + 8, (end - top) | 1);
	fake_heap_put(heap, state + flavour_of(heap)->top, top);
	fake_heap_put(heap, state + flavour_of(heap)->system_mem, system);
	fake_heap_put(heap, state + flavour_of(heap)->system_mem + 8, system);
}

static void make_ledger(struct fake_heap *heap)
{
	struct source *source = &heap->fake.source;

	heap->target.source = source;
	if (ledger_create(source->strings, &heap->target.ledger))
		__builtin_trap();
	for (size_t i = 0; i < source->mappings.len; i++) {
		const struct mapping *m = &source->mappings.items[i];

		ledger_add_mapping(heap->target.ledger, m->start, m->end, 0);
	}
	if (ledger_commit(heap->target.ledger))
		__builtin_trap();
}

void fake_heap_finish(struct fake_heap *heap)
{
	struct fake_source *fake = &heap->fake;
	struct source_thread thread = { .tid = 77, .has_registers = true, .fs_base = FAKE_TLS + 0x800 };

	put_top(heap, heap->state, heap->brk_at, FAKE_BRK + FAKE_BRK_SIZE, FAKE_BRK_SIZE);
	put_top(heap, heap->arena_state, heap->arena_at, FAKE_ARENA + FAKE_ARENA_SIZE, FAKE_ARENA_SIZE);
	fake_mapping(fake, FAKE_BRK, FAKE_BRK + FAKE_BRK_SIZE, MAPPING_READ | MAPPING_WRITE, 0, 0, "[heap]", heap->brk);
	fake_mapping(fake, FAKE_ARENA, FAKE_ARENA + FAKE_ARENA_SIZE, MAPPING_READ | MAPPING_WRITE, 0, 0, "",
		     heap->arena);
	fake_mapping(fake, FAKE_ARENA + FAKE_ARENA_SIZE, FAKE_ARENA + FAKE_ARENA_MOST, 0, 0, 0, "", NULL);
	fake_mapping(fake, FAKE_MMAPPED, FAKE_MMAPPED + FAKE_MMAPPED_SIZE, MAPPING_READ | MAPPING_WRITE, 0, 0, "",
		     heap->mmapped);
	fake_mapping(fake, FAKE_DATA, FAKE_DATA + FAKE_DATA_SIZE, MAPPING_READ | MAPPING_WRITE, 0, 1, "/lib/libc.so.6",
		     heap->split ? NULL : heap->data);
	/* The second part first: what follows upon each other would become one. */
	if (heap->split && (!memory_add_direct(&fake->source.memory, heap->split, FAKE_DATA + FAKE_DATA_SIZE,
					       heap->data + (heap->split - FAKE_DATA)) ||
			    !memory_add_direct(&fake->source.memory, FAKE_DATA, heap->split, heap->data)))
		__builtin_trap();
	fake_mapping(fake, FAKE_TLS, FAKE_TLS + FAKE_TLS_SIZE, MAPPING_READ | MAPPING_WRITE, 0, 0, "", heap->tls);
	fake_source_seal(fake);
	if (!vec_push(&fake->source.threads, thread))
		__builtin_trap();
	make_ledger(heap);
}
