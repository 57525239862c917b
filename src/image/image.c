/* SPDX-License-Identifier: Apache-2.0 */
/* Which mappings are images, and which image an address is in. */
#include "image/image.h"

#include <elf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

#include "image/headers.h"

#define NEIGHBOURS 8 /* mappings that one segment may become by changes of protection */

void images_destroy(struct images *images)
{
	if (!images)
		return;
	for (size_t i = 0; i < images->v.len; i++)
		image_destroy(images->v.items[i]);
	vec_free(&images->v);
	vec_free(&images->places);
	vec_free(&images->mappings);
	free(images);
}

/* ---- finding --------------------------------------------------------------- */

static bool same_file(const struct mapping *a, const struct mapping *b)
{
	return a->path == b->path && a->inode == b->inode && a->device == b->device;
}

static bool has_code(const struct images *images, size_t i)
{
	const struct mapping *m = images->mappings.items[i];

	for (size_t k = i; k < images->mappings.len && k <= i + NEIGHBOURS; k++)
		if (images->mappings.items[k]->flags & MAPPING_EXEC && same_file(m, images->mappings.items[k]))
			return true;
	return false;
}

/* A process can map tens of thousands of data files; to read the start of each would open them all. What
 * was loaded is mapped executable, or in several pieces close together. */
static bool may_be_image(const struct images *images, size_t i)
{
	const struct mapping *m = images->mappings.items[i];

	if (!mapping_has_file(m) || !(m->flags & MAPPING_READ))
		return false;
	if (m->flags & MAPPING_EXEC)
		return true;
	for (size_t k = i + 1; k < images->mappings.len && k <= i + NEIGHBOURS; k++) {
		const struct mapping *next = images->mappings.items[k];

		if (same_file(m, next) && (next->offset > m->offset || next->flags & MAPPING_WRITE))
			return true;
	}
	return false;
}

/* Whether a mapping belongs to the image found last: images of the same file can be loaded again. */
static bool is_part_of_last(const struct images *images, const struct mapping *mapping)
{
	const struct image *last = images->v.len ? *vec_last(&images->v) : NULL;

	return last && mapping->start < last->end && image_is_of(last, mapping);
}

/* Mappings at the start of a file, and others that are executable or start anew, since a file can hold
 * an ELF file at some offset. */
static struct fh_error *find_in(struct images *images, size_t i, bool *ret_unreadable)
{
	const struct mapping *m = images->mappings.items[i];
	bool vdso = m->start == source_auxv(images->source, AT_SYSINFO_EHDR);
	struct image *image = NULL;

	*ret_unreadable = false;
	if (!vdso && (!may_be_image(images, i) || is_part_of_last(images, m)))
		return NULL;
	TRY(image_read(images, m, &image, ret_unreadable));
	if (image && !vec_push(&images->v, image)) {
		image_destroy(image);
		return error_no_memory();
	}
	return NULL;
}

static void mark_executable(struct images *images)
{
	const struct source *source = images->source;
	uint64_t inside = source_auxv(source, AT_PHDR);

	if (!inside)
		inside = source_auxv(source, AT_ENTRY);
	for (size_t i = 0; i < images->v.len; i++) {
		struct image *image = images->v.items[i];

		image->executable = inside ? inside >= image->start && inside < image->end :
					     image->path[0] && strcmp(image->path, source->exe) == 0;
		if (image->executable)
			return;
	}
}

static int compare_images(const void *a, const void *b)
{
	const struct image *x = *(struct image *const *)a, *y = *(struct image *const *)b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static int compare_places(const void *a, const void *b)
{
	const struct image_place *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Only hostile files overlap: the one that starts first wins. */
static struct fh_error *sort_places(struct images *images)
{
	size_t kept = 0;
	uint64_t reached = 0;

	if (images->v.len)
		qsort(images->v.items, images->v.len, sizeof(*images->v.items), compare_images);
	for (size_t i = 0; i < images->v.len; i++) {
		const struct image *image = images->v.items[i];

		for (size_t k = 0; k < image->segments.len; k++) {
			const struct image_segment *s = &image->segments.items[k];

			if (!vec_push(&images->places, (struct image_place){ s->start, s->end, (uint32_t)i,
									    (uint32_t)k }))
				return error_no_memory();
		}
	}
	if (images->places.len)
		qsort(images->places.items, images->places.len, sizeof(struct image_place), compare_places);
	for (size_t i = 0; i < images->places.len; i++) {
		struct image_place place = images->places.items[i];

		if (place.start < reached)
			place.start = reached;
		if (place.start >= place.end)
			continue;
		reached = place.end;
		images->places.items[kept++] = place;
	}
	images->places.len = kept;
	return NULL;
}

static int compare_mappings(const void *a, const void *b)
{
	const struct mapping *x = *(const struct mapping *const *)a, *y = *(const struct mapping *const *)b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static struct fh_error *list_mappings(struct images *images)
{
	const struct source *source = images->source;

	if (!vec_reserve(&images->mappings, source->mappings.len + source->omitted.len + 1))
		return error_no_memory();
	for (size_t i = 0; i < source->mappings.len; i++)
		images->mappings.items[images->mappings.len++] = &source->mappings.items[i];
	for (size_t i = 0; i < source->omitted.len; i++)
		images->mappings.items[images->mappings.len++] = &source->omitted.items[i];
	qsort(images->mappings.items, images->mappings.len, sizeof(*images->mappings.items), compare_mappings);
	return NULL;
}

/* One line for all: of a core that is cut short it may be every library. */
static void warn_unreadable(struct source *source, const char *first, size_t others)
{
	if (first && others)
		source_warn(source, "%s and %zu other file%s: their headers can't be read: their parts are named by "
			    "their protection, and they have no symbols", first, others, others == 1 ? "" : "s");
	else if (first)
		source_warn(source, "%s: its headers can't be read: its parts are named by their protection, and it "
			    "has no symbols", first);
}

static struct fh_error *load(struct images *images)
{
	const char *first = NULL, *last = NULL;
	size_t others = 0;

	TRY(list_mappings(images));
	for (size_t i = 0; i < images->mappings.len; i++) {
		const struct mapping *m = images->mappings.items[i];
		bool unreadable;

		TRY(find_in(images, i, &unreadable));
		if (!unreadable || !mapping_has_file(m) || m->offset != 0 || !has_code(images, i))
			continue;
		if (first && m->path != first && m->path != last)
			others++;
		last = m->path;
		first = first ? first : last;
	}
	warn_unreadable(images->source, first, others);
	mark_executable(images);
	return sort_places(images);
}

struct fh_error *images_load(struct source *source, struct images **ret)
{
	struct images *images = calloc(1, sizeof(*images));
	struct fh_error *error;

	if (!images)
		return error_no_memory();
	elf_version(EV_CURRENT);
	images->source = source;
	error = load(images);
	if (error) {
		images_destroy(images);
		return error;
	}
	*ret = images;
	return NULL;
}

/* ---- looking up ------------------------------------------------------------ */

const struct image *images_at(const struct images *images, uint64_t address,
			      const struct image_segment **ret_segment)
{
	size_t i = vec_after(&images->places, .end, address);
	const struct image_place *place;
	const struct image *image;

	if (i == images->places.len || images->places.items[i].start > address)
		return NULL;
	place = &images->places.items[i];
	image = images->v.items[place->image];
	if (ret_segment)
		*ret_segment = &image->segments.items[place->segment];
	return image;
}

const struct mapping *images_mapping_at(const struct images *images, uint64_t address)
{
	size_t i = vec_after(&images->mappings, ->end, address);

	if (i == images->mappings.len || images->mappings.items[i]->start > address)
		return NULL;
	return images->mappings.items[i];
}

const struct image *images_executable(const struct images *images)
{
	for (size_t i = 0; i < images->v.len; i++)
		if (images->v.items[i]->executable)
			return images->v.items[i];
	return NULL;
}
