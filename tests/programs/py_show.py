# -*- coding: utf-8 -*-
# SPDX-License-Identifier: Apache-2.0
# Makes one object of each sort, for CPython 2.7 and 3.x, and tells what they are: a READY line with {name:
# {"id": address, "type": name, and what else is expected: "value", "length", "attributes" as {name: repr} ...}}.
# Then waits.
import array
import collections
import json
import sys

OLD = sys.version_info[0] == 2
KEPT = []
TOLD = collections.OrderedDict()


class Plain(object):
    def __init__(self, i):
        self.number = i
        self.name = "plain-%d" % i
        self.nothing = None


class Slotted(object):
    __slots__ = ("a", "b", "unset")

    def __init__(self):
        self.a = 17
        self.b = None


class SlottedMore(Slotted):
    __slots__ = ("c", "__weakref__")


class SlotsAndDict(Slotted):
    pass


class Wide(object):  # more than is shown, and more than a shared table takes
    pass


class Empty(object):
    pass


class OldStyle:  # in 2.7 a class of another kind
    def __init__(self):
        self.number = 5


class DictLike(dict):
    pass


class StrLike(str):
    pass


class IntLike(int):
    pass


class TupleLike(tuple):
    pass


class SetLike(set):
    pass


class Trouble(Exception):
    pass


def make_closure(content):
    def closure():
        return content
    return closure


def tell(name, thing, **expected):
    expected.update(id=id(thing), type=type(thing).__name__)
    KEPT.append(thing)
    TOLD[name] = expected


def tell_value(name, thing, **expected):
    tell(name, thing, value=repr(thing), **expected)


def tell_instance(name, thing, slots=(), **expected):
    values = dict((n, getattr(thing, n)) for n in slots)
    values.update(getattr(thing, "__dict__", {}))
    tell(name, thing, attributes=dict((n, repr(v)) for n, v in values.items()), **expected)


# Attributes, wherever they are kept.
several = [Plain(i) for i in range(20)]
tell_instance("Plain", several[7])
several[8].__dict__  # makes the dictionary from 3.11 on
tell_instance("Plain with dictionary", several[8])
several[9].later = 1.5
tell_instance("Plain with one more", several[9])
del several[10].number
tell_instance("Plain with one less", several[10])
several[11].__dict__ = {"other": 3, "one": "two"}
tell_instance("Plain with another dictionary", several[11])
for i in range(40):
    setattr(several[12], "field_%d" % i, i)
tell("Plain with many", several[12], total=43)
tell_instance("Slotted", Slotted(), ("a", "b"))
more = SlottedMore()
more.c = "see"
tell_instance("SlottedMore", more, ("a", "b", "c"))
both = SlotsAndDict()
both.d = True
both.__dict__["a"] = "hidden by the slot"
tell("SlotsAndDict", both, total=4, some={"a": "17", "b": "None", "d": "True"})
tell_instance("Empty", Empty())
wide = Wide()
for i in range(100):
    setattr(wide, "field_%d" % i, i)
tell("Wide", wide, total=100)
odd = Empty()
odd.__dict__["a b\n\x1b[31m\\"] = 1
odd.__dict__["class"] = 2
tell("odd names", odd, total=2, fields={r"['a b\n\x1b[31m\\']": "1", ".class": "2"})
tell_instance("OldStyle", OldStyle())
if OLD:
    TOLD["OldStyle"]["fields"] = {"class": "OldStyle"}
for name, thing in (("DictLike", DictLike({1: 2})), ("StrLike", StrLike("text")), ("IntLike", IntLike(-77)),
                    ("TupleLike", TupleLike((1, 2, 3)))):
    thing.extra = "more"
    tell_instance(name, thing, value=repr(thing))
make_closure.marked = 3
tell_instance("function with attribute", make_closure)

# Values as repr() has them.
singles = [0, 1, -1, 2 ** 30, -2 ** 30, 10 ** 18, -2 ** 63, 2 ** 64 + 1, 10 ** 19, -10 ** 35 - 7,
           0.1, -1.5, 1e100, 2.0, -0.0, float("inf"), 5e-324, 1e16, 123456.0, 0.0001, 1 / 3.0, 9007199254740994.0,
           "", "plain", "it's", 'say "x"', "both ' and \"", "back\\slash", "new\nline\ttab\rreturn", "\x1b[31m\x00\x7f",
           b"", b"\x80\xff\x00bytes", b"back\\slash", b"it's", None, True, False, Ellipsis, NotImplemented]
if not OLD:
    singles += [u"\u0416\xe9\u20ac", u"\U0001f600", u"\u202e\xa0\xad\u200b\ud800\x9b", u"\ufeff\U000e0041"]
for i in range(0, len(singles), 8):
    tell_value("values %d" % i, singles[i:i + 8], length=len(singles[i:i + 8]))
for i, thing in enumerate((-5, -2.5, "back\\slash\x1b\n", b"\x80\\", [], (), {}, (1,), (True, False), {"k": b"\x80"},
                           bytearray(b"\x80\x00bytes"))):
    tell_value("value %d" % i, thing)
tell("long bytes", b"x" * 1000, length=1000, starts=repr(b"xxxx")[:-1])
tell("long text", u"\u0416" * 1000, length=1000)
tell("long list", list(range(100)), length=100, starts="[0, 1, 2, 3, 4, 5, 6, 7, ...]")

# Lengths.
tell("set", set(range(100)), length=100)
tell("small set", set(["a", "b"]), length=2)
tell("frozenset", frozenset(range(7)), length=7)
tell("SetLike", SetLike(range(9)), length=9)
tell("deque", collections.deque(range(300)), length=300)
tell("bytearray", bytearray(1001), length=1001)
tell("array", array.array("d", range(33)), length=33)
tell("dict", dict((i, i) for i in range(50)), length=50)
tell("str", "x" * 77, length=77)

# What has a place or a name.
closure = make_closure("kept in a cell")
code = closure.__code__
place = "%s:%d" % (code.co_filename, code.co_firstlineno)
tell("closure", closure, fields={"name": getattr(closure, "__qualname__", closure.__name__), "file": place})
tell("code", code, fields={"name": getattr(code, "co_qualname", code.co_name), "file": place})
tell("cell", closure.__closure__[0], fields={"content": repr("kept in a cell")})
tell("module", json, fields={"name": "json", "file": json.__file__})
tell("builtin module", sys, fields={"name": "sys"})
tell("class", SlottedMore, fields={"name": "__main__.SlottedMore", "base": "__main__.Slotted",
                                   "instance size": str(SlottedMore.__basicsize__)})
tell("exception", Trouble("it's", 5), fields={"args": repr(("it's", 5))})
tell("exception without args", Trouble(), fields={"args": "()"})
try:
    open("/nonexistent/file")
except EnvironmentError as e:
    tell("OSError", e, some={"errno": "2", "filename": repr("/nonexistent/file")})
tell("method", several[3].__init__, some={"__self__": "<__main__.Plain at %#x>" % id(several[3])})

# What is never freed.
for thing in (None, True, False, Ellipsis, NotImplemented):
    tell_value("constant " + repr(thing), thing)
tell("type int", int, fields={"name": "int", "base": "object"})

sys.stdout.write("READY %s\n" % json.dumps(TOLD))
sys.stdout.flush()
sys.stdin.readline()
