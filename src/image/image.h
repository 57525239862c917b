/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images: the ELF files that are mapped into a target. Program headers, build-id
 * and symbols come from the file when it can be had (source_ops.open_file),
 * else from the target's memory, as far as they are there.
 */
#ifndef FREEHOLD_IMAGE_IMAGE_H
#define FREEHOLD_IMAGE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/vec.h"
#include "source/source.h"

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
	uint64_t bias;	  /* address in the target minus p_vaddr */
	uint64_t start, end; /* page borders around all segments */
	VEC(struct image_segment) segments;
	uint8_t build_id[32];
	size_t build_id_len; /* 0: none or not known */
	uint64_t relro_start, relro_end; /* 0, 0: none */
	uint64_t tls_size, tls_align;	 /* of PT_TLS; 0: none */
	uint64_t dynamic;		 /* address of the dynamic section; 0: none */
	bool executable;		 /* the program itself, not a library */
	void *elf;			 /* of libelf, or NULL */
	int fd;				 /* -1: not opened yet, -2: can't be */
};

struct images {
	struct source *source;
	VEC(struct image *) v; /* by start address */
};

/* Finds the images of a source. What can't be parsed is no image, and a warning only if it is
 * mapped executable. */
struct fh_error *images_load(struct source *source, struct images **ret);
void images_destroy(struct images *images);

/* The image whose segments hold an address, or NULL. *ret_segment may be NULL. */
const struct image *images_at(const struct images *images, uint64_t address,
			      const struct image_segment **ret_segment);

/* Address of a defined symbol in .symtab or .dynsym; false when the image has none of that name. */
bool image_symbol(const struct images *images, struct image *image, const char *name, uint64_t *ret_address,
		  uint64_t *ret_size);

/* An image that has a dynamic or other symbol of this name, or NULL; the first by address. */
const struct image *images_with_symbol(const struct images *images, const char *name, uint64_t *ret_address);

#endif
