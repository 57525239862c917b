/* SPDX-License-Identifier: Apache-2.0 */
/*
 * measure FILE COMMAND [ARG...]: runs a command and writes into FILE what it took: seconds, peak memory in bytes, and
 * its exit status. A small program does this because the peak that the kernel keeps for a child counts what its
 * parent had at the fork.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct timespec began, ended;
	struct rusage usage;
	int status;
	FILE *out;
	pid_t pid;

	if (argc < 3 || !(out = fopen(argv[1], "w")))
		return 2;
	clock_gettime(CLOCK_MONOTONIC, &began);
	pid = fork();
	if (pid == 0) {
		execvp(argv[2], argv + 2);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &usage) < 0)
		return 2;
	clock_gettime(CLOCK_MONOTONIC, &ended);
	fprintf(out, "%.4f %ld %d\n",
		(double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9,
		usage.ru_maxrss * 1024, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	return 0;
}
