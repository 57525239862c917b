/* SPDX-License-Identifier: Apache-2.0 */
/* What code refers to: subs to their pads and ops, pads to variables by their names, ops to each other. */
#include <inttypes.h>
#include <stdio.h>

#include "runtime/perl/refs.h"
#include "runtime/perl/text.h"

#define NAME_LEN 600
#define VARIABLE_LEN 256
#define OP_LINKS 16u  /* op_next and op_sibparent, which an op begins with */
#define OP_HEADER 40u /* struct op, which all ops begin with */
#define OP_MOST 512u  /* bytes; 96 in fact */

static uint64_t word_at(struct refs *refs, uint64_t address)
{
	uint64_t word = 0;

	return source_u64(refs->perl->target->source, address, &word) ? word : 0;
}

/* ---- pads ------------------------------------------------------------------------- */

/* The array of names for a sub's pads, and how many there are. */
static uint64_t pad_names(struct refs *refs, uint64_t code, uint64_t *ret_n)
{
	struct perl *perl = refs->perl;
	struct sv sv;
	uint64_t list, pads, names;
	uint64_t array;

	*ret_n = 0;
	if (!sv_at(perl, code, &sv))
		return 0;
	list = sv_word(perl, &sv, perl->o->xcv_padlist);
	pads = list < PAGE ? 0 : word_at(refs, list + (uint64_t)perl->o->padlist_pads);
	names = pads < PAGE ? 0 : word_at(refs, pads);
	if (names < PAGE)
		return 0;
	array = word_at(refs, names + (uint64_t)perl->o->padnames_alloc);
	*ret_n = word_at(refs, names + (uint64_t)perl->o->padnames_fill) + 1;
	return array;
}

/* "$x" and whether it is a variable of an outer sub; false when it is a temporary or a constant. */
static bool variable_name(struct refs *refs, uint64_t padname, char name[VARIABLE_LEN], bool *ret_outer)
{
	struct source *source = refs->perl->target->source;
	const struct refs_layout *at = &refs->index->at;
	uint8_t flags = 0;
	uint64_t pv;

	if (padname < PAGE || at->pn_pv < 0 || at->pn_flags < 0)
		return false;
	pv = word_at(refs, padname + (uint64_t)at->pn_pv);
	if (pv < PAGE || !source_read(source, padname + (uint64_t)at->pn_flags, &flags, 1) ||
	    !source_string(source, pv, name, VARIABLE_LEN) || !name[0])
		return false;
	*ret_outer = flags & refs->perl->bits->pn_outer;
	return !(flags & refs->perl->bits->pn_our); /* the variable is in its package; the slot keeps a temporary */
}

static void name_item(struct refs *refs, const char *sub, uint64_t padname, uint64_t item, uint64_t i, char *name,
		      size_t size)
{
	char variable[VARIABLE_LEN] = "";
	struct text text = text_in(name, size);
	struct sv sv;
	bool outer = false;

	if (variable_name(refs, padname, variable, &outer) && variable[1]) {
		text_add(&text, outer ? "%s of closure %s" : "%s in pad of %s", variable, sub);
	} else if (variable[0] == '&') {
		text_add(&text, "anonymous sub %" PRIu64 " of %s", i, sub);
	} else if (i == 0) {
		text_add(&text, "@_ of %s", sub);
	} else if (sv_at(refs->perl, item, &sv) && sv_is(&sv, SV_GLOB)) {
		text_add(&text, "*");
		text_add_glob_name(refs->perl, &text, &sv);
		text_add(&text, " in code of %s", sub);
	} else if (sv.body && sv.flags & refs->perl->bits->readonly) {
		text_add(&text, "constant %" PRIu64 " of %s", i, sub);
	} else {
		text_add(&text, "temporary %" PRIu64 " of %s", i, sub);
	}
}

void refs_of_pad(struct refs *refs, const struct sv *pad, uint64_t code)
{
	char sub[NAME_LEN], name[REF_NAME_LEN];
	uint64_t start, end, n, names = pad_names(refs, code, &n);
	struct sv sv;

	if (!array_items(refs, pad, &start, &end))
		return;
	if (code == refs->index->main_cv)
		snprintf(sub, sizeof(sub), "the main program");
	else if (refs->named && (!sv_at(refs->perl, code, &sv) || !code_name(refs->perl, &sv, sub, sizeof(sub))))
		snprintf(sub, sizeof(sub), "a sub at 0x%" PRIx64, code);
	for (uint64_t i = 0; start + 8 * i + 8 <= end && !refs->stopped; i++) {
		uint64_t item = word_at(refs, start + 8 * i);

		if (item < PAGE)
			continue;
		if (refs->named)
			name_item(refs, sub, i < n && names >= PAGE ? word_at(refs, names + 8 * i) : 0, item, i, name,
				  sizeof(name));
		refs_tell(refs, item, REF_STRONG, name);
	}
}

/* The list, or the array that it has: only the list refers to anything. */
void refs_of_pad_names(struct refs *refs, uint64_t list)
{
	const struct perl_offsets *o = refs->perl->o;
	uint64_t array = word_at(refs, list + (uint64_t)o->padnames_alloc), end;
	uint64_t n = word_at(refs, list + (uint64_t)o->padnames_fill) + 1;
	struct block block;

	if (array < PAGE || refs_class_at(refs->index, array, &block) != CLASS_PAD_NAMES ||
	    array != refs_data_of(refs->index, &block))
		return;
	refs_tell(refs, array, REF_PART, "names");
	end = block.end + 8;
	for (uint64_t i = 0; i < n && array + 8 * i + 8 <= end && !refs->stopped; i++)
		refs_tell(refs, word_at(refs, array + 8 * i), REF_PART, "name");
}

void refs_of_pad_name(struct refs *refs, uint64_t name)
{
	const struct refs_layout *at = &refs->index->at;
	uint64_t pv = at->pn_pv < 0 ? 0 : word_at(refs, name + (uint64_t)at->pn_pv);

	if (at->pn_ourstash >= 0)
		refs_tell(refs, word_at(refs, name + (uint64_t)at->pn_ourstash), REF_STRONG, "package of our variable");
	if (at->pn_type >= 0)
		refs_tell(refs, word_at(refs, name + (uint64_t)at->pn_type), REF_STRONG, "type or prototype");
	if (pv - name > PAGE) /* a captured variable's name is that of the outer sub; else it lies here */
		refs_tell(refs, pv, REF_PART, "name");
}

/* ---- subs ----------------------------------------------------------------------------- */

static void refs_of_padlist(struct refs *refs, const struct sv *code)
{
	struct perl *perl = refs->perl;
	uint64_t list = sv_word(perl, code, perl->o->xcv_padlist), pads, max, end;

	if (list < PAGE)
		return;
	refs_tell(refs, list, REF_PART, "pads");
	pads = word_at(refs, list + (uint64_t)perl->o->padlist_pads);
	max = word_at(refs, list + (uint64_t)perl->o->padlist_max);
	if (pads < PAGE)
		return;
	refs_tell(refs, pads, REF_PART, "pads");
	refs_tell(refs, word_at(refs, pads), REF_PART, "names of variables");
	end = refs_end_of(refs->index, pads);
	for (uint64_t i = 1; i <= max && pads + 8 * i + 8 <= end && !refs->stopped; i++)
		refs_tell_format(refs, word_at(refs, pads + 8 * i), REF_PART, "pad %" PRIu64, i);
}

/* A sub in C has data instead of ops: a constant sub its value. */
static void refs_of_xsub(struct refs *refs, const struct sv *code, uint32_t flags)
{
	uint64_t any = sv_word(refs->perl, code, refs->perl->o->xcv_start);

	if (any < PAGE)
		return;
	if (flags & refs->perl->bits->cv_const)
		refs_tell(refs, any, REF_STRONG, "constant value");
	else if (refs_is_value(refs->index, any))
		refs_tell(refs, any, REF_GUESS, "C data");
	else if (refs_class_at(refs->index, any, NULL) == CLASS_WORDS)
		refs_tell(refs, any, REF_PART | REF_GUESS, "C data");
}

void refs_of_code(struct refs *refs, const struct sv *sv)
{
	struct perl *perl = refs->perl;
	const struct sv_bits *bits = perl->bits;
	uint32_t flags = sv_half(perl, sv, perl->o->xcv_flags);
	uint64_t name = sv_word(perl, sv, perl->o->xcv_gv), file = sv_word(perl, sv, perl->o->xcv_file);
	uint64_t root = sv_word(perl, sv, perl->o->xcv_root);

	if (sv->u >= PAGE && sv_word(perl, sv, perl->o->xpv_len))
		refs_tell(refs, sv->u, REF_PART, "prototype");
	refs_tell(refs, sv_word(perl, sv, perl->o->xcv_stash), REF_WEAK, "CvSTASH");
	if (flags & bits->cv_named)
		refs_tell(refs, name, REF_PART, "name");
	else
		refs_tell(refs, name, flags & bits->cv_cvgv_rc ? REF_STRONG : REF_WEAK, "CvGV");
	refs_tell(refs, sv_word(perl, sv, perl->o->xcv_outside), flags & bits->cv_weakoutside ? REF_WEAK : REF_STRONG,
		  "CvOUTSIDE");
	if (refs_class_at(refs->index, file, NULL) == CLASS_WORDS)
		refs_tell(refs, file, REF_PART, "file name");
	if (flags & bits->cv_xsub) {
		refs_of_xsub(refs, sv, flags);
		return;
	}
	refs_of_padlist(refs, sv);
	refs_tell(refs, root, REF_PART, "CvROOT");
	refs_tell(refs, sv_word(perl, sv, perl->o->xcv_start), root ? REF_PART | REF_WEAK : REF_PART, "CvSTART");
}

/* ---- ops --------------------------------------------------------------------------------- */

uint64_t op_slab(struct refs_index *index, uint64_t slot)
{
	const struct perl_offsets *o = index->o;
	uint16_t words;
	struct block block;

	if (o->opslot_offset < 0 || o->opslab_slots < 0 ||
	    !source_read(index->state->target->source, slot + (uint64_t)o->opslot_offset, &words, sizeof(words)))
		return 0;
	for (unsigned from_slots = 0; from_slots < 2;
	     from_slots++) { /* 5.36 counts from the first slot, 5.32 from the slab */
		uint64_t slab = slot - 8 * (uint64_t)words - (from_slots ? 0 : (uint64_t)o->opslab_slots);

		if (refs_class_at(index, slab, &block) == CLASS_OP_HEADER && refs_data_of(index, &block) <= slab &&
		    slab - block.start <= 16)
			return slab;
	}
	return 0;
}

/* The regexp of a match is in an array of the interpreter, by number. */
static void refs_of_match(struct refs *refs, uint64_t op, uint64_t end, const char *name)
{
	uint64_t i, regexp = refs->index->regex_pad, items, items_end;
	struct sv array;

	if (!regexp || (strcmp(name, "match") != 0 && strcmp(name, "qr") != 0 && strcmp(name, "subst") != 0 &&
			strcmp(name, "split") != 0 && strcmp(name, "pushre") != 0))
		return;
	i = word_at(refs, op + (uint64_t)refs->index->at.pm_offset);
	if (op + (uint64_t)refs->index->at.pm_offset + 8 > end || !sv_at(refs->perl, regexp, &array) ||
	    !array_items(refs, &array, &items, &items_end))
		return;
	if (i && i < (items_end - items) / 8)
		refs_tell(refs, word_at(refs, items + 8 * i), REF_STRONG, "regexp");
}

/* A word of an op: another op, a value (in a perl without threads), or data of its own. */
static void refs_of_op_word(struct refs *refs, uint64_t op, uint32_t offset, const char *name)
{
	const struct refs_layout *at = &refs->index->at;
	uint64_t word = word_at(refs, op + offset);
	bool is_cop = strcmp(name, "nextstate") == 0 || strcmp(name, "dbstate") == 0;
	struct block block;

	if (word < PAGE || word % 8)
		return;
	switch (refs_class_at(refs->index, word, &block)) {
	case CLASS_OP:
		/* What runs next is somewhere in the tree; the tree is made by first children and siblings. */
		refs_tell(refs, word, offset == 0 ? REF_PART | REF_WEAK : REF_PART,
			  offset < OP_HEADER ? "next op" : "op");
		break;
	case CLASS_HEAD:
		if (word != block.start || offset < OP_HEADER)
			break;
		if (is_cop && (int)offset == at->cop_stash)
			refs_tell(refs, word, REF_WEAK, "package");
		else /* with threads they are in pads, and this may be what a larger op left behind */
			refs_tell_format(refs, word, at->pm_regexp >= 0 ? REF_STRONG : REF_GUESS, "constant of %s",
					 name);
		break;
	case CLASS_WORDS: /* a count or the like may come before what is pointed to */
		refs_tell_format(refs, word, REF_PART, "data of %s", name);
		break;
	case CLASS_PART:
		refs_tell_format(refs, word, REF_PART | REF_WEAK, "data of %s", name);
		break;
	default:
		break;
	}
}

void refs_of_op(struct refs *refs, const struct block *block)
{
	const struct category *c = ledger_category_of(refs->perl->target->ledger, block->category);
	uint64_t slab = op_slab(refs->index, block->start), op = refs_op_of(refs->index, block), end = block->end + 8;
	uint16_t words;

	/* The last op of a slab reaches into the next chunk's header, others not into the next op. */
	if (slab && source_read(refs->perl->target->source, block->start + (uint64_t)refs->index->o->opslot_size,
				&words, sizeof(words)))
		end = block->start + 8 * (uint64_t)words;
	if (slab)
		refs_tell(refs, slab, REF_PART, "slab");
	if (end > op + OP_MOST)
		end = op + OP_MOST;
	for (uint32_t offset = 0; op + offset + 8 <= end && !refs->stopped; offset += 8)
		if (offset < OP_LINKS || offset >= OP_HEADER)
			refs_of_op_word(refs, op, offset, c->detail);
	if (refs->index->at.pm_offset >= 0)
		refs_of_match(refs, op, end, c->detail);
}

/* All ops of a slab go with it, also those that are in no tree any more, as what was folded into a constant. */
void refs_of_slab(struct refs *refs, uint64_t slab)
{
	const struct perl_offsets *o = refs->index->o;
	struct ledger *ledger = refs->perl->target->ledger;
	struct ledger_cursor cursor;
	struct block block;
	uint16_t words = 0;
	uint64_t end;

	if (o->opslab_slots < 0 || o->opslab_size < 0 || o->opslab_next < 0 ||
	    !source_read(refs->perl->target->source, slab + (uint64_t)o->opslab_size, &words, sizeof(words)))
		return;
	refs_tell(refs, word_at(refs, slab + (uint64_t)o->opslab_next), REF_PART, "next slab");
	if (o->opslab_freed >= 0 &&
	    refs_class_at(refs->index, word_at(refs, slab + (uint64_t)o->opslab_freed), NULL) == CLASS_WORDS)
		refs_tell(refs, word_at(refs, slab + (uint64_t)o->opslab_freed), REF_PART, "free list");
	end = slab + (uint64_t)o->opslab_slots + 8 * (uint64_t)words;
	cursor = ledger_cursor_at(ledger, slab + (uint64_t)o->opslab_slots);
	while (ledger_next(ledger, &cursor, &block) && block.start < end && !refs->stopped) {
		const struct category *c = ledger_category_of(ledger, block.category);

		if (refs_class_of(refs->index, &block) == CLASS_OP && !c->head)
			refs_tell(refs, block.start + (uint64_t)o->opslot_op, REF_PART, "op");
		else if (c->state != FH_FREE)
			return;
	}
}
