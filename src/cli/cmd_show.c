/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "output/escape.h"

static void tell(struct invocation *invocation, const char *name, struct emitter_value value)
{
	struct buffer text = { 0 };

	emitter_value(&invocation->emitter, name, value);
	if (!emitter_has_lines(&invocation->emitter))
		return;
	switch (value.type) {
	case EMIT_ADDRESS: buffer_format(&text, "0x%" PRIx64, value.amount); break;
	case EMIT_AMOUNT: buffer_amount(&text, value.amount); break;
	case EMIT_TEXT: escape_terminal(&text, value.text, value.len, invocation->emitter.utf8); break;
	default: buffer_string(&text, "-");
	}
	emitter_line(&invocation->emitter, "%-12s %s", name, buffer_c_string(&text));
	buffer_deinit(&text);
}

static bool take_field(void *context, const char *name, const char *value)
{
	tell(context, name, emit_text(value));
	return true;
}

static void show_bytes(struct invocation *invocation, const struct fh_block *block)
{
	uint8_t bytes[64];
	size_t want = block->end - block->start < sizeof(bytes) ? (size_t)(block->end - block->start) : sizeof(bytes);
	size_t got = fh_census_read(invocation->census, block->start, bytes, want);

	emitter_value(&invocation->emitter, "bytes", emit_bytes(bytes, got));
	for (size_t at = 0; at < want && emitter_has_lines(&invocation->emitter); at += 16) {
		bool readable[16];
		char line[80];

		for (size_t i = 0; i < 16; i++)
			readable[i] = at + i < got;
		format_bytes(line, bytes + at, want - at < 16 ? want - at : 16, readable);
		emitter_line(&invocation->emitter, "%016" PRIx64 "  %s", block->start + at, line);
	}
}

static struct fh_error *run(struct invocation *invocation)
{
	static const char *const states[] = { "mapped", "live", "free", "overhead" };
	struct emitter *e = &invocation->emitter;
	struct fh_mapping mapping;
	struct fh_image image;
	struct fh_block block;
	struct fh_info info;
	uint64_t address;

	TRY(parse_number("ADDR", invocation->arguments[0], &address));
	if (!fh_census_find_block(invocation->census, address, &block))
		return error_create(FH_ERROR_NOT_FOUND, "0x%" PRIx64 ": the target has no memory there; see freehold sql %s "
				    "'select * from mapping'", address, invocation->target);
	fh_census_info(invocation->census, &info);
	emitter_object_begin(e, NULL);
	tell(invocation, "start", emit_address(block.start));
	tell(invocation, "end", emit_address(block.end));
	tell(invocation, "size", emit_amount(block.end - block.start));
	tell(invocation, "resident", info.has_resident ? emit_amount(block.resident) : emit_null());
	tell(invocation, "domain", emit_text(block.domain));
	tell(invocation, "kind", emit_text(block.kind));
	tell(invocation, "detail", emit_text(block.detail));
	tell(invocation, "state", emit_text(states[block.state]));
	tell(invocation, "header", emit_amount(block.head));
	tell(invocation, "mapping", fh_census_find_mapping(invocation->census, address, &mapping) ? emit_text(mapping.path) : emit_null());
	tell(invocation, "module", fh_census_find_image(invocation->census, address, &image) ? emit_text(image.name) : emit_null());
	emitter_object_begin(e, "fields");
	fh_census_describe(invocation->census, address, take_field, invocation);
	emitter_object_end(e);
	show_bytes(invocation, &block);
	emit_warnings(invocation);
	emitter_object_end(e);
	return NULL;
}

const struct command cmd_show = {
	.name = "show",
	.arguments = "TARGET ADDR",
	.title = "one block: what it is, and its fields",
	.help = "ADDR is any address inside of the block, decimal or hexadecimal with 0x.\n",
	.min_arguments = 1,
	.max_arguments = 1,
	.options = OPTIONS_TARGET,
	.run = run,
};
