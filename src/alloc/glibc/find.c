/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding malloc's main arena without symbols. It lies in initialised data (its `next` points at itself from the
 * start). An empty bin is a pair of words that both point 16 bytes before themselves; the last of the 127
 * bins is never used, so it is empty always. Where such a pair is found, the 126 before it must be empty or agree
 * with their chunks, and `next`, 32 bytes behind it, begins a ring of arenas: the struct layout with which the
 * ring closes is the right one.
 */
#include <elf.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/glibc/internal.h"

#define MOST_BROKEN_BINS 32 /* of a main arena in a damaged process */
#define LAST_BIN ((BINS - 1) * 16)

void glibc_destroy(struct glibc *glibc)
{
	if (!glibc)
		return;
	vec_free(&glibc->arenas);
	vec_free(&glibc->heaps);
	vec_free(&glibc->bins);
	vec_free(&glibc->tcaches);
	vec_free(&glibc->maybe_tcaches);
	hashmap_deinit(&glibc->large_live);
	free(glibc);
}

/* ---- bins and layout ----------------------------------------------------------------- */

/* A pair of words that can be a bin: empty, or in agreement with the chunks it points at. */
static bool bin_agrees(struct source *source, uint64_t at)
{
	uint64_t fd, bk, back, forth;

	if (!source_u64(source, at, &fd) || !source_u64(source, at + 8, &bk))
		return false;
	if (fd == at - 16 && bk == at - 16)
		return true;
	return source_u64(source, fd + 24, &back) && back == at - 16 && source_u64(source, bk + 16, &forth) &&
	       forth == at - 16;
}

static bool last_bin_is_empty(struct source *source, uint64_t bins)
{
	uint64_t fd, bk;

	return source_u64(source, bins + LAST_BIN, &fd) && source_u64(source, bins + LAST_BIN + 8, &bk) &&
	       fd == bins + LAST_BIN - 16 && bk == fd;
}

/* Whether 127 bins begin here; behind them is no other. */
static bool are_bins(struct source *source, uint64_t bins)
{
	unsigned broken = 0;

	if (bin_agrees(source, bins + LAST_BIN + 16))
		return false;
	for (unsigned i = 0; i < BINS && broken <= MOST_BROKEN_BINS; i++)
		broken += !bin_agrees(source, bins + 16 * i);
	return broken <= MOST_BROKEN_BINS;
}

/* How many arenas the ring has with a layout, before it closes (*ret_closes) or leads nowhere. */
static unsigned ring_length(struct source *source, uint64_t state, const struct state_layout *layout, bool *ret_closes)
{
	uint64_t at = state, seen = 0;

	*ret_closes = false;
	for (unsigned n = 1; n < MOST_ARENAS; n++) {
		if ((n & (n - 1)) == 0)
			seen = at; /* Brent: a ring that does not lead back to `state` meets it again */
		if (!source_u64(source, at + layout->bins + STATE_NEXT, &at) || (at == seen && at != state))
			return n - 1;
		if (at == state) {
			*ret_closes = true;
			return n;
		}
		if (at % 8 || !last_bin_is_empty(source, at + layout->bins))
			return n - 1;
	}
	return 0;
}

/* The layout whose ring closes; where none does (damage), the one that leads furthest. */
static const struct state_layout *layout_of(struct target *target, uint64_t bins)
{
	const struct state_layout *best = NULL;
	unsigned most = 0;

	for (size_t i = 0; i < n_state_layouts; i++) {
		bool closes;
		unsigned n = ring_length(target->source, bins - state_layouts[i].bins, &state_layouts[i], &closes);

		if (closes)
			return &state_layouts[i];
		if (n > most) {
			most = n;
			best = &state_layouts[i];
		}
	}
	if (best)
		target_damaged(target, "malloc: the ring of arenas that starts at 0x%" PRIx64 " does not close",
			       bins - best->bins);
	return best;
}

/* ---- the version ------------------------------------------------------------------------ */

static const char *version_at(struct source *source, uint64_t address)
{
	char text[24] = "";
	size_t len;

	memory_read(&source->memory, address, text, sizeof(text) - 1);
	len = strspn(text, "0123456789.");
	while (len && text[len - 1] == '.')
		len--;
	return len ? strings_add_len(source->strings, text, len) : NULL;
}

/* The address right behind the first occurrence of some bytes in [start, end), or 0. */
static uint64_t find_bytes(struct source *source, uint64_t start, uint64_t end, const char *needle, size_t len)
{
	for (uint64_t at = start; at < end;) {
		size_t span;
		const char *bytes = memory_span(&source->memory, at, &span), *found;

		if (!span)
			return 0;
		if (span > end - at)
			span = end - at;
		found = bytes ? memmem(bytes, span, needle, len) : NULL;
		if (found)
			return at + (uint64_t)(found - bytes) + len;
		at += bytes && span > len && at + span < end ? span - len : span; /* it may lie across the border */
	}
	return 0;
}

/* A string of its own that reads "2.36", in a static program; NULL when there are two that differ. */
static const char *bare_version(struct source *source, uint64_t start, uint64_t end)
{
	const char *found = NULL;

	for (uint64_t at = start; (at = find_bytes(source, at, end, "\0002.", 3));) {
		char digits[3] = "";
		const char *version;

		if (!source_read(source, at, digits, sizeof(digits)) || digits[0] < '1' || digits[0] > '9' ||
		    digits[1] < '0' || digits[1] > '9' || digits[2] != '\0')
			continue;
		version = version_at(source, at - 2);
		if (found && found != version) /* equal strings are equal pointers */
			return NULL;
		found = version;
	}
	return found;
}

/* "GNU C Library (...) stable release version 2.36." in the read-only data. */
static const char *find_version(struct source *source, const struct image *image)
{
	static const char banner[] = "release version ";
	const char *version = NULL;

	for (size_t i = 0; i < image->segments.len && !version; i++) {
		const struct image_segment *s = &image->segments.items[i];
		uint64_t at;

		if (s->flags & (PF_W | PF_X))
			continue;
		at = find_bytes(source, s->start, s->file_end, banner, strlen(banner));
		if (at)
			version = version_at(source, at);
		else if (image->executable)
			version = bare_version(source, s->start, s->file_end);
	}
	return version;
}

/* ---- the search ---------------------------------------------------------------------------- */

/* A piece of writable, initialised data. */
struct data {
	const struct image *image; /* NULL: a mapping of a file that is no known image */
	uint64_t start, end;
};

/* Calls of the kernel by which malloc gets and gives back memory: mmap, mprotect, munmap, brk, mremap, madvise
 * (asm/unistd_64.h). */
static bool is_memory_call(uint64_t number)
{
	return (number >= 9 && number <= 12) || number == 25 || number == 28;
}

#define ORIG_RAX 15 /* in struct user_regs_struct */

/* Whether a thread was in the code that malloc is in, other than waiting in a call of the kernel (it then stands
 * behind a `syscall`, 0f 05). A single-threaded program takes no lock that would tell. */
static bool runs_libc(const struct glibc *glibc)
{
	struct source *source = glibc->target->source;

	for (size_t i = 0; glibc->image && i < source->threads.len; i++) {
		const struct source_thread *t = &source->threads.items[i];
		uint8_t before[2];

		if (t->has_registers && t->ip >= glibc->image->start && t->ip < glibc->image->end &&
		    (is_memory_call(t->registers[ORIG_RAX]) || !source_read(source, t->ip - 2, before, 2) ||
		     before[0] != 0x0f || before[1] != 0x05))
			return true;
	}
	return false;
}

static struct fh_error *add_glibc(struct target *target, const struct data *data, uint64_t bins, glibc_list *list)
{
	const struct state_layout *layout = layout_of(target, bins);
	struct glibc *glibc;

	if (!layout)
		return NULL;
	glibc = calloc(1, sizeof(*glibc));
	if (!glibc || !vec_push(list, glibc)) {
		free(glibc);
		return error_no_memory();
	}
	glibc->target = target;
	glibc->image = data->image;
	glibc->data_start = data->start;
	glibc->data_end = data->end;
	glibc->layout = layout;
	glibc->version = data->image ? find_version(target->source, data->image) : NULL;
	glibc->busy = runs_libc(glibc);
	categories_init(glibc);
	params_find(glibc, bins - layout->bins);
	return regions_find(glibc, bins - layout->bins);
}

/* Looks for the last bin of a main arena, span by span; its two words may lie in two of them. */
static struct fh_error *search(struct target *target, const struct data *data, glibc_list *list)
{
	struct source *source = target->source;

	for (uint64_t at = (data->start + 7) / 8 * 8; at + 16 <= data->end;) {
		size_t span, n, i = 0;
		const uint8_t *bytes = memory_span(&source->memory, at, &span);

		if (!span)
			break;
		n = (span + 7) / 8;
		for (; bytes && i < n && at + 8 * i + 16 <= data->end; i++) {
			uint64_t address = at + 8 * i, pair[2];

			/* Not as words: a segment of a core may begin at any byte. */
			if (8 * i + sizeof(pair) <= span)
				memcpy(pair, bytes + 8 * i, sizeof(pair));
			else if (!source_read(source, address, pair, sizeof(pair)))
				continue;
			if (pair[0] != address - 16 || pair[1] != address - 16)
				continue;
			if (address - LAST_BIN >= data->start && are_bins(source, address - LAST_BIN))
				TRY(add_glibc(target, data, address - LAST_BIN, list));
			i++;
			break; /* the bytes may have moved out of the cache */
		}
		at += 8 * (bytes ? i : n);
	}
	return NULL;
}

static struct fh_error *search_images(struct target *target, glibc_list *list)
{
	for (size_t i = 0; target->images && i < target->images->v.len; i++) {
		const struct image *image = target->images->v.items[i];

		for (size_t k = 0; k < image->segments.len; k++) {
			const struct image_segment *s = &image->segments.items[k];

			if (s->flags & PF_W && s->file_end - s->start < UINT64_C(1) << 32)
				TRY(search(target, &(struct data){ image, s->start, s->file_end }, list));
		}
	}
	return NULL;
}

/* Without images (a core that left the headers out): every writable private mapping of a file. */
static struct fh_error *search_mappings(struct target *target, glibc_list *list)
{
	for (size_t i = 0; i < target->source->mappings.len; i++) {
		const struct mapping *m = &target->source->mappings.items[i];

		if (m->inode && m->flags & MAPPING_WRITE && !(m->flags & MAPPING_SHARED) &&
		    m->end - m->start < UINT64_C(1) << 32)
			TRY(search(target, &(struct data){ NULL, m->start, m->end }, list));
	}
	return NULL;
}

struct fh_error *glibc_find(struct target *target, struct marks *marks, glibc_list *list)
{
	TRY(search_images(target, list));
	if (!list->len)
		TRY(search_mappings(target, list));
	for (size_t i = 0; i < list->len; i++)
		list->items[i]->marks = marks;
	return NULL;
}
