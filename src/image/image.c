/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headers are read through the target's memory: the first page of a file is mapped, and where a
 * core left it out, or it was never touched, the source reads it from the file itself.
 * Sources of facts: gABI "Program Header", elf.h of glibc 2.36.
 */
#include "image/image.h"

#include <elf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_HEADERS 512

static void image_destroy(struct image *image)
{
	if (!image)
		return;
	if (image->elf)
		elf_end(image->elf);
	if (image->fd >= 0)
		close(image->fd);
	vec_free(&image->segments);
	free(image);
}

void images_destroy(struct images *images)
{
	if (!images)
		return;
	for (size_t i = 0; i < images->v.len; i++)
		image_destroy(images->v.items[i]);
	vec_free(&images->v);
	free(images);
}

/* The program headers of the ELF file mapped at an address; the count, 0 when there is none. */
static size_t read_headers(struct source *source, uint64_t address, Elf64_Ehdr *header,
			   Elf64_Phdr headers[MOST_HEADERS])
{
	size_t n;

	if (!source_read(source, address, header, sizeof(*header)) ||
	    memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
	    header->e_machine != EM_X86_64 || header->e_phentsize != sizeof(*headers))
		return 0;
	n = header->e_phnum < MOST_HEADERS ? header->e_phnum : MOST_HEADERS;
	if (header->e_phoff > UINT32_MAX || !source_read(source, address + header->e_phoff, headers, n * sizeof(*headers)))
		return 0;
	return n;
}

/* NT_GNU_BUILD_ID of a note segment. */
static void read_build_id(struct source *source, struct image *image, uint64_t address, uint64_t size)
{
	uint8_t notes[4096];
	size_t len = size < sizeof(notes) ? size : sizeof(notes), at = 0;

	if (!source_read(source, address, notes, len))
		return;
	while (at + sizeof(Elf64_Nhdr) <= len) {
		const Elf64_Nhdr *note = (const Elf64_Nhdr *)(notes + at);
		size_t name = at + sizeof(*note), bytes;

		if (note->n_namesz > len || note->n_descsz > len)
			return;
		bytes = name + ((note->n_namesz + 3u) & ~3u);
		if (bytes + note->n_descsz > len)
			return;
		if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
		    memcmp(notes + name, "GNU", 4) == 0 && note->n_descsz <= sizeof(image->build_id)) {
			memcpy(image->build_id, notes + bytes, note->n_descsz);
			image->build_id_len = note->n_descsz;
			return;
		}
		at = bytes + ((note->n_descsz + 3u) & ~3u);
	}
}

static uint64_t page_down(uint64_t n)
{
	return n & ~(uint64_t)(PAGE - 1);
}

static bool add_segment(struct image *image, const Elf64_Phdr *h)
{
	struct image_segment segment = {
		.start = image->bias + h->p_vaddr,
		.file_end = image->bias + h->p_vaddr + h->p_filesz,
		.end = image->bias + h->p_vaddr + h->p_memsz,
		.offset = h->p_offset,
		.flags = h->p_flags,
	};

	if (h->p_filesz > h->p_memsz || segment.end < segment.start)
		return true; /* nonsense: as if it weren't there */
	if (!image->segments.len || segment.start < image->start)
		image->start = page_down(segment.start);
	if (page_down(segment.end + PAGE - 1) > image->end)
		image->end = page_down(segment.end + PAGE - 1);
	return vec_push(&image->segments, segment);
}

static bool read_segments(struct source *source, struct image *image, const Elf64_Phdr *headers, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const Elf64_Phdr *h = &headers[i];

		switch (h->p_type) {
		case PT_LOAD:
			if (!add_segment(image, h))
				return false;
			break;
		case PT_NOTE:
			if (!image->build_id_len)
				read_build_id(source, image, image->bias + h->p_vaddr, h->p_filesz);
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
	return true;
}

static uint64_t auxv_value(const struct source *source, uint64_t type)
{
	for (size_t i = 0; i < 63 && source->auxv[i][0] != AT_NULL; i++)
		if (source->auxv[i][0] == type)
			return source->auxv[i][1];
	return 0;
}

/* The image whose header a mapping holds; *ret stays NULL when it holds none. */
static struct fh_error *read_image(struct source *source, const struct mapping *mapping, struct image **ret)
{
	Elf64_Phdr headers[MOST_HEADERS];
	Elf64_Ehdr header;
	size_t n = read_headers(source, mapping->start, &header, headers), first = 0;
	uint64_t entry = auxv_value(source, AT_PHDR);
	struct image *image;
	const char *slash;

	while (first < n && (headers[first].p_type != PT_LOAD || page_down(headers[first].p_offset) != 0))
		first++;
	if (first == n)
		return NULL;
	image = calloc(1, sizeof(*image));
	if (!image)
		return error_no_memory();
	slash = strrchr(mapping->path, '/');
	image->path = mapping->path;
	image->name = slash && slash[1] ? slash + 1 : mapping->path;
	image->bias = mapping->start - page_down(headers[first].p_vaddr);
	image->fd = -1;
	if (!read_segments(source, image, headers, n)) {
		image_destroy(image);
		return error_no_memory();
	}
	image->executable = entry >= image->start && entry < image->end;
	*ret = image;
	return NULL;
}

static bool known(const struct images *images, const struct mapping *mapping)
{
	const struct image *last = images->v.len ? *vec_last(&images->v) : NULL;

	return last && mapping->start < last->end && last->path == mapping->path;
}

struct fh_error *images_load(struct source *source, struct images **ret)
{
	struct images *images = calloc(1, sizeof(*images));
	struct fh_error *error = NULL;

	if (!images)
		return error_no_memory();
	elf_version(EV_CURRENT);
	images->source = source;
	for (size_t i = 0; i < source->mappings.len + source->omitted.len && !error; i++) {
		const struct mapping *m = i < source->mappings.len ? &source->mappings.items[i] :
								     &source->omitted.items[i - source->mappings.len];
		struct image *image = NULL;

		if (!m->inode || m->offset != 0 || !(m->flags & MAPPING_READ) || known(images, m))
			continue;
		error = read_image(source, m, &image);
		if (image && !vec_push(&images->v, image)) {
			image_destroy(image);
			error = error_no_memory();
		}
	}
	if (error) {
		images_destroy(images);
		return error;
	}
	*ret = images;
	return NULL;
}

const struct image *images_at(const struct images *images, uint64_t address,
			      const struct image_segment **ret_segment)
{
	for (size_t i = 0; i < images->v.len; i++) {
		const struct image *image = images->v.items[i];

		if (address < image->start || address >= image->end)
			continue;
		for (size_t k = 0; k < image->segments.len; k++) {
			const struct image_segment *s = &image->segments.items[k];

			if (address >= s->start && address < s->end) {
				if (ret_segment)
					*ret_segment = s;
				return image;
			}
		}
	}
	return NULL;
}
