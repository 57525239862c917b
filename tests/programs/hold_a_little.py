# SPDX-License-Identifier: Apache-2.0
"""A small heap on any Python from 2.7 on: prints READY and stays until its input ends."""
import sys
import threading


class Thing(object):
	def __init__(self, i):
		self.number, self.name, self.others = i, "thing %d" % i, [i]


class Slotted(object):
	__slots__ = ("number",)


things = dict((i, Thing(i)) for i in range(4000))
slotted = [Slotted() for i in range(2000)]
numbers = set(range(5000))
text = u"\u0416" * 100000
raw = bytearray(3000000)
holes = [bytearray(2000) for i in range(4000)][::3]
thread = threading.Thread(target=threading.Event().wait)
thread.daemon = True
thread.start()
sys.stdout.write("READY\n")
sys.stdout.flush()
sys.stdin.readline()
