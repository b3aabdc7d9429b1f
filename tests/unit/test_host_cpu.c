// SPDX-License-Identifier: GPL-2.0-only
/* test_host_cpu: what /proc/stat says of the CPU, and that it is smoothed. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "user/control/clock.h"
#include "user/control/host_cpu.h"

static void lines_of_the_kernel(void **state)
{
	static const struct {
		const char *text;
		int err;
		uint64_t spent, all;
	} rows[] = {
		{"cpu  100 20 30 1000 50 6 7 8 90 1\ncpu0 1 2 3 4 5 6 7 8 9 10\n", 0, 171,
		 1221}, /* guests are in user */
		{"cpu  0 0 0 0 0 0 0 0 0 0\n", 0, 0, 0},
		{"cpu  1 2 3 4\n", 0, 6, 10}, /* of old kernels */
		{"cpu  18446744073709 0 0 5\n", 0, 18446744073709, 18446744073714},
		{"cpu  1 2 3", -EBADMSG, 0, 0},
		{"cpu0 1 2 3 4 5 6 7 8\n", -EBADMSG, 0, 0},
		{"intr 1 2 3 4 5\n", -EBADMSG, 0, 0},
		{"cpu  -1 2 3 4 5\n", -EBADMSG, 0, 0},
		{"cpu ", -EBADMSG, 0, 0},
		{"", -EBADMSG, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct cpu_ticks ticks = {0};

		assert_int_equal(cpu_ticks_parse(rows[i].text, &ticks), rows[i].err);
		assert_int_equal(ticks.spent, rows[i].spent);
		assert_int_equal(ticks.all, rows[i].all);
	}
}

static void take(struct host_cpu *cpu, uint64_t spent, uint64_t idle, uint64_t ms)
{
	struct cpu_ticks ticks = {.spent = cpu->ticks.spent + spent, .all = cpu->ticks.all + spent + idle};

	host_cpu_take(cpu, &ticks, cpu->at_ns + ms * NS_PER_MS);
}

static void near(double got, double want)
{
	if (fabs(got - want) > .01)
		fail_msg("%f is not %f", got, want);
}

static void the_share_is_smoothed(void **state)
{
	struct host_cpu cpu = {0};

	(void)state;
	take(&cpu, 5000, 5000, 100000);
	assert_false(cpu.has); /* one reading is since the boot */
	take(&cpu, 10, 30, 200);
	assert_true(cpu.has);
	near(cpu.share, .25);
	take(&cpu, 100, 0, 500); /* 1 - 1/e of the way within 500 ms */
	near(cpu.share, .25 + .75 * .632);
	for (int i = 0; i < 20; i++)
		take(&cpu, 40, 0, 200);
	near(cpu.share, 1);
	for (int i = 0; i < 20; i++)
		take(&cpu, 0, 40, 200);
	near(cpu.share, 0);
}

static void what_makes_no_share(void **state)
{
	struct host_cpu cpu = {0};

	(void)state;
	take(&cpu, 100, 100, 1000);
	take(&cpu, 0, 0, 1); /* no tick of the clock yet */
	assert_false(cpu.has);
	take(&cpu, 30, 10, 200);
	near(cpu.share, .75);
	take(&cpu, 0, 1000, 6000); /* a pause: begun again */
	assert_false(cpu.has);
	take(&cpu, 10, 30, 200);
	near(cpu.share, .25);
	host_cpu_take(&cpu, &(struct cpu_ticks){.spent = 1, .all = 2}, cpu.at_ns + 200 * NS_PER_MS);
	assert_false(cpu.has);
	assert_true(cpu.primed);
}

/* A loop of a second on this CPU is seen on the real host. */
static void the_real_file(void **state)
{
	struct host_cpu cpu = {0};
	uint64_t end_ns = clock_ns() + NS_PER_S;

	(void)state;
	while (clock_ns() < end_ns)
		host_cpu_look(&cpu, clock_ns());
	assert_true(cpu.has);
	assert_true(cpu.share > 0 && cpu.share <= 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_of_the_kernel),
		cmocka_unit_test(the_share_is_smoothed),
		cmocka_unit_test(what_makes_no_share),
		cmocka_unit_test(the_real_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
