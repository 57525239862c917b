/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <langinfo.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/cli.h"
#include "base/cleanup.h"
#include "output/escape.h"

static bool locale_is_utf8(void)
{
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

void complain(const char *prefix, const char *message)
{
	struct buffer line = { 0 };

	buffer_string(&line, "freehold: ");
	buffer_string(&line, prefix);
	escape_terminal(&line, message, strlen(message), locale_is_utf8());
	fprintf(stderr, "%s\n", buffer_c_string(&line));
	buffer_deinit(&line);
}

void session_init(struct session *session, const struct settings *settings)
{
	struct winsize size;

	*session = (struct session){ .settings = settings };
	emitter_init(&session->emitter, settings->format, STDOUT_FILENO);
	session->emitter.utf8 = locale_is_utf8();
	if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
		session->emitter.width = size.ws_col;
	progress_begin(&session->progress);
}

void session_deinit(struct session *session)
{
	progress_end(&session->progress);
	emitter_deinit(&session->emitter);
	fh_census_destroy(session->census);
}

/* ---- Ctrl-C ------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted;

static void interrupt(int signal_number)
{
	(void)signal_number;
	interrupted = 1;
}

bool session_goes_on(void *context)
{
	struct session *session = *(struct session **)context;

	progress_report(&session->progress, session->doing, 0);
	return !interrupted;
}

/* ---- the target --------------------------------------------------------------------- */

static bool print_warning(void *context, const char *text)
{
	(void)context;
	complain("warning: ", text);
	return true;
}

struct fh_error *session_open(struct session *session, const char *target, bool reads)
{
	const struct settings *settings = session->settings;
	struct fh_options options = {
		.size = sizeof(options),
		.exe = settings->exe,
		.sysroot = settings->sysroot,
		.low_memory = given(settings, OPTION_LOW_MEMORY),
		.swapped = given(settings, OPTION_SWAPPED),
		.progress = progress_report,
		.progress_context = &session->progress,
		.keep_stopped = reads,
	};
	struct fh_error *error = fh_census_open(target, &options, &session->census);

	progress_end(&session->progress);
	if (error)
		return error;
	fh_census_info(session->census, &session->info);
	session->emitter.held = reads && session->info.streamed;
	fh_census_each_warning(session->census, print_warning, NULL);
	/* Once only, so that a second Ctrl-C ends it in any case. */
	sigaction(SIGINT, &(struct sigaction){ .sa_handler = interrupt, .sa_flags = SA_RESETHAND }, NULL);
	return NULL;
}

/* ---- output --------------------------------------------------------------------------- */

static bool emit_warning(void *context, const char *text)
{
	emitter_value(context, NULL, emit_text(text));
	return true;
}

void session_emit_warnings(struct session *session)
{
	emitter_array_begin(&session->emitter, "warnings");
	fh_census_each_warning(session->census, emit_warning, &session->emitter);
	emitter_array_end(&session->emitter);
}

struct fh_error *session_finish(struct session *session, bool *ret_quiet)
{
	int error;

	progress_end(&session->progress);
	if (session->emitter.held) /* let the target go first */
		fh_census_destroy(TAKE(session->census));
	emitter_finish(&session->emitter);
	error = session->emitter.error;
	/* Some file systems tell only at the end that the disk is full. */
	if (!error && close(STDOUT_FILENO) != 0)
		error = errno;
	*ret_quiet = error == EPIPE;
	if (error)
		return error_system(error, "the output could not be written");
	return NULL;
}

void session_escape(const struct session *session, struct buffer *buffer, const char *text)
{
	escape_terminal(buffer, text, strlen(text), session->emitter.utf8);
}

void human_size(struct buffer *buffer, uint64_t bytes)
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double value = (double)bytes / 1024;
	size_t unit = 0;

	if (bytes < 1024) {
		buffer_format(buffer, "%u bytes", (unsigned)bytes);
		return;
	}
	for (; value >= 1023.95 && unit < 5; unit++)
		value /= 1024;
	buffer_format(buffer, "%.1f %s", value, units[unit]);
}

void hexdump_line(struct buffer *buffer, uint64_t address, const uint8_t *bytes, size_t len)
{
	buffer_format(buffer, "%016" PRIx64 " ", address);
	for (size_t i = 0; i < 16; i++) {
		buffer_string(buffer, i == 8 ? " " : "");
		if (i < len)
			buffer_format(buffer, " %02x", bytes[i]);
		else
			buffer_string(buffer, "   ");
	}
	buffer_string(buffer, "  |");
	for (size_t i = 0; i < len; i++)
		buffer_char(buffer, bytes[i] >= ' ' && bytes[i] < 0x7f ? (char)bytes[i] : '.');
	buffer_char(buffer, '|');
}

void hexdump_block(struct session *session, const struct fh_block *block, size_t most,
		   void (*add)(struct emitter *emitter, const char *line))
{
	uint8_t bytes[16];
	struct buffer line = { 0 };
	uint64_t at = block->start + block->head, end = block->end;

	if (at >= end)
		at = block->start;
	if (end - at > most)
		end = at + most;
	while (at < end) {
		size_t n = end - at < sizeof(bytes) ? (size_t)(end - at) : sizeof(bytes);
		size_t got = fh_census_read(session->census, at, bytes, n);

		buffer_clear(&line);
		if (got)
			hexdump_line(&line, at, bytes, got);
		else
			buffer_format(&line, "%016" PRIx64 "  can't be read", at);
		add(&session->emitter, buffer_c_string(&line));
		if (got < n)
			break;
		at += n;
	}
	buffer_deinit(&line);
}
