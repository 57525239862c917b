/* SPDX-License-Identifier: Apache-2.0 */
#include "source/files.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* One for each mapping. */
struct file_backing {
	struct source *source;
	const struct mapping *mapping;
	int fd; /* -1: not opened, -2: can't be */
	uint32_t number;
};

/* Opens the file. A target can map more files than we may have open: the one that was opened first is closed, until
 * it is asked for again. */
static void open_backing(struct file_backing *file)
{
	struct source *source = file->source;
	struct file_backing **place = &source->open_files[source->opened_files % SOURCE_OPEN_FILES];

	if (*place) {
		close((*place)->fd);
		(*place)->fd = -1;
		*place = NULL;
	}
	file->fd = source->ops->open_file(source, file->mapping);
	if (file->fd < 0) {
		file->fd = -2;
		return;
	}
	*place = file;
	source->opened_files++;
}

static size_t fill_from_file(void *context, uint64_t address, uint64_t offset, void *buffer, size_t len)
{
	struct file_backing *file = context;
	size_t done = 0;

	(void)address;
	if (file->fd == -1)
		open_backing(file);
	if (file->fd < 0)
		return 0;
	while (done < len) {
		ssize_t n = pread(file->fd, (char *)buffer + done, len - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) /* mapped beyond the end of the file: unreadable for the target, too */
			break;
		done += (size_t)n;
	}
	return done;
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
