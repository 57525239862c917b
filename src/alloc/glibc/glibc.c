/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/glibc/glibc.h"

#include <stdlib.h>

#include "alloc/glibc/internal.h"

/* Of one process. Lists are marked for all libcs in it before any heap is walked. */
struct state {
	glibc_list list;
	struct marks marks;
};

static void destroy(void *pointer)
{
	struct state *state = pointer;

	if (!state)
		return;
	for (size_t i = 0; i < state->list.len; i++)
		glibc_destroy(state->list.items[i]);
	vec_free(&state->list);
	marks_deinit(&state->marks);
	free(state);
}

static struct fh_error *probe(struct target *target, void **ret_state)
{
	struct state *state = calloc(1, sizeof(*state));
	struct fh_error *error;

	if (!state)
		return error_no_memory();
	error = glibc_find(target, &state->marks, &state->list);
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
	const char *version = state->list.items[0]->version, *text;

	text = version ? strings_format(target->source->strings, "glibc %s", version) : NULL;
	return text ? text : "glibc";
}

static struct fh_error *carve(struct target *target, void *pointer)
{
	struct state *state = pointer;

	for (size_t i = 0; i < state->list.len; i++)
		TRY(free_lists_walk(state->list.items[i]));
	for (size_t i = 0; i < state->list.len; i++)
		TRY(chunks_carve(state->list.items[i]));
	TRY(mmapped_carve(target, &state->list));
	for (size_t i = 0; i < state->list.len; i++)
		TRY(tcache_name_left_behind(state->list.items[i]));
	TRY(getrandom_carve(target));
	marks_deinit(&state->marks); /* what is asked later was kept in bins */
	return NULL;
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
	.title = "malloc of glibc 2.31 to 2.43",
	.probe = probe,
	.describe = describe,
	.carve = carve,
	.each_arena = each_arena,
	.each_bin = each_bin,
	.destroy = destroy,
};
