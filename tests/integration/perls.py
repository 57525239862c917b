# SPDX-License-Identifier: Apache-2.0
"""What the tests of Perl share: the perls there are, and the oracle that counts the values in a perl's memory.

The oracle knows two things of every perl since 5.28: four immortal values lie side by side in struct interpreter, and
56 bytes before the first of them is sv_count, followed by the chains of free heads and of arenas. So it finds
interpreters in a way that is not that of the program under test, and takes nothing from its layouts.
"""
import glob
import os
import re
import struct

import harness
from test_balance import BalanceCase

# The numbers of types since 5.22: SVt_NULL, IV, NV, PV, INVLIST ... (sv.h); PVOBJ came in 5.38.
KINDS = ("scalar", "scalar", "scalar", "scalar", "invlist", "scalar", "scalar", "scalar", "regexp", "glob", "lvalue",
	"array", "hash", "code", "format", "io", "object")
HEAD = 24
PAGE = 4096
FREED = 0xff
IMMORTAL = b"[\xff\x00][\x7f\x80]"  # the upper half of a reference count of about half of what it can be
IMMORTALS = re.compile(IMMORTAL + b"(?=" + (b".{22}" + IMMORTAL) * 3 + b")", re.DOTALL)
YES_FROM_COUNT = 56
FREE_FROM_COUNT = 8
ROOT_FROM_COUNT = 16
UNKNOWN = "a version that is not known|of a version that"


def perls():
	"""Every perl there is: the distribution's, those of perlbrew and plenv, those of the other suites."""
	result = []
	if os.path.exists("/usr/bin/perl"):
		result.append(harness.Interpreter("system", "/usr/bin/perl"))
	for pattern in "~/perl5/perlbrew/perls/*/bin/perl", "~/.plenv/versions/*/bin/perl":
		for path in sorted(glob.glob(os.path.expanduser(pattern))):
			result.append(harness.Interpreter(path.split("/")[-3], path))
	for suite in harness.suites():
		if os.path.exists(os.path.join(harness.MATRIX, suite, "usr/bin/perl")):
			result.append(harness.Interpreter(suite, "/usr/bin/perl", suite))
	return result


# ---- what memory holds -----------------------------------------------------------------------------------------


class Memory:
	"""The memory of a process, kept open; it has to stand still."""

	def __init__(self, pid):
		self.pid = pid
		self.file = open("/proc/%d/mem" % pid, "rb", buffering=0)

	def __enter__(self):
		return self

	def __exit__(self, *_):
		self.file.close()

	def read(self, address, size):
		data = os.pread(self.file.fileno(), size, address)
		if len(data) != size:
			raise OSError("short read at %#x" % address)
		return data

	def read_rest(self, address, size):
		"""The same; what can't be read, such as guard pages in a mapping, is zero."""
		try:
			return self.read(address, size)
		except OSError:
			pages = (self.page(at) for at in range(address, address + size, PAGE))
			return b"".join(pages)

	def page(self, address):
		try:
			return self.read(address, PAGE)
		except OSError:
			return bytes(PAGE)

	def word(self, address):
		return struct.unpack("<Q", self.read(address, 8))[0]

	def writable(self):
		for mapping in harness.smaps(self.pid):
			if mapping["perms"].startswith("rw") and mapping["Anonymous"] and not mapping["path"].startswith("[v"):
				yield mapping["start"], self.read_rest(mapping["start"], mapping["end"] - mapping["start"])


class PerlMemory:
	"""One interpreter: where its count is, its arenas as (address, slots), and its values by kind."""

	def __init__(self, memory, count_at):
		self.count_at = count_at
		self.root_at = count_at + ROOT_FROM_COUNT
		self.sv_count = memory.word(count_at)
		self.arenas = []
		self.kinds = {}
		self.flags = {}  # of each value, by address
		at = memory.word(self.root_at)
		while at:
			following, slots = struct.unpack("<QI", memory.read(at, 12))
			if not 1 < slots <= 65536 or len(self.arenas) > 1 << 24:
				raise OSError("no arena at %#x" % at)
			self.arenas.append((at, slots))
			heads = memory.read(at, HEAD * slots)
			for place, (flags,) in enumerate(struct.iter_unpack("<12xI8x", heads)):
				if place and flags & 0xff != FREED:
					kind = KINDS[flags & 0xff] if flags & 0xff < len(KINDS) else "?"
					self.kinds[kind] = self.kinds.get(kind, 0) + 1
					self.flags[at + HEAD * place] = flags
			at = following
		self.freeing = self.count_freeing(memory)

	def count_freeing(self, memory):
		"""Heads that are freed because of a destructor that runs: they have no type any more, and are not free yet."""
		free, at = 0, memory.word(self.count_at + FREE_FROM_COUNT)
		slots = sum(slots - 1 for _, slots in self.arenas)
		while at and free <= slots:
			free, at = free + 1, memory.word(at)
		return slots - free - sum(self.kinds.values())


def interpreters(pid):
	"""Every interpreter in a process that stands still, by address; what it says of itself is held to agree."""
	result = []
	with Memory(pid) as memory:
		for start, data in memory.writable():
			for match in IMMORTALS.finditer(data):
				count_at = start + match.start() - 10 - YES_FROM_COUNT
				if count_at % 8:
					continue
				try:
					found = PerlMemory(memory, count_at)
				except (OSError, OverflowError):
					continue
				if found.arenas and found.sv_count == sum(found.kinds.values()) + found.freeing:
					result.append(found)
	return result


# ---- the base of every test of Perl ----------------------------------------------------------------------------


class PerlCase(BalanceCase):
	maxDiff = None

	def for_each_perl(self, check, at_most=None):
		found = perls()[:at_most]
		if not found:
			self.skipTest("no perl here")
		for perl in found:
			with self.subTest(perl=perl.name):
				check(perl)

	def system_perl(self):
		self.need("perl")
		return harness.Interpreter("system", "perl")

	def launch(self, perl, program, *args, **popen):
		"""Starts tests/programs/PROGRAM.pl, and waits until it has said READY and stopped itself."""
		target = self.start(perl.argv(os.path.join(harness.PROGRAMS, program + ".pl"), *args), mark=None, **popen)
		target.truth = target.ready_json()
		self.wait_stopped(target)
		return target

	def run_perl(self, perl, script, **popen):
		"""The same for a script given as text, that calls ready() at some time."""
		path = os.path.join(self.directory(), "script.pl")
		with open(path, "w") as f:
			f.write("BEGIN { $| = 1; alarm 60 } sub ready { syswrite STDOUT, qq(READY\\n); kill STOP => $$ }\n" + script)
		target = self.start(perl.argv(path), **popen)
		self.wait_stopped(target)
		return target

	def wait_stopped(self, target):
		harness.wait_until(lambda: not target.running() or harness.state(target.pid) == "T", "the target stops itself")
		self.assertTrue(target.running(), target.error_text())

	def look(self, target, *options):
		"""A balanced census of a perl that stands still, whose values are counted right."""
		result = self.balance(target.pid, *options)
		self.assertKnown(result)
		self.assertValues(result, interpreters(target.pid))
		return result

	def assertKnown(self, result):
		self.assertNotRegex(" ".join(result["warnings"]), UNKNOWN)
		self.assertRegex(" ".join(result["target"]["runtimes"]), r"perl 5\.\d+\.\d+", result["warnings"])

	def assertValues(self, result, found):
		"""The rows have as many values of each kind as the interpreters' memory has."""
		self.assertTrue(found, "the oracle finds no interpreter")
		expected = {}
		for one in found:
			for kind, count in one.kinds.items():
				expected[kind] = expected.get(kind, 0) + count
		self.assertEqual(values(result), expected)
		self.assertEqual(sum(values(result).values()), sum(one.sv_count - one.freeing for one in found))
		runtimes = " ".join(result["target"]["runtimes"])
		number = re.search(r"(\d+) interpreters", runtimes)
		self.assertEqual(int(number[1]) if number else 1, len(found), runtimes)


def values(result):
	"""How many values of each kind the rows have."""
	counts = {}
	for row in result["rows"]:
		if row["domain"] == "perl" and row["kind"] in KINDS:
			counts[row["kind"]] = counts.get(row["kind"], 0) + row["count"]
	return counts


def owned(result, detail, *kinds):
	"""(count, bytes) of the rows with this detail and one of these kinds."""
	rows = [r for r in result["rows"] if r["domain"] == "perl" and r["detail"] == detail and r["kind"] in kinds]
	return sum(r["count"] for r in rows), sum(r["virtual"] for r in rows)
