/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layouts of malloc's own structures on x86-64, as data. Measured with gdb (ptype /o) on the debug
 * information of Debian's libc6 2.31-13+deb11u11, 2.36-9+deb12u14, 2.41-12+deb13u5 and 2.43-7; those of
 * 2.26, 2.30 and 2.42 follow malloc/malloc.c of these releases. Which one holds is decided by what is in
 * the target, never by a version.
 */
#include "alloc/glibc/internal.h"

const struct state_layout state_layouts[] = {
	{ .seen_in = "2.27 to 2.42", .bins = 112, .flags = 4, .has_fastbins = true },
	{ .seen_in = "2.43", .bins = 24, .flags = 4, .has_fastbins = false },
	{ .seen_in = "2.23 to 2.26", .bins = 104, .flags = 4, .has_fastbins = true },
};
const size_t n_state_layouts = sizeof(state_layouts) / sizeof(*state_layouts);

const struct tcache_layout tcache_layouts[] = {
	{ .seen_in = "2.30 to 2.41", .chunk = 0x290, .entries = 128, .small = 64, .n = 64 },
	{ .seen_in = "2.42 and later", .chunk = 0x300, .entries = 152, .small = 64, .n = 76 },
	{ .seen_in = "2.26 to 2.29", .chunk = 0x250, .entries = 64, .small = 64, .n = 64 },
};
const size_t n_tcache_layouts = sizeof(tcache_layouts) / sizeof(*tcache_layouts);

const struct mp_layout mp_layouts[] = {
	{ .seen_in = "2.35 to 2.42", .n_mmaps = 60, .n_mmaps_max = 64, .max_n_mmaps = 68, .mmapped_mem = 80,
	  .max_mmapped_mem = 88, .sbrk_base = 96, .size = 136 },
	{ .seen_in = "2.43", .n_mmaps = 68, .n_mmaps_max = 72, .max_n_mmaps = 76, .mmapped_mem = 88,
	  .max_mmapped_mem = 96, .sbrk_base = 104, .size = 144 },
	{ .seen_in = "2.26 to 2.34", .n_mmaps = 40, .n_mmaps_max = 44, .max_n_mmaps = 48, .mmapped_mem = 56,
	  .max_mmapped_mem = 64, .sbrk_base = 72, .size = 112 },
};
const size_t n_mp_layouts = sizeof(mp_layouts) / sizeof(*mp_layouts);
