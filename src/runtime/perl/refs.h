/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who refers to what. refs.c tells the references of one block: those of a value with its head (value_refs.c,
 * code_refs.c), those of memory that is shared (glob data, names of variables, ops) with that memory, and the words of
 * memory whose structure is not known as guesses. roots.c tells what an interpreter itself refers to.
 *
 * Strong is what counts in the referent's reference count. What is only looked at goes as weak: a stash from its globs,
 * the outer sub from a closure's prototype, the items of an array that doesn't own them.
 */
#ifndef FREEHOLD_RUNTIME_PERL_REFS_H
#define FREEHOLD_RUNTIME_PERL_REFS_H

#include "runtime/perl/internal.h"

/* What a block is, by its category. */
enum block_class {
	CLASS_UNASKED,
	CLASS_OTHER, /* not perl's, or nothing of it refers to anything */
	CLASS_HEAD,
	CLASS_GP,
	CLASS_PAD_NAMES,
	CLASS_PAD_NAME,
	CLASS_PACKAGE,
	CLASS_OP,
	CLASS_OP_HEADER, /* of a slab */
	CLASS_ENTRY,
	CLASS_SLACK,
	CLASS_PART,  /* of a value or an interpreter, which tells its references */
	CLASS_WORDS, /* memory whose structure is not known */
	CLASS_HANDLES,
	CLASS_STASHES,
};

/* Offsets that only references need; -1 where this version has no such thing. */
struct refs_layout {
	int pn_pv, pn_ourstash, pn_type, pn_flags;
	int op_sibparent, op_targ, pm_offset;
	int mro_linear_all, mro_linear_current, mro_nextmethod, mro_isa, mro_super, mro_destroy;
	int lv_targ, lv_type, io_ofp, io_top_gv, io_fmt_gv, io_bottom_gv;
	int obj_fields, obj_maxfield, cop_filegv, cop_stash, re_engine, pm_regexp, aux_flags;
	struct layout hash_aux; /* the fields of it */
};

/* A chunk of heads. */
struct heads_of {
	uint64_t start, end;
	struct perl *perl;
};

/* Made when the first reference is asked for. */
struct refs_index {
	struct perl_state *state;
	const struct perl_offsets *o; /* of the first interpreter, as `at`: the others are of the same program */
	struct refs_layout at;
	VEC(uint8_t) classes;        /* enum block_class, by category */
	VEC(struct heads_of) arenas; /* ascending */
	struct hashmap pads;         /* address of a pad -> of the sub whose it is */
	uint32_t aux_is_class;       /* the flag of a package's auxiliary data; 0: no classes yet */
	uint64_t main_cv;            /* the sub that the program itself is */
	uint64_t regex_pad;          /* the array of all regexps, which ops hold by number; 0: the array holds them */
};

/* One question. */
struct refs {
	struct perl *perl;
	struct refs_index *index;
	bool named, stopped;
	runtime_ref_visitor *visit;
	void *context;
};

enum ref_flags {
	REF_STRONG = 0,
	REF_WEAK = 1,
	REF_PART = 2,
	REF_GUESS = 4,
};

#define REF_NAME_LEN 1024

/* Tells one, with its name as it stands. False when no more is wanted. */
bool refs_tell(struct refs *refs, uint64_t target, unsigned flags, const char *name);
/* The same with a name that is only put together when it is wanted. */
#define refs_tell_format(refs, target, flags, ...)                                                                     \
	((refs)->named ? refs_tell_named_(refs, target, flags, __VA_ARGS__) : refs_tell(refs, target, flags, NULL))
bool refs_tell_named_(struct refs *refs, uint64_t target, unsigned flags, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* Tells every word in [start, end) that is the address of a value, or of a block of perl's, as a guess. */
void refs_tell_words(struct refs *refs, uint64_t start, uint64_t end, unsigned flags, const char *name);
/* What the block at an address is; *ret_block (may be NULL) is the block. */
enum block_class refs_class_at(struct refs_index *index, uint64_t address, struct block *ret_block);
enum block_class refs_class_of(struct refs_index *index, const struct block *block);
/* Whether a live value's head is at an address. */
bool refs_is_value(struct refs_index *index, uint64_t address);
/* The end of the block that holds an address: a bound for what is read there; 0 when there is none. */
uint64_t refs_end_of(struct refs_index *index, uint64_t address);
/* Where the op is in the block of one: behind its slot's header, or a lone one. */
uint64_t refs_op_of(struct refs_index *index, const struct block *block);
/* Where the owner's data of a block begin. */
uint64_t refs_data_of(struct refs_index *index, const struct block *block);

/* NULL when memory is out. */
struct refs_index *refs_index_get(struct perl_state *state);
void refs_index_destroy(struct refs_index *index);
/* The interpreter that a block of values belongs to; the first for other blocks, which look the same in all. */
struct perl *refs_perl_of(struct refs_index *index, uint64_t address);

/* refs.c, roots.c: the hooks. */
void perl_refs(struct perl_state *state, const struct block *block, bool named, runtime_ref_visitor *visit,
	       void *context);
void perl_roots(struct perl_state *state, runtime_ref_visitor *visit, void *context);

/* value_refs.c */
void refs_of_value(struct refs *refs, const struct sv *sv);
void refs_of_glob_data(struct refs *refs, uint64_t gp);
void refs_of_package(struct refs *refs, uint64_t meta);
/* The end of an array's items that are in use; *ret_start is the first. False when it has none. */
bool array_items(struct refs *refs, const struct sv *array, uint64_t *ret_start, uint64_t *ret_end);
/* The part that follows a buffer when it has more room than it uses. */
void refs_of_slack(struct refs *refs, uint64_t buffer);

/* code_refs.c */
void refs_of_code(struct refs *refs, const struct sv *code);
/* The items of an array that is a pad of a sub. */
void refs_of_pad(struct refs *refs, const struct sv *pad, uint64_t code);
void refs_of_pad_names(struct refs *refs, uint64_t list);
void refs_of_pad_name(struct refs *refs, uint64_t name);
void refs_of_op(struct refs *refs, const struct block *op);
void refs_of_slab(struct refs *refs, uint64_t slab);
/* Where the slab begins that an op lies in; 0 when it can't be told. */
uint64_t op_slab(struct refs_index *index, uint64_t slot);

/* show_parts.c: the hook. */
void perl_show(struct perl_state *state, const struct block *block, runtime_field_visitor *visit, void *context);

#endif
