# SPDX-License-Identifier: Apache-2.0
"""The real thing: dnf with a repository of 11,300 packages loaded, live and as a core file.

What DESIGN.md wants of it: each package object and its __dict__ under their own name, hardly anything that nobody
can name, nothing dark, and the same rows from a core file.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import harness
from harness import Case

PYTHON = "/usr/bin/python3"  # dnf's module belongs to the distribution's Python
PACKAGES = 11300
NAME = "YumAvailablePackage"
MOST_UNCATEGORIZED = 13 * 1000 * 1000
MOST_OF_PYMALLOC = 0.003
POOL = 16384  # since Python 3.10


def why_not():
	if not os.path.exists(PYTHON):
		return "no %s here" % PYTHON
	done = subprocess.run([PYTHON, "-c", "import dnf"], capture_output=True)
	return "the dnf module (python3-dnf) is not here" if done.returncode else None


class Dnf(Case):
	@classmethod
	def setUpClass(cls):
		reason = why_not()
		if reason:
			raise unittest.SkipTest(reason)
		place = tempfile.mkdtemp(prefix="freehold-dnf-")
		cls.addClassCleanup(shutil.rmtree, place, True)
		repository = os.path.join(place, "repository")
		subprocess.run([sys.executable, os.path.join(harness.WORKLOADS, "make_repository.py"), repository, str(PACKAGES)],
			check=True)
		cls.target = harness.Target([PYTHON, os.path.join(harness.WORKLOADS, "hold_packages.py"), repository])
		cls.addClassCleanup(cls.target.end)
		cls.facts = cls.target.ready_json()
		cls.target.stop()

	def check_names(self, census):
		self.assertEqual(self.facts["packages"], PACKAGES)
		objects = [r for r in census["rows"] if r["domain"] == "python" and r["kind"].split(".")[-1] == NAME]
		self.assertEqual(sum(r["count"] for r in objects), PACKAGES)
		# What an object's __dict__ is made of depends on the Python: a dict, an array of values, both, or a place
		# for each value in the object itself.
		dicts = [r["count"] for r in census["rows"] if r["detail"] == NAME + ".__dict__"
			and (r["domain"], r["kind"]) in (("python", "dict"), ("cpython", "dict values"))]
		if self.facts["inline_values"]:
			self.assertGreaterEqual(sum(r["virtual"] for r in objects), PACKAGES * 8 * self.facts["attributes"])
		else:
			self.assertIn(PACKAGES, dicts)
		self.assertTrue(all(count == PACKAGES for count in dicts), dicts)

	def check_unknown(self, census):
		self.assertLessEqual(harness.add_up(census, domain="uncategorized"), MOST_UNCATEGORIZED)
		self.assertEqual(harness.add_up(census, domain="uncategorized", kind="dark"), 0)

	def check_pymalloc(self, target):
		"""Pools are where pool headers are; what is uncategorized in one is pymalloc's."""
		headers = harness.freehold_json("select", target, "domain = 'pymalloc' and kind = 'pool header'", "--limit", 0)
		pools = {int(row["start"], 16) for row in headers["rows"]}
		self.assertGreater(len(pools), 1000)
		self.assertTrue(all(pool % POOL == 0 for pool in pools))
		unknown = harness.freehold_json("select", target, "domain = 'uncategorized'", "--limit", 0)
		size = sum(row["size"] for row in unknown["rows"] if int(row["start"], 16) // POOL * POOL in pools)
		self.assertLessEqual(size / (len(pools) * POOL), MOST_OF_PYMALLOC, "%d bytes" % size)

	def test_live(self):
		census = harness.census(self.target)
		self.assertBalanced(census, self.target.pid)
		self.check_names(census)
		self.check_unknown(census)
		self.check_pymalloc(self.target.pid)

	def test_core(self):
		path = self.gcore(self.target)
		core = harness.census(path)
		self.assertBalanced(core)
		self.check_names(core)
		self.check_unknown(core)
		self.check_pymalloc(path)
		loads = [s for s in harness.core_segments(path) if s[0] == 1]
		self.assertEqual(core["os"]["virtual"], sum(s[5] for s in loads))

	def test_core_has_the_rows_of_the_live_process(self):
		"""Text that gcore left out aside: those are rows of images and the OS."""
		live, core = harness.census(self.target), harness.census(self.gcore(self.target))
		for census in live, core:
			census["rows"] = [r for r in census["rows"] if r["domain"] not in ("image", "os")]
		self.assertSameRows(live, core, ("count", "virtual"))


if __name__ == "__main__":
	unittest.main(verbosity=2)
