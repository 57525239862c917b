/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/glibc/internal.h"

#include <stdlib.h>

struct state {
	glibc_list list;
};

static void destroy(void *pointer)
{
	struct state *state = pointer;

	for (size_t i = 0; i < state->list.len; i++)
		glibc_destroy(state->list.items[i]);
	vec_free(&state->list);
	free(state);
}

static struct fh_error *probe(struct target *target, void **ret_state)
{
	struct state *state = calloc(1, sizeof(*state));
	struct fh_error *error;

	if (!state)
		return error_no_memory();
	error = glibc_find(target, &state->list);
	if (error || !state->list.len) {
		destroy(state);
		return error;
	}
	*ret_state = state;
	return NULL;
}

static const char *describe(struct target *target, void *pointer)
{
	const struct state *state = pointer;
	const char *version = state->list.items[0]->version;

	return version ? strings_format(target->source->strings, "glibc %s", version) : "glibc";
}

static struct fh_error *carve(struct target *target, void *pointer)
{
	struct state *state = pointer;

	for (size_t i = 0; i < state->list.len; i++) {
		TRY(free_lists_walk(state->list.items[i]));
		TRY(chunks_carve(state->list.items[i]));
	}
	return mmapped_carve(target, &state->list);
}

static void each_arena(struct target *target, void *pointer,
		       void (*visit)(void *context, const struct alloc_arena *arena), void *context)
{
	const struct state *state = pointer;

	(void)target;
	for (size_t i = 0; i < state->list.len; i++)
		for (size_t k = 0; k < state->list.items[i]->arenas.len; k++)
			visit(context, &state->list.items[i]->arenas.items[k].figures);
}

static void each_bin(struct target *target, void *pointer,
		     void (*visit)(void *context, const struct alloc_bin *bin), void *context)
{
	const struct state *state = pointer;

	(void)target;
	for (size_t i = 0; i < state->list.len; i++)
		for (size_t k = 0; k < state->list.items[i]->bins.len; k++)
			visit(context, &state->list.items[i]->bins.items[k]);
}

const struct allocator glibc_allocator = {
	.name = "glibc",
	.title = "malloc of the GNU C library",
	.probe = probe,
	.describe = describe,
	.carve = carve,
	.each_arena = each_arena,
	.each_bin = each_bin,
	.destroy = destroy,
};
