/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The five kinds of live objects that take most memory in a process or a core, and what the library says of one
 * block. An example of libfreehold:
 *
 *	cc largest_types.c $(pkg-config --cflags --libs libfreehold) && ./a.out PID
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <freehold.h>

/* Names are whatever the target put there: nothing of it may reach a terminal as it is. */
static void print_escaped(const char *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		putchar(bytes[i] >= ' ' && bytes[i] < 0x7f ? bytes[i] : '?');
}

static bool print_type(void *context, const struct fh_value *values, size_t n)
{
	uint64_t *address = context;

	(void)n;
	printf("%12" PRId64 " bytes in %8" PRId64 " of ", values[2].integer, values[1].integer);
	print_escaped(values[0].bytes, values[0].length);
	putchar('\n');
	if (!*address)
		*address = (uint64_t)values[3].integer;
	return true;
}

static bool print_field(void *context, const char *name, const char *value)
{
	(void)context;
	printf("  %s: ", name);
	print_escaped(value, strlen(value));
	putchar('\n');
	return true;
}

static bool add_block(void *context, const struct fh_block *block)
{
	*(uint64_t *)context += block->end - block->start;
	return true;
}

int main(int argc, char **argv)
{
	static const struct fh_query_visitor visitor = { .size = sizeof(visitor), .row = print_type };
	struct fh_options options = { .size = sizeof(options) };
	struct fh_census *census;
	struct fh_error *error;
	struct fh_size os;
	uint64_t address = 0, sum = 0;

	if (argc != 2) {
		fprintf(stderr, "usage: %s PID|CORE\n", argv[0]);
		return 2;
	}
	error = fh_census_open(argv[1], &options, &census);
	if (!error)
		error = fh_query(census, "select kind, count(*), sum(size), min(start) from block where state = 'live' "
				 "and domain = 'python' group by kind order by 3 desc limit 5", &visitor, &address);
	if (error) {
		fprintf(stderr, "%s\n", error->message);
		fh_error_destroy(error);
		return 1;
	}
	if (address)
		fh_census_describe(census, address, print_field, NULL);
	fh_census_each_block(census, add_block, &sum);
	fh_census_os(census, &os);
	printf("blocks %" PRIu64 ", operating system %" PRIu64 "\n", sum, os.virtual_);
	fh_census_destroy(census);
	return sum == os.virtual_ ? 0 : 1;
}
