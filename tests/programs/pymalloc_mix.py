# SPDX-License-Identifier: Apache-2.0
"""Fills pymalloc and says what it thinks of it: _debugmallocstats() goes to standard error, then READY is printed and
the process stands still without allocating anything. Runs under every Python from 2.7 on.

	pymalloc_mix.py MIX		mix: plain, threads, subinterpreters, empty, blocks:N, deep:N (calls),
					wiped (of its version), version (prints it)
"""
import os
import random
import signal
import sys
import threading
import time


class Plain(object):
	def __init__(self, i):
		self.number = i
		self.text = "text %d" % i


class Slotted(object):
	__slots__ = ("left", "right")


def fill(seed, n=4000):
	"""Objects of all sizes up to the threshold and above, of which a random half is freed again."""
	generator = random.Random(seed)
	keep = []
	for i in range(n):
		keep.append(b"x" * generator.randrange(1, 700))
		keep.append(Plain(i))
		keep.append(Slotted())
		keep.append([i] * generator.randrange(0, 40))
		keep.append({"a%d" % k: k for k in range(generator.randrange(0, 12))})
		keep.append(float(i))
		keep.append(i << 70)
	generator.shuffle(keep)
	return keep[len(keep) // 2:]


def empty_arenas():
	"""Arenas that are emptied and given back, and pools that become free inside those that stay."""
	big = [b"y" * (400 + i % 2) for i in range(30000)]
	stay = big[:6000:1000]
	del big
	return stay


SUBINTERPRETER = """
import os, time
names = {"__name__": "sub"}
try:
	with open(%r) as f:
		exec(compile(f.read(), f.name, "exec"), names)
	keep = names["fill"](%d, 1500)
	names["settle"](lambda: time.sleep(100000), b"SUB\\n")
finally:
	os._exit(1)
"""


def start_subinterpreters(n):
	"""Each says SUB, and the next one starts when the test has answered with a line."""
	try:
		import _interpreters as interpreters
	except ImportError:
		import _xxsubinterpreters as interpreters
	for i in range(n):
		made = interpreters.create()
		thread = threading.Thread(target=interpreters.run_string, args=(made, SUBINTERPRETER % (__file__, i)))
		thread.daemon = True
		thread.start()
		while os.read(0, 1) != b"\n":
			pass


def start_threads(n, keep, stop):
	ready = threading.Semaphore(0)

	def work(i):
		keep.append(fill(i, 600))
		ready.release()
		stop.acquire()

	for i in range(n):
		thread = threading.Thread(target=work, args=(i,))
		thread.daemon = True
		thread.start()
	for i in range(n):
		ready.acquire()
	time.sleep(0.2)


def settle(pause, mark=b"READY\n"):
	"""The first round warms up what the second one needs."""
	stats = getattr(sys, "_debugmallocstats", lambda: None)
	write, blank = os.write, b" "
	for _ in range(3):
		stats()
		write(2, blank)
	write(2, b"\nFINAL\n")
	stats()
	write(2, b"\nEND\n")
	write(1, mark)
	pause()


def main():
	mix, _, number = sys.argv[1].partition(":")
	if mix == "version":
		print(sys.version.split()[0])
		return
	stop = threading.Lock()
	stop.acquire()
	keep = []
	if mix == "blocks":
		keep = [None] * 30000
		i, number = 0, int(number)
		while i < number:
			keep[i] = b"z" * (290 + i % 2)
			i += 1
	elif mix != "empty":
		keep.append(fill(1))
		keep.append(empty_arenas())
	if mix == "wiped":
		import ctypes
		ctypes.pythonapi.Py_GetVersion.restype = ctypes.c_void_p
		ctypes.memset(ctypes.pythonapi.Py_GetVersion(), 0, 64)
	if mix == "threads":
		start_threads(8, keep, stop)
	if mix == "subinterpreters":
		start_subinterpreters(3)
	if mix == "deep":
		sys.setrecursionlimit(2 * int(number))
		call_deep(int(number))
	settle(signal.pause)


def call_deep(n):
	a = b = c = d = e = f = g = h = i = j = k = l = m = o = p = q = r = s = t = n
	if n == 0:
		settle(signal.pause)
	call_deep(n - 1)


if __name__ == "__main__":
	main()
