/* SPDX-License-Identifier: Apache-2.0 */
#include "census/threads.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "census/census.h"
#include "census/pthreads.h"

void threads_deinit(struct threads *threads)
{
	vec_free(&threads->stacks);
}

/* ---- bounds ------------------------------------------------------------------- */

/* The end of [start, end) that is mapped without a hole. */
static uint64_t mapped_from(const struct source *source, uint64_t start, uint64_t end)
{
	while (end > start) {
		const struct mapping *m = source_mapping_at(source, end - 1);

		if (!m)
			break;
		end = m->start;
	}
	return end > start ? end : start;
}

/* A guard is a mapping without access; with the advice MADV_GUARD_INSTALL only glibc knows where it is. */
static uint64_t guard_end(struct source *source, const struct thread_stack *stack, uint64_t said)
{
	const struct mapping *m = source_mapping_at(source, stack->start);

	if (m && census_is_reserved(source, m))
		return m->end < stack->control_block ? m->end : stack->start;
	return stack->start + said;
}

static struct fh_error *add_stack(const struct source *source, struct threads *threads, struct thread_stack stack)
{
	const struct mapping *top = source_mapping_at(source, stack.end - 1);
	uint64_t mapped = mapped_from(source, stack.start, stack.end);

	if (!top || !(top->flags & MAPPING_WRITE) || mapped >= stack.control_block)
		return NULL;
	if (mapped > stack.start) {
		stack.start = mapped;
		stack.guard_end = stack.guard_end > mapped ? stack.guard_end : mapped;
	}
	if (stack.sp < stack.start || stack.sp >= stack.end)
		stack.sp = 0;
	return vec_push(&threads->stacks, stack) ? NULL : error_no_memory();
}

/* ---- the C library's ------------------------------------------------------------ */

static const struct source_thread *thread_at(const struct source *source, const struct hashmap *by_pointer,
					     uint64_t address)
{
	const uint64_t *index = hashmap_get((struct hashmap *)by_pointer, address);

	return index ? &source->threads.items[*index] : NULL;
}

static struct fh_error *add_pthread(struct target *target, const struct pthreads *pthreads,
				    const struct hashmap *by_pointer, uint64_t address, struct threads *ret)
{
	const struct source_thread *thread = thread_at(target->source, by_pointer, address);
	struct pthread_stack bounds;
	struct thread_stack stack = { .owner = STACK_KEPT };

	if (!pthreads_stack(pthreads, address, &bounds))
		return NULL;
	if (thread) {
		stack.owner = STACK_OF_THREAD;
		stack.tid = thread->tid;
		stack.sp = thread->sp;
	} else if (pthreads_tid(pthreads, address)) {
		stack.owner = STACK_OF_THREAD; /* its registers are not known */
		stack.tid = pthreads_tid(pthreads, address);
	}
	stack.start = bounds.start;
	stack.end = bounds.start + bounds.size;
	stack.control_block = address - (pthreads->tls < address - stack.start ? pthreads->tls : 0);
	if (stack.sp > stack.control_block && stack.sp < address)
		stack.control_block = address; /* less is static than was thought */
	stack.guard_end = guard_end(target->source, &stack, bounds.guard);
	return add_stack(target->source, ret, stack);
}

static struct fh_error *add_pthreads(struct target *target, struct pthreads *pthreads, struct threads *ret)
{
	const struct source *source = target->source;
	struct hashmap by_pointer = { 0 };
	struct fh_error *error = NULL;

	for (size_t i = 0; i < source->threads.len && !error; i++) {
		const struct source_thread *thread = &source->threads.items[i];

		if (!thread->has_registers || !pthreads_check(pthreads, thread->fs_base))
			continue;
		if (!hashmap_put(&by_pointer, thread->fs_base, i))
			error = error_no_memory();
		if (!error)
			error = pthreads_follow(pthreads, thread->fs_base, i ? thread->tid : 0);
		if (!error && !hashmap_get(&pthreads->known, thread->fs_base)) /* not glibc's */
			error = add_pthread(target, pthreads, &by_pointer, thread->fs_base, ret);
	}
	for (size_t i = 0; i < pthreads->v.len && !error; i++)
		error = add_pthread(target, pthreads, &by_pointer, pthreads->v.items[i], ret);
	hashmap_deinit(&by_pointer);
	return error;
}

/* ---- the kernel's, and others --------------------------------------------------- */

static const struct mapping *main_stack_mapping(const struct source *source)
{
	uint64_t random;

	for (size_t i = 0; i < source->mappings.len; i++)
		if (strcmp(source->mappings.items[i].path, "[stack]") == 0)
			return &source->mappings.items[i];
	random = source_auxv(source, AT_RANDOM); /* a core has no such names */
	return random ? source_mapping_at(source, random) : NULL;
}

static struct fh_error *add_main(const struct source *source, struct threads *ret)
{
	const struct source_thread *thread = source->threads.len ? &source->threads.items[0] : NULL;
	const struct mapping *m = main_stack_mapping(source);
	struct thread_stack stack = { .owner = STACK_OF_MAIN };

	if (!m || mapping_has_file(m))
		return NULL;
	stack.start = stack.guard_end = m->start;
	stack.end = stack.control_block = m->end;
	if (thread && thread->has_registers)
		stack.sp = thread->sp;
	return add_stack(source, ret, stack);
}

static int compare_stacks(const void *a, const void *b)
{
	const struct thread_stack *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Where two overlap (a damaged or hostile target) the one that starts first stands. */
static void sort_stacks(struct threads *threads)
{
	size_t kept = 0;
	uint64_t reached = 0;

	if (threads->stacks.len)
		qsort(threads->stacks.items, threads->stacks.len, sizeof(struct thread_stack), compare_stacks);
	for (size_t i = 0; i < threads->stacks.len; i++) {
		struct thread_stack stack = threads->stacks.items[i];

		if (stack.start < reached)
			continue;
		reached = stack.end;
		threads->stacks.items[kept++] = stack;
	}
	threads->stacks.len = kept;
}

/* Whether one of the first n stacks, which are sorted, holds an address. */
static bool holds(const struct threads *threads, size_t n, uint64_t address)
{
	size_t i = items_after(threads->stacks.items, n, .end, address);

	return i < n && threads->stacks.items[i].start <= address;
}

/* A stack that its maker protected by a guard, for a thread that isn't the C library's. */
static struct fh_error *add_guarded(struct source *source, const struct source_thread *thread,
				    struct threads *ret)
{
	const struct mapping *m = thread->sp ? source_mapping_at(source, thread->sp) : NULL;
	const struct mapping *below = m ? source_mapping_at(source, m->start - 1) : NULL;
	struct thread_stack stack = { .owner = STACK_OF_THREAD, .tid = thread->tid, .sp = thread->sp };

	if (!m || !below || mapping_has_file(m) || m->flags & MAPPING_SHARED || m->path[0] == '[' ||
	    !census_is_reserved(source, below) || below->end - below->start > (UINT64_C(1) << 21))
		return NULL;
	stack.start = below->start;
	stack.guard_end = m->start;
	stack.end = stack.control_block = m->end;
	return add_stack(source, ret, stack);
}

/* ---- all -------------------------------------------------------------------------- */

/* The main thread's is where the loader allocated it: in memory of its own, or at the start of the brk
 * heap of a static program. */
static void find_main_control(const struct source *source, const struct pthreads *pthreads,
			      struct threads *ret)
{
	const struct source_thread *thread = source->threads.len ? &source->threads.items[0] : NULL;
	const struct mapping *m;

	if (!thread || !thread->has_registers || !pthreads_is_glibc(pthreads, thread->fs_base))
		return;
	m = source_mapping_at(source, thread->fs_base);
	if (!m)
		return;
	ret->main_control_start = thread->fs_base - m->start > pthreads->tls ? thread->fs_base - pthreads->tls :
									      m->start;
	ret->main_control_end = m->end - thread->fs_base > pthreads->size ? thread->fs_base + pthreads->size :
									   m->end;
}

static struct fh_error *find(struct target *target, struct pthreads *pthreads, struct threads *ret)
{
	struct source *source = target->source;
	size_t n;

	TRY(pthreads_learn(target, pthreads));
	TRY(add_pthreads(target, pthreads, ret));
	TRY(add_main(source, ret));
	sort_stacks(ret);
	n = ret->stacks.len;
	for (size_t i = 1; i < source->threads.len; i++)
		if (source->threads.items[i].has_registers && !holds(ret, n, source->threads.items[i].sp))
			TRY(add_guarded(source, &source->threads.items[i], ret));
	find_main_control(source, pthreads, ret);
	sort_stacks(ret);
	return NULL;
}

struct fh_error *threads_find(struct target *target, struct threads *ret)
{
	struct pthreads pthreads = { 0 };
	struct fh_error *error;

	*ret = (struct threads){ 0 };
	error = find(target, &pthreads, ret);
	pthreads_deinit(&pthreads);
	if (error)
		threads_deinit(ret);
	return error;
}
