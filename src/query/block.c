/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table `block`: a cursor over the ledger. Conditions on addresses become a place to begin and one to stop,
 * those on names are answered once for each category instead of once for each block, those on the size by two limits.
 * So the millions of blocks that a question is not about never reach SQLite.
 *
 * SQL has signed integers only. Addresses from 2^63 up, which only a core file with odd headers has, come out
 * negative; a stop jumps over to them instead of ending.
 */
#include "query/tables.h"

#include <stdlib.h>
#include <string.h>

#define HIGH_HALF (UINT64_C(1) << 63)

struct block_row {
	uint64_t start, end, size, resident, swapped, head;
	const char *domain, *kind, *detail, *state, *mapping, *module;
	int64_t refcount, interpreter;
	const char *package, *flags, *magic;
};

enum column {
	START, END, SIZE, RESIDENT, SWAPPED, DOMAIN, KIND, DETAIL, STATE, HEAD, MAPPING, MODULE,
	REFCOUNT, INTERPRETER, PACKAGE, FLAGS, MAGIC, N_COLUMNS
};

#define COLUMN(field, type, text) { #field, type, offsetof(struct block_row, field), text }

static const struct query_column columns[N_COLUMNS] = {
	[START] = COLUMN(start, QUERY_ADDRESS, "first address, with the allocator's header"),
	[END] = COLUMN(end, QUERY_ADDRESS, "address behind the last"),
	[SIZE] = COLUMN(size, QUERY_AMOUNT, "bytes: end - start"),
	[RESIDENT] = COLUMN(resident, QUERY_FIGURE, "of them in memory"),
	[SWAPPED] = COLUMN(swapped, QUERY_FIGURE, "of them swapped out"),
	[DOMAIN] = COLUMN(domain, QUERY_TEXT, "who manages it: python, glibc, image, stack, os ..."),
	[KIND] = COLUMN(kind, QUERY_TEXT, "what it is: dict, free chunk, text ..."),
	[DETAIL] = COLUMN(detail, QUERY_TEXT, "its owner, size class or file"),
	[STATE] = COLUMN(state, QUERY_TEXT, "live, free, overhead or mapped"),
	[HEAD] = COLUMN(head, QUERY_AMOUNT, "bytes of allocator header before the owner's data"),
	[MAPPING] = COLUMN(mapping, QUERY_TEXT, "path of the mapping; empty: anonymous"),
	[MODULE] = COLUMN(module, QUERY_TEXT, "file name of the program or library it belongs to; NULL: none"),
	[REFCOUNT] = COLUMN(refcount, QUERY_NUMBER, "of an object or value; NULL: it is none"),
	[INTERPRETER] = COLUMN(interpreter, QUERY_NUMBER, "number of the perl interpreter that a value is of, from 0"),
	[PACKAGE] = COLUMN(package, QUERY_TEXT, "that a perl value is blessed into"),
	[FLAGS] = COLUMN(flags, QUERY_TEXT, "of a perl value: temp, padtmp, readonly, magical, utf8, weak ..."),
	[MAGIC] = COLUMN(magic, QUERY_TEXT, "letters of a perl value's magic"),
};

struct block_cursor {
	struct fh_census *census;
	struct ledger_cursor at;
	struct census_cursors figures;
	uint64_t stop;	       /* blocks from here up are not wanted */
	bool high;	       /* all below 2^63 is done */
	uint64_t least, most;  /* sizes that are wanted */
	bool nothing;	       /* no block can be wanted */
	uint8_t *wanted;       /* by category; NULL: all of them */
	const struct mapping *mapping;
	const struct image_segment *segment;
	const struct image *image;
};

/* ---- the plan ------------------------------------------------------------------- */

/* A condition in the plan's text: which column, and how it is compared. */
#define CONDITION_LENGTH 2
#define MOST_CONDITIONS 32

static char comparison_letter(unsigned char op)
{
	switch (op) {
	case SQLITE_INDEX_CONSTRAINT_EQ:
		return '=';
	case SQLITE_INDEX_CONSTRAINT_LT:
		return '<';
	case SQLITE_INDEX_CONSTRAINT_LE:
		return 'l';
	case SQLITE_INDEX_CONSTRAINT_GT:
		return '>';
	case SQLITE_INDEX_CONSTRAINT_GE:
		return 'g';
	case SQLITE_INDEX_CONSTRAINT_LIKE:
		return 'L';
	case SQLITE_INDEX_CONSTRAINT_GLOB:
		return 'G';
	default:
		return 0;
	}
}

static bool is_name(int column)
{
	return column >= DOMAIN && column <= STATE;
}

/* The condition's letter when the cursor can make use of it, else 0. */
static char useful(sqlite3_index_info *info, int i)
{
	char letter = info->aConstraint[i].usable ? comparison_letter(info->aConstraint[i].op) : 0;
	int column = info->aConstraint[i].iColumn;

	if (is_name(column)) {
		if (letter == '=')
			return strcmp(sqlite3_vtab_collation(info, i), "BINARY") == 0 ? letter : 0;
		return letter == 'L' || letter == 'G' ? letter : 0;
	}
	if (column == -1 || column == START || column == END || column == SIZE)
		return letter == 'L' || letter == 'G' ? 0 : letter;
	return 0;
}

/* What SQLite weighs plans by: how many blocks will come out, and how many must be looked at. */
static void estimate(const struct ledger *ledger, const char *plan, sqlite3_index_info *info)
{
	double all = (double)ledger->offsets.len + 1, rows = all, looked = all;

	for (; *plan; plan += CONDITION_LENGTH) {
		int column = plan[0] - 'a' - 1;
		bool exact = plan[1] == '=';

		if (column == -1 || column == START || column == END) {
			rows = exact ? 1 : rows / 4;
			looked = exact ? 1 : looked / 4;
		} else {
			rows /= exact ? 20 : 3;
		}
	}
	info->estimatedRows = rows < 1 ? 1 : (sqlite3_int64)rows;
	info->estimatedCost = looked / 10 + rows + 10;
}

static bool has_high_half(const struct ledger *ledger)
{
	return ledger->extents.len && vec_last(&ledger->extents)->end > HIGH_HALF;
}

static int plan(struct fh_census *census, sqlite3_index_info *info)
{
	char text[MOST_CONDITIONS * CONDITION_LENGTH + 1];
	int n = 0;

	for (int i = 0; i < info->nConstraint && n < MOST_CONDITIONS; i++) {
		char letter = useful(info, i);

		if (!letter)
			continue;
		text[n * CONDITION_LENGTH] = (char)('a' + 1 + info->aConstraint[i].iColumn); /* 'a': the rowid */
		text[n * CONDITION_LENGTH + 1] = letter;
		info->aConstraintUsage[i].argvIndex = ++n;
		if (letter == '=' && info->aConstraint[i].iColumn == -1)
			info->idxFlags |= SQLITE_INDEX_SCAN_UNIQUE;
	}
	text[n * CONDITION_LENGTH] = '\0';
	info->idxStr = sqlite3_mprintf("%s", text);
	info->needToFreeIdxStr = 1;
	if (!info->idxStr)
		return SQLITE_NOMEM;
	estimate(census->target.ledger, text, info);
	if (info->nOrderBy == 1 && !info->aOrderBy[0].desc && info->aOrderBy[0].iColumn <= END &&
	    !has_high_half(census->target.ledger))
		info->orderByConsumed = 1;
	return SQLITE_OK;
}

/* ---- the conditions of a scan ------------------------------------------------------ */

/* Narrows [low, stop) of the addresses where blocks may start, all below 2^63. */
static void narrow_addresses(int column, char comparison, uint64_t value, uint64_t *low, uint64_t *stop)
{
	bool of_end = column == END;
	bool below = comparison == '<' || comparison == 'l' || comparison == '=';
	bool above = comparison == '>' || comparison == 'g' || comparison == '=';

	/* A block with an end above `value` is that which holds it, or a later one. */
	if (above) {
		uint64_t from = of_end && comparison != '>' && value ? value - 1 : value;

		*low = from > *low ? from : *low;
	}
	if (below) {
		uint64_t to = !of_end && comparison != '<' ? value + 1 : value;

		*stop = to < *stop ? to : *stop;
	}
}

static void narrow_sizes(struct block_cursor *cursor, char comparison, int64_t value)
{
	uint64_t v = value < 0 ? 0 : (uint64_t)value;

	if (value < 0) {
		cursor->nothing |= comparison == '=' || comparison == '<' || comparison == 'l';
		return;
	}
	if ((comparison == '>' || comparison == 'g' || comparison == '=') && v > cursor->least)
		cursor->least = v;
	if ((comparison == '<' || comparison == 'l' || comparison == '=') && v < cursor->most)
		cursor->most = v;
}

static const char *name_of(const struct category *category, int column)
{
	switch (column) {
	case DOMAIN:
		return category->domain;
	case KIND:
		return category->kind;
	case DETAIL:
		return category->detail;
	default:
		return query_state_name(category->state);
	}
}

static bool name_fits(const char *name, char comparison, const char *pattern)
{
	switch (comparison) {
	case '=':
		return strcmp(name, pattern) == 0;
	case 'L':
		return sqlite3_strlike(pattern, name, 0) == 0;
	default:
		return sqlite3_strglob(pattern, name) == 0;
	}
}

/* Strikes out the categories that don't fit; false when memory is out. */
static bool narrow_categories(struct block_cursor *cursor, int column, char comparison, sqlite3_value *value)
{
	const struct ledger *ledger = cursor->census->target.ledger;
	const char *pattern = (const char *)sqlite3_value_text(value);

	if (!pattern)
		return false;
	if (strlen(pattern) != (size_t)sqlite3_value_bytes(value))
		return true; /* a NUL in it: SQLite may decide */
	if (!cursor->wanted) {
		cursor->wanted = malloc(ledger->categories.len);
		if (!cursor->wanted)
			return false;
		memset(cursor->wanted, 1, ledger->categories.len);
	}
	for (size_t i = 0; i < ledger->categories.len; i++)
		if (cursor->wanted[i])
			cursor->wanted[i] = name_fits(name_of(&ledger->categories.items[i], column), comparison,
						      pattern);
	return true;
}

static bool begin(void *pointer, struct fh_census *census, const char *plan, sqlite3_value **arguments, int n)
{
	struct block_cursor *cursor = pointer;
	uint64_t low = 0;

	cursor->census = census;
	cursor->stop = HIGH_HALF;
	cursor->most = UINT64_MAX;
	for (int i = 0; i < n && plan && plan[i * CONDITION_LENGTH]; i++) {
		int column = plan[i * CONDITION_LENGTH] - 'a' - 1, type = sqlite3_value_type(arguments[i]);
		char comparison = plan[i * CONDITION_LENGTH + 1];
		sqlite3_int64 value = sqlite3_value_int64(arguments[i]);

		if (is_name(column) && type == SQLITE_TEXT) {
			if (!narrow_categories(cursor, column, comparison, arguments[i]))
				return false;
		} else if (column == SIZE && type == SQLITE_INTEGER) {
			narrow_sizes(cursor, comparison, value);
		} else if (!is_name(column) && type == SQLITE_INTEGER && value >= 0) {
			narrow_addresses(column, comparison, (uint64_t)value, &low, &cursor->stop);
		}
	}
	cursor->at = ledger_cursor_at(census->target.ledger, low);
	return true;
}

static void end(void *pointer)
{
	struct block_cursor *cursor = pointer;

	free(cursor->wanted);
}

/* ---- rows ------------------------------------------------------------------------------ */

static const char *module_name(struct block_cursor *cursor, uint64_t address)
{
	if (!cursor->segment || address < cursor->segment->start || address >= cursor->segment->end) {
		cursor->segment = NULL;
		cursor->image = images_at(cursor->census->target.images, address, &cursor->segment);
	}
	return cursor->image ? cursor->image->name : NULL;
}

static const char *mapping_path(struct block_cursor *cursor, uint64_t address)
{
	if (!cursor->mapping || address < cursor->mapping->start || address >= cursor->mapping->end)
		cursor->mapping = source_mapping_at(cursor->census->target.source, address);
	return cursor->mapping ? cursor->mapping->path : NULL;
}

#define USED(column) (used >> (column) & 1)

#define VALUE_COLUMNS                                                                                       \
	(UINT64_C(1) << REFCOUNT | UINT64_C(1) << INTERPRETER | UINT64_C(1) << PACKAGE | UINT64_C(1) << FLAGS |       \
	 UINT64_C(1) << MAGIC)

static void fill_value(struct fh_census *census, const struct block *block, struct block_row *row)
{
	struct runtime_value value = { .refcount = -1, .interpreter = -1 };

	for (size_t i = 0; i < census->n_runtimes; i++) {
		const struct runtime *runtime = census->runtimes[i].plugin;

		if (runtime->value && runtime->value(&census->target, census->runtimes[i].state, block, &value))
			break;
	}
	row->refcount = value.refcount;
	row->interpreter = value.interpreter;
	row->package = value.package;
	row->flags = value.flags;
	row->magic = value.magic;
}

static void fill(struct block_cursor *cursor, const struct block *block, uint64_t used, struct block_row *row)
{
	const struct category *c = ledger_category_of(cursor->census->target.ledger, block->category);
	const struct source *source = cursor->census->target.source;

	*row = (struct block_row){
		.start = block->start, .end = block->end, .size = block->end - block->start, .head = c->head,
		.domain = c->domain, .kind = c->kind, .detail = c->detail, .state = query_state_name(c->state),
	};
	if (USED(RESIDENT))
		row->resident = ranges_count_next(&source->resident, &cursor->figures.resident, block->start,
						  block->end);
	if (USED(SWAPPED))
		row->swapped = ranges_count_next(&source->swapped, &cursor->figures.swapped, block->start,
						 block->end);
	if (USED(MAPPING))
		row->mapping = mapping_path(cursor, block->start);
	if (USED(MODULE))
		row->module = module_name(cursor, block->start);
	if (used & VALUE_COLUMNS)
		fill_value(cursor->census, block, row);
}

static bool next(void *pointer, uint64_t used, void *ret_row)
{
	struct block_cursor *cursor = pointer;
	const struct ledger *ledger = cursor->census->target.ledger;
	struct block block;

	while (!cursor->nothing && ledger_next(ledger, &cursor->at, &block)) {
		if (block.start >= cursor->stop && !cursor->high) {
			cursor->high = true;
			if (!has_high_half(ledger))
				return false;
			cursor->at = ledger_cursor_at(ledger, HIGH_HALF);
			continue;
		}
		if (cursor->wanted && !cursor->wanted[block.category])
			continue;
		if (block.end - block.start < cursor->least || block.end - block.start > cursor->most)
			continue;
		fill(cursor, &block, used, ret_row);
		return true;
	}
	return false;
}

static int64_t rowid(const void *row)
{
	return (int64_t)((const struct block_row *)row)->start;
}

static const struct query_stream stream = {
	.cursor_size = sizeof(struct block_cursor),
	.plan = plan,
	.begin = begin,
	.next = next,
	.end = end,
	.rowid = rowid,
};

const struct query_table query_block = {
	.name = "block", .title = "every block of the ledger; its rowid is its start",
	QUERY_COLUMNS(columns), .row_size = sizeof(struct block_row), .stream = &stream,
};
