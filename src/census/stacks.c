/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks: from the red zone under the stack pointer (128 bytes, System V ABI for x86-64) to the top they
 * are used, below unused. Where a thread's stack lies in a mapping with other memory, its bounds are
 * what its struct pthread says: a pair (stackblock, stackblock_size) that holds both the stack
 * pointer and the thread pointer (glibc nptl/descr.h, 2.31 to 2.43; found by value, not by offset).
 */
#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "census/census.h"

#define RED_ZONE 128
#define PTHREAD_WORDS 288 /* sizeof(struct pthread) is about 2300 bytes */

struct stack {
	uint64_t start, end;	/* of the whole */
	uint64_t control_block; /* where TLS and struct pthread begin; end: nowhere */
};

/* Size of the static TLS below the thread pointer, as far as images tell. */
static uint64_t static_tls_size(const struct images *images)
{
	uint64_t size = 0;

	for (size_t i = 0; i < images->v.len; i++) {
		const struct image *image = images->v.items[i];
		uint64_t align = image->tls_align ? image->tls_align : 1;

		if (image->tls_size && image->tls_size < (1u << 26) && align < (1u << 16))
			size = (size + image->tls_size + align - 1) / align * align;
	}
	return size;
}

/* What struct pthread says of the stack it lies at the top of. */
static bool stack_of_pthread(struct source *source, const struct source_thread *thread, struct stack *ret)
{
	uint64_t words[PTHREAD_WORDS];
	size_t n = memory_read(&source->memory, thread->fs_base, words, sizeof(words)) / 8;

	if (n < 4 || words[0] != thread->fs_base) /* tcbhead_t.tcb points at itself */
		return false;
	for (size_t i = 4; i + 1 < n; i++) {
		uint64_t start = words[i], size = words[i + 1];

		if (start % PAGE || size % PAGE || !size || start + size < start)
			continue;
		if (thread->sp < start || thread->sp >= start + size || thread->fs_base < start ||
		    thread->fs_base >= start + size)
			continue;
		*ret = (struct stack){ start, start + size, start + size };
		return true;
	}
	return false;
}

static bool find_stack(struct target *target, const struct source_thread *thread, struct stack *ret)
{
	const struct mapping *m = source_mapping_at(target->source, thread->sp);
	uint64_t tls = static_tls_size(target->images);

	if (!m || m->inode || !(m->flags & MAPPING_WRITE))
		return false;
	if (stack_of_pthread(target->source, thread, ret)) {
		const struct mapping *top = source_mapping_at(target->source, ret->end - 1);

		if (ret->start < m->start) /* the guard, a mapping of its own */
			ret->start = m->start;
		if (!top || top != m)
			ret->end = m->end < ret->end ? m->end : ret->end;
		ret->control_block = ret->end;
		if (thread->fs_base > ret->start && thread->fs_base < ret->end)
			ret->control_block = thread->fs_base - (tls < thread->fs_base - ret->start ? tls : 0);
		return true;
	}
	if (strcmp(m->path, "[heap]") == 0)
		return false; /* a stack of the program's own making, inside a chunk */
	*ret = (struct stack){ m->start, m->end, m->end };
	if (thread->fs_base > thread->sp && thread->fs_base < m->end)
		ret->control_block = thread->fs_base - (tls < thread->fs_base - thread->sp ? tls : 0);
	return true;
}

static void carve_stack(struct target *target, const struct source_thread *thread, const struct stack *stack,
			const char *detail)
{
	struct ledger *ledger = target->ledger;
	uint64_t used = thread->sp - RED_ZONE > stack->start ? thread->sp - RED_ZONE : stack->start;
	struct category c = { .domain = "stack", .kind = "unused", .detail = detail };

	ledger_carve_begin(ledger, stack->start, stack->end);
	if (used > stack->start)
		ledger_carve_add(ledger, stack->start, ledger_category(ledger, &c));
	c.kind = "used";
	c.state = FH_LIVE;
	if (used < stack->control_block)
		ledger_carve_add(ledger, used, ledger_category(ledger, &c));
	c.kind = "thread control block";
	if (stack->control_block < stack->end)
		ledger_carve_add(ledger, stack->control_block, ledger_category(ledger, &c));
	ledger_carve_end(ledger);
}

/* The page or more without any permission under a stack. */
static void name_guard(struct target *target, const struct stack *stack, const char *detail)
{
	const struct mapping *m = source_mapping_at(target->source, stack->start - 1);

	if (m && !m->inode && !(m->flags & (MAPPING_READ | MAPPING_WRITE | MAPPING_EXEC)) &&
	    m->end == stack->start && m->end - m->start <= (1u << 21))
		ledger_carve(target->ledger, m->start, m->end,
			     ledger_category(target->ledger, &(struct category){ .domain = "os", .kind = "guard",
										 .detail = detail }));
}

/* Also without registers (a core that lacks them) the kernel's own name is enough for the first stack. */
static void carve_main_without_registers(struct target *target)
{
	for (size_t i = 0; i < target->source->mappings.len; i++) {
		const struct mapping *m = &target->source->mappings.items[i];

		if (strcmp(m->path, "[stack]") == 0)
			ledger_carve(target->ledger, m->start, m->end,
				     ledger_category(target->ledger,
						     &(struct category){ .domain = "stack", .kind = "used",
									 .detail = "main", .state = FH_LIVE }));
	}
}

/* The main thread's control block and static TLS are anonymous memory that ld.so mapped. */
static void carve_main_tls(struct target *target, const struct source_thread *thread)
{
	const struct mapping *m = thread->fs_base ? source_mapping_at(target->source, thread->fs_base) : NULL;
	struct block block;

	if (!m || m->inode || m->path[0] || m->end - m->start > (UINT64_C(1) << 24) ||
	    !ledger_find(target->ledger, thread->fs_base, &block) || block.category != 0)
		return;
	ledger_carve(target->ledger, block.start, block.end,
		     ledger_category(target->ledger, &(struct category){ .domain = "image", .kind = "loader data",
									 .detail = "main thread's TLS",
									 .state = FH_LIVE }));
}

struct fh_error *census_carve_stacks(struct target *target)
{
	struct source *source = target->source;

	if (!source->threads.len || !source->threads.items[0].has_registers)
		carve_main_without_registers(target);
	for (size_t i = 0; i < source->threads.len; i++) {
		const struct source_thread *thread = &source->threads.items[i];
		struct stack stack;
		char detail[32] = "main";

		if (!thread->has_registers)
			continue;
		if (i > 0)
			snprintf(detail, sizeof(detail), "thread %d", thread->tid);
		if (i == 0)
			carve_main_tls(target, thread);
		if (!find_stack(target, thread, &stack))
			continue;
		carve_stack(target, thread, &stack, detail);
		name_guard(target, &stack, detail);
	}
	return ledger_commit(target->ledger);
}
