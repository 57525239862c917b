/* SPDX-License-Identifier: Apache-2.0 */
/* What values own: their bodies, strings, items, buckets, entries, globs' parts and magic. */
#include <stdio.h>

#include "runtime/perl/internal.h"

#define MOST_LINKS 65536u /* of a chain: entries of a bucket, magic of a value */
#define MOST_BUCKETS (UINT64_C(1) << 32)
#define HEK_IN_SV UINT32_C(0xfffffffe) /* hek_len is HEf_SVKEY: the key is a value */

/* ---- strings ------------------------------------------------------------------ */

static void walk_string(struct perl *perl, const struct sv *sv, uint32_t owner)
{
	uint64_t len, start, used;

	if (!sv->u || sv->flags & perl->bits->rok)
		return;
	len = sv_word(perl, sv, perl->o->xpv_len);
	if (!sv_is(sv, SV_REGEXP) && !len)
		return; /* somebody else's: a shared hash key, or static */
	start = sv_string_start(perl, sv);
	used = sv->u - start + sv_word(perl, sv, perl->o->xpv_cur) + 1;
	if (sv->flags & perl->bits->cow) /* the last byte counts who shares it */
		perl_claim(perl, start, perl_owner_category(perl, owner, PART_STRING), NULL);
	else
		perl_claim_used(perl, start, used, perl_owner_category(perl, owner, PART_STRING),
				perl_owner_category(perl, owner, PART_STRING_SLACK));
}

/* ---- arrays and hashes ------------------------------------------------------------ */

static void walk_array(struct perl *perl, const struct sv *sv, uint32_t owner)
{
	uint64_t start = sv_word(perl, sv, perl->o->xav_alloc);
	int64_t fill = (int64_t)sv_word(perl, sv, perl->o->xav_fill);
	uint64_t used = sv->u - start; /* items that were shifted off */

	if (!start || fill < -1 || fill > INT64_C(1) << 40 || sv->u < start)
		return;
	perl_claim_used(perl, start, used + 8 * (uint64_t)(fill + 1), perl_owner_category(perl, owner, PART_ITEMS),
			perl_owner_category(perl, owner, PART_ITEMS_SLACK));
}

static void walk_key(struct perl *perl, uint64_t hek)
{
	uint32_t len;

	if (hek < PAGE || !source_u32(perl->target->source, hek + (uint64_t)perl->o->hek_len, &len))
		return;
	perl_claim_as(perl, hek, "hash key", len == HEK_IN_SV ? "a value" : "not shared");
}

static void walk_bucket(struct perl *perl, uint64_t he, bool shared_table, bool own_keys, category_id entry,
			category_id key)
{
	for (uint32_t n = 0; he && n < MOST_LINKS && perl_patience(perl); n++) {
		uint8_t scratch[24];
		uint64_t words[3];
		const void *p = source_get(perl->target->source, he, sizeof(words), scratch);

		if (!p)
			return;
		memcpy(words, p, sizeof(words));
		if (shared_table)
			perl_claim(perl, he, key, NULL);
		else
			perl_arenas_mark(perl, he, entry);
		if (own_keys)
			walk_key(perl, words[perl->o->he_hek / 8]);
		he = words[perl->o->he_next / 8];
	}
}

static void walk_package(struct perl *perl, uint64_t aux)
{
	uint64_t word;
	uint32_t count;

	if (source_u64(perl->target->source, aux + (uint64_t)perl->o->aux_mro_meta, &word) && word)
		perl_claim_as(perl, word, "package data", "method resolution");
	if (source_u32(perl->target->source, aux + (uint64_t)perl->o->aux_name_count, &count) && count &&
	    source_u64(perl->target->source, aux + (uint64_t)perl->o->aux_name, &word))
		perl_claim_as(perl, word, "package data", "names");
}

static void walk_hash(struct perl *perl, const struct sv *sv, uint32_t owner)
{
	struct source *source = perl->target->source;
	bool shared_table = sv->address == perl->strtab;
	bool own_keys = !shared_table && !(sv->flags & perl->bits->sharekeys);
	category_id entry = perl_owner_category(perl, owner, PART_ENTRY);
	category_id key = perl_category(perl, "perl", "hash key", "shared", FH_LIVE), buckets;
	uint64_t max = sv_word(perl, sv, perl->o->xhv_max), aux = sv_hash_aux(perl, sv), he;

	if (aux)
		walk_package(perl, aux);
	if (!sv->u || max >= MOST_BUCKETS)
		return;
	buckets = shared_table ? perl_category(perl, "perl", "hash buckets", "shared keys", FH_LIVE)
			       : perl_owner_category(perl, owner, PART_BUCKETS);
	if (aux && perl->o->xhv_aux < 0) /* behind the buckets */
		perl_claim_used(perl, sv->u, aux - sv->u, buckets, perl_owner_category(perl, owner, PART_AUX));
	else
		perl_claim(perl, sv->u, buckets, NULL);
	for (uint64_t i = 0; i <= max && perl_patience(perl); i++) {
		if (!source_u64(source, sv->u + 8 * i, &he))
			return;
		if (he)
			walk_bucket(perl, he, shared_table, own_keys, entry, key);
	}
}

/* ---- magic, globs, pointers of C code --------------------------------------------------- */

static const char *magic_letter(uint8_t type, char buffer[8])
{
	snprintf(buffer, 8, type > ' ' && type < 0x7f ? "%c" : "\\%o", type);
	return buffer;
}

static void walk_magic(struct perl *perl, const struct sv *sv)
{
	struct source *source = perl->target->source;
	uint64_t at = sv_word(perl, sv, perl->o->xmg_magic);
	char letter[8];

	for (uint32_t n = 0; at && n < MOST_LINKS; n++) {
		uint8_t type;
		uint64_t next, data;

		if (!source_read(source, at + (uint64_t)perl->o->mg_type, &type, 1) ||
		    !source_u64(source, at + (uint64_t)perl->o->mg_next, &next) ||
		    !perl_claim_as(perl, at, "magic", magic_letter(type, letter)))
			return;
		if (source_u64(source, at + (uint64_t)perl->o->mg_ptr, &data) && data)
			perl_claim_with(perl, data, 1, "magic data", letter);
		at = next;
	}
}

static void walk_glob(struct perl *perl, const struct sv *sv)
{
	if (sv->u)
		perl_claim_as(perl, sv->u, "glob data", "");
}

/* C code keeps the address of its own data in the number of a blessed scalar. */
static void walk_handle(struct perl *perl, const struct sv *sv, uint32_t owner)
{
	uint64_t pointer;

	if (owner < SV_KINDS || !(sv->flags & perl->bits->iok) || sv->flags & perl->bits->pok)
		return;
	pointer = sv_word(perl, sv, perl->o->xiv_iv);
	perl_claim_with(perl, pointer, 2, "C data", perl->owners.items[owner].detail);
}

/* ---- every value -------------------------------------------------------------------------- */

static void walk_body(struct perl *perl, const struct sv *sv, uint32_t owner)
{
	uint64_t at = sv->any + sv->body->offset;
	category_id category;

	if (!sv->body->size || !sv->any)
		return;
	category = perl_owner_category(perl, owner, PART_BODY);
	if (!perl_arenas_mark(perl, at, category))
		perl_claim(perl, sv->any, category, NULL); /* formats' bodies are malloc's */
}

static void walk_value(struct perl *perl, const struct sv *sv, void *context)
{
	uint32_t owner;

	(void)context;
	if (!sv->any && !sv->u)
		return;
	owner = owner_of(perl, sv);
	walk_body(perl, sv, owner);
	switch (sv->body->kind) {
	case SV_ARRAY:
		walk_array(perl, sv, owner);
		break;
	case SV_HASH:
		walk_hash(perl, sv, owner);
		break;
	case SV_GLOB:
		walk_glob(perl, sv);
		break;
	case SV_IO:
		io_walk(perl, sv);
		break;
	case SV_REGEXP:
		regexp_walk(perl, sv);
		walk_string(perl, sv, owner);
		break;
	default:
		if (sv->body->pv)
			walk_string(perl, sv, owner);
		if (sv->body->magic)
			walk_handle(perl, sv, owner);
	}
	if (sv->body->magic)
		walk_magic(perl, sv);
}

static void walk_code(struct perl *perl, const struct sv *sv, void *context)
{
	(void)context;
	if (sv_is(sv, SV_CODE) || sv_is(sv, SV_FORMAT))
		code_walk(perl, sv);
}

/* Code first: it knows which arrays are pads. */
void values_walk(struct perl *perl)
{
	perl_arenas_each(perl, walk_code, NULL);
	perl_arenas_each(perl, walk_value, NULL);
}
