/* SPDX-License-Identifier: Apache-2.0 */
/* What SQL needs beyond SQLite's own functions, to look at a target. */
#include "query/functions.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "query/tables.h"

#define MOST_BYTES (16 << 20) /* of the target in one value */

static void address(sqlite3_context *context, int n, sqlite3_value **arguments)
{
	char text[24];

	(void)n;
	if (sqlite3_value_type(arguments[0]) != SQLITE_INTEGER)
		return; /* NULL */
	snprintf(text, sizeof(text), "0x%" PRIx64, (uint64_t)sqlite3_value_int64(arguments[0]));
	sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

static void memory(sqlite3_context *context, int n, sqlite3_value **arguments)
{
	struct fh_census *census = sqlite3_user_data(context);
	sqlite3_int64 len = sqlite3_value_int64(arguments[1]);
	void *bytes;

	(void)n;
	if (sqlite3_value_type(arguments[0]) != SQLITE_INTEGER || len <= 0)
		return; /* NULL */
	len = len < MOST_BYTES ? len : MOST_BYTES;
	bytes = malloc((size_t)len);
	if (!bytes) {
		sqlite3_result_error_nomem(context);
		return;
	}
	len = (sqlite3_int64)fh_census_read(census, (uint64_t)sqlite3_value_int64(arguments[0]), bytes, (size_t)len);
	if (len)
		sqlite3_result_blob64(context, bytes, (sqlite3_uint64)len, free);
	else
		free(bytes);
}

const struct query_function query_functions[] = {
	{ "address", "address(X)", "an integer as text: 0x...", 1, address },
	{ "memory", "memory(ADDRESS, LENGTH)", "bytes of the target, as far as they can be read", 2, memory },
	{ NULL, NULL, NULL, 0, NULL },
};

struct fh_error *query_add_functions(sqlite3 *db, struct fh_census *census)
{
	for (size_t i = 0; query_functions[i].name; i++)
		if (sqlite3_create_function_v2(db, query_functions[i].name, query_functions[i].arguments,
					       SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, census,
					       query_functions[i].call, NULL, NULL, NULL) != SQLITE_OK)
			return error_no_memory();
	return NULL;
}
