# SPDX-License-Identifier: Apache-2.0
"""Who refers to what in a perl: reachability against loops that were leaked on purpose, reference counts against the
references found, names against what Perl itself says is there; and `show` of all kinds of values."""
import json
import os
import re
import subprocess
import unittest

import harness
from harness import freehold_json
from perls import KINDS, PerlCase

GRAPH = os.path.join(os.path.dirname(harness.FREEHOLD), "perl_graph")
# Kinds whose counts say more than who refers to them: lists of weak references hold one more of themselves, stacks and
# pads are looked at by variables that count nothing, and perl itself forgets the count of a few values at its start.
MOST_THAT_DIFFER = 120
REG = ("%main::", '{"App::"}', "*main::App::{HASH}", '{"User::"}', "*App::User::{HASH}", "{REG}", "*App::User::REG{HASH}")


def graph(target, *arguments):
	done = subprocess.run([GRAPH, str(target), *arguments], capture_output=True, text=True, timeout=harness.PATIENCE)
	if done.returncode:
		raise AssertionError("perl_graph %r: %s%s" % (arguments, done.stdout, done.stderr))
	return done.stdout


def report(target):
	return json.loads(graph(target))


def references(target, address):
	"""Those of the block at an address: [(address, flags, name)]."""
	lines = graph(target, "@" + address).splitlines()
	return [tuple(line.split("\t", 2)) for line in lines]


def by_kind(lines):
	counts = {}
	for line in lines:
		counts[line["kind"]] = counts.get(line["kind"], 0) + line["count"]
	return counts


class RefsCase(PerlCase):
	def each(self, check, at_most=None):
		def start(perl):
			target = self.launch(perl, "perl_refs")
			check(target)
			target.end()
		self.for_each_perl(start, at_most)


class Graph(RefsCase):
	def test_reached_is_all_but_the_leaked_loops(self):
		def check(target):
			result = report(target.pid)
			for how in "unreached", "not_held":
				values = {k: n for k, n in by_kind(result[how]).items() if k in KINDS}
				self.assertEqual(values, target.truth["leaked"], how)
				for line in result[how]: # of the objects' memory, nothing that is of another class
					self.assertTrue(not line["detail"].startswith("App::") or line["detail"] == "App::Node", line)
			self.assertEqual(result["dangling"], 0)
			nodes = target.truth["objects"]["App::Node"]
			for kind in "body", "hash buckets", "hash":
				lines = [n for n in result["unreached"] if n["kind"] == kind and n["detail"] == "App::Node"]
				self.assertEqual([n["count"] for n in lines], [nodes], kind)
		self.each(check)

	def test_counts_are_the_references_found(self):
		def check(target):
			result = report(target.pid)
			differ = result["counts_differ"]
			self.assertFalse([n for n in differ if n["detail"].startswith("App::")])
			self.assertLess(sum(n["count"] for n in differ), MOST_THAT_DIFFER)
			self.assertGreater(result["exact"], result["heads"] * 0.98)
		self.each(check)

	def test_core_is_like_live(self):
		target = self.launch(self.system_perl(), "perl_refs")
		live, core = report(target.pid), report(self.gcore(target))
		for key in "unreached", "heads", "exact", "roots":
			self.assertEqual(live[key], core[key], key)

	def test_threads(self):
		"""Each interpreter's values are reached from its own roots."""
		script = """use threads;
			my @all = map { {i => $_} } 1 .. 2000;
			for (1 .. 7) { my @loop; push @loop, \\@loop }
			my @threads = map { threads->create(sub { my @mine = map { [$_] } 1 .. 100; sleep 1e6 }) } 1 .. 3;
			select undef, undef, undef, 1;
			ready()"""
		target = self.run_perl(self.system_perl(), script)
		result = report(target.pid)
		arrays = by_kind(result["unreached"]).get("array", 0)
		self.assertEqual(arrays % 7, 0)  # the loops are cloned with the rest, if at all
		self.assertGreaterEqual(arrays, 7)
		self.assertGreater(result["exact"], result["heads"] * 0.99)


class Names(RefsCase):
	def path(self, target, key, *names):
		self.assertEqual(graph(target.pid, *names).strip(), target.truth[key], names)

	def test_paths_come_to_where_perl_says(self):
		def check(target):
			user = REG + ("{17}", "->")
			self.path(target, "user", *user)
			self.path(target, "tag", *user, "{tags}", "->", "[0]")
			self.path(target, "odd", *user, "{prefs}", "->", '{"odd \\$key\\n"}')
			self.path(target, "stash", *REG[:5])
			self.path(target, "sub", *REG[:5], "{new}", "*App::User::new{CODE}")
			self.path(target, "glob", *REG[:6])
			self.path(target, "handle", "%main::", "{handle}", "*main::handle{SCALAR}", "->", next(
				name for _, _, name in references(target.pid, graph(target.pid, "%main::", "{handle}",
					"*main::handle{SCALAR}", "->").strip()) if name == "slots"), "*main::$handle{IO}")
		self.each(check)

	def test_variables_of_subs(self):
		def check(target):
			main = "%s in pad of the main program"
			weak = graph(target.pid, "PL_main_cv", main % "@weak").strip()
			first = [r for r in references(target.pid, weak) if r[2] == "[0]"]
			self.assertEqual(first[0][0], target.truth["weak"])
			self.assertIn((target.truth["weak_to"], "w", "->"), references(target.pid, target.truth["weak"]))
			closure = references(target.pid, target.truth["closure"])
			pad = next(r for r in closure if r[2] == "pad 1")
			self.assertEqual(pad[1], "p")
			names = [name for _, _, name in references(target.pid, pad[0])]
			place = r"App::Session::__ANON__ \((freehold-\d+-)?perl_refs\.pl:\d+\)"
			for variable in r"\$hits", r"\$buffer":
				self.assertEqual(len([n for n in names if re.fullmatch(variable + " of closure " + place, n)]), 1, names)
			self.assertTrue([n for n in names if n.startswith("@_ of App::Session::__ANON__")], names)
			self.assertTrue([r for r in closure if r[2] == "CvSTASH" and r[1] == "w"])
			self.assertIn((target.truth["stash"], "", "package"), references(target.pid, target.truth["user"]))
		self.each(check)

	def test_magic_and_backreferences(self):
		def check(target):
			main = "%s in pad of the main program"
			tied = graph(target.pid, "PL_main_cv", main % "%tied").strip()
			holder = [r[0] for r in references(target.pid, tied) if r[2] == "magic P object"]
			self.assertEqual([r[0] for r in references(target.pid, holder[0]) if r[2] == "->"], [target.truth["tied"]])
			back = [r for r in references(target.pid, target.truth["weak_to"]) if r[2] == "weak references to it"]
			back = back or [r for r in references(target.pid, target.truth["weak_to"]) if r[2] == "magic < object"]
			self.assertTrue(back)
		self.each(check)


class Show(RefsCase):
	def fields(self, target, address):
		return freehold_json("show", target.pid, address)["fields"]

	def test_values(self):
		expected = {"positive": "17", "negative": "-3", "real": "2.5", "large": "18446744073709551615", "none": "undef",
			"wide": r'"\x{263a}smile"'}

		def check(target):
			for name, value in expected.items():
				self.assertEqual(self.fields(target, target.truth["value " + name])["value"], value, name)
			copied = self.fields(target, target.truth["value copied"])
			self.assertEqual(copied["value"], '"%s"...' % ("copied on write " * 4))
			self.assertRegex(copied["buffer"], "copied on write, shared by [2-9] values")
			self.assertEqual(copied["length"], "320 bytes")
			self.assertTrue(self.fields(target, target.truth["value chopped"])["value"].startswith('"0123456789'))
			self.assertRegex(self.fields(target, target.truth["value loud"])["value"], r"^App::Loud=SCALAR\(0x[0-9a-f]+\)$")
			self.assertEqual(self.fields(target, target.truth["value code"])["value"], "CODE(%s)" % target.truth["sub"])
		self.each(check)

	def test_arrays_and_hashes(self):
		def check(target):
			user = self.fields(target, target.truth["user"])
			self.assertEqual(user["package"], "App::User")
			self.assertRegex(user["type"], r"^hash \(PVHV\)$")
			self.assertEqual(user["keys"], "4")
			self.assertIn('name => "user name 17"', user["value"])
			self.assertRegex(user["value"], r"tags => ARRAY\(0x[0-9a-f]+\)")
			shifted = self.fields(target, target.truth["shifted"])
			self.assertEqual((shifted["length"], shifted["value"]), ("90", "[11, 12, 13, 14, 15, 16, 17, 18, ...]"))
			counted = self.fields(target, target.truth["counted"])
			self.assertEqual(counted["keys"], "26")
			self.assertRegex(counted["value"], r"^\{([a-z] => 1, ){8}\.\.\.\}$")
			self.assertEqual(self.fields(target, target.truth["stash"])["symbols of"], "App::User")
			weak = self.fields(target, target.truth["weak"])
			self.assertEqual(weak["value"], "App::User=HASH(%s) (weak)" % target.truth["weak_to"])
		self.each(check)

	def test_code_globs_handles_patterns(self):
		def check(target):
			sub = self.fields(target, target.truth["sub"])
			self.assertEqual(sub["name"], "App::User::new")
			self.assertRegex(sub["place"], r"perl_refs\.pl:15$")
			self.assertEqual((sub["depth"], sub["pads"]), ("0", "1"))
			self.assertGreater(int(sub["ops"]), 30)
			glob = self.fields(target, target.truth["glob"])
			self.assertEqual(glob["name"], "*App::User::REG")
			self.assertRegex(glob["slots"], r"HASH\(0x")
			handle = self.fields(target, target.truth["handle"])
			self.assertEqual((handle["package"], handle["handle"]), ("IO::File", "for reading"))
			self.assertRegex(os.readlink("/proc/%d/fd/%s" % (target.pid, handle["descriptor"])), r"perl_refs\.pl$")
			self.assertEqual(self.fields(target, target.truth["pattern"])["pattern"],
				r"(?^i:^(?:item4)(\w+)-(\d{1,4})$)")
		self.each(check)

	def test_parts_say_whose_they_are(self):
		def check(target):
			user = target.truth["user"]
			for address, flags, name in references(target.pid, user):
				if flags == "p" and name in ("body", "buckets", "entry"):
					self.assertEqual(self.fields(target, address)["belongs to"], "App::User=HASH(%s)" % user, name)
			root = next(r for r in references(target.pid, target.truth["sub"]) if r[2] == "CvROOT")
			fields = self.fields(target, root[0])
			self.assertEqual(fields["belongs to"], "CODE(%s) App::User::new" % target.truth["sub"])
			self.assertEqual(fields["op"], "leavesub")
		self.each(check, at_most=2)


if __name__ == "__main__":
	unittest.main()
