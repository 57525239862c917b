/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpython/cpython.h"

#include <stdlib.h>

#include "runtime/cpython/internal.h"

struct state {
	struct cpython py;
	bool usable; /* the layout is known and checked */
};

static void destroy(void *pointer)
{
	struct state *state = pointer;

	vec_free(&state->py.arenas);
	vec_free(&state->py.types);
	vec_free(&state->py.type_of_category);
	hashmap_deinit(&state->py.type_index);
	hashmap_deinit(&state->py.fields);
	free(state);
}

static struct fh_error *probe(struct target *target, void **ret_state)
{
	struct state *state = calloc(1, sizeof(*state));
	struct fh_error *error;
	bool found = false;

	if (!state)
		return error_no_memory();
	error = find_cpython(target, &state->py, &found);
	if (error || !found) {
		destroy(state);
		return error;
	}
	state->usable = offsets_resolve(&state->py);
	*ret_state = state;
	return NULL;
}

static const char *describe(struct target *target, void *pointer)
{
	const struct state *state = pointer;

	return strings_format(target->source->strings, "cpython %s",
			      state->py.version[0] ? state->py.version : "(unknown version)");
}

static struct fh_error *carve(struct target *target, void *pointer)
{
	struct state *state = pointer;

	(void)target;
	if (!state->usable)
		return NULL;
	TRY(arenas_find(&state->py));
	return pools_carve(&state->py);
}

static struct fh_error *classify(struct target *target, void *pointer)
{
	struct state *state = pointer;

	(void)target;
	if (!state->usable)
		return NULL;
	TRY(objects_classify(&state->py));
	return buffers_classify(&state->py);
}

static void show(struct target *target, void *pointer, const struct block *block, runtime_field_visitor *visit,
		 void *context)
{
	struct state *state = pointer;

	(void)target;
	if (state->usable)
		show_object(&state->py, block, visit, context);
}

const struct runtime cpython_runtime = {
	.name = "cpython",
	.title = "CPython 2.7 and 3.6 to 3.13",
	.probe = probe,
	.describe = describe,
	.carve = carve,
	.classify = classify,
	.show = show,
	.destroy = destroy,
};
