// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/log.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "user/control/clock.h"
#include "user/control/scope.h"

static const char *const level_names[] = {
	[LOG_LEVEL_error] = "error",
	[LOG_LEVEL_warning] = "warning",
	[LOG_LEVEL_info] = "info",
};

static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct budget {
	uint64_t tat_ns; /* when it is full again */
	unsigned int left_out;
} log_budgets[2]; /* errors have their own: chatter must not use it up */

/* What came from outside must not look like a line of ours. */
static void plain(char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = ' ';
	}
}

void log_line(enum log_level level, const char *fmt, ...)
{
	const uint64_t interval_ns = NS_PER_S / LOG_PER_S;
	struct budget *budget = &log_budgets[level == LOG_LEVEL_error];
	char text[2048];
	uint64_t now_ns;
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	plain(text);

	SCOPE_LOCK(&log_mutex);
	now_ns = clock_ns();
	if (budget->tat_ns < now_ns)
		budget->tat_ns = now_ns;
	if (budget->tat_ns - now_ns > (LOG_BURST - 1) * interval_ns) {
		budget->left_out++;
		return;
	}
	budget->tat_ns += interval_ns;
	if (budget->left_out > 0)
		fprintf(stderr, "sluiced: warning: %u lines left out, the log is bounded\n", budget->left_out);
	budget->left_out = 0;
	fprintf(stderr, "sluiced: %s: %s\n", level_names[level], text);
}
