/* SPDX-License-Identifier: Apache-2.0 */
/* The references of one block, and what blocks are by their categories. */
#include "runtime/perl/refs.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- telling -------------------------------------------------------------------- */

bool refs_tell(struct refs *refs, uint64_t target, unsigned flags, const char *name)
{
	struct runtime_ref ref = {
		.target = target,
		.name = refs->named ? name : NULL,
		.weak = flags & REF_WEAK,
		.part = flags & REF_PART,
		.guess = flags & REF_GUESS,
	};

	/* undef, true and false lie in the interpreter itself, and are nobody's */
	if (target < PAGE || refs->stopped ||
	    (refs->perl->address && target != refs->perl->address &&
	     target - refs->perl->address < refs->perl->facts->interpreter_size))
		return !refs->stopped;
	refs->stopped = !refs->visit(refs->context, &ref);
	return !refs->stopped;
}

bool refs_tell_named_(struct refs *refs, uint64_t target, unsigned flags, const char *format, ...)
{
	char name[REF_NAME_LEN];
	va_list ap;

	va_start(ap, format);
	vsnprintf(name, sizeof(name), format, ap);
	va_end(ap);
	return refs_tell(refs, target, flags, name);
}

/* A word that is an address where a value, an op or any block of perl's begins. */
static bool is_beginning(struct refs *refs, uint64_t word)
{
	struct block block;

	switch (refs_class_at(refs->index, word, &block)) {
	case CLASS_UNASKED:
	case CLASS_OTHER:
	case CLASS_SLACK:
		return false;
	case CLASS_OP:
		return word == refs_op_of(refs->index, &block);
	default:
		return word == refs_data_of(refs->index, &block);
	}
}

#define WORDS 512u

void refs_tell_words(struct refs *refs, uint64_t start, uint64_t end, unsigned flags, const char *name)
{
	struct memory *memory = &refs->perl->target->source->memory;
	uint64_t words[WORDS];

	for (uint64_t at = (start + 7) & ~UINT64_C(7); at + 8 <= end && !refs->stopped;) {
		size_t want = end - at < sizeof(words) ? (size_t)(end - at) : sizeof(words);
		size_t n = memory_read(memory, at, words, want) / 8;

		for (size_t i = 0; i < n && !refs->stopped; i++)
			if (words[i] >= PAGE && words[i] % 8 == 0 && is_beginning(refs, words[i]))
				refs_tell(refs, words[i],
					  flags | REF_GUESS | (refs_is_value(refs->index, words[i]) ? 0 : REF_PART),
					  name);
		at += 8 * (n ? n : 1);
		if (!n) /* what can't be read ends at a page */
			at = (at + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	}
}

/* ---- what a block is ---------------------------------------------------------------- */

static const struct {
	const char *kind, *detail; /* detail NULL: any */
	enum block_class class;
} class_names[] = {
	{ "glob data", NULL, CLASS_GP },
	{ "pad", "names", CLASS_PAD_NAMES },
	{ "pad", "name", CLASS_PAD_NAME },
	{ "package data", "method resolution", CLASS_PACKAGE },
	{ "op", NULL, CLASS_OP },
	{ "hash entry", NULL, CLASS_ENTRY },
	{ "string slack", NULL, CLASS_SLACK },
	{ "array slack", NULL, CLASS_SLACK },
	{ "op data", NULL, CLASS_WORDS },
	{ "magic data", NULL, CLASS_WORDS },
	{ "C data", NULL, CLASS_WORDS },
	{ "regexp data", NULL, CLASS_WORDS },
	{ "handle", "table", CLASS_HANDLES },
	{ "handle", NULL, CLASS_WORDS },
	{ "parser", NULL, CLASS_WORDS },
	{ "interpreter data", "stashpad", CLASS_STASHES },
	{ "interpreter data", NULL, CLASS_WORDS },
};

static enum block_class classify(const struct category *c)
{
	if (strcmp(c->domain, "perl arena") == 0)
		return strcmp(c->kind, "arena header") == 0 && strcmp(c->detail, "ops") == 0 ? CLASS_OP_HEADER
											     : CLASS_OTHER;
	if (strcmp(c->domain, "perl") != 0 || c->state == FH_FREE)
		return CLASS_OTHER;
	for (enum sv_kind kind = 0; kind < SV_KINDS; kind++)
		if (strcmp(c->kind, sv_kind_name(kind)) == 0)
			return CLASS_HEAD;
	for (size_t i = 0; i < sizeof(class_names) / sizeof(*class_names); i++)
		if (strcmp(c->kind, class_names[i].kind) == 0 &&
		    (!class_names[i].detail || strcmp(c->detail, class_names[i].detail) == 0))
			return class_names[i].class;
	return CLASS_PART;
}

enum block_class refs_class_of(struct refs_index *index, const struct block *block)
{
	const struct ledger *ledger = index->state->target->ledger;

	while (block->category >= index->classes.len) /* named since */
		if (!vec_push(&index->classes, CLASS_UNASKED))
			return classify(ledger_category_of(ledger, block->category));
	if (index->classes.items[block->category] == CLASS_UNASKED)
		index->classes.items[block->category] = (uint8_t)classify(ledger_category_of(ledger, block->category));
	return index->classes.items[block->category];
}

enum block_class refs_class_at(struct refs_index *index, uint64_t address, struct block *ret_block)
{
	struct block block;

	if (!ledger_find(index->state->target->ledger, address, &block))
		return CLASS_OTHER;
	if (ret_block)
		*ret_block = block;
	return refs_class_of(index, &block);
}

uint64_t refs_data_of(struct refs_index *index, const struct block *block)
{
	return block->start + ledger_category_of(index->state->target->ledger, block->category)->head;
}

/* One that lies in no slab is a block of malloc's. */
uint64_t refs_op_of(struct refs_index *index, const struct block *block)
{
	uint8_t head = ledger_category_of(index->state->target->ledger, block->category)->head;

	return block->start + (head ? head : (uint64_t)index->o->opslot_op);
}

bool refs_is_value(struct refs_index *index, uint64_t address)
{
	struct block block;

	return refs_class_at(index, address, &block) == CLASS_HEAD && block.start == address;
}

/* A chunk's data reach 8 bytes into the next one's header. */
uint64_t refs_end_of(struct refs_index *index, uint64_t address)
{
	struct block block;

	return ledger_find(index->state->target->ledger, address, &block) ? block.end + 8 : 0;
}

/* ---- the index ------------------------------------------------------------------------ */

static void resolve(struct refs_layout *at, const struct layout *layout)
{
	const struct {
		int *place;
		const char *structure, *field;
	} wanted[] = {
		{ &at->pn_pv, "padname", "xpadn_pv" },
		{ &at->pn_ourstash, "padname", "xpadn_ourstash" },
		{ &at->pn_type, "padname", "xpadn_type_u" },
		{ &at->pn_flags, "padname", "xpadn_flags" },
		{ &at->op_sibparent, "op", "op_sibparent" },
		{ &at->op_targ, "op", "op_targ" },
		{ &at->pm_offset, "pmop", "op_pmoffset" },
		{ &at->mro_linear_all, "mro_meta", "mro_linear_all" },
		{ &at->mro_linear_current, "mro_meta", "mro_linear_current" },
		{ &at->mro_nextmethod, "mro_meta", "mro_nextmethod" },
		{ &at->mro_isa, "mro_meta", "isa" },
		{ &at->mro_super, "mro_meta", "super" },
		{ &at->mro_destroy, "mro_meta", "destroy" },
		{ &at->lv_targ, "xpvlv", "xlv_targ" },
		{ &at->lv_type, "xpvlv", "xlv_type" },
		{ &at->io_ofp, "xpvio", "xio_ofp" },
		{ &at->io_top_gv, "xpvio", "xio_top_gv" },
		{ &at->io_fmt_gv, "xpvio", "xio_fmt_gv" },
		{ &at->io_bottom_gv, "xpvio", "xio_bottom_gv" },
		{ &at->obj_fields, "xobject", "xobject_fields" },
		{ &at->obj_maxfield, "xobject", "xobject_maxfield" },
		{ &at->cop_filegv, "cop", "cop_filegv" },
		{ &at->cop_stash, "cop", "cop_stash" },
		{ &at->pm_regexp, "pmop", "op_pmregexp" },
		{ &at->aux_flags, "xpvhv_aux", "xhv_aux_flags" },
		{ &at->re_engine, "regexp", "engine" },
	};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
		*wanted[i].place = layout_offset(layout, wanted[i].structure, wanted[i].field);
	at->hash_aux = layout_structure(layout, "xpvhv_aux");
}

static int by_start(const void *a, const void *b)
{
	const struct heads_of *one = a, *other = b;

	return one->start < other->start ? -1 : one->start > other->start;
}

struct pads_of {
	struct refs_index *index;
	uint64_t left; /* each pad is a value: there are not more of them */
};

/* A sub's pads are arrays like others, but their items have names. */
static void add_pads(struct perl *perl, const struct sv *code, void *context)
{
	struct pads_of *pads_of = context;
	struct refs_index *index = pads_of->index;
	struct source *source = perl->target->source;
	uint64_t list, pads, max, pad;

	if ((!sv_is(code, SV_CODE) && !sv_is(code, SV_FORMAT)) ||
	    sv_half(perl, code, perl->o->xcv_flags) & perl->bits->cv_xsub)
		return;
	list = sv_word(perl, code, perl->o->xcv_padlist);
	if (list < PAGE || !source_u64(source, list + (uint64_t)perl->o->padlist_pads, &pads) ||
	    !source_u64(source, list + (uint64_t)perl->o->padlist_max, &max))
		return;
	for (uint64_t end = refs_end_of(index, pads), i = 1; i <= max && pads + 8 * i + 8 <= end && pads_of->left;
	     i++, pads_of->left--)
		if (source_u64(source, pads + 8 * i, &pad) && pad && !hashmap_put(&index->pads, pad, code->address))
			return; /* memory is out: these have no names then */
}

static bool fill_index(struct refs_index *index)
{
	struct perl_state *state = index->state;

	for (size_t i = 0; i < state->list.len; i++) {
		struct perl *perl = state->list.items[i];

		for (size_t j = 0; j < perl->arenas.len; j++) {
			const struct sv_arena *arena = &perl->arenas.items[j];

			if (!vec_push(&index->arenas,
				      (struct heads_of){ arena->start, arena->start + arena->n * (uint64_t)HEAD_SIZE,
							 perl }))
				return false;
		}
		perl_arenas_each(perl, add_pads, &(struct pads_of){ index, perl->live });
	}
	if (index->arenas.len)
		qsort(index->arenas.items, index->arenas.len, sizeof(*index->arenas.items), by_start);
	return true;
}

struct refs_index *refs_index_get(struct perl_state *state)
{
	struct refs_index *index = state->refs_index;

	if (index)
		return index;
	index = calloc(1, sizeof(*index));
	if (!index)
		return NULL;
	index->state = state;
	index->o = state->list.items[0]->o;
	resolve(&index->at, &state->list.items[0]->layout);
	index->aux_is_class = perl_constant(&state->list.items[0]->layout, "HvAUXf_IS_CLASS", 0);
	index->main_cv = perl_pointer(state->list.items[0], "main_cv");
	if (state->list.len == 1 && index->at.pm_offset >= 0) /* ops are shared by threads, regexps are not */
		index->regex_pad = perl_pointer(state->list.items[0], "regex_padav");
	if (!fill_index(index)) {
		refs_index_destroy(index);
		return NULL;
	}
	return state->refs_index = index;
}

void refs_index_destroy(struct refs_index *index)
{
	if (!index)
		return;
	vec_free(&index->classes);
	vec_free(&index->arenas);
	hashmap_deinit(&index->pads);
	free(index);
}

struct perl *refs_perl_of(struct refs_index *index, uint64_t address)
{
	size_t after = vec_after(&index->arenas, .start, address);

	if (after && address < index->arenas.items[after - 1].end)
		return index->arenas.items[after - 1].perl;
	return index->state->list.items[0];
}

/* ---- one block --------------------------------------------------------------------------- */

/* The block of a slab's header begins with that of its chunk, 16 bytes in glibc. */
static uint64_t slab_of_header(struct refs *refs, const struct block *block)
{
	uint64_t head;

	for (uint32_t before = 24; (before -= 8) <= 16;) /* the words before the slab may look like its own */
		if (source_u64(refs->perl->target->source,
			       block->start + before + (uint64_t)refs->index->o->opslab_head, &head) &&
		    refs_class_at(refs->index, head, NULL) == CLASS_OP_HEADER)
			return block->start + before;
	return 0;
}

static void dispatch(struct refs *refs, enum block_class class, const struct block *block)
{
	uint64_t data = refs_data_of(refs->index, block);
	struct sv sv;

	switch (class) {
	case CLASS_HEAD:
		if (sv_at(refs->perl, block->start, &sv))
			refs_of_value(refs, &sv);
		break;
	case CLASS_GP:
		refs_of_glob_data(refs, data);
		break;
	case CLASS_PAD_NAMES:
		refs_of_pad_names(refs, data);
		break;
	case CLASS_PAD_NAME:
		refs_of_pad_name(refs, data);
		break;
	case CLASS_PACKAGE:
		refs_of_package(refs, data);
		break;
	case CLASS_OP:
		refs_of_op(refs, block);
		break;
	case CLASS_OP_HEADER:
		refs_of_slab(refs, slab_of_header(refs, block));
		break;
	case CLASS_WORDS:
		refs_tell_words(refs, data, block->end + (data > block->start ? 8 : 0), REF_STRONG,
				ledger_category_of(refs->perl->target->ledger, block->category)->kind);
		break;
	case CLASS_HANDLES: /* layers belong to the IO values that use them */
		refs_tell_words(refs, data, data + 8, REF_STRONG, "next table");
		refs_tell_words(refs, data + 8, block->end, REF_WEAK, "handle");
		break;
	case CLASS_STASHES: /* by number, for ops: it counts nothing */
		refs_tell_words(refs, data, block->end + 8, REF_WEAK, "package");
		break;
	default:
		break;
	}
}

void perl_refs(struct perl_state *state, const struct block *block, bool named, runtime_ref_visitor *visit,
	       void *context)
{
	struct refs_index *index = refs_index_get(state);
	struct refs refs = { .index = index, .named = named, .visit = visit, .context = context };
	enum block_class class;

	if (!index)
		return;
	class = refs_class_of(index, block);
	if (class == CLASS_OTHER || class == CLASS_PART || class == CLASS_ENTRY || class == CLASS_SLACK)
		return;
	refs.perl = refs_perl_of(index, block->start);
	dispatch(&refs, class, block);
}
