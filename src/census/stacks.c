/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Divides stacks: from the red zone under the stack pointer (128 bytes, System V ABI for x86-64, 3.2.2) to
 * the top they are used, below unused; then the thread's control block. Where the stack pointer isn't
 * known, or is elsewhere for the moment (an alternate stack, a coroutine), nobody can tell: `undivided`.
 */
#include <stdio.h>

#include "census/census.h"
#include "census/threads.h"

#define RED_ZONE 128
#define MOST_RESERVED 16384
#define SLACK 512

static category_id stack_category(struct ledger *ledger, const char *kind, const char *detail,
				  enum fh_state state)
{
	return ledger_category(ledger, &(struct category){ .domain = "stack", .kind = kind, .detail = detail,
							   .state = state });
}

static void carve_stack(struct ledger *ledger, const struct thread_stack *stack)
{
	char detail[32] = "main";
	uint64_t used = stack->sp - RED_ZONE;

	if (stack->owner == STACK_OF_THREAD)
		snprintf(detail, sizeof(detail), "thread %d", (int)stack->tid);
	else if (stack->owner == STACK_KEPT)
		snprintf(detail, sizeof(detail), "ended threads");
	ledger_carve_begin(ledger, stack->start, stack->end);
	if (stack->guard_end > stack->start)
		ledger_carve_add(ledger, stack->start,
				 ledger_category(ledger, &(struct category){ .domain = "os", .kind = "guard",
									     .detail = detail }));
	if (stack->owner == STACK_KEPT) {
		ledger_carve_add(ledger, stack->guard_end, stack_category(ledger, "kept", detail, FH_MAPPED));
	} else if (!stack->sp) {
		ledger_carve_add(ledger, stack->guard_end, stack_category(ledger, "undivided", detail, FH_LIVE));
	} else {
		if (stack->sp < stack->guard_end + RED_ZONE)
			used = stack->guard_end;
		if (used > stack->guard_end)
			ledger_carve_add(ledger, stack->guard_end,
					 stack_category(ledger, "unused", detail, FH_MAPPED));
		if (used < stack->control_block)
			ledger_carve_add(ledger, used, stack_category(ledger, "used", detail, FH_LIVE));
	}
	if (stack->owner != STACK_KEPT && stack->control_block < stack->end)
		ledger_carve_add(ledger, stack->control_block,
				 stack_category(ledger, "thread control block", detail, FH_LIVE));
	ledger_carve_end(ledger);
}

/* A static program of glibc takes the first bytes of the brk heap for it: what was reserved for libraries yet to
 * come lies below, and above what the alignment needed (csu/libc-tls.c), or what struct pthread has more
 * than was known. Malloc, which follows, carves its own away again. */
static void carve_main_control(struct ledger *ledger, const struct threads *threads)
{
	uint64_t start = threads->main_control_start, end = threads->main_control_end;
	struct block block;

	for (size_t i = 0; i < threads->stacks.len; i++)
		if (threads->stacks.items[i].start < end && threads->stacks.items[i].end > start)
			return;
	if (!ledger_find(ledger, start, &block))
		return;
	if (ledger_is_dark(ledger, block.category) && start - block.start <= MOST_RESERVED) {
		start = block.start;
		end = block.end - end > SLACK ? end + SLACK : block.end;
	}
	ledger_carve(ledger, start, end, stack_category(ledger, "thread control block", "main", FH_LIVE));
}

struct fh_error *census_carve_stacks(struct target *target)
{
	struct threads threads;

	TRY(threads_find(target, &threads));
	for (size_t i = 0; i < threads.stacks.len; i++)
		carve_stack(target->ledger, &threads.stacks.items[i]);
	if (threads.main_control_end)
		carve_main_control(target->ledger, &threads);
	threads_deinit(&threads);
	return ledger_commit(target->ledger);
}
