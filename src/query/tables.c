/* SPDX-License-Identifier: Apache-2.0 */
/* The tables that are small enough to be loaded whole. */
#include "query/tables.h"

#include <stdio.h>
#include <string.h>

#define COLUMN(row, field, type, text) { #field, type, offsetof(struct row, field), text }

const char *query_state_name(enum fh_state state)
{
	static const char *const names[] = {
		[FH_MAPPED] = "mapped", [FH_LIVE] = "live", [FH_FREE] = "free", [FH_OVERHEAD] = "overhead",
	};

	return names[state];
}

/* What a visitor that gathers rows needs. */
struct gathering {
	struct query_rows *rows;
	bool no_memory;
};

static bool gather(struct gathering *gathering, const void *row, size_t size)
{
	struct query_rows *rows = gathering->rows;

	if (!vec_reserve(&rows->bytes, rows->bytes.len + size)) {
		gathering->no_memory = true;
		return false;
	}
	memcpy(rows->bytes.items + rows->bytes.len, row, size);
	rows->bytes.len += size;
	rows->n++;
	return true;
}

static struct fh_error *gathered(const struct gathering *gathering)
{
	return gathering->no_memory ? error_no_memory() : NULL;
}

/* ---- category ----------------------------------------------------------------- */

struct category_row {
	const char *domain, *kind, *detail, *state;
	uint64_t count, virtual, resident, swapped;
};

static bool take_category(void *context, const struct fh_row *row)
{
	struct category_row r = {
		.domain = row->domain, .kind = row->kind, .detail = row->detail,
		.state = query_state_name(row->state), .count = row->count, .virtual = row->size.virtual_,
		.resident = row->size.resident, .swapped = row->size.swapped,
	};

	return gather(context, &r, sizeof(r));
}

static struct fh_error *load_categories(struct fh_census *census, struct query_rows *ret)
{
	struct gathering gathering = { .rows = ret };

	TRY(fh_census_each_row(census, take_category, &gathering));
	return gathered(&gathering);
}

static const struct query_column category_columns[] = {
	COLUMN(category_row, domain, QUERY_TEXT, "who manages the memory"),
	COLUMN(category_row, kind, QUERY_TEXT, "what it is"),
	COLUMN(category_row, detail, QUERY_TEXT, "its owner, size class or file"),
	COLUMN(category_row, state, QUERY_TEXT, "live, free, overhead or mapped"),
	COLUMN(category_row, count, QUERY_AMOUNT, "number of blocks"),
	COLUMN(category_row, virtual, QUERY_AMOUNT, "bytes in all"),
	COLUMN(category_row, resident, QUERY_FIGURE, "of them in memory"),
	COLUMN(category_row, swapped, QUERY_FIGURE, "of them swapped out"),
};

static const struct query_table query_category = {
	.name = "category", .title = "the rows of the census: blocks summed by domain, kind and detail",
	QUERY_COLUMNS(category_columns), .row_size = sizeof(struct category_row), .load = load_categories,
};

/* ---- mapping -------------------------------------------------------------------- */

struct mapping_row {
	uint64_t start, end, size, resident, swapped, offset, inode;
	char permissions[8];
	const char *path;
	bool deleted;
};

static bool take_mapping(void *context, const struct fh_mapping *m)
{
	struct mapping_row r = {
		.start = m->start, .end = m->end, .size = m->end - m->start, .resident = m->resident,
		.swapped = m->swapped, .offset = m->offset, .inode = m->inode, .path = m->path,
		.deleted = m->deleted,
	};

	memcpy(r.permissions, m->permissions, sizeof(m->permissions));
	return gather(context, &r, sizeof(r));
}

static struct fh_error *load_mappings(struct fh_census *census, struct query_rows *ret)
{
	struct gathering gathering = { .rows = ret };

	fh_census_each_mapping(census, take_mapping, &gathering);
	return gathered(&gathering);
}

static const struct query_column mapping_columns[] = {
	COLUMN(mapping_row, start, QUERY_ADDRESS, "first address"),
	COLUMN(mapping_row, end, QUERY_ADDRESS, "address behind the last"),
	COLUMN(mapping_row, size, QUERY_AMOUNT, "bytes"),
	COLUMN(mapping_row, resident, QUERY_FIGURE, "of them in memory"),
	COLUMN(mapping_row, swapped, QUERY_FIGURE, "of them swapped out"),
	COLUMN(mapping_row, permissions, QUERY_CHARS, "rwxp or rwxs, as in /proc/PID/maps"),
	COLUMN(mapping_row, offset, QUERY_AMOUNT, "place of the start in the file"),
	COLUMN(mapping_row, inode, QUERY_AMOUNT, "of the file; 0: none"),
	COLUMN(mapping_row, path, QUERY_TEXT, "file, [heap], [stack] ...; empty: anonymous"),
	COLUMN(mapping_row, deleted, QUERY_BOOL, "the file has no name any more"),
};

static const struct query_table query_mapping = {
	.name = "mapping", .title = "the operating system's mappings",
	QUERY_COLUMNS(mapping_columns), .row_size = sizeof(struct mapping_row), .load = load_mappings,
};

/* ---- image ------------------------------------------------------------------------ */

struct image_row {
	uint64_t start, end, bias;
	const char *name, *path;
	char build_id[65];
	bool executable;
};

static bool take_image(void *context, const struct fh_image *image)
{
	struct image_row r = {
		.start = image->start, .end = image->end, .bias = image->bias, .name = image->name,
		.path = image->path, .executable = image->executable,
	};

	for (size_t i = 0; i < image->build_id_length && i < 32; i++)
		snprintf(r.build_id + 2 * i, 3, "%02x", image->build_id[i]);
	return gather(context, &r, sizeof(r));
}

static struct fh_error *load_images(struct fh_census *census, struct query_rows *ret)
{
	struct gathering gathering = { .rows = ret };

	fh_census_each_image(census, take_image, &gathering);
	return gathered(&gathering);
}

static const struct query_column image_columns[] = {
	COLUMN(image_row, start, QUERY_ADDRESS, "lowest address of its segments"),
	COLUMN(image_row, end, QUERY_ADDRESS, "address behind the highest"),
	COLUMN(image_row, bias, QUERY_ADDRESS, "what is added to the addresses in the file"),
	COLUMN(image_row, name, QUERY_TEXT, "last part of the path"),
	COLUMN(image_row, path, QUERY_TEXT, "the file, as mapped"),
	COLUMN(image_row, build_id, QUERY_CHARS, "in hex; empty: none or not known"),
	COLUMN(image_row, executable, QUERY_BOOL, "the program itself, no library"),
};

static const struct query_table query_image = {
	.name = "image", .title = "the program and its libraries",
	QUERY_COLUMNS(image_columns), .row_size = sizeof(struct image_row), .load = load_images,
};

/* ---- thread --------------------------------------------------------------------------- */

struct thread_row {
	int64_t tid;
	const char *name;
	uint64_t sp, ip, tls;
};

static bool take_thread(void *context, const struct fh_thread *t)
{
	struct thread_row r = { .tid = t->tid, .name = t->name, .sp = t->sp, .ip = t->ip, .tls = t->tls };

	return gather(context, &r, sizeof(r));
}

static struct fh_error *load_threads(struct fh_census *census, struct query_rows *ret)
{
	struct gathering gathering = { .rows = ret };

	fh_census_each_thread(census, take_thread, &gathering);
	return gathered(&gathering);
}

static const struct query_column thread_columns[] = {
	COLUMN(thread_row, tid, QUERY_INTEGER, "id of the thread"),
	COLUMN(thread_row, name, QUERY_TEXT, "as the thread calls itself"),
	COLUMN(thread_row, sp, QUERY_ADDRESS, "stack pointer; 0: not known"),
	COLUMN(thread_row, ip, QUERY_ADDRESS, "instruction pointer"),
	COLUMN(thread_row, tls, QUERY_ADDRESS, "thread pointer"),
};

static const struct query_table query_thread = {
	.name = "thread", .title = "the threads, the main one first",
	QUERY_COLUMNS(thread_columns), .row_size = sizeof(struct thread_row), .load = load_threads,
};

/* ---- arena and bin ------------------------------------------------------------------------ */

struct arena_row {
	const char *allocator;
	int64_t number;
	uint64_t address, system, top, free, free_count, fast, fast_count;
};

static void take_arena(void *context, const struct alloc_arena *a)
{
	struct arena_row r = {
		.allocator = a->allocator, .number = a->number, .address = a->address,
		.system = a->system_bytes, .top = a->top_bytes, .free = a->free_bytes,
		.free_count = a->free_blocks, .fast = a->fast_bytes, .fast_count = a->fast_blocks,
	};

	gather(context, &r, sizeof(r));
}

static struct fh_error *load_arenas(struct fh_census *census, struct query_rows *ret)
{
	struct gathering gathering = { .rows = ret };

	for (size_t i = 0; i < census->n_allocators; i++) {
		const struct allocator *allocator = census->allocators[i].plugin;

		if (allocator->each_arena)
			allocator->each_arena(&census->target, census->allocators[i].state, take_arena, &gathering);
	}
	return gathered(&gathering);
}

static const struct query_column arena_columns[] = {
	COLUMN(arena_row, allocator, QUERY_TEXT, "whose it is"),
	COLUMN(arena_row, number, QUERY_INTEGER, "0 is the main one"),
	COLUMN(arena_row, address, QUERY_ADDRESS, "of its management structure"),
	COLUMN(arena_row, system, QUERY_AMOUNT, "bytes got from the operating system"),
	COLUMN(arena_row, top, QUERY_AMOUNT, "bytes at its end that were never given out"),
	COLUMN(arena_row, free, QUERY_AMOUNT, "bytes in its lists of free blocks"),
	COLUMN(arena_row, free_count, QUERY_AMOUNT, "how many these are"),
	COLUMN(arena_row, fast, QUERY_AMOUNT, "bytes in fastbins, in no list above"),
	COLUMN(arena_row, fast_count, QUERY_AMOUNT, "how many these are"),
};

static const struct query_table query_arena = {
	.name = "arena", .title = "the allocators' arenas",
	QUERY_COLUMNS(arena_columns), .row_size = sizeof(struct arena_row), .load = load_arenas,
};

struct bin_row {
	const char *allocator, *name;
	int64_t arena, tid;
	uint64_t count, bytes;
};

static void take_bin(void *context, const struct alloc_bin *b)
{
	struct bin_row r = {
		.allocator = b->allocator, .name = b->name,
		.arena = b->arena == UINT32_MAX ? -1 : (int64_t)b->arena, .tid = b->thread,
		.count = b->count, .bytes = b->bytes,
	};

	gather(context, &r, sizeof(r));
}

static struct fh_error *load_bins(struct fh_census *census, struct query_rows *ret)
{
	struct gathering gathering = { .rows = ret };

	for (size_t i = 0; i < census->n_allocators; i++) {
		const struct allocator *allocator = census->allocators[i].plugin;

		if (allocator->each_bin)
			allocator->each_bin(&census->target, census->allocators[i].state, take_bin, &gathering);
	}
	return gathered(&gathering);
}

static const struct query_column bin_columns[] = {
	COLUMN(bin_row, allocator, QUERY_TEXT, "whose it is"),
	COLUMN(bin_row, name, QUERY_TEXT, "tcache, fast, small, large, unsorted, and the size"),
	COLUMN(bin_row, arena, QUERY_NUMBER, "number of its arena; NULL: a thread's cache"),
	COLUMN(bin_row, tid, QUERY_NUMBER, "thread whose cache it is"),
	COLUMN(bin_row, count, QUERY_AMOUNT, "free blocks in it"),
	COLUMN(bin_row, bytes, QUERY_AMOUNT, "their sizes"),
};

static const struct query_table query_bin = {
	.name = "bin", .title = "the allocators' lists of free blocks",
	QUERY_COLUMNS(bin_columns), .row_size = sizeof(struct bin_row), .load = load_bins,
};

/* ---- all ------------------------------------------------------------------------------------- */

const struct query_table *const query_tables[] = {
	&query_block,
	&query_category,
	&query_mapping,
	&query_image,
	&query_thread,
	&query_arena,
	&query_bin,
	NULL,
};
