/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"

#define DEFAULT_LENGTH 256
#define MOST (UINT64_C(1) << 30)

static const struct emitter_column columns[] = { { "address", 0 }, { "bytes", 0 }, { "readable", 0 } };

/* Sixteen bytes; what can't be read is marked, byte by byte. */
static uint64_t read_line(struct invocation *invocation, uint64_t address, uint8_t bytes[16], bool readable[16], size_t n)
{
	uint64_t good = fh_census_read(invocation->census, address, bytes, n);

	for (size_t i = 0; i < n; i++) {
		readable[i] = i < good || fh_census_read(invocation->census, address + i, &bytes[i], 1) == 1;
		if (i >= good && readable[i])
			good++;
	}
	return good;
}

static void emit_line(struct invocation *invocation, uint64_t address, const uint8_t *bytes, const bool *readable, size_t n,
		      size_t good)
{
	struct emitter_value cells[3] = { emit_address(address), emit_bytes(bytes, good), emit_bool(good == n) };
	char text[80];

	if (emitter_has_lines(&invocation->emitter)) {
		format_bytes(text, bytes, n, readable);
		emitter_line(&invocation->emitter, "%016" PRIx64 "  %s", address, text);
	} else {
		emitter_row(&invocation->emitter, cells);
	}
}

static struct fh_error *run(struct invocation *invocation)
{
	struct emitter *e = &invocation->emitter;
	bool lines = emitter_has_lines(e);
	uint64_t address, length = DEFAULT_LENGTH, total = 0;

	TRY(parse_number("ADDR", invocation->arguments[0], &address));
	if (invocation->n_arguments > 1)
		TRY(parse_number("LEN", invocation->arguments[1], &length));
	if (length > MOST)
		return error_create(FH_ERROR_USAGE, "LEN: at most %" PRIu64 " bytes at a time", MOST);
	if (length > UINT64_MAX - address)
		length = UINT64_MAX - address;
	emitter_object_begin(e, NULL);
	emitter_value(e, "start", emit_address(address));
	if (!lines)
		emitter_table_begin(e, "rows", columns, 3);
	for (uint64_t at = 0; at < length; at += 16) {
		size_t n = length - at < 16 ? (size_t)(length - at) : 16;
		uint8_t bytes[16] = { 0 };
		bool readable[16] = { false };
		uint64_t good = read_line(invocation, address + at, bytes, readable, n);

		total += good;
		emit_line(invocation, address + at, bytes, readable, n, good);
	}
	if (!lines)
		emitter_table_end(e);
	emit_warnings(invocation);
	emitter_object_end(e);
	if (total == 0 && length > 0)
		return error_create(FH_ERROR_FAULT, "0x%" PRIx64 ": nothing can be read there; see freehold sql %s "
				    "'select * from mapping'", address, invocation->target);
	return NULL;
}

const struct command cmd_hexdump = {
	.name = "hexdump",
	.arguments = "TARGET ADDR [LEN]",
	.title = "bytes of the target (256 unless told)",
	.help = "ADDR and LEN are decimal, or hexadecimal with 0x. Bytes that can't be read are shown as ??.\n",
	.min_arguments = 1,
	.max_arguments = 2,
	.options = OPTIONS_TARGET,
	.run = run,
};
