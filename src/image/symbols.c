/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbols: through libelf from the file when it can be had, else .dynsym by way of the dynamic section in
 * the target's memory. A damaged file means no symbols.
 */
#include <elf.h>
#include <gelf.h>
#include <libelf.h>
#include <string.h>
#include <unistd.h>

#include "image/image.h"

#define MOST_SYMBOLS (1u << 20)

/* The mapping that an image starts in, by which the source knows its file. */
static Elf *open_elf(const struct images *images, struct image *image)
{
	const struct mapping *m = source_mapping_at(images->source, image->start);

	if (image->elf || image->fd == -2)
		return image->elf;
	image->fd = m ? images->source->ops->open_file(images->source, m) : -1;
	if (image->fd >= 0)
		image->elf = elf_begin(image->fd, ELF_C_READ, NULL);
	if (image->elf && elf_kind(image->elf) != ELF_K_ELF) {
		elf_end(image->elf);
		image->elf = NULL;
	}
	if (!image->elf && image->fd >= 0)
		close(image->fd);
	if (!image->elf)
		image->fd = -2;
	return image->elf;
}

static bool find_in_section(const struct image *image, Elf *elf, Elf_Scn *section, const GElf_Shdr *header,
			    const char *name, uint64_t *ret_address, uint64_t *ret_size)
{
	Elf_Data *data = elf_getdata(section, NULL);
	size_t n = data && header->sh_entsize ? data->d_size / header->sh_entsize : 0;

	for (size_t i = 0; i < n && i < MOST_SYMBOLS; i++) {
		GElf_Sym symbol;
		const char *text;

		if (!gelf_getsym(data, (int)i, &symbol) || symbol.st_shndx == SHN_UNDEF)
			continue;
		text = elf_strptr(elf, header->sh_link, symbol.st_name);
		if (!text || strcmp(text, name) != 0)
			continue;
		*ret_address = image->bias + symbol.st_value;
		if (ret_size)
			*ret_size = symbol.st_size;
		return true;
	}
	return false;
}

static bool find_in_file(const struct image *image, Elf *elf, const char *name, uint64_t *ret_address,
			 uint64_t *ret_size)
{
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
		GElf_Shdr header;

		if (gelf_getshdr(section, &header) &&
		    (header.sh_type == SHT_DYNSYM || header.sh_type == SHT_SYMTAB) &&
		    find_in_section(image, elf, section, &header, name, ret_address, ret_size))
			return true;
	}
	return false;
}

struct dynamic {
	uint64_t symbols, strings, strings_size, hash, gnu_hash;
};

/* Values of the dynamic section; ld.so has turned most of them into addresses, not all do. */
static bool read_dynamic(struct source *source, const struct image *image, struct dynamic *ret)
{
	*ret = (struct dynamic){ 0 };
	for (size_t i = 0; image->dynamic && i < 256; i++) {
		Elf64_Dyn entry;
		uint64_t value;

		if (!source_read(source, image->dynamic + i * sizeof(entry), &entry, sizeof(entry)))
			return false;
		value = entry.d_un.d_ptr < image->bias ? entry.d_un.d_ptr + image->bias : entry.d_un.d_ptr;
		switch (entry.d_tag) {
		case DT_NULL: return ret->symbols && ret->strings;
		case DT_SYMTAB: ret->symbols = value; break;
		case DT_STRTAB: ret->strings = value; break;
		case DT_STRSZ: ret->strings_size = entry.d_un.d_val; break;
		case DT_HASH: ret->hash = value; break;
		case DT_GNU_HASH: ret->gnu_hash = value; break;
		}
	}
	return false;
}

/* The string table nearly always follows the symbols: that bounds their number without a hash. */
static bool find_in_memory(struct source *source, const struct image *image, const char *name,
			   uint64_t *ret_address, uint64_t *ret_size)
{
	struct dynamic dynamic;
	size_t len = strlen(name) + 1, n;

	if (!read_dynamic(source, image, &dynamic) || dynamic.strings <= dynamic.symbols || len > 256)
		return false;
	n = (dynamic.strings - dynamic.symbols) / sizeof(Elf64_Sym);
	for (size_t i = 0; i < n && i < MOST_SYMBOLS; i++) {
		Elf64_Sym symbol;
		char text[256];

		if (!source_read(source, dynamic.symbols + i * sizeof(symbol), &symbol, sizeof(symbol)))
			return false;
		if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= dynamic.strings_size ||
		    !source_read(source, dynamic.strings + symbol.st_name, text, len) ||
		    memcmp(text, name, len) != 0)
			continue;
		*ret_address = image->bias + symbol.st_value;
		if (ret_size)
			*ret_size = symbol.st_size;
		return true;
	}
	return false;
}

bool image_symbol(const struct images *images, struct image *image, const char *name, uint64_t *ret_address,
		  uint64_t *ret_size)
{
	Elf *elf = open_elf(images, image);

	if (elf && find_in_file(image, elf, name, ret_address, ret_size))
		return true;
	return !elf && find_in_memory(images->source, image, name, ret_address, ret_size);
}

const struct image *images_with_symbol(const struct images *images, const char *name, uint64_t *ret_address)
{
	for (size_t i = 0; i < images->v.len; i++)
		if (image_symbol(images, images->v.items[i], name, ret_address, NULL))
			return images->v.items[i];
	return NULL;
}
