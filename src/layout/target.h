/* SPDX-License-Identifier: Apache-2.0 */
/* What allocators and runtimes are given: the target's bytes, its files, and the ledger to write in. */
#ifndef FREEHOLD_LAYOUT_TARGET_H
#define FREEHOLD_LAYOUT_TARGET_H

#include "image/image.h"
#include "ledger/ledger.h"
#include "source/source.h"

struct target {
	struct source *source;
	struct images *images;
	struct ledger *ledger;
	bool damaged; /* something was unreadable or corrupt: exit status 3 */
	void (*progress)(void *context, const char *phase, double fraction); /* may be NULL */
	void *progress_context;
};

static inline void target_progress(struct target *target, const char *phase, double fraction)
{
	if (target->progress)
		target->progress(target->progress_context, phase, fraction);
}

/* A warning that also says that the target is damaged or could not be read. */
#define target_damaged(target, ...)                                                                         \
	do {                                                                                                \
		(target)->damaged = true;                                                                   \
		source_warn((target)->source, __VA_ARGS__);                                                 \
	} while (0)

#endif
