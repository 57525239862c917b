/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding CPython without symbols. The type of types is its own type: an object in writable data whose
 * ob_type is its own address, and whose tp_name reads "type". A program can map CPython twice (executable
 * and libpython); in the copy that runs, the type is ready and has a base.
 */
#include <ctype.h>
#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "runtime/cpython/internal.h"

void scan_writable(struct target *target, const struct image *image, scan_words *visit, void *context)
{
	for (size_t k = 0; k < image->segments.len; k++) {
		const struct image_segment *s = &image->segments.items[k];
		uint64_t at = (s->start + 7) & ~UINT64_C(7);

		if (!(s->flags & PF_W) || s->end - s->start > (UINT64_C(1) << 32))
			continue;
		while (at + 8 <= s->end) {
			size_t span;
			const void *words = memory_span(&target->source->memory, at, &span);

			if (!words && !span)
				break;
			if (span > s->end - at)
				span = s->end - at;
			if (words && span >= 8 && !visit(context, at, words, span / 8))
				return;
			at += span < 8 ? 8 : span & ~(size_t)7;
		}
	}
}

/* Where ob_type, tp_name, tp_base and tp_flags lie, by build flavour (layouts/cpython.def; the same in all
 * versions). */
static const struct flavour {
	const char *name;
	uint32_t ob_type, tp_name, tp_flags, tp_base;
} flavours[] = {
	{ "gil", 8, 24, 168, 256 },
	{ "free-threaded", 24, 40, 184, 272 },
};

struct search {
	struct target *target;
	uint64_t found;
	const struct flavour *flavour;
};

static bool is_type_type(struct source *source, uint64_t address, const struct flavour *flavour)
{
	char name[8];
	uint64_t name_at, base, flags;

	return source_u64(source, address + flavour->tp_name, &name_at) &&
	       source_string(source, name_at, name, sizeof(name)) && strcmp(name, "type") == 0 &&
	       source_u64(source, address + flavour->tp_base, &base) && base &&
	       source_u64(source, address + flavour->tp_flags, &flags) && flags & TYPE_READY;
}

static bool look_for_type(void *context, uint64_t address, const uint64_t *words, size_t n)
{
	struct search *search = context;

	for (size_t i = 0; i < n; i++)
		for (size_t f = 0; f < 2; f++) {
			uint64_t at = address + 8 * i - flavours[f].ob_type;

			if (words[i] == at && is_type_type(search->target->source, at, &flavours[f])) {
				search->found = at;
				search->flavour = &flavours[f];
				return false;
			}
		}
	return true;
}

/* ---- version --------------------------------------------------------------------- */

/* What Py_GetVersion() made for sys.version: "3.11.2 (main, ...) [GCC 12.2.0]", a static buffer. */
static bool read_version(struct cpython *py, uint64_t address)
{
	struct source *source = py->target->source;
	char text[300];
	size_t len = memory_read(&source->memory, address, text, sizeof(text) - 1), n, dots = 0;

	text[len] = '\0';
	len = strlen(text);
	n = strspn(text, "0123456789.");
	for (size_t i = 0; i < n; i++)
		dots += text[i] == '.';
	if (dots != 2 || n < 5 || n > 10 || !isdigit((unsigned char)text[n - 1]))
		return false;
	n += strspn(text + n, "abcrc0123456789+");
	if (text[n] != ' ' || n >= sizeof(py->version) || !strchr(text + n, '['))
		return false;
	snprintf(py->version, sizeof(py->version), "%.*s", (int)n, text);
	snprintf(py->series, sizeof(py->series), "%.*s", (int)(strchr(strchr(text, '.') + 1, '.') - text), text);
	return true;
}

static bool look_for_version(void *context, uint64_t address, const uint64_t *words, size_t n)
{
	struct cpython *py = context;

	for (size_t i = 0; i < n; i++) {
		const uint8_t *c = (const uint8_t *)&words[i];

		if (isdigit(c[0]) && c[1] == '.' && isdigit(c[2]) && (c[3] == '.' || isdigit(c[3])) &&
		    read_version(py, address + 8 * i))
			return false;
	}
	return true;
}

/* Py_Version (3.11 and later) is exported: 0x030b02f0. */
static bool version_by_symbol(struct cpython *py)
{
	uint64_t address;
	uint32_t hex;

	if (!image_symbol(py->target->images, (struct image *)py->image, "Py_Version", &address, NULL) ||
	    !source_u32(py->target->source, address, &hex) || hex >> 24 != 3)
		return false;
	snprintf(py->version, sizeof(py->version), "%u.%u.%u", hex >> 24, hex >> 16 & 255, hex >> 8 & 255);
	snprintf(py->series, sizeof(py->series), "%u.%u", hex >> 24, hex >> 16 & 255);
	return true;
}

struct fh_error *find_cpython(struct target *target, struct cpython *py, bool *ret_found)
{
	struct search search = { .target = target };

	for (size_t i = 0; i < target->images->v.len && !search.found; i++) {
		py->image = target->images->v.items[i];
		scan_writable(target, py->image, look_for_type, &search);
	}
	*ret_found = search.found;
	if (!search.found)
		return NULL;
	py->target = target;
	py->type_type = search.found;
	py->flavour = search.flavour->name;
	scan_writable(target, py->image, look_for_version, py);
	if (!py->version[0])
		version_by_symbol(py);
	return NULL;
}
