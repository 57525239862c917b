# SPDX-License-Identifier: Apache-2.0
"""libfreehold as somebody else uses it: installed, found by pkg-config, compiled against, run."""
import os
import subprocess
import unittest

import harness
from harness import Case

EXAMPLE = os.path.join(harness.TOP, "doc", "examples", "largest_types.c")


class Library(Case):
	def test_installed_example(self):
		self.need("meson", "pkg-config", "cc")
		build = os.path.dirname(harness.FREEHOLD)
		if not os.path.exists(os.path.join(build, "build.ninja")):
			self.skipTest("the program under test is in no build directory")
		root = self.directory()
		subprocess.run(["meson", "install", "-C", build, "--destdir", root, "--no-rebuild"], check=True,
			stdout=subprocess.DEVNULL, timeout=harness.PATIENCE)
		found = [d for d, _, files in os.walk(root) if "libfreehold.pc" in files]
		self.assertEqual(len(found), 1)
		environment = dict(os.environ, PKG_CONFIG_PATH=found[0], PKG_CONFIG_SYSROOT_DIR=root)
		flags = subprocess.run(["pkg-config", "--cflags", "--libs", "libfreehold"], env=environment, check=True,
			stdout=subprocess.PIPE, text=True).stdout.split()
		program = os.path.join(root, "example")
		if "-fsanitize" in open(os.path.join(build, "build.ninja")).read():
			flags.append("-fsanitize=address,undefined")
		subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", EXAMPLE, "-o", program, *flags], check=True, timeout=harness.PATIENCE)
		target = self.start(["/usr/bin/python3", "-c", "x = [str(i) for i in range(50000)]; print('READY', flush=True); input()"])
		library = os.path.join(os.path.dirname(found[0]))
		done = subprocess.run([program, str(target.pid)], env=dict(os.environ, LD_LIBRARY_PATH=library), stdout=subprocess.PIPE,
			stderr=subprocess.PIPE, text=True, timeout=harness.PATIENCE)
		self.assertEqual(done.returncode, 0, done.stderr)
		self.assertRegex(done.stdout, r"bytes in +\d+ of str\n")
		numbers = [int(word.strip(",")) for word in done.stdout.splitlines()[-1].split() if word.strip(",").isdigit()]
		self.assertEqual(numbers[0], numbers[1])
		self.assertIn("no such process", subprocess.run([program, "99999999"], env=dict(os.environ, LD_LIBRARY_PATH=library),
			stderr=subprocess.PIPE, text=True).stderr)

	def test_only_the_public_functions_are_visible(self):
		self.need("nm")
		library = os.path.join(os.path.dirname(harness.FREEHOLD), "libfreehold.so")
		if not os.path.exists(library):
			self.skipTest("no shared library beside the program under test")
		listed = subprocess.run(["nm", "-D", "--defined-only", library], check=True, stdout=subprocess.PIPE, text=True).stdout
		names = {line.split()[-1].partition("@")[0] for line in listed.splitlines()} - {"FREEHOLD_0.1"}
		self.assertTrue(names)
		self.assertEqual({n for n in names if not n.startswith("fh_")}, set())
		header = open(os.path.join(harness.TOP, "include", "freehold.h")).read()
		for name in names:
			self.assertIn(name + "(", header)


if __name__ == "__main__":
	unittest.main()
