# SPDX-License-Identifier: Apache-2.0
"""glibc's malloc, against what the process says of itself: malloc_info(), and the addresses that it knows to be live or
freed (tests/programs/malloc_mix.c). On this machine's libc and on those of the other suites, dynamic and static."""
import bisect
import os
import re
import shutil
import struct
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

import harness

HEAP_FLAGS = 7
IS_MMAPPED = 2


class Blocks:
	"""The blocks of a target, by address."""

	def __init__(self, target, check=0):
		found = harness.freehold_json("select", target, "size > 0", "--limit", 0, check=check)
		self.all = [(int(r["start"], 16), int(r["end"], 16), r["domain"], r["kind"], r["detail"]) for r in found["rows"]]
		self.all.sort()
		self.starts = [b[0] for b in self.all]

	def at(self, address):
		i = bisect.bisect_right(self.starts, address) - 1
		return self.all[i] if i >= 0 and address < self.all[i][1] else None

	def of(self, domain, *kinds):
		return [b for b in self.all if b[2] == domain and (not kinds or b[3] in kinds)]

	def chunks(self):
		"""Live blocks of malloc that nobody named."""
		return [b for b in self.all if is_live(b)]


def is_live(block):
	return block[2] == "uncategorized" and block[3] == "%d bytes" % (block[1] - block[0])


def size_of(blocks):
	return sum(b[1] - b[0] for b in blocks)


class Story:
	"""What tests/programs/malloc_mix.c and malloc_smash.c print of themselves."""

	def __init__(self, lines):
		self.live, self.freed, self.foreign, self.words = [], [], [], {}
		document = []
		for line in lines:
			words = line.split()
			if line.lstrip().startswith("<"):
				document.append(line)
			elif words[0] in ("live", "freed", "foreign"):
				getattr(self, words[0]).append((int(words[1]), int(words[2])))
			else:
				self.words[words[0]] = words[1:]
		self.pid = int(self.words["pid"][0])
		self.info = xml.etree.ElementTree.fromstring("\n".join(document)) if document else None

	def number(self, word):
		return int(self.words[word][0])

	def total(self, element, kind):
		"""(count, bytes); none where this libc has no such thing (2.43 has no fastbins)."""
		found = [t for t in element.findall("total") if t.get("type") == kind]
		return (int(found[0].get("count")), int(found[0].get("size"))) if found else (0, 0)

	def system(self, element):
		return [int(s.get("size")) for s in element.findall("system") if s.get("type") == "current"][0]

	def arenas(self):
		"""(fast count, fast bytes, rest count, rest bytes, system bytes) of each arena."""
		return sorted(self.total(h, "fast") + self.total(h, "rest") + (self.system(h),) for h in self.info.findall("heap"))


class Memory:
	"""The words of a process."""

	def __init__(self, pid):
		self.fd = os.open("/proc/%d/mem" % pid, os.O_RDONLY)

	def word(self, address):
		return struct.unpack("<Q", os.pread(self.fd, 8, address))[0]

	def close(self):
		os.close(self.fd)


def build(name, place, suite=None, static=False):
	"""Compiles tests/programs/NAME.c for this machine (suite None: into the directory `place`) or another suite's libc;
	returns how to start it."""
	source = os.path.join(harness.PROGRAMS, name + ".c")
	flags = ["-O1", "-pthread"] + (["-static"] if static else ["-ldl"])
	if not suite:
		return [harness.compile_c(source, os.path.join(place, name), *flags)]
	inside = harness.into_suite(suite, source)
	output = inside[:-2] + ("-static" if static else "")
	subprocess.run(harness.in_suite(suite, "gcc", *flags, "-o", output, inside), check=True)
	return harness.in_suite(suite, output)


def libc_version(pid):
	"""Of the libc that a process has mapped, by what the file itself says; None for a static program."""
	with open("/proc/%d/maps" % pid) as f:
		for line in f:
			found = re.match(r"(\S+) .*/(libc\.so\.6|libc-2\.\d+\.so)$", line)
			if found:
				with open("/proc/%d/map_files/%s" % (pid, found[1]), "rb") as library:
					return re.search(rb"stable release version (\d+\.\d+)", library.read())[1].decode()
	return None


class GlibcCase(harness.Case):
	"""One program of tests/programs with one libc; the derived classes name them."""
	source, suite, static = None, None, False

	@classmethod
	def setUpClass(cls):
		place = tempfile.mkdtemp(prefix="freehold-test-")
		cls.addClassCleanup(shutil.rmtree, place)
		cls.program = build(cls.source, place, cls.suite, cls.static)

	def tell(self, argv, **popen):
		target = self.start(argv, **popen)
		story = Story(target.lines[:-1])
		story.target = target
		return story

	def memory(self, pid):
		memory = Memory(pid)
		self.addCleanup(memory.close)
		return memory

	# -- the oracles --

	def assertKnown(self, story, blocks):
		"""Every live block is live, with its chunk's start; every freed one is free, or gone."""
		for p, n in story.live:
			block = blocks.at(p)
			self.assertIsNotNone(block, "live block %#x is in no block" % p)
			self.assertEqual(block[0], p - 16, "live block %#x of %d bytes: %r" % (p, n, block))
			self.assertGreaterEqual(block[1] - p + (0 if self.is_mmapped(block) else 8), n, block)
			self.assertTrue(is_live(block), "live block %#x of %d bytes is not live: %r" % (p, n, block))
		checked, known = 0, {p - 16 for p, _ in story.live}
		for p, n in story.freed:
			block = blocks.at(p)
			if block is None or block[0] in known:
				continue  # given back to the system, or given out again
			checked += 1
			self.assertNotEqual(block[2], "uncategorized", "freed block %#x of %d bytes: %r" % (p, n, block))
		self.assertGreater(len(story.live), 100)
		self.assertGreater(checked, 100)

	def is_mmapped(self, block):
		return self.mem.word(block[0] + 8) & HEAP_FLAGS == IS_MMAPPED

	def arena_of(self, address, heaps):
		"""The address of the arena that a block of a heap belongs to; 0 is the main one."""
		for start, size, arena in heaps:
			if start <= address < start + size:
				return arena
		return 0

	def heaps(self, blocks):
		"""(start, size, arena) of each heap of an arena that is not the main one, as its heap_info says."""
		result = []
		for block in blocks.of("glibc", "arena"):
			owner, _, size = (self.mem.word(block[0] + 8 * i) for i in range(3))
			result.append((block[0], size, owner))
		return result

	def assertInfo(self, story, blocks):
		"""Bins, fastbins, top and system bytes of each arena, and mmapped chunks, as malloc_info() has them."""
		heaps = self.heaps(blocks)
		found, raw, spans = {}, {}, {}
		for block in blocks.all:
			start, end, domain, kind, detail = block
			if kind == "reserved" or not (domain == "glibc" or is_live(block)) or self.belongs_to_mmapped(block):
				continue
			arena = self.arena_of(start, heaps)
			figures = found.setdefault(arena, [0, 0, 0, 0, 0])
			figures[4] += end - start
			if kind == "free chunk" and detail.startswith("fast"):
				figures[0] += 1
				figures[1] += end - start
			elif kind == "top" or (kind == "free chunk" and not detail.startswith("tcache")):
				figures[2] += 1
				# malloc_info() sums up size words with their flags, but for top
				figures[3] += end - start + (self.mem.word(start + 8) & HEAP_FLAGS if kind != "top" else 0)
		top = max(b[0] for b in blocks.of("glibc", "top") if not self.arena_of(b[0], heaps))
		if any(start <= top < end for start, end in self.brk(story)):  # malloc counts what others took from brk,
			found[0][4] += sum(n for p, n in story.foreign if p < top)  # once it went on behind that
		self.assertEqual(sorted(map(tuple, found.values())), story.arenas())

	def assertNoDark(self, story, blocks):
		"""All of brk's memory has a name, but for what another took from it. (Of the rest, assertInfo() has the sums.)"""
		brk = self.brk(story)
		dark = [b for b in blocks.of("uncategorized", "dark") if any(s <= b[0] < e for s, e in brk)]
		expected = []
		for p, n in story.foreign:
			if expected and sum(expected[-1]) == p:  # side by side
				expected[-1] = (expected[-1][0], expected[-1][1] + n)
			else:
				expected.append((p, n))
		for start, end in brk:  # the kernel rounds up to a page
			if expected and start <= expected[-1][0] < end and end - sum(expected[-1]) < 4096:
				expected[-1] = (expected[-1][0], end - expected[-1][0])
		self.assertEqual([(b[0], b[1] - b[0]) for b in dark], expected)

	def assertTables(self, story, blocks):
		"""The tables `arena` and `bin` say what malloc_info() and the blocks say."""
		arenas = harness.freehold_json("sql", story.pid, "select * from arena order by number")["rows"]
		bins = harness.freehold_json("sql", story.pid, "select * from bin")["rows"]
		self.assertEqual([(a["fast_count"], a["fast"], a["free_count"] + 1, a["system"]) for a in arenas],
			[self.figures(story, h) for h in story.info.findall("heap")])
		self.assertEqual(sum(a["top"] for a in arenas), size_of(blocks.of("glibc", "top")))
		for a in arenas:
			own = [b for b in bins if b["arena"] == a["number"]]
			self.assertEqual(sum(b["bytes"] for b in own), a["free"] + a["fast"])
			self.assertEqual(sum(b["count"] for b in own), a["free_count"] + a["fast_count"])
		free = [b for b in blocks.of("glibc", "free chunk")]
		for name in {b["name"] for b in bins}:
			chunks = [b for b in free if b[4] == name]
			self.assertEqual(sum(b["count"] for b in bins if b["name"] == name), len(chunks), name)
			self.assertEqual(sum(b["bytes"] for b in bins if b["name"] == name), size_of(chunks), name)
		self.assertEqual(len(free), sum(b["count"] for b in bins))

	def brk(self, story):
		with open("/proc/%d/maps" % story.pid) as f:
			found = [re.match(r"(\w+)-(\w+) .*\[heap\]$", line) for line in f]
		return [(int(m[1], 16), int(m[2], 16)) for m in found if m]

	def figures(self, story, heap):
		return (*story.total(heap, "fast"), story.total(heap, "rest")[0], story.system(heap))

	def belongs_to_mmapped(self, block):
		if block[4] == "before an aligned chunk":
			return True
		return (is_live(block) or block[3] == "free chunk") and self.is_mmapped(block)

	def assertMmapped(self, story, blocks):
		count, size = story.total(story.info, "mmap")
		mapped = [b for b in blocks.all if self.belongs_to_mmapped(b)]
		self.assertEqual(sum(b[4] != "before an aligned chunk" for b in mapped), count)
		if size != size_of(mapped):  # 2.43 adds 16 bytes too many at each mremap (malloc/malloc.c, mremap_chunk)
			self.assertIn(libc_version(story.pid) or "2.43", ("2.43",))
			self.assertEqual(size - size_of(mapped), 16 * story.number("remapped"))
		return count

	def look(self, story):
		"""All oracles for one process."""
		self.mem = self.memory(story.pid)
		blocks = Blocks(story.pid)
		census = harness.census(story.pid)
		self.assertBalanced(census, story.pid)
		self.assertEqual(census["warnings"], [])
		self.assertKnown(story, blocks)
		self.assertInfo(story, blocks)
		self.assertTables(story, blocks)
		self.n_mmapped = self.assertMmapped(story, blocks)
		self.assertNoDark(story, blocks)
		allocators = [a for a in census["target"]["allocators"] if a.startswith("glibc")]
		self.assertEqual(len(allocators), 1)
		version = libc_version(story.pid)
		if version:
			self.assertEqual(allocators[0], "glibc " + version)
		return blocks


# Name, arguments of malloc_mix, tunables.
MIXES = (
	("threads", (8, 1), ""),
	("many threads", (48, 2), ""),
	("one thread", (0, 3), ""),
	("mmapped", (4, 4, "fixed", "tls"), ""),
	("fastbins", (8, 5, "fast", "trim"), ""),
	("foreign sbrk", (3, 6, "foreign"), ""),
	("no brk", (3, 7, "nobrk"), ""),
	("no brk, mmapped", (3, 8, "nobrk", "fixed", "fast"), ""),
	("forked child", (8, 9, "fork", "fast"), ""),
	("large tcache", (6, 10, "tls"), "glibc.malloc.tcache_max=262144:glibc.malloc.tcache_count=100"),
	("no tcache", (6, 11), "glibc.malloc.tcache_count=0"),
	("small heaps", (6, 12), "glibc.malloc.hugetlb=2"),
	("one arena", (6, 13, "fixed"), "glibc.malloc.arena_max=1"),
)


class MixCase(GlibcCase):
	"""The mixes with one libc; the derived classes name it."""

	def mix(self, name):
		_, arguments, tunables = [m for m in MIXES if m[0] == name][0]
		environment = dict(os.environ, **({"GLIBC_TUNABLES": tunables} if tunables else {}))
		story = self.tell(self.program + list(arguments), env=environment)
		self.look(story)
		if "fixed" in arguments:
			self.assertGreater(self.n_mmapped, 3)


def add_mixes(suite, static):
	"""A test class for one libc: one test a mix."""
	tests = {"test_" + re.sub(r"\W+", "_", m[0]): lambda self, name=m[0]: self.mix(name) for m in MIXES}
	name = "%s_%s" % (suite or "this_machine", "static" if static else "dynamic")
	return type(name, (MixCase,), dict(tests, source="malloc_mix", suite=suite, static=static,
		__module__=__name__))


class Cores(GlibcCase):
	"""A core tells the same of the heaps as the process."""
	source = "malloc_mix"

	def compare(self, *arguments):
		story = self.tell(self.program + list(arguments))
		live = Blocks(story.pid)
		core = Blocks(self.gcore(story))
		for domain in ("glibc", "uncategorized"):
			self.assertEqual(core.of(domain), live.of(domain))
		self.mem = self.memory(story.pid)
		self.assertKnown(story, core)

	def test_threads(self):
		self.compare(12, 21, "fixed")

	def test_no_brk(self):
		self.compare(2, 22, "nobrk", "fast")

	def test_forked_child(self):
		self.compare(6, 23, "fork")


class TwoLibcs(GlibcCase):
	"""Each has its own malloc; that of the second gets no memory from brk."""
	source = "two_libcs"

	def test_both_are_walked(self):
		story = self.tell(self.program)
		self.mem = self.memory(story.pid)
		self.assertKnown(story, Blocks(story.pid))
		self.assertEqual(harness.census(story.pid)["warnings"], [])


class Smashed(GlibcCase):
	"""Heaps that are damaged in one place: it is named, and what is elsewhere is right."""

	def smash(self, what, *where):
		story = self.tell(self.program + [what, *where])
		at = story.number("smashed")
		census = harness.census(story.pid, check=3)
		self.assertBalanced(census, story.pid)
		blocks = Blocks(story.pid, check=3)
		named = [int(a, 16) for warning in census["warnings"] for a in re.findall(r"0x[0-9a-f]+", warning)]
		if what == "zero":  # the size is sound; what follows is not
			self.assertTrue(any(at < a < at + 4096 for a in named), census["warnings"])
		else:
			self.assertIn(at, named)
		self.assertTrue(all(w.startswith("malloc: ") for w in census["warnings"]), census["warnings"])
		self.assertLess(len(census["warnings"]), 4)
		wrong = [p for p, n in story.live if not self.is_right(blocks.at(p), p, n)]
		wrong += [p for p, n in story.freed if is_live(blocks.at(p)) or blocks.at(p)[2] == "uncategorized"]
		self.assertLessEqual(len(wrong), 3)
		self.assertTrue(all(abs(p - at) < 4096 for p in wrong), [hex(p - at) for p in wrong])
		dark = [b for b in blocks.of("uncategorized", "dark") if b[4] == "in a damaged heap"]
		self.assertLess(size_of(dark), 2048)
		self.assertTrue(story.target.running())

	def is_right(self, block, p, n):
		return is_live(block) and block[0] == p - 16 and n <= block[1] - p + 8 < n + 48


# Every page begins like a mapped chunk that was moved, and none ends like one.
LOOK_ALIKES = "import mmap, struct\n" \
	"m = mmap.mmap(-1, 256 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n" \
	"for i in range(0, len(m), 4096): m[i:i + 16] = struct.pack('<QQ', 0, 0x100a)\n" \
	"print('READY', flush=True)\ninput()\n"


class LookAlikes(harness.Case):
	def test_time_is_bounded(self):
		"""The search behind each page for its chunk must not become the square of the pages."""
		result = harness.census(self.start(["/usr/bin/python3", "-c", LOOK_ALIKES]), timeout=40)
		self.assertBalanced(result)


def add_smashes(suite):
	tests = {}
	for what in ("text", "zero", "swallow", "link", "circle", "top"):
		for where in ((), ("thread",)):
			tests["test_%s%s" % (what, "_in_a_thread" if where else "")] = \
				lambda self, what=what, where=where: self.smash(what, *where)
	name = "smashed_" + (suite or "this_machine")
	return type(name, (Smashed,), dict(tests, suite=suite, source="malloc_smash", __module__=__name__))


for _suite in [None] + harness.suites():
	_class = add_smashes(_suite)
	globals()[_class.__name__] = _class
	for _static in (False, True):
		_class = add_mixes(_suite, _static)
		globals()[_class.__name__] = _class
del MixCase, Smashed, _class


if __name__ == "__main__":
	unittest.main()
