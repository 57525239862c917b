/* SPDX-License-Identifier: Apache-2.0 */
/* Subs: their pads, the names of their variables, and their ops, which lie in slabs. */
#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/perl/internal.h"

#define MOST_DEPTH 16777216 /* pads of one sub: one for each level that it recursed to */
#define MOST_NAMES 1048576
#define MOST_SLABS 1048576u /* of one sub */
#define MOST_OPS 512u       /* kinds of ops; op_type has 9 bits */
#define OP_NAME_LEN 32
#define OP_LINKS 16u  /* op_next and op_sibparent, which it begins with */
#define OP_HEADER 40u /* struct op, which all ops begin with */
#define COP_FIELDS 3  /* of a statement's op that have memory of their own */
#define SLOT_MOST 64u /* an op is not larger, in words */

/* ---- pads ----------------------------------------------------------------------- */

static void walk_padnames(struct perl *perl, uint64_t list)
{
	struct source *source = perl->target->source;
	uint64_t names, n, name;

	if (!perl_claim_as(perl, list, "pad", "names") ||
	    !source_u64(source, list + (uint64_t)perl->o->padnames_alloc, &names) ||
	    !source_u64(source, list + (uint64_t)perl->o->padnames_fill, &n) || n > MOST_NAMES)
		return;
	perl_claim_as(perl, names, "pad", "names");
	for (uint64_t i = 0; i <= n && perl_patience(perl); i++)
		if (source_u64(source, names + 8 * i, &name) && name)
			perl_claim_as(perl, name, "pad", "name");
}

static void walk_pad(struct perl *perl, uint64_t pad)
{
	struct sv sv;

	if (sv_at(perl, pad, &sv) && sv_is(&sv, SV_ARRAY))
		perl_claim_as(perl, sv_word(perl, &sv, perl->o->xav_alloc), "pad", "values");
}

static void walk_padlist(struct perl *perl, uint64_t list)
{
	struct source *source = perl->target->source;
	uint64_t pads, max, pad;

	if (!perl_claim_as(perl, list, "pad", "list") ||
	    !source_u64(source, list + (uint64_t)perl->o->padlist_pads, &pads) ||
	    !source_u64(source, list + (uint64_t)perl->o->padlist_max, &max) || max > MOST_DEPTH)
		return;
	perl_claim_as(perl, pads, "pad", "list");
	if (source_u64(source, pads, &pad) && pad)
		walk_padnames(perl, pad);
	for (uint64_t i = 1; i <= max && perl_patience(perl); i++)
		if (source_u64(source, pads + 8 * i, &pad) && pad)
			walk_pad(perl, pad);
}

/* ---- ops ---------------------------------------------------------------------------- */

/* What a statement's own pointers lead to, by the field of struct cop. Hints are a chain. */
static const struct {
	const char *field, *detail;
	uint32_t depth;
} cop_fields[COP_FIELDS] = { { "cop_file", "file name", 1 },
			     { "cop_warnings", "warnings", 1 },
			     { "cop_hints_hash", "hints", 32 } };

struct lone_op {
	uint64_t address;
	uint32_t bytes, type;
};

struct ops {
	struct perl *perl;
	const struct perl_offsets *o; /* its own */
	const char *names[MOST_OPS];      /* NULL: not asked for yet */
	bool is_cop[MOST_OPS]; /* statements, which have more of their own; known with the name */
	category_id categories[MOST_OPS]; /* 0: not asked for yet */
	uint64_t name_table;
	int cop_field[COP_FIELDS];
	VEC(struct lone_op) lone; /* not walked yet */
	uint32_t corrupt;         /* slabs */
	uint64_t corrupt_at;
};

static const char *op_name(struct ops *ops, uint32_t type)
{
	struct source *source = ops->perl->target->source;
	char text[OP_NAME_LEN];
	uint64_t at;

	if (ops->names[type])
		return ops->names[type];
	if (!ops->name_table || !source_u64(source, ops->name_table + 8 * (uint64_t)type, &at) ||
	    !source_string(source, at, text, sizeof(text)))
		snprintf(text, sizeof(text), "%u", type);
	ops->is_cop[type] = strcmp(text, "nextstate") == 0 || strcmp(text, "dbstate") == 0;
	return ops->names[type] = strings_add(source->strings, text);
}

static category_id op_category(struct ops *ops, uint32_t type)
{
	const char *name;

	if (ops->categories[type])
		return ops->categories[type];
	name = op_name(ops, type);
	if (name && strcmp(name, "freed") == 0)
		return ops->categories[type] = perl_category(ops->perl, "perl arena", "free op", "", FH_FREE);
	return ops->categories[type] = perl_category(ops->perl, "perl", "op", name ? name : "", FH_LIVE);
}

static bool ops_init(struct ops *ops, struct perl *perl)
{
	const struct perl_offsets *o = perl->o;

	*ops = (struct ops){ .perl = perl, .o = o };
	for (size_t i = 0; i < COP_FIELDS; i++)
		ops->cop_field[i] = layout_offset(&perl->layout, "cop", cop_fields[i].field);
	image_symbol(perl->target->images, (struct image *)perl->image, "PL_op_name", &ops->name_table, NULL);
	return o->opslab_next >= 0 && o->opslab_head >= 0 && o->opslab_slots >= 0 && o->opslot_op >= 0 &&
	       o->op_type >= 0 && o->op_ppaddr >= 0;
}

static uint16_t half(const uint8_t *bytes, int offset)
{
	uint16_t value;

	memcpy(&value, bytes + offset, 2);
	return value;
}

/* Whether the block at an address is an op that lies in no slab: its function is in a program or library. */
static bool is_lone_op(struct ops *ops, uint64_t op, uint32_t *ret_type)
{
	uint8_t bytes[OP_HEADER];
	uint64_t function;
	const struct image_segment *segment;

	if (!source_read(ops->perl->target->source, op, bytes, sizeof(bytes)))
		return false;
	memcpy(&function, bytes + ops->o->op_ppaddr, 8);
	*ret_type = half(bytes, ops->o->op_type) & (MOST_OPS - 1);
	return images_at(ops->perl->target->images, function, &segment) && segment->flags & PF_X;
}

/* Names the block that a word of an op points to: another op, or data of its own, such as names of files, masks of
 * warnings, hints, tables of tr///. Some keep a count or a header before what is pointed to. */
static void take_op_data(struct ops *ops, uint64_t pointer, const char *name, bool only_ops, uint32_t depth)
{
	struct perl *perl = ops->perl;
	struct block block;
	uint32_t before = 0, type;

	while (!perl_claimable(perl, pointer - before, &block))
		if (only_ops || (before += 8) > 16)
			return;
	if (!before && block.end - pointer >= OP_HEADER && is_lone_op(ops, pointer, &type)) {
		perl_claim(perl, pointer, op_category(ops, type), NULL);
		if (!vec_push(&ops->lone, (struct lone_op){ pointer, (uint32_t)(block.end + 8 - pointer), type }))
			perl->target->ledger->no_memory = true;
	} else if (!only_ops) {
		perl_claim_with(perl, pointer - before, depth, "op data", name);
	}
}

static void walk_op_words(struct ops *ops, uint64_t op, uint32_t bytes, uint32_t type)
{
	struct source *source = ops->perl->target->source;
	const char *name = op_name(ops, type);
	bool cop = ops->is_cop[type];
	uint64_t word;

	for (uint32_t at = 0; at + 8 <= bytes; at += 8) {
		const char *detail = name;
		uint32_t depth = 1;

		if ((at >= OP_LINKS && at < OP_HEADER) || !source_u64(source, op + at, &word) || word < PAGE)
			continue;
		for (size_t i = 0; cop && i < COP_FIELDS; i++)
			if (ops->cop_field[i] == (int)at) {
				detail = cop_fields[i].detail;
				depth = cop_fields[i].depth;
			}
		take_op_data(ops, word, detail, at < OP_LINKS, depth);
	}
}

/* Ops that were made outside of a slab, and those that they lead to. */
static void walk_lone_ops(struct ops *ops)
{
	while (ops->lone.len) {
		struct lone_op op = ops->lone.items[--ops->lone.len];

		walk_op_words(ops, op.address, op.bytes < 8 * SLOT_MOST ? op.bytes : 8 * SLOT_MOST, op.type);
	}
}

/* Which address the offsets in slots count from: the slab, or its first slot. */
static uint64_t slot_base(struct ops *ops, uint64_t slab, uint64_t first)
{
	uint64_t slots = slab + (uint64_t)ops->o->opslab_slots;
	uint8_t header[16];

	if (!source_read(ops->perl->target->source, first, header, (size_t)ops->o->opslot_op))
		return 0;
	if (first == slots + 8 * (uint64_t)half(header, ops->o->opslot_offset))
		return slots;
	return first == slab + 8 * (uint64_t)half(header, ops->o->opslot_offset) ? slab : 0;
}

static void carve_slab(struct ops *ops, uint64_t slab, const struct block *block, uint64_t end, uint32_t unused)
{
	struct perl *perl = ops->perl;
	struct ledger *ledger = perl->target->ledger;
	category_id header = perl_category(perl, "perl arena", "arena header", "ops", FH_OVERHEAD);
	category_id freed = perl_category(perl, "perl arena", "free op", "", FH_FREE);
	uint64_t slots = slab + (uint64_t)ops->o->opslab_slots;
	uint64_t at = slots + 8 * (uint64_t)unused;
	uint64_t base = slot_base(ops, slab, at);

	ledger_carve_begin(ledger, block->start, block->end);
	ledger_carve_add(ledger, block->start, header);
	if (unused)
		ledger_carve_add(ledger, slots, freed);
	while (base && at + OP_HEADER + (uint64_t)ops->o->opslot_op <= end) {
		uint8_t bytes[OP_HEADER + 16];
		uint32_t size, type;

		if (!source_read(perl->target->source, at, bytes, OP_HEADER + (size_t)ops->o->opslot_op))
			break;
		size = half(bytes, ops->o->opslot_size);
		if (size < (OP_HEADER + (uint32_t)ops->o->opslot_op) / 8 || size > SLOT_MOST ||
		    base + 8 * (uint64_t)half(bytes, ops->o->opslot_offset) != at)
			break;
		type = half(bytes, ops->o->opslot_op + ops->o->op_type) & (MOST_OPS - 1);
		ledger_carve_add(ledger, at, op_category(ops, type));
		if (op_category(ops, type) != freed)
			walk_op_words(ops, at + (uint64_t)ops->o->opslot_op, 8 * size - (uint32_t)ops->o->opslot_op, type);
		at += 8 * (uint64_t)size;
	}
	if (at < end && base) { /* broken off: what is left is not known */
		if (!ops->corrupt++)
			ops->corrupt_at = at;
		ledger_carve_add(ledger, at, perl_category(perl, "perl arena", "op slab", "corrupt", FH_LIVE));
	} else if (end < block->end) {
		ledger_carve_add(ledger, end, header);
	}
	ledger_carve_end(ledger);
}

static void walk_slab(struct ops *ops, uint64_t slab)
{
	struct perl *perl = ops->perl;
	struct source *source = perl->target->source;
	category_id whole = perl_category(perl, "perl arena", "op slab", "", FH_LIVE);
	uint8_t size[2], unused[2];
	struct block block;
	uint64_t freed, end;

	if (!perl_claim(perl, slab, whole, &block) || ops->o->opslab_size < 0 || ops->o->opslab_free_space < 0 ||
	    ops->o->opslot_size < 0)
		return;
	if (ops->o->opslab_freed >= 0 && source_u64(source, slab + (uint64_t)ops->o->opslab_freed, &freed))
		perl_claim_as(perl, freed, "op data", "free list");
	if (!source_read(source, slab + (uint64_t)ops->o->opslab_size, size, 2) ||
	    !source_read(source, slab + (uint64_t)ops->o->opslab_free_space, unused, 2))
		return;
	/* The size counts the header in some versions (5.32), in others not (5.36): what malloc gave tells. */
	end = slab + (uint64_t)ops->o->opslab_slots + 8 * (uint64_t)half(size, 0);
	if (end > block.end + 8)
		end = slab + 8 * (uint64_t)half(size, 0);
	if (end <= block.end + 8)
		carve_slab(ops, slab, &block, end, half(unused, 0));
}

/* The head of the chain of slabs that an op lies in; 0 when it lies in none. */
static uint64_t head_slab(struct ops *ops, uint64_t op)
{
	struct source *source = ops->perl->target->source;
	uint64_t slot = op - (uint64_t)ops->o->opslot_op, head;
	uint8_t header[16];
	struct block block;

	/* The block of malloc's that holds it is the slab: its header tells the chain, and must agree. */
	if (!ledger_find(ops->perl->target->ledger, op, &block))
		return 0;
	block.start += ledger_category_of(ops->perl->target->ledger, block.category)->head;
	if (!source_read(source, slot, header, (size_t)ops->o->opslot_op) ||
	    !source_u64(source, block.start + (uint64_t)ops->o->opslab_head, &head))
		return 0;
	if (slot_base(ops, block.start, slot) == 0)
		return 0;
	return head;
}

void code_walk_ops(struct perl *perl, uint64_t op)
{
	struct ops *ops = perl->ops;
	uint64_t slab;

	if (!ops || op < PAGE)
		return;
	slab = head_slab(ops, op);
	for (uint32_t n = 0; slab && n < MOST_SLABS; n++) {
		if (hashmap_get(&perl->slabs, slab))
			return;
		if (!hashmap_put(&perl->slabs, slab, 1)) {
			perl->target->ledger->no_memory = true;
			return;
		}
		walk_slab(ops, slab);
		walk_lone_ops(ops);
		if (!source_u64(perl->target->source, slab + (uint64_t)ops->o->opslab_next, &slab))
			return;
	}
}

/* ---- subs -------------------------------------------------------------------------------- */

static void name_code(struct perl *perl, const struct sv *code)
{
	char name[600];
	category_id category;

	if (!sv_is(code, SV_CODE) || !code_name(perl, code, name, sizeof(name)))
		return;
	category = perl_category(perl, "perl", "code", name, FH_LIVE);
	if (!hashmap_put(&perl->heads, code->address, category))
		perl->target->ledger->no_memory = true;
}

void code_walk(struct perl *perl, const struct sv *code)
{
	uint32_t flags = sv_half(perl, code, perl->o->xcv_flags);

	name_code(perl, code);
	perl_claim_as(perl, sv_word(perl, code, perl->o->xcv_file), "op data", "file name");
	if (flags & perl->bits->cv_xsub) {
		perl_claim_with(perl, sv_word(perl, code, perl->o->xcv_start), 1, "C data", "of a sub");
		return;
	}
	walk_padlist(perl, sv_word(perl, code, perl->o->xcv_padlist));
	code_walk_ops(perl, sv_word(perl, code, perl->o->xcv_root));
	code_walk_ops(perl, sv_word(perl, code, perl->o->xcv_start));
}

void code_report(struct perl *perl)
{
	if (perl->ops && perl->ops->corrupt)
		target_damaged(perl->target,
			       "perl %s: %" PRIu32
			       " op slabs are corrupt, or were being changed, the first at 0x%" PRIx64,
			       perl->full_version, perl->ops->corrupt, perl->ops->corrupt_at);
}

void code_destroy(struct ops *ops)
{
	if (ops)
		vec_free(&ops->lone);
	free(ops);
}

bool code_init(struct perl *perl)
{
	struct ops *ops = malloc(sizeof(*ops));

	if (!ops)
		return false;
	if (ops_init(ops, perl))
		perl->ops = ops;
	else
		free(ops);
	return true;
}
