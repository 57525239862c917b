/* SPDX-License-Identifier: Apache-2.0 */
#include "census/census.h"

struct fh_error *census_add_mappings(struct target *target)
{
	for (size_t i = 0; i < target->source->mappings.len; i++) {
		const struct mapping *m = &target->source->mappings.items[i];
		struct category c = { .domain = "os", .kind = "mapping", .detail = m->path };

		ledger_add_mapping(target->ledger, m->start, m->end, ledger_category(target->ledger, &c));
	}
	return ledger_commit(target->ledger);
}

struct fh_error *census_carve_images(struct target *target)
{
	(void)target;
	return NULL;
}

struct fh_error *census_carve_stacks(struct target *target)
{
	(void)target;
	return NULL;
}
