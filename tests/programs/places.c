/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target that knows where its memory is: variables of each kind, threads with stacks of several sizes,
 * ended ones, one on a stack of the program's own, and mappings of several kinds. Says so in JSON, as the rest
 * of its READY line, then waits for its standard input to close.
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PR_SET_VMA /* Linux 5.17 */
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

#define THREADS 6
#define USED 100000 /* bytes of stack that each thread certainly uses */

char initialised[300007] = "data";
char zeroed[5000011];
const char constant[200003] = "rodata";
_Thread_local char thread_local_[3001];
static char own_stack[512 * 1024] __attribute__((aligned(4096)));

struct fact {
	pthread_t thread;
	long tid;
	void *stack;
	size_t size, guard;
	char *deep, *local;
};

static struct fact facts[THREADS];
static pthread_barrier_t ready;

static void note_stack(struct fact *fact)
{
	pthread_attr_t attributes;

	pthread_getattr_np(pthread_self(), &attributes);
	pthread_attr_getstack(&attributes, &fact->stack, &fact->size);
	pthread_attr_getguardsize(&attributes, &fact->guard);
	pthread_attr_destroy(&attributes);
	fact->tid = syscall(SYS_gettid);
	memset(thread_local_, 7, sizeof(thread_local_));
	fact->local = thread_local_;
}

static void *run(void *argument)
{
	struct fact *fact = argument;

	note_stack(fact);
	fact->deep = alloca(USED);
	memset(fact->deep, 1, USED);
	pthread_barrier_wait(&ready);
	for (;;)
		pause();
	return fact->deep;
}

static void *end(void *argument)
{
	return argument;
}

static void start_threads(void)
{
	pthread_t ended[2];

	pthread_barrier_init(&ready, NULL, THREADS + 1);
	for (int i = 0; i < 2; i++)
		pthread_create(&ended[i], NULL, end, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(ended[i], NULL);
	for (int i = 0; i < THREADS; i++) {
		pthread_attr_t attributes;

		pthread_attr_init(&attributes);
		pthread_attr_setstacksize(&attributes, (size_t)(256 + 64 * i) * 1024);
		if (i == 1)
			pthread_attr_setguardsize(&attributes, 16 * 4096);
		if (i == 2)
			pthread_attr_setguardsize(&attributes, 0);
		if (i == 3)
			pthread_attr_setstack(&attributes, own_stack, sizeof(own_stack));
		if (pthread_create(&facts[i].thread, &attributes, run, &facts[i]))
			abort();
		pthread_attr_destroy(&attributes);
	}
	pthread_barrier_wait(&ready);
}

static void range(const char *name, const void *start, size_t size)
{
	printf("\"%s\": [%lu, %lu], ", name, (unsigned long)(uintptr_t)start, (unsigned long)size);
}

static void make_mappings(void)
{
	char *named = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *code = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *shared = mmap(NULL, 3 << 16, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char *reserved = mmap(NULL, 1 << 24, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = memfd_create("some memory", 0);
	char *memory;

	if (ftruncate(fd, 5 << 16))
		abort();
	memory = mmap(NULL, 5 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	memset(named, 1, 4096);
	memset(shared, 1, 4096);
	memset(code, 0xc3, 4096);
	memset(memory, 1, 4096);
	printf("\"name_works\": %d, ", prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, named, 1 << 20, "the pool") == 0);
	range("named", named, 1 << 20);
	range("code", code, 1 << 16);
	range("shared", shared, 3 << 16);
	range("reserved", reserved, 1 << 24);
	range("memfd", memory, 5 << 16);
}

int main(void)
{
	char *deep = alloca(USED), line[8];
	struct fact self = { 0 };

	memset(deep, 1, USED);
	memset(zeroed, 1, sizeof(zeroed) / 2);
	note_stack(&self);
	printf("READY {");
	start_threads();
	make_mappings();
	range("initialised", initialised, sizeof(initialised));
	range("zeroed", zeroed, sizeof(zeroed));
	range("constant", constant, sizeof(constant));
	range("main", (void *)(uintptr_t)main, 16);
	range("deep", deep, USED);
	range("local", self.local, sizeof(thread_local_));
	printf("\"threads\": [");
	for (int i = 0; i < THREADS; i++)
		printf("%s{\"tid\": %ld, \"stack\": [%lu, %zu], \"guard\": %zu, \"deep\": [%lu, %d], \"local\": [%lu, %zu]}",
		       i ? ", " : "", facts[i].tid, (unsigned long)(uintptr_t)facts[i].stack, facts[i].size,
		       facts[i].guard, (unsigned long)(uintptr_t)facts[i].deep, USED,
		       (unsigned long)(uintptr_t)facts[i].local, sizeof(thread_local_));
	printf("]}\n");
	fflush(stdout);
	return fgets(line, sizeof(line), stdin) == NULL ? 0 : 1;
}
