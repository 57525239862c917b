/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Divides what images cover: text, rodata, data and bss, by the program headers rather than by the
 * protection of the mapping, so that relocated read-only data is data and the bss begins at its byte.
 */
#include <elf.h>

#include "base/hashmap.h"
#include "census/census.h"

#define NO_ACCESS(mapping) (!((mapping)->flags & (MAPPING_READ | MAPPING_WRITE | MAPPING_EXEC)))

static category_id image_category(struct ledger *ledger, const char *name, const char *kind)
{
	return ledger_category(ledger, &(struct category){ .domain = "image", .kind = kind, .detail = name });
}

static const char *kind_of_segment(const struct image_segment *segment)
{
	if (segment->flags & PF_X)
		return "text";
	return segment->flags & PF_W ? "data" : "rodata";
}

static const char *kind_of_protection(const struct mapping *m)
{
	if (m->flags & MAPPING_EXEC)
		return "text";
	return m->flags & MAPPING_WRITE ? "data" : "rodata";
}

static const struct image_segment *segment_of(const struct images *images, const struct image_place *place)
{
	return &images->v.items[place->image]->segments.items[place->segment];
}

/* Index of the first place whose last page ends after an address. */
static size_t first_place(const struct images *images, uint64_t address)
{
	return vec_after(&images->places, .end, page_down(address));
}

/* The parts of [start, end) that a segment's file bytes and its bss have. */
static void add_segment(struct ledger *ledger, const struct image *image, const struct image_segment *segment,
			uint64_t start, uint64_t end)
{
	uint64_t bss = segment->end > segment->file_end ? segment->file_end : end;

	if (start < bss)
		ledger_carve_add(ledger, start, image_category(ledger, image->name, kind_of_segment(segment)));
	if (bss < end)
		ledger_carve_add(ledger, bss > start ? bss : start, image_category(ledger, image->name, "bss"));
}

/* ---- mappings of the file ---------------------------------------------------------- */

/* All of it is the image's. Each segment reaches to the page where the next one begins. */
static void carve_file(struct target *target, const struct mapping *m, size_t first)
{
	const struct images *images = target->images;
	struct ledger *ledger = target->ledger;
	size_t i = first;

	ledger_carve_begin(ledger, m->start, m->end);
	for (; i < images->places.len && page_down(images->places.items[i].start) < m->end; i++) {
		const struct image_place *place = &images->places.items[i];
		uint64_t start = page_down(place->start), end = m->end;

		if (i + 1 < images->places.len && page_down(images->places.items[i + 1].start) < end)
			end = page_down(images->places.items[i + 1].start);
		if (start < m->start || i == first)
			start = m->start;
		if (start < end)
			add_segment(ledger, images->v.items[place->image], segment_of(images, place), start, end);
	}
	ledger_carve_end(ledger);
}

/* Between segments: what some linkers leave there is mapped without access. */
static void carve_gap(struct target *target, const struct mapping *m, const char *name)
{
	struct ledger *ledger = target->ledger;

	if (NO_ACCESS(m))
		ledger_carve(ledger, m->start, m->end,
			     ledger_category(ledger, &(struct category){ .domain = "os", .kind = "reserved",
									 .detail = name }));
	else
		ledger_carve(ledger, m->start, m->end, image_category(ledger, name, kind_of_protection(m)));
}

/* The image that a mapping of a file was made for. Others may lie in its holes: look at a few. */
static const struct image *image_around(const struct images *images, const struct mapping *m)
{
	size_t after = vec_after(&images->v, ->start, m->start);

	for (size_t i = after; i > 0 && after - i < 8; i--)
		if (m->start < images->v.items[i - 1]->end && image_is_of(images->v.items[i - 1], m))
			return images->v.items[i - 1];
	return NULL;
}

static void carve_of_image(struct target *target, const struct mapping *m, const struct image *image)
{
	size_t i = first_place(target->images, m->start);
	const struct image_place *place = i < target->images->places.len ? &target->images->places.items[i] : NULL;

	if (place && page_down(place->start) < m->end && target->images->v.items[place->image] == image)
		carve_file(target, m, i);
	else
		carve_gap(target, m, image->name);
}

/* ---- anonymous mappings ------------------------------------------------------------- */

/* Behind the file's bytes lies the bss, and in place of them what a program put there. It ends with the last
 * page of its segment: without address randomisation the brk heap follows in the same mapping. */
static void carve_anonymous(struct target *target, const struct mapping *m)
{
	const struct images *images = target->images;
	uint64_t reached = m->start;

	for (size_t i = first_place(images, m->start); i < images->places.len; i++) {
		const struct image_place *place = &images->places.items[i];
		uint64_t start = page_down(place->start), end = page_up(place->end);

		if (start >= m->end)
			break;
		start = start > reached ? start : reached;
		end = end < m->end ? end : m->end;
		if (images->v.items[place->image]->vdso || start >= end)
			continue;
		ledger_carve_begin(target->ledger, start, end);
		add_segment(target->ledger, images->v.items[place->image], segment_of(images, place), start, end);
		ledger_carve_end(target->ledger);
		reached = end;
	}
}

/* ---- files whose headers could not be read -------------------------------------------- */

/* Paths (as pointers: equal strings are the same) of files with code in no image. */
static struct fh_error *find_headless(const struct target *target, struct hashmap *ret)
{
	const struct source *source = target->source;

	for (size_t i = 0; i < source->mappings.len; i++) {
		const struct mapping *m = &source->mappings.items[i];

		if (m->flags & MAPPING_EXEC && mapping_has_file(m) && !(m->flags & MAPPING_SHARED) &&
		    !image_around(target->images, m) && !hashmap_put(ret, (uintptr_t)m->path, 1))
			return error_no_memory();
	}
	return NULL;
}

static const char *last_part(const char *path)
{
	const char *name = path;

	for (const char *p = path; *p; p++)
		if (*p == '/' && p[1])
			name = p + 1;
	return name;
}

static void carve_mapping(struct target *target, const struct mapping *m, struct hashmap *headless)
{
	const struct image *image;

	if (!mapping_has_file(m)) {
		if (!(m->flags & MAPPING_SHARED) && !NO_ACCESS(m))
			carve_anonymous(target, m);
		return;
	}
	image = image_around(target->images, m);
	if (image)
		carve_of_image(target, m, image);
	else if (hashmap_get(headless, (uintptr_t)m->path))
		carve_gap(target, m, last_part(m->path));
}

struct fh_error *census_carve_images(struct target *target)
{
	struct hashmap headless = { 0 };
	struct fh_error *error = find_headless(target, &headless);

	for (size_t i = 0; i < target->source->mappings.len && !error; i++)
		carve_mapping(target, &target->source->mappings.items[i], &headless);
	hashmap_deinit(&headless);
	return error ? error : ledger_commit(target->ledger);
}
