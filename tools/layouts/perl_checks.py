"""Compare measured layouts with facts/perl.md and with facts/perl-layouts-5.NN.txt, which gdb's ptype/o printed."""
import os
import re

# perl.md's short names: what they are in the .def.
TABLE_NAMES = {"size": "sizeof", "arenaroot": "sv_arenaroot"}


def check(measured, folder):
    """Print every difference between the threaded layouts and the facts; how many there are."""
    with open(os.path.join(folder, "perl.md")) as f:
        table = interpreters(f)
    compared = differences = 0
    for one in measured:
        if one.flavour != "threaded":
            continue
        said = {("interpreter", field): fact for field, fact in table.get(one.version, {}).items()}
        dump = os.path.join(folder, "perl-layouts-%s.txt" % one.version)
        if os.path.exists(dump):
            with open(dump) as f:
                said.update(structs(f))
        print("%s: %d facts%s" % (one.exact, len(said), "" if os.path.exists(dump) else ", none of them a dump's"))
        for (struct, field), fact in sorted(said.items()):
            have = one.all_facts.get((struct, field))
            compared += 1
            if have is None or any(a is not None and a != b for a, b in zip(fact, have)):
                differences += 1
                print("%s %s.%s: said %s, measured %s" % (one.exact, struct, field, fact, have))
    print("%d facts compared, %d differences" % (compared, differences))
    return differences


def interpreters(lines):
    """{version: {field: fact}} of the table with one row for each version; the sizes of fields are not known."""
    found, columns = {}, None
    for line in lines:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells[0] == "perl":
            columns = [TABLE_NAMES.get(name, name) for name in cells[1:]]
        elif columns and re.match(r"5\.\d+", cells[0]):
            for version in cells[0].split(", "):
                found[version] = {
                    field: (0, int(cell), 0, 0) if field == "sizeof" else (int(cell), None, 0, 0)
                    for field, cell in zip(columns, cells[1:])}
        elif not line.startswith("|"):
            columns = None
    return found


LINE = re.compile(r"(?:/\* +(?:(\d+)(?:: *(\d+))? +\| +)?(\d+) *\*/)? +(.*)")
MEMBER = re.compile(r"(?:\(\*(\w+)\)\(.*\)|(\w+)(?:\[\d*\])*)(?: : (\d+))?;$")


def structs(lines):
    """{(struct, field): fact} of what `ptype/o struct NAME` printed."""
    found, name, path = {}, None, []
    for line in lines:
        start = re.search(r"type = struct (\w+) \{", line)
        if start:
            name, path = start.group(1), []
            continue
        total = re.search(r"/\* total size \(bytes\): +(\d+) \*/", line)
        if total and not path:
            found[name, "sizeof"] = (0, int(total.group(1)), 0, 0)
            continue
        closing = re.match(r" +\} (\w*)(?:\[\d*\])?;$", line)
        if closing:
            finish(found, name, path.pop(), closing.group(1), path)
            continue
        fields = LINE.match(line)
        if not fields or not fields.group(3):
            continue
        offset, bit, size, text = fields.groups()
        if offset is None:
            offset = path[-1]["offset"]  # a union's member
        if text.endswith("{"):
            path.append({"offset": int(offset), "size": int(size), "members": [], "union": text.startswith("union")})
            continue
        member = MEMBER.search(text)
        fact = bit_field(int(offset), int(bit or 0), member.group(3)) or (int(offset), int(size), 0, 0)
        add(found, name, path, member.group(1) or member.group(2), fact)
    return found


def add(found, struct, path, field, fact):
    if path:
        path[-1]["members"].append((field, fact))
    else:
        found[struct, field] = fact


def bit_field(offset, bit, bits):
    """ptype/o has the byte that the field begins in."""
    return (offset, (bit + int(bits) + 7) // 8, bit, int(bits)) if bits else None


def finish(found, struct, inner, field, path):
    """A nested struct or union has ended: its name comes last. One of nothing but scalars is one field."""
    nested = any("." in name for name, _ in inner["members"])
    members = inner["members"] if nested or not inner["union"] else []
    add(found, struct, path, field, (inner["offset"], inner["size"], 0, 0))
    for name, fact in members:
        add(found, struct, path, (field + "." + name).strip("."), fact)
