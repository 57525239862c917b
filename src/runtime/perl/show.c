/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One value in words: what a Perl programmer would want to know of it. Bounded, and elements of arrays and hashes are
 * shown one level deep, so that nothing depends on how the target's data is nested. What is visited are the target's
 * own bytes where a name has them: escaping is for whoever prints them.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "runtime/perl/show.h"

#define MOST_ITEMS 8
#define MOST_LOOKED_AT 65536u /* buckets of a hash, until some of its keys are found */
#define MOST_SLABS 65536u
#define MOST_LAYERS 256u
#define NAME_LEN 600
#define PATTERN_LEN 400
#define IMMORTAL 0x7ffffff0u /* nobody counts as far: undef, true and false begin near it, and count from there */

void show_tell(struct show *show, const char *name, const char *format, ...)
{
	char text[SHOW_LEN];
	va_list ap;

	if (show->stopped)
		return;
	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	show->stopped = !show->visit(show->context, name, text);
}

static uint64_t word_at(const struct show *show, uint64_t address)
{
	uint64_t word = 0;

	return source_u64(show->perl->target->source, address, &word) ? word : 0;
}

/* ---- what all values have ---------------------------------------------------------- */

/* "PVHV", as Devel::Peek calls it. */
static const char *type_name(struct perl *perl, uint32_t number)
{
	struct layout constants = layout_structure(&perl->layout, "const");

	for (size_t i = 0; i < constants.len; i++)
		if (constants.facts[i].size == number && strncmp(constants.facts[i].field, "SVt_", 4) == 0 &&
		    strcmp(constants.facts[i].field, "SVt_LAST") != 0)
			return constants.facts[i].field + 4;
	return "?";
}

static void tell_magic(struct show *show, const char *letters)
{
	static const struct {
		char letter;
		const char *meaning;
	} meanings[] = {
		{ 'P', "tied" },
		{ 'p', "element of a tied one" },
		{ 'q', "tied" },
		{ '<', "weakly referred to" },
		{ '~', "data of C code" },
		{ 'c', "overload table" },
		{ 'E', "%ENV" },
		{ 'e', "element of %ENV" },
		{ 'I', "@ISA" },
		{ 'i', "element of @ISA" },
		{ 'S', "%SIG" },
		{ 's', "element of %SIG" },
		{ 't', "taint" },
		{ 'V', "v-string" },
		{ 'w', "UTF-8 cache" },
		{ 'g', "position of a match" },
		{ 'r', "regexp" },
		{ '#', "length of an array" },
		{ ']', "check of calls" },
		{ 'B', "fast search" },
		{ 'n', "shared by threads" },
		{ 'N', "shared by threads" },
		{ 'U', "uvar" },
	};
	char buffer[SHOW_LEN];
	struct text text = text_in(buffer, sizeof(buffer));

	for (const char *at = letters; *at; at++) {
		text_add(&text, "%s%c", at > letters ? ", " : "", *at);
		if (*at == '\\' && at[1] >= '0' && at[1] <= '9') { /* a letter that can't be printed */
			text_add(&text, "%c%s", at[1], at[1] == '0' ? " (special variable)" : "");
			at++;
			continue;
		}
		for (size_t i = 0; i < sizeof(meanings) / sizeof(*meanings); i++)
			if (*at == meanings[i].letter)
				text_add(&text, " (%s)", meanings[i].meaning);
	}
	show_tell(show, "magic", "%s", buffer);
}

/* A buffer that is copied when it is written to counts its users besides the first in its last byte. */
static void tell_sharing(struct show *show, const struct sv *sv)
{
	struct perl *perl = show->perl;
	uint64_t len = sv_word(perl, sv, perl->o->xpv_len), users;
	uint8_t others;

	if (!sv->body->pv || !(sv->flags & perl->bits->cow) || sv->u < PAGE || sv->flags & perl->bits->rok)
		return;
	if (len && source_read(perl->target->source, sv->u + len - 1, &others, 1))
		show_tell(show, "buffer", "copied on write, shared by %u value%s", others + 1u, others ? "s" : "");
	else if (!len && source_u64(perl->target->source,
				    sv->u - (uint64_t)perl->o->hek_key - (uint64_t)perl->o->shared_hek +
					    (uint64_t)perl->o->he_val,
				    &users))
		show_tell(show, "buffer", "a shared hash key, used %" PRIu64 " times", users);
}

static void tell_head(struct show *show, const struct sv *sv)
{
	struct perl *perl = show->perl;
	struct runtime_value value = { 0 };

	perl_value(perl, sv, &value);
	show_tell(show, "address", "0x%" PRIx64, sv->address);
	show_tell(show, "type", "%s (%s)", sv_kind_name(sv->body->kind), type_name(perl, sv->flags & 0xff));
	if (show->index->state->list.len > 1)
		show_tell(show, "interpreter", "%" PRIu32, perl->number);
	if (sv->refcnt >= IMMORTAL)
		show_tell(show, "refcount", "immortal");
	else
		show_tell(show, "refcount", "%" PRIu32, sv->refcnt);
	if (value.flags && *value.flags)
		show_tell(show, "flags", "%s", value.flags);
	if (value.package)
		show_tell(show, "package", "%s", value.package);
	if (value.magic)
		tell_magic(show, value.magic);
	tell_sharing(show, sv);
}

/* ---- arrays and hashes ---------------------------------------------------------------- */

static void add_item(struct show *show, struct text *text, uint64_t item)
{
	struct sv sv;

	if (!item)
		text_add(text, "undef"); /* never stored to */
	else if (sv_at(show->perl, item, &sv))
		text_add_scalar(show->perl, text, &sv);
	else
		text_add(text, "?");
}

/* "[1, 2, ...]" */
static void tell_items(struct show *show, uint64_t start, uint64_t n)
{
	char buffer[SHOW_LEN];
	struct text text = text_in(buffer, sizeof(buffer));

	text_add(&text, "[");
	for (uint64_t i = 0; i < n && i < MOST_ITEMS; i++) {
		text_add(&text, i ? ", " : "");
		add_item(show, &text, word_at(show, start + 8 * i));
	}
	text_add(&text, n > MOST_ITEMS ? ", ...]" : "]");
	show_tell(show, "value", "%s", buffer);
}

static void tell_object(struct show *show, const struct sv *sv)
{
	uint64_t fields = sv_word(show->perl, sv, show->index->at.obj_fields), end = refs_end_of(show->index, fields);
	uint64_t n = sv_word(show->perl, sv, show->index->at.obj_maxfield) + 1;

	if (fields < PAGE || end < fields)
		return;
	n = n > (end - fields) / 8 ? (end - fields) / 8 : n;
	show_tell(show, "fields", "%" PRIu64, n);
	tell_items(show, fields, n);
}

static void tell_array(struct show *show, const struct sv *sv)
{
	struct refs refs = { .perl = show->perl, .index = show->index };
	uint64_t start = 0, end = 0, n;
	const uint64_t *code = hashmap_get(&show->index->pads, sv->address);
	struct sv sub;
	char name[NAME_LEN];

	if (code && sv_at(show->perl, *code, &sub) && code_name(show->perl, &sub, name, sizeof(name)))
		show_tell(show, "pad of", "%s", name);
	n = array_items(&refs, sv, &start, &end) ? (end - start) / 8 : 0;
	show_tell(show, "length", "%" PRIu64, n);
	tell_items(show, start, n);
}

/* Adds the entries of one bucket; returns how many are shown then. */
static uint32_t add_bucket(struct show *show, struct text *text, uint64_t he, uint32_t shown, bool keys_only)
{
	const struct perl_offsets *o = show->perl->o;

	for (uint32_t n = 0; he >= PAGE && shown < MOST_ITEMS && n < MOST_LOOKED_AT; n++) {
		text_add(text, shown++ ? ", " : "");
		text_add_key(show->perl, text, word_at(show, he + (uint64_t)o->he_hek));
		if (!keys_only) {
			text_add(text, " => ");
			add_item(show, text, word_at(show, he + (uint64_t)o->he_val));
		}
		he = word_at(show, he + (uint64_t)o->he_next);
	}
	return shown;
}

static void tell_hash(struct show *show, const struct sv *sv)
{
	struct perl *perl = show->perl;
	uint64_t keys = sv_word(perl, sv, perl->o->xhv_keys), max = sv_word(perl, sv, perl->o->xhv_max);
	uint64_t end = refs_end_of(show->index, sv->u);
	char buffer[SHOW_LEN], name[NAME_LEN];
	struct text text = text_in(buffer, sizeof(buffer));
	uint32_t shown = 0;

	if (package_name(perl, sv->address, name, sizeof(name)))
		show_tell(show, "symbols of", "%s", name);
	show_tell(show, "keys", "%" PRIu64, keys);
	text_add(&text, "{");
	for (uint64_t i = 0;
	     sv->u >= PAGE && i <= max && i < MOST_LOOKED_AT && sv->u + 8 * i + 8 <= end && shown < MOST_ITEMS; i++)
		shown = add_bucket(show, &text, word_at(show, sv->u + 8 * i), shown, sv->address == perl->strtab);
	text_add(&text, keys > shown ? ", ...}" : "}");
	show_tell(show, "value", "%s", buffer);
}

/* ---- code --------------------------------------------------------------------------------- */

bool show_cop_place(struct perl *perl, const struct refs_index *index, uint64_t cop, char *buffer, size_t size)
{
	struct source *source = perl->target->source;
	uint64_t at = 0;
	uint32_t line;
	char file[NAME_LEN];
	struct sv glob;

	if (!source_u32(source, cop + (uint64_t)perl->o->cop_line, &line))
		return false;
	if (perl->o->cop_file >= 0) {
		if (!source_u64(source, cop + (uint64_t)perl->o->cop_file, &at) || at < PAGE ||
		    !source_string(source, at, file, sizeof(file)))
			return false;
		snprintf(buffer, size, "%s:%" PRIu32, file, line);
		return true;
	}
	/* Without threads the file is the glob "_<file". */
	if (index->at.cop_filegv < 0 || !source_u64(source, cop + (uint64_t)index->at.cop_filegv, &at) ||
	    !sv_at(perl, at, &glob) || !sv_is(&glob, SV_GLOB) ||
	    !hek_string(perl, sv_word(perl, &glob, perl->o->xgv_namehek), file, sizeof(file)) ||
	    strncmp(file, "_<", 2) != 0)
		return false;
	snprintf(buffer, size, "%s:%" PRIu32, file + 2, line);
	return true;
}

/* The chain of slabs that a sub's ops lie in; 0 when they lie in none. */
uint64_t show_slabs_of(const struct show *show, uint64_t op)
{
	uint64_t slab = op < PAGE ? 0 : op_slab(show->index, op - (uint64_t)show->index->o->opslot_op);

	return slab ? word_at(show, slab + (uint64_t)show->index->o->opslab_head) : 0;
}

static bool count_op(void *context, const struct runtime_ref *ref)
{
	uint64_t *n = context;

	*n += strcmp(ref->name, "op") == 0;
	return true;
}

static void tell_ops(struct show *show, uint64_t root)
{
	uint64_t slab = show_slabs_of(show, root), n = 0;
	struct refs refs = {
		.perl = show->perl, .index = show->index, .named = true, .visit = count_op, .context = &n
	};

	for (uint32_t i = 0; slab && i < MOST_SLABS; i++) {
		refs_of_slab(&refs, slab);
		slab = word_at(show, slab + (uint64_t)show->index->o->opslab_next);
	}
	if (n)
		show_tell(show, "ops", "%" PRIu64, n);
}

static void tell_code(struct show *show, const struct sv *sv)
{
	struct perl *perl = show->perl;
	uint32_t flags = sv_half(perl, sv, perl->o->xcv_flags);
	uint64_t root = sv_word(perl, sv, perl->o->xcv_root), start = sv_word(perl, sv, perl->o->xcv_start);
	uint64_t outside = sv_word(perl, sv, perl->o->xcv_outside), list = sv_word(perl, sv, perl->o->xcv_padlist);
	char text[NAME_LEN + 32];
	struct sv other;

	if (code_name(perl, sv, text, sizeof(text)))
		show_tell(show, "name", "%s", text);
	if (sv->address == perl_pointer(perl, "main_cv")) {
		show_tell(show, "code", "the main program");
		root = perl_pointer(perl, "main_root");
	}
	if (sv->u >= PAGE && sv_string(perl, sv, text, sizeof(text)))
		show_tell(show, "prototype", "%s", text);
	if (sv_at(perl, outside, &other) && code_name(perl, &other, text, sizeof(text)))
		show_tell(show, "inside of", "%s", text);
	if (flags & perl->bits->cv_xsub) {
		struct text value = text_in(text, sizeof(text));

		show_tell(show, "code", "%s", flags & perl->bits->cv_const ? "a constant" : "in C");
		if (flags & perl->bits->cv_const && sv_at(perl, start, &other)) {
			text_add_scalar(perl, &value, &other);
			show_tell(show, "value", "%s", text);
		}
		return;
	}
	if (root < PAGE) {
		show_tell(show, "code", "declared only");
		return;
	}
	if (start >= PAGE && show_cop_place(perl, show->index, start, text, sizeof(text)))
		show_tell(show, "place", "%s", text);
	if (flags & perl->bits->cv_clone)
		show_tell(show, "code", "a prototype of closures");
	show_tell(show, "depth", "%" PRIu32, sv_half(perl, sv, perl->o->xcv_depth));
	if (list >= PAGE)
		show_tell(show, "pads", "%" PRIu64, word_at(show, list + (uint64_t)perl->o->padlist_max));
	tell_ops(show, root);
}

/* ---- globs, regexps, handles --------------------------------------------------------------- */

static void tell_glob(struct show *show, const struct sv *sv)
{
	const struct perl_offsets *o = show->perl->o;
	const struct {
		int offset;
		const char *slot;
	} slots[] = { { o->gp_sv, "SCALAR" }, { o->gp_av, "ARRAY" }, { o->gp_hv, "HASH" },
		      { o->gp_cv, "CODE" },   { o->gp_io, "IO" },    { o->gp_form, "FORMAT" } };
	char buffer[NAME_LEN];
	struct text text = text_in(buffer, sizeof(buffer));

	text_add_scalar(show->perl, &text, sv);
	show_tell(show, "name", "%s", buffer);
	if (sv->u < PAGE)
		return;
	text = text_in(buffer, sizeof(buffer));
	for (size_t i = 0; i < sizeof(slots) / sizeof(*slots); i++) {
		uint64_t value = word_at(show, sv->u + (uint64_t)slots[i].offset);

		if (value >= PAGE)
			text_add(&text, "%s%s(0x%" PRIx64 ")", text.len ? " " : "", slots[i].slot, value);
	}
	show_tell(show, "slots", "%s", buffer);
}

static void tell_regexp(struct show *show, const struct sv *sv)
{
	char pattern[PATTERN_LEN];

	if (sv_string(show->perl, sv, pattern, sizeof(pattern)))
		show_tell(show, "pattern", "%s", pattern);
}

/* The lowest layer knows the descriptor, if it is that of the system's files. */
static void tell_descriptor(struct show *show, uint64_t slot)
{
	const struct layout *l = &show->perl->layout;
	int table = layout_offset(l, "_PerlIO", "tab"), name = layout_offset(l, "_PerlIO_funcs", "name");
	int fd_at = layout_offset(l, "PerlIOUnix", "fd");
	uint64_t layer = word_at(show, slot), functions, text_at;
	char text[32], layers[256];
	struct text list = text_in(layers, sizeof(layers));
	uint32_t fd;

	for (uint32_t n = 0; table >= 0 && name >= 0 && layer >= PAGE && n < MOST_LAYERS; n++) {
		functions = word_at(show, layer + (uint64_t)table);
		text_at = functions < PAGE ? 0 : word_at(show, functions + (uint64_t)name);
		if (text_at < PAGE || !source_string(show->perl->target->source, text_at, text, sizeof(text)))
			break;
		text_add(&list, "%s%s", n ? " over " : "", text);
		if (strcmp(text, "unix") == 0 && fd_at >= 0 &&
		    source_u32(show->perl->target->source, layer + (uint64_t)fd_at, &fd))
			show_tell(show, "descriptor", "%" PRId32, (int32_t)fd);
		layer = word_at(show, layer);
	}
	if (list.len)
		show_tell(show, "layers", "%s", layers);
}

static void tell_io(struct show *show, const struct sv *sv)
{
	static const struct {
		char letter;
		const char *meaning;
	} meanings[] = { { '<', "for reading" }, { '>', "for writing" }, { '+', "for both" }, { 'a', "for appending" },
			 { '|', "a pipe" },      { '-', "standard" },    { 's', "a socket" }, { '#', "numeric" },
			 { 'I', "std input" },   { '\0', "closed" },     { ' ', "closed" } };
	int type_at = layout_offset(&show->perl->layout, "xpvio", "xio_type");
	uint8_t type = 0;

	if (type_at >= 0 && source_read(show->perl->target->source, sv->any + (uint64_t)type_at, &type, 1))
		for (size_t i = 0; i < sizeof(meanings) / sizeof(*meanings); i++)
			if (meanings[i].letter == (char)type)
				show_tell(show, "handle", "%s", meanings[i].meaning);
	if (sv->u >= PAGE)
		tell_descriptor(show, sv->u);
}

/* ---- every value ------------------------------------------------------------------------------ */

static void tell_scalar(struct show *show, const struct sv *sv)
{
	struct perl *perl = show->perl;
	char buffer[SHOW_LEN];
	struct text text = text_in(buffer, sizeof(buffer));

	if (sv->body->pv && sv->u >= PAGE && sv->flags & (perl->bits->pok | perl->bits->p_pok) &&
	    !(sv->flags & perl->bits->rok))
		show_tell(show, "length", "%" PRIu64 " bytes", sv_word(perl, sv, perl->o->xpv_cur));
	text_add_scalar(perl, &text, sv);
	show_tell(show, "value", "%s", buffer);
}

void show_value(struct show *show, const struct sv *sv)
{
	tell_head(show, sv);
	switch (sv->body->kind) {
	case SV_ARRAY:
		tell_array(show, sv);
		break;
	case SV_HASH:
		tell_hash(show, sv);
		break;
	case SV_CODE:
	case SV_FORMAT:
		tell_code(show, sv);
		break;
	case SV_GLOB:
		tell_glob(show, sv);
		break;
	case SV_REGEXP:
		tell_regexp(show, sv);
		break;
	case SV_IO:
		tell_io(show, sv);
		break;
	case SV_OBJECT:
		tell_object(show, sv);
		break;
	default:
		tell_scalar(show, sv);
	}
}
