/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FREEHOLD_OUTPUT_TEXT_H
#define FREEHOLD_OUTPUT_TEXT_H

#include "output/emitter.h"

/* Forgets the rows that wait. */
void text_rows_deinit(struct emitter *emitter);

#endif
