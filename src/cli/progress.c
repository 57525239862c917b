/* SPDX-License-Identifier: Apache-2.0 */
/* What is being done, on standard error, when it takes long and a person looks on. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

#define PATIENCE 1.0 /* seconds */
#define INTERVAL 0.1

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void progress_begin(struct progress *progress)
{
	*progress = (struct progress){ .begun = now(), .terminal = isatty(STDERR_FILENO) };
}

void progress_report(void *context, const char *phase, double fraction)
{
	struct progress *progress = context;
	double at;

	if (!progress->terminal)
		return;
	at = now();
	if (at - progress->begun < PATIENCE || at - progress->shown_at < INTERVAL)
		return;
	progress->shown_at = at;
	progress->shown = true;
	if (fraction > 0)
		fprintf(stderr, "\r\033[K%s %3.0f %%, %.0f s", phase, fraction * 100, at - progress->begun);
	else
		fprintf(stderr, "\r\033[K%s, %.0f s", phase, at - progress->begun);
	fflush(stderr);
}

void progress_end(struct progress *progress)
{
	if (progress->shown)
		fputs("\r\033[K", stderr);
	progress->shown = false;
}
