/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /proc says of a process: mappings, residency, status. Sources:
 * proc_pid_maps(5), proc_pid_smaps(5), Documentation/admin-guide/mm/pagemap.rst
 * (Linux 6.18; PAGEMAP_SCAN since 6.7).
 */
#ifndef FREEHOLD_SOURCE_PROCFS_H
#define FREEHOLD_SOURCE_PROCFS_H

#include "source/source.h"

/* What smaps says of one mapping beyond maps. */
struct smaps_entry {
	uint64_t start, end, rss, swap;
	bool special; /* VmFlags pf, io, ht or gu: present pages are not what Rss counts */
};

typedef VEC(struct smaps_entry) smaps_entries;

/* The whole text of a file of /proc, NUL-terminated; the caller frees it. */
struct fh_error *procfs_read(const char *path, char **ret, size_t *ret_len);

/* The same where a missing file is no failure: NULL then. */
char *procfs_text(const char *path, size_t *ret_len);

/* Appends the mappings that the text of /proc/PID/maps (or smaps) lists. */
struct fh_error *procfs_parse_maps(struct source *source, const char *text, size_t len);
/* Rss, Swap and flags out of the text of /proc/PID/smaps. */
struct fh_error *procfs_parse_smaps(const char *text, smaps_entries *entries);
/* A "Name:  123 kB" line of a text of /proc, in bytes (or plain, without kB); 0 when it isn't there. */
uint64_t procfs_field(const char *text, const char *name);
/* Whether a process or thread is a zombie or gone. */
bool procfs_ended(pid_t task);

/* A range of pages that are present or swapped, as pagemap tells them. */
enum page_flags {
	PAGE_PRESENT = 1,
	PAGE_SWAPPED = 2,
	PAGE_FILE = 4,	     /* of a file or shared memory, not private */
	PAGE_ZERO = 8,	     /* the kernel's shared page of zeros: in no Rss */
	PAGE_MAYBE_ZERO = 16, /* as far as the kernel tells, may be that */
};

struct page_run {
	uint64_t start, end;
	unsigned flags;
};

typedef VEC(struct page_run) page_runs;

/* All page runs of a process, ascending. `fd` is of /proc/PID/pagemap. *ret_exact: zero pages are
 * told apart. Needs no stop, but is only a consistent picture in one. */
struct fh_error *procfs_pages(int fd, const struct source *source, page_runs *runs, bool *ret_exact);

/* Fills in resident, swapped and the sums of the source from page runs. Where smaps differs
 * (it is right), pages are added or dropped until the sums of each mapping are its. */
struct fh_error *procfs_settle(struct source *source, page_runs *runs, const smaps_entries *smaps,
			       bool exact);

/* Bytes that this process may still use, by MemAvailable and its cgroup's limit. */
uint64_t procfs_available_memory(void);

#endif
