/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FREEHOLD_RUNTIME_PERL_PERL_H
#define FREEHOLD_RUNTIME_PERL_PERL_H

#include "runtime/runtime.h"

extern const struct runtime perl_runtime;

#endif
