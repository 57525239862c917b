/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes of a core. Layouts of NT_PRSTATUS and NT_PRPSINFO: struct elf_prstatus and elf_prpsinfo for x86-64
 * (include/linux/elfcore.h, Linux 6.1); NT_FILE: fs/binfmt_elf.c, fill_files_note().
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "source/core.h"

#define MOST_NOTES (UINT64_C(256) << 20) /* bytes, and no more of them than the file has, in all segments together */

#define PRSTATUS_PID 32
#define PRSTATUS_REGISTERS 112
#define PRPSINFO_PID 24
#define PRPSINFO_ARGUMENTS 56
#define PRPSINFO_ARGUMENTS_LEN 80

static uint64_t word(const uint8_t *bytes, size_t at)
{
	uint64_t value;

	memcpy(&value, bytes + at, sizeof(value));
	return value;
}

static struct fh_error *add_thread(struct core *core, const uint8_t *bytes, size_t len)
{
	struct source_thread thread = { .has_registers = true };
	uint32_t tid;

	if (len < PRSTATUS_REGISTERS + sizeof(thread.registers))
		return NULL;
	memcpy(&tid, bytes + PRSTATUS_PID, sizeof(tid));
	memcpy(thread.registers, bytes + PRSTATUS_REGISTERS, sizeof(thread.registers));
	thread.tid = (pid_t)tid;
	thread.ip = thread.registers[16];
	thread.sp = thread.registers[19];
	thread.fs_base = thread.registers[21];
	return vec_push(&core->source.threads, thread) ? NULL : error_no_memory();
}

static struct fh_error *read_psinfo(struct core *core, const uint8_t *bytes, size_t len)
{
	uint32_t pid;

	if (len < PRPSINFO_ARGUMENTS + PRPSINFO_ARGUMENTS_LEN)
		return NULL;
	memcpy(&pid, bytes + PRPSINFO_PID, sizeof(pid));
	core->source.pid = (pid_t)pid;
	core->source.command = strings_add_len(core->source.strings, (const char *)bytes + PRPSINFO_ARGUMENTS,
					       PRPSINFO_ARGUMENTS_LEN);
	return core->source.command ? NULL : error_no_memory();
}

/* {count, page size}, count times {start, end, offset in pages}, then the names one after the other. */
static struct fh_error *read_files(struct core *core, const uint8_t *bytes, size_t len)
{
	static const char deleted[] = " (deleted)";
	uint64_t count, page, name;

	if (len < 16)
		return NULL;
	count = word(bytes, 0);
	page = word(bytes, 8);
	if (count > (len - 16) / 24 || page == 0 || page > (UINT64_C(1) << 30)) {
		source_warn(&core->source, "the core's list of mapped files is damaged");
		core->source.damaged = true;
		return NULL;
	}
	name = 16 + count * 24;
	for (uint64_t i = 0; i < count && name < len; i++) {
		const char *text = (const char *)bytes + name;
		size_t text_len = strnlen(text, len - name), tail = strlen(deleted);
		struct core_mapped_file file = {
			.start = word(bytes, 16 + i * 24),
			.end = word(bytes, 24 + i * 24),
			.offset = word(bytes, 32 + i * 24) * page,
		};

		name += text_len + 1;
		file.deleted = text_len > tail && memcmp(text + text_len - tail, deleted, tail) == 0;
		file.path = strings_add_len(core->source.strings, text, text_len - (file.deleted ? tail : 0));
		if (!file.path)
			return error_no_memory();
		if (file.start < file.end && !vec_push(&core->mapped, file))
			return error_no_memory();
	}
	return NULL;
}

static struct fh_error *read_note(struct core *core, uint32_t type, const uint8_t *bytes, size_t len)
{
	switch (type) {
	case NT_PRSTATUS:
		return add_thread(core, bytes, len);
	case NT_PRPSINFO:
		return read_psinfo(core, bytes, len);
	case NT_FILE:
		return read_files(core, bytes, len);
	case NT_AUXV:
		if (len > sizeof(core->source.auxv) - 16)
			len = sizeof(core->source.auxv) - 16;
		memcpy(core->source.auxv, bytes, len);
		return NULL;
	}
	return NULL;
}

struct fh_error *core_read_notes(struct core *core, const Elf64_Phdr *header)
{
	uint64_t most = core->file_size < MOST_NOTES ? core->file_size : MOST_NOTES;
	uint64_t size = header->p_filesz, at = 0;
	CLEANUP_FREE uint8_t *notes = NULL;

	if (header->p_offset >= core->file_size)
		return NULL;
	if (size > core->file_size - header->p_offset)
		size = core->file_size - header->p_offset;
	if (size > MOST_NOTES)
		size = MOST_NOTES;
	if (size > most - core->note_bytes) {
		source_warn(&core->source, "the core's notes are longer than they can be: some are left out");
		core->source.damaged = true;
		return NULL;
	}
	core->note_bytes += size;
	notes = malloc(size + 1);
	if (!notes)
		return error_no_memory();
	if (!core_pread(core, header->p_offset, notes, size))
		return NULL;
	while (at + sizeof(Elf64_Nhdr) <= size) {
		Elf64_Nhdr note;
		uint64_t name = at + sizeof(note), data;

		memcpy(&note, notes + at, sizeof(note));
		data = name + ((note.n_namesz + UINT64_C(3)) & ~UINT64_C(3));
		if (data > size || note.n_descsz > size - data) {
			source_warn(&core->source, "the core's notes end in the middle of one");
			core->source.damaged = true;
			return NULL;
		}
		if (note.n_namesz == 5 && memcmp(notes + name, "CORE", 5) == 0)
			TRY(read_note(core, note.n_type, notes + data, note.n_descsz));
		at = data + ((note.n_descsz + UINT64_C(3)) & ~UINT64_C(3));
	}
	return NULL;
}
