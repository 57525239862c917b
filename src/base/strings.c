/* SPDX-License-Identifier: Apache-2.0 */
#include "base/strings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

#define CHUNK 65536

struct chunk {
	struct chunk *next;
	size_t used, size;
	char bytes[];
};

struct strings {
	struct chunk *chunks;
	const char **table; /* open addressing; NULL is unused */
	size_t mask, len;
};

struct strings *strings_create(void)
{
	return calloc(1, sizeof(struct strings));
}

void strings_destroy(struct strings *pool)
{
	if (!pool)
		return;
	while (pool->chunks) {
		struct chunk *next = pool->chunks->next;

		free(pool->chunks);
		pool->chunks = next;
	}
	free(pool->table);
	free(pool);
}

/* FNV-1a. */
static uint64_t hash_bytes(const char *bytes, size_t len)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
	return h ^ h >> 29;
}

static const char *chunk_copy(struct strings *pool, const char *bytes, size_t len)
{
	struct chunk *chunk = pool->chunks;
	char *copy;

	if (!chunk || chunk->size - chunk->used < len + 1) {
		size_t size = len + 1 > CHUNK ? len + 1 : CHUNK;

		chunk = malloc(sizeof(*chunk) + size);
		if (!chunk)
			return NULL;
		*chunk = (struct chunk){ .next = pool->chunks, .size = size };
		pool->chunks = chunk;
	}
	copy = chunk->bytes + chunk->used;
	memcpy(copy, bytes, len);
	copy[len] = '\0';
	chunk->used += len + 1;
	return copy;
}

static bool table_grow(struct strings *pool)
{
	size_t n = pool->table ? (pool->mask + 1) * 2 : 256;
	const char **table = calloc(n, sizeof(*table));

	if (!table)
		return false;
	for (size_t i = 0; pool->table && i <= pool->mask; i++) {
		const char *s = pool->table[i];
		size_t at;

		if (!s)
			continue;
		at = hash_bytes(s, strlen(s)) & (n - 1);
		while (table[at])
			at = (at + 1) & (n - 1);
		table[at] = s;
	}
	free(pool->table);
	pool->table = table;
	pool->mask = n - 1;
	return true;
}

const char *strings_add_len(struct strings *pool, const char *bytes, size_t len)
{
	size_t at;

	len = strnlen(bytes, len);
	if ((!pool->table || (pool->len + 1) * 3 > (pool->mask + 1) * 2) && !table_grow(pool))
		return NULL;
	at = hash_bytes(bytes, len) & pool->mask;
	for (; pool->table[at]; at = (at + 1) & pool->mask)
		if (strncmp(pool->table[at], bytes, len) == 0 && pool->table[at][len] == '\0')
			return pool->table[at];
	pool->table[at] = chunk_copy(pool, bytes, len);
	if (pool->table[at])
		pool->len++;
	return pool->table[at];
}

const char *strings_add(struct strings *pool, const char *string)
{
	return strings_add_len(pool, string, strlen(string));
}

const char *strings_format(struct strings *pool, const char *format, ...)
{
	char buffer[4096];
	va_list ap;

	va_start(ap, format);
	vsnprintf(buffer, sizeof(buffer), format, ap);
	va_end(ap);
	return strings_add(pool, buffer);
}
