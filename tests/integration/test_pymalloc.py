# SPDX-License-Identifier: Apache-2.0
"""pymalloc, against what it says of itself: sys._debugmallocstats(), printed by the target right before it stands
still. No figure may differ, in no interpreter."""
import glob
import json
import os
import random
import re
import shutil
import struct
import subprocess
import unittest

import harness
from harness import add_up

MIX = os.path.join(harness.PROGRAMS, "pymalloc_mix.py")

SEGMENT = 32 << 20  # of mimalloc, whose arenas are multiples of it

# What the report calls a total, and how the census has it.
TOTALS = {
	"bytes in available blocks": lambda c: add_up(c, domain="pymalloc", kind="free block"),
	"bytes lost to pool headers": lambda c: add_up(c, domain="pymalloc", kind="pool header"),
	"bytes lost to quantization": lambda c: add_up(c, domain="pymalloc", kind="pool tail"),
	"bytes lost to arena alignment": lambda c: add_up(c, domain="pymalloc", kind="unused arena space",
		detail="alignment"),
	"bytes in unused pools": lambda c: add_up(c, domain="pymalloc", kind="free pool") +
		add_up(c, domain="pymalloc", kind="unused arena space", detail=""),
}


class Report:
	"""The report between the lines FINAL and END; those of several interpreters are added up."""

	def __init__(self, text):
		self.pools, self.free, self.totals, self.map_nodes, self.interpreters = {}, {}, {}, 0, 0
		for part in re.findall(r"^FINAL$(.*?)^END$", text, re.M | re.S):
			self.add(part)

	def add(self, text):
		self.interpreters += 1
		# class, size, pools, blocks in use, blocks available
		for size, pools, free in re.findall(r"^ *\d+ +(\d+) +(\d+) +\d+ +(\d+)$", text, re.M):
			self.pools[int(size)] = self.pools.get(int(size), 0) + int(pools)
			self.free[int(size)] = self.free.get(int(size), 0) + int(free)
		for name, value in re.findall(r"^# (bytes [a-z ]+?) +=\s+([\d,]+)$", text, re.M):
			self.totals[name] = self.totals.get(name, 0) + int(value.replace(",", ""))
		for count, size in re.findall(r"^(\d+) unused pools \* (\d+) bytes", text, re.M):
			self.totals["bytes in unused pools"] = (self.totals.get("bytes in unused pools", 0) +
				int(count) * int(size))
		self.map_nodes += sum(int(n) for n in re.findall(r"^# arena map (?:mid|bot) nodes += +(\d+)$", text, re.M))


class Pymalloc(harness.Case):
	def look(self, python, mix, env=(), argv=None, parse=Report):
		"""Starts a target; its census and its report."""
		path = os.path.join(self.directory(), "stderr")
		with open(path, "wb") as log:
			target = self.start(argv or python.argv(MIX, mix), mark=None, stderr=log,
				env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1", **dict(env)))
			if mix == "subinterpreters":
				for _ in range(3):
					target.wait_ready("SUB")
					target.process.stdin.write(b"\n")
					target.process.stdin.flush()
			try:
				target.wait_ready()
			except AssertionError as error:
				with open(path, errors="replace") as f:
					raise AssertionError("%s\n%s" % (error, f.read()[-2000:]))
		with open(path, errors="replace") as f:
			report = parse(f.read())
		harness.wait_until(lambda: all(harness.state(target.pid, t) == "S" for t in harness.threads(target.pid)),
			"pause of the target")
		census = harness.census(target, check=None)
		self.arenas = sum(m["Size"] for m in harness.smaps(target.pid)
			if not m["inode"] and m["start"] % SEGMENT == 0 and m["Size"] % SEGMENT == 0)
		self.assertBalanced(census, target.pid)
		return census, report

	def assertNoWarning(self, census):
		"""None from here: malloc has tests of its own."""
		self.assertEqual([w for w in census["warnings"] if not w.startswith("malloc:")], [])

	def assertReported(self, census, report):
		self.assertNoWarning(census)
		self.assertGreater(len(report.pools), 20, "no report")
		for name, figure in TOTALS.items():
			if name in report.totals:
				self.assertEqual(figure(census), report.totals[name], name)
		for size, free in report.free.items():
			self.assertEqual(add_up(census, "count", domain="pymalloc", kind="free block",
				detail="%d bytes" % size), free, "free blocks of %d bytes" % size)
		self.assertEqual(add_up(census, "count", domain="pymalloc", kind="pool header"),
			sum(report.pools.values()), "pools")
		self.assertEqual(add_up(census, "count", domain="pymalloc", kind="arena map"), report.map_nodes)
		self.assertEqual(add_up(census, "count", domain="pymalloc", kind="arena table"), report.interpreters)
		self.assertEqual(add_up(census, "count", domain="pymalloc", kind="damaged pool"), 0)

	def each_python(self, test, least=(2, 7), before=(4, 0)):
		pythons = [p for p in harness.pythons() if least <= version(p) < before]
		if not pythons:
			self.skipTest("no Python from %d.%d to before %d.%d here" % (least + before))
		for python in pythons:
			with self.subTest(python=python.name):
				test(python)

	def test_report(self):
		self.each_python(lambda python: self.assertReported(*self.look(python, "plain")), (3, 3))

	def test_small_heap(self):
		self.each_python(lambda python: self.assertReported(*self.look(python, "empty")), (3, 3))

	def test_threads(self):
		self.each_python(lambda python: self.assertReported(*self.look(python, "threads")), (3, 3))

	def test_frame_stacks(self):
		"""Since 3.11 each thread has a stack of frames, of 16 KiB as long as it calls no deeper than these do."""
		def test(python):
			for mix, stacks in (("plain", 1), ("threads", 9)):
				census, _ = self.look(python, mix)
				self.assertEqual(add_up(census, "count", domain="cpython", kind="frame stack"), stacks)
				self.assertEqual(add_up(census, domain="cpython", kind="frame stack"), stacks * 16384)
				self.assertNoWarning(census)
		self.each_python(test, (3, 11))

	def test_deep_calls(self):
		"""3,000 frames of the same function, of 20 locals each, lie in chunks that double."""
		def test(python):
			census, _ = self.look(python, "deep:3000")
			self.assertGreater(add_up(census, "count", domain="cpython", kind="frame stack"), 3)
			self.assertGreater(add_up(census, domain="cpython", kind="frame stack"), 3000 * 20 * 8)
			self.assertNoWarning(census)
		self.each_python(test, (3, 11))

	def test_subinterpreters(self):
		"""Each has arenas of its own since 3.12; before, they share."""
		self.each_python(lambda python: self.assertReported(*self.look(python, "subinterpreters")), (3, 12))

	def test_version(self):
		def test(python):
			census, _ = self.look(python, "empty")
			said = subprocess.run(python.argv(MIX, "version"), stdout=subprocess.PIPE, text=True, check=True).stdout
			self.assertEqual(census["target"]["runtimes"], ["cpython " + said.strip()])
			self.assertNoWarning(census)
		self.each_python(test)

	def test_version_in_read_only_data(self):
		"""Where the text of sys.version is gone, and there is no symbol (before 3.11)."""
		def test(python):
			census, _ = self.look(python, "wiped")
			said = subprocess.run(python.argv(MIX, "version"), stdout=subprocess.PIPE, text=True, check=True).stdout
			self.assertEqual(census["target"]["runtimes"], ["cpython " + said.strip()])
			self.assertNoWarning(census)
		self.each_python(test, before=(3, 11))

	def test_without_report(self):
		"""2.7 prints none: its blocks are counted before and after a known number of allocations."""
		def test(python):
			few, _ = self.look(python, "blocks:1000")
			many, _ = self.look(python, "blocks:21000")
			self.assertNoWarning(few)
			self.assertNoWarning(many)
			# 20,000 strings of 336 bytes, and the slack of what else the larger number brings
			self.assertAlmostEqual(live_bytes(many) - live_bytes(few), 20000 * 336, delta=4096)
		self.each_python(test, before=(3, 3))

	def test_debug_hooks(self):
		"""PYTHONMALLOC=debug fills the same pools with blocks that have a head and a tail."""
		def test(python):
			for name in ("debug", "pymalloc_debug"):
				self.assertReported(*self.look(python, "plain", {"PYTHONMALLOC": name}))
		self.each_python(test, (3, 7))  # 3.6 puts the hooks on malloc

	def test_malloc_instead(self):
		def test(python):
			for name in ("malloc", "malloc_debug"):
				census, _ = self.look(python, "plain", {"PYTHONMALLOC": name})
				self.assertEqual([r for r in census["rows"] if r["domain"] == "pymalloc"], [])
				self.assertNoWarning(census)
		self.each_python(test, (3, 6))

	def test_mimalloc_instead(self):
		"""What is neither free nor overhead of its segments is what it says that it gave out, to the byte."""
		def test(python):
			for name in ("mimalloc", "mimalloc_debug"):
				census, text = self.look(python, "plain", {"PYTHONMALLOC": name}, parse=str)
				given = int(re.findall(r"Allocated Bytes: (\d+)", text)[-1])
				self.assertNoWarning(census)
				self.assertEqual(self.arenas - add_up(census, domain="mimalloc"), given)
				self.assertEqual(add_up(census, "count", domain="mimalloc", kind="damaged page"), 0)
				self.assertGreater(add_up(census, "count", domain="python", kind="__main__.Slotted"), 1000)
		self.each_python(test, (3, 13))

	def test_stripped(self):
		"""Symbols are never needed."""
		self.need("strip")

		def test(python):
			if not python.suite:
				self.assertReported(*self.look_stripped(python))
		self.each_python(test, (3, 3))

	def copies(self, python):
		"""The program and its libpython, in a directory of their own: their paths, and how to start the program."""
		self.need("ldd")
		place = self.directory()
		copied = [shutil.copy(python.path, place)]
		libraries = subprocess.run(["ldd", python.path], stdout=subprocess.PIPE, text=True).stdout
		for library in re.findall(r"=> (\S*libpython\S*)", libraries):
			copied.append(shutil.copy(library, place))
		prefix = os.path.dirname(os.path.dirname(os.path.realpath(python.path)))
		return copied, {"LD_LIBRARY_PATH": place, "PYTHONHOME": prefix}

	def look_stripped(self, python):
		copied, environment = self.copies(python)
		subprocess.run(["strip", "--strip-all", *copied], check=True)
		return self.look(python, "plain", environment, argv=[copied[0], MIX, "plain"])

	def test_unknown_version(self):
		"""A version that nobody knows is named, and a layout that is true of it in all that can be checked is used."""
		def test(python):
			if python.suite:
				return
			copied, environment = self.copies(python)
			exact = subprocess.run([python.path, MIX, "version"], stdout=subprocess.PIPE, text=True).stdout.strip()
			unknown = unknown_version(exact)
			change_version(copied, exact, unknown)
			census, report = self.look(python, "plain", environment, argv=[copied[0], MIX, "plain"])
			self.assertEqual(census["target"]["runtimes"], ["cpython " + unknown])
			said = [w for w in census["warnings"] if not w.startswith("malloc:")]
			self.assertEqual(len(said), 1, said)
			self.assertIn(unknown, said[0])
			self.assertReported(dict(census, warnings=[]), report)
			self.assertGreater(add_up(census, "count", domain="python", kind="__main__.Slotted"), 1000)
		self.each_python(test, (3, 3))

	def test_refused_layout(self):
		"""A build whose cells have another size is not what the table knows: no object is named."""
		def test(python):
			if python.suite:
				return
			copied, environment = self.copies(python)
			self.assertTrue(any(enlarge_cell(path) for path in copied))
			census, report = self.look(python, "empty", environment, argv=[copied[0], MIX, "empty"])
			self.assertEqual(add_up(census, "count", domain="python"), 0)
			said = [w for w in census["warnings"] if not w.startswith("malloc:")]
			self.assertEqual(len(said), 1, said)
			self.assertIn("'cell'", said[0])
			self.assertReported(dict(census, warnings=[]), report)
		self.need("nm")
		self.each_python(test, (3, 3))

	def test_damaged_cores(self):
		"""Words of the heap are overwritten at random, many with addresses that lie in it: it still balances."""
		def test(python):
			if python.suite or version(python) not in ((3, 9), (3, 11), (3, 13)):
				return
			for name in ("pymalloc",) + (("mimalloc",) if version(python) >= (3, 13) else ()):
				target = self.start(python.argv(MIX, "plain"), stderr=subprocess.DEVNULL,
					env=dict(os.environ, PYTHONMALLOC=name))
				core = self.gcore(target)
				target.end()
				generator = random.Random(name + python.name)
				for _ in range(4):
					overwrite_words(core, generator)
					done = harness.freehold("census", core, "--all", "--format", "json", check=None)
					self.assertIn(done.returncode, (0, 3), done.stderr)
					self.assertBalanced(json.loads(done.stdout))
		self.need("gcore")
		self.each_python(test, (3, 3))

	# -- several copies --

	def libraries(self):
		"""{version: libpython} of the Pythons here."""
		self.need("ldd")
		found = [python for python in harness.pythons() if not python.suite and version(python) >= (3, 3)]
		libraries = {}
		for python in found:
			text = subprocess.run(["ldd", python.path], stdout=subprocess.PIPE, text=True).stdout
			for library in re.findall(r"=> (\S*libpython\S*)", text):
				libraries[version(python)] = library
		if len(libraries) < 2:
			self.skipTest("no two Pythons with a libpython here")
		return libraries

	def look_embedded(self, *arguments):
		program = harness.compile_c(os.path.join(harness.PROGRAMS, "embed.c"),
			os.path.join(self.directory(), "embed"), "-ldl")
		return self.look(None, "embedded", argv=[program, *arguments])

	def test_two_that_run(self):
		"""A program can have two Pythons inside, each with types and arenas of its own."""
		libraries = sorted(self.libraries().items())
		for (old, one), (new, other) in zip(libraries, libraries[1:] + libraries[:1]):
			with self.subTest(first=old, second=new):
				census, report = self.look_embedded(one, other)
				self.assertEqual(sorted(r.rsplit(".", 1)[0] for r in census["target"]["runtimes"][0].split(", ")),
					sorted("cpython %d.%d" % v for v in (old, new)))
				self.assertNoWarning(census)
				self.assertEqual(add_up(census, "count", domain="python", kind="__main__.Plain"), 1000)
				self.assertEqual(add_up(census, "count", domain="pymalloc", kind="arena table"), 2)

	def test_one_that_runs(self):
		"""The other one is only mapped, before it or after it."""
		libraries = sorted(self.libraries().items())
		for (v, one), (_, other) in zip(libraries, libraries[1:] + libraries[:1]):
			for arguments in (("-0", other, one), (one, "-0", other)):
				with self.subTest(runs=v, arguments=arguments):
					census, report = self.look_embedded(*arguments)
					self.assertTrue(census["target"]["runtimes"][0].startswith("cpython %d.%d." % v))
					self.assertEqual(len(census["target"]["runtimes"][0].split(", ")), 1)
					self.assertNoWarning(census)
					self.assertEqual(add_up(census, "count", domain="python", kind="__main__.Plain"), 500)

	def test_copied_types(self):
		"""A program that isn't position-independent has copies of the types that it refers to."""
		for v, library in sorted(self.libraries().items()):
			prefix = os.path.dirname(os.path.dirname(library))
			include = [p for p in glob.glob(prefix + "/include/python%d.%d*" % v) if os.path.exists(p + "/Python.h")]
			if not include:
				continue
			with self.subTest(version=v):
				program = harness.compile_c(os.path.join(harness.PROGRAMS, "embed_copied.c"),
					os.path.join(self.directory(), "embed"), "-no-pie", "-fno-pie", "-I" + include[0], library,
					"-Wl,-rpath," + os.path.dirname(library))
				census, _ = self.look(None, "embedded", {"PYTHONHOME": prefix}, argv=[program])
				self.assertTrue(census["target"]["runtimes"][0].startswith("cpython %d.%d." % v))
				self.assertNoWarning(census)
				self.assertEqual(add_up(census, "count", domain="python", kind="__main__.Plain"), 1000)
				self.assertGreater(add_up(census, "count", domain="pymalloc", kind="pool header"), 50)


def unknown_version(exact):
	"""A version of the same length that the table doesn't have."""
	major, minor, micro = exact.split(".")
	return ".".join((major, "5" if len(minor) == 1 else "77", micro))


def change_version(paths, exact, unknown):
	"""Lets files say another version: the text, which can be the tail of another one, and the number."""
	def number(version):
		major, minor, micro = (int(n) for n in version.split("."))
		return struct.pack("<I", major << 24 | minor << 16 | micro << 8 | 0xf0)

	for path in paths:
		with open(path, "rb") as f:
			data = f.read()
		data = re.sub(re.escape(exact.encode()) + rb"(?=\+?\0)", unknown.encode(), data)
		data = data.replace(number(exact), number(unknown))
		with open(path, "wb") as f:
			f.write(data)


def overwrite_words(core, generator):
	"""One word in 2,000 of the writable segments becomes another word's value, an address nearby, or nonsense."""
	with open(core, "r+b") as f:
		for kind, flags, offset, vaddr, filesz, _ in harness.core_segments(core):
			if kind != 1 or not flags & 2 or not filesz:
				continue
			for _ in range(max(1, filesz // 16000)):
				at = offset + generator.randrange(filesz) // 8 * 8
				f.seek(offset + generator.randrange(filesz) // 8 * 8)
				word = generator.choice((f.read(8), struct.pack("<Q", vaddr + generator.randrange(filesz)),
					struct.pack("<Q", generator.getrandbits(64)), struct.pack("<Q", generator.getrandbits(16))))
				f.seek(at)
				f.write(word)


def enlarge_cell(path):
	"""16 bytes more in tp_basicsize of PyCell_Type; False when the file doesn't define it."""
	names = subprocess.run(["nm", "-D", "--defined-only", path], stdout=subprocess.PIPE, text=True).stdout
	found = re.search(r"^([0-9a-f]+) [BDd] PyCell_Type$", names, re.M)
	if not found:
		return False
	address = int(found[1], 16) + 32
	for kind, _, offset, vaddr, filesz, _ in harness.core_segments(path):
		if kind == 1 and vaddr <= address < vaddr + filesz:
			with open(path, "r+b") as f:
				f.seek(offset + address - vaddr)
				size = struct.unpack("<Q", f.read(8))[0]
				f.seek(offset + address - vaddr)
				f.write(struct.pack("<Q", size + 16))
			return True
	return False


def version(python):
	return tuple(int(n) for n in re.search(r"python(\d+)\.(\d+)t?$", python.path).groups())


def live_bytes(census):
	"""What of the arenas is neither free nor pymalloc's own."""
	return sum(r["virtual"] for r in census["rows"] if r["domain"] in ("python", "cpython", "uncategorized"))


if __name__ == "__main__":
	unittest.main()
