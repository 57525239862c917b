/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpython/internal.h"

#include <elf.h>
#include <string.h>

/* In stretches of at most 16 KiB. The words are copied, so that a visitor may read what it likes. */
#define SCAN_WORDS 2048

bool scan_range(struct target *target, uint64_t start, uint64_t end, scan_words *visit, void *context)
{
	uint64_t words[SCAN_WORDS], address = (start + 7) & ~UINT64_C(7);
	size_t len;

	for (end &= ~UINT64_C(7); address < end; address += len) {
		const void *bytes = memory_span(&target->source->memory, address, &len);

		if (len == 0) /* nothing readable up to the end of the address space */
			break;
		if (len > end - address)
			len = end - address;
		if (!bytes) {
			len = (len + 7) & ~(size_t)7;
			continue;
		}
		if (len > sizeof(words))
			len = sizeof(words);
		len &= ~(size_t)7;
		if (len == 0) { /* a word across two runs */
			len = 8;
			if (!source_u64(target->source, address, &words[0]))
				continue;
		} else {
			memcpy(words, bytes, len);
		}
		if (!visit(context, address, words, len / 8))
			return false;
	}
	return true;
}

void scan_writable(struct target *target, const struct image *image, scan_words *visit, void *context)
{
	for (size_t i = 0; i < image->segments.len; i++) {
		const struct image_segment *s = &image->segments.items[i];

		if (s->flags & PF_W && !scan_range(target, s->start, s->end, visit, context))
			return;
	}
}

void scan_all_writable(struct target *target, scan_words *visit, void *context)
{
	for (size_t i = 0; i < target->images->v.len; i++)
		scan_writable(target, target->images->v.items[i], visit, context);
}
