"""Work out the layouts of a Perl that can't be measured: a measured one, with what perl_changes.py says is different.

Members are laid out again by the rules of C on x86-64: each at the next multiple of its alignment.
"""
import perl_changes
import perl_headers
import perl_wanted as wanted

WORD = 8


class Derived(object):
    """As perl_headers.Measured, of a version that was not measured."""

    def __init__(self, version, flavour, facts, about):
        self.version, self.flavour, self.all_facts = version, flavour, facts
        self.exact, self.about = about["exact"], about
        self.facts = perl_headers.leave_out(facts)


def derive(measured):
    """All versions that perl_changes.py has and that can be made of the measured ones."""
    known = {(one.version, one.flavour): one.all_facts for one in measured}
    made = []
    for version, changes in perl_changes.VERSIONS:
        for flavour in ("threaded", "unthreaded"):
            base = known.get((changes["base"], flavour))
            if base is None or (version, flavour) in known:
                continue
            facts = change(dict(base), changes, flavour, known.get((changes.get("agree"), flavour)))
            known[version, flavour] = facts
            made.append(Derived(version, flavour, facts, changes))
    return made


def change(facts, changes, flavour, other):
    """other: a measured version on the other side; where it doesn't say the same as facts, nothing is known."""
    if other is not None:
        doubtful = changes["doubtful"] or {struct for struct, _ in facts} - {"interpreter"}
        for key in [key for key in facts if key[0] in doubtful and other.get(key) != facts[key]]:
            del facts[key]
    for pattern in changes.get("unknown", ()):
        for key in [key for key in facts if matches(pattern, key)]:
            del facts[key]
    for name, edits in changes.get("edits", {}).items():
        if (name, "sizeof") in facts:
            edit(facts, name, edits)
    for name, members in changes.get("structs", {}).items():
        remove(facts, name)
        place(facts, name, flavoured(members, flavour))
    for name, value in changes.get("const", {}).items():
        facts["const", name] = (0, value, 0, 0)
    bodies(facts)
    return facts


def matches(pattern, key):
    """"struct", "struct.field" or "struct.beginning*"."""
    struct, _, field = pattern.partition(".")
    if key[0] != struct:
        return False
    return not field or key[1] == field or (field.endswith("*") and key[1].startswith(field[:-1]))


def remove(facts, struct):
    for key in [key for key in facts if key[0] == struct]:
        del facts[key]


def flavoured(members, flavour):
    """ "threaded?name:8" is there in that flavour only."""
    kept = []
    for member in members:
        if isinstance(member, tuple):
            kept.append(member[:2] + (flavoured(member[2], flavour),))
        elif "?" not in member or member.startswith(flavour + "?"):
            kept.append(member.split("?")[-1])
    return kept


def alignment(name, size):
    return perl_changes.ALIGNMENT.get(name) or min(size & -size, WORD)


def up(offset, align):
    return -(-offset // align) * align


def extent(member):
    """(size, alignment) of a member."""
    if not isinstance(member, tuple):
        name, _, size = member.partition("=")[0].partition(":")
        return int(size), alignment(name, int(size))
    kind, _, inside = member
    end, largest = 0, 1
    for size, align in map(extent, inside):
        end = max(end, size) if kind == "union" else up(end, align) + size
        largest = max(largest, align)
    return up(end, largest), largest


def place(facts, struct, members, union=False, path="", base=0):
    """Write down each member: "name:size" ("_:size" has no name), ("struct", name, members), ("union", name, members),
    or bit fields as "word:size=name:bits,name:bits".
    """
    end = base
    for member in members:
        size, align = extent(member)
        start = base if union else up(end, align)
        end = start + size
        if isinstance(member, tuple):
            kind, name, inside = member
            facts[struct, path + name] = (start, size, 0, 0)
            place(facts, struct, inside, kind == "union", path + name + ".", start)
        elif "=" in member:
            bit = 0
            for field in member.split("=")[1].split(","):
                name, bits = field.split(":")
                facts[struct, path + name] = (start + bit // 8, (bit % 8 + int(bits) + 7) // 8, bit % 8, int(bits))
                bit += int(bits)
        elif not member.startswith("_:"):
            facts[struct, path + member.split(":")[0]] = (start, size, 0, 0)
    if not path:
        facts[struct, "sizeof"] = (0, extent(("struct", "", members))[0], 0, 0)


def edit(facts, struct, edits):
    """edits: "-name" is gone, "name:size" is now so large, "after>name:size" is new, or moved, behind `after`."""
    fields = sorted(((numbers, field) for (name, field), numbers in facts.items()
                     if name == struct and field != "sizeof"), key=lambda item: item[0][0])
    assert not any("." in field or numbers[3] for numbers, field in fields), struct
    members = [[field, numbers[1]] for numbers, field in fields]
    check(facts, struct, members)
    for line in edits:
        apply(members, line)
    remove(facts, struct)
    place(facts, struct, ["%s:%d" % tuple(member) for member in members])


def check(facts, struct, members):
    """The rules give what was measured, or they are not to be trusted with the changes."""
    again = {}
    place(again, struct, ["%s:%d" % tuple(member) for member in members])
    for key, numbers in again.items():
        if facts[key] != numbers:
            raise SystemExit("%s.%s: measured %s, by the rules %s" % (key + (facts[key], numbers)))


def apply(members, line):
    names = [name for name, _ in members]
    if line.startswith("-"):
        del members[names.index(line[1:])]
    elif ">" in line:
        after, _, member = line.partition(">")
        name, _, size = member.partition(":")
        if name in names:
            old = members.pop(names.index(name))
            size = size or old[1]
        names = [name for name, _ in members]
        members.insert(names.index(after) + 1, [name, int(size)])
    else:
        name, _, size = line.partition(":")
        members[names.index(name)][1] = int(size)


def bodies(facts):
    """The bodies' sizes and arenas again: only whole structs can have changed."""
    arena = facts["const", "PERL_ARENA_SIZE"][1]
    for kind, struct in (("SVt_REGEXP", "regexp"),):
        if (struct, "sizeof") not in facts:
            for suffix in ("", ".copy", ".arena"):
                facts.pop((wanted.BODY_TABLE, kind + suffix), None)
            continue
        size = facts[struct, "sizeof"][1]
        facts[wanted.BODY_TABLE, kind] = facts[wanted.BODY_TABLE, kind + ".copy"] = (0, size, 0, 0)
        facts[wanted.BODY_TABLE, kind + ".arena"] = (0, arena // size * size, 0, 0)
