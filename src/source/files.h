/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of mapped files, read in on demand as a backing of the memory. */
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

#endif
