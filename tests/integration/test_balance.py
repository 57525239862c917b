# SPDX-License-Identifier: Apache-2.0
"""The balance: for whatever process, the rows add up to the total and the total is what smaps says, to the byte."""
import json
import time
import os
import shutil
import signal
import subprocess
import unittest

import harness
from harness import Case

HOLD_PYTHON = os.path.join(harness.PROGRAMS, "hold_a_little.py")
# What is the process's own; the other fields of smaps also change with what its neighbours do.
OWN = ("start", "end", "perms", "path", "Size", "Rss", "Swap", "Anonymous", "AnonHugePages")
TRIES = 40  # the kernel may collapse or reclaim pages at any time, also of a process that stands still


class BalanceCase(Case):
	under = ()  # the command that runs the program, if it isn't run plainly

	def balance(self, pid, *options):
		"""The census of a process that stands still equals smaps, and taking it changed nothing there."""
		for _ in range(TRIES):
			before = self.own_smaps(pid)
			result = harness.census(pid, *options, under=self.under)
			after = self.own_smaps(pid)
			if after == before:
				break
			self.assertKernelDidIt(before, after)
			time.sleep(0.1)
		else:
			self.fail("smaps of %d differs before and after each of %d censuses" % (pid, TRIES))
		self.assertBalanced(result)
		self.assertEqual(result["os"], harness.add_smaps(before))
		return result

	@staticmethod
	def own_smaps(pid):
		return [{name: mapping[name] for name in OWN} for mapping in harness.smaps(pid)]

	def assertKernelDidIt(self, before, after):
		"""Huge pages come and go, and pages are taken away, by the kernel's own will; other pages appear by ours."""
		self.assertEqual([m["start"] for m in after], [m["start"] for m in before])
		for old, new in zip(before, after):
			if new["AnonHugePages"] == old["AnonHugePages"]:
				self.assertLessEqual(new["Rss"], old["Rss"], "pages of the target came in: %r, %r" % (old, new))

	def balance_stopped(self, target, *options):
		target.stop()
		return self.balance(target.pid, *options)


class Programs(BalanceCase):
	def test_sleep(self):
		target = self.start(["sleep", "1000"], mark=None)
		harness.wait_until(lambda: harness.state(target.pid) == "S", "sleep sleeps")
		self.balance(target.pid)

	def test_bash(self):
		self.need("bash")
		self.balance_stopped(self.start(["bash", "-c", "for i in {1..20000}; do a[i]=$i; done; echo READY; read x"]))

	def test_perl(self):
		self.need("perl")
		script = "$| = 1; $h{$_} = [1 .. 20] for 1 .. 20000; delete $h{$_ * 2} for 1 .. 5000; print qq(READY\\n); <STDIN>"
		self.balance_stopped(self.start(["perl", "-e", script]))

	def test_sqlite(self):
		self.need("sqlite3")
		target = self.start(["sqlite3", ":memory:"], mark=None)
		target.process.stdin.write(b"""create table t as with recursive n(i) as (select 1 union all select i + 1 from n
			where i < 20000) select i, hex(randomblob(20)) as text from n;\n.system echo READY\n""")
		target.process.stdin.flush()
		target.wait_ready()
		self.balance_stopped(target)

	def test_redis(self):
		self.need("redis-server")
		place = self.directory()
		target = self.start(["redis-server", "--port", "0", "--unixsocket", place + "/socket", "--dir", place,
			"--save", "", "--daemonize", "no", "--logfile", ""], mark=None)
		while "eady to accept connections" not in target.read_line():
			pass
		self.balance_stopped(target)

	def test_nginx(self):
		nginx = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
		if not nginx:
			self.skipTest("no nginx here")
		place = self.directory()
		with open(place + "/conf", "w") as f:
			f.write("daemon off; pid %s/pid; error_log stderr; worker_processes 1; events {}\n" % place)
			f.write("http { access_log off; client_body_temp_path %s/body; fastcgi_temp_path %s/fastcgi;\n" % (place, place))
			f.write("proxy_temp_path %s/proxy; scgi_temp_path %s/scgi; uwsgi_temp_path %s/uwsgi;\n" % ((place,) * 3))
			f.write("server { listen unix:%s/socket; } }\n" % place)
		target = self.start([nginx, "-p", place, "-c", place + "/conf"], mark=None)
		harness.wait_until(lambda: not target.running() or harness.children(target.pid), "nginx starts a worker")
		self.assertTrue(target.running(), target.error_text())
		pid = harness.children(target.pid)[0]
		harness.wait_until(lambda: harness.state(pid) == "S", "nginx's worker waits")
		os.kill(pid, signal.SIGSTOP)
		harness.wait_until(lambda: harness.state(pid) == "T", "nginx's worker stops")
		self.balance_stopped(target)
		self.balance(pid)

	def test_static(self):
		target = self.start_program("kinds_of_memory", "threads", flags=["-static"])
		self.balance_stopped(target)

	def test_deleted_executable(self):
		place = self.directory()
		program = harness.compile_c(os.path.join(harness.PROGRAMS, "kinds_of_memory.c"), place + "/gone")
		target = self.start([program, "private_file"])
		os.unlink(program)
		self.balance_stopped(target)

	def test_this_shell_of_another_suite(self):
		suites = harness.suites()
		if not suites:
			self.skipTest("no tree made by tests/matrix/make-suite here, or not root")
		for suite in suites:
			with self.subTest(suite=suite):
				self.balance_stopped(self.start(harness.in_suite(suite, "perl", "-e",
					"$| = 1; @a = map { [$_] } 1 .. 50000; print qq(READY\\n); <STDIN>")))


class Pythons(BalanceCase):
	def test_each_version(self):
		interpreters = harness.pythons()
		self.assertTrue(interpreters, "not even the Python that runs this")
		for python in interpreters:
			with self.subTest(python=python):
				target = self.start(python.argv(HOLD_PYTHON))
				self.balance_stopped(target)
				target.end()

	def test_low_memory(self):
		target = self.start(["python3", HOLD_PYTHON])
		target.stop()
		copied = self.balance(target.pid)
		streamed = self.balance(target.pid, "--low-memory")
		self.assertSameRows(streamed, copied)


class Kinds(BalanceCase):
	"""One kind of memory each; see kinds_of_memory.c."""

	def kind(self, name):
		target = self.start_program("kinds_of_memory", name, mark=None)
		line = target.read_line()
		if line.startswith("SKIP "):
			self.skipTest("this kernel: " + line[len("SKIP "):])
		self.assertTrue(line.startswith("READY "), line)
		return self.balance_stopped(target), target, json.loads(line[len("READY "):])

	def test_older_kernel(self):
		"""Without PAGEMAP_SCAN (before Linux 6.7) pagemap and smaps say together which pages there are."""
		self.under = [harness.compile_c(os.path.join(harness.PROGRAMS, "older_kernel.c"),
			os.path.join(self.directory(), "older_kernel"))]
		for kind in ("threads", "zero_page", "shared", "private_file", "memfd", "guard_pages", "many_mappings"):
			with self.subTest(kind=kind):
				self.kind(kind)
		_, target, facts = self.kind("forked")
		self.balance(facts["child"])
		self.balance(target.pid)
		python = self.start(["python3", HOLD_PYTHON])
		self.balance_stopped(python)
		self.balance(python.pid, "--low-memory")

	def test_64_threads(self):
		result, target, _ = self.kind("threads")
		self.assertEqual(len(harness.threads(target.pid)), 65)
		used = [r for r in result["rows"] if (r["domain"], r["kind"]) == ("stack", "used")]
		self.assertEqual(sum(r["count"] for r in used), 65)

	def test_forked(self):
		_, target, facts = self.kind("forked")
		self.balance(facts["child"])
		self.balance(target.pid)

	def test_zero_page(self):
		self.kind("zero_page")

	def test_shared(self):
		self.kind("shared")

	def test_private_file(self):
		self.kind("private_file")

	def test_huge_pages(self):
		self.kind("huge_pages")

	def test_hugetlb(self):
		self.kind("hugetlb")

	def test_reserve_of_a_tebibyte(self):
		result, _, _ = self.kind("reserve")
		self.assertGreater(result["os"]["virtual"], 1 << 40)

	def test_locked(self):
		self.kind("locked")

	def need_swap(self):
		"""Adds a swap file of its own for the time of the test where it may: that touches the whole machine."""
		with open("/proc/swaps") as f:
			if len(f.readlines()) > 1:
				return
		if not os.environ.get("FREEHOLD_TEST_SWAP"):
			self.skipTest("no swap here; FREEHOLD_TEST_SWAP=1 lets this test add some for a moment")
		file = os.path.join(self.directory(), "swap")
		with open(file, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
			f.write(bytes(64 << 20))
		for command in ["mkswap", file], ["swapon", file]:
			done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
			if done.returncode:
				self.skipTest("%s: %s" % (command[0], done.stdout.strip()))
		self.addCleanup(subprocess.run, ["swapoff", file], check=True)

	def test_swapped(self):
		"""What is swapped out is counted, read only when that is asked for, and not brought in before."""
		self.need_swap()
		result, target, _ = self.kind("swapped")
		swapped = harness.os_figures(target.pid)["swapped"]
		if not swapped:
			self.skipTest("the kernel swapped nothing out when it was asked to")
		self.assertEqual(result["total"]["swapped"], swapped)
		self.assertEqual(self.balance(target.pid, "--low-memory")["total"]["swapped"], swapped)
		address = next(m["start"] for m in harness.smaps(target.pid) if m["Swap"]) + (8 << 20)
		plain = harness.freehold("hexdump", target.pid, hex(address), 16, check=None)
		self.assertIn("--swapped reads it", plain.stderr)
		self.assertEqual(harness.os_figures(target.pid)["swapped"], swapped)
		asked = harness.freehold("hexdump", target.pid, hex(address), 16, "--swapped")
		with open("/proc/%d/mem" % target.pid, "rb") as f:
			f.seek(address)
			self.assertIn(f.read(8).hex(" "), asked.stdout)

	def test_memfd(self):
		self.kind("memfd")

	def test_guard_pages(self):
		self.kind("guard_pages")

	def test_many_mappings(self):
		self.kind("many_mappings")

	def test_deep_stack(self):
		result, _, _ = self.kind("deep_stack")
		self.assertGreater(harness.add_up(result, "resident", domain="stack", kind="unused"), 4 << 20)


if __name__ == "__main__":
	unittest.main(verbosity=2)
