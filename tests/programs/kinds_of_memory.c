/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kinds_of_memory KIND: a process that holds one odd kind of memory, for the balance tests. It prints READY and
 * what the test has to know as JSON, or SKIP and why this kernel can't, and stays until its input ends.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

#define PAGE 4096u
#define MIB (1024ul * 1024)

static void skip(const char *why)
{
	printf("SKIP %s: %s\n", why, strerror(errno));
	exit(0);
}

static char *map(size_t size, int protection, int flags)
{
	char *p = mmap(NULL, size, protection, flags | (flags & MAP_TYPE ? 0 : MAP_PRIVATE), -1, 0);

	if (p == MAP_FAILED)
		skip("mmap");
	return p;
}

static char *map_rw(size_t size)
{
	return map(size, PROT_READ | PROT_WRITE, MAP_ANONYMOUS);
}

/* Writes one byte in every `step` bytes. */
static void touch(char *p, size_t size, size_t step)
{
	for (size_t i = 0; i < size; i += step)
		p[i] = 1;
}

static int temporary_file(size_t size)
{
	char name[] = "/tmp/kinds-of-memory-XXXXXX";
	int fd = mkstemp(name);

	if (fd < 0 || ftruncate(fd, (off_t)size) != 0)
		skip("a temporary file");
	unlink(name);
	return fd;
}

/* ---- kinds -------------------------------------------------------------- */

static pthread_barrier_t all_started;

static void *thread(void *unused)
{
	char buffer[3 * PAGE];

	for (int i = 0; i < 100; i++)
		memset(malloc((size_t)i * 40 + 1), 1, (size_t)i * 40 + 1);
	touch(buffer, sizeof(buffer), PAGE);
	pthread_barrier_wait(&all_started);
	for (;;)
		pause();
	return unused;
}

static void threads(void)
{
	pthread_t id;

	pthread_barrier_init(&all_started, NULL, 65);
	for (int i = 0; i < 64; i++)
		if (pthread_create(&id, NULL, thread, NULL) != 0)
			skip("pthread_create");
	pthread_barrier_wait(&all_started);
}

/* The child has the parent's pages, a few of them written since. */
static void forked(void)
{
	char *p = map_rw(16 * MIB);
	int started[2];
	pid_t child;

	touch(p, 16 * MIB, PAGE);
	if (pipe(started) != 0 || (child = fork()) < 0)
		skip("fork");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		touch(p, 4 * MIB, 2 * PAGE);
		if (write(started[1], "x", 1) == 1)
			for (;;)
				pause();
		_exit(1);
	}
	if (read(started[0], p, 1) != 1)
		skip("the child");
	printf("READY {\"child\": %d}\n", child);
}

static void zero_page(void)
{
	volatile char *p = map_rw(8 * MIB);

	for (size_t i = 0; i < 1000; i++)
		(void)p[i * PAGE];
	for (size_t i = 0; i < 1500; i += 3)
		p[i * PAGE] = 1;
}

static void shared(void)
{
	int fd = temporary_file(4 * MIB), id = shmget(IPC_PRIVATE, 2 * MIB, IPC_CREAT | 0600);
	char *file = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), *segment;

	touch(map(8 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS), 8 * MIB, 2 * PAGE);
	if (file == MAP_FAILED)
		skip("a shared file mapping");
	touch(file, 3 * MIB, PAGE);
	if (id < 0 || (segment = shmat(id, NULL, 0)) == (void *)-1)
		return;
	shmctl(id, IPC_RMID, NULL);
	touch(segment, MIB, PAGE);
}

/* Pages of a private file mapping that were only read, that were written, and that were never touched. */
static void private_file(void)
{
	char *p = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, temporary_file(4 * MIB), 0);

	if (p == MAP_FAILED)
		skip("a private file mapping");
	for (size_t i = 0; i < 300; i++)
		(void)((volatile char *)p)[i * PAGE];
	touch(p + MIB / 2, MIB, PAGE);
}

static void huge_pages(void)
{
	char *p = map_rw(34 * MIB);

	p += -(unsigned long)p % (2 * MIB);
	if (madvise(p, 32 * MIB, MADV_HUGEPAGE) != 0)
		skip("MADV_HUGEPAGE");
	touch(p, 32 * MIB, 4 * MIB);
	munmap(p + 9 * MIB, PAGE); /* in the middle of one that may be a huge page */
}

static void hugetlb(void)
{
	touch(map(4 * MIB, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_HUGETLB), 2 * MIB, PAGE);
}

static void reserve(void)
{
	size_t size = 1ul << 40;
	char *p = map(size, PROT_NONE, MAP_ANONYMOUS | MAP_NORESERVE);

	for (size_t at = size / 7; at + MIB < size; at += size / 7) {
		char *window = p + at / PAGE * PAGE;

		if (mprotect(window, 16 * PAGE, PROT_READ | PROT_WRITE) != 0)
			skip("mprotect");
		touch(window, 8 * PAGE, PAGE);
	}
}

static void locked(void)
{
	if (mlock(map_rw(2 * MIB), 2 * MIB) != 0)
		skip("mlock");
}

static void swapped(void)
{
	char *p = map_rw(16 * MIB);

	touch(p, 16 * MIB, PAGE);
	if (madvise(p + 4 * MIB, 8 * MIB, MADV_PAGEOUT) != 0)
		skip("MADV_PAGEOUT");
}

static void memfd(void)
{
	int fd = memfd_create("name with\ta tab", 0);
	char *both, *own;

	if (fd < 0 || ftruncate(fd, 4 * MIB) != 0)
		skip("memfd_create");
	both = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	own = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (both == MAP_FAILED || own == MAP_FAILED)
		skip("mapping a memfd");
	touch(both, 2 * MIB, PAGE);
	touch(own + MIB, 2 * MIB, 3 * PAGE);
}

static void guard_pages(void)
{
	char *p = map_rw(4 * MIB);

	touch(p, 4 * MIB, PAGE);
	for (size_t i = 1; i < 64; i++)
		if (madvise(p + i * 16 * PAGE, PAGE, MADV_GUARD_INSTALL) != 0)
			skip("MADV_GUARD_INSTALL");
}

static void many_mappings(void)
{
	char *p = map_rw(20000 * PAGE);

	for (size_t i = 0; i < 20000; i += 2) {
		p[i * PAGE] = 1;
		if (mprotect(p + i * PAGE, PAGE, PROT_READ) != 0)
			skip("mprotect");
	}
}

/* Stack pages that were used once, far below where the stack is now. */
static void deep_stack(void)
{
	volatile char deep[6 * MIB];

	for (size_t i = 0; i < sizeof(deep); i += PAGE)
		deep[i] = 1;
}

static const struct {
	const char *name;
	void (*make)(void);
} kinds[] = {
	{ "threads", threads },	  { "forked", forked },	      { "zero_page", zero_page },
	{ "shared", shared },	  { "private_file", private_file }, { "huge_pages", huge_pages },
	{ "hugetlb", hugetlb },	  { "reserve", reserve },     { "locked", locked },
	{ "swapped", swapped },	  { "memfd", memfd },	      { "guard_pages", guard_pages },
	{ "many_mappings", many_mappings }, { "deep_stack", deep_stack },
};

int main(int argc, char **argv)
{
	char end;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; argc == 2 && i < sizeof(kinds) / sizeof(*kinds); i++) {
		if (strcmp(kinds[i].name, argv[1]) != 0)
			continue;
		kinds[i].make();
		if (kinds[i].make != forked)
			printf("READY {}\n");
		return read(0, &end, 1) == 1;
	}
	return 2;
}
