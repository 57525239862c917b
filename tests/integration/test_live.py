# SPDX-License-Identifier: Apache-2.0
"""Live processes: every state they can be in, and that they go on as they were whatever happens to the program."""
import json
import os
import resource
import shutil
import signal
import subprocess
import time
import unittest

import harness
from harness import Case, census, freehold, os_figures, state, threads, wait_until

SLEEPER = "import sys, threading, time\n" \
	"for i in range(int(sys.argv[1])): threading.Thread(target=time.sleep, args=(10**6,), daemon=True).start()\n" \
	"print('READY', flush=True)\ninput()\n"
BUSY = "import itertools, threading\n" \
	"count = 0\n" \
	"print('READY', flush=True)\n" \
	"while True:\n" \
	"  t = threading.Thread(target=sum, args=(range(1000),)); t.start(); t.join(); count += 1\n"
OUTLIVED = "import ctypes, threading, time\n" \
	"threading.Thread(target=time.sleep, args=(10**6,)).start()\n" \
	"print('READY', flush=True)\nctypes.CDLL(None).syscall(60, 0)\n"
MANY = "kept = [bytes(100) for i in range(300000)]\nprint('READY', flush=True)\ninput()\n"
PYTHON = "/usr/bin/python3"


class States(Case):
	def one_line(self, done, *words):
		self.assertEqual(done.returncode, 1)
		self.assertEqual(done.stdout, "")
		self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
		for word in words:
			self.assertIn(word, done.stderr)

	def check_runs_on(self, target):
		def runs(tid):
			try:
				return state(target.pid, tid) in "SRD"
			except (FileNotFoundError, ProcessLookupError):  # a thread that ended meanwhile ran on
				return True
		wait_until(lambda: all(runs(t) for t in threads(target.pid)), "the target to run on")
		self.assertEqual(harness.status(target.pid)["TracerPid"].strip(), "0")

	def test_many_threads(self):
		target = self.start([PYTHON, "-c", SLEEPER, 64])
		result = census(target)
		self.assertEqual(result["target"]["threads"], 65)
		self.assertEqual(harness.add_up(result, "count", domain="stack", kind="used"), 65)
		self.check_runs_on(target)

	def test_threads_that_come_and_go(self):
		target = self.start([PYTHON, "-c", BUSY])
		for _ in range(10):
			result = freehold_json_any(target.pid)
			self.assertEqual(sum(r["virtual"] for r in result["rows"]), result["os"]["virtual"])
		self.assertTrue(target.running())
		self.check_runs_on(target)

	def test_becomes_another_program(self):
		"""Figures and bytes are those of one program, whatever it was when it was opened: the end of the stack has its name."""
		target = self.start_program("exec_again")
		for _ in range(60):
			found = harness.freehold_json("sql", target.pid, "select hex(memory(end - 24, 24)) from mapping where path = '[stack]'")
			self.assertEqual([row for row in found["rows"] if b"exe".hex() not in str(row)], [])
		self.check_runs_on(target)

	def test_waits_for_a_child_in_its_memory(self):
		"""The parent of a vfork() can't be stopped, and its child runs in the same memory: that is said."""
		target = self.start_program("vfork_wait")
		result = census(target)
		self.assertIn("1 of 1 threads did not stop", "\n".join(result["warnings"]))
		self.assertEqual(sum(r["resident"] for r in result["rows"]), result["os"]["resident"])
		self.check_runs_on(target)
		self.assertNotIn("did not stop", freehold("census", harness.children(target.pid)[0]).stderr)

	def test_stopped_stays_stopped(self):
		target = self.start([PYTHON, "-c", SLEEPER, 2])
		target.stop()
		before = os_figures(target.pid)
		self.assertEqual(census(target)["os"], before)
		time.sleep(0.1)
		self.assertTrue(all(state(target.pid, t) == "T" for t in threads(target.pid)))
		target.resume()
		self.check_runs_on(target)

	def test_traced_by_another(self):
		self.need("strace")
		target = self.start([PYTHON, "-c", SLEEPER, 0])
		tracer = subprocess.Popen(["strace", "-o", "/dev/null", "-p", str(target.pid)], stderr=subprocess.DEVNULL)
		self.addCleanup(tracer.wait)
		self.addCleanup(tracer.kill)
		wait_until(lambda: harness.status(target.pid)["TracerPid"].strip() != "0", "strace to attach")
		self.one_line(freehold("census", target.pid, check=1), "traced by process %d" % tracer.pid)

	def test_no_such_process(self):
		child = subprocess.Popen(["true"])
		child.wait()
		self.one_line(freehold("census", child.pid, check=1), "no such process")
		self.one_line(freehold("census", "99999999999", check=1), "process id")

	def test_zombie(self):
		child = subprocess.Popen(["true"])
		wait_until(lambda: state(child.pid) == "Z", "a zombie")
		self.one_line(freehold("census", child.pid, check=1), "zombie")
		child.wait()

	def test_main_thread_has_ended(self):
		"""/proc/PID/maps is empty then, and the process lives on."""
		target = self.start([PYTHON, "-c", OUTLIVED])
		wait_until(lambda: state(target.pid) == "Z", "the end of the main thread")
		other = [t for t in threads(target.pid) if t != target.pid][0]
		for arguments in (), ("--low-memory",):
			result = census(target, *arguments)
			self.assertEqual(harness.os_figures(other)["virtual"], result["os"]["virtual"])
			self.assertTrue(any(r["domain"] == "python" for r in result["rows"]))

	def test_kernel_thread(self):
		if not os.path.exists("/proc/2/comm") or open("/proc/2/comm").read() != "kthreadd\n":
			self.skipTest("no threads of the kernel are to be seen here")
		self.one_line(freehold("census", 2, check=1), "kernel")

	def test_a_thread_is_no_process(self):
		target = self.start([PYTHON, "-c", SLEEPER, 1])
		other = [t for t in threads(target.pid) if t != target.pid][0]
		self.one_line(freehold("census", other, check=1), "thread", str(target.pid))

	def refused_to_others(self, pid, *run):
		self.need_root("to become somebody else")
		self.need("setpriv")
		done = subprocess.run([*run, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", harness.FREEHOLD,
			str(pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
		if "freehold:" not in done.stderr:
			self.skipTest("the program can't be run by others here: " + done.stderr.strip())
		self.one_line(done, "not permitted", "CAP_SYS_PTRACE", "ptrace_scope")
		return done.stderr

	def test_of_the_same_user_but_undumpable(self):
		self.need_root("to become somebody else")
		self.need("setpriv")
		target = self.start(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", PYTHON, "-c",
			"import ctypes, time; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); print('READY', flush=True); time.sleep(1000)"])
		self.assertIn("user is the same", self.refused_to_others(target.pid))

	def test_not_ours(self):
		self.assertIn("run as its user", self.refused_to_others(os.getpid()))

	def test_not_ours_and_hidden(self):
		"""/proc mounted with hidepid shows nothing at all of what others run."""
		self.need("unshare")
		self.refused_to_others(1, "unshare", "--mount", "--pid", "--fork", "sh", "-c",
			"mount -t proc -o hidepid=invisible proc /proc && \"$@\"; exit $?", "sh")

	def test_ends_in_the_middle(self):
		for _ in range(30):
			child = subprocess.Popen(["sh", "-c", ":"])
			done = freehold("census", child.pid, check=None)
			self.assertIn(done.returncode, (0, 1, 3), done.stderr)
			if done.returncode == 1:
				self.one_line(done)
			child.wait()

	def test_killed_while_it_stands_still(self):
		"""What could not be read since then is no memory of unknown structure: a whole census, or one line."""
		outcomes = set()
		for option in ([], ["--low-memory"]):
			for delay in (0.01, 0.03, 0.06, 0.1, 0.15, 0.2):
				target = self.start([PYTHON, "-c", MANY])
				running = subprocess.Popen([harness.FREEHOLD, str(target.pid), "--all", "--format", "json", *option],
					stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
				time.sleep(delay)
				os.kill(target.pid, signal.SIGKILL)
				output, errors = running.communicate(timeout=harness.PATIENCE)
				outcomes.add(running.returncode)
				target.end()
				if running.returncode:
					self.assertEqual((running.returncode, output, len(errors.splitlines())), (1, "", 1), errors)
					self.assertIn("it ended", errors)
				else:
					self.assertGreaterEqual(harness.add_up(json.loads(output), "count", domain="python", kind="bytes"), 300000)
		self.assertIn(1, outcomes)

	def test_killed_while_it_waits_for_a_query(self):
		outcomes = set()
		query = "select count(*) n from block where domain = 'python' and kind = 'bytes'"
		for delay in (0.01, 0.03, 0.06, 0.1, 0.15, 0.2):
			target = self.start([PYTHON, "-c", MANY])
			running = subprocess.Popen([harness.FREEHOLD, "sql", str(target.pid), query, "--low-memory", "--format", "json"],
				stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
			time.sleep(delay)
			os.kill(target.pid, signal.SIGKILL)
			output, errors = running.communicate(timeout=harness.PATIENCE)
			outcomes.add(running.returncode)
			target.end()
			if running.returncode:
				self.assertEqual((running.returncode, output, len(errors.splitlines())), (1, "", 1), errors)
				self.assertIn("it ended", errors)
			else:
				self.assertGreaterEqual(json.loads(output)["rows"][0]["n"], 300000)
		self.assertIn(1, outcomes)

	def test_itself_and_init(self):
		done = freehold("census", os.getpid(), check=None)
		self.assertIn(done.returncode, (0, 3), done.stderr)


class Unharmed(Case):
	def test_killed_at_any_moment(self):
		"""SIGKILL to the program: the target runs on, as it was."""
		target = self.start([PYTHON, "-c", "x = [bytes(1000) for i in range(100000)]\nprint('READY', flush=True)\ninput()"])
		for option in ([], ["--low-memory"]):
			for delay in (0, 0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15):
				running = subprocess.Popen([harness.FREEHOLD, str(target.pid), *option], stdout=subprocess.DEVNULL,
					stderr=subprocess.DEVNULL)
				time.sleep(delay)
				running.send_signal(signal.SIGKILL)
				running.wait()
				wait_until(lambda: state(target.pid) in "SR", "the target to run on")
				self.assertEqual(harness.status(target.pid)["TracerPid"].strip(), "0")
		target.process.stdin.write(b"\n")
		target.process.stdin.flush()
		self.assertEqual(target.process.wait(harness.PATIENCE), 0)

	def test_signals_arrive(self):
		"""A thread may be caught as it takes a signal: that one must arrive later, also when the program is killed."""
		target = self.start_program("signals")
		for i in range(150):
			option = ["--low-memory"] if i % 2 else []
			if i % 3:
				census(target, *option)
				continue
			running = subprocess.Popen([harness.FREEHOLD, str(target.pid), *option], stdout=subprocess.DEVNULL,
				stderr=subprocess.DEVNULL)
			time.sleep(0.0005 * (i % 20))
			running.kill()
			running.wait()
		sent, taken, sent_sum, taken_sum = json.loads(target.ask("stop"))
		self.assertGreater(sent, 1000)
		self.assertEqual((taken, taken_sum), (sent, sent_sum))

	def test_interrupted(self):
		target = self.start([PYTHON, "-c", SLEEPER, 3])
		running = subprocess.Popen([harness.FREEHOLD, str(target.pid), "--low-memory"], stdout=subprocess.DEVNULL,
			stderr=subprocess.DEVNULL)
		running.send_signal(signal.SIGINT)
		running.wait()
		wait_until(lambda: all(state(target.pid, t) in "SR" for t in threads(target.pid)), "the target to run on")

	def test_nothing_is_touched(self):
		"""Pages that the target never touched stay untouched, and its page tables do not grow."""
		target = self.start([PYTHON, "-c", "import mmap\nm = mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
			"m[0] = 1\nprint('READY', flush=True)\ninput()"])
		before = harness.status(target.pid)
		for option in ([], ["--low-memory"]):
			result = census(target, *option)
			after = harness.status(target.pid)
			self.assertEqual(after["RssAnon"], before["RssAnon"])
			# Pages of files the target may touch itself as it runs on; those of the mapping would be 2 MB of tables.
			self.assertLess(int(after["VmPTE"].split()[0]) - int(before["VmPTE"].split()[0]), 128)
			self.assertGreater(result["os"]["virtual"], 1 << 30)

	def test_few_files_may_be_open(self):
		"""A process with more mapped files than we may have open."""
		target = self.start([PYTHON, "-c", "import ctypes, decimal, lzma, sqlite3, ssl, array, mmap\n"
			"print('READY', flush=True)\ninput()"])
		few = census(target, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8)))
		self.assertEqual(few["warnings"], [])
		self.assertEqual(without_pause(few), without_pause(census(target)))

	def test_low_memory_says_so(self):
		target = self.start([PYTHON, "-c", SLEEPER, 1])
		text = freehold("census", target.pid, "--low-memory").stdout
		self.assertIn("while it was analysed", text)
		self.assertEqual(without_pause(census(target, "--low-memory")), without_pause(census(target)))

	def test_low_memory_and_bytes(self):
		"""What was not copied is read while the target stands still, and it runs on before anything is written."""
		script = "import ctypes, sys\nb = bytearray(b'firstone' * 60000)\n" \
			"print('READY', ctypes.addressof(ctypes.c_char.from_buffer(b)), flush=True)\n" \
			"while True: b[:8] = b'otherone'; b[:8] = b'firstone'\n"  # a word is written at once
		target = self.start([PYTHON, "-c", script], mark=None)
		address = int(target.wait_ready())
		for _ in range(5):
			done = freehold("hexdump", target.pid, hex(address), 16, "--low-memory")
			self.assertRegex(done.stdout, r"\|(first|other)onefirstone\|")
		read_end, write_end = os.pipe()
		os.set_blocking(write_end, False)
		try:
			while True:
				os.write(write_end, bytes(4096))
		except BlockingIOError:
			os.set_blocking(write_end, True)
		waiting = subprocess.Popen([harness.FREEHOLD, "hexdump", str(target.pid), hex(address), "400000", "--low-memory"],
			stdout=write_end)
		os.close(write_end)
		in_write = lambda: open("/proc/%d/syscall" % waiting.pid).read().startswith("1 0x1 ")
		wait_until(lambda: waiting.poll() is not None or in_write(), "it to write into the full pipe")
		self.assertIsNone(waiting.poll())
		self.assertEqual(harness.status(target.pid)["TracerPid"].strip(), "0")
		os.close(read_end)
		self.assertIn(waiting.wait(harness.PATIENCE), (1, -signal.SIGPIPE))

	def cgroup(self, size):
		"""The directory of a cgroup with a limit on its memory."""
		self.need_root("to make a cgroup")
		root, limit = "/sys/fs/cgroup", "memory.max"
		if os.path.isdir(root + "/memory"):  # version 1
			root, limit = root + "/memory", "memory.limit_in_bytes"
		group = "%s/freehold-test-%d" % (root, os.getpid())
		try:
			os.mkdir(group)
			with open("%s/%s" % (group, limit), "r+") as f:
				f.write(str(size))
		except OSError as error:
			if os.path.isdir(group):
				os.rmdir(group)
			self.skipTest("no memory cgroup can be made: %s" % error)
		self.addCleanup(os.rmdir, group)
		return group

	def run_in(self, group, *argv):
		done = subprocess.run(["sh", "-c", "echo $$ > %s/cgroup.procs; exec \"$@\"" % group, "sh", *map(str, argv)],
			stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
		self.assertEqual(done.returncode, 0, done.stderr)
		return done

	def test_falls_back_under_a_limit(self):
		"""A cgroup that has no room for a copy: it is streamed, and that is said."""
		group = self.cgroup(180 << 20)
		target = self.start([PYTHON, "-c", "x = bytearray(b'x') * (150 << 20)\nprint('READY', flush=True)\ninput()"])
		done = self.run_in(group, harness.FREEHOLD, target.pid)
		self.assertIn("memory is short", done.stderr)
		self.assertIn("while it was analysed", done.stdout)

	def test_cached_files_are_room(self):
		"""What a cgroup has read from files fills it up to its limit, but is given back."""
		group = self.cgroup(180 << 20)
		target = self.start([PYTHON, "-c", SLEEPER, 0])
		self.run_in(group, "dd", "if=/dev/zero", "of=" + os.path.join(self.directory(), "file"), "bs=1M", "count=300")
		done = self.run_in(group, harness.FREEHOLD, target.pid)
		self.assertNotIn("memory is short", done.stderr)
		self.assertNotIn("while it was analysed", done.stdout)


class Elsewhere(Case):
	def test_other_namespaces(self):
		"""A process in its own PID, mount and user-visible root: seen by the PID that we see."""
		self.need_root("to make namespaces")
		self.need("unshare")
		tried = subprocess.run(["unshare", "--pid", "--mount", "--fork", "true"], stderr=subprocess.PIPE, text=True)
		if tried.returncode:
			self.skipTest("no namespaces can be made here: " + tried.stderr.strip())
		target = self.start(["unshare", "--pid", "--mount", "--fork", "--kill-child", PYTHON, "-c", SLEEPER, 1])
		children = open("/proc/%d/task/%d/children" % (target.pid, target.pid)).read().split()
		result = census(int(children[0]))
		self.assertTrue(result["target"]["runtimes"])
		self.assertEqual(sum(r["virtual"] for r in result["rows"]), result["os"]["virtual"])

	def test_executable_replaced(self):
		"""The file on disk is another one by now: what is mapped counts."""
		copy = os.path.join(self.directory(), "python")
		shutil.copy(os.path.realpath(PYTHON), copy)
		target = self.start([copy, "-c", SLEEPER, 0])
		os.unlink(copy)
		shutil.copy("/bin/true", copy)
		result = census(target)
		self.assertTrue(result["target"]["runtimes"], result["warnings"])
		self.assertGreater(harness.add_up(result, "count", domain="python", kind="dict"), 10)


class ManyFiles(Case):
	def test_more_libraries_than_open_files(self):
		place = self.directory()
		source = os.path.join(place, "library.c")
		with open(source, "w") as f:
			f.write("int data[2000] = { 1 };\nconst int rodata[9000] = { 2 };\nint sum(void) { return data[3] + rodata[4]; }\n")
		first = harness.compile_c(source, os.path.join(place, "library0.so"), "-shared", "-fPIC")
		for i in range(1, 400):
			shutil.copy(first, os.path.join(place, "library%d.so" % i))
		target = self.start([PYTHON, "-c", "import ctypes\nkept = [ctypes.CDLL('%s/library%%d.so' %% i) for i in range(400)]\n"
			"print('READY', flush=True)\ninput()" % place])
		few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
		result = census(target, preexec_fn=few)
		self.assertEqual(result["warnings"], [])
		self.assertEqual(without_pause(result), without_pause(census(target)))


def without_pause(result):
	"""Residency of file pages may change by being looked at; names, counts and sizes may not."""
	return sorted((r["domain"], r["kind"], r["detail"], r["count"], r["virtual"]) for r in result["rows"])


def freehold_json_any(pid):
	done = freehold("census", pid, "--all", "--format", "json", check=None)
	assert done.returncode in (0, 3), done.stderr
	return json.loads(done.stdout)


if __name__ == "__main__":
	unittest.main()
