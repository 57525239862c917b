/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images: the ELF files that the loader (or the kernel) mapped into a target. Headers are read through the
 * target's memory, symbols from the dynamic section there, or from the file when it can be had
 * (source_ops.open_file). Files and memory can be hostile or half: what does not check is no image, or
 * one without symbols.
 */
#ifndef FREEHOLD_IMAGE_IMAGE_H
#define FREEHOLD_IMAGE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/vec.h"
#include "source/files.h"

struct image_segment { /* a PT_LOAD, as addresses of the target */
	uint64_t start;	   /* first byte */
	uint64_t file_end; /* end of what comes from the file; beyond is bss */
	uint64_t end;	   /* end of the segment, bss included */
	uint64_t offset;   /* of `start` in the file */
	uint32_t flags;	   /* PF_R, PF_W, PF_X */
};

struct image {
	const char *path; /* as mapped */
	const char *name; /* the last part of the path */
	uint64_t inode;	  /* with device and path: which file it is */
	uint32_t device;
	uint64_t bias;	  /* address in the target minus p_vaddr */
	uint64_t start, end; /* page borders around all segments */
	VEC(struct image_segment) segments; /* ascending, disjoint */
	uint8_t build_id[BUILD_ID_MOST];
	size_t build_id_len; /* 0: none or not known */
	uint64_t relro_start, relro_end; /* 0, 0: none */
	uint64_t tls_size, tls_align;	 /* of PT_TLS; 0: none */
	uint64_t dynamic;		 /* address of the dynamic section; 0: none */
	bool executable;		 /* the program itself, not a library */
	bool vdso;			 /* the kernel's; it has no file */
	void *elf;			 /* of libelf, with .symtab; or NULL */
	bool looked_for;		 /* `elf` was */
};

/* A segment in the order of addresses; none overlaps another. */
struct image_place {
	uint64_t start, end;
	uint32_t image, segment; /* indices */
};

struct images {
	struct source *source;
	VEC(struct image *) v; /* by start address */
	VEC(struct image_place) places;
	VEC(const struct mapping *) mappings; /* the source's, and those that a core left out, ascending */
};

/* Finds the images of a source. What can't be parsed is no image; a warning says so where the file is
 * mapped executable and could not be read. */
struct fh_error *images_load(struct source *source, struct images **ret);
void images_destroy(struct images *images);

/* The image whose segments hold an address, or NULL. *ret_segment may be NULL. */
const struct image *images_at(const struct images *images, uint64_t address,
			      const struct image_segment **ret_segment);

/* The program itself, or NULL when it is not among the images. */
const struct image *images_executable(const struct images *images);

/* The mapping that holds an address, even if a core left it out; or NULL. */
const struct mapping *images_mapping_at(const struct images *images, uint64_t address);

/* Address of a defined symbol in .dynsym or .symtab; false when the image has none of that name.
 * Thread-local and absolute symbols have no address and are not found. `ret_size` may be NULL. */
bool image_symbol(const struct images *images, struct image *image, const char *name, uint64_t *ret_address,
		  uint64_t *ret_size);

/* An image that has a symbol of this name, or NULL; the first by address. */
const struct image *images_with_symbol(const struct images *images, const char *name, uint64_t *ret_address);

/* The entry of an image's dynamic section in the target's memory, as it is there; false when it has none. */
bool image_dynamic_entry(const struct images *images, const struct image *image, int64_t tag,
			 uint64_t *ret_value);

/* Whether a mapping is of a file, whatever kind of file. */
static inline bool mapping_has_file(const struct mapping *mapping)
{
	return mapping->inode || mapping->path[0] == '/';
}

/* Whether a mapping is of an image's file. */
static inline bool image_is_of(const struct image *image, const struct mapping *mapping)
{
	return !image->vdso && image->path == mapping->path && image->inode == mapping->inode &&
	       image->device == mapping->device;
}

#endif
