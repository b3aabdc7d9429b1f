// SPDX-License-Identifier: GPL-2.0-only
/* nearest.c: Levenshtein's distance, one row at a time. */
#include "user/control/nearest.h"

#include <string.h>

unsigned text_distance(const char *a, const char *b)
{
	unsigned row[32], n = (unsigned)strnlen(b, 31), m = (unsigned)strnlen(a, 31);

	for (unsigned j = 0; j <= n; j++)
		row[j] = j;
	for (unsigned i = 1; i <= m; i++) {
		unsigned diagonal = row[0];

		row[0] = i;
		for (unsigned j = 1; j <= n; j++) {
			unsigned cost = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			cost = diagonal + 1 < cost ? diagonal + 1 : cost;
			row[j] = row[j - 1] + 1 < cost ? row[j - 1] + 1 : cost;
		}
	}
	return row[n];
}
