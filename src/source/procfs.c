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

bool procfs_ended(pid_t task)
{
	char path[64];
	CLEANUP_FREE char *status = NULL;

	snprintf(path, sizeof(path), "/proc/%d/status", task);
	status = procfs_text(path, NULL);
	return !status || strstr(status, "\nState:\tZ") || strstr(status, "\nState:\tX");
}

/* ---- how much memory there is --------------------------------------------------------- */

/* Where a hierarchy is mounted, its files, and the line of memory.stat with pages of files that nobody used lately;
 * cgroups(7). */
static const struct cgroup_version {
	const char *root, *limit, *usage, *reclaimable;
} cgroup_v1 = { "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "\ntotal_inactive_file " },
  cgroup_v2 = { "/sys/fs/cgroup", "memory.max", "memory.current", "\ninactive_file " };

static char *cgroup_text(const struct cgroup_version *version, const char *path, const char *file)
{
	char name[4400];

	snprintf(name, sizeof(name), "%s%s/%s", version->root, path, file);
	return procfs_text(name, NULL);
}

static bool cgroup_number(const struct cgroup_version *version, const char *path, const char *file, uint64_t *ret)
{
	CLEANUP_FREE char *text = cgroup_text(version, path, file);

	if (!text || text[0] < '0' || text[0] > '9') /* "max" */
		return false;
	*ret = strtoull(text, NULL, 10);
	return true;
}

/* The usage counts what was read from files too, which fills up any limit in time and makes room when asked. */
static uint64_t cgroup_reclaimable(const struct cgroup_version *version, const char *path)
{
	CLEANUP_FREE char *stat = cgroup_text(version, path, "memory.stat");
	const char *line = stat ? strstr(stat, version->reclaimable) : NULL;

	return line ? strtoull(line + strlen(version->reclaimable), NULL, 10) : 0;
}

/* What is left under the limits of a cgroup and of all above it; `path` is shortened by a name a step. */
static uint64_t cgroup_left(const struct cgroup_version *version, char *path)
{
	uint64_t left = UINT64_MAX, limit, usage;

	for (;;) {
		char *slash = strrchr(path, '/');

		if (cgroup_number(version, path, version->limit, &limit) &&
		    cgroup_number(version, path, version->usage, &usage)) {
			uint64_t reclaimable = cgroup_reclaimable(version, path);
			uint64_t used = usage > reclaimable ? usage - reclaimable : 0, here = limit > used ? limit - used : 0;

			left = here < left ? here : left;
		}
		if (!slash)
			return left;
		*slash = '\0';
	}
}

/* A line is "number:controllers:path"; version 2 has no controllers named. */
static uint64_t cgroup_line_left(char *line)
{
	char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;

	if (!path)
		return UINT64_MAX;
	*path++ = '\0';
	if (controllers[1] == '\0')
		return cgroup_left(&cgroup_v2, path);
	return strstr(controllers, "memory") ? cgroup_left(&cgroup_v1, path) : UINT64_MAX;
}

uint64_t procfs_available_memory(void)
{
	CLEANUP_FREE char *meminfo = procfs_text("/proc/meminfo", NULL), *cgroups = procfs_text("/proc/self/cgroup", NULL);
	uint64_t available = UINT64_MAX;
	char *rest = cgroups, *line;

	if (meminfo && procfs_field(meminfo, "MemAvailable"))
		available = procfs_field(meminfo, "MemAvailable");
	while ((line = strsep(&rest, "\n"))) {
		uint64_t left = cgroup_line_left(line);

		available = left < available ? left : available;
	}
	return available;
}
