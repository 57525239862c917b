# SPDX-License-Identifier: Apache-2.0
"""pymalloc, against what it says of itself: sys._debugmallocstats(), printed by the target right before it stands
still. No figure may differ, in no interpreter."""
import os
import re
import shutil
import subprocess
import unittest

import harness
from harness import add_up

MIX = os.path.join(harness.PROGRAMS, "pymalloc_mix.py")

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
	def look(self, python, mix, env=(), argv=None, argument=MIX):
		"""Starts a target; its census and its report."""
		path = os.path.join(self.directory(), "stderr")
		with open(path, "wb") as log:
			target = self.start(argv or python.argv(argument, mix), mark=None, stderr=log,
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
			report = Report(f.read())
		harness.wait_until(lambda: harness.state(target.pid) == "S", "pause of the target")
		census = harness.census(target, check=None)
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

	def test_stripped(self):
		"""Symbols are never needed."""
		self.need("strip", "ldd")

		def test(python):
			if not python.suite:
				self.assertReported(*self.look_stripped(python))
		self.each_python(test, (3, 3))

	def look_stripped(self, python):
		place = self.directory()
		copied = [shutil.copy(python.path, place)]
		libraries = subprocess.run(["ldd", python.path], stdout=subprocess.PIPE, text=True).stdout
		for library in re.findall(r"=> (\S*libpython\S*)", libraries):
			copied.append(shutil.copy(library, place))
		subprocess.run(["strip", "--strip-all", *copied], check=True)
		prefix = os.path.dirname(os.path.dirname(os.path.realpath(python.path)))
		return self.look(python, "plain", {"LD_LIBRARY_PATH": place, "PYTHONHOME": prefix},
			argv=[copied[0], MIX, "plain"])


def version(python):
	return tuple(int(n) for n in re.search(r"python(\d+)\.(\d+)t?$", python.path).groups())


def live_bytes(census):
	"""What of the arenas is neither free nor pymalloc's own."""
	return sum(r["virtual"] for r in census["rows"] if r["domain"] in ("python", "cpython", "uncategorized"))


if __name__ == "__main__":
	unittest.main()
