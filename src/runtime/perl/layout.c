/* SPDX-License-Identifier: Apache-2.0 */
/* A layout of layouts/perl.def as numbers that are quick to get at. */
#include "runtime/perl/internal.h"

struct wanted_offset {
	size_t place; /* in struct perl_offsets */
	const char *structure, *field;
	bool needed;
};

#define WANT(member, structure, field, needed)                                                                         \
	{                                                                                                              \
		offsetof(struct perl_offsets, member), structure, field, needed                                        \
	}

static const struct wanted_offset wanted_offsets[] = {
	WANT(xmg_stash, "xpvmg", "xmg_stash", true),
	WANT(xmg_magic, "xpvmg", "xmg_u", true),
	WANT(xpv_cur, "xpv", "xpv_cur", true),
	WANT(xpv_len, "xpv", "xpv_len_u", true),
	WANT(xav_alloc, "xpvav", "xav_alloc", true),
	WANT(xav_fill, "xpvav", "xav_fill", true),
	WANT(xav_max, "xpvav", "xav_max", true),
	WANT(xhv_max, "xpvhv", "xhv_max", true),
	WANT(xhv_keys, "xpvhv", "xhv_keys", true),
	WANT(xhv_aux, "xpvhv_with_aux", "xhv_aux", false),
	WANT(aux_name, "xpvhv_aux", "xhv_name_u", true),
	WANT(aux_name_count, "xpvhv_aux", "xhv_name_count", true),
	WANT(aux_backreferences, "xpvhv_aux", "xhv_backreferences", true),
	WANT(aux_mro_meta, "xpvhv_aux", "xhv_mro_meta", true),
	WANT(xgv_stash, "xpvgv", "xnv_u", true),
	WANT(xgv_namehek, "xpvgv", "xiv_u", true),
	WANT(xcv_stash, "xpvcv", "xcv_stash", true),
	WANT(xcv_root, "xpvcv", "xcv_root_u", true),
	WANT(xcv_start, "xpvcv", "xcv_start_u", true),
	WANT(xcv_gv, "xpvcv", "xcv_gv_u", true),
	WANT(xcv_file, "xpvcv", "xcv_file", true),
	WANT(xcv_padlist, "xpvcv", "xcv_padlist_u", true),
	WANT(xcv_outside, "xpvcv", "xcv_outside", true),
	WANT(xcv_flags, "xpvcv", "xcv_flags", true),
	WANT(xcv_depth, "xpvcv", "xcv_depth", true),
	WANT(gp_sv, "gp", "gp_sv", true),
	WANT(gp_io, "gp", "gp_io", true),
	WANT(gp_cv, "gp", "gp_cv", true),
	WANT(gp_hv, "gp", "gp_hv", true),
	WANT(gp_av, "gp", "gp_av", true),
	WANT(gp_form, "gp", "gp_form", true),
	WANT(gp_egv, "gp", "gp_egv", true),
	WANT(gp_refcnt, "gp", "gp_refcnt", true),
	WANT(he_next, "he", "hent_next", true),
	WANT(he_hek, "he", "hent_hek", true),
	WANT(he_val, "he", "he_valu", true),
	WANT(hek_len, "hek", "hek_len", true),
	WANT(hek_key, "hek", "hek_key", true),
	WANT(shared_hek, "shared_he", "shared_he_hek", true),
	WANT(mg_next, "magic", "mg_moremagic", true),
	WANT(mg_virtual, "magic", "mg_virtual", true),
	WANT(mg_type, "magic", "mg_type", true),
	WANT(mg_flags, "magic", "mg_flags", true),
	WANT(mg_len, "magic", "mg_len", true),
	WANT(mg_obj, "magic", "mg_obj", true),
	WANT(mg_ptr, "magic", "mg_ptr", true),
	WANT(cop_line, "cop", "cop_line", true),
	WANT(cop_file, "cop", "cop_file", false),
	WANT(opslab_next, "opslab", "opslab_next", false),
	WANT(opslab_head, "opslab", "opslab_head", false),
	WANT(opslab_size, "opslab", "opslab_size", false),
	WANT(opslab_free_space, "opslab", "opslab_free_space", false),
	WANT(opslab_slots, "opslab", "opslab_slots", false),
	WANT(opslab_freed, "opslab", "opslab_freed", false),
	WANT(opslot_size, "opslot", "opslot_size", false),
	WANT(opslot_offset, "opslot", "opslot_offset", false),
	WANT(opslot_op, "opslot", "opslot_op", false),
	WANT(op_type, "op", "op_type", false),
	WANT(op_ppaddr, "op", "op_ppaddr", false),
	WANT(xiv_iv, "xpvmg", "xiv_u", true),
	WANT(padnames_alloc, "padnamelist", "xpadnl_alloc", true),
	WANT(padnames_fill, "padnamelist", "xpadnl_fill", true),
	WANT(padlist_pads, "padlist", "xpadl_arr", true),
	WANT(padlist_max, "padlist", "xpadl_max", true),
	WANT(regexp_program, "regexp", "pprivate", false),
};

static const struct {
	const char *name;
	enum sv_kind kind;
	bool pv, magic;
} types[] = {
	{ "SVt_NULL", SV_SCALAR, false, false },    { "SVt_IV", SV_SCALAR, false, false },
	{ "SVt_NV", SV_SCALAR, false, false },      { "SVt_PV", SV_SCALAR, true, false },
	{ "SVt_INVLIST", SV_INVLIST, true, false }, { "SVt_PVIV", SV_SCALAR, true, false },
	{ "SVt_PVNV", SV_SCALAR, true, false },     { "SVt_PVMG", SV_SCALAR, true, true },
	{ "SVt_REGEXP", SV_REGEXP, true, true },    { "SVt_PVGV", SV_GLOB, false, true },
	{ "SVt_PVLV", SV_LVALUE, true, true },      { "SVt_PVAV", SV_ARRAY, false, true },
	{ "SVt_PVHV", SV_HASH, false, true },       { "SVt_PVCV", SV_CODE, true, true },
	{ "SVt_PVFM", SV_FORMAT, true, true },      { "SVt_PVIO", SV_IO, false, true },
	{ "SVt_PVOBJ", SV_OBJECT, false, true },
};

uint32_t perl_constant(const struct layout *layout, const char *name, uint32_t otherwise)
{
	const struct layout_fact *fact = layout_field(layout, "const", name);

	return fact ? fact->size : otherwise;
}

static void resolve_bodies(const struct layout *layout, struct perl_facts *facts)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		uint32_t number = perl_constant(layout, types[i].name, SVT_MOST);
		const struct layout_fact *body = layout_field(layout, "bodies_by_type", types[i].name);

		if (number >= SVT_MOST)
			continue;
		facts->bodies[number] = (struct sv_body){
			.kind = types[i].kind, .pv = types[i].pv, .magic = types[i].magic, .known = true
		};
		if (body) {
			facts->bodies[number].size = body->size;
			facts->bodies[number].offset = body->offset;
		}
	}
}

static void resolve_bits(const struct layout *layout, struct sv_bits *bits)
{
	const struct {
		uint32_t *place;
		const char *name;
	} wanted[] = {
		{ &bits->object, "SVs_OBJECT" },
		{ &bits->rok, "SVf_ROK" },
		{ &bits->pok, "SVf_POK" },
		{ &bits->iok, "SVf_IOK" },
		{ &bits->ook, "SVf_OOK" },
		{ &bits->cow, "SVf_IsCOW" },
		{ &bits->hasaux, "SVphv_HASAUX" },
		{ &bits->sharekeys, "SVphv_SHAREKEYS" },
		{ &bits->protect, "SVf_PROTECT" },
		{ &bits->readonly, "SVf_READONLY" },
		{ &bits->temp, "SVs_TEMP" },
		{ &bits->padtmp, "SVs_PADTMP" },
		{ &bits->utf8, "SVf_UTF8" },
		{ &bits->weakref, "SVprv_WEAKREF" },
		{ &bits->cv_xsub, "CVf_ISXSUB" },
		{ &bits->cv_named, "CVf_NAMED" },
		{ &bits->cv_anon, "CVf_ANON" },
		{ &bits->cv_const, "CVf_CONST" },
		{ &bits->cv_slabbed, "CVf_SLABBED" },
		{ &bits->cv_clone, "CVf_CLONE" },
		{ &bits->cv_weakoutside, "CVf_WEAKOUTSIDE" },
		{ &bits->cv_cvgv_rc, "CVf_CVGV_RC" },
		{ &bits->nok, "SVf_NOK" },
		{ &bits->p_iok, "SVp_IOK" },
		{ &bits->p_nok, "SVp_NOK" },
		{ &bits->p_pok, "SVp_POK" },
		{ &bits->is_uv, "SVf_IVisUV" },
		{ &bits->array_real, "SVpav_REAL" },
		{ &bits->has_gp, "SVpgv_GP" },
		{ &bits->mg_refcounted, "MGf_REFCOUNTED" },
		{ &bits->pn_outer, "PADNAMEf_OUTER" },
		{ &bits->pn_our, "PADNAMEf_OUR" },
	};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
		*wanted[i].place = perl_constant(layout, wanted[i].name, 0);
	bits->magical = perl_constant(layout, "SVs_GMG", 0) | perl_constant(layout, "SVs_SMG", 0) |
			perl_constant(layout, "SVs_RMG", 0);
	if (!bits->hasaux)
		bits->hasaux = bits->ook;
}

static bool resolve_offsets(const struct layout *layout, struct perl_offsets *ret)
{
	for (size_t i = 0; i < sizeof(wanted_offsets) / sizeof(*wanted_offsets); i++) {
		const struct wanted_offset *w = &wanted_offsets[i];
		int offset = layout_offset(layout, w->structure, w->field);

		if (offset < 0 && w->needed)
			return false;
		memcpy((char *)ret + w->place, &offset, sizeof(offset));
	}
	ret->he_size = layout_size(layout, "he");
	ret->aux_size = layout_size(layout, "xpvhv_aux");
	ret->hash_with_aux_size = layout_size(layout, "xpvhv_with_aux");
	ret->gp_size = layout_size(layout, "gp");
	ret->magic_size = layout_size(layout, "magic");
	return ret->he_size && ret->gp_size && ret->magic_size;
}

bool perl_resolve(struct perl_facts *facts)
{
	if (facts->asked)
		return facts->resolved;
	facts->asked = true;
	if (!resolve_offsets(&facts->layout, &facts->o))
		return false;
	facts->regexp = layout_structure(&facts->layout, "regexp");
	facts->io = layout_structure(&facts->layout, "xpvio");
	resolve_bodies(&facts->layout, facts);
	resolve_bits(&facts->layout, &facts->bits);
	facts->resolved = facts->bits.object && facts->bits.rok && facts->bits.pok;
	return facts->resolved;
}
