/* SPDX-License-Identifier: Apache-2.0 */
/* Layout tables: each layout is one slice, and Perl's have the sizes and offsets that were measured in other ways. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "layout/layout.h"

#define LEN(array) (sizeof(array) / sizeof(*(array)))
#define SV_SIZE 24

/* From the headers and live processes of each version, by programs that don't share a line with tools/layouts. */
static const struct interpreter_facts {
	const char *version;
	int size, strtab, defstash, sv_count, sv_arenaroot, sv_yes, main_cv, main_root, body_roots, body_arenas;
} interpreters[] = {
	{ "5.22", 3504, 152, 200, 248, 264, 352, 1696, 1704, 2032, 2808 },
	{ "5.26", 3552, 152, 208, 256, 272, 360, 1672, 1680, 2016, 2848 },
	{ "5.30", 3280, 152, 208, 256, 272, 312, 1816, 1824, 2144, 2632 },
	{ "5.32", 3792, 152, 208, 256, 272, 312, 1816, 1824, 2168, 2616 },
	{ "5.34", 3760, 144, 192, 240, 256, 296, 1800, 1808, 2152, 2584 },
	{ "5.36", 3768, 144, 192, 240, 256, 296, 1800, 1808, 2152, 2584 },
	{ "5.38", 3896, 144, 192, 240, 256, 296, 1584, 1592, 1928, 2456 },
	{ "5.40", 3768, 144, 192, 240, 256, 296, 1584, 1592, 1928, 2328 },
	{ "5.42", 3768, 144, 192, 240, 256, 296, 1584, 1592, 1928, 2328 },
};

static const struct size_facts {
	const char *version, *structure;
	uint32_t size;
} sizes[] = {
	{ "5.32", "regexp", 192 },   { "5.34", "regexp", 192 },	  { "5.36", "regexp", 192 },
	{ "5.38", "regexp", 224 },   { "5.40", "regexp", 224 },	  { "5.22", "padname", 48 },
	{ "5.36", "padname", 48 },   { "5.38", "padname", 56 },	  { "5.40", "padname", 56 },
	{ "5.22", "xpvhv_aux", 56 }, { "5.34", "xpvhv_aux", 56 }, { "5.36", "xpvhv_aux", 56 },
	{ "5.38", "xpvhv_aux", 112 }, { "5.40", "xpvhv_aux", 112 },
};

static const char *const flavours[] = { "threaded", "unthreaded" };

static struct layout find(const char *version, const char *flavour)
{
	struct layout layout;

	if (!layout_find("perl", version, flavour, &layout))
		fail_msg("no layout of perl %s, %s", version, flavour);
	return layout;
}

static uint32_t constant(const struct layout *layout, const char *name)
{
	const struct layout_fact *fact = layout_field(layout, "const", name);

	if (!fact)
		fail_msg("%s %s has no %s", layout->facts->version, layout->facts->flavour, name);
	return fact->size;
}

/* A layout in two places of the table would be found by half. */
static void each_layout_is_in_one_place(void **state)
{
	static const char *const runtimes[] = { "cpython", "perl" };
	struct layout b;

	(void)state;
	for (size_t r = 0; r < LEN(runtimes); r++)
		for (struct layout a = { 0 }; layout_next(runtimes[r], &a);) {
			assert_true(layout_find(runtimes[r], a.facts->version, a.facts->flavour, &b));
			assert_ptr_equal(a.facts, b.facts);
			assert_int_equal(a.len, b.len);
		}
}

static void perl_interpreters_are_as_measured(void **state)
{
	(void)state;
	for (size_t i = 0; i < LEN(interpreters); i++) {
		const struct interpreter_facts *want = &interpreters[i];
		struct layout layout = find(want->version, "threaded");

		assert_int_equal(layout_size(&layout, "interpreter"), want->size);
		assert_int_equal(layout_offset(&layout, "interpreter", "strtab"), want->strtab);
		assert_int_equal(layout_offset(&layout, "interpreter", "defstash"), want->defstash);
		assert_int_equal(layout_offset(&layout, "interpreter", "sv_count"), want->sv_count);
		assert_int_equal(layout_offset(&layout, "interpreter", "sv_root"), want->sv_arenaroot - 8);
		assert_int_equal(layout_offset(&layout, "interpreter", "sv_arenaroot"), want->sv_arenaroot);
		assert_int_equal(layout_offset(&layout, "interpreter", "sv_yes"), want->sv_yes);
		assert_int_equal(layout_offset(&layout, "interpreter", "main_cv"), want->main_cv);
		assert_int_equal(layout_offset(&layout, "interpreter", "main_root"), want->main_root);
		assert_int_equal(layout_offset(&layout, "interpreter", "body_roots"), want->body_roots);
		assert_int_equal(layout_offset(&layout, "interpreter", "body_arenas"), want->body_arenas);
	}
}

static void perl_structs_have_their_sizes(void **state)
{
	(void)state;
	for (size_t i = 0; i < LEN(sizes); i++)
		for (size_t f = 0; f < LEN(flavours); f++) {
			struct layout layout = find(sizes[i].version, flavours[f]);

			assert_int_equal(layout_size(&layout, sizes[i].structure), sizes[i].size);
		}
}

/* What has not changed since 5.22, and what one struct says of another. */
static void perl_layouts_agree_with_themselves(void **state)
{
	struct layout l = { 0 };

	(void)state;
	while (layout_next("perl", &l)) {
		uint32_t bodies = constant(&l, "PERL_ARENA_ROOTS_SIZE");
		const struct layout_fact *roots = layout_field(&l, "interpreter", "body_roots");

		assert_int_equal(layout_size(&l, "sv"), SV_SIZE);
		assert_int_equal(layout_size(&l, "gp"), 80);
		assert_int_equal(layout_size(&l, "magic"), 48);
		assert_int_equal(layout_size(&l, "arena_desc"), SV_SIZE);
		assert_int_equal(constant(&l, "PERL_ARENA_SIZE"), 4080);
		assert_true(layout_size(&l, "arena_set") <= constant(&l, "PERL_ARENA_SIZE"));
		assert_int_equal(bodies, constant(&l, "SVt_LAST"));
		assert_true(constant(&l, "SVt_LAST") <= constant(&l, "SVTYPEMASK"));
		assert_int_equal(layout_field(&l, "bodies_by_type", "SVt_PVHV")->size, layout_size(&l, "xpvhv"));
		assert_int_equal(layout_field(&l, "bodies_by_type", "SVt_PVCV")->size, layout_size(&l, "xpvcv"));
		if (layout_field(&l, "bodies_by_type", "SVt_REGEXP"))
			assert_int_equal(layout_field(&l, "bodies_by_type", "SVt_REGEXP")->size,
					 layout_size(&l, "regexp"));
		assert_true((strcmp(l.facts->flavour, "unthreaded") == 0) == !roots);
		assert_true(!roots || roots->size == bodies * 8);
	}
}

/* With threads an op refers to what is not its interpreter's by a place in a pad, without them by a pointer. */
static void perl_flavours_differ(void **state)
{
	(void)state;
	for (size_t i = 0; i < LEN(interpreters); i++) {
		struct layout threaded = find(interpreters[i].version, "threaded");
		struct layout unthreaded = find(interpreters[i].version, "unthreaded");

		assert_non_null(layout_field(&threaded, "cop", "cop_stashoff"));
		assert_null(layout_field(&threaded, "cop", "cop_stash"));
		assert_non_null(layout_field(&unthreaded, "cop", "cop_stash"));
		assert_null(layout_field(&unthreaded, "cop", "cop_stashoff"));
		assert_non_null(layout_field(&threaded, "interpreter", "regex_padav"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_layout_is_in_one_place),
		cmocka_unit_test(perl_interpreters_are_as_measured),
		cmocka_unit_test(perl_structs_have_their_sizes),
		cmocka_unit_test(perl_layouts_agree_with_themselves),
		cmocka_unit_test(perl_flavours_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
