// SPDX-License-Identifier: GPL-2.0-only
/* test_rest: which ticks of a service that nobody asks may be left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "user/decide/baseline.h"
#include "user/decide/rest.h"

#define MS 1000000ULL
#define S 1000000000ULL
#define TICK (100 * MS)

/* Ticks that are judged of `ticks`, from a service at rest or not. */
static unsigned int judged(struct rest *rest, uint64_t *now_ns, unsigned int ticks)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < ticks; i++) {
		*now_ns += TICK;
		count += !rest_tick(rest, rest->moved, true, i, *now_ns);
	}
	return count;
}

static void rests_after_its_windows_are_empty(void **state)
{
	struct rest rest = {0};
	uint64_t now_ns = 500 * S;

	(void)state;
	assert_false(rest_tick(&rest, 7, true, 1, now_ns)); /* as of a start, however long the clock runs */
	assert_int_equal(judged(&rest, &now_ns, 119), 119);
	assert_int_equal(judged(&rest, &now_ns, 1000), 200);
	/* Also at rest it is judged often enough for what it was like when healthy to be learned on. */
	assert_true(REST_TICKS * TICK < BASELINE_GAP_NS);
	assert_true(REST_AFTER_NS > BASELINE_WINDOW_NS);
}

static void whatever_moves_is_judged_at_once(void **state)
{
	(void)state;
	for (uint64_t turn = 0; turn < REST_TICKS; turn++) {
		struct rest rest = {0};
		uint64_t now_ns = 500 * S;

		rest_tick(&rest, 7, true, 0, now_ns);
		judged(&rest, &now_ns, 300);
		assert_false(rest_tick(&rest, 8, true, turn, now_ns += TICK)); /* counted */
		assert_int_equal(judged(&rest, &now_ns, 119), 119);
		judged(&rest, &now_ns, 300);
		assert_false(rest_tick(&rest, 8, false, turn, now_ns += TICK)); /* an order, a queue, an open breaker */
		assert_int_equal(judged(&rest, &now_ns, 119), 119);
		judged(&rest, &now_ns, 300);
		assert_false(rest_tick(&rest, 0, true, turn, now_ns += TICK)); /* counters of another life */
		judged(&rest, &now_ns, 300);
		assert_false(rest_tick(&rest, 0, true, turn, now_ns - 100 * S)); /* a clock that went back */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rests_after_its_windows_are_empty),
		cmocka_unit_test(whatever_moves_is_judged_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
