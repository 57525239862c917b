/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "freehold.h"

static bool print_row(void *context, const struct fh_row *row)
{
	(void)context;
	printf("%-16s %-24s %-40s %10lu %14lu %14lu\n", row->domain, row->kind, row->detail,
	       (unsigned long)row->count, (unsigned long)row->size.virtual_, (unsigned long)row->size.resident);
	return true;
}

static bool print_text(void *context, const char *text)
{
	printf("%s: %s\n", (const char *)context, text);
	return true;
}

int main(int argc, char **argv)
{
	struct fh_census *census;
	struct fh_error *error;
	struct fh_size os;
	struct fh_info info;

	if (argc < 2)
		return 2;
	error = fh_census_open(argv[1], NULL, &census);
	if (!error)
		error = fh_census_each_row(census, print_row, NULL);
	if (error) {
		fprintf(stderr, "freehold: %s\n", error->message);
		fh_error_destroy(error);
		return 1;
	}
	fh_census_os(census, &os);
	fh_census_info(census, &info);
	printf("os %lu %lu %lu pause %.2f ms\n", (unsigned long)os.virtual_, (unsigned long)os.resident,
	       (unsigned long)os.swapped, info.pause_ms);
	fh_census_each_allocator(census, print_text, "allocator");
	fh_census_each_runtime(census, print_text, "runtime");
	fh_census_each_warning(census, print_text, "warning");
	fh_census_destroy(census);
	return 0;
}
