/* SPDX-License-Identifier: Apache-2.0 */
/* Values as a Perl programmer writes them, shortened and escaped. */
#ifndef FREEHOLD_RUNTIME_PERL_TEXT_H
#define FREEHOLD_RUNTIME_PERL_TEXT_H

#include "runtime/perl/internal.h"

/* A string that is added to; what doesn't fit is left out. */
struct text {
	char *bytes; /* always NUL-terminated */
	size_t size, len;
};

static inline struct text text_in(char *bytes, size_t size)
{
	bytes[0] = '\0';
	return (struct text){ bytes, size, 0 };
}
void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* In double quotes: escapes, \x{..} for what is not ASCII. `more`: it was cut; `literal`: Perl can read it again. */
void text_add_quoted(struct text *text, const uint8_t *bytes, size_t n, bool utf8, bool more, bool literal);
/* A hash key by its HEK, as in a subscript: name, 17, "with \"quotes\"". */
void text_add_key(struct perl *perl, struct text *text, uint64_t hek);
/* What a scalar holds: "text", 17, undef, App::User=HASH(0x...), *main::STDOUT. Looks no further. */
void text_add_scalar(struct perl *perl, struct text *text, const struct sv *sv);
/* "App::User=HASH(0x55d0)", as a reference to it prints. */
void text_add_reference(struct perl *perl, struct text *text, const struct sv *sv);
/* "main::STDOUT"; "main::" and the like when a part can't be read. */
void text_add_glob_name(struct perl *perl, struct text *text, const struct sv *glob);

#endif
