/* SPDX-License-Identifier: GPL-2.0-only */
/* output.h: aligned tables, figures with units, and JSON members that may be missing. */
#ifndef SLUICE_CLI_OUTPUT_H
#define SLUICE_CLI_OUTPUT_H

#include <jansson.h>
#include <stddef.h>

#include "user/cli/command.h"

#define COLUMNS_MAX 12
#define CELL 80

struct table {
	const char *titles[COLUMNS_MAX]; /* a leading '>' aligns to the right */
	size_t columns;
	char (*cells)[COLUMNS_MAX][CELL];
	size_t rows;
};
/* `titles` ends with NULL. A column without a single filled cell is not printed. */
void table_begin(struct table *table, const char *const *titles);
void table_row(struct table *table);
void table_cell(struct table *table, size_t column, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void table_end(struct table *table, int indent); /* prints and frees */

/* Members; missing or of another type: "" or 0. */
const char *text_at(const json_t *object, const char *key);
double number_at(const json_t *object, const char *key);
bool true_at(const json_t *object, const char *key);
bool has_number(const json_t *object, const char *key);

/* Each writes into `buf` and returns it. */
#define FIGURE 64
const char *count_text(double count, char buf[FIGURE]); /* 12345, 123k, 1.23M */
const char *count_at(const json_t *object, const char *key, char buf[FIGURE]);
const char *seconds_text(double seconds, char buf[FIGURE]); /* 45s, 3h 12m, 2d 4h */
const char *milliseconds_text(const json_t *value, char buf[FIGURE]); /* 14 ms, 2.3 s, - */
const char *percent_text(double part, double whole, char buf[FIGURE]); /* 12 %, 0.3 % */

enum paint { PAINT_NONE, PAINT_RED, PAINT_YELLOW, PAINT_GREEN, PAINT_BOLD };
bool wants_color(const struct invocation *inv);
void print_painted(const struct invocation *inv, enum paint paint, const char *text);

#endif /* SLUICE_CLI_OUTPUT_H */
