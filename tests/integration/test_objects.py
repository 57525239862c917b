# SPDX-License-Identifier: Apache-2.0
"""CPython's objects by type, against what the target itself counted, on every interpreter there is."""
import json
import os
import re
import unittest

from harness import PROGRAMS, Case, add_up, census, core_segments, freehold, freehold_json, pythons, rows_by_name

SCRIPT = os.path.join(PROGRAMS, "py_objects.py")
# Each class is named by an instance of the next.
TWINS = """
import sys
class Twin(object): __slots__ = ("a",)
slotted = [Twin() for i in range(1000)]
class Twin(object): pass
others = [Twin() for i in range(1000)]
for i, twin in enumerate(others): twin.__dict__["key%d" % i] = i
sys.stdout.write("READY\\n")
sys.stdout.flush()
sys.stdin.readline()
"""
TYPE = "import sys\n" \
	"sys.stdout.write('READY %d\\n' % id(type))\nsys.stdout.flush()\nsys.stdin.readline()\n"
CHAIN = "import sys\n" \
	"classes = [type('C%d' % i, (str,), {}) for i in range(20000)]\n" \
	"for one, other in zip(classes, classes[1:]): one.__qualname__ = other('named')\n" \
	"kept = [c('x') for c in classes]\n" \
	"print('READY', flush=True)\ninput()\n"
MEASURED = (3, 13)  # the last version whose layouts are all measured; of later ones some structures are not known


class Objects(Case):
	def for_each_python(self, check):
		found = pythons()
		if not found:
			self.skipTest("no CPython here")
		for python in found:
			with self.subTest(python=python.name):
				check(python)

	def look(self, python, **popen):
		target = self.start(python.argv(SCRIPT), mark=None, **popen)
		truth = target.ready_json()
		return target, truth, census(target)

	def version(self, result):
		found = re.search(r"cpython (\d+)\.(\d+)", " ".join(result["target"]["runtimes"]))
		self.assertTrue(found, result["warnings"])
		return int(found[1]), int(found[2])

	def check_counts(self, truth, result):
		by_kind = {}
		for r in result["rows"]:
			if r["domain"] == "python":
				by_kind[r["kind"]] = by_kind.get(r["kind"], 0) + r["count"]
		for name, count in truth["classes"].items():
			self.assertEqual(by_kind.get("__main__." + name), count, name)
		if self.version(result) > MEASURED:
			return
		for name, count in truth["tracked"].items():
			kind = "collections.deque" if name == "deque" else name
			self.assertEqual(by_kind.get(kind), count, name)

	def test_counts(self):
		def check(python):
			target, truth, result = self.look(python)
			self.assertRegex(" ".join(result["target"]["runtimes"]), r"cpython \d+\.\d+\.\d+")
			self.check_counts(truth, result)
			target.end()
		self.for_each_python(check)

	def test_instance_dicts_and_buffers_have_owners(self):
		def check(python):
			target, truth, result = self.look(python)
			# Where attributes are kept differs by version, whose they are does not.
			owned = {r["kind"] for r in result["rows"] if r["detail"] == "Wide.__dict__"}
			self.assertTrue(owned & {"dict", "dict keys"}, "no table of Wide's attributes is named")
			if self.version(result) <= MEASURED:
				self.assertGreaterEqual(add_up(result, "count", domain="cpython", kind="deque block"), 43 * 4)
			for kind in ("list items", "set table", "bytearray data", "array data") if self.version(result) <= MEASURED else ():
				self.assertTrue(add_up(result, "count", domain="cpython", kind=kind) >= 40, kind)
			target.end()
		self.for_each_python(check)

	def test_little_is_uncategorized(self):
		def check(python):
			target, truth, result = self.look(python)
			heap = sum(r["virtual"] for r in result["rows"] if r["domain"] in ("python", "cpython"))
			unknown = add_up(result, "virtual", domain="uncategorized") - \
				add_up(result, "virtual", domain="uncategorized", kind="dark")
			self.assertLess(unknown, heap * 0.02)
			target.end()
		self.for_each_python(check)

	def test_other_allocators(self):
		"""PYTHONMALLOC: malloc only, and the debug hooks, which put words around every block."""
		def check(python):
			for choice in ("malloc", "debug", "malloc_debug"):
				environment = dict(os.environ, PYTHONMALLOC=choice)
				target, truth, result = self.look(python, env=environment)
				self.check_counts(truth, result)
				target.end()
		self.for_each_python(check)

	def test_names_that_have_named_types(self):
		"""To name a class is to read a string, whose type is a class with a name: the way down must end."""
		python = next((p for p in pythons() if not p.suite and "2.7" not in p.name), None) or self.skipTest("no Python 3 here")
		result = census(self.start([python.path, "-c", CHAIN]))
		named = sum(r["count"] for r in result["rows"] if r["domain"] == "python" and r["kind"].startswith("__main__.named"))
		self.assertGreater(named, 10000)

	def test_types_of_equal_names(self):
		"""What objects of one of them own says nothing of the other's."""
		def check(python):
			path = os.path.join(self.directory(), "twins.py")
			with open(path, "w") as f:
				f.write(TWINS)
			target = self.start(python.argv(path))
			result = census(target)
			self.assertEqual(add_up(result, "count", domain="python", kind="__main__.Twin"), 2000)
			self.assertEqual(add_up(result, "count", domain="python", kind="dict", detail="Twin.__dict__"), 1000)
			target.end()
		self.for_each_python(check)

	def test_damaged_type(self):
		"""Where a word of `type` is damaged no Python is found, which is said."""
		def check(python):
			if python.suite:
				return
			target = self.start(python.argv("-c", TYPE), mark=None)
			address = int(target.wait_ready())
			core = self.gcore(target)
			target.end()
			with open(core, "r+b") as f:
				for kind, _, offset, start, size, _ in core_segments(core):
					if kind == 1 and start <= address < start + size:
						f.seek(offset + address - start)
						f.write(bytes(64))
			done = freehold("census", core, "--format", "json", check=3)
			said = json.loads(done.stdout)["warnings"]
			self.assertTrue(any(re.match(r"cpython \d\.\d+\..*not found", line) for line in said), said)
		self.need("gcore")
		self.for_each_python(check)

	def test_unicode_of_two_or_four_bytes(self):
		"""Python 2.7 is built with either; the value has to be the text."""
		def check(python):
			if not re.search(r"2\.7", python.name):
				return
			path = os.path.join(self.directory(), "text.py")
			with open(path, "w") as f:
				f.write("import sys\nu = u'needle %d' % 12345\nsys.stdout.write('READY %d\\n' % id(u))\n"
					"sys.stdout.flush()\nsys.stdin.readline()\n")
			target = self.start(python.argv(path), mark=None)
			result = freehold_json("show", target.pid, int(target.wait_ready()))
			self.assertEqual(result["fields"]["value"], "u'needle 12345'")
			target.end()
		self.for_each_python(check)

	def test_base_that_is_met_later(self):
		"""What an object owns is known by its base, also when no object of that was seen before."""
		def check(python):
			path = os.path.join(self.directory(), "queues.py")
			with open(path, "w") as f:
				f.write("import collections, sys\nclass Queue(collections.deque): pass\n"
					"kept = [Queue(range(200)) for i in range(300)]\n"
					"sys.stdout.write('READY\\n')\nsys.stdout.flush()\nsys.stdin.readline()\n")
			target = self.start(python.argv(path))
			# 200 items fill three blocks of 62 or 64
			self.assertGreaterEqual(add_up(census(target), "count", domain="cpython", kind="deque block"), 900)
			target.end()
		self.for_each_python(check)

	def test_select_sees_the_same(self):
		python = pythons()[-1] if pythons() else self.skipTest("no CPython here")
		target, truth, result = self.look(python)
		selected = freehold_json("select", target.pid, "kind = '__main__.Plain'", "--all")
		self.assertEqual(len(selected["rows"]), truth["classes"]["Plain"])
		self.assertEqual(selected["total"]["count"], truth["classes"]["Plain"])
		self.assertEqual(sum(r["size"] for r in selected["rows"]),
			add_up(result, "virtual", domain="python", kind="__main__.Plain"))
		self.assertIn(("python", "__main__.Plain", ""), rows_by_name(result))


if __name__ == "__main__":
	unittest.main()
