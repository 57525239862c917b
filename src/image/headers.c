/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headers are read through the target's memory: the first page of a file is mapped, and where a core
 * left it out, or it was never touched, the source reads it from the file itself. Only program headers
 * that lie elsewhere (tools that edit ELF files put them at the end) are read from the file.
 * Sources of facts: gABI, "Program Header" and "Note Section"; elf.h of glibc 2.36.
 */
#include "image/headers.h"

#include <elf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "source/files.h"

#define MOST_HEADERS 512
#define MOST_NOTE_BYTES 4096

struct headers {
	Elf64_Ehdr elf;
	size_t n;
	Elf64_Phdr program[MOST_HEADERS];
};

void image_destroy(struct image *image)
{
	if (!image)
		return;
	if (image->elf)
		elf_end(image->elf);
	vec_free(&image->segments);
	free(image);
}

static bool read_from_file(struct source *source, const struct mapping *mapping, uint64_t offset,
			   void *buffer, size_t len)
{
	CLEANUP_CLOSE int fd = mapping_has_file(mapping) ? files_open(source, mapping) : -1;

	return fd >= 0 && files_pread(fd, offset, buffer, len) == len;
}

static bool is_ours(const Elf64_Ehdr *header)
{
	return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 && header->e_ident[EI_CLASS] == ELFCLASS64 &&
	       header->e_ident[EI_DATA] == ELFDATA2LSB && header->e_machine == EM_X86_64 &&
	       (header->e_type == ET_EXEC || header->e_type == ET_DYN) &&
	       header->e_phentsize == sizeof(Elf64_Phdr) && header->e_phnum;
}

static bool read_headers(struct source *source, const struct mapping *mapping, struct headers *ret)
{
	uint64_t room = mapping->end - mapping->start;
	size_t bytes;

	if (!is_ours(&ret->elf))
		return false;
	ret->n = ret->elf.e_phnum < MOST_HEADERS ? ret->elf.e_phnum : MOST_HEADERS;
	bytes = ret->n * sizeof(*ret->program);
	if (ret->elf.e_phoff <= room && bytes <= room - ret->elf.e_phoff &&
	    source_read(source, mapping->start + ret->elf.e_phoff, ret->program, bytes))
		return true;
	return ret->elf.e_phoff <= INT64_MAX - mapping->offset &&
	       read_from_file(source, mapping, mapping->offset + ret->elf.e_phoff, ret->program, bytes);
}

/* ---- what the headers say -------------------------------------------------- */

static void read_build_id(struct source *source, struct image *image, const Elf64_Phdr *h)
{
	uint8_t notes[MOST_NOTE_BYTES];
	size_t len = h->p_filesz < sizeof(notes) ? h->p_filesz : sizeof(notes);
	const uint8_t *found;

	if (!source_read(source, image->bias + h->p_vaddr, notes, len))
		return;
	image->build_id_len = files_build_id(notes, len, h->p_align, &found);
	if (image->build_id_len)
		memcpy(image->build_id, found, image->build_id_len);
}

/* A segment that wraps, is out of order or larger than an address space is as if it weren't there. */
static bool add_segment(struct image *image, const Elf64_Phdr *h)
{
	struct image_segment segment = {
		.start = image->bias + h->p_vaddr,
		.file_end = image->bias + h->p_vaddr + h->p_filesz,
		.end = image->bias + h->p_vaddr + h->p_memsz,
		.offset = h->p_offset,
		.flags = h->p_flags,
	};

	if (!h->p_memsz || h->p_filesz > h->p_memsz || h->p_memsz >> 47 || segment.end >> 47 ||
	    segment.end < segment.start || (image->segments.len && segment.start < image->end))
		return true;
	if (!image->segments.len)
		image->start = page_down(segment.start);
	image->end = segment.end;
	return vec_push(&image->segments, segment);
}

static bool read_segments(struct source *source, struct image *image, const struct headers *headers)
{
	for (size_t i = 0; i < headers->n; i++) {
		const Elf64_Phdr *h = &headers->program[i];

		switch (h->p_type) {
		case PT_LOAD:
			if (!add_segment(image, h))
				return false;
			break;
		case PT_NOTE:
			if (!image->build_id_len)
				read_build_id(source, image, h);
			break;
		case PT_GNU_RELRO:
			image->relro_start = image->bias + h->p_vaddr;
			image->relro_end = image->relro_start + h->p_memsz;
			break;
		case PT_TLS:
			image->tls_size = h->p_memsz;
			image->tls_align = h->p_align;
			break;
		case PT_DYNAMIC:
			image->dynamic = image->bias + h->p_vaddr;
			break;
		}
	}
	image->end = page_up(image->end);
	return true;
}

/* ---- does it sit there ----------------------------------------------------- */

/* What a core left out has no protection. */
static bool maps_segment(const struct images *images, const struct image *image,
			 const struct mapping *header, const struct image_segment *segment)
{
	const struct mapping *m = images_mapping_at(images, segment->start);

	return m && image_is_of(image, m) && m->start == page_down(segment->start) &&
	       m->offset == header->offset + page_down(segment->offset) &&
	       (!(segment->flags & PF_X) || m->flags & (MAPPING_EXEC | MAPPING_OMITTED));
}

/*
 * A file that a program only reads through a mapping begins with an ELF header, too. One that was loaded
 * has a segment with code or data (or, where it has neither, all of them) in a mapping of its own at the
 * place that the headers say. Not all have to be: some programs move their text to huge pages.
 */
static bool is_loaded(const struct images *images, const struct image *image, const struct mapping *header)
{
	bool special = false, all = true;

	for (size_t i = 0; i < image->segments.len; i++) {
		const struct image_segment *s = &image->segments.items[i];
		bool maps = s->file_end == s->start || maps_segment(images, image, header, s);

		if (s->flags & (PF_X | PF_W) && s->file_end > s->start) {
			special = true;
			if (maps)
				return true;
		}
		all = all && maps;
	}
	return image->segments.len && !special && all;
}

static struct image *create(const struct mapping *mapping)
{
	struct image *image = calloc(1, sizeof(*image));
	const char *slash = strrchr(mapping->path, '/');

	if (!image)
		return NULL;
	image->path = mapping->path;
	image->name = slash && slash[1] ? slash + 1 : mapping->path;
	image->inode = mapping->inode;
	image->device = mapping->device;
	image->vdso = !mapping_has_file(mapping);
	return image;
}

struct fh_error *image_read(const struct images *images, const struct mapping *mapping, struct image **ret,
			    bool *ret_unreadable)
{
	CLEANUP_FREE struct headers *headers = malloc(sizeof(*headers));
	struct source *source = images->source;
	struct image *image;
	size_t first = 0;

	if (!headers)
		return error_no_memory();
	*ret_unreadable = !source_read(source, mapping->start, &headers->elf, sizeof(headers->elf));
	if (*ret_unreadable || !read_headers(source, mapping, headers))
		return NULL;
	while (first < headers->n && (headers->program[first].p_type != PT_LOAD ||
				      page_down(headers->program[first].p_offset) != 0))
		first++;
	if (first == headers->n)
		return NULL;
	image = create(mapping);
	if (!image)
		return error_no_memory();
	image->bias = mapping->start - page_down(headers->program[first].p_vaddr);
	if (!read_segments(source, image, headers)) {
		image_destroy(image);
		return error_no_memory();
	}
	if ((headers->elf.e_type == ET_EXEC && image->bias) ||
	    (!image->vdso && !is_loaded(images, image, mapping))) {
		image_destroy(image);
		return NULL;
	}
	*ret = image;
	return NULL;
}
