/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pages are there. Since Linux 6.7 one ioctl (PAGEMAP_SCAN) lists them in
 * runs; before, /proc/PID/pagemap is read a page an entry.
 */
#include "source/procfs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/cleanup.h"

/* include/uapi/linux/fs.h of Linux 6.18; Debian 12 builds with the headers of 6.1. */
struct scan_region {
	uint64_t start, end, categories;
};

struct scan_arguments {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};

#define PAGEMAP_SCAN_IOCTL _IOWR('f', 16, struct scan_arguments)
#define SCAN_FILE (1u << 2)
#define SCAN_PRESENT (1u << 3)
#define SCAN_SWAPPED (1u << 4)
#define SCAN_ZERO (1u << 5)
#define SCAN_GUARD (1u << 8) /* Linux 6.16 */

static bool add_run(page_runs *runs, uint64_t start, uint64_t end, unsigned flags)
{
	if (runs->len && vec_last(runs)->end == start && vec_last(runs)->flags == flags) {
		vec_last(runs)->end = end;
		return true;
	}
	return vec_push(runs, (struct page_run){ start, end, flags });
}

static unsigned flags_of_scan(uint64_t categories)
{
	if (categories & SCAN_GUARD)
		return 0;
	return (categories & SCAN_PRESENT ? PAGE_PRESENT : 0) | (categories & SCAN_SWAPPED ? PAGE_SWAPPED : 0) |
	       (categories & SCAN_FILE ? PAGE_FILE : 0) | (categories & SCAN_ZERO ? PAGE_ZERO : 0);
}

/* False, with errno, when the kernel can't. */
static bool scan_range(int fd, uint64_t start, uint64_t end, uint64_t guard, page_runs *runs)
{
	static const size_t room = 4096;
	CLEANUP_FREE struct scan_region *regions = malloc(room * sizeof(*regions));

	if (!regions)
		return errno = ENOMEM, false;
	while (start < end) {
		struct scan_arguments arguments = {
			.size = sizeof(arguments), .start = start, .end = end,
			.vec = (uintptr_t)regions, .vec_len = room,
			.category_anyof_mask = SCAN_PRESENT | SCAN_SWAPPED,
			.return_mask = SCAN_PRESENT | SCAN_SWAPPED | SCAN_FILE | SCAN_ZERO | guard,
		};
		int n = ioctl(fd, PAGEMAP_SCAN_IOCTL, &arguments);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		for (int i = 0; i < n; i++) {
			unsigned flags = flags_of_scan(regions[i].categories);

			if (flags && !add_run(runs, regions[i].start, regions[i].end, flags))
				return errno = ENOMEM, false;
		}
		/* walk_end can lag behind (it keeps the place where the kernel's own buffer was full
		 * last): a vector that isn't full means that all was seen. */
		if ((size_t)n < room)
			break;
		start = regions[n - 1].end;
	}
	return true;
}

/* One entry a page, 8 bytes: bit 63 present, 62 swapped, 61 file or shared, 56 mapped only here. */
static struct fh_error *read_entries(int fd, const struct mapping *mapping, page_runs *runs)
{
	uint64_t entries[8192];

	for (uint64_t at = mapping->start; at < mapping->end;) {
		size_t want = (mapping->end - at) / PAGE;
		ssize_t got;

		if (want > sizeof(entries) / sizeof(*entries))
			want = sizeof(entries) / sizeof(*entries);
		got = pread(fd, entries, want * 8, (off_t)(at / PAGE * 8));
		if (got <= 0) /* vsyscall lies outside of the page map */
			return NULL;
		for (size_t i = 0; i < (size_t)got / 8; i++, at += PAGE) {
			uint64_t e = entries[i];
			unsigned flags = (e >> 63 & 1 ? PAGE_PRESENT : 0) | (e >> 62 & 1 ? PAGE_SWAPPED : 0) |
					 (e >> 61 & 1 ? PAGE_FILE : 0);

			/* The page of zeros looks like a page that a fork shares. */
			if (flags == PAGE_PRESENT && !(e >> 56 & 1))
				flags |= PAGE_MAYBE_ZERO;
			if (flags & (PAGE_PRESENT | PAGE_SWAPPED) && !add_run(runs, at, at + PAGE, flags))
				return error_no_memory();
		}
	}
	return NULL;
}

struct fh_error *procfs_pages(int fd, const struct source *source, page_runs *runs, bool *ret_exact)
{
	uint64_t top = (UINT64_C(1) << 47) - PAGE; /* TASK_SIZE_MAX with four levels of page tables */

	for (size_t i = 0; i < source->mappings.len; i++)
		if (source->mappings.items[i].end > top && source->mappings.items[i].end >> 56 == 0)
			top = source->mappings.items[i].end;
	*ret_exact = true;
	if (scan_range(fd, 0, top, SCAN_GUARD, runs))
		return NULL;
	runs->len = 0;
	if (errno == EINVAL && scan_range(fd, 0, top, 0, runs))
		return NULL;
	if (errno == ENOMEM)
		return error_no_memory();
	*ret_exact = false;
	runs->len = 0;
	for (size_t i = 0; i < source->mappings.len; i++)
		if (source->mappings.items[i].start < top)
			TRY(read_entries(fd, &source->mappings.items[i], runs));
	return NULL;
}

/* ---- agreeing with smaps ------------------------------------------------- */

static const struct smaps_entry *find_entry(const smaps_entries *entries, const struct mapping *mapping)
{
	size_t i = vec_after(entries, .start, mapping->start);
	const struct smaps_entry *e = i ? &entries->items[i - 1] : NULL;

	return e && e->start == mapping->start && e->end == mapping->end ? e : NULL;
}

/* Appends to `set` what the page runs say of a mapping: the pages with flag `want`, until `target`
 * bytes are reached; pages that only may count come last. Missing bytes are put on pages that the
 * page map doesn't list (shared memory that is swapped out, for one). */
static bool settle_one(const struct mapping *mapping, const struct page_run *runs, size_t n, unsigned want,
		       uint64_t target, struct ranges *set)
{
	uint64_t certain = 0, maybe = 0, gaps;

	for (size_t i = 0; i < n; i++) {
		if (!(runs[i].flags & want) || runs[i].flags & PAGE_ZERO)
			continue;
		if (runs[i].flags & PAGE_MAYBE_ZERO)
			maybe += runs[i].end - runs[i].start;
		else
			certain += runs[i].end - runs[i].start;
	}
	if (certain > target)
		certain = target;
	if (maybe > target - certain)
		maybe = target - certain;
	gaps = target - certain - maybe;
	for (uint64_t at = mapping->start, i = 0; at < mapping->end;) {
		uint64_t end = mapping->end, *left = &gaps;

		if (i < n && runs[i].start > at) {
			end = runs[i].start;
		} else if (i < n) {
			end = runs[i].end;
			if (runs[i].flags & want && !(runs[i].flags & PAGE_ZERO))
				left = runs[i].flags & PAGE_MAYBE_ZERO ? &maybe : &certain;
			i++;
		}
		if (*left) {
			uint64_t take = end - at < *left ? end - at : *left;

			*left -= take;
			if (!ranges_append(set, at, at + take))
				return false;
		}
		at = end;
	}
	return true;
}

static uint64_t count_flag(const struct page_run *runs, size_t n, unsigned want)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		if (runs[i].flags & want && !(runs[i].flags & PAGE_ZERO))
			sum += runs[i].end - runs[i].start;
	return sum;
}

/* Runs go over the borders of mappings that touch: cuts them there. */
static bool cut_runs(const struct source *source, const page_runs *runs, page_runs *ret)
{
	size_t r = 0;

	for (size_t i = 0; i < source->mappings.len; i++) {
		const struct mapping *m = &source->mappings.items[i];

		while (r < runs->len && runs->items[r].end <= m->start)
			r++;
		for (size_t k = r; k < runs->len && runs->items[k].start < m->end; k++) {
			struct page_run run = runs->items[k];

			if (run.start < m->start)
				run.start = m->start;
			if (run.end > m->end)
				run.end = m->end;
			if (!vec_push(ret, run))
				return false;
		}
	}
	return true;
}

struct fh_error *procfs_settle(struct source *source, page_runs *runs, const smaps_entries *smaps,
			       bool exact)
{
	page_runs cut = { 0 };
	size_t first = 0;

	if (!cut_runs(source, runs, &cut)) {
		vec_free(&cut);
		return error_no_memory();
	}
	vec_free(runs);
	*runs = cut;
	for (size_t i = 0; i < source->mappings.len; i++) {
		struct mapping *m = &source->mappings.items[i];
		const struct smaps_entry *entry = find_entry(smaps, m);
		size_t n = 0;

		while (first + n < runs->len && runs->items[first + n].start < m->end)
			n++;
		m->resident = count_flag(runs->items + first, n, PAGE_PRESENT);
		m->swapped = count_flag(runs->items + first, n, PAGE_SWAPPED);
		if (entry && (!exact || entry->special)) {
			m->resident = entry->rss;
			m->swapped = entry->swap;
		} else if (entry && m->flags & MAPPING_SHARED) {
			m->swapped = entry->swap; /* swapped shared memory is in no page map */
		}
		if (m->resident > m->end - m->start)
			m->resident = m->end - m->start;
		if (m->swapped > m->end - m->start)
			m->swapped = m->end - m->start;
		if (!settle_one(m, runs->items + first, n, PAGE_PRESENT, m->resident, &source->resident) ||
		    !settle_one(m, runs->items + first, n, PAGE_SWAPPED, m->swapped, &source->swapped))
			return error_no_memory();
		source->os_virtual += m->end - m->start;
		source->os_resident += m->resident;
		source->os_swapped += m->swapped;
		first += n;
	}
	source->has_residency = true;
	return NULL;
}
