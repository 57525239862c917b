/* SPDX-License-Identifier: Apache-2.0 */
/* Escaping for terminals, JSON and CSV, and what the three formats make of the same calls. */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "output/emitter.h"
#include "output/escape.h"

/* ---- escaping ---------------------------------------------------------------- */

static const struct escape_case {
	const char *bytes, *terminal, *plain, *json, *csv;
} escape_cases[] = {
	{ "plain text", "plain text", "plain text", "\"plain text\"", "plain text" },
	{ "", "", "", "\"\"", "" },
	{ "a\nb\tc\r", "a\\nb\\tc\\r", "a\\nb\\tc\\r", "\"a\\nb\\tc\\u000d\"", "a\\nb\\tc\\r" },
	{ "\033[31mred", "\\x1b[31mred", "\\x1b[31mred", "\"\\u001b[31mred\"", "\\x1b[31mred" },
	{ "\177", "\\x7f", "\\x7f", "\"\\u007f\"", "\\x7f" },
	/* C1 as a character and as a byte of its own */
	{ "\302\23331m", "\\xc2\\x9b31m", "\\xc2\\x9b31m", "\"\\u009b31m\"", "\\xc2\\x9b31m" },
	{ "\23331m", "\\x9b31m", "\\x9b31m", "\"\357\277\27531m\"", "\\x9b31m" },
	{ "back\\slash \"q\"", "back\\\\slash \"q\"", "back\\\\slash \"q\"", "\"back\\\\slash \\\"q\\\"\"",
	  "\"back\\\\slash \"\"q\"\"\"" },
	{ "\303\251\342\202\254", "\303\251\342\202\254", "\\xc3\\xa9\\xe2\\x82\\xac", "\"\303\251\342\202\254\"",
	  "\303\251\342\202\254" },
	/* cut off, too long a form, half of a pair, beyond the last character, a byte that can't begin one */
	{ "x\303", "x\\xc3", "x\\xc3", "\"x\357\277\275\"", "x\\xc3" },
	{ "\300\257", "\\xc0\\xaf", "\\xc0\\xaf", "\"\357\277\275\357\277\275\"", "\\xc0\\xaf" },
	{ "\355\240\200", "\\xed\\xa0\\x80", "\\xed\\xa0\\x80", "\"\357\277\275\357\277\275\357\277\275\"",
	  "\\xed\\xa0\\x80" },
	{ "\364\220\200\200", "\\xf4\\x90\\x80\\x80", "\\xf4\\x90\\x80\\x80",
	  "\"\357\277\275\357\277\275\357\277\275\357\277\275\"", "\\xf4\\x90\\x80\\x80" },
	{ "\377\376", "\\xff\\xfe", "\\xff\\xfe", "\"\357\277\275\357\277\275\"", "\\xff\\xfe" },
	/* U+202E turns the direction of writing, U+E0041 can't be seen */
	{ "a\342\200\256b", "a\\xe2\\x80\\xaeb", "a\\xe2\\x80\\xaeb", "\"a\\u202eb\"", "a\\xe2\\x80\\xaeb" },
	{ "\363\240\201\201", "\\xf3\\xa0\\x81\\x81", "\\xf3\\xa0\\x81\\x81", "\"\\udb40\\udc41\"",
	  "\\xf3\\xa0\\x81\\x81" },
	{ "a,b", "a,b", "a,b", "\"a,b\"", "\"a,b\"" },
	{ "=1+1", "=1+1", "=1+1", "\"=1+1\"", "\"'=1+1\"" },
	{ "@x", "@x", "@x", "\"@x\"", "\"'@x\"" },
	{ " x", " x", " x", "\" x\"", "\" x\"" },
};

static void check_escape(void (*escape)(struct buffer *, const char *, size_t), const char *bytes, const char *expected)
{
	struct buffer buffer = { 0 };

	escape(&buffer, bytes, strlen(bytes));
	assert_string_equal(buffer_c_string(&buffer), expected);
	assert_false(buffer.no_memory);
	buffer_deinit(&buffer);
}

static void for_terminal(struct buffer *buffer, const char *bytes, size_t len)
{
	escape_terminal(buffer, bytes, len, true);
}

static void for_plain_terminal(struct buffer *buffer, const char *bytes, size_t len)
{
	escape_terminal(buffer, bytes, len, false);
}

static void escapes(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(escape_cases) / sizeof(*escape_cases); i++) {
		const struct escape_case *c = &escape_cases[i];

		check_escape(for_terminal, c->bytes, c->terminal);
		check_escape(for_plain_terminal, c->bytes, c->plain);
		check_escape(escape_json, c->bytes, c->json);
		check_escape(escape_csv, c->bytes, c->csv);
	}
}

/* Of any bytes: what comes out has no control character but those of the format, and JSON is well-formed UTF-8. */
static void escapes_anything(void **state)
{
	uint32_t seed = 1;

	(void)state;
	for (size_t round = 0; round < 3000; round++) {
		struct buffer json = { 0 }, text = { 0 };
		char bytes[24];
		uint32_t c;

		for (size_t i = 0; i < sizeof(bytes); i++) {
			seed = seed * 1664525 + 1013904223;
			bytes[i] = (char)(seed >> 24);
		}
		escape_json(&json, bytes, sizeof(bytes));
		escape_terminal(&text, bytes, sizeof(bytes), true);
		for (size_t i = 0, n; i < json.bytes.len; i += n) {
			n = escape_decode(json.bytes.items + i, json.bytes.len - i, &c);
			assert_true(n > 0);
			assert_false(escape_is_control(c));
		}
		for (size_t i = 0, n; i < text.bytes.len; i += n) {
			n = escape_decode(text.bytes.items + i, text.bytes.len - i, &c);
			assert_true(n > 0);
			assert_false(escape_is_control(c));
		}
		buffer_deinit(&json);
		buffer_deinit(&text);
	}
}

static void for_literal(struct buffer *buffer, const char *bytes, size_t len)
{
	escape_literal(buffer, bytes, len, true);
}

/* What a language escaped is not escaped again; all else is. */
static void literals(void **state)
{
	(void)state;
	check_escape(for_literal, "b'\\x80\\\\'", "b'\\x80\\\\'");
	check_escape(for_literal, "\\\033\n\302\233 \"q\"", "\\\\x1b\\n\\xc2\\x9b \"q\"");
	check_escape(escape_csv_literal, "b'\\x80,\"\\\\'", "\"b'\\x80,\"\"\\\\'\"");
	check_escape(escape_csv_literal, "=\\\033", "\"'=\\\\x1b\"");
}

static void nul_bytes(void **state)
{
	struct buffer buffer = { 0 };

	(void)state;
	escape_terminal(&buffer, "a\0b", 3, true);
	escape_json(&buffer, "a\0b", 3);
	escape_csv(&buffer, "\0b", 2);
	assert_string_equal(buffer_c_string(&buffer), "a\\x00b\"a\\u0000b\"\\x00b");
	buffer_deinit(&buffer);
}

static void widths(void **state)
{
	(void)state;
	assert_int_equal(escape_width("abc", 3), 3);
	assert_int_equal(escape_width("\303\251", 2), 1);
	assert_int_equal(escape_width("\346\274\242", 3), 2); /* a wide one */
	assert_int_equal(escape_cut("abcdef", 6, 4), 4);
	assert_int_equal(escape_cut("\346\274\242\346\274\242", 6, 3), 3); /* half of one is not shown */
	assert_int_equal(escape_cut("ab", 2, 9), 2);
}

static void amounts(void **state)
{
	static const struct {
		uint64_t value;
		const char *text;
	} cases[] = {
		{ 0, "0" }, { 999, "999" }, { 1000, "1,000" }, { 1234567, "1,234,567" },
		{ UINT64_MAX, "18,446,744,073,709,551,615" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct buffer buffer = { 0 };

		buffer_amount(&buffer, cases[i].value);
		assert_string_equal(buffer_c_string(&buffer), cases[i].text);
		buffer_deinit(&buffer);
	}
}

/* ---- formats -------------------------------------------------------------------- */

static const struct emitter_column columns[] = {
	{ "name", COLUMN_FLEXIBLE }, { "size", 0 }, { "swapped", COLUMN_OPTIONAL },
};

static void emit_row(struct emitter *e, const char *name, uint64_t size)
{
	emitter_row(e, (struct emitter_value[]){ emit_text(name), emit_amount(size), emit_amount(0) });
}

static void emit_document(struct emitter *e)
{
	emitter_object_begin(e, NULL);
	emitter_value(e, "pid", emit_integer(-1));
	emitter_line(e, "a line of %d words", 5);
	emitter_table_begin(e, "aside", columns, 1, TABLE_ASIDE);
	emitter_row(e, (struct emitter_value[]){ emit_text("why") });
	emitter_table_end(e);
	emitter_table_begin(e, "rows", columns, 3, 0);
	emit_row(e, "first\n", 1234567);
	emitter_note(e, "a note");
	emit_row(e, "second, one", 89);
	emitter_footer(e, NULL, NULL);
	emitter_footer(e, "total of all", (struct emitter_value[]){ emit_null(), emit_amount(1234656), emit_null() });
	emitter_table_end(e);
	emitter_object_begin(e, "total");
	emitter_value(e, "at", emit_address(0xabc));
	emitter_value(e, "none", emit_null());
	emitter_value(e, "yes", emit_bool(true));
	emitter_value(e, "real", emit_real(1.5));
	emitter_value(e, "bytes", emit_bytes("\1\377", 2));
	emitter_object_end(e);
	emitter_array_begin(e, "warnings");
	emitter_array_end(e);
	emitter_object_end(e);
}

static void check_document(const struct emitter_format *format, size_t width, const char *expected)
{
	struct emitter e;

	emitter_init(&e, format, -1);
	e.width = width;
	emit_document(&e);
	assert_true(emitter_finish(&e));
	assert_string_equal(buffer_c_string(&e.out), expected);
	emitter_deinit(&e);
}

static void json(void **state)
{
	(void)state;
	check_document(&emitter_json, 0,
		       "{\n \"pid\": -1,\n"
		       " \"aside\": [\n  {\"name\": \"why\"}\n ],\n"
		       " \"rows\": [\n"
		       "  {\"name\": \"first\\n\", \"size\": 1234567, \"swapped\": 0},\n"
		       "  {\"name\": \"second, one\", \"size\": 89, \"swapped\": 0}\n ],\n"
		       " \"total\": {\n  \"at\": \"0xabc\",\n  \"none\": null,\n  \"yes\": true,\n  \"real\": 1.5,\n"
		       "  \"bytes\": \"01ff\"\n },\n"
		       " \"warnings\": []\n}\n");
}

static void csv(void **state)
{
	(void)state;
	check_document(&emitter_csv, 0, "name,size,swapped\nfirst\\n,1234567,0\n\"second, one\",89,0\n");
}

/* Numbers to the right, the label over what is left of them, nothing of a column that is all 0. */
static void text(void **state)
{
	(void)state;
	check_document(&emitter_text, 0,
		       "a line of 5 words\n"
		       "name\nwhy\n"
		       "name               size\n"
		       "first\\n       1,234,567\n"
		       "a note\n"
		       "second, one          89\n"
		       "-----------------------\n"
		       "total of all  1,234,656\n");
}

static void text_is_shortened(void **state)
{
	static const struct emitter_column two[] = { { "path", COLUMN_FLEXIBLE }, { "n", 0 } };
	struct emitter e;

	(void)state;
	emitter_init(&e, &emitter_text, -1);
	e.width = 20;
	emitter_table_begin(&e, NULL, two, 2, 0);
	emitter_row(&e, (struct emitter_value[]){ emit_text("/usr/lib/x86_64-linux-gnu/libc.so.6"), emit_amount(1) });
	emitter_row(&e, (struct emitter_value[]){ emit_text("short"), emit_amount(22) });
	emitter_table_end(&e);
	assert_string_equal(buffer_c_string(&e.out),
			    "path               n\n"
			    "/usr/l...bc.so.6   1\n"
			    "short             22\n");
	emitter_deinit(&e);
}

/* More rows than wait for the widths: the rest streams, all are there. */
static void text_streams(void **state)
{
	struct emitter e;
	size_t lines = 0;

	(void)state;
	emitter_init(&e, &emitter_text, -1);
	emitter_table_begin(&e, NULL, columns, 3, 0);
	for (uint64_t i = 0; i < 5000; i++)
		emit_row(&e, "x", i);
	emitter_table_end(&e);
	for (size_t i = 0; i < e.out.bytes.len; i++)
		lines += e.out.bytes.items[i] == '\n';
	assert_int_equal(lines, 5001);
	emitter_deinit(&e);
}

static void a_full_disk_is_told(void **state)
{
	struct emitter e;
	int fd = open("/dev/full", O_WRONLY);

	(void)state;
	if (fd < 0)
		skip();
	emitter_init(&e, &emitter_json, fd);
	emit_document(&e);
	assert_false(emitter_finish(&e));
	assert_int_equal(e.error, ENOSPC);
	emitter_deinit(&e);
	close(fd);
}

static void formats_are_found(void **state)
{
	(void)state;
	assert_ptr_equal(emitter_format_find("json"), &emitter_json);
	assert_ptr_equal(emitter_format_find("text"), &emitter_text);
	assert_ptr_equal(emitter_format_find("csv"), &emitter_csv);
	assert_null(emitter_format_find("xml"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(escapes),
		cmocka_unit_test(escapes_anything),
		cmocka_unit_test(literals), cmocka_unit_test(nul_bytes),
		cmocka_unit_test(widths),
		cmocka_unit_test(amounts),
		cmocka_unit_test(json),
		cmocka_unit_test(csv),
		cmocka_unit_test(text),
		cmocka_unit_test(text_is_shortened),
		cmocka_unit_test(text_streams),
		cmocka_unit_test(a_full_disk_is_told),
		cmocka_unit_test(formats_are_found),
	};

	setlocale(LC_CTYPE, "C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
