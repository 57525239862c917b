/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In 2.7 int and float objects live by the dozen in blocks of malloc's: {next block, objects ...}, 1000 bytes in
 * all (Objects/intobject.c and floatobject.c, BLOCK_SIZE). An object that is free has its ob_type point to the
 * next free one. Versions whose layout has no PyIntObject do nothing of the kind.
 */
#include <string.h>

#include "runtime/cpython/internal.h"

#define BLOCK_SIZE 1000u
#define BLOCK_HEADER 8u
#define BLOCK_USED 992u /* 8 + 41 * 24: what 1000 bytes have room for */

struct number_type {
	uint64_t type; /* address; 0: not seen */
	uint32_t size;
	const char *name;
};

struct carver {
	struct cpython *py;
	struct number_type types[2];
};

/* The static types by name, in the image's writable data. */
static bool note_type(void *context, uint64_t address, const uint64_t *words, size_t n)
{
	struct carver *carver = context;

	for (size_t i = 0; i < n; i++) {
		uint64_t object = address + 8 * i - (uint64_t)carver->py->o.ob_type;
		int index = words[i] == carver->py->type_type ? types_at(carver->py, object) : -1;

		for (int t = 0; t < 2 && index >= 0; t++)
			if (strcmp(carver->py->types.items[index].name, carver->types[t].name) == 0)
				carver->types[t].type = object;
	}
	return true;
}

/* Which type a block's objects have, or -1. Free slots point to others or to nothing. */
static int type_of_block(const struct carver *carver, const uint8_t *bytes)
{
	int type = -1;

	for (int t = 0; t < 2 && type < 0; t++) {
		uint32_t size = carver->types[t].size, n = size ? (BLOCK_SIZE - BLOCK_HEADER) / size : 0, live = 0, odd = 0;

		for (uint32_t i = 0; i < n; i++) {
			uint64_t word = word_at(bytes, BLOCK_HEADER + i * size + 8);

			live += word == carver->types[t].type;
			odd += word != carver->types[t].type && (word % 8 || word >> 47);
		}
		if (live && !odd)
			type = t;
	}
	return type;
}

static void carve_block(const struct carver *carver, const struct block *block, unsigned head, const uint8_t *bytes, int t)
{
	struct ledger *ledger = carver->py->target->ledger;
	const struct number_type *type = &carver->types[t];
	uint32_t n = (BLOCK_SIZE - BLOCK_HEADER) / type->size;
	uint64_t at = block->start + head + BLOCK_HEADER;
	category_id live = ledger_category(ledger, &(struct category){ .domain = "python", .kind = type->name, .state = FH_LIVE });
	category_id freed = ledger_category(ledger, &(struct category){ .domain = "cpython", .kind = "free list",
									.detail = type->name, .state = FH_FREE });
	category_id header = ledger_category(ledger, &(struct category){ .domain = "cpython", .kind = "number block",
									 .detail = type->name, .state = FH_OVERHEAD });

	ledger_carve_begin(ledger, block->start, block->end);
	ledger_carve_add(ledger, block->start, header);
	for (uint32_t i = 0; i < n; i++, at += type->size)
		ledger_carve_add(ledger, at, word_at(bytes, BLOCK_HEADER + i * type->size + 8) == type->type ? live : freed);
	if (at < block->end)
		ledger_carve_add(ledger, at, header);
	ledger_carve_end(ledger);
}

struct fh_error *number_blocks_carve(struct cpython *py)
{
	struct carver carver = { .py = py, .types = { { .name = "int" }, { .name = "float" } } };
	struct ledger *ledger = py->target->ledger;
	struct ledger_cursor cursor = { 0 };
	struct block block;
	uint8_t scratch[BLOCK_SIZE];

	carver.types[0].size = layout_size(&py->layout, "PyIntObject");
	carver.types[1].size = layout_size(&py->layout, "PyFloatObject");
	if (!carver.types[0].size)
		return NULL;
	scan_writable(py->target, py->image, note_type, &carver);
	if (!carver.types[0].type || !carver.types[1].type)
		return NULL;
	while (ledger_next(ledger, &cursor, &block)) {
		const struct category *c = ledger_category_of(ledger, block.category);
		const uint8_t *bytes;
		int type;

		if (!c->unknown || block.end - block.start - c->head < BLOCK_USED || block.end - block.start - c->head > BLOCK_SIZE + 32)
			continue;
		bytes = source_get(py->target->source, block.start + c->head, BLOCK_USED, scratch);
		type = bytes ? type_of_block(&carver, bytes) : -1;
		if (type >= 0)
			carve_block(&carver, &block, c->head, bytes, type);
	}
	return ledger_commit(ledger);
}
