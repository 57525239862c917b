/* SPDX-License-Identifier: Apache-2.0 */
/* What the interpreter itself owns: its stacks, its handles' buffers, its parser, regexps' programs. */
#include <elf.h>

#include "runtime/perl/internal.h"

#define MOST_STACKS 1048576u
#define MOST_TABLES 65536u
#define MOST_LAYERS 256u
#define HANDLES 64u /* in a table of handles: PERLIO_TABLE_SIZE in perlio.c */

/* Names what the pointers in a struct point to, `depth` steps far; the detail is the field's name. */
static void claim_fields(struct perl *perl, uint64_t at, struct layout fields, const char *kind, uint32_t depth)
{
	uint64_t word;

	for (size_t i = 0; i < fields.len; i++) {
		const struct layout_fact *fact = &fields.facts[i];

		if (strcmp(fact->field, "sizeof") == 0)
			continue;
		for (uint32_t n = 0; n + 8 <= fact->size; n += 8) /* arrays have several */
			if (source_u64(perl->target->source, at + fact->offset + n, &word) && word >= PAGE)
				perl_claim_with(perl, word, depth, kind, fact->field);
	}
}

/* ---- stacks ------------------------------------------------------------------------ */

static void walk_stacks(struct perl *perl)
{
	static const char *const stacks[][2] = {
		{ "markstack", "marks" },
		{ "scopestack", "scopes" },
		{ "savestack", "saved values" },
		{ "tmps_stack", "temporaries" },
	};
	int cxstack = layout_offset(&perl->layout, "stackinfo", "si_cxstack");
	int stack = layout_offset(&perl->layout, "stackinfo", "si_stack");
	int prev = layout_offset(&perl->layout, "stackinfo", "si_prev"),
	    next = layout_offset(&perl->layout, "stackinfo", "si_next");
	uint64_t at = perl_pointer(perl, "curstackinfo"), word;
	struct sv sv;

	for (size_t i = 0; i < sizeof(stacks) / sizeof(*stacks); i++)
		perl_claim_as(perl, perl_pointer(perl, stacks[i][0]), "stack", stacks[i][1]);
	if (cxstack < 0 || stack < 0 || prev < 0 || next < 0)
		return;
	for (uint32_t n = 0; n < MOST_STACKS && source_u64(perl->target->source, at + (uint64_t)prev, &word) && word;
	     n++)
		at = word; /* the oldest */
	for (uint32_t n = 0; at && n < MOST_STACKS && perl_claim_as(perl, at, "stack", "stack info"); n++) {
		if (source_u64(perl->target->source, at + (uint64_t)cxstack, &word))
			perl_claim_as(perl, word, "stack", "contexts");
		if (source_u64(perl->target->source, at + (uint64_t)stack, &word) && sv_at(perl, word, &sv) &&
		    sv_is(&sv, SV_ARRAY))
			perl_claim_as(perl, sv_word(perl, &sv, perl->o->xav_alloc), "stack", "arguments");
		if (!source_u64(perl->target->source, at + (uint64_t)next, &at))
			return;
	}
}

/* ---- handles ------------------------------------------------------------------------- */

/* A handle is a chain of layers, the topmost in a table: {next, functions, flags ...}; each but the topmost is a block
 * of its own. Those that keep a buffer have its address among their words (perliol.h). */
static void walk_handle_layers(struct perl *perl, uint64_t slot)
{
	struct source *source = perl->target->source;
	uint64_t layer = slot;

	for (uint32_t n = 0; layer && n < MOST_LAYERS; n++) {
		uint64_t word;
		struct block block;

		if (layer != slot) {
			if (!perl_claimable(perl, layer, &block))
				return;
			perl_claim_as(perl, layer, "handle", "layer");
			for (uint64_t at = layer + 32; at + 8 <= block.end + 8 && at < layer + 256; at += 8)
				if (source_u64(source, at, &word) && word >= PAGE)
					perl_claim_as(perl, word, "handle", "buffer");
		}
		if (!source_u64(source, layer, &layer))
			return;
	}
}

static void walk_handles(struct perl *perl)
{
	uint64_t table = perl_pointer(perl, "perlio"), size = layout_size(&perl->layout, "_PerlIO");
	struct source *source = perl->target->source;

	for (uint32_t n = 0; table && size && n < MOST_TABLES && perl_claim_as(perl, table, "handle", "table"); n++) {
		for (uint64_t i = 1; i < HANDLES; i++)
			walk_handle_layers(perl, table + i * size);
		if (!source_u64(source, table, &table))
			return;
	}
}

void io_walk(struct perl *perl, const struct sv *io)
{
	claim_fields(perl, io->any, perl->facts->io, "handle", 1);
}

/* ---- regexps ---------------------------------------------------------------------------- */

void regexp_walk(struct perl *perl, const struct sv *regexp)
{
	perl_claim_with(perl, sv_word(perl, regexp, perl->o->regexp_program), 4, "regexp data", "program");
	claim_fields(perl, regexp->any, perl->facts->regexp, "regexp data", 1);
}

/* ---- all ------------------------------------------------------------------------------------ */

void interpreter_walk(struct perl *perl)
{
	struct block block;
	uint64_t parser = perl_pointer(perl, "parser"), main = perl_pointer(perl, "main_root");

	if (perl->address && perl_claimable(perl, perl->address, &block))
		perl_claim_as(perl, perl->address, "interpreter", "");
	walk_stacks(perl);
	walk_handles(perl);
	if (parser && perl_claim_as(perl, parser, "parser", ""))
		claim_fields(perl, parser, layout_structure(&perl->layout, "yy_parser"), "parser", 2);
	code_walk_ops(perl, main);
	code_walk_ops(perl, perl_pointer(perl, "eval_root"));
}

/* Whatever else it points to and nobody has named: its variables, and what perl has one of in a process. */
void interpreter_walk_rest(struct perl *perl)
{
	const struct image *image = perl->image;

	for (size_t i = 0; i < image->segments.len; i++)
		if (image->segments.items[i].flags & PF_W)
			perl_claim_reached(perl, image->segments.items[i].start, image->segments.items[i].end, 2,
					   "interpreter data", "");
	if (perl->address)
		claim_fields(perl, perl->address, layout_structure(&perl->layout, "interpreter"), "interpreter data",
			     2);
}
