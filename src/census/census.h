/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The census: the one place that knows the order of the passes. Below it is everything that knows a
 * target, above it everything that answers a question. Its public face is freehold.h; this is what
 * query, view and cli need beyond that.
 */
#ifndef FREEHOLD_CENSUS_CENSUS_H
#define FREEHOLD_CENSUS_CENSUS_H

#include "alloc/alloc.h"
#include "freehold.h"
#include "layout/target.h"
#include "runtime/runtime.h"

#define CENSUS_MOST_PLUGINS 16

struct census_plugin {
	const void *plugin; /* struct allocator or struct runtime */
	void *state;
	const char *text; /* "glibc 2.36" */
};

struct fh_census {
	struct target target;
	struct census_plugin allocators[CENSUS_MOST_PLUGINS], runtimes[CENSUS_MOST_PLUGINS];
	size_t n_allocators, n_runtimes;
};

/* One block of the ledger with its figures. The cursors make ascending questions cheap; NULL: none. */
struct census_cursors {
	size_t resident, swapped;
};

void census_fill_block(const struct fh_census *census, const struct block *block,
		       struct census_cursors *cursors, struct fh_block *ret);

/* Gives every mapping its first row: what the operating system calls it, or dark (mappings.c). */
struct fh_error *census_add_mappings(struct target *target);
/* Whether a mapping without a file only keeps addresses: no access, or never written and not writable, which is
 * what gcore makes of no access. */
bool census_is_reserved(struct source *source, const struct mapping *mapping);
/* Divides what images cover: text, rodata, data, bss (images.c). */
struct fh_error *census_carve_images(struct target *target);
/* Names what the run-time loader allocated for itself (loader.c). */
struct fh_error *census_carve_loader(struct target *target);
/* Divides stacks: guard, unused, used, thread control block (stacks.c). */
struct fh_error *census_carve_stacks(struct target *target);

#endif
