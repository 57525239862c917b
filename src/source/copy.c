/* SPDX-License-Identifier: Apache-2.0 */
#include "source/copy.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define HUGE (UINT64_C(2) << 20)
#define BATCH 256 /* ranges a call; the kernel takes up to 1024 */
#define BATCH_BYTES (UINT64_C(64) << 20)
#define RUN_BYTES (UINT64_C(16) << 20)

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

static void touch(uint8_t *bytes, size_t len)
{
	if (len && madvise(bytes, len, MADV_POPULATE_WRITE) != 0)
		for (size_t i = 0; i < len; i += 4096)
			((volatile uint8_t *)bytes)[i] = 0;
}

struct fh_error *copy_init(struct copy *copy, size_t expected, size_t most)
{
	size_t size = round_up(most < expected ? expected : most, HUGE) + HUGE;
	void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			    -1, 0);

	*copy = (struct copy){ 0 };
	if (mapped == MAP_FAILED)
		return error_no_memory();
	copy->bytes = mapped;
	copy->size = size;
	copy->touched = round_up(expected, HUGE);
	if (copy->touched > size)
		copy->touched = size;
	madvise(mapped, size, MADV_HUGEPAGE);
	touch(copy->bytes, copy->touched);
	return NULL;
}

void copy_deinit(struct copy *copy)
{
	if (copy->bytes)
		munmap(copy->bytes, copy->size);
	vec_free(&copy->runs);
	*copy = (struct copy){ 0 };
}

bool copy_add(struct copy *copy, uint64_t start, uint64_t end)
{
	if (end - start > copy->size - copy->used)
		return false;
	/* Runs are kept short enough to be shared between processors. */
	if (copy->runs.len && vec_last(&copy->runs)->end == start &&
	    end - vec_last(&copy->runs)->start <= RUN_BYTES) {
		vec_last(&copy->runs)->end = end;
	} else if (!vec_push(&copy->runs, (struct copy_run){ .start = start, .end = end,
							     .to = copy->bytes + copy->used })) {
		return false;
	}
	copy->used += end - start;
	return true;
}

/* A share of the runs, for one thread. */
struct share {
	struct copy_run *runs;
	size_t n;
	pid_t pid;
	int mem_fd;
	pthread_t thread;
};

/* What process_vm_readv won't read (pages without PROT_READ), /proc/PID/mem will. */
static void copy_slowly(const struct share *share, struct copy_run *run)
{
	while (run->start + run->copied < run->end) {
		ssize_t n = pread(share->mem_fd, run->to + run->copied, run->end - run->start - run->copied,
				  (off_t)(run->start + run->copied));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		run->copied += (uint64_t)n;
	}
}

/* Copies a batch of runs (there is one at least) with one call; returns how many of them it dealt with. */
static size_t copy_batch(const struct share *share, struct copy_run *runs, size_t n)
{
	struct iovec local[BATCH], remote[BATCH];
	uint64_t bytes = 0;
	size_t k = 0;
	ssize_t got;

	do {
		uint64_t len = runs[k].end - runs[k].start - runs[k].copied;

		if (len > BATCH_BYTES)
			len = BATCH_BYTES;
		local[k] = (struct iovec){ runs[k].to + runs[k].copied, len };
		remote[k] = (struct iovec){ (void *)(uintptr_t)(runs[k].start + runs[k].copied), len };
		bytes += len;
		k++;
	} while (k < n && k < BATCH && bytes < BATCH_BYTES);
	got = process_vm_readv(share->pid, local, k, remote, k, 0);
	if (got <= 0) {
		copy_slowly(share, &runs[0]);
		return 1;
	}
	for (size_t i = 0; i < k; i++) {
		uint64_t take = (uint64_t)got < remote[i].iov_len ? (uint64_t)got : remote[i].iov_len;

		runs[i].copied += take;
		got -= (ssize_t)take;
		if (runs[i].start + runs[i].copied < runs[i].end)
			return i; /* go on from here */
	}
	return k;
}

static void *copy_share(void *argument)
{
	struct share *share = argument;

	for (size_t i = 0; i < share->n;)
		i += copy_batch(share, share->runs + i, share->n - i);
	return NULL;
}

void copy_run_all(struct copy *copy, pid_t pid, int mem_fd)
{
	struct share first = { .runs = copy->runs.items, .n = copy->runs.len, .pid = pid, .mem_fd = mem_fd };
	struct share second = { .pid = pid, .mem_fd = mem_fd };
	cpu_set_t cpus;
	uint64_t half = 0;
	size_t i = 0;

	while (i < copy->runs.len && half < copy->used / 2) {
		half += copy->runs.items[i].end - copy->runs.items[i].start;
		i++;
	}
	if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) > 1 && copy->used > 4 * HUGE) {
		second.runs = copy->runs.items + i;
		second.n = copy->runs.len - i;
		if (second.n && pthread_create(&second.thread, NULL, copy_share, &second) == 0)
			first.n = i;
		else
			second.n = 0;
	}
	copy_share(&first);
	if (second.n)
		pthread_join(second.thread, NULL);
}
