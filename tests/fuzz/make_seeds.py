#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the seeds in corpus/ again. For fuzz_core: small cores with notes, a file and two segments. For fuzz_glibc:
a heap of each flavour with chunks of every kind, as it is and with a few words overwritten."""
import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "integration"))
from test_core import PT_LOAD, PT_NOTE, elf, note  # noqa: E402

NOTES = note(1, bytes(336)) + note(3, bytes(136)) + note(6, struct.pack("<QQQQ", 33, 0x20000, 0, 0)) + \
	note(0x46494c45, struct.pack("<QQQQQ", 1, 4096, 0x10000, 0x11000, 0) + b"/bin/x\0")
HEADERS = [(PT_NOTE, 0, 64 + 56 * 3, 0, len(NOTES), 0), (PT_LOAD, 5, 2048, 0x10000, 4096, 8192),
	(PT_LOAD, 6, 2048, 0x20000, 4096, 4096)]

for name, content in {
	"notes": elf(headers=HEADERS, body=(NOTES + bytes(4096))[:1816] + bytes(4096)),
	"plain": elf(headers=HEADERS[1:], body=bytes(6200)),
	"program": elf(kind=2, headers=HEADERS[1:]),
}.items():
	with open(os.path.join(HERE, "corpus", "fuzz_core", name), "wb") as f:
		f.write(content)

for flavour in range(3):
	heap = bytes([flavour, 100]) + bytes(i * 37 % 256 for i in range(100)) + b"\1\1"
	sizes = b"".join(bytes([5, 7 + 8 * (i % 4), i * 11, i * 7, i % 8]) for i in range(12))
	links = b"".join(bytes([3 + i % 2, 23, i * 13, 7, i * 29 % 256]) for i in range(12))
	states = b"".join(bytes([i % 6, i % 7, i * 5]) + bytes(8) for i in range(12))
	for name, content in {"sound": heap, "sizes": heap + sizes, "links": heap + links, "states": heap + states}.items():
		with open(os.path.join(HERE, "corpus", "fuzz_glibc", "%s-%d" % (name, flavour)), "wb") as f:
			f.write(content)
