"""How the Perls that could not be measured differ from those that were, as facts of their public headers.

Each version: what it is made from ("base", an earlier entry or a measured version), then
    agree, doubtful  a measured version on the other side: of these structs (None: all but interpreter),
                     only what both say the same is taken
    unknown          what nothing was found out of: "struct", "struct.field", "struct.beginning*"; left out
    edits            of a struct's members, in order: see perl_derive.edit
    structs          a struct's members anew
    const            values
    source           where this was read
interpreter is laid out from its list of variables; perl_checks.py compares the outcome with what live Perls of the
version had.
"""

# Members whose alignment is not that of their size.
ALIGNMENT = {"locale_utf8ness": 1, "fold_locale": 1, "TR_SPECIAL_HANDLING_UTF8": 1, "last_swash_key": 1,
             "mbrlen_ps": 4, "mbrtowc_ps": 4, "wcrtomb_ps": 4}

XPV_HEAD = ["xmg_stash:8", "xmg_u:8", "xpv_cur:8", "xpv_len_u:8"]

# regexp.h of 5.26 and 5.30 (and so of 5.28)
REGEXP_5_26 = XPV_HEAD + [
    "engine:8", "mother_re:8", "paren_names:8", "extflags:4", "minlen:8", "minlenret:8", "gofs:8", "substrs:8",
    "nparens:4", "intflags:4", "pprivate:8", "lastparen:4", "lastcloseparen:4", "offs:8", "recurse_locinput:8",
    "subbeg:8", "saved_copy:8", "sublen:8", "suboffset:8", "subcoffset:8", "maxlen:8",
    "bits:4=pre_prefix:4,compflags:9", "qr_anoncv:8"]

REGEXP_5_38 = XPV_HEAD + [
    "engine:8", "mother_re:8", "paren_names:8", "nparens:4", "logical_nparens:4", "logical_to_parno:8",
    "parno_to_logical:8", "parno_to_logical_next:8", "extflags:4", "maxlen:8", "minlen:8", "minlenret:8", "gofs:8",
    "substrs:8", "pprivate:8", "intflags:4", "lastparen:4", "offs:8", "recurse_locinput:8", "lastcloseparen:4",
    "bits:4=pre_prefix:4,compflags:9", "subbeg:8", "saved_copy:8", "sublen:8", "suboffset:8", "subcoffset:8",
    "qr_anoncv:8"]


def context(head, sub, form, evaluation, loop, given, saved):
    """cop.h's PERL_CONTEXT: what all blocks have, and each kind's own."""
    kinds = [("blku_sub", sub), ("blku_format", form), ("blku_eval", evaluation), ("blku_loop", loop),
             ("blku_givwhen", given)]
    return [("union", "cx_u", [
        ("struct", "cx_blk", ["blku_type:1", "blku_gimme:1", "blku_u16:2"] + head.split() + [
            ("union", "blk_u", [("struct", name, members) for name, members in kinds])]),
        ("struct", "cx_subst", ["sbu_type:1", "sbu_rflags:1", "sbu_rxtainted:2", saved, "sbu_iters:8",
                                "sbu_maxiters:8",
                                "sbu_orig:8", "sbu_dstr:8", "sbu_targ:8", "sbu_s:8", "sbu_m:8", "sbu_strend:8",
                                "sbu_rxres:8", "sbu_rx:8"]),
    ])]


def pairs(*names):
    """Two words each."""
    return [("struct", name, ["%s:8" % first, "%s:8" % second]) for name, first, second in names]


LOOP = ["my_op:8", "itervar_u:8", "itersave:8", ("union", "state_u", pairs(("ary", "ary", "ix")) + [
    ("struct", "stack", ["basesp:4", "ix:8"])] + pairs(("lazyiv", "cur", "end"), ("lazysv", "cur", "end"))),
    "threaded?oldcomppad:8"]
BLOCK = ("blku_oldsaveix:4 blku_oldsp:4 blku_oldmarksp:4 blku_oldcop:8 blku_oldpm:8 blku_old_tmpsfloor:8 "
         "blku_oldscopesp:4")
EVAL = ["old_namesv:8", "old_eval_root:8", "cur_text:8", "cv:8", "cur_top_env:8"]

# 5.36's too
CONTEXT_5_38 = context(
    BLOCK, ["retop:8", "old_cxsubix:4", "prevcomppad:8", "cv:8", "olddepth:4", "savearray:8"],
    ["retop:8", "old_cxsubix:4", "prevcomppad:8", "cv:8", "gv:8", "dfoutgv:8"], ["retop:8", "old_cxsubix:4"] + EVAL,
    LOOP, ["leave_op:8", "defsv_save:8"], "sbu_oldsaveix:4")

CONTEXT_5_24 = context(
    BLOCK, ["retop:8", "prevcomppad:8", "cv:8", "olddepth:4", "savearray:8"],
    ["retop:8", "prevcomppad:8", "cv:8", "gv:8", "dfoutgv:8"], ["retop:8"] + EVAL,
    LOOP, ["leave_op:8", "defsv_save:8"], "sbu_oldsaveix:4")

CONTEXT_5_22 = context(
    "blku_oldsp:4 blku_oldcop:8 blku_oldmarksp:4 blku_oldscopesp:4 blku_oldpm:8",
    ["retop:8", "cv:8", "savearray:8", "argarray:8", "olddepth:4", "oldcomppad:8"],
    ["retop:8", "cv:8", "gv:8", "dfoutgv:8"], ["retop:8"] + EVAL,
    ["resetsp:4", "my_op:8", "itervar_u:8", ("union", "state_u", pairs(
        ("ary", "ary", "ix"), ("lazyiv", "cur", "end"), ("lazysv", "cur", "end")))],
    ["leave_op:8"], "sbu_oldsave:4")

SWASHES = ["seen_deprecated_macro:8", "last_swash_hv:8", "last_swash_tmps:8", "last_swash_slen:8", "last_swash_key:12",
           "last_swash_klen:1"]


def after(first, members):
    """Edits that put the members behind the first, in their order."""
    places = [first] + [member.split(":")[0] for member in members]
    return ["%s>%s" % (place, member) for place, member in zip(places, members)]


def gone(names):
    return ["-" + name for name in names.split()]


VERSIONS = [
    ("5.38", {
        "base": "5.40", "agree": "5.36", "doubtful": ["yy_parser", "yy_stack_frame", "suspended_compcv"],
        "exact": "5.38.2", "source": "the headers of Perl 5.38.2 in ravynsoft/ravynos (usr.bin/perl5, 6d4bc83c, "
        "eb8fa00e): intrpvar.h from body_roots on, perl.h, cop.h, cv.h, hv.h, regexp.h and scope_types.h",
        "unknown": ["regmatch_slab", "const.GVf_ONCE_FATAL", "const.GVf_RESERVED", "const.CVf_XS_RCSTACK",
                    "const.PERL_MULTICONCAT_IX_PADTMP*"],
        "edits": {"interpreter": [
            "cur_locale_obj>curlocales:96", "curlocales>cur_LC_ALL:8", "collation_ix:4", "-langinfo_sv",
            "-scratch_langinfo", "in_utf8_COLLATE_locale>langinfo_buf:8", "langinfo_buf>langinfo_bufsize:8",
            "setlocale_bufsize>stdize_locale_buf:8", "stdize_locale_buf>stdize_locale_bufsize:8",
            "underlying_radix_sv>underlying_numeric_obj:8"]},
        "structs": {"regexp": REGEXP_5_38, "context": CONTEXT_5_38},
        "const": {"CVf_HASEVAL": 0x4000, "PERL_MULTICONCAT_IX_LENGTHS": 5, "PERL_MULTICONCAT_HEADER_SIZE": 5},
    }),
    ("5.34", {
        "base": "5.36", "agree": "5.32", "doubtful": None, "exact": "5.34",
        "source": "what 5.32 and 5.36 have alike; its interpreter is 5.36's without the variable that 5.36 added",
        "unknown": ["regmatch_slab", "regexp_internal"],
        "edits": {"interpreter": ["-prevailing_version"]},
        "const": {"HVhek_NOTSHARED": 8},
    }),
    ("5.30", {
        "base": "5.32", "exact": "5.30",
        "source": "the headers of 5.30 in git-for-windows/git-sdk-64 (core_perl/CORE, ac9eed3e): "
        "intrpvar.h, cop.h, op.h, regexp.h",
        "unknown": ["yy_parser", "regexp_internal", "regmatch_slab", "_reg_trie_data", "_reg_trie_state",
                    "_reg_trie_trans", "_reg_ac_data", "op_argcheck_aux", "PerlIOUnix", "PerlIOStdio", "PerlIOCrlf",
                    "const.PMf_*", "const.RXf_*", "const.PERLSI_REGCOMP"],
        "edits": {
            "interpreter": [
                "compiling:80", "-sighandler1p", "-sighandler3p"] + after("underlying_numeric_obj", SWASHES) + [
                "def_layerlist>sort_RealCmp:8"] + gone(
                "TR_SPECIAL_HANDLING_UTF8 AboveLatin1 Assigned_invlist GCB_invlist HasMultiCharFold InMultiCharFold "
                "Latin1 LB_invlist SB_invlist SCX_invlist UpperLatin1 in_some_fold utf8_foldclosures "
                "utf8_idcont utf8_idstart "
                "utf8_perl_idcont utf8_perl_idstart utf8_xidcont utf8_xidstart WB_invlist XPosix_ptrs Posix_ptrs "
                "utf8_toupper utf8_totitle utf8_tolower utf8_tofold utf8_tosimplefold utf8_charname_begin "
                "utf8_charname_continue utf8_mark InBitmap CCC_non0_non230 Private_Use mbrlen_ps mbrtowc_ps "
                "wcrtomb_ps"),
            "stackinfo": ["-si_cxsubix"],
        },
        "structs": {
            "cop": ["_:36", "cop_line:4", "threaded?cop_stashoff:8", "threaded?cop_file:8",
                    "unthreaded?cop_stash:8", "unthreaded?cop_filegv:8", "cop_hints:4", "cop_seq:4",
                    "cop_warnings:8", "cop_hints_hash:8"],
            "opslot": ["opslot_next:8", "opslot_slab:8", "opslot_op:40"],
            "opslab": ["opslab_first:8", "opslab_next:8", "opslab_freed:8", "opslab_refcnt:8", "opslab_slots:56"],
            "regexp": REGEXP_5_26, "context": CONTEXT_5_24,
        },
        "const": {"OPSLOT_HEADER": 16},
    }),
    ("5.28", {
        "base": "5.30", "exact": "5.28.1",
        "source": "the headers of 5.28.1 in openbsd/src (gnu/usr.bin/perl, 9f11ffb7): intrpvar.h, scope.h; the other "
        "structs are as 5.26 and 5.30 have them alike",
        "edits": {"interpreter": [
            "-in_utf8_turkic_locale", "underlying_numeric_obj>InBitmap:8", "InBitmap>utf8_mark:8"]},
    }),
    ("5.26", {
        "base": "5.28", "exact": "5.26",
        "source": "the headers of 5.26 in git-for-windows/git-sdk-64 (core_perl/CORE, 640babca): "
        "intrpvar.h, cop.h, op.h, regexp.h; the number of utf8_swash_ptrs from the offset of body_arenas",
        "unknown": ["const.PERL_MULTICONCAT_*", "const.PERL_MAGIC_nonelem"],
        "edits": {"interpreter": [
            "start_env:216", "-sv_zero", "comppad>sv_undef:24", "sv_undef>sv_no:24", "sv_no>sv_yes:24",
            "na>statbuf:144",
            "-locale_utf8ness", "oldname>Argv:8", "Argv>Cmd:8", "-curlocales"] + gone(
            "langinfo_buf langinfo_bufsize setlocale_buf setlocale_bufsize numeric_underlying "
            "numeric_underlying_is_standard underlying_numeric_obj InBitmap utf8_mark") + [
            "numeric_standard>numeric_local:1"] + after("numeric_radix_sv", [
                "Latin1:8", "UpperLatin1:8", "AboveLatin1:8", "InBitmap:8", "NonL1NonFinalFold:8",
                "HasMultiCharFold:8", "utf8_mark:8", "utf8_toupper:8", "utf8_totitle:8", "utf8_tolower:8",
                "utf8_tofold:8",
                "utf8_charname_begin:8", "utf8_charname_continue:8", "utf8_swash_ptrs:80", "Posix_ptrs:128",
                "XPosix_ptrs:128", "GCB_invlist:8", "LB_invlist:8", "SB_invlist:8", "WB_invlist:8",
                "Assigned_invlist:8"]) + after("def_layerlist", [
                    "utf8_idstart:8", "utf8_idcont:8", "utf8_xidstart:8", "utf8_perl_idstart:8", "utf8_perl_idcont:8",
                    "utf8_xidcont:8"]) + ["blockhooks>utf8_foldclosures:8", "utf8_foldclosures>utf8_foldable:8",
                                          "-internal_random_state"],
                  "jmpenv": ["-je_old_stack_hwm"]},
    }),
    ("5.24", {
        "base": "5.26", "exact": "5.24.1",
        "source": "the headers of 5.24.1 in openbsd/src (gnu/usr.bin/perl, b8851fcc): intrpvar.h (5.24's in "
        "git-sdk-64, 9f662a31, is the same), cop.h, scope.h",
        "unknown": ["regexp", "reg_code_blocks", "const.OPpSPLIT_*"],
        "edits": {"interpreter": [
            "-curpm_under", "-in_utf8_COLLATE_locale", "comppad_name_fill:4", "comppad_name_floor:4",
            "-padlist_generation", "debug>maxo:4", "min_intro_pending:4", "max_intro_pending:4", "padix:4",
            "constpadix:4", "padix_floor:4", "-strxfrm_NUL_replacement", "-strxfrm_is_behaved", "-strxfrm_max_cp",
            "-Assigned_invlist",
            "-seen_deprecated_macro", "def_layerlist>encoding:8", "encoding>lex_encoding:8",
            "globhook>padlist_generation:4"]},
    }),
    ("5.22", {
        "base": "5.24", "exact": "5.22.1",
        "source": "the headers of 5.22.1 in git-for-windows/git-sdk-32 (core_perl/CORE, b2351cc1): "
        "intrpvar.h, cop.h, op.h, pad.h, scope.h",
        "unknown": ["const.CXt_*", "const.CXp_FOR_*", "const.PERLSI_MULTICALL", "const.SAVEt_TMPSFLOOR"],
        "edits": {"interpreter": ["statname>timesbuf:32", "-LB_invlist", "-memory_debug_header",
                                  "-dump_re_max_len"]},
        "structs": {"context": CONTEXT_5_22},
        "const": {"CXt_NULL": 0, "CXt_WHEN": 1, "CXt_BLOCK": 2, "CXt_GIVEN": 3, "CXt_LOOP_FOR": 4, "CXt_LOOP_PLAIN": 5,
                  "CXt_LOOP_LAZYSV": 6, "CXt_LOOP_LAZYIV": 7, "CXt_SUB": 8, "CXt_FORMAT": 9, "CXt_EVAL": 10,
                  "CXt_SUBST": 11, "CXp_FOR_DEF": 0x10, "CXp_FOR_LVREF": 0x20, "SAVEt_GP_ALIASED_SV": 4},
    }),
]
