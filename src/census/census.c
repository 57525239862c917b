/* SPDX-License-Identifier: Apache-2.0 */
#include "census/census.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening -------------------------------------------------------------- */

static struct fh_error *run_allocators(struct fh_census *census)
{
	struct target *target = &census->target;

	for (size_t i = 0; allocators[i] && census->n_allocators < CENSUS_MOST_PLUGINS; i++) {
		struct census_plugin *entry = &census->allocators[census->n_allocators];

		target_progress(target, allocators[i]->name, 0);
		*entry = (struct census_plugin){ .plugin = allocators[i] };
		TRY(allocators[i]->probe(target, &entry->state));
		if (!entry->state)
			continue;
		census->n_allocators++;
		entry->text = allocators[i]->describe(target, entry->state);
		TRY(allocators[i]->carve(target, entry->state));
		TRY(ledger_commit(target->ledger));
	}
	return NULL;
}

static struct fh_error *run_runtimes(struct fh_census *census)
{
	struct target *target = &census->target;

	for (size_t i = 0; runtimes[i] && census->n_runtimes < CENSUS_MOST_PLUGINS; i++) {
		struct census_plugin *entry = &census->runtimes[census->n_runtimes];

		target_progress(target, runtimes[i]->name, 0);
		*entry = (struct census_plugin){ .plugin = runtimes[i] };
		TRY(runtimes[i]->probe(target, &entry->state));
		if (!entry->state)
			continue;
		census->n_runtimes++;
		entry->text = runtimes[i]->describe(target, entry->state);
		TRY(runtimes[i]->carve(target, entry->state));
		TRY(ledger_commit(target->ledger));
	}
	for (size_t i = 0; i < census->n_runtimes; i++) {
		const struct runtime *runtime = census->runtimes[i].plugin;

		if (!runtime->classify)
			continue;
		TRY(runtime->classify(target, census->runtimes[i].state));
		TRY(ledger_commit(target->ledger));
	}
	return NULL;
}

static struct fh_error *open_census(struct fh_census *census, const char *name,
				    const struct fh_options *options)
{
	struct target *target = &census->target;

	target->progress = options->progress;
	target->progress_context = options->progress_context;
	TRY(source_open(name, options, &target->source));
	TRY(images_load(target->source, &target->images));
	TRY(ledger_create(target->source->strings, &target->ledger));
	TRY(census_add_mappings(target));
	TRY(census_carve_images(target));
	TRY(census_carve_loader(target));
	TRY(census_carve_stacks(target));
	TRY(ledger_commit(target->ledger));
	TRY(run_allocators(census));
	TRY(run_runtimes(census));
	if (target->source->ops->resume)
		TRY(target->source->ops->resume(target->source, options->keep_stopped));
	if (target->ledger->refused)
		target_damaged(target, "%" PRIu32 " ranges overlap others or are not mapped, the first at 0x%" PRIx64,
			       target->ledger->refused, target->ledger->refused_at);
	if (!ledger_balances(target->ledger, target->source->os_virtual))
		return error_create(FH_ERROR_SYSTEM, "%s: the ledger does not balance; this is a defect of freehold, "
				    "please report it", name);
	return NULL;
}

struct fh_error *fh_census_open(const char *target, const struct fh_options *options,
				struct fh_census **ret)
{
	struct fh_options known = { .size = sizeof(known) };
	struct fh_census *census = calloc(1, sizeof(*census));
	struct fh_error *error;

	if (!census)
		return error_no_memory();
	if (options) /* a caller built against an older header has a shorter one */
		memcpy(&known, options, options->size < sizeof(known) ? options->size : sizeof(known));
	error = open_census(census, target, &known);
	if (error) {
		fh_census_destroy(census);
		return error;
	}
	*ret = census;
	return NULL;
}

void fh_census_destroy(struct fh_census *census)
{
	if (!census)
		return;
	for (size_t i = 0; i < census->n_runtimes; i++)
		((const struct runtime *)census->runtimes[i].plugin)->destroy(census->runtimes[i].state);
	for (size_t i = 0; i < census->n_allocators; i++)
		((const struct allocator *)census->allocators[i].plugin)->destroy(census->allocators[i].state);
	ledger_destroy(census->target.ledger);
	images_destroy(census->target.images);
	source_destroy(census->target.source);
	free(census);
}

/* ---- what was opened ------------------------------------------------------- */

void fh_census_info(const struct fh_census *census, struct fh_info *ret)
{
	const struct source *source = census->target.source;

	*ret = (struct fh_info){
		.source = source->ops->name,
		.pid = source->pid,
		.command = source->command,
		.exe = source->exe,
		.pause_ms = source->pause_ms,
		.has_resident = source->has_residency,
		.streamed = source->streamed,
		.damaged = census->target.damaged || source->damaged,
		.threads = source->threads.len,
	};
}

void fh_census_os(const struct fh_census *census, struct fh_size *ret)
{
	const struct source *source = census->target.source;

	*ret = (struct fh_size){ source->os_virtual, source->os_resident, source->os_swapped };
}

static void each_plugin(const struct census_plugin *plugins, size_t n, fh_text_visitor *visit, void *context)
{
	for (size_t i = 0; i < n; i++)
		if (plugins[i].text && !visit(context, plugins[i].text))
			return;
}

void fh_census_each_allocator(const struct fh_census *census, fh_text_visitor *visit, void *context)
{
	each_plugin(census->allocators, census->n_allocators, visit, context);
}

void fh_census_each_runtime(const struct fh_census *census, fh_text_visitor *visit, void *context)
{
	each_plugin(census->runtimes, census->n_runtimes, visit, context);
}

void fh_census_each_warning(const struct fh_census *census, fh_text_visitor *visit, void *context)
{
	const struct source *source = census->target.source;

	for (size_t i = 0; i < source->warnings.len; i++)
		if (!visit(context, source->warnings.items[i]))
			return;
}

/* ---- the ledger ------------------------------------------------------------ */

void census_fill_block(const struct fh_census *census, const struct block *block,
		       struct census_cursors *cursors, struct fh_block *ret)
{
	const struct source *source = census->target.source;
	const struct category *c = ledger_category_of(census->target.ledger, block->category);

	*ret = (struct fh_block){
		.start = block->start, .end = block->end,
		.domain = c->domain, .kind = c->kind, .detail = c->detail,
		.state = c->state, .head = c->head,
	};
	if (cursors) {
		ret->resident = ranges_count_next(&source->resident, &cursors->resident, ret->start, ret->end);
		ret->swapped = ranges_count_next(&source->swapped, &cursors->swapped, ret->start, ret->end);
	} else {
		ret->resident = ranges_count(&source->resident, ret->start, ret->end);
		ret->swapped = ranges_count(&source->swapped, ret->start, ret->end);
	}
}

void fh_census_each_block(struct fh_census *census, fh_block_visitor *visit, void *context)
{
	struct ledger_cursor cursor = { 0 };
	struct census_cursors cursors = { 0 };
	struct block block;
	struct fh_block filled;

	while (ledger_next(census->target.ledger, &cursor, &block)) {
		census_fill_block(census, &block, &cursors, &filled);
		if (!visit(context, &filled))
			return;
	}
}

bool fh_census_find_block(struct fh_census *census, uint64_t address, struct fh_block *ret)
{
	struct block block;

	if (!ledger_find(census->target.ledger, address, &block))
		return false;
	census_fill_block(census, &block, NULL, ret);
	return true;
}

size_t fh_census_read(struct fh_census *census, uint64_t address, void *buffer, size_t length)
{
	return memory_read(&census->target.source->memory, address, buffer, length);
}

/* ---- rows ------------------------------------------------------------------ */

/* Sums by category id. Categories that differ only in what a row doesn't show are one row. */
static void sum_categories(struct fh_census *census, struct fh_row *rows)
{
	struct ledger_cursor cursor = { 0 };
	struct census_cursors cursors = { 0 };
	struct block block;
	struct fh_block filled;

	while (ledger_next(census->target.ledger, &cursor, &block)) {
		struct fh_row *row = &rows[block.category];

		census_fill_block(census, &block, &cursors, &filled);
		row->domain = filled.domain;
		row->kind = filled.kind;
		row->detail = filled.detail;
		row->state = filled.state;
		row->count++;
		row->size.virtual_ += filled.end - filled.start;
		row->size.resident += filled.resident;
		row->size.swapped += filled.swapped;
	}
}

static int compare_names(const void *a, const void *b)
{
	const struct fh_row *x = a, *y = b;

	if (!x->count || !y->count)
		return !x->count - !y->count;
	if (x->domain != y->domain)
		return x->domain < y->domain ? -1 : 1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return x->detail < y->detail ? -1 : x->detail > y->detail;
}

static int compare_sizes(const void *a, const void *b)
{
	const struct fh_row *x = a, *y = b;
	int order;

	if (x->size.resident != y->size.resident)
		return x->size.resident > y->size.resident ? -1 : 1;
	if (x->size.virtual_ != y->size.virtual_)
		return x->size.virtual_ > y->size.virtual_ ? -1 : 1;
	order = strcmp(x->domain, y->domain);
	order = order ? order : strcmp(x->kind, y->kind);
	return order ? order : strcmp(x->detail, y->detail);
}

struct fh_error *fh_census_each_row(struct fh_census *census, fh_row_visitor *visit, void *context)
{
	size_t n = census->target.ledger->categories.len, kept = 0;
	struct fh_row *rows = calloc(n, sizeof(*rows));

	if (!rows)
		return error_no_memory();
	sum_categories(census, rows);
	qsort(rows, n, sizeof(*rows), compare_names);
	for (size_t i = 0; i < n && rows[i].count; i++) {
		if (kept && compare_names(&rows[kept - 1], &rows[i]) == 0) {
			rows[kept - 1].count += rows[i].count;
			rows[kept - 1].size.virtual_ += rows[i].size.virtual_;
			rows[kept - 1].size.resident += rows[i].size.resident;
			rows[kept - 1].size.swapped += rows[i].size.swapped;
		} else {
			rows[kept++] = rows[i];
		}
	}
	qsort(rows, kept, sizeof(*rows), compare_sizes);
	for (size_t i = 0; i < kept; i++)
		if (!visit(context, &rows[i]))
			break;
	free(rows);
	return NULL;
}

void fh_census_describe(struct fh_census *census, uint64_t address, fh_field_visitor *visit, void *context)
{
	struct block block;

	if (!ledger_find(census->target.ledger, address, &block))
		return;
	for (size_t i = 0; i < census->n_runtimes; i++) {
		const struct runtime *runtime = census->runtimes[i].plugin;

		if (runtime->show)
			runtime->show(&census->target, census->runtimes[i].state, &block, address, visit, context);
	}
}
