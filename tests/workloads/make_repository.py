# SPDX-License-Identifier: Apache-2.0
"""make_repository.py DIRECTORY COUNT: the metadata of an RPM repository with COUNT made-up packages.

Only repodata/ is written, which is all that a package manager loads before it downloads: repomd.xml, primary,
filelists and other. The same COUNT gives the same bytes every time.
"""
import gzip
import hashlib
import os
import random
import sys
from xml.sax.saxutils import escape, quoteattr

WORDS = """anchor basin canvas dynamo engine falcon garnet hollow island jasper kernel lantern marble needle orchid
	pepper quiver ribbon saddle timber umbrel velvet willow yonder zephyr""".split()
STEMS = "lib python3- perl- gnome- kde- font- go- ruby- node- texlive-".split()
SUFFIXES = ["", "-devel", "-doc", "-libs", "-common", "-tools"]
NAMESPACE = "http://linux.duke.edu/metadata/"
EPOCH_2010 = 1262304000


def element(tag, /, *inside, **attributes):
	"""XML text of one element; `inside` is XML already. An attribute `type_` is written `type`."""
	head = tag + "".join(" %s=%s" % (k.rstrip("_"), quoteattr(str(v))) for k, v in attributes.items())
	return "<%s>%s</%s>" % (head, "".join(inside), tag) if inside else "<%s/>" % head


class Package:
	def __init__(self, serial, earlier):
		dice = random.Random(serial)
		self.name = "%s%s-%s%d%s" % (dice.choice(STEMS), dice.choice(WORDS), dice.choice(WORDS), serial,
			SUFFIXES[min(int(dice.expovariate(1)), 5)])
		self.arch = "noarch" if dice.random() < 0.3 else "x86_64"
		self.version, self.release = "%d.%d" % (dice.randrange(12), dice.randrange(40)), "%d.el6" % dice.randrange(1, 20)
		self.id = hashlib.sha256(self.name.encode()).hexdigest()
		self.built = EPOCH_2010 + serial * 613
		self.summary = self.prose(dice, 9)
		self.description = "\n".join(self.prose(dice, 14) + "." for _ in range(dice.randrange(2, 6)))
		self.provides = [self.name, "%s(%s)" % (self.name, self.arch)]
		self.provides += ["lib%s-%d.so.%d()(64bit)" % (dice.choice(WORDS), serial, n) for n in range(dice.randrange(4))]
		self.requires = sorted({earlier[int(dice.random() ** 2 * len(earlier))].name for _ in range(dice.randrange(7))
			} if earlier else ())
		self.files = ["/usr/bin/" + self.name]
		self.files += ["/usr/share/%s/%s/%s-%d.dat" % (self.name, dice.choice(WORDS), dice.choice(WORDS), n)
			for n in range(int(dice.expovariate(1 / 15)))]
		self.changes = [(self.built - n * 86400 * 30, self.prose(dice, 10)) for n in range(dice.randrange(1, 7))]
		self.sizes = [dice.randrange(5000, 5000000) for _ in range(3)]
		self.header = dice.randrange(6000, 60000)

	@staticmethod
	def prose(dice, words):
		return " ".join(dice.choice(WORDS) for _ in range(words)).capitalize()

	def evr(self):
		return {"epoch": 0, "ver": self.version, "rel": self.release}

	def primary(self):
		file_name = "%s-%s-%s.%s.rpm" % (self.name, self.version, self.release, self.arch)
		entries = [element("rpm:entry", name=name, flags="EQ", **self.evr()) for name in self.provides]
		needs = [element("rpm:entry", name=name) for name in self.requires]
		return element("package",
			element("name", escape(self.name)), element("arch", self.arch), element("version", **self.evr()),
			element("checksum", self.id, type_="sha256", pkgid="YES"),
			element("summary", escape(self.summary)), element("description", escape(self.description)),
			element("packager", "Nobody"), element("url", "http://example.com/" + escape(self.name)),
			element("time", file=self.built, build=self.built),
			element("size", **dict(zip(("package", "installed", "archive"), self.sizes))),
			element("location", href="Packages/" + file_name),
			element("format",
				element("rpm:license", "MIT"), element("rpm:vendor", "Nobody"), element("rpm:group", "Unspecified"),
				element("rpm:buildhost", "builder.example.com"),
				element("rpm:sourcerpm", "%s-%s-%s.src.rpm" % (escape(self.name), self.version, self.release)),
				element("rpm:header-range", start=4400, end=self.header),
				element("rpm:provides", *entries), element("rpm:requires", *needs) if needs else "",
				element("file", self.files[0])),
			type_="rpm")

	def listed(self, *inside):
		return element("package", element("version", **self.evr()), *inside, pkgid=self.id, name=self.name,
			arch=self.arch)

	def filelists(self):
		return self.listed(*[element("file", escape(path)) for path in self.files])

	def other(self):
		return self.listed(*[element("changelog", "- " + escape(text), author="Nobody <nobody@example.com>", date=date)
			for date, text in self.changes])


def write_part(directory, kind, root, space, packages):
	"""Writes one compressed part; returns its entry in repomd.xml."""
	lines = [getattr(package, kind)() for package in packages]
	text = '<?xml version="1.0" encoding="UTF-8"?>\n<%s xmlns="%s%s" xmlns:rpm="%srpm" packages="%d">\n%s\n</%s>\n' % (
		root, NAMESPACE, space, NAMESPACE, len(lines), "\n".join(lines), root)
	raw = text.encode()
	packed = gzip.compress(raw, 6, mtime=0)
	with open(os.path.join(directory, kind + ".xml.gz"), "wb") as f:
		f.write(packed)
	return element("data",
		element("checksum", hashlib.sha256(packed).hexdigest(), type_="sha256"),
		element("open-checksum", hashlib.sha256(raw).hexdigest(), type_="sha256"),
		element("location", href="repodata/%s.xml.gz" % kind), element("timestamp", str(EPOCH_2010)),
		element("size", str(len(packed))), element("open-size", str(len(raw))), type_=kind)


def main(directory, count):
	place = os.path.join(directory, "repodata")
	os.makedirs(place, exist_ok=True)
	packages = []
	for serial in range(count):
		packages.append(Package(serial, packages))
	parts = [write_part(place, kind, root, space, packages) for kind, root, space in
		(("primary", "metadata", "common"), ("filelists", "filelists", "filelists"), ("other", "otherdata", "other"))]
	with open(os.path.join(place, "repomd.xml"), "w") as f:
		f.write('<?xml version="1.0" encoding="UTF-8"?>\n<repomd xmlns="%srepo" xmlns:rpm="%srpm">%s%s</repomd>\n' % (
			NAMESPACE, NAMESPACE, element("revision", str(EPOCH_2010)), "".join(parts)))


if __name__ == "__main__":
	main(sys.argv[1], int(sys.argv[2]))
