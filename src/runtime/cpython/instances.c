/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpython/instances.h"

/* Two words before the GC head: facts of Objects/dictobject.c and Include/internal/pycore_object.h. */
static void find_managed(struct cpython *py, const struct py_object *object, struct py_instance *ret)
{
	struct source *source = py->target->source;
	const struct py_type *type = &py->types.items[object->type];
	bool tagged = py->o.managed_flags != py->o.managed_dict && py->o.values_header < 0;
	uint64_t word;

	if (!source_u64(source, object->address - 24, &word))
		return;
	if (py->o.values_header > 0) { /* 3.13: a dictionary, or values behind the instance */
		ret->dict = word;
		if (!word && type->flags & py->o.inline_values) {
			ret->values = object->address + (uint64_t)type->basicsize + (uint64_t)py->o.values_header;
			ret->inside = true;
		}
	} else if (tagged) { /* 3.12: a dictionary, or values, one less than their address */
		ret->dict = word & 1 ? 0 : word;
		ret->values = word & 1 ? word + 1 : 0;
	} else { /* 3.11: dictionary here, values in the word before */
		ret->dict = word;
		if (!source_u64(source, object->address - 32, &ret->values))
			ret->values = 0;
	}
}

static uint64_t dict_slot(struct cpython *py, const struct py_object *object, const struct py_type *type)
{
	int64_t n = 0;

	if (type->dictoffset > 0)
		return object->address + (uint64_t)type->dictoffset;
	if (type->dictoffset == 0 || object->len < (size_t)py->o.ob_size + 8)
		return 0;
	n = (int64_t)word_at(object->bytes, (size_t)py->o.ob_size);
	if (type->flags & TYPE_LONG && py->o.long_tag >= 0)
		n = (int64_t)(word_at(object->bytes, (size_t)py->o.long_tag) >> 3);
	n = n < 0 ? -n : n;
	if (n > (INT64_C(1) << 40))
		return 0;
	return object->address +
	       (((uint64_t)type->basicsize + (uint64_t)n * (uint64_t)type->itemsize + 7) & ~UINT64_C(7)) +
	       (uint64_t)type->dictoffset;
}

void instance_find(struct cpython *py, const struct py_object *object, struct py_instance *ret)
{
	const struct py_type *type = &py->types.items[object->type];
	uint64_t slot;

	*ret = (struct py_instance){ 0 };
	if (type->flags & py->o.managed_dict) {
		find_managed(py, object, ret);
		return;
	}
	slot = dict_slot(py, object, type);
	if (slot && !source_u64(py->target->source, slot, &ret->dict))
		ret->dict = 0;
}

bool instance_open_values(struct cpython *py, uint32_t type, const struct py_instance *instance, struct py_dict *ret)
{
	struct source *source = py->target->source;
	uint64_t keys, header = instance->values - (uint64_t)py->o.values_header;
	int at = layout_offset(&py->layout, "PyDictValues", "valid");
	uint8_t valid;

	if (!instance->values || py->o.ht_cached_keys < 0 || !py->types.items[type].heap)
		return false;
	if (instance->inside && (at < 0 || !source_read(source, header + (uint64_t)at, &valid, 1) || valid != 1))
		return false;
	return source_u64(source, py->types.items[type].address + (uint64_t)py->o.ht_cached_keys, &keys) && keys &&
	       dict_open_split(py, keys, instance->values, ret);
}
