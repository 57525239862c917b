/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interpreters, by structure: a block of malloc's as large as struct interpreter is in some version, whose chain of
 * arenas holds as many live heads as its own sv_count says. So the one of a thread that has ended and that of
 * threads::shared are found like the one that runs. A perl without threads has one, whose variables are symbols.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/perl/internal.h"

#define MOST_INTERPRETERS 4096u
#define MOST_REFUSED 64u    /* candidates that look like an interpreter and are none */
#define MALLOC_ROUNDING 40u /* a chunk's data can be that much larger than what was asked for */

uint64_t perl_variable(struct perl *perl, const char *name)
{
	char symbol[80];
	uint64_t address;
	int offset;

	if (perl->address) {
		offset = layout_offset(&perl->layout, "interpreter", name);
		return offset < 0 ? 0 : perl->address + (uint64_t)offset;
	}
	snprintf(symbol, sizeof(symbol), "PL_%s", name);
	return image_symbol(perl->target->images, (struct image *)perl->image, symbol, &address, NULL) ? address : 0;
}

uint64_t perl_pointer(struct perl *perl, const char *name)
{
	uint64_t at = perl_variable(perl, name), value;

	return at && source_u64(perl->target->source, at, &value) ? value : 0;
}

/* ---- which version ---------------------------------------------------------------- */

/* The value of a key in a small hash, through its buckets. */
static bool hash_value(struct perl *perl, const struct sv *hash, const char *key, struct sv *ret)
{
	struct source *source = perl->target->source;
	uint64_t max = sv_word(perl, hash, perl->o->xhv_max), he, hek, value;
	char name[64];

	for (uint64_t i = 0; hash->u && i <= max && i < 1024; i++) {
		if (!source_u64(source, hash->u + 8 * i, &he))
			return false;
		for (int n = 0; he && n < 64; n++) {
			if (!source_u64(source, he + (uint64_t)perl->o->he_hek, &hek) ||
			    !source_u64(source, he + (uint64_t)perl->o->he_val, &value))
				return false;
			if (hek_string(perl, hek, name, sizeof(name)) && strcmp(name, key) == 0)
				return sv_at(perl, value, ret);
			if (!source_u64(source, he + (uint64_t)perl->o->he_next, &he))
				return false;
		}
	}
	return false;
}

/* PL_patchlevel: "v5.36.0", or a version object with that as `original`. Empty while perl only starts. */
static void read_version(struct perl *perl, char version[24])
{
	struct sv sv, hash;
	char text[24];

	version[0] = '\0';
	if (!sv_at(perl, perl_pointer(perl, "patchlevel"), &sv))
		return;
	if (sv.flags & perl->bits->rok &&
	    (!sv_at(perl, sv.u, &hash) || !sv_is(&hash, SV_HASH) || !hash_value(perl, &hash, "original", &sv)))
		return;
	if (sv_string(perl, &sv, text, sizeof(text)) && text[0] == 'v' && isdigit((unsigned char)text[1]))
		memmove(version, text + 1, strlen(text));
}

/* Whether "5.36.0" is of the series "5.36". */
static bool is_of_series(const char *version, const char *series)
{
	size_t len = strlen(series);

	return strncmp(version, series, len) == 0 && !isdigit((unsigned char)version[len]);
}

/* ---- one candidate ------------------------------------------------------------------- */

enum verdict {
	NO_PERL,
	OTHER_VERSION, /* it says a version that the layout is not of */
	OTHER_COUNT,   /* it is one, but its heads are not as many as it says */
	BROKEN_CHAIN,  /* it is one, but its arenas are no chain */
	IS_PERL,
};

/* A head more or less is one that is being made or given back just now, which is two steps. */
static bool is_about(uint64_t count, uint64_t other)
{
	return count + 1 >= other && count <= other + 1;
}

/* While a destructor runs, heads that are freed because of it have no type any more and aren't in the chain of free heads
 * yet. Destructors that run within each other have several of these, which sv_count counts. */
static bool counts_agree(struct perl *perl)
{
	uint64_t freed = 0, chained = 0, at = perl_pointer(perl, "sv_root");

	if (is_about(perl->live, perl->sv_count))
		return true;
	freed = perl_arenas_freed(perl);
	for (; at && chained <= freed; chained++)
		if (!source_u64(perl->target->source, at, &at))
			return false;
	return chained <= freed && is_about(perl->live + (freed - chained), perl->sv_count);
}

static enum verdict try_layout(struct perl *perl, const struct perl_facts *facts, bool must_say)
{
	struct sv stash;
	char version[24], name[8];

	perl->layout = facts->layout;
	perl->facts = facts;
	perl->o = &facts->o;
	perl->bits = &facts->bits;
	perl->bodies = facts->bodies;
	perl->version = facts->layout.facts[0].version;
	perl->flavour = facts->layout.facts[0].flavour;
	perl->arenas.len = 0;
	perl->sv_count = perl_pointer(perl, "sv_count");
	if (!perl->sv_count || (!must_say && perl->sv_count > perl->target->source->os_virtual / HEAD_SIZE))
		return NO_PERL;
	perl->strtab = perl_pointer(perl, "strtab");
	read_version(perl, version);
	if (version[0] && !is_of_series(version, perl->version)) {
		snprintf(perl->full_version, sizeof(perl->full_version), "%s", version);
		return OTHER_VERSION;
	}
	if (must_say != (version[0] != '\0') || !sv_at(perl, perl->strtab, &stash) || !sv_is(&stash, SV_HASH))
		return NO_PERL;
	if (sv_at(perl, perl_pointer(perl, "defstash"), &stash) &&
	    (!sv_is(&stash, SV_HASH) ||
	     (package_name(perl, stash.address, name, sizeof(name)) && strcmp(name, "main") != 0)))
		return NO_PERL;
	snprintf(perl->full_version, sizeof(perl->full_version), "%s", version[0] ? version : perl->version);
	if (!perl_arenas_count(perl))
		return must_say && perl->broken_at ? BROKEN_CHAIN : NO_PERL;
	return counts_agree(perl) ? IS_PERL : OTHER_COUNT;
}

static struct perl *perl_create(struct target *target, const struct image *image, uint64_t address,
				struct hashmap *taken)
{
	struct perl *perl = calloc(1, sizeof(*perl));

	if (!perl)
		return NULL;
	perl->target = target;
	perl->image = image;
	perl->address = address;
	perl->taken = taken;
	perl->patience = target->source->os_virtual / 8;
	return perl;
}

/* Whether an interpreter of a layout fills a block with that many bytes of data. */
static bool is_size(const struct perl_facts *facts, uint64_t room)
{
	uint32_t size = facts->interpreter_size;

	return size && size <= room && size + MALLOC_ROUNDING > room;
}

static enum verdict try_layouts(struct perl_state *state, struct perl *perl, uint64_t room, const char *flavour,
				bool must_say)
{
	enum verdict worst = NO_PERL;

	for (size_t i = 0; i < state->facts.len; i++) {
		const struct layout *layout = &state->facts.items[i]->layout;
		enum verdict verdict;

		if (strcmp(layout->facts[0].flavour, flavour) != 0 || (room && !is_size(state->facts.items[i], room)))
			continue;
		if (!perl_resolve(state->facts.items[i]))
			continue;
		verdict = try_layout(perl, state->facts.items[i], must_say);
		if (verdict >= OTHER_COUNT)
			return verdict;
		worst = verdict > worst ? verdict : worst;
	}
	return worst;
}

/* Tries the layouts on a candidate; adds it when one of them agrees. Where no layout finds a version, perl may only
 * just have started. */
static struct fh_error *try_candidate(struct perl_state *state, const struct image *image, uint64_t address,
				      uint64_t room, const char *flavour)
{
	struct perl *perl = perl_create(state->target, image, address, &state->taken);
	enum verdict verdict;

	if (!perl)
		return error_no_memory();
	verdict = try_layouts(state, perl, room, flavour, true);
	if (verdict == NO_PERL)
		verdict = try_layouts(state, perl, room, flavour, false);
	if (verdict == OTHER_VERSION)
		snprintf(state->other_version, sizeof(state->other_version), "%s", perl->full_version);
	if (verdict == OTHER_COUNT && !state->refused++)
		target_damaged(state->target,
			       "perl %s at 0x%" PRIx64 ": it says %" PRIu64 " values and has %" PRIu64
			       "; it is corrupt, or was being changed, and is not looked into",
			       perl->full_version, address, perl->sv_count, perl->live);
	if (verdict == BROKEN_CHAIN && !state->refused++)
		target_damaged(state->target,
			       "perl %s at 0x%" PRIx64 ": its chain of arenas of values is broken at 0x%" PRIx64
			       "; it is corrupt, not all there, or was being changed, and is not looked into",
			       perl->full_version, address, perl->broken_at);
	perl->number = (uint32_t)state->list.len;
	for (size_t i = 0; verdict == IS_PERL && i < perl->arenas.len; i++)
		if (!hashmap_put(&state->taken, perl->arenas.items[i].start, 1))
			return perl_destroy(perl), error_no_memory();
	if (verdict == IS_PERL && vec_push(&state->list, perl))
		return NULL;
	perl_destroy(perl);
	return verdict == IS_PERL ? error_no_memory() : NULL;
}

/* ---- all of them ------------------------------------------------------------------------ */

static struct fh_error *load_layouts(struct perl_state *state)
{
	struct layout layout = { 0 };

	while (layout_next("perl", &layout)) {
		struct perl_facts *facts = calloc(1, sizeof(*facts));

		if (!facts || !vec_push(&state->facts, facts)) {
			free(facts);
			return error_no_memory();
		}
		facts->layout = layout;
		facts->interpreter_size = layout_size(&layout, "interpreter");
	}
	return NULL;
}

static bool may_be_size(const struct perl_state *state, uint64_t room)
{
	for (size_t i = 0; i < state->facts.len; i++)
		if (is_size(state->facts.items[i], room))
			return true;
	return false;
}

static struct fh_error *search_blocks(struct perl_state *state, const struct image *image, const char *flavour)
{
	struct ledger *ledger = state->target->ledger;
	struct ledger_cursor cursor = { 0 };
	struct block block;
	uint32_t least = UINT32_MAX, most = 0; /* sizes of an interpreter */

	for (size_t i = 0; i < state->facts.len; i++) {
		uint32_t size = state->facts.items[i]->interpreter_size;

		least = size && size < least ? size : least;
		most = size > most ? size : most;
	}
	while (ledger_next(ledger, &cursor, &block) && state->list.len < MOST_INTERPRETERS &&
	       state->refused < MOST_REFUSED) {
		const struct category *c = ledger_category_of(ledger, block.category);
		uint64_t data = block.start + c->head, room = block.end + 8 - data;

		if (room >= least && room < most + MALLOC_ROUNDING && c->unknown && c->state == FH_LIVE &&
		    may_be_size(state, room))
			TRY(try_candidate(state, image, data, room, flavour));
	}
	return NULL;
}

/* The one that runs now or ran last, by a symbol; the others, and it too if need be, among the blocks of malloc. */
static struct fh_error *find_several(struct perl_state *state, const struct image *image)
{
	struct images *images = state->target->images;
	uint64_t address, current;
	const char *flavour = image_symbol(images, (struct image *)image, "PL_thr_key", &address, NULL) ? "threaded"
												       : "multiplicity";

	if (image_symbol(images, (struct image *)image, "PL_curinterp", &address, NULL) &&
	    source_u64(state->target->source, address, &current) && current)
		TRY(try_candidate(state, image, current, 0, flavour));
	return search_blocks(state, image, flavour);
}

struct fh_error *perl_find(struct perl_state *state)
{
	struct images *images = state->target->images;
	uint64_t address;
	const struct image *image = images_with_symbol(images, "PL_op_name", &address);

	if (!image)
		return NULL;
	TRY(load_layouts(state));
	/* perl has its variables as symbols unless it was built for several interpreters, and PL_thr_key with threads only. */
	if (image_symbol(images, (struct image *)image, "PL_sv_arenaroot", &address, NULL))
		TRY(try_candidate(state, image, 0, 0, "unthreaded"));
	else
		TRY(find_several(state, image));
	if (!state->list.len && state->other_version[0])
		source_warn(state->target->source,
			    "%s is perl %s, a version that is not known: its memory is shown as blocks of malloc",
			    image->path, state->other_version);
	else if (!state->list.len && !state->refused)
		source_warn(
			state->target->source,
			"%s is perl, of a version that is not known, or it has not started yet: its memory is shown as "
			"blocks of malloc",
			image->path);
	return NULL;
}
