/* SPDX-License-Identifier: Apache-2.0 */
/* Rows and queries over a census made by hand, against what it was made of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "census/census.h"
#include "fake_target.h"
#include "view/rows.h"
#include "view/summary.h"

#define AT UINT64_C(0x7f0000000000)
#define HIGH UINT64_C(0xffffffffff600000)
#define BLOCKS 4096 /* of 64 bytes, in 64 pages */

static struct fake_source fake;
static struct fh_census census;
static uint8_t bytes[BLOCKS * 64];

static category_id category(const char *domain, const char *kind, const char *detail, enum fh_state state)
{
	return ledger_category(census.target.ledger, &(struct category){ .domain = domain, .kind = kind,
									  .detail = detail, .state = state });
}

/* Blocks in turn: two Packages, one str, one free; a mapping of nothing, and one above 2^63. */
static int start(void **state)
{
	category_id kinds[4];

	(void)state;
	fake_source_init(&fake);
	memcpy(bytes + 64, "needle", 6);
	fake_mapping(&fake, AT, AT + sizeof(bytes), MAPPING_READ | MAPPING_WRITE, 0, 0, "[heap]", bytes);
	fake_mapping(&fake, AT + (1 << 20), AT + (1 << 20) + PAGE, MAPPING_READ, 0, 7, "/a/file", NULL);
	fake_mapping(&fake, HIGH, HIGH + PAGE, MAPPING_EXEC, 0, 0, "[vsyscall]", NULL);
	fake_source_seal(&fake);
	census = (struct fh_census){ .target.source = &fake.source };
	assert_null(images_load(&fake.source, &census.target.images));
	assert_null(ledger_create(fake.source.strings, &census.target.ledger));
	assert_null(census_add_mappings(&census.target));
	kinds[0] = kinds[1] = category("python", "demo.Package", "", FH_LIVE);
	kinds[2] = category("python", "str", "interned", FH_LIVE);
	kinds[3] = category("glibc", "free chunk", "small 64", FH_FREE);
	ledger_carve_begin(census.target.ledger, AT, AT + sizeof(bytes));
	for (unsigned i = 0; i < BLOCKS; i++)
		ledger_carve_add(census.target.ledger, AT + i * 64, kinds[i % 4]);
	ledger_carve_end(census.target.ledger);
	assert_null(ledger_commit(census.target.ledger));
	return 0;
}

static int finish(void **state)
{
	(void)state;
	ledger_destroy(census.target.ledger);
	images_destroy(census.target.images);
	fake_source_deinit(&fake);
	return 0;
}

/* ---- queries ---------------------------------------------------------------------- */

struct answer {
	char text[4096];
	size_t rows, calls;
	size_t most_rows; /* then stop; 0: never */
	bool interrupt;
};

static bool take_row(void *context, const struct fh_value *values, size_t n)
{
	struct answer *answer = context;
	size_t at = strlen(answer->text);

	for (size_t i = 0; i < n && answer->rows < 20; i++) {
		const struct fh_value *v = &values[i];
		char *to = answer->text + at;
		size_t room = sizeof(answer->text) - at;

		if (v->type == FH_VALUE_ADDRESS)
			at += (size_t)snprintf(to, room, "0x%llx ", (unsigned long long)v->integer);
		else if (v->type == FH_VALUE_INTEGER)
			at += (size_t)snprintf(to, room, "%lld ", (long long)v->integer);
		else if (v->type == FH_VALUE_NULL)
			at += (size_t)snprintf(to, room, "NULL ");
		else if (v->type != FH_VALUE_REAL)
			at += (size_t)snprintf(to, room, "%.*s ", (int)v->length, v->bytes);
	}
	answer->rows++;
	return answer->rows != answer->most_rows;
}

static bool go_on(void *context)
{
	struct answer *answer = context;

	answer->calls++;
	return !answer->interrupt;
}

static const struct fh_query_visitor visitor = { .size = sizeof(visitor), .row = take_row, .go_on = go_on };

static void check_answer(const char *sql, const char *expected)
{
	struct answer answer = { .text = "" };
	struct fh_error *error = fh_query(&census, sql, &visitor, &answer);

	if (error)
		print_error("%s: %s\n", sql, error->message);
	assert_null(error);
	assert_string_equal(answer.text, expected);
}

static void answers(void **state)
{
	(void)state;
	check_answer("select count(*) from block", "4098 ");
	check_answer("select kind, count(*), sum(size) from block where domain = 'python' group by kind order by 1",
		     "demo.Package 2048 131072 str 1024 65536 ");
	check_answer("select start, \"end\" from block where kind = 'str' limit 2",
		     "0x7f0000000080 0x7f00000000c0 0x7f0000000180 0x7f00000001c0 ");
	check_answer("select count(*) from block where kind like '%package%'", "2048 ");
	check_answer("select count(*) from block where kind glob '*package*'", "0 ");
	check_answer("select count(*) from block where kind in ('str', 'free chunk') and size = 64", "2048 ");
	check_answer("select count(*) from block where size > 64", "2 ");
	check_answer("select count(*) from block where size between 63 and 65 and state = 'free'", "1024 ");
	check_answer("select count(*) from block where size < 0", "0 ");
	check_answer("select count(*) from block where size > -1", "4098 ");
	check_answer("select count(*) from block where size > 63.5", "4098 ");
	check_answer("select detail from block where start = 0x7f0000000080", "interned ");
	check_answer("select detail from block where rowid = 0x7f0000000080", "interned ");
	check_answer("select resident, swapped from block limit 1", "NULL NULL "); /* not known here */
	check_answer("select mapping from block where mapping <> '[heap]'", "/a/file [vsyscall] ");
	check_answer("select path, permissions from mapping where size = 4096", "/a/file r--p [vsyscall] --xp ");
	check_answer("select state, count from category where kind = \"free chunk\"", "free 1024 ");
	check_answer("select address(start) from block where start < 0", "0xffffffffff600000 ");
	check_answer("select memory(start, 6) from block where start = 0x7f0000000040", "needle ");
	check_answer("select memory(start, 6) is null from block where mapping = '/a/file'", "1 ");
	check_answer("select count(*) from block where instr(memory(start, size), 'needle')", "1 ");
	check_answer("select a.start from block a join block b on b.start = a.\"end\" where a.kind = 'str' "
		     "and b.state = 'free' limit 1", "0x7f0000000080 ");
}

/* Bounds on addresses at every place around a border, against SQLite without any help. */
static void bounds(void **state)
{
	static const char *const comparisons[] = { "<", "<=", "=", ">=", ">", "<>" };
	static const char *const columns[] = { "start", "\"end\"", "rowid" };

	(void)state;
	for (int c = 0; c < 6; c++)
		for (int column = 0; column < 3; column++)
			for (int64_t at = -2; at <= 2; at++) {
				struct answer with = { .text = "" }, without = { .text = "" };
				char sql[256];

				snprintf(sql, sizeof(sql), "select count(*), min(start), max(start) from block where %s %s %lld",
					 columns[column], comparisons[c], (long long)(AT + 64 * 1000) + at);
				assert_null(fh_query(&census, sql, &visitor, &with));
				/* An expression is no condition that a table can take over. */
				snprintf(sql, sizeof(sql), "select count(*), min(start), max(start) from block where %s + 0 %s %lld",
					 columns[column], comparisons[c], (long long)(AT + 64 * 1000) + at);
				assert_null(fh_query(&census, sql, &visitor, &without));
				assert_string_equal(with.text, without.text);
			}
}

static void check_refused(const char *sql, const char *part)
{
	struct answer answer = { .text = "" };
	struct fh_error *error = fh_query(&census, sql, &visitor, &answer);

	assert_non_null(error);
	assert_int_equal(error->code, FH_ERROR_QUERY);
	if (!strstr(error->message, part))
		fail_msg("%s: %s", sql, error->message);
	assert_int_equal(answer.rows, 0);
	fh_error_destroy(error);
}

static void refusals(void **state)
{
	(void)state;
	check_refused("select nme from thread", "no such column: nme");
	check_refused("select nme from thread", "thread has tid, name, sp, ip, tls");
	check_refused("select * from blocks", "the tables are block, category, mapping, image, thread, arena, bin");
	check_refused("selekt", "syntax error");
	check_refused("", "no SQL");
	check_refused("-- nothing", "no SQL");
	check_refused("select 1; select 2", "one statement");
	check_refused("delete from block", "block");
	check_refused("create table x(a)", "only SELECT");
	check_refused("create temp table x as select 1", "only SELECT");
	check_refused("attach '/tmp/freehold-test-file' as x", "only SELECT");
	check_refused("pragma trusted_schema = 1", "only SELECT");
	check_refused("select load_extension('x')", "load_extension");
	check_refused("vacuum into '/tmp/freehold-test-file'", "only SELECT");
	check_refused("begin", "only SELECT");
}

static void stops(void **state)
{
	static const char endless[] = "with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c";
	struct answer some = { .most_rows = 3 }, never = { .interrupt = true };
	struct fh_error *error;

	(void)state;
	assert_null(fh_query(&census, "select * from block", &visitor, &some));
	assert_int_equal(some.rows, 3);
	error = fh_query(&census, endless, &visitor, &never);
	assert_non_null(error);
	assert_int_equal(error->code, FH_ERROR_INTERRUPTED);
	assert_int_equal(never.calls, 1);
	fh_error_destroy(error);
}

struct selected {
	uint64_t count, size, last;
	bool ascending;
};

static bool take_block(void *context, const struct fh_block *block)
{
	struct selected *selected = context;

	selected->ascending &= block->start > selected->last;
	selected->last = block->start;
	selected->count++;
	selected->size += block->end - block->start;
	return true;
}

static void selections(void **state)
{
	struct selected selected = { .ascending = true }, refused = { .ascending = true };
	static const char *const clauses[] = { "1 limit 3", "1 order by size", "1 group by kind", "" };
	struct fh_error *error;

	(void)state;
	assert_null(fh_select(&census, "kind = \"demo.Package\" -- and a remark", take_block, NULL, &selected));
	assert_int_equal(selected.count, 2048);
	assert_int_equal(selected.size, 131072);
	assert_true(selected.ascending);
	for (size_t i = 0; i < sizeof(clauses) / sizeof(*clauses); i++) {
		error = fh_select(&census, clauses[i], take_block, NULL, &refused);
		assert_non_null(error);
		fh_error_destroy(error);
	}
	error = fh_select(&census, "knd = 'str'", take_block, NULL, &refused);
	assert_non_null(error);
	assert_non_null(strstr(error->message, "block has start, end, size"));
	fh_error_destroy(error);
	assert_int_equal(refused.count, 0);
}

/* ---- rows --------------------------------------------------------------------------- */

/* Every grouping and every order has the same sum. */
static void rows_add_up(void **state)
{
	struct fh_size os;

	(void)state;
	fh_census_os(&census, &os);
	for (size_t g = 0; view_groupings[g]; g++) {
		struct view_row sum = { 0 };
		struct view_rows rows;

		assert_null(view_rows_create(&census, view_groupings[g], &rows));
		for (size_t c = 0; c < view_groupings[g]->n_columns; c++)
			view_rows_sort(&rows, &view_groupings[g]->columns[c], c % 2);
		for (size_t i = 0; i < rows.rows.len; i++)
			view_row_add(&sum, &rows.rows.items[i]);
		assert_int_equal(sum.virtual_, os.virtual_);
		assert_int_equal(sum.count, 4098);
		assert_int_equal(rows.total.virtual_, os.virtual_);
		view_rows_deinit(&rows);
	}
}

static void rows_by_name(void **state)
{
	struct view_rows rows;

	(void)state;
	assert_null(view_rows_create(&census, view_grouping_find("kind"), &rows));
	assert_int_equal(rows.rows.len, 5);
	assert_string_equal(rows.rows.items[0].kind, "demo.Package");
	assert_null(rows.rows.items[0].detail);
	assert_int_equal(rows.rows.items[0].count, 2048);
	view_rows_sort(&rows, view_column_find(rows.grouping, "kind"), false);
	assert_string_equal(rows.rows.items[1].kind, "file mapping");
	view_rows_sort(&rows, view_column_find(rows.grouping, "virtual"), true);
	assert_int_equal(rows.rows.items[0].virtual_, PAGE);
	view_rows_deinit(&rows);
	assert_null(view_column_find(view_grouping_find("kind"), "nonsense"));
	assert_null(view_grouping_find("nonsense"));
}

static void rows_by_size(void **state)
{
	struct view_rows rows;

	(void)state;
	assert_null(view_rows_create(&census, view_grouping_find("size"), &rows));
	assert_int_equal(rows.rows.len, 2);
	assert_int_equal(rows.rows.items[0].block_size, 64);
	assert_int_equal(rows.rows.items[0].count, BLOCKS);
	assert_null(rows.rows.items[0].domain); /* of several */
	assert_string_equal(rows.rows.items[1].domain, "os");
	assert_null(rows.rows.items[1].kind);
	view_rows_deinit(&rows);
}

static void rows_by_mapping(void **state)
{
	struct view_rows rows;

	(void)state;
	assert_null(view_rows_create(&census, view_grouping_find("mapping"), &rows));
	assert_int_equal(rows.rows.len, 3);
	assert_string_equal(rows.rows.items[0].mapping, "[heap]");
	assert_string_equal(rows.rows.items[0].permissions, "rw-p");
	assert_int_equal(rows.rows.items[0].count, BLOCKS);
	assert_int_equal(rows.rows.items[0].virtual_, sizeof(bytes));
	view_rows_deinit(&rows);
}

static void summary(void **state)
{
	struct view_summary made;
	uint64_t sum = 0;

	(void)state;
	assert_null(view_summary_make(&census, &made));
	for (size_t i = 0; i < made.n_shares; i++)
		sum += made.shares[i].size.virtual_;
	assert_int_equal(sum, made.total.virtual_);
	assert_string_equal(made.shares[0].name, "live");
	assert_int_equal(made.shares[0].size.virtual_, 3072 * 64);
	assert_string_equal(made.shares[1].name, "free");
	assert_int_equal(made.shares[1].size.virtual_, 1024 * 64);
	assert_string_equal(made.shares[3].name, "files");
	assert_int_equal(made.shares[3].size.virtual_, PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers),
		cmocka_unit_test(bounds),
		cmocka_unit_test(refusals),
		cmocka_unit_test(stops),
		cmocka_unit_test(selections),
		cmocka_unit_test(rows_add_up),
		cmocka_unit_test(rows_by_name),
		cmocka_unit_test(rows_by_size),
		cmocka_unit_test(rows_by_mapping),
		cmocka_unit_test(summary),
	};

	return cmocka_run_group_tests(tests, start, finish);
}
