/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/perl/perl.h"

#include <stdlib.h>

#include "runtime/perl/refs.h"

void perl_destroy(struct perl *perl)
{
	vec_free(&perl->arenas);
	vec_free(&perl->body_arenas);
	vec_free(&perl->marks);
	vec_free(&perl->splits);
	vec_free(&perl->leads);
	vec_free(&perl->owners);
	hashmap_deinit(&perl->stashes);
	hashmap_deinit(&perl->slabs);
	hashmap_deinit(&perl->heads);
	code_destroy(perl->ops);
	free(perl);
}

static void destroy(void *opaque)
{
	struct perl_state *state = opaque;

	for (size_t i = 0; i < state->list.len; i++)
		perl_destroy(state->list.items[i]);
	for (size_t i = 0; i < state->facts.len; i++)
		free(state->facts.items[i]);
	refs_index_destroy(state->refs_index);
	vec_free(&state->list);
	vec_free(&state->facts);
	hashmap_deinit(&state->taken);
	free(state);
}

static struct fh_error *probe(struct target *target, void **ret_state)
{
	struct perl_state *state = calloc(1, sizeof(*state));
	struct fh_error *error;

	if (!state)
		return error_no_memory();
	state->target = target;
	error = perl_find(state);
	if (error || !state->list.len) {
		destroy(state);
		return error;
	}
	*ret_state = state;
	return NULL;
}

/* "perl 5.36.0", "perl 5.36.0, 5 interpreters". */
static const char *describe(struct target *target, void *opaque)
{
	struct perl_state *state = opaque;
	const char *version = state->list.items[0]->full_version;

	if (state->list.len == 1)
		return strings_format(target->source->strings, "perl %s", version);
	return strings_format(target->source->strings, "perl %s, %zu interpreters", version, state->list.len);
}

static struct fh_error *prepare(struct perl *perl)
{
	for (enum sv_kind kind = 0; kind < SV_KINDS; kind++)
		if (!vec_push(&perl->owners, (struct owner){ .detail = sv_kind_name(kind) }))
			return error_no_memory();
	if (!code_init(perl))
		return error_no_memory();
	return perl_arenas_find(perl);
}

static struct fh_error *walk(struct perl *perl)
{
	interpreter_walk(perl);
	values_walk(perl);
	code_report(perl);
	return NULL;
}

static struct fh_error *follow(struct perl *perl)
{
	interpreter_walk_rest(perl);
	perl_follow_leads(perl);
	return NULL;
}

/* Each step for all interpreters before the next one: what is certain comes before what is concluded from a pointer,
 * which may lead from one interpreter to another. */
static struct fh_error *carve(struct target *target, void *opaque)
{
	static struct fh_error *(*const steps[])(struct perl * perl) = { prepare, walk, follow, perl_arenas_carve };
	struct perl_state *state = opaque;
	size_t n = sizeof(steps) / sizeof(*steps);

	for (size_t step = 0; step < n; step++)
		for (size_t i = 0; i < state->list.len; i++) {
			target_progress(target, "perl",
					(double)(step * state->list.len + i) / (double)(n * state->list.len));
			TRY(steps[step](state->list.items[i]));
		}
	return target->ledger->no_memory ? error_no_memory() : NULL;
}

/* The interpreter whose head a block is, or NULL. */
static struct perl *whose_head(struct perl_state *state, const struct block *block)
{
	const struct category *c = ledger_category_of(state->target->ledger, block->category);

	if (block->end - block->start != HEAD_SIZE || strcmp(c->domain, "perl") != 0)
		return NULL;
	for (size_t i = 0; i < state->list.len; i++)
		if (perl_arenas_has(state->list.items[i], block->start))
			return state->list.items[i];
	return NULL;
}

static bool value(struct target *target, void *opaque, const struct block *block, struct runtime_value *ret)
{
	struct perl *perl = whose_head(opaque, block);
	struct sv sv;

	(void)target;
	if (!perl || !sv_at(perl, block->start, &sv))
		return false;
	perl_value(perl, &sv, ret);
	return true;
}

static void show(struct target *target, void *opaque, const struct block *block, uint64_t address,
		 runtime_field_visitor *visit, void *context)
{
	(void)target;
	(void)address;
	perl_show(opaque, block, visit, context);
}

static void refs(struct target *target, void *opaque, const struct block *block, bool named, runtime_ref_visitor *visit,
		 void *context)
{
	(void)target;
	perl_refs(opaque, block, named, visit, context);
}

static void roots(struct target *target, void *opaque, runtime_ref_visitor *visit, void *context)
{
	(void)target;
	perl_roots(opaque, visit, context);
}

const struct runtime perl_runtime = {
	.name = "perl",
	.title = "Perl 5.22 to 5.42",
	.probe = probe,
	.describe = describe,
	.carve = carve,
	.show = show,
	.value = value,
	.refs = refs,
	.roots = roots,
	.destroy = destroy,
};
