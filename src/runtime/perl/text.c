/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/perl/text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define STRING_SHOWN 64u /* bytes of a string */
#define KEY_SHOWN 200u
#define NAME_LEN 256

void text_add(struct text *text, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(text->bytes + text->len, text->size - text->len, format, ap);
	va_end(ap);
	if (n > 0)
		text->len = text->len + (size_t)n < text->size ? text->len + (size_t)n : text->size - 1;
}

/* ---- strings ------------------------------------------------------------------ */

/* One character of Perl's relaxed UTF-8; returns its bytes, 0 when they are none. */
static size_t decode(const uint8_t *bytes, size_t n, uint32_t *ret)
{
	size_t len = bytes[0] < 0x80   ? 1
		     : bytes[0] < 0xc2 ? 0
		     : bytes[0] < 0xe0 ? 2
		     : bytes[0] < 0xf0 ? 3
		     : bytes[0] < 0xf8 ? 4
				       : 0;

	if (!len || len > n)
		return 0;
	*ret = len == 1 ? bytes[0] : bytes[0] & (0x7fu >> len);
	for (size_t i = 1; i < len; i++) {
		if ((bytes[i] & 0xc0) != 0x80)
			return 0;
		*ret = *ret << 6 | (bytes[i] & 0x3fu);
	}
	return len;
}

static void add_character(struct text *text, uint32_t c, bool utf8, bool literal)
{
	static const char letters[][2] = {
		{ '\n', 'n' }, { '\t', 't' }, { '\r', 'r' }, { '\033', 'e' }, { '\0', '0' }
	};

	for (size_t i = 0; i < sizeof(letters) / sizeof(*letters) - 1; i++)
		if (c == (uint32_t)letters[i][0]) {
			text_add(text, "\\%c", letters[i][1]);
			return;
		}
	if (c && c < 0x80 && strchr(literal ? "\"\\$@" : "\"\\", (int)c))
		text_add(text, "\\%c", (int)c);
	else if (c >= 0x20 && c < 0x7f)
		text_add(text, "%c", (int)c);
	else if (utf8 && c >= 0x80)
		text_add(text, "\\x{%" PRIx32 "}", c);
	else
		text_add(text, "\\x%02" PRIx32, c);
}

void text_add_quoted(struct text *text, const uint8_t *bytes, size_t n, bool utf8, bool more, bool literal)
{
	text_add(text, "\"");
	for (size_t i = 0, len; i < n; i += len) {
		uint32_t c = bytes[i];

		len = utf8 ? decode(bytes + i, n - i, &c) : 1;
		if (!len && more && n - i < 4) /* the cut went through a character */
			break;
		add_character(text, c, utf8 && len, literal);
		len = len ? len : 1;
	}
	text_add(text, more ? "\"..." : "\"");
}

static void add_string(struct perl *perl, struct text *text, const struct sv *sv)
{
	uint8_t bytes[STRING_SHOWN];
	uint64_t len = sv_word(perl, sv, perl->o->xpv_cur);
	size_t n = memory_read(&perl->target->source->memory, sv->u, bytes, len < sizeof(bytes) ? len : sizeof(bytes));

	text_add_quoted(text, bytes, n, sv->flags & perl->bits->utf8, len > n, false);
}

/* ---- hash keys ------------------------------------------------------------------ */

/* Whether it needs no quotes: a name, or a number that is written as itself. */
static bool is_plain(const uint8_t *bytes, size_t n)
{
	size_t i = 0;

	if (!n || (!isalpha(bytes[0]) && bytes[0] != '_')) {
		for (i = 0; i < n && isdigit(bytes[i]);)
			i++;
		return n && i == n && n < 16 && (n == 1 || bytes[0] != '0');
	}
	while (i < n && (isalnum(bytes[i]) || bytes[i] == '_'))
		i++;
	return i == n;
}

void text_add_key(struct perl *perl, struct text *text, uint64_t hek)
{
	struct source *source = perl->target->source;
	uint8_t bytes[KEY_SHOWN], flags = 0;
	uint64_t key = hek + (uint64_t)perl->o->hek_key;
	uint32_t len;
	size_t n;

	if (hek < PAGE || !source_u32(source, hek + (uint64_t)perl->o->hek_len, &len) || len >> 31) {
		text_add(text, "?");
		return;
	}
	n = memory_read(&source->memory, key, bytes, len < sizeof(bytes) ? len : sizeof(bytes));
	source_read(source, key + len + 1, &flags, 1); /* HEK_FLAGS: behind the key's NUL */
	if (n == len && is_plain(bytes, n))
		text_add(text, "%.*s", (int)n, (const char *)bytes);
	else
		text_add_quoted(text, bytes, n, flags & 1, n < len, true);
}

/* ---- names ------------------------------------------------------------------------ */

void text_add_glob_name(struct perl *perl, struct text *text, const struct sv *glob)
{
	char package[NAME_LEN] = "", name[NAME_LEN] = "";

	package_name(perl, sv_word(perl, glob, perl->o->xgv_stash), package, sizeof(package));
	hek_string(perl, sv_word(perl, glob, perl->o->xgv_namehek), name, sizeof(name));
	text_add(text, "%s::%s", package, name);
}

static const char *reference_type(struct perl *perl, const struct sv *sv)
{
	static const char *const names[SV_KINDS] = { "SCALAR", "INVLIST", "REGEXP", "GLOB", "LVALUE", "ARRAY",
						     "HASH",   "CODE",    "FORMAT", "IO",   "OBJECT" };

	return sv->flags & perl->bits->rok && sv_is(sv, SV_SCALAR) ? "REF" : names[sv->body->kind];
}

void text_add_reference(struct perl *perl, struct text *text, const struct sv *sv)
{
	char package[NAME_LEN];

	if (sv->flags & perl->bits->object && sv->body->magic &&
	    package_name(perl, sv_word(perl, sv, perl->o->xmg_stash), package, sizeof(package)))
		text_add(text, "%s=", package);
	text_add(text, "%s(0x%" PRIx64 ")", reference_type(perl, sv), sv->address);
}

/* ---- values ------------------------------------------------------------------------- */

/* A pattern prints as itself. */
static void add_pattern(struct perl *perl, struct text *text, const struct sv *regexp)
{
	char pattern[STRING_SHOWN + 1];
	uint64_t len = sv_word(perl, regexp, perl->o->xpv_cur);

	if (regexp->flags & perl->bits->pok && sv_string(perl, regexp, pattern, sizeof(pattern)))
		text_add(text, "qr/%s%s/", pattern, len > STRING_SHOWN ? "..." : "");
	else
		text_add(text, "qr/.../");
}

static bool add_number(struct perl *perl, struct text *text, const struct sv *sv)
{
	int iv = layout_offset(&perl->layout, "xpvmg", "xiv_u"), nv = layout_offset(&perl->layout, "xpvmg", "xnv_u");
	uint32_t iok = perl->bits->iok | perl->bits->p_iok, nok = perl->bits->nok | perl->bits->p_nok;
	uint64_t word = 0;
	double real;

	if (sv->flags & iok & perl->bits->iok || (sv->flags & iok && !(sv->flags & nok))) {
		word = sv_word(perl, sv, iv);
		if (sv->flags & perl->bits->is_uv)
			text_add(text, "%" PRIu64, word);
		else
			text_add(text, "%" PRId64, (int64_t)word);
		return true;
	}
	if (!(sv->flags & nok))
		return false;
	word = sv_word(perl, sv, nv);
	memcpy(&real, &word, sizeof(real));
	text_add(text, "%.15g", real);
	return true;
}

void text_add_scalar(struct perl *perl, struct text *text, const struct sv *sv)
{
	struct sv other;

	if (sv_is(sv, SV_GLOB)) {
		text_add(text, "*");
		text_add_glob_name(perl, text, sv);
	} else if (sv_is(sv, SV_REGEXP)) {
		add_pattern(perl, text, sv);
	} else if (!sv_is(sv, SV_SCALAR) && !sv_is(sv, SV_LVALUE) && !sv_is(sv, SV_INVLIST)) {
		text_add_reference(perl, text, sv);
	} else if (sv->flags & perl->bits->rok) {
		if (!sv_at(perl, sv->u, &other))
			text_add(text, "a reference to 0x%" PRIx64 ", where no value is", sv->u);
		else if (sv_is(&other, SV_REGEXP))
			add_pattern(perl, text, &other);
		else
			text_add_reference(perl, text, &other);
		if (sv->flags & perl->bits->weakref)
			text_add(text, " (weak)");
	} else if (sv->body->pv && sv->u && sv->flags & (perl->bits->pok | perl->bits->p_pok)) {
		add_string(perl, text, sv);
	} else if (!add_number(perl, text, sv)) {
		text_add(text, "undef");
	}
}
