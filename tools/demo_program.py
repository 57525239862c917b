# SPDX-License-Identifier: Apache-2.0
"""What `make demo` looks at: a made-up package index service as it might run for a week.

It holds a few thousand packages with their dependencies, two indexes over them, a cache of rendered pages that has
thrown most of its pages away (so the allocators hold free memory), a history, and one thread. It prints READY and
stays until its standard input ends.
"""
import array
import collections
import random
import sys
import threading

PACKAGES = 6000
REQUESTS = 4000


class Version:
	__slots__ = ("epoch", "number", "release")

	def __init__(self, number, release):
		self.epoch, self.number, self.release = 0, number, release

	def __str__(self):
		return "%s-%d" % (self.number, self.release)


class Package:
	def __init__(self, dice, serial):
		self.name = "%s-%s%d" % (dice.choice(STEMS), dice.choice(STEMS), serial)
		self.arch = "x86_64"
		self.version = Version("%d.%d" % (dice.randrange(10), dice.randrange(30)), dice.randrange(1, 9))
		self.summary = " ".join(dice.choice(STEMS) for _ in range(12))
		self.requires = []
		self.files = ["/usr/share/%s/%d.html" % (self.name, n) for n in range(dice.randrange(1, 12))]


class Page:
	"""A rendered answer, as the cache keeps it."""

	def __init__(self, package):
		self.body = bytearray(("<h1>%s %s</h1><p>%s</p>" % (package.name, package.version, package.summary)).encode() * 8)
		self.hits = 0


class Cache:
	def __init__(self, most):
		self.most, self.pages, self.latencies = most, collections.OrderedDict(), array.array("d")

	def get(self, package):
		page = self.pages.get(package.name)
		if page is None:
			page = self.pages[package.name] = Page(package)
			if len(self.pages) > self.most:
				self.pages.popitem(last=False)
		page.hits += 1
		self.latencies.append(len(page.body) / 1e6)


STEMS = "amber birch cedar delta ember fjord grove haven inlet jade kelp larch maple north ocean pine quartz reed".split()


def main():
	dice = random.Random(2010)
	packages = [Package(dice, serial) for serial in range(PACKAGES)]
	for package in packages:
		package.requires.extend(dice.sample(packages, 3))
	by_name = {package.name: package for package in packages}
	providers = collections.defaultdict(set)
	for package in packages:
		for needed in package.requires:
			providers[needed.name].add(package.name)
	cache, history = Cache(400), collections.deque(maxlen=2000)
	for _ in range(REQUESTS):
		name = dice.choice(packages).name
		cache.get(by_name[name])
		history.append((name, len(history)))
	threading.Thread(target=threading.Event().wait, name="refresher", daemon=True).start()
	print("READY", flush=True)
	sys.stdin.read()


main()
