/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpython/dicts.h"

#include <string.h>

#define MOST_ENTRIES (UINT64_C(1) << 32)

/* 2.7: a table of {hash, key, value}, inside the object while it is small. */
static bool open_table(struct cpython *py, uint64_t address, struct py_dict *ret)
{
	const struct py_offsets *o = &py->o;
	uint64_t mask, table;

	if (!source_u64(py->target->source, address + (uint64_t)o->ma_mask, &mask) ||
	    !source_u64(py->target->source, address + (uint64_t)o->ma_table, &table) || mask >= MOST_ENTRIES ||
	    (mask & (mask + 1)))
		return false;
	ret->entries = table;
	ret->keys = table == address + (uint64_t)o->ma_smalltable ? 0 : table;
	ret->n = mask + 1;
	ret->stride = 24;
	ret->key = 8;
	ret->keys_bytes = ret->n * 24;
	return true;
}

/* 3.6 to 3.10: dk_size says the width of an index. */
static bool open_sized_keys(struct cpython *py, struct py_dict *ret)
{
	const struct py_offsets *o = &py->o;
	struct source *source = py->target->source;
	uint64_t size, width;

	if (!source_u64(source, ret->keys + (uint64_t)o->dk_size, &size) || size == 0 || size >= MOST_ENTRIES ||
	    !source_u64(source, ret->keys + (uint64_t)o->dk_nentries, &ret->n))
		return false;
	width = size <= 0xff ? 1 : size <= 0xffff ? 2 : size <= 0xffffffff ? 4 : 8;
	ret->entries = ret->keys + (uint64_t)o->keys_header + size * width;
	ret->stride = 24;
	ret->key = 8;
	ret->keys_bytes = (uint64_t)o->keys_header + size * width + 2 * size / 3 * 24;
	return ret->n <= size;
}

/* 3.11 and later: logarithms, and entries without a hash when all keys are str. */
static bool open_log_keys(struct cpython *py, struct py_dict *ret)
{
	const struct py_offsets *o = &py->o;
	struct source *source = py->target->source;
	uint8_t header[32];

	if (o->keys_header != sizeof(header) || !source_read(source, ret->keys, header, sizeof(header)))
		return false;
	if (header[o->dk_log2_size] > 40 || header[o->dk_log2_index_bytes] > 44 || header[o->dk_kind] > 2)
		return false;
	ret->n = word_at(header, (size_t)o->dk_nentries);
	ret->entries = ret->keys + sizeof(header) + (UINT64_C(1) << header[o->dk_log2_index_bytes]);
	ret->stride = header[o->dk_kind] ? 16 : 24;
	ret->key = header[o->dk_kind] ? 0 : 8;
	ret->keys_bytes = ret->entries - ret->keys + (UINT64_C(2) << header[o->dk_log2_size]) / 3 * ret->stride;
	return ret->n <= UINT64_C(1) << header[o->dk_log2_size];
}

bool dict_open(struct cpython *py, uint64_t address, struct py_dict *ret)
{
	const struct py_offsets *o = &py->o;
	struct source *source = py->target->source;

	*ret = (struct py_dict){ 0 };
	if (o->ma_used >= 0 && !source_u64(source, address + (uint64_t)o->ma_used, &ret->used))
		return false;
	if (o->ma_table >= 0)
		return open_table(py, address, ret);
	if (!source_u64(source, address + (uint64_t)o->ma_keys, &ret->keys) ||
	    !source_u64(source, address + (uint64_t)o->ma_values, &ret->values))
		return false;
	if (!(o->dk_size >= 0 ? open_sized_keys(py, ret) : open_log_keys(py, ret)))
		return false;
	if (ret->values && o->values_header > 0)
		ret->values += (uint64_t)o->values_header;
	return true;
}

bool dict_entry(struct cpython *py, const struct py_dict *dict, uint64_t i, uint64_t *ret_key, uint64_t *ret_value)
{
	struct source *source = py->target->source;
	uint64_t entry = dict->entries + i * dict->stride + dict->key;

	if (!source_u64(source, entry, ret_key))
		return false;
	if (dict->values)
		return source_u64(source, dict->values + 8 * i, ret_value);
	return source_u64(source, entry + 8, ret_value);
}

uint64_t dict_lookup(struct cpython *py, uint64_t address, const char *key)
{
	struct py_dict dict;
	char text[64];

	if (!address || !dict_open(py, address, &dict))
		return 0;
	for (uint64_t i = 0; i < dict.n && i < 4096; i++) {
		uint64_t k, value;

		if (!dict_entry(py, &dict, i, &k, &value))
			return 0;
		if (k && value && py_string(py, k, text, sizeof(text)) && strcmp(text, key) == 0)
			return value;
	}
	return 0;
}

/* ---- strings ----------------------------------------------------------------------- */

/* Code points of 1, 2 or 4 bytes, as UTF-8. */
static void encode(const uint8_t *bytes, size_t n, unsigned width, char *buffer, size_t size)
{
	size_t at = 0;

	for (size_t i = 0; i < n && at + 5 < size; i++) {
		uint32_t c = 0;

		memcpy(&c, bytes + i * width, width);
		if (c < 0x80) {
			buffer[at++] = c ? (char)c : '?';
		} else if (c < 0x800) {
			buffer[at++] = (char)(0xc0 | c >> 6);
			buffer[at++] = (char)(0x80 | (c & 63));
		} else if (c < 0x10000) {
			buffer[at++] = (char)(0xe0 | c >> 12);
			buffer[at++] = (char)(0x80 | (c >> 6 & 63));
			buffer[at++] = (char)(0x80 | (c & 63));
		} else {
			buffer[at++] = (char)(0xf0 | (c >> 18 & 7));
			buffer[at++] = (char)(0x80 | (c >> 12 & 63));
			buffer[at++] = (char)(0x80 | (c >> 6 & 63));
			buffer[at++] = (char)(0x80 | (c & 63));
		}
	}
	buffer[at] = '\0';
}

static bool read_units(struct cpython *py, uint64_t address, uint64_t length, unsigned width, char *buffer,
		       size_t size)
{
	uint8_t bytes[4096];
	uint64_t n = length < size ? length : size;

	if (n * width > sizeof(bytes))
		n = sizeof(bytes) / width;
	if (!source_read(py->target->source, address, bytes, n * width))
		return false;
	encode(bytes, n, width, buffer, size);
	return true;
}

static bool has_function(const struct cpython *py, const char *name)
{
	const struct images *images = py->target->images;
	uint64_t address;

	/* With copy relocations the types lie in the program, the rest in libpython. */
	for (size_t i = 0; i < images->v.len; i++)
		if ((images->v.items[i] == py->image || py->alone) &&
		    image_symbol(py->target->images, images->v.items[i], name, &address, NULL))
			return true;
	return false;
}

/* 2.7 is built with units of 4 bytes or of 2, and names its functions after that (Include/unicodeobject.h). Where these
 * can't be asked for the strings can't be read. */
static bool has_unicode_unit(struct cpython *py)
{
	if (!py->unicode_asked && has_function(py, "PyUnicodeUCS4_Decode"))
		py->unicode_unit = 4;
	else if (!py->unicode_asked && has_function(py, "PyUnicodeUCS2_Decode"))
		py->unicode_unit = 2;
	py->unicode_asked = true;
	return py->unicode_unit;
}

/* 2.7: unicode objects have their units in a block of their own, str objects are bytes. */
static bool old_string(struct cpython *py, uint64_t address, const struct py_type *type, char *buffer, size_t size)
{
	struct source *source = py->target->source;
	uint64_t length, data;

	if (!source_u64(source, address + (uint64_t)py->o.ob_size, &length) || length > UINT32_MAX)
		return false;
	if (type->flags & TYPE_BYTES)
		return read_units(py, address + (uint64_t)py->o.bytes_data, length, 1, buffer, size);
	return type->flags & TYPE_UNICODE && has_unicode_unit(py) && source_u64(source, address + 24, &data) &&
	       read_units(py, data, length, py->unicode_unit, buffer, size);
}

bool py_string(struct cpython *py, uint64_t address, char *buffer, size_t size)
{
	const struct py_offsets *o = &py->o;
	struct source *source = py->target->source;
	uint64_t type_at, length, data;
	uint32_t state;
	unsigned width;
	int type;

	if (!source_u64(source, address + (uint64_t)o->ob_type, &type_at) || (type = types_at(py, type_at)) < 0)
		return false;
	if (o->unicode_state < 0)
		return old_string(py, address, &py->types.items[type], buffer, size);
	if (!(py->types.items[type].flags & TYPE_UNICODE) ||
	    !source_u64(source, address + (uint64_t)o->unicode_length, &length) ||
	    !source_u32(source, address + (uint64_t)o->unicode_state, &state))
		return false;
	width = state >> 2 & 7; /* kind; compact is bit 5, ascii bit 6 */
	if (width != 1 && width != 2 && width != 4)
		return false;
	if (!(state >> 5 & 1)) {
		if (!source_u64(source, address + (uint64_t)o->unicode_data, &data))
			return false;
	} else {
		data = address + (uint64_t)(state >> 6 & 1 ? o->ascii_size : o->compact_size);
	}
	return read_units(py, data, length, width, buffer, size);
}
