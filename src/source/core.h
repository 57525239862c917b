/* SPDX-License-Identifier: Apache-2.0 */
/* What the files about cores share: core.c reads the headers and makes the memory, core_notes.c the notes,
 * core_files.c finds the files that were mapped. */
#ifndef FREEHOLD_SOURCE_CORE_H
#define FREEHOLD_SOURCE_CORE_H

#include <elf.h>

#include "base/hashmap.h"
#include "source/source.h"

struct core_mapped_file { /* an entry of NT_FILE */
	uint64_t start, end, offset;
	const char *path;
	bool deleted; /* it had no name any more; the path is the one it had */
};

struct core_known_file { /* a path that was looked for */
	const char *found; /* where it is; NULL: not to be had */
	dev_t device;
	ino_t inode;
};

struct core {
	struct source source; /* first: the two are cast */
	int fd;
	uint64_t file_size, missing; /* bytes that the headers promise beyond the end of the file */
	uint64_t note_bytes;	     /* that were read */
	size_t absurd; /* segments that were left out because there can be none such */
	VEC(Elf64_Phdr) segments; /* PT_LOADs that make sense, by address, not overlapping */
	VEC(struct core_mapped_file) mapped; /* by address */
	VEC(struct core_mapped_file) by_path; /* the same by path and offset, made when it is needed */
	VEC(struct core_known_file) known;
	struct hashmap known_paths; /* the address of a path that was looked for -> index of `known` */
	const char *unchecked; /* the first file that could not be compared with what was mapped */
	size_t n_unchecked, said_unchecked; /* how many there are; index of the warning + 1, 0: none */
	const char *exe, *sysroot; /* options; NULL: none */
};

/* Bytes that the core itself holds; how many came, from the start. */
size_t core_read(struct core *core, uint64_t address, void *buffer, size_t len);
/* Exactly len bytes of the file, or false. */
bool core_pread(const struct core *core, uint64_t offset, void *buffer, size_t len);

/* Threads, auxv, mapped files and the command out of one note segment. */
struct fh_error *core_read_notes(struct core *core, const Elf64_Phdr *header);

/* Descriptor of the file of a path as the target knew it, or -1: see open_file in source.h. */
int core_open_file(struct core *core, const char *path);

#endif
