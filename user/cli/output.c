// SPDX-License-Identifier: GPL-2.0-only
/* output.c: what renderers share. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "user/cli/fault.h"
#include "user/cli/output.h"

/* --- tables -------------------------------------------------------------------------------------------------- */

void table_begin(struct table *table, const char *const *titles)
{
	*table = (struct table){0};
	while (titles[table->columns] && table->columns < COLUMNS_MAX) {
		table->titles[table->columns] = titles[table->columns];
		table->columns++;
	}
	table_row(table);
	for (size_t i = 0; i < table->columns; i++)
		table_cell(table, i, "%s", table->titles[i] + (table->titles[i][0] == '>'));
}

void table_row(struct table *table)
{
	char(*grown)[COLUMNS_MAX][CELL] = realloc(table->cells, (table->rows + 1) * sizeof(*grown));

	if (!grown) {
		fputs("sluicectl: out of memory\n", stderr);
		exit(STATUS_REFUSED);
	}
	table->cells = grown;
	memset(table->cells[table->rows++], 0, sizeof(*grown));
}

/* Bytes that begin a character: what a terminal shows of a cell. */
static size_t width_of(const char *text)
{
	size_t width = 0;

	for (; *text; text++)
		width += (*text & 0xc0) != 0x80;
	return width;
}

void table_cell(struct table *table, size_t column, const char *fmt, ...)
{
	char text[1024], *cell = table->cells[table->rows - 1][column];
	FILE *out = fmemopen(cell, CELL, "w");
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (!out)
		return;
	print_safe(out, text, CELL - 24);
	fclose(out);
}

static void print_row(const struct table *table, size_t row, const size_t *widths, int indent)
{
	char line[COLUMNS_MAX * (CELL + 2) + 1];
	size_t used = 0;

	for (size_t i = 0; i < table->columns; i++) {
		const char *cell = table->cells[row][i];
		int pad = (int)(widths[i] - width_of(cell));

		if (!widths[i])
			continue;
		used += snprintf(line + used, sizeof(line) - used, "%s%*s%s%*s", used ? "  " : "",
				 table->titles[i][0] == '>' ? pad : 0, "", cell, table->titles[i][0] == '>' ? 0 : pad,
				 "");
	}
	while (used && line[used - 1] == ' ')
		line[--used] = '\0';
	printf("%*s%s\n", indent, "", line);
}

void table_end(struct table *table, int indent)
{
	size_t widths[COLUMNS_MAX] = {0};

	for (size_t i = 0; i < table->columns; i++) {
		for (size_t row = 1; row < table->rows; row++) {
			size_t width = width_of(table->cells[row][i]);

			if (width > widths[i])
				widths[i] = width;
		}
		if (widths[i] && width_of(table->cells[0][i]) > widths[i])
			widths[i] = width_of(table->cells[0][i]);
	}
	for (size_t row = 0; table->rows > 1 && row < table->rows; row++)
		print_row(table, row, widths, indent);
	free(table->cells);
	table->cells = NULL;
}

/* --- members ------------------------------------------------------------------------------------------------- */

const char *text_at(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

double number_at(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

bool true_at(const json_t *object, const char *key)
{
	return json_is_true(json_object_get(object, key));
}

bool has_number(const json_t *object, const char *key)
{
	return json_is_number(json_object_get(object, key));
}

/* --- figures ------------------------------------------------------------------------------------------------- */

const char *count_text(double count, char buf[FIGURE])
{
	static const char units[] = "kMGTP";
	size_t unit = 0;

	if (count < 100000) {
		snprintf(buf, FIGURE, "%.0f", count);
		return buf;
	}
	for (count /= 1000; count >= 999.5 && units[unit + 1]; unit++)
		count /= 1000;
	snprintf(buf, FIGURE, "%.*f%c", count < 9.995 ? 2 : count < 99.95 ? 1 : 0, count, units[unit]);
	return buf;
}

const char *count_at(const json_t *object, const char *key, char buf[FIGURE])
{
	return count_text(number_at(object, key), buf);
}

const char *seconds_text(double seconds, char buf[FIGURE])
{
	long s = lround(seconds);

	if (s < 60)
		snprintf(buf, FIGURE, "%lds", s);
	else if (s < 3600)
		snprintf(buf, FIGURE, "%ldm %02lds", s / 60, s % 60);
	else if (s < 86400)
		snprintf(buf, FIGURE, "%ldh %02ldm", s / 3600, s / 60 % 60);
	else
		snprintf(buf, FIGURE, "%ldd %02ldh", s / 86400, s / 3600 % 24);
	return buf;
}

const char *milliseconds_text(const json_t *value, char buf[FIGURE])
{
	double ms = json_number_value(value);

	if (!json_is_number(value))
		snprintf(buf, FIGURE, "-");
	else if (ms < 0.1 && ms > 0)
		snprintf(buf, FIGURE, "%.3f ms", ms);
	else if (ms < 10 && ms > 0)
		snprintf(buf, FIGURE, "%.1f ms", ms);
	else if (ms < 1000)
		snprintf(buf, FIGURE, "%.0f ms", ms);
	else
		snprintf(buf, FIGURE, "%.1f s", ms / 1000);
	return buf;
}

const char *percent_text(double part, double whole, char buf[FIGURE])
{
	double percent = whole > 0 ? 100 * part / whole : 0;

	snprintf(buf, FIGURE, "%.*f %%", percent > 0 && percent < 10 ? 1 : 0, percent);
	return buf;
}

/* --- color --------------------------------------------------------------------------------------------------- */

bool wants_color(const struct invocation *inv)
{
	const char *when = inv->values[OPT_color];

	if (when && strcmp(when, "auto"))
		return !strcmp(when, "always");
	return isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
}

void print_painted(const struct invocation *inv, enum paint paint, const char *text)
{
	static const char *const codes[] = {"", "\033[31m", "\033[33m", "\033[32m", "\033[1m"};

	if (paint && wants_color(inv))
		printf("%s%s\033[0m", codes[paint], text);
	else
		fputs(text, stdout);
}
