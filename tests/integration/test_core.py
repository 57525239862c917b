# SPDX-License-Identifier: Apache-2.0
"""Core files: the same census as the process they were made of, and one clear line for what is none."""
import os
import resource
import shutil
import struct
import unittest

import harness
from harness import Case, census, core_segments, freehold

PT_LOAD, PT_NOTE = 1, 4
PYTHON = "/usr/bin/python3"
MANY_FILES = "import ctypes, decimal, lzma, sqlite3, ssl, array, mmap; print('READY', flush=True); input()"
PROGRAM = "keep = [str(i) for i in range(20000)]; big = bytearray(10**6); print('READY', flush=True); input()"


def names(row):
	return row["domain"], row["kind"], row["detail"]


def without_files(result):
	"""Rows by name with count and size, but for what comes from files and may be left out, and what the kernel puts in no
	core: vvar, and droppable pages."""
	return {names(r): (r["count"], r["virtual"]) for r in result["rows"]
		if names(r)[:2] not in (("image", "text"), ("image", "rodata"), ("os", "file mapping"), ("os", "vvar"),
			("os", "vgetrandom"))}


class Cores(Case):
	def load_sizes(self, path):
		return sum(s[5] for s in core_segments(path) if s[0] == PT_LOAD)

	def check_balance(self, path, result):
		total = self.load_sizes(path)
		self.assertEqual(result["os"], {"virtual": total, "resident": None, "swapped": None})
		self.assertEqual(result["total"]["virtual"], total)
		self.assertEqual(sum(r["virtual"] for r in result["rows"]), total)
		self.assertEqual(result["target"]["source"], "core")
		self.assertIsNone(result["pause_ms"])

	def held(self):
		self.need(PYTHON)
		return self.start([PYTHON, "-c", PROGRAM])

	def test_gcore_equals_live(self):
		target = self.held()
		target.stop()
		live = census(target)
		path = self.gcore(target)
		core = census(path)
		self.check_balance(path, core)
		self.assertEqual(core["target"]["pid"], target.pid)
		self.assertEqual(core["target"]["runtimes"], live["target"]["runtimes"])
		self.assertEqual(core["target"]["allocators"], live["target"]["allocators"])
		self.assertEqual(without_files(core), without_files(live))

	def test_kernel_core(self):
		path, target = self.kernel_core([PYTHON, "-c", PROGRAM])
		core = census(path)
		self.check_balance(path, core)
		self.assertTrue(core["target"]["runtimes"])
		self.assertGreaterEqual(harness.add_up(core, "count", domain="python", kind="str"), 20000)

	def test_files_that_cannot_be_checked(self):
		"""Without the pages that hold build-ids (bit 4 of the filter, core(5)) names have to do, and that is said."""
		path, _ = self.kernel_core([PYTHON, "-c", PROGRAM], core_filter=0x3)
		result = census(path)
		said = [w for w in result["warnings"] if "no build-id" in w]
		self.assertEqual(len(said), 1, result["warnings"])
		self.assertRegex(said[0], r"^/\S+ and [1-9]\d* more: ")
		self.assertEqual(sum(r["virtual"] for r in result["rows"]), result["os"]["virtual"])

	def test_each_python(self):
		for python in harness.pythons():
			if python.suite:
				continue
			with self.subTest(python=python.name):
				script = os.path.join(harness.PROGRAMS, "py_objects.py")
				target = self.start(python.argv(script))
				target.stop()
				live, core = census(target), census(self.gcore(target))
				self.assertEqual(without_files(core), without_files(live))
				target.end()

	def test_truncated(self):
		target = self.held()
		path = self.gcore(target)
		size = os.path.getsize(path)
		cut = os.path.join(self.directory(), "cut")
		for part in (0.9, 0.5, 0.1, 0.02):
			with self.subTest(part=part):
				shutil.copy(path, cut)
				os.truncate(cut, int(size * part))
				done = freehold("census", cut, "--format", "json", check=None)
				self.assertIn(done.returncode, (1, 3))
				if done.returncode == 3:
					import json
					self.check_balance(cut, json.loads(done.stdout))
					self.assertIn("cut short", done.stderr)
				else:
					self.assert_one_line(done)

	def test_every_short_length(self):
		"""Cut anywhere in its headers: a line or a census, never a crash."""
		target = self.held()
		path = self.gcore(target)
		with open(path, "rb") as f:
			head = f.read(20000)
		cut = os.path.join(self.directory(), "cut")
		for length in list(range(0, 200, 7)) + list(range(200, 20000, 997)):
			with open(cut, "wb") as f:
				f.write(head[:length])
			done = freehold("census", cut, check=None)
			self.assertIn(done.returncode, (1, 3), (length, done.stderr[-300:]))

	def test_exe_and_sysroot(self):
		"""A program that moved is found where it is said to be, and one with another build-id is not used."""
		program = harness.compile_c(os.path.join(harness.PROGRAMS, "places.c"), os.path.join(self.directory(), "places"),
			"-pthread")
		target = self.start([program])
		path = self.gcore(target)
		target.end()
		root = self.directory()
		moved = os.path.join(root, program.lstrip("/"))
		os.makedirs(os.path.dirname(moved))
		os.rename(program, moved)
		shutil.copy("/bin/true", program)  # another program at its place
		self.assertIn("build-id", freehold("census", path, check=None).stderr)
		self.assertNotIn("build-id", freehold("census", path, "--exe", moved, check=None).stderr)
		self.assertNotIn("build-id", freehold("census", path, "--sysroot", root, check=None).stderr)
		for option in ("--exe", "--sysroot"):
			done = freehold("census", path, option, os.path.join(root, "nothing"), check=1)
			self.assert_one_line(done)
			self.assertIn("nothing: ", done.stderr)

	def test_few_files_may_be_open(self):
		"""More files are mapped than descriptors are left: the same census, text that gcore left out included."""
		self.need(PYTHON)
		target = self.start([PYTHON, "-c", MANY_FILES])
		path = self.gcore(target)
		few = census(path, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8)))
		self.assertEqual(few["warnings"], [])
		self.assertSameRows(few, census(path), ("count", "virtual"))

	def assert_one_line(self, done):
		self.assertEqual(done.stdout, "")
		self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
		self.assertTrue(done.stderr.startswith("freehold: "), done.stderr)


def elf(kind=4, machine=62, cls=2, data=1, headers=(), phnum=None, body=b"", phentsize=56):
	"""A 64-bit ELF file: header, program headers, then `body` at the offset behind them."""
	ident = b"\x7fELF" + bytes([cls, data, 1]) + bytes(9)
	order = "<" if data == 1 else ">"
	head = ident + struct.pack(order + "HHIQQQIHHHHHH", kind, machine, 1, 0, 64, 0, 0, 64, phentsize,
		len(headers) if phnum is None else phnum, 64, 0, 0)
	return head + b"".join(struct.pack("<IIQQQQQQ", t, f, o, v, 0, fs, ms, 4096) for t, f, o, v, fs, ms in headers) + body


def note(kind, payload, name=b"CORE\0"):
	return struct.pack("<III", len(name), len(payload), kind) + name + bytes(-len(name) % 4) + payload + bytes(-len(payload) % 4)


class Refused(Case):
	"""One line: what, why, what to do; exit status 1."""

	def refuse(self, content, *words):
		path = os.path.join(self.directory(), "file")
		with open(path, "wb") as f:
			f.write(content)
		self.refuse_path(path, *words)

	def refuse_path(self, path, *words):
		done = freehold("census", path, check=1)
		self.assertEqual(done.stdout, "")
		self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
		for word in words:
			self.assertIn(word, done.stderr)

	def test_not_there(self):
		self.refuse_path("/no/such/file", "No such file")

	def test_directory_and_device(self):
		self.refuse_path("/tmp", "directory")
		self.refuse_path("/dev/zero", "regular")
		fifo = os.path.join(self.directory(), "fifo")
		os.mkfifo(fifo)
		self.refuse_path(fifo, "regular")

	def test_empty_and_short(self):
		self.refuse(b"", "empty")
		self.refuse(b"\x7fELF", "too short")

	def test_text(self):
		self.refuse(b"hello, this is no core file at all\n" * 10, "not a core file")

	def test_program(self):
		self.refuse_path("/bin/true", "program or library", "not a core")

	def test_compressed(self):
		self.refuse(b"\x28\xb5\x2f\xfd" + bytes(100), "zstd -d")
		self.refuse(b"\x1f\x8b\x08" + bytes(100), "gzip -d")

	def test_other_machines(self):
		self.refuse(elf(machine=183), "aarch64")
		self.refuse(elf(machine=3, cls=1), "i386", "32 bits")
		self.refuse(elf(machine=struct.unpack(">H", struct.pack("<H", 22))[0], data=2)[:200] + bytes(64), "only 64-bit x86-64")

	def test_no_headers(self):
		self.refuse(elf(), "no program headers")
		self.refuse(elf(headers=[(PT_LOAD, 6, 0, 0x1000, 0, 0)]), "no memory")
		self.refuse(elf(headers=[(PT_LOAD, 6, 0, 0x1000, 0, 4096)], phentsize=8), "damaged")


class Absurd(Case):
	"""Headers that can't be true: a census that balances over what makes sense, and a warning."""

	def look(self, content, status):
		path = os.path.join(self.directory(), "core")
		with open(path, "wb") as f:
			f.write(content)
		done = freehold("census", path, "--format", "json", check=status)
		if status == 1:
			return None, done
		import json
		result = json.loads(done.stdout)
		self.assertEqual(sum(r["virtual"] for r in result["rows"]), result["os"]["virtual"])
		return result, done

	def test_enormous_sizes(self):
		for size in (1 << 60, (1 << 64) - 1, 1 << 63):
			result, done = self.look(elf(headers=[(PT_LOAD, 6, 4096, 0x10000, size, size), (PT_LOAD, 6, 512, 0x400000, 4096, 4096)],
				body=bytes(8192)), 3)
			self.assertEqual(result["os"]["virtual"], 4096)
			self.assertIn("left out", done.stderr)

	def test_enormous_but_possible(self):
		"""A terabyte that nothing was dumped of."""
		result, _ = self.look(elf(headers=[(PT_LOAD, 6, 512, 0x10000000, 0, 1 << 40)], body=bytes(4096)), 0)
		self.assertEqual(result["os"]["virtual"], 1 << 40)

	def test_a_file_over_what_the_core_has(self):
		"""What was in memory counts where the list of files claims that a file was mapped there."""
		place = self.directory()
		mapped, path = os.path.join(place, "mapped"), os.path.join(place, "core")
		with open(mapped, "wb") as f:
			f.write(b"F" * 8192)
		payload = note(0x46494c45, struct.pack("<QQQQQ", 1, 4096, 0xf000, 0x11000, 0) + mapped.encode() + b"\0")
		start = 64 + 2 * 56
		headers = [(PT_NOTE, 0, start, 0, len(payload), 0), (PT_LOAD, 6, start + len(payload), 0x10000, 4096, 4096)]
		with open(path, "wb") as f:
			f.write(elf(headers=headers, body=payload + b"C" * 4096))
		self.assertIn("|CCCCCCCCCCCCCCCC|", freehold("hexdump", path, "0x10000", 16, check=None).stdout)
		self.assertIn("|FFFFFFFFFFFFFFFF|", freehold("hexdump", path, "0xf000", 16, check=None).stdout)

	def test_beyond_the_file(self):
		result, done = self.look(elf(headers=[(PT_LOAD, 6, 1 << 50, 0x10000, 8192, 8192)]), 3)
		self.assertEqual(result["os"]["virtual"], 8192)
		self.assertIn("cut short", done.stderr)

	def test_overlapping_and_unordered(self):
		result, done = self.look(elf(headers=[(PT_LOAD, 6, 512, 0x14000, 4096, 0x4000), (PT_LOAD, 6, 512, 0x10000, 4096, 0x6000),
			(PT_LOAD, 6, 512, 0x8000, 4096, 0x1000)], body=bytes(8192)), 3)
		self.assertEqual(result["os"]["virtual"], 0x1000 + 0x8000)
		self.assertIn("overlap", done.stderr)

	def test_no_end_of_overlaps(self):
		"""One message for all of a kind: tens of thousands would say nothing, and take their time."""
		headers = [(PT_LOAD, 6, 512, 0x10000 + 4096 * i, 8192, 8192) for i in range(40000)]
		headers += [(PT_LOAD, 6, 512, 0x400000 + i, 1 << 60, 1 << 60) for i in range(20000)]
		result, done = self.look(elf(headers=headers, body=bytes(8192)), 3)
		self.assertEqual(result["os"]["virtual"], 40001 * 4096)
		self.assertIn("39999 segments in all overlap", done.stderr)
		self.assertIn("20000 segments in all claim", done.stderr)
		self.assertLess(len(done.stderr.splitlines()), 10)

	def test_file_larger_than_memory(self):
		result, _ = self.look(elf(headers=[(PT_LOAD, 6, 512, 0x10000, 8192, 4096)], body=bytes(16384)), 0)
		self.assertEqual(result["os"]["virtual"], 4096)

	def test_a_thousand_notes(self):
		notes = b"".join(note(i % 7, bytes(i % 50)) for i in range(1000))
		headers = [(PT_NOTE, 0, 64 + 56 * 2, 0, len(notes), 0), (PT_LOAD, 6, 0, 0x10000, 4096, 4096)]
		result, _ = self.look(elf(headers=headers, body=notes + bytes(4096)), 0)
		self.assertEqual(result["os"]["virtual"], 4096)

	def test_notes_without_end(self):
		"""Each of many note segments has the same bytes of the file: what is read of them is bounded in all."""
		notes = note(7, bytes(8)) * 300000
		n = 50000
		headers = [(PT_NOTE, 0, 64 + 56 * (n + 1), 0, len(notes), 0)] * n + [(PT_LOAD, 6, 0, 0x10000, 4096, 4096)]
		result, done = self.look(elf(headers=headers, body=notes), 3)
		self.assertEqual(result["os"]["virtual"], 4096)
		self.assertIn("notes are longer than they can be", done.stderr)

	def test_wrong_everywhere(self):
		"""What is wrong in each of many segments is said once, with the number of others."""
		headers = [(PT_LOAD, 6, 0, 0x10000 + i * 4096, 8192, 8192) for i in range(60000)]
		result, done = self.look(elf(headers=headers), 3)
		self.assertEqual(result["os"]["virtual"], 60001 * 4096)
		self.assertLess(len(done.stderr.splitlines()), 10)

	def test_unaligned(self):
		"""Writable segments of a file, where allocators are looked for, that begin at any byte."""
		files = struct.pack("<QQ", 1, 4096) + struct.pack("<QQQ", 0x10003, 0x20003, 0) + b"/nowhere\0"
		payload = note(0x46494c45, files)
		headers = [(PT_NOTE, 0, 64 + 56 * 2, 0, len(payload), 0), (PT_LOAD, 6, 1, 0x10003, 16000, 16001)]
		result, _ = self.look(elf(headers=headers, body=payload + bytes(16384)), 0)
		self.assertEqual(result["os"]["virtual"], 16001)

	def test_a_thousand_times_the_same_notes(self):
		"""Each is a thread: memory for them must not be the product of two numbers in the file."""
		notes = note(1, bytes(336)) * 1000
		headers = [(PT_NOTE, 0, 64 + 56 * 1001, 0, len(notes), 0)] * 1000 + [(PT_LOAD, 6, 0, 0x10000, 4096, 4096)]
		result, done = self.look(elf(headers=headers, body=notes + bytes(4096)), 3)
		self.assertEqual(result["os"]["virtual"], 4096)
		self.assertLessEqual(result["target"]["threads"], 2000)
		self.assertIn("notes are longer than they can be", done.stderr)

	def test_notes_that_lie(self):
		for payload in (note(0x46494c45, struct.pack("<QQ", 1 << 60, 4096)), struct.pack("<III", 5, 0xffffffff, 1) + b"CORE\0\0\0\0",
				struct.pack("<III", 0xfffffff0, 4, 1) + bytes(64), note(1, bytes(400)), note(3, bytes(10))):
			headers = [(PT_NOTE, 0, 64 + 56 * 2, 0, len(payload), 0), (PT_LOAD, 6, 0, 0x10000, 100, 4096)]
			path = os.path.join(self.directory(), "core")
			with open(path, "wb") as f:
				f.write(elf(headers=headers, body=payload))
			done = freehold("census", path, check=None)
			self.assertIn(done.returncode, (0, 3), done.stderr)

	def test_escapes_in_paths(self):
		evil = b"/tmp/\x1b[31mred\x07\n\0"
		files = struct.pack("<QQ", 1, 4096) + struct.pack("<QQQ", 0x10000, 0x11000, 0) + evil
		payload = note(0x46494c45, files)
		headers = [(PT_NOTE, 0, 64 + 56 * 2, 0, len(payload), 0), (PT_LOAD, 4, 0, 0x10000, 100, 4096)]
		path = os.path.join(self.directory(), "core")
		with open(path, "wb") as f:
			f.write(elf(headers=headers, body=payload))
		for form in ("text", "csv", "json"):
			done = freehold("census", path, "--all", "--format", form, check=None)
			self.assertIn("red", done.stdout)
			for stream in (done.stdout, done.stderr):
				self.assertNotIn("\x1b", stream)
				self.assertNotIn("\x07", stream)


if __name__ == "__main__":
	unittest.main()
