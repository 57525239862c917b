/* SPDX-License-Identifier: Apache-2.0 */
/* How blocks get their names. */
#include "runtime/perl/internal.h"

static const char *const kind_names[SV_KINDS] = { "scalar", "invlist", "regexp", "glob", "lvalue", "array",
						  "hash",   "code",    "format", "io",   "object" };

static const struct {
	const char *kind;
	enum fh_state state;
} part_names[PARTS - PART_BODY] = {
	{ "body", FH_LIVE },        { "string buffer", FH_LIVE },   { "string slack", FH_OVERHEAD },
	{ "array items", FH_LIVE }, { "array slack", FH_OVERHEAD }, { "hash buckets", FH_LIVE },
	{ "hash aux", FH_LIVE },
	{ "hash entry", FH_LIVE },
};

bool perl_patience(struct perl *perl)
{
	if (perl->patience > 1)
		return perl->patience--, true;
	if (perl->patience == 1)
		target_damaged(perl->target,
			       "perl %s: its values lead in circles; they are corrupt, or were being changed",
			       perl->full_version);
	perl->patience = 0;
	return false;
}

const char *sv_kind_name(enum sv_kind kind)
{
	return kind_names[kind];
}

category_id perl_category(struct perl *perl, const char *domain, const char *kind, const char *detail,
			  enum fh_state state)
{
	return ledger_category(perl->target->ledger,
			       &(struct category){ .domain = domain, .kind = kind, .detail = detail, .state = state });
}

category_id perl_owner_category(struct perl *perl, uint32_t owner, enum part part)
{
	category_id *place = &perl->owners.items[owner].parts[part];
	const char *detail = perl->owners.items[owner].detail;

	if (*place)
		return *place;
	if (part < PART_BODY) /* a value's kind is no detail of itself */
		*place = perl_category(perl, "perl", kind_names[part], owner < SV_KINDS ? "" : detail, FH_LIVE);
	else
		*place = perl_category(perl, "perl", part_names[part - PART_BODY].kind, detail,
				       part_names[part - PART_BODY].state);
	return *place;
}

bool perl_claimable(struct perl *perl, uint64_t data, struct block *ret)
{
	const struct category *c;

	if (data < PAGE || !ledger_find(perl->target->ledger, data, ret))
		return false;
	c = ledger_category_of(perl->target->ledger, ret->category);
	return c->unknown && c->state == FH_LIVE && data == ret->start + c->head;
}

/* Renaming keeps how many bytes of the allocator's come before the data. */
static category_id with_head(struct perl *perl, category_id category, const struct block *block)
{
	struct category c = *ledger_category_of(perl->target->ledger, category);
	uint8_t head = ledger_category_of(perl->target->ledger, block->category)->head;

	if (c.head == head)
		return category;
	c.head = head;
	return ledger_category(perl->target->ledger, &c);
}

bool perl_claim(struct perl *perl, uint64_t data, category_id category, struct block *ret_block)
{
	struct block block;

	if (!perl_claimable(perl, data, &block))
		return false;
	ledger_rename(perl->target->ledger, block.slot, with_head(perl, category, &block));
	if (ret_block)
		*ret_block = block;
	return true;
}

bool perl_claim_as(struct perl *perl, uint64_t data, const char *kind, const char *detail)
{
	struct block block;

	if (!perl_claimable(perl, data, &block))
		return false;
	ledger_name(perl->target->ledger, &block, "perl", kind, detail);
	return true;
}

#define SLACK_MOST_ROUNDING 32u /* malloc rounds up; that is no slack of perl's */

bool perl_claim_used(struct perl *perl, uint64_t data, uint64_t used, category_id category, category_id slack)
{
	struct block block;
	uint64_t at = data + ((used + 7) & ~UINT64_C(7));

	if (!perl_claim(perl, data, category, &block))
		return false;
	if (at < data || at + SLACK_MOST_ROUNDING > block.end)
		return true;
	if (!vec_push(&perl->splits,
		      (struct split){ block.start, at, block.end, with_head(perl, category, &block), slack }))
		perl->target->ledger->no_memory = true;
	return true;
}

/* ---- memory of C code ------------------------------------------------------------------ */

#define REACH_MOST_BYTES (1u << 20) /* of a block that are looked through */
#define REACH_MOST_BLOCKS 1048576u

struct reached {
	uint64_t data, end;
	uint32_t depth;
};

typedef VEC(struct reached) reached_list;

static void reach(struct perl *perl, const struct reached *from, const char *kind, const char *detail,
		  reached_list *list)
{
	uint64_t word;

	for (uint64_t at = from->data; at + 8 <= from->end && at - from->data < REACH_MOST_BYTES; at += 8) {
		struct block block;

		if (!source_u64(perl->target->source, at, &word) || !perl_claimable(perl, word, &block))
			continue;
		ledger_name(perl->target->ledger, &block, "perl", kind, detail);
		if (from->depth > 1 && list->len < REACH_MOST_BLOCKS &&
		    !vec_push(list, (struct reached){ word, block.end, from->depth - 1 }))
			perl->target->ledger->no_memory = true;
	}
}

/* Later, when all that is known better has its name. */
void perl_claim_reached(struct perl *perl, uint64_t data, uint64_t end, uint32_t depth, const char *kind,
			const char *detail)
{
	struct strings *strings = perl->target->source->strings;
	struct lead lead = { data, end, depth, strings_add(strings, kind), strings_add(strings, detail) };

	if (!lead.kind || !lead.detail || !vec_push(&perl->leads, lead))
		perl->target->ledger->no_memory = true;
}

bool perl_claim_with(struct perl *perl, uint64_t data, uint32_t depth, const char *kind, const char *detail)
{
	struct block block;

	if (!perl_claimable(perl, data, &block))
		return false;
	ledger_name(perl->target->ledger, &block, "perl", kind, detail);
	perl_claim_reached(perl, data, block.end, depth, kind, detail);
	return true;
}

void perl_follow_leads(struct perl *perl)
{
	reached_list list = { 0 };

	for (size_t i = 0; i < perl->leads.len; i++) {
		const struct lead *lead = &perl->leads.items[i];

		list.len = 0;
		reach(perl, &(struct reached){ lead->data, lead->end, lead->depth }, lead->kind, lead->detail, &list);
		for (size_t n = 0; n < list.len; n++) {
			const struct reached from = list.items[n]; /* the list may move */

			reach(perl, &from, lead->kind, lead->detail, &list);
		}
	}
	vec_free(&list);
}
