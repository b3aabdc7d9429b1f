// SPDX-License-Identifier: GPL-2.0-only
/* test_breaker_sim: the breaker over simulated minutes and days, and under random schedules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/breaker_sim.h"

/* --- how soon, and never ------------------------------------------------------------------------------------------------ */

static void resets_open_it_within_seconds(void **state)
{
	const struct {
		double failing;
		uint64_t within_ns;
	} rows[] = {{1, 1 * S}, {0.7, 2 * S}};
	const struct breaker_config config = sim_config();

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (unsigned int n = 1; n <= 8; n++) {
			struct sim sim;
			uint64_t began;

			seed = n * 0x9e3779b97f4a7c15ULL;
			sim_begin(&sim, &config);
			assert_true(sim_run(&sim, 200, 0, 300 * S));
			began = sim.input.now_ns; /* the first failed outcome is in the next tick */
			assert_false(sim_run(&sim, 200, rows[i].failing, 10 * S));
			assert_in_range(sim.input.now_ns - began, 0, rows[i].within_ns);
			assert_int_equal(sim.event.rule, RULE_fast);
			sim_end(&sim);
		}
	}
}

static void a_fifth_failing_never_opens_it(void **state)
{
	const struct breaker_config config = sim_config();

	(void)state;
	for (unsigned int n = 1; n <= 100; n++) {
		struct sim sim;

		seed = n * 0x9e3779b97f4a7c15ULL;
		sim_begin(&sim, &config);
		sim.input.has_p95 = true; /* errors alone, at the usual latency */
		sim.input.p95_ns = 60 * MS;
		assert_true(sim_run(&sim, 200, 0, 300 * S));
		if (!sim_run(&sim, 200, 0.2, 600 * S))
			fail_msg("seed %u: %s", n, breaker_rule_names[sim.event.rule]);
		sim_end(&sim);
	}
}

static void one_in_a_hundred_never_opens_it_in_a_day(void **state)
{
	const struct breaker_config config = sim_config();
	struct sim sim;

	(void)state;
	sim_begin(&sim, &config);
	if (!sim_run(&sim, 1000, 0.01, 24 * 3600 * S))
		fail_msg("after %f s: %s", (sim.input.now_ns - 1000 * S) / 1e9, breaker_rule_names[sim.event.rule]);
	assert_int_equal(sim.input.now_ns, (1000 + 24 * 3600) * S);
	sim_end(&sim);
}

/* One source of many makes all the failures, and most of the traffic. */
static void one_source_of_many_never_opens_it(void **state)
{
	const struct breaker_config config = sim_config();
	const unsigned int sources[] = {4, 10, 100};

	(void)state;
	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		struct sim sim;

		sim_begin(&sim, &config);
		sim.cells = sources[i];
		assert_true(sim_run(&sim, 200, 0, 60 * S));
		sim.bad_cells = 1;
		assert_true(sim_run(&sim, 200, 0.9, 600 * S));
		assert_int_equal(sim.breaker.figures.window.failing, 1);
		assert_true(sim_run(&sim, 4, 0.9, 600 * S)); /* nor at low traffic, in a row */
		sim_end(&sim);
	}
}

/* --- random schedules --------------------------------------------------------------------------------------------------- */

static struct breaker_config random_config(void)
{
	struct breaker_config config = sim_config();

	config.enforce = dice(5) > 0;
	config.failure_rate = 1000 + dice(8000);
	config.min_sources = 1 + dice(4);
	config.has_consecutive = dice(2);
	config.consecutive = 1 + dice(10);
	config.has_slow_rate = dice(2);
	config.slow_rate = 8000;
	config.open_base_ns = (1 + dice(50)) * 100 * MS;
	config.open_cap_ns = config.open_base_ns * (1 + dice(20));
	config.jitter = dice(3);
	config.jitter_part = dice(9000);
	config.timeout_ns = (1 + dice(30)) * 100 * MS;
	config.silent_ns = config.timeout_ns * 2 > 5 * S ? config.timeout_ns * 2 : 5 * S;
	config.max_half_open_ns =
		config.timeout_ns * 2 > config.open_cap_ns ? config.timeout_ns * 2 : config.open_cap_ns;
	config.probes = 1 + dice(16);
	config.close_after = 1 + dice(config.probes);
	config.ramp_from = 500 + dice(9500);
	config.ramp_step = 100 + dice(3000);
	return config;
}

/* The controller is started again: the kernel goes on with what it has, the machine with what was pushed last. */
static void restart(struct world *world)
{
	const struct breaker_config config = world->sim.breaker.config;
	const struct breaker old = world->sim.breaker;

	breaker_finish(&world->sim.breaker);
	assert_int_equal(breaker_init(&world->sim.breaker, &config, old.generation, world->sim.input.now_ns), 0);
	breaker_restore(&world->sim.breaker, old.state, old.openings, old.open_until_ns, world->sim.input.now_ns);
}

static void disturb(struct world *world)
{
	switch (dice(10)) {
	case 0:
		world->service = dice(3);
		break;
	case 1:
		world->sim.input.order = dice(3);
		break;
	case 2:
		world->sim.input.held = dice(2);
		break;
	case 3:
		world->per_s = dice(3) * dice(1000);
		break;
	case 4:
		world->vanish = dice(4) / 4.0;
		break;
	case 5:
		world->neutral = dice(4) / 4.0;
		break;
	case 6:
		restart(world);
		break;
	case 7:
		breaker_forget(&world->sim.breaker);
		break;
	case 8: /* stopped for a while */
		world->sim.input.now_ns += dice(100) * S;
		break;
	default:
		world->sim.input.owed = dice(100);
		world->sim.input.owed_proven = dice(5);
		world->sim.input.owed_unproven = dice(5);
		world->sim.baseline.has_p99 = dice(2);
		world->sim.baseline.p99_ns = dice(3000) * MS;
		world->sim.baseline.has_connections = dice(2);
		world->sim.baseline.connections = dice(300);
		world->sim.baseline.windows = dice(2);
		world->sim.baseline.p95_ns = dice(1000) * MS;
		break;
	}
}

/* All is well, and nobody orders or holds anything. */
static void heal(struct world *world)
{
	world->service = HEALTHY;
	world->per_s = 200;
	world->vanish = world->neutral = 0;
	world->sim.input.order = ORDER_NONE;
	world->sim.input.held = false;
	world->sim.input.owed = 0;
	world->sim.input.has_p95 = false;
}

/*
 * Checked at every tick (breaker_sim.h): the generation grows by one with each transition and never else; transitions are
 * of the table; no more than `probes` are established in a period. Here: from wherever it was left, it closes.
 */
static void random_schedules_never_leave_it_stuck(void **state)
{
	uint64_t longest = 0, transitions = 0;
	unsigned int left[BREAKER_STATE_COUNT] = {0};

	(void)state;
	for (unsigned int n = 1; n <= 250; n++) {
		struct breaker_config config;
		struct world world;
		uint64_t began, bound;

		seed = n * 0x9e3779b97f4a7c15ULL;
		config = random_config();
		world_begin(&world, &config);
		for (unsigned int i = 0; i < 100; i++) {
			disturb(&world);
			world_run(&world, (1 + dice(30)) * TICK);
		}
		left[world.sim.breaker.state]++;
		heal(&world);
		began = world.sim.input.now_ns;
		/*
		 * Old turns may still fail (timeout), an open state lasts a cap, probes under way fail it once more; then
		 * it closes at the first tries. Metrics-only waits until its window has forgotten.
		 */
		bound = config.enforce ? 2 * config.open_cap_ns + 2 * config.timeout_ns + 3 * S
				       : config.window_ns + config.open_cap_ns + config.timeout_ns;
		world_until(&world, BREAKER_closed, bound);
		for (uint64_t at = 0; at < 2 * config.timeout_ns + S; at += TICK) /* and stays so, the late ones past */
			world_tick(&world);
		if (!world_until(&world, BREAKER_closed, bound))
			fail_msg("seed %u: %s since %f s", n, breaker_state_names[world.sim.breaker.state],
				 (world.sim.input.now_ns - world.sim.breaker.since_ns) / 1e9);
		longest = world.sim.input.now_ns - began > longest ? world.sim.input.now_ns - began : longest;
		transitions += world.sim.events;
		world_run(&world, 5 * S);
		assert_int_equal(world.sim.breaker.state, BREAKER_closed);
		sim_end(&world.sim);
	}
	for (unsigned int s = 0; s < BREAKER_STATE_COUNT; s++)
		assert_true(left[s] > 0); /* closing was tried from each of them */
	assert_true(transitions > 250 * 10);
	print_message("longest way to closed %.1f s, %llu transitions\n", longest / 1e9,
		      (unsigned long long)transitions);
}

/* Full recovery by the clock from each state, for the default configuration. */
static void from_each_state_it_closes_in_bounded_time(void **state)
{
	const struct breaker_config config = sim_config();

	(void)state;
	for (unsigned int s = 0; s < BREAKER_STATE_COUNT; s++) {
		for (unsigned int openings = 0; openings < 70; openings += 23) {
			struct world world;

			world_begin(&world, &config);
			breaker_restore(&world.sim.breaker, s, openings, world.sim.input.now_ns + 30 * S,
					world.sim.input.now_ns);
			assert_true(world_until(&world, BREAKER_closed, config.open_cap_ns + 1 * S));
			sim_end(&world.sim);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(resets_open_it_within_seconds),
		cmocka_unit_test(a_fifth_failing_never_opens_it),
		cmocka_unit_test(one_in_a_hundred_never_opens_it_in_a_day),
		cmocka_unit_test(one_source_of_many_never_opens_it),
		cmocka_unit_test(random_schedules_never_leave_it_stuck),
		cmocka_unit_test(from_each_state_it_closes_in_bounded_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
