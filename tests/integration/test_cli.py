# SPDX-License-Identifier: Apache-2.0
"""The command line: what the commands print in each format, their options, their errors, what they do to a terminal."""
import csv
import fcntl
import io
import json
import os
import pty
import re
import resource
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

import harness
from harness import FIGURES, FREEHOLD, Case, freehold, freehold_json

PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
NASTY = "\x1b]0;owned\x07\x1b[31m\u009b5m\x7f\u202eevil,\"=1"
HOLDER = """
class Package:
	__slots__ = ("a", "b")
held = [Package() for i in range(150)]
text = "the needle in the heap " * 40
big = bytearray(3 << 20)
print("READY", hex(id(text)), hex(id(held[7])), flush=True)
input()
"""


def number(text):
	return int(text.replace(",", ""))


class Cli(Case):
	def holder(self):
		target = self.start([PYTHON, "-c", HOLDER], mark=None)
		target.text, target.package = target.wait_ready().split()
		target.stop()
		return target

	def sleeper(self, *arguments, **popen):
		return self.start([PYTHON, "-c", "print('READY', flush=True); input()", *arguments], **popen)

	# ---- the census -----------------------------------------------------------------------------------------

	def test_balance_in_each_format(self):
		"""The rows add up to the total and to smaps, in text, JSON and CSV, for each way of grouping."""
		target = self.holder()
		figures = harness.os_figures(target.pid)
		for by in ("domain", "kind", "detail", "size", "mapping", "module"):
			with self.subTest(by):
				result = freehold_json(target.pid, "--by", by)
				self.assertEqual(result["os"], figures)
				self.assertEqual({f: result["total"][f] for f in FIGURES}, figures)
				for figure in FIGURES + ("count",):
					self.assertEqual(sum(row[figure] for row in result["rows"]), result["total"][figure], figure)
				rows = list(csv.DictReader(io.StringIO(freehold(target.pid, "--by", by, "--format", "csv").stdout)))
				self.assertEqual(len(rows), len(result["rows"]))
				for figure in FIGURES:
					self.assertEqual(sum(int(row[figure]) for row in rows), figures[figure], figure)
				self.check_text(freehold(target.pid, "--by", by).stdout, figures)
				self.check_text(freehold(target.pid, "--by", by, "--all").stdout, figures)

	def check_text(self, text, figures):
		"""The column `virtual` of the text, with its row for the rest, adds up to the line below it."""
		table = text[text.rindex("\n\n") + 2:].splitlines()
		end = table[0].index("virtual") + len("virtual")
		rule = next(i for i, line in enumerate(table) if set(line) == {"-"})
		column = [number(line[:end].split()[-1]) for line in table[1:rule]]
		self.assertEqual(sum(column), figures["virtual"])
		for line in table[rule + 1:rule + 3]:
			self.assertIn("{:,}".format(figures["virtual"]), line)
			self.assertIn("{:,}".format(figures["resident"]), line)

	def test_summary(self):
		"""What the process is, and shares that add up."""
		target = self.holder()
		text, figures = freehold(target.pid).stdout, harness.os_figures(target.pid)
		self.assertIn("process %d, %s" % (target.pid, os.path.realpath(PYTHON)), text)
		self.assertRegex(text, r"glibc 2\.\d+, cpython 3\.\d+")
		self.assertRegex(text, r"stood still for \d+\.\d ms")
		shares = dict(re.findall(r"^(live|free|overhead|files|stacks|dark|other) +([\d,]+)", text, re.M))
		self.assertEqual(len(shares), 7)
		self.assertEqual(sum(number(n) for n in shares.values()), figures["resident"])
		self.assertGreater(number(shares["live"]), 3 << 20)
		result = freehold_json(target.pid)
		for figure in FIGURES:
			self.assertEqual(sum(share[figure] for share in result["summary"]), figures[figure])

	def test_reserved_is_not_free(self):
		"""Address space that an arena only reserved isn't memory that somebody could have back."""
		target = self.start([PYTHON, os.path.join(harness.PROGRAMS, "hold_a_little.py")])
		free = {row["kind"] == "reserved": row["s"] for row in freehold_json("sql", target.pid,
			"select kind, sum(virtual) as s from category where state = 'free' group by kind = 'reserved'")["rows"]}
		self.assertIn(True, free)
		summary = {share["share"]: share["virtual"] for share in freehold_json(target.pid)["summary"]}
		self.assertEqual(summary["free"], free[False])
		self.assertGreaterEqual(summary["other"], free[True])

	def test_command_is_optional(self):
		target = self.holder()
		one, other = freehold_json(target.pid), freehold_json("census", target.pid)
		self.assertEqual(one["rows"], other["rows"])
		self.assertEqual(one["target"]["pid"], target.pid)
		self.assertEqual(one["target"]["source"], "live")
		self.assertTrue(one["pause_ms"] > 0)
		self.assertEqual(one["freehold"], "0.1.0")
		self.assertEqual(one["warnings"], [])

	def test_top_and_sort(self):
		target = self.holder()
		whole = freehold_json(target.pid)
		top = freehold_json(target.pid, "--top", 3)
		self.assertEqual(top["rows"], whole["rows"][:3])
		self.assertEqual(top["total"], whole["total"])
		for figure in FIGURES + ("count",):
			self.assertEqual(sum(r[figure] for r in top["rows"]) + top["rest"][figure], whole["total"][figure])
		self.assertEqual(freehold_json(target.pid, "--top", 0)["rows"], whole["rows"])
		for column in ("count", "virtual", "resident"):
			values = [r[column] for r in freehold_json(target.pid, "--sort", column)["rows"]]
			self.assertEqual(values, sorted(values, reverse=True))
			values = [r[column] for r in freehold_json(target.pid, "--sort", column, "--reverse")["rows"]]
			self.assertEqual(values, sorted(values))
		names = [r["kind"] for r in freehold_json(target.pid, "--sort", "kind")["rows"]]
		self.assertEqual(names, sorted(names, key=lambda n: n.encode()))
		lines = freehold(target.pid, "--top", 2).stdout.splitlines()
		self.assertIn("... %d more rows (--all)" % (len(whole["rows"]) - 2), "\n".join(lines))
		self.assertNotIn("more rows", freehold(target.pid, "--all").stdout)

	def test_core_has_no_residency(self):
		core = self.gcore(self.holder())
		result = freehold_json(core)
		self.assertEqual(result["target"]["source"], "core")
		for part in [result["os"], result["total"]] + result["rows"]:
			self.assertIsNone(part["resident"])
			self.assertIsNone(part["swapped"])
		self.assertIsNone(result["pause_ms"])
		text = freehold(core).stdout
		self.assertNotRegex(text, r"\bresident +virtual\b|swapped")
		self.assertIn("core of process", text)
		row = next(csv.DictReader(io.StringIO(freehold(core, "--format", "csv").stdout)))
		self.assertEqual((row["resident"], row["swapped"]), ("", ""))

	# ---- select, sql, hexdump, show -------------------------------------------------------------------------

	def test_select(self):
		target = self.holder()
		result = freehold_json("select", target.pid, "kind = '__main__.Package'")
		self.assertEqual(result["total"]["count"], 150)
		self.assertEqual(len(result["rows"]), 100)  # the default limit
		self.assertEqual(result["rest"]["count"], 50)
		for extra, shown in ((["--limit", 0], 150), (["--all"], 150), (["--limit", 7], 7), (["--limit", 1000], 150)):
			result = freehold_json("select", target.pid, 'kind = "__main__.Package"', *extra)
			self.assertEqual((len(result["rows"]), result["total"]["count"]), (shown, 150))
		for row in result["rows"]:
			self.assertEqual(set(row), {"start", "end", "size", "domain", "kind", "detail", "resident"})
			self.assertEqual(int(row["end"], 16) - int(row["start"], 16), row["size"])
			self.assertEqual((row["domain"], row["resident"]), ("python", row["size"]))
		self.assertEqual(result["total"]["size"], sum(r["size"] for r in result["rows"]))
		text = freehold("select", target.pid, 'kind = "__main__.Package"', "--limit", 2).stdout
		self.assertIn("... 148 more blocks (--limit N, --all)", text)
		self.assertIn("150 blocks", text)
		self.assertEqual(len(re.findall(r"^[0-9a-f]{16}  (?:[0-9a-f]{2} +){16}\|.{16}\|$", text, re.M)), 2)
		self.assertEqual(freehold_json("select", target.pid, "size < 0")["total"], {"count": 0, "size": 0, "resident": 0})

	def test_select_agrees_with_the_census(self):
		target = self.holder()
		rows = freehold_json(target.pid)["rows"]
		for row in rows[:12]:
			names = [row[k].replace("'", "''") for k in ("domain", "kind", "detail")]
			total = freehold_json("select", target.pid, "domain = '%s' and kind = '%s' and detail = '%s'" % tuple(names))["total"]
			self.assertEqual(total, {"count": row["count"], "size": row["virtual"], "resident": row["resident"]})

	def test_select_by_size_and_pattern(self):
		target = self.holder()
		blocks = freehold_json("select", target.pid, "size > 0", "--all")["rows"]
		size = next(b["size"] for b in blocks if b["size"] > 3 << 20 and b["domain"] == "cpython")
		for expression, holds in (
				("size == %d" % size, lambda b: b["size"] == size),
				("kind like '%package%'", lambda b: "package" in b["kind"].lower()),
				('domain = "python" and kind = "tuple" and size > 64', lambda b: b["domain"] == "python" and b["kind"] == "tuple" and b["size"] > 64)):
			expected = [b for b in blocks if holds(b)]
			self.assertTrue(expected, expression)
			self.assertEqual(freehold_json("select", target.pid, expression, "--all")["rows"], expected, expression)

	def test_address(self):
		target = self.holder()
		found = freehold_json("select", target.pid, "start <= %s and end > %s" % (target.package, target.package))["rows"]
		self.assertEqual([b["kind"] for b in found], ["__main__.Package"])

	def test_wrong_sql(self):
		target = self.sleeper()
		for arguments, parts in (
				(("select", target.pid, "knd = 'dict'"), ("no such column: knd", "start, end, size")),
				(("select", target.pid, "kind = dict"), ("no such column: dict", "quotes: 'dict'", "start, end, size")),
				(("select", target.pid, "kind like __main__.Package"), ("quotes: '__main__.Package'",)),
				(("select", target.pid, "size >"), ("incomplete input", "block has start")),
				(("sql", target.pid, "select * from blocks"), ("no such table: blocks", "block, category, mapping")),
				(("sql", target.pid, "select x from thread"), ("no such column: x", "thread has tid")),
				(("sql", target.pid, "drop table block"), ("only SELECT",)),
				(("sql", target.pid, "attach '/tmp/x' as x"), ("only SELECT",)),
				(("sql", target.pid, "select load_extension('x')"), ("load_extension",)),
				(("sql", target.pid, "select randomblob(1e9)"), ("too big",)),
				(("sql", target.pid, ""), ("no SQL",))):
			for form in ("text", "json"):
				done = freehold(*arguments, "--format", form, check=2)
				self.assertEqual(done.stdout, "")
				self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
				for part in parts:
					self.assertIn(part, done.stderr)

	def test_sql(self):
		target = self.holder()
		census = freehold_json(target.pid)
		def sql(query):
			return freehold_json("sql", target.pid, query)["rows"]
		self.assertEqual(sql("select count(*) as n, sum(size) as size, sum(resident) as resident from block"),
			[{"n": census["total"]["count"], "size": census["total"]["virtual"], "resident": census["total"]["resident"]}])
		self.assertEqual(sql("select sum(size) as s from mapping"), [{"s": census["os"]["virtual"]}])
		self.assertEqual(sql("select sum(virtual) as v, count(*) as n from category"), [{"v": census["os"]["virtual"], "n": len(census["rows"])}])
		self.assertEqual([r["tid"] for r in sql("select tid from thread")], [target.pid])
		self.assertEqual(sql("select count(*) as n from image where executable")[0]["n"], 1)
		self.assertEqual(sql("select allocator, number from arena"), [{"allocator": "glibc", "number": 0}])
		free = sum(r["virtual"] for r in census["rows"] if (r["domain"], r["kind"]) == ("glibc", "free chunk") and not r["detail"].startswith("tcache"))
		self.assertEqual(sql("select free + fast as f from arena")[0]["f"], free)
		starts = [m["start"] for m in harness.smaps(target.pid) if m["path"] != "[vsyscall]"]
		self.assertEqual([int(r["start"], 16) for r in sql("select start from mapping where path <> '[vsyscall]'")], starts)
		self.assertEqual(sql("select start, start from mapping limit 1")[0].keys(), {"start", "start:2"})
		rows = freehold("sql", target.pid, "select domain, sum(size) from block group by 1", "--format", "csv").stdout.splitlines()
		self.assertEqual(rows[0], "domain,sum(size)")
		self.assertIn("domain", freehold("sql", target.pid, "select domain from block where 0").stdout)

	def test_hexdump(self):
		target = self.holder()
		at = int(target.text, 16)
		with open("/proc/%d/mem" % target.pid, "rb") as f:
			f.seek(at)
			truth = f.read(200)
		self.assertIn(b"the needle", truth)
		for address in (hex(at), str(at)):
			lines = freehold("hexdump", target.pid, address, 200).stdout.splitlines()
			self.assertEqual(len(lines), 13)
			for i, line in enumerate(lines):
				piece = truth[i * 16:i * 16 + 16]
				self.assertEqual(int(line[:16], 16), at + i * 16)
				self.assertEqual(bytes.fromhex(line[18:67]), piece)
				self.assertEqual(line[68:], "|%s|" % "".join(chr(b) if 32 <= b < 127 else "." for b in piece))
		result = freehold_json("hexdump", target.pid, hex(at), "0x20")
		self.assertEqual(bytes.fromhex("".join(r["bytes"] for r in result["rows"])), truth[:32])
		self.assertEqual(len(freehold("hexdump", target.pid, at).stdout.splitlines()), 16)

	def test_hexdump_of_what_was_never_touched(self):
		"""The process would read zeros there, in its stack as anywhere."""
		target = self.holder()
		stack = next(m for m in harness.smaps(target.pid) if m["path"] == "[stack]")
		self.assertLess(stack["Rss"], stack["Size"])
		result = freehold_json("hexdump", target.pid, hex(stack["start"]), 64)
		self.assertEqual("".join(r["bytes"] for r in result["rows"]), "00" * 64)

	def test_hexdump_of_the_vdso(self):
		target = self.holder()
		vdso = next(m for m in harness.smaps(target.pid) if m["path"] == "[vdso]")
		for option in ([], ["--low-memory"]):
			result = freehold_json("hexdump", target.pid, hex(vdso["start"]), 16, *option)
			self.assertTrue(result["rows"][0]["bytes"].startswith("7f454c46"), result)

	def test_hexdump_says_what_is_unreadable(self):
		target = self.holder()
		maps = [m for m in harness.smaps(target.pid)]
		last = next(m for m, n in zip(maps, maps[1:]) if m["end"] != n["start"] and "r" in m["perms"] and m["Rss"] == m["Size"])
		done = freehold("hexdump", target.pid, hex(last["end"] - 32), 64, check=3)
		self.assertEqual(len(done.stdout.splitlines()), 3)
		self.assertIn("%016x  can't be read up to %016x" % (last["end"], last["end"] + 32), done.stdout)
		for address, status in (("0x10", 1), ("nonsense", 2), ("-5", 2), ("0xffffffffffffffffff", 2)):
			done = freehold("hexdump", target.pid, "--", address, check=status)
			self.assertEqual((done.stdout, len(done.stderr.splitlines())), ("", 1))
		freehold("hexdump", target.pid, hex(last["start"]), "0", check=2)

	def test_show(self):
		target = self.holder()
		at = int(target.package, 16)
		text = freehold("show", target.pid, hex(at + 5)).stdout
		self.assertRegex(text, r"(?m)^kind +__main__\.Package$")
		self.assertRegex(text, r"(?m)^state +live$")
		result = freehold_json("show", target.pid, hex(at))
		self.assertTrue(int(result["start"], 16) <= at < int(result["end"], 16))
		self.assertEqual(int(result["end"], 16) - int(result["start"], 16), result["size"])
		self.assertEqual((result["domain"], result["kind"], result["state"]), ("python", "__main__.Package", "live"))
		self.assertEqual(result["permissions"], "rw-p")
		self.assertEqual(result["fields"]["type"], "__main__.Package")
		self.assertIn("needle", json.dumps(freehold_json("show", target.pid, target.text)["fields"]))
		code = next(m for m in harness.smaps(target.pid) if "x" in m["perms"] and "libc" in m["path"])
		result = freehold_json("show", target.pid, hex(code["start"] + 100))
		self.assertEqual((result["domain"], result["kind"], result["mapping"]), ("image", "text", code["path"]))
		done = freehold("show", target.pid, "0x10", check=1)
		self.assertEqual((done.stdout, len(done.stderr.splitlines())), ("", 1))

	# ---- options and errors ---------------------------------------------------------------------------------

	def test_order_of_words(self):
		target = self.holder()
		pid = str(target.pid)
		rows = freehold_json(pid, "--by", "kind")["rows"]
		for words in (["--by", "kind", pid], ["--by=kind", "census", pid], ["census", "--by", "kind", "--", pid], ["--by", "kind", "census", pid]):
			self.assertEqual(json.loads(freehold("--format", "json", *words).stdout)["rows"], rows, words)
		count = freehold_json("select", "--limit", 1, pid, "size = 64")["total"]
		self.assertEqual(freehold_json("--limit", 1, "select", pid, "size = 64")["total"], count)
		self.assertEqual(json.loads(freehold("select", "--format", "json", "--limit", 1, "--", pid, "-1 < 0 and size = 64").stdout)["total"], count)

	def test_usage(self):
		for words, parts in (
				([], ("--help",)),
				(["cenus", "1"], ("cenus", "did you mean census")),
				(["selct"], ("selct", "did you mean select")),
				(["nonsense", "1"], ("nonsense",)),
				(["1", "--limit", "3"], ("no option --limit", "did you mean --top")),
				(["select", "1", "size = 1", "--top", "3"], ("no option --top", "did you mean --limit")),
				(["--frmat", "json", "1"], ("--frmat", "did you mean --format")),
				(["--nonsense", "1"], ("--nonsense", "no such option")),
				(["-z", "1"], ("-z",)),
				(["1", "--format"], ("--format", "FORMAT")),
				(["1", "--format", "xml"], ("xml", "text, json, csv")),
				(["1", "--by", "colour"], ("colour", "domain, kind, detail, size, mapping, module")),
				(["1", "--sort", "colour"], ("colour", "count, resident, virtual")),
				(["1", "--top", "many"], ("--top", "many")),
				(["1", "--top", "-3"], ("--top", "-3")),
				(["1", "--all=3"], ("--all", "no value")),
				(["select", "1"], ("EXPR",)),
				(["select", "1", "size", "more"], ("TARGET EXPR",)),
				(["sql", "1"], ("QUERY",)),
				(["hexdump", "1"], ("ADDR",)),
				(["select", "1", "size > 3", "--by", "kind"], ("select", "--by")),
				(["1", "--limit", "3"], ("census", "--limit"))):
			with self.subTest(words):
				done = freehold(*words, check=2)
				self.assertEqual(done.stdout, "")
				self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
				for part in parts:
					self.assertIn(part, done.stderr)

	def test_could_not(self):
		for target in ("/nonexistent", "4194305", "/dev/null", "/etc/passwd", ".", ""):
			with self.subTest(target):
				done = freehold("census", target, check=1)
				self.assertEqual(done.stdout, "")
				self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
				self.assertTrue(done.stderr.startswith("freehold: "))

	def test_help_and_version(self):
		text = freehold("--help").stdout
		for command in ("census", "hexdump", "select", "show", "sql"):
			self.assertRegex(text, r"(?m)^  %s TARGET" % command)
			own = freehold(command, "--help").stdout
			self.assertIn("usage: freehold %s TARGET" % command, own)
			for option in ("--format", "--low-memory", "--swapped", "--exe", "--sysroot"):
				self.assertIn(option, own)
		self.assertIn("table block", freehold("sql", "--help").stdout)
		self.assertEqual(freehold("--version").stdout, "freehold 0.1.0\n")
		self.assertTrue(max(map(len, text.splitlines())) < 121)

	# ---- what comes from the target ------------------------------------------------------------------------------

	def test_nothing_unescaped(self):
		"""A command line, a file name and a thread name with escape sequences do nothing to terminal, JSON and CSV."""
		place = self.directory()
		path = os.path.join(place.encode(), b"file\x1b[31m\xff\xc2\x9b5m\n,\"=")
		with open(path, "wb") as f:
			f.write(b"x" * 8192)
		script = ("import mmap, sys, ctypes\nf = open(sys.argv[1].encode('utf-8', 'surrogateescape'), 'rb')\n"
			"m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\nsum(m[:])\n"
			"ctypes.CDLL(None).prctl(15, b'th\\x1b[5m\\x9b')\nprint('READY', flush=True)\ninput()")
		target = self.start_bytes([PYTHON.encode(), b"-c", script.encode(), path, NASTY.encode()])
		queries = (["census", target.pid, "--all"], ["census", target.pid, "--by", "mapping", "--all"],
			["select", target.pid, "mapping like '%/file%'"], ["sql", target.pid, "select * from mapping"],
			["sql", target.pid, "select * from thread"], ["sql", target.pid, "select x from \"\x1b[31m\""])
		for environment in ({"LC_ALL": "C.UTF-8"}, {"LC_ALL": "C"}):
			for words in queries:
				for form in ("text", "json", "csv"):
					done = subprocess.run([FREEHOLD, *map(str, words), "--format", form], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
						env={**os.environ, **environment})
					for output in (done.stdout, done.stderr):
						shown = output.decode("utf-8")  # always valid
						self.assertNotRegex(shown, "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e]", (words, form))
					if form == "json" and done.returncode == 0:
						json.loads(done.stdout)
		result = freehold_json("sql", target.pid, "select path from mapping where path like '%/file%'")
		self.assertTrue(result["rows"][0]["path"].startswith(place + "/file\x1b[31m"))
		self.assertIn("\\x1b]0;owned", freehold(target.pid).stdout + freehold(target.pid, "--format", "csv").stdout +
			freehold("sql", target.pid, "select '\x1b]0;owned'").stdout)
		self.assertEqual(freehold_json(target.pid)["target"]["command"].split(" ")[-1], NASTY)

	def start_bytes(self, argv):
		target = harness.Target(argv)
		self.addCleanup(target.end)
		target.wait_ready()
		return target

	# ---- output that can't be written ---------------------------------------------------------------------------

	def test_full_disk(self):
		if not os.path.exists("/dev/full"):
			self.skipTest("no /dev/full here")
		target = self.sleeper()
		for words in ([target.pid], ["select", target.pid, "size > 0", "--all", "--format", "json"], ["--help"], ["--version"]):
			with open("/dev/full", "w") as full:
				done = subprocess.run([FREEHOLD, *map(str, words)], stdout=full, stderr=subprocess.PIPE, text=True)
			self.assertEqual(done.returncode, 1, words)
			self.assertIn("No space left", done.stderr)
			self.assertEqual(len(done.stderr.splitlines()), 1)

	def test_limited_output(self):
		"""A limit of the size of files is no reason to be ended by a signal."""
		target = self.sleeper()
		with open(os.path.join(self.directory(), "out"), "w") as out:
			done = subprocess.run([FREEHOLD, str(target.pid), "--all"], stdout=out, stderr=subprocess.PIPE, text=True,
				preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024)))
		self.assertEqual(done.returncode, 1)
		self.assertIn("File too large", done.stderr)
		self.assertEqual(len(done.stderr.splitlines()), 1)

	def test_closed_output(self):
		target = self.sleeper()
		done = subprocess.run(["sh", "-c", 'exec "$0" "$@" >&-', FREEHOLD, str(target.pid)], stderr=subprocess.PIPE, text=True)
		self.assertEqual(done.returncode, 1)
		self.assertIn("could not be written", done.stderr)

	def test_broken_pipe(self):
		"""Nobody who reads: no message, whether the signal is ignored or not."""
		target = self.holder()
		for restore in (True, False):
			process = subprocess.Popen([FREEHOLD, "select", str(target.pid), "size > 0", "--all"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
				restore_signals=restore)
			process.stdout.read(10)
			process.stdout.close()
			errors = process.stderr.read()
			process.stderr.close()
			self.assertEqual(errors, b"")
			self.assertNotEqual(process.wait(), 2)

	# ---- a person looks on ----------------------------------------------------------------------------------------

	def on_terminal(self, words, columns=80, lines=40, act=None):
		"""Runs it on a terminal; returns (exit status, what the terminal got)."""
		try:
			master, slave = pty.openpty()
		except OSError as error:
			self.skipTest("no terminals here: %s" % error)
		fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
		process = subprocess.Popen([FREEHOLD, *map(str, words)], stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, start_new_session=True)
		os.close(slave)
		got, end = b"", time.monotonic() + harness.PATIENCE
		while time.monotonic() < end:
			if act and act(process, got):
				act = None
			if not select.select([master], [], [], 0.2)[0]:
				continue
			try:
				piece = os.read(master, 65536)
			except OSError:
				break
			if not piece:
				break
			got += piece
		os.close(master)
		return process.wait(timeout=harness.PATIENCE), got.decode("utf-8", "replace")

	def test_fits_the_terminal(self):
		target = self.holder()
		for columns, lines in ((80, 40), (130, 60)):
			status, shown = self.on_terminal([target.pid], columns, lines)
			self.assertEqual(status, 0)
			shown = shown.replace("\r\n", "\n").splitlines()
			self.assertTrue(max(map(len, shown)) <= columns, max(shown, key=len))
			self.assertTrue(len(shown) < lines, len(shown))
			self.assertTrue(any("more rows (--all)" in line for line in shown))

	def test_progress_and_interrupt(self):
		"""A long query shows what it does and erases it; Ctrl-C ends it as the signal would, and the target runs on."""
		target = self.sleeper()
		endless = "with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c"
		def act(process, got):
			if b"query" in got:
				process.send_signal(signal.SIGINT)
				return True
		status, shown = self.on_terminal(["sql", target.pid, endless], act=act)
		self.assertEqual(status, -signal.SIGINT)
		self.assertRegex(shown, r"\r\x1b\[Kquery, \d+ s")
		self.assertIn("freehold: interrupted", shown[shown.rindex("\r\x1b[K"):])
		self.assertTrue(target.running())
		self.assertNotIn(harness.state(target.pid), "Tt")

	def test_no_progress_in_a_file(self):
		target = self.sleeper()
		done = freehold("sql", target.pid, "with recursive c(x) as (select 1 union all select x + 1 from c where x < 6000000) select count(*) as n from c")
		self.assertEqual((done.stderr, done.stdout.split()), ("", ["n", "6000000"]))


if __name__ == "__main__":
	unittest.main()
