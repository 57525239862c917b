/* SPDX-License-Identifier: Apache-2.0 */
/* The ELF header and program headers of one image. */
#ifndef FREEHOLD_IMAGE_HEADERS_H
#define FREEHOLD_IMAGE_HEADERS_H

#include "image/image.h"

/* The image whose ELF header a mapping begins with; *ret stays NULL when it begins with none, or with
 * one that makes no sense there. *ret_unreadable: not even the header could be read. */
struct fh_error *image_read(const struct images *images, const struct mapping *mapping, struct image **ret,
			    bool *ret_unreadable);
void image_destroy(struct image *image);

#endif
