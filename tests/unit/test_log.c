// SPDX-License-Identifier: GPL-2.0-only
/* test_log: a storm of lines is bounded, errors keep their own room, and foreign text stays one line. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "user/control/log.h"

/* stderr goes to a file while `write` runs; its text is returned. */
static char *captured(void (*write)(void))
{
	FILE *file = tmpfile();
	int before = dup(STDERR_FILENO);
	char *text;
	long len;

	fflush(stderr);
	dup2(fileno(file), STDERR_FILENO);
	write();
	fflush(stderr);
	dup2(before, STDERR_FILENO);
	close(before);
	len = lseek(fileno(file), 0, SEEK_END);
	text = calloc(1, (size_t)len + 1);
	assert_int_equal(pread(fileno(file), text, (size_t)len, 0), len);
	fclose(file);
	return text;
}

static size_t count(const char *text, const char *part)
{
	size_t n = 0;

	for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
		n++;
	return n;
}

static void storm(void)
{
	for (int i = 0; i < 1000; i++)
		log_info("chatter %d", i);
	for (int i = 0; i < 5; i++)
		log_error("line one\nline\ttwo \x1b[31m %d", i);
}

static void storms_are_bounded(void **state)
{
	char *text = captured(storm);

	(void)state;
	/* A line more for each 200 ms that the storm took. */
	assert_in_range(count(text, "sluiced: info: chatter"), LOG_BURST, LOG_BURST + 10);
	assert_non_null(strstr(text, "sluiced: info: chatter 0\n"));
	assert_int_equal(count(text, "sluiced: error: line one line two  [31m "), 5);
	assert_int_equal(count(text, "\x1b"), 0);
	free(text);
}

static void once(void)
{
	log_warning("back again");
}

static void what_was_left_out_is_counted(void **state)
{
	char *text;

	(void)state;
	usleep(250000);
	text = captured(once);
	assert_non_null(strstr(text, "lines left out"));
	assert_non_null(strstr(text, "sluiced: warning: back again\n"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(storms_are_bounded),
		cmocka_unit_test(what_was_left_out_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
