/* SPDX-License-Identifier: Apache-2.0 */
/* What the ways of grouping share. */
#ifndef FREEHOLD_VIEW_GROUPINGS_H
#define FREEHOLD_VIEW_GROUPINGS_H

#include "view/rows.h"

extern const struct view_grouping view_by_domain, view_by_kind, view_by_detail;  /* by_name.c */
extern const struct view_grouping view_by_size, view_by_mapping, view_by_module; /* by_block.c */

/* strcmp() with NULL last. */
int view_compare_text(const char *a, const char *b);
/* Of two struct view_row, by domain, kind and detail. */
int view_compare_names(const void *a, const void *b);

#define TEXT(field, flags) { #field, VIEW_TEXT, flags, offsetof(struct view_row, field) }
#define ADDRESS(field) { #field, VIEW_ADDRESS, 0, offsetof(struct view_row, field) }
#define FIGURES                                                                                              \
	{ "count", VIEW_AMOUNT, VIEW_SUM, offsetof(struct view_row, count) },                                \
	{ "resident", VIEW_AMOUNT, VIEW_SUM | VIEW_RESIDENCY | VIEW_OPTIONAL, offsetof(struct view_row, resident) }, \
	{ "virtual", VIEW_AMOUNT, VIEW_SUM, offsetof(struct view_row, virtual_) },                           \
	{ "swapped", VIEW_AMOUNT, VIEW_SUM | VIEW_RESIDENCY | VIEW_OPTIONAL, offsetof(struct view_row, swapped) }
#define COLUMNS(array) .columns = (array), .n_columns = sizeof(array) / sizeof(*(array))

#endif
