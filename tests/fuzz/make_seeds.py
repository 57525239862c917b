#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the seeds in corpus/fuzz_core again: small cores with notes, a file and two segments."""
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
