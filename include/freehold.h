/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libfreehold: where the memory of a process is, and who holds it.
 *
 * A census is opened on a target (a process or a core file), looked at
 * through visitors, and destroyed. While it is open the target runs on: a
 * live process was copied while it stood still, and is not touched again.
 * Where there was no room for a copy it waits until it was analysed, and what
 * it had in its private memory can't be read after that; or, with
 * `keep_stopped`, it waits until the census is destroyed.
 *
 * Functions that can fail return NULL when they succeeded, else an error that
 * the caller frees with fh_error_destroy(). Strings that a visitor gets belong
 * to the census and live as long as it. They may hold bytes of the target:
 * escape them before they go to a terminal. Sizes are in bytes. Nothing here
 * is thread-safe for one census; several censuses are independent.
 */
#ifndef FREEHOLD_H
#define FREEHOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FH_VERSION "0.1.0"

enum fh_error_code {
	FH_ERROR_NO_MEMORY,  /* of this program, not the target */
	FH_ERROR_USAGE,      /* an argument that makes no sense */
	FH_ERROR_NOT_FOUND,  /* no such process, file, block */
	FH_ERROR_PERMISSION, /* the message says what is needed */
	FH_ERROR_FORMAT,     /* not a core file, or not one of ours */
	FH_ERROR_SYSTEM,     /* the operating system refused */
	FH_ERROR_FAULT,      /* an address that can't be read; see `address` */
	FH_ERROR_QUERY,      /* wrong SQL */
	FH_ERROR_INTERRUPTED, /* go_on() said so */
};

struct fh_error {
	enum fh_error_code code;
	uint64_t address;    /* with FH_ERROR_FAULT */
	const char *message; /* one line: what, why, what to do */
};

/* Accepts NULL. */
void fh_error_destroy(struct fh_error *error);

/* ---- opening ---------------------------------------------------------- */

struct fh_census;

/* Zero means the default everywhere; set `size` to sizeof(struct fh_options). */
struct fh_options {
	size_t size;
	const char *exe;     /* core files: the executable, where it moved */
	const char *sysroot; /* core files: where the target's file system is */
	bool low_memory;     /* live: no copy; the target waits for the analysis */
	bool swapped;        /* also read what is swapped out (this swaps it in) */
	/* Called now and then with what is being done; fraction is 0 to 1. */
	void (*progress)(void *context, const char *phase, double fraction);
	void *progress_context;
	bool keep_stopped; /* a target that could not be copied waits for the end of the census */
};

/* `target`: a process id in decimal, or the path of a core file. NULL options
 * are the defaults. *ret is only written on success. */
struct fh_error *fh_census_open(const char *target, const struct fh_options *options,
				struct fh_census **ret);
/* Accepts NULL. */
void fh_census_destroy(struct fh_census *census);

/* ---- what was opened --------------------------------------------------- */

struct fh_info {
	const char *source; /* "live", "core" */
	int64_t pid;
	const char *command; /* the command line, words separated by blanks */
	const char *exe;     /* the executable's path as the target knows it */
	double pause_ms;     /* how long the target stood still; < 0: unknown */
	bool has_resident;   /* false: resident and swapped are not known (core) */
	bool streamed;       /* stood still during the analysis, too little memory */
	bool damaged;        /* something was unreadable or corrupt; see warnings */
	size_t threads;
};

/* Three figures of the same thing. */
struct fh_size {
	uint64_t virtual_, resident, swapped;
};

void fh_census_info(const struct fh_census *census, struct fh_info *ret);
/* What the operating system says the target has. */
void fh_census_os(const struct fh_census *census, struct fh_size *ret);

/* Visitors return false to stop. */
typedef bool fh_text_visitor(void *context, const char *text);

/* "glibc 2.36", "cpython 3.11.2", and what could not be read or was odd. */
void fh_census_each_allocator(const struct fh_census *census, fh_text_visitor *visit, void *context);
void fh_census_each_runtime(const struct fh_census *census, fh_text_visitor *visit, void *context);
void fh_census_each_warning(const struct fh_census *census, fh_text_visitor *visit, void *context);

/* A mapping of the operating system's (a VMA of a process, a segment of a core file). */
struct fh_mapping {
	uint64_t start, end;
	uint64_t resident, swapped; /* 0 where not known */
	uint64_t offset;	    /* of `start` in the file */
	uint64_t inode;		    /* 0: no file */
	uint64_t device;	    /* as makedev() has it */
	const char *path;	    /* file, "[heap]", "[stack]" ..., "" for anonymous memory */
	char permissions[5];	    /* "rw-p" as in /proc/PID/maps */
	bool deleted;		    /* the file has no name any more */
};

/* An ELF file that is mapped: the program, a library. */
struct fh_image {
	uint64_t start, end; /* around all its segments; memory of others may lie between these */
	uint64_t bias;	     /* address in the target minus address in the file */
	const char *path, *name; /* as mapped; the last part of it */
	const uint8_t *build_id;
	size_t build_id_length; /* 0: none or not known */
	bool executable;	/* the program itself, not a library */
};

struct fh_thread {
	int64_t tid;
	const char *name;   /* may be empty */
	bool has_registers; /* false: the three below are 0 */
	uint64_t sp, ip, tls;
};

typedef bool fh_mapping_visitor(void *context, const struct fh_mapping *mapping);
typedef bool fh_image_visitor(void *context, const struct fh_image *image);
typedef bool fh_thread_visitor(void *context, const struct fh_thread *thread);

/* Mappings and images in ascending order of address; the main thread first. */
void fh_census_each_mapping(const struct fh_census *census, fh_mapping_visitor *visit, void *context);
void fh_census_each_image(const struct fh_census *census, fh_image_visitor *visit, void *context);
void fh_census_each_thread(const struct fh_census *census, fh_thread_visitor *visit, void *context);
/* The mapping that holds an address, and the image whose segments do; false when there is none. */
bool fh_census_find_mapping(const struct fh_census *census, uint64_t address, struct fh_mapping *ret);
bool fh_census_find_image(const struct fh_census *census, uint64_t address, struct fh_image *ret);

/* ---- the ledger -------------------------------------------------------- */

enum fh_state {
	FH_MAPPED,   /* a mapping, or a part of one, that no allocator divides */
	FH_LIVE,     /* in use by the target's program */
	FH_FREE,     /* an allocator holds it, to give it out again */
	FH_OVERHEAD, /* an allocator's own */
};

/* Blocks cover the target's memory without gap or overlap. */
struct fh_block {
	uint64_t start, end;
	uint64_t resident, swapped; /* 0 where not known */
	const char *domain, *kind, *detail;
	enum fh_state state;
	uint8_t head; /* bytes of allocator header before the owner's data */
};

typedef bool fh_block_visitor(void *context, const struct fh_block *block);

/* In ascending order of address. */
void fh_census_each_block(struct fh_census *census, fh_block_visitor *visit, void *context);
/* The block that holds an address; false when no mapping does. */
bool fh_census_find_block(struct fh_census *census, uint64_t address, struct fh_block *ret);

/* A line of the census. */
struct fh_row {
	const char *domain, *kind, *detail;
	enum fh_state state;
	uint64_t count;
	struct fh_size size;
};

typedef bool fh_row_visitor(void *context, const struct fh_row *row);

/* One row for each domain, kind and detail that there is, the largest (resident,
 * then virtual) first. Their sum equals fh_census_os(). */
struct fh_error *fh_census_each_row(struct fh_census *census, fh_row_visitor *visit, void *context);

/* Copies bytes of the target. Returns how many could be read from the start. */
size_t fh_census_read(struct fh_census *census, uint64_t address, void *buffer, size_t length);

/* ---- one block in words -------------------------------------------------- */

/* Both strings are only good during the call, and may hold bytes of the target. */
typedef bool fh_field_visitor(void *context, const char *name, const char *value);

/* What the runtime that knows a block says of it: type, count of references, length, value, shortened. Nothing
 * for a block that no runtime knows. */
void fh_census_describe(struct fh_census *census, uint64_t address, fh_field_visitor *visit, void *context);

/* ---- questions in SQL -------------------------------------------------------- */

/* The tables are block, category, mapping, image, thread, arena, bin; each address is an integer. Rows are made
 * while they are asked for, nothing is copied. SQL is SQLite's, read-only: SELECT (also WITH and EXPLAIN). */

enum fh_value_type {
	FH_VALUE_NULL,
	FH_VALUE_INTEGER,
	FH_VALUE_ADDRESS, /* an integer that comes straight from a column of addresses */
	FH_VALUE_REAL,
	FH_VALUE_TEXT,
	FH_VALUE_BYTES,
};

struct fh_value {
	enum fh_value_type type;
	int64_t integer;   /* also addresses: cast to uint64_t */
	double real;
	const char *bytes; /* text (which ends with a NUL too) or bytes; valid during the call */
	size_t length;
};

/* Set `size` to sizeof(struct fh_query_visitor). Any may be NULL; columns and row return false to stop. */
struct fh_query_visitor {
	size_t size;
	/* Once, before the first row and also when there is none. */
	bool (*columns)(void *context, const char *const *names, size_t n);
	bool (*row)(void *context, const struct fh_value *values, size_t n);
	/* Called often while a query runs; false ends it with FH_ERROR_INTERRUPTED. */
	bool (*go_on)(void *context);
};

/* Runs one statement. FH_ERROR_QUERY has SQLite's message and the names that exist. */
struct fh_error *fh_query(struct fh_census *census, const char *sql, const struct fh_query_visitor *visitor,
			  void *context);
/* Visits the blocks for which an expression over the columns of `block` holds, in the order of their addresses. go_on
 * may be NULL; both get the context. */
struct fh_error *fh_select(struct fh_census *census, const char *expression, fh_block_visitor *visit,
			   bool (*go_on)(void *context), void *context);

/* What there is to ask: tables, their columns, and functions beyond SQLite's own. A line each. */
typedef bool fh_name_visitor(void *context, const char *name, const char *description);
void fh_query_each_table(fh_name_visitor *visit, void *context);
void fh_query_each_column(const char *table, fh_name_visitor *visit, void *context);
void fh_query_each_function(fh_name_visitor *visit, void *context);

#ifdef __cplusplus
}
#endif

#endif
