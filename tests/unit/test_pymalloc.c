/* SPDX-License-Identifier: Apache-2.0 */
/* Arenas written by hand, sound and damaged: what is divided, what is told, and that it stays a partition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "census/census.h"
#include "fake_target.h"
#include "runtime/cpython/internal.h"

#define IMAGE UINT64_C(0x7f0000000000)
#define TABLE UINT64_C(0x7f1000000000) /* the array of arena_objects */
#define LARGE (64u << 20) /* bytes of an array with room for more entries than are looked at */
#define ARENA UINT64_C(0x7f2000000000)
#define ARENA_BYTES (256u << 10) /* as in 2.7 to 3.9: 64 pools of 4 KiB */
#define POOL 4096u
#define HEADER 48u
#define READ_WRITE (MAPPING_READ | MAPPING_WRITE)

struct pool_header {
	uint32_t count, padding;
	uint64_t freeblock, nextpool, prevpool;
	uint32_t arenaindex, szidx, nextoffset, maxnextoffset;
};

struct arena_object {
	uint64_t address, pool_address;
	uint32_t nfreepools, ntotalpools;
	uint64_t freepools, nextarena, prevarena;
};

struct fixture {
	uint64_t readable, unreadable; /* a part of the arena that can't be read; 0, 0: all can */
	struct fake_elf elf;
	_Alignas(8) uint8_t table[2 * PAGE], arena[ARENA_BYTES + PAGE];
	uint8_t *large; /* in place of `table`; NULL: not */
	struct fake_source fake;
	struct target target;
	struct cpython py;
};

static struct arena_object *entry(struct fixture *f, uint32_t i)
{
	return (struct arena_object *)f->table + i;
}

static struct pool_header *pool(struct fixture *f, uint32_t i)
{
	return (struct pool_header *)(f->arena + i * POOL);
}

static uint64_t block_at(uint32_t pool_number, uint32_t i, uint32_t size)
{
	return ARENA + pool_number * POOL + HEADER + i * size;
}

/* Puts a block in front of a pool's free list. */
static void free_block(struct fixture *f, uint32_t number, uint32_t i)
{
	struct pool_header *p = pool(f, number);
	uint32_t offset = number * POOL + HEADER + i * (p->szidx + 1) * 16;

	memcpy(f->arena + offset, &p->freeblock, 8);
	p->freeblock = ARENA + offset;
	p->count--;
}

/* A pool of blocks of `size` bytes, of which the first `used` were given out. */
static void write_pool(struct fixture *f, uint32_t number, uint32_t size, uint32_t used)
{
	*pool(f, number) = (struct pool_header){
		.count = used, .szidx = size / 16 - 1, .nextoffset = HEADER + used * size,
		.maxnextoffset = POOL - size,
	};
}

/* Three used pools, one that became free, and the rest never used. */
static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	uint64_t table = TABLE;

	fake_source_init(&f->fake);
	fake_elf_write(&f->elf, FAKE_GNU_HASH);
	memcpy(f->elf.bytes + 3 * PAGE + 0x400, &table, 8); /* the static variable `arenas`, in data */
	*entry(f, 0) = (struct arena_object){ .address = ARENA, .pool_address = ARENA + 4 * POOL,
					      .nfreepools = 61, .ntotalpools = 64 };
	write_pool(f, 0, 64, 63);
	write_pool(f, 1, 512, 5);
	write_pool(f, 2, 16, 10);
	pool(f, 3)->szidx = 3;
	free_block(f, 0, 7);
	free_block(f, 0, 3);
	*state = f;
	return 0;
}

static void map_arena(struct fixture *f)
{
	uint64_t end = ARENA + sizeof(f->arena);

	if (!f->unreadable) {
		fake_mapping(&f->fake, ARENA, end, READ_WRITE, 0, 0, "", f->arena);
		return;
	}
	if (f->unreadable > ARENA)
		fake_mapping(&f->fake, ARENA, f->unreadable, READ_WRITE, 0, 0, "", f->arena);
	fake_mapping(&f->fake, f->unreadable, f->readable, READ_WRITE, 0, 0, "", NULL);
	fake_mapping(&f->fake, f->readable, end, READ_WRITE, 0, 0, "", f->arena + (f->readable - ARENA));
}

static void run(struct fixture *f)
{
	struct target *target = &f->target;

	fake_elf_map(&f->fake, &f->elf, IMAGE, 10, "/lib/libpython.so", FAKE_END);
	fake_mapping(&f->fake, TABLE, TABLE + (f->large ? LARGE : sizeof(f->table)), READ_WRITE, 0, 0, "",
		     f->large ? f->large : f->table);
	map_arena(f);
	fake_source_seal(&f->fake);
	target->source = &f->fake.source;
	assert_null(images_load(target->source, &target->images));
	assert_int_equal(target->images->v.len, 1);
	assert_null(ledger_create(target->source->strings, &target->ledger));
	assert_null(census_add_mappings(target));
	f->py.target = target;
	f->py.alone = f->py.known = true;
	f->py.image = target->images->v.items[0];
	f->py.flavour = "gil";
	assert_true(layout_find("cpython", "3.9", "gil", &f->py.layout));
	assert_null(pools_carve(&f->py));
	assert_null(ledger_commit(target->ledger));
	assert_int_equal(target->ledger->refused, 0);
	assert_true(ledger_balances(target->ledger, target->source->os_virtual));
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	vec_free(&f->py.arenas);
	ledger_destroy(f->target.ledger);
	images_destroy(f->target.images);
	fake_source_deinit(&f->fake);
	free(f->large);
	free(f);
	return 0;
}

static const struct category *category_at(struct fixture *f, uint64_t address, uint64_t size)
{
	struct block block;

	assert_true(ledger_find(f->target.ledger, address, &block));
	assert_int_equal(block.start, address);
	assert_int_equal(block.end - block.start, size);
	return ledger_category_of(f->target.ledger, block.category);
}

static void check(struct fixture *f, uint64_t address, uint64_t size, const char *kind)
{
	assert_string_equal(category_at(f, address, size)->kind, kind);
}

/* How many blocks of the arena are in a state. */
static uint32_t count(struct fixture *f, enum fh_state state)
{
	struct ledger_cursor cursor = ledger_cursor_at(f->target.ledger, ARENA);
	struct block block;
	uint32_t n = 0;

	while (ledger_next(f->target.ledger, &cursor, &block))
		n += block.start >= ARENA && block.start < ARENA + ARENA_BYTES &&
		     ledger_category_of(f->target.ledger, block.category)->state == state;
	return n;
}

/* ---- sound --------------------------------------------------------------------- */

static void sound_arena(void **state)
{
	struct fixture *f = *state;
	const struct category *c;

	run(f);
	assert_false(f->target.damaged);
	assert_int_equal(f->target.source->warnings.len, 0);
	assert_int_equal(f->py.arenas.len, 1);
	check(f, ARENA, HEADER, "pool header");
	c = category_at(f, block_at(0, 0, 64), 64);
	assert_string_equal(c->domain, "uncategorized");
	assert_string_equal(c->kind, "64 bytes");
	assert_true(c->unknown);
	c = category_at(f, block_at(0, 3, 64), 64);
	assert_string_equal(c->kind, "free block");
	assert_string_equal(c->detail, "64 bytes");
	check(f, block_at(0, 7, 64), 64, "free block");
	check(f, block_at(1, 4, 512), 512, "512 bytes");
	check(f, block_at(1, 5, 512), 512, "free block"); /* never given out */
	check(f, block_at(1, 7, 512), (POOL - HEADER) % 512, "pool tail");
	check(f, block_at(2, 9, 16), 16, "16 bytes");
	check(f, ARENA + 3 * POOL, POOL, "free pool");
	check(f, ARENA + 4 * POOL, 60 * POOL, "unused arena space");
	assert_int_equal(count(f, FH_LIVE), 61 + 5 + 10);
	assert_int_equal(count(f, FH_FREE), 2 + 2 + (POOL - HEADER) / 16 - 10 + 1 + 1);
}

/* Where an array has grown, entries without an arena come before and after. */
static void later_entry(void **state)
{
	struct fixture *f = *state;

	*entry(f, 5) = *entry(f, 0);
	memset(entry(f, 0), 0, sizeof(*entry(f, 0)));
	for (uint32_t i = 0; i < 4; i++)
		pool(f, i)->arenaindex = 5;
	run(f);
	assert_false(f->target.damaged);
	check(f, ARENA, HEADER, "pool header");
}

/* An arena that doesn't begin at a pool's border has one pool less, and gaps around. */
static void unaligned_arena(void **state)
{
	struct fixture *f = *state;

	memmove(f->arena + POOL, f->arena, 4 * POOL);
	memset(f->arena, 0, POOL);
	for (uint32_t i = 1; i < 4; i++) /* their lists were moved */
		pool(f, i)->freeblock = 0;
	pool(f, 1)->count = 63;
	*entry(f, 0) = (struct arena_object){ .address = ARENA + 16, .pool_address = ARENA + 5 * POOL,
					      .nfreepools = 60, .ntotalpools = 63 };
	run(f);
	assert_false(f->target.damaged);
	check(f, ARENA + 16, POOL - 16, "unused arena space");
	check(f, ARENA + POOL, HEADER, "pool header");
	check(f, ARENA + 5 * POOL, 59 * POOL, "unused arena space");
	check(f, ARENA + ARENA_BYTES, 16, "unused arena space");
}

static void blocks_of_eight(void **state)
{
	struct fixture *f = *state;

	for (uint32_t i = 0; i < 3; i++) /* the same sizes are twice the class */
		pool(f, i)->szidx = 2 * pool(f, i)->szidx + 1;
	run(f);
	assert_false(f->target.damaged);
	assert_int_equal(f->py.arenas.items[0].alignment, 8);
	check(f, block_at(0, 0, 64), 64, "64 bytes");
}

/* ---- damaged ---------------------------------------------------------------------- */

static void cyclic_list(void **state)
{
	struct fixture *f = *state;
	uint64_t first = pool(f, 0)->freeblock;

	memcpy(f->arena + HEADER + 7 * 64, &first, 8); /* the last one leads to the first */
	run(f);
	assert_true(f->target.damaged);
	check(f, block_at(0, 3, 64), 64, "free block");
	check(f, block_at(0, 7, 64), 64, "free block");
	assert_int_equal(count(f, FH_LIVE), 61 + 5 + 10);
}

static void wild_list(void **state)
{
	static const uint64_t wild[] = { 1, ARENA, ARENA + 8, ARENA + POOL, UINT64_MAX, IMAGE,
					 ARENA + HEADER + 64 + 16 /* inside a block */ };
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(wild) / sizeof(*wild); i++) {
		teardown(state);
		setup(state);
		f = *state;
		memcpy(f->arena + HEADER + 3 * 64, &wild[i], 8);
		run(f);
		assert_true(f->target.damaged);
		check(f, block_at(0, 3, 64), 64, "free block");
		check(f, block_at(0, 7, 64), 64, "64 bytes"); /* out of reach */
		check(f, block_at(1, 0, 512), 512, "512 bytes");
	}
}

/* The pool alone stays whole. */
static void wild_headers(void **state)
{
	for (int i = 0; i < 5; i++) {
		struct fixture *f;

		teardown(state);
		setup(state);
		f = *state;
		switch (i) {
		case 0: pool(f, 1)->szidx = 0xffff; break;
		case 1: pool(f, 1)->nextoffset = 0xfffffff0; break;
		case 2: pool(f, 1)->nextoffset = 8; break;
		case 3: pool(f, 1)->maxnextoffset = 0; break;
		case 4: pool(f, 1)->arenaindex = 9; break;
		}
		run(f);
		assert_true(f->target.damaged);
		check(f, ARENA + POOL, POOL, "damaged pool");
		check(f, block_at(0, 0, 64), 64, "64 bytes");
		check(f, block_at(2, 0, 16), 16, "16 bytes");
	}
}

/* The array's entry is no arena's: nothing is divided, and nothing said of what may be anything. */
static void wild_entries(void **state)
{
	for (int i = 0; i < 6; i++) {
		struct fixture *f;

		teardown(state);
		setup(state);
		f = *state;
		switch (i) {
		case 0: entry(f, 0)->address = TABLE; break;
		case 1: entry(f, 0)->address = UINT64_MAX - 8; break;
		case 2: entry(f, 0)->ntotalpools = 7; break;
		case 3: entry(f, 0)->nfreepools = 65; break;
		case 4: entry(f, 0)->pool_address = ARENA + 65 * POOL; break;
		case 5: pool(f, 0)->arenaindex = 3; break;
		}
		run(f);
		assert_int_equal(f->py.arenas.len, 0);
	}
}

/* One damaged entry costs its own arena. */
static void second_entry_wild(void **state)
{
	struct fixture *f = *state;

	*entry(f, 2) = *entry(f, 0);
	memset(entry(f, 0), 0, sizeof(*entry(f, 0)));
	for (uint32_t i = 0; i < 4; i++)
		pool(f, i)->arenaindex = 2;
	*entry(f, 1) = (struct arena_object){ .address = TABLE, .pool_address = TABLE + POOL, .nfreepools = 63,
					      .ntotalpools = 64 };
	run(f);
	assert_true(f->target.damaged);
	assert_int_equal(f->py.arenas.len, 1);
	check(f, ARENA, HEADER, "pool header");
}

static void counts_differ(void **state)
{
	struct fixture *f = *state;

	pool(f, 0)->count++;
	pool(f, 1)->count--;
	run(f);
	assert_true(f->target.damaged); /* there is no thread that could stand inside malloc */
	check(f, block_at(1, 4, 512), 512, "512 bytes");
}

/* As where pages are swapped out. */
static void unreadable_pool(void **state)
{
	struct fixture *f = *state;

	f->unreadable = ARENA + POOL;
	f->readable = ARENA + 2 * POOL;
	run(f);
	assert_true(f->target.damaged);
	check(f, block_at(0, 0, 64), 64, "64 bytes");
	check(f, ARENA + POOL, POOL, "damaged pool");
	check(f, block_at(2, 0, 16), 16, "16 bytes");
}

/* An arena whose first pool can't be read is taken when another one showed what arenas look like. */
static void unreadable_first_pool(void **state)
{
	struct fixture *f = *state;

	f->unreadable = ARENA;
	f->readable = ARENA + POOL;
	run(f);
	assert_int_equal(f->py.arenas.len, 0); /* there is no other one */
}

/* Arrays that each begin where an entry of another one is, most of a million entries long. */
static void arrays_in_arrays(void **state)
{
	struct fixture *f = *state;

	f->large = calloc(1, LARGE);
	assert_non_null(f->large);
	for (uint32_t i = 0; i < 16; i++) {
		uint64_t at = TABLE + i * sizeof(struct arena_object);

		memcpy(f->large + i * sizeof(struct arena_object), entry(f, 0), sizeof(struct arena_object));
		memcpy(f->elf.bytes + 3 * PAGE + 0x400 + i * 8, &at, 8);
	}
	run(f);
	assert_true(f->target.damaged);
	assert_non_null(strstr(f->target.source->warnings.items[0], "looks like arrays"));
	check(f, ARENA, HEADER, "pool header");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(sound_arena),   TEST(later_entry),	 TEST(unaligned_arena), TEST(blocks_of_eight),
		TEST(cyclic_list),   TEST(wild_list),	 TEST(wild_headers),	TEST(wild_entries),
		TEST(second_entry_wild), TEST(counts_differ), TEST(unreadable_pool),
		TEST(unreadable_first_pool), TEST(arrays_in_arrays),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
