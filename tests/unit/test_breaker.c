// SPDX-License-Identifier: GPL-2.0-only
/* test_breaker: states and transitions, each pair of state and rule, orders, probes, restarts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/breaker_sim.h"

struct row {
	enum breaker_state from;
	enum breaker_rule rule;
	enum breaker_state to;
	const char *openings;
};

static const struct row rows[] = {
#define X(from, rule, to, openings) {BREAKER_##from, RULE_##rule, BREAKER_##to, #openings},
	BREAKER_TRANSITIONS(X)
#undef X
};

static const struct row *row_of(enum breaker_state from, enum breaker_rule rule)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].from == from && rows[i].rule == rule)
			return &rows[i];
	}
	return NULL;
}

/* --- every state under what makes every rule hold ---------------------------------------------------------------------- */

static void hold_long(struct sim *sim)
{
	sim_fill(sim, 20, 40);
}

static void hold_fast(struct sim *sim)
{
	sim_fill(sim, 50, 150);
}

static void hold_consecutive(struct sim *sim)
{
	for (unsigned int i = 0; i < 6; i++)
		sim->sample.cells[i].failure = 1;
}

static void hold_slow(struct sim *sim)
{
	sim->breaker.config.has_slow_rate = true;
	sim->breaker.config.slow_rate = 6000;
	for (unsigned int i = 0; i < 30; i++)
		sim->sample.cells[i] = (struct cell_counts){.success = 2, .slow = 2};
}

static void hold_silent(struct sim *sim)
{
	sim->input.owed = 20;
	sim->input.owed_proven = 3;
	sim_tick(sim, 0, 0);
	sim->input.now_ns += 10 * S;
}

static void hold_risk(struct sim *sim)
{
	sim->input.has_p95 = true;
	sim->input.p95_ns = 400 * MS;
	sim_fill(sim, 33, 0);
	for (unsigned int i = 0; i < 17; i++)
		sim->sample.cells[i].failure = 1;
}

static void hold_wait_over(struct sim *sim)
{
	sim->input.now_ns += 100 * MS;
}

static void hold_probes_succeeded(struct sim *sim)
{
	sim->input.probes.succeeded = 3;
}

static void hold_probe_failed(struct sim *sim)
{
	sim->input.probes.failed = 1;
	sim->input.probes.succeeded = 4;
}

static void hold_half_open_over(struct sim *sim)
{
	sim->input.now_ns += 20 * S;
}

static void hold_order_open(struct sim *sim)
{
	sim->input.order = ORDER_OPEN;
}

static void hold_order_closed(struct sim *sim)
{
	sim->input.order = ORDER_CLOSED;
}

static void hold_order_over(struct sim *sim)
{
	sim->input.order = ORDER_NONE;
}

static void hold_recovered(struct sim *sim)
{
	sim->breaker.config.enforce = false;
	sim->input.now_ns += 100 * MS;
}

static void (*const hold[RULE_COUNT])(struct sim *) = {
	[RULE_long] = hold_long,
	[RULE_fast] = hold_fast,
	[RULE_consecutive] = hold_consecutive,
	[RULE_slow] = hold_slow,
	[RULE_silent] = hold_silent,
	[RULE_risk] = hold_risk,
	[RULE_wait_over] = hold_wait_over,
	[RULE_probes_succeeded] = hold_probes_succeeded,
	[RULE_probe_failed] = hold_probe_failed,
	[RULE_half_open_over] = hold_half_open_over,
	[RULE_order_open] = hold_order_open,
	[RULE_order_closed] = hold_order_closed,
	[RULE_order_over] = hold_order_over,
	[RULE_recovered] = hold_recovered,
};

/* In this state, with nothing that moves it: an order in force, an open time as far away as it may be. */
static void begin_in(struct sim *sim, enum breaker_state state, enum breaker_rule rule)
{
	struct breaker_config config = sim_config();
	const uint64_t later = rule == RULE_wait_over || rule == RULE_recovered ? 100 * MS : 30 * S;

	config.max_half_open_ns = 20 * S;
	sim_begin(sim, &config);
	breaker_restore(&sim->breaker, state, 2, sim->input.now_ns + later, sim->input.now_ns);
	if (state == BREAKER_forced_open)
		sim->input.order = ORDER_OPEN;
	if (state == BREAKER_forced_closed)
		sim->input.order = ORDER_CLOSED;
}

static void each_state_under_each_rule(void **state)
{
	(void)state;
	for (unsigned int s = 0; s < BREAKER_STATE_COUNT; s++) {
		for (unsigned int r = RULE_none + 1; r < RULE_COUNT; r++) {
			const struct row *row = row_of(s, r);
			struct sim sim;

			begin_in(&sim, s, r);
			assert_non_null(hold[r]);
			hold[r](&sim);
			assert_int_equal(sim.events, 0);
			sim_tick_after(&sim, 0);
			if (row && (sim.breaker.state != row->to || sim.breaker.rule != r))
				fail_msg("%s under %s: %s by %s", breaker_state_names[s], breaker_rule_names[r],
					 breaker_state_names[sim.breaker.state], breaker_rule_names[sim.breaker.rule]);
			if (!row && sim.events)
				fail_msg("%s under %s must stay: %s", breaker_state_names[s], breaker_rule_names[r],
					 breaker_state_names[sim.breaker.state]);
			assert_int_equal(sim.events, row ? 1 : 0);
			sim_end(&sim);
		}
	}
}

/* n after each transition, in a ramp and out of it. */
static void openings_by_the_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (int ramping = 0; ramping < 2; ramping++) {
			struct sim sim;
			unsigned int expected = 2;

			begin_in(&sim, rows[i].from, rows[i].rule);
			sim.breaker.ramping = ramping && rows[i].from == BREAKER_closed;
			hold[rows[i].rule](&sim);
			sim.breaker.ramping = ramping && rows[i].from == BREAKER_closed;
			sim_tick_after(&sim, 0);
			if (!strcmp(rows[i].openings, "NEXT") || (!strcmp(rows[i].openings, "RAMP") && ramping))
				expected = 3;
			if (!strcmp(rows[i].openings, "ZERO"))
				expected = 0;
			assert_int_equal(sim.breaker.openings, expected);
			assert_int_equal(sim.breaker.state, rows[i].to);
			sim_end(&sim);
		}
	}
}

static void one_row_for_a_pair_and_a_rule_that_is_known(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_ptr_equal(row_of(rows[i].from, rows[i].rule), &rows[i]);
		assert_true(rows[i].from != rows[i].to);
	}
	for (unsigned int r = 0; r < RULE_COUNT; r++)
		assert_true(strlen(breaker_rule_names[r]) > 0 && strlen(breaker_rule_texts[r]) > 0);
	assert_string_equal(breaker_state_names[BREAKER_half_open], "half_open");
	assert_string_equal(breaker_rule_names[RULE_probe_failed], "probe_failed");
}

/* --- half-open -------------------------------------------------------------------------------------------------------- */

static void begin_half_open(struct sim *sim, const struct breaker_config *config)
{
	sim_begin(sim, config);
	breaker_restore(&sim->breaker, BREAKER_half_open, 0, 0, sim->input.now_ns);
}

static void test_c80_probes_that_never_report_do_not_hold_it(void **state)
{
	struct breaker_config config = sim_config();

	(void)state;
	config.close_after = 5;
	for (unsigned int succeeded = 0; succeeded <= 3; succeeded += 3) { /* 0: no traffic from the start */
		struct sim sim;
		unsigned int openings = 0;

		begin_half_open(&sim, &config);
		for (int tick = 0; tick < 6000; tick++) { /* 10 min */
			uint64_t longest =
				sim.breaker.state == BREAKER_open ? config.open_cap_ns : config.max_half_open_ns;

			sim.input.probes.succeeded = sim.breaker.state == BREAKER_half_open ? succeeded : 0;
			sim_tick(&sim, 0, 0);
			assert_true(sim.input.now_ns - sim.breaker.since_ns <= longest);
			if (sim.breaker.openings > openings)
				assert_int_equal(sim.event.rule, RULE_half_open_over);
			openings = sim.breaker.openings;
		}
		assert_in_range(openings, 600 / 62, 600 / 31);
		sim_end(&sim);
	}
}

/* State x how a probe ended. Only half-open takes it for a verdict; neutral and unfinished ones never are. */
static void test_c82_each_end_of_a_probe_in_each_state(void **state)
{
	const struct probe_view views[] = {
		{.tickets = 5},
		{.outstanding = 5},
		{.succeeded = 2},
		{.succeeded = 3},
		{.failed = 1},
		{.succeeded = 5, .failed = 1},
		{0},
	};
	const enum breaker_state verdicts[] = {
		BREAKER_half_open, BREAKER_half_open, BREAKER_half_open, BREAKER_closed,
		BREAKER_open,      BREAKER_open,      BREAKER_half_open,
	};

	(void)state;
	for (unsigned int s = 0; s < BREAKER_STATE_COUNT; s++) {
		for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
			struct sim sim;

			begin_in(&sim, s, RULE_none);
			sim.input.probes = views[i];
			sim_tick(&sim, 0, 0);
			assert_int_equal(sim.breaker.state, s == BREAKER_half_open ? verdicts[i] : s);
			sim_end(&sim);
		}
	}
}

static void test_c83_neutral_probes_do_not_starve_the_recovery(void **state)
{
	struct breaker_config config = sim_config();
	unsigned int closed = 0;

	(void)state;
	for (int seeds = 0; seeds < 200; seeds++) {
		struct world world;

		world_begin(&world, &config);
		breaker_restore(&world.sim.breaker, BREAKER_open, 0, 0, world.sim.input.now_ns);
		world.neutral = 0.8;
		world.per_s = 20;
		closed += world_until(&world, BREAKER_closed, 60 * S);
		sim_end(&world.sim);
	}
	assert_int_equal(closed, 200);
}

static void test_c85_probes_of_a_hanging_service_are_bounded(void **state)
{
	struct breaker_config config = sim_config();
	struct world world;
	unsigned int periods = 0, most = 0;
	uint32_t period = 0;

	(void)state;
	world_begin(&world, &config);
	world.service = HANGING;
	world.per_s = 1000;
	breaker_restore(&world.sim.breaker, BREAKER_half_open, 0, 0, world.sim.input.now_ns);
	for (int tick = 0; tick < 1200; tick++) {
		world_tick(&world); /* claim() asserts the bound */
		most = world.established > most ? world.established : most;
		periods += world.period != period;
		period = world.period;
		assert_true(world.sim.breaker.state != BREAKER_closed);
	}
	assert_int_equal(most, 5);
	assert_in_range(periods, 5, 24);
	world.service = HEALTHY;
	assert_true(world_until(&world, BREAKER_closed, 32 * S));
	sim_end(&world.sim);
}

/* Spoofed SYNs hold tickets that never become probes. Those come back, and what is over is decided by the clock. */
static void vanishing_clients_do_not_keep_it_half_open(void **state)
{
	struct breaker_config config = sim_config();
	struct world world;

	(void)state;
	world_begin(&world, &config);
	world.vanish = 0.9;
	world.per_s = 100;
	breaker_restore(&world.sim.breaker, BREAKER_half_open, 0, 0, world.sim.input.now_ns);
	assert_true(world_until(&world, BREAKER_closed, 20 * S));
	sim_end(&world.sim);
}

static void test_c86_late_results_of_another_generation_change_nothing(void **state)
{
	struct breaker_config config = sim_config();
	struct world world;
	uint32_t generation;

	(void)state;
	world_begin(&world, &config);
	world_run(&world, 5 * S);
	/* 3 s of requests that hang; then order it open, so that all of them end in another generation. */
	world.service = HANGING;
	world_run(&world, 3 * S);
	world.sim.input.order = ORDER_OPEN;
	world_run(&world, 1 * S);
	world.sim.input.order = ORDER_NONE;
	world.service = HEALTHY;
	world.per_s = 0;
	world_run(&world, 200 * MS);
	assert_int_equal(world.sim.breaker.state, BREAKER_half_open);
	generation = world.sim.breaker.generation;
	world_run(&world, 8 * S); /* 600 failures arrive */
	assert_in_range(world.other, 500, 700);
	assert_int_equal(world.sim.breaker.generation, generation);
	assert_int_equal(world.sim.breaker.figures.window.failures, 0);
	/* Slots of another generation count for nothing, and are free. */
	for (unsigned int i = 0; i < 5; i++) {
		world.slots[i].generation = generation - 2;
		world.slots[i].state = i < 3 ? SLC_SLOT_success : SLC_SLOT_failure;
	}
	world_run(&world, 1 * S);
	assert_int_equal(world.sim.breaker.generation, generation);
	world.per_s = 200;
	assert_true(world_until(&world, BREAKER_closed, 1 * S));
	assert_int_equal(world.sim.breaker.generation, generation + 1);
	sim_end(&world.sim);
}

/* What failed before it opened does not open it again once it has closed. */
static void closing_forgets_what_failed_before(void **state)
{
	struct breaker_config config = sim_config();
	struct sim sim;

	(void)state;
	sim_begin(&sim, &config);
	assert_false(sim_run(&sim, 200, 1, 5 * S));
	assert_int_equal(sim.breaker.state, BREAKER_open);
	while (sim.breaker.state == BREAKER_open)
		sim_tick(&sim, 0, 0);
	sim.input.probes.succeeded = 3;
	sim_tick(&sim, 0, 0);
	assert_int_equal(sim.breaker.state, BREAKER_closed);
	sim_tick(&sim, 0, 1);
	sim_tick(&sim, 0, 1);
	assert_int_equal(sim.breaker.state, BREAKER_closed);
	assert_int_equal(sim.breaker.figures.window.outcomes, 2);
	sim_end(&sim);
}

/* --- orders ----------------------------------------------------------------------------------------------------------- */

static void test_c88_each_order_in_each_state(void **state)
{
	const enum breaker_order orders[] = {ORDER_OPEN, ORDER_CLOSED};

	(void)state;
	for (unsigned int s = 0; s < BREAKER_STATE_COUNT; s++) {
		for (unsigned int enforce = 0; enforce < 2; enforce++) {
			for (size_t o = 0; o < 2; o++) {
				struct sim sim;

				begin_in(&sim, s, RULE_none);
				sim.breaker.config.enforce = enforce;
				sim.input.order = orders[o];
				sim_tick(&sim, 0, 0);
				assert_int_equal(sim.decision.open, orders[o] == ORDER_OPEN);
				assert_false(sim.decision.half_open);
				/* Frozen, whatever happens. */
				sim.input.probes = (struct probe_view){.succeeded = 5, .failed = 1};
				sim_run(&sim, 200, orders[o] == ORDER_CLOSED, 100 * S);
				assert_int_equal(sim.breaker.state,
						 orders[o] == ORDER_OPEN ? BREAKER_forced_open : BREAKER_forced_closed);
				assert_int_equal(sim.decision.open, orders[o] == ORDER_OPEN);
				sim.input.probes = (struct probe_view){0};
				sim.input.order = ORDER_NONE;
				sim_tick(&sim, 0, 0);
				assert_int_equal(sim.breaker.state,
						 orders[o] == ORDER_OPEN ? BREAKER_half_open : BREAKER_closed);
				assert_int_equal(sim.breaker.openings, 0);
				sim_tick(&sim, 0, 0); /* failures under the order are forgotten */
				assert_int_equal(sim.breaker.state == BREAKER_open, false);
				sim_end(&sim);
			}
		}
	}
}

/* --- metrics-only ----------------------------------------------------------------------------------------------------- */

static void metrics_only_reports_and_enforces_nothing(void **state)
{
	struct breaker_config config = sim_config();
	struct world world;

	(void)state;
	config.enforce = false;
	world_begin(&world, &config);
	world_run(&world, 30 * S);
	assert_int_equal(world.sim.events, 0);
	world.service = FAILING;
	world_run(&world, 100 * S);
	/* As long as it fails it stays open: without a probe that could be failed. */
	assert_int_equal(world.sim.events, 1);
	assert_int_equal(world.sim.breaker.state, BREAKER_open);
	assert_false(world.sim.event.enforced);
	assert_true(world.sim.decision.shadow);
	world.service = HEALTHY;
	assert_true(world_until(&world, BREAKER_closed, 60 * S));
	assert_int_equal(world.sim.breaker.rule, RULE_recovered);
	assert_false(world.sim.decision.ramp);
	world_run(&world, 60 * S);
	assert_int_equal(world.sim.events, 2);
	assert_int_equal(world.established, 0);
	sim_end(&world.sim);
}

/* --- time, restarts ----------------------------------------------------------------------------------------------------- */

static void test_c101_after_a_stop_it_moves_at_the_next_tick(void **state)
{
	struct breaker_config config = sim_config();
	struct sim sim;

	(void)state;
	sim_begin(&sim, &config);
	assert_false(sim_run(&sim, 200, 1, 5 * S));
	sim_tick_after(&sim, 10 * config.open_cap_ns); /* stopped for 10 open times */
	assert_int_equal(sim.breaker.state, BREAKER_half_open);
	/* Killed while open, started again: the rest of the open time holds, and no more than the cap. */
	breaker_finish(&sim.breaker);
	assert_int_equal(breaker_init(&sim.breaker, &config, 40, sim.input.now_ns), 0);
	breaker_restore(&sim.breaker, BREAKER_open, 3, sim.input.now_ns + 2 * S, sim.input.now_ns);
	sim_tick_after(&sim, 1900 * MS);
	assert_int_equal(sim.breaker.state, BREAKER_open);
	sim_tick_after(&sim, 100 * MS);
	assert_int_equal(sim.breaker.state, BREAKER_half_open);
	assert_int_equal(sim.breaker.generation, 41);
	assert_int_equal(sim.breaker.openings, 3);
	breaker_restore(&sim.breaker, BREAKER_open, 3, UINT64_MAX, sim.input.now_ns);
	sim_tick_after(&sim, config.open_cap_ns);
	assert_int_equal(sim.breaker.state, BREAKER_half_open);
	/* A clock that goes back moves nothing and divides by nothing. */
	sim.input.now_ns -= 50 * S;
	sim_tick_after(&sim, 0);
	assert_int_equal(sim.breaker.state, BREAKER_half_open);
	sim_end(&sim);
}

static void a_reload_keeps_state_and_what_fits(void **state)
{
	struct breaker_config config = sim_config();
	struct sim sim;

	(void)state;
	sim_begin(&sim, &config);
	sim_run(&sim, 200, 0.1, 5 * S);
	config.failure_rate = 3000;
	assert_int_equal(breaker_reconfigure(&sim.breaker, &config, sim.input.now_ns), 0);
	sim_tick(&sim, 1, 0);
	assert_int_equal(sim.breaker.figures.window.outcomes, 1001);
	config.buckets = 20;
	assert_int_equal(breaker_reconfigure(&sim.breaker, &config, sim.input.now_ns), 0);
	sim_tick(&sim, 1, 0);
	assert_int_equal(sim.breaker.figures.window.outcomes, 1);
	breaker_restore(&sim.breaker, BREAKER_open, 9, sim.input.now_ns + 30 * S, sim.input.now_ns);
	config.open_cap_ns = 2 * S;
	assert_int_equal(breaker_reconfigure(&sim.breaker, &config, sim.input.now_ns), 0);
	assert_int_equal(sim.breaker.state, BREAKER_open);
	sim_tick_after(&sim, 2 * S);
	assert_int_equal(sim.breaker.state, BREAKER_half_open);
	sim_end(&sim);
}

/* After a lapse what was seen says nothing; where the machine stood still does. */
static void a_lapse_forgets_what_was_seen(void **state)
{
	struct breaker_config config = sim_config();
	struct sim sim;

	(void)state;
	sim_begin(&sim, &config);
	assert_true(sim_run(&sim, 10, 0.2, 9 * S));
	breaker_forget(&sim.breaker);
	sim_tick(&sim, 0, 1);
	assert_int_equal(sim.breaker.figures.window.outcomes, 1);
	assert_int_equal(sim.breaker.run, 1);
	assert_int_equal(sim.breaker.state, BREAKER_closed);
	assert_int_equal(sim.breaker.generation, 7);
	sim_end(&sim);
}

static void the_decision_names_slots_and_tickets(void **state)
{
	struct breaker_config config = sim_config();
	struct sim sim;

	(void)state;
	begin_half_open(&sim, &config);
	sim.input.known_any = true;
	sim.input.handshake_ns = 10 * MS;
	sim_tick(&sim, 0, 0);
	assert_true(sim.decision.half_open);
	assert_int_equal(sim.decision.probes, 5);
	assert_int_equal(sim.decision.reserved, 2);
	assert_int_equal(sim.decision.ticket_ms, 1000);
	sim.input.known_any = false;
	sim.input.handshake_ns = 700 * MS;
	sim_tick(&sim, 0, 0);
	assert_int_equal(sim.decision.reserved, 0);
	assert_int_equal(sim.decision.ticket_ms, 2100);
	/* Set D and E of the seeds: what is kept for the known must leave enough for the others to close it. */
	for (unsigned int probes = 1; probes <= 16; probes++) {
		for (unsigned int close_after = 1; close_after <= probes; close_after++) {
			sim.breaker.config.probes = probes;
			sim.breaker.config.close_after = close_after;
			sim.input.known_any = true;
			sim_tick(&sim, 0, 0);
			assert_true(sim.decision.reserved <= probes / 2);
			assert_true(sim.decision.probes - sim.decision.reserved >= close_after);
		}
	}
	sim.input.handshake_ns = UINT64_MAX;
	sim_tick(&sim, 0, 0);
	assert_int_equal(sim.decision.ticket_ms, UINT32_MAX);
	sim_end(&sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_state_under_each_rule),
		cmocka_unit_test(openings_by_the_table),
		cmocka_unit_test(one_row_for_a_pair_and_a_rule_that_is_known),
		cmocka_unit_test(test_c80_probes_that_never_report_do_not_hold_it),
		cmocka_unit_test(test_c82_each_end_of_a_probe_in_each_state),
		cmocka_unit_test(test_c83_neutral_probes_do_not_starve_the_recovery),
		cmocka_unit_test(test_c85_probes_of_a_hanging_service_are_bounded),
		cmocka_unit_test(vanishing_clients_do_not_keep_it_half_open),
		cmocka_unit_test(test_c86_late_results_of_another_generation_change_nothing),
		cmocka_unit_test(closing_forgets_what_failed_before),
		cmocka_unit_test(test_c88_each_order_in_each_state),
		cmocka_unit_test(metrics_only_reports_and_enforces_nothing),
		cmocka_unit_test(test_c101_after_a_stop_it_moves_at_the_next_tick),
		cmocka_unit_test(a_reload_keeps_state_and_what_fits),
		cmocka_unit_test(a_lapse_forgets_what_was_seen),
		cmocka_unit_test(the_decision_names_slots_and_tickets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
