/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Since 2.41 glibc calls the kernel's vgetrandom in the vDSO, with states that it maps for itself (droppable pages,
 * which no core has) and a list of pointers to the free ones in another mapping (sysdeps/unix/sysv/linux/getrandom.c,
 * vgetrandom_get_state_alloc). Both are a page or a few. The list is known by what it holds: addresses that begin on
 * a page and go up by the size of a state.
 */
#include <string.h>

#include "alloc/glibc/internal.h"

#define LIST_MOST (UINT64_C(1) << 20) /* bytes; a pointer for each processor */
#define STATE_LEAST 64u
#define STATE_MOST 1024u
#define WORDS 4u

static bool is_dark(const struct ledger *ledger, const struct block *block)
{
	return ledger_is_dark(ledger, block->category);
}

/* The first state that a list points to, or 0 when the block is no list. */
static uint64_t first_state(struct source *source, const struct block *block)
{
	uint64_t words[WORDS];

	if (block->end - block->start > LIST_MOST || block->start % PAGE ||
	    !source_read(source, block->start, words, sizeof(words)) || !words[0] || words[0] % PAGE || words[0] >> 47)
		return 0;
	if (words[1] < words[0] + STATE_LEAST || words[1] > words[0] + STATE_MOST)
		return 0;
	for (unsigned i = 2; i < WORDS; i++)
		if (words[i] - words[i - 1] != words[1] - words[0])
			return 0;
	return words[0];
}

struct fh_error *getrandom_carve(struct target *target)
{
	struct ledger *ledger = target->ledger;
	struct ledger_cursor cursor = { 0 };
	struct block block, states;
	category_id category = ledger_category(ledger, &(struct category){ .domain = "os", .kind = "vgetrandom",
									   .state = FH_MAPPED });

	while (ledger_next(ledger, &cursor, &block)) {
		uint64_t first;

		if (!is_dark(ledger, &block) || !(first = first_state(target->source, &block)))
			continue;
		ledger_rename(ledger, block.slot, category);
		if (ledger_find(ledger, first, &states) && states.start == first && is_dark(ledger, &states) &&
		    states.end - states.start <= LIST_MOST)
			ledger_rename(ledger, states.slot, category);
	}
	return ledger->no_memory ? error_no_memory() : NULL;
}
