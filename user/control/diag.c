// SPDX-License-Identifier: GPL-2.0-only
/* Messages for a person: collected, capped, in the order of the file. */
#include "user/control/diag.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define WARNINGS_MAX (8 * REPORT_MAX)

static void append(char ***list, size_t *count, const char *fmt, va_list args)
{
	char *text;

	if (vasprintf(&text, fmt, args) < 0)
		return;
	char **grown = reallocarray(*list, *count + 1, sizeof(**list));
	if (!grown) {
		free(text);
		return;
	}
	grown[(*count)++] = text;
	*list = grown;
}

void diag_error(struct diag *diag, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	append(&diag->errors, &diag->error_count, fmt, args);
	va_end(args);
}

void diag_warn(struct diag *diag, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	append(&diag->warnings, &diag->warning_count, fmt, args);
	va_end(args);
}

void diag_reset(struct diag *diag)
{
	for (size_t i = 0; i < diag->error_count; i++)
		free(diag->errors[i]);
	for (size_t i = 0; i < diag->warning_count; i++)
		free(diag->warnings[i]);
	free(diag->errors);
	free(diag->warnings);
	*diag = (struct diag){};
}

static void add(struct report *report, bool warning, unsigned line, unsigned column, const char *fmt, va_list args)
{
	size_t *kind = warning ? &report->warnings : &report->errors;

	if ((*kind)++ >= (warning ? WARNINGS_MAX : REPORT_MAX))
		return;
	struct report_item *grown = reallocarray(report->items, report->count + 1, sizeof(*grown));
	if (!grown) {
		report->oom = true;
		return;
	}
	report->items = grown;
	struct report_item *item = &grown[report->count];
	*item = (struct report_item){line, column, (unsigned)report->count, warning, NULL};
	if (vasprintf(&item->text, fmt, args) < 0) {
		report->oom = true;
		return;
	}
	report->count++;
}

void report_error(struct report *report, unsigned line, unsigned column, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	add(report, false, line, column, fmt, args);
	va_end(args);
}

void report_warn(struct report *report, unsigned line, unsigned column, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	add(report, true, line, column, fmt, args);
	va_end(args);
}

bool report_full(const struct report *report)
{
	return report->errors >= REPORT_MAX || report->oom;
}

static int by_place(const void *left, const void *right)
{
	const struct report_item *a = left, *b = right;

	if (a->line != b->line)
		return a->line < b->line ? -1 : 1;
	if (a->column != b->column)
		return a->column < b->column ? -1 : 1;
	return a->order < b->order ? -1 : 1;
}

void report_flush(struct report *report, struct diag *diag)
{
	if (report->count)
		qsort(report->items, report->count, sizeof(*report->items), by_place);
	for (size_t i = 0; i < report->count; i++) {
		const struct report_item *item = &report->items[i];
		char place[32] = "";

		/* A warning names the line only: it is about the key, not about a character. */
		if (item->line && item->warning)
			snprintf(place, sizeof(place), ":%u", item->line);
		else if (item->line)
			snprintf(place, sizeof(place), ":%u:%u", item->line, item->column);
		if (item->warning)
			diag_warn(diag, "%s%s: %s", report->file, place, item->text);
		else
			diag_error(diag, "%s%s: %s", report->file, place, item->text);
		free(item->text);
	}
	if (report->errors > REPORT_MAX)
		diag_error(diag, "%s: %zu further errors not shown", report->file, report->errors - REPORT_MAX);
	if (report->warnings > WARNINGS_MAX)
		diag_warn(diag, "%s: %zu further warnings not shown", report->file, report->warnings - WARNINGS_MAX);
	if (report->oom)
		diag_error(diag, "%s: out of memory", report->file);
	free(report->items);
	*report = (struct report){.file = report->file};
}
