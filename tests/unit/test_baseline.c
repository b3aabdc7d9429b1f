// SPDX-License-Identifier: GPL-2.0-only
/* test_baseline: what is learned from a healthy service, and that nothing is from one that is not. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/dice.h"
#include "user/decide/baseline.h"

#define MS 1000000ULL
#define S 1000000000ULL

static struct service {
	struct baseline baseline;
	struct baseline_watch watch;
	uint64_t now_ns, answered, connected, held;
	unsigned int answers_each; /* per connection; 0: connections are older than all this */
	struct tally tally;
	bool disturbed;
	struct slc_dist kernel;
	struct dist_window *window; /* 10 s */
} service;

static void start(void)
{
	dist_window_free(&service.window);
	memset(&service, 0, sizeof(service));
	service.now_ns = 100 * S + dice(S);
	service.window = dist_window_new(1 * S, 10);
	dist_window_take(service.window, &service.kernel, service.now_ns);
}

static void tick(unsigned int answers, uint64_t ns)
{
	struct dist_counts latency;

	service.now_ns += 100 * MS;
	for (unsigned int i = 0; i < answers; i++) {
		uint64_t took = ns / 2 + dice(ns);

		service.kernel.bin[dist_bin(took)]++;
		service.kernel.sum_ns += took;
	}
	service.answered += answers;
	service.connected += service.answers_each ? answers / service.answers_each : 0;
	dist_window_take(service.window, &service.kernel, service.now_ns);
	dist_window_sum(service.window, service.now_ns, &latency);
	struct baseline_input input = {
		.now_ns = service.now_ns,
		.disturbed = service.disturbed,
		.tally = &service.tally,
		.failure_rate = 5000,
		.answered = service.answered,
		.connected = service.connected,
		.held = service.held,
		.latency = &latency,
	};
	baseline_tick(&service.baseline, &service.watch, &input);
}

static void run(unsigned int seconds, unsigned int rate, uint64_t ns)
{
	for (unsigned int i = 0; i < seconds * 10; i++)
		tick(rate / 10, ns);
}

static void assert_near(double got, double want, double part)
{
	if (fabs(got - want) > part * want)
		fail_msg("%.4g is not %.4g", got, want);
}

static void a_healthy_service(void **state)
{
	const struct baseline *b = &service.baseline;

	(void)state;
	start();
	run(9, 200, 100 * MS);
	assert_int_equal(b->windows, 0);
	assert_false(b->has_rate);
	run(2, 200, 100 * MS);
	assert_int_equal(b->windows, 1); /* the first is in force at once */
	assert_near(b->p95_ns, 145 * MS, .03); /* uniform in 50 to 150 ms */
	assert_near(b->mean_ns, 100 * MS, .02);
	assert_true(b->has_p99);
	assert_near(b->p99_ns, 149 * MS, .03);
	assert_near(b->rate, 200, .01);
	run(600, 200, 100 * MS);
	assert_int_equal(b->windows, 60); /* of 61, the newest is not in force yet */
	assert_near(b->p95_ns, 145 * MS, .02);
}

/* Half of a lasting change in 22 stretches; the healthy rate and P99 are those of the last one in force. */
static void slow_to_learn(void **state)
{
	const struct baseline *b = &service.baseline;

	(void)state;
	start();
	run(400, 200, 40 * MS);
	run(230, 100, 80 * MS);
	assert_near(b->mean_ns, 60 * MS, .04);
	assert_near(b->p95_ns, 87 * MS, .05);
	assert_near(b->p99_ns, 119 * MS, .03);
	assert_near(b->rate, 100, .01);
}

/* Kept alive: connections are learned apart from answers, and where none is new what is known stays. */
static void connections_are_no_answers(void **state)
{
	const struct baseline *b = &service.baseline;

	(void)state;
	start();
	tick(20, 40 * MS); /* begins the first stretch: those below are whole ones */
	run(20, 200, 40 * MS);
	assert_near(b->rate, 200, .01);
	assert_false(b->has_connections);
	service.answers_each = 10;
	run(40, 200, 40 * MS);
	assert_true(b->has_connections);
	assert_near(b->connections, 20, .01);
	assert_near(b->rate, 200, .01);
	service.answers_each = 0;
	run(60, 100, 40 * MS);
	assert_near(b->connections, 20, .01);
	assert_near(b->rate, 100, .01);
	/* A counter that fell is of another life. */
	service.answers_each = 5;
	run(8, 100, 40 * MS);
	service.connected = 0;
	run(9, 100, 40 * MS);
	assert_near(b->connections, 20, .01);
}

/* A pool that was opened long ago comes back as a whole after an outage, with hardly a new connection before it. */
static void connections_kept_in_pools(void **state)
{
	const struct baseline *b = &service.baseline;

	(void)state;
	start();
	service.held = 1000;
	run(21, 500, 20 * MS);
	assert_true(b->has_connections);
	assert_near(b->connections, 100, .01);
	service.held = 10;
	service.answers_each = 1;
	run(40, 500, 20 * MS);
	assert_near(b->connections, 500, .01);
}

/* Those without an answer yet, as of a service whose turns are not seen, are learned too; the first at once. */
static void connections_alone(void **state)
{
	const struct baseline *b = &service.baseline;

	(void)state;
	start();
	for (int i = 0; i < 110; i++) {
		service.connected += 5;
		tick(0, 1);
	}
	assert_true(b->has_connections);
	assert_near(b->connections, 50, .02);
	assert_false(b->has_rate || b->windows);
	/* Busier and busier, and then ill: the last stretch is not in force. */
	for (int i = 0; i < 110; i++) {
		service.connected += 50;
		tick(0, 1);
	}
	service.disturbed = true;
	tick(0, 1);
	assert_near(b->connections, 50, .02);
}

static void disturbed(void)
{
	service.disturbed = true;
}

static void failing(void)
{
	service.tally = (struct tally){.outcomes = 100, .failures = 25, .has_rate = true, .failure_rate = .25};
}

static void nothing_is_learned_while_it_is_not_well(void **state)
{
	static void (*const faults[])(void) = {disturbed, failing};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct baseline before;

		start();
		run(100, 200, 50 * MS);
		before = service.baseline;
		faults[i]();
		run(300, 50, 900 * MS);
		assert_memory_equal(&service.baseline, &before, sizeof(before));
		service.disturbed = false;
		service.tally = (struct tally){.outcomes = 100, .failures = 24, .has_rate = true, .failure_rate = .24};
		run(19, 200, 50 * MS);
		assert_memory_equal(&service.baseline, &before, sizeof(before));
		run(2, 200, 50 * MS);
		assert_int_equal(service.baseline.windows, before.windows + 1);
		assert_near(service.baseline.p95_ns, before.p95_ns, .02); /* nothing of the bad time is in the window */
	}
}

static void a_start_inside_a_storm_learns_nothing(void **state)
{
	(void)state;
	start();
	service.disturbed = true;
	run(300, 200, 900 * MS);
	assert_int_equal(service.baseline.windows, 0);
	assert_false(service.baseline.has_rate || service.baseline.has_p99 || service.baseline.has_mean);
}

/* One refusal in nine seconds is enough. */
static void one_disturbed_tick_in_each_stretch(void **state)
{
	(void)state;
	start();
	for (int i = 0; i < 20; i++) {
		run(9, 200, 50 * MS);
		service.disturbed = true;
		tick(20, 50 * MS);
		service.disturbed = false;
	}
	assert_int_equal(service.baseline.windows, 0);
	assert_false(service.baseline.has_rate);
}

static void few_answers(void **state)
{
	struct baseline before;

	(void)state;
	start();
	for (int i = 0; i < 1000; i++)
		tick(i % 10 == 0, 50 * MS); /* ten in each stretch */
	assert_int_equal(service.baseline.windows, 0);
	assert_false(service.baseline.has_p99);
	assert_true(service.baseline.has_rate);
	assert_near(service.baseline.rate, 1, .1);
	for (int i = 0; i < 300; i++)
		tick(i % 3 == 0, 50 * MS);
	assert_int_equal(service.baseline.windows, 0);
	assert_true(service.baseline.has_p99);
	run(20, 0, 0);
	before = service.baseline; /* what was late is in force */
	run(100, 0, 0); /* at rest it forgets nothing */
	assert_memory_equal(&service.baseline, &before, sizeof(before));
}

static void a_gap_starts_over(void **state)
{
	(void)state;
	start();
	run(8, 200, 50 * MS);
	service.now_ns += 30 * S;
	run(8, 200, 50 * MS);
	assert_false(service.baseline.has_rate);
	assert_int_equal(service.baseline.windows, 0);
	service.answered = 0; /* another life */
	run(8, 200, 50 * MS);
	assert_int_equal(service.baseline.windows, 0);
	service.now_ns -= 50 * S;
	run(8, 200, 50 * MS);
	assert_false(service.baseline.has_rate);
	assert_int_equal(service.baseline.windows, 0);
	run(3, 200, 50 * MS);
	assert_int_equal(service.baseline.windows, 1);
}

/* It answers less and less, and slower, and nobody has noticed: up to a stretch of that is not learned. */
static void the_seconds_before_an_outage_are_not_learned(void **state)
{
	const struct baseline *b = &service.baseline;

	(void)state;
	for (unsigned int seconds = 1; seconds <= 9; seconds += 2) {
		struct baseline before;

		start();
		run(300, 200, 40 * MS);
		before = *b;
		run(seconds, 50, 900 * MS);
		service.disturbed = true;
		run(1, 50, 900 * MS);
		assert_near(b->rate, before.rate, .02);
		assert_near(b->p99_ns, before.p99_ns, .05);
		assert_near(b->p95_ns, before.p95_ns, .05);
		service.disturbed = false;
		run(12, 100, 60 * MS); /* a stretch is forgotten where none followed */
		assert_near(b->rate, 200, .02);
		run(10, 100, 60 * MS);
		assert_near(b->rate, 100, .02);
		assert_near(b->p99_ns, 89 * MS, .03);
	}
}

/* Kept over a restart: a P95, with the weight of a long memory, but no mean. */
static void a_restart(void **state)
{
	(void)state;
	start();
	service.baseline = (struct baseline){.windows = BASELINE_MEMORY,
					     .p95_ns = 100 * MS,
					     .has_rate = true,
					     .rate = 70,
					     .has_p99 = true,
					     .p99_ns = 1 * S};
	run(11, 200, 20 * MS);
	assert_int_equal(service.baseline.p95_ns, 100 * MS);
	assert_false(service.baseline.has_mean);
	run(10, 200, 20 * MS);
	assert_near(service.baseline.p95_ns, (31 * 100 + 29) * MS / 32, .01);
	assert_true(service.baseline.has_mean);
	assert_near(service.baseline.mean_ns, 20 * MS, .03);
	assert_near(service.baseline.rate, 200, .01);
	assert_near(service.baseline.p99_ns, 30 * MS, .04);
}

static int finish(void **state)
{
	(void)state;
	dist_window_free(&service.window);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_healthy_service),
		cmocka_unit_test(slow_to_learn),
		cmocka_unit_test(connections_are_no_answers),
		cmocka_unit_test(connections_kept_in_pools),
		cmocka_unit_test(connections_alone),
		cmocka_unit_test(nothing_is_learned_while_it_is_not_well),
		cmocka_unit_test(a_start_inside_a_storm_learns_nothing),
		cmocka_unit_test(one_disturbed_tick_in_each_stretch),
		cmocka_unit_test(few_answers),
		cmocka_unit_test(a_gap_starts_over),
		cmocka_unit_test(the_seconds_before_an_outage_are_not_learned),
		cmocka_unit_test(a_restart),
	};

	return cmocka_run_group_tests(tests, NULL, finish);
}
