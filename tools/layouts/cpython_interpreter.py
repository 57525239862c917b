"""Measure one CPython: what it says of itself, the DWARF of its files, the macros of its headers."""
import json
import os
import subprocess
import tempfile

import cpython_wanted as wanted
import dwarf

# Run by the interpreter that is measured, 2.7 or newer.
PROBE = r"""
import json, sys, platform, sysconfig, importlib
def path(name):
    try:
        return getattr(importlib.import_module(name), "__file__", None)
    except ImportError:
        return ""
var = sysconfig.get_config_var
words = [line.split(None, 5) for line in open("/proc/self/maps")]
files = sorted(set(w[5].strip() for w in words if len(w) > 5 and "/" in w[5]))
print(json.dumps({
    "version": "%d.%d" % sys.version_info[:2],
    "exact": platform.python_version(),
    "implementation": platform.python_implementation(),
    "machine": platform.machine(),
    "compiler": platform.python_compiler(),
    "free_threaded": bool(var("Py_GIL_DISABLED")),
    "debug": bool(var("Py_DEBUG")),
    "options": [o for o in (var("CONFIG_ARGS") or "").replace("'", "").split() if o[:2] == "--" and "/" not in o],
    "include": sysconfig.get_paths()["include"],
    "core": [f for f in files if "/libpython" in f or f == __import__("os").path.realpath(sys.executable)],
    "modules": dict((m, path(m)) for m in sys.argv[1:]),
}))
"""


class Measured(object):
    """about: the probe's answers; facts: {(struct, field): (offset, size, bit, bits)}; headers: the same, of macros."""

    def __init__(self, about):
        self.about = about
        self.version = about["version"]
        self.flavour = "free-threaded" if about["free_threaded"] else "gil"
        self.facts, self.headers = {}, {}
        self.conflicts, self.files, self.gdb, self.build_ids = [], [], "", {}

    def save(self, path):
        """For interpreters of another root tree, which are measured in there."""
        kept = dict(vars(self), facts=sorted(map(list, self.facts.items())),
                    headers=sorted(map(list, self.headers.items())))
        with open(path, "w") as f:
            json.dump(kept, f, indent=1, sort_keys=True)


def load(path):
    with open(path) as f:
        kept = json.load(f)
    result = Measured(kept["about"])
    vars(result).update(kept)
    for name in ("facts", "headers"):
        setattr(result, name, {tuple(key): tuple(value) for key, value in kept[name]})
    return result


def measure(python):
    probe = subprocess.check_output([python, "-c", PROBE] + sorted(wanted.MODULES))
    about = json.loads(probe.decode())
    if about["implementation"] != "CPython" or about["debug"]:
        raise SystemExit("%s: only release builds of CPython have the layouts wanted here" % python)
    result = Measured(about)
    # libpython first: with --enable-shared the program itself is a few lines.
    core = sorted(about["core"], key=lambda f: "/libpython" not in f)
    names = wanted.CORE + sorted(wanted.SIZE_ONLY)
    for module, path in about["modules"].items():
        if path is None:
            names = names + wanted.MODULES[module].split()
        elif path:
            read_file(result, path, wanted.MODULES[module].split())
    for path in core:
        read_file(result, path, names)
    if ("PyObject", "sizeof") not in result.facts:
        raise SystemExit("%s: no debug information" % python)
    result.headers = macros(about["include"])
    return result


def read_file(result, path, names):
    found = dwarf.read(path, {
        "structs": {n: wanted.lookup_names(n) for n in names}, "size_only": sorted(wanted.SIZE_ONLY),
        "shallow": sorted(wanted.SHALLOW), "enums": wanted.ENUMS, "arrays": ["usedpools"]})
    result.gdb = found["gdb"]
    result.conflicts += found["conflicts"]
    before = len(result.facts)
    for struct, layout in found["structs"].items():
        result.facts.setdefault((struct, "sizeof"), (0, layout["size"], 0, 0))
        for member_path, offset, size, bit, bits in layout["fields"]:
            name = wanted.field_name(struct, member_path)
            if name:
                result.facts.setdefault((struct, name), (offset, size, bit, bits))
    for name, value in found["enums"].items():
        result.facts.setdefault(("const", name), (0, value, 0, 0))
    # static poolp usedpools[2 * NB_SMALL_SIZE_CLASSES], and 512 bytes is the largest small request
    if "usedpools" in found["arrays"]:
        classes = found["arrays"]["usedpools"] // 2
        result.facts[("const", "NB_SMALL_SIZE_CLASSES")] = (0, classes, 0, 0)
        result.facts[("const", "ALIGNMENT")] = (0, 512 // classes, 0, 0)
    if len(result.facts) > before:
        result.files.append(path)
        result.build_ids[path] = dwarf.build_id(path)


def macros(include):
    """The values of wanted.MACROS, as the compiler sees them in the interpreter's own headers."""
    lines = ["#define Py_BUILD_CORE 1", "#include <stdbool.h>", "#include <stdio.h>", "#include <Python.h>"]
    if os.path.exists(os.path.join(include, "internal", "pycore_obmalloc.h")):
        lines.append('#include "internal/pycore_obmalloc.h"')
    lines.append("int main(void) {")
    for name in wanted.MACROS:
        lines += ["#ifdef " + name, 'printf("%s %%lu\\n", (unsigned long)(%s));' % (name, name), "#endif"]
    lines.append("return 0; }")
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "macros.c"), os.path.join(folder, "macros")
        with open(source, "w") as f:
            f.write("\n".join(lines) + "\n")
        subprocess.run(["cc", "-w", "-O1", "-I" + include, "-I" + os.path.join(include, "internal"), source,
                        "-o", program], check=True)
        text = subprocess.check_output([program]).decode()
    values = dict(line.split() for line in text.splitlines())
    return {("const", name.replace("Py_", "")): (0, int(value), 0, 0) for name, value in values.items()}
