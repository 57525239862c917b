/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which CPython this is, as the target itself says it, the best witness first:
 *  - _Py_DebugOffsets, at the start of _PyRuntime since 3.13 (Include/internal/pycore_debug_offsets.h)
 *  - the text that Py_GetVersion() made when `sys` was set up (Python/getversion.c)
 *  - the symbol Py_Version, exported since 3.11 (Include/pylifecycle.h)
 *  - PY_VERSION in the read-only data, when the table knows it
 */
#include <ctype.h>
#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/cpython/internal.h"

/* "xdebugpy" as a little-endian word. */
#define COOKIE UINT64_C(0x7970677562656478)

/* PY_VERSION_HEX: major, minor, micro, level, serial (Include/patchlevel.h). */
static bool set_hex(struct cpython *py, uint64_t hex)
{
	unsigned major = hex >> 24 & 255, minor = hex >> 16 & 255, micro = hex >> 8 & 255;
	const char *level = (hex >> 4 & 15) == 10 ? "a" : (hex >> 4 & 15) == 11 ? "b" : "rc";

	if (hex >> 32 || (major != 2 && major != 3))
		return false;
	if ((hex >> 4 & 15) == 15)
		snprintf(py->version, sizeof(py->version), "%u.%u.%u", major, minor, micro);
	else
		snprintf(py->version, sizeof(py->version), "%u.%u.%u%s%u", major, minor, micro, level,
			 (unsigned)(hex & 15));
	snprintf(py->series, sizeof(py->series), "%u.%u", major, minor);
	return true;
}

/* "3.11.2", "3.15.0a1+"; the length of what is a version at the start of the text, or 0. */
static size_t version_len(const char *text)
{
	size_t i = 0, dots = 0;

	if (text[0] != '2' && text[0] != '3')
		return 0;
	for (; isdigit((unsigned char)text[i]) || (text[i] == '.' && isdigit((unsigned char)text[i + 1])); i++)
		dots += text[i] == '.';
	if (dots < 1 || dots > 2)
		return 0;
	while (isalnum((unsigned char)text[i]) || text[i] == '+')
		i++;
	return i < 16 ? i : 0;
}

static void set_text(struct cpython *py, const char *text, size_t len)
{
	const char *minor = memchr(text, '.', len);
	size_t series = (size_t)(minor - text) + 1;

	while (series < len && isdigit((unsigned char)text[series]))
		series++;
	snprintf(py->version, sizeof(py->version), "%.*s", (int)len, text);
	snprintf(py->series, sizeof(py->series), "%.*s", (int)series, text);
}

/* ---- _Py_DebugOffsets --------------------------------------------------- */

static bool visit_cookie(void *context, uint64_t address, const uint64_t *words, size_t n)
{
	struct cpython *py = context;
	uint64_t version;

	for (size_t i = 0; i < n && !py->debug_offsets; i++)
		if (words[i] == COOKIE && source_u64(py->target->source, address + i * 8 + 8, &version) &&
		    set_hex(py, version))
			py->debug_offsets = address + i * 8;
	return !py->debug_offsets;
}

/* ---- Py_Version ---------------------------------------------------------- */

static void ask_symbol(struct cpython *py, struct image *image)
{
	uint64_t address, hex;

	if (image_symbol(py->target->images, image, "Py_Version", &address, NULL) &&
	    source_u64(py->target->source, address, &hex))
		set_hex(py, hex);
}

/* ---- Py_GetVersion() ------------------------------------------------------ */

/* "3.11.2 (main, Feb 12 2023, 00:48:52) [GCC 12.2.0]": the buffer is static and large, so it is aligned. */
static bool visit_text(void *context, uint64_t address, const uint64_t *words, size_t n)
{
	struct cpython *py = context;
	char text[256];
	size_t len;

	for (size_t i = 0; i < n && !py->version[0]; i++) {
		if (((words[i] & 0xff) != '2' && (words[i] & 0xff) != '3') || (words[i] >> 8 & 0xff) != '.' ||
		    !source_string(py->target->source, address + i * 8, text, sizeof(text)))
			continue;
		len = version_len(text);
		if (len && strncmp(text + len, " (", 2) == 0 && strchr(text + len, '[') && !strstr(text, "[PyPy"))
			set_text(py, text, len);
	}
	return !py->version[0];
}

/* ---- PY_VERSION ------------------------------------------------------------ */

/* The end of a string in the read-only data: a linker can let "3.9.18" be the tail of a path. Other software's
 * versions lie there too, so the series has to be in the table, and its layout has to be the target's. */
static bool visit_rodata(void *context, uint64_t address, const uint64_t *words, size_t n)
{
	struct cpython *py = context;
	const char *bytes = (const char *)words;
	struct cpython found = { 0 };
	struct layout layout;
	char text[24]; /* with what is before it */

	for (size_t i = 0; i < n * 8 && !py->version[0]; i++) {
		size_t len;

		if ((bytes[i] != '2' && bytes[i] != '3') || (i + 1 < n * 8 && bytes[i + 1] != '.') ||
		    !source_read(py->target->source, address + i - 1, text, sizeof(text)) ||
		    isalnum((unsigned char)text[0]) || text[0] == '.')
			continue;
		text[sizeof(text) - 1] = '\0';
		len = version_len(text + 1);
		if (len <= strlen("3.11") || text[1 + len] != '\0') /* "3.11" is in there as well */
			continue;
		set_text(&found, text + 1, len);
		if (layout_find("cpython", found.series, py->flavour, &layout) && offsets_agree(py, &layout, NULL))
			set_text(py, text + 1, len);
	}
	return !py->version[0];
}

static void scan_rodata(struct cpython *py)
{
	for (size_t i = 0; i < py->image->segments.len; i++) {
		const struct image_segment *s = &py->image->segments.items[i];

		if (!(s->flags & PF_W))
			scan_range(py->target, s->start, s->end, visit_rodata, py);
	}
}

static void ask_image(struct cpython *py, struct image *image)
{
	scan_writable(py->target, image, visit_cookie, py);
	if (!py->version[0])
		scan_writable(py->target, image, visit_text, py);
	if (!py->version[0])
		ask_symbol(py, image);
}

void version_find(struct cpython *py)
{
	struct images *images = py->target->images;

	for (size_t i = 0; i < images->v.len; i++)
		if (images->v.items[i] == py->image)
			ask_image(py, images->v.items[i]);
	if (!py->version[0])
		scan_rodata(py);
}

void version_warn_of_lost(struct target *target)
{
	struct cpython py = { .target = target };

	scan_all_writable(target, visit_text, &py);
	if (py.version[0])
		target_damaged(target, "cpython %s: what its types are known by was not found, so that nothing of it is "
			       "named", py.version);
}
