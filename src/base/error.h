/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors are objects: a function that can fail returns `struct fh_error *`,
 * and NULL is success. Whoever gets an error owns it: pass it on, or
 * fh_error_destroy() it. Out of memory is a static object, so that reporting
 * it needs none.
 */
#ifndef FREEHOLD_BASE_ERROR_H
#define FREEHOLD_BASE_ERROR_H

#include <stdint.h>

#include "freehold.h"

/* One line, without a newline: what could not be done, why, and what to do. */
struct fh_error *error_create(enum fh_error_code code, const char *format, ...)
	__attribute__((format(printf, 2, 3), warn_unused_result));
/* The same, with ": strerror(errno_value)" after it; EPERM and EACCES become
 * FH_ERROR_PERMISSION, ENOENT and ESRCH FH_ERROR_NOT_FOUND. */
struct fh_error *error_system(int errno_value, const char *format, ...)
	__attribute__((format(printf, 2, 3), warn_unused_result));
/* The static error; never NULL. */
struct fh_error *error_no_memory(void) __attribute__((warn_unused_result));

#define TRY(expression)                                                        \
	do {                                                                   \
		struct fh_error *try_error_ = (expression);                    \
		if (try_error_)                                                \
			return try_error_;                                     \
	} while (0)

#endif
