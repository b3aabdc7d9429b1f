// SPDX-License-Identifier: GPL-2.0-only
/* test_breaker_time: open times and their spread, the number of openings, dependencies, healthy periods, the ramp. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/breaker_sim.h"

/* --- open time -------------------------------------------------------------------------------------------------------- */

static void open_times_by_hand(void **state)
{
	const struct {
		const char *text;
		enum jitter jitter;
		unsigned int n;
		uint64_t base_ms, cap_ms, p99_ms; /* 0: none known */
		uint64_t low_ms, high_ms; /* for the smallest and the largest random */
	} rows[] = {
		{"none: base", JITTER_NONE, 0, 1000, 30000, 0, 1000, 1000},
		{"none: doubled", JITTER_NONE, 3, 1000, 30000, 0, 8000, 8000},
		{"none: cap", JITTER_NONE, 5, 1000, 30000, 0, 30000, 30000},
		{"none: cap, n beyond any shift", JITTER_NONE, 64, 1000, 30000, 0, 30000, 30000},
		{"none: set C", JITTER_NONE, 4, 100, 30000, 0, 1600, 1600},
		{"none: fixed wait", JITTER_NONE, 7, 60000, 60000, 0, 60000, 60000},
		{"full: the first is spread too", JITTER_FULL, 0, 1000, 30000, 0, 1000, 2000},
		{"full", JITTER_FULL, 1, 1000, 30000, 0, 1000, 2000},
		{"full", JITTER_FULL, 4, 1000, 30000, 0, 1000, 16000},
		{"full: at the cap", JITTER_FULL, 9, 1000, 30000, 0, 1000, 30000},
		{"part", JITTER_PART, 0, 1000, 30000, 0, 900, 1000},
		{"part: at the cap", JITTER_PART, 9, 1000, 30000, 0, 27000, 30000},
		{"4 x P99", JITTER_NONE, 0, 1000, 30000, 400, 1600, 1600},
		{"4 x P99 under it", JITTER_FULL, 3, 1000, 30000, 400, 1600, 8000},
		{"4 x P99 over the cap", JITTER_NONE, 0, 1000, 30000, 8000, 30000, 30000},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct breaker_config config = sim_config();
		uint64_t low, high;

		config.jitter = rows[i].jitter;
		config.jitter_part = 1000;
		config.open_base_ns = rows[i].base_ms * MS;
		config.open_cap_ns = rows[i].cap_ms * MS;
		low = breaker_open_time(&config, rows[i].n, rows[i].p99_ms > 0, rows[i].p99_ms * MS, 0);
		high = breaker_open_time(&config, rows[i].n, rows[i].p99_ms > 0, rows[i].p99_ms * MS, UINT64_MAX);
		if (low != rows[i].low_ms * MS || high != rows[i].high_ms * MS)
			fail_msg("%s: %f to %f s", rows[i].text, low / 1e9, high / 1e9);
		for (int k = 0; k < 1000; k++) {
			uint64_t random = dice(1ULL << 32) << 32 | dice(1ULL << 32);
			uint64_t ns =
				breaker_open_time(&config, rows[i].n, rows[i].p99_ms > 0, rows[i].p99_ms * MS, random);

			assert_in_range(ns, low, high);
		}
	}
}

/* 100 breakers tripped within 10 ms: when their first probes are let through. */
static void test_c97_breakers_tripped_together_do_not_probe_together(void **state)
{
	const struct {
		enum jitter jitter;
		uint64_t base, cap;
		unsigned int openings;
		double spread; /* of the wait: from first to last, at least */
	} rows[] = {
		{JITTER_FULL, 1 * S, 30 * S, 0, 0.6},
		{JITTER_FULL, 1 * S, 30 * S, 12, 0.8},
		{JITTER_PART, 1 * S, 30 * S, 0, 0.08},
		{JITTER_PART, 30 * S, 30 * S, 0, 0.08},
	};

	(void)state;
	for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
		struct breaker_config config = sim_config();
		uint64_t first = UINT64_MAX, last = 0, waits = 0;
		unsigned int together[400] = {0}, most = 0;

		config.jitter = rows[r].jitter;
		config.jitter_part = 1000;
		config.open_base_ns = rows[r].base;
		config.open_cap_ns = rows[r].cap;
		for (unsigned int i = 0; i < 100; i++) {
			struct sim sim;

			sim_begin(&sim, &config);
			sim.breaker.openings = rows[r].openings;
			sim.input.now_ns += i * 100000;
			sim_fill(&sim, 0, 200);
			sim_tick_after(&sim, 0);
			assert_int_equal(sim.breaker.state, BREAKER_open);
			waits += sim.event.open_for_ns / 100;
			first = sim.breaker.open_until_ns < first ? sim.breaker.open_until_ns : first;
			last = sim.breaker.open_until_ns > last ? sim.breaker.open_until_ns : last;
			together[(sim.breaker.open_until_ns / TICK) % 400]++;
			sim_end(&sim);
		}
		for (unsigned int i = 0; i < 400; i++)
			most = together[i] > most ? together[i] : most;
		assert_true((double)(last - first) >= rows[r].spread * (double)waits);
		/* 10 % of 1 s is one tick: there spread is what the ticks allow. */
		if (rows[r].jitter == JITTER_FULL || rows[r].base > 1 * S)
			assert_true(most <= 25);
	}
}

/* --- n --------------------------------------------------------------------------------------------------------------- */

static void reopen(struct sim *sim, struct probe_view verdict)
{
	while (sim->breaker.state == BREAKER_open)
		sim_tick(sim, 0, 0);
	sim->input.probes = verdict;
	sim_tick(sim, 0, 0);
	sim->input.probes = (struct probe_view){0};
}

static void openings_grow_and_start_again_after_two_caps(void **state)
{
	struct breaker_config config = sim_config();
	struct sim sim;

	(void)state;
	config.jitter = JITTER_NONE;
	sim_begin(&sim, &config);
	sim_tick(&sim, 0, 200);
	assert_int_equal(sim.event.open_for_ns, 1 * S);
	for (unsigned int n = 1; n <= 7; n++) {
		reopen(&sim, (struct probe_view){.failed = 1});
		assert_int_equal(sim.breaker.openings, n);
		assert_int_equal(sim.event.open_for_ns, n < 5 ? (1 << n) * S : 30 * S);
	}
	/* Closed for a little less than two caps: it goes on where it was. */
	reopen(&sim, (struct probe_view){.succeeded = 3});
	assert_int_equal(sim.breaker.state, BREAKER_closed);
	sim_run(&sim, 20, 0, 60 * S - TICK);
	sim_fill(&sim, 0, 200);
	sim_tick_after(&sim, 0);
	assert_int_equal(sim.event.open_for_ns, 30 * S);
	assert_int_equal(sim.breaker.openings, 7);
	reopen(&sim, (struct probe_view){.succeeded = 3});
	sim_run(&sim, 20, 0, 60 * S);
	sim_tick(&sim, 0, 2000);
	assert_int_equal(sim.event.open_for_ns, 1 * S);
	sim_end(&sim);
}

/* --- dependencies ----------------------------------------------------------------------------------------------------- */

static void a_dependency_holds_probes_for_four_caps_at_most(void **state)
{
	struct breaker_config config = sim_config();
	struct sim sim;
	uint64_t over;

	(void)state;
	config.jitter = JITTER_NONE;
	sim_begin(&sim, &config);
	sim_tick(&sim, 0, 200);
	sim.input.held = true;
	for (unsigned int turn = 0; turn < 2; turn++) { /* one period of probes, and it waits again */
		over = sim.breaker.open_until_ns;
		while (sim.breaker.state == BREAKER_open) {
			assert_int_equal(sim.breaker.held, sim.input.now_ns >= over);
			sim_tick(&sim, 0, 0);
		}
		assert_int_equal(sim.breaker.state, BREAKER_half_open);
		assert_int_equal(sim.input.now_ns, over + 4 * config.open_cap_ns);
		assert_false(sim.breaker.held);
		sim.input.probes.failed = 1;
		sim_tick(&sim, 0, 0);
		assert_int_equal(sim.breaker.state, BREAKER_open);
		sim.input.probes.failed = 0;
	}
	/* Let go: at once, and the next wait is counted from its own beginning. */
	over = sim.breaker.open_until_ns;
	while (sim.input.now_ns < over + 50 * S)
		sim_tick(&sim, 0, 0);
	assert_int_equal(sim.breaker.state, BREAKER_open);
	sim.input.held = false;
	sim_tick(&sim, 0, 0);
	assert_int_equal(sim.breaker.state, BREAKER_half_open);
	sim_end(&sim);
}

/* --- what is learned while healthy -------------------------------------------------------------------------------------- */

/* `rate` new connections a second, each with five answers. */
static void healthy_before(struct sim *sim, double rate, uint64_t p99_ns)
{
	sim->baseline = (struct baseline){
		.windows = 6,
		.p95_ns = 20 * MS,
		.has_rate = true,
		.rate = 5 * rate,
		.has_connections = true,
		.connections = rate,
		.has_p99 = true,
		.p99_ns = p99_ns,
	};
	assert_true(sim_run(sim, rate, 0, 11 * S));
}

/* What baseline.c learned is what openings, floor and risk go by. */
static void what_was_learned_is_used(void **state)
{
	struct breaker_config config = sim_config();
	struct sim sim;

	(void)state;
	config.jitter = JITTER_NONE;
	sim_begin(&sim, &config);
	healthy_before(&sim, 200, 300 * MS);
	sim.input.has_p95 = true;
	sim.input.p95_ns = 20 * MS;
	sim_tick(&sim, 0, 4000);
	assert_int_equal(sim.event.open_for_ns, 1200 * MS); /* 4 x P99 */
	assert_int_equal(sim.event.figures.base_ns, 20 * MS);
	assert_true(sim.event.figures.risk_latency == 0);
	assert_true(sim.decision.has_floor);
	assert_true(fabs(sim.decision.floor_rate - 20) < 0.001);
	sim_end(&sim);
}

/* --- ramp ------------------------------------------------------------------------------------------------------------- */

/* Closed after a healthy time of 200/s and a trip. */
static void begin_ramp(struct sim *sim, const struct breaker_config *config)
{
	sim_begin(sim, config);
	healthy_before(sim, 200, 30 * MS);
	sim_tick(sim, 0, 4000);
	assert_int_equal(sim->breaker.state, BREAKER_open);
	reopen(sim, (struct probe_view){.succeeded = 3});
	assert_int_equal(sim->breaker.state, BREAKER_closed);
}

static void test_c98_load_returns_by_steps(void **state)
{
	const struct breaker_config config = sim_config();
	struct sim sim;
	uint64_t closed;

	(void)state;
	begin_ramp(&sim, &config);
	closed = sim.input.now_ns;
	for (unsigned int step = 1; step <= 9; step++) {
		for (int tick = 0; tick < 10; tick++) {
			assert_true(sim.decision.ramp);
			assert_true(fabs(sim.decision.ramp_rate - 20.0 * step) < 0.001);
			sim_tick(&sim, 2 * step, 0);
		}
	}
	assert_int_equal(sim.input.now_ns, closed + 9 * S);
	assert_false(sim.decision.ramp);
	assert_int_equal(sim.breaker.state, BREAKER_closed);
	sim_end(&sim);
}

static void test_c98_the_ramp_waits_while_failures_are_half_the_threshold(void **state)
{
	const struct breaker_config config = sim_config();
	struct sim sim;

	(void)state;
	begin_ramp(&sim, &config);
	for (int tick = 0; tick < 200; tick++)
		sim_tick(&sim, 7, 3); /* 30 %: over half of 50 %, under the threshold */
	assert_true(fabs(sim.decision.ramp_rate - 20) < 0.001);
	for (int tick = 0; tick < 100 && sim.decision.ramp_rate < 21; tick++)
		sim_tick(&sim, 10, 0);
	assert_true(fabs(sim.decision.ramp_rate - 40) < 0.001);
	/* However late a tick is, one step. */
	sim_tick_after(&sim, 60 * S);
	assert_true(fabs(sim.decision.ramp_rate - 60) < 0.001);
	/* A trip in it counts as one more opening. */
	sim_tick(&sim, 0, 200);
	assert_int_equal(sim.breaker.state, BREAKER_open);
	assert_int_equal(sim.breaker.openings, 1);
	assert_false(sim.decision.ramp);
	sim_end(&sim);
}

/* Answers alone do not tell how many connections a service can take: the ramp is in the unit of the total bucket. */
static void no_ramp_of_answers_alone(void **state)
{
	struct breaker_config config = sim_config();
	struct sim sim;

	(void)state;
	sim_begin(&sim, &config);
	sim.baseline = (struct baseline){.has_rate = true, .rate = 200};
	sim_tick(&sim, 0, 200);
	reopen(&sim, (struct probe_view){.succeeded = 3});
	assert_int_equal(sim.breaker.state, BREAKER_closed);
	assert_false(sim.decision.ramp);
	assert_false(sim.decision.has_floor);
	sim_end(&sim);
}

/* The controller died in the third step. */
static void restart(struct sim *sim, const struct breaker_config *config, unsigned int steps, uint64_t step_at_ns)
{
	const struct baseline learned = sim->baseline;
	uint64_t now_ns = sim->input.now_ns;

	sim_end(sim);
	sim_begin(sim, config);
	sim->input.now_ns = now_ns;
	sim->baseline = learned;
	breaker_learn(&sim->breaker, &sim->baseline);
	breaker_restore(&sim->breaker, BREAKER_closed, 0, 0, now_ns);
	breaker_restore_ramp(&sim->breaker, steps, step_at_ns, now_ns);
}

static void test_c98_a_ramp_goes_on_after_a_restart(void **state)
{
	struct breaker_config config = sim_config();
	struct sim sim;
	uint64_t step_at;

	(void)state;
	begin_ramp(&sim, &config);
	for (int tick = 0; tick < 25; tick++)
		sim_tick(&sim, 2, 0);
	assert_int_equal(sim.breaker.ramp_steps, 2);
	step_at = sim.breaker.ramp_at_ns;
	restart(&sim, &config, 2, step_at);
	while (sim.input.now_ns + TICK < step_at) {
		sim_tick(&sim, 2, 0);
		assert_true(sim.decision.ramp);
		assert_true(fabs(sim.decision.ramp_rate - 60) < 0.001);
	}
	sim_tick(&sim, 2, 0);
	assert_true(fabs(sim.decision.ramp_rate - 80) < 0.001);
	/* A clock that was set does not hold it for ever: one step's time at most. */
	restart(&sim, &config, 2, sim.input.now_ns + 3600 * S);
	assert_int_equal(sim.breaker.ramp_at_ns, sim.input.now_ns + config.ramp_every_ns);
	/* Long ago: it goes on where it was, and by steps. */
	restart(&sim, &config, 2, 0);
	sim_tick(&sim, 2, 0);
	assert_true(fabs(sim.decision.ramp_rate - 80) < 0.001);
	/* Steps of a file that had smaller ones: over. */
	restart(&sim, &config, 9, 0);
	assert_false(sim.breaker.ramping);
	/* Only a closed one ramps up, and only one that enforces. */
	breaker_restore(&sim.breaker, BREAKER_open, 0, sim.input.now_ns + S, sim.input.now_ns);
	breaker_restore_ramp(&sim.breaker, 2, 0, sim.input.now_ns);
	assert_false(sim.breaker.ramping);
	config.enforce = false;
	restart(&sim, &config, 2, 0);
	assert_false(sim.breaker.ramping);
	sim_end(&sim);
}

static void no_ramp_without_a_healthy_rate(void **state)
{
	struct breaker_config config = sim_config();
	struct sim sim;

	(void)state;
	sim_begin(&sim, &config);
	sim_tick(&sim, 0, 200);
	reopen(&sim, (struct probe_view){.succeeded = 3});
	assert_int_equal(sim.breaker.state, BREAKER_closed);
	assert_false(sim.decision.ramp);
	assert_false(sim.decision.has_floor);
	sim_end(&sim);
	/* A service that served nothing when last healthy is let one a second, not none. */
	sim_begin(&sim, &config);
	healthy_before(&sim, 0, 30 * MS);
	sim_tick(&sim, 0, 200);
	reopen(&sim, (struct probe_view){.succeeded = 3});
	assert_true(sim.decision.ramp);
	assert_true(sim.decision.ramp_rate >= 1);
	sim_end(&sim);
}

/*
 * A service that stands half its load for a while after it came back: capacity grows from 20/s to 200/s over 10 s, what is
 * beyond fails. With the ramp it recovers at the first try; at once it falls over again.
 */
static unsigned int reopenings_of_a_cold_start(const struct breaker_config *config)
{
	struct sim sim;
	unsigned int events, trips = 0;

	begin_ramp(&sim, config);
	events = sim.events;
	for (int tick = 0; tick < 300; tick++) {
		unsigned int offered = 20, capacity = 3 + (unsigned int)tick * 2 / 10, served;

		if (sim.decision.ramp)
			offered = (unsigned int)(sim.decision.ramp_rate / 10);
		if (sim.decision.open || sim.decision.half_open)
			offered = 0;
		served = offered < capacity ? offered : capacity;
		sim.input.probes.succeeded = sim.breaker.state == BREAKER_half_open ? 3 : 0;
		sim_tick(&sim, served, offered - served);
		trips += sim.events > events && sim.event.to == BREAKER_open;
		events = sim.events;
	}
	sim_end(&sim);
	return trips;
}

static void test_c98_a_cold_service_is_not_knocked_over(void **state)
{
	struct breaker_config config = sim_config();

	(void)state;
	assert_int_equal(reopenings_of_a_cold_start(&config), 0);
	config.ramp_from = 10000;
	assert_true(reopenings_of_a_cold_start(&config) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(open_times_by_hand),
		cmocka_unit_test(test_c97_breakers_tripped_together_do_not_probe_together),
		cmocka_unit_test(openings_grow_and_start_again_after_two_caps),
		cmocka_unit_test(a_dependency_holds_probes_for_four_caps_at_most),
		cmocka_unit_test(what_was_learned_is_used),
		cmocka_unit_test(test_c98_load_returns_by_steps),
		cmocka_unit_test(test_c98_the_ramp_waits_while_failures_are_half_the_threshold),
		cmocka_unit_test(no_ramp_of_answers_alone),
		cmocka_unit_test(test_c98_a_ramp_goes_on_after_a_restart),
		cmocka_unit_test(no_ramp_without_a_healthy_rate),
		cmocka_unit_test(test_c98_a_cold_service_is_not_knocked_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
