/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* ---- values ------------------------------------------------------------------- */

struct fh_error *parse_number(const char *what, const char *text, uint64_t *ret)
{
	bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	const char *digits = hex ? text + 2 : text;
	char *end;

	errno = 0;
	*ret = strtoull(digits, &end, hex ? 16 : 10);
	if (!isxdigit((unsigned char)*digits) || *end || errno)
		return error_create(FH_ERROR_USAGE, "%s: '%s' is no number: decimal, or hexadecimal with 0x before it",
				    what, text);
	return NULL;
}

static const char *next_format(size_t i)
{
	return emitter_formats[i] ? emitter_formats[i]->name : NULL;
}

static const char *next_grouping(size_t i)
{
	return view_groupings[i] ? view_groupings[i]->name : NULL;
}

/* An error that lists the names that there are. */
static struct fh_error *wrong_value(const char *option, const char *value, const char *(*next)(size_t i))
{
	struct buffer names = { 0 };
	struct fh_error *error;

	for (size_t i = 0; next(i); i++)
		buffer_format(&names, "%s%s", i ? ", " : "", next(i));
	error = error_create(FH_ERROR_USAGE, "--%s: '%s' is none of %s", option, value, buffer_c_string(&names));
	buffer_deinit(&names);
	return error;
}

static struct fh_error *take_format(struct settings *settings, const char *value)
{
	settings->format = emitter_format_find(value);
	return settings->format ? NULL : wrong_value("format", value, next_format);
}

static struct fh_error *take_by(struct settings *settings, const char *value)
{
	settings->by = view_grouping_find(value);
	return settings->by ? NULL : wrong_value("by", value, next_grouping);
}

static struct fh_error *take_sort(struct settings *settings, const char *value)
{
	settings->sort = value;
	return NULL;
}

static struct fh_error *take_exe(struct settings *settings, const char *value)
{
	settings->exe = value;
	return NULL;
}

static struct fh_error *take_sysroot(struct settings *settings, const char *value)
{
	settings->sysroot = value;
	return NULL;
}

static struct fh_error *take_top(struct settings *settings, const char *value)
{
	return parse_number("--top", value, &settings->top);
}

static struct fh_error *take_limit(struct settings *settings, const char *value)
{
	return parse_number("--limit", value, &settings->limit);
}

const struct option_description option_table[N_OPTIONS] = {
	[OPTION_ALL] = { "all", NULL, 'a', "show all rows", NULL },
	[OPTION_BY] = { "by", "WHAT", 'b', "what makes a row (default: detail)", take_by },
	[OPTION_EXE] = { "exe", "FILE", 0, "core files: the executable, where it has moved", take_exe },
	[OPTION_FORMAT] = { "format", "FORMAT", 'f', "how to print it (default: text)", take_format },
	[OPTION_HELP] = { "help", NULL, 'h', "show this help and exit", NULL },
	[OPTION_LIMIT] = { "limit", "N", 'n', "show N blocks at most, 0: all (default: 100)", take_limit },
	[OPTION_LOW_MEMORY] = { "low-memory", NULL, 0,
				"live processes: make no copy; the process waits for the analysis", NULL },
	[OPTION_REVERSE] = { "reverse", NULL, 'r', "the other way round", NULL },
	[OPTION_SORT] = { "sort", "COLUMN", 's', "sort by a column (default: the largest first)", take_sort },
	[OPTION_SWAPPED] = { "swapped", NULL, 0, "also read what is swapped out (this swaps it in)", NULL },
	[OPTION_SYSROOT] = { "sysroot", "DIR", 0, "core files: where the root of their file system is", take_sysroot },
	[OPTION_TOP] = { "top", "N", 't', "show N rows (default: what fits; 0: all)", take_top },
	[OPTION_VERSION] = { "version", NULL, 'V', "show the version and exit", NULL },
};

/* ---- parsing --------------------------------------------------------------------- */

static const char *next_option(size_t i)
{
	return i < N_OPTIONS ? option_table[i].name : NULL;
}

/* Edits (letters added, removed or changed) from one name to another; names are short. */
static size_t distance(const char *a, const char *b)
{
	size_t n = strlen(b), row[64];

	if (n >= sizeof(row) / sizeof(*row))
		return SIZE_MAX;
	for (size_t j = 0; j <= n; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			size_t best = diagonal + (a[i - 1] != b[j - 1]);

			best = row[j] + 1 < best ? row[j] + 1 : best;
			best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
			diagonal = row[j];
			row[j] = best;
		}
	}
	return row[n];
}

const char *nearest_name(const char *wrong, const char *(*next)(size_t i))
{
	const char *best = NULL;
	size_t best_distance = 3; /* more than two slips is another word */

	for (size_t i = 0; next(i); i++) {
		size_t d = distance(wrong, next(i));

		if (d < best_distance && d < strlen(next(i))) {
			best_distance = d;
			best = next(i);
		}
	}
	return best;
}

static struct fh_error *unknown_option(const char *word)
{
	char name[64];
	const char *nearest;

	if (strncmp(word, "--", 2) != 0)
		return error_create(FH_ERROR_USAGE, "%s: there is no such option; see freehold --help", word);
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
	nearest = nearest_name(name, next_option);
	if (nearest)
		return error_create(FH_ERROR_USAGE, "--%s: there is no such option; did you mean --%s?", name, nearest);
	return error_create(FH_ERROR_USAGE, "--%s: there is no such option; see freehold --help", name);
}

/* The tables that getopt_long() wants. */
static void make_getopt(struct option *longs, char *letters)
{
	*letters++ = ':'; /* a missing argument is told apart */
	for (int i = 0; i < N_OPTIONS; i++) {
		const struct option_description *o = &option_table[i];

		longs[i] = (struct option){ o->name, o->argument ? required_argument : no_argument, NULL, 256 + i };
		if (!o->letter)
			continue;
		*letters++ = o->letter;
		if (o->argument)
			*letters++ = ':';
	}
	longs[N_OPTIONS] = (struct option){ 0 };
	*letters = '\0';
}

static int option_of(int code)
{
	if (code >= 256)
		return code - 256;
	for (int i = 0; i < N_OPTIONS; i++)
		if (option_table[i].letter == code)
			return i;
	return -1;
}

/* The message for what getopt_long() refused at argv[at]. */
static struct fh_error *refused_option(int code, char **argv, int at)
{
	char letter[3] = { '-', (char)optopt, '\0' };

	if (code == ':' && option_of(optopt) >= 0)
		return error_create(FH_ERROR_USAGE, "--%s needs a value: %s", option_table[option_of(optopt)].name,
				    option_table[option_of(optopt)].argument);
	if (optopt >= 256) /* a long one without an argument was given one */
		return error_create(FH_ERROR_USAGE, "--%s takes no value", option_table[option_of(optopt)].name);
	return unknown_option(optopt ? letter : argv[at]);
}

struct fh_error *options_parse(int argc, char **argv, struct settings *ret, char ***ret_words, size_t *ret_n)
{
	struct option longs[N_OPTIONS + 1];
	char letters[2 * N_OPTIONS + 2];
	int code;

	*ret = (struct settings){ .format = &emitter_text };
	make_getopt(longs, letters);
	opterr = 0;
	while ((code = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		int id = option_of(code);

		if (code == '?' || code == ':' || id < 0)
			return refused_option(code, argv, optind - 1);
		ret->given |= OPTION_BIT(id);
		if (option_table[id].take)
			TRY(option_table[id].take(ret, optarg));
	}
	*ret_words = argv + optind;
	*ret_n = (size_t)(argc - optind);
	return NULL;
}
