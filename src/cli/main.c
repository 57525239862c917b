/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

/* A descriptor that is closed would be given to the next file that is opened, and that written to. In its
 * place comes one that can't be written. */
static void fill_standard_descriptors(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd)
			_exit(STATUS_FAILED);
}

static const char *next_command(size_t i)
{
	return commands[i] ? commands[i]->name : NULL;
}

/* The first word is a command, or the target of a census. */
static struct fh_error *choose_command(char ***words, size_t *n, const struct command **ret)
{
	const char *first = *n ? (*words)[0] : "", *nearest;

	*ret = command_find(first);
	if (*ret) {
		(*words)++;
		(*n)--;
		return NULL;
	}
	*ret = &cmd_census;
	if (*n == 0 || access(first, F_OK) == 0 || strspn(first, "0123456789") == strlen(first))
		return NULL;
	nearest = nearest_name(first, next_command);
	if (nearest)
		return error_create(FH_ERROR_USAGE, "%s: there is no such command or file; did you mean %s?", first,
				    nearest);
	if (*n > 1)
		return error_create(FH_ERROR_USAGE, "%s: there is no such command or file; see freehold --help", first);
	return NULL; /* whoever opens it says what is wrong */
}

/* Options of one command that another has by another name. */
static const struct {
	size_t wrong, right;
} counterparts[] = {
	{ OPTION_LIMIT, OPTION_TOP },
	{ OPTION_TOP, OPTION_LIMIT },
};

static struct fh_error *check_usage(const struct command *command, const struct settings *settings, size_t n)
{
	unsigned wrong = settings->given & ~(command->options | OPTIONS_OF_ALL);

	for (size_t i = 0; i < N_OPTIONS; i++) {
		if (!(wrong & OPTION_BIT(i)))
			continue;
		for (size_t k = 0; k < sizeof(counterparts) / sizeof(*counterparts); k++)
			if (counterparts[k].wrong == i && command->options & OPTION_BIT(counterparts[k].right))
				return error_create(FH_ERROR_USAGE, "%s has no option --%s; did you mean --%s?",
						    command->name, option_table[i].name,
						    option_table[counterparts[k].right].name);
		return error_create(FH_ERROR_USAGE, "%s has no option --%s; see freehold %s --help", command->name,
				    option_table[i].name, command->name);
	}
	if (n < command->least)
		return error_create(FH_ERROR_USAGE, "%s needs %s; see freehold %s --help", command->name,
				    command->arguments, command->name);
	if (n > command->most)
		return error_create(FH_ERROR_USAGE, "%s takes only %s; see freehold %s --help", command->name,
				    command->arguments, command->name);
	return NULL;
}

static struct fh_error *run(int argc, char **argv, struct session *session, struct settings *settings)
{
	const struct command *command;
	char **words;
	size_t n;

	TRY(options_parse(argc, argv, settings, &words, &n));
	if (given(settings, OPTION_VERSION)) {
		session_init(session, &(struct settings){ .format = &emitter_text });
		emitter_line(&session->emitter, "freehold %s", FH_VERSION);
		return NULL;
	}
	if (n == 0 && given(settings, OPTION_HELP)) {
		session_init(session, &(struct settings){ .format = &emitter_text });
		help_program(&session->emitter);
		return NULL;
	}
	if (n == 0)
		return error_create(FH_ERROR_USAGE, "whose memory? Give the id of a process, or a core file; "
				    "see freehold --help");
	TRY(choose_command(&words, &n, &command));
	if (given(settings, OPTION_HELP)) {
		session_init(session, &(struct settings){ .format = &emitter_text });
		help_command(&session->emitter, command);
		return NULL;
	}
	TRY(check_usage(command, settings, n));
	session_init(session, settings);
	return command->run(session, words, n);
}

/* What has come is shown, then the shell is told as if the signal had ended us. */
static void end_interrupted(struct session *session)
{
	emitter_finish(&session->emitter);
	complain("", "interrupted");
	signal(SIGINT, SIG_DFL);
	raise(SIGINT);
}

static int status_of(const struct fh_error *error)
{
	return error->code == FH_ERROR_USAGE || error->code == FH_ERROR_QUERY ? STATUS_USAGE : STATUS_FAILED;
}

int main(int argc, char **argv)
{
	struct settings settings;
	struct session session = { .emitter.format = &emitter_text };
	struct fh_error *error;
	bool quiet = false;
	int status = STATUS_DONE;

	fill_standard_descriptors();
	signal(SIGXFSZ, SIG_IGN); /* a file that may not become larger is an error of write() */
	setlocale(LC_CTYPE, "");
	error = run(argc, argv, &session, &settings);
	if (!error)
		error = session_finish(&session, &quiet);
	progress_end(&session.progress);
	if (error && error->code == FH_ERROR_INTERRUPTED)
		end_interrupted(&session);
	if (error) {
		if (!quiet)
			complain("", error->message);
		status = status_of(error);
		fh_error_destroy(error);
	} else if (session.damaged || session.info.damaged) {
		status = STATUS_DAMAGED;
	}
	session_deinit(&session);
	return status;
}
