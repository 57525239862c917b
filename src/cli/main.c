/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/cli.h"
#include "output/escape.h"

static bool print_warning(void *context, const char *text)
{
	(void)context;
	print_error("warning: %s", text);
	return true;
}

static size_t terminal_width(void)
{
	struct winsize size;

	if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
		return size.ws_col;
	return 0;
}

static int report(struct fh_error *error)
{
	int status = error->code == FH_ERROR_USAGE || error->code == FH_ERROR_QUERY ? EXIT_USAGE : EXIT_COULD_NOT;

	progress_clear();
	print_error("%s", error->message);
	fh_error_destroy(error);
	return status;
}

static int finish(struct invocation *invocation)
{
	struct fh_info info;
	bool written = emitter_finish(&invocation->emitter);
	int error = invocation->emitter.error;

	emitter_deinit(&invocation->emitter);
	if (!written && error != EPIPE) {
		print_error("can't write the output: %s", strerror(error));
		return EXIT_COULD_NOT;
	}
	fh_census_info(invocation->census, &info);
	return info.damaged ? EXIT_DAMAGED : EXIT_DONE;
}

static int run(struct invocation *invocation)
{
	struct fh_error *error = fh_census_open(invocation->target, &invocation->options, &invocation->census);
	int status;

	if (error)
		return report(error);
	progress_clear();
	fh_census_each_warning(invocation->census, print_warning, NULL);
	emitter_init(&invocation->emitter, invocation->format, STDOUT_FILENO);
	invocation->emitter.width = terminal_width();
	invocation->emitter.utf8 = true;
	error = invocation->command->run(invocation);
	if (error) {
		emitter_deinit(&invocation->emitter);
		status = report(error);
	} else {
		status = finish(invocation);
	}
	fh_census_destroy(invocation->census);
	return status;
}

int main(int argc, char **argv)
{
	struct invocation invocation;

	signal(SIGPIPE, SIG_IGN);
	if (!options_parse(argc, argv, &invocation))
		return EXIT_USAGE;
	if (invocation.version) {
		printf("freehold %s\n", FH_VERSION);
		return EXIT_DONE;
	}
	if (invocation.help) {
		options_help(optind < argc && strcmp(argv[optind], invocation.command->name) == 0 ? invocation.command : NULL);
		return EXIT_DONE;
	}
	invocation.options.progress = progress_show;
	return run(&invocation);
}
