# SPDX-License-Identifier: Apache-2.0
"""run_one.py FILE RESULT: run one test file and write what became of each test into RESULT, as JSON lines.

tests/run starts one of these for each file. Every line is written at once, so that of a run that had to be ended
the finished part is known: {"test", "outcome": "passed" | "failed" | "skipped", "text"}.
"""
import importlib
import json
import os
import sys
import unittest


class Recorder(unittest.TestResult):
	def __init__(self, stream):
		super().__init__()
		self.stream, self.bad, self.skips = stream, [], []

	def write(self, test, outcome, text=""):
		print(json.dumps({"test": test, "outcome": outcome, "text": text}), file=self.stream, flush=True)

	def startTest(self, test):
		super().startTest(test)
		self.bad, self.skips = [], []
		print("%s ..." % test.id(), flush=True)

	def stopTest(self, test):
		super().stopTest(test)
		if self.bad:
			self.write(test.id(), "failed", "\n".join(self.bad))
		elif self.skips and self.skips[0][0] is test:
			self.write(test.id(), "skipped", self.skips[0][1])
		else:
			self.write(test.id(), "passed")
			for part, reason in self.skips:  # subTests that were left out, each by itself
				self.write(part.id(), "skipped", reason)

	def blame(self, test, error):
		self.bad.append("%s\n%s" % (test.id(), self._exc_info_to_string(error, test)))

	def addFailure(self, test, error):
		self.blame(test, error)

	def addError(self, test, error):
		self.blame(test, error)
		if not isinstance(test, unittest.TestCase):  # setUpClass and the like have no stopTest
			self.write(test.id(), "failed", self.bad.pop())

	def addSubTest(self, test, part, error):
		if error is not None:
			self.blame(part, error)

	def addSkip(self, test, reason):
		self.skips.append((test, reason))
		if not isinstance(test, unittest.TestCase):
			self.write(test.id(), "skipped", reason)

	def addExpectedFailure(self, test, error):
		self.bad.append("%s: expected failures are not allowed" % test.id())

	def addUnexpectedSuccess(self, test):
		self.bad.append("%s: expected failures are not allowed" % test.id())


def main(path, result):
	sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
	with open(result, "w") as stream:
		recorder = Recorder(stream)
		try:
			module = importlib.import_module(os.path.basename(path)[:-len(".py")])
		except unittest.SkipTest as reason:
			recorder.write(os.path.basename(path), "skipped", str(reason))
			return
		unittest.defaultTestLoader.loadTestsFromModule(module).run(recorder)
		recorder.write("", "end")


main(*sys.argv[1:])
