/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/glibc/marks.h"

#include <stdlib.h>

static struct mark_page *page_of(struct marks *marks, uint64_t address)
{
	const uint64_t *index = hashmap_get(&marks->regions, address / MARK_REGION);

	return index ? &marks->pages.items[*index] : NULL;
}

static struct mark_page *make_page(struct marks *marks, uint64_t address)
{
	struct mark_page *page = page_of(marks, address);

	if (page)
		return page;
	if (!vec_push(&marks->pages, (struct mark_page){ 0 }))
		return NULL;
	if (!hashmap_put(&marks->regions, address / MARK_REGION, marks->pages.len - 1)) {
		marks->pages.len--;
		return NULL;
	}
	return vec_last(&marks->pages);
}

static enum mark_kind kind_in(const struct mark_page *page, uint64_t chunk)
{
	uint64_t bit = chunk % MARK_REGION / 16;

	for (unsigned i = 0; i < MARK_KINDS; i++)
		if (page->bits[i] && page->bits[i][bit / 64] >> bit % 64 & 1)
			return i + 1;
	return MARK_NONE;
}

enum mark_kind marks_get(struct marks *marks, uint64_t chunk)
{
	const struct mark_page *page = page_of(marks, chunk);

	return page ? kind_in(page, chunk) : MARK_NONE;
}

bool marks_set(struct marks *marks, uint64_t chunk, enum mark_kind kind, bool *ret_new)
{
	struct mark_page *page = make_page(marks, chunk);
	uint64_t bit = chunk % MARK_REGION / 16;

	if (!page)
		return false;
	*ret_new = kind_in(page, chunk) == MARK_NONE;
	if (!*ret_new)
		return true;
	if (!page->bits[kind - 1])
		page->bits[kind - 1] = calloc(MARK_WORDS, sizeof(uint64_t));
	if (!page->bits[kind - 1])
		return false;
	page->bits[kind - 1][bit / 64] |= UINT64_C(1) << bit % 64;
	return true;
}

/* The first mark of a page at a bit or behind it; MARK_REGION / 16 when there is none. */
static uint64_t next_in(const struct mark_page *page, uint64_t bit)
{
	uint64_t mask = ~UINT64_C(0) << bit % 64;

	for (uint64_t w = bit / 64; w < MARK_WORDS; w++, mask = ~UINT64_C(0)) {
		uint64_t word = 0;

		for (unsigned i = 0; i < MARK_KINDS; i++)
			if (page->bits[i])
				word |= page->bits[i][w];
		if (word & mask)
			return w * 64 + (uint64_t)__builtin_ctzll(word & mask);
	}
	return MARK_REGION / 16;
}

uint64_t marks_next(struct marks *marks, uint64_t from, uint64_t end)
{
	while (from < end) {
		const struct mark_page *page = page_of(marks, from);
		uint64_t region = from - from % MARK_REGION, bit;

		if (page) {
			bit = next_in(page, from % MARK_REGION / 16);
			if (bit < MARK_REGION / 16)
				return region + bit * 16 < end ? region + bit * 16 : end;
		}
		if (region > UINT64_MAX - MARK_REGION)
			break;
		from = region + MARK_REGION;
	}
	return end;
}

void marks_deinit(struct marks *marks)
{
	for (size_t i = 0; i < marks->pages.len; i++)
		for (unsigned k = 0; k < MARK_KINDS; k++)
			free(marks->pages.items[i].bits[k]);
	vec_free(&marks->pages);
	hashmap_deinit(&marks->regions);
	*marks = (struct marks){ 0 };
}
