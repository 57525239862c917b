/* SPDX-License-Identifier: Apache-2.0 */
/* Where instances keep their attributes: a dictionary, values without one, or slots. */
#ifndef FREEHOLD_RUNTIME_CPYTHON_INSTANCES_H
#define FREEHOLD_RUNTIME_CPYTHON_INSTANCES_H

#include "runtime/cpython/dicts.h"

struct py_instance {
	uint64_t dict;	 /* address of its dictionary; 0: none */
	uint64_t values; /* of the first value, in the order of its type's ht_cached_keys; 0: none */
	bool inside;	 /* the values lie in the instance; else in a block of their own */
};

/* From the object's type and bytes: before anything else is read. Nothing is found where nothing is readable. */
void instance_find(struct cpython *py, const struct py_object *object, struct py_instance *ret);
/* The values as a split dictionary, whose `used` is not known; false when they are not in use or unreadable. */
bool instance_open_values(struct cpython *py, uint32_t type, const struct py_instance *instance, struct py_dict *ret);

#endif
