/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run-time loader's own list of what it loaded (struct link_map), which it offers to debuggers by the
 * DT_DEBUG entry of the program, or its symbol _r_debug. A static program has none.
 */
#ifndef FREEHOLD_IMAGE_LOADER_H
#define FREEHOLD_IMAGE_LOADER_H

#include "image/image.h"

#define LINK_MAP_WORDS 144 /* struct link_map has about 1150 bytes in all versions */

struct loader {
	VEC(uint64_t) maps; /* addresses of struct link_map in the loader's order: the program first */
	/* Those of the files that the program was started with, when no malloc was there yet: the
	 * loader allocated them by itself. Only glibc's loader says which these are. */
	VEC(uint64_t) initial;
};

/* Empty lists when there is none, or it can't be read. */
struct fh_error *loader_read(const struct images *images, struct loader *ret);
void loader_deinit(struct loader *loader);

#endif
