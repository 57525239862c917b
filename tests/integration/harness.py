# SPDX-License-Identifier: Apache-2.0
"""What the integration tests share: targets to look at, the program under test, and the oracles of the OS.

A test file is a `test_<part>.py` beside this one with classes derived from `Case`. It runs alone as well:

	python3 tests/integration/test_core.py [Class[.test]]

The program is $FREEHOLD, by default build/freehold. What the machine lacks is a skip with its reason, never a
silent pass. Everything that a test starts or writes is gone after it, also when it failed.
"""
import atexit
import glob
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FREEHOLD = os.path.abspath(os.environ.get("FREEHOLD", os.path.join(TOP, "build", "freehold")))
PROGRAMS = os.path.join(TOP, "tests", "programs")
WORKLOADS = os.path.join(TOP, "tests", "workloads")
MATRIX = os.environ.get("FREEHOLD_MATRIX", "/var/cache/freehold-matrix")
FIGURES = ("virtual", "resident", "swapped")
PATIENCE = 120  # seconds until something that hangs is an error; far above what anything takes


# ---- targets ---------------------------------------------------------------------------------------------------


class Target:
	"""A process that a test started. `lines` is what it printed up to its READY line, that included."""

	def __init__(self, argv, **popen):
		popen.setdefault("stdin", subprocess.PIPE)
		popen.setdefault("stderr", subprocess.PIPE)
		self.errors = tempfile.TemporaryFile() if popen["stderr"] == subprocess.PIPE else None
		if self.errors:
			popen["stderr"] = self.errors
		self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, **popen)
		self.pid = self.process.pid
		self.argv = argv
		self.lines = []

	def wait_ready(self, mark="READY"):
		"""Reads lines until one starts with `mark`; returns the rest of that line."""
		line = self.read_line()
		while not line.startswith(mark):
			line = self.read_line()
		return line[len(mark):].strip()

	def ready_json(self, mark="READY"):
		return json.loads(self.wait_ready(mark) or "{}")

	def read_line(self):
		line = self.process.stdout.readline()
		if not line:
			code = self.process.wait()
			raise AssertionError("%r ended with %d before it was ready: %s" % (self.argv, code, self.error_text()))
		line = line.decode(errors="replace").rstrip("\n")
		self.lines.append(line)
		return line

	def error_text(self):
		if not self.errors:
			return ""
		self.errors.seek(0)
		return self.errors.read().decode(errors="replace")[-2000:]

	def ask(self, line, mark="READY"):
		"""Hands the target a line on its standard input and waits for its answer."""
		self.process.stdin.write(line.encode() + b"\n")
		self.process.stdin.flush()
		return self.wait_ready(mark)

	def stop(self):
		"""SIGSTOP, and waits until every thread stands."""
		os.kill(self.pid, signal.SIGSTOP)
		wait_until(lambda: all(state(self.pid, t) in "Tt" for t in threads(self.pid)), "stop of %d" % self.pid)

	def settle(self, seconds=2):
		"""Gives it time to fall asleep after it said READY: it may still touch memory on its way there."""
		end = time.monotonic() + seconds
		while self.running() and state(self.pid) == "R" and time.monotonic() < end:
			time.sleep(0.01)

	def resume(self):
		os.kill(self.pid, signal.SIGCONT)

	def running(self):
		return self.process.poll() is None

	def end(self):
		"""Kills it, whatever it does, and frees what we hold of it."""
		if self.process.poll() is None:
			self.process.kill()
		self.process.wait()
		for stream in (self.process.stdin, self.process.stdout, self.errors):
			if stream:
				try:
					stream.close()
				except BrokenPipeError:
					pass


def wait_until(condition, what, seconds=PATIENCE):
	end = time.monotonic() + seconds
	while not condition():
		if time.monotonic() > end:
			raise AssertionError("waited %d s in vain: %s" % (seconds, what))
		time.sleep(0.01)


def threads(pid):
	return [int(t) for t in os.listdir("/proc/%d/task" % pid)]


def children(pid):
	result = []
	for tid in threads(pid):
		with open("/proc/%d/task/%d/children" % (pid, tid)) as f:
			result += map(int, f.read().split())
	return result


def state(pid, tid=None):
	"""The letter of /proc/PID/stat: R S D T t Z ..."""
	with open("/proc/%d/task/%d/stat" % (pid, tid or pid)) as f:
		return f.read().rpartition(")")[2].split()[0]


def status(pid):
	"""/proc/PID/status as a dictionary of strings."""
	with open("/proc/%d/status" % pid) as f:
		return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


# ---- what the OS says ------------------------------------------------------------------------------------------


def smaps(pid):
	"""One dictionary a mapping: start, end, perms, path, and every field of smaps in bytes (VmFlags is a list)."""
	result = []
	with open("/proc/%d/smaps" % pid, errors="replace") as f:
		for line in f:
			head = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ (\d+) *(.*)", line)
			if head:
				result.append({"start": int(head[1], 16), "end": int(head[2], 16), "perms": head[3],
					"inode": int(head[4]), "path": head[5]})
				continue
			name, _, value = line.partition(":")
			words = value.split()
			if name == "VmFlags":
				result[-1][name] = words
			elif len(words) == 2 and words[1] == "kB":
				result[-1][name] = int(words[0]) * 1024
	return result


def os_figures(pid):
	"""The three figures of a census, as smaps has them now."""
	return add_smaps(smaps(pid))


def add_smaps(maps):
	return {"virtual": sum(m["Size"] for m in maps), "resident": sum(m["Rss"] for m in maps),
		"swapped": sum(m["Swap"] for m in maps)}


def core_segments(path):
	"""(p_type, p_flags, p_offset, p_vaddr, p_filesz, p_memsz) of each program header of a 64-bit ELF file."""
	import struct
	with open(path, "rb") as f:
		header = f.read(64)
		phoff, shoff = struct.unpack_from("<QQ", header, 32)
		phentsize, phnum = struct.unpack_from("<HH", header, 54)
		if phnum == 0xffff:  # PN_XNUM: the number is sh_info of section 0
			f.seek(shoff + 44)
			phnum = struct.unpack("<I", f.read(4))[0]
		f.seek(phoff)
		table = f.read(phentsize * phnum)
	result = []
	for i in range(phnum):
		kind, flags, offset, vaddr, _, filesz, memsz, _ = struct.unpack_from("<IIQQQQQQ", table, i * phentsize)
		result.append((kind, flags, offset, vaddr, filesz, memsz))
	return result


# ---- the program under test ------------------------------------------------------------------------------------


def freehold(*args, check=0, timeout=PATIENCE * 3, under=(), **run):
	"""Runs the program, as an argument of the command `under`; check=None accepts any exit status.
	Returns the CompletedProcess (text)."""
	run.setdefault("stdin", subprocess.DEVNULL)
	done = subprocess.run([*under, FREEHOLD, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
		timeout=timeout, text=True, errors="surrogateescape", **run)
	if check is not None and done.returncode != check:
		raise AssertionError("freehold %s: exit status %d, not %d\n%s%s" % (" ".join(map(str, args)), done.returncode,
			check, done.stdout[-1000:], done.stderr[-3000:]))
	return done


def freehold_json(*args, **run):
	return json.loads(freehold(*args, "--format", "json", **run).stdout)


def census(target, *args, **run):
	"""The census of a process id, Target or core file as the JSON contract has it."""
	return freehold_json("census", getattr(target, "pid", target), "--all", *args, **run)


def rows_by_name(result):
	return {(r["domain"], r["kind"], r["detail"]): r for r in result["rows"]}


def add_up(result, figure="virtual", **names):
	"""The sum of a figure over the rows with these names: add_up(c, "count", domain="python", kind="dict")."""
	return sum(r[figure] for r in result["rows"] if all(r[k] == v for k, v in names.items()))


# ---- interpreters ----------------------------------------------------------------------------------------------


class Interpreter:
	"""A Python to be looked at. `suite` names the root tree it lives in, None is this machine's."""

	def __init__(self, name, path, suite=None):
		self.name, self.path, self.suite = name, path, suite

	def __repr__(self):
		return self.name

	def argv(self, script, *args):
		"""How to start it with a script of this repository. A script for another suite is copied into its /tmp."""
		if not self.suite:
			return [self.path, script, *map(str, args)]
		return in_suite(self.suite, self.path, into_suite(self.suite, script), *map(str, args))


def pythons():
	"""Every CPython there is: pyenv's versions, the distribution's, those of the other suites."""
	result = []
	for path in sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python[23].*"))):
		if re.search(r"/python[23]\.\d+t?$", path):
			result.append(Interpreter("pyenv " + path.split("/")[-3], path))
	for path in sorted(glob.glob("/usr/bin/python[23].*")):
		if re.search(r"/python[23]\.\d+t?$", path):
			result.append(Interpreter("system " + os.path.basename(path)[len("python"):], path))
	for suite in suites():
		for path in sorted(glob.glob(os.path.join(MATRIX, suite, "usr/bin/python[23].*"))):
			if re.search(r"/python[23]\.\d+t?$", path):
				inside = path[len(os.path.join(MATRIX, suite)):]
				result.append(Interpreter("%s %s" % (suite, os.path.basename(path)[len("python"):]), inside, suite))
	return result


def suites():
	"""The other Debian suites that tests/matrix/make-suite has made here. Only root can enter them."""
	if os.getuid() != 0:
		return []
	return sorted(os.path.basename(os.path.dirname(os.path.dirname(p)))
		for p in glob.glob(os.path.join(MATRIX, "[a-z]*/etc/freehold-matrix")))


def in_suite(suite, *argv):
	return [os.path.join(TOP, "tests", "matrix", "run-in"), suite, *argv]


def into_suite(suite, path):
	"""Copies a file into a suite's /tmp and returns its path in there."""
	name = "freehold-%d-%s" % (os.getpid(), os.path.basename(path))
	place = os.path.join(MATRIX, suite, "tmp", name)
	shutil.copy(path, place)
	_copied.append(place)
	return "/tmp/" + name


_copied = []


@atexit.register
def _remove_copied():
	for place in _copied:
		try:
			os.unlink(place)
		except OSError:
			pass


def compile_c(source, output, *flags, compiler="cc"):
	subprocess.run([compiler, "-O1", "-g0", "-Wall", "-o", output, source, *flags], check=True, timeout=PATIENCE)
	return output


# ---- the base of every test ------------------------------------------------------------------------------------


class Case(unittest.TestCase):
	def setUp(self):
		if not os.access(FREEHOLD, os.X_OK):
			self.fail("%s is not there: ninja -C build, or set FREEHOLD" % FREEHOLD)

	def directory(self):
		"""A directory of the test's own."""
		path = tempfile.mkdtemp(prefix="freehold-test-")
		self.addCleanup(shutil.rmtree, path, True)
		return path

	def start(self, argv, mark="READY", **popen):
		"""Starts a target and waits until it printed a line that starts with `mark` (None: doesn't wait)."""
		target = Target([str(a) for a in argv], **popen)
		self.addCleanup(target.end)
		if mark:
			target.wait_ready(mark)
			target.settle()
		return target

	def start_program(self, name, *args, flags=(), **popen):
		"""Compiles tests/programs/NAME.c and starts it."""
		program = compile_c(os.path.join(PROGRAMS, name + ".c"), os.path.join(self.directory(), name), *flags)
		return self.start([program, *args], **popen)

	def need(self, *commands):
		for command in commands:
			if not shutil.which(command):
				self.skipTest("no %s here" % command)

	def need_root(self, why):
		if os.getuid() != 0:
			self.skipTest("needs root: " + why)

	def gcore(self, target, name="core"):
		"""A core file made by gdb's gcore. A stopped target stays stopped."""
		self.need("gcore")
		prefix = os.path.join(self.directory(), name)
		done = subprocess.run(["gcore", "-o", prefix, str(target.pid)], stdin=subprocess.DEVNULL,
			stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE * 3)
		path = "%s.%d" % (prefix, target.pid)
		self.assertTrue(os.path.exists(path), done.stdout)
		return path

	def kernel_core(self, argv, mark="READY", core_filter=None, number=signal.SIGABRT, **popen):
		"""Starts a program, lets the kernel dump it, and returns (path of the core, the ended Target)."""
		with open("/proc/sys/kernel/core_pattern") as f:
			pattern = f.read().strip()
		if pattern.startswith("|") or "/" in pattern:
			self.skipTest("core_pattern is %r: the kernel writes no core file where it is wanted" % pattern)
		if resource.getrlimit(resource.RLIMIT_CORE)[1] != resource.RLIM_INFINITY and os.getuid() != 0:
			self.skipTest("the hard limit of core files is low")
		place = self.directory()

		def prepare():
			resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
			if core_filter is not None:
				with open("/proc/self/coredump_filter", "w") as f:
					f.write("%#x" % core_filter)

		target = self.start(argv, mark, cwd=place, preexec_fn=prepare, **popen)
		os.kill(target.pid, number)
		target.process.wait(PATIENCE)
		cores = os.listdir(place)
		self.assertEqual(len(cores), 1, "core files: %r" % cores)
		return os.path.join(place, cores[0]), target

	# -- assertions that belong to every census --

	def assertSameRows(self, one, other, figures=("count",) + FIGURES):
		"""Both censuses have the same rows with the same figures; says which have not."""
		one, other = rows_by_name(one), rows_by_name(other)
		wrong = []
		for name in sorted(one.keys() | other.keys()):
			pair = [row and {figure: row[figure] for figure in figures} for row in (one.get(name), other.get(name))]
			if pair[0] != pair[1]:
				wrong.append("%s: %s, %s" % (" / ".join(name), *pair))
		if wrong:
			self.fail("%d rows differ:\n%s" % (len(wrong), "\n".join(wrong[:20])))

	def assertBalanced(self, result, pid=None):
		"""Rows == total == os, byte for byte, and os == smaps when a paused or blocked process is named."""
		for figure in FIGURES:
			expected = result["os"][figure]
			if expected is None:
				self.assertIsNone(result["total"][figure])
				continue
			self.assertEqual(sum(r[figure] for r in result["rows"]), expected, "sum of rows, " + figure)
			self.assertEqual(result["total"][figure], expected, "total, " + figure)
		self.assertEqual(result["total"]["count"], sum(r["count"] for r in result["rows"]))
		self.assertGreater(len(result["rows"]), 0)
		for row in result["rows"]:
			for figure in ("count",) + FIGURES:
				self.assertTrue(row[figure] is None or 0 <= row[figure] < 1 << 47, row)
		if pid is not None:
			self.assertEqual(result["os"], os_figures(pid))
