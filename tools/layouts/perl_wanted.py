"""What layouts/perl.def holds: the structs, the constants, and what is renamed."""
import re

# Structs of the headers, by Perl's tag or typedef. All their fields are taken, with nested ones as "outer.inner".
HEADERS = """
    interpreter
    sv xpv xpviv xpvnv xpvmg xpvlv xpvav xpvhv xpvhv_with_aux xpvhv_aux xpvcv xpvfm xpvgv xpvio xpvinvlist xobject
    he hek shared_he gp magic mgvtbl mro_meta am_table ufuncs
    regexp regexp_internal regexp_paren_pair reg_substr_data reg_data reg_code_block reg_code_blocks
    _reg_trie_data _reg_trie_state _reg_trie_trans _reg_ac_data regmatch_slab
    padlist padnamelist padname padname_with_str padname_fieldinfo suspended_compcv
    op unop unop_aux binop logop listop methop pmop svop padop pvop loop cop opslab opslot op_argcheck_aux
    context stackinfo jmpenv exitlistentry refcounted_he rcpv
    ptr_tbl ptr_tbl_arena ptr_tbl_ent
    _PerlIO _PerlIO_funcs PerlIOBuf PerlIO_list_s PerlIO_pair_t
    yy_parser yy_lexshared yy_stack_frame
""".split()

# Structs that only Perl's own sources have, which declare them in a .c file.
SOURCES = {
    "sv.c": "arena_set arena_desc ptr_tbl_arena".split(),
    "perlio.c": "PerlIOUnix PerlIOStdio PerlIOCrlf".split(),
}

# Members that are structs, but not opened: they are the C library's, or stand for themselves.
SHALLOW = {"interpreter", "jmpenv", "opslab", "opslot", "yy_parser", "xpvhv_with_aux", "regmatch_slab", "shared_he",
           "PerlIOBuf", "PerlIOUnix", "PerlIOStdio", "PerlIOCrlf", "suspended_compcv"}

# Structs that begin with the members of another; only the members after these are written.
BEGINNINGS = {name: "op" for name in
              "unop unop_aux binop logop listop methop pmop svop padop pvop loop cop".split()}
BEGINNINGS.update({"padname_with_str": "padname", "xpvfm": "xpvcv"})

# Structs of which only some fields are written.
FIELDS = {"_PerlIO_funcs": {"fsize", "name", "size", "kind"}}

# One idea, one name. The .def's name on the left, other versions' names on the right.
STRUCT_NAMES = {
}

# Constants that macros are, as regular expressions for the whole name.
MACROS = re.compile("|".join("""
    PERL_ARENA_SIZE PERL_ARENA_ROOTS_SIZE SVTYPEMASK SV[fps]_(?!QUOTEDPREFIX)\\w+ SV(?:pav|pgv|phv|ppv|prv)_\\w+
    SV_COW_REFCNT_MAX
    CVf_\\w+ GVf_\\w+ MGf_(?:REFCOUNTED|GSKIP|BYTES) PERL_MAGIC_[a-z]\\w*
    HVhek_(?:UTF8|WASUTF8|FREEKEY|PLACEHOLD|NOTSHARED|UNSHARED) HVrhek_\\w+ HEK_BASESIZE HvAUXf_\\w+
    PADNAME[ft]_\\w+
    OPf_(?:KIDS|STACKED|SPECIAL|REF) OPp(?:TARGET_MY|REFCOUNTED|TRANS_USE_SVOP|SPLIT_ASSIGN|SPLIT_LEX|LVAL_INTRO)
    PMf_(?:ONCE|USED|IS_QR|HAS_CV|CODELIST_PRIVATE) RXf_COPY_DONE MDEREF_\\w+ PERL_MULTICONCAT_\\w+ OPSLOT_HEADER
    SAVEt_\\w+ SAVE_TIGHT_SHIFT SAVE_MASK CXt_\\w+ CXp_\\w+ CXTYPEMASK PERLSI_\\w+
    PERLIO_F_(?:UTF8|CRLF|CANREAD|CANWRITE|RDBUF|WRBUF|OPEN) PERLIO_K_BUFFERED
""".split()))

ENUMS = ["svtype"]

CONSTANT_NAMES = [
    ("PADNAMEt_", "PADNAMEf_"),  # before 5.38
    ("HVhek_UNSHARED", "HVhek_NOTSHARED"),  # before 5.36
]

# For each type of SV, how its body in an arena begins and ends: sv.c's (or sv_inline.h's) table bodies_by_type.
BODY_TABLE = "bodies_by_type"


def lookup_names(name):
    """The names under which DWARF may know a struct, the likeliest first."""
    return ["struct " + name, name] + STRUCT_NAMES.get(name, [])


def field_name(struct, path):
    """The .def's name of a member, given the names on the way to it."""
    if struct == "interpreter":
        return path[0][1:]  # PL_sv_count is Isv_count
    return ".".join(path)


def constant_name(name):
    for old, new in CONSTANT_NAMES:
        if name.startswith(old):
            return new + name[len(old):]
    return name
