/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that belongs to values: what it is, and whose. */
#include <inttypes.h>
#include <stdio.h>

#include "runtime/perl/show.h"

#define MOST_OWNERS 4u /* that are named; all are counted */
#define NAME_LEN 600

/* ---- whose it is ------------------------------------------------------------------- */

struct owners {
	struct show *show;
	uint64_t start, end; /* of the block */
	uint64_t slabs;      /* of the op, or 0 */
	const struct sv *candidate;
	uint64_t told; /* the owner told last, which may refer to the block twice */
	uint32_t n;
};

static void tell_owner(struct owners *owners, const struct sv *sv)
{
	struct show *show = owners->show;
	char name[NAME_LEN], buffer[SHOW_LEN];
	struct text text = text_in(buffer, sizeof(buffer));

	if (owners->told == sv->address || owners->n++ >= MOST_OWNERS)
		return;
	owners->told = sv->address;
	text_add_reference(show->perl, &text, sv);
	if (sv_is(sv, SV_CODE) && code_name(show->perl, sv, name, sizeof(name)))
		text_add(&text, " %s", name);
	else if (sv_is(sv, SV_GLOB) || (sv_is(sv, SV_SCALAR) && !(sv->flags & show->perl->bits->rok))) {
		text_add(&text, " ");
		text_add_scalar(show->perl, &text, sv);
	}
	show_tell(show, "belongs to", "%s", buffer);
}

static bool check_part(void *context, const struct runtime_ref *ref)
{
	struct owners *owners = context;

	if (!ref->part || ref->target < owners->start || ref->target >= owners->end)
		return true;
	tell_owner(owners, owners->candidate);
	return false;
}

static void check_owner(struct perl *perl, const struct sv *sv, void *context)
{
	struct owners *owners = context;
	struct refs refs = { .perl = perl, .index = owners->show->index, .visit = check_part, .context = owners };

	owners->show->perl = perl;
	owners->candidate = sv;
	if (!owners->slabs)
		refs_of_value(&refs, sv);
	else if (sv_is(sv, SV_CODE) && !(sv_half(perl, sv, perl->o->xcv_flags) & perl->bits->cv_xsub) &&
		 show_slabs_of(owners->show, sv_word(perl, sv, perl->o->xcv_root)) == owners->slabs)
		tell_owner(owners, sv);
}

/* Memory that belongs to memory: the first such block, in its words. */
struct holder {
	const struct block *block;
	bool found;
};

static bool check_holder(void *context, const struct runtime_ref *ref)
{
	struct holder *holder = context;

	holder->found = ref->part && ref->target >= holder->block->start && ref->target < holder->block->end;
	return !holder->found;
}

static void tell_holder(struct show *show, const struct block *block)
{
	struct perl_state *state = show->index->state;
	struct holder holder = { .block = block };
	struct ledger_cursor cursor = { 0 };
	struct block other;
	char place[NAME_LEN + 16];

	while (!holder.found && ledger_next(state->target->ledger, &cursor, &other)) {
		enum block_class class = refs_class_of(show->index, &other);
		const struct category *c = ledger_category_of(state->target->ledger, other.category);

		if (class == CLASS_HEAD || class == CLASS_HANDLES || other.slot == block->slot)
			continue;
		perl_refs(state, &other, false, check_holder, &holder);
		if (!holder.found)
			continue;
		show_tell(show, "belongs to", "%s %s at 0x%" PRIx64, c->kind, c->detail, other.start);
		if (class == CLASS_OP && strcmp(c->detail, "nextstate") == 0 &&
		    show_cop_place(show->perl, show->index, refs_op_of(show->index, &other), place, sizeof(place)))
			show_tell(show, "place", "%s", place);
	}
}

static void tell_owners(struct show *show, const struct block *block, uint64_t slabs)
{
	struct owners owners = { .show = show, .start = block->start, .end = block->end, .slabs = slabs };
	const struct perl_state *state = show->index->state;

	for (size_t i = 0; i < state->list.len && !show->stopped; i++)
		perl_arenas_each(state->list.items[i], check_owner, &owners);
	if (owners.n > MOST_OWNERS)
		show_tell(show, "and to", "%" PRIu32 " more", owners.n - MOST_OWNERS);
	if (!owners.n && !slabs)
		tell_holder(show, block);
}

/* ---- what it is --------------------------------------------------------------------------- */

static void show_op(struct show *show, const struct block *block)
{
	const char *name = ledger_category_of(show->perl->target->ledger, block->category)->detail;
	uint64_t op = refs_op_of(show->index, block), slabs = show_slabs_of(show, op);
	char place[NAME_LEN + 16];

	show_tell(show, "op", "%s", name);
	if ((strcmp(name, "nextstate") == 0 || strcmp(name, "dbstate") == 0) &&
	    show_cop_place(show->perl, show->index, op, place, sizeof(place)))
		show_tell(show, "place", "%s", place);
	if (!slabs)
		return;
	if (slabs == show_slabs_of(show, perl_pointer(show->perl, "main_root")))
		show_tell(show, "belongs to", "the main program");
	else
		tell_owners(show, block, slabs);
}

static void show_entry(struct show *show, uint64_t he)
{
	const struct perl_offsets *o = show->perl->o;
	char buffer[SHOW_LEN];
	struct text text = text_in(buffer, sizeof(buffer));
	uint64_t hek = 0, value = 0;
	struct sv sv;

	source_u64(show->perl->target->source, he + (uint64_t)o->he_hek, &hek);
	source_u64(show->perl->target->source, he + (uint64_t)o->he_val, &value);
	text_add_key(show->perl, &text, hek);
	show_tell(show, "key", "%s", buffer);
	if (!sv_at(show->perl, value, &sv))
		return;
	text = text_in(buffer, sizeof(buffer));
	text_add_scalar(show->perl, &text, &sv);
	show_tell(show, "value", "%s", buffer);
}

/* A shared key lies in an entry of the table of all of them; any other begins its block. */
static void show_key(struct show *show, const struct block *block)
{
	const struct category *c = ledger_category_of(show->perl->target->ledger, block->category);
	uint64_t data = refs_data_of(show->index, block), users;
	bool shared = strcmp(c->detail, "shared") == 0;
	char buffer[SHOW_LEN];
	struct text text = text_in(buffer, sizeof(buffer));

	text_add_key(show->perl, &text, shared ? data + (uint64_t)show->perl->o->shared_hek : data);
	show_tell(show, "key", "%s", buffer);
	if (shared && source_u64(show->perl->target->source, data + (uint64_t)show->perl->o->he_val, &users))
		show_tell(show, "users", "%" PRIu64, users);
}

static void show_pad_name(struct show *show, uint64_t name)
{
	uint64_t pv;
	char text[NAME_LEN];

	if (show->index->at.pn_pv >= 0 &&
	    source_u64(show->perl->target->source, name + (uint64_t)show->index->at.pn_pv, &pv) && pv >= PAGE &&
	    source_string(show->perl->target->source, pv, text, sizeof(text)))
		show_tell(show, "variable", "%s", text);
}

void perl_show(struct perl_state *state, const struct block *block, runtime_field_visitor *visit, void *context)
{
	struct refs_index *index = refs_index_get(state);
	struct show show = { .index = index, .visit = visit, .context = context };
	enum block_class class = index ? refs_class_of(index, block) : CLASS_OTHER;
	struct sv sv;

	if (class == CLASS_OTHER)
		return;
	show.perl = refs_perl_of(index, block->start);
	switch (class) {
	case CLASS_HEAD:
		if (sv_at(show.perl, block->start, &sv))
			show_value(&show, &sv);
		return;
	case CLASS_OP:
		show_op(&show, block);
		return;
	case CLASS_ENTRY:
		show_entry(&show, block->start);
		break;
	case CLASS_PAD_NAME:
		show_pad_name(&show, refs_data_of(index, block));
		break;
	default:
		if (strcmp(ledger_category_of(state->target->ledger, block->category)->kind, "hash key") == 0)
			show_key(&show, block);
	}
	tell_owners(&show, block, 0);
}
