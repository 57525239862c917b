/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core reader, and the whole census behind it, on whatever bytes: it ends in an error or in a ledger that
 * balances. Run by tests/run for a minute; by hand: build-fuzz/tests/fuzz/fuzz_core CORPUS
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "freehold.h"

struct sums {
	uint64_t virtual_, reached;
};

static bool add_block(void *context, const struct fh_block *block)
{
	struct sums *sums = context;

	if (block->start < sums->reached || block->end <= block->start)
		abort();
	sums->reached = block->end;
	sums->virtual_ += block->end - block->start;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fh_options options = { .size = sizeof(options), .sysroot = "/nowhere" };
	struct fh_census *census;
	struct sums sums = { 0 };
	struct fh_error *error;
	struct fh_size os;
	char path[64];
	int fd = memfd_create("core", 0);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	error = fh_census_open(path, &options, &census);
	if (error) {
		fh_error_destroy(error);
	} else {
		fh_census_os(census, &os);
		fh_census_each_block(census, add_block, &sums);
		if (sums.virtual_ != os.virtual_)
			abort();
		fh_census_destroy(census);
	}
	close(fd);
	return 0;
}
