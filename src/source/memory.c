/* SPDX-License-Identifier: Apache-2.0 */
#include "source/memory.h"

#include <stdlib.h>
#include <string.h>

#define REGION_SHIFT 21
#define GIGANTIC (UINT64_C(1) << 36)
#define MOST_WINDOWS (UINT64_C(1) << 26) /* 4 TiB, by an index of 256 MiB */
#define MIN_SLOTS 64 /* half of them are never reused at once: more than the 16 promised */

static const uint8_t zeros[MEMORY_WINDOW];

void memory_init(struct memory *memory)
{
	*memory = (struct memory){ .clock = 1 }; /* a stamp of 0 is older than any use */
}

void memory_deinit(struct memory *memory)
{
	for (size_t i = 0; i < memory->backings.len; i++) {
		struct memory_backing *b = &memory->backings.items[i];

		if (b->release)
			b->release(b->context);
	}
	vec_free(&memory->runs);
	vec_free(&memory->backings);
	hashmap_deinit(&memory->regions);
	free(memory->slot_of);
	free(memory->slots);
	free(memory->slot_bytes);
	free(memory->pages);
	free(memory->page_bytes);
	*memory = (struct memory){ 0 };
}

uint32_t memory_add_backing(struct memory *memory, memory_fill *fill, void (*release)(void *),
			    void *context)
{
	if (!vec_push(&memory->backings, (struct memory_backing){ fill, release, context }))
		return MEMORY_ZERO;
	return (uint32_t)(memory->backings.len - 1);
}

static bool add_run(struct memory *memory, struct memory_run run)
{
	return run.start >= run.end || vec_push(&memory->runs, run);
}

bool memory_add_direct(struct memory *memory, uint64_t start, uint64_t end, const void *data)
{
	if (memory->runs.len) {
		struct memory_run *last = vec_last(&memory->runs);

		if (last->end == start && last->data && last->data + (last->end - last->start) == data) {
			last->end = end;
			return true;
		}
	}
	return add_run(memory, (struct memory_run){ .start = start, .end = end, .data = data });
}

bool memory_add_zero(struct memory *memory, uint64_t start, uint64_t end)
{
	return add_run(memory, (struct memory_run){ .start = start, .end = end, .backing = MEMORY_ZERO });
}

bool memory_add_lazy(struct memory *memory, uint64_t start, uint64_t end, uint32_t backing,
		     uint64_t offset)
{
	return add_run(memory, (struct memory_run){ .start = start, .end = end, .backing = backing,
						    .offset = offset });
}

static int compare_runs(const void *a, const void *b)
{
	const struct memory_run *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Where runs overlap (only hostile cores do that) the later one is cut. */
static void sort_runs(struct memory *memory)
{
	size_t kept = 0;
	uint64_t reached = 0;

	if (memory->runs.len) /* a NULL array is not for qsort() */
		qsort(memory->runs.items, memory->runs.len, sizeof(*memory->runs.items), compare_runs);
	for (size_t i = 0; i < memory->runs.len; i++) {
		struct memory_run run = memory->runs.items[i];

		if (run.start < reached) {
			uint64_t cut = reached - run.start;

			if (run.end <= reached)
				continue;
			run.start += cut;
			run.offset += cut;
			if (run.data)
				run.data += cut;
		}
		reached = run.end;
		memory->runs.items[kept++] = run;
	}
	memory->runs.len = kept;
}

/* Giant runs would need a giant index: only the regions where they start and end are entered (another run can begin
 * in the last one), and a look-up that finds none searches. */
static bool index_runs(struct memory *memory)
{
	for (size_t i = 0; i < memory->runs.len; i++) {
		const struct memory_run *run = &memory->runs.items[i];
		uint64_t region = run->start >> REGION_SHIFT, last = (run->end - 1) >> REGION_SHIFT;
		uint64_t step = last - region > 65536 ? last - region : 1;

		for (; run->start < run->end && region <= last; region += step)
			if (!hashmap_get(&memory->regions, region) &&
			    !hashmap_put(&memory->regions, region, i))
				return false;
	}
	return true;
}

/* Gives lazy runs their windows: all that are not gigantic, then those that are, as long as the index of windows
 * stays small. What gets none is as if it had no bytes. Returns how many there are. */
static uint32_t number_windows(struct memory *memory)
{
	uint64_t windows = 0;

	for (int gigantic = 0; gigantic < 2; gigantic++)
		for (size_t i = 0; i < memory->runs.len; i++) {
			struct memory_run *run = &memory->runs.items[i];
			uint64_t size = run->end - run->start, n = size / MEMORY_WINDOW + 1;

			if (run->data || run->backing == MEMORY_ZERO || (size > GIGANTIC) != gigantic)
				continue;
			if (n > MOST_WINDOWS - windows) {
				run->end = run->start;
				continue;
			}
			run->first_window = (uint32_t)windows;
			windows += n;
		}
	return (uint32_t)windows;
}

struct fh_error *memory_seal(struct memory *memory, size_t cache_bytes)
{
	sort_runs(memory);
	memory->n_windows = number_windows(memory);
	if (!memory->n_windows) /* nothing is fetched on demand */
		return NULL;
	if (!index_runs(memory))
		return error_no_memory();
	memory->n_slots = (uint32_t)(cache_bytes / MEMORY_WINDOW);
	if (memory->n_slots > memory->n_windows)
		memory->n_slots = memory->n_windows;
	if (memory->n_slots < MIN_SLOTS)
		memory->n_slots = MIN_SLOTS;
	/* calloc, so that the index of a huge but hollow core costs only the pages used:
	 * slot numbers are kept plus one. */
	memory->slot_of = calloc((size_t)memory->n_windows + 1, sizeof(*memory->slot_of));
	memory->slots = calloc(memory->n_slots, sizeof(*memory->slots));
	memory->slot_bytes = malloc((size_t)memory->n_slots * MEMORY_WINDOW);
	memory->pages = calloc(MEMORY_PAGES, sizeof(*memory->pages));
	memory->page_bytes = malloc((size_t)MEMORY_PAGES * MEMORY_PAGE);
	memory->page_window = UINT32_MAX;
	for (size_t i = 0; i < MEMORY_RECENT; i++)
		memory->recent[i].window = UINT32_MAX;
	if (!memory->slot_of || !memory->slots || !memory->slot_bytes || !memory->pages || !memory->page_bytes)
		return error_no_memory();
	return NULL;
}

static struct memory_run *find_run(struct memory *memory, uint64_t address)
{
	struct memory_run *runs = memory->runs.items;
	const uint64_t *hint = hashmap_get(&memory->regions, address >> REGION_SHIFT);
	size_t i = hint ? *hint : memory->runs.len;

	for (int tries = 0; i < memory->runs.len && runs[i].end <= address; i++)
		if (++tries == 4) {
			i = memory->runs.len;
			break;
		}
	if (i >= memory->runs.len)
		i = vec_after(&memory->runs, .end, address);
	if (i >= memory->runs.len || address < runs[i].start)
		return NULL;
	memory->last = i;
	return &runs[i];
}

/* The next slot in turn, but none of the half that was used last: the clock counts uses, so at
 * most that many can be that recent, and the loop ends. */
static uint32_t choose_slot(struct memory *memory)
{
	if (memory->used_slots < memory->n_slots)
		return memory->used_slots++;
	for (;;) {
		uint32_t chosen = memory->hand;
		const struct memory_slot *slot = &memory->slots[chosen];

		memory->hand = (memory->hand + 1) % memory->n_slots;
		if (slot->stamp + memory->n_slots / 2 > memory->clock)
			continue;
		memory->slot_of[slot->window] = 0;
		return chosen;
	}
}

static void use_slot(struct memory *memory, uint32_t slot)
{
	if (memory->slots[slot].stamp != memory->clock)
		memory->slots[slot].stamp = ++memory->clock;
}

/* Bytes of a window that was used lately; NULL: not there, or not all of them. */
static const uint8_t *find_recent(struct memory *memory, uint64_t address, size_t len)
{
	const struct memory_recent *recent = &memory->recent[address / MEMORY_WINDOW % MEMORY_RECENT];
	const struct memory_slot *slot;
	uint64_t offset = address - recent->base;

	if (!memory->used_slots || offset >= MEMORY_WINDOW)
		return NULL;
	slot = &memory->slots[recent->slot];
	if (slot->window != recent->window || offset >= slot->valid || len > slot->valid - offset)
		return NULL;
	use_slot(memory, recent->slot);
	return memory->slot_bytes + (size_t)recent->slot * MEMORY_WINDOW + offset;
}

/* The cached window of a lazy run that holds an address; *ret_valid bytes of it are good. */
static const uint8_t *get_window(struct memory *memory, const struct memory_run *run,
				 uint64_t address, uint64_t *ret_base, size_t *ret_valid)
{
	uint64_t index = (address - run->start) / MEMORY_WINDOW;
	uint64_t base = run->start + index * MEMORY_WINDOW;
	uint32_t window = run->first_window + (uint32_t)index;
	uint32_t slot = memory->slot_of[window];
	uint8_t *bytes;

	if (slot) {
		slot--;
	} else {
		const struct memory_backing *backing = &memory->backings.items[run->backing];
		size_t want = run->end - base < MEMORY_WINDOW ? run->end - base : MEMORY_WINDOW;

		slot = choose_slot(memory);
		bytes = memory->slot_bytes + (size_t)slot * MEMORY_WINDOW;
		memory->slots[slot].valid = (uint32_t)backing->fill(
			backing->context, base, run->offset + (base - run->start), bytes, want);
		memory->slots[slot].window = window;
		memory->slot_of[window] = slot + 1;
	}
	use_slot(memory, slot);
	memory->recent[address / MEMORY_WINDOW % MEMORY_RECENT] = (struct memory_recent){ base, window, slot };
	*ret_base = base;
	*ret_valid = memory->slots[slot].valid;
	return memory->slot_bytes + (size_t)slot * MEMORY_WINDOW;
}

const void *memory_span(struct memory *memory, uint64_t address, size_t *ret_len)
{
	const struct memory_run *run = find_run(memory, address);
	const uint8_t *bytes;
	uint64_t base;
	size_t valid;

	if (!run) {
		size_t next = vec_after(&memory->runs, .end, address);

		*ret_len = next < memory->runs.len ? memory->runs.items[next].start - address : 0;
		return NULL;
	}
	if (run->data) {
		*ret_len = run->end - address;
		return run->data + (address - run->start);
	}
	if (run->backing == MEMORY_ZERO) {
		*ret_len = run->end - address < sizeof(zeros) ? run->end - address : sizeof(zeros);
		return zeros;
	}
	bytes = get_window(memory, run, address, &base, &valid);
	if (address - base >= valid) {
		uint64_t window_end = run->end - base < MEMORY_WINDOW ? run->end : base + MEMORY_WINDOW;

		*ret_len = window_end - address;
		return NULL;
	}
	*ret_len = valid - (address - base);
	return bytes + (address - base);
}

/*
 * A short read in a lazy run whose window isn't cached: the page, unless the last such read was in the same window,
 * which then is worth fetching. NULL: not here, go by the window.
 */
static const uint8_t *get_page(struct memory *memory, const struct memory_run *run, uint64_t address, size_t len)
{
	uint64_t start = address & ~(uint64_t)(MEMORY_PAGE - 1), at;
	const struct memory_backing *backing;
	struct memory_page *page;
	uint32_t window, i;

	if (len > MEMORY_PAGE / 4 || !run || run->data || run->backing == MEMORY_ZERO || start < run->start ||
	    run->end - start < MEMORY_PAGE || len > MEMORY_PAGE - (address - start))
		return NULL;
	window = run->first_window + (uint32_t)((address - run->start) / MEMORY_WINDOW);
	if (memory->slot_of[window])
		return NULL;
	i = (uint32_t)(start / MEMORY_PAGE % MEMORY_PAGES);
	page = &memory->pages[i];
	at = (uint64_t)i * MEMORY_PAGE;
	if (page->start != start) {
		if (memory->page_window == window)
			return NULL;
		memory->page_window = window;
		backing = &memory->backings.items[run->backing];
		page->start = start;
		page->valid = (uint32_t)backing->fill(backing->context, start, run->offset + (start - run->start),
						      memory->page_bytes + at, MEMORY_PAGE);
	}
	return address - start + len <= page->valid ? memory->page_bytes + at + (address - start) : NULL;
}

size_t memory_read(struct memory *memory, uint64_t address, void *buffer, size_t len)
{
	const uint8_t *bytes = find_recent(memory, address, len);
	size_t done = 0;

	if (!bytes && len <= MEMORY_PAGE / 4)
		bytes = get_page(memory, find_run(memory, address), address, len);
	if (bytes) {
		memcpy(buffer, bytes, len);
		return len;
	}
	while (done < len) {
		size_t span, rest = len - done;
		const void *p = memory_span(memory, address + done, &span);

		if (!p)
			break;
		if (span > rest)
			span = rest;
		memcpy((uint8_t *)buffer + done, p, span);
		done += span;
	}
	return done;
}

const void *memory_get_slow_(struct memory *memory, uint64_t address, size_t len, void *scratch)
{
	const struct memory_run *run;
	const uint8_t *page;
	size_t span;
	const void *p = find_recent(memory, address, len);

	if (p)
		return p;
	run = find_run(memory, address);
	if (run && run->data && len <= run->end - address)
		return run->data + (address - run->start);
	page = get_page(memory, run, address, len);
	if (page) /* its place may be taken at the next read: the caller gets a copy */
		return memcpy(scratch, page, len);
	p = memory_span(memory, address, &span);
	if (!p)
		return NULL;
	if (span >= len)
		return p;
	return memory_read(memory, address, scratch, len) == len ? scratch : NULL;
}
