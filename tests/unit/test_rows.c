/* SPDX-License-Identifier: Apache-2.0 */
/* First rows of mappings, and what images, the loader's memory and stacks are divided into. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "census/census.h"
#include "fake_target.h"

#define AT UINT64_C(0x7f0000000000)
#define READ_WRITE (MAPPING_READ | MAPPING_WRITE)

static struct fake_elf elf;

static void start(struct fake_source *fake)
{
	fake_source_init(fake);
	fake_elf_write(&elf, FAKE_GNU_HASH);
}

/* All passes up to where allocators begin. */
static struct target carve(struct fake_source *fake)
{
	struct target target = { .source = &fake->source };

	fake_source_seal(fake);
	assert_null(images_load(&fake->source, &target.images));
	assert_null(ledger_create(fake->source.strings, &target.ledger));
	assert_null(census_add_mappings(&target));
	assert_null(census_carve_images(&target));
	assert_null(census_carve_loader(&target));
	assert_null(census_carve_stacks(&target));
	assert_int_equal(target.ledger->refused, 0);
	assert_true(ledger_balances(target.ledger, fake->source.os_virtual));
	return target;
}

static void finish(struct fake_source *fake, struct target *target)
{
	ledger_destroy(target->ledger);
	images_destroy(target->images);
	fake_source_deinit(fake);
}

/* The bytes from an address to where its name changes. */
static void check_row(struct target *target, uint64_t address, uint64_t size, const char *domain, const char *kind,
		      const char *detail)
{
	uint64_t end = address;
	struct block block;

	while (end < address + size && ledger_find(target->ledger, end, &block)) {
		const struct category *c = ledger_category_of(target->ledger, block.category);

		if (end == address)
			assert_int_equal(block.start, address);
		assert_string_equal(c->domain, domain);
		assert_string_equal(c->kind, kind);
		assert_string_equal(c->detail, detail);
		end = block.end;
	}
	assert_int_equal(end, address + size);
}

/* ---- mappings ---------------------------------------------------------------- */

static void names_of_mappings(void **state)
{
	static const struct {
		uint32_t flags;
		uint64_t inode;
		const char *path, *domain, *kind, *detail;
	} cases[] = {
		{ READ_WRITE, 0, "", "uncategorized", "dark", "" },
		{ READ_WRITE, 0, "[heap]", "uncategorized", "dark", "" },
		{ READ_WRITE, 0, "[anon:the pool]", "uncategorized", "dark", "[anon:the pool]" },
		{ READ_WRITE, 5, "/dev/zero", "uncategorized", "dark", "" },
		{ READ_WRITE | MAPPING_SHARED, 5, "/dev/zero", "os", "shared memory", "/dev/zero" },
		{ READ_WRITE | MAPPING_SHARED, 5, "/memfd:x y", "os", "shared memory", "/memfd:x y" },
		{ READ_WRITE | MAPPING_SHARED, 5, "/dev/shm/sem.x", "os", "shared memory", "/dev/shm/sem.x" },
		{ READ_WRITE | MAPPING_SHARED, 5, "/SYSV00000000", "os", "shared memory", "/SYSV00000000" },
		{ READ_WRITE | MAPPING_SHARED, 0, "[anon_shmem:x]", "os", "shared memory", "[anon_shmem:x]" },
		{ READ_WRITE | MAPPING_SHARED, 0, "", "os", "shared memory", "" },
		{ READ_WRITE | MAPPING_SHARED, 9, "anon_inode:[io_uring]", "os", "kernel object",
		  "anon_inode:[io_uring]" },
		{ READ_WRITE | MAPPING_SHARED, 9, "/dev/nvidia0", "os", "device", "/dev/nvidia0" },
		{ READ_WRITE, 9, "/anon_hugepage", "os", "huge pages", "/anon_hugepage" },
		{ MAPPING_READ, 9, "/usr/lib/locale/C.utf8/LC_CTYPE", "os", "file mapping",
		  "/usr/lib/locale/C.utf8/LC_CTYPE" },
		{ READ_WRITE | MAPPING_EXEC, 0, "", "os", "anonymous code", "" },
		{ 0, 0, "", "os", "reserved", "" },
		{ MAPPING_READ, 0, "[vvar]", "os", "vvar", "" },
		{ MAPPING_READ, 0, "[vvar_vclock]", "os", "vvar", "" },
		{ MAPPING_READ | MAPPING_EXEC, 0, "[vdso]", "os", "vdso", "" },
		{ MAPPING_EXEC, 0, "[vsyscall]", "os", "vsyscall", "" },
	};
	struct fake_source fake;
	struct target target;

	(void)state;
	start(&fake);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		fake_mapping(&fake, AT + i * 0x10000, AT + i * 0x10000 + 0x3000, cases[i].flags, 0, cases[i].inode,
			     cases[i].path, NULL);
	target = carve(&fake);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		check_row(&target, AT + i * 0x10000, 0x3000, cases[i].domain, cases[i].kind, cases[i].detail);
	finish(&fake, &target);
}

/* ---- images ------------------------------------------------------------------ */

static void parts_of_an_image(void **state)
{
	struct fake_source fake;
	struct target target;

	(void)state;
	start(&fake);
	fake_elf_map(&fake, &elf, AT, 7, "/lib/libfake.so", FAKE_END);
	target = carve(&fake);
	check_row(&target, AT, 0x1000, "image", "rodata", "libfake.so");
	check_row(&target, AT + 0x1000, 0x1000, "image", "text", "libfake.so");
	check_row(&target, AT + 0x2000, 0x1000, "image", "rodata", "libfake.so");
	check_row(&target, AT + 0x4000, FAKE_DATA_BYTES, "image", "data", "libfake.so");
	check_row(&target, AT + 0x4800, 0x3800, "image", "bss", "libfake.so");
	finish(&fake, &target);
}

/* Without address randomisation the brk heap is in one mapping with the bss. */
static void bss_ends_with_its_segment(void **state)
{
	struct fake_source fake;
	struct target target;

	(void)state;
	start(&fake);
	fake_elf_map(&fake, &elf, AT, 7, "/lib/libfake.so", FAKE_END + 0x21000);
	target = carve(&fake);
	check_row(&target, AT + 0x4800, 0x3800, "image", "bss", "libfake.so");
	check_row(&target, AT + FAKE_END, 0x21000, "uncategorized", "dark", "");
	finish(&fake, &target);
}

static void moved_text_gaps_and_copies(void **state)
{
	static const char path[] = "/lib/libfake.so";
	struct fake_source fake;
	struct target target;

	(void)state;
	start(&fake);
	fake_mapping(&fake, AT, AT + 0x1000, MAPPING_READ, 0, 7, path, elf.bytes);
	fake_mapping(&fake, AT + 0x1000, AT + 0x2000, MAPPING_READ | MAPPING_EXEC, 0, 0, "", NULL);
	fake_mapping(&fake, AT + 0x2000, AT + 0x3000, MAPPING_READ, 0x2000, 7, path, elf.bytes + 0x2000);
	fake_mapping(&fake, AT + 0x3000, AT + 0x4000, 0, 0x3000, 7, path, NULL);
	fake_mapping(&fake, AT + 0x4000, AT + 0x5000, READ_WRITE, 0x3000, 7, path, elf.bytes + 0x3000);
	/* The same file as data, and the next library right behind it. */
	fake_mapping(&fake, AT + 0x10000, AT + 0x14000, MAPPING_READ, 0, 7, path, elf.bytes);
	fake_elf_map(&fake, &elf, AT + 0x14000, 9, "/lib/libnext.so", FAKE_END);
	target = carve(&fake);
	check_row(&target, AT, 0x1000, "image", "rodata", "libfake.so");
	check_row(&target, AT + 0x1000, 0x1000, "image", "text", "libfake.so");
	check_row(&target, AT + 0x3000, 0x1000, "os", "reserved", "libfake.so");
	check_row(&target, AT + 0x4000, 0x800, "image", "data", "libfake.so");
	check_row(&target, AT + 0x4800, 0x800, "image", "bss", "libfake.so");
	check_row(&target, AT + 0x10000, 0x4000, "os", "file mapping", path);
	check_row(&target, AT + 0x14000, 0x1000, "image", "rodata", "libnext.so");
	finish(&fake, &target);
}

/* A core without the file and without its first page: the protection tells what is what. */
static void parts_without_headers(void **state)
{
	static const char path[] = "/lib/libgone.so";
	struct fake_source fake;
	struct target target;

	(void)state;
	start(&fake);
	fake_mapping(&fake, AT, AT + 0x1000, MAPPING_READ, 0, 7, path, NULL);
	fake_mapping(&fake, AT + 0x1000, AT + 0x2000, MAPPING_READ | MAPPING_EXEC, 0x1000, 7, path, NULL);
	fake_mapping(&fake, AT + 0x2000, AT + 0x3000, READ_WRITE, 0x2000, 7, path, NULL);
	fake_mapping(&fake, AT + 0x8000, AT + 0x9000, MAPPING_READ, 0, 8, "/data", NULL);
	target = carve(&fake);
	check_row(&target, AT, 0x1000, "image", "rodata", "libgone.so");
	check_row(&target, AT + 0x1000, 0x1000, "image", "text", "libgone.so");
	check_row(&target, AT + 0x2000, 0x1000, "image", "data", "libgone.so");
	check_row(&target, AT + 0x8000, 0x1000, "os", "file mapping", "/data");
	finish(&fake, &target);
}

/* An image that claims all the address space gets what is in its segment, once, and the sum stays. */
static void greedy_image(void **state)
{
	struct fake_source fake;
	struct target target;

	(void)state;
	start(&fake);
	elf.program[3].p_memsz = UINT64_C(1) << 46;
	fake_elf_map(&fake, &elf, 0x10000, 7, "/lib/libgreedy.so", FAKE_END);
	fake_elf_map(&fake, &elf, 0x20000, 8, "/lib/libgreedy.so", FAKE_END);
	fake_mapping(&fake, 0x90000, 0x95000, MAPPING_READ, 0, 9, "/data", NULL);
	fake_mapping(&fake, AT, AT + 0x5000, READ_WRITE, 0, 0, "", NULL);
	target = carve(&fake);
	check_row(&target, 0x90000, 0x5000, "os", "file mapping", "/data");
	finish(&fake, &target);
}

/* ---- the loader -------------------------------------------------------------- */

#define LOADER (AT + 0x200000)

static uint8_t loader_bytes[0x40000] __attribute__((aligned(8)));

static void put_loader(uint64_t offset, uint64_t word)
{
	memcpy(loader_bytes + offset, &word, sizeof(word));
}

/* struct r_debug in the program's data, and behind it three link_maps: the program's own, in its data, too, one of
 * a library that it needs, and one of a library that it loaded later. l_initfini has the first two. */
static void put_link_maps(uint64_t needed, uint64_t later, uint64_t after_later)
{
	uint64_t program = AT + 0x4300;

	memset(loader_bytes, 0, sizeof(loader_bytes));
	((Elf64_Dyn *)(elf.bytes + 0x3100))[4] = (Elf64_Dyn){ .d_tag = DT_DEBUG, .d_un.d_ptr = AT + 0x4200 };
	memcpy(elf.bytes + 0x3208, &program, 8);		  /* r_map */
	memcpy(elf.bytes + 0x3300 + 24, &(uint64_t){ LOADER + needed }, 8); /* l_next */
	memcpy(elf.bytes + 0x3300 + 320, &(uint64_t){ LOADER + needed + 0x700 }, 8); /* l_initfini */
	put_loader(needed + 24, LOADER + later);
	put_loader(needed + 0x700, program);
	put_loader(needed + 0x708, LOADER + needed);
	put_loader(later + 24, after_later);
}

static struct target carve_with_loader(struct fake_source *fake, uint64_t size)
{
	fake->source.auxv[0][0] = AT_PHDR;
	fake->source.auxv[0][1] = AT + 64;
	fake_elf_map(fake, &elf, AT, 7, "/bin/fake", FAKE_END);
	fake_mapping(fake, LOADER, LOADER + size, READ_WRITE, 0, 0, "", loader_bytes);
	return carve(fake);
}

/* In a mapping of its own all is the loader's; where others grew together with it, the pages that its structures
 * refer to. A library loaded later has its structures from malloc. */
static void loader_memory(void **state)
{
	struct fake_source fake;
	struct target target;

	(void)state;
	start(&fake);
	put_link_maps(0x100, 0x9000, 0);
	target = carve_with_loader(&fake, 0x10000);
	check_row(&target, LOADER, 0x10000, "image", "loader data", "");
	finish(&fake, &target);

	start(&fake);
	put_link_maps(0x5100, 0x9000, 0);
	target = carve_with_loader(&fake, 0x40000);
	check_row(&target, LOADER, 0x5000, "uncategorized", "dark", "");
	check_row(&target, LOADER + 0x5000, 0x1000, "image", "loader data", "");
	check_row(&target, LOADER + 0x6000, 0x3a000, "uncategorized", "dark", "");
	finish(&fake, &target);
}

static void lists_that_go_round(void **state)
{
	struct fake_source fake;
	struct target target;

	(void)state;
	for (int i = 0; i < 3; i++) {
		start(&fake);
		put_link_maps(0x100, 0x9000, i == 0 ? LOADER + 0x100 : i == 1 ? AT + 0x4300 : UINT64_MAX - 7);
		if (i == 2) /* an array without an end */
			for (uint64_t at = 0x800; at < 0x10000; at += 8)
				put_loader(at, AT + 0x4300);
		target = carve_with_loader(&fake, 0x10000);
		finish(&fake, &target);
	}
}

/* ---- stacks ------------------------------------------------------------------ */

#define STACK (AT + 0x100000)
#define STACK_SIZE 0x40000
#define PTHREAD (STACK + STACK_SIZE - 0x900) /* as glibc 2.36 has it */

static uint8_t stack_bytes[STACK_SIZE] __attribute__((aligned(8)));

static void put(uint64_t address, uint64_t word)
{
	memcpy(stack_bytes + (address - STACK), &word, sizeof(word));
}

/* struct pthread: tcb, self; list and tid; stackblock, stackblock_size, guardsize. */
static void put_pthread(uint64_t guard)
{
	memset(stack_bytes, 0, sizeof(stack_bytes));
	put(PTHREAD, PTHREAD);
	put(PTHREAD + 16, PTHREAD);
	put(PTHREAD + 720, 1234);
	/* The tid and a pointer behind it look like a range, too. */
	put(PTHREAD + 728, PTHREAD + 0x2e0);
	put(PTHREAD + 1680, STACK);
	put(PTHREAD + 1688, STACK_SIZE);
	put(PTHREAD + 1696, guard);
}

static void add_thread(struct fake_source *fake, pid_t tid, uint64_t sp, uint64_t fs_base)
{
	struct source_thread thread = { .tid = tid, .has_registers = sp != 0, .sp = sp, .fs_base = fs_base };

	assert_true(vec_push(&fake->source.threads, thread));
}

static void main_stack(void **state)
{
	struct fake_source fake;
	struct target target;

	(void)state;
	for (int named = 0; named < 2; named++) {
		start(&fake);
		fake_mapping(&fake, STACK, STACK + STACK_SIZE, READ_WRITE, 0, 0, named ? "[stack]" : "", NULL);
		fake.source.auxv[0][0] = AT_RANDOM; /* a core has no names */
		fake.source.auxv[0][1] = STACK + STACK_SIZE - 0x321;
		add_thread(&fake, 1, STACK + 0x30000, 0);
		target = carve(&fake);
		check_row(&target, STACK, 0x30000 - 128, "stack", "unused", "main");
		check_row(&target, STACK + 0x30000 - 128, 0x10000 + 128, "stack", "used", "main");
		finish(&fake, &target);
	}
}

/* On an alternate stack, or without registers, nobody knows how much is used. */
static void undivided_stack(void **state)
{
	struct fake_source fake;
	struct target target;

	(void)state;
	for (int i = 0; i < 2; i++) {
		start(&fake);
		fake_mapping(&fake, AT, AT + 0x10000, READ_WRITE, 0, 0, "[heap]", NULL);
		fake_mapping(&fake, STACK, STACK + STACK_SIZE, READ_WRITE, 0, 0, "[stack]", NULL);
		add_thread(&fake, 1, i ? AT + 0x5000 : 0, 0);
		target = carve(&fake);
		check_row(&target, STACK, STACK_SIZE, "stack", "undivided", "main");
		check_row(&target, AT, 0x10000, "uncategorized", "dark", "");
		finish(&fake, &target);
	}
}

/* Other memory grew together with the stack into one mapping; the guard is in it, or one of its own. */
static void thread_stack_in_a_merged_mapping(void **state)
{
	struct fake_source fake;
	struct target target;

	(void)state;
	for (int own = 0; own < 2; own++) {
		start(&fake);
		put_pthread(0x1000);
		fake_mapping(&fake, STACK - 0x10000, STACK, READ_WRITE, 0, 0, "", NULL);
		if (own)
			fake_mapping(&fake, STACK, STACK + 0x1000, 0, 0, 0, "", NULL);
		fake_mapping(&fake, STACK + 0x1000 * own, STACK + STACK_SIZE, READ_WRITE, 0, 0, "",
			     stack_bytes + 0x1000 * own);
		fake_mapping(&fake, STACK + STACK_SIZE, STACK + STACK_SIZE + 0x8000, READ_WRITE, 0, 0, "", NULL);
		add_thread(&fake, 1, 0, 0);
		add_thread(&fake, 1234, STACK + 0x20000, PTHREAD);
		target = carve(&fake);
		check_row(&target, STACK - 0x10000, 0x10000, "uncategorized", "dark", "");
		check_row(&target, STACK, 0x1000, "os", "guard", "thread 1234");
		check_row(&target, STACK + 0x1000, 0x1f000 - 128, "stack", "unused", "thread 1234");
		check_row(&target, STACK + 0x20000 - 128, PTHREAD - STACK - 0x20000 + 128, "stack", "used",
			  "thread 1234");
		check_row(&target, PTHREAD, 0x900, "stack", "thread control block", "thread 1234");
		check_row(&target, STACK + STACK_SIZE, 0x8000, "uncategorized", "dark", "");
		finish(&fake, &target);
	}
}

/* The same stack said by two threads, one that reaches out of what is mapped, a pointer in the guard, a
 * pointer to nothing: no overlap, no loop, the sum stays. */
static void hostile_threads(void **state)
{
	struct fake_source fake;
	struct target target;

	(void)state;
	for (int i = 0; i < 4; i++) {
		start(&fake);
		put_pthread(i == 2 ? STACK_SIZE - 0x2000 : 0x1000);
		if (i == 1)
			put(PTHREAD + 1688, UINT64_C(1) << 40);
		if (i == 3) { /* lists that lead to themselves and nowhere */
			put(PTHREAD + 704, PTHREAD + 704);
			put(PTHREAD + 712, UINT64_MAX - 7);
		}
		fake_mapping(&fake, STACK, STACK + STACK_SIZE, READ_WRITE, 0, 0, "", stack_bytes);
		add_thread(&fake, 1, 0, 0);
		add_thread(&fake, 1234, STACK + 0x10, PTHREAD);
		add_thread(&fake, 1235, UINT64_MAX, PTHREAD);
		add_thread(&fake, 1236, STACK + 0x20, UINT64_MAX - 3);
		add_thread(&fake, 1237, 1, 0);
		target = carve(&fake);
		finish(&fake, &target);
	}
}

/* Words of struct pthread that point anywhere: the balance holds and nothing loops. */
static void random_threads(void **state)
{
	static const uint64_t values[] = { 0, 1, 0x1000, STACK, STACK + 0x1000, STACK_SIZE, PTHREAD, PTHREAD + 704,
					   STACK - 0x10000, AT, UINT64_MAX, UINT64_MAX - 0xfff, UINT64_C(1) << 63,
					   1234, PTHREAD + 0x2e0, STACK + STACK_SIZE - 8 };
	uint64_t seed = 7;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		struct fake_source fake;
		struct target target;

		start(&fake);
		put_pthread(0x1000);
		for (int i = 0; i < 12; i++) {
			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
			put(PTHREAD + 24 + (seed >> 33) % 280 * 8, values[(seed >> 45) % 16]);
		}
		fake_elf_map(&fake, &elf, AT, 7, "/lib/libfake.so", FAKE_END);
		fake_mapping(&fake, STACK - 0x10000, STACK - 0x1000, READ_WRITE, 0, 0, "", NULL);
		fake_mapping(&fake, STACK, STACK + STACK_SIZE, READ_WRITE, 0, 0, "", stack_bytes);
		add_thread(&fake, 1, values[(seed >> 50) % 16], PTHREAD);
		add_thread(&fake, 1234, STACK + (seed >> 40) % STACK_SIZE, round & 1 ? PTHREAD : PTHREAD + 704);
		target = carve(&fake);
		finish(&fake, &target);
	}
}

/* A thread that no C library knows, on a stack with a guard of its own. */
static void guarded_stack(void **state)
{
	struct fake_source fake;
	struct target target;

	(void)state;
	start(&fake);
	fake_mapping(&fake, STACK - 0x1000, STACK, 0, 0, 0, "", NULL);
	fake_mapping(&fake, STACK, STACK + STACK_SIZE, READ_WRITE, 0, 0, "", NULL);
	fake_mapping(&fake, STACK + 2 * STACK_SIZE, STACK + 3 * STACK_SIZE, READ_WRITE, 0, 0, "", NULL);
	add_thread(&fake, 1, 0, 0);
	add_thread(&fake, 5, STACK + 0x20000, 0);
	add_thread(&fake, 6, STACK + 2 * STACK_SIZE + 0x20000, 0); /* may be a heap with coroutines */
	target = carve(&fake);
	check_row(&target, STACK - 0x1000, 0x1000, "os", "guard", "thread 5");
	check_row(&target, STACK, 0x20000 - 128, "stack", "unused", "thread 5");
	check_row(&target, STACK + 0x20000 - 128, 0x20000 + 128, "stack", "used", "thread 5");
	check_row(&target, STACK + 2 * STACK_SIZE, STACK_SIZE, "uncategorized", "dark", "");
	finish(&fake, &target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_of_mappings),
		cmocka_unit_test(parts_of_an_image),
		cmocka_unit_test(bss_ends_with_its_segment),
		cmocka_unit_test(moved_text_gaps_and_copies),
		cmocka_unit_test(parts_without_headers),
		cmocka_unit_test(greedy_image),
		cmocka_unit_test(loader_memory),
		cmocka_unit_test(lists_that_go_round),
		cmocka_unit_test(main_stack),
		cmocka_unit_test(undivided_stack),
		cmocka_unit_test(thread_stack_in_a_merged_mapping),
		cmocka_unit_test(hostile_threads),
		cmocka_unit_test(random_threads),
		cmocka_unit_test(guarded_stack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
