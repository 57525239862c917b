/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that a core mapped: where they are now, and whether they are the same. The first page of an ELF file
 * is dumped by default (coredump_filter(5), bit 4) and with it the build-id, as a rule; a file with
 * another one is not used.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "source/core.h"
#include "source/files.h"

#define MOST_HEADERS 64

struct build_id {
	uint8_t bytes[BUILD_ID_MOST];
	size_t len;
};

/* Reads at an offset of an ELF file: of the one on disk, or of its pages in the core. */
typedef bool read_at(void *context, uint64_t offset, void *buffer, size_t len);

/* False when there is none, or it can't be read. */
static bool read_build_id(read_at *read, void *context, struct build_id *ret)
{
	Elf64_Ehdr header;

	if (!read(context, 0, &header, sizeof(header)) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr))
		return false;
	for (unsigned i = 0; i < header.e_phnum && i < MOST_HEADERS; i++) {
		Elf64_Phdr program;
		uint8_t notes[1024];
		const uint8_t *found;
		size_t len;

		if (!read(context, header.e_phoff + i * sizeof(program), &program, sizeof(program)))
			return false;
		if (program.p_type != PT_NOTE)
			continue;
		len = program.p_filesz < sizeof(notes) ? program.p_filesz : sizeof(notes);
		if (!read(context, program.p_offset, notes, len))
			continue;
		ret->len = files_build_id(notes, len, program.p_align, &found);
		if (ret->len) {
			memcpy(ret->bytes, found, ret->len);
			return true;
		}
	}
	return false;
}

static bool read_disk(void *context, uint64_t offset, void *buffer, size_t len)
{
	return files_pread(*(int *)context, offset, buffer, len) == len;
}

struct in_core {
	struct core *core;
	const char *path;
};

static int compare_paths(const void *a, const void *b)
{
	const struct core_mapped_file *x = a, *y = b;

	if (x->path != y->path) /* pooled */
		return (uintptr_t)x->path < (uintptr_t)y->path ? -1 : 1;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static bool sort_by_path(struct core *core)
{
	if (core->by_path.len || !core->mapped.len)
		return true;
	if (!vec_reserve(&core->by_path, core->mapped.len))
		return false;
	memcpy(core->by_path.items, core->mapped.items, core->mapped.len * sizeof(*core->mapped.items));
	core->by_path.len = core->mapped.len;
	qsort(core->by_path.items, core->by_path.len, sizeof(*core->by_path.items), compare_paths);
	return true;
}

/* A file may be mapped more than once, not all of it everywhere: looks at a few. */
static bool read_in_core(void *context, uint64_t offset, void *buffer, size_t len)
{
	const struct in_core *in = context;
	const struct core_mapped_file *items = in->core->by_path.items,
				      wanted = { .path = in->path, .offset = offset };
	size_t low = 0, high = in->core->by_path.len;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (compare_paths(&items[mid], &wanted) <= 0)
			low = mid + 1;
		else
			high = mid;
	}
	for (size_t i = low; i > 0 && low - i < 16 && items[i - 1].path == in->path; i--) {
		const struct core_mapped_file *m = &items[i - 1];

		if (offset - m->offset < m->end - m->start &&
		    core_read(in->core, m->start + (offset - m->offset), buffer, len) == len)
			return true;
	}
	return false;
}

static int open_regular(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Says it once, of all of them. */
static void note_unchecked(struct core *core, const char *path)
{
	struct source *source = &core->source;
	size_t before = source->warnings.len;
	const char *text;

	if (core->n_unchecked++ == 0) {
		core->unchecked = path;
		source_warn(source, "%s: the core has no build-id of it; whether it is still the file that was mapped "
			    "could not be checked", path);
		core->said_unchecked = source->warnings.len > before ? source->warnings.len : 0;
		return;
	}
	text = strings_format(source->strings, "%s and %zu more: the core has no build-ids of them; whether they are "
			      "still the files that were mapped could not be checked", core->unchecked,
			      core->n_unchecked - 1);
	if (text && core->said_unchecked)
		source->warnings.items[core->said_unchecked - 1] = text;
}

/* Whether a file is the one that was mapped. Without a build-id in the core its name has to do, which is said of
 * programs and libraries. */
static bool is_same(struct core *core, const char *path, int fd)
{
	struct in_core in = { core, path };
	struct build_id ours, theirs;

	if (!sort_by_path(core) || !read_build_id(read_in_core, &in, &theirs)) {
		if (read_build_id(read_disk, &fd, &ours))
			note_unchecked(core, path);
		return true;
	}
	return read_build_id(read_disk, &fd, &ours) && ours.len == theirs.len &&
	       memcmp(ours.bytes, theirs.bytes, ours.len) == 0;
}

static bool too_many_open(int error)
{
	return error == EMFILE || error == ENFILE;
}

static int open_candidate(struct core *core, const char *path, char *full, size_t size)
{
	bool other = false;

	for (int i = 0; i < 3; i++) {
		int fd;

		if (i == 0 && !(core->exe && strcmp(path, core->source.exe) == 0))
			continue;
		if (i == 1 && !core->sysroot)
			continue;
		if (i == 0)
			snprintf(full, size, "%s", core->exe);
		else
			snprintf(full, size, "%s%s", i == 1 ? core->sysroot : "", path);
		fd = open_regular(full);
		if (fd < 0 && too_many_open(errno))
			return -1;
		if (fd < 0)
			continue;
		if (is_same(core, path, fd))
			return fd;
		close(fd);
		other = true;
	}
	source_warn(&core->source,
		    other ? "%s: the file here has another build-id than the one in the core; use --sysroot or --exe" :
			    "%s: the core was made with this file, which is not here; use --sysroot or --exe",
		    path);
	errno = ENOENT;
	return -1;
}

/* Once it was compared. Another file that came in its place since isn't it. */
static int open_known(const struct core_known_file *known)
{
	struct stat st;
	int fd = known->found ? open_regular(known->found) : (errno = ENOENT, -1);

	if (fd < 0 || (fstat(fd, &st) == 0 && st.st_dev == known->device && st.st_ino == known->inode))
		return fd;
	close(fd);
	errno = ESTALE;
	return -1;
}

int core_open_file(struct core *core, const char *path)
{
	struct core_known_file known = { 0 };
	const uint64_t *index = hashmap_get(&core->known_paths, (uintptr_t)path);
	char full[8192];
	struct stat st;
	int fd;

	if (index)
		return open_known(&core->known.items[*index]);
	fd = open_candidate(core, path, full, sizeof(full));
	if (fd < 0 && too_many_open(errno))
		return -1;
	if (fd >= 0 && fstat(fd, &st) == 0) {
		known.found = strings_add(core->source.strings, full);
		known.device = st.st_dev;
		known.inode = st.st_ino;
	}
	/* What can't be kept is looked for again. */
	if ((fd < 0 || known.found) && vec_push(&core->known, known))
		(void)hashmap_put(&core->known_paths, (uintptr_t)path, core->known.len - 1);
	errno = ENOENT;
	return fd;
}
