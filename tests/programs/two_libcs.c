/* SPDX-License-Identifier: Apache-2.0 */
/* A process with two libcs, the second in a namespace of its own (dlmopen): both have a malloc, and only the first has
 * brk. It prints "live ADDRESS SIZE" and "freed ADDRESS SIZE" for the blocks of both, and pauses. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#define BLOCKS 6000 /* several regions of the 1 MiB that malloc maps where it has no brk */

struct heap {
	void *(*malloc)(size_t);
	void (*free)(void *);
	struct {
		char *p;
		size_t n;
	} blocks[BLOCKS];
};

static struct heap heaps[2];

static size_t size_of(unsigned i)
{
	return 16 + i * 41 % 1500;
}

int main(void)
{
	void *library = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
	static char buffer[BUFSIZ];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	if (!library)
		return 1;
	heaps[0].malloc = malloc;
	heaps[0].free = free;
	heaps[1].malloc = (void *(*)(size_t))dlsym(library, "malloc");
	heaps[1].free = (void (*)(void *))dlsym(library, "free");
	for (unsigned h = 0; h < 2; h++) {
		for (unsigned i = 0; i < BLOCKS; i++) {
			heaps[h].blocks[i].n = size_of(i);
			heaps[h].blocks[i].p = heaps[h].malloc(size_of(i));
		}
		for (unsigned i = 0; i < BLOCKS; i += 3)
			heaps[h].free(heaps[h].blocks[i].p);
	}
	printf("pid %d\n", (int)getpid());
	for (unsigned h = 0; h < 2; h++)
		for (unsigned i = 0; i < BLOCKS; i++)
			printf("%s %lu %zu\n", i % 3 ? "live" : "freed", (unsigned long)heaps[h].blocks[i].p,
			       heaps[h].blocks[i].n);
	puts("READY");
	fflush(stdout);
	for (;;)
		pause();
}
