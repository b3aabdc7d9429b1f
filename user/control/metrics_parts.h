/* SPDX-License-Identifier: GPL-2.0-only */
/* metrics_parts.h: what the files about metrics share: metrics.c (the page, counters, the host), metrics_signals.c. */
#ifndef SLUICE_METRICS_PARTS_H
#define SLUICE_METRICS_PARTS_H

#include "user/control/metrics.h"

/* One read of each service's counters, so that all families of a page agree. */
struct page {
	struct daemon *d;
	FILE *out;
	uint64_t now_ns;
	struct slc_counters *counters;
	struct slc_counters host; /* slot 0: packets of no service */
};

void metrics_family(FILE *out, const char *name, const char *type, const char *help);
/* name{label="value",...} : pairs of label and value, ended by NULL */
void metrics_series(FILE *out, const char *name, const char *const labels[][2]);
void metrics_count(FILE *out, const char *name, const char *const labels[][2], uint64_t value);
void metrics_ratio(FILE *out, const char *name, const char *const labels[][2], double value);
void metrics_seconds(FILE *out, const char *name, const char *const labels[][2], uint64_t ns);

#define LABELS(...)                \
	(const char *const[][2])   \
	{                          \
		__VA_ARGS__,       \
		{                  \
			NULL, NULL \
		}                  \
	}

/* metrics_signals.c: outcomes, times, breakers, health. */
void metrics_put_signals(const struct page *page);

#endif /* SLUICE_METRICS_PARTS_H */
