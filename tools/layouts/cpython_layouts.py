#!/usr/bin/env python3
"""Write layouts/cpython.def, or check it.

cpython_layouts.py [--tables FILE.md] [-o FILE.def] PYTHON...   measure the interpreters (they need debug information);
                                                                versions they don't cover come from the tables
cpython_layouts.py --check FILE.md PYTHON...                    compare the interpreters with the tables
cpython_layouts.py --save FILE.json PYTHON                      keep what was measured: FILE.json then stands for PYTHON
                                                                (an interpreter of another root tree is measured there)
Needs gdb with Python, and a C compiler for the macros.
"""
import argparse
import os
import sys

import cpython_interpreter as interpreter
import cpython_tables as tables
import cpython_wanted as wanted
import def_file

REMARKS = ["What another version called differently has one name here: see tools/layouts/cpython_wanted.py for the "
           "table."]

# Macros that no build option changes.
FLAVOURLESS = ("TPFLAGS_", "SSTATE_")


def order(key):
    version, flavour = key
    return [int(n) for n in version.split(".")], flavour != "gil"


def lines(version, flavour, facts):
    return def_file.lines("cpython", version, flavour, facts)


def provenance(measured):
    about = measured.about
    core = [f for f in measured.files if f in about["core"]]
    modules = sorted(os.path.basename(f).split(".")[0] for f in measured.files if f not in about["core"])
    return "CPython %s, %s, %s, %s, configured with %s. DWARF of %s, and of the modules %s, read by gdb %s." % (
        about["exact"], measured.flavour, about["machine"], about["compiler"], " ".join(about["options"]) or "defaults",
        ", ".join("%s (build-id %s)" % (os.path.basename(f), measured.build_ids[f]) for f in core),
        " ".join(modules) or "(none)", measured.gdb)


def constants(table, version, flavour, known):
    """The tables' constants that nothing measured."""
    if flavour != "gil":
        version_facts = {"GC_HEAD_SIZE": table.constants["t", "GC_HEAD_SIZE"]}
        # pymalloc is compiled into free-threaded builds, but not used there
    else:
        version_facts = {name: value for (v, name), value in table.constants.items() if v == version}
    return {("const", name): (0, value, 0, 0) for name, value in version_facts.items() if ("const", name) not in known}


def write(out, measured, table):
    out.write(def_file.head("CPython's", "cpython_layouts.py", REMARKS))
    groups = {(m.version, m.flavour): m for m in measured}
    for key in sorted(set(groups) | set(table.facts if table else ()), key=order):
        known = {}
        if key in groups:
            one = groups[key]
            known = {**one.headers, **one.facts}
            out.write(def_file.comment(provenance(one)))
            out.writelines(lines(*key, facts=one.facts))
            out.write(def_file.comment(
                "CPython %s, %s: values of macros, compiled from the headers installed with it."
                % (one.about["exact"], key[1])))
            out.writelines(lines(*key, facts={k: v for k, v in one.headers.items() if k not in one.facts}))
        else:
            newest = max((g for g in groups if order(g) < order(key)), key=order)
            known = tables.complete(table, key, groups[newest].facts, newest[0] == key[0])
            out.write(def_file.comment(
                "CPython %s, %s. Not measured here; read by cpython_tables.py from the tables in facts/cpython.md, "
                "whose header says: \"%s\" The tables have no sizes: those are as in the measured %s, or from "
                "SIZES in cpython_tables.py." % (key + (table.source, newest[0]))))
            out.writelines(lines(*key, facts=known))
            macros = groups[key[0], "gil"].headers if (key[0], "gil") in groups else {}
            macros = {k: v for k, v in macros.items() if k not in known and k[1].startswith(FLAVOURLESS)}
            if macros:
                out.write(def_file.comment(
                    "CPython %s, %s: values of macros that the headers define the same for all builds." % key))
                out.writelines(lines(*key, facts=macros))
                known = {**macros, **known}
        if table:
            rest = constants(table, *key, known=known)
            if rest:
                out.write(def_file.comment(
                    "CPython %s, %s: constants that neither DWARF nor installed headers have, from the tables in "
                    "facts/cpython.md." % key))
                out.writelines(lines(*key, facts=rest))


def check(measured, table):
    """Print every difference between measured facts and the tables; how many there are."""
    differences = compared = unknown = 0
    for one in measured:
        facts = {**one.headers, **one.facts}
        facts["const", "GC_HEAD_SIZE"] = facts["PyGC_Head", "sizeof"]
        said = {**table.facts.get((one.version, one.flavour), {}), **constants(table, one.version, one.flavour, ())}
        for (struct, field), fact in sorted(said.items()):
            if struct in wanted.SIZE_ONLY and field != "sizeof":
                continue
            have = facts.get((struct, field)) or facts.get((struct, table.older.get((struct, field))))
            if struct == "const" and not have:
                unknown += 1  # a macro of a .c file
                continue
            compared += 1
            if not same(fact, have):
                differences += 1
                print("%s %s.%s: table %s, measured %s" % (one.about["exact"], struct, field, fact, have))
    print("%d facts compared, %d differences; %d constants that can't be measured" % (compared, differences, unknown))
    return differences


def same(fact, have):
    """The tables have no sizes of members."""
    return have is not None and all(a is None or a == b for a, b in zip(fact, have))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", metavar="FILE.md", help="tables to take other versions and constants from")
    parser.add_argument("--check", metavar="FILE.md", help="tables to compare with")
    parser.add_argument("-o", metavar="FILE.def", help="write here rather than to standard output")
    parser.add_argument("--save", metavar="FILE.json", help="keep what was measured of one interpreter")
    parser.add_argument("python", nargs="+", help="interpreter with debug information, or what --save wrote")
    options = parser.parse_args()
    measured = [interpreter.load(python) if python.endswith(".json") else interpreter.measure(python)
                for python in options.python]
    if options.save:
        measured[0].save(options.save)
        return 0
    for one in measured:
        for name, files in one.conflicts:
            print("%s: %s differs between %s: left out" % (one.about["exact"], name, ", ".join(files)), file=sys.stderr)
    if options.check:
        return 1 if check(measured, tables.Table(options.check)) else 0
    table = tables.Table(options.tables) if options.tables else None
    with open(options.o, "w") if options.o else sys.stdout as out:
        write(out, measured, table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
