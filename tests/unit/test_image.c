/* SPDX-License-Identifier: Apache-2.0 */
/* ELF images: what is one, what its headers say, its symbols with and without a file, and damaged ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fake_target.h"
#include "image/image.h"

#define AT UINT64_C(0x7f0000000000)
#define FILE_PATH "/usr/lib/libfake.so.1"

static struct fake_elf elf;

static struct images *load(struct fake_source *fake)
{
	struct images *images = NULL;

	fake_source_seal(fake);
	assert_null(images_load(&fake->source, &images));
	return images;
}

static void finish(struct fake_source *fake, struct images *images)
{
	images_destroy(images);
	fake_source_deinit(fake);
}

/* One library, without a file behind it. */
static struct images *load_one(struct fake_source *fake, enum fake_hash hash)
{
	fake_source_init(fake);
	fake_elf_write(&elf, hash);
	fake_elf_map(fake, &elf, AT, 7, FILE_PATH, FAKE_END);
	return load(fake);
}

static void headers_are_addresses(void **state)
{
	struct fake_source fake;
	struct images *images = load_one(&fake, FAKE_GNU_HASH);
	const struct image *image;

	(void)state;
	assert_int_equal(images->v.len, 1);
	image = images->v.items[0];
	assert_string_equal(image->path, FILE_PATH);
	assert_string_equal(image->name, "libfake.so.1");
	assert_int_equal(image->bias, AT);
	assert_int_equal(image->start, AT);
	assert_int_equal(image->end, AT + FAKE_END);
	assert_int_equal(image->segments.len, 4);
	assert_int_equal(image->segments.items[3].start, AT + FAKE_DATA_VADDR);
	assert_int_equal(image->segments.items[3].file_end, AT + FAKE_DATA_VADDR + FAKE_DATA_BYTES);
	assert_int_equal(image->segments.items[3].end, AT + FAKE_DATA_VADDR + FAKE_DATA_BYTES + FAKE_BSS_BYTES);
	assert_int_equal(image->build_id_len, 20);
	assert_int_equal(image->build_id[0], 1);
	assert_int_equal(image->build_id[19], 20);
	assert_int_equal(image->relro_start, AT + FAKE_DATA_VADDR);
	assert_int_equal(image->relro_end, AT + FAKE_DATA_VADDR + 0x200);
	assert_int_equal(image->tls_size, 40);
	assert_int_equal(image->tls_align, 16);
	assert_int_equal(image->dynamic, AT + FAKE_DYNAMIC);
	assert_false(image->executable);
	assert_int_equal(fake.opened, 0);
	finish(&fake, images);
}

static void addresses_find_their_segment(void **state)
{
	struct fake_source fake;
	struct images *images = load_one(&fake, FAKE_GNU_HASH);
	const struct image_segment *segment;

	(void)state;
	assert_null(images_at(images, AT - 1, NULL));
	assert_non_null(images_at(images, AT, &segment));
	assert_int_equal(segment->flags, PF_R);
	assert_non_null(images_at(images, AT + 0x18ff, &segment));
	assert_int_equal(segment->flags, PF_R | PF_X);
	assert_null(images_at(images, AT + 0x1900, &segment));
	assert_null(images_at(images, AT + 0x3800, &segment));
	assert_non_null(images_at(images, AT + FAKE_DATA_VADDR, &segment));
	assert_int_equal(segment->flags, PF_R | PF_W);
	assert_non_null(images_at(images, AT + 0x7063, &segment));
	assert_null(images_at(images, AT + 0x7064, &segment));
	finish(&fake, images);
}

static void check_dynamic_symbols(struct images *images)
{
	uint64_t address = 0, size = 0;

	assert_true(image_symbol(images, images->v.items[0], "first", &address, &size));
	assert_int_equal(address, AT + 0x4010);
	assert_int_equal(size, 16);
	assert_ptr_equal(images_with_symbol(images, "second", &address), images->v.items[0]);
	assert_int_equal(address, AT + 0x4020);
	assert_false(image_symbol(images, images->v.items[0], "undefined", &address, NULL));
	assert_false(image_symbol(images, images->v.items[0], "thread", &address, NULL));
	assert_false(image_symbol(images, images->v.items[0], "fir", &address, NULL));
	assert_false(image_symbol(images, images->v.items[0], "first0", &address, NULL));
	assert_null(images_with_symbol(images, "nothing", &address));
}

static void symbols_need_no_file(void **state)
{
	struct fake_source fake;
	uint64_t address;

	(void)state;
	for (enum fake_hash hash = FAKE_SYSV_HASH; hash <= FAKE_GNU_HASH; hash++) {
		struct images *images = load_one(&fake, hash);

		check_dynamic_symbols(images);
		assert_false(image_symbol(images, images->v.items[0], "hidden", &address, NULL));
		finish(&fake, images);
	}
}

static void symtab_comes_from_the_file(void **state)
{
	struct fake_source fake;
	struct images *images = load_one(&fake, FAKE_GNU_HASH);
	uint64_t address = 0, size = 0;

	(void)state;
	fake.file = elf.bytes;
	fake.file_size = sizeof(elf.bytes);
	check_dynamic_symbols(images);
	assert_true(image_symbol(images, images->v.items[0], "hidden", &address, &size));
	assert_int_equal(address, AT + 0x1010);
	assert_int_equal(size, 5);
	assert_int_equal(fake.opened, 1);
	finish(&fake, images);
}

/* glibc's loader writes addresses into the dynamic section, musl's doesn't. */
static void relocated_dynamic_section(void **state)
{
	struct fake_source fake;
	struct images *images;
	Elf64_Dyn *dynamic;

	(void)state;
	fake_source_init(&fake);
	fake_elf_write(&elf, FAKE_GNU_HASH);
	dynamic = (Elf64_Dyn *)(elf.bytes + 0x3100);
	for (int i = 0; i < 4; i++)
		if (dynamic[i].d_tag != DT_STRSZ)
			dynamic[i].d_un.d_ptr += AT;
	fake_elf_map(&fake, &elf, AT, 7, FILE_PATH, FAKE_END);
	images = load(&fake);
	check_dynamic_symbols(images);
	finish(&fake, images);
}

static void data_files_are_no_images(void **state)
{
	struct fake_source fake;
	struct images *images;

	(void)state;
	fake_source_init(&fake);
	fake_elf_write(&elf, FAKE_GNU_HASH);
	/* Read in one piece, and in one piece that may be executed, and in two. */
	fake_mapping(&fake, AT, AT + sizeof(elf.bytes), MAPPING_READ, 0, 7, FILE_PATH, elf.bytes);
	fake_mapping(&fake, AT + 0x10000, AT + 0x12000, MAPPING_READ, 0, 7, FILE_PATH, elf.bytes);
	fake_mapping(&fake, AT + 0x12000, AT + 0x14000, MAPPING_READ | MAPPING_WRITE, 0x2000, 7, FILE_PATH,
		     elf.bytes + 0x2000);
	fake_mapping(&fake, AT + 0x20000, AT + 0x21000, MAPPING_READ | MAPPING_EXEC, 0, 8, "/tmp/not-elf",
		     elf.bytes + 0x2000);
	images = load(&fake);
	assert_int_equal(images->v.len, 0);
	assert_int_equal(fake.source.warnings.len, 0);
	finish(&fake, images);
}

/* Copies of one file (dlmopen), and another file that has taken its name. */
static void copies_are_images_of_their_own(void **state)
{
	struct fake_source fake;
	struct images *images;

	(void)state;
	fake_source_init(&fake);
	fake_elf_write(&elf, FAKE_GNU_HASH);
	fake_elf_map(&fake, &elf, AT, 7, FILE_PATH, FAKE_END);
	fake_elf_map(&fake, &elf, AT + FAKE_END, 7, FILE_PATH, FAKE_END);
	fake_elf_map(&fake, &elf, AT + 2 * FAKE_END, 8, FILE_PATH, FAKE_END);
	images = load(&fake);
	assert_int_equal(images->v.len, 3);
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(images->v.items[i]->bias, AT + i * FAKE_END);
		assert_ptr_equal(images_at(images, AT + i * FAKE_END + 0x4810, NULL), images->v.items[i]);
	}
	finish(&fake, images);
}

/* Some programs copy their text to anonymous huge pages, and archives hold libraries at an offset. */
static void moved_text_and_offsets(void **state)
{
	struct fake_source fake;
	struct images *images;

	(void)state;
	fake_source_init(&fake);
	fake_elf_write(&elf, FAKE_GNU_HASH);
	fake_mapping(&fake, AT, AT + 0x1000, MAPPING_READ, 0x50000, 7, "/a/rchive", elf.bytes);
	fake_mapping(&fake, AT + 0x1000, AT + 0x2000, MAPPING_READ | MAPPING_EXEC, 0, 0, "", elf.bytes + 0x1000);
	fake_mapping(&fake, AT + 0x4000, AT + 0x5000, MAPPING_READ | MAPPING_WRITE, 0x53000, 7, "/a/rchive",
		     elf.bytes + 0x3000);
	images = load(&fake);
	assert_int_equal(images->v.len, 1);
	assert_int_equal(images->v.items[0]->bias, AT);
	finish(&fake, images);
}

static void the_program_and_the_vdso(void **state)
{
	static uint8_t vdso[FAKE_END];
	struct fake_source fake;
	struct images *images;
	uint64_t address;

	(void)state;
	fake_source_init(&fake);
	fake_elf_write(&elf, FAKE_GNU_HASH);
	fake_elf_map(&fake, &elf, AT, 7, FILE_PATH, FAKE_END);
	fake_elf_map(&fake, &elf, AT + FAKE_END, 8, "/bin/fake", FAKE_END);
	memcpy(vdso, elf.bytes, sizeof(elf.bytes));
	fake_mapping(&fake, AT + 0x20000, AT + 0x20000 + FAKE_END, MAPPING_READ | MAPPING_EXEC, 0, 0, "", vdso);
	fake.source.auxv[0][0] = AT_PHDR;
	fake.source.auxv[0][1] = AT + FAKE_END + 64;
	fake.source.auxv[1][0] = AT_SYSINFO_EHDR;
	fake.source.auxv[1][1] = AT + 0x20000;
	images = load(&fake);
	assert_int_equal(images->v.len, 3);
	assert_string_equal(images_executable(images)->name, "fake");
	assert_true(images->v.items[2]->vdso);
	assert_false(image_symbol(images, images->v.items[2], "hidden", &address, NULL));
	assert_int_equal(fake.opened, 0);
	finish(&fake, images);
}

/* A program at a fixed address has no bias; one that says so elsewhere is none. */
static void fixed_addresses(void **state)
{
	struct fake_source fake;
	struct images *images;

	(void)state;
	fake_elf_write(&elf, FAKE_GNU_HASH);
	elf.header->e_type = ET_EXEC;
	fake_source_init(&fake);
	fake_elf_map(&fake, &elf, AT, 7, FILE_PATH, FAKE_END);
	images = load(&fake);
	assert_int_equal(images->v.len, 0);
	finish(&fake, images);
	for (int i = 0; i < FAKE_HEADERS; i++)
		elf.program[i].p_vaddr += 0x400000;
	fake_source_init(&fake);
	fake_elf_map(&fake, &elf, 0x400000, 7, FILE_PATH, FAKE_END);
	images = load(&fake);
	assert_int_equal(images->v.len, 1);
	assert_int_equal(images->v.items[0]->bias, 0);
	finish(&fake, images);
}

static void unreadable_files_are_named(void **state)
{
	struct fake_source fake;
	struct images *images;

	(void)state;
	fake_source_init(&fake);
	fake_mapping(&fake, AT, AT + 0x1000, MAPPING_READ, 0, 7, FILE_PATH, NULL);
	fake_mapping(&fake, AT + 0x1000, AT + 0x2000, MAPPING_READ | MAPPING_EXEC, 0x1000, 7, FILE_PATH, NULL);
	fake_mapping(&fake, AT + 0x4000, AT + 0x5000, MAPPING_READ, 0, 8, "/data", NULL);
	images = load(&fake);
	assert_int_equal(images->v.len, 0);
	assert_int_equal(fake.source.warnings.len, 1);
	assert_non_null(strstr(fake.source.warnings.items[0], FILE_PATH));
	finish(&fake, images);
}

/* Tools that edit ELF files move the program headers to the end, out of the first mapping. */
static void headers_elsewhere_in_the_file(void **state)
{
	struct fake_source fake;
	struct images *images;

	(void)state;
	fake_source_init(&fake);
	fake_elf_write(&elf, FAKE_GNU_HASH);
	memcpy(elf.bytes + 0x3800, elf.program, FAKE_HEADERS * sizeof(Elf64_Phdr));
	elf.header->e_phoff = 0x3800;
	fake_elf_map(&fake, &elf, AT, 7, FILE_PATH, FAKE_END);
	fake.file = elf.bytes;
	fake.file_size = sizeof(elf.bytes);
	images = load(&fake);
	assert_int_equal(images->v.len, 1);
	assert_int_equal(images->v.items[0]->segments.len, 4);
	finish(&fake, images);
}

/* Nothing that an image says may reach out of it or upset the order, whatever its bytes are. */
static void check_order(const struct images *images)
{
	for (size_t i = 0; i < images->places.len; i++) {
		const struct image_place *place = &images->places.items[i];

		assert_true(place->start < place->end);
		assert_true(place->end <= UINT64_C(1) << 47);
		assert_true(place->image < images->v.len);
		assert_true(place->segment < images->v.items[place->image]->segments.len);
		if (i)
			assert_true(place[-1].end <= place->start);
	}
}

static void absurd_headers(void **state)
{
	static const struct {
		size_t offset;
		uint64_t value;
		size_t size;
	} cases[] = {
		{ offsetof(Elf64_Ehdr, e_phoff), UINT64_MAX, 8 },
		{ offsetof(Elf64_Ehdr, e_phoff), UINT64_C(1) << 63, 8 },
		{ offsetof(Elf64_Ehdr, e_phnum), 0xffff, 2 },
		{ offsetof(Elf64_Ehdr, e_phnum), 0, 2 },
		{ offsetof(Elf64_Ehdr, e_phentsize), 1, 2 },
		{ offsetof(Elf64_Ehdr, e_shoff), UINT64_MAX - 8, 8 },
		{ offsetof(Elf64_Ehdr, e_shnum), 0xffff, 2 },
		{ 64 + 3 * 56 + offsetof(Elf64_Phdr, p_memsz), UINT64_C(1) << 60, 8 },
		{ 64 + 3 * 56 + offsetof(Elf64_Phdr, p_memsz), UINT64_MAX, 8 },
		{ 64 + 3 * 56 + offsetof(Elf64_Phdr, p_filesz), UINT64_MAX, 8 },
		{ 64 + 3 * 56 + offsetof(Elf64_Phdr, p_vaddr), UINT64_MAX - 100, 8 },
		{ 64 + 1 * 56 + offsetof(Elf64_Phdr, p_memsz), 0x100000, 8 },
		{ 64 + 4 * 56 + offsetof(Elf64_Phdr, p_filesz), UINT64_MAX, 8 },
		{ 64 + 5 * 56 + offsetof(Elf64_Phdr, p_vaddr), UINT64_MAX - 7, 8 },
		{ 0x300, 0xfffffff0, 4 },
		{ 0x304, 0xfffffff0, 4 },
		{ 0x600, 0, 4 },
		{ 0x604, UINT32_MAX, 4 },
		{ 0x608, UINT32_MAX, 4 },
		{ 0x60c, UINT32_MAX, 4 },
		{ 0x618, UINT32_MAX, 4 },
		{ 0x3100 + 8, UINT64_MAX - 8, 8 },
		{ 0x3110 + 8, UINT64_MAX - 8, 8 },
		{ 0x3120 + 8, UINT64_MAX, 8 },
		{ 0x840 + offsetof(Elf64_Shdr, sh_size), UINT64_MAX, 8 },
		{ 0x840 + offsetof(Elf64_Shdr, sh_offset), UINT64_MAX, 8 },
		{ 0x840 + offsetof(Elf64_Shdr, sh_link), UINT32_MAX, 4 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct fake_source fake;
		struct images *images;
		uint64_t address;

		fake_source_init(&fake);
		fake_elf_write(&elf, FAKE_GNU_HASH);
		memcpy(elf.bytes + cases[i].offset, &cases[i].value, cases[i].size);
		fake_elf_map(&fake, &elf, AT, 7, FILE_PATH, FAKE_END);
		fake.file = elf.bytes;
		fake.file_size = sizeof(elf.bytes);
		images = load(&fake);
		check_order(images);
		images_with_symbol(images, "first", &address);
		assert_null(images_with_symbol(images, "nothing", &address));
		finish(&fake, images);
	}
}

/* Bytes changed at random, by a generator that starts the same each time. */
static void random_damage(void **state)
{
	uint64_t seed = 1;

	(void)state;
	for (int round = 0; round < 3000; round++) {
		struct fake_source fake;
		struct images *images;
		uint64_t address;

		fake_source_init(&fake);
		fake_elf_write(&elf, round & 1 ? FAKE_GNU_HASH : FAKE_SYSV_HASH);
		for (int i = 0; i < 1 + round % 5; i++) {
			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
			/* Where there is anything: the first 2.3 KiB, and the dynamic section. */
			elf.bytes[(seed >> 33) % 2 ? (seed >> 40) % 0x900 : 0x3100 + (seed >> 40) % 0x50] =
				(uint8_t)(seed >> 34);
		}
		fake_elf_map(&fake, &elf, AT, 7, FILE_PATH, FAKE_END);
		fake_elf_map(&fake, &elf, AT + FAKE_END, 8, FILE_PATH, FAKE_END);
		fake.file = elf.bytes;
		fake.file_size = round % 3 ? sizeof(elf.bytes) : 0x810; /* or cut off */
		images = load(&fake);
		check_order(images);
		images_with_symbol(images, "hidden", &address);
		assert_null(images_with_symbol(images, "nothing", &address));
		finish(&fake, images);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(headers_are_addresses),
		cmocka_unit_test(addresses_find_their_segment),
		cmocka_unit_test(symbols_need_no_file),
		cmocka_unit_test(symtab_comes_from_the_file),
		cmocka_unit_test(relocated_dynamic_section),
		cmocka_unit_test(data_files_are_no_images),
		cmocka_unit_test(copies_are_images_of_their_own),
		cmocka_unit_test(moved_text_and_offsets),
		cmocka_unit_test(the_program_and_the_vdso),
		cmocka_unit_test(fixed_addresses),
		cmocka_unit_test(unreadable_files_are_named),
		cmocka_unit_test(headers_elsewhere_in_the_file),
		cmocka_unit_test(absurd_headers),
		cmocka_unit_test(random_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
