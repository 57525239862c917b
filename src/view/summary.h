/* SPDX-License-Identifier: Apache-2.0 */
/* The census in half a dozen figures that a person understands at once: how the OS's figure divides. */
#ifndef FREEHOLD_VIEW_SUMMARY_H
#define FREEHOLD_VIEW_SUMMARY_H

#include "base/error.h"

#define VIEW_MOST_SHARES 8

struct view_share {
	const char *name, *title;
	struct fh_size size;
	bool live; /* `unnamed` is a part of it */
};

struct view_summary {
	struct view_share shares[VIEW_MOST_SHARES]; /* they add up to the total */
	size_t n_shares;
	struct fh_size total, unnamed; /* unnamed: of the live blocks, those that nothing could name */
};

struct fh_error *view_summary_make(struct fh_census *census, struct view_summary *ret);

#endif
