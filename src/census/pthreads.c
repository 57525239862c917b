/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glibc describes the fields that a debugger needs in constants of its own, `_thread_db_*` (nptl_db/structs.def,
 * 2.31 to 2.43; symbols of libc.so from 2.34, of libpthread.so before). Where they were stripped (static
 * programs) fields are found by what they hold. Bounds of the stack are always found so: no constant
 * describes stackblock, stackblock_size and guardsize, which follow each other in nptl/descr.h.
 */
#include "census/pthreads.h"

#include <elf.h>

#include "image/loader.h"

#define PTHREAD_WORDS 320     /* more than struct pthread has in any version (2304 to 2500 bytes) */
#define USUAL_SIZE 2304	      /* of struct pthread in 2.31 to 2.40 */
#define MOST_ABOVE 65536      /* bytes from a struct pthread to the end of its stack, alignment included */
#define LARGEST_TLS (1u << 24)
#define MOST_THREADS (1u << 20)
#define HEADS_APART 3	      /* list heads that lie next to each other: stacks used, the user's, cached */

void pthreads_deinit(struct pthreads *pthreads)
{
	vec_free(&pthreads->v);
	hashmap_deinit(&pthreads->known);
}

/* ---- learning ---------------------------------------------------------------- */

/* Third word of a constant: the offset in bytes (the first is the size in bits, the second a count). */
static int described_offset(const struct images *images, struct image *image, const char *name)
{
	uint64_t address;
	uint32_t words[3];

	if (!image_symbol(images, image, name, &address, NULL) ||
	    !source_read(images->source, address, words, sizeof(words)) ||
	    words[2] >= PTHREAD_WORDS * 8)
		return -1;
	return (int)words[2];
}

/* As the loader placed it: the largest l_tls_offset. 0 and -1 mean a module without static TLS. */
static uint64_t tls_by_loader(struct source *source, const struct loader *loader, int offset)
{
	uint64_t tls = 0, value;

	for (size_t i = 0; offset >= 0 && i < loader->maps.len; i++)
		if (source_u64(source, loader->maps.items[i] + (uint64_t)offset, &value) &&
		    value < LARGEST_TLS && value > tls)
			tls = value;
	return tls;
}

/* As it must be at least, if all images' TLS is static: variant II of the ELF TLS ABI. */
static uint64_t tls_by_images(const struct images *images)
{
	uint64_t tls = 0;

	for (size_t i = 0; i < images->v.len; i++) {
		const struct image *image = images->v.items[i];
		uint64_t align = image->tls_align ? image->tls_align : 1;

		if (image->tls_size && image->tls_size < LARGEST_TLS && align <= PAGE && tls < LARGEST_TLS)
			tls = (tls + image->tls_size + align - 1) / align * align;
	}
	return tls;
}

struct fh_error *pthreads_learn(struct target *target, struct pthreads *ret)
{
	struct images *images = target->images;
	uint64_t address;
	uint32_t size;
	struct image *image = (struct image *)images_with_symbol(images, "_thread_db_sizeof_pthread", &address);
	struct loader loader;

	*ret = (struct pthreads){ .source = target->source, .size = USUAL_SIZE, .list = -1, .tid = -1 };
	if (image) {
		if (source_u32(target->source, address, &size) && size >= 256 && size <= PTHREAD_WORDS * 8)
			ret->size = size;
		ret->list = described_offset(images, image, "_thread_db_pthread_list");
		ret->tid = described_offset(images, image, "_thread_db_pthread_tid");
		TRY(loader_read(images, &loader));
		ret->tls = tls_by_loader(target->source, &loader,
					 described_offset(images, image, "_thread_db_link_map_l_tls_offset"));
		loader_deinit(&loader);
	}
	if (!ret->tls)
		ret->tls = tls_by_images(images);
	return NULL;
}

/* ---- one ------------------------------------------------------------------------ */

/* tcbhead_t begins with the thread pointer itself, dtv, and struct pthread's own address, the same. musl has
 * a list of threads in the third and fourth word, which can lead to itself. */
static bool is_pthread(struct source *source, uint64_t address)
{
	uint64_t words[4];

	return address && address % 8 == 0 && source_read(source, address, words, sizeof(words)) &&
	       words[0] == address && words[2] == address && words[3] != address;
}

bool pthreads_is_glibc(const struct pthreads *pthreads, uint64_t address)
{
	return is_pthread(pthreads->source, address);
}

bool pthreads_check(const struct pthreads *pthreads, uint64_t address)
{
	uint64_t self;

	/* musl has only the first word in common, and bounds of the same form. */
	return address && address % 8 == 0 && source_u64(pthreads->source, address, &self) && self == address;
}

static bool is_mapped(const struct source *source, uint64_t start, uint64_t end)
{
	while (start < end) {
		const struct mapping *m = source_mapping_at(source, start);

		if (!m)
			return false;
		start = m->end;
	}
	return true;
}

/* The first pair (start, size) of a range that the struct pthread lies at the top of, and that is mapped
 * but for the guard, which some cores leave out. The main thread's is (0, top), which isn't one. */
bool pthreads_stack(const struct pthreads *pthreads, uint64_t address, struct pthread_stack *ret)
{
	uint64_t words[PTHREAD_WORDS];
	size_t n = memory_read(&pthreads->source->memory, address, words, sizeof(words)) / 8;

	for (size_t i = 3; i + 1 < n; i++) {
		uint64_t start = words[i], size = words[i + 1], end;

		if (start < PAGE || __builtin_add_overflow(start, size, &end) || start > address ||
		    end <= address || end - address > MOST_ABOVE + pthreads->tls)
			continue;
		*ret = (struct pthread_stack){ start, size, 0 };
		if (i + 2 < n && words[i + 2] % PAGE == 0 && words[i + 2] < address - start)
			ret->guard = words[i + 2];
		if (is_mapped(pthreads->source, start + ret->guard, end))
			return true;
	}
	return false;
}

pid_t pthreads_tid(const struct pthreads *pthreads, uint64_t address)
{
	uint32_t tid;

	if (pthreads->tid < 0 || !source_u32(pthreads->source, address + (uint64_t)pthreads->tid, &tid))
		return -1;
	return tid <= INT32_MAX ? (pid_t)tid : 0; /* negative: it is ending */
}

/* ---- all ------------------------------------------------------------------------ */

/* A node of a ring of two or more: next and prev lead back to it. */
static bool is_linked(struct source *source, uint64_t node)
{
	uint64_t links[2], back[2];

	return source_read(source, node, links, sizeof(links)) && links[0] != node &&
	       source_u64(source, links[0] + 8, &back[0]) && source_u64(source, links[1], &back[1]) &&
	       back[0] == node && back[1] == node;
}

/* The list's node and the thread's id, which follow each other, by what they hold. */
static void learn_offsets(struct pthreads *pthreads, uint64_t address, pid_t tid)
{
	struct source *source = pthreads->source;
	uint32_t value;

	if (pthreads->list >= 0 || !tid)
		return;
	for (int offset = 24; offset + 24 < (int)pthreads->size; offset += 8) {
		if (!is_linked(source, address + (uint64_t)offset) ||
		    !source_u32(source, address + (uint64_t)offset + 16, &value) || value != (uint32_t)tid)
			continue;
		pthreads->list = offset;
		pthreads->tid = offset + 16;
		return;
	}
}

static struct fh_error *add(struct pthreads *pthreads, uint64_t address)
{
	if (hashmap_get(&pthreads->known, address))
		return NULL;
	if (!hashmap_put(&pthreads->known, address, 1) || !vec_push(&pthreads->v, address))
		return error_no_memory();
	return NULL;
}

/* Goes once around a ring. What is no struct pthread in it is its head. */
static struct fh_error *walk(struct pthreads *pthreads, uint64_t node, uint64_t *ret_head)
{
	uint64_t at = node;

	*ret_head = 0;
	for (size_t n = 0; n < MOST_THREADS; n++) {
		uint64_t address = at - (uint64_t)pthreads->list;

		if (is_pthread(pthreads->source, address)) {
			if (n && hashmap_get(&pthreads->known, address))
				break;
			TRY(add(pthreads, address));
		} else if (!*ret_head) {
			*ret_head = at;
		}
		if (!source_u64(pthreads->source, at, &at) || at == node)
			break;
	}
	return NULL;
}

/* The other lists' heads are next to the one that was found. */
static struct fh_error *walk_neighbours(struct pthreads *pthreads, uint64_t head)
{
	for (int i = -HEADS_APART; i <= HEADS_APART; i++) {
		uint64_t other = head + (uint64_t)(16 * (int64_t)i), first, ignored;

		if (!is_linked(pthreads->source, other) || !source_u64(pthreads->source, other, &first) ||
		    !is_pthread(pthreads->source, first - (uint64_t)pthreads->list))
			continue;
		TRY(walk(pthreads, first, &ignored));
	}
	return NULL;
}

struct fh_error *pthreads_follow(struct pthreads *pthreads, uint64_t address, pid_t tid)
{
	uint64_t head;

	if (!is_pthread(pthreads->source, address))
		return NULL;
	learn_offsets(pthreads, address, tid);
	if (hashmap_get(&pthreads->known, address))
		return NULL;
	TRY(add(pthreads, address));
	if (pthreads->list < 0 || !is_linked(pthreads->source, address + (uint64_t)pthreads->list))
		return NULL;
	TRY(walk(pthreads, address + (uint64_t)pthreads->list, &head));
	if (!head || hashmap_get(&pthreads->known, head))
		return NULL;
	if (!hashmap_put(&pthreads->known, head, 0))
		return error_no_memory();
	return walk_neighbours(pthreads, head);
}
