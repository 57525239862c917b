/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Divides what images cover: text, rodata, data and bss, by the program headers rather than by the
 * protection of the mapping, so that relocated read-only data is data and the bss begins at its byte.
 */
#include <elf.h>
#include <string.h>

#include "census/census.h"

static const char *kind_of_segment(const struct image_segment *segment)
{
	if (segment->flags & PF_X)
		return "text";
	return segment->flags & PF_W ? "data" : "rodata";
}

static bool is_anonymous(const struct mapping *m)
{
	return !m->inode && (m->path[0] == '\0' || strcmp(m->path, "[heap]") == 0);
}

/* Carves what a mapping has of a segment. In a mapping of the file all belongs to it, to the end of the
 * last page; in an anonymous one behind it only what the segment says, its last page included. */
static void carve_part(struct target *target, const struct image *image, const struct image_segment *segment,
		       const struct mapping *m)
{
	struct category c = { .domain = "image", .kind = kind_of_segment(segment), .detail = image->name };
	uint64_t start = segment->start & ~(uint64_t)(PAGE - 1);
	uint64_t end = (segment->end + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	uint64_t bss = segment->end > segment->file_end ? segment->file_end : end;

	if (start < m->start)
		start = m->start;
	if (end > m->end)
		end = m->end;
	if (start >= end)
		return;
	ledger_carve_begin(target->ledger, start, end);
	if (start < bss)
		ledger_carve_add(target->ledger, start, ledger_category(target->ledger, &c));
	c.kind = "bss";
	if (bss < end)
		ledger_carve_add(target->ledger, bss > start ? bss : start, ledger_category(target->ledger, &c));
	ledger_carve_end(target->ledger);
}

/* Mappings of the file outside of every segment: the gaps that some linkers leave, headers. */
static void carve_gap(struct target *target, const struct image *image, const struct mapping *m)
{
	struct category c = { .domain = "image", .detail = image->name,
			      .kind = m->flags & MAPPING_EXEC ? "text" : "rodata" };

	for (size_t k = 0; k < image->segments.len; k++) {
		const struct image_segment *s = &image->segments.items[k];

		if (s->start < m->end && s->end > m->start)
			return;
	}
	ledger_carve(target->ledger, m->start, m->end, ledger_category(target->ledger, &c));
}

static void carve_image(struct target *target, const struct image *image)
{
	for (size_t i = 0; i < target->source->mappings.len; i++) {
		const struct mapping *m = &target->source->mappings.items[i];
		bool own = m->path == image->path && m->inode;

		if (m->end <= image->start || m->start >= image->end || !(own || is_anonymous(m)))
			continue;
		for (size_t k = 0; k < image->segments.len; k++) {
			const struct image_segment *s = &image->segments.items[k];

			if (s->start < m->end && s->end + PAGE > m->start)
				carve_part(target, image, s, m);
		}
		if (own)
			carve_gap(target, image, m);
	}
}

struct fh_error *census_carve_images(struct target *target)
{
	for (size_t i = 0; i < target->images->v.len; i++)
		carve_image(target, target->images->v.items[i]);
	return ledger_commit(target->ledger);
}
