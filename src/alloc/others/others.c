/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/others/others.h"

#include <string.h>

/* By what an allocator is known: a part of its library's path, or a symbol that only it defines. */
struct known {
	const char *text; /* what describe says */
	const char *files[3];
	const char *symbols[4];
	const char *unless; /* a symbol of an image that has a copy for other ends */
};

static bool is_library(const struct image *image, const struct known *known)
{
	for (size_t i = 0; i < sizeof(known->files) / sizeof(*known->files) && known->files[i]; i++)
		if (!image->executable && strstr(image->path, known->files[i]))
			return true;
	return false;
}

static bool defines(const struct images *images, struct image *image, const struct known *known)
{
	uint64_t address;

	for (size_t i = 0; i < sizeof(known->symbols) / sizeof(*known->symbols) && known->symbols[i]; i++)
		if (image_symbol(images, image, known->symbols[i], &address, NULL))
			return !known->unless || !image_symbol(images, image, known->unless, &address, NULL);
	return false;
}

static struct fh_error *probe(struct target *target, const struct known *known, void **ret_state)
{
	for (size_t i = 0; i < target->images->v.len; i++) {
		struct image *image = target->images->v.items[i];

		if (!is_library(image, known) && !defines(target->images, image, known))
			continue;
		*ret_state = (void *)(uintptr_t)known;
		return NULL;
	}
	return NULL;
}

static const char *describe(struct target *target, void *state)
{
	(void)target;
	return ((const struct known *)state)->text;
}

static struct fh_error *carve(struct target *target, void *state)
{
	(void)target;
	(void)state;
	return NULL;
}

static void destroy(void *state)
{
	(void)state;
}

#define ALLOCATOR(id, label, what, ...)                                                              \
	static const struct known known_##id = { .text = label " (not walked)", __VA_ARGS__ };      \
	static struct fh_error *probe_##id(struct target *target, void **ret_state)                  \
	{                                                                                            \
		return probe(target, &known_##id, ret_state);                                        \
	}                                                                                            \
	const struct allocator id##_allocator = {                                                    \
		.name = label, .title = what, .probe = probe_##id, .describe = describe,             \
		.carve = carve, .destroy = destroy,                                                  \
	}

/* _rjem_: as a Rust program has it (crate tikv-jemalloc-sys). */
ALLOCATOR(jemalloc, "jemalloc", "jemalloc (named, not walked)", .files = { "/libjemalloc" },
	  .symbols = { "mallctl", "je_mallctl", "_rjem_mallctl" });
/* The older one is of gperftools, the newer of Google's tcmalloc. */
ALLOCATOR(tcmalloc, "tcmalloc", "tcmalloc (named, not walked)", .files = { "/libtcmalloc" },
	  .symbols = { "tc_version", "TCMallocInternalMalloc", "TCMalloc_Internal_GetStats" });
/* CPython from 3.13 on contains a copy, which only free-threaded builds use. */
ALLOCATOR(mimalloc, "mimalloc", "mimalloc (named, not walked)", .files = { "/libmimalloc" }, .symbols = { "mi_malloc" },
	  .unless = "PyType_Ready");
ALLOCATOR(musl, "musl", "malloc of musl libc (named, not walked)",
	  .files = { "/ld-musl-", "/libc.musl-", "-linux-musl/libc.so" },
	  .symbols = { "__libc_malloc_impl", "__malloc_allzerop" });
ALLOCATOR(asan, "AddressSanitizer", "allocator of AddressSanitizer (named, not walked)",
	  .files = { "/libasan.so", "/libclang_rt.asan" }, .symbols = { "__asan_init" });
