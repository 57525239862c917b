/* SPDX-License-Identifier: Apache-2.0 */
/* What values refer to: what they are made of, and other values. */
#include <inttypes.h>
#include <stdio.h>

#include "runtime/perl/refs.h"
#include "runtime/perl/text.h"

#define MOST_MAGIC 256u                   /* of a value: a few in fact */
#define MOST_LAYERS 256u                  /* of a handle */
#define MOST_NAMES 65536u                 /* of a package */
#define MORE_KEYS 16u                     /* than a hash says: it may be growing just now */
#define KEY_IS_VALUE UINT32_C(0xfffffffe) /* hek_len is HEf_SVKEY */
#define SLACK_LEAST 32u                   /* see claims.c */
#define KEY_LEN 800

static uint64_t word_at(struct refs *refs, uint64_t address)
{
	uint64_t word = 0;

	return source_u64(refs->perl->target->source, address, &word) ? word : 0;
}

/* `buffer`: an address in the block before it. */
void refs_of_slack(struct refs *refs, uint64_t buffer)
{
	struct ledger *ledger = refs->perl->target->ledger;
	struct block block;

	if (ledger_find(ledger, buffer, &block) && refs_class_at(refs->index, block.end, &block) == CLASS_SLACK)
		refs_tell(refs, block.start, REF_PART, "slack");
}

/* ---- strings ------------------------------------------------------------------------ */

static void refs_of_string(struct refs *refs, const struct sv *sv)
{
	struct perl *perl = refs->perl;
	uint64_t len = sv_word(perl, sv, perl->o->xpv_len), start;

	if (sv->u < PAGE)
		return;
	if (len || sv_is(sv, SV_REGEXP)) {
		start = sv_string_start(perl,
					sv); /* the string itself may begin in the last bytes, in the next block */
		refs_tell(refs, start, REF_PART, "string");
		if (len - sv_word(perl, sv, perl->o->xpv_cur) >= SLACK_LEAST)
			refs_of_slack(refs, start);
	} else if (sv->flags & perl->bits->cow) {
		refs_tell(refs, sv->u - (uint64_t)perl->o->hek_key, REF_PART, "shared key");
	} else {
		refs_tell(refs, sv->u, REF_PART | REF_WEAK, "string of another");
	}
}

/* ---- arrays --------------------------------------------------------------------------- */

bool array_items(struct refs *refs, const struct sv *array, uint64_t *ret_start, uint64_t *ret_end)
{
	struct perl *perl = refs->perl;
	int64_t fill = (int64_t)sv_word(perl, array, perl->o->xav_fill);
	uint64_t end;

	if (array->u < PAGE || array->u % 8 || fill < 0)
		return false;
	end = refs_end_of(refs->index, array->u);
	*ret_start = array->u;
	*ret_end = end;
	if (end > array->u && (uint64_t)fill < (end - array->u) / 8)
		*ret_end = array->u + 8 * ((uint64_t)fill + 1);
	return end > array->u;
}

static void refs_of_array(struct refs *refs, const struct sv *sv)
{
	struct perl *perl = refs->perl;
	uint64_t alloc = sv_word(perl, sv, perl->o->xav_alloc), start, end;
	unsigned flags = sv->flags & perl->bits->array_real ? REF_STRONG : REF_WEAK;
	const uint64_t *code = hashmap_get(&refs->index->pads, sv->address);

	if (alloc >= PAGE) { /* of an array that is empty now, the items are only their chunk's header */
		refs_tell(refs, refs_class_at(refs->index, alloc, NULL) == CLASS_SLACK ? alloc - 1 : alloc, REF_PART,
			  "items");
		refs_of_slack(refs, alloc - 1);
	}
	if (code) {
		refs_of_pad(refs, sv, *code);
		return;
	}
	if (!array_items(refs, sv, &start, &end))
		return;
	for (uint64_t i = 0; start + 8 * i + 8 <= end; i++) {
		uint64_t item = word_at(refs, start + 8 * i);

		/* a regexp is its op's, if that has its number; the first item lists numbers that are free */
		if (sv->address == refs->index->regex_pad && i)
			flags = REF_WEAK;
		if (item && !refs_tell_format(refs, item, flags, "[%" PRIu64 "]", i))
			return;
	}
}

/* ---- hashes ----------------------------------------------------------------------------- */

static void refs_of_key(struct refs *refs, uint64_t hek)
{
	uint32_t len;

	refs_tell(refs, hek, REF_PART, "key");
	if (hek >= PAGE && source_u32(refs->perl->target->source, hek + (uint64_t)refs->perl->o->hek_len, &len) &&
	    len == KEY_IS_VALUE)
		refs_tell(refs, word_at(refs, hek + (uint64_t)refs->perl->o->hek_key), REF_STRONG, "key");
}

static void refs_of_entry(struct refs *refs, uint64_t hek, uint64_t value)
{
	char key[KEY_LEN];
	struct text text = text_in(key, sizeof(key));

	refs_of_key(refs, hek);
	if (refs->named)
		text_add_key(refs->perl, &text, hek);
	refs_tell_format(refs, value, REF_STRONG, "{%s}", key);
}

/* The table of shared keys: its entries hold themselves, as each counts its users and goes with the last one. */
static void refs_of_bucket(struct refs *refs, uint64_t he, bool shared_table, uint64_t *left)
{
	const struct perl_offsets *o = refs->perl->o;

	while (he >= PAGE && *left && !refs->stopped) {
		uint8_t scratch[24];
		uint64_t words[3];
		const void *p = source_get(refs->perl->target->source, he, sizeof(words), scratch);

		if (!p)
			return;
		memcpy(words, p, sizeof(words));
		--*left;
		refs_tell(refs, he, shared_table ? REF_WEAK : REF_PART, shared_table ? "key" : "entry");
		if (!shared_table)
			refs_of_entry(refs, words[o->he_hek / 8], words[o->he_val / 8]);
		he = words[o->he_next / 8];
	}
}

static void refs_of_package_names(struct refs *refs, uint64_t aux)
{
	uint64_t name = word_at(refs, aux + (uint64_t)refs->perl->o->aux_name), end;
	uint32_t count = 0;

	source_u32(refs->perl->target->source, aux + (uint64_t)refs->perl->o->aux_name_count, &count);
	refs_tell(refs, name, REF_PART, count ? "names" : "name");
	if (!count || name < PAGE)
		return;
	end = refs_end_of(refs->index, name);
	count = (int32_t)count < 0 ? -count : count; /* less than zero: the first is only its effective name */
	for (uint32_t i = 0; i < count && i < MOST_NAMES && name + 8 * (uint64_t)i + 8 <= end; i++)
		refs_tell(refs, word_at(refs, name + 8 * (uint64_t)i), REF_PART, "name");
}

/* What a package has that other hashes don't. */
static void refs_of_aux(struct refs *refs, uint64_t aux)
{
	struct perl *perl = refs->perl;
	const struct layout *fields = &refs->index->at.hash_aux;
	uint64_t back = word_at(refs, aux + (uint64_t)perl->o->aux_backreferences);
	uint32_t flags = 0;
	struct sv sv;

	/* One alone is there itself; an array is the hash's own. */
	if (sv_at(perl, back, &sv))
		refs_tell(refs, back, sv_is(&sv, SV_ARRAY) ? REF_STRONG : REF_WEAK, "weak references to it");
	if (word_at(refs, aux + (uint64_t)perl->o->aux_name) < PAGE)
		return;
	refs_of_package_names(refs, aux);
	refs_tell(refs, word_at(refs, aux + (uint64_t)perl->o->aux_mro_meta), REF_PART, "method resolution");
	source_u32(perl->target->source,
		   aux + (uint64_t)(refs->index->at.aux_flags < 0 ? 0 : refs->index->at.aux_flags), &flags);
	if (!(flags & refs->index->aux_is_class))
		return;
	for (size_t i = 0; i < fields->len; i++) /* a class of 5.38: its fields, its parent ... */
		if (strncmp(fields->facts[i].field, "xhv_class_", 10) == 0 && fields->facts[i].size == 8)
			refs_tell(refs, word_at(refs, aux + fields->facts[i].offset), REF_STRONG,
				  fields->facts[i].field + 4);
}

static void refs_of_hash(struct refs *refs, const struct sv *sv)
{
	struct perl *perl = refs->perl;
	uint64_t aux = sv_hash_aux(perl, sv), max = sv_word(perl, sv, perl->o->xhv_max), end, left;
	bool shared_table = sv->address == perl->strtab;

	if (aux && perl->o->xhv_aux < 0) /* it is behind the buckets, a block of its own */
		refs_tell(refs, aux, REF_PART, "aux");
	if (aux)
		refs_of_aux(refs, aux);
	if (sv->u < PAGE)
		return;
	refs_tell(refs, sv->u, REF_PART, "buckets");
	end = refs_end_of(refs->index, sv->u);
	left = sv_word(perl, sv, perl->o->xhv_keys) + MORE_KEYS;
	if (left > perl->target->source->os_virtual / perl->o->he_size)
		left = MORE_KEYS;
	for (uint64_t i = 0; i <= max && sv->u + 8 * i + 8 <= end && left && !refs->stopped; i++) {
		uint64_t he = word_at(refs, sv->u + 8 * i);

		if (he)
			refs_of_bucket(refs, he, shared_table, &left);
	}
}

void refs_of_package(struct refs *refs, uint64_t meta)
{
	const struct refs_layout *at = &refs->index->at;
	const struct {
		int offset;
		unsigned flags;
		const char *name;
	} fields[] = {
		{ at->mro_linear_all, REF_STRONG, "linear @ISA" },
		{ at->mro_linear_current, REF_STRONG, "linear @ISA" },
		{ at->mro_nextmethod, REF_STRONG, "next::method cache" },
		{ at->mro_isa, REF_STRONG, "isa cache" },
		{ at->mro_super, REF_STRONG, "SUPER cache" },
		{ at->mro_destroy, REF_WEAK, "DESTROY" },
	};
	/* With a table of all orders, the current one is only looked at. */
	bool has_all = at->mro_linear_all >= 0 && word_at(refs, meta + (uint64_t)at->mro_linear_all);

	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
		if (fields[i].offset >= 0)
			refs_tell(refs, word_at(refs, meta + (uint64_t)fields[i].offset),
				  has_all && i == 1 ? REF_WEAK : fields[i].flags, fields[i].name);
}

/* ---- globs -------------------------------------------------------------------------------- */

void refs_of_glob_data(struct refs *refs, uint64_t gp)
{
	const struct perl_offsets *o = refs->perl->o;
	const struct {
		int offset;
		const char *slot;
	} slots[] = { { o->gp_sv, "SCALAR" }, { o->gp_av, "ARRAY" }, { o->gp_hv, "HASH" },
		      { o->gp_cv, "CODE" },   { o->gp_io, "IO" },    { o->gp_form, "FORMAT" } };
	int file = layout_offset(&refs->perl->layout, "gp", "gp_file_hek");
	uint64_t egv = word_at(refs, gp + (uint64_t)o->gp_egv);
	char name[KEY_LEN];
	struct text text = text_in(name, sizeof(name));
	struct sv glob;

	if (refs->named && sv_at(refs->perl, egv, &glob) && sv_is(&glob, SV_GLOB))
		text_add_glob_name(refs->perl, &text, &glob);
	for (size_t i = 0; i < sizeof(slots) / sizeof(*slots); i++)
		refs_tell_format(refs, word_at(refs, gp + (uint64_t)slots[i].offset), REF_STRONG, "*%s{%s}", name,
				 slots[i].slot);
	refs_tell(refs, egv, REF_WEAK, "effective glob");
	if (file >= 0)
		refs_tell(refs, word_at(refs, gp + (uint64_t)file), REF_PART, "file name");
}

static bool has_gp(const struct refs *refs, const struct sv *sv)
{
	const struct sv_bits *bits = refs->perl->bits;

	return (sv_is(sv, SV_GLOB) || sv_is(sv, SV_LVALUE)) &&
	       (sv->flags & (bits->p_pok | bits->has_gp)) == bits->has_gp;
}

static void refs_of_glob(struct refs *refs, const struct sv *sv)
{
	struct perl *perl = refs->perl;

	refs_tell(refs, sv->u, REF_PART, "slots");
	refs_tell(refs, sv_word(perl, sv, perl->o->xgv_stash), REF_WEAK, "package of the glob");
	refs_tell(refs, sv_word(perl, sv, perl->o->xgv_namehek), REF_PART, "name");
}

/* ---- others --------------------------------------------------------------------------------- */

/* Its fields that are pointers: to values, which it counts, or to memory of its own. */
static void refs_of_regexp(struct refs *refs, const struct sv *sv)
{
	const struct layout *fields = &refs->perl->facts->regexp;

	for (size_t i = 0; i < fields->len; i++) {
		const struct layout_fact *fact = &fields->facts[i];
		uint64_t word;

		if (fact->size != 8 || strncmp(fact->field, "x", 1) == 0 ||
		    (int)fact->offset == refs->index->at.re_engine)
			continue;
		word = word_at(refs, sv->any + fact->offset);
		if (word < PAGE || word % 8)
			continue;
		if (refs_is_value(refs->index, word))
			refs_tell(refs, word, REF_STRONG, fact->field);
		else if (refs_class_at(refs->index, word, NULL) != CLASS_OTHER)
			refs_tell(refs, word, REF_PART, fact->field);
	}
}

/* A handle is a chain of layers, the topmost of which is in a table. */
static void refs_of_layers(struct refs *refs, uint64_t slot)
{
	uint64_t layer = word_at(refs, slot);

	for (uint32_t n = 0; layer >= PAGE && n < MOST_LAYERS; n++) {
		refs_tell(refs, layer, REF_PART, "layer");
		layer = word_at(refs, layer);
	}
}

static void refs_of_io(struct refs *refs, const struct sv *sv)
{
	struct perl *perl = refs->perl;
	const struct refs_layout *at = &refs->index->at;
	const struct layout *fields = &perl->facts->io;
	uint64_t output = sv_word(perl, sv, at->io_ofp);

	if (sv->u >= PAGE)
		refs_of_layers(refs, sv->u);
	if (output >= PAGE && output != sv->u)
		refs_of_layers(refs, output);
	refs_tell(refs, sv_word(perl, sv, at->io_top_gv), REF_WEAK, "top of form");
	refs_tell(refs, sv_word(perl, sv, at->io_fmt_gv), REF_WEAK, "format");
	refs_tell(refs, sv_word(perl, sv, at->io_bottom_gv), REF_WEAK, "bottom of form");
	for (size_t i = 0; i < fields->len; i++)
		if (fields->facts[i].size == 8 && strncmp(fields->facts[i].field, "xio_", 4) == 0 &&
		    refs_class_at(refs->index, word_at(refs, sv->any + fields->facts[i].offset), NULL) == CLASS_WORDS)
			refs_tell(refs, word_at(refs, sv->any + fields->facts[i].offset), REF_PART,
				  fields->facts[i].field);
}

static void refs_of_object(struct refs *refs, const struct sv *sv)
{
	uint64_t fields = sv_word(refs->perl, sv, refs->index->at.obj_fields), end = refs_end_of(refs->index, fields);
	uint64_t most = sv_word(refs->perl, sv, refs->index->at.obj_maxfield);

	refs_tell(refs, fields, REF_PART, "fields");
	for (uint64_t i = 0; fields >= PAGE && i <= most && fields + 8 * i + 8 <= end && !refs->stopped; i++)
		refs_tell_format(refs, word_at(refs, fields + 8 * i), REF_STRONG, "field %" PRIu64, i);
}

static void refs_of_lvalue(struct refs *refs, const struct sv *sv)
{
	uint8_t type = 0;
	uint64_t target = sv_word(refs->perl, sv, refs->index->at.lv_targ);

	if (refs->index->at.lv_type >= 0)
		source_read(refs->perl->target->source, sv->any + (uint64_t)refs->index->at.lv_type, &type, 1);
	if (target == sv->address || type == 't') /* of a tied one: itself */
		return;
	refs_tell(refs, target, type == 'T' ? REF_PART : REF_STRONG, "target"); /* T: an entry that is in no hash */
}

/* ---- magic -------------------------------------------------------------------------------------- */

static void refs_of_one_magic(struct refs *refs, const struct sv *sv, uint64_t magic)
{
	struct perl *perl = refs->perl;
	const struct perl_offsets *o = perl->o;
	uint64_t object = word_at(refs, magic + (uint64_t)o->mg_obj), data = word_at(refs, magic + (uint64_t)o->mg_ptr);
	uint8_t type = 0, flags = 0;
	char letter[8];

	source_read(perl->target->source, magic + (uint64_t)o->mg_type, &type, 1);
	source_read(perl->target->source, magic + (uint64_t)o->mg_flags, &flags, 1);
	snprintf(letter, sizeof(letter), type > ' ' && type < 0x7f ? "%c" : "\\%o", type);
	refs_tell_format(refs, magic, REF_PART, "magic %s", letter);
	if (object != sv->address)
		refs_tell_format(refs, object, flags & perl->bits->mg_refcounted ? REF_STRONG : REF_WEAK,
				 "magic %s object", letter);
	if (data < PAGE)
		return;
	if ((int64_t)word_at(refs, magic + (uint64_t)o->mg_len) == -2) /* HEf_SVKEY */
		refs_tell_format(refs, data, REF_STRONG, "magic %s key", letter);
	else if (refs_is_value(refs->index, data))
		refs_tell_format(refs, data, REF_GUESS, "magic %s data", letter);
	else if (refs_class_at(refs->index, data, NULL) != CLASS_OTHER)
		refs_tell_format(refs, data, REF_PART, "magic %s data", letter);
}

static void refs_of_magic(struct refs *refs, const struct sv *sv)
{
	uint64_t at = sv_word(refs->perl, sv, refs->perl->o->xmg_magic);

	for (uint32_t n = 0; at >= PAGE && n < MOST_MAGIC && !refs->stopped; n++) {
		struct block block;

		/* The word has other uses; a link of magic has its name by now. */
		if (!ledger_find(refs->perl->target->ledger, at, &block) ||
		    strcmp(ledger_category_of(refs->perl->target->ledger, block.category)->kind, "magic") != 0)
			return;
		refs_of_one_magic(refs, sv, at);
		at = word_at(refs, at + (uint64_t)refs->perl->o->mg_next);
	}
}

/* C code keeps the address of its own data in the number of a blessed scalar. */
static void refs_of_number(struct refs *refs, const struct sv *sv)
{
	uint64_t word;

	if (!(sv->flags & refs->perl->bits->object) || !(sv->flags & refs->perl->bits->iok))
		return;
	word = sv_word(refs->perl, sv, refs->perl->o->xiv_iv);
	if (word >= PAGE && word % 8 == 0 && refs_class_at(refs->index, word, NULL) == CLASS_WORDS)
		refs_tell(refs, word, REF_PART | REF_GUESS, "C data");
}

/* ---- every value ---------------------------------------------------------------------------------- */

static void refs_of_scalar(struct refs *refs, const struct sv *sv)
{
	const struct sv_bits *bits = refs->perl->bits;

	if (sv->flags & bits->rok)
		refs_tell(refs, sv->u, sv->flags & bits->weakref ? REF_WEAK : REF_STRONG, "->");
	else if (sv->body->pv)
		refs_of_string(refs, sv);
	if (sv->body->magic)
		refs_of_number(refs, sv);
}

static void refs_of_kind(struct refs *refs, const struct sv *sv)
{
	switch (sv->body->kind) {
	case SV_ARRAY:
		refs_of_array(refs, sv);
		break;
	case SV_HASH:
		refs_of_hash(refs, sv);
		break;
	case SV_CODE:
	case SV_FORMAT:
		refs_of_code(refs, sv);
		break;
	case SV_IO:
		refs_of_io(refs, sv);
		break;
	case SV_OBJECT:
		refs_of_object(refs, sv);
		break;
	case SV_REGEXP:
		refs_of_string(refs, sv);
		refs_of_regexp(refs, sv);
		break;
	case SV_GLOB:
		if (has_gp(refs, sv))
			refs_of_glob(refs, sv);
		break;
	case SV_LVALUE:
		refs_of_lvalue(refs, sv);
		if (has_gp(refs, sv)) {
			refs_of_glob(refs, sv);
			break;
		} /* fall through */
	default:
		refs_of_scalar(refs, sv);
	}
}

void refs_of_value(struct refs *refs, const struct sv *sv)
{
	struct perl *perl = refs->perl;

	if (sv->body->size && sv->any >= PAGE)
		refs_tell(refs, sv->any + sv->body->offset, REF_PART, "body");
	if (!sv->any && !sv->u)
		return;
	refs_of_kind(refs, sv);
	if (!sv->body->magic || !sv->any)
		return;
	refs_of_magic(refs, sv);
	if (sv->flags & perl->bits->object)
		refs_tell(refs, sv_word(perl, sv, perl->o->xmg_stash), REF_STRONG, "package");
}
