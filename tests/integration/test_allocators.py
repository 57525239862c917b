# SPDX-License-Identifier: Apache-2.0
"""Allocators that are recognised and not walked: each is named, its memory is not read as glibc's, and the census
balances all the same."""
import glob
import os
import unittest

import harness

SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void)
{
	static void *kept[1000];
	for (int i = 0; i < 1000; i++) {
		kept[i] = malloc((size_t)i * 17 + 16);
		if (!kept[i])
			return 1;
		memset(kept[i], 1, 16);
	}
	puts("READY");
	fflush(stdout);
	for (;;)
		pause();
}
"""


class Allocators(harness.Case):
	def program(self, *flags, compiler="cc"):
		place = self.directory()
		source = os.path.join(place, "keep.c")
		with open(source, "w") as f:
			f.write(SOURCE)
		return harness.compile_c(source, os.path.join(place, "keep"), *flags, compiler=compiler)

	def allocators(self, argv, **popen):
		target = self.start(argv, **popen)
		census = harness.census(target)
		self.assertBalanced(census, target.pid)
		return census["target"]["allocators"]

	def preloaded(self, pattern):
		libraries = sorted(glob.glob("/usr/lib/*-linux-gnu/" + pattern))
		if not libraries:
			self.skipTest("no %s here" % pattern)
		return self.allocators([self.program()], env=dict(os.environ, LD_PRELOAD=libraries[0]))

	def test_glibc(self):
		found = self.allocators([self.program()])
		self.assertEqual(len(found), 1)
		self.assertRegex(found[0], r"^glibc 2\.\d+$")

	def test_jemalloc(self):
		self.assertEqual(self.preloaded("libjemalloc.so.*"), ["jemalloc (not walked)"])

	def test_tcmalloc(self):
		self.assertEqual(self.preloaded("libtcmalloc_minimal.so.*"), ["tcmalloc (not walked)"])

	def test_mimalloc(self):
		self.assertEqual(self.preloaded("libmimalloc.so.*"), ["mimalloc (not walked)"])

	def test_musl(self):
		self.need("musl-gcc")
		for flags in ((), ("-static",)):
			with self.subTest(flags=flags):
				self.assertEqual(self.allocators([self.program(*flags, compiler="musl-gcc")]), ["musl (not walked)"])

	def test_address_sanitizer(self):
		try:
			program = self.program("-fsanitize=address")
		except harness.subprocess.CalledProcessError:
			self.skipTest("the compiler has no AddressSanitizer here")
		self.assertIn("AddressSanitizer (not walked)", self.allocators([program]))


if __name__ == "__main__":
	unittest.main()
