/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of Python frames, since 3.11. A thread pushes its frames into chunks that come from the operating system
 * (Python/pystate.c, allocate_chunk) and often lie side by side with arenas, in one mapping. The thread's state
 * points at the last chunk, chunks at the one before. Thread states are found through _Py_DebugOffsets where they
 * are there (3.13), else by their pattern: chunk, top and limit of the stack, three words in a row.
 */
#include <string.h>

#include "runtime/cpython/internal.h"

#define MOST_THREADS (1u << 17)
#define MOST_CHUNKS (1u << 16)
#define MOST_CHUNK_SIZE (UINT64_C(1) << 32)
#define STATE_SLACK 512u /* by which thread states differ between patch releases */

struct stacks {
	struct cpython *py;
	struct ledger *ledger;
	int previous, size, data; /* in _PyStackChunk */
	category_id category;
	const char *kind; /* of blocks that are being scanned */
	uint32_t chunks;
};

static void name_block(struct stacks *stacks, uint64_t address, const char *kind)
{
	struct block block;

	if (ledger_find(stacks->ledger, address, &block) &&
	    ledger_category_of(stacks->ledger, block.category)->unknown)
		ledger_name(stacks->ledger, &block, "cpython", kind, "");
}

/* Whether a chunk lies there: *ret_size is its length. */
static bool is_chunk(const struct stacks *stacks, uint64_t chunk, uint64_t *ret_size)
{
	struct source *source = stacks->py->target->source;
	const struct mapping *m = chunk % PAGE == 0 ? source_mapping_at(source, chunk) : NULL;

	if (!m || !source_u64(source, chunk + (uint64_t)stacks->size, ret_size) || *ret_size < PAGE ||
	    *ret_size % PAGE || *ret_size > MOST_CHUNK_SIZE)
		return false;
	while (m && m->end - chunk < *ret_size && m->flags & MAPPING_WRITE)
		m = source_mapping_at(source, m->end);
	return m && m->flags & MAPPING_WRITE;
}

static void add_chunks(struct stacks *stacks, uint64_t chunk)
{
	struct block block;
	uint64_t size;

	for (; chunk && stacks->chunks < MOST_CHUNKS && is_chunk(stacks, chunk, &size); stacks->chunks++) {
		if (!ledger_find(stacks->ledger, chunk, &block))
			return;
		if (ledger_category_of(stacks->ledger, block.category)->unknown) /* builds without mmap */
			name_block(stacks, chunk, "frame stack");
		else
			ledger_carve(stacks->ledger, chunk, chunk + size, stacks->category);
		if (!source_u64(stacks->py->target->source, chunk + (uint64_t)stacks->previous, &chunk))
			return;
	}
}

/* ---- by _Py_DebugOffsets ----------------------------------------------------- */

/* The pointer at a base plus an offset that the target says; 0: none. */
static uint64_t follow(struct cpython *py, uint64_t base, const char *offset)
{
	uint64_t distance, value;

	if (!debug_offset(py, offset, &distance) || distance > UINT32_MAX ||
	    !source_u64(py->target->source, base + distance, &value))
		return 0;
	return value;
}

/* False when the target has no such table. */
static bool walk_interpreters(struct stacks *stacks)
{
	struct cpython *py = stacks->py;
	uint64_t interpreter, thread;
	uint32_t threads = 0;

	if (!py->debug_offsets)
		return false;
	interpreter = follow(py, py->debug_offsets, "runtime_state.interpreters_head");
	for (; interpreter && threads < MOST_THREADS; interpreter = follow(py, interpreter, "interpreter_state.next")) {
		threads++;
		name_block(stacks, interpreter, "interpreter state");
		thread = follow(py, interpreter, "interpreter_state.threads_head");
		for (; thread && threads < MOST_THREADS; thread = follow(py, thread, "thread_state.next")) {
			threads++;
			name_block(stacks, thread, "thread state");
			add_chunks(stacks, follow(py, thread, "thread_state.datastack_chunk"));
		}
	}
	return threads > 1;
}

/* ---- by pattern ---------------------------------------------------------------- */

static bool visit_words(void *context, uint64_t address, const uint64_t *words, size_t n)
{
	struct stacks *stacks = context;
	uint64_t size;

	for (size_t i = 0; i + 2 < n; i++) {
		uint64_t chunk = words[i], top = words[i + 1], limit = words[i + 2];

		if (chunk && chunk % PAGE == 0 && top >= chunk + (uint64_t)stacks->data && top <= limit &&
		    is_chunk(stacks, chunk, &size) && limit - chunk == size) {
			name_block(stacks, address, stacks->kind);
			add_chunks(stacks, chunk);
		}
	}
	return true;
}

static bool about(uint64_t size, uint32_t state_size, uint32_t slack)
{
	return state_size && size + slack / 4 >= state_size && size <= state_size + slack;
}

/* States lie in the image, and in blocks of about their size. */
static void scan_states(struct stacks *stacks)
{
	struct target *target = stacks->py->target;
	uint32_t thread = layout_size(&stacks->py->layout, "PyThreadState");
	uint32_t interpreter = layout_size(&stacks->py->layout, "PyInterpreterState");
	struct ledger_cursor cursor = { 0 };
	struct block block;

	stacks->kind = "thread state";
	scan_writable(target, stacks->py->image, visit_words, stacks);
	if (!stacks->chunks && stacks->py->alone)
		scan_all_writable(target, visit_words, stacks);
	while (ledger_next(stacks->ledger, &cursor, &block)) {
		uint64_t size = block.end - block.start;
		bool is_thread = about(size, thread, STATE_SLACK);

		/* An interpreter's state holds that of its first thread. */
		stacks->kind = is_thread ? "thread state" : "interpreter state";
		if ((is_thread || about(size, interpreter, 8 * PAGE)) &&
		    ledger_category_of(stacks->ledger, block.category)->state == FH_LIVE)
			scan_range(target, block.start, block.end, visit_words, stacks);
	}
}

void frame_stacks_carve(struct cpython *py)
{
	struct stacks stacks = {
		.py = py,
		.ledger = py->target->ledger,
		.previous = layout_offset(&py->layout, "_PyStackChunk", "previous"),
		.size = layout_offset(&py->layout, "_PyStackChunk", "size"),
		.data = layout_offset(&py->layout, "_PyStackChunk", "data"),
	};

	if (stacks.previous < 0 || stacks.size < 0 || stacks.data < 0)
		return; /* frames are objects of their own in this version */
	stacks.category = ledger_category(py->target->ledger, &(struct category){
		.domain = "cpython", .kind = "frame stack", .state = FH_LIVE });
	if (!walk_interpreters(&stacks))
		scan_states(&stacks);
}
