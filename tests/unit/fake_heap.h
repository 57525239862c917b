/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process with a heap of glibc's malloc, put together by hand: a page of libc's data with mp_ and the main
 * arena, memory from brk, a second arena with its aligned heap, a chunk that is a mapping of its own, and TLS.
 * Its numbers are this file's own, so that the layouts of the program are tested, too.
 */
#ifndef FREEHOLD_TESTS_FAKE_HEAP_H
#define FREEHOLD_TESTS_FAKE_HEAP_H

#include "fake_target.h"
#include "layout/target.h"

enum fake_flavour { FAKE_2_31, FAKE_2_36, FAKE_2_43, FAKE_FLAVOURS };

#define FAKE_DATA UINT64_C(0x7f0000200000)
#define FAKE_BRK UINT64_C(0x555500001000)
#define FAKE_ARENA UINT64_C(0x7e0000000000) /* a multiple of 64 MiB */
#define FAKE_MMAPPED UINT64_C(0x7f0000100000)
#define FAKE_TLS UINT64_C(0x7f0000300000)
#define FAKE_DATA_SIZE 0x2000u
#define FAKE_BRK_SIZE 0x8000u
#define FAKE_ARENA_SIZE 0x4000u
#define FAKE_ARENA_MOST (UINT64_C(64) << 20)
#define FAKE_MMAPPED_SIZE 0x4000u
#define FAKE_TLS_SIZE 0x1000u

struct fake_heap {
	struct fake_source fake;
	struct target target;
	enum fake_flavour flavour;
	uint64_t state, arena_state, mp; /* addresses */
	uint64_t brk_at, arena_at;	 /* where the next chunk goes */
	uint64_t tcache;		 /* data address of the main thread's */
	uint64_t split;			 /* where libc's data is read in two parts; 0: in one */
	_Alignas(16) uint8_t data[FAKE_DATA_SIZE], brk[FAKE_BRK_SIZE], arena[FAKE_ARENA_SIZE],
		mmapped[FAKE_MMAPPED_SIZE], tls[FAKE_TLS_SIZE];
};

/* Everything empty but for the main thread's tcache. Nothing is mapped yet. */
void fake_heap_init(struct fake_heap *heap, enum fake_flavour flavour);
void fake_heap_deinit(struct fake_heap *heap);

uint64_t fake_heap_word(const struct fake_heap *heap, uint64_t address);
void fake_heap_put(struct fake_heap *heap, uint64_t address, uint64_t value);
/* The next chunk from brk, or from the other arena; live. */
uint64_t fake_heap_chunk(struct fake_heap *heap, uint64_t size);
uint64_t fake_heap_arena_chunk(struct fake_heap *heap, uint64_t size);
/* Puts a chunk into a list. A chunk for a bin must have a neighbour behind it. */
void fake_heap_to_bin(struct fake_heap *heap, uint64_t chunk, unsigned bin);
void fake_heap_to_fastbin(struct fake_heap *heap, uint64_t chunk);
void fake_heap_to_tcache(struct fake_heap *heap, uint64_t chunk);
/* Writes the headers of a mapping of its own: from memalign when offset isn't 0. */
void fake_heap_mmapped(struct fake_heap *heap, uint64_t offset);
/* The rest of both heaps becomes top; then everything is mapped, and the ledger made. */
void fake_heap_finish(struct fake_heap *heap);

/* Bins by index, from the unsorted one: 0, small by size / 16 - 1, large from 63 on. */
#define FAKE_UNSORTED 0
#define FAKE_SMALL(size) ((unsigned)((size) / 16 - 1))

#endif
