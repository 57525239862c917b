/* SPDX-License-Identifier: Apache-2.0 */
/*
 * readv_pass PID PASSES: the yardstick for a pause. Reads all resident private pages of a process with
 * process_vm_readv, into memory made of huge pages that was touched before, and prints what each pass took:
 *
 *	BYTES RUNS MILLISECONDS...
 *
 * Only the reads are timed, not the search for the pages.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096u
#define HUGE_PAGE ((size_t)2 << 20)
#define LONGEST_RUN ((size_t)16 << 20)
#define BATCH 512 /* runs a call */
#define PM_PRESENT (1ull << 63)
#define PM_FILE_OR_SHARED (1ull << 61)

static struct iovec *runs;
static size_t n_runs, room, total;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void add_page(uint64_t address)
{
	struct iovec *last = n_runs ? &runs[n_runs - 1] : NULL;

	total += PAGE;
	if (last && (uintptr_t)last->iov_base + last->iov_len == address && last->iov_len < LONGEST_RUN) {
		last->iov_len += PAGE;
		return;
	}
	if (n_runs == room) {
		room = room ? 2 * room : 4096;
		runs = realloc(runs, room * sizeof(*runs));
		if (!runs)
			fail("realloc");
	}
	runs[n_runs++] = (struct iovec){ (void *)address, PAGE };
}

static void find_in_mapping(int pagemap, uint64_t start, uint64_t end)
{
	static uint64_t entries[65536];

	while (start < end) {
		size_t n = (end - start) / PAGE;
		ssize_t got;

		if (n > sizeof(entries) / sizeof(*entries))
			n = sizeof(entries) / sizeof(*entries);
		got = pread(pagemap, entries, n * 8, (off_t)(start / PAGE * 8));
		if (got < 8) /* vsyscall is in no page map */
			return;
		for (size_t i = 0; i < (size_t)got / 8; i++)
			if (entries[i] & PM_PRESENT && !(entries[i] & PM_FILE_OR_SHARED))
				add_page(start + i * PAGE);
		start += (uint64_t)got / 8 * PAGE;
	}
}

static void find_pages(int pid)
{
	char path[64], line[8192];
	uint64_t start, end;
	FILE *maps;
	int pagemap;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	pagemap = open(path, O_RDONLY);
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "r");
	if (pagemap < 0 || !maps)
		fail(path);
	while (fgets(line, sizeof(line), maps)) {
		char permissions[5];

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &start, &end, permissions) == 3 &&
		    permissions[0] == 'r')
			find_in_mapping(pagemap, start, end);
	}
	fclose(maps);
	close(pagemap);
}

static double one_pass(int pid, char *to)
{
	struct timespec began, ended;

	clock_gettime(CLOCK_MONOTONIC, &began);
	for (size_t i = 0; i < n_runs; i += BATCH) {
		size_t n = n_runs - i < BATCH ? n_runs - i : BATCH;
		struct iovec local = { to, 0 };

		for (size_t k = 0; k < n; k++)
			local.iov_len += runs[i + k].iov_len;
		if (process_vm_readv(pid, &local, 1, &runs[i], n, 0) < 0)
			fail("process_vm_readv");
		to += local.iov_len;
	}
	clock_gettime(CLOCK_MONOTONIC, &ended);
	return (double)(ended.tv_sec - began.tv_sec) * 1e3 + (double)(ended.tv_nsec - began.tv_nsec) / 1e6;
}

int main(int argc, char **argv)
{
	int pid = argc == 3 ? atoi(argv[1]) : 0;
	char *to;

	if (pid <= 0)
		return 2;
	find_pages(pid);
	to = mmap(NULL, total + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (to == MAP_FAILED)
		fail("mmap");
	to += -(uintptr_t)to % HUGE_PAGE;
	madvise(to, total, MADV_HUGEPAGE);
	memset(to, 1, total);
	printf("%zu %zu", total, n_runs);
	for (int i = 0; i < atoi(argv[2]); i++)
		printf(" %.3f", one_pass(pid, to));
	printf("\n");
	return 0;
}
