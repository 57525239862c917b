/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first row of every mapping, by what the operating system calls it. Anonymous private memory
 * stays `uncategorized / dark` until an allocator, a stack or an image claims it.
 */
#include <string.h>
#include <sys/sysmacros.h>

#include "census/census.h"

static bool has_prefix(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Names in brackets are the kernel's (proc_pid_maps(5)). */
static const struct {
	const char *path, *kind;
} kernel_names[] = {
	{ "[vdso]", "vdso" },		{ "[vvar]", "vvar" },	  { "[vvar_vclock]", "vvar" },
	{ "[vsyscall]", "vsyscall" },	{ "[uprobes]", "uprobes" }, { "[sigpage]", "sigpage" },
};

static struct category shared_or_file(const struct mapping *m)
{
	struct category c = { .domain = "os", .kind = "file mapping", .detail = m->path };

	if (m->flags & MAPPING_SHARED && (has_prefix(m->path, "/memfd:") || has_prefix(m->path, "/dev/shm/") ||
					  has_prefix(m->path, "/SYSV") || has_prefix(m->path, "/dev/zero") ||
					  has_prefix(m->path, "[anon_shmem:")))
		c.kind = "shared memory";
	else if (has_prefix(m->path, "/anon_hugepage") || has_prefix(m->path, "/dev/hugepages/"))
		c.kind = "huge pages";
	else if (has_prefix(m->path, "anon_inode:") || has_prefix(m->path, "/anon_inode:"))
		c.kind = "kernel object";
	else if (has_prefix(m->path, "/dev/"))
		c.kind = "device";
	return c;
}

static struct category category_of_mapping(const struct mapping *m)
{
	for (size_t i = 0; i < sizeof(kernel_names) / sizeof(*kernel_names); i++)
		if (strcmp(m->path, kernel_names[i].path) == 0)
			return (struct category){ .domain = "os", .kind = kernel_names[i].kind, .detail = "" };
	if (m->inode || has_prefix(m->path, "anon_inode:") || m->path[0] == '/')
		return shared_or_file(m);
	if (m->flags & MAPPING_SHARED)
		return (struct category){ .domain = "os", .kind = "shared memory", .detail = m->path };
	if (!(m->flags & (MAPPING_READ | MAPPING_WRITE | MAPPING_EXEC)))
		return (struct category){ .domain = "os", .kind = "reserved", .detail = "" };
	if (m->flags & MAPPING_EXEC)
		return (struct category){ .domain = "os", .kind = "anonymous code",
					  .detail = has_prefix(m->path, "[anon:") ? m->path : "" };
	return (struct category){ .domain = "uncategorized", .kind = "dark",
				  .detail = has_prefix(m->path, "[anon:") ? m->path : "" };
}

struct fh_error *census_add_mappings(struct target *target)
{
	for (size_t i = 0; i < target->source->mappings.len; i++) {
		const struct mapping *m = &target->source->mappings.items[i];
		struct category c = category_of_mapping(m);

		ledger_add_mapping(target->ledger, m->start, m->end, ledger_category(target->ledger, &c));
	}
	return ledger_commit(target->ledger);
}
