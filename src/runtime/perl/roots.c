/* SPDX-License-Identifier: Apache-2.0 */
/* What an interpreter itself refers to: its variables, its stacks, the data of its modules in C. */
#include <elf.h>
#include <inttypes.h>

#include "runtime/perl/refs.h"
#include "runtime/perl/text.h"

#define MOST_STACKS 65536u
#define MOST_MODULES 65536u
#define NAME_LEN 96

static uint64_t word_at(struct refs *refs, uint64_t address)
{
	uint64_t word = 0;

	return source_u64(refs->perl->target->source, address, &word) ? word : 0;
}

/* ---- words --------------------------------------------------------------------------- */

/* Tells what a word points to, if it is a value or a block of perl's. */
static void tell_word(struct refs *refs, uint64_t word, unsigned flags, const char *name)
{
	struct block block;

	if (word < PAGE || word % 8)
		return;
	switch (refs_class_at(refs->index, word, &block)) {
	case CLASS_UNASKED:
	case CLASS_OTHER:
	case CLASS_SLACK:
		return;
	case CLASS_HEAD:
		if (word == block.start)
			refs_tell(refs, word, flags, name);
		return;
	case CLASS_OP:
		if (word == refs_op_of(refs->index, &block))
			refs_tell(refs, word, flags, name);
		return;
	default:
		if (word == refs_data_of(refs->index, &block))
			refs_tell(refs, word, flags, name);
	}
}

/* Tells the words of [start, end), by number. */
static void tell_numbered(struct refs *refs, uint64_t start, uint64_t end, unsigned flags, const char *what)
{
	uint64_t limit = refs_end_of(refs->index, start);
	char buffer[NAME_LEN];

	if (end > limit)
		end = limit;
	for (uint64_t at = start; start >= PAGE && at + 8 <= end && !refs->stopped; at += 8) {
		uint64_t word = word_at(refs, at);
		struct text name = text_in(buffer, sizeof(buffer));

		if (word < PAGE)
			continue;
		text_add(&name, "%s %" PRIu64, what, (at - start) / 8);
		tell_word(refs, word, flags, buffer);
	}
}

/* ---- variables -------------------------------------------------------------------------- */

/* Scratch, or of something that is in use elsewhere: they count nothing. */
static bool is_only_looked_at(const char *field)
{
	static const char *const fields[] = { "Sv",
					      "Xpv",
					      "na",
					      "last_in_gv",
					      "statgv",
					      "firstgv",
					      "secondgv",
					      "hv_fetch_ent_mh",
					      "lastgotoprobe",
					      "sortstash",
					      "DBcv" };

	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
		if (strcmp(field, fields[i]) == 0)
			return true;
	return false;
}

static void tell_field(struct refs *refs, const struct layout_fact *fact)
{
	uint64_t at = perl_variable(refs->perl, fact->field);
	unsigned flags = is_only_looked_at(fact->field) ? REF_WEAK : REF_STRONG;
	char buffer[NAME_LEN];

	if (!at || fact->size % 8)
		return;
	for (uint32_t n = 0; n < fact->size && !refs->stopped; n += 8) {
		struct text name = text_in(buffer, sizeof(buffer));

		if (strcmp(fact->field, "defstash") == 0)
			text_add(&name, "%%main::");
		else if (fact->size > 8)
			text_add(&name, "PL_%s[%" PRIu32 "]", fact->field, n / 8);
		else
			text_add(&name, "PL_%s", fact->field);
		tell_word(refs, word_at(refs, at + n), flags, buffer);
	}
}

/* Without threads each is a symbol; their names and sizes are those of the same version with threads. */
static void tell_variables(struct refs *refs)
{
	struct layout layout = refs->perl->layout, fields;

	if (!refs->perl->address && !layout_find("perl", refs->perl->version, "threaded", &layout))
		return;
	fields = layout_structure(&layout, "interpreter");
	for (size_t i = 0; i < fields.len && !refs->stopped; i++)
		if (strcmp(fields.facts[i].field, "sizeof") != 0)
			tell_field(refs, &fields.facts[i]);
}

/* ---- stacks ------------------------------------------------------------------------------- */

struct stack_offsets {
	int stack, contexts, prev, next, top;
	uint32_t context_size;
};

static void tell_one_stack(struct refs *refs, const struct stack_offsets *o, uint64_t info)
{
	struct perl *perl = refs->perl;
	uint64_t contexts = word_at(refs, info + (uint64_t)o->contexts),
		 array = word_at(refs, info + (uint64_t)o->stack), end = 0;
	uint32_t top = 0;
	struct sv sv;

	tell_word(refs, info, REF_STRONG, "a stack");
	tell_word(refs, contexts, REF_STRONG, "contexts");
	if (o->top >= 0 && source_u32(perl->target->source, info + (uint64_t)o->top, &top) && (int32_t)top >= 0)
		tell_numbered(refs, contexts, contexts + (uint64_t)o->context_size * (top + 1), REF_STRONG | REF_GUESS,
			      "word of a context");
	if (!sv_at(perl, array, &sv) || !sv_is(&sv, SV_ARRAY))
		return;
	tell_word(refs, array, REF_STRONG, "a stack");
	end = sv.u + 8 * (sv_word(perl, &sv, perl->o->xav_fill) + 1);
	if (info == perl_pointer(perl, "curstackinfo"))
		end = perl_pointer(perl, "stack_sp") + 8;
	if (sv.u >= PAGE && end > sv.u)
		tell_numbered(refs, sv.u, end, REF_STRONG, "argument");
}

static void tell_argument_stacks(struct refs *refs)
{
	const struct layout *l = &refs->perl->layout;
	struct stack_offsets o = {
		.stack = layout_offset(l, "stackinfo", "si_stack"),
		.contexts = layout_offset(l, "stackinfo", "si_cxstack"),
		.prev = layout_offset(l, "stackinfo", "si_prev"),
		.next = layout_offset(l, "stackinfo", "si_next"),
		.top = layout_offset(l, "stackinfo", "si_cxix"),
		.context_size = layout_size(l, "context"),
	};
	uint64_t at = perl_pointer(refs->perl, "curstackinfo"), before;

	if (o.stack < 0 || o.contexts < 0 || o.prev < 0 || o.next < 0 || at < PAGE)
		return;
	for (uint32_t n = 0; n < MOST_STACKS && (before = word_at(refs, at + (uint64_t)o.prev)) >= PAGE; n++)
		at = before; /* the oldest */
	for (uint32_t n = 0; n < MOST_STACKS && at >= PAGE && !refs->stopped; n++) {
		tell_one_stack(refs, &o, at);
		at = word_at(refs, at + (uint64_t)o.next);
	}
}

/* Up to the top of each: what is above was used once. */
static void tell_stacks(struct refs *refs)
{
	struct perl *perl = refs->perl;
	uint64_t temporaries = perl_pointer(perl, "tmps_stack"), saved = perl_pointer(perl, "savestack");
	uint64_t n = perl_pointer(perl, "tmps_ix") + 1, index_at = perl_variable(perl, "savestack_ix");
	uint32_t top = 0;

	if (n < UINT32_MAX)
		tell_numbered(refs, temporaries, temporaries + 8 * n, REF_STRONG, "temporary");
	if (index_at && source_u32(perl->target->source, index_at, &top) && (int32_t)top > 0)
		tell_numbered(refs, saved, saved + 8 * (uint64_t)top, REF_STRONG | REF_GUESS, "saved value");
	tell_argument_stacks(refs);
}

/* ---- modules in C ---------------------------------------------------------------------------- */

/* Their data is the string of a value that nobody refers to: only the string's address is kept (MY_CXT in perl.h). */
struct module_data {
	struct refs *refs;
	struct hashmap strings; /* address -> number + 1 */
};

static void tell_module(struct perl *perl, const struct sv *sv, void *context)
{
	struct module_data *data = context;
	const uint64_t *number;
	char buffer[NAME_LEN];
	struct text name = text_in(buffer, sizeof(buffer));

	if (!sv->body->pv || sv->u < PAGE || sv->flags & perl->bits->rok ||
	    !(number = hashmap_get(&data->strings, sv->u)))
		return;
	text_add(&name, "PL_my_cxt_list[%" PRIu64 "]", *number - 1);
	refs_tell(data->refs, sv->address, REF_STRONG, buffer);
	refs_tell_words(data->refs, sv->u, refs_end_of(data->refs->index, sv->u), REF_STRONG, buffer);
}

static void tell_modules(struct refs *refs)
{
	struct module_data data = { .refs = refs };
	uint64_t list = perl_pointer(refs->perl, "my_cxt_list"), at = perl_variable(refs->perl, "my_cxt_size");
	uint32_t n = 0;

	if (list < PAGE || !at || !source_u32(refs->perl->target->source, at, &n))
		return;
	for (uint32_t i = 0; i < n && i < MOST_MODULES; i++) {
		uint64_t string = word_at(refs, list + 8 * (uint64_t)i);

		if (string >= PAGE && !hashmap_put(&data.strings, string, i + 1))
			break;
	}
	if (data.strings.len)
		perl_arenas_each(refs->perl, tell_module, &data);
	hashmap_deinit(&data.strings);
}

/* What perl has one of in a process, and the variables of its extensions that are linked in. */
static void tell_image(struct refs *refs)
{
	const struct image *image = refs->perl->image;

	for (size_t i = 0; i < image->segments.len; i++)
		if (image->segments.items[i].flags & PF_W)
			refs_tell_words(refs, image->segments.items[i].start, image->segments.items[i].end, REF_STRONG,
					"perl's own data");
}

void perl_roots(struct perl_state *state, runtime_ref_visitor *visit, void *context)
{
	struct refs_index *index = refs_index_get(state);
	struct refs refs = { .index = index, .named = true, .visit = visit, .context = context };

	for (size_t i = 0; index && i < state->list.len && !refs.stopped; i++) {
		refs.perl = state->list.items[i];
		if (refs.perl->address)
			refs_tell(&refs, refs.perl->address, REF_STRONG, "interpreter");
		tell_variables(&refs);
		tell_stacks(&refs);
		tell_modules(&refs);
		if (i == 0)
			tell_image(&refs);
	}
}
