# SPDX-License-Identifier: Apache-2.0
"""What `show` says of CPython's objects, against what the target itself says of them, on every interpreter there is."""
import csv
import io
import json
import os
import re
import unittest

from harness import PROGRAMS, Case, freehold, freehold_json, pythons

SCRIPT = os.path.join(PROGRAMS, "py_show.py")
# Objects whose words behind the header were overwritten, each with another pattern.
SPOILED = """
import collections, ctypes, gc, os, struct, sys
class Plain(object):
	def __init__(self): self.a = 1
class Slotted(object):
	__slots__ = ("a", "b")
makers = (list, dict, set, bytearray, collections.deque, Plain, Slotted, Exception, lambda: (lambda: 1), lambda: "t" * 50,
	lambda: b"t" * 50, lambda: (1, 2, 3) * len(sys.argv), lambda: type("T", (object,), {}), lambda: compile("1", "f", "eval"),
	lambda: collections.OrderedDict(a=1), lambda: 1 << 200, lambda: type(sys)("m"))
gc.disable()
kept, writes = [], []
for pattern in (2**64 - 1, 2**40, None):
	for make in makers:
		thing = make()
		kept.append(thing)
		word = struct.pack("<Q", id(thing) if pattern is None else pattern)
		writes.append((id(thing) + 16, word * (type(thing).__basicsize__ // 8 - 2)))
		if isinstance(thing, Plain) and sys.version_info >= (3, 11):
			writes.append((id(thing) - 32, word * 2))  # the managed words
ready = ("READY " + " ".join(hex(id(thing)) for thing in kept) + "\\n").encode()
move, write, read, leave = ctypes.memmove, os.write, os.read, os._exit
for at, data in writes:
	move(at, data, len(data))
write(1, ready)
read(0, 1)
leave(0)
"""
MOST_SHOWN = 24
UTF8 = dict(os.environ, LC_ALL="C.UTF-8")


class Show(Case):
	maxDiff = None

	def for_each_python(self, check):
		found = pythons()
		if not found:
			self.skipTest("no CPython here")
		for python in found:
			with self.subTest(python=python.name):
				target = self.start(python.argv(SCRIPT), mark=None)
				check(target, target.ready_json())
				target.end()

	def fields(self, target, expected):
		return freehold_json("show", target.pid, hex(expected["id"]))["fields"]

	def attributes(self, fields):
		return {name[1:]: value for name, value in fields.items() if name.startswith(".")}

	def check_attributes(self, expected, fields):
		shown = self.attributes(fields)
		if "attributes" in expected:
			self.assertEqual(shown, expected["attributes"])
			if shown or "value" not in expected:
				self.assertEqual(fields["attributes"], str(len(shown)))
			self.assertNotIn("more attributes", fields)
		if "total" in expected:
			self.assertEqual(fields["attributes"], str(expected["total"]))
			n = sum(name[0] in ".[" for name in fields)
			self.assertLessEqual(n, MOST_SHOWN)
			self.assertEqual(n + int(fields.get("more attributes", 0)), expected["total"])
		for name, value in expected.get("some", {}).items():
			self.assertEqual(shown.get(name), value, name)

	def test_objects(self):
		def check(target, truth):
			for name, expected in truth.items():
				with self.subTest(name):
					fields = self.fields(target, expected)
					self.assertEqual(int(fields["object"], 16), expected["id"])
					self.assertEqual(fields["type"].rpartition(".")[2], expected["type"])
					self.check_attributes(expected, fields)
					for key, value in expected.get("fields", {}).items():
						self.assertEqual(fields.get(key), value, key)
					if "value" in expected:
						self.assertEqual(fields.get("value"), expected["value"])
					if "length" in expected:
						self.assertEqual(fields.get("length"), str(expected["length"]))
					if "starts" in expected:
						self.assertTrue(fields["value"].startswith(expected["starts"]), fields["value"])
						self.assertTrue(fields["value"].endswith(("...", "...]")), fields["value"])
		self.for_each_python(check)


class Notation(Case):
	def test_each_format(self):
		"""A value is escaped once, in text, JSON and CSV, and what the printing adds is of no harm to a terminal."""
		python = next((p for p in pythons() if not p.suite and "2.7" not in p.name), None) or self.skipTest("no Python 3 here")
		target = self.start(python.argv(SCRIPT), mark=None)
		truth = target.ready_json()
		target.stop()
		seen = 0
		for name, expected in truth.items():
			if not name.startswith("value"):
				continue
			with self.subTest(name):
				value = expected["value"]
				address = hex(expected["id"])
				self.assertEqual(freehold_json("show", target.pid, address)["fields"]["value"], value)
				text = freehold("show", target.pid, address, env=UTF8).stdout
				self.assertEqual(re.search(r"(?m)^value +(.*)$", text)[1], value)
				cells = dict(csv.reader(io.StringIO(freehold("show", target.pid, address, "--format", "csv").stdout)))
				self.assertEqual(cells["value"].lstrip("'") if value[0] == "-" else cells["value"], value)
				seen += "\\" in value
		self.assertGreater(seen, 5)
		odd = truth["odd names"]
		text = freehold("show", target.pid, hex(odd["id"])).stdout
		for key, value in odd["fields"].items():
			self.assertRegex(text, r"(?m)^%s +%s$" % (re.escape(key), value))

	def test_spoiled_objects(self):
		"""Nothing that is in an object makes its fields fail or go on without end."""
		tried = 0
		for python in pythons():
			if python.suite or "2.7" in python.name:
				continue
			with self.subTest(python.name):
				target = self.start([python.path, "-c", SPOILED], mark=None)
				for address in target.wait_ready().split():
					done = freehold("show", target.pid, address, "--format", "json", check=None)
					self.assertIn(done.returncode, (0, 3), done.stderr)
					self.assertLess(len(done.stdout), 1 << 16)
					json.loads(done.stdout)
					tried += 1
				target.end()
		if not tried:
			self.skipTest("no Python 3 here")


if __name__ == "__main__":
	unittest.main()
