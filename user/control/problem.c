// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/problem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

/* Cut at a whole character: half of one would make the answer unreadable. */
static void put(char *to, size_t len, const char *text)
{
	size_t n = len - 1;

	if (!text || (size_t)snprintf(to, len, "%s", text) < len)
		return;
	while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
		n--;
	to[n] = '\0';
}

static void say(struct problem *problem, int status, const char *fmt, va_list args)
{
	char message[2048];

	vsnprintf(message, sizeof(message), fmt, args);
	*problem = (struct problem){.status = status};
	put(problem->message, sizeof(problem->message), message);
}

int problem_say(struct problem *problem, int status, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	say(problem, status, fmt, args);
	va_end(args);
	return -EINVAL;
}

int problem_value(struct problem *problem, int status, const char *key, const char *value, const char *accepted,
		  const char *hint, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	say(problem, status, fmt, args);
	va_end(args);
	put(problem->key, sizeof(problem->key), key);
	put(problem->value, sizeof(problem->value), value);
	put(problem->accepted, sizeof(problem->accepted), accepted);
	put(problem->hint, sizeof(problem->hint), hint);
	return -EINVAL;
}
