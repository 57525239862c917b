/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a target, wherever they are: a sorted list of runs, each held
 * in memory (the copy of a live process), known to be zero (pages that were
 * never touched), or filled in on demand (core files, mapped files, a process
 * that stands still) through a bounded cache of windows.
 *
 * The cache has a fixed number of slots that were touched once, so that
 * reading a large core costs neither page faults nor memory. Short reads here
 * and there (a list of free chunks in the order of a random past) fetch a
 * page; the second one in a row from the same window fetches the window.
 */
#ifndef FREEHOLD_SOURCE_MEMORY_H
#define FREEHOLD_SOURCE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hashmap.h"
#include "base/vec.h"

#define MEMORY_WINDOW 65536u /* bytes of one cache slot */
#define MEMORY_PAGE 4096u    /* bytes fetched for a short read that comes alone */
#define MEMORY_PAGES 1024u   /* of them are kept */

/* Fetches up to len bytes at an address; returns how many came, from the start. `offset`
 * is the run's offset plus the distance from the run's start. */
typedef size_t memory_fill(void *context, uint64_t address, uint64_t offset, void *buffer, size_t len);

struct memory_run {
	uint64_t start, end;
	const uint8_t *data;   /* held in memory, or NULL */
	uint32_t backing;      /* into backings; MEMORY_ZERO: all zero */
	uint32_t first_window; /* number of its first window; set by memory_seal() */
	uint64_t offset;       /* passed to the backing */
};

#define MEMORY_ZERO UINT32_MAX

struct memory_backing {
	memory_fill *fill;
	void (*release)(void *context); /* may be NULL */
	void *context;
};

struct memory_page {
	uint64_t start; /* address; 0: unused */
	uint32_t valid; /* bytes that could be read */
};

/* A window that was used lately, by the address: saves the look-up of the run. */
struct memory_recent {
	uint64_t base;	 /* address of its first byte */
	uint32_t window; /* as the slot has it, or it is somebody else's by now */
	uint32_t slot;
};

#define MEMORY_RECENT 64u

struct memory_slot {
	uint32_t window; /* that it holds */
	uint32_t valid;  /* bytes that could be read */
	uint64_t stamp;  /* the clock at its last use */
};

struct memory {
	VEC(struct memory_run) runs;
	VEC(struct memory_backing) backings;
	size_t last;             /* index of the run last hit */
	struct hashmap regions;  /* address >> 21 -> index of the first run that reaches into it */
	uint32_t *slot_of;       /* window -> slot plus one; 0: not in the cache */
	uint32_t n_windows;
	struct memory_slot *slots;
	uint8_t *slot_bytes;
	struct memory_recent recent[MEMORY_RECENT];
	uint32_t n_slots, used_slots, hand;
	uint64_t clock; /* counts uses of windows */
	struct memory_page *pages; /* by the page's number, modulo MEMORY_PAGES */
	uint8_t *page_bytes;
	uint32_t page_window; /* the window that a page was last fetched from */
};

void memory_init(struct memory *memory);
void memory_deinit(struct memory *memory);

/* A way to get bytes; its number for memory_add_lazy(), or MEMORY_ZERO when out of memory. */
uint32_t memory_add_backing(struct memory *memory, memory_fill *fill, void (*release)(void *),
			    void *context);
/* Ranges may be added in any order; where two overlap, the one that starts first wins.
 * `data` must outlive the memory. False when memory is out. */
bool memory_add_direct(struct memory *memory, uint64_t start, uint64_t end, const void *data);
bool memory_add_zero(struct memory *memory, uint64_t start, uint64_t end);
bool memory_add_lazy(struct memory *memory, uint64_t start, uint64_t end, uint32_t backing,
		     uint64_t offset);
/* Sorts and indexes; needed before the first read. cache_bytes is the size of the window cache. */
struct fh_error *memory_seal(struct memory *memory, size_t cache_bytes);

const void *memory_get_slow_(struct memory *memory, uint64_t address, size_t len, void *scratch);

/*
 * len bytes at an address: a pointer into the copy or the cache where they lie
 * together there, else into scratch (at least len bytes), where they were
 * gathered. NULL when any of them can't be read. Pointers stay valid until 16
 * further windows were used: use them at once.
 */
static inline const void *memory_get(struct memory *memory, uint64_t address, size_t len,
				     void *scratch)
{
	if (memory->last < memory->runs.len) {
		const struct memory_run *run = &memory->runs.items[memory->last];

		if (run->data && address >= run->start && address < run->end &&
		    len <= run->end - address)
			return run->data + (address - run->start);
	}
	return memory_get_slow_(memory, address, len, scratch);
}

/* Copies what can be read from the start; returns how much that was. */
size_t memory_read(struct memory *memory, uint64_t address, void *buffer, size_t len);

/* The longest pointer at an address without copying: *ret_len is how far it reaches. For scans
 * over whole ranges. NULL when the address can't be read; then *ret_len is how far to skip
 * (0: to the end of the address space). */
const void *memory_span(struct memory *memory, uint64_t address, size_t *ret_len);

#endif
