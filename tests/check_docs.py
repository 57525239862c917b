# SPDX-License-Identifier: Apache-2.0
"""What the program says of itself in --help, README.md and the manual page agree.

Every command and option of the help is in the manual page, no document names one that isn't there, each exit status is
in all three, and README.md has the front doors and the versions of what is known from within.
"""
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FREEHOLD = os.environ.get("FREEHOLD", os.path.join(TOP, "build", "freehold"))
README, MAN = "README.md", "man/freehold.1.scd"
# Options of other programs that the documents name.
FOREIGN = {README: {"--cap-add", "--cflags", "--libs"}, MAN: set()}

problems = []


def read(name):
	try:
		with open(os.path.join(TOP, name)) as f:
			return f.read()
	except OSError as error:
		problems.append("%s: %s" % (name, error.strerror))
		return ""


def run(*arguments):
	done = subprocess.run([FREEHOLD, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
	if done.returncode:
		problems.append("freehold %s: exit status %d" % (" ".join(arguments), done.returncode))
	return done.stdout


def options(text):
	return set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))


def main():
	help_text = run("--help")
	commands = re.findall(r"^  ([a-z]+) TARGET", help_text, re.M)
	known = options(help_text)
	for command in commands:
		known |= options(run(command, "--help"))
	readme, man = read(README), read(MAN).replace("\\-", "-")
	if not commands or not known:
		problems.append("--help names no commands or no options")
	for name, text in ((README, readme), (MAN, man)):
		for option in sorted(options(text) - known - FOREIGN[name]):
			problems.append("%s: %s is no option" % (name, option))
		for command in commands:
			if not re.search(r"\b%s\b" % command, text):
				problems.append("%s: nothing of the command %s" % (name, command))
	for option in sorted(known - options(man)):
		problems.append("%s: nothing of %s" % (MAN, option))
	for name, text in (("--help", help_text[help_text.find("exit status"):]), (README, readme[readme.find("### Exit"):]),
			(MAN, man[man.find("# EXIT"):])):
		for status in "0123":
			if not re.search(r"(^|[|,*: ])%s\b" % status, text, re.M):
				problems.append("%s: nothing of exit status %s" % (name, status))
	for door in ("make demo", "make check"):
		if door not in readme:
			problems.append("%s: nothing of `%s`" % (README, door))
	known_of = re.search(r"^What is known.*\n((?:  .*\n)+)", help_text, re.M)
	for line in known_of[1].splitlines() if known_of else ["nothing 0"]:
		title = line.strip().removeprefix("malloc of ")
		if re.search(r"\d", title) and title not in readme:
			problems.append("%s: nothing of %s, which the help has" % (README, title))
	version = run("--version").split()[-1:]
	declared = re.search(r"version: '([^']+)'", read("meson.build"))[1]
	if version != [declared]:
		problems.append("--version says %r, meson.build %s" % (version, declared))
	print("\n".join(problems) or "%d commands, %d options" % (len(commands), len(known)))
	sys.exit(1 if problems else 0)


main()
