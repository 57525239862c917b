/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a target as the public header has them: mappings, images, threads. */
#include <string.h>

#include "census/census.h"

static void fill_mapping(const struct mapping *m, struct fh_mapping *ret)
{
	*ret = (struct fh_mapping){
		.start = m->start, .end = m->end, .resident = m->resident, .swapped = m->swapped,
		.offset = m->offset, .inode = m->inode, .device = m->device, .path = m->path,
		.deleted = m->flags & MAPPING_DELETED,
		.permissions = {
			m->flags & MAPPING_READ ? 'r' : '-',
			m->flags & MAPPING_WRITE ? 'w' : '-',
			m->flags & MAPPING_EXEC ? 'x' : '-',
			m->flags & MAPPING_SHARED ? 's' : 'p',
		},
	};
}

static void fill_image(const struct image *image, struct fh_image *ret)
{
	*ret = (struct fh_image){
		.start = image->start, .end = image->end, .bias = image->bias,
		.path = image->path, .name = image->name, .executable = image->executable,
		.build_id = image->build_id, .build_id_length = image->build_id_len,
	};
}

void fh_census_each_mapping(const struct fh_census *census, fh_mapping_visitor *visit, void *context)
{
	const struct source *source = census->target.source;
	struct fh_mapping mapping;

	for (size_t i = 0; i < source->mappings.len; i++) {
		fill_mapping(&source->mappings.items[i], &mapping);
		if (!visit(context, &mapping))
			return;
	}
}

void fh_census_each_image(const struct fh_census *census, fh_image_visitor *visit, void *context)
{
	const struct images *images = census->target.images;
	struct fh_image image;

	for (size_t i = 0; i < images->v.len; i++) {
		fill_image(images->v.items[i], &image);
		if (!visit(context, &image))
			return;
	}
}

void fh_census_each_thread(const struct fh_census *census, fh_thread_visitor *visit, void *context)
{
	const struct source *source = census->target.source;

	for (size_t i = 0; i < source->threads.len; i++) {
		const struct source_thread *t = &source->threads.items[i];
		struct fh_thread thread = { .tid = t->tid, .name = t->name, .has_registers = t->has_registers };

		if (t->has_registers) {
			thread.sp = t->sp;
			thread.ip = t->ip;
			thread.tls = t->fs_base;
		}
		if (!visit(context, &thread))
			return;
	}
}

bool fh_census_find_mapping(const struct fh_census *census, uint64_t address, struct fh_mapping *ret)
{
	const struct mapping *mapping = source_mapping_at(census->target.source, address);

	if (mapping)
		fill_mapping(mapping, ret);
	return mapping;
}

bool fh_census_find_image(const struct fh_census *census, uint64_t address, struct fh_image *ret)
{
	const struct image *image = images_at(census->target.images, address, NULL);

	if (image)
		fill_image(image, ret);
	return image;
}
