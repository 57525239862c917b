# SPDX-License-Identifier: Apache-2.0
"""Core files of perl in which something is wrong: named with an address, exit status 3, and what is left adds up."""
import os
import random
import re
import shutil
import struct
import unittest

import harness
from harness import add_up, freehold_json, rows_by_name
from perls import HEAD, PerlCase, interpreters, owned

SCRIPT = """
	our @objects = map { bless {number => $_, list => [1 .. 5], text => "text $_"}, 'In::Object' } 1 .. 3000;
	our @code = map { my $n = $_; sub { $n++ } } 1 .. 100;
	our $text = 'x' x 5000; $text =~ /x/g; our %table = map { ("key $_" => $_) } 1 .. 3000;
	use Scalar::Util 'weaken'; our @weak = @objects; weaken($_) for @weak;
	ready();"""
STRANGE = (0, 1, 8, 0xff, 0x7fffffff, 0xffffffff, 1 << 31, (1 << 47) - 8, 1 << 47, (1 << 64) - 1, 0xdeadbeefdeadbeef)
FUZZ = 25
SWEEP = 40


class Core:
	"""A core file that can be read and written by the addresses of the process."""

	def __init__(self, path):
		self.path = path
		self.loads = [(vaddr, size, offset) for kind, _, offset, vaddr, size, _ in harness.core_segments(path) if kind == 1]
		self.file = open(path, "r+b", buffering=0)

	def place(self, address):
		for vaddr, size, offset in self.loads:
			if vaddr <= address < vaddr + size:
				return offset + address - vaddr
		raise ValueError("%#x is not in the core file" % address)

	def write(self, address, data):
		os.pwrite(self.file.fileno(), data, self.place(address))

	def word(self, address):
		return struct.unpack("<Q", os.pread(self.file.fileno(), 8, self.place(address)))[0]

	def write_word(self, address, value):
		self.write(address, struct.pack("<Q", value & (1 << 64) - 1))

	def write_half(self, address, value):
		self.write(address, struct.pack("<I", value & 0xffffffff))

	def end_segment(self, address):
		"""Leaves out what follows an address in its segment, as when the kernel was told to write less."""
		header = os.pread(self.file.fileno(), 64, 0)
		table, size, number = struct.unpack_from("<Q", header, 32)[0], *struct.unpack_from("<HH", header, 54)
		for at in range(table, table + size * number, size):
			vaddr, _, length = struct.unpack("<QQQ", os.pread(self.file.fileno(), 24, at + 16))
			if vaddr <= address < vaddr + length:
				os.pwrite(self.file.fileno(), struct.pack("<Q", address - vaddr), at + 32)

	def replace(self, old, new):
		"""Everywhere; returns how often."""
		data = os.pread(self.file.fileno(), os.path.getsize(self.path), 0)
		for found in re.finditer(re.escape(old), data):
			os.pwrite(self.file.fileno(), new, found.start())
		return data.count(old)


class Damage(PerlCase):
	@classmethod
	def setUpClass(cls):
		cls.made = None

	@classmethod
	def tearDownClass(cls):
		if cls.made:
			cls.made[0].end()
			shutil.rmtree(os.path.dirname(cls.made[1]), True)

	def damaged(self):
		"""A copy of the core file to be damaged, and what the oracle found in the living process."""
		cls = type(self)
		if not cls.made:
			self.need("gcore", "perl")
			target = self.run_perl(self.system_perl(), SCRIPT)
			self._cleanups = [c for c in self._cleanups if c[0] != target.end] # it is for all tests
			path = self.gcore(target)
			place = harness.tempfile.mkdtemp(prefix="freehold-test-")
			cls.made = target, shutil.move(path, place + "/core"), interpreters(target.pid)[0]
		path = os.path.join(self.directory(), "core")
		shutil.copy(cls.made[1], path)
		core = Core(path)
		self.addCleanup(core.file.close)
		return core, cls.made[2]

	def census(self, core, status):
		done = harness.freehold("census", core.path, "--all", "--format", "json", check=None)
		self.assertIn(done.returncode, status if isinstance(status, tuple) else (status,), done.stderr)
		result = harness.json.loads(done.stdout)
		self.assertBalanced(result)
		if done.returncode == 3:
			self.assertTrue(result["warnings"])
			self.assertIn("warning", done.stderr)
		return result

	def assertNamed(self, core, words, address=None):
		"""The census says what is wrong in these words and where."""
		result = self.census(core, 3)
		found = [w for w in result["warnings"] if re.search(words, w)]
		self.assertTrue(found, result["warnings"])
		self.assertRegex(" ".join(found), hex(address) if address else "0x[0-9a-f]{6,}")
		return result

	def values(self, result):
		return sum(r["count"] for r in result["rows"] if r["domain"] == "perl" and r["kind"] == "hash"
			and r["detail"] == "In::Object")

	def test_nothing(self):
		core, found = self.damaged()
		result = self.census(core, 0)
		self.assertEqual(self.values(result), 3000)
		self.assertValues(result, [found])

	# -- the chain of arenas --

	def test_arenas_in_a_ring(self):
		core, found = self.damaged()
		last = found.arenas[-1][0]
		core.write_word(last, found.arenas[0][0])
		self.assertNamed(core, "perl 5.*arena", found.arenas[0][0])

	def test_arena_that_is_its_own_next(self):
		core, found = self.damaged()
		core.write_word(found.arenas[2][0], found.arenas[2][0])
		self.assertNamed(core, "perl 5.*arena", found.arenas[2][0])

	def test_arena_that_is_nowhere(self):
		core, found = self.damaged()
		core.write_word(found.arenas[3][0], 0x123456789000)
		self.assertNamed(core, "perl 5.*arena", 0x123456789000)

	def test_arena_of_absurd_size(self):
		for slots in 0, 1, 1000, 65536, 0x7fffffff, 0xffffffff:
			with self.subTest(slots=slots):
				core, found = self.damaged()
				core.write_half(found.arenas[4][0] + 8, slots)
				self.assertNamed(core, "perl 5.*(arena|says)")

	def test_count_is_wrong(self):
		for wrong in found_plus(1000), found_plus(-1000), lambda found: 1 << 62, lambda found: 1:
			core, found = self.damaged()
			core.write_word(found.count_at, wrong(found))
			result = self.assertNamed(core, "perl 5.*says")
			self.assertEqual(self.values(result), 0)

	def test_count_is_zero(self):
		core, found = self.damaged()
		core.write_word(found.count_at, 0)
		self.census(core, (0, 3))

	def test_values_of_a_type_that_no_version_has(self):
		core, found = self.damaged()
		for address in list(found.flags)[:40]:
			core.write_half(address + 12, 0x1e)
		self.assertNamed(core, "perl 5.*says")

	# -- what the interpreter points to --

	def test_body_arenas_in_a_ring(self):
		"""The set of body arenas is found by what it holds: {next, size, used, {chunk, bytes, type}[]}."""
		core, found = self.damaged()
		rows = freehold_json("select", core.path, "kind = 'arena set'", "--limit", 0)["rows"]
		self.assertTrue(rows)
		at = int(rows[0]["start"], 16) + 8
		core.write_word(at, at)
		self.census(core, (0, 3))
		core.write_half(at + 12, 0x7fffffff)
		self.assertNamed(core, "perl 5.*body arenas")

	def test_op_slabs_are_garbage(self):
		core, _ = self.damaged()
		rows = freehold_json("select", core.path, "domain = 'perl' and kind = 'op'", "--limit", 0)["rows"]
		ops = sorted(int(row["start"], 16) for row in rows)
		self.assertGreater(len(ops), 100)
		for at in ops[10::40]:
			core.write_word(at, 0xffffffffffffffff)
		self.assertNamed(core, "perl 5.*op slabs")

	def test_op_slabs_of_random_bytes(self):
		core, _ = self.damaged()
		rows = freehold_json("select", core.path, "domain = 'perl' and kind = 'op'", "--limit", 0)["rows"]
		chance = random.Random(36)
		for row in rows[::3]:
			core.write(int(row["start"], 16), chance.randbytes(row["size"]))
		self.assertNamed(core, "perl 5.*op slabs")

	def test_each_word_of_the_interpreter(self):
		"""Whatever one of its words is, what is there adds up."""
		core, found = self.damaged()
		rows = freehold_json("select", core.path, "kind = 'interpreter'", "--limit", 0)["rows"]
		start, size = int(rows[0]["start"], 16), rows[0]["size"]
		chance = random.Random(5)
		addresses = list(found.flags)
		for n in range(SWEEP):
			core, _ = self.damaged()
			for _ in range(chance.choice((1, 5, 50))):
				at = start + chance.randrange(8, size - 8, 8)
				core.write_word(at, chance.choice(STRANGE + (chance.choice(addresses), start)))
			self.census(core, (0, 3))

	# -- what values point to --

	def choose(self, core, kind, number, chance, detail=None):
		rows = freehold_json("select", core.path, "domain = 'perl' and kind = '%s'" % kind +
			(" and detail = '%s'" % detail if detail is not None else ""), "--limit", 0)["rows"]
		self.assertTrue(rows, kind)
		return [row for row in chance.sample(rows, min(number, len(rows)))]

	def test_heads_lead_anywhere(self):
		"""Bodies and what they own overlap, are nowhere, or are other things."""
		core, found = self.damaged()
		chance = random.Random(12)
		addresses = list(found.flags)
		for address in chance.sample(addresses, 3000):
			core.write_word(address + chance.choice((0, 16)), chance.choice(STRANGE + (chance.choice(addresses),)))
		result = self.census(core, (0, 3))
		self.assertValues(result, [found])

	def test_blocks_hold_anything(self):
		kinds = ("body", "hash entry", "hash buckets", "array items", "magic", "glob data", "pad", "stack", "handle",
			"regexp data", "package data")
		for kind in kinds:
			with self.subTest(kind=kind):
				core, found = self.damaged()
				chance = random.Random(kind)
				addresses = list(found.flags)
				for row in self.choose(core, kind, 500, chance):
					start = int(row["start"], 16) + 7 & ~7
					for at in range(start, start + min(row["size"] - 8, 400), 8):
						if chance.random() < 0.5:
							core.write_word(at, chance.choice(STRANGE + (chance.choice(addresses), start, at)))
				self.census(core, (0, 3))

	def test_entries_in_a_ring(self):
		core, _ = self.damaged()
		for row in self.choose(core, "hash entry", 2000, random.Random(3)):
			start = int(row["start"], 16)
			core.write_word(start, start)
		self.census(core, (0, 3))

	def test_random_damage(self):
		"""Words of the heap replaced by others, as a wild pointer of the program might do."""
		chance = random.Random(1987)
		for n in range(FUZZ):
			core, found = self.damaged()
			addresses = list(found.flags)
			heap = next(load for load in core.loads if load[0] <= found.count_at < load[0] + load[1])
			for _ in range(chance.choice((10, 200, 5000))):
				at = heap[0] + chance.randrange(0, heap[1], 8)
				core.write_word(at, chance.choice(STRANGE + (chance.choice(addresses), heap[0], at)))
			self.census(core, (0, 3))

	# -- the file, and the version --

	def test_cut_in_the_middle_of_an_arena(self):
		"""The kernel writes what it says of the process first, so a file that is cut still has it."""
		path, _ = self.kernel_core(["perl", "-e", SCRIPT.replace("ready()", "$| = 1; print qq(READY\\n); sleep 1000")])
		rows = freehold_json("select", path, "kind = 'arena header' and detail = 'heads'", "--limit", 0)["rows"]
		core = Core(path)
		self.addCleanup(core.file.close)
		arenas = sorted((int(row["start"], 16) for row in rows), key=core.place)
		self.assertGreater(len(arenas), 20)
		named = 0
		for n in (0.9, 0.6, 0.3, 0): # ever shorter
			core.file.truncate(core.place(arenas[int(n * len(arenas))]) + HEAD * 50 + 4)
			warnings = self.census(core, 3)["warnings"]
			self.assertTrue([w for w in warnings if "perl" in w], warnings)
			named += any(re.search("perl 5.* at 0x[0-9a-f]+: .*at 0x", w) for w in warnings)
		self.assertGreaterEqual(named, 1)

	def test_segment_that_ends_in_the_middle_of_an_arena(self):
		core, found = self.damaged()
		start = sorted(found.arenas)[len(found.arenas) // 2][0]
		core.end_segment(start + HEAD * 50 + 4)
		self.assertNamed(core, "perl 5.*at 0x[0-9a-f]+: ")

	def test_unknown_version(self):
		core, _ = self.damaged()
		version = re.search(r"perl (5\.\d+)\.\d+", " ".join(self.census(core, 0)["target"]["runtimes"]))[1]
		self.assertGreater(core.replace(b"v%s." % version.encode(), b"v5.99."), 0)
		result = self.census(core, 0)
		self.assertRegex(" ".join(result["warnings"]), r"perl 5\.99\.\d+, a version that is not known.*malloc")
		self.assertEqual(result["target"]["runtimes"], [])
		self.assertEqual(add_up(result, "count", domain="perl"), 0)
		self.assertGreater(add_up(result, "virtual", domain="uncategorized"), 2 << 20)
		self.assertEqual(add_up(result, "virtual", domain="uncategorized", kind="dark"), 0)
		self.assertIn(("glibc", "top", ""), rows_by_name(result))


def found_plus(more):
	return lambda found: found.sv_count + more


if __name__ == "__main__":
	unittest.main(verbosity=2)
