# SPDX-License-Identifier: Apache-2.0
# The front doors. The work is in tools/setup, tools/demo and tests/run; the build itself is meson's.

all: build

help:
	@echo 'make demo           build, start a Python program and show where its memory is'
	@echo 'make demo PID=1234  the same for a process that is running'
	@echo 'make check          build and run all tests'
	@echo 'make                build only: build/freehold'
	@echo 'make install        install under /usr/local (DESTDIR and PREFIX as usual)'
	@echo 'make bench          measure speed and memory against the limits (takes minutes)'
	@echo 'make clean          remove what was built'
	@echo
	@echo 'Each installs what it needs and the machine lacks, and says so before (Debian, with apt-get).'

build:
	@tools/setup build
	@tools/build

demo:
	@tools/setup demo
	@tools/build
	@tools/demo $(PID)

check:
	@tools/setup check
	@tests/run

bench:
	@tools/setup check
	@tools/build
	@bench/run

install: build
	@meson configure build --prefix $(or $(PREFIX),/usr/local)
	@meson install -C build

clean:
	rm -rf build build-*

.PHONY: all help build demo check bench install clean
