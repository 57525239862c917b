"""Read the layout tables of a markdown file: '### Struct' with a table of fields down and versions across.

A cell is an offset, N.b:w (byte N, bit b, w bits), N:{size} (a nested struct) or - (not there).
The row "sizeof" holds sizes. A column is "3.13" or "3.13t" (free-threaded).
"""
import re

import cpython_wanted as wanted

# The tables' short names for members; of "newer/older" the newer is taken, as the tables are read for 3.13 and later.
TABLE_NAMES = {("PyASCIIObject", name): "state." + name
               for name in "interned kind compact ascii ready statically_allocated".split()}

# Sizes of members that no measured version has, or has with another size, as declared in copies of CPython's
# headers (3.14 and later): object.h, cpython/{tuple,bytearray,unicode}object.h, cpython/code.h,
# internal/pycore_interpframe_structs.h, internal/mimalloc/mimalloc/types.h. "rest" reaches to the end of the struct.
SIZES = {
    ("PyObject", "ob_refcnt"): 4, ("PyObject", "ob_flags"): 2, ("PyObject", "ob_tid"): 8, ("PyObject", "ob_gc_bits"): 1,
    ("PyObject", "ob_ref_local"): 4, ("PyObject", "ob_ref_shared"): 8, ("PyTupleObject", "ob_hash"): 8,
    ("PyByteArrayObject", "ob_bytes_object"): 8, ("PyCodeObject", "co_tlbc"): 8,
    ("_PyInterpreterFrame", "stackpointer"): 8, ("PyGenObject", "gi_iframe"): "rest",
    ("mi_page_t", "used"): {"3.13": 4, "3.14": 2, "3.15": 2}, ("mi_page_t", "heap_tag"): 1,
    ("mi_page_t", "block_size"): 8, ("mi_page_t", "page_start"): 8, ("mi_segment_t", "slices"): "rest",
}


class Table(object):
    """facts: {(version, flavour): {(struct, field): (offset, size or None, bit, bits)}}; source: what the file says;
    older: {(struct, field): what a row "newer/older" calls it in the earlier versions}.
    """

    def __init__(self, path):
        self.facts, self.constants, self.older, self.source = {}, {}, {}, ""
        struct, columns = None, None
        with open(path) as f:
            for line in f:
                line = line.strip()
                if line.startswith("Source of every number:"):
                    self.source = line
                elif line.startswith("#"):
                    struct, columns = heading(line), None
                elif not line.startswith("|"):
                    self.gc_heads(line)
                elif struct and not line.startswith("|---"):
                    cells = [c.strip() for c in line.strip("|").split("|")]
                    if columns is None:
                        columns = cells[1:]
                    elif struct == "const":
                        self.constant_row(cells, columns)
                    else:
                        self.row(struct, cells, columns)

    def row(self, struct, cells, columns):
        field, _, older = cells[0].strip("*").partition("/")
        field = TABLE_NAMES.get((struct, field), field)
        self.older[struct, field] = older
        for column, cell in zip(columns, cells[1:]):
            match = re.match(r"(\d+)(?:\.(\d):(\d+))?(?::\{(\d+)\})?$", cell)
            if match:
                offset, bit, bits, size = [int(g) if g else 0 for g in match.groups()]
                if field == "sizeof":
                    fact = (0, offset, 0, 0)
                elif bits:
                    fact = (offset, (bit + bits + 7) // 8, bit, bits)
                else:
                    fact = (offset, size or None, 0, 0)
                self.column(column)[struct, field] = fact

    def column(self, name):
        key = (name.rstrip("t"), "free-threaded" if name.endswith("t") else "gil")
        return self.facts.setdefault(key, {})

    def constant_row(self, cells, columns):
        """POOL_SIZE|4096|...|1 MiB (remark): cells that are more than a number and its unit are left out."""
        for column, cell in zip(columns, cells[1:]):
            match = re.match(r"(\d+)( KiB| MiB)?(?: \(.*\))?$", cell)
            if cells[0].isupper() and match:
                value = int(match.group(1)) << {None: 0, " KiB": 10, " MiB": 20}[match.group(2)]
                for version in span(column):
                    self.constants[version, cells[0]] = value

    def gc_heads(self, line):
        """GCHEAD 32 (2.7,3.6,3.7), 16 (3.8+), 0 (t builds)"""
        match = re.search(r"GCHEAD (\d+) \(([\d.,]+)\), (\d+) \(([\d.]+)\+\), (\d+) \(t builds\)", line)
        if match:
            for version in match.group(2).split(","):
                self.constants[version, "GC_HEAD_SIZE"] = int(match.group(1))
            for version in span(match.group(4) + "-3.15"):
                self.constants[version, "GC_HEAD_SIZE"] = int(match.group(3))
            self.constants["t", "GC_HEAD_SIZE"] = int(match.group(5))


def heading(line):
    """The struct whose table follows."""
    text = line.lstrip("# ")
    if text.startswith("pymalloc constants"):
        return "const"
    if text.startswith("_Py_DebugOffsets"):
        return "_Py_DebugOffsets"
    if not line.startswith("### "):
        return None
    return text.replace("struct ", "", 1).split()[0]


def span(column):
    """3.6-3.9: the four of them."""
    first, _, last = column.partition("-")
    major, minor = first.split(".")
    return ["%s.%d" % (major, n) for n in range(int(minor), int((last or first).split(".")[1]) + 1)]


def complete(table, key, model, same_version):
    """Give a table's facts their sizes: from SIZES, or as in model, the measured facts of the version before.

    A member whose size neither says is left with 0, which means: not known. Of a row "newer/older" the older name
    is the right one if the model is the same version, with another flavour, and knows only that one.
    """
    done = {}
    for (struct, field), (offset, size, bit, bits) in table.facts[key].items():
        if struct in wanted.SIZE_ONLY and field != "sizeof":
            continue
        older = table.older[struct, field]
        if same_version and (struct, field) not in model and (struct, older) in model:
            field = older
        if size is None:
            size = SIZES.get((struct, field))
            if isinstance(size, dict):
                size = size[key[0]]
            elif size == "rest":
                size = table.facts[key][struct, "sizeof"][1] - offset
            elif size is None and struct == "_Py_DebugOffsets":
                size = 8
            elif size is None:
                size = model.get((struct, field), (0, 0))[1]
        done[struct, field] = (offset, size, bit, bits)
    return done
