/* SPDX-License-Identifier: Apache-2.0 */
/* A selection that found nothing because it compares with a name that nothing has: `kind = 'Package'`, where it is
 * '__main__.Package'. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/cli.h"

#define MOST_NAMES 4 /* that are told */

static const char *const columns[] = { "domain", "kind", "detail" };

struct search {
	size_t column; /* in `columns` */
	char *wanted;
	bool exists;
	const char *ends[MOST_NAMES], *holds[MOST_NAMES]; /* names that end with it, and others that come near */
	size_t n_ends, n_holds;
};

static const char *skip_blanks(const char *p)
{
	while (isspace((unsigned char)*p))
		p++;
	return p;
}

/* Past a string that begins here; its contents, if wanted, without the quotes. NULL: it doesn't end. */
static const char *read_string(const char *p, char *ret)
{
	char quote = *p++;

	for (; *p; p++) {
		if (*p == quote && *++p != quote) {
			if (ret)
				*ret = '\0';
			return p;
		}
		if (ret)
			*ret++ = *p;
	}
	return NULL;
}

/* The next comparison of a column of names with a string from p on; NULL when there is none. */
static const char *next_comparison(const char *p, struct search *search)
{
	while (p && *p) {
		size_t n = 0;

		if (*p == '\'' || *p == '"') {
			p = read_string(p, NULL);
			continue;
		}
		while (isalnum((unsigned char)p[n]) || p[n] == '_')
			n++;
		if (!n) {
			p++;
			continue;
		}
		for (size_t i = 0; i < sizeof(columns) / sizeof(*columns); i++) {
			const char *q = skip_blanks(p + n);

			if (n != strlen(columns[i]) || strncasecmp(p, columns[i], n) != 0 || *q != '=')
				continue;
			q = skip_blanks(q + (q[1] == '=' ? 2 : 1));
			if (*q != '\'' && *q != '"')
				continue;
			search->column = i;
			return read_string(q, search->wanted);
		}
		p += n;
	}
	return NULL;
}

static void keep(const char **names, size_t *n, const char *name)
{
	for (size_t i = 0; i < *n; i++)
		if (strcmp(names[i], name) == 0)
			return;
	if (*n < MOST_NAMES)
		names[(*n)++] = name;
}

static bool ends_with(const char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end);

	return n >= m && strcasecmp(name + n - m, end) == 0;
}

static bool take_row(void *context, const struct fh_row *row)
{
	struct search *search = context;
	const char *name = ((const char *const[]){ row->domain, row->kind, row->detail })[search->column];
	size_t n = strlen(name), m = strlen(search->wanted);

	if (strcmp(name, search->wanted) == 0)
		search->exists = true;
	else if (ends_with(name, search->wanted))
		keep(search->ends, &search->n_ends, name);
	else if (strcasestr(name, search->wanted) ||
		 (n && n < m && search->wanted[m - n - 1] == '.' && ends_with(search->wanted, name)))
		keep(search->holds, &search->n_holds, name);
	return !search->exists;
}

static void tell(const struct search *search)
{
	struct buffer line = { 0 };
	size_t n = search->n_ends + search->n_holds;

	buffer_format(&line, "no %s is called '%s'", columns[search->column], search->wanted);
	for (size_t i = 0; i < n && i < MOST_NAMES; i++) /* the largest first, as the census has them */
		buffer_format(&line, "%s'%s'", i ? ", " : "; near come ",
			      i < search->n_ends ? search->ends[i] : search->holds[i - search->n_ends]);
	complain("", buffer_c_string(&line));
	buffer_deinit(&line);
}

struct fh_error *complain_of_names(struct session *session, const char *expression)
{
	struct search search = { .wanted = malloc(strlen(expression) + 1) };
	struct fh_error *error = search.wanted ? NULL : error_no_memory();
	const char *p = expression;

	while (!error && (p = next_comparison(p, &search))) {
		if (!*search.wanted)
			continue;
		search.exists = false;
		search.n_ends = search.n_holds = 0;
		error = fh_census_each_row(session->census, take_row, &search);
		if (!error && !search.exists) {
			tell(&search);
			break;
		}
	}
	free(search.wanted);
	return error;
}
