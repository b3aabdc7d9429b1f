/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * diag.h: messages about one file, collected with their places and handed over in the order of the file.
 */
#ifndef SLUICE_DIAG_H
#define SLUICE_DIAG_H

#include "user/control/config.h"

#define REPORT_MAX 20 /* errors, and as many warnings again x 8: more help nobody */

struct report_item {
	unsigned line, column;
	unsigned order;
	bool warning;
	char *text;
};

struct report {
	const char *file;
	struct report_item *items;
	size_t count;
	size_t errors, warnings;
	bool oom;
};

/* line 0: about the file as a whole. */
void report_error(struct report *report, unsigned line, unsigned column, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void report_warn(struct report *report, unsigned line, unsigned column, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* No further error would be shown: callers may stop looking. */
bool report_full(const struct report *report);
/* Moves everything to `diag` and empties the report. */
void report_flush(struct report *report, struct diag *diag);

#endif /* SLUICE_DIAG_H */
