/* SPDX-License-Identifier: Apache-2.0 */
/* Takes queued signals from a child of its own as fast as it can, until a line comes in: then it prints how many were
 * sent and taken, and the sums of their values. */
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t taken;
static volatile long taken_sum;

static struct {
	volatile int stop;
	volatile long sent, sum;
} *shared;

static void take(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	taken++;
	taken_sum += info->si_value.sival_int;
}

static void send_all(pid_t to)
{
	for (int i = 1; !shared->stop; i = i % 1000 + 1) {
		if (sigqueue(to, SIGRTMIN, (union sigval){ .sival_int = i }) == 0) {
			shared->sent++;
			shared->sum += i;
		}
		usleep(20);
	}
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = take, .sa_flags = SA_SIGINFO | SA_RESTART };
	char line[16];
	pid_t child;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	sigaction(SIGRTMIN, &action, NULL);
	child = fork();
	if (child == 0) {
		send_all(getppid());
		return 0;
	}
	puts("READY");
	fflush(stdout);
	if (read(0, line, sizeof(line)) < 0)
		return 1;
	shared->stop = 1;
	waitpid(child, NULL, 0);
	printf("READY [%ld, %ld, %ld, %ld]\n", shared->sent, (long)taken, shared->sum, taken_sum);
	return 0;
}
