/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of mapped files, read in on demand as a backing of the memory, and what files say of themselves. */
#ifndef FREEHOLD_SOURCE_FILES_H
#define FREEHOLD_SOURCE_FILES_H

#include "source/source.h"

/*
 * Adds [start, end) of a mapping as lazily read from its file. The file is
 * opened at the first read, by files_open(). The list that the mapping is in must not
 * grow any more.
 */
struct fh_error *files_add(struct source *source, const struct mapping *mapping, uint64_t start, uint64_t end);

/* The source's open_file(). A target can map more files than we may have open: when that many are, some of those
 * that were only read from are closed, until they are wanted again. */
int files_open(struct source *source, const struct mapping *mapping);

/* Reads as many bytes as there are; returns how many. */
size_t files_pread(int fd, uint64_t offset, void *buffer, size_t len);

#define BUILD_ID_MOST 32u /* bytes */

/* The build-id of an ELF file in the bytes of a note segment with its p_align: returns its length, 0: none, and where
 * in them it is. */
size_t files_build_id(const uint8_t *notes, size_t len, uint64_t align, const uint8_t **ret);

#endif
