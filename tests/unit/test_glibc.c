/* SPDX-License-Identifier: Apache-2.0 */
/* The walker of glibc's heaps on heaps made by hand (fake_heap.h): what it names, and what it does when they are
 * damaged. Against real processes: tests/integration/test_glibc.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc/glibc/glibc.h"
#include "fake_heap.h"

static void *walk(struct fake_heap *heap)
{
	void *found = NULL;

	fake_heap_finish(heap);
	assert_null(glibc_allocator.probe(&heap->target, &found));
	assert_non_null(found);
	assert_null(glibc_allocator.carve(&heap->target, found));
	assert_null(ledger_commit(heap->target.ledger));
	assert_true(ledger_balances(heap->target.ledger, heap->fake.source.os_virtual));
	assert_int_equal(heap->target.ledger->refused, 0);
	return found;
}

/* One block, exactly, with this name: "kind" or "kind / detail". */
static void expect(struct fake_heap *heap, uint64_t start, uint64_t end, const char *name, enum fh_state state)
{
	struct block block;
	const struct category *c;
	char text[128];

	assert_true(ledger_find(heap->target.ledger, start, &block));
	c = ledger_category_of(heap->target.ledger, block.category);
	snprintf(text, sizeof(text), "%s%s%s", c->kind, c->detail[0] ? " / " : "", c->detail);
	assert_string_equal(text, name);
	assert_int_equal(block.start, start);
	assert_int_equal(block.end, end);
	assert_int_equal(c->state, state);
	assert_int_equal(c->unknown, strcmp(c->domain, "uncategorized") == 0 && state == FH_LIVE);
}

static void expect_live(struct fake_heap *heap, uint64_t chunk, uint64_t size)
{
	char name[32];

	snprintf(name, sizeof(name), "%llu bytes", (unsigned long long)size);
	expect(heap, chunk, chunk + size, name, FH_LIVE);
}

static bool warned_of(const struct fake_heap *heap, uint64_t address)
{
	char text[32];

	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)address);
	for (size_t i = 0; i < heap->fake.source.warnings.len; i++)
		if (strstr(heap->fake.source.warnings.items[i], text))
			return true;
	return false;
}

static void expect_damage(struct fake_heap *heap, uint64_t address)
{
	assert_true(heap->target.damaged);
	assert_true(warned_of(heap, address));
}

/* ---- sound heaps ---------------------------------------------------------------------- */

struct sums {
	uint64_t tcache, fast, small, large, unsorted, arenas, system, top;
};

static void add_bin(void *context, const struct alloc_bin *bin)
{
	struct sums *sums = context;

	assert_string_equal(bin->allocator, "glibc");
	assert_true(bin->count > 0);
	if (strncmp(bin->name, "tcache", 6) == 0) {
		sums->tcache += bin->bytes;
		assert_int_equal(bin->thread, 77);
		assert_int_equal(bin->arena, UINT32_MAX);
	} else if (strncmp(bin->name, "fast", 4) == 0) {
		sums->fast += bin->bytes;
	} else if (strncmp(bin->name, "small", 5) == 0) {
		sums->small += bin->bytes;
	} else if (strcmp(bin->name, "large") == 0) {
		sums->large += bin->bytes;
	} else {
		assert_string_equal(bin->name, "unsorted");
		sums->unsorted += bin->bytes;
	}
}

static void add_arena(void *context, const struct alloc_arena *arena)
{
	struct sums *sums = context;

	assert_int_equal(arena->number, sums->arenas);
	sums->arenas++;
	sums->system += arena->system_bytes;
	sums->top += arena->top_bytes;
}

/* What the hooks for the tables say of the heap below. */
static void check_figures(struct fake_heap *heap, void *found)
{
	struct sums sums = { 0 };

	glibc_allocator.each_bin(&heap->target, found, add_bin, &sums);
	glibc_allocator.each_arena(&heap->target, found, add_arena, &sums);
	assert_int_equal(sums.tcache, 128);
	assert_int_equal(sums.fast, heap->flavour == FAKE_2_43 ? 0 : 96);
	assert_int_equal(sums.small, 128 + 512);
	assert_int_equal(sums.large, 2048);
	assert_int_equal(sums.unsorted, 256);
	assert_int_equal(sums.arenas, 2);
	assert_int_equal(sums.system, FAKE_BRK_SIZE + FAKE_ARENA_SIZE);
	assert_int_equal(sums.top, FAKE_BRK + FAKE_BRK_SIZE - heap->brk_at +
				   FAKE_ARENA + FAKE_ARENA_SIZE - heap->arena_at);
	assert_string_equal(glibc_allocator.describe(&heap->target, found), "glibc");
}

static void every_kind_of_chunk(enum fake_flavour flavour)
{
	struct fake_heap *heap = malloc(sizeof(*heap));
	uint64_t live[3], fast[2], cached[2], small, large, unsorted, other, other_free;
	void *found;

	fake_heap_init(heap, flavour);
	live[0] = fake_heap_chunk(heap, 48);
	fast[0] = fake_heap_chunk(heap, 48);
	fast[1] = fake_heap_chunk(heap, 48);
	cached[0] = fake_heap_chunk(heap, 64);
	cached[1] = fake_heap_chunk(heap, 64);
	small = fake_heap_chunk(heap, 128);
	live[1] = fake_heap_chunk(heap, 32);
	large = fake_heap_chunk(heap, 2048);
	live[2] = fake_heap_chunk(heap, 4000);
	unsorted = fake_heap_chunk(heap, 256);
	fake_heap_chunk(heap, 32);
	other = fake_heap_arena_chunk(heap, 96);
	other_free = fake_heap_arena_chunk(heap, 512);
	fake_heap_arena_chunk(heap, 64);
	for (unsigned i = 0; i < 2; i++) {
		if (flavour != FAKE_2_43)
			fake_heap_to_fastbin(heap, fast[i]);
		fake_heap_to_tcache(heap, cached[i]);
	}
	fake_heap_to_bin(heap, small, FAKE_SMALL(128));
	fake_heap_to_bin(heap, large, 80);
	fake_heap_to_bin(heap, unsorted, FAKE_UNSORTED);
	fake_heap_to_bin(heap, other_free, FAKE_SMALL(512));
	fake_heap_mmapped(heap, 0);
	found = walk(heap);

	assert_false(heap->target.damaged);
	assert_int_equal(heap->fake.source.warnings.len, 0);
	expect_live(heap, live[0], 48);
	for (unsigned i = 0; i < 2; i++) {
		if (flavour != FAKE_2_43)
			expect(heap, fast[i], fast[i] + 48, "free chunk / fast 48", FH_FREE);
		expect(heap, cached[i], cached[i] + 64, "free chunk / tcache 64", FH_FREE);
	}
	expect(heap, small, small + 128, "free chunk / small 128", FH_FREE);
	expect_live(heap, live[1], 32);
	expect(heap, large, large + 2048, "free chunk / large", FH_FREE);
	expect_live(heap, live[2], 4000);
	expect(heap, unsorted, unsorted + 256, "free chunk / unsorted", FH_FREE);
	expect(heap, FAKE_BRK, heap->tcache - 16 + (flavour == FAKE_2_43 ? 0x300 : 0x290), "tcache", FH_OVERHEAD);
	expect(heap, heap->brk_at, FAKE_BRK + FAKE_BRK_SIZE, "top", FH_FREE);
	expect(heap, FAKE_ARENA, other, "arena", FH_OVERHEAD);
	expect_live(heap, other, 96);
	expect(heap, other_free, other_free + 512, "free chunk / small 512", FH_FREE);
	expect(heap, heap->arena_at, FAKE_ARENA + FAKE_ARENA_SIZE, "top", FH_FREE);
	expect(heap, FAKE_ARENA + FAKE_ARENA_SIZE, FAKE_ARENA + FAKE_ARENA_MOST, "reserved", FH_FREE);
	expect_live(heap, FAKE_MMAPPED, FAKE_MMAPPED_SIZE);

	check_figures(heap, found);
	glibc_allocator.destroy(found);
	fake_heap_deinit(heap);
	free(heap);
}

static void every_kind_of_chunk_2_31(void **state)
{
	(void)state;
	every_kind_of_chunk(FAKE_2_31);
}

static void every_kind_of_chunk_2_36(void **state)
{
	(void)state;
	every_kind_of_chunk(FAKE_2_36);
}

static void every_kind_of_chunk_2_43(void **state)
{
	(void)state;
	every_kind_of_chunk(FAKE_2_43);
}

/* The words of a bin lie in two runs, or in two windows of a core. */
static void divided_bins(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2 * 17; i++) {
		struct fake_heap *heap = malloc(sizeof(*heap));
		void *found;

		fake_heap_init(heap, i % 2 ? FAKE_2_43 : FAKE_2_36);
		heap->split = heap->state + (i % 2 ? 24 : 112) + 126 * 16 + i / 2;
		found = walk(heap);
		assert_false(heap->target.damaged);
		glibc_allocator.destroy(found);
		fake_heap_deinit(heap);
		free(heap);
	}
}

static void aligned_mappings(void **state)
{
	(void)state;
	for (enum fake_flavour flavour = 0; flavour < FAKE_FLAVOURS; flavour++)
		for (unsigned bit = 6; bit <= 13; bit++) {
			struct fake_heap *heap = malloc(sizeof(*heap));
			uint64_t offset = (UINT64_C(1) << bit) - 16;
			void *found;

			fake_heap_init(heap, flavour);
			fake_heap_mmapped(heap, offset);
			found = walk(heap);
			assert_false(heap->target.damaged);
			expect(heap, FAKE_MMAPPED, FAKE_MMAPPED + offset, "chunk header / before an aligned chunk",
			       FH_OVERHEAD);
			expect_live(heap, FAKE_MMAPPED + offset, FAKE_MMAPPED_SIZE - offset);
			glibc_allocator.destroy(found);
			fake_heap_deinit(heap);
			free(heap);
		}
}

/* mremap keeps an aligned chunk's distance from the start of its mapping, and the alignment is lost. A stale header at
 * the start, of a chunk that went on into the next mapping, must not hide it. */
static void moved_aligned_mapping(void **state)
{
	uint64_t offset = 0x3000 - 16; /* no alignment puts the first chunk there */

	(void)state;
	for (enum fake_flavour flavour = 0; flavour < FAKE_FLAVOURS; flavour++) {
		struct fake_heap *heap = malloc(sizeof(*heap));
		void *found;

		fake_heap_init(heap, flavour);
		fake_heap_mmapped(heap, offset);
		fake_heap_put(heap, FAKE_MMAPPED, 0);
		fake_heap_put(heap, FAKE_MMAPPED + 8, 0x3000 | 2);
		found = walk(heap);
		assert_false(heap->target.damaged);
		expect(heap, FAKE_MMAPPED, FAKE_MMAPPED + offset, "chunk header / before an aligned chunk",
		       FH_OVERHEAD);
		expect_live(heap, FAKE_MMAPPED + offset, FAKE_MMAPPED_SIZE - offset);
		glibc_allocator.destroy(found);
		fake_heap_deinit(heap);
		free(heap);
	}
}

/* A mapping that the main arena had in brk's place before: nothing points at it, two or three headers close it. */
static void regions_left_behind(void **state)
{
	(void)state;
	for (unsigned posts = 2; posts <= 3; posts++) {
		struct fake_heap *heap = malloc(sizeof(*heap));
		uint64_t end = FAKE_MMAPPED + FAKE_MMAPPED_SIZE - 16 * posts;
		void *found;

		fake_heap_init(heap, FAKE_2_36);
		fake_heap_put(heap, heap->state, UINT64_C(2) << 32); /* flags: NONCONTIGUOUS */
		fake_heap_put(heap, FAKE_MMAPPED + 8, 0x1000 | 1);
		fake_heap_put(heap, FAKE_MMAPPED + 0x1008, 0x2000 | 1);
		fake_heap_put(heap, FAKE_MMAPPED + 0x3008, (end - FAKE_MMAPPED - 0x3000) | 1);
		for (uint64_t at = end; at < FAKE_MMAPPED + FAKE_MMAPPED_SIZE; at += 16)
			fake_heap_put(heap, at + 8, 16 | 1);
		fake_heap_to_bin(heap, FAKE_MMAPPED + 0x1000, 100);
		found = walk(heap);
		assert_false(heap->target.damaged);
		expect_live(heap, FAKE_MMAPPED, 0x1000);
		expect(heap, FAKE_MMAPPED + 0x1000, FAKE_MMAPPED + 0x3000, "free chunk / large", FH_FREE);
		expect_live(heap, FAKE_MMAPPED + 0x3000, end - FAKE_MMAPPED - 0x3000);
		expect(heap, end, FAKE_MMAPPED + FAKE_MMAPPED_SIZE, "chunk header / fencepost", FH_OVERHEAD);
		glibc_allocator.destroy(found);
		fake_heap_deinit(heap);
		free(heap);
	}
}

/* What only looks like a mapping's header, and is not counted by mp_, is none. */
static void headers_by_chance(void **state)
{
	struct fake_heap *heap = malloc(sizeof(*heap));
	void *found;

	(void)state;
	fake_heap_init(heap, FAKE_2_36);
	fake_heap_put(heap, FAKE_MMAPPED + 0x1008, 0x1000 | 2);
	found = walk(heap);
	expect(heap, FAKE_MMAPPED, FAKE_MMAPPED + FAKE_MMAPPED_SIZE, "dark", FH_MAPPED);
	assert_int_equal(heap->fake.source.warnings.len, 0);
	glibc_allocator.destroy(found);
	fake_heap_deinit(heap);
	free(heap);
}

static void nothing_there(void **state)
{
	struct fake_heap *heap = malloc(sizeof(*heap));
	void *found = NULL;

	(void)state;
	fake_heap_init(heap, FAKE_2_36);
	memset(heap->data, 0, sizeof(heap->data));
	fake_heap_finish(heap);
	memset(heap->data, 0, sizeof(heap->data));
	assert_null(glibc_allocator.probe(&heap->target, &found));
	assert_null(found);
	fake_heap_deinit(heap);
	free(heap);
}

/* ---- damaged heaps ------------------------------------------------------------------------ */

struct row { /* forty live chunks of 80 bytes, every fourth of them free in its small bin */
	struct fake_heap heap;
	uint64_t chunks[40];
	void *found;
};

static struct row *make_row(enum fake_flavour flavour)
{
	struct row *row = calloc(1, sizeof(*row));

	fake_heap_init(&row->heap, flavour);
	for (unsigned i = 0; i < 40; i++)
		row->chunks[i] = fake_heap_chunk(&row->heap, 80);
	for (unsigned i = 0; i < 40; i += 4)
		fake_heap_to_bin(&row->heap, row->chunks[i], FAKE_SMALL(80));
	return row;
}

static void free_row(struct row *row)
{
	glibc_allocator.destroy(row->found);
	fake_heap_deinit(&row->heap);
	free(row);
}

static void expect_chunk(struct row *row, unsigned i)
{
	if (i % 4)
		expect_live(&row->heap, row->chunks[i], 80);
	else
		expect(&row->heap, row->chunks[i], row->chunks[i] + 80, "free chunk / small 80", FH_FREE);
}

/* All but a hole of chunks [first, last]. */
static void expect_others(struct row *row, unsigned first, unsigned last)
{
	for (unsigned i = 0; i < 40; i++)
		if (i < first || i > last)
			expect_chunk(row, i);
	expect(&row->heap, row->heap.brk_at, FAKE_BRK + FAKE_BRK_SIZE, "top", FH_FREE);
}

static void smashed_sizes(void **state)
{
	static const uint64_t sizes[] = { 0, 1, 0x11, 0x4141414141414141, UINT64_MAX, 0x53, 0x100001, 0x59, 1u << 20 };

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct row *row = make_row(FAKE_2_36);

		fake_heap_put(&row->heap, row->chunks[21] + 8, sizes[i]);
		row->found = walk(&row->heap);
		expect_damage(&row->heap, row->chunks[21]);
		expect_others(row, 21, 21);
		expect(&row->heap, row->chunks[21], row->chunks[22], "dark / in a damaged heap", FH_MAPPED);
		free_row(row);
	}
}

/* A size that is sound but takes in what follows: a chunk of a list tells. */
static void swallowed_chunks(void **state)
{
	struct row *row = make_row(FAKE_2_36);

	(void)state;
	fake_heap_put(&row->heap, row->chunks[22] + 8, (5 * 80) | 1);
	row->found = walk(&row->heap);
	expect_damage(&row->heap, row->chunks[22]);
	expect_others(row, 22, 22);
	free_row(row);
}

static void smashed_links(void **state)
{
	(void)state;
	for (unsigned link = 16; link <= 24; link += 8)
		for (unsigned to = 0; to < 4; to++) {
			struct row *row = make_row(FAKE_2_31);
			const uint64_t targets[] = { row->chunks[20], row->chunks[24] + 8, 0, row->chunks[39] };

			fake_heap_put(&row->heap, row->chunks[20] + link, targets[to]);
			row->found = walk(&row->heap);
			assert_true(row->heap.target.damaged);
			/* they are free by their neighbours' word, whatever became of the list */
			for (unsigned i = 0; i < 40; i++) {
				struct block block;

				if (i % 4)
					expect_chunk(row, i);
				assert_true(ledger_find(row->heap.target.ledger, row->chunks[i], &block));
				assert_int_equal(block.start, row->chunks[i]);
				assert_int_equal(ledger_category_of(row->heap.target.ledger, block.category)->state,
						 i % 4 ? FH_LIVE : FH_FREE);
			}
			free_row(row);
		}
}

/* Lists that are linked one way: a circle, and a link into nowhere. */
static void circles(void **state)
{
	(void)state;
	for (enum fake_flavour flavour = 0; flavour < FAKE_FLAVOURS; flavour++) {
		struct row *row = make_row(flavour);
		uint64_t link = row->chunks[1] + 16, target = row->chunks[3] + 16;

		for (unsigned i = 1; i < 4; i++)
			fake_heap_to_tcache(&row->heap, row->chunks[i]);
		fake_heap_put(&row->heap, link, flavour == FAKE_2_31 ? target : link >> 12 ^ target);
		row->found = walk(&row->heap);
		expect_damage(&row->heap, row->chunks[1]);
		for (unsigned i = 1; i < 4; i++)
			expect(&row->heap, row->chunks[i], row->chunks[i] + 80, "free chunk / tcache 80", FH_FREE);
		for (unsigned i = 4; i < 40; i++)
			expect_chunk(row, i);
		free_row(row);
	}
}

static void smashed_top(void **state)
{
	static const uint64_t sizes[] = { 0, 0x4141414141414141, UINT64_MAX, 0x21 };

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct row *row = make_row(FAKE_2_43);

		fake_heap_finish(&row->heap);
		fake_heap_put(&row->heap, row->heap.brk_at + 8, sizes[i]);
		assert_null(glibc_allocator.probe(&row->heap.target, &row->found));
		assert_null(glibc_allocator.carve(&row->heap.target, row->found));
		assert_true(ledger_balances(row->heap.target.ledger, row->heap.fake.source.os_virtual));
		expect_damage(&row->heap, row->heap.brk_at);
		expect_others(row, 40, 40);
		free_row(row);
	}
}

/* The pointer to top leads elsewhere: the walk finds the end by itself. */
static void lost_top(void **state)
{
	struct row *row = make_row(FAKE_2_36);

	(void)state;
	fake_heap_finish(&row->heap);
	fake_heap_put(&row->heap, row->heap.state + 96, row->chunks[7] + 16);
	assert_null(glibc_allocator.probe(&row->heap.target, &row->found));
	assert_null(glibc_allocator.carve(&row->heap.target, row->found));
	assert_true(ledger_balances(row->heap.target.ledger, row->heap.fake.source.os_virtual));
	for (unsigned i = 0; i < 40; i++)
		expect_chunk(row, i);
	free_row(row);
}

/* The ring of arenas does not lead back: the main arena is walked all the same. */
static void broken_ring(void **state)
{
	(void)state;
	for (enum fake_flavour flavour = 0; flavour < FAKE_FLAVOURS; flavour++) {
		struct row *row = make_row(flavour);

		fake_heap_put(&row->heap, row->heap.arena_state + (flavour == FAKE_2_43 ? 2072 : 2160),
			      0x4141414141414140);
		row->found = walk(&row->heap);
		assert_true(row->heap.target.damaged);
		expect_others(row, 40, 40);
		expect(&row->heap, row->heap.arena_at, FAKE_ARENA + FAKE_ARENA_SIZE, "top", FH_FREE);
		free_row(row);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_of_chunk_2_31),
		cmocka_unit_test(every_kind_of_chunk_2_36),
		cmocka_unit_test(every_kind_of_chunk_2_43),
		cmocka_unit_test(divided_bins),
		cmocka_unit_test(aligned_mappings),
		cmocka_unit_test(moved_aligned_mapping),
		cmocka_unit_test(regions_left_behind),
		cmocka_unit_test(headers_by_chance),
		cmocka_unit_test(nothing_there),
		cmocka_unit_test(smashed_sizes),
		cmocka_unit_test(swallowed_chunks),
		cmocka_unit_test(smashed_links),
		cmocka_unit_test(circles),
		cmocka_unit_test(smashed_top),
		cmocka_unit_test(lost_top),
		cmocka_unit_test(broken_ring),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
