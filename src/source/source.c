/* SPDX-License-Identifier: Apache-2.0 */
#include "source/source.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A hostile core has something wrong in each of a million places. */
#define MOST_WARNINGS 200

struct fh_error *source_init(struct source *source, const struct source_ops *ops)
{
	*source = (struct source){ .ops = ops, .command = "", .exe = "", .pause_ms = -1 };
	memory_init(&source->memory);
	source->strings = strings_create();
	return source->strings ? NULL : error_no_memory();
}

void source_deinit(struct source *source)
{
	memory_deinit(&source->memory);
	vec_free(&source->open_files);
	ranges_deinit(&source->resident);
	ranges_deinit(&source->swapped);
	vec_free(&source->mappings);
	vec_free(&source->omitted);
	vec_free(&source->threads);
	vec_free(&source->warnings);
	strings_destroy(source->strings);
}

void source_destroy(struct source *source)
{
	if (source)
		source->ops->destroy(source);
}

void source_warn(struct source *source, const char *format, ...)
{
	char buffer[1024];
	const char *text;
	va_list ap;

	if (source->warnings.len > MOST_WARNINGS)
		return;
	va_start(ap, format);
	vsnprintf(buffer, sizeof(buffer), format, ap);
	va_end(ap);
	for (size_t i = 0; i < source->warnings.len; i++)
		if (strcmp(source->warnings.items[i], buffer) == 0)
			return;
	if (source->warnings.len == MOST_WARNINGS)
		return;
	text = source->warnings.len + 1 < MOST_WARNINGS ? strings_add(source->strings, buffer) :
							   "there are more warnings than these; they are not shown";
	if (text)
		(void)vec_push(&source->warnings, text);
}

uint64_t source_auxv(const struct source *source, uint64_t type)
{
	for (size_t i = 0; i < sizeof(source->auxv) / sizeof(*source->auxv) && source->auxv[i][0] != AT_NULL; i++)
		if (source->auxv[i][0] == type)
			return source->auxv[i][1];
	return 0;
}

const struct mapping *source_mapping_at(const struct source *source, uint64_t address)
{
	size_t i = vec_after(&source->mappings, .end, address);

	if (i == source->mappings.len || source->mappings.items[i].start > address)
		return NULL;
	return &source->mappings.items[i];
}

bool source_string(struct source *source, uint64_t address, char *buffer, size_t size)
{
	size_t got = memory_read(&source->memory, address, buffer, size);

	return memchr(buffer, '\0', got) != NULL;
}

struct fh_error *source_open(const char *target, const struct fh_options *options,
			     struct source **ret)
{
	char *end;
	long pid;

	errno = 0;
	pid = strtol(target, &end, 10);
	if (isdigit((unsigned char)target[0]) && *end == '\0') {
		if (errno || pid <= 0 || pid > INT32_MAX)
			return error_create(FH_ERROR_NOT_FOUND,
					    "process %s: there can be no such process id", target);
		return source_open_live((pid_t)pid, options, ret);
	}
	return source_open_core(target, options, ret);
}
