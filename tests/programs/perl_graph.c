/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runtimes say of references, put to the test on a process or core file:
 *
 *	perl_graph TARGET           one JSON object: what roots reach, and reference counts against references found
 *	perl_graph TARGET NAME...   follows references by their names from a root on, and prints the address it comes to
 *	perl_graph TARGET @ADDR     every reference of the block there: name, address, and w(eak) p(art) g(uess)
 *	perl_graph TARGET ^ADDR     every reference to the block there
 *	perl_graph TARGET roots     every root
 *	perl_graph TARGET unreached every live block of perl's that nothing reaches: address, kind and detail
 *
 * The obvious way, in arrays as large as the ledger: it is an oracle, not a command.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "census/census.h"

struct graph {
	struct fh_census *census;
	struct ledger *ledger;
	const struct runtime *runtime;
	void *state;
	struct block *blocks; /* by slot */
	size_t n_slots;
	uint8_t *reached;  /* by slot: REACHED, STRONGLY */
	uint32_t *counted; /* by slot: strong references to it, guesses aside */
	uint32_t *guessed;
	uint32_t *queue;
	size_t queued;
	uint8_t mark;
	uint64_t from;
	uint64_t edges, weak_edges, part_edges, guess_edges, roots, dangling;
};

enum { REACHED = 1, STRONGLY = 2 };

/* ---- what blocks are ---------------------------------------------------------------- */

static const struct category *category_of(const struct graph *graph, const struct block *block)
{
	return ledger_category_of(graph->ledger, block->category);
}

static bool is_head(const struct graph *graph, const struct block *block)
{
	static const char *const kinds[] = { "scalar", "invlist", "regexp", "glob", "lvalue", "array",
					     "hash",   "code",    "format", "io",   "object" };
	const struct category *c = category_of(graph, block);

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (strcmp(c->domain, "perl") == 0 && strcmp(c->kind, kinds[i]) == 0)
			return true;
	return false;
}

static void list_blocks(struct graph *graph)
{
	struct ledger_cursor cursor = { 0 };
	struct block block;

	graph->n_slots = graph->ledger->offsets.len;
	graph->blocks = calloc(graph->n_slots, sizeof(*graph->blocks));
	graph->reached = calloc(graph->n_slots, 1);
	graph->counted = calloc(graph->n_slots, sizeof(*graph->counted));
	graph->guessed = calloc(graph->n_slots, sizeof(*graph->guessed));
	graph->queue = calloc(graph->n_slots, sizeof(*graph->queue));
	if (!graph->blocks || !graph->reached || !graph->counted || !graph->guessed || !graph->queue) {
		fprintf(stderr, "out of memory\n");
		exit(1);
	}
	while (ledger_next(graph->ledger, &cursor, &block))
		graph->blocks[block.slot] = block;
}

/* ---- reachability ---------------------------------------------------------------------- */

static bool take(void *context, const struct runtime_ref *ref)
{
	struct graph *graph = context;
	struct block block;

	if (graph->mark == STRONGLY && ref->weak)
		return true;
	if (!ledger_find(graph->ledger, ref->target, &block)) {
		graph->dangling++;
		if (getenv("PERL_GRAPH_DANGLING"))
			fprintf(stderr, "0x%" PRIx64 " from 0x%" PRIx64 "\n", ref->target, graph->from);
		return true;
	}
	if (!(graph->reached[block.slot] & graph->mark)) {
		graph->reached[block.slot] |= graph->mark;
		graph->queue[graph->queued++] = block.slot;
	}
	return true;
}

static void reach(struct graph *graph, uint8_t mark)
{
	graph->mark = mark;
	graph->queued = 0;
	graph->runtime->roots(&graph->census->target, graph->state, take, graph);
	for (size_t i = 0; i < graph->queued; i++)
		graph->from = graph->blocks[graph->queue[i]].start,
		graph->runtime->refs(&graph->census->target, graph->state, &graph->blocks[graph->queue[i]], false, take,
				     graph);
}

/* ---- reference counts --------------------------------------------------------------------- */

static bool count(void *context, const struct runtime_ref *ref)
{
	struct graph *graph = context;
	struct block block;

	graph->edges++;
	graph->weak_edges += ref->weak;
	graph->part_edges += ref->part;
	graph->guess_edges += ref->guess;
	if (!ref->weak && ledger_find(graph->ledger, ref->target, &block) && block.start == ref->target)
		(ref->guess ? graph->guessed : graph->counted)[block.slot]++;
	return true;
}

static bool count_root(void *context, const struct runtime_ref *ref)
{
	struct graph *graph = context;

	graph->roots++;
	/* What is on the stack of arguments is not counted; the rest is, or is a guess. */
	if (strncmp(ref->name, "argument ", 9) == 0)
		return true;
	return count(context, ref);
}

static void count_all(struct graph *graph)
{
	for (size_t i = 0; i < graph->n_slots; i++)
		if (graph->blocks[i].end)
			graph->runtime->refs(&graph->census->target, graph->state, &graph->blocks[i], false, count,
					     graph);
	graph->runtime->roots(&graph->census->target, graph->state, count_root, graph);
}

/* ---- the report ------------------------------------------------------------------------------ */

struct line {
	const char *kind, *detail;
	int64_t difference;
	uint64_t count, example, size;
};

static int by_name(const void *a, const void *b)
{
	const struct line *one = a, *other = b;
	int order = strcmp(one->kind, other->kind);

	order = order ? order : strcmp(one->detail, other->detail);
	return order ? order : one->difference < other->difference ? -1 : one->difference > other->difference;
}

static void print_string(const char *text)
{
	putchar('"');
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == '"' || *text == '\\')
			printf("\\u%04x", (unsigned char)*text);
		else
			putchar(*text);
	putchar('"');
}

static void print_lines(const char *name, struct line *lines, size_t n)
{
	bool first = true;

	if (n)
		qsort(lines, n, sizeof(*lines), by_name);
	printf(" \"%s\": [", name);
	for (size_t i = 0, end; i < n; i = end) {
		uint64_t size = 0;

		for (end = i; end < n && by_name(&lines[i], &lines[end]) == 0; end++)
			size += lines[end].size;
		printf("%s\n  {\"kind\": ", first ? "" : ",");
		first = false;
		print_string(lines[i].kind);
		printf(", \"detail\": ");
		print_string(lines[i].detail);
		printf(", \"difference\": %" PRId64 ", \"count\": %zu, \"size\": %" PRIu64 ", \"example\": \"0x%" PRIx64
		       "\"}",
		       lines[i].difference, end - i, size, lines[i].example);
	}
	printf("],\n");
}

static void report_unreached(const struct graph *graph, const char *name, uint8_t mark, struct line *lines)
{
	size_t n = 0;

	for (size_t i = 0; i < graph->n_slots; i++) {
		const struct block *block = &graph->blocks[i];
		const struct category *c;

		if (!block->end || graph->reached[i] & mark)
			continue;
		c = category_of(graph, block);
		if (strcmp(c->domain, "perl") == 0 && c->state == FH_LIVE)
			lines[n++] = (struct line){ c->kind, c->detail, 0, 1, block->start, block->end - block->start };
	}
	print_lines(name, lines, n);
}

/* References found beyond what the head counts; immortals and the like have counts that mean nothing. */
static void report_counts(const struct graph *graph, struct line *lines)
{
	size_t n = 0, heads = 0, exact = 0, with_guesses = 0;

	for (size_t i = 0; i < graph->n_slots; i++) {
		const struct block *block = &graph->blocks[i];
		uint32_t refcnt;

		if (!block->end || !is_head(graph, block) ||
		    !source_u32(graph->census->target.source, block->start + 8, &refcnt))
			continue;
		heads++;
		if (graph->counted[i] == refcnt)
			exact++;
		else if (graph->counted[i] < refcnt && graph->counted[i] + graph->guessed[i] >= refcnt)
			with_guesses++;
		else
			lines[n++] = (struct line){ category_of(graph, block)->kind,
						    category_of(graph, block)->detail,
						    (int64_t)graph->counted[i] - refcnt,
						    1,
						    block->start,
						    block->end - block->start };
	}
	print_lines("counts_differ", lines, n);
	printf(" \"heads\": %zu, \"exact\": %zu, \"exact_with_guesses\": %zu,\n", heads, exact, with_guesses);
}

static void report(struct graph *graph)
{
	struct line *lines = calloc(graph->n_slots, sizeof(*lines));

	if (!lines)
		exit(1);
	reach(graph, REACHED);
	reach(graph, STRONGLY);
	count_all(graph);
	printf("{\n");
	report_unreached(graph, "unreached", REACHED, lines);
	report_unreached(graph, "not_held", STRONGLY, lines);
	report_counts(graph, lines);
	printf(" \"edges\": %" PRIu64 ", \"weak\": %" PRIu64 ", \"parts\": %" PRIu64 ", \"guesses\": %" PRIu64
	       ", \"roots\": %" PRIu64 ", \"dangling\": %" PRIu64 "\n}\n",
	       graph->edges, graph->weak_edges, graph->part_edges, graph->guess_edges, graph->roots, graph->dangling);
	free(lines);
}

/* ---- paths by name -------------------------------------------------------------------------------- */

struct step {
	struct graph *graph;
	const char *name;
	uint64_t found, parts[4096];
	size_t n_parts;
};

static bool match(void *context, const struct runtime_ref *ref)
{
	struct step *step = context;

	if (strcmp(ref->name, step->name) == 0) {
		step->found = ref->target;
		return false;
	}
	if (ref->part && step->n_parts < sizeof(step->parts) / sizeof(*step->parts))
		step->parts[step->n_parts++] = ref->target;
	return true;
}

static void refs_at(struct graph *graph, uint64_t address, runtime_ref_visitor *visit, void *context)
{
	struct block block;

	if (ledger_find(graph->ledger, address, &block))
		graph->runtime->refs(&graph->census->target, graph->state, &block, true, visit, context);
}

/* A reference by name, of the block itself or of its parts. */
static uint64_t follow(struct graph *graph, uint64_t from, const char *name)
{
	struct step step = { .graph = graph, .name = name }, parts;

	if (!from)
		graph->runtime->roots(&graph->census->target, graph->state, match, &step);
	else
		refs_at(graph, from, match, &step);
	parts = step;
	for (size_t i = 0; from && !step.found && i < parts.n_parts; i++)
		refs_at(graph, parts.parts[i], match, &step);
	return step.found;
}

static bool print_ref(void *context, const struct runtime_ref *ref)
{
	(void)context;
	printf("0x%" PRIx64 "\t%s%s%s\t%s\n", ref->target, ref->weak ? "w" : "", ref->part ? "p" : "",
	       ref->guess ? "g" : "", ref->name);
	return true;
}

struct wanted {
	struct graph *graph;
	uint64_t start, end, from;
};

static bool print_from(void *context, const struct runtime_ref *ref)
{
	struct wanted *wanted = context;

	if (ref->target >= wanted->start && ref->target < wanted->end) {
		printf("0x%" PRIx64 "\t", wanted->from);
		print_ref(NULL, ref);
	}
	return true;
}

static void print_referrers(struct graph *graph, uint64_t address)
{
	struct wanted wanted = { .graph = graph };
	struct block block;

	if (!ledger_find(graph->ledger, address, &block))
		return;
	wanted.start = block.start;
	wanted.end = block.end;
	graph->runtime->roots(&graph->census->target, graph->state, print_from, &wanted);
	for (size_t i = 0; i < graph->n_slots; i++)
		if (graph->blocks[i].end) {
			wanted.from = graph->blocks[i].start;
			graph->runtime->refs(&graph->census->target, graph->state, &graph->blocks[i], true, print_from,
					     &wanted);
		}
}

static void list_unreached(struct graph *graph)
{
	reach(graph, REACHED);
	for (size_t i = 0; i < graph->n_slots; i++) {
		const struct block *block = &graph->blocks[i];
		const struct category *c = block->end ? category_of(graph, block) : NULL;

		if (c && !graph->reached[i] && strcmp(c->domain, "perl") == 0 && c->state == FH_LIVE)
			printf("0x%" PRIx64 "\t%s\t%s\n", block->start, c->kind, c->detail);
	}
}

static int walk(struct graph *graph, char **names)
{
	uint64_t at = 0;

	if (names[0][0] == '@') {
		refs_at(graph, strtoull(names[0] + 1, NULL, 0), print_ref, NULL);
		return 0;
	}
	if (names[0][0] == '^') {
		print_referrers(graph, strtoull(names[0] + 1, NULL, 0));
		return 0;
	}
	if (strcmp(names[0], "roots") == 0) {
		graph->runtime->roots(&graph->census->target, graph->state, print_ref, NULL);
		return 0;
	}
	if (strcmp(names[0], "unreached") == 0) {
		list_unreached(graph);
		return 0;
	}
	for (; *names; names++) {
		at = follow(graph, at, *names);
		if (!at) {
			printf("no %s\n", *names);
			return 1;
		}
	}
	printf("0x%" PRIx64 "\n", at);
	return 0;
}

int main(int argc, char **argv)
{
	struct graph graph = { 0 };
	struct fh_error *error;
	int status = 0;

	if (argc < 2)
		return 2;
	error = fh_census_open(argv[1], NULL, &graph.census);
	if (error) {
		fprintf(stderr, "%s\n", error->message);
		fh_error_destroy(error);
		return 1;
	}
	graph.ledger = graph.census->target.ledger;
	for (size_t i = 0; i < graph.census->n_runtimes; i++) {
		const struct runtime *runtime = graph.census->runtimes[i].plugin;

		if (runtime->refs && runtime->roots) {
			graph.runtime = runtime;
			graph.state = graph.census->runtimes[i].state;
		}
	}
	if (!graph.runtime) {
		fprintf(stderr, "no runtime whose references are known\n");
		fh_census_destroy(graph.census);
		return 1;
	}
	list_blocks(&graph);
	if (argc > 2)
		status = walk(&graph, argv + 2);
	else
		report(&graph);
	free(graph.blocks);
	free(graph.reached);
	free(graph.counted);
	free(graph.guessed);
	free(graph.queue);
	fh_census_destroy(graph.census);
	return status;
}
