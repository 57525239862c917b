/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source is where the bytes of a target come from: a live process or a core
 * file. It has the target's mappings, what the operating system says of
 * them, its threads, and its memory. Everything of /proc, ptrace and core
 * files is in this folder; above it nobody knows which source it is.
 *
 * Nothing of the target can be trusted: any read can fail or be short.
 */
#ifndef FREEHOLD_SOURCE_SOURCE_H
#define FREEHOLD_SOURCE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/ranges.h"
#include "base/strings.h"
#include "base/vec.h"
#include "source/memory.h"

#define PAGE 4096u /* x86-64 */

static inline uint64_t page_down(uint64_t n)
{
	return n & ~(uint64_t)(PAGE - 1);
}

static inline uint64_t page_up(uint64_t n)
{
	return page_down(n + PAGE - 1);
}

enum mapping_flags {
	MAPPING_READ = 1,
	MAPPING_WRITE = 2,
	MAPPING_EXEC = 4,
	MAPPING_SHARED = 8,
	MAPPING_DELETED = 16, /* the file has no name any more */
	MAPPING_OMITTED = 32, /* core: listed with its size, but its bytes were left out */
};

/* One VMA of a live target, or one PT_LOAD of a core. */
struct mapping {
	uint64_t start, end;
	uint64_t offset; /* into the file */
	uint64_t inode;  /* 0: no file */
	uint32_t device; /* makedev() of the file's device */
	uint32_t flags;  /* enum mapping_flags */
	const char *path; /* file, "[heap]", "[stack]" ..., "" for anonymous; never NULL */
	uint64_t resident, swapped; /* bytes, as smaps counts; 0 when not known */
};

struct source_thread {
	pid_t tid;
	bool has_registers;
	uint64_t sp, ip, fs_base;
	uint64_t registers[27]; /* struct user_regs_struct in its order */
	char name[16];		/* may be empty */
};

struct source;
struct file_backing;

struct source_ops {
	const char *name; /* "live", "core" */
	/* A descriptor of the file behind a mapping, checked to be the one that was mapped
	 * (inode, or build-id for a core), or -1; errno then is EMFILE or ENFILE where too many files are
	 * open. The caller closes it. files_open() is how others ask. */
	int (*open_file)(struct source *source, const struct mapping *mapping);
	/* The analysis is over: a target that had to wait goes on, unless its bytes are wanted still. An error when it
	 * ended meanwhile. May be NULL. */
	struct fh_error *(*resume)(struct source *source, bool keep_stopped);
	void (*destroy)(struct source *source);
};

struct file_backing;

struct source {
	const struct source_ops *ops;
	struct strings *strings; /* owns every string below */
	pid_t pid;
	const char *command, *exe; /* never NULL */
	VEC(struct mapping) mappings; /* ascending, disjoint */
	VEC(struct mapping) omitted;  /* core: mapped files that it left out; readable, not counted */
	VEC(struct source_thread) threads; /* the main thread first */
	uint64_t auxv[64][2]; /* ends with AT_NULL */
	struct memory memory;
	VEC(struct file_backing *) open_files; /* of files.c, by when they were opened */
	bool has_residency;
	struct ranges resident, swapped; /* in pages, sums equal the mappings' figures */
	uint64_t os_virtual, os_resident, os_swapped; /* sums over the mappings */
	double pause_ms; /* < 0: not known or none */
	bool streamed;
	bool damaged; /* something is missing; the warnings say what */
	VEC(const char *) warnings;
};

/* Sets the common parts up; for the sources in this folder. */
struct fh_error *source_init(struct source *source, const struct source_ops *ops);
void source_deinit(struct source *source);

struct fh_error *source_open_live(pid_t pid, const struct fh_options *options, struct source **ret);
struct fh_error *source_open_core(const char *path, const struct fh_options *options, struct source **ret);
/* A process id or the path of a file. */
struct fh_error *source_open(const char *target, const struct fh_options *options, struct source **ret);
void source_destroy(struct source *source);

/* Says something that the user should know: unreadable, odd, guessed. printf-like, one line. What was said is not said
 * again, and after the 200th only that there is more. */
void source_warn(struct source *source, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What the kernel told the program at its start (AT_PHDR ... of elf.h); 0: nothing of that type. */
uint64_t source_auxv(const struct source *source, uint64_t type);

/* The mapping that holds an address, or NULL. */
const struct mapping *source_mapping_at(const struct source *source, uint64_t address);

/* All of [address, address + len), or false and the buffer is undefined. */
static inline bool source_read(struct source *source, uint64_t address, void *buffer, size_t len)
{
	return memory_read(&source->memory, address, buffer, len) == len;
}

/* See memory_get(). */
static inline const void *source_get(struct source *source, uint64_t address, size_t len,
				     void *scratch)
{
	return memory_get(&source->memory, address, len, scratch);
}

static inline bool source_u64(struct source *source, uint64_t address, uint64_t *ret)
{
	uint8_t scratch[sizeof(*ret)];
	const void *p = source_get(source, address, sizeof(*ret), scratch);

	if (!p)
		return false;
	__builtin_memcpy(ret, p, sizeof(*ret));
	return true;
}

static inline bool source_u32(struct source *source, uint64_t address, uint32_t *ret)
{
	uint8_t scratch[sizeof(*ret)];
	const void *p = source_get(source, address, sizeof(*ret), scratch);

	if (!p)
		return false;
	__builtin_memcpy(ret, p, sizeof(*ret));
	return true;
}

/* A NUL-terminated string of at most size - 1 bytes; false when it can't be read or is longer. */
bool source_string(struct source *source, uint64_t address, char *buffer, size_t size);

#endif
