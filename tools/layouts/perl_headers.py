"""Measure one Perl: its C headers, and some of its sources, compiled for one flavour."""
import os
import re
import subprocess
import tempfile

import dwarf
import perl_wanted as wanted

# What Configure writes into config.h for each flavour. That of the headers at hand has to be threaded.
FLAVOURS = {
    "threaded": "",
    "multiplicity": "#undef USE_ITHREADS\n#undef USE_THREADS\n#undef I_PTHREAD\n#define MULTIPLICITY\n",
    "unthreaded": "#undef USE_ITHREADS\n#undef USE_THREADS\n#undef I_PTHREAD\n#undef MULTIPLICITY\n"
                  "#undef PERL_IMPLICIT_CONTEXT\n",
}

UNIT = """\
#include "EXTERN.h"
#include "perl.h"
#include "perliol.h"
#define PERL_IN_REGCOMP_C
#define PERL_IN_REGEX_ENGINE
#include "regcomp.h"
enum layout_version { layout_PERL_VERSION = PERL_VERSION, layout_PERL_SUBVERSION = PERL_SUBVERSION };
"""

PREFIX = "layout_"

# As Perl's own build compiles it on Linux.
OPTIONS = ["-D_GNU_SOURCE", "-D_LARGEFILE_SOURCE", "-D_FILE_OFFSET_BITS=64", "-DPERL_CORE", "-fwrapv",
           "-fno-strict-aliasing", "-w"]


class Measured(object):
    """facts: {(struct, field): (offset, size, bit, bits)}; all_facts: those too that are not worth a line in the .def;
    version "5.36", exact "5.36.0".
    """

    def __init__(self, flavour):
        self.flavour, self.facts, self.all_facts, self.sources = flavour, {}, {}, []
        self.version = self.exact = self.package = self.compiler = self.gdb = ""


class Compiler(object):
    """The headers of one Perl and one flavour, in a folder for what is compiled."""

    def __init__(self, core, flavour, folder):
        self.core, self.folder = core, folder
        config = os.path.join(folder, "flavour.h")
        with open(config, "w") as f:
            f.write('#include "config.h"\n' + FLAVOURS[flavour])
        self.options = OPTIONS + ["-I" + core, "-include", config]
        if flavour == "threaded":
            self.options.append("-D_REENTRANT")

    def run(self, *arguments):
        return subprocess.check_output(["gcc"] + self.options + list(arguments), universal_newlines=True)

    def unit(self, name, text):
        path = os.path.join(self.folder, name + ".c")
        with open(path, "w") as f:
            f.write(text)
        return path

    def debug_file(self, path):
        """Compile a file; where the object file is. Types that nothing uses are in it too."""
        out = os.path.join(self.folder, os.path.basename(path) + ".o")
        self.run("-c", "-g", "-O1", "-fno-eliminate-unused-debug-types", path, "-o", out)
        return out


def measure(core, source, flavour):
    """core: the folder of the installed headers; source: the source tree of the same version."""
    result = Measured(flavour)
    result.compiler = "gcc " + subprocess.check_output(["gcc", "-dumpfullversion"], universal_newlines=True).strip()
    with tempfile.TemporaryDirectory() as folder:
        compiler = Compiler(core, flavour, folder)
        names = macro_names(compiler)
        text = UNIT + "enum layout_constants {\n%s};\n" % "".join("%s%s = (%s),\n" % (PREFIX, n, n) for n in names)
        read_file(result, compiler.debug_file(compiler.unit("headers", text)), wanted.HEADERS)
        check_source(source, result.exact)
        for name, structs in sorted(wanted.SOURCES.items()):
            read_file(result, compiler.debug_file(os.path.join(source, name)), structs)
            result.sources.append(name)
    if flavour == "unthreaded":  # a placeholder, since the variables are global ones
        result.all_facts = {key: numbers for key, numbers in result.all_facts.items() if key[0] != "interpreter"}
    result.package = package(core)
    result.facts = leave_out(result.all_facts)
    return result


def macro_names(compiler):
    """The wanted constants among the macros without arguments, in the headers' order."""
    defined = compiler.run("-E", "-dM", compiler.unit("macros", UNIT))
    return sorted(name for name in re.findall(r"^#define (\w+) +\S", defined, re.M) if wanted.MACROS.fullmatch(name))


def read_file(result, path, structs):
    found = dwarf.read(path, {"structs": {name: wanted.lookup_names(name) for name in structs},
                              "shallow": sorted(wanted.SHALLOW), "plain_unions": True,
                              "enums": wanted.ENUMS + ["enum layout_constants", "enum layout_version"],
                              "tables": [wanted.BODY_TABLE]})
    if found["conflicts"]:
        raise SystemExit("%s: more than one definition of %s" % (path, found["conflicts"]))
    result.gdb = found["gdb"]
    for struct, layout in found["structs"].items():
        result.all_facts[struct, "sizeof"] = (0, layout["size"], 0, 0)
        for member_path, *numbers in layout["fields"]:
            result.all_facts[struct, wanted.field_name(struct, member_path)] = tuple(numbers)
    constants = {name[len(PREFIX):] if name.startswith(PREFIX) else name: value
                 for name, value in found["enums"].items()}
    if "PERL_VERSION" in constants:
        result.version = "5.%d" % constants.pop("PERL_VERSION")
        result.exact = "%s.%d" % (result.version, constants.pop("PERL_SUBVERSION"))
    for name, value in constants.items():
        result.all_facts["const", wanted.constant_name(name)] = (0, value, 0, 0)
    if wanted.BODY_TABLE in found["tables"]:
        add_bodies(result, found["tables"][wanted.BODY_TABLE])


def add_bodies(result, rows):
    """One row for each svtype, in its order: which part of the body there is, and how large an arena of them."""
    types = {value[1]: name for (struct, name), value in result.all_facts.items()
             if struct == "const" and name.startswith("SVt_")}
    for number, row in enumerate(rows):
        arena = row["arena_size"] if row["arena"] else 0
        for suffix, offset, size in (("", row["offset"], row["body_size"]), (".copy", row["offset"], row["copy"]),
                                     (".arena", 0, arena)):
            result.all_facts[wanted.BODY_TABLE, types[number] + suffix] = (offset, size, 0, 0)


def leave_out(facts):
    """The facts without those that others say already."""
    def wanted_here(struct, field):
        if struct in wanted.FIELDS and field not in wanted.FIELDS[struct] | {"sizeof"}:
            return False
        beginning = (wanted.BEGINNINGS.get(struct), field)
        return field == "sizeof" or facts.get(beginning) != facts[struct, field]
    return {key: numbers for key, numbers in facts.items() if wanted_here(*key)}


def check_source(source, exact):
    with open(os.path.join(source, "patchlevel.h")) as f:
        numbers = dict(re.findall(r"^#define\s+PERL_(VERSION|SUBVERSION)\s+(\d+)", f.read(), re.M))
    if "5.%(VERSION)s.%(SUBVERSION)s" % numbers != exact:
        raise SystemExit("%s: the sources of %s are wanted" % (source, exact))


def package(core):
    """Debian's version of the package, where the headers have it."""
    path = os.path.join(core, "patchlevel-debian.h")
    if not os.path.exists(path):
        return ""
    with open(path) as f:
        found = re.search(r"List packaged patches for ([^ ]+)\(?", f.read())
    return found.group(1).split("(")[0] if found else ""
