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
static uint64_t log_tat_ns; /* when the budget is full again */
static unsigned int log_left_out;

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
	char text[2048];
	uint64_t now_ns;
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	plain(text);

	SCOPE_LOCK(&log_mutex);
	now_ns = clock_ns();
	if (log_tat_ns < now_ns)
		log_tat_ns = now_ns;
	if (log_tat_ns - now_ns > (LOG_BURST - 1) * interval_ns) {
		log_left_out++;
		return;
	}
	log_tat_ns += interval_ns;
	if (log_left_out > 0)
		fprintf(stderr, "sluiced: warning: %u lines left out, the log is bounded\n", log_left_out);
	log_left_out = 0;
	fprintf(stderr, "sluiced: %s: %s\n", level_names[level], text);
}
