/* SPDX-License-Identifier: Apache-2.0 */
#include "source/files.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One for each mapping. */
struct file_backing {
	struct source *source;
	const struct mapping *mapping;
	int fd; /* -1: not open, -2: can't be */
	uint32_t number;
};

/* Closes the half that was opened first; false when there is none. */
static bool close_some(struct source *source)
{
	size_t n = (source->open_files.len + 1) / 2;

	for (size_t i = 0; i < n; i++) {
		close(source->open_files.items[i]->fd);
		source->open_files.items[i]->fd = -1;
	}
	source->open_files.len -= n;
	if (n)
		memmove(source->open_files.items, source->open_files.items + n,
			source->open_files.len * sizeof(*source->open_files.items));
	return n > 0;
}

int files_open(struct source *source, const struct mapping *mapping)
{
	int fd;

	do
		fd = source->ops->open_file(source, mapping);
	while (fd < 0 && (errno == EMFILE || errno == ENFILE) && close_some(source));
	return fd;
}

static void open_backing(struct file_backing *file)
{
	file->fd = files_open(file->source, file->mapping);
	if (file->fd >= 0 && vec_push(&file->source->open_files, file))
		return;
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -2;
}

size_t files_pread(int fd, uint64_t offset, void *buffer, size_t len)
{
	size_t done = 0;

	while (done < len && offset <= INT64_MAX - done) {
		ssize_t n = pread(fd, (char *)buffer + done, len - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}

/* The name and the contents of a note are padded to 4 bytes, or 8 where the segment's alignment says so. */
size_t files_build_id(const uint8_t *notes, size_t len, uint64_t align, const uint8_t **ret)
{
	size_t pad = align == 8 ? 7 : 3, at = 0;

	while (at < len && len - at > sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr note;
		size_t name = at + sizeof(note), contents;

		memcpy(&note, notes + at, sizeof(note));
		if (note.n_namesz > len || note.n_descsz > len)
			return 0;
		contents = (name + note.n_namesz + pad) & ~pad;
		if (contents > len || note.n_descsz > len - contents)
			return 0;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(notes + name, "GNU", 4) == 0) {
			*ret = notes + contents;
			return note.n_descsz <= BUILD_ID_MOST ? note.n_descsz : 0;
		}
		at = (contents + note.n_descsz + pad) & ~pad;
	}
	return 0;
}

static size_t fill_from_file(void *context, uint64_t address, uint64_t offset, void *buffer, size_t len)
{
	struct file_backing *file = context;

	(void)address;
	if (file->fd == -1)
		open_backing(file);
	/* What is mapped beyond the end of the file is unreadable for the target, too. */
	return file->fd < 0 ? 0 : files_pread(file->fd, offset, buffer, len);
}

static void release_file(void *context)
{
	struct file_backing *file = context;

	if (file->fd >= 0)
		close(file->fd);
	free(file);
}

/* The backing of the mapping that was added last serves all its ranges. */
static struct file_backing *last_backing(struct source *source, const struct mapping *mapping)
{
	struct memory_backing *last = source->memory.backings.len ? vec_last(&source->memory.backings) : NULL;
	struct file_backing *file = last && last->fill == fill_from_file ? last->context : NULL;

	return file && file->mapping == mapping ? file : NULL;
}

struct fh_error *files_add(struct source *source, const struct mapping *mapping, uint64_t start, uint64_t end)
{
	struct file_backing *file = last_backing(source, mapping);

	if (!file) {
		file = malloc(sizeof(*file));
		if (!file)
			return error_no_memory();
		*file = (struct file_backing){ .source = source, .mapping = mapping, .fd = -1 };
		file->number = memory_add_backing(&source->memory, fill_from_file, release_file, file);
		if (file->number == MEMORY_ZERO) {
			free(file);
			return error_no_memory();
		}
	}
	if (!memory_add_lazy(&source->memory, start, end, file->number,
			     mapping->offset + (start - mapping->start)))
		return error_no_memory();
	return NULL;
}
