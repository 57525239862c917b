#!/usr/bin/env python3
"""Write layouts/perl.def, or check it.

perl_layouts.py [-o FILE.def] CORE:SOURCE...        measure the headers of these Perls, each for every flavour; versions
                                                    that they don't cover are worked out from them (perl_changes.py)
perl_layouts.py --check FACTS CORE:SOURCE...        compare all with what FACTS has: perl.md, perl-layouts-5.NN.txt
CORE is the folder of installed headers that `perl -MConfig -e 'print "$Config{archlib}/CORE"'` names, of a Perl with
threads; SOURCE is the source tree of the same version, for the structs that are declared in a .c file. Any machine's
headers will do. Needs gcc, and gdb with Python.
"""
import argparse
import sys

import def_file
import perl_checks
import perl_derive
import perl_headers

REMARKS = """\
What another version called differently has one name here: see tools/layouts/perl_wanted.py for the table.
An interpreter's field PL_xxx is "xxx". An unthreaded Perl has no struct interpreter: its PL_xxx are symbols.
A union of nothing but scalars is one field. unop, cop and the other ops begin as op does, padname_with_str as padname
and xpvfm as xpvcv; they have only the fields that come after that.
bodies_by_type: an SVt_XXX's body is `size` bytes, the first of which is at sv_any + `offset` (nothing is before it);
"SVt_XXX.copy" is the part that an upgrade from this type copies; of "SVt_XXX.arena", size is that of an arena of such
bodies, 0 when they don't come from arenas.""".splitlines()


def order(measured):
    return [int(n) for n in measured.version.split(".")], list(perl_headers.FLAVOURS).index(measured.flavour)


DERIVED = """Perl %s, %s. Not measured here; worked out from the layouts of %s by tools/layouts/perl_derive.py, with the
changes in perl_changes.py, which were read in %s. The rest is as in %s; what was in doubt is left out."""
MEASURED = "Perl %s, %s. DWARF of the headers%s, and of %s, compiled by %s with config.h %s, read by gdb %s."


def provenance(one):
    if isinstance(one, perl_derive.Derived):
        return DERIVED % (one.exact, one.flavour, one.about["base"], one.about["source"], one.about["base"])
    return MEASURED % (
        one.exact, one.flavour, " of Debian's %s" % one.package if one.package else "", " and ".join(one.sources),
        one.compiler, "as installed" if one.flavour == "threaded" else "changed to " + one.flavour, one.gdb)


def write(out, measured):
    out.write(def_file.head("Perl's", "perl_layouts.py", REMARKS))
    for one in sorted(measured, key=order):
        out.write(def_file.comment(provenance(one)))
        out.writelines(def_file.lines("perl", one.version, one.flavour, one.facts))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", metavar="FACTS", help="folder with the tables to compare with")
    parser.add_argument("-o", metavar="FILE.def", help="write here rather than to standard output")
    parser.add_argument("perl", nargs="+", metavar="CORE:SOURCE")
    options = parser.parse_args()
    measured = [perl_headers.measure(*perl.split(":"), flavour=flavour)
                for perl in options.perl for flavour in perl_headers.FLAVOURS]
    measured += perl_derive.derive(measured)
    if options.check:
        return 1 if perl_checks.check(measured, options.check) else 0
    with open(options.o, "w") if options.o else sys.stdout as out:
        write(out, measured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
