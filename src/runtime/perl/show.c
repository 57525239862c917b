/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/perl/refs.h"
void perl_show(struct perl_state *state, const struct block *block, runtime_field_visitor *visit, void *context)
{
	(void)state; (void)block; (void)visit; (void)context;
}
