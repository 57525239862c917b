/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks in words: show.c has values, show_parts.c what belongs to them, and to whom. */
#ifndef FREEHOLD_RUNTIME_PERL_SHOW_H
#define FREEHOLD_RUNTIME_PERL_SHOW_H

#include "runtime/perl/refs.h"
#include "runtime/perl/text.h"

#define SHOW_LEN 1024 /* of one field */

struct show {
	struct perl *perl;
	struct refs_index *index;
	runtime_field_visitor *visit;
	void *context;
	bool stopped;
};

void show_tell(struct show *show, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
void show_value(struct show *show, const struct sv *sv);
/* "file:line" of a statement's op; false when it can't be read. */
bool show_cop_place(struct perl *perl, const struct refs_index *index, uint64_t cop, char *buffer, size_t size);
/* The first slab of the chain that an op lies in; 0 when it lies in none. */
uint64_t show_slabs_of(const struct show *show, uint64_t op);

#endif
