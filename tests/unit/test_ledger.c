/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger against a model: an array that holds the category of every byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ledger/ledger.h"

#define BASE UINT64_C(0x7f0000000000)
#define SIZE 4096u

struct fixture {
	struct strings *strings;
	struct ledger *ledger;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->strings = strings_create();
	assert_null(ledger_create(f->strings, &f->ledger));
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	ledger_destroy(f->ledger);
	strings_destroy(f->strings);
	free(f);
	return 0;
}

static category_id numbered(struct ledger *ledger, unsigned n)
{
	char kind[32];

	snprintf(kind, sizeof(kind), "kind %u", n);
	return ledger_category(ledger, &(struct category){ .domain = "test", .kind = kind, .detail = "" });
}

static void equal_categories_are_one(void **state)
{
	struct fixture *f = *state;
	struct category c = { .domain = "a", .kind = "b", .detail = "c", .head = 16 };
	category_id first = ledger_category(f->ledger, &c);

	assert_int_not_equal(first, 0);
	assert_int_equal(ledger_category(f->ledger, &c), first);
	c.head = 0;
	assert_int_not_equal(ledger_category(f->ledger, &c), first);
	for (unsigned i = 0; i < 5000; i++)
		numbered(f->ledger, i);
	for (unsigned i = 0; i < 5000; i++) {
		char kind[32];

		snprintf(kind, sizeof(kind), "kind %u", i);
		assert_string_equal(ledger_category_of(f->ledger, numbered(f->ledger, i))->kind, kind);
	}
}

/* Reads the ledger back into an array and compares; checks find() on the way. */
static void check_against(struct ledger *ledger, const uint32_t *model)
{
	struct ledger_cursor cursor = { 0 };
	struct block block, found;
	uint64_t reached = BASE;

	assert_true(ledger_balances(ledger, SIZE));
	while (ledger_next(ledger, &cursor, &block)) {
		assert_int_equal(block.start, reached);
		reached = block.end;
		for (uint64_t at = block.start; at < block.end; at++)
			assert_int_equal(model[at - BASE], block.category);
		assert_true(ledger_find(ledger, block.start + (block.end - block.start) / 2, &found));
		assert_int_equal(found.slot, block.slot);
		assert_int_equal(found.start, block.start);
		assert_int_equal(found.end, block.end);
	}
	assert_int_equal(reached, BASE + SIZE);
}

/* Carves random ranges, also several in one commit, that don't overlap among themselves. */
static void carving_keeps_a_partition(void **state)
{
	struct fixture *f = *state;
	struct ledger *ledger = f->ledger;
	static uint32_t model[SIZE];

	srand(1);
	for (uint64_t at = 0; at < SIZE; at += SIZE / 4)
		ledger_add_mapping(ledger, BASE + at, BASE + at + SIZE / 4, 0);
	for (unsigned round = 0; round < 300; round++) {
		uint64_t at = (uint64_t)rand() % 64;

		while (at < SIZE - 1) {
			uint64_t end = at + 1 + (uint64_t)rand() % 200;

			if (end > SIZE)
				end = SIZE;
			ledger_carve_begin(ledger, BASE + at, BASE + end);
			for (uint64_t block = at; block < end; block += 1 + (uint64_t)rand() % 40) {
				category_id id = numbered(ledger, (unsigned)rand() % 50);

				ledger_carve_add(ledger, BASE + block, id);
				for (uint64_t i = block; i < end; i++)
					model[i] = id;
			}
			ledger_carve_end(ledger);
			at = end + (uint64_t)rand() % 1500;
		}
		assert_null(ledger_commit(ledger));
		check_against(ledger, model);
	}
	assert_int_equal(ledger->refused, 0);
}

static void overlaps_and_strays_are_refused(void **state)
{
	struct fixture *f = *state;
	struct ledger *ledger = f->ledger;
	struct block block;
	category_id one = numbered(ledger, 1), two = numbered(ledger, 2);

	ledger_add_mapping(ledger, BASE, BASE + SIZE, 0);
	ledger_carve(ledger, BASE + 100, BASE + 200, one);
	ledger_carve(ledger, BASE + 150, BASE + 250, two);		/* overlaps the first */
	ledger_carve(ledger, BASE + SIZE - 10, BASE + SIZE + 10, two); /* reaches outside */
	ledger_carve(ledger, 0, 100, two);				/* nothing is there */
	assert_null(ledger_commit(ledger));
	assert_int_equal(ledger->refused, 3);
	assert_true(ledger_balances(ledger, SIZE));
	assert_true(ledger_find(ledger, BASE + 160, &block));
	assert_int_equal(block.category, one);
	assert_true(ledger_find(ledger, BASE + 220, &block));
	assert_int_equal(block.category, 0);
	assert_false(ledger_find(ledger, BASE + SIZE, &block));
	assert_false(ledger_find(ledger, BASE - 1, &block));
}

/* Offsets have 32 bits: blocks that start beyond 4 GiB of a carving need another extent. */
static void huge_ranges_work(void **state)
{
	struct fixture *f = *state;
	struct ledger *ledger = f->ledger;
	uint64_t gib = UINT64_C(1) << 30, size = 20 * gib;
	struct block block;

	ledger_add_mapping(ledger, BASE, BASE + size, 0);
	ledger_carve_begin(ledger, BASE, BASE + size);
	for (uint64_t at = 0; at < size; at += gib)
		ledger_carve_add(ledger, BASE + at, numbered(ledger, (unsigned)(at / gib)));
	ledger_carve_end(ledger);
	assert_null(ledger_commit(ledger));
	assert_true(ledger_balances(ledger, size));
	for (uint64_t at = 0; at < size; at += gib) {
		assert_true(ledger_find(ledger, BASE + at + gib / 2, &block));
		assert_int_equal(block.start, BASE + at);
		assert_int_equal(block.category, numbered(ledger, (unsigned)(at / gib)));
	}
}

static void cursor_starts_where_asked(void **state)
{
	struct fixture *f = *state;
	struct ledger *ledger = f->ledger;
	struct ledger_cursor cursor;
	struct block block;

	ledger_add_mapping(ledger, BASE, BASE + 100, 0);
	ledger_add_mapping(ledger, BASE + 200, BASE + 300, 0);
	ledger_carve(ledger, BASE + 50, BASE + 60, numbered(ledger, 1));
	assert_null(ledger_commit(ledger));
	cursor = ledger_cursor_at(ledger, BASE + 55);
	assert_true(ledger_next(ledger, &cursor, &block));
	assert_int_equal(block.start, BASE + 50);
	cursor = ledger_cursor_at(ledger, BASE + 150);
	assert_true(ledger_next(ledger, &cursor, &block));
	assert_int_equal(block.start, BASE + 200);
	assert_false(ledger_next(ledger, &cursor, &block));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(equal_categories_are_one, setup, teardown),
		cmocka_unit_test_setup_teardown(carving_keeps_a_partition, setup, teardown),
		cmocka_unit_test_setup_teardown(overlaps_and_strays_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(huge_ranges_work, setup, teardown),
		cmocka_unit_test_setup_teardown(cursor_starts_where_asked, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
