/* SPDX-License-Identifier: Apache-2.0 */
#include "source/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"

struct fh_error *procfs_read(const char *path, char **ret, size_t *ret_len)
{
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	VEC(char) text = { 0 };

	if (fd < 0)
		return error_system(errno, "%s", path);
	for (;;) {
		ssize_t n;

		if (!vec_reserve(&text, text.len + 65536)) {
			vec_free(&text);
			return error_no_memory();
		}
		n = read(fd, text.items + text.len, text.cap - text.len - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int error = errno;

			vec_free(&text);
			return error_system(error, "%s", path);
		}
		if (n == 0)
			break;
		text.len += (size_t)n;
	}
	text.items[text.len] = '\0';
	*ret = text.items;
	if (ret_len)
		*ret_len = text.len;
	return NULL;
}

char *procfs_text(const char *path, size_t *ret_len)
{
	char *text = NULL;

	fh_error_destroy(procfs_read(path, &text, ret_len));
	return text;
}

/* ---- maps and smaps ----------------------------------------------------- */

/* Numbers of a line end before its 100th byte. Only they go to sscanf(), which would look for the end of
 * the whole text each time. */
#define HEAD 128

static bool parse_maps_line(struct source *source, const char *line, size_t len, struct mapping *ret)
{
	static const char deleted[] = " (deleted)";
	unsigned major, minor;
	char head[HEAD], perms[5];
	int path_at = 0;
	const char *path;
	size_t path_len;

	*ret = (struct mapping){ 0 };
	snprintf(head, sizeof(head), "%.*s", (int)(len < HEAD ? len : HEAD), line);
	if (sscanf(head, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &ret->start,
		   &ret->end, perms, &ret->offset, &major, &minor, &ret->inode, &path_at) < 7 ||
	    ret->start >= ret->end)
		return false;
	ret->device = (uint32_t)makedev(major, minor);
	ret->flags = (perms[0] == 'r' ? MAPPING_READ : 0) | (perms[1] == 'w' ? MAPPING_WRITE : 0) |
		     (perms[2] == 'x' ? MAPPING_EXEC : 0) | (perms[3] == 's' ? MAPPING_SHARED : 0);
	path = (size_t)path_at < len ? line + path_at : "";
	path_len = (size_t)path_at < len ? len - (size_t)path_at : 0;
	if (ret->inode && path_len > strlen(deleted) &&
	    memcmp(path + path_len - strlen(deleted), deleted, strlen(deleted)) == 0) {
		ret->flags |= MAPPING_DELETED;
		path_len -= strlen(deleted);
	}
	ret->path = strings_add_len(source->strings, path, path_len);
	return ret->path;
}

/* Lines of smaps that describe the mapping above begin with a capital; those of maps don't. */
struct fh_error *procfs_parse_maps(struct source *source, const char *text, size_t len)
{
	const char *end = text + len;
	struct mapping mapping;

	for (const char *line = text; line < end;) {
		const char *newline = memchr(line, '\n', (size_t)(end - line));
		size_t n = newline ? (size_t)(newline - line) : (size_t)(end - line);

		if (n && !(line[0] >= 'A' && line[0] <= 'Z') &&
		    parse_maps_line(source, line, n, &mapping)) {
			if (source->mappings.len && vec_last(&source->mappings)->end > mapping.start)
				mapping.start = vec_last(&source->mappings)->end; /* torn read */
			if (mapping.start < mapping.end && !vec_push(&source->mappings, mapping))
				return error_no_memory();
		}
		line += n + 1;
	}
	return NULL;
}

static bool has_flag(const char *line, const char *flag)
{
	const char *end = strchr(line, '\n');

	return end && memmem(line, (size_t)(end - line), flag, strlen(flag));
}

static bool parse_range(const char *line, uint64_t *ret_start, uint64_t *ret_end)
{
	char *after;

	*ret_start = strtoull(line, &after, 16);
	if (after == line || *after != '-')
		return false;
	*ret_end = strtoull(after + 1, &after, 16);
	return *after == ' ' && *ret_start < *ret_end;
}

struct fh_error *procfs_parse_smaps(const char *text, smaps_entries *entries)
{
	struct smaps_entry *entry = NULL;

	for (const char *line = text; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
		uint64_t start, end;

		if (line[0] >= 'A' && line[0] <= 'Z') {
			if (!entry)
				continue;
			if (strncmp(line, "Rss:", 4) == 0)
				entry->rss = strtoull(line + 4, NULL, 10) * 1024;
			else if (strncmp(line, "Swap:", 5) == 0)
				entry->swap = strtoull(line + 5, NULL, 10) * 1024;
			else if (strncmp(line, "VmFlags:", 8) == 0)
				entry->special = has_flag(line, " pf") || has_flag(line, " io") ||
						 has_flag(line, " ht") || has_flag(line, " gu");
		} else if (parse_range(line, &start, &end)) {
			if (!vec_push(entries, (struct smaps_entry){ .start = start, .end = end }))
				return error_no_memory();
			entry = vec_last(entries);
		}
	}
	return NULL;
}

uint64_t procfs_field(const char *text, const char *name)
{
	size_t len = strlen(name);

	for (const char *line = text; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
		char *after;
		uint64_t value;

		if (strncmp(line, name, len) != 0 || line[len] != ':')
			continue;
		value = strtoull(line + len + 1, &after, 10);
		return strncmp(after, " kB", 3) == 0 ? value * 1024 : value;
	}
	return 0;
}

uint64_t procfs_available_memory(void)
{
	CLEANUP_FREE char *meminfo = NULL, *cgroup = NULL, *limit = NULL, *current = NULL, *path = NULL;
	uint64_t available = UINT64_MAX;
	const char *line;

	meminfo = procfs_text("/proc/meminfo", NULL);
	if (meminfo && procfs_field(meminfo, "MemAvailable"))
		available = procfs_field(meminfo, "MemAvailable");
	cgroup = procfs_text("/proc/self/cgroup", NULL);
	line = cgroup ? strstr(cgroup, "0::/") : NULL; /* version 2 */
	if (!line)
		return available;
	path = strndup(line + 3, strcspn(line + 3, "\n"));
	/* The limit of every cgroup up to the root counts; each level is shorter by one name. */
	while (path && *path) {
		char file[4400];
		char *slash = strrchr(path, '/');

		free(TAKE(limit));
		free(TAKE(current));
		snprintf(file, sizeof(file), "/sys/fs/cgroup%s/memory.max", path);
		limit = procfs_text(file, NULL);
		snprintf(file, sizeof(file), "/sys/fs/cgroup%s/memory.current", path);
		current = procfs_text(file, NULL);
		if (limit && current && limit[0] >= '0' && limit[0] <= '9') {
			uint64_t max = strtoull(limit, NULL, 10), now = strtoull(current, NULL, 10);
			uint64_t left = max > now ? max - now : 0;

			if (left < available)
				available = left;
		}
		if (!slash)
			break;
		*slash = '\0';
	}
	return available;
}
