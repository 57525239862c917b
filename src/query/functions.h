/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FREEHOLD_QUERY_FUNCTIONS_H
#define FREEHOLD_QUERY_FUNCTIONS_H

#include <sqlite3.h>

struct query_function {
	const char *name, *usage, *text; /* one line for help */
	int arguments;
	void (*call)(sqlite3_context *context, int n, sqlite3_value **arguments);
};

/* Ends with a name that is NULL. */
extern const struct query_function query_functions[];

#endif
