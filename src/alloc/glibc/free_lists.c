/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every list of free chunks: bins, fastbins, and the tcaches of all threads. A chunk in a fastbin or a
 * tcache looks in use, so membership is the only way to know; counts are never trusted. Lists are walked with
 * Brent's cycle detection, and stop at the first link that can't be.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "alloc/glibc/internal.h"

#define TLS_WORDS 4096 /* libc's own TLS lies right below the thread pointer, others' further down */

static category_id free_category(struct glibc *glibc, const char *detail)
{
	return ledger_category(glibc->target->ledger,
			       &(struct category){ .domain = "glibc", .kind = "free chunk", .detail = detail,
						   .state = FH_FREE, .head = CHUNK_HEADER });
}

static bool chunk_size(struct glibc *glibc, uint64_t chunk, uint64_t *ret)
{
	if (chunk % 16 || !source_u64(glibc->target->source, chunk + 8, ret))
		return false;
	*ret &= ~SIZE_BITS;
	return *ret >= CHUNK_MIN;
}

/* Remembers where a walk was, at powers of two: meeting that again is a cycle. */
struct cycle_check {
	uint64_t seen, steps, limit;
};

static bool cycle_step(struct cycle_check *check, uint64_t at)
{
	if (at == check->seen)
		return false;
	if (++check->steps >= check->limit) {
		check->limit = check->limit ? check->limit * 2 : 1;
		check->seen = at;
	}
	return true;
}

static bool add_free(struct glibc *glibc, uint64_t chunk, uint64_t size, category_id category,
		     struct alloc_bin *bin)
{
	bin->count++;
	bin->bytes += size;
	return vec_push(&glibc->free_chunks, (struct free_chunk){ chunk, category });
}

static void broken_list(struct glibc *glibc, const char *name, uint64_t at)
{
	target_damaged(glibc->target, "malloc: the free list '%s' is corrupt at 0x%" PRIx64, name, at);
}

static bool keep_bin(struct glibc *glibc, const struct alloc_bin *bin)
{
	return !bin->count || vec_push(&glibc->bins, *bin);
}

static const char *pool_name(struct glibc *glibc, const char *what, uint64_t size)
{
	const char *name = strings_format(glibc->target->source->strings, "%s %" PRIu64, what, size);

	return name ? name : what;
}

/* ---- bins ---------------------------------------------------------------------- */

/* One direction of a bin's ring; false at a broken link, where *ret_last is the last good chunk. */
static struct fh_error *walk_bin(struct glibc *glibc, uint64_t pair, bool forward, uint64_t stop_at,
				 category_id category, struct alloc_bin *bin, bool *ret_whole, uint64_t *ret_last)
{
	struct source *source = glibc->target->source;
	uint64_t head = pair - 16, at = head, next, back, size;
	uint64_t link = forward ? 16 : 24, other = forward ? 24 : 16;
	struct cycle_check check = { 0 };

	*ret_whole = false;
	for (;;) {
		*ret_last = at;
		if (!source_u64(source, at + link, &next))
			return NULL;
		if (next == head) {
			*ret_whole = true;
			return NULL;
		}
		if (next == stop_at || !chunk_size(glibc, next, &size) || !source_u64(source, next + other, &back) ||
		    back != at || !cycle_step(&check, next))
			return NULL;
		if (!add_free(glibc, next, size, category, bin))
			return error_no_memory();
		at = next;
	}
}

static struct fh_error *list_bin(struct glibc *glibc, struct arena *arena, unsigned index)
{
	const char *name = index == 0 ? "unsorted" : index >= 63 ? "large" : pool_name(glibc, "small", (index + 1) * 16);
	struct alloc_bin bin = { .allocator = "glibc", .name = name, .arena = arena->figures.number, .thread = -1 };
	category_id category = free_category(glibc, name);
	uint64_t last, ignored;
	bool whole;

	TRY(walk_bin(glibc, arena->bins + 16 * index, true, 0, category, &bin, &whole, &last));
	if (!whole) { /* what the other direction reaches lies behind the break */
		broken_list(glibc, name, last);
		TRY(walk_bin(glibc, arena->bins + 16 * index, false, last, category, &bin, &whole, &ignored));
	}
	arena->figures.free_bytes += bin.bytes;
	arena->figures.free_blocks += bin.count;
	return keep_bin(glibc, &bin) ? NULL : error_no_memory();
}

/* ---- singly linked lists: fastbins and tcache ------------------------------------- */

static uint64_t decode(const struct glibc *glibc, uint64_t address, uint64_t stored)
{
	return glibc->mangled ? address >> 12 ^ stored : stored;
}

/* Walks from a chunk; `expected` is the size all must have, 0 for any. */
static struct fh_error *list_single(struct glibc *glibc, uint64_t chunk, uint64_t expected, const char *what,
				    bool to_data, struct alloc_bin *bin)
{
	struct cycle_check check = { 0 };
	category_id category = 0;

	while (chunk) {
		uint64_t size, stored, next;

		if (!chunk_size(glibc, chunk, &size) || (expected && size != expected) || !cycle_step(&check, chunk) ||
		    !source_u64(glibc->target->source, chunk + 16, &stored)) {
			broken_list(glibc, pool_name(glibc, what, expected), chunk);
			return NULL;
		}
		if (!category || !expected) {
			bin->name = pool_name(glibc, what, size);
			category = free_category(glibc, bin->name);
		}
		if (!add_free(glibc, chunk, size, category, bin))
			return error_no_memory();
		next = decode(glibc, chunk + 16, stored);
		chunk = next && to_data ? next - 16 : next;
	}
	return NULL;
}

static struct fh_error *list_fastbins(struct glibc *glibc, struct arena *arena)
{
	for (unsigned i = 0; glibc->layout->fastbins && i < 10; i++) {
		struct alloc_bin bin = { .allocator = "glibc", .arena = arena->figures.number, .thread = -1 };
		uint64_t head;

		if (!source_u64(glibc->target->source, arena->bins + (uint64_t)(int64_t)glibc->layout->fastbins + 8 * i, &head))
			return NULL;
		TRY(list_single(glibc, head, CHUNK_MIN + 16 * i, "fast", false, &bin));
		arena->figures.fast_bytes += bin.bytes;
		arena->figures.fast_blocks += bin.count;
		if (!keep_bin(glibc, &bin))
			return error_no_memory();
	}
	return NULL;
}

/* ---- finding the tcaches ------------------------------------------------------------ */

/* The layout by which an address is that of a tcache_perthread_struct: its chunk's size fits, and every
 * list head is NULL or a chunk (of that list's size, where the list has one). */
static const struct tcache_layout *tcache_at(struct glibc *glibc, uint64_t data)
{
	uint64_t size, entry, entry_size;

	if (data % 16 || !in_heaps(glibc, data) || !chunk_size(glibc, data - 16, &size))
		return NULL;
	for (size_t i = 0; i < n_tcache_layouts; i++) {
		const struct tcache_layout *layout = &tcache_layouts[i];
		uint32_t k = 0;

		for (; size == layout->chunk && k < layout->n; k++) {
			if (!source_u64(glibc->target->source, data + layout->entries + 8 * k, &entry))
				break;
			if (entry && (!chunk_size(glibc, entry - 16, &entry_size) ||
				      (k < 64 && entry_size != CHUNK_MIN + 16 * k)))
				break;
		}
		if (k == layout->n)
			return layout;
	}
	return NULL;
}

static struct fh_error *list_tcache(struct glibc *glibc, uint64_t data, const struct tcache_layout *layout, int32_t tid)
{
	for (uint32_t i = 0; i < layout->n; i++) {
		struct alloc_bin bin = { .allocator = "glibc", .arena = UINT32_MAX, .thread = tid };
		uint64_t head;

		if (!source_u64(glibc->target->source, data + layout->entries + 8 * i, &head))
			return NULL;
		TRY(list_single(glibc, head ? head - 16 : 0, i < 64 ? CHUNK_MIN + 16 * i : 0, "tcache", true, &bin));
		if (!keep_bin(glibc, &bin))
			return error_no_memory();
	}
	return NULL;
}

static bool known_tcache(const struct glibc *glibc, uint64_t chunk)
{
	for (size_t i = 0; i < glibc->tcaches.len; i++)
		if (glibc->tcaches.items[i] == chunk)
			return true;
	return false;
}

/* The thread's pointer to its tcache is one of the words of its static TLS. */
static struct fh_error *list_thread(struct glibc *glibc, const struct source_thread *thread)
{
	uint64_t words[TLS_WORDS];
	uint64_t at = thread->fs_base - sizeof(words), skip = 0;
	size_t got = 0;

	/* TLS may begin at the start of a mapping. */
	for (; skip < sizeof(words) && !got; skip += 512)
		got = memory_read(&glibc->target->source->memory, at + skip, words, sizeof(words) - skip);
	for (size_t i = got / 8; i-- > 0;) {
		const struct tcache_layout *layout = tcache_at(glibc, words[i]);

		if (!layout || known_tcache(glibc, words[i] - 16))
			continue;
		if (!vec_push(&glibc->tcaches, words[i] - 16))
			return error_no_memory();
		return list_tcache(glibc, words[i], layout, thread->tid);
	}
	return NULL;
}

/* ---- safe-linking ----------------------------------------------------------------------- */

/* A vote on how one link is stored: +1 mangled, -1 plain, 0 can't say. */
static int vote(struct glibc *glibc, uint64_t address)
{
	uint64_t stored, plain;

	if (!source_u64(glibc->target->source, address, &stored))
		return 0;
	plain = address >> 12 ^ stored;
	if (stored == 0)
		return -1;
	if (plain == 0)
		return 1;
	if (plain % 16 == 0 && in_heaps(glibc, plain))
		return 1;
	return stored % 16 == 0 && in_heaps(glibc, stored) ? -1 : 0;
}

static void decide_mangling(struct glibc *glibc)
{
	struct source *source = glibc->target->source;
	int sum = 0;
	uint64_t words[TLS_WORDS];

	for (size_t a = 0; a < glibc->arenas.len; a++)
		for (unsigned i = 0; glibc->layout->fastbins && i < 10; i++) {
			uint64_t head;

			if (source_u64(source, glibc->arenas.items[a].bins + (uint64_t)(int64_t)glibc->layout->fastbins + 8 * i, &head) && head)
				sum += vote(glibc, head + 16);
		}
	for (size_t t = 0; t < source->threads.len; t++) {
		uint64_t at = source->threads.items[t].fs_base - sizeof(words), skip = 0;
		size_t got = 0;

		for (; source->threads.items[t].fs_base && skip < sizeof(words) && !got; skip += 512)
			got = memory_read(&source->memory, at + skip, words, sizeof(words) - skip);
		for (size_t i = 0; i < got / 8; i++) {
			const struct tcache_layout *layout = tcache_at(glibc, words[i]);
			uint64_t head;

			for (uint32_t k = 0; layout && k < layout->n; k++)
				if (source_u64(source, words[i] + layout->entries + 8 * k, &head) && head)
					sum += vote(glibc, head);
		}
	}
	glibc->mangled = sum > 0;
}

/* ---- all ------------------------------------------------------------------------------------ */

static int compare_free(const void *a, const void *b)
{
	const struct free_chunk *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static int compare_addresses(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

struct fh_error *free_lists_walk(struct glibc *glibc)
{
	decide_mangling(glibc);
	for (size_t a = 0; a < glibc->arenas.len; a++) {
		for (unsigned i = 0; i < BINS; i++)
			TRY(list_bin(glibc, &glibc->arenas.items[a], i));
		TRY(list_fastbins(glibc, &glibc->arenas.items[a]));
	}
	for (size_t i = 0; i < glibc->target->source->threads.len; i++)
		if (glibc->target->source->threads.items[i].fs_base)
			TRY(list_thread(glibc, &glibc->target->source->threads.items[i]));
	if (glibc->free_chunks.len)
		qsort(glibc->free_chunks.items, glibc->free_chunks.len, sizeof(struct free_chunk), compare_free);
	if (glibc->tcaches.len)
		qsort(glibc->tcaches.items, glibc->tcaches.len, sizeof(uint64_t), compare_addresses);
	return NULL;
}
