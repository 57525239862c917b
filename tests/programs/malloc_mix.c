/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that knows its heap. Threads allocate, free (each other's blocks too), reallocate and align, in
 * a way that only the seed decides; then nothing is allocated any more, malloc_info() is printed, and every
 * address that is live ("live ADDRESS SIZE") or was freed ("freed ADDRESS SIZE"), and the process pauses.
 *
 *	malloc_mix THREADS SEED [OPTION...]
 *
 *	fixed	mallopt: a fixed mmap threshold, so that many blocks are mappings of their own
 *	fast	mallopt: fastbins up to 160 bytes
 *	foreign	memory is taken from sbrk() behind malloc's back, twice
 *	nobrk	brk is made to fail: the main arena gets its memory by mmap
 *	trim	malloc_trim(0) at the end
 *	fork	the child of a fork is what is printed and pauses
 *	tls	each thread has a few pointers to its blocks in thread-local variables
 *
 * Builds with any libc from 2.27 on, dynamic and static: cc -O1 -pthread malloc_mix.c
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

#define MOST_THREADS 64
#define SLOTS 1500
#define FREED 6000
#define TLS_POINTERS 5

struct block {
	char *p;
	size_t n;
};

struct worker {
	pthread_t thread;
	uint64_t random;
	unsigned number;
	struct block live[SLOTS], freed[FREED];
	size_t n_freed;
	unsigned long remapped;
};

static struct worker workers[MOST_THREADS + 1]; /* the last is the main thread's */
static unsigned n_workers;
static pthread_barrier_t barrier;
static bool opt_fixed, opt_fast, opt_foreign, opt_nobrk, opt_trim, opt_fork, opt_tls;
static __thread char *tls_pointers[TLS_POINTERS];

/* ---- printing without malloc -------------------------------------------------- */

static char out[1 << 16];
static size_t out_len;

static void flush(void)
{
	for (size_t done = 0; done < out_len;) {
		ssize_t n = write(1, out + done, out_len - done);

		if (n <= 0)
			_exit(1);
		done += (size_t)n;
	}
	out_len = 0;
}

static void put(const char *text)
{
	size_t n = strlen(text);

	if (out_len + n > sizeof(out))
		flush();
	memcpy(out + out_len, text, n);
	out_len += n;
}

static void put_number(uint64_t n)
{
	char text[24], *p = text + sizeof(text) - 1;

	*p = '\0';
	do
		*--p = (char)('0' + n % 10);
	while (n /= 10);
	put(p);
}

static void put_blocks(const char *word, const struct block *blocks, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!blocks[i].p)
			continue;
		put(word);
		put_number((uint64_t)(uintptr_t)blocks[i].p);
		put(" ");
		put_number(blocks[i].n);
		put("\n");
	}
}

/* ---- allocating ------------------------------------------------------------------ */

static uint64_t next_random(struct worker *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random;
}

static size_t random_size(struct worker *w)
{
	uint64_t r = next_random(w);

	switch (r % 16) {
	case 0: case 1: case 2: case 3: case 4: case 5:
		return r / 16 % 24;
	case 6: case 7: case 8: case 9: case 10:
		return r / 16 % 200;
	case 11: case 12: case 13:
		return r / 16 % 1100;
	case 14:
		return r / 16 % 9000;
	default:
		return r / 16 % 32 ? r / 16 % 60000 : 100000 + r / 512 % 400000;
	}
}

static void note_freed(struct worker *w, struct block block)
{
	if (block.p && w->n_freed < FREED)
		w->freed[w->n_freed++] = block;
}

static struct block allocate(struct worker *w)
{
	struct block b = { NULL, random_size(w) };
	size_t align = (size_t)32 << next_random(w) % 9;

	switch (next_random(w) % 8) {
	case 0:
		b.p = calloc(1, b.n);
		break;
	case 1:
		b.p = memalign(align, b.n);
		break;
	case 2:
		b.p = opt_fixed && next_random(w) % 16 == 0 ? memalign((size_t)2 << 20, b.n) : malloc(b.n);
		break;
	default:
		b.p = malloc(b.n);
	}
	if (!b.p)
		abort();
	memset(b.p, (int)(0x20 + next_random(w) % 0x60), b.n < 4096 ? b.n : 4096);
	return b;
}

/* Of the chunk: its size and flags, 2 for one that is a mapping of its own. */
static size_t size_word(const char *p)
{
	size_t word;

	memcpy(&word, p - sizeof(word), sizeof(word));
	return word;
}

static void reallocate(struct worker *w, struct block *block)
{
	struct block old = *block;
	size_t size = size_word(old.p);

	block->n = random_size(w) + 1;
	block->p = realloc(old.p, block->n);
	if (!block->p)
		abort();
	if (size & size_word(block->p) & 2 && size != size_word(block->p))
		w->remapped++;
	if (block->p != old.p)
		note_freed(w, old);
}

/* Some rounds over all slots of a worker, which may be another's than the thread that does it. */
static void work(struct worker *w, struct worker *slots, unsigned rounds, unsigned keep)
{
	for (unsigned i = 0; i < rounds; i++) {
		struct block *block = &slots->live[next_random(w) % SLOTS];

		if (!block->p) {
			*block = allocate(w);
		} else if (next_random(w) % 100 < keep) {
			reallocate(w, block);
		} else {
			free(block->p);
			note_freed(w, *block);
			block->p = NULL;
		}
	}
}

static void set_tls(struct worker *w)
{
	for (unsigned i = 0, k = 0; opt_tls && i < SLOTS && k < TLS_POINTERS; i++)
		if (w->live[i].p && w->live[i].n >= 640)
			tls_pointers[k++] = w->live[i].p;
}

static void *run(void *argument)
{
	struct worker *w = argument;

	pthread_barrier_wait(&barrier); /* until then libc itself allocates, for new threads */
	work(w, w, SLOTS * 2, 10);
	pthread_barrier_wait(&barrier);
	work(w, &workers[(w->number + 1) % n_workers], SLOTS * 2, 20);
	pthread_barrier_wait(&barrier);
	work(w, w, SLOTS, 30);
	set_tls(w);
	pthread_barrier_wait(&barrier);
	for (;;)
		pause();
	return NULL;
}

/* Threads that are gone again: what they had in their tcaches is back in its arena. */
static void *run_shortly(void *argument)
{
	struct worker *w = argument;
	void *p[40];

	for (unsigned i = 0; i < 40; i++)
		p[i] = malloc(24 + i % 4 * 16);
	for (unsigned i = 0; i < 40; i++) {
		note_freed(w, (struct block){ p[i], 24 });
		free(p[i]);
	}
	return NULL;
}

static void start_threads(uint64_t seed)
{
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 1 << 18);
	pthread_barrier_init(&barrier, NULL, n_workers + 1);
	for (unsigned i = 0; i <= MOST_THREADS; i++) {
		workers[i].number = i;
		workers[i].random = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) + i * 77777 + 1;
	}
	for (unsigned i = 0; i < n_workers; i++)
		if (pthread_create(&workers[i].thread, &attributes, run, &workers[i]))
			abort();
	for (unsigned i = 0; i < 3; i++) {
		pthread_t thread;

		if (pthread_create(&thread, &attributes, run_shortly, &workers[MOST_THREADS]))
			abort();
		pthread_join(thread, NULL);
	}
}

/* ---- options ------------------------------------------------------------------------ */

static void take_foreign(size_t n)
{
	char *p;

	if (!opt_foreign)
		return;
	p = sbrk((intptr_t)n);
	if (p == (char *)-1)
		abort();
	memset(p, 0x21, n); /* looks like sizes of chunks, to make it harder */
	put("foreign ");
	put_number((uint64_t)(uintptr_t)p);
	put(" ");
	put_number(n);
	put("\n");
}

static void block_brk(void)
{
	uintptr_t end = ((uintptr_t)sbrk(0) + 4095) & ~(uintptr_t)4095;

	if (!opt_nobrk)
		return;
	if (mmap((void *)end, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		abort();
}

static void parse(int argc, char **argv)
{
	static const struct {
		const char *name;
		bool *set;
	} options[] = {
		{ "fixed", &opt_fixed }, { "fast", &opt_fast }, { "foreign", &opt_foreign }, { "nobrk", &opt_nobrk },
		{ "trim", &opt_trim },   { "fork", &opt_fork }, { "tls", &opt_tls },
	};

	for (int i = 3; i < argc; i++) {
		size_t k = 0;

		while (k < sizeof(options) / sizeof(*options) && strcmp(options[k].name, argv[i]) != 0)
			k++;
		if (k == sizeof(options) / sizeof(*options)) {
			fprintf(stderr, "malloc_mix: unknown option %s\n", argv[i]);
			exit(2);
		}
		*options[k].set = true;
	}
}

static void print_all(FILE *info)
{
	unsigned long remapped = 0;

	put("pid ");
	put_number((uint64_t)getpid());
	put("\n");
	flush();
	malloc_info(0, info);
	fflush(info);
	for (unsigned i = 0; i <= MOST_THREADS; i++) {
		put_blocks("live ", workers[i].live, SLOTS);
		put_blocks("freed ", workers[i].freed, workers[i].n_freed);
		remapped += workers[i].remapped;
	}
	put("remapped ");
	put_number(remapped);
	put("\nREADY\n");
	flush();
}

int main(int argc, char **argv)
{
	static char info_buffer[4096];
	struct worker *own = &workers[MOST_THREADS];
	FILE *info;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (argc < 3)
		return 2;
	n_workers = (unsigned)atoi(argv[1]) % (MOST_THREADS + 1);
	parse(argc, argv);
	if (opt_fixed)
		mallopt(M_MMAP_THRESHOLD, 65536);
	if (opt_fast)
		mallopt(M_MXFAST, 160);
	block_brk();
	info = fdopen(dup(1), "w");
	if (!info || setvbuf(info, info_buffer, _IOFBF, sizeof(info_buffer)))
		return 1;
	start_threads((uint64_t)atoi(argv[2]));
	pthread_barrier_wait(&barrier);
	work(own, own, SLOTS, 10);
	take_foreign(12352);
	for (unsigned i = 0; i < 2; i++) {
		pthread_barrier_wait(&barrier);
		work(own, own, SLOTS * 2, 20);
	}
	take_foreign(8192);
	pthread_barrier_wait(&barrier);
	work(own, own, SLOTS, 10);
	set_tls(own);
	if (opt_trim)
		malloc_trim(0);
	if (opt_fork && fork() != 0)
		for (;;)
			pause();
	if (opt_fork)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	print_all(info);
	for (;;)
		pause();
}
