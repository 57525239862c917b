/* SPDX-License-Identifier: Apache-2.0 */
#include "layout/layout.h"

#include <string.h>

static const struct layout_fact table[] = {
#define F(runtime, version, flavour, structure, field, offset, size, first_bit, bits)                       \
	{ runtime, version, flavour, structure, field, offset, size, first_bit, bits },
#include "cpython.def"
#include "perl.def"
#undef F
};

#define TABLE_LEN (sizeof(table) / sizeof(*table))

static bool same_layout(const struct layout_fact *a, const struct layout_fact *b)
{
	return strcmp(a->version, b->version) == 0 && strcmp(a->flavour, b->flavour) == 0 &&
	       strcmp(a->runtime, b->runtime) == 0;
}

bool layout_next(const char *runtime, struct layout *layout)
{
	size_t at = layout->facts ? (size_t)(layout->facts - table) + layout->len : 0, end;

	while (at < TABLE_LEN && strcmp(table[at].runtime, runtime) != 0)
		at++;
	if (at == TABLE_LEN)
		return false;
	for (end = at + 1; end < TABLE_LEN && same_layout(&table[at], &table[end]);)
		end++;
	*layout = (struct layout){ &table[at], end - at };
	return true;
}

bool layout_find(const char *runtime, const char *version, const char *flavour, struct layout *ret)
{
	*ret = (struct layout){ 0 };
	while (layout_next(runtime, ret))
		if (strcmp(ret->facts->version, version) == 0 && strcmp(ret->facts->flavour, flavour) == 0)
			return true;
	return false;
}

struct layout layout_structure(const struct layout *layout, const char *structure)
{
	size_t first = 0, end;

	while (first < layout->len && strcmp(layout->facts[first].structure, structure) != 0)
		first++;
	for (end = first; end < layout->len && strcmp(layout->facts[end].structure, structure) == 0;)
		end++;
	return (struct layout){ layout->facts + first, end - first };
}

const struct layout_fact *layout_field(const struct layout *layout, const char *structure, const char *field)
{
	for (size_t i = 0; i < layout->len; i++)
		if (strcmp(layout->facts[i].field, field) == 0 &&
		    strcmp(layout->facts[i].structure, structure) == 0)
			return &layout->facts[i];
	return NULL;
}

int layout_offset(const struct layout *layout, const char *structure, const char *field)
{
	const struct layout_fact *fact = layout_field(layout, structure, field);

	return fact ? (int)fact->offset : -1;
}

uint32_t layout_size(const struct layout *layout, const char *structure)
{
	const struct layout_fact *fact = layout_field(layout, structure, "sizeof");

	return fact ? fact->size : 0;
}
