/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fh_error no_memory = {
	.code = FH_ERROR_NO_MEMORY,
	.message = "out of memory: close something or try --low-memory",
};

struct fh_error *error_no_memory(void)
{
	return &no_memory;
}

static struct fh_error *error_wrap(enum fh_error_code code, char *message)
{
	struct fh_error *error = malloc(sizeof(*error));

	if (!error || !message) {
		free(error);
		free(message);
		return error_no_memory();
	}
	*error = (struct fh_error){ .code = code, .message = message };
	return error;
}

struct fh_error *error_create(enum fh_error_code code, const char *format, ...)
{
	char *message = NULL;
	va_list ap;

	va_start(ap, format);
	if (vasprintf(&message, format, ap) < 0)
		message = NULL;
	va_end(ap);
	return error_wrap(code, message);
}

static enum fh_error_code code_of_errno(int value)
{
	switch (value) {
	case EPERM:
	case EACCES:
		return FH_ERROR_PERMISSION;
	case ENOENT:
	case ESRCH:
		return FH_ERROR_NOT_FOUND;
	case ENOMEM:
		return FH_ERROR_NO_MEMORY;
	default:
		return FH_ERROR_SYSTEM;
	}
}

struct fh_error *error_system(int errno_value, const char *format, ...)
{
	char *what = NULL, *message = NULL;
	va_list ap;

	va_start(ap, format);
	if (vasprintf(&what, format, ap) < 0)
		what = NULL;
	va_end(ap);
	if (what && asprintf(&message, "%s: %s", what, strerror(errno_value)) < 0)
		message = NULL;
	free(what);
	return error_wrap(code_of_errno(errno_value), message);
}

void fh_error_destroy(struct fh_error *error)
{
	if (!error || error == &no_memory)
		return;
	free((char *)error->message);
	free(error);
}
