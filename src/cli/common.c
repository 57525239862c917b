/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "cli/cli.h"
#include "output/escape.h"

void print_error(const char *format, ...)
{
	CLEANUP_FREE char *text = NULL;
	struct buffer escaped = { 0 };
	va_list ap;

	va_start(ap, format);
	if (vasprintf(&text, format, ap) < 0)
		text = NULL;
	va_end(ap);
	escape_terminal(&escaped, text ? text : "", text ? strlen(text) : 0, true);
	fprintf(stderr, "freehold: %s\n", buffer_c_string(&escaped));
	buffer_deinit(&escaped);
}

struct fh_error *parse_number(const char *what, const char *text, uint64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(text, &end, 0);
	if (errno || end == text || *end || text[0] == '-')
		return error_create(FH_ERROR_USAGE, "%s: '%s' is no number; write it as 0x7f12... or in decimal", what, text);
	return NULL;
}

static bool emit_warning(void *context, const char *text)
{
	emitter_value(context, NULL, emit_text(text));
	return true;
}

void emit_warnings(struct invocation *invocation)
{
	emitter_array_begin(&invocation->emitter, "warnings");
	fh_census_each_warning(invocation->census, emit_warning, &invocation->emitter);
	emitter_array_end(&invocation->emitter);
}

void format_bytes(char line[80], const uint8_t *bytes, size_t n, const bool *readable)
{
	char *at = line;

	for (size_t i = 0; i < 16; i++) {
		if (i >= n)
			at += sprintf(at, "   ");
		else if (!readable[i])
			at += sprintf(at, "?? ");
		else
			at += sprintf(at, "%02x ", bytes[i]);
		if (i == 7)
			*at++ = ' ';
	}
	*at++ = '|';
	for (size_t i = 0; i < n && i < 16; i++)
		*at++ = readable[i] && bytes[i] >= 0x20 && bytes[i] < 0x7f ? (char)bytes[i] : '.';
	*at++ = '|';
	*at = '\0';
}

/* ---- progress -------------------------------------------------------------------------- */

static struct timespec began;
static bool shown;

void progress_show(void *context, const char *phase, double fraction)
{
	struct timespec now;

	(void)context;
	if (!isatty(STDERR_FILENO))
		return;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!began.tv_sec)
		began = now;
	if (now.tv_sec - began.tv_sec < 1)
		return;
	if (fraction > 0)
		fprintf(stderr, "\r\033[K%s: %.0f %%", phase, fraction * 100);
	else
		fprintf(stderr, "\r\033[K%s ...", phase);
	shown = true;
}

void progress_clear(void)
{
	if (shown)
		fputs("\r\033[K", stderr);
	shown = false;
}
