# SPDX-License-Identifier: Apache-2.0
"""mixed_heap.py SCALE: a Python process with some of everything; SCALE 1 is about 1 GB. For benches and tests.

Objects of every common type, in pymalloc and in the C library's heap, live ones between holes, cycles, and four
threads with heaps of their own. The same SCALE builds the same process. Prints READY and the counts as JSON, and
stays until its input ends.
"""
import array
import collections
import gc
import json
import random
import sys
import threading

SCALE = float(sys.argv[1]) * 0.79  # the counts below make 1.27 GB
PARTS = {}


def part(base):
	"""A function that fills one part of the heap: it is called with base * SCALE and what it returns is kept."""
	def register(fill):
		count = max(1, int(base * SCALE))
		kept = fill(count)
		PARTS[fill.__name__] = (count, kept)
		return fill
	return register


class Plain:
	def __init__(self, i):
		self.number, self.label, self.owner, self.flags = i, "label %d" % i, None, (i % 8, i % 5)


class Slotted:
	__slots__ = ("left", "right", "weight")

	def __init__(self, i):
		self.left, self.right, self.weight = i, None, i / 7


class Link:
	def __init__(self, before):
		self.before, self.after = before, None


gc.disable()  # building is quicker, and the cycles that nobody holds stay


@part(450000)
def plain(n):
	return [Plain(i) for i in range(n)]


@part(400000)
def slotted(n):
	return [Slotted(i) for i in range(n)]


@part(200000)
def chain(n):
	first = last = Link(None)
	for _ in range(n):
		last.after = Link(last)
		last = last.after
	return first


@part(60000)
def garbage_cycles(n):
	for i in range(n):
		a, b = Plain(i), Plain(i)
		a.owner, b.owner = b, a


@part(700000)
def same_text(n):
	return ["region %d" % (i % 300) for i in range(n)]


@part(500000)
def text(n):
	dice = random.Random(1)
	return ["%040x" % dice.getrandbits(160) for _ in range(n)]


@part(80000)
def wide_text(n):
	return ["\u044f" * (5 + i % 60) + str(i) for i in range(n)] + ["\U0001f9ed" * 12 + str(i) for i in range(n // 4)]


@part(60000)
def raw(n):
	return [bytes(i * 37 % 3500) for i in range(n)]


@part(9000)
def growing(n):
	return [bytearray(100 + i * 61 % 6000) for i in range(n)]


@part(900000)
def table(n):
	return {i: i * 11 for i in range(n)}


@part(180000)
def records(n):
	return [{"id": i, "text": str(i), "list": [i]} for i in range(n)]


@part(45000)
def sets(n):
	return [set(range(i, i + i % 50)) for i in range(n)]


@part(400000)
def tuples(n):
	return [(i, -i, None) for i in range(n)]


@part(600000)
def floats(n):
	return [i / 3 for i in range(n)]


@part(60000)
def appended(n):
	lists = [[] for _ in range(n)]
	for one in lists:
		for i in range(19):
			one.append(i)
	return lists


@part(2500000)
def numbers(n):
	return array.array("d", range(n))


@part(400000)
def queue(n):
	return collections.deque(range(n))


@part(5000)
def functions(n):
	names = {}
	for i in range(n):
		exec("def f%d(a, b=%d):\n\t'''text %d'''\n\treturn [x + %d for x in a if x != b]" % (i, i, i, i), names)
	return names


@part(500000)
def small_holes(n):
	return [bytes(260) + b"%d" % i for i in range(n)][::30]


@part(40000)
def large_holes(n):
	return [bytes(2500 + i * 13 % 3000) for i in range(n)][::15]


@part(12000)
def in_threads(n):
	kept = [[] for _ in range(4)]
	ready = threading.Barrier(5)

	def work(mine):
		for i in range(n):
			mine.append(bytearray(600 + i * 29 % 2000))
		del mine[::2]
		ready.wait()
		threading.Event().wait()

	for mine in kept:
		threading.Thread(target=work, args=(mine,), daemon=True).start()
	ready.wait()
	return kept


print("READY " + json.dumps({name: count for name, (count, _) in PARTS.items()}), flush=True)
sys.stdin.read()
