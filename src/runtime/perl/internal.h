/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this folder share. The way of a census: find.c finds the interpreters and the layout that each of
 * them agrees with (layout.c); arenas.c reads its SV and body arenas; values.c, code.c and interpreter.c walk what the
 * values, the code and the interpreter itself own, name those blocks at once, and mark the bodies that are in use;
 * then arenas.c carves. names.c knows what packages and subs are called; claims.c is how blocks get their names.
 *
 * Facts: perl's sv.h, av.h, hv.h, cv.h, gv.h, op.h, pad.h, mg.h, regexp.h, perlio*.h, 5.22 to 5.42; offsets are in
 * layouts/perl.def.
 */
#ifndef FREEHOLD_RUNTIME_PERL_INTERNAL_H
#define FREEHOLD_RUNTIME_PERL_INTERNAL_H

#include <string.h>

#include "base/hashmap.h"
#include "layout/layout.h"
#include "runtime/perl/perl.h"

/* What a value is to a Perl programmer. The order is that of kind_names in claims.c. */
enum sv_kind {
	SV_SCALAR,
	SV_INVLIST,
	SV_REGEXP,
	SV_GLOB,
	SV_LVALUE,
	SV_ARRAY,
	SV_HASH,
	SV_CODE,
	SV_FORMAT,
	SV_IO,
	SV_OBJECT,
	SV_KINDS
};

#define SVT_MOST 24 /* types of SV; 17 or 18 in every version */
#define SVT_FREED 0xffu
#define HEAD_SIZE 24u /* of an SV, since 5.10 */

/* How the body of a type of SV lies in memory. */
struct sv_body {
	enum sv_kind kind;
	uint32_t size;   /* bytes that are allocated; 0: the value is in the head */
	uint32_t offset; /* of the first allocated byte from sv_any */
	bool pv;         /* sv_u is a string's address, unless the value is a reference */
	bool magic;      /* it starts with a stash and a chain of magic */
	bool known;
};

/* Offsets that are used often, resolved once; -1 where this version has no such thing. */
struct perl_offsets {
	int xmg_stash, xmg_magic, xpv_cur, xpv_len;
	int xav_alloc, xav_fill, xav_max;
	int xhv_max, xhv_keys, xhv_aux, aux_name, aux_name_count, aux_backreferences, aux_mro_meta;
	int xgv_stash, xgv_namehek;
	int xcv_stash, xcv_root, xcv_start, xcv_gv, xcv_file, xcv_padlist, xcv_outside, xcv_flags, xcv_depth;
	int gp_sv, gp_io, gp_cv, gp_hv, gp_av, gp_form, gp_egv, gp_refcnt;
	int he_next, he_hek, he_val, hek_len, hek_key, shared_hek;
	int mg_next, mg_virtual, mg_type, mg_flags, mg_len, mg_obj, mg_ptr;
	int cop_line, cop_file;
	int opslab_next, opslab_head, opslab_size, opslab_free_space, opslab_slots, opslab_freed;
	int opslot_size, opslot_offset, opslot_op, op_type, op_ppaddr;
	int xiv_iv, padnames_alloc, padnames_fill, padlist_pads, padlist_max, regexp_program;
	uint32_t he_size, aux_size, hash_with_aux_size, gp_size, magic_size;
};

struct sv_bits {
	uint32_t object, rok, pok, iok, ook, cow, hasaux, sharekeys, protect, readonly, temp, padtmp, magical, weakref,
		utf8, freed_body;
	uint32_t nok, p_iok, p_nok, p_pok, is_uv, array_real, has_gp, mg_refcounted, cv_cvgv_rc, pn_outer, pn_our;
	uint32_t cv_xsub, cv_named, cv_anon, cv_const, cv_slabbed, cv_clone, cv_weakoutside, cv_nodebug;
};

/* An SV, from its head. Good after further reads, as it is a copy. */
struct sv {
	uint64_t address, any, u;
	uint32_t refcnt, flags;
	const struct sv_body *body; /* NULL: no type that this version has */
};

/* One chunk of heads. */
struct sv_arena {
	uint64_t start;
	uint32_t n; /* heads, the first of which is the arena's own header */
};

/* One chunk of bodies of one type. */
struct body_arena {
	uint64_t start;
	uint32_t n, size; /* bodies, and bytes of each */
	uint32_t first;   /* of its bodies in marks */
	enum sv_kind kind;
	bool entries; /* of hash entries: root 0 */
};

/* The categories of everything that belongs to one kind of value, or to the values of one package. */
enum part {
	PART_HEAD, /* all kinds: PART_HEAD + kind */
	PART_BODY = PART_HEAD + SV_KINDS,
	PART_STRING,
	PART_STRING_SLACK,
	PART_ITEMS,
	PART_ITEMS_SLACK,
	PART_BUCKETS,
	PART_AUX,
	PART_ENTRY,
	PARTS
};

struct owner {
	const char *detail;
	category_id parts[PARTS]; /* 0: not asked for yet */
};

/* A block that has two names: up to `at` one, then the other. Carved when all are known. */
struct split {
	uint64_t start, at, end;
	category_id first, second;
};

/* Memory of unknown structure that leads to more, see perl_claim_reached(). */
struct lead {
	uint64_t data, end;
	uint32_t depth;
	const char *kind, *detail; /* of what it leads to */
};

/* A layout as numbers that are quick to get at. */
struct perl_facts {
	struct layout layout;
	struct perl_offsets o;
	struct layout regexp, io;  /* the fields of their bodies */
	uint32_t interpreter_size; /* 0: its variables are symbols */
	bool asked, resolved;
	struct sv_bits bits;
	struct sv_body bodies[SVT_MOST];
};

/* One interpreter. */
struct perl {
	struct target *target;
	const struct image *image; /* that holds its code */
	struct layout layout;
	const struct perl_facts *facts;
	const struct perl_offsets *o;
	const struct sv_bits *bits;
	const struct sv_body *bodies;       /* SVT_MOST of them, by type number */
	const char *version;                /* of the layout: "5.36" */
	const char *flavour;                /* "threaded", "unthreaded" */
	char full_version[24];              /* "5.36.0", as it says itself; or that of the layout */
	uint64_t address;                   /* of struct interpreter; 0: its variables are symbols of the image */
	uint32_t number;                    /* in the target, from 0 */
	uint64_t strtab;                    /* address of the hash of shared keys */
	uint64_t sv_count;                  /* what it says */
	uint64_t live;                      /* what was found */
	uint64_t broken_at;                 /* where an arena of heads should be, and is none; 0: nowhere */
	struct hashmap *taken;              /* chunks of heads of other interpreters, which can't be its own */
	uint64_t patience;                  /* see perl_patience() */
	VEC(struct sv_arena) arenas;        /* ascending once they are counted */
	VEC(struct body_arena) body_arenas; /* ascending */
	VEC(category_id) marks;             /* of every body; 0: free */
	VEC(struct split) splits;
	VEC(struct lead) leads;
	struct hashmap stashes;   /* address of a package's hash -> index in owners */
	VEC(struct owner) owners; /* the first SV_KINDS are those of unblessed values */
	struct hashmap slabs;     /* op slabs that were seen */
	struct hashmap heads;     /* address of a sub -> its category */
	struct ops *ops;          /* of code.c; NULL: this version's ops are not known */
};

/* layout.c: fills the rest of what is known with a layout, once; false when that lacks what this program needs. */
bool perl_resolve(struct perl_facts *facts);
/* A number that the layout has as a constant ("SVt_PVHV"); `otherwise` when it hasn't. */
uint32_t perl_constant(const struct layout *layout, const char *name, uint32_t otherwise);

/* find.c: appends every interpreter whose values can be counted. */
typedef VEC(struct perl *) perl_list;
struct perl_state {
	struct target *target;
	perl_list list;
	VEC(struct perl_facts *) facts;
	char other_version[24]; /* of an interpreter that no layout is for */
	struct hashmap taken;   /* see struct perl */
	struct refs_index *refs_index; /* of refs.c; NULL: no reference was asked for yet */
	uint32_t refused;       /* candidates whose counts don't agree */
};
struct fh_error *perl_find(struct perl_state *state);
void perl_destroy(struct perl *perl);

/* The address of one of an interpreter's variables, by its name without PL_ ("defstash"); 0 when it has none. */
uint64_t perl_variable(struct perl *perl, const char *name);
/* What a pointer variable holds; 0 when it can't be read. */
uint64_t perl_pointer(struct perl *perl, const char *name);

/* arenas.c */
/* Lists the arenas of heads and counts those that live; false when the list is no such list. */
bool perl_arenas_count(struct perl *perl);
/* How many heads of theirs have been freed. */
uint64_t perl_arenas_freed(struct perl *perl);
/* Lists the arenas of bodies, and keeps all arenas from being taken for something else. */
struct fh_error *perl_arenas_find(struct perl *perl);
struct fh_error *perl_arenas_carve(struct perl *perl);
typedef void sv_visitor(struct perl *perl, const struct sv *sv, void *context);
/* Every live head. */
void perl_arenas_each(struct perl *perl, sv_visitor *visit, void *context);
/* Marks the body of `size` bytes at an address as in use; false when it is in no arena. */
bool perl_arenas_mark(struct perl *perl, uint64_t body, category_id category);

/* Whether one of its heads is at an address. */
bool perl_arenas_has(struct perl *perl, uint64_t address);

/* value.c: what a query asks of a value. */
void perl_value(struct perl *perl, const struct sv *sv, struct runtime_value *ret);

/* sv.c: reads a head; false when there is none at the address. */
bool sv_at(struct perl *perl, uint64_t address, struct sv *ret);
/* A field of a body, by its offset from sv_any. */
static inline uint64_t sv_word(struct perl *perl, const struct sv *sv, int offset)
{
	uint64_t word = 0;

	if (offset < 0 || !source_u64(perl->target->source, sv->any + (uint64_t)offset, &word))
		return 0;
	return word;
}
static inline uint32_t sv_half(struct perl *perl, const struct sv *sv, int offset)
{
	uint32_t half = 0;

	if (offset < 0 || !source_u32(perl->target->source, sv->any + (uint64_t)offset, &half))
		return 0;
	return half;
}
/* Where a hash's auxiliary data is; 0 when it has none. */
uint64_t sv_hash_aux(struct perl *perl, const struct sv *hash);
static inline bool sv_is(const struct sv *sv, enum sv_kind kind)
{
	return sv->body && sv->body->kind == kind;
}
/* The string of a value, NUL-terminated, cut to size - 1; false when it has none. */
bool sv_string(struct perl *perl, const struct sv *sv, char *buffer, size_t size);
/* Where the buffer of a string begins, which the string need not. */
uint64_t sv_string_start(struct perl *perl, const struct sv *sv);

/* names.c */
/* A hash key by the address of its HEK. */
bool hek_string(struct perl *perl, uint64_t hek, char *buffer, size_t size);
/* The name of the package whose hash is at an address; false when it is none. */
bool package_name(struct perl *perl, uint64_t stash, char *buffer, size_t size);
/* "App::User::new", "App::Session::__ANON__ (file:line)"; false when it has none. */
bool code_name(struct perl *perl, const struct sv *code, char *buffer, size_t size);
/* The index in owners for a value: that of its package, or of its kind. */
uint32_t owner_of(struct perl *perl, const struct sv *sv);

/* One more step of a walk over data that may lie: there are no more of them than words in the target. False, after a
 * warning, when they are used up. */
bool perl_patience(struct perl *perl);

/* claims.c */
const char *sv_kind_name(enum sv_kind kind);
category_id perl_category(struct perl *perl, const char *domain, const char *kind, const char *detail,
			  enum fh_state state);
category_id perl_owner_category(struct perl *perl, uint32_t owner, enum part part);
/* The live, unnamed block of malloc's whose data starts at an address; false when there is none. */
bool perl_claimable(struct perl *perl, uint64_t data, struct block *ret);
/* Names that block, and gives it in *ret_block (may be NULL). */
bool perl_claim(struct perl *perl, uint64_t data, category_id category, struct block *ret_block);
/* The same, with a domain of "perl", a kind and a detail. */
bool perl_claim_as(struct perl *perl, uint64_t data, const char *kind, const char *detail);
/* Names it up to `used` bytes of its data, and what is behind otherwise. */
bool perl_claim_used(struct perl *perl, uint64_t data, uint64_t used, category_id category, category_id slack);

/* Lets perl_follow_leads() name what the words of [data, end) point to, and what is behind that, `depth` steps in all:
 * memory of C code, of which nobody knows the structure. */
void perl_claim_reached(struct perl *perl, uint64_t data, uint64_t end, uint32_t depth, const char *kind,
			const char *detail);
/* Names a block and what is reached from it. */
bool perl_claim_with(struct perl *perl, uint64_t data, uint32_t depth, const char *kind, const char *detail);

void perl_follow_leads(struct perl *perl);

/* values.c, code.c, interpreter.c */
void values_walk(struct perl *perl);
void code_walk(struct perl *perl, const struct sv *code);
void code_walk_ops(struct perl *perl, uint64_t op);
/* Before the others: false when memory is out. */
bool code_init(struct perl *perl);
void code_destroy(struct ops *ops);
/* Says what was damaged. */
void code_report(struct perl *perl);
void interpreter_walk(struct perl *perl);
/* After all others. */
void interpreter_walk_rest(struct perl *perl);
void io_walk(struct perl *perl, const struct sv *io);
void regexp_walk(struct perl *perl, const struct sv *regexp);

#endif
