# SPDX-License-Identifier: Apache-2.0
"""Images, stacks and mappings: each address that a program knows is under its right name, and the rows of a file
are what its ELF headers and smaps say."""
import json
import os
import re
import resource
import shutil
import struct
import subprocess
import sys

import harness

PAGE = 4096
LINKED = {"pie": (), "no-pie": ("-no-pie",), "static": ("-static",), "static-pie": ("-static-pie",)}
BLOCKS = "domain in ('image', 'stack', 'os', 'uncategorized')"


def up(n):
	return -(-n // PAGE) * PAGE


def segments(path):
	"""(flags, vaddr, filesz, memsz) of every PT_LOAD."""
	return [(flags, vaddr, filesz, memsz) for kind, flags, _, vaddr, filesz, memsz in harness.core_segments(path)
		if kind == 1]


def kind_of(flags):
	return "text" if flags & 1 else "data" if flags & 2 else "rodata"


class Base(harness.Case):
	def build(self, flags, strip=False):
		self.need("cc")
		output = os.path.join(self.directory(), "places")
		if any("static" in flag for flag in flags):
			library = subprocess.run(["cc", "-print-file-name=libc.a"], stdout=subprocess.PIPE, text=True).stdout
			if not os.path.isabs(library):
				self.skipTest("no libc.a here")
		harness.compile_c(os.path.join(harness.PROGRAMS, "places.c"), output, "-pthread", *flags)
		if strip:
			self.need("strip")
			subprocess.run(["strip", output], check=True)
		return output

	def run_places(self, argv):
		target = self.start(argv, mark=None)
		facts = target.ready_json()
		wait = "not all threads came to rest"
		harness.wait_until(lambda: all(harness.state(target.pid, t) == "S" for t in harness.threads(target.pid)), wait)
		return target, facts

	def blocks(self, target):
		"""Of a Target or the path of a core."""
		status = 0 if hasattr(target, "pid") else None  # something is missing in most cores
		rows = harness.freehold_json("select", getattr(target, "pid", target), BLOCKS, "--limit", 0, check=status)["rows"]
		return [(int(r["start"], 16), int(r["end"], 16), r["domain"], r["kind"], r["detail"]) for r in rows]

	def assertNamed(self, blocks, start, size, domain, kind, detail=None):
		"""Every byte of a range is in blocks of this name."""
		at = start
		while at < start + size:
			found = [b for b in blocks if b[0] <= at < b[1]]
			self.assertEqual(len(found), 1, "blocks at %#x" % at)
			self.assertEqual(found[0][2:4], (domain, kind), "at %#x of %#x+%#x: %r" % (at, start, size, found[0]))
			if detail is not None:
				self.assertEqual(found[0][4], detail)
			at = found[0][1]

	def extent(self, blocks, domain, detail, kinds=None):
		found = [b for b in blocks if b[2] == domain and b[4] == detail and (kinds is None or b[3] in kinds)]
		self.assertTrue(found, (domain, detail))
		self.assertEqual(sum(b[1] - b[0] for b in found), found[-1][1] - found[0][0], "one piece: %r" % found)
		return found[0][0], found[-1][1] - found[0][0]

	def check_variables(self, blocks, facts, left_out=()):
		for name, kind in (("initialised", "data"), ("zeroed", "bss"), ("constant", "rodata"), ("main", "text")):
			if kind not in left_out:
				self.assertNamed(blocks, *facts[name], "image", kind, "places")
		for name, kind in (("code", "anonymous code"), ("shared", "shared memory"), ("memfd", "shared memory"),
				("reserved", "reserved")):
			self.assertNamed(blocks, *facts[name], "os", kind)
		self.assertNamed(blocks, *facts["named"], "uncategorized", "dark")
		if facts["name_works"]:
			self.assertNamed(blocks, *facts["named"], "uncategorized", "dark", "[anon:the pool]")

	def stack_pointer(self, target, tid):
		"""Of a thread that sleeps in a system call, from the kernel."""
		def words():
			with open("/proc/%d/task/%d/syscall" % (target.pid, tid)) as f:
				return f.read().split()
		harness.wait_until(lambda: len(words()) > 2, "thread %d to be back in its call" % tid)  # "running" until then
		return int(words()[-2], 16)

	def check_thread(self, blocks, target, thread, tid):
		detail = "thread %d" % tid
		self.assertNamed(blocks, *thread["deep"], "stack", "used", detail)
		self.assertNamed(blocks, *thread["local"], "stack", "thread control block", detail)
		self.assertEqual(list(self.extent(blocks, "stack", detail)), thread["stack"])
		used = [b for b in blocks if b[3] == "used" and b[4] == detail]
		self.assertEqual(used[0][0], self.stack_pointer(target, tid) - 128)
		guards = [b for b in blocks if b[3] == "guard" and b[4] == detail]
		self.assertEqual(sum(b[1] - b[0] for b in guards), thread["guard"])
		for guard in guards:
			self.assertEqual(guard[1], thread["stack"][0])

	def check_stacks(self, blocks, target, facts):
		self.assertNamed(blocks, *facts["deep"], "stack", "used", "main")
		self.assertNamed(blocks, *facts["local"], "stack", "thread control block", "main")
		stack = next(m for m in harness.smaps(target.pid) if m["path"] == "[stack]")
		self.assertEqual(self.extent(blocks, "stack", "main", ("used", "unused")),
			(stack["start"], stack["end"] - stack["start"]))
		used = next(b for b in blocks if b[3] == "used" and b[4] == "main")
		self.assertEqual(used[0], self.stack_pointer(target, target.pid) - 128)
		# A target in another PID namespace would know its threads by other numbers; these don't.
		self.assertEqual(len(facts["threads"]), 6)
		for thread in facts["threads"]:
			self.check_thread(blocks, target, thread, thread["tid"])
		limit = resource.getrlimit(resource.RLIMIT_STACK)[0]
		kept = [b for b in blocks if b[2:5] == ("stack", "kept", "ended threads")]
		self.assertEqual(len(kept), 2)
		if limit != resource.RLIM_INFINITY:
			self.assertEqual(sum(b[1] - b[0] for b in kept), 2 * up(limit))

	def check_all(self, argv):
		target, facts = self.run_places(argv)
		result = harness.census(target)
		self.assertBalanced(result, target.pid)
		self.assertEqual(result["warnings"], [])
		blocks = self.blocks(target)
		self.check_variables(blocks, facts)
		self.check_stacks(blocks, target, facts)
		# What else is dark: nothing but the mapping that only the program knows.
		dark = harness.add_up(result, kind="dark")
		self.assertEqual(dark, facts["named"][1], [b for b in blocks if b[3] == "dark"])


class Places(Base):
	def test_linked_in_every_way(self):
		for name, flags in LINKED.items():
			for strip in (False, True):
				with self.subTest(name, stripped=strip):
					self.check_all([self.build(flags, strip)])

	def test_without_randomised_addresses(self):
		self.need("setarch")
		for name, flags in LINKED.items():
			with self.subTest(name):
				self.check_all(["setarch", "-R", self.build(flags)])

	def test_started_by_the_loader(self):
		loader = "/lib64/ld-linux-x86-64.so.2"
		if not os.path.exists(loader):
			self.skipTest("no %s here" % loader)
		self.check_all([loader, self.build(())])

	def test_other_suites(self):
		"""Other versions of glibc, in a mount namespace of their own."""
		if not harness.suites():
			self.skipTest("no trees of other suites here (tests/matrix/make-suite makes them, as root)")
		for suite in harness.suites():
			source = harness.into_suite(suite, os.path.join(harness.PROGRAMS, "places.c"))
			if not os.path.exists(os.path.join(harness.MATRIX, suite, "usr/bin/gcc")):
				self.skipTest("no compiler in %s" % suite)
			folder = "/tmp/places-%d" % os.getpid()
			self.addCleanup(shutil.rmtree, os.path.join(harness.MATRIX, suite, folder[1:]), True)
			for flags in ("", "-static", "-static -s"):
				with self.subTest(suite, flags=flags):
					command = "mkdir -p %s && gcc -O1 -pthread %s -o %s/places %s" % (folder, flags, folder, source)
					subprocess.run(harness.in_suite(suite, "sh", "-c", command), check=True)
					self.check_all(harness.in_suite(suite, folder + "/places"))

	def test_replaced_and_deleted_program(self):
		for replaced in (True, False):
			with self.subTest(replaced=replaced):
				program = self.build(())
				target, facts = self.run_places([program])
				other = program + ".new"
				shutil.copy("/bin/sh", other)
				os.rename(other, program)
				if not replaced:
					os.unlink(program)
				result = harness.census(target)
				self.assertBalanced(result, target.pid)
				blocks = self.blocks(target)
				self.check_variables(blocks, facts)
				self.check_stacks(blocks, target, facts)


class Cores(Base):
	"""The same names come out of a core, where no mapping but a file has a name and nothing says what is shared."""

	def check_threads(self, blocks, facts):
		self.assertNamed(blocks, *facts["deep"], "stack", "used", "main")
		self.assertNamed(blocks, *facts["local"], "stack", "thread control block", "main")
		for thread in facts["threads"]:
			detail = "thread %d" % thread["tid"]
			self.assertNamed(blocks, *thread["deep"], "stack", "used", detail)
			self.assertNamed(blocks, *thread["local"], "stack", "thread control block", detail)
			self.assertEqual(list(self.extent(blocks, "stack", detail)), thread["stack"])
			guards = [b for b in blocks if b[3] == "guard" and b[4] == detail]
			self.assertEqual(sum(b[1] - b[0] for b in guards), thread["guard"])

	def test_gcore(self):
		for name, flags in LINKED.items():
			with self.subTest(name):
				target, facts = self.run_places([self.build(flags)])
				target.stop()
				live = self.blocks(target)
				blocks = self.blocks(self.gcore(target))
				self.check_variables(blocks, facts, left_out=("text", "rodata"))
				self.check_threads(blocks, facts)
				missing = {b[2:4] for b in set(live) - set(blocks)}
				self.assertLessEqual(missing, {("image", "text"), ("image", "rodata"), ("os", "vvar"), ("os", "vgetrandom")})
				self.assertEqual(set(blocks) - set(live), set())

	def test_kernel_core(self):
		for name, flags in LINKED.items():
			for gone in (False, True):
				with self.subTest(name, program_gone=gone):
					program = self.build(flags)
					core, target = self.kernel_core([program])
					facts = json.loads(target.lines[-1][len("READY"):])
					if gone:
						os.unlink(program)
					result = harness.freehold_json("census", core, check=None)
					self.assertBalanced(result)
					self.assertEqual(any(program in warning for warning in result["warnings"]), gone)
					blocks = self.blocks(core)
					self.check_variables(blocks, facts)
					self.check_threads(blocks, facts)


class Images(harness.Case):
	def expected(self, maps):
		"""{(name, kind): virtual} of the files that are mapped executable, by their ELF headers."""
		result = {}
		for path in {m["path"] for m in maps if "x" in m["perms"] and m["path"].startswith("/")}:
			for flags, vaddr, filesz, memsz in segments(path):
				start, end = vaddr // PAGE * PAGE, up(vaddr + memsz)
				data_end = vaddr + filesz if memsz > filesz else end
				for kind, size in ((kind_of(flags), data_end - start), ("bss", end - data_end)):
					key = (os.path.basename(path), kind)
					if size:
						result[key] = result.get(key, 0) + size
		return result

	def check(self, target):
		result = harness.census(target)
		maps = harness.smaps(target.pid)
		self.assertBalanced(result, target.pid)
		found = {(r["detail"], r["kind"]): r for r in result["rows"] if r["domain"] == "image" and r["kind"] != "loader data"}
		self.assertEqual({k: r["virtual"] for k, r in found.items()}, self.expected(maps))
		for name in {name for name, _ in found}:
			text = [m for m in maps if os.path.basename(m["path"]) == name and "x" in m["perms"]]
			self.assertEqual(found[name, "text"]["resident"], sum(m["Rss"] for m in text), name)
			private = [m for m in maps if os.path.basename(m["path"]) == name]
			resident = sum(found[n, kind]["resident"] for n, kind in found if n == name and kind != "bss")
			self.assertLessEqual(resident, sum(m["Rss"] for m in private), name)
			self.assertGreaterEqual(resident, sum(m["Rss"] for m in private) - PAGE, name)  # bss begins in a page of data
		return result

	def test_rows_are_what_the_headers_say(self):
		program = "import ctypes, decimal, json, socket, ssl, sqlite3, time; print('READY', flush=True); time.sleep(600)"
		for argv in ([sys.executable, "-c", program], ["perl", "-MPOSIX", "-e", '$| = 1; print "READY\\n"; sleep 600']):
			with self.subTest(argv[0]):
				self.need(argv[0])
				self.check(self.start(argv))

	def test_a_program_that_is_only_read(self):
		"""An ELF file that is mapped as data is no image."""
		program = ("import mmap, time\nf = open('/bin/ls', 'rb')\nm = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\n"
			"print('READY', m[0], flush=True)\ntime.sleep(600)")
		target = self.start([sys.executable, "-c", program])
		rows = harness.rows_by_name(harness.census(target))
		path = next(m["path"] for m in harness.smaps(target.pid) if m["path"].endswith("/ls"))
		self.assertEqual(rows["os", "file mapping", path]["virtual"], up(os.path.getsize("/bin/ls")))
		self.assertFalse([key for key in rows if key[0] == "image" and key[2] == "ls"])


if __name__ == "__main__":
	import unittest
	unittest.main()
