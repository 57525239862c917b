# SPDX-License-Identifier: Apache-2.0
"""The architecture is one-directional: each folder of src/ includes only what is to its left in ARCHITECTURE.md's line

	base | source -> image, ledger -> layout -> ...

Folders between two arrows don't know each other, and neither do two allocators or two runtimes. Also here: what
only one room may do, and how long a file may be.
"""
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SRC = os.path.join(TOP, "src")
PLUGIN_FOLDERS = ("alloc", "runtime")
LONGEST = 600
# What only one folder may do: a pattern in the code (comments are taken out), the folders, and what it is.
ROOMS = (
	(r"\b(ptrace|process_vm_readv)\s*\(", ("source",), "touches the target"),
	(r'"/proc/', ("source",), "reads /proc"),
	(r"\b(printf|puts|putchar)\s*\(", ("output", "cli"), "prints"),
	(r"\b(exit|_exit|abort)\s*\(", ("cli", "source"), "exits"),  # source: the helper that guards a stopped target
)


def ranks():
	"""{folder: place}, smaller is further left; folders between the same two arrows have the same."""
	with open(os.path.join(TOP, "ARCHITECTURE.md")) as f:
		line = re.search(r"^\s*(base \|.* -> .*)$", f.read(), re.M)
	if not line:
		sys.exit("ARCHITECTURE.md has no line that begins with `base |`")
	groups = re.split(r"->|\|", line[1])
	return {name.strip(): place for place, group in enumerate(groups) for name in group.split(",")}


def sources():
	for folder, _, names in sorted(os.walk(SRC)):
		for name in sorted(names):
			if name.endswith((".c", ".h")):
				yield os.path.relpath(os.path.join(folder, name), SRC)


def without_comments(text):
	return re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: "\n" * m[0].count("\n"), text, flags=re.S)


def check_include(path, included, place):
	"""What is wrong with this #include, or None."""
	if not os.path.exists(os.path.join(SRC, included)):
		if "/" not in included and any(os.path.exists(os.path.join(TOP, d, included)) for d in ("include", "layouts")):
			return None
		return "is not a path below src/"
	mine, theirs = path.split("/"), included.split("/")
	if mine[0] == theirs[0]:
		plugins = mine[0] in PLUGIN_FOLDERS and len(mine) > 2 and len(theirs) > 2
		return "is another plugin's" if plugins and mine[1] != theirs[1] else None
	if theirs[0] not in place:
		return "is in a folder that ARCHITECTURE.md doesn't name"
	return None if place[theirs[0]] < place[mine[0]] else "is not to the left of %s/" % mine[0]


def check(path, place):
	with open(os.path.join(SRC, path)) as f:
		text = f.read()
	if not text.startswith("/* SPDX-License-Identifier: Apache-2.0 */\n"):
		yield 1, "has no licence line"
	if text.count("\n") > LONGEST:
		yield LONGEST, "has %d lines: is there a second idea in it?" % text.count("\n")
	folder = path.split("/")[0]
	if folder not in place:
		yield 1, "is in a folder that ARCHITECTURE.md doesn't name"
		return
	for number, line in enumerate(without_comments(text).split("\n"), 1):
		include = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
		problem = include and check_include(path, include[1], place)
		if problem:
			yield number, '"%s" %s' % (include[1], problem)
		for pattern, rooms, what in ROOMS:
			if folder not in rooms and re.search(pattern, line):
				yield number, "%s; only %s may" % (what, ", ".join(rooms))


def main():
	place, n, bad = ranks(), 0, 0
	for path in sources():
		n += 1
		for number, problem in check(path, place):
			print("src/%s:%d: %s" % (path, number, problem))
			bad += 1
	print("%d files, %d problems" % (n, bad))
	sys.exit(1 if bad or not n else 0)


main()
