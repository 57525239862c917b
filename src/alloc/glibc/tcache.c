/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads' caches. Each thread has a pointer to its tcache_perthread_struct among the words of its static
 * TLS, in all threads at the same distance from the thread pointer; the struct is a chunk of a known size, and
 * its list heads lead to chunks of the sizes of their lists. Threads that ended in a fork leave theirs
 * behind: those are found among the live chunks by their contents.
 */
#include <stdlib.h>

#include "alloc/glibc/internal.h"

#define TLS_LEAST 4096u /* static TLS that is searched; more where images have more */
#define TLS_MOST 65536u

/* A chunk is 16 bytes larger than asked for where the rest would be too small for a chunk, and some releases add
 * the chunk's overhead twice (malloc/malloc.c of 2.43, tcache_init). */
static const struct tcache_layout *layout_of_size(uint64_t size)
{
	for (size_t i = 0; i < n_tcache_layouts; i++)
		if (size >= tcache_layouts[i].chunk && size <= tcache_layouts[i].chunk + 32)
			return &tcache_layouts[i];
	return NULL;
}

static bool entry_of(const struct glibc *glibc, uint64_t data, const struct tcache_layout *layout, uint32_t i,
		     uint64_t *ret)
{
	return source_u64(glibc->target->source, data + layout->entries + 8 * i, ret);
}

/* The size that all chunks of a list have, 0 when they differ. */
static uint64_t list_size(const struct tcache_layout *layout, uint32_t i)
{
	return i < layout->small ? CHUNK_MIN + 16 * i : 0;
}

static bool entry_fits(const struct glibc *glibc, uint64_t entry, uint64_t expected)
{
	uint64_t size, extent;

	return free_lists_chunk(glibc, entry - 16, &size, &extent) && (expected ? size == expected : size > 1040);
}

/* ---- by way of TLS ----------------------------------------------------------------- */

/* How much an address looks like that of a tcache: 0 not at all. One broken list among several is damage. */
static unsigned score(const struct glibc *glibc, uint64_t data, const struct tcache_layout **ret)
{
	const struct heap *heap = data % 16 ? NULL : regions_heap_at(glibc, data);
	unsigned good = 0, bad = 0;
	uint64_t size, extent, entry;

	if (!heap || !free_lists_chunk(glibc, data - 16, &size, &extent))
		return 0;
	*ret = layout_of_size(size);
	for (uint32_t i = 0; *ret && i < (*ret)->n; i++) {
		if (!entry_of(glibc, data, *ret, i, &entry))
			return 0;
		if (entry && entry_fits(glibc, entry, list_size(*ret, i)))
			good++;
		else if (entry)
			bad++;
	}
	if (!*ret || bad * 3 > good)
		return 0;
	return 1 + good + (data - 16 == heap->first_chunk ? 4 : 0); /* often the first that a thread asks for */
}

static uint32_t tls_size(const struct glibc *glibc)
{
	const struct images *images = glibc->target->images;
	uint64_t size = TLS_LEAST;

	for (size_t i = 0; images && i < images->v.len && size < TLS_MOST; i++)
		if (images->v.items[i]->tls_size < TLS_MOST && images->v.items[i]->tls_align < TLS_MOST)
			size += images->v.items[i]->tls_size + images->v.items[i]->tls_align;
	return size < TLS_MOST ? (uint32_t)size / 8 * 8 : TLS_MOST;
}

/* The words below a thread pointer: words[0] is the one right below it. Returns how many could be read. */
static size_t read_tls(const struct glibc *glibc, const struct source_thread *thread, uint64_t *words, size_t n)
{
	const struct mapping *m = source_mapping_at(glibc->target->source, thread->fs_base - 8);
	uint64_t room = m ? (thread->fs_base - m->start) / 8 : 0;

	if (!thread->fs_base || thread->fs_base % 8)
		return 0;
	for (size_t i = 0; i < n; i++)
		if (i >= room || !source_u64(glibc->target->source, thread->fs_base - 8 * (i + 1), &words[i]))
			return i;
	return n;
}

static int compare_tcaches(const void *a, const void *b)
{
	const struct tcache *x = a, *y = b;

	return x->data < y->data ? -1 : x->data > y->data;
}

bool tcache_is_known(const struct glibc *glibc, uint64_t data)
{
	size_t i = vec_after(&glibc->tcaches, .data, data);

	return i && glibc->tcaches.items[i - 1].data == data;
}

/* Fills in the tcaches of all threads, given the word of TLS that points at them. */
static struct fh_error *collect(struct glibc *glibc, size_t word)
{
	const struct source *source = glibc->target->source;
	size_t kept = 0;

	for (size_t i = 0; i < source->threads.len; i++) {
		const struct source_thread *thread = &source->threads.items[i];
		struct tcache found = { .thread = thread->tid };

		uint64_t pointer = thread->fs_base - 8 * (word + 1);

		if (!thread->fs_base || !source_u64(glibc->target->source, pointer, &found.data) ||
		    !score(glibc, found.data, &found.layout))
			continue;
		if (!vec_push(&glibc->tcaches, found))
			return error_no_memory();
	}
	if (glibc->tcaches.len)
		qsort(glibc->tcaches.items, glibc->tcaches.len, sizeof(struct tcache), compare_tcaches);
	for (size_t i = 0; i < glibc->tcaches.len; i++)
		if (!kept || glibc->tcaches.items[kept - 1].data != glibc->tcaches.items[i].data)
			glibc->tcaches.items[kept++] = glibc->tcaches.items[i];
	glibc->tcaches.len = kept;
	return NULL;
}

/* Which word of TLS it is, by the scores of all threads together; n when none is. */
static size_t find_word(struct glibc *glibc, uint64_t *words, uint32_t *scores, size_t n)
{
	const struct source *source = glibc->target->source;
	size_t best = n;

	for (size_t t = 0; t < source->threads.len; t++) {
		size_t got = read_tls(glibc, &source->threads.items[t], words, n);

		for (size_t i = 0; i < got; i++) {
			const struct tcache_layout *layout;

			scores[i] += score(glibc, words[i], &layout);
		}
	}
	for (size_t i = 0; i < n; i++)
		if (scores[i] && (best == n || scores[i] > scores[best]))
			best = i;
	return best;
}

struct fh_error *tcache_find(struct glibc *glibc, int *votes)
{
	size_t n = tls_size(glibc) / 8, word;
	uint64_t *words = calloc(n, sizeof(*words)), entry;
	uint32_t *scores = calloc(n, sizeof(*scores));
	struct fh_error *error = words && scores ? NULL : error_no_memory();

	word = error ? n : find_word(glibc, words, scores, n);
	free(words);
	free(scores);
	if (!error && word < n)
		error = collect(glibc, word);
	for (size_t i = 0; i < glibc->tcaches.len; i++) {
		const struct tcache *t = &glibc->tcaches.items[i];

		for (uint32_t k = 0; k < t->layout->n; k++)
			if (entry_of(glibc, t->data, t->layout, k, &entry) && entry)
				tcache_vote_link(glibc, entry, votes);
	}
	return error;
}

/* ---- links ------------------------------------------------------------------------------ */

/* Safe-linking (2.32): a link is stored xored with its own address, shifted by a page. So the end of a list is
 * 0 when plain and not 0 when mangled: each link tells. */
void tcache_vote_link(const struct glibc *glibc, uint64_t address, int *votes)
{
	uint64_t stored, revealed;

	if (!source_u64(glibc->target->source, address, &stored))
		return;
	revealed = address >> 12 ^ stored;
	if (revealed == 0 || (revealed % 16 == 0 && regions_heap_at(glibc, revealed)))
		++*votes;
	else if (stored == 0 || (stored % 16 == 0 && regions_heap_at(glibc, stored)))
		--*votes;
}

/* Entries carry the address of their tcache (2.29 to 2.33) or a random number of the process (from 2.34 on). */
static void learn_key(struct glibc *glibc, uint64_t data, uint64_t entry)
{
	uint64_t key;

	if (!glibc->tcache_key && source_u64(glibc->target->source, entry + 8, &key) && key != data)
		glibc->tcache_key = key;
}

struct fh_error *tcache_walk(struct glibc *glibc)
{
	for (size_t i = 0; i < glibc->tcaches.len; i++) {
		const struct tcache *t = &glibc->tcaches.items[i];

		for (uint32_t k = 0; k < t->layout->n; k++) {
			struct single_list list = { .kind = MARK_TCACHE, .expected = list_size(t->layout, k),
						    .data_links = true, .arena = UINT32_MAX, .thread = t->thread };
			uint64_t entry;

			if (!entry_of(glibc, t->data, t->layout, k, &entry) || !entry)
				continue;
			list.first = entry - 16;
			TRY(free_lists_single(glibc, &list));
			if (list.count)
				learn_key(glibc, t->data, entry);
		}
	}
	return NULL;
}

/* ---- left behind -------------------------------------------------------------------------- */

bool tcache_may_be(const struct glibc *glibc, uint64_t chunk, uint64_t size)
{
	const struct tcache_layout *layout = layout_of_size(size);
	uint64_t entry, ignored[2];
	bool any = false;

	for (uint32_t i = 0; layout && i < layout->n; i++) {
		if (!entry_of(glibc, chunk + 16, layout, i, &entry))
			return false;
		if (entry && (entry % 16 || (!regions_heap_at(glibc, entry) &&
					     !free_lists_chunk(glibc, entry - 16, &ignored[0], &ignored[1]))))
			return false;
		any = any || entry;
	}
	return any && !tcache_is_known(glibc, chunk + 16);
}

/* A block of the ledger that is a live chunk as yet, and could be in this list. */
static bool is_member(struct glibc *glibc, uint64_t data, uint64_t chunk, uint64_t expected, struct block *block)
{
	uint64_t size, extent, key;

	if (!free_lists_chunk(glibc, chunk, &size, &extent) || (expected && size != expected) ||
	    marks_get(glibc->marks, chunk) != MARK_NONE || !source_u64(glibc->target->source, chunk + 24, &key))
		return false;
	if (key != data && (!glibc->tcache_key || key != glibc->tcache_key))
		return false;
	return ledger_find(glibc->target->ledger, chunk, block) && block->start == chunk &&
	       ledger_category_of(glibc->target->ledger, block->category)->unknown;
}

#define MOST_STEPS (1u << 22) /* in all; a circle ends there, too */

/* Checks every list of a candidate, without any change. */
static bool lists_hold(struct glibc *glibc, const struct tcache *t)
{
	struct block block;

	for (uint32_t k = 0; k < t->layout->n; k++) {
		uint64_t entry, chunk;

		if (!entry_of(glibc, t->data, t->layout, k, &entry))
			return false;
		for (chunk = entry ? entry - 16 : 0; chunk;)
			if (glibc->left_steps++ > MOST_STEPS ||
			    !is_member(glibc, t->data, chunk, list_size(t->layout, k), &block) ||
			    !free_lists_next(glibc, chunk, true, &chunk))
				return false;
	}
	return true;
}

static void rename_members(struct glibc *glibc, const struct tcache *t)
{
	struct block block;

	for (uint32_t k = 0; k < t->layout->n; k++) {
		uint64_t chunk, next;

		if (!entry_of(glibc, t->data, t->layout, k, &chunk))
			continue;
		for (chunk = chunk ? chunk - 16 : 0; chunk; chunk = next) {
			if (!ledger_find(glibc->target->ledger, chunk, &block) ||
			    !free_lists_next(glibc, chunk, true, &next))
				break;
			ledger_rename(glibc->target->ledger, block.slot,
				      categories_free(glibc, MARK_TCACHE, block.end - block.start));
		}
	}
	if (ledger_find(glibc->target->ledger, t->data - 16, &block))
		ledger_rename(glibc->target->ledger, block.slot, glibc->tcache);
}

struct fh_error *tcache_name_left_behind(struct glibc *glibc)
{
	struct fh_error *error = NULL;

	for (size_t i = 0; i < glibc->maybe_tcaches.len && !error; i++) {
		struct tcache t = { .data = glibc->maybe_tcaches.items[i] + 16, .thread = -1 };
		uint64_t size, extent;

		if (!free_lists_chunk(glibc, t.data - 16, &size, &extent))
			continue;
		t.layout = layout_of_size(size);
		if (!t.layout || !lists_hold(glibc, &t))
			continue;
		rename_members(glibc, &t);
		glibc->tcaches.len = 0; /* so that only this one is walked: its bins are kept, its chunks marked */
		if (!vec_push(&glibc->tcaches, t))
			return error_no_memory();
		error = tcache_walk(glibc);
	}
	return error;
}
