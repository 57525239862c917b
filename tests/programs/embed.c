/* SPDX-License-Identifier: Apache-2.0 */
/*
 * embed LIBPYTHON...: loads each library by itself and runs a Python in it. Each prints its report of pymalloc, as
 * pymalloc_mix.py does, then the program prints READY and stands still. With -0 before it a library is only loaded.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char program[] =
	"import sys\n"
	"class Plain(object): pass\n"
	"keep = [Plain() for i in range(1000)] + [b'x' * (i % 600) for i in range(5000)]\n"
	"keep = keep[::2]\n";

static const char report[] =
	"import os, sys\n"
	"for i in range(3): sys._debugmallocstats(); os.write(2, b' ')\n"
	"os.write(2, b'\\nFINAL\\n'); sys._debugmallocstats(); os.write(2, b'\\nEND\\n')\n";

static void *load(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return library;
}

static int run(void *library, const char *text)
{
	return ((int (*)(const char *, void *))dlsym(library, "PyRun_SimpleStringFlags"))(text, NULL);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		void *library;

		if (strcmp(argv[i], "-0") == 0) {
			load(argv[++i]);
			continue;
		}
		library = load(argv[i]);
		((void (*)(int))dlsym(library, "Py_InitializeEx"))(0);
		if (run(library, program) || run(library, report))
			return 1;
	}
	if (write(1, "READY\n", 6) != 6)
		return 1;
	pause();
	return 0;
}
