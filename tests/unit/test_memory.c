/* SPDX-License-Identifier: Apache-2.0 */
/* Runs, zero pages and the window cache of source/memory.h; ranges; the warnings of a source. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/ranges.h"
#include "source/memory.h"
#include "source/source.h"

#define BASE UINT64_C(0x7f0000000000)

/* What a lazy run holds: a word that depends on its address. */
static uint64_t word_at(uint64_t address)
{
	return address * UINT64_C(0x9e3779b97f4a7c15);
}

struct filler {
	uint64_t unreadable_from;
	unsigned calls;
	uint64_t bytes;
};

static size_t fill(void *context, uint64_t address, uint64_t offset, void *buffer, size_t len)
{
	struct filler *filler = context;

	(void)offset;
	filler->calls++;
	filler->bytes += len;
	if (address >= filler->unreadable_from)
		return 0;
	if (address + len > filler->unreadable_from)
		len = filler->unreadable_from - address;
	for (size_t i = 0; i < len; i += 8) {
		uint64_t word = word_at(address + i);

		memcpy((char *)buffer + i, &word, 8);
	}
	return len;
}

static void direct_and_zero(void **state)
{
	static uint8_t bytes[8192];
	uint8_t buffer[100], zeros[100] = { 0 };
	struct memory memory;

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7);
	memory_init(&memory);
	assert_true(memory_add_zero(&memory, BASE + 8192, BASE + 16384)); /* in any order */
	assert_true(memory_add_direct(&memory, BASE, BASE + 4096, bytes));
	assert_true(memory_add_direct(&memory, BASE + 4096, BASE + 8192, bytes + 4096));
	assert_null(memory_seal(&memory, 0));
	assert_ptr_equal(memory_get(&memory, BASE + 4090, 20, buffer), bytes + 4090);
	assert_memory_equal(memory_get(&memory, BASE + 9000, 100, buffer), zeros, 100);
	/* across the border: gathered */
	assert_ptr_equal(memory_get(&memory, BASE + 8142, 100, buffer), buffer);
	assert_memory_equal(buffer, bytes + 8142, 50);
	assert_memory_equal(buffer + 50, zeros, 50);
	/* beyond the end, before the start */
	assert_null(memory_get(&memory, BASE + 16383, 2, buffer));
	assert_null(memory_get(&memory, BASE - 1, 1, buffer));
	assert_int_equal(memory_read(&memory, BASE + 16380, buffer, 100), 4);
	memory_deinit(&memory);
}

static void cache_is_bounded_and_right(void **state)
{
	uint64_t size = UINT64_C(64) << 20; /* 1024 windows in 64 slots */
	struct filler filler = { .unreadable_from = BASE + size - 4096 };
	struct memory memory;
	uint64_t scratch;
	uint32_t backing;

	(void)state;
	memory_init(&memory);
	backing = memory_add_backing(&memory, fill, NULL, &filler);
	assert_true(memory_add_lazy(&memory, BASE, BASE + size, backing, 0));
	assert_null(memory_seal(&memory, 0));
	assert_int_equal(memory.n_slots, 64);
	srand(2);
	for (unsigned i = 0; i < 200000; i++) {
		uint64_t at = BASE + ((uint64_t)rand() * 8) % (size - 4096);
		const uint64_t *p = memory_get(&memory, at, 8, &scratch);

		assert_non_null(p);
		assert_int_equal(*p, word_at(at));
	}
	filler.calls = 0;
	assert_null(memory_get(&memory, BASE + size - 8, 8, &scratch));
	for (unsigned i = 0; i < 100; i++)
		assert_non_null(memory_get(&memory, BASE + 8 * i, 8, &scratch));
	assert_true(filler.calls <= 4); /* a page, then the window, of either */
	memory_deinit(&memory);
}

/* What was used lately is found without a look-up: only its own addresses, and only as long as it is there. */
static void recent_windows_are_not_mistaken(void **state)
{
	uint64_t size = UINT64_C(64) << 20, scratch;
	struct filler filler = { .unreadable_from = BASE + size };
	struct memory memory;
	uint32_t backing;

	(void)state;
	memory_init(&memory);
	backing = memory_add_backing(&memory, fill, NULL, &filler);
	/* A run that begins in the middle of a window's worth of addresses, another behind a gap. */
	assert_true(memory_add_lazy(&memory, BASE + 0x5000, BASE + 0x25000, backing, 0));
	assert_true(memory_add_lazy(&memory, BASE + 0x27000, BASE + size, backing, 0));
	assert_null(memory_seal(&memory, 0));
	for (unsigned i = 0; i < 3; i++) /* the first window, but not by the place of the lowest addresses */
		assert_int_equal(memory_read(&memory, BASE + 0x10000 + 0x1000 * i, &scratch, 8), 8);
	assert_int_equal(memory_read(&memory, 0x100, &scratch, 8), 0);
	for (unsigned round = 0; round < 3; round++) {
		for (uint64_t at = BASE; at < BASE + 0x2a000; at += 0x800) {
			bool there = (at >= BASE + 0x5000 && at < BASE + 0x25000) || at >= BASE + 0x27000;

			assert_int_equal(memory_read(&memory, at, &scratch, 8), there ? 8 : 0);
			assert_true(!there || scratch == word_at(at));
		}
		assert_int_equal(memory_read(&memory, 0x100, &scratch, 8), 0);
		for (uint64_t at = BASE + 0x30000; at < BASE + size; at += 0x8000) /* what was recent goes */
			assert_true(memory_read(&memory, at, &scratch, 8) == 8 && scratch == word_at(at));
	}
	memory_deinit(&memory);
}

/* A pointer is still good after 16 further windows were used. */
static void pointers_outlive_sixteen_windows(void **state)
{
	uint64_t size = UINT64_C(64) << 20;
	struct filler filler = { .unreadable_from = UINT64_MAX };
	struct memory memory;
	uint32_t backing;
	size_t span;

	(void)state;
	memory_init(&memory);
	backing = memory_add_backing(&memory, fill, NULL, &filler);
	assert_true(memory_add_lazy(&memory, BASE, BASE + size, backing, 0));
	assert_null(memory_seal(&memory, 0));
	for (unsigned first = 0; first < 1000; first++) {
		const uint64_t *held = memory_span(&memory, BASE + (uint64_t)first * MEMORY_WINDOW, &span);

		assert_non_null(held);
		for (unsigned i = 1; i <= 16; i++)
			memory_span(&memory, BASE + (uint64_t)((first * 31 + i * 57) % 1024) * MEMORY_WINDOW, &span);
		assert_int_equal(*held, word_at(BASE + (uint64_t)first * MEMORY_WINDOW));
	}
	memory_deinit(&memory);
}

/* Short reads all over the place fetch pages; those that go on in one window fetch it. */
static void lone_reads_fetch_pages(void **state)
{
	uint64_t size = UINT64_C(64) << 20;
	struct filler filler = { .unreadable_from = UINT64_MAX };
	struct memory memory;
	uint64_t scratch, word;
	uint32_t backing;

	(void)state;
	memory_init(&memory);
	backing = memory_add_backing(&memory, fill, NULL, &filler);
	assert_true(memory_add_lazy(&memory, BASE, BASE + size, backing, 0));
	assert_null(memory_seal(&memory, 0));
	for (unsigned i = 0; i < 500; i++) { /* two words of each of 500 pages, each in another window */
		uint64_t at = BASE + (uint64_t)i * 2 * MEMORY_WINDOW + (i % 16) * MEMORY_PAGE;

		assert_int_equal(*(const uint64_t *)memory_get(&memory, at, 8, &scratch), word_at(at));
		assert_int_equal(memory_read(&memory, at + 4088, &word, 8), 8);
		assert_int_equal(word, word_at(at + 4088));
	}
	assert_int_equal(filler.calls, 500);
	assert_int_equal(filler.bytes, 500 * MEMORY_PAGE);
	for (unsigned i = 0; i < 16; i++) /* a page, then all of the window */
		assert_non_null(memory_get(&memory, BASE + MEMORY_WINDOW + i * MEMORY_PAGE, 8, &scratch));
	assert_int_equal(filler.calls, 502);
	memory_deinit(&memory);
}

static void overlapping_runs_are_cut(void **state)
{
	static const uint8_t a[4096] = { [0 ... 4095] = 1 }, b[8192] = { [0 ... 8191] = 2 };
	struct memory memory;
	uint8_t scratch[8];

	(void)state;
	memory_init(&memory);
	assert_true(memory_add_direct(&memory, BASE + 2048, BASE + 2048 + 8192, b));
	assert_true(memory_add_direct(&memory, BASE, BASE + 4096, a));
	assert_true(memory_add_direct(&memory, BASE + 512, BASE + 1024, b));
	assert_null(memory_seal(&memory, 0));
	assert_int_equal(*(const uint8_t *)memory_get(&memory, BASE + 600, 1, scratch), 1);
	assert_int_equal(*(const uint8_t *)memory_get(&memory, BASE + 4095, 1, scratch), 1);
	assert_int_equal(*(const uint8_t *)memory_get(&memory, BASE + 4096, 1, scratch), 2);
	assert_int_equal(*(const uint8_t *)memory_get(&memory, BASE + 10239, 1, scratch), 2);
	assert_null(memory_get(&memory, BASE + 10240, 1, scratch));
	memory_deinit(&memory);
}

/* Another run begins in the last 2 MiB of one that is too large to be indexed whole. */
static void giants_are_readable_to_their_end(void **state)
{
	uint64_t giant = (UINT64_C(1) << 38) + 65536;
	struct filler filler = { .unreadable_from = UINT64_MAX };
	struct memory memory;
	uint64_t scratch;
	uint32_t backing;

	(void)state;
	memory_init(&memory);
	backing = memory_add_backing(&memory, fill, NULL, &filler);
	assert_true(memory_add_lazy(&memory, BASE, BASE + giant, backing, 0));
	assert_true(memory_add_lazy(&memory, BASE + giant, BASE + giant + 65536, backing, 0));
	assert_null(memory_seal(&memory, 0));
	for (uint64_t at = BASE + giant - 65536; at < BASE + giant + 65536; at += 8)
		assert_int_equal(*(const uint64_t *)memory_get(&memory, at, 8, &scratch), word_at(at));
	assert_int_equal(*(const uint64_t *)memory_get(&memory, BASE + giant / 2, 8, &scratch), word_at(BASE + giant / 2));
	memory_deinit(&memory);
}

static void ranges_count_what_is_inside(void **state)
{
	struct ranges set = { 0 };
	size_t cursor = 0;
	uint64_t sum = 0;

	(void)state;
	assert_true(ranges_append(&set, 100, 200));
	assert_true(ranges_append(&set, 200, 250)); /* touches: one range */
	assert_true(ranges_append(&set, 300, 300)); /* empty */
	assert_true(ranges_append(&set, 400, 500));
	assert_int_equal(set.v.len, 2);
	assert_int_equal(ranges_count(&set, 0, 1000), 250);
	assert_int_equal(ranges_count(&set, 150, 450), 150);
	assert_int_equal(ranges_count(&set, 250, 400), 0);
	for (uint64_t at = 0; at < 600; at += 7)
		sum += ranges_count_next(&set, &cursor, at, at + 7);
	assert_int_equal(sum, 250);
	ranges_deinit(&set);
}

static void warnings_are_bounded(void **state)
{
	static const struct source_ops ops = { .name = "none" };
	struct source source;

	(void)state;
	assert_null(source_init(&source, &ops));
	for (unsigned i = 0; i < 100000; i++)
		source_warn(&source, "number %u", i / 2);
	assert_int_equal(source.warnings.len, 200);
	assert_string_equal(source.warnings.items[198], "number 198");
	assert_non_null(strstr(source.warnings.items[199], "more warnings"));
	source_deinit(&source);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(direct_and_zero),
		cmocka_unit_test(cache_is_bounded_and_right),
		cmocka_unit_test(recent_windows_are_not_mistaken),
		cmocka_unit_test(pointers_outlive_sixteen_windows),
		cmocka_unit_test(lone_reads_fetch_pages),
		cmocka_unit_test(overlapping_runs_are_cut),
		cmocka_unit_test(giants_are_readable_to_their_end),
		cmocka_unit_test(ranges_count_what_is_inside),
		cmocka_unit_test(warnings_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
