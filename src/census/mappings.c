/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first row of every mapping, by what the operating system calls it. Anonymous private memory stays
 * `uncategorized / dark` until an image, a stack, an allocator or a runtime claims it.
 * Source of the names: proc_pid_maps(5), and the callers of vm_ops->name, shmem_kernel_file_setup() and
 * anon_inode_getfile() in Linux 6.18.
 */
#include <elf.h>
#include <string.h>

#include "census/census.h"

#define MOST_VVAR 65536

static bool has_prefix(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* What the path says, whether there is a file or not. The first that fits. */
static const struct {
	const char *prefix, *kind;
} names[] = {
	{ "[vdso]", "vdso" },
	{ "[vvar", "vvar" }, /* also [vvar_vclock] */
	{ "[vsyscall]", "vsyscall" },
	{ "[uprobes]", "uprobes" },
	{ "/memfd:", "shared memory" },
	{ "/dev/shm/", "shared memory" },
	{ "/SYSV", "shared memory" },
	{ "/dev/zero", "shared memory" },
	{ "[anon_shmem:", "shared memory" },
	{ "/anon_hugepage", "huge pages" },
	{ "/dev/hugepages/", "huge pages" },
	{ "anon_inode:", "kernel object" }, /* [io_uring], [perf_event], [userfaultfd] ... */
	{ "/[aio]", "kernel object" },
	{ "socket:", "kernel object" },
	{ "/dmabuf:", "device" },
	{ "/dev/", "device" },
	{ "/drm ", "device" },
	{ "/i915", "device" },
};

/* Shared anonymous memory is a file of that name that has none in any folder; a private mapping of the
 * device is ordinary memory. A core doesn't say what is shared. */
static bool is_anonymous_zero(const struct mapping *m)
{
	return strcmp(m->path, "/dev/zero") == 0 && !(m->flags & (MAPPING_SHARED | MAPPING_DELETED));
}

static bool is_zero_page(struct source *source, uint64_t address)
{
	static const uint8_t zeros[PAGE];
	uint8_t page[PAGE];

	return source_read(source, address, page, sizeof(page)) && memcmp(page, zeros, sizeof(page)) == 0;
}

bool census_is_reserved(struct source *source, const struct mapping *m)
{
	if (!(m->flags & (MAPPING_READ | MAPPING_WRITE | MAPPING_EXEC)))
		return !mapping_has_file(m);
	if (m->flags & (MAPPING_WRITE | MAPPING_EXEC | MAPPING_SHARED) || mapping_has_file(m) || m->path[0])
		return false;
	return is_zero_page(source, m->start) && is_zero_page(source, m->end - PAGE);
}

static const char *kind_of_name(const struct mapping *m)
{
	if (is_anonymous_zero(m))
		return NULL;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (has_prefix(m->path, names[i].prefix))
			return names[i].kind;
	return mapping_has_file(m) ? "file mapping" : NULL;
}

static struct category category_of_mapping(struct source *source, const struct mapping *m)
{
	struct category c = { .domain = "os", .kind = kind_of_name(m), .detail = m->path };

	if (c.kind) {
		if (m->path[0] == '[' && !has_prefix(m->path, "[anon"))
			c.detail = ""; /* the kind says it */
		return c;
	}
	/* A name that the program gave by prctl(PR_SET_VMA_ANON_NAME), or none. */
	c.detail = has_prefix(m->path, "[anon:") ? m->path : "";
	if (m->flags & MAPPING_SHARED)
		c.kind = "shared memory";
	else if (census_is_reserved(source, m))
		c.kind = "reserved";
	else if (m->flags & MAPPING_EXEC)
		c.kind = "anonymous code";
	else
		c = (struct category){ .domain = "uncategorized", .kind = "dark", .detail = c.detail };
	return c;
}

/* A core has no such names; what the kernel told the program at its start serves as well. The pages of data for
 * the vdso lie below it, in one mapping or two. */
static void find_vdso(const struct source *source, uint64_t *ret_vvar, uint64_t *ret_vdso)
{
	const struct mapping *m;

	*ret_vdso = *ret_vvar = source_auxv(source, AT_SYSINFO_EHDR);
	for (int i = 0; i < 2 && *ret_vvar && (m = source_mapping_at(source, *ret_vvar - 1)); i++) {
		if (m->flags & (MAPPING_WRITE | MAPPING_EXEC) || mapping_has_file(m) || m->end - m->start > MOST_VVAR)
			break;
		*ret_vvar = m->start;
	}
}

struct fh_error *census_add_mappings(struct target *target)
{
	uint64_t vvar, vdso;

	find_vdso(target->source, &vvar, &vdso);
	for (size_t i = 0; i < target->source->mappings.len; i++) {
		const struct mapping *m = &target->source->mappings.items[i];
		struct category c = category_of_mapping(target->source, m);

		if (vdso && m->start >= vvar && m->start <= vdso && !mapping_has_file(m))
			c = (struct category){ .domain = "os", .kind = m->start == vdso ? "vdso" : "vvar", .detail = "" };
		ledger_add_mapping(target->ledger, m->start, m->end, ledger_category(target->ledger, &c));
	}
	return ledger_commit(target->ledger);
}
