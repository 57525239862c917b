/* SPDX-License-Identifier: Apache-2.0 */
/* What a query can ask of a value: its flags in words, the letters of its magic, its package. */
#include <stdio.h>

#include "runtime/perl/internal.h"

#define MOST_MAGIC 32u /* letters that are told */
#define NAME_LEN 256

static const char *flags_text(struct perl *perl, const struct sv *sv)
{
	const struct sv_bits *b = perl->bits;
	const struct {
		uint32_t bit;
		const char *word;
	} words[] = {
		{ b->temp, "temp" },         { b->padtmp, "padtmp" },   { b->readonly, "readonly" },
		{ b->protect, "protected" }, { b->magical, "magical" }, { b->object, "object" },
		{ b->rok, "reference" },     { b->cow, "cow" },
	};
	char text[128];
	size_t len = 0;

	text[0] = '\0';
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (sv->flags & words[i].bit && (words[i].bit != b->cow || sv->body->pv) && len < sizeof(text))
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", len ? " " : "", words[i].word);
	if (sv->flags & b->rok && sv->flags & b->weakref && len < sizeof(text))
		len += (size_t)snprintf(text + len, sizeof(text) - len, " weak");
	if (sv->flags & b->pok && sv->flags & b->utf8 && len < sizeof(text))
		snprintf(text + len, sizeof(text) - len, "%sutf8", len ? " " : "");
	return strings_add(perl->target->source->strings, text);
}

static const char *magic_text(struct perl *perl, const struct sv *sv)
{
	struct source *source = perl->target->source;
	uint64_t at = sv->body->magic && sv->any ? sv_word(perl, sv, perl->o->xmg_magic) : 0;
	char text[MOST_MAGIC * 4 + 1];
	size_t len = 0;

	for (uint32_t n = 0; at >= PAGE && n < MOST_MAGIC; n++) {
		struct block block;
		uint8_t type;

		/* The word has other uses; a link of magic has its name by now. */
		if (!ledger_find(perl->target->ledger, at, &block) ||
		    strcmp(ledger_category_of(perl->target->ledger, block.category)->kind, "magic") != 0 ||
		    !source_read(source, at + (uint64_t)perl->o->mg_type, &type, 1) ||
		    !source_u64(source, at + (uint64_t)perl->o->mg_next, &at))
			break;
		len += (size_t)snprintf(text + len, sizeof(text) - len, type > ' ' && type < 0x7f ? "%c" : "\\%o",
					type);
	}
	return len ? strings_add(source->strings, text) : NULL;
}

void perl_value(struct perl *perl, const struct sv *sv, struct runtime_value *ret)
{
	char name[NAME_LEN];

	ret->refcount = sv->refcnt;
	ret->interpreter = perl->number;
	ret->flags = flags_text(perl, sv);
	ret->magic = magic_text(perl, sv);
	if (sv->flags & perl->bits->object && sv->body->magic &&
	    package_name(perl, sv_word(perl, sv, perl->o->xmg_stash), name, sizeof(name)))
		ret->package = strings_add(perl->target->source->strings, name);
}
