"""Run by gdb on one ELF file: write the layouts of the structs named in $LAYOUTS_IN to $LAYOUTS_OUT, as JSON.

in:  {"structs": {name: [names to look up]}, "size_only": [...], "shallow": [...], "enums": [...],
      "arrays": [variables whose length is wanted], "tables": [static arrays of structs of integers],
      "plain_unions": true leaves unions of nothing but scalars closed}
out: {"gdb", "structs": {name: {"size", "fields": [[path, offset, size, first bit, bits]]}},
      "enums": {enumerator: value}, "arrays": {variable: elements}, "tables": {variable: [{member: value}]},
      "conflicts": [...]}
"""
import json
import os

import gdb

AGGREGATE = (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION)


def plain(kind):
    """A union of scalars, or of such unions."""
    return kind.code == gdb.TYPE_CODE_UNION and all(
        member.code not in AGGREGATE or plain(member) for member in [f.type.strip_typedefs() for f in kind.fields()])


def members(struct, path=(), base=0, deep=True, closed=lambda kind: False):
    """Every member below struct with its path; bits are counted from the first byte they touch (little endian)."""
    found = []
    for field in struct.fields():
        if not hasattr(field, "bitpos"):
            continue
        bit = base + field.bitpos
        here = path + ((field.name,) if field.name else ())
        kind = field.type.strip_typedefs()
        if field.bitsize:
            found.append((here, bit // 8, (bit % 8 + field.bitsize + 7) // 8, bit % 8, field.bitsize))
            continue
        if field.name:
            found.append((here, bit // 8, kind.sizeof, 0, 0))
        opened = not field.name or field.name == "ob_base" or (deep and not closed(kind))
        if kind.code in AGGREGATE and opened:
            found.extend(members(kind, here, bit, deep, closed))
    return found


def definitions(name):
    """All complete structs of that name: C allows each file its own."""
    domain = gdb.SYMBOL_STRUCT_DOMAIN if name.startswith("struct ") else gdb.SYMBOL_VAR_DOMAIN
    bare = name[len("struct "):] if name.startswith("struct ") else name
    for symbol in gdb.lookup_static_symbols(bare, domain):
        if symbol.addr_class == gdb.SYMBOL_LOC_TYPEDEF:
            kind = symbol.type.strip_typedefs()
            if kind.code in AGGREGATE and kind.fields():
                yield symbol.symtab.filename, kind


def layout(names, size_only, conflicts, **how):
    """The layout under the first name that has one; differing definitions are reported, never chosen from."""
    for name in names:
        answers = {}
        for filename, kind in definitions(name):
            fields = () if size_only else tuple(members(kind, **how))
            answers.setdefault((kind.sizeof, fields), os.path.basename(filename))
        if len(answers) > 1:
            conflicts.append([name, sorted(answers.values())])
            return None
        for size, fields in answers:
            return {"size": size, "fields": fields}
    return None


def enumerators(name):
    try:
        kind = gdb.lookup_type(name).strip_typedefs()
    except gdb.error:
        return {}
    return {f.name: f.enumval for f in kind.fields()} if kind.code == gdb.TYPE_CODE_ENUM else {}


def array_lengths(names):
    for name in names:
        symbol = gdb.lookup_global_symbol(name) or gdb.lookup_static_symbol(name)
        if symbol and symbol.type.code == gdb.TYPE_CODE_ARRAY:
            yield name, symbol.type.range()[1] + 1


def tables(names):
    for name in names:
        symbol = gdb.lookup_static_symbol(name)
        if symbol and not symbol.value().is_optimized_out:
            first, last = symbol.type.range()
            rows = [symbol.value()[i] for i in range(first, last + 1)]
            yield name, [{field.name: int(row[field]) for field in row.type.strip_typedefs().fields()} for row in rows]


def main():
    with open(os.environ["LAYOUTS_IN"]) as f:
        wanted = json.load(f)
    out = {"gdb": gdb.VERSION, "structs": {}, "enums": {}, "conflicts": []}
    for name, names in wanted["structs"].items():
        found = layout(names, name in wanted["size_only"], out["conflicts"], deep=name not in wanted["shallow"],
                       closed=plain if wanted["plain_unions"] else lambda kind: False)
        if found:
            out["structs"][name] = found
    for name in wanted["enums"]:
        out["enums"].update(enumerators(name))
    out["arrays"] = dict(array_lengths(wanted["arrays"]))
    out["tables"] = dict(tables(wanted["tables"]))
    with open(os.environ["LAYOUTS_OUT"], "w") as f:
        json.dump(out, f)


main()
