/* SPDX-License-Identifier: Apache-2.0 */
/* A source made of buffers, and a small writer of ELF files to put into it. */
#ifndef FREEHOLD_TESTS_FAKE_TARGET_H
#define FREEHOLD_TESTS_FAKE_TARGET_H

#include <elf.h>
#include <stdint.h>

#include "source/source.h"

struct fake_source {
	struct source source; /* first: the two are cast */
	const void *file;     /* what open_file() gives; NULL: nothing */
	size_t file_size;
	unsigned opened;
};

void fake_source_init(struct fake_source *fake);
void fake_source_deinit(struct fake_source *fake);
/* A mapping at the end of the list; bytes NULL: it can't be read. */
void fake_mapping(struct fake_source *fake, uint64_t start, uint64_t end, uint32_t flags, uint64_t offset,
		  uint64_t inode, const char *path, const void *bytes);
/* After the last mapping. */
void fake_source_seal(struct fake_source *fake);

/*
 * A library of four pages in the file: headers, notes and symbols (R), text (RX), read-only data (R), data
 * (RW) whose segment has two more pages and 100 bytes of bss. In memory it is at page 0, 1, 2 and 4.
 */
#define FAKE_FILE_PAGES 4
#define FAKE_DATA_VADDR 0x4000
#define FAKE_DATA_BYTES 0x800
#define FAKE_BSS_BYTES (0x800 + 0x2000 + 100)
#define FAKE_END 0x8000 /* rounded */
#define FAKE_DYNAMIC 0x4100
#define FAKE_HEADERS 8

struct fake_elf {
	_Alignas(8) uint8_t bytes[FAKE_FILE_PAGES * 4096];
	Elf64_Ehdr *header;
	Elf64_Phdr *program; /* 0..3: PT_LOAD; then PT_NOTE, PT_DYNAMIC, PT_GNU_RELRO, PT_TLS */
};

enum fake_hash { FAKE_SYSV_HASH, FAKE_GNU_HASH };

/* Dynamic symbols: `first` at 0x4010 (16 bytes), `second` at 0x4020 (32 bytes), `undefined`, `thread`
 * (STT_TLS). .symtab: `hidden` at 0x1010. */
void fake_elf_write(struct fake_elf *elf, enum fake_hash hash);
/* Maps it at an address the way a loader does. Its bss beyond the file's last page becomes an anonymous
 * mapping that ends at `end` (FAKE_END where nothing follows). */
void fake_elf_map(struct fake_source *fake, const struct fake_elf *elf, uint64_t at, uint64_t inode,
		  const char *path, uint64_t end);

#endif
