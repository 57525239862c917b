/* SPDX-License-Identifier: Apache-2.0 */
/* exec_again: becomes another program, itself, again and again. It prints READY the first time. */
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 2) {
		puts("READY");
		fflush(stdout);
	}
	execl("/proc/self/exe", argv[0], "again", (char *)NULL);
	return 1;
}
