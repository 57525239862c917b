/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What perl divides itself: chunks of SV heads, the first slot of which is the chunk's header {next, slots}, and
 * chunks of bodies of one type, listed in sets {next, size, used, {chunk, bytes, type}[]}.
 */
#include <inttypes.h>

#include "runtime/perl/internal.h"

#define MOST_HEADS 65536u /* in a chunk; 170 in fact */
#define MOST_SET 4096u    /* chunks in a set; 169 in fact */

/* ---- heads -------------------------------------------------------------------- */

/* Another interpreter's arena says that this is the same one, not that something is broken. */
static bool find_head_arenas(struct perl *perl)
{
	struct source *source = perl->target->source;
	struct hashmap seen = { 0 };
	uint64_t at = perl_pointer(perl, "sv_arenaroot"), heads = 0;
	bool sound = true;

	perl->broken_at = 0;
	while (at && sound && !hashmap_get(perl->taken, at)) {
		struct sv_arena arena = { .start = at };
		uint64_t next = 0;

		sound = at % 8 == 0 && !hashmap_get(&seen, at) && hashmap_put(&seen, at, 1) &&
			source_u64(source, at, &next) && source_u32(source, at + 8, &arena.n) && arena.n > 1 &&
			arena.n <= MOST_HEADS && vec_push(&perl->arenas, arena);
		heads += arena.n; /* arenas that overlap have more than there is room for */
		sound = sound && heads <= source->os_virtual / HEAD_SIZE;
		if (!sound)
			perl->broken_at = at;
		at = next;
	}
	hashmap_deinit(&seen);
	return sound && !at;
}

void perl_arenas_each(struct perl *perl, sv_visitor *visit, void *context)
{
	for (size_t i = 0; i < perl->arenas.len; i++) {
		const struct sv_arena arena = perl->arenas.items[i];
		struct sv sv;

		for (uint32_t n = 1; n < arena.n; n++)
			if (sv_at(perl, arena.start + n * HEAD_SIZE, &sv))
				visit(perl, &sv, context);
	}
}

static void count_head(struct perl *perl, const struct sv *sv, void *context)
{
	(void)sv;
	(void)context;
	perl->live++;
}

uint64_t perl_arenas_freed(struct perl *perl)
{
	uint64_t freed = 0;

	for (size_t i = 0; i < perl->arenas.len; i++) {
		const struct sv_arena arena = perl->arenas.items[i];
		uint32_t flags;

		for (uint32_t n = 1; n < arena.n; n++)
			freed += source_u32(perl->target->source, arena.start + n * HEAD_SIZE + 12, &flags) &&
				 (flags & 0xff) == SVT_FREED;
	}
	return freed;
}

/* ---- bodies --------------------------------------------------------------------- */

/* How large a body in a chunk of this type is; 0: not known. Two numbers of types without bodies serve others. */
static uint32_t body_size(const struct perl *perl, uint32_t type, struct body_arena *arena)
{
	if (type == 0) {
		arena->entries = true;
		return perl->o->he_size;
	}
	if (type >= SVT_MOST || !perl->bodies[type].known)
		return 0;
	arena->kind = perl->bodies[type].kind;
	if (!perl->bodies[type].size && perl->o->hash_with_aux_size) {
		arena->kind = SV_HASH;
		return perl->o->hash_with_aux_size;
	}
	return perl->bodies[type].size;
}

static int by_start(const void *a, const void *b)
{
	const struct body_arena *one = a, *other = b;

	return one->start < other->start ? -1 : one->start > other->start;
}

static void add_body_arena(struct perl *perl, uint64_t start, uint64_t bytes, uint32_t type)
{
	struct body_arena arena = { .start = start };
	struct block block;

	arena.size = body_size(perl, type, &arena);
	if (!arena.size || bytes > UINT32_MAX || !ledger_find(perl->target->ledger, start, &block) ||
	    start + bytes > block.end + 8 ||
	    (!perl_claimable(perl, start, &block) && !ledger_is_dark(perl->target->ledger, block.category)))
		return;
	arena.n = (uint32_t)bytes / arena.size;
	arena.first = (uint32_t)perl->marks.len;
	if (perl->marks.len + arena.n > perl->target->source->os_virtual / 8) /* arenas that are listed again and again */
		return;
	if (!vec_reserve(&perl->marks, perl->marks.len + arena.n) || !vec_push(&perl->body_arenas, arena)) {
		perl->target->ledger->no_memory = true;
		return;
	}
	memset(perl->marks.items + perl->marks.len, 0, arena.n * sizeof(*perl->marks.items));
	perl->marks.len += arena.n;
}

static bool find_body_arenas(struct perl *perl)
{
	struct source *source = perl->target->source;
	struct hashmap seen = { 0 };
	category_id category = perl_category(perl, "perl arena", "arena set", "", FH_OVERHEAD);
	uint64_t set = perl_pointer(perl, "body_arenas"), next;
	int first = layout_offset(&perl->layout, "arena_set", "set");
	uint32_t step = layout_size(&perl->layout, "arena_desc");
	bool sound = first >= 0 && step >= 24;

	for (; set && sound; set = next) {
		uint32_t used = 0;
		uint64_t desc[3];

		next = 0;
		sound = !hashmap_get(&seen, set) && hashmap_put(&seen, set, 1) && source_u64(source, set, &next) &&
			source_u32(source, set + 12, &used) && used <= MOST_SET;
		for (uint32_t i = 0; sound && i < used; i++)
			if (source_read(source, set + (uint64_t)first + i * step, desc, sizeof(desc)))
				add_body_arena(perl, desc[0], desc[1], (uint32_t)desc[2]);
		perl_claim(perl, set, category, NULL);
	}
	hashmap_deinit(&seen);
	if (perl->body_arenas.len)
		qsort(perl->body_arenas.items, perl->body_arenas.len, sizeof(*perl->body_arenas.items), by_start);
	return sound;
}

/* The marks of two chunks that lie over each other would be carved twice. */
static void drop_overlapping(struct perl *perl)
{
	size_t kept = 0;
	uint64_t end = 0;

	for (size_t i = 0; i < perl->body_arenas.len; i++) {
		struct body_arena arena = perl->body_arenas.items[i];

		if (arena.start < end)
			continue;
		end = arena.start + (uint64_t)arena.n * arena.size;
		perl->body_arenas.items[kept++] = arena;
	}
	perl->body_arenas.len = kept;
}

bool perl_arenas_mark(struct perl *perl, uint64_t body, category_id category)
{
	size_t after = vec_after(&perl->body_arenas, .start, body);
	const struct body_arena *arena;
	uint64_t n;

	if (!after)
		return false;
	arena = &perl->body_arenas.items[after - 1];
	n = (body - arena->start) / arena->size;
	if (n >= arena->n || (body - arena->start) % arena->size)
		return false;
	perl->marks.items[arena->first + n] = category;
	return true;
}

struct fh_error *perl_arenas_find(struct perl *perl)
{
	category_id heads = perl_category(perl, "perl arena", "heads", "", FH_LIVE);

	for (size_t i = 0; i < perl->arenas.len; i++) /* so that no stray pointer names them */
		perl_claim(perl, perl->arenas.items[i].start, heads, NULL);
	if (!find_body_arenas(perl))
		target_damaged(perl->target,
			       "perl %s at 0x%" PRIx64 ": its list of body arenas is corrupt, or was being changed",
			       perl->full_version, perl->address);
	drop_overlapping(perl);
	for (size_t i = 0; i < perl->body_arenas.len; i++)
		perl_claim(perl, perl->body_arenas.items[i].start, heads, NULL);
	return perl->target->ledger->no_memory ? error_no_memory() : NULL;
}

/* ---- carving ---------------------------------------------------------------------- */

static category_id head_category(struct perl *perl, const struct sv *sv)
{
	if (sv_is(sv, SV_CODE)) {
		const uint64_t *known = hashmap_get(&perl->heads, sv->address);

		if (known)
			return (category_id)*known;
	}
	return perl_owner_category(perl, owner_of(perl, sv), PART_HEAD + sv->body->kind);
}

/* What to carve for an arena at [start, end): the block of malloc's that was claimed for it, or, where malloc is not
 * known, the arena alone. False when somebody else has the place. */
static bool arena_place(struct perl *perl, uint64_t start, uint64_t end, uint64_t *ret_start, uint64_t *ret_end)
{
	struct ledger *ledger = perl->target->ledger;
	struct block block;

	if (!ledger_find(ledger, start, &block))
		return false;
	if (strcmp(ledger_category_of(ledger, block.category)->domain, "perl arena") == 0) {
		*ret_start = block.start;
		*ret_end = block.end;
		return end <= block.end + 8;
	}
	*ret_start = start;
	*ret_end = end;
	return ledger_is_dark(ledger, block.category) && end <= block.end;
}

static void carve_heads(struct perl *perl, const struct sv_arena *arena)
{
	struct ledger *ledger = perl->target->ledger;
	category_id header = perl_category(perl, "perl arena", "arena header", "heads", FH_OVERHEAD);
	category_id freed = perl_category(perl, "perl arena", "free head", "", FH_FREE);
	uint64_t end = arena->start + (uint64_t)arena->n * HEAD_SIZE, from, to;

	if (!arena_place(perl, arena->start, end, &from, &to))
		return;
	ledger_carve_begin(ledger, from, to);
	ledger_carve_add(ledger, from, header);
	for (uint32_t n = 1; n < arena->n; n++) {
		struct sv sv;

		ledger_carve_add(ledger, arena->start + n * HEAD_SIZE,
				 sv_at(perl, arena->start + n * HEAD_SIZE, &sv) ? head_category(perl, &sv) : freed);
	}
	if (end < to)
		ledger_carve_add(ledger, end, header);
	ledger_carve_end(ledger);
}

static void carve_bodies(struct perl *perl, const struct body_arena *arena)
{
	struct ledger *ledger = perl->target->ledger;
	const char *detail = arena->entries ? "hash entry" : sv_kind_name(arena->kind);
	category_id header = perl_category(perl, "perl arena", "arena header", "bodies", FH_OVERHEAD);
	category_id freed = perl_category(perl, "perl arena", "free body", detail, FH_FREE);
	uint64_t end = arena->start + (uint64_t)arena->n * arena->size, from, to;

	if (!arena_place(perl, arena->start, end, &from, &to))
		return;
	ledger_carve_begin(ledger, from, to);
	if (from < arena->start)
		ledger_carve_add(ledger, from, header);
	for (uint32_t n = 0; n < arena->n; n++) {
		category_id mark = perl->marks.items[arena->first + n];

		ledger_carve_add(ledger, arena->start + (uint64_t)n * arena->size, mark ? mark : freed);
	}
	if (end < to)
		ledger_carve_add(ledger, end, header);
	ledger_carve_end(ledger);
}

struct fh_error *perl_arenas_carve(struct perl *perl)
{
	struct ledger *ledger = perl->target->ledger;

	for (size_t i = 0; i < perl->arenas.len; i++)
		carve_heads(perl, &perl->arenas.items[i]);
	for (size_t i = 0; i < perl->body_arenas.len; i++)
		carve_bodies(perl, &perl->body_arenas.items[i]);
	for (size_t i = 0; i < perl->splits.len; i++) {
		const struct split *split = &perl->splits.items[i];

		ledger_carve_begin(ledger, split->start, split->end);
		ledger_carve_add(ledger, split->start, split->first);
		ledger_carve_add(ledger, split->at, split->second);
		ledger_carve_end(ledger);
	}
	return ledger_commit(ledger);
}

static int by_arena(const void *a, const void *b)
{
	const struct sv_arena *one = a, *other = b;

	return one->start < other->start ? -1 : one->start > other->start;
}

bool perl_arenas_has(struct perl *perl, uint64_t address)
{
	size_t after = vec_after(&perl->arenas, .start, address);
	const struct sv_arena *arena;

	if (!after)
		return false;
	arena = &perl->arenas.items[after - 1];
	return address > arena->start && address < arena->start + (uint64_t)arena->n * HEAD_SIZE &&
	       (address - arena->start) % HEAD_SIZE == 0;
}

bool perl_arenas_count(struct perl *perl)
{
	perl->live = 0;
	if (!find_head_arenas(perl) || !perl->arenas.len)
		return false;
	qsort(perl->arenas.items, perl->arenas.len, sizeof(*perl->arenas.items), by_arena);
	perl_arenas_each(perl, count_head, NULL);
	return true;
}
