# SPDX-License-Identifier: Apache-2.0
"""Perl wherever it may be stopped: in the middle of things, in threads, just started, busy, deep, large or embedded."""
import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

import harness
from harness import add_up, freehold_json, rows_by_name
from perls import KINDS, PerlCase, interpreters, owned

# What a script does when it is stopped, and what its rows must have then: {(kind, detail): count}.
STATES = {
	"recursion": ("""
		no warnings 'recursion';
		sub deep { my ($n) = @_; my @own = ($n) x 3; my $own = bless [], 'In::Deep'; $n ? 1 + deep($n - 1) : ready() }
		deep(3000);""", {("array", "In::Deep"): 3001}),
	"recursion of a sort": ("""
		sub deep { my $n = shift; $n ? [sort { $n == 1 && ready(); deep($n - 1); $a <=> $b } 1 .. 2] : 0 } deep(30);""", {}),
	"local": ("""
		our ($x, @y, %z) = (1); @y = (1 .. 100); %z = (k => bless({}, 'In::Saved'), l => 2);
		our $saved = bless [], 'In::Saved';
		sub inner { ready() }
		{ local $x = 2; local @y = (bless []); local %z; local $saved; local $_ = 'a'; local $/;
		local $SIG{__WARN__} = sub { };
		local $ENV{PATH} = 'x'; local @ENV{qw(A B)} = (1, 2); local *inner2 = sub { inner() }; inner2(); }""",
		{("hash", "In::Saved"): 1, ("array", "In::Saved"): 1}),
	"die handler": ("""
		local $SIG{__DIE__} = sub { ready() };
		sub fail { my $own = bless [], 'In::Frame'; die bless {code => 1}, 'In::Error' } eval { eval { fail() }; 1 };""",
		{("hash", "In::Error"): 1, ("array", "In::Frame"): 1}),
	"warn handler": ("$SIG{__WARN__} = sub { ready() }; use warnings; my $x = undef . 'x';", {}),
	"DESTROY": ("""
		sub In::Object::DESTROY { ready() }
		{ my $object = bless {map { $_ => [$_] } 1 .. 50}, 'In::Object'; }""", {("hash", "In::Object"): 1}),
	"DESTROY while unwinding": ("""
		sub In::Object::DESTROY { ready() }
		eval { my $object = bless [], 'In::Object'; die 'away' };""", {("array", "In::Object"): 1}),
	"destructors within destructors": ("""
		sub In::Object::DESTROY {
			my $n = $_[0]{n};
			if (!$n) { ready() } else { my $next = bless {n => $n - 1}, 'In::Object' }
		}
		{ my $object = bless {n => 40}, 'In::Object' }""", {("hash", "In::Object"): 41}),
	"END": ("our $object = bless {}, 'In::Object'; END { ready() } exit 3;", {("hash", "In::Object"): 1}),
	"global destruction": ("""
		sub In::Object::DESTROY { ready() if ${^GLOBAL_PHASE} eq 'DESTRUCT' && !$main::once++ }
		our %keep = map { $_ => [1 .. 10] } 1 .. 100; { my $loop = bless {}, 'In::Object'; $loop->{self} = $loop; }
		our $object = bless {}, 'In::Object';""", {("hash", "In::Object"): None}),
	"BEGIN": ("use strict; sub outer { my $x = shift; my $in = sub { BEGIN { ready() } $x }; return $in }", {}),
	"require": ("""
		push @INC, sub { my $text = 'ready(); 1'; open my $file, '<', \\$text; return $file };
		require In::Nothing;""", {}),
	"string eval": ("eval 'my $x = bless [], q(In::Eval); sub { ready(); $x }->()';", {("array", "In::Eval"): 1}),
	"sort block": ("my $n; my @x = sort { ready() if !$n++; $a <=> $b } reverse 1 .. 1000;", {}),
	"map in grep": ("my @x = grep { $_ > 2 } map { ready() if $_ == 500; $_ * 2 } 1 .. 1000;", {}),
	"code in an expression": ("use re 'eval'; 'aab' =~ /^(a+)(?{ ready() })b/;", {}),
	"substitution": ("my $text = 'abc' x 100; $text =~ s/b/ready() if !$n++; 'x'/ge;", {}),
	"signal handler": ("$SIG{USR1} = sub { ready() }; kill USR1 => $$; 1 for 1 .. 1000;", {}),
	"format": ("format STDERR =\n@<<< @<<<\nready(), 2\n.\nwrite STDERR;\n", {("format", ""): 1}),
	"tie": ("""
		sub In::Tie::TIEHASH { bless {}, shift } sub In::Tie::FETCH { ready() }
		tie my %h, 'In::Tie'; my $x = $h{a}{b};""", {}),
	"overload": ("package In::Op { use overload '+' => sub { main::ready(); 1 } } my $x = 1 + bless {}, 'In::Op';",
		{("hash", "In::Op"): 1}),
	"AUTOLOAD and goto": ("our $AUTOLOAD; sub AUTOLOAD { goto &ready } main->missing(1, 2);", {}),
	"each": ("my %h = map { $_ => 1 } 1 .. 500; while (my ($k) = each %h) { delete $h{$k}; ready() if !$n++ }", {}),
	"lvalue sub": ("my $x; sub value : lvalue { ready(); $x } value() = 7;", {}),
	"children": ("""
		pipe my $r, my $w; my $pid = fork // die; if (!$pid) { close $w; sysread $r, my $x, 1; exit } ready();""", {}),
	"handles": ("""
		open my $text, '<:encoding(UTF-8)', $0 or die; my $line = <$text>; open my $out, '>:gzip', '/dev/null';
		open my $memory, '>', \\my $buffer; print $memory 'x' x 10000; opendir my $directory, '/'; readdir $directory;
		open my $from, '-|', 'echo', 'a'; my $all = <$from>; binmode STDERR, ':utf8:crlf';
		local *OLD; open OLD, '>&STDERR'; ready();""",
		{}),
	"packages that are gone": ("""
		@In::Gone::ISA = 'In::Base'; sub In::Gone::x { } our @keep = map { bless [], 'In::Gone' } 1 .. 7;
		my $x = In::Gone->can('x');
		undef %In::Gone::; delete $main::{'In::'}; undef &ready2; *ready3 = \\&ready; delete $main::{ready3};
		ready();""", {}),
	"inheritance": ("""
		{ package In::C0; use mro 'c3'; sub new { bless {}, shift } }
		for (1 .. 60) { no strict 'refs'; @{"In::C${_}::ISA"} = 'In::C' . ($_ - 1); mro::set_mro("In::C$_", 'c3') }
		our $x = In::C60->new; $x->isa('In::C1'); $x->can('new'); ready();""", {("hash", "In::C60"): 1}),
	"keys of all kinds": ("""
		use utf8; my %h = ("k\\x{263a}" => 1, "\\x{e9}" => 2, '' => 3, 'x' x 1_000_000 => 4, "a\\0b" => 5, 1e300 => 6);
		keys(%h) = 1 << 16; my %u = (a => undef) x 3; delete local $h{''}; %In::Empty:: = (); ready();""", {}),
	"nothing": ("ready();", {}),
}
LARGE = 200 << 20
SCARCE = 2 << 30


class States(PerlCase):
	"""Each has the values that its memory has, and the objects that it made."""

	def state(self, name):
		script, expected = STATES[name]

		def check(perl):
			target = self.run_perl(perl, script)
			rows = rows_by_name(self.look(target))
			for (kind, detail), count in expected.items():
				self.assertIn(("perl", kind, detail), rows)
				if count is not None:
					self.assertEqual(rows[("perl", kind, detail)]["count"], count, (kind, detail))
			target.end()
		self.for_each_perl(check)


def _add_states():
	for name in STATES:
		def test(self, name=name):
			self.state(name)
		test.__name__ = "test_" + re.sub(r"\W", "_", name)
		setattr(States, test.__name__, test)


_add_states()


class Running(PerlCase):
	def test_stopped_early(self):
		"""Whenever it is stopped after its start, what is there is balanced; soon its values are found."""
		def check(perl):
			found = 0
			for n in range(25):
				argv = [perl.path, "-MPOSIX", "-e", "sleep 1 while 1"]
				target = self.start(harness.in_suite(perl.suite, *argv) if perl.suite else argv, mark=None)
				harness.wait_until(lambda: self.executes(target.pid), "perl is executed")
				time.sleep(n * 0.0006)
				target.stop()
				done = harness.freehold("census", target.pid, "--all", "--format", "json", check=None)
				self.assertIn(done.returncode, (0, 3), done.stderr)
				result = json.loads(done.stdout)
				self.assertBalanced(result)
				found += "perl" in " ".join(result["target"]["runtimes"])
				target.end()
			self.assertGreater(found, 0)
		self.for_each_perl(check)

	@staticmethod
	def executes(pid):
		return os.path.basename(os.readlink("/proc/%d/exe" % pid)).startswith("perl")

	def test_busy(self):
		"""A perl that runs on while it is looked at: what was read in one moment adds up."""
		def check(perl):
			target = self.start(perl.argv(os.path.join(harness.PROGRAMS, "perl_busy.pl")))
			seen = 0
			for n in range(40):
				done = harness.freehold("census", target.pid, "--all", "--format", "json",
					*(["--low-memory"] if n % 4 == 3 else []), check=None)
				self.assertIn(done.returncode, (0, 3), done.stderr)
				result = json.loads(done.stdout)
				self.assertBalanced(result)
				self.assertTrue(target.running(), target.error_text())
				seen += add_up(result, "count", domain="perl", kind="scalar", detail="Busy::Text") > 0
			self.assertGreaterEqual(seen, 30)
			target.end()
		self.for_each_perl(check)


class Threads(PerlCase):
	def check_threads(self, perl, number, shared):
		target = self.start(perl.argv(os.path.join(harness.PROGRAMS, "perl_threads.pl"), number, *["shared"] * shared))
		target.stop()
		result = self.look(target)
		rows = rows_by_name(result)
		for n in range(1, number + 1):
			self.assertEqual(rows[("perl", "hash", "Thread::Item%d" % n)]["count"], 1000 * n)
		self.assertEqual(rows[("perl", "array", "Main::Item")]["count"], 5000 * (number + 1))
		self.assertIn("%d interpreters" % (number + 1 + shared), " ".join(result["target"]["runtimes"]))
		self.assertEqual(rows[("perl", "interpreter", "")]["count"], number + 1 + shared)
		return target, result

	def test_8_threads(self):
		def check(perl):
			for shared in (0, 1):
				target, _ = self.check_threads(perl, 8, shared)
				target.end()
		self.for_each_perl(check)

	def test_low_memory_and_core(self):
		target, live = self.check_threads(self.system_perl(), 8, 1)
		self.assertSameRows(live, self.look(target, "--low-memory"))
		core = harness.census(self.gcore(target))
		self.assertBalanced(core)
		for result in live, core:
			result["rows"] = [r for r in result["rows"] if r["domain"] not in ("image", "os")]
		self.assertSameRows(live, core, ("count", "virtual"))

	def test_each_value_belongs_to_one_interpreter(self):
		target, _ = self.check_threads(self.system_perl(), 8, 1)
		kinds = ", ".join("'%s'" % kind for kind in KINDS)
		rows = freehold_json("sql", target.pid, "select interpreter, count(*) as n, count(distinct start) as different "
			"from block where domain = 'perl' and kind in (%s) group by interpreter" % kinds)["rows"]
		self.assertEqual(sorted(r["n"] for r in rows), sorted(one.sv_count for one in interpreters(target.pid)))
		self.assertTrue(all(r["n"] == r["different"] for r in rows), rows)


class Large(PerlCase):
	def test_500000_levels(self):
		"""Of references and of objects in hashes, read by a program that has a small stack."""
		self.need("prlimit")
		def check(perl):
			target = self.run_perl(perl, """
				our ($array, $hash, $code); $array = [$array] for 1 .. 500_000;
				$hash = bless {in => $hash}, 'In::Deep' for 1 .. 500_000; ready();""")
			self.under = ["prlimit", "--stack=%d" % (512 << 10)]
			result = self.look(target)
			self.under = ()
			self.assertEqual(rows_by_name(result)[("perl", "hash", "In::Deep")]["count"], 500_000)
			self.assertGreaterEqual(add_up(result, "count", domain="perl", kind="array"), 500_000)
			target.end()
		self.for_each_perl(check, at_most=1)

	def test_large_hash(self):
		with open("/proc/meminfo") as f:
			available = int(re.search(r"MemAvailable:\s+(\d+)", f.read())[1]) * 1024
		def check(perl):
			number = (LARGE if available > SCARCE else LARGE // 2) // 200
			target = self.run_perl(perl, """our $table = bless {}, 'In::Table';
				$table->{"number $_"} = 'v' x 60 for 1 .. %d; ready();""" % number)
			result = self.look(target)
			self.assertEqual(owned(result, "In::Table", "hash entry"), (number, 24 * number))
			self.assertGreaterEqual(add_up(result, "count", domain="perl", kind="hash key"), number)
			target.end()
		self.for_each_perl(check, at_most=1)

	def test_100000_closures(self):
		def check(perl):
			target = self.run_perl(perl, """
				our @code = map { my ($n, @own) = ($_); sub { return $n++ + @own } } 1 .. 100_000; ready();""")
			result = self.look(target)
			code = [r for r in result["rows"] if r["kind"] == "code" and r["detail"].startswith("main::__ANON__ (")]
			self.assertIn(100_001, [r["count"] for r in code])
			# Each has a list of pads, and a pad.
			self.assertGreaterEqual(add_up(result, "count", domain="perl", kind="pad", detail="list"), 200_000)
			target.end()
		self.for_each_perl(check)

	def test_a_service_is_named_to_97_percent(self):
		"""Of the anonymous resident memory of a program like those that people run; see perl_service.pl."""
		def check(perl):
			target = self.start(perl.argv(os.path.join(harness.WORKLOADS, "perl_service.pl")), mark=None)
			truth = target.ready_json()
			self.wait_stopped(target)
			anonymous = int(harness.status(target.pid)["RssAnon"].split()[0]) * 1024
			result = self.look(target)
			self.assertLessEqual(add_up(result, "resident", domain="uncategorized"), 0.03 * anonymous)
			rows = rows_by_name(result)
			for package, count in truth.items():
				self.assertEqual(rows[("perl", "hash", package)]["count"], count, package)
			self.assertGreaterEqual(rows[("perl", "hash entry", "Service::User")]["count"], 5 * truth["Service::User"])
			target.end()
		self.for_each_perl(check)


class Embedded(PerlCase):
	def test_two_perls_in_one_program(self):
		"""A program that maps libperl.so; see embed_perl.c."""
		self.need("perl")
		done = subprocess.run(["perl", "-MExtUtils::Embed", "-e", "ccopts", "-e", "ldopts"], stdout=subprocess.PIPE,
			stderr=subprocess.DEVNULL, text=True)
		flags = done.stdout.split()
		library = subprocess.run(["cc", "-print-file-name=libperl.so"], stdout=subprocess.PIPE, text=True).stdout.strip()
		if done.returncode or library == "libperl.so" or not any(os.path.exists(f[2:] + "/perl.h") for f in flags):
			self.skipTest("perl's headers or libperl.so (libperl-dev) are not here")
		target = self.start_program("embed_perl", flags=["-w", *flags])
		target.stop()
		result = self.look(target)
		self.assertIn("2 interpreters", " ".join(result["target"]["runtimes"]))
		self.assertEqual(rows_by_name(result)[("perl", "hash", "Embed::Item")]["count"], 4000)
		# What the program holds itself is nobody's.
		self.assertEqual(rows_by_name(result)[("uncategorized", "5008 bytes", "")]["count"], 100)

	def test_irssi(self):
		"""A program that maps libperl.so, and runs scripts of its users in it."""
		self.need("irssi", "script")
		place = self.directory()
		os.makedirs(place + "/scripts/autorun")
		with open(place + "/scripts/autorun/hold.pl", "w") as f:
			f.write("our @items = map { bless {}, 'In::Chat' } 1 .. 500; open my $f, '>', '%s/done'; 1;" % place)
		target = self.start(["script", "-qec", "exec irssi --home=" + place, "/dev/null"], mark=None,
			env=dict(os.environ, TERM="vt100"))
		harness.wait_until(lambda: not target.running() or os.path.exists(place + "/done"), "irssi runs its script")
		self.assertTrue(target.running(), "irssi ended")
		irssi = harness.children(target.pid)[0]
		self.addCleanup(os.kill, irssi, signal.SIGKILL)
		os.kill(irssi, signal.SIGSTOP)
		harness.wait_until(lambda: harness.state(irssi) == "T", "irssi stops")
		result = self.balance(irssi)
		self.assertValues(result, interpreters(irssi))
		self.assertEqual(rows_by_name(result)[("perl", "hash", "In::Chat")]["count"], 500)


if __name__ == "__main__":
	unittest.main(verbosity=2)
