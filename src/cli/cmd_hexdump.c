/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "cli/cli.h"

#define DEFAULT_LENGTH 256
#define MOST_LENGTH (UINT64_C(1) << 30)
#define PAGE_BYTES 4096 /* what can't be read is whole pages */

static const struct emitter_column columns[] = { { "address", 0 }, { "bytes", 0 }, { "text", 0 }, { "unreadable", 0 } };

struct dump {
	struct session *session;
	struct buffer line;
	uint64_t bad_start, bad_end; /* a stretch that can't be read, not told yet */
	uint64_t read;		     /* bytes */
};

static void show_line(struct dump *dump, uint64_t address, const uint8_t *bytes, size_t len)
{
	struct emitter *e = &dump->session->emitter;
	char text[16];

	if (emitter_has_lines(e)) {
		buffer_clear(&dump->line);
		hexdump_line(&dump->line, address, bytes, len);
		emitter_line(e, "%s", buffer_c_string(&dump->line));
		return;
	}
	for (size_t i = 0; i < len; i++)
		text[i] = bytes[i] >= ' ' && bytes[i] < 0x7f ? (char)bytes[i] : '.';
	emitter_row(e, (struct emitter_value[]){ emit_address(address), emit_bytes(bytes, len),
						 { .type = EMIT_TEXT, .text = text, .len = len }, emit_amount(0) });
}

static void show_unreadable(struct dump *dump)
{
	struct emitter *e = &dump->session->emitter;

	if (dump->bad_start == dump->bad_end)
		return;
	if (emitter_has_lines(e))
		emitter_line(e, "%016" PRIx64 "  can't be read up to %016" PRIx64, dump->bad_start, dump->bad_end);
	else
		emitter_row(e, (struct emitter_value[]){ emit_address(dump->bad_start), emit_null(), emit_null(),
							 emit_amount(dump->bad_end - dump->bad_start) });
	dump->session->damaged = true;
	dump->bad_start = dump->bad_end = 0;
}

/* The part of one page that is wanted. */
static void dump_page(struct dump *dump, uint64_t address, size_t len)
{
	uint8_t bytes[PAGE_BYTES];
	size_t got = fh_census_read(dump->session->census, address, bytes, len);

	dump->read += got;
	if (got)
		show_unreadable(dump);
	for (size_t at = 0; at < got; at += 16)
		show_line(dump, address + at, bytes + at, got - at < 16 ? got - at : 16);
	if (got == len)
		return;
	if (dump->bad_start == dump->bad_end)
		dump->bad_start = address + got;
	dump->bad_end = address + len;
}

static void dump_range(struct dump *dump, uint64_t address, uint64_t length)
{
	while (length && session_goes_on(dump) && !dump->session->emitter.error) {
		uint64_t n = PAGE_BYTES - address % PAGE_BYTES;

		n = n < length ? n : length;
		dump_page(dump, address, (size_t)n);
		address += n;
		length -= n;
	}
	show_unreadable(dump);
}

static struct fh_error *emit_dump(struct session *session, uint64_t address, uint64_t length)
{
	struct dump dump = { .session = session };
	struct emitter *e = &session->emitter;
	uint8_t byte;
	struct fh_mapping mapping;

	if (!fh_census_find_mapping(session->census, address, &mapping) &&
	    !fh_census_read(session->census, address, &byte, 1))
		return error_create(FH_ERROR_NOT_FOUND, "0x%" PRIx64 ": the target has no memory there; see the table "
				    "mapping of freehold sql", address);
	emitter_object_begin(e, NULL);
	emitter_value(e, "start", emit_address(address));
	emitter_value(e, "length", emit_amount(length));
	if (!emitter_has_lines(e))
		emitter_table_begin(e, "rows", columns, sizeof(columns) / sizeof(*columns), 0);
	dump_range(&dump, address, length);
	if (!emitter_has_lines(e))
		emitter_table_end(e);
	session_emit_warnings(session);
	emitter_object_end(e);
	buffer_deinit(&dump.line);
	if (!dump.read)
		return error_create(FH_ERROR_FAULT, "0x%" PRIx64 ": nothing can be read there: it is swapped out "
				    "(--swapped reads it), not readable, or not in the core", address);
	return NULL;
}

static struct fh_error *run(struct session *session, char **arguments, size_t n)
{
	uint64_t address, length = DEFAULT_LENGTH;

	TRY(parse_number("ADDR", arguments[1], &address));
	if (n > 2)
		TRY(parse_number("LEN", arguments[2], &length));
	if (!length || length > MOST_LENGTH)
		return error_create(FH_ERROR_USAGE, "LEN: from 1 to %" PRIu64 " bytes at a time", MOST_LENGTH);
	if (length > -address && address) /* up to the end of all addresses */
		length = -address;
	TRY(session_open(session, arguments[0], true));
	session->doing = "hexdump";
	return emit_dump(session, address, length);
}

const struct command cmd_hexdump = {
	.name = "hexdump",
	.arguments = "TARGET ADDR [LEN]",
	.title = "bytes of the target",
	.text = "ADDR and LEN are decimal, or hexadecimal with 0x. Without LEN it is 256 bytes. What can't be read is\n"
		"said, and makes the exit status 3. JSON and CSV have the bytes in hex, 16 in a row.",
	.options = OPTIONS_OF_TARGETS,
	.least = 2,
	.most = 3,
	.run = run,
};
