/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_target.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- the source ------------------------------------------------------------ */

static int open_file(struct source *source, const struct mapping *mapping)
{
	struct fake_source *fake = (struct fake_source *)source;
	int fd;

	fake->opened++;
	if (!fake->file || !mapping->inode)
		return -1;
	fd = memfd_create("fake", 0);
	if (fd >= 0 && write(fd, fake->file, fake->file_size) != (ssize_t)fake->file_size) {
		close(fd);
		return -1;
	}
	return fd;
}

static void destroy(struct source *source)
{
	source_deinit(source);
}

static const struct source_ops fake_ops = { .name = "fake", .open_file = open_file, .destroy = destroy };

void fake_source_init(struct fake_source *fake)
{
	memset(fake, 0, sizeof(*fake));
	if (source_init(&fake->source, &fake_ops))
		__builtin_trap();
}

void fake_source_deinit(struct fake_source *fake)
{
	source_deinit(&fake->source);
}

void fake_mapping(struct fake_source *fake, uint64_t start, uint64_t end, uint32_t flags, uint64_t offset,
		  uint64_t inode, const char *path, const void *bytes)
{
	struct mapping mapping = { .start = start, .end = end, .flags = flags, .offset = offset, .inode = inode };

	mapping.path = strings_add(fake->source.strings, path);
	if (!vec_push(&fake->source.mappings, mapping))
		__builtin_trap();
	fake->source.os_virtual += end - start;
	if (bytes && !memory_add_direct(&fake->source.memory, start, end, bytes))
		__builtin_trap();
}

void fake_source_seal(struct fake_source *fake)
{
	if (memory_seal(&fake->source.memory, 0))
		__builtin_trap();
}

/* ---- the ELF file ------------------------------------------------------------ */

enum { /* places in the file */
	AT_NOTE = 0x300, AT_SYMBOLS = 0x400, AT_STRINGS = 0x500, AT_HASH = 0x600,
	AT_SYMTAB = 0x700, AT_SECTIONS = 0x800, AT_DATA = 0x3000,
};

static const char names[] = "\0first\0second\0undefined\0thread\0hidden";

static uint32_t name_of(const char *name)
{
	for (uint32_t i = 1; i < sizeof(names); i += (uint32_t)strlen(names + i) + 1)
		if (strcmp(names + i, name) == 0)
			return i;
	__builtin_trap();
}

static void write_headers(struct fake_elf *elf)
{
	static const struct {
		uint32_t type, flags;
		uint64_t offset, vaddr, filesz, memsz, align;
	} wanted[FAKE_HEADERS] = {
		{ PT_LOAD, PF_R, 0, 0, 0x1000, 0x1000, 4096 },
		{ PT_LOAD, PF_R | PF_X, 0x1000, 0x1000, 0x900, 0x900, 4096 },
		{ PT_LOAD, PF_R, 0x2000, 0x2000, 0x700, 0x700, 4096 },
		{ PT_LOAD, PF_R | PF_W, AT_DATA, FAKE_DATA_VADDR, FAKE_DATA_BYTES, FAKE_DATA_BYTES + FAKE_BSS_BYTES, 4096 },
		{ PT_NOTE, PF_R, AT_NOTE, AT_NOTE, 64, 64, 4 },
		{ PT_DYNAMIC, PF_R | PF_W, AT_DATA + 0x100, FAKE_DYNAMIC, 0x100, 0x100, 8 },
		{ PT_GNU_RELRO, PF_R, AT_DATA, FAKE_DATA_VADDR, 0x200, 0x200, 1 },
		{ PT_TLS, PF_R, AT_DATA, FAKE_DATA_VADDR, 8, 40, 16 },
	};

	elf->header = (Elf64_Ehdr *)elf->bytes;
	elf->program = (Elf64_Phdr *)(elf->bytes + sizeof(Elf64_Ehdr));
	*elf->header = (Elf64_Ehdr){
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_DYN, .e_machine = EM_X86_64, .e_version = EV_CURRENT,
		.e_phoff = sizeof(Elf64_Ehdr), .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = FAKE_HEADERS,
		.e_ehsize = sizeof(Elf64_Ehdr), .e_shoff = AT_SECTIONS, .e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = 3,
	};
	for (int i = 0; i < FAKE_HEADERS; i++)
		elf->program[i] = (Elf64_Phdr){
			.p_type = wanted[i].type, .p_flags = wanted[i].flags, .p_offset = wanted[i].offset,
			.p_vaddr = wanted[i].vaddr, .p_paddr = wanted[i].vaddr, .p_filesz = wanted[i].filesz,
			.p_memsz = wanted[i].memsz, .p_align = wanted[i].align,
		};
}

/* First a note that isn't it. */
static void write_notes(struct fake_elf *elf)
{
	uint8_t *at = elf->bytes + AT_NOTE;
	Elf64_Nhdr other = { 4, 4, NT_GNU_ABI_TAG }, id = { 4, 20, NT_GNU_BUILD_ID };

	memcpy(at, &other, sizeof(other));
	memcpy(at + 12, "GNU", 4);
	at += 20;
	memcpy(at, &id, sizeof(id));
	memcpy(at + 12, "GNU", 4);
	for (int i = 0; i < 20; i++)
		at[16 + i] = (uint8_t)(i + 1);
}

static Elf64_Sym symbol(const char *name, uint8_t type, uint16_t section, uint64_t value, uint64_t size)
{
	return (Elf64_Sym){ name_of(name), ELF64_ST_INFO(STB_GLOBAL, type), STV_DEFAULT, section, value, size };
}

static uint32_t gnu_hash(const char *name)
{
	uint32_t h = 5381;

	while (*name)
		h = h * 33 + (uint8_t)*name++;
	return h;
}

/* One bucket, and a Bloom filter that lets everything pass. */
static void write_hash(struct fake_elf *elf, enum fake_hash hash, const char *const *order)
{
	uint32_t *at = (uint32_t *)(elf->bytes + AT_HASH);

	if (hash == FAKE_SYSV_HASH) {
		at[0] = 1;
		at[1] = 5;
		at[2] = 1;
		return;
	}
	at[0] = 1;
	at[1] = 1;
	at[2] = 1;
	at[3] = 6;
	at[4] = at[5] = UINT32_MAX;
	at[6] = 1;
	for (uint32_t i = 0; i < 4; i++)
		at[7 + i] = (gnu_hash(order[i]) & ~1u) | (i == 3);
}

static void write_symbols(struct fake_elf *elf, enum fake_hash hash)
{
	static const char *const order[] = { "undefined", "first", "thread", "second" };
	Elf64_Sym *symbols = (Elf64_Sym *)(elf->bytes + AT_SYMBOLS);
	Elf64_Sym *hidden = (Elf64_Sym *)(elf->bytes + AT_SYMTAB);
	Elf64_Dyn *dynamic = (Elf64_Dyn *)(elf->bytes + AT_DATA + 0x100);
	Elf64_Shdr *sections = (Elf64_Shdr *)(elf->bytes + AT_SECTIONS);

	symbols[1] = symbol(order[0], STT_OBJECT, SHN_UNDEF, 0, 0);
	symbols[2] = symbol(order[1], STT_OBJECT, 1, 0x4010, 16);
	symbols[3] = symbol(order[2], STT_TLS, 1, 8, 8);
	symbols[4] = symbol(order[3], STT_OBJECT, 1, 0x4020, 32);
	hidden[1] = symbol("hidden", STT_FUNC, 1, 0x1010, 5);
	memcpy(elf->bytes + AT_STRINGS, names, sizeof(names));
	write_hash(elf, hash, order);
	dynamic[0] = (Elf64_Dyn){ .d_tag = DT_SYMTAB, .d_un.d_ptr = AT_SYMBOLS };
	dynamic[1] = (Elf64_Dyn){ .d_tag = DT_STRTAB, .d_un.d_ptr = AT_STRINGS };
	dynamic[2] = (Elf64_Dyn){ .d_tag = DT_STRSZ, .d_un.d_val = sizeof(names) };
	dynamic[3] = (Elf64_Dyn){ .d_tag = hash == FAKE_GNU_HASH ? DT_GNU_HASH : DT_HASH, .d_un.d_ptr = AT_HASH };
	sections[1] = (Elf64_Shdr){ .sh_type = SHT_SYMTAB, .sh_offset = AT_SYMTAB, .sh_size = 2 * sizeof(*hidden),
				    .sh_entsize = sizeof(*hidden), .sh_link = 2, .sh_addralign = 8 };
	sections[2] = (Elf64_Shdr){ .sh_type = SHT_STRTAB, .sh_offset = AT_STRINGS, .sh_size = sizeof(names),
				    .sh_addralign = 1 };
}

void fake_elf_write(struct fake_elf *elf, enum fake_hash hash)
{
	memset(elf->bytes, 0, sizeof(elf->bytes));
	write_headers(elf);
	write_notes(elf);
	write_symbols(elf, hash);
}

void fake_elf_map(struct fake_source *fake, const struct fake_elf *elf, uint64_t at, uint64_t inode,
		  const char *path, uint64_t end)
{
	fake_mapping(fake, at, at + 0x1000, MAPPING_READ, 0, inode, path, elf->bytes);
	fake_mapping(fake, at + 0x1000, at + 0x2000, MAPPING_READ | MAPPING_EXEC, 0x1000, inode, path,
		     elf->bytes + 0x1000);
	fake_mapping(fake, at + 0x2000, at + 0x3000, MAPPING_READ, 0x2000, inode, path, elf->bytes + 0x2000);
	fake_mapping(fake, at + FAKE_DATA_VADDR, at + FAKE_DATA_VADDR + 0x1000, MAPPING_READ | MAPPING_WRITE, AT_DATA,
		     inode, path, elf->bytes + AT_DATA);
	fake_mapping(fake, at + FAKE_DATA_VADDR + 0x1000, at + end, MAPPING_READ | MAPPING_WRITE, 0, 0, "", NULL);
}
