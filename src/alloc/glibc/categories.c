/* SPDX-License-Identifier: Apache-2.0 */
/* The names that malloc's blocks get in the ledger, made once each. */
#include <inttypes.h>
#include <stdio.h>

#include "alloc/glibc/internal.h"

static category_id make(struct glibc *glibc, const char *kind, const char *detail, enum fh_state state, uint8_t head)
{
	struct category category = { .domain = "glibc", .kind = kind, .detail = detail, .state = state, .head = head };

	return ledger_category(glibc->target->ledger, &category);
}

void categories_init(struct glibc *glibc)
{
	glibc->top = make(glibc, "top", "", FH_FREE, 0);
	glibc->arena = make(glibc, "arena", "", FH_OVERHEAD, 0);
	glibc->tcache = make(glibc, "tcache", "", FH_OVERHEAD, CHUNK_HEADER);
	glibc->fencepost = make(glibc, "chunk header", "fencepost", FH_OVERHEAD, 0);
	glibc->alignment = make(glibc, "chunk header", "before an aligned chunk", FH_OVERHEAD, 0);
	glibc->heap_alignment = make(glibc, "chunk header", "before the first chunk", FH_OVERHEAD, 0);
	glibc->reserved = make(glibc, "reserved", "", FH_FREE, 0);
	glibc->foreign = ledger_category(glibc->target->ledger,
					 &(struct category){ .domain = "uncategorized", .kind = "dark", .detail = "" });
	glibc->hole = ledger_category(glibc->target->ledger,
				      &(struct category){ .domain = "uncategorized", .kind = "dark",
							  .detail = "in a damaged heap" });
}

static category_id make_live(struct glibc *glibc, uint64_t size)
{
	char kind[32];
	struct category category = { .domain = "uncategorized", .kind = kind, .detail = "", .state = FH_LIVE,
				     .head = CHUNK_HEADER, .unknown = true };

	snprintf(kind, sizeof(kind), "%" PRIu64 " bytes", size);
	return ledger_category(glibc->target->ledger, &category);
}

category_id categories_live(struct glibc *glibc, uint64_t size)
{
	size_t small = size / 16;
	const uint64_t *known;
	category_id id;

	if (small < sizeof(glibc->small_live) / sizeof(*glibc->small_live)) {
		if (!glibc->small_live[small])
			glibc->small_live[small] = make_live(glibc, size);
		return glibc->small_live[small];
	}
	known = hashmap_get(&glibc->large_live, size);
	if (known)
		return (category_id)*known;
	id = make_live(glibc, size);
	(void)hashmap_put(&glibc->large_live, size, id); /* else it is asked for again */
	return id;
}

const char *categories_list_name(const struct glibc *glibc, enum mark_kind kind, uint64_t size)
{
	static const char *const words[] = { "in no list", "tcache", "fast", "unsorted", "small" };
	const char *name;

	if (kind == MARK_NONE || kind == MARK_UNSORTED)
		return words[kind];
	if (kind == MARK_BINNED && size >= 1024)
		return "large";
	name = strings_format(glibc->target->source->strings, "%s %" PRIu64, words[kind], size);
	return name ? name : words[kind];
}

category_id categories_free(struct glibc *glibc, enum mark_kind kind, uint64_t size)
{
	size_t small = size / 16 < 127 ? size / 16 : 127;
	category_id *cached = &glibc->small_free[kind][small], id;

	if (*cached && !(kind == MARK_TCACHE && small == 127)) /* only tcache has sizes above 1024 in the name */
		return *cached;
	id = make(glibc, "free chunk", categories_list_name(glibc, kind, size), FH_FREE, CHUNK_HEADER);
	*cached = id;
	return id;
}
