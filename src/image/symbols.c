/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbols: .dynsym by way of the dynamic section in the target's memory, so that it takes no file and no
 * section headers; then .symtab of the file through libelf, for what was not stripped. A damaged table
 * means that a symbol isn't found. Sources of facts: gABI, "Hash Table" and "Symbol Table"; the GNU hash
 * section as in binutils' documentation and https://flapenguin.me/elf-dt-gnu-hash.
 */
#include <elf.h>
#include <gelf.h>
#include <libelf.h>
#include <string.h>
#include <unistd.h>

#include "image/image.h"
#include "source/files.h"

#define MOST_SYMBOLS (1u << 22)
#define MOST_ENTRIES 512 /* of a dynamic section; libraries have about 30 */
#define MOST_CHAIN 65536 /* symbols of one hash bucket */
#define LONGEST_NAME 256

/* Has an address: defined, and not relative to a thread or nothing. */
static bool has_address(const Elf64_Sym *symbol)
{
	return symbol->st_shndx != SHN_UNDEF && symbol->st_shndx != SHN_ABS &&
	       ELF64_ST_TYPE(symbol->st_info) != STT_TLS;
}

static void give(const struct image *image, const Elf64_Sym *symbol, uint64_t *ret_address, uint64_t *ret_size)
{
	*ret_address = image->bias + symbol->st_value;
	if (ret_size)
		*ret_size = symbol->st_size;
}

/* ---- the dynamic section ---------------------------------------------------- */

bool image_dynamic_entry(const struct images *images, const struct image *image, int64_t tag,
			 uint64_t *ret_value)
{
	for (size_t i = 0; image->dynamic && i < MOST_ENTRIES; i++) {
		Elf64_Dyn entry;

		if (!source_read(images->source, image->dynamic + i * sizeof(entry), &entry, sizeof(entry)) ||
		    entry.d_tag == DT_NULL)
			return false;
		if (entry.d_tag == tag) {
			*ret_value = entry.d_un.d_val;
			return true;
		}
	}
	return false;
}

/* glibc's loader turns these entries into addresses, musl's and the kernel (vdso) don't. 0: none. */
static uint64_t dynamic_address(const struct images *images, const struct image *image, int64_t tag)
{
	uint64_t value;

	if (!image_dynamic_entry(images, image, tag, &value))
		return 0;
	return value >= image->start && value < image->end ? value : value + image->bias;
}

struct dynamic {
	uint64_t symbols, strings, strings_size;
};

static bool is_named(struct source *source, const struct dynamic *dynamic, const Elf64_Sym *symbol,
		     const char *name)
{
	char text[LONGEST_NAME];
	size_t len = strlen(name) + 1;

	return has_address(symbol) && symbol->st_name < dynamic->strings_size &&
	       source_read(source, dynamic->strings + symbol->st_name, text, len) && memcmp(text, name, len) == 0;
}

static bool check_symbol(struct source *source, const struct dynamic *dynamic, uint64_t i, const char *name,
			 Elf64_Sym *ret)
{
	return source_read(source, dynamic->symbols + i * sizeof(*ret), ret, sizeof(*ret)) &&
	       is_named(source, dynamic, ret, name);
}

static uint32_t gnu_hash(const char *name)
{
	uint32_t h = 5381;

	for (const unsigned char *p = (const unsigned char *)name; *p; p++)
		h = h * 33 + *p;
	return h;
}

/* Header: buckets, number of the first hashed symbol, words of the Bloom filter, its shift. Then the filter,
 * the buckets, and a hash for each symbol, whose lowest bit ends a bucket's chain. */
static bool find_by_gnu_hash(struct source *source, const struct dynamic *dynamic, uint64_t table,
			     const char *name, Elf64_Sym *ret)
{
	uint32_t header[4], hash = gnu_hash(name), at, chained;
	uint64_t filter = table + sizeof(header), word, buckets, chain;

	if (!source_read(source, table, header, sizeof(header)) || !header[0] || !header[2] || header[3] > 31)
		return false;
	if (!source_u64(source, filter + hash / 64 % header[2] * 8, &word) ||
	    !(word >> hash % 64 & 1) || !(word >> (hash >> header[3]) % 64 & 1))
		return false;
	buckets = filter + (uint64_t)header[2] * 8;
	chain = buckets + (uint64_t)header[0] * 4;
	if (!source_u32(source, buckets + (uint64_t)(hash % header[0]) * 4, &at) || at < header[1])
		return false;
	for (size_t n = 0; n < MOST_CHAIN; n++, at++) {
		if (!source_u32(source, chain + (uint64_t)(at - header[1]) * 4, &chained))
			return false;
		if ((chained | 1) == (hash | 1) && check_symbol(source, dynamic, at, name, ret))
			return true;
		if (chained & 1)
			return false;
	}
	return false;
}

static bool find_in_memory(const struct images *images, const struct image *image, const char *name,
			   Elf64_Sym *ret)
{
	struct source *source = images->source;
	struct dynamic dynamic = {
		.symbols = dynamic_address(images, image, DT_SYMTAB),
		.strings = dynamic_address(images, image, DT_STRTAB),
	};
	uint64_t gnu = dynamic_address(images, image, DT_GNU_HASH), hash;
	uint32_t counts[2]; /* DT_HASH: buckets, symbols */
	size_t n;

	if (!dynamic.symbols || !dynamic.strings || strlen(name) >= LONGEST_NAME ||
	    !image_dynamic_entry(images, image, DT_STRSZ, &dynamic.strings_size))
		return false;
	if (gnu)
		return find_by_gnu_hash(source, &dynamic, gnu, name, ret);
	hash = dynamic_address(images, image, DT_HASH);
	if (!hash || !source_read(source, hash, counts, sizeof(counts)))
		return false;
	n = counts[1] < MOST_SYMBOLS ? counts[1] : MOST_SYMBOLS;
	for (size_t i = 1; i < n; i++)
		if (check_symbol(source, &dynamic, i, name, ret))
			return true;
	return false;
}

/* ---- .symtab ---------------------------------------------------------------- */

static Elf_Scn *find_symtab(Elf *elf, GElf_Shdr *ret)
{
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));)
		if (gelf_getshdr(section, ret) && ret->sh_type == SHT_SYMTAB)
			return section;
	return NULL;
}

/* Symbols and their names, read into memory: the file need not stay open. */
static bool load_symtab(Elf *elf)
{
	GElf_Shdr header;
	Elf_Scn *section, *texts;

	if (elf_kind(elf) != ELF_K_ELF || gelf_getclass(elf) != ELFCLASS64 || !(section = find_symtab(elf, &header)))
		return false;
	texts = elf_getscn(elf, header.sh_link);
	return texts && elf_getdata(section, NULL) && elf_getdata(texts, NULL) && elf_cntl(elf, ELF_C_FDDONE) == 0;
}

/* A target can have more libraries than we may open files: none stays open. */
static Elf *open_file(const struct images *images, struct image *image)
{
	const struct mapping *m = images_mapping_at(images, image->start);
	int fd;

	if (image->elf || image->looked_for)
		return image->elf;
	image->looked_for = true;
	fd = m && image_is_of(image, m) ? files_open(images->source, m) : -1;
	if (fd < 0)
		return NULL;
	image->elf = elf_begin(fd, ELF_C_READ, NULL);
	if (image->elf && !load_symtab(image->elf)) {
		elf_end(image->elf);
		image->elf = NULL;
	}
	close(fd);
	return image->elf;
}

static bool find_in_file(Elf *elf, const char *name, Elf64_Sym *ret)
{
	GElf_Shdr header;
	Elf_Scn *section = find_symtab(elf, &header);
	Elf_Scn *text_section = section ? elf_getscn(elf, header.sh_link) : NULL;
	Elf_Data *data = section ? elf_getdata(section, NULL) : NULL;
	Elf_Data *texts = text_section ? elf_getdata(text_section, NULL) : NULL;
	size_t len = strlen(name) + 1;

	if (!data || !texts || data->d_type != ELF_T_SYM || !data->d_buf || !texts->d_buf)
		return false;
	for (size_t i = 0; i < data->d_size / sizeof(*ret) && i < MOST_SYMBOLS; i++) {
		const Elf64_Sym *symbol = (const Elf64_Sym *)data->d_buf + i;

		if (symbol->st_name < texts->d_size && len <= texts->d_size - symbol->st_name &&
		    memcmp((const char *)texts->d_buf + symbol->st_name, name, len) == 0 && has_address(symbol)) {
			*ret = *symbol;
			return true;
		}
	}
	return false;
}

/* ---- both ------------------------------------------------------------------ */

bool image_symbol(const struct images *images, struct image *image, const char *name, uint64_t *ret_address,
		  uint64_t *ret_size)
{
	Elf64_Sym symbol;
	Elf *elf;

	if (find_in_memory(images, image, name, &symbol)) {
		give(image, &symbol, ret_address, ret_size);
		return true;
	}
	elf = image->vdso ? NULL : open_file(images, image);
	if (!elf || !find_in_file(elf, name, &symbol))
		return false;
	give(image, &symbol, ret_address, ret_size);
	return true;
}

const struct image *images_with_symbol(const struct images *images, const char *name, uint64_t *ret_address)
{
	for (size_t i = 0; i < images->v.len; i++)
		if (image_symbol(images, images->v.items[i], name, ret_address, NULL))
			return images->v.items[i];
	return NULL;
}
