/* SPDX-License-Identifier: Apache-2.0 */
#include "image/image.h"

#include <stdlib.h>

struct fh_error *images_load(struct source *source, struct images **ret)
{
	struct images *images = calloc(1, sizeof(*images));

	if (!images)
		return error_no_memory();
	images->source = source;
	*ret = images;
	return NULL;
}

void images_destroy(struct images *images)
{
	free(images);
}
