/* SPDX-License-Identifier: Apache-2.0 */
/* Sources of facts: link.h (struct r_debug, struct link_map) and elf/dl-deps.c of glibc 2.31 to 2.43. */
#include "image/loader.h"

#include <elf.h>

#include "base/hashmap.h"

#define MOST_MAPS 65536
#define R_MAP 8	  /* offset in struct r_debug */
#define L_NEXT 24 /* offset in struct link_map */

void loader_deinit(struct loader *loader)
{
	vec_free(&loader->maps);
	vec_free(&loader->initial);
}

static uint64_t find_debug(const struct images *images)
{
	const struct image *program = images_executable(images);
	uint64_t debug = 0;

	if (program && image_dynamic_entry(images, program, DT_DEBUG, &debug) && debug)
		return debug;
	/* The loader as a command, `ld.so program`: the kernel takes it for the program. */
	if (!program || !image_symbol(images, (struct image *)program, "_r_debug", &debug, NULL))
		return 0;
	return debug;
}

static struct fh_error *read_list(struct source *source, uint64_t debug, struct hashmap *known,
				  struct loader *ret)
{
	uint64_t map;

	if (!debug || !source_u64(source, debug + R_MAP, &map))
		return NULL;
	while (map && ret->maps.len < MOST_MAPS && !hashmap_get(known, map)) {
		uint64_t next;

		if (!source_u64(source, map + L_NEXT, &next))
			break;
		if (!hashmap_put(known, map, 1) || !vec_push(&ret->maps, map))
			return error_no_memory();
		map = next;
	}
	return NULL;
}

/* An array of known maps that begins with the program's and ends with NULL; the number, 0: it is none. */
static size_t count_array(struct source *source, uint64_t array, const struct loader *loader,
			  struct hashmap *known)
{
	for (size_t n = 0; n <= loader->maps.len; n++) {
		uint64_t map;

		if (!source_u64(source, array + n * 8, &map) || (n == 0 && map != loader->maps.items[0]))
			return 0;
		if (!map)
			return n;
		if (!hashmap_get(known, map))
			return 0;
	}
	return 0;
}

/* l_initfini of the program's map: itself and all that it needs, in the order of initialisation. Its
 * offset differs between versions, what it points to does not. The array of the search scope looks
 * alike, but has no NULL at its end and also grows by what is loaded later. */
static struct fh_error *read_initial(struct source *source, struct hashmap *known, struct loader *ret)
{
	uint64_t words[LINK_MAP_WORDS];
	size_t n;

	if (!ret->maps.len)
		return NULL;
	n = memory_read(&source->memory, ret->maps.items[0], words, sizeof(words)) / 8;
	for (size_t i = 0; i < n; i++) {
		size_t count = words[i] ? count_array(source, words[i], ret, known) : 0;

		if (count < 2)
			continue;
		for (size_t k = 0; k < count; k++) {
			uint64_t map;

			if (!source_u64(source, words[i] + k * 8, &map))
				break;
			if (!vec_push(&ret->initial, map))
				return error_no_memory();
		}
		return NULL;
	}
	return NULL;
}

struct fh_error *loader_read(const struct images *images, struct loader *ret)
{
	struct hashmap known = { 0 };
	struct fh_error *error;

	*ret = (struct loader){ 0 };
	error = read_list(images->source, find_debug(images), &known, ret);
	if (!error)
		error = read_initial(images->source, &known, ret);
	hashmap_deinit(&known);
	if (error)
		loader_deinit(ret);
	return error;
}
