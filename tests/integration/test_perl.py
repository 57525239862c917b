# SPDX-License-Identifier: Apache-2.0
"""Perl's values by kind, package and size, against what the target counted, Devel::MAT, Devel::Size and its memory."""
import json
import os
import re
import subprocess
import unittest

import harness
from harness import add_up, freehold_json, rows_by_name
from perls import KINDS, PerlCase, interpreters, owned, perls, values

# Beyond what was asked for malloc gives up to so much where the rest would be too small for a block of its own.
ROUNDING = 16
AUXILIARY = 64  # to 5.34 behind the buckets of a large hash


class Values(PerlCase):
	"""See perl_values.pl."""

	looked = {}

	def each(self, check):
		"""The checks of one process of each perl, and of one census of it."""
		def look(perl):
			if perl.name not in self.looked:
				target = self.launch(perl, "perl_values")
				self.looked[perl.name] = target.truth, self.look(target)
				target.end()
			check(*self.looked[perl.name])
		self.for_each_perl(look)

	def test_objects_by_package(self):
		def check(truth, result):
			rows = rows_by_name(result)
			for name, count in truth["objects"].items():
				kind, package = name.split()
				self.assertEqual(rows[("perl", kind, package)]["count"], count, name)
				self.assertEqual(rows[("perl", kind, package)]["virtual"], count * 24, name)
			self.assertEqual(add_up(result, "count", domain="perl", kind="format"), truth["formats"])
			self.assertGreaterEqual(rows[("perl", "io", "IO::File")]["count"], 20)
		self.each(check)

	def test_bodies_and_entries(self):
		"""Each object of a kind that has a body has one, and each key of a hash its entry."""
		def check(truth, result):
			for name, count in truth["objects"].items():
				if name != "glob IO::File": # so are their handles
					self.assertEqual(owned(result, name.split()[1], "body")[0], count, name)
			entries = truth["entries"]
			self.assertEqual(owned(result, "Fix::Table", "hash entry"), (entries, 24 * entries))
			self.assertEqual(owned(result, "Fix::Hash", "hash entry")[0], 2 * 1500)
		self.each(check)

	def test_subs_by_name(self):
		def check(truth, result):
			rows = rows_by_name(result)
			for name, count in truth["code"].items():
				self.assertIn(("perl", "code", name), rows)
				self.assertEqual(rows[("perl", "code", name)]["count"], count, name)
		self.each(check)

	def test_every_sub_by_the_name_it_gives_itself(self):
		def check(perl):
			target = self.launch(perl, "perl_subs")
			said = [line[len("SUB "):] for line in target.lines if line.startswith("SUB ")]
			self.assertGreater(len(said), 500)
			found = {r["detail"]: r["count"] for r in self.look(target)["rows"] if (r["domain"], r["kind"]) == ("perl", "code")}
			missing = [(name, said.count(name), found.get(name)) for name in set(said) if found.get(name, 0) < said.count(name)]
			self.assertEqual(missing, [])
			target.end()
		self.for_each_perl(check)

	def test_sizes_of_strings_arrays_and_buckets(self):
		kinds = ("string buffer", "string slack", "array items", "array slack", "hash buckets")
		def check(truth, result):
			self.assertEqual(truth["ook"], 3)
			for package, bytes in truth["sizes"].items():
				_, found = owned(result, package, *kinds)
				count = max(owned(result, package, kind)[0] for kind in kinds)
				beside = ROUNDING if package != "Fix::Table" else ROUNDING + AUXILIARY
				self.assertTrue(bytes <= found <= bytes + beside * count, (package, bytes, found))
		self.each(check)

	def test_slack(self):
		"""What a string or array has room for and doesn't use is named apart."""
		def check(truth, result):
			for package, kind, used in (("Fix::Slack", "string", 101), ("Fix::Reserved", "array", 80)):
				whole = truth["sizes"][package]
				count, slack = owned(result, package, kind + " slack")
				self.assertEqual(count, 1)
				self.assertTrue(whole - used - 32 <= slack <= whole - used + ROUNDING, (package, whole, slack))
			# Items that were shifted off are still there, before the others.
			self.assertGreaterEqual(owned(result, "Fix::Shifted", "array items")[1], 8000)
			self.assertGreaterEqual(owned(result, "Fix::Chopped", "string buffer")[1], 300000)
		self.each(check)

	def test_shared_strings_are_counted_once(self):
		def check(truth, result):
			shared = truth["shared"]
			self.assertEqual(owned(result, "Fix::Shared", "scalar")[0], shared["copies"])
			count, found = owned(result, "Fix::Shared", "string buffer", "string slack")
			self.assertEqual(owned(result, "Fix::Shared", "string buffer")[0], shared["buffers"])
			self.assertTrue(shared["bytes"] <= found <= shared["bytes"] + ROUNDING * count, (shared, found))
		self.each(check)

	def test_magic_by_letter(self):
		def check(truth, result):
			for letter, count in truth["magic"].items():
				self.assertGreaterEqual(add_up(result, "count", domain="perl", kind="magic", detail=letter), count, letter)
			self.assertEqual(add_up(result, "count", domain="perl", kind="magic", detail="q"), truth["magic"]["q"])
		self.each(check)

	def test_low_memory_has_the_same_rows(self):
		target = self.launch(self.system_perl(), "perl_values")
		self.assertSameRows(self.look(target), self.look(target, "--low-memory"))

	def test_core_has_the_same_rows(self):
		def check(perl):
			target = self.launch(perl, "perl_values")
			live, core = self.look(target), harness.census(self.gcore(target))
			self.assertBalanced(core)
			self.assertKnown(core)
			for result in live, core: # gcore leaves text out
				result["rows"] = [r for r in result["rows"] if r["domain"] not in ("image", "os")]
			self.assertSameRows(live, core, ("count", "virtual"))
			target.end()
		self.for_each_perl(check)

	def test_kernel_core_has_the_same_values(self):
		"""Addresses differ from run to run, what there is doesn't."""
		argv = ["perl", os.path.join(harness.PROGRAMS, "perl_values.pl")]
		waiting = dict(os.environ, WAIT="1")
		path, ended = self.kernel_core(argv, env=waiting)
		truth = json.loads(ended.lines[-1][len("READY "):])
		core = harness.census(path)
		self.assertBalanced(core)
		self.assertKnown(core)
		rows = rows_by_name(core)
		for name, count in truth["objects"].items():
			self.assertEqual(rows[("perl", *name.split())]["count"], count, name)
		target = self.start(argv, env=waiting)
		target.stop()
		self.assertEqual(values(core), values(self.look(target)))

	def test_select_sees_the_same(self):
		target = self.launch(self.system_perl(), "perl_values")
		found, result = interpreters(target.pid)[0], self.look(target)
		kinds = ", ".join("'%s'" % kind for kind in KINDS)
		selected = freehold_json("select", target.pid, "domain = 'perl' and kind in (%s)" % kinds, "--limit", 0)
		self.assertEqual({int(row["start"], 16) for row in selected["rows"]}, set(found.flags))
		self.assertEqual(selected["total"]["count"], found.sv_count)
		self.assertEqual(selected["total"]["size"], 24 * found.sv_count)
		names = rows_by_name(result)
		wanted = freehold_json("select", target.pid, "detail = 'Fix::Nest' and kind = 'array'", "--limit", 0)
		self.assertEqual(wanted["total"]["count"], names[("perl", "array", "Fix::Nest")]["count"])


class OtherTools(PerlCase):
	def need_module(self, name):
		self.need("perl")
		if subprocess.run(["perl", "-M" + name, "-e1"], capture_output=True).returncode:
			self.skipTest("no %s here" % name)

	def test_devel_mat_counts_the_same(self):
		"""By kind and package, in one and the same state."""
		self.need_module("Devel::MAT")
		self.need_module("Devel::MAT::Dumper")
		dump = os.path.join(self.directory(), "dump")
		target = self.launch(self.system_perl(), "perl_values", env=dict(os.environ, DUMP=dump))
		result = self.look(target)
		done = subprocess.run(["perl", os.path.join(harness.PROGRAMS, "perl_dump.pl"), dump], stdout=subprocess.PIPE,
			text=True, check=True, timeout=harness.PATIENCE)
		counted = {}
		for row in result["rows"]:
			if row["domain"] == "perl" and row["kind"] in KINDS: # the detail of code is its name
				name = (row["kind"], "" if row["kind"] == "code" else row["detail"])
				counted[name] = counted.get(name, 0) + row["count"]
		lines = [line.split("\t") for line in done.stdout.splitlines()]
		self.assertEqual(counted, {(kind, package): int(count) for kind, package, count in lines})

	def test_devel_size_says_the_same_of_one_structure(self):
		"""It counts what perl asked malloc for; of a hash also its keys, which others share, so that isn't compared."""
		self.need_module("Devel::Size")
		target = self.run_perl(self.system_perl(), r"""
			use Devel::Size 'size';
			our @keep = (bless([1 .. 1000], 'One::Array'), bless(\(my $text = join ' ', 1 .. 3000), 'One::String'));
			$text .= 'x';
			print "$_ ", size($keep[$_]), "\n" for 0, 1;
			ready();""")
		result = self.look(target)
		array, string = (int(line.split()[1]) for line in target.lines if re.match(r"\d \d+$", line))
		# The block that malloc gives has a word more than was asked for, and is a multiple of 16.
		for package, said in ("One::Array", array), ("One::String", string):
			rows = [r for r in result["rows"] if r["domain"] == "perl" and r["detail"] == package]
			found = sum(r["virtual"] for r in rows)
			self.assertTrue(said + 8 <= found <= said + 8 + 15 + ROUNDING, (said, rows))


if __name__ == "__main__":
	unittest.main(verbosity=2)
