/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stepping through memory by pages without a look at what was never touched: a header of malloc is never in a
 * page of zeros, and address space can be reserved by the terabyte.
 */
#ifndef FREEHOLD_ALLOC_GLIBC_SCAN_H
#define FREEHOLD_ALLOC_GLIBC_SCAN_H

#include "source/source.h"

struct scan {
	const struct memory *memory;
	size_t run; /* index; only ever goes up */
};

/* The first page at `from` (a page border) or above, below `end`, whose bytes may be other than zero; `end` when
 * there is none. Calls with ascending addresses share a scan. */
static inline uint64_t scan_page(struct scan *scan, uint64_t from, uint64_t end)
{
	const struct memory_run *runs = scan->memory->runs.items;

	while (from < end && scan->run < scan->memory->runs.len) {
		const struct memory_run *run = &runs[scan->run];

		if (run->end <= from || (!run->data && run->backing == MEMORY_ZERO)) {
			scan->run++;
			continue;
		}
		if (run->start > from)
			from = (run->start + PAGE - 1) / PAGE * PAGE;
		if (from < run->end)
			return from < end ? from : end;
	}
	return end;
}

/* Anonymous private memory that can be written, the heap of brk included, stacks not. */
static inline bool scan_may_hold_chunks(const struct mapping *m)
{
	return m && !m->inode && !(m->flags & MAPPING_SHARED) && m->flags & MAPPING_WRITE &&
	       (m->path[0] != '[' || __builtin_strcmp(m->path, "[heap]") == 0 ||
		__builtin_strncmp(m->path, "[anon:", 6) == 0);
}

/* The end of the mappings that may hold chunks and follow each other from an address on; 0: it is in none. */
static inline uint64_t scan_reach(const struct source *source, uint64_t address)
{
	const struct mapping *m = source_mapping_at(source, address), *end = vec_last(&source->mappings) + 1;
	uint64_t reach = 0;

	for (; m && m < end && scan_may_hold_chunks(m) && (!reach || m->start == reach); m++)
		reach = m->end;
	return reach;
}

#endif
