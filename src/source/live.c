/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A live process. It is stopped only for one pass over its resident private
 * memory; what that takes is prepared before, everything else is done after.
 * When there is no room for a copy it is left standing still and read as the
 * analysis goes, until resume() or the end.
 */
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "source/copy.h"
#include "source/files.h"
#include "source/procfs.h"
#include "source/source.h"
#include "source/stop.h"

#define MIB (UINT64_C(1) << 20)

struct live {
	struct source source; /* first: the two are cast */
	pid_t task; /* whose /proc files have the memory: the process, or a thread that outlived the main one */
	bool sees_our_files;
	struct stop *stop;
	struct copy copy;
	int pagemap_fd, mem_fd;
	bool copying, read_swapped;
	smaps_entries smaps;
	page_runs pages;
	bool exact;
};

static char *proc_path(char buffer[64], pid_t pid, const char *name)
{
	snprintf(buffer, 64, "/proc/%d/%s", pid, name);
	return buffer;
}

/* The text of one of its files of /proc; that there is none means that it ended. */
static struct fh_error *read_text(const struct live *live, const char *name, char **ret, size_t *ret_len)
{
	char path[64];
	struct fh_error *error = procfs_read(proc_path(path, live->task, name), ret, ret_len);

	if (!error || error->code != FH_ERROR_NOT_FOUND)
		return error;
	fh_error_destroy(error);
	return error_create(FH_ERROR_NOT_FOUND, "process %d: it ended", live->source.pid);
}

/* ---- what it is ---------------------------------------------------------- */

static struct fh_error *read_command(struct live *live)
{
	struct source *source = &live->source;
	char path[64], exe[4096];
	size_t len = 0;
	char *text = procfs_text(proc_path(path, live->task, "cmdline"), &len);
	ssize_t n;

	if (text) {
		for (size_t i = 0; i + 1 < len; i++)
			if (text[i] == '\0')
				text[i] = ' ';
		source->command = strings_add_len(source->strings, text, len);
		free(text);
	}
	n = readlink(proc_path(path, live->task, "exe"), exe, sizeof(exe));
	if (n > 0)
		source->exe = strings_add_len(source->strings, exe, (size_t)n);
	return source->command && source->exe ? NULL : error_no_memory();
}

static struct fh_error *read_auxv(struct live *live)
{
	struct source *source = &live->source;
	char path[64];
	size_t len = 0;
	char *text = procfs_text(proc_path(path, live->task, "auxv"), &len);

	if (len > sizeof(source->auxv) - 16)
		len = sizeof(source->auxv) - 16;
	if (text)
		memcpy(source->auxv, text, len);
	free(text);
	return NULL;
}

/* ---- before the stop ----------------------------------------------------- */

/* A main thread may end before the others (pthread_exit in main). The process lives on, but the files of
 * /proc/PID are empty then; those of /proc/TID, which no listing shows, are not. */
static pid_t living_task(pid_t pid)
{
	char path[64];
	pid_t found = pid;
	struct dirent *entry;
	DIR *tasks;

	if (!procfs_ended(pid))
		return pid;
	tasks = opendir(proc_path(path, pid, "task"));
	while (tasks && found == pid && (entry = readdir(tasks))) {
		pid_t tid = (pid_t)atoi(entry->d_name);

		if (tid > 0 && !procfs_ended(tid))
			found = tid;
	}
	if (tasks)
		closedir(tasks);
	return found;
}

/* Refuses what can't be looked at, each with its own reason. */
static struct fh_error *check_target(struct live *live)
{
	const struct source *source = &live->source;
	char path[64];
	CLEANUP_FREE char *status = procfs_text(proc_path(path, source->pid, "status"), NULL);
	CLEANUP_CLOSE int exe = -1;
	unsigned char ident[20] = { 0 };

	if (!status && kill(source->pid, 0) < 0 && errno == EPERM) /* /proc hides other users' processes: hidepid */
		return stop_not_permitted(source->pid);
	if (!status)
		return error_create(FH_ERROR_NOT_FOUND, "process %d: there is no such process", source->pid);
	if (procfs_field(status, "Tgid") != (uint64_t)source->pid)
		return error_create(FH_ERROR_NOT_FOUND,
				    "process %d: it is a thread; its process is %" PRIu64, source->pid,
				    procfs_field(status, "Tgid"));
	live->task = living_task(source->pid);
	if (procfs_ended(live->task))
		return error_create(FH_ERROR_NOT_FOUND,
				    "process %d: it has ended (zombie); no memory is left", source->pid);
	free(TAKE(status));
	status = procfs_text(proc_path(path, live->task, "status"), NULL);
	if (!status)
		return error_create(FH_ERROR_NOT_FOUND, "process %d: it ended", source->pid);
	if (!strstr(status, "\nVmSize:"))
		return error_create(FH_ERROR_NOT_FOUND,
				    "process %d: it is a thread of the kernel, or ending: it has no memory of its own",
				    source->pid);
	exe = open(proc_path(path, live->task, "exe"), O_RDONLY | O_CLOEXEC);
	if (exe >= 0 && pread(exe, ident, sizeof(ident), 0) == sizeof(ident) &&
	    memcmp(ident, ELFMAG, SELFMAG) == 0 && ident[EI_CLASS] != ELFCLASS64)
		return error_create(FH_ERROR_FORMAT,
				    "process %d: it is a 32-bit program; only x86-64 programs are understood",
				    source->pid);
	return NULL;
}

/* Bytes that a copy of its private memory will take. */
static uint64_t copied_bytes(const struct live *live)
{
	char path[64];
	CLEANUP_FREE char *status = procfs_text(proc_path(path, live->task, "status"), NULL);

	if (!status)
		return 0;
	return procfs_field(status, "RssAnon") + (live->read_swapped ? procfs_field(status, "VmSwap") : 0);
}

static struct fh_error *read_smaps(struct live *live)
{
	CLEANUP_FREE char *text = NULL;

	live->smaps.len = 0;
	TRY(read_text(live, "smaps", &text, NULL));
	return procfs_parse_smaps(text, &live->smaps);
}

static void close_proc_files(struct live *live)
{
	if (live->pagemap_fd >= 0)
		close(live->pagemap_fd);
	if (live->mem_fd >= 0)
		close(live->mem_fd);
	live->pagemap_fd = live->mem_fd = -1;
}

/* They belong to the memory that the process has now: after an exec they have none. */
static struct fh_error *open_proc_files(struct live *live)
{
	char path[64];

	close_proc_files(live);
	live->pagemap_fd = open(proc_path(path, live->task, "pagemap"), O_RDONLY | O_CLOEXEC);
	live->mem_fd = live->pagemap_fd < 0 ? -1 : open(proc_path(path, live->task, "mem"), O_RDONLY | O_CLOEXEC);
	if (live->mem_fd >= 0)
		return NULL;
	if (errno == EACCES || errno == EPERM)
		return stop_not_permitted(live->source.pid);
	return error_system(errno, "process %d: can't open its memory", live->source.pid);
}

/* Decides between copy and stream, and makes the copy's room ready. */
static struct fh_error *prepare_copy(struct live *live, const struct fh_options *options)
{
	uint64_t bytes = copied_bytes(live);
	uint64_t expected = bytes + bytes / 64 + MIB;
	/* A copy, a twelfth for the ledger, and what every run needs. */
	uint64_t need = expected + expected / 6 + 64 * MIB;

	live->copying = !options->low_memory && procfs_available_memory() > need;
	if (!live->copying && !options->low_memory)
		source_warn(&live->source,
			    "memory is short (%" PRIu64 " MiB needed for a copy): the target stands still "
			    "while it is analysed", need / MIB);
	return live->copying ? copy_init(&live->copy, expected, 2 * expected + 64 * MIB) : NULL;
}

/* ---- in the stop ---------------------------------------------------------- */

static struct fh_error *read_maps(struct live *live)
{
	CLEANUP_FREE char *text = NULL;
	size_t len;

	TRY(read_text(live, "maps", &text, &len));
	TRY(procfs_parse_maps(&live->source, text, len));
	if (!live->source.mappings.len)
		return error_create(FH_ERROR_NOT_FOUND, "process %d: it ended", live->source.pid);
	return NULL;
}

static bool is_vdso(const struct source *source, uint64_t address)
{
	const struct mapping *m = source_mapping_at(source, address);

	return m && strcmp(m->path, "[vdso]") == 0;
}

/* Whether pages must be fetched from the process. No file has those of the vdso. */
static bool wanted(const struct live *live, const struct page_run *run)
{
	unsigned flags = run->flags;

	if (flags & PAGE_ZERO || (flags & PAGE_FILE && !is_vdso(&live->source, run->start)))
		return false;
	return flags & PAGE_PRESENT || (live->read_swapped && flags & PAGE_SWAPPED);
}

static struct fh_error *look(struct live *live)
{
	struct source *source = &live->source;

	/* Now that it can't become another program. */
	TRY(open_proc_files(live));
	TRY(read_command(live));
	TRY(read_auxv(live));
	TRY(read_maps(live));
	TRY(procfs_pages(live->pagemap_fd, source, &live->pages, &live->exact));
	if (!live->exact) /* only smaps knows then what Rss is */
		TRY(read_smaps(live));
	if (!live->copying)
		return NULL;
	for (size_t i = 0; i < live->pages.len; i++) {
		const struct page_run *run = &live->pages.items[i];

		bool fetch = wanted(live, run);

		for (uint64_t at = run->start; fetch && at < run->end;) {
			uint64_t end = run->end - at > 16 * MIB ? at + 16 * MIB : run->end;

			if (!copy_add(&live->copy, at, end))
				return error_create(FH_ERROR_NO_MEMORY,
						    "process %d: it grew too fast to be copied; try --low-memory",
						    source->pid);
			at = end;
		}
	}
	copy_run_all(&live->copy, live->task, live->mem_fd);
	return NULL;
}

/* While it stands only SIGKILL can end it. What was read since then would be shown as memory without contents. One
 * that is ending loses its memory (and the line VmSize) first, and then becomes a zombie. */
static struct fh_error *check_lived(const struct live *live)
{
	char path[64];
	CLEANUP_FREE char *status = procfs_text(proc_path(path, live->task, "status"), NULL);

	if (status && strstr(status, "\nVmSize:"))
		return NULL;
	return error_create(FH_ERROR_NOT_FOUND, "process %d: it ended while it was looked at", live->source.pid);
}

/* ---- after the stop ------------------------------------------------------- */

static size_t fill_from_process(void *context, uint64_t address, uint64_t offset, void *buffer, size_t len)
{
	struct live *live = context;
	struct iovec local = { buffer, len }, remote = { (void *)(uintptr_t)address, len };
	ssize_t n;

	(void)offset;
	if (!live->stop) /* it runs: what is there now belongs to another moment, and a page could be brought in */
		return 0;
	n = process_vm_readv(live->task, &local, 1, &remote, 1, 0);
	if (n <= 0)
		n = pread(live->mem_fd, buffer, len, (off_t)address);
	return n > 0 ? (size_t)n : 0;
}

/* Not what the kernel itself has pages for, such as [vvar]. */
static bool is_anonymous(const struct mapping *m)
{
	return !m->inode && (!m->path[0] || strcmp(m->path, "[heap]") == 0 || strcmp(m->path, "[stack]") == 0 ||
			     strncmp(m->path, "[anon:", strlen("[anon:")) == 0);
}

static struct fh_error *add_copied(struct live *live)
{
	struct source *source = &live->source;
	uint64_t missing = 0, first = 0;

	for (size_t i = 0; i < live->copy.runs.len; i++) {
		const struct copy_run *run = &live->copy.runs.items[i];
		const struct mapping *m = source_mapping_at(source, run->start);

		if (run->copied && !memory_add_direct(&source->memory, run->start, run->start + run->copied, run->to))
			return error_no_memory();
		if (run->copied < run->end - run->start && m && (m->inode || is_anonymous(m))) {
			first = missing ? first : run->start + run->copied;
			missing += run->end - run->start - run->copied;
		}
	}
	if (missing) { /* a page whose memory is broken, say */
		source->damaged = true;
		source_warn(source, "%" PRIu64 " bytes that are there could not be copied, the first at 0x%" PRIx64, missing,
			    first);
	}
	return NULL;
}

/* What is in no private page: the file's bytes, or zeros that nobody ever touched. */
static struct fh_error *add_rest(struct live *live, size_t mapping, uint64_t start, uint64_t end)
{
	const struct mapping *m = &live->source.mappings.items[mapping];

	if (start >= end || !(m->flags & MAPPING_READ))
		return NULL;
	if (m->inode)
		return files_add(&live->source, m, start, end);
	if (m->flags & MAPPING_SHARED || !is_anonymous(m))
		return NULL;
	return memory_add_zero(&live->source.memory, start, end) ? NULL : error_no_memory();
}

static struct fh_error *add_memory(struct live *live)
{
	struct source *source = &live->source;
	uint32_t process = MEMORY_ZERO;
	size_t p = 0;

	if (live->copying) {
		TRY(add_copied(live));
	} else {
		process = memory_add_backing(&source->memory, fill_from_process, NULL, live);
		if (process == MEMORY_ZERO)
			return error_no_memory();
	}
	for (size_t i = 0; i < source->mappings.len; i++) {
		const struct mapping *m = &source->mappings.items[i];
		uint64_t reached = m->start;

		while (p < live->pages.len && live->pages.items[p].end <= m->start)
			p++;
		for (; p < live->pages.len && live->pages.items[p].start < m->end; p++) {
			const struct page_run *run = &live->pages.items[p];

			bool fetch = wanted(live, run);

			if (!fetch && run->flags & (PAGE_ZERO | PAGE_FILE))
				continue;
			TRY(add_rest(live, i, reached, run->start));
			reached = run->end;
			if (!live->copying && fetch &&
			    !memory_add_lazy(&source->memory, run->start, run->end, process, 0))
				return error_no_memory();
		}
		TRY(add_rest(live, i, reached, m->end));
	}
	return NULL;
}

static void read_thread_names(struct source *source)
{
	for (size_t i = 0; i < source->threads.len; i++) {
		struct source_thread *thread = &source->threads.items[i];
		char path[64], *text;

		snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", source->pid, thread->tid);
		text = procfs_text(path, NULL);
		if (!text)
			continue;
		snprintf(thread->name, sizeof(thread->name), "%.*s", (int)strcspn(text, "\n"), text);
		free(text);
	}
}

static int open_if_same(const char *path, const struct mapping *mapping)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_ino == mapping->inode)
		return fd;
	close(fd);
	errno = ESTALE;
	return -1;
}

/* By map_files. If we aren't privileged enough for it, or the mapping is gone, by name: that may mean another file by
 * now; the inode tells. By a name of our own only if it sees the files that we see: it may have ended meanwhile. */
static int open_file(struct source *source, const struct mapping *mapping)
{
	const struct live *live = (const struct live *)source;
	char path[4200];
	int fd = -1, ways = live->sees_our_files ? 3 : 2;

	errno = ENOENT;
	for (int i = 0; i < ways && mapping->inode && fd < 0 && errno != EMFILE && errno != ENFILE; i++) {
		if (i == 0)
			snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, live->task, mapping->start,
				 mapping->end);
		else if (i == 1)
			snprintf(path, sizeof(path), "/proc/%d/root%s", live->task, mapping->path);
		else
			snprintf(path, sizeof(path), "%s", mapping->path);
		fd = open_if_same(path, mapping);
	}
	return fd;
}

/* Returns what is wrong with what was read while it stood. */
static struct fh_error *resume(struct source *source, bool keep_stopped)
{
	struct live *live = (struct live *)source;
	struct fh_error *error;

	if (!live->stop)
		return NULL;
	error = check_lived(live);
	if (!keep_stopped)
		source->pause_ms = stop_end(TAKE(live->stop));
	return error;
}

static void destroy(struct source *source)
{
	struct live *live = (struct live *)source;

	stop_end(live->stop);
	source_deinit(source);
	copy_deinit(&live->copy);
	vec_free(&live->smaps);
	vec_free(&live->pages);
	close_proc_files(live);
	free(live);
}

static const struct source_ops live_ops = {
	.name = "live",
	.open_file = open_file,
	.resume = resume,
	.destroy = destroy,
};

static bool is_same_place(const char *one, const char *other)
{
	struct stat a, b;

	return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Whether a path means the same to us: an inode's number alone is no proof of it. */
static bool sees_our_files(pid_t pid)
{
	char path[64];

	return is_same_place(proc_path(path, pid, "root"), "/") &&
	       is_same_place(proc_path(path, pid, "ns/mnt"), "/proc/self/ns/mnt");
}

static struct fh_error *load(struct live *live, const struct fh_options *options)
{
	struct source *source = &live->source;
	struct fh_error *error;

	TRY(check_target(live));
	live->sees_our_files = sees_our_files(live->task);
	TRY(open_proc_files(live)); /* whether we may, before anything is stopped */
	TRY(read_smaps(live));
	TRY(prepare_copy(live, options));
	TRY(stop_begin(source->pid, source, &live->stop));
	error = look(live);
	if (live->copying || error) {
		struct fh_error *ended = resume(source, false);

		if (ended) { /* explains all others */
			fh_error_destroy(error);
			error = ended;
		}
	}
	TRY(error);
	source->streamed = !live->copying;
	read_thread_names(source);
	TRY(procfs_settle(source, &live->pages, &live->smaps, live->exact));
	TRY(add_memory(live));
	/* With a copy the cache only holds pieces of files. */
	return memory_seal(&source->memory,
			   live->copying ? 8 * MIB : 8 * MIB + source->os_resident / 32);
}

struct fh_error *source_open_live(pid_t pid, const struct fh_options *options, struct source **ret)
{
	struct live *live = calloc(1, sizeof(*live));
	struct fh_error *error;

	if (!live)
		return error_no_memory();
	live->pagemap_fd = live->mem_fd = -1;
	live->read_swapped = options->swapped;
	error = source_init(&live->source, &live_ops);
	live->source.pid = pid;
	if (!error)
		error = load(live, options);
	if (error) {
		destroy(&live->source);
		return error;
	}
	*ret = &live->source;
	return NULL;
}
