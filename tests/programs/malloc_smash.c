/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process whose heap is damaged in one place, and that knows what is live in it. It prints "smashed ADDRESS" (of
 * the chunk, or the link), "live ADDRESS SIZE" and "freed ADDRESS SIZE" as malloc_mix does, and pauses.
 *
 *	malloc_smash WHAT [thread]	in the main arena, or in a thread's
 *
 *	text	a string runs over the size of the chunk behind it
 *	zero	one byte too many: the low byte of a size becomes 0
 *	swallow	a size takes in three more chunks
 *	link	the forward link of a chunk in a bin is overwritten
 *	circle	a list of the tcache leads into itself
 *	top	the size of top is overwritten
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define BLOCKS 3000
#define VICTIM 1501 /* odd: live */

static struct {
	char *p;
	size_t n;
	int freed;
} blocks[BLOCKS];
static char *held; /* keeps top away from the blocks */
static const char *what;

static size_t size_of(unsigned i)
{
	return 40 + i * 37 % 900;
}

/* The size word of the chunk that a block is in. */
static size_t *size_word(char *p)
{
	return (size_t *)(void *)p - 1;
}

static void fill(void)
{
	for (unsigned i = 0; i < BLOCKS; i++) {
		blocks[i].n = size_of(i);
		blocks[i].p = malloc(blocks[i].n);
		memset(blocks[i].p, 0x61, blocks[i].n);
	}
	held = malloc(500);
	for (unsigned i = 0; i < BLOCKS; i += 2) {
		blocks[i].freed = 1;
		free(blocks[i].p);
	}
}

static char *next_chunk(char *p)
{
	return p + (*size_word(p) & ~(size_t)7);
}

/* The block that is freed last is the first of its list, and links to the one before. (Numbers, not pointers: the
 * blocks are free.) */
static void *make_circle(void)
{
	char *volatile p[2] = { malloc(1000), malloc(1000) };
	volatile uintptr_t first, second;
	uintptr_t link;

	second = (uintptr_t)p[0];
	first = (uintptr_t)p[1];
	free(p[0]);
	free(p[1]);
	memcpy(&link, (void *)first, 8);
	link = link == second ? first : first ^ second >> 12; /* plain, or mangled from 2.32 on */
	memcpy((void *)second, &link, 8);
	return (void *)(second - 16);
}

static void *smash(void)
{
	char *victim = blocks[VICTIM].p, *top;

	if (strcmp(what, "text") == 0) {
		memset(size_word(victim), 'A', 8);
	} else if (strcmp(what, "zero") == 0) {
		*(char *)size_word(victim) = 0;
	} else if (strcmp(what, "swallow") == 0) {
		char *end = next_chunk(next_chunk(next_chunk(next_chunk(victim))));

		*size_word(victim) = (size_t)(end - victim) | (*size_word(victim) & 7);
	} else if (strcmp(what, "link") == 0) {
		unsigned i = VICTIM + 1;

		while (*size_word(next_chunk(blocks[i].p)) & 1) /* looks in use: not in a bin, but in a tcache */
			i += 2;
		memset(blocks[i].p, 'A', 8);
		return blocks[i].p - 16;
	} else if (strcmp(what, "circle") == 0) {
		return make_circle();
	} else if (strcmp(what, "top") == 0) {
		top = malloc(2000);
		top = next_chunk(top);
		*size_word(top) = 0x4141414141414141;
		return top - 16;
	} else {
		exit(2);
	}
	return victim - 16;
}

static void *run(void *unused)
{
	void *smashed;

	fill();
	smashed = smash();
	printf("pid %d\nsmashed %lu\n", (int)getpid(), (unsigned long)(uintptr_t)smashed);
	for (unsigned i = 0; i < BLOCKS; i++)
		printf("%s %lu %zu\n", blocks[i].freed ? "freed" : "live", (unsigned long)(uintptr_t)blocks[i].p,
		       blocks[i].n);
	puts("READY");
	fflush(stdout);
	for (;;)
		pause();
	return unused;
}

int main(int argc, char **argv)
{
	static char buffer[BUFSIZ];
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	if (argc < 2)
		return 2;
	what = argv[1];
	if (argc == 2)
		run(NULL);
	if (pthread_create(&thread, NULL, run, NULL))
		return 1;
	pthread_join(thread, NULL);
}
