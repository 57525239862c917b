/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run-time loader's own memory. Until the program's malloc is there, glibc's loader allocates from
 * anonymous pages of its own: link_maps of what the program was started with, search paths, the main
 * thread's static TLS and dtv (elf/dl-minimal-malloc.c: whole pages, nothing is ever given back). What the
 * link_maps of that time point at, within the mappings that hold one of them, is where those pages are.
 */
#include <elf.h>

#include "census/census.h"
#include "image/loader.h"

#define L_NEXT 3	   /* words: the neighbours in the list may be from malloc */
#define L_PREV 4
#define MOST_PLACES 64
/* A mapping that holds the loader's memory and is smaller than this holds nothing else: malloc maps blocks
 * of 128 KiB and more. In a larger one, other mappings have grown together with it. */
#define SMALL (128u << 10)
#define MOST_SPAN (4u << 20)

struct place {
	uint64_t start, end;  /* of the block that is dark so far */
	uint64_t first, last; /* lowest and highest address that something refers to */
};

struct places {
	struct target *target;
	struct place items[MOST_PLACES];
	size_t len;
};

static struct place *find_place(struct places *places, uint64_t address)
{
	for (size_t i = 0; i < places->len; i++)
		if (address >= places->items[i].start && address < places->items[i].end)
			return &places->items[i];
	return NULL;
}

/* The block around something that the loader itself must have allocated. */
static void add_place(struct places *places, uint64_t address)
{
	const struct mapping *m = source_mapping_at(places->target->source, address);
	struct block block;

	if (find_place(places, address) || places->len == MOST_PLACES || !m || mapping_has_file(m) ||
	    m->flags & MAPPING_SHARED || !(m->flags & MAPPING_WRITE) ||
	    !ledger_find(places->target->ledger, address, &block) ||
	    !ledger_is_dark(places->target->ledger, block.category))
		return;
	places->items[places->len++] = (struct place){ block.start, block.end, address, address };
}

static void refer(struct places *places, uint64_t address)
{
	struct place *place = find_place(places, address);

	if (!place)
		return;
	if (address < place->first)
		place->first = address;
	if (address > place->last)
		place->last = address;
}

static void refer_words(struct places *places, uint64_t address, size_t n)
{
	uint64_t words[LINK_MAP_WORDS];

	n = memory_read(&places->target->source->memory, address, words, n * 8) / 8;
	refer(places, address);
	refer(places, address + n * 8);
	for (size_t i = 0; i < n; i++)
		if (i != L_NEXT && i != L_PREV)
			refer(places, words[i]);
}

static void find_places(struct places *places, const struct loader *loader)
{
	const struct source *source = places->target->source;
	/* Begins with its own address and that of the dtv. */
	uint64_t control = source->threads.len ? source->threads.items[0].fs_base : 0;

	for (size_t i = 0; i < loader->initial.len; i++)
		add_place(places, loader->initial.items[i]);
	if (control)
		add_place(places, control);
	for (size_t i = 0; i < loader->initial.len; i++)
		refer_words(places, loader->initial.items[i], LINK_MAP_WORDS);
	if (control)
		refer_words(places, control, 2);
}

static const char *loader_name(const struct target *target)
{
	uint64_t base = source_auxv(target->source, AT_BASE);
	const struct image *image = base ? images_at(target->images, base, NULL) : NULL;

	return image ? image->name : "";
}

static void carve(struct target *target, struct place place)
{
	struct category c = { .domain = "image", .kind = "loader data", .detail = loader_name(target),
			      .state = FH_LIVE };
	uint64_t first = page_down(place.first), end = (place.last | (PAGE - 1)) + 1;

	if (place.end - place.start <= SMALL) {
		first = place.start;
		end = place.end;
	}
	if (first < place.start)
		first = place.start;
	if (end > place.end)
		end = place.end;
	if (end - first <= MOST_SPAN)
		ledger_carve(target->ledger, first, end, ledger_category(target->ledger, &c));
}

struct fh_error *census_carve_loader(struct target *target)
{
	struct places places = { .target = target };
	struct loader loader;

	TRY(loader_read(target->images, &loader));
	if (loader.initial.len)
		find_places(&places, &loader);
	for (size_t i = 0; i < places.len; i++)
		carve(target, places.items[i]);
	loader_deinit(&loader);
	return ledger_commit(target->ledger);
}
