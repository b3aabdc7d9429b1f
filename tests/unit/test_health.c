// SPDX-License-Identifier: GPL-2.0-only
/* test_health: the four terms of a service's health by hand and as properties, and who waits for whom. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/dice.h"
#include "user/decide/health.h"

#define MS 1000000ULL

static const struct breaker_config CONFIG = {
	.err_ref = 3000,
	.base_ns = 100 * MS,
	.lat_ref_ns = 400 * MS,
	.health_weights = {400, 300, 200, 100},
	.health_gate = 8500,
};

/* A hundred outcomes of which `failures` failed. */
static struct tally tally_of(unsigned int failures)
{
	return (struct tally){
		.outcomes = 100,
		.failures = failures,
		.has_rate = true,
		.failure_rate = failures / 100.,
	};
}

static void assert_close(double a, double b)
{
	if (!(fabs(a - b) < 1e-9))
		fail_msg("%.12g is not %.12g", a, b);
}

static void health_by_hand(void **state)
{
	static const struct {
		unsigned int failures;
		uint64_t p95_ns; /* 0: none */
		double queue, cpu; /* below 0: not known */
		double percent;
	} rows[] = {
		{0, 0, -1, -1, 100}, /* nothing is held against it that is not seen */
		{0, 100 * MS, 0, 0, 100}, {0, 50 * MS, 0, 0, 100}, /* faster than ever */
		{15, 100 * MS, 0, 0, 80}, /* half of err_ref: 0.4 x 0.5 */
		{30, 100 * MS, 0, 0, 60}, {100, 100 * MS, 0, 0, 60}, /* a term is at most 1 */
		{0, 200 * MS, 0, 0, 85}, /* one of two octaves: 0.3 x 0.5 */
		{0, 400 * MS, 0, 0, 70},  {0, 9000 * MS, 0, 0, 70},   {0, 100 * MS, .5, 0, 90}, {0, 100 * MS, 7, 0, 80},
		{0, 100 * MS, 0, .5, 95}, {15, 200 * MS, .5, .5, 50}, {100, 900 * MS, 1, 1, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct health_input input = {
			.tally = tally_of(rows[i].failures),
			.has_p95 = rows[i].p95_ns > 0,
			.p95_ns = rows[i].p95_ns,
			.has_queue = rows[i].queue >= 0,
			.queue_fill = rows[i].queue,
			.has_cpu = rows[i].cpu >= 0,
			.cpu = rows[i].cpu,
		};
		struct health health;

		health_of(&CONFIG, &input, &health);
		assert_true(health.known);
		assert_close(health.percent, rows[i].percent);
	}
}

static void base_is_learned_and_at_most_half_of_lat_ref(void **state)
{
	struct health_input input = {.tally = tally_of(0), .has_p95 = true, .p95_ns = 200 * MS, .has_base = true};
	struct health health;

	(void)state;
	input.learned_base_ns = 25 * MS; /* three of four octaves */
	health_of(&CONFIG, &input, &health);
	assert_close(health.latency, .75);
	input.learned_base_ns = 300 * MS; /* a service that is slow when it is healthy, too */
	health_of(&CONFIG, &input, &health);
	assert_close(health.latency, 0);
	input.p95_ns = 400 * MS;
	health_of(&CONFIG, &input, &health);
	assert_close(health.latency, 1);
}

static void c89_too_few_outcomes_are_unknown(void **state)
{
	struct health_input input = {.tally = {.outcomes = 19, .failures = 19, .has_rate = true, .failure_rate = 1}};
	struct health health;

	(void)state;
	health_of(&CONFIG, &input, &health);
	assert_false(health.known);
	input.tally.outcomes = 20;
	health_of(&CONFIG, &input, &health);
	assert_true(health.known);
	assert_close(health.percent, 60);
	input.tally = (struct tally){0};
	health_of(&CONFIG, &input, &health);
	assert_false(health.known);
}

/* An open breaker lets nothing through: no outcome is needed to know that. */
static void open_is_known_and_zero(void **state)
{
	struct health_input input = {.open = true};
	struct health health;

	(void)state;
	health_of(&CONFIG, &input, &health);
	assert_true(health.known);
	assert_close(health.percent, 0);
	input.tally = tally_of(0);
	health_of(&CONFIG, &input, &health);
	assert_close(health.percent, 0);
}

/* In 0..100, and never better for more errors, a later answer, a fuller queue or a busier CPU. */
static void health_falls_with_each_term(void **state)
{
	(void)state;
	for (int i = 0; i < 20000; i++) {
		struct breaker_config config = CONFIG;
		struct health_input input = {
			.tally = tally_of(dice(100)),
			.has_p95 = dice(4),
			.p95_ns = dice(1ULL << dice(36)),
			.has_base = dice(2),
			.learned_base_ns = dice(1ULL << dice(36)),
			.has_queue = dice(4),
			.queue_fill = dice(150) / 100.,
			.has_cpu = dice(4),
			.cpu = dice(150) / 100.,
		};
		struct health before, after;

		for (int w = 0; w < 4; w++)
			config.health_weights[w] = dice(1001);
		health_of(&config, &input, &before);
		switch (dice(4)) {
		case 0:
			input.tally = tally_of(input.tally.failures + 1);
			break;
		case 1:
			input.p95_ns += dice(100 * MS);
			break;
		case 2:
			input.queue_fill += dice(100) / 100.;
			break;
		default:
			input.cpu += dice(100) / 100.;
		}
		health_of(&config, &input, &after);
		assert_true(before.percent >= 0 && before.percent <= 100);
		assert_true(after.percent >= 0 && after.percent <= before.percent + 1e-9);
	}
}

/* --- dependencies -------------------------------------------------------------------------------------------------------- */

static void who_waits(void **state)
{
	static const struct health all[] = {
		{.known = true, .percent = 90}, {.known = true, .percent = 84.9}, {.known = false},
		{.known = true, .percent = 20}, {.known = true, .percent = 85},
	};
	static const uint16_t gates[] = {8500, 8500, 8500, 8500, 8500}, low[] = {1000, 1000, 1000, 1000, 1000};
	static const struct {
		size_t depends[3], count, culprit;
		bool holds;
	} rows[] = {
		{{0}, 0, 99, false},       {{0}, 1, 99, false},
		{{1}, 1, 1, true},         {{2}, 1, 99, false}, /* unknown holds nobody back */
		{{4}, 1, 99, false}, /* at the gate is not below it */
		{{0, 2, 4}, 3, 99, false}, {{0, 1, 3}, 3, 3, true}, /* the worst */
		{{3, 1, 0}, 3, 3, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		size_t culprit = 99;

		assert_int_equal(health_holds(all, gates, rows[i].depends, rows[i].count, &culprit), rows[i].holds);
		assert_int_equal(culprit, rows[i].culprit);
		assert_false(health_holds(all, low, rows[i].depends, rows[i].count, &culprit));
	}
}

/* A chain recovers from its leaf: while c is down, b waits for it and a for b; each is let go when the next is well. */
static void leaf_first(void **state)
{
	static const uint16_t gates[] = {8500, 8500, 8500};
	static const size_t of_a[] = {1}, of_b[] = {2};
	struct health all[3] = {{.known = true}, {.known = true}, {.known = true}};
	size_t culprit = 99;

	(void)state;
	assert_true(health_holds(all, gates, of_a, 1, &culprit));
	assert_int_equal(culprit, 1);
	assert_true(health_holds(all, gates, of_b, 1, &culprit));
	assert_false(health_holds(all, gates, NULL, 0, &culprit)); /* the leaf probes */
	all[2].percent = 100;
	assert_true(health_holds(all, gates, of_a, 1, &culprit));
	assert_false(health_holds(all, gates, of_b, 1, &culprit));
	all[1].percent = 100;
	assert_false(health_holds(all, gates, of_a, 1, &culprit));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(health_by_hand),
		cmocka_unit_test(base_is_learned_and_at_most_half_of_lat_ref),
		cmocka_unit_test(c89_too_few_outcomes_are_unknown),
		cmocka_unit_test(open_is_known_and_zero),
		cmocka_unit_test(health_falls_with_each_term),
		cmocka_unit_test(who_waits),
		cmocka_unit_test(leaf_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
