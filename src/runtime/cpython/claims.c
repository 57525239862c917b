/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/cpython/internal.h"

static bool may_name(const struct category *c, bool sure)
{
	if (c->state != FH_LIVE)
		return false; /* a stale pointer to freed memory */
	return c->unknown || (sure && strcmp(c->domain, "python") == 0);
}

bool claim(struct cpython *py, uint64_t data, const char *domain, const char *kind, const char *detail, bool sure)
{
	struct ledger *ledger = py->target->ledger;
	struct block block;
	const struct category *c;
	uint64_t before;

	if (data < PAGE || !ledger_find(ledger, data, &block))
		return false;
	c = ledger_category_of(ledger, block.category);
	before = data - block.start - c->head;
	if ((before != py->debug_head && before != 2 * py->debug_head) || !may_name(c, sure))
		return false;
	ledger_name(ledger, &block, domain, kind, detail);
	return true;
}

bool claim_inside(struct cpython *py, uint64_t pointer, uint64_t before, const char *kind, const char *detail)
{
	return pointer > before && claim(py, pointer - before, "cpython", kind, detail, true);
}

bool block_of_object(struct cpython *py, uint64_t address, struct block *ret)
{
	return address >= PAGE && ledger_find(py->target->ledger, address, ret) &&
	       ledger_category_of(py->target->ledger, ret->category)->state == FH_LIVE;
}
