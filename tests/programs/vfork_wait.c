/* SPDX-License-Identifier: Apache-2.0 */
/* vfork_wait: waits in vfork() for a child that stays until the input ends. */
#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	char c;

	puts("READY");
	fflush(stdout);
	if (vfork() == 0) {
		while (read(0, &c, 1) > 0)
			;
		_exit(0);
	}
	return 0;
}
