/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPython without symbols: somewhere in writable data of an image lies the one object that is its own
 * type and is called "type". Where CPython is mapped twice (a program with it built in, and a module
 * that drags libpython in), the live copy is the one whose type was made ready (Py_TPFLAGS_READY);
 * nobody ever initialises the other.
 */
#include "runtime/cpython/internal.h"

#include <stdlib.h>
#include <string.h>

/* Where the layouts of the table put what a type is known by. */
struct shape {
	const char *flavour;
	int ob_type, tp_name, tp_flags;
};

struct candidate {
	uint64_t address;
	const struct shape *shape;
};

#define MOST_SHAPES 8

struct search {
	struct target *target;
	struct shape shapes[MOST_SHAPES];
	size_t n_shapes;
	VEC(struct candidate) found;
	bool no_memory;
};

static void load_shapes(struct search *search)
{
	struct layout layout = { 0 };

	while (layout_next("cpython", &layout) && search->n_shapes < MOST_SHAPES) {
		struct shape shape = {
			.flavour = layout.facts->flavour,
			.ob_type = layout_offset(&layout, "PyObject", "ob_type"),
			.tp_name = layout_offset(&layout, "PyTypeObject", "tp_name"),
			.tp_flags = layout_offset(&layout, "PyTypeObject", "tp_flags"),
		};
		size_t k = 0;

		while (k < search->n_shapes && (search->shapes[k].ob_type != shape.ob_type ||
						search->shapes[k].tp_name != shape.tp_name ||
						search->shapes[k].tp_flags != shape.tp_flags))
			k++;
		if (k == search->n_shapes && shape.ob_type >= 0 && shape.tp_name >= 0 && shape.tp_flags >= 0)
			search->shapes[search->n_shapes++] = shape;
	}
}

static bool named_type(struct source *source, uint64_t type, const struct shape *shape)
{
	uint64_t name;
	char text[5];

	return source_u64(source, type + (uint64_t)shape->tp_name, &name) &&
	       source_string(source, name, text, sizeof(text)) && strcmp(text, "type") == 0;
}

static bool made_ready(struct source *source, uint64_t type, const struct shape *shape)
{
	uint64_t flags;

	return source_u64(source, type + (uint64_t)shape->tp_flags, &flags) && flags & TYPE_READY;
}

static bool visit_words(void *context, uint64_t address, const uint64_t *words, size_t n)
{
	struct search *search = context;

	for (size_t i = 0; i < n; i++) {
		uint64_t distance = address + i * 8 - words[i];

		if (distance > 64) /* no word that points at itself or a little below */
			continue;
		for (size_t k = 0; k < search->n_shapes; k++) {
			const struct shape *shape = &search->shapes[k];

			if (distance == (uint64_t)shape->ob_type &&
			    named_type(search->target->source, words[i], shape) &&
			    made_ready(search->target->source, words[i], shape) &&
			    !vec_push(&search->found, (struct candidate){ words[i], shape }))
				search->no_memory = true;
		}
	}
	return !search->no_memory;
}

static struct fh_error *add_copy(struct search *search, const struct candidate *candidate, cpython_list *list)
{
	struct cpython *py = calloc(1, sizeof(*py));

	if (!py || !vec_push(list, py)) {
		free(py);
		return error_no_memory();
	}
	py->target = search->target;
	py->type_type = candidate->address;
	py->image = images_at(search->target->images, candidate->address, NULL);
	py->o.ob_type = candidate->shape->ob_type;
	py->o.tp_name = candidate->shape->tp_name;
	py->o.tp_flags = candidate->shape->tp_flags;
	py->flavour = candidate->shape->flavour;
	return NULL;
}

struct fh_error *find_cpythons(struct target *target, cpython_list *list)
{
	struct search search = { .target = target };
	struct fh_error *error = NULL;

	load_shapes(&search);
	scan_all_writable(target, visit_words, &search);
	if (search.no_memory)
		error = error_no_memory();
	for (size_t i = 0; i < search.found.len && !error && list->len < CPYTHON_MOST_COPIES; i++)
		error = add_copy(&search, &search.found.items[i], list);
	vec_free(&search.found);
	return error;
}
