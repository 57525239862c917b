/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "cli/cli.h"
#include "query/tables.h"

#define MOST_BYTES 64

static const struct emitter_column columns[] = { { "field", 0 }, { "value", COLUMN_FLEXIBLE } };

/* Text and CSV have all in one table; in JSON they are keys. */
static void tell(struct session *session, const char *name, struct emitter_value value)
{
	if (session->emitter.format->value)
		emitter_value(&session->emitter, name, value);
	else
		emitter_row(&session->emitter, (struct emitter_value[]){ emit_text(name), value });
}

static void tell_figure(struct session *session, const char *name, uint64_t figure)
{
	tell(session, name, session->info.has_resident ? emit_amount(figure) : emit_null());
}

static void tell_block(struct session *session, const struct fh_block *block)
{
	struct fh_mapping mapping = { .path = NULL };
	struct fh_image image = { .name = NULL };

	fh_census_find_mapping(session->census, block->start, &mapping);
	fh_census_find_image(session->census, block->start, &image);
	tell(session, "start", emit_address(block->start));
	tell(session, "end", emit_address(block->end));
	tell(session, "size", emit_amount(block->end - block->start));
	tell_figure(session, "resident", block->resident);
	tell_figure(session, "swapped", block->swapped);
	tell(session, "domain", emit_text(block->domain));
	tell(session, "kind", emit_text(block->kind));
	tell(session, "detail", emit_text(block->detail));
	tell(session, "state", emit_text(query_state_name(block->state)));
	tell(session, "head", emit_amount(block->head));
	tell(session, "mapping", emit_text(mapping.path));
	tell(session, "permissions", emit_text(mapping.permissions));
	tell(session, "module", emit_text(image.name));
}

static bool take_field(void *context, const char *name, const char *value)
{
	tell(context, name, emit_text(value));
	return true;
}

static void add_line(struct emitter *emitter, const char *line)
{
	emitter_line(emitter, "%s", line);
}

static void tell_bytes(struct session *session, const struct fh_block *block)
{
	uint8_t bytes[MOST_BYTES];
	uint64_t head = block->head < block->end - block->start ? block->head : 0;
	uint64_t len = block->end - block->start - head;

	len = fh_census_read(session->census, block->start + head, bytes, len < sizeof(bytes) ? len : sizeof(bytes));
	emitter_value(&session->emitter, "bytes", emit_bytes(bytes, (size_t)len));
	emitter_line(&session->emitter, "%s", "");
	if (emitter_has_lines(&session->emitter))
		hexdump_block(session, block, MOST_BYTES, add_line);
}

static struct fh_error *run(struct session *session, char **arguments, size_t n)
{
	struct emitter *e = &session->emitter;
	struct fh_block block;
	uint64_t address;

	(void)n;
	TRY(parse_number("ADDR", arguments[1], &address));
	TRY(session_open(session, arguments[0], true));
	if (!fh_census_find_block(session->census, address, &block))
		return error_create(FH_ERROR_NOT_FOUND, "0x%" PRIx64 ": the target has no memory there; see the table "
				    "mapping of freehold sql", address);
	emitter_object_begin(e, NULL);
	if (!e->format->value)
		emitter_table_begin(e, NULL, columns, sizeof(columns) / sizeof(*columns), 0);
	tell_block(session, &block);
	emitter_object_begin(e, "fields");
	fh_census_describe(session->census, address, take_field, session);
	emitter_object_end(e);
	if (!e->format->value)
		emitter_table_end(e);
	tell_bytes(session, &block);
	session_emit_warnings(session);
	emitter_object_end(e);
	return NULL;
}

const struct command cmd_show = {
	.name = "show",
	.arguments = "TARGET ADDR",
	.title = "one block: what it is, and its fields",
	.text = "ADDR is any address in the block, decimal or hexadecimal with 0x. What the language runtime knows of it\n"
		"follows: type, length, value. Below are its first bytes, from where its owner's data begin.",
	.options = OPTIONS_OF_TARGETS,
	.least = 2,
	.most = 2,
	.run = run,
};
