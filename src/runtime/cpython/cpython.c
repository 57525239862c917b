/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpython/cpython.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/cpython/internal.h"

/* Nearly always one. A program can embed two, of different versions. */
struct state {
	cpython_list copies;
};

static void cpython_destroy(struct cpython *py)
{
	vec_free(&py->arenas);
	vec_free(&py->types);
	vec_free(&py->type_of_category);
	hashmap_deinit(&py->type_index);
	hashmap_deinit(&py->fields);
	free(py);
}

static void destroy(void *opaque)
{
	struct state *state = opaque;

	for (size_t i = 0; i < state->copies.len; i++)
		cpython_destroy(state->copies.items[i]);
	vec_free(&state->copies);
	free(state);
}

static struct fh_error *probe(struct target *target, void **ret_state)
{
	struct state *state = calloc(1, sizeof(*state));
	struct fh_error *error;

	if (!state)
		return error_no_memory();
	error = find_cpythons(target, &state->copies);
	if (error || !state->copies.len) {
		if (!error)
			version_warn_of_lost(target);
		destroy(state);
		return error;
	}
	for (size_t i = 0; i < state->copies.len; i++) {
		struct cpython *py = state->copies.items[i];

		py->alone = state->copies.len == 1;
		offsets_find_builtins(py);
		version_find(py);
		offsets_resolve(py);
	}
	*ret_state = state;
	return NULL;
}

/* "cpython 3.11.2", "cpython 3.13.5 free-threaded"; several are joined by ", ". */
static const char *describe(struct target *target, void *opaque)
{
	struct state *state = opaque;
	const char *text = "";

	for (size_t i = 0; i < state->copies.len && text; i++) {
		const struct cpython *py = state->copies.items[i];
		bool plain = strcmp(py->flavour, "gil") == 0;

		text = strings_format(target->source->strings, "%s%scpython %s%s%s", text, i ? ", " : "",
				      py->version[0] ? py->version : "of unknown version", plain ? "" : " ",
				      plain ? "" : py->flavour);
	}
	return text;
}

/* Committed one by one, so that a copy sees what another one has claimed. */
static struct fh_error *carve_copy(struct cpython *py)
{
	if (py->known)
		frame_stacks_carve(py); /* first: there are fewer blocks to look at without pymalloc's */
	TRY(pools_carve(py));
	TRY(mimalloc_carve(py));
	return ledger_commit(py->target->ledger);
}

static struct fh_error *carve(struct target *target, void *opaque)
{
	struct state *state = opaque;

	(void)target;
	for (size_t i = 0; i < state->copies.len; i++)
		TRY(carve_copy(state->copies.items[i]));
	return NULL;
}

static struct fh_error *classify(struct target *target, void *opaque)
{
	struct state *state = opaque;

	(void)target;
	for (size_t i = 0; i < state->copies.len; i++) {
		if (!state->copies.items[i]->known)
			continue;
		TRY(objects_classify(state->copies.items[i]));
		TRY(buffers_classify(state->copies.items[i]));
	}
	return NULL;
}

static void show(struct target *target, void *opaque, const struct block *block, runtime_field_visitor *visit,
		 void *context)
{
	struct state *state = opaque;

	(void)target;
	for (size_t i = 0; i < state->copies.len; i++)
		if (state->copies.items[i]->known)
			show_object(state->copies.items[i], block, visit, context);
}

static bool value(struct target *target, void *opaque, const struct block *block, struct runtime_value *ret)
{
	const struct category *c = ledger_category_of(target->ledger, block->category);
	struct state *state = opaque;
	struct py_object object;

	if (strcmp(c->domain, "python") != 0)
		return false;
	for (size_t i = 0; i < state->copies.len; i++)
		if (state->copies.items[i]->known &&
		    objects_at(state->copies.items[i], block->start + c->head, block->end, &object)) {
			ret->refcount = object.refcount;
			return true;
		}
	return false;
}

const struct runtime cpython_runtime = {
	.name = "cpython",
	.title = "CPython 2.7 and 3.6 to 3.15",
	.probe = probe,
	.describe = describe,
	.carve = carve,
	.classify = classify,
	.show = show,
	.value = value,
	.destroy = destroy,
};
