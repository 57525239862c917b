# SPDX-License-Identifier: Apache-2.0
# Makes known numbers of objects of its own classes, for CPython 2.7 and 3.x, and tells what it made:
# a READY line with {"classes": {name: count}, "tracked": {name: count by gc.get_objects()}}. Then waits.
import array
import collections
import gc
import json
import sys
import weakref


class Plain(object):
    def __init__(self, i):
        self.number = i
        self.name = "plain-%d" % i


class Slotted(object):
    __slots__ = ("a", "b", "c")

    def __init__(self, i):
        self.a = i
        self.b = None


class SlottedWithWeakref(object):
    __slots__ = ("a", "__weakref__")


class Wide(object):  # more attributes than a shared table takes
    def __init__(self, i):
        for k in range(50):
            setattr(self, "field_%d_%d" % (k, i % 3), k)


class Empty(object):
    pass


class OldStyle:  # in 2.7 a class of another kind
    def __init__(self, i):
        self.number = i


class DictLike(dict):
    pass


class ListLike(list):
    pass


class SetLike(set):
    pass


class StrLike(str):
    pass


class IntLike(int):
    pass


class FloatLike(float):
    pass


class TupleLike(tuple):
    pass


class TupleSlots(tuple):
    __slots__ = ()


class Trouble(Exception):
    pass


class Meta(type):
    pass


Metaclassed = Meta("Metaclassed", (object,), {"__module__": "__main__"})
Odd = type("Odd\x1b[31m\n", (object,), {"__module__": "__main__"})  # a class can be called anything
Point = collections.namedtuple("Point", "x y")


class Outer(object):
    class Inner(object):
        pass


def numbers(n):
    while True:
        yield n
        n += 1


def make_closure(n):
    def closure():
        return n
    return closure


COUNTS = collections.OrderedDict()
KEPT = []


def keep(name, count, make):
    KEPT.append([make(i) for i in range(count)])
    COUNTS[name] = count


keep("Plain", 1001, Plain)
keep("Slotted", 502, Slotted)
keep("SlottedWithWeakref", 303, lambda i: SlottedWithWeakref())
keep("Wide", 104, Wide)
keep("Empty", 205, lambda i: Empty())
keep("OldStyle", 306, OldStyle)
keep("DictLike", 107, lambda i: DictLike({i: str(i)}))
keep("ListLike", 108, lambda i: ListLike([i, i + 1]))
keep("SetLike", 109, lambda i: SetLike(range(i)))
keep("StrLike", 110, lambda i: StrLike("text %d" % i))
keep("IntLike", 111, lambda i: IntLike(i * 10 ** (i % 15)))
keep("FloatLike", 112, lambda i: FloatLike(i))
keep("TupleLike", 113, lambda i: TupleLike(range(i)))
keep("TupleSlots", 114, lambda i: TupleSlots(range(i)))
keep("Trouble", 115, Trouble)
keep("Metaclassed", 116, lambda i: Metaclassed())
keep("Point", 117, lambda i: Point(i, -i))
keep(Odd.__name__, 119, lambda i: Odd())
keep("Outer.Inner" if sys.version_info[0] > 2 else "Inner", 118, lambda i: Outer.Inner())

# Things that are named by builtin types; counted by the collector below.
KEPT.append([numbers(i) for i in range(40)])
KEPT.append([next(g) for g in KEPT[-1]])
KEPT.append([make_closure(i) for i in range(41)])
KEPT.append([weakref.ref(o) for o in KEPT[0][:42]])
KEPT.append([collections.deque(range(300)) for i in range(43)])
KEPT.append([array.array("d", range(i)) for i in range(44)])
KEPT.append([bytearray(1000 + i) for i in range(45)])
KEPT.append([set(range(i)) for i in range(46)])
KEPT.append([collections.OrderedDict((k, k) for k in range(i)) for i in range(47)])
KEPT.append([{"key %d" % k: k for k in range(i)} for i in range(48)])
KEPT.append([u"\u0416" * i for i in range(49)])
for o in KEPT[0][:100]:
    o.extra = [o]  # cycles, and dictionaries that leave the shared table

gc.collect()
tracked = {}
for o in gc.get_objects():
    if type(o) in (list, set, type(make_closure), type(gc), type(KEPT[19][0]), collections.deque):
        tracked[type(o).__name__] = tracked.get(type(o).__name__, 0) + 1
o = None
sys.stdout.write("READY %s\n" % json.dumps({"classes": COUNTS, "tracked": tracked}))
sys.stdout.flush()
sys.stdin.readline()
