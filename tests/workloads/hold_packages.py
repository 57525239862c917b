# SPDX-License-Identifier: Apache-2.0
"""hold_packages.py REPOSITORY: dnf with a repository loaded and a transaction resolved, as a process to look at.

On top of what dnf itself holds in C it keeps one Python object for each package with its facts in its __dict__, as
the package manager of 2010 did, whose 6 GB were what people wanted explained. Prints READY and the counts as JSON,
and stays until its input ends. Needs the distribution's Python, for its dnf module.
"""
import json
import os
import sys

import dnf


class YumAvailablePackage(object):
	"""What is known of a package, each fact an attribute."""

	def __init__(self, package):
		for fact in ("name", "arch", "epoch", "version", "release", "size", "summary"):
			setattr(self, fact, getattr(package, fact))
		self.pkgtup = (package.name, package.arch, str(package.epoch), package.version, package.release)
		self.prco = {}
		for relation in ("provides", "requires"):
			self.prco[relation] = [(str(name), None, (None, None, None)) for name in getattr(package, relation)]
		self.repoid = package.reponame
		self.files = list(package.files) if package.name.endswith("-libs") else None


def open_base(repository):
	place = os.path.dirname(os.path.abspath(repository))
	base = dnf.Base()
	settings = base.conf
	settings.installroot = os.path.join(place, "root")
	settings.cachedir = settings.logdir = os.path.join(place, "cache")
	settings.persistdir = os.path.join(place, "state")
	settings.substitutions.update(releasever="6", arch="x86_64", basearch="x86_64")
	settings.reposdir, settings.pluginpath, settings.gpgcheck, settings.ignorearch = [], [], False, True
	settings.module_platform_id = "platform:el6"
	os.makedirs(settings.installroot, exist_ok=True)
	base.repos.add_new_repo("made-up", settings, baseurl=["file://" + os.path.abspath(repository)], gpgcheck=False)
	base.fill_sack(load_system_repo=False, load_available_repos=True)
	return base


def main():
	base = open_base(sys.argv[1])
	packages = {(p.name, p.arch): YumAvailablePackage(p) for p in base.sack.query().available()}
	attributes = len(vars(YumAvailablePackage(base.sack.query().available()[0])))
	for name, _ in sorted(packages)[-40:]:
		base.install(name)
	base.resolve()
	inline_values = bool(YumAvailablePackage.__flags__ & 1 << 2)  # Py_TPFLAGS_INLINE_VALUES, since 3.13
	print("READY " + json.dumps({"packages": len(packages), "sack": len(base.sack), "transaction": len(base.transaction),
		"attributes": attributes, "inline_values": inline_values}), flush=True)
	sys.stdin.read()


main()
