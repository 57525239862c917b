/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Core files, by the kernel and by gcore (elf(5), core(5)). A core is a claim by somebody: every header is
 * checked against the file's size and against sense, and what doesn't hold is left out and said.
 */
#include "source/core.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "source/files.h"

#define MIB (UINT64_C(1) << 20)
#define MOST_SEGMENTS (1u << 22)
#define ADDRESS_TOP (UINT64_C(1) << 56) /* user space with five levels of page tables */
#define VSYSCALL UINT64_C(0xffffffffff600000)

bool core_pread(const struct core *core, uint64_t offset, void *buffer, size_t len)
{
	return files_pread(core->fd, offset, buffer, len) == len;
}

size_t core_read(struct core *core, uint64_t address, void *buffer, size_t len)
{
	size_t i = vec_after(&core->segments, .p_vaddr, address);
	const Elf64_Phdr *s = i ? &core->segments.items[i - 1] : NULL;
	uint64_t inside = s ? address - s->p_vaddr : 0, have = s && inside < s->p_filesz ? s->p_filesz - inside : 0;

	len = len < have ? len : have;
	return len && core_pread(core, s->p_offset + inside, buffer, len) ? len : 0;
}

/* ---- what kind of file it is ------------------------------------------------------------- */

static const struct {
	uint8_t bytes[6];
	uint8_t len;
	const char *tool;
} compressed[] = {
	{ { 0x28, 0xb5, 0x2f, 0xfd }, 4, "zstd -d" },
	{ { 0x1f, 0x8b }, 2, "gzip -d" },
	{ { 0x04, 0x22, 0x4d, 0x18 }, 4, "lz4 -d" },
	{ { 0xfd, '7', 'z', 'X', 'Z' }, 5, "xz -d" },
};

static const char *machine_name(unsigned machine, char buffer[32])
{
	static const struct {
		unsigned machine;
		const char *name;
	} names[] = {
		{ EM_386, "i386" }, { EM_AARCH64, "aarch64" }, { EM_ARM, "arm" }, { EM_PPC64, "ppc64" },
		{ EM_S390, "s390" }, { EM_RISCV, "riscv" }, { EM_MIPS, "mips" }, { EM_SPARCV9, "sparc64" },
		{ EM_X86_64, "x86-64" }, { 258, "loongarch" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (names[i].machine == machine)
			return names[i].name;
	snprintf(buffer, 32, "machine number %u", machine);
	return buffer;
}

static struct fh_error *check_header(const char *path, const Elf64_Ehdr *header)
{
	char buffer[32];

	for (size_t i = 0; i < sizeof(compressed) / sizeof(*compressed); i++)
		if (memcmp(header, compressed[i].bytes, compressed[i].len) == 0)
			return error_create(FH_ERROR_FORMAT, "%s: it is compressed; unpack it first (%s)", path,
					    compressed[i].tool);
	if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
		return error_create(FH_ERROR_FORMAT, "%s: it is not a core file (no ELF header)", path);
	if (header->e_ident[EI_DATA] != ELFDATA2LSB || header->e_machine != EM_X86_64 ||
	    header->e_ident[EI_CLASS] != ELFCLASS64)
		return error_create(FH_ERROR_FORMAT, "%s: it is for %s%s; only 64-bit x86-64 is understood", path,
				    machine_name(header->e_ident[EI_DATA] == ELFDATA2MSB ?
							 __builtin_bswap16(header->e_machine) : header->e_machine,
						 buffer),
				    header->e_ident[EI_CLASS] == ELFCLASS64 ? "" : " (32 bits)");
	if (header->e_type != ET_CORE)
		return error_create(FH_ERROR_FORMAT, "%s: it is %s, not a core file", path,
				    header->e_type == ET_EXEC || header->e_type == ET_DYN ?
					    "a program or library" : "an object file");
	return NULL;
}

static struct fh_error *open_core(struct core *core, const char *path)
{
	struct stat st;

	core->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (core->fd < 0 || fstat(core->fd, &st) < 0)
		return error_system(errno, "%s", path);
	if (!S_ISREG(st.st_mode))
		return error_create(FH_ERROR_FORMAT, "%s: it is %s, not a core file; name a core or a process id", path,
				    S_ISDIR(st.st_mode) ? "a directory" : "no regular file");
	core->file_size = (uint64_t)st.st_size;
	if (core->file_size == 0)
		return error_create(FH_ERROR_FORMAT, "%s: the file is empty", path);
	return NULL;
}

/* ---- segments -------------------------------------------------------------------------- */

/* With 65,535 or more segments their number is in the first section header (PN_XNUM, elf(5)). */
static size_t segment_count(const struct core *core, const Elf64_Ehdr *header)
{
	Elf64_Shdr section;

	if (header->e_phnum != PN_XNUM)
		return header->e_phnum;
	if (!core_pread(core, header->e_shoff, &section, sizeof(section)))
		return 0;
	return section.sh_info;
}

static int compare_segments(const void *a, const void *b)
{
	const Elf64_Phdr *x = a, *y = b;

	return x->p_vaddr < y->p_vaddr ? -1 : x->p_vaddr > y->p_vaddr;
}

static struct fh_error *add_segment(struct core *core, const Elf64_Phdr *header)
{
	Elf64_Phdr s = *header;
	uint64_t have;

	if (s.p_memsz == 0)
		return NULL;
	if (s.p_filesz > s.p_memsz)
		s.p_filesz = s.p_memsz;
	if ((s.p_vaddr >= ADDRESS_TOP || s.p_memsz > ADDRESS_TOP - s.p_vaddr) &&
	    !(s.p_vaddr == VSYSCALL && s.p_memsz <= 16 * PAGE)) {
		if (core->absurd++ == 0)
			source_warn(&core->source, "the segment at 0x%" PRIx64 " claims 0x%" PRIx64 " bytes and is left out",
				    s.p_vaddr, s.p_memsz);
		core->source.damaged = true;
		return NULL;
	}
	have = s.p_offset < core->file_size ? core->file_size - s.p_offset : 0;
	if (s.p_filesz > have) {
		core->missing += s.p_filesz - have;
		s.p_filesz = have;
		s.p_flags |= PF_MASKOS; /* marks the rest as missing, not as left out */
	}
	return vec_push(&core->segments, s) ? NULL : error_no_memory();
}

/* Sorts, and cuts where two overlap. */
static void settle_segments(struct core *core)
{
	uint64_t reached = 0;
	size_t kept = 0, overlaps = 0;

	if (core->segments.len)
		qsort(core->segments.items, core->segments.len, sizeof(Elf64_Phdr), compare_segments);
	for (size_t i = 0; i < core->segments.len; i++) {
		Elf64_Phdr s = core->segments.items[i];
		uint64_t cut = s.p_vaddr < reached ? reached - s.p_vaddr : 0;

		if (cut && overlaps++ == 0) {
			source_warn(&core->source, "segments overlap at 0x%" PRIx64 ", the first one counts", s.p_vaddr);
			core->source.damaged = true;
		}
		if (cut >= s.p_memsz)
			continue;
		s.p_vaddr += cut;
		s.p_offset += cut;
		s.p_memsz -= cut;
		s.p_filesz -= cut < s.p_filesz ? cut : s.p_filesz;
		reached = s.p_vaddr + s.p_memsz;
		core->segments.items[kept++] = s;
	}
	core->segments.len = kept;
	if (overlaps > 1)
		source_warn(&core->source, "%zu segments in all overlap others", overlaps);
	if (core->absurd > 1)
		source_warn(&core->source, "%zu segments in all claim what can't be, and are left out", core->absurd);
}

static struct fh_error *read_segments(struct core *core, const char *path, const Elf64_Ehdr *header)
{
	size_t n = segment_count(core, header);

	if (header->e_phentsize != sizeof(Elf64_Phdr) || n == 0)
		return error_create(FH_ERROR_FORMAT, "%s: the core has no program headers; it is damaged", path);
	if (n > MOST_SEGMENTS)
		n = MOST_SEGMENTS;
	for (size_t i = 0; i < n; i++) {
		Elf64_Phdr segment;

		if (!core_pread(core, header->e_phoff + i * sizeof(segment), &segment, sizeof(segment))) {
			source_warn(&core->source, "the core ends within its program headers: %zu of %zu were read", i, n);
			core->source.damaged = true;
			break;
		}
		if (segment.p_type == PT_LOAD)
			TRY(add_segment(core, &segment));
		else if (segment.p_type == PT_NOTE)
			TRY(core_read_notes(core, &segment));
	}
	settle_segments(core);
	if (!core->segments.len)
		return error_create(FH_ERROR_FORMAT, "%s: the core holds no memory; it is damaged", path);
	if (core->missing) {
		source_warn(&core->source, "the core is cut short: %" PRIu64 " bytes are missing at its end; what they held "
			    "is shown as far as it can be known", core->missing);
		core->source.damaged = true;
	}
	return NULL;
}

/* ---- memory ------------------------------------------------------------------------------- */

static size_t fill_from_core(void *context, uint64_t address, uint64_t offset, void *buffer, size_t len)
{
	(void)address;
	return files_pread(((const struct core *)context)->fd, offset, buffer, len);
}

static const struct core_mapped_file *mapped_at(const struct core *core, uint64_t address)
{
	size_t i = vec_after(&core->mapped, .start, address);

	return i && address < core->mapped.items[i - 1].end ? &core->mapped.items[i - 1] : NULL;
}

/* The names that the kernel gives to mappings without a file. */
static const char *special_name(const struct source *source, const Elf64_Phdr *s)
{
	uint64_t random = source_auxv(source, AT_RANDOM), vdso = source_auxv(source, AT_SYSINFO_EHDR);

	if (s->p_vaddr == VSYSCALL)
		return "[vsyscall]";
	if (vdso && s->p_vaddr == vdso)
		return "[vdso]";
	if (vdso && s->p_vaddr + s->p_memsz == vdso && !(s->p_flags & (PF_W | PF_X)))
		return "[vvar]";
	if (random >= s->p_vaddr && random - s->p_vaddr < s->p_memsz)
		return "[stack]";
	return "";
}

/* A core says nothing of inodes: paths are pooled, so their address tells files apart as well. */
static uint64_t file_number(const struct core_mapped_file *file)
{
	return (uintptr_t)file->path;
}

static bool add_mapping(struct core *core, const Elf64_Phdr *s)
{
	const struct core_mapped_file *file = mapped_at(core, s->p_vaddr);
	struct mapping m = {
		.start = s->p_vaddr, .end = s->p_vaddr + s->p_memsz,
		.flags = (s->p_flags & PF_R ? MAPPING_READ : 0) | (s->p_flags & PF_W ? MAPPING_WRITE : 0) |
			 (s->p_flags & PF_X ? MAPPING_EXEC : 0) | (s->p_filesz < s->p_memsz ? MAPPING_OMITTED : 0) |
			 (file && file->deleted ? MAPPING_DELETED : 0),
		.offset = file ? file->offset + (s->p_vaddr - file->start) : 0,
		.inode = file ? file_number(file) : 0,
		.path = file ? file->path : strings_add(core->source.strings, special_name(&core->source, s)),
	};

	core->source.os_virtual += s->p_memsz;
	return m.path && vec_push(&core->source.mappings, m);
}

static struct fh_error *add_memory(struct core *core)
{
	struct source *source = &core->source;
	uint32_t backing = memory_add_backing(&source->memory, fill_from_core, NULL, core);

	if (backing == MEMORY_ZERO)
		return error_no_memory();
	for (size_t i = 0; i < core->segments.len; i++) {
		const Elf64_Phdr *s = &core->segments.items[i];

		if (!add_mapping(core, s) ||
		    !memory_add_lazy(&source->memory, s->p_vaddr, s->p_vaddr + s->p_filesz, backing, s->p_offset))
			return error_no_memory();
	}
	for (size_t i = 0; i < core->segments.len; i++) {
		const Elf64_Phdr *s = &core->segments.items[i];

		/* Text is left out; it comes from the file. What is missing may have been written to. */
		if (s->p_filesz < s->p_memsz && source->mappings.items[i].inode && !(s->p_flags & PF_MASKOS))
			TRY(files_add(source, &source->mappings.items[i], s->p_vaddr + s->p_filesz, s->p_vaddr + s->p_memsz));
	}
	return NULL;
}

/* Mapped files without a segment of their own: gcore leaves out what the file still has. What the core has bytes of
 * is never taken from a file. */
static struct fh_error *add_omitted(struct core *core)
{
	struct source *source = &core->source;
	size_t next = 0; /* the first segment that ends behind the file's start */

	for (size_t i = 0; i < core->mapped.len; i++) {
		const struct core_mapped_file *file = &core->mapped.items[i];
		struct mapping m = { .start = file->start, .end = file->end, .offset = file->offset, .inode = file_number(file),
				     .flags = MAPPING_READ | MAPPING_OMITTED, .path = file->path };

		while (next < source->mappings.len && source->mappings.items[next].end <= m.start)
			next++;
		if (next < source->mappings.len && source->mappings.items[next].start < m.end)
			m.end = source->mappings.items[next].start;
		if (m.start < m.end && !vec_push(&source->omitted, m))
			return error_no_memory();
	}
	for (size_t i = 0; i < source->omitted.len; i++)
		TRY(files_add(source, &source->omitted.items[i], source->omitted.items[i].start,
			      source->omitted.items[i].end));
	return NULL;
}

/* ---- all together ---------------------------------------------------------------------------- */

static int compare_mapped(const void *a, const void *b)
{
	const struct core_mapped_file *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static void put_main_thread_first(struct source *source)
{
	for (size_t i = 1; i < source->threads.len; i++)
		if (source->threads.items[i].tid == source->pid) {
			struct source_thread first = source->threads.items[0];

			source->threads.items[0] = source->threads.items[i];
			source->threads.items[i] = first;
		}
}

static void find_exe(struct core *core)
{
	const struct core_mapped_file *file = mapped_at(core, source_auxv(&core->source, AT_PHDR));

	if (file)
		core->source.exe = file->path;
	else if (core->exe)
		core->source.exe = core->exe;
}

static int open_file(struct source *source, const struct mapping *mapping)
{
	errno = ENOENT;
	return mapping->inode ? core_open_file((struct core *)source, mapping->path) : -1;
}

static void destroy(struct source *source)
{
	struct core *core = (struct core *)source;

	source_deinit(source);
	vec_free(&core->known);
	hashmap_deinit(&core->known_paths);
	vec_free(&core->by_path);
	vec_free(&core->segments);
	vec_free(&core->mapped);
	if (core->fd >= 0)
		close(core->fd);
	free(core);
}

static const struct source_ops core_ops = {
	.name = "core",
	.open_file = open_file,
	.destroy = destroy,
};

static struct fh_error *load(struct core *core, const char *path)
{
	Elf64_Ehdr header = { 0 };
	uint64_t size = 0;

	TRY(open_core(core, path));
	if (pread(core->fd, &header, sizeof(header), 0) < (ssize_t)sizeof(header))
		return error_create(FH_ERROR_FORMAT, "%s: it is too short for a core file", path);
	TRY(check_header(path, &header));
	TRY(read_segments(core, path, &header));
	if (core->mapped.len)
		qsort(core->mapped.items, core->mapped.len, sizeof(*core->mapped.items), compare_mapped);
	put_main_thread_first(&core->source);
	find_exe(core);
	TRY(add_memory(core));
	TRY(add_omitted(core));
	for (size_t i = 0; i < core->segments.len; i++)
		size += core->segments.items[i].p_filesz;
	return memory_seal(&core->source.memory, 8 * MIB + size / 32);
}

/* A slip in an option must not look like a core that needs none. */
static struct fh_error *check_options(const struct fh_options *options)
{
	struct stat st;

	if (options->exe && stat(options->exe, &st) < 0)
		return error_system(errno, "%s: the executable for the core", options->exe);
	if (options->sysroot && stat(options->sysroot, &st) < 0)
		return error_system(errno, "%s: the root of the core's files", options->sysroot);
	return NULL;
}

struct fh_error *source_open_core(const char *path, const struct fh_options *options, struct source **ret)
{
	struct core *core = calloc(1, sizeof(*core));
	struct fh_error *error;

	if (!core)
		return error_no_memory();
	core->fd = -1;
	core->exe = options->exe;
	core->sysroot = options->sysroot;
	error = source_init(&core->source, &core_ops);
	if (!error)
		error = check_options(options);
	if (!error)
		error = load(core, path);
	if (error) {
		destroy(&core->source);
		return error;
	}
	*ret = &core->source;
	return NULL;
}
