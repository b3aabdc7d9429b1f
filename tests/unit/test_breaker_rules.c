// SPDX-License-Identifier: GPL-2.0-only
/* test_breaker_rules: each trip rule at its edges, whose failures count, and what chance alone must not do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/breaker_sim.h"
#include "user/decide/breaker_rules.h"

/* Only this rule, of those that can be off. */
static struct breaker_config only(bool consecutive, bool silent)
{
	struct breaker_config config = sim_config();

	config.has_consecutive = consecutive;
	config.has_silent = silent;
	config.formula = RISK_NONE;
	return config;
}

/* --- rates ------------------------------------------------------------------------------------------------------------ */

static void each_rate_at_its_edge(void **state)
{
	const struct {
		const char *text;
		unsigned int success, failure;
		enum breaker_rule rule;
	} rows[] = {
		{"c89 too few for any rate", 0, 19, RULE_none},
		{"c89 just enough, all failed", 0, 20, RULE_long},
		{"long: half of 20", 10, 10, RULE_long},
		{"long: under half", 11, 10, RULE_none},
		{"long: one under the full fast number", 49, 50, RULE_long},
		{"fast: half of 100", 50, 50, RULE_fast},
		{"fast: under half", 51, 49, RULE_none},
		{"c89 no outcome, no rate", 0, 0, RULE_none},
	};
	const struct breaker_config config = only(false, false);

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sim sim;

		sim_begin(&sim, &config);
		for (unsigned int n = 0; n < rows[i].success; n++) /* sources alike: weights change nothing */
			sim.sample.cells[n % 4].success++;
		for (unsigned int n = 0; n < rows[i].failure; n++)
			sim.sample.cells[n % 4].failure++;
		sim_tick_after(&sim, TICK);
		if (sim.breaker.rule != rows[i].rule)
			fail_msg("%s: %s", rows[i].text, breaker_rule_names[sim.breaker.rule]);
		assert_int_equal(sim.breaker.figures.window.has_rate, rows[i].success + rows[i].failure > 0);
		assert_int_equal(sim.breaker.tripped_by, rows[i].rule);
		assert_int_equal(sim.breaker.trips[rows[i].rule], rows[i].rule != RULE_none);
		sim_end(&sim);
	}
}

static void test_c89_small_services_are_judged_too(void **state)
{
	struct breaker_config config = only(true, false);
	struct sim sim;

	(void)state;
	/* Window of 10, 20 %, min 10: ten failures in a row, one a second; the run of five speaks first. */
	config.min_outcomes = 10;
	config.failure_rate = 2000;
	sim_begin(&sim, &config);
	for (int i = 1; i <= 5; i++) {
		sim_tick_after(&sim, 900 * MS);
		assert_int_equal(sim.breaker.state, BREAKER_closed);
		sim_fill(&sim, 0, 1);
		sim_tick_after(&sim, 100 * MS);
	}
	assert_int_equal(sim.breaker.rule, RULE_consecutive);
	sim_end(&sim);
	/* 99 failures a window of 2 s where 100 are asked for: no rate, but no success either. */
	config = only(true, false);
	config.window_ns = 2 * S;
	config.min_outcomes = 100;
	config.fast_within_ns = 2 * S;
	sim_begin(&sim, &config);
	assert_true(sim_run(&sim, 49, 0, 3 * S));
	assert_true(sim_run(&sim, 49, 1, 60 * S)); /* 49/s is too much for an order of outcomes; the rules say so */
	assert_false(sim_run(&sim, 19, 1, 2 * S));
	assert_int_equal(sim.breaker.rule, RULE_consecutive);
	sim_end(&sim);
}

static void test_c91_the_tick_that_rotates_is_counted(void **state)
{
	struct breaker_config config = only(false, false);
	struct sim sim;

	(void)state;
	config.min_outcomes = 2;
	config.failure_rate = 1000;
	config.fast_outcomes = 1000;
	sim_begin(&sim, &config);
	sim.input.now_ns = 1020 * S - TICK; /* buckets are 6 s */
	sim.cells = 1;
	sim_tick_after(&sim, 0);
	sim.input.now_ns -= TICK;
	sim_tick(&sim, 2, 0);
	assert_int_equal(sim.breaker.state, BREAKER_closed);
	sim_tick(&sim, 0, 1); /* first tick of the next bucket */
	assert_int_equal(sim.input.now_ns, 1020 * S);
	assert_int_equal(sim.breaker.rule, RULE_long);
	assert_int_equal(sim.event.figures.window.outcomes, 3);
	sim_end(&sim);
}

static void slow_answers_over_the_window(void **state)
{
	struct breaker_config config = only(false, false);

	(void)state;
	config.has_slow_rate = true;
	config.slow_rate = 8000;
	for (unsigned int slow = 79; slow <= 80; slow++) {
		struct sim sim;

		sim_begin(&sim, &config);
		sim_fill(&sim, 100, 0);
		for (unsigned int i = 0, left = slow; i < SLC_CELLS; i++) {
			sim.sample.cells[i] = (struct cell_counts){.success = i < 25 ? 4 : 0};
			if (i < 20)
				sim.sample.cells[i].slow = left > 4 ? 4 : left, left -= sim.sample.cells[i].slow;
		}
		sim_tick_after(&sim, TICK);
		assert_int_equal(sim.breaker.rule, slow < 80 ? RULE_none : RULE_slow);
		sim_end(&sim);
	}
}

/* --- whose failures --------------------------------------------------------------------------------------------------- */

static void failures_of_few_among_many_open_nothing(void **state)
{
	const struct breaker_config config = sim_config();

	(void)state;
	for (unsigned int bad = 1; bad <= 3; bad++) {
		for (int few = 0; few < 2; few++) {
			struct sim sim;

			sim_begin(&sim, &config);
			sim.cells = 3;
			assert_true(sim_run(&sim, few ? 4 : 100, 0, 60 * S));
			sim.bad_cells = bad;
			/* 3 are active: failures of each are asked for. */
			assert_int_equal(sim_run(&sim, few ? 4 : 100, 0.7, 120 * S), bad < 3);
			sim_end(&sim);
		}
	}
}

/* As far as it tells of what a client cannot cause. */
static void one_source_alone_is_believed(void **state)
{
	const struct breaker_config config = sim_config();
	struct sim sim;

	(void)state;
	sim_begin(&sim, &config);
	sim.cells = 1;
	assert_true(sim_run(&sim, 100, 0, 60 * S));
	assert_false(sim_run(&sim, 100, 1, 2 * S));
	assert_int_equal(sim.breaker.rule, RULE_fast);
	sim_end(&sim);
}

/*
 * One who was answered once asks half a question on each of its connections, at night: nothing that a client can cause
 * alone opens it, by whatever rule. From as many sources as bear each other out it does, and so it does where the
 * operator says that one is enough.
 */
static void few_sources_are_doubted(void **state)
{
	const struct {
		unsigned int cells;
		uint32_t min_sources;
		bool causable, opens;
	} rows[] = {
		{1, 3, true, false}, {2, 3, true, false}, {3, 3, true, true},     {1, 1, true, true},
		{1, 3, false, true}, {2, 3, false, true}, {40, 100, true, false}, {40, 100, false, true},
	};
	const double rates[] = {0.5, 4, 100};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (size_t r = 0; r < sizeof(rates) / sizeof(rates[0]); r++) {
			struct breaker_config config = sim_config();
			struct sim sim;

			config.min_sources = rows[i].min_sources;
			sim_begin(&sim, &config);
			sim.cells = rows[i].cells;
			assert_true(sim_run(&sim, rates[r], 0, 70 * S));
			sim.causable = rows[i].causable;
			sim.input.has_p95 = true;
			sim.input.p95_ns = 10 * S;
			assert_int_equal(sim_run(&sim, rates[r], 1, 600 * S), !rows[i].opens);
			if (!rows[i].opens) {
				assert_int_equal(sim.breaker.figures.run, 0);
				assert_int_equal(sim.breaker.figures.window.failures, 0);
				assert_true(sim.breaker.figures.window.discounted > 0);
			}
			sim_end(&sim);
		}
	}
}

/* What of a few sources' failures is certain counts; of the others none does, and the rate is of those that count. */
static void doubt_leaves_what_is_certain(void **state)
{
	const struct breaker_config config = only(false, false);
	struct sim sim;

	(void)state;
	sim_begin(&sim, &config);
	sim.causable = true;
	sim.sample.cells[0] = (struct cell_counts){.success = 30, .failure = 20};
	sim.sample.cells[1] = (struct cell_counts){.success = 30, .failure = 40, .unproven = 5};
	sim.sample.certain = 15;
	sim.sample.always = 5;
	sim.sample.always_sources = 1;
	sim_tick_after(&sim, TICK);
	assert_int_equal(sim.breaker.figures.window.failures, 20);
	assert_int_equal(sim.breaker.figures.window.outcomes, 80);
	assert_int_equal(sim.breaker.figures.window.discounted, 45 + 5);
	assert_true(fabs(sim.breaker.figures.window.failure_rate - 0.25) < 1e-9);
	assert_int_equal(sim.breaker.figures.fast.failures, 20);
	assert_int_equal(sim.events, 0);
	/* A third source, and all of them count again. */
	sim.sample.cells[2] = (struct cell_counts){.success = 1, .failure = 1};
	sim_tick_after(&sim, TICK);
	assert_int_equal(sim.breaker.figures.window.failures, 66);
	assert_int_equal(sim.event.rule, RULE_fast);
	sim_end(&sim);
}

/* Strangers' failures: only with those of known-good sources; a refused connection whoever caused it. */
static void strangers_open_it_in_company_only(void **state)
{
	const struct breaker_config config = sim_config();

	(void)state;
	for (unsigned int known = 0; known <= WINDOW_KNOWN_FAILURES; known++) {
		bool enough = known == WINDOW_KNOWN_FAILURES; /* fewer may be chance */
		struct sim sim;

		sim_begin(&sim, &config);
		sim_fill(&sim, 60, 0);
		for (unsigned int i = 40; i < 240; i++)
			sim.sample.cells[i].unproven = 1;
		sim.sample.known_failure = known;
		sim_tick_after(&sim, TICK);
		assert_int_equal(sim.breaker.rule, enough ? RULE_fast : RULE_none);
		for (int tick = 0; tick < 100 && !enough; tick++) { /* nor in a row, at low traffic */
			sim.sample.cells[tick % 200].unproven = 1;
			sim_tick_after(&sim, TICK);
		}
		assert_int_equal(sim.breaker.run, 0);
		sim_end(&sim);
	}
	for (unsigned int sources = 2; sources <= 3; sources++) {
		struct sim sim;

		sim_begin(&sim, &config);
		sim_fill(&sim, 3, 0);
		sim.sample.always = 30;
		sim.sample.always_sources = sources;
		sim_tick_after(&sim, TICK);
		assert_int_equal(sim.breaker.rule, sources < 3 ? RULE_none : RULE_long);
		sim_end(&sim);
	}
}

/* Two minutes of a thousand failing strangers a second beside known-good sources of whose turns one in a hundred fails. */
static void strangers_and_natural_failures_never_open_it(void **state)
{
	const struct breaker_config config = sim_config();

	(void)state;
	for (unsigned int per_tick = 1; per_tick <= 25; per_tick += 12) {
		struct sim sim;

		sim_begin(&sim, &config);
		for (int tick = 0; tick < 1200; tick++) {
			unsigned int failed = binomial(per_tick, 0.01);

			sim_fill(&sim, per_tick - failed, failed);
			sim.sample.known_success = per_tick - failed;
			sim.sample.known_failure = failed;
			for (unsigned int i = 0; i < 100; i++)
				sim.sample.cells[30 + dice(226)].unproven++;
			sim_tick_after(&sim, TICK);
			assert_int_equal(sim.breaker.state, BREAKER_closed);
		}
		sim_end(&sim);
	}
}

/* Known-good sources fail now and then, so that some failures of strangers count: they make no row at low traffic. */
static void strangers_make_no_row(void **state)
{
	const struct breaker_config config = sim_config();
	struct sim sim;

	(void)state;
	sim_begin(&sim, &config);
	for (int tick = 0; tick < 600; tick++) {
		sim.sample.known_failure = tick % 50 == 0;
		sim.sample.known_success = tick % 10 == 5;
		sim_tick(&sim, 1, tick % 50 == 0);
	}
	sim.sample.cells[200].unproven = sim.sample.cells[201].unproven = sim.sample.cells[202].unproven = 5;
	sim_tick(&sim, 0, 0);
	assert_int_equal(sim.breaker.figures.window.discounted, 0); /* they count in the window */
	assert_int_equal(sim.breaker.run, 0);
	assert_int_equal(sim.breaker.state, BREAKER_closed);
	sim_end(&sim);
}

/* --- in a row ---------------------------------------------------------------------------------------------------------- */

static void five_in_a_row_at_low_traffic(void **state)
{
	const struct breaker_config config = only(true, false);
	struct sim sim;

	(void)state;
	sim_begin(&sim, &config);
	for (int round = 0; round < 2; round++) { /* a success ends the run, also in the tick of a failure */
		sim_tick(&sim, 0, 4);
		sim_tick(&sim, 1, 3);
		assert_int_equal(sim.breaker.run, 0);
		sim_tick_after(&sim, 61 * S);
	}
	sim_tick(&sim, 0, 4);
	assert_int_equal(sim.breaker.state, BREAKER_closed);
	sim_end(&sim);
	sim_begin(&sim, &config);
	sim_tick(&sim, 1, 0);
	sim_tick(&sim, 0, 5);
	assert_int_equal(sim.breaker.rule, RULE_consecutive);
	sim_end(&sim);
	/* From 20 in the last second on, counts have no order that could be a row. */
	sim_begin(&sim, &config);
	sim_tick(&sim, 14, 0);
	sim_tick(&sim, 0, 6);
	assert_int_equal(sim.breaker.state, BREAKER_closed);
	assert_int_equal(sim.breaker.last_second_outcomes, 20);
	sim_tick_after(&sim, 1 * S); /* they are gone, and the run is as it was */
	assert_int_equal(sim.breaker.rule, RULE_consecutive);
	sim_end(&sim);
}

/* A service that never fails: five say it. One where a fifth fails: five are chance, and a dozen are not. */
static void how_many_in_a_row(void **state)
{
	struct breaker_config config = only(true, false);
	struct sim sim;

	(void)state;
	sim_begin(&sim, &config);
	assert_int_equal(breaker_run_needed(&sim.breaker), 5);
	sim_run(&sim, 100, 0, 60 * S);
	assert_int_equal(breaker_run_needed(&sim.breaker), 5);
	sim.breaker.past_failures = 1.28; /* 1 % of 128 */
	assert_in_range(breaker_run_needed(&sim.breaker), 5, 6);
	sim.breaker.past_failures = 25.6;
	assert_in_range(breaker_run_needed(&sim.breaker), 11, 15);
	assert_true(pow(0.2, breaker_run_needed(&sim.breaker)) < 1e-7);
	sim.breaker.past_failures = 64;
	assert_int_equal(breaker_run_needed(&sim.breaker), 20);
	sim.breaker.past_outcomes = 19;
	assert_int_equal(breaker_run_needed(&sim.breaker), 5);
	sim.breaker.config.consecutive = 40;
	sim.breaker.past_outcomes = 128;
	assert_int_equal(breaker_run_needed(&sim.breaker), 40);
	sim_end(&sim);
}

/* 20 % failures at a few outcomes a second, for ten minutes, over 100 seeds; and then a real outage is found. */
static void a_fifth_failing_at_low_traffic_is_no_outage(void **state)
{
	const struct breaker_config config = sim_config();
	const double rates[] = {2, 15};

	(void)state;
	for (size_t r = 0; r < sizeof(rates) / sizeof(rates[0]); r++) {
		for (unsigned int n = 1; n <= 100; n++) {
			struct sim sim;

			seed = n * 0x9e3779b97f4a7c15ULL;
			sim_begin(&sim, &config);
			for (int i = 0; i < 40; i++) /* it has been so before: each fifth */
				sim_tick(&sim, i % 5 != 0, i % 5 == 0);
			if (!sim_run(&sim, rates[r], 0.2, 600 * S))
				fail_msg("seed %u at %.1f/s: %s", n, rates[r], breaker_rule_names[sim.event.rule]);
			assert_false(sim_run(&sim, rates[r], 1, (uint64_t)(20 / rates[r] + 2) * S));
			sim_end(&sim);
		}
	}
}

/*
 * A sixth gets no answer, which shows when its time is over: the answers beside came before that. Traffic that ends then
 * looks like a row of failures, and is none; one that goes on without answers is.
 */
static void unanswered_beside_answers_are_no_run(void **state)
{
	const struct breaker_config config = only(true, false);

	(void)state;
	for (int hangs = 0; hangs < 2; hangs++) {
		uint64_t start;
		struct sim sim;

		sim_begin(&sim, &config);
		sim.causable = true;
		start = sim.input.now_ns;
		for (int n = 1; n < 200; n++) {
			const uint64_t due = config.timeout_ns / TICK; /* ticks after the request */

			if (n < 50) {
				sim_fill(&sim, 1, 0);
				sim.input.has_last_answer = true;
				sim.input.last_answer_ns = start + n * TICK;
			}
			if (n > (int)due && n <= (int)due + 50 && n % 5 == 0)
				sim.sample.cells[n % 30].failure = sim.sample.unanswered = 1;
			if (hangs && n > (int)due + 50 && n % 5 == 0)
				sim.sample.cells[n % 30].failure = sim.sample.unanswered = 1;
			sim_tick_after(&sim, TICK);
		}
		assert_int_equal(sim.breaker.tripped_by, hangs ? RULE_consecutive : RULE_none);
		sim_end(&sim);
	}
}

/* --- silence ----------------------------------------------------------------------------------------------------------- */

static void silence_is_counted_from_the_later_of_both(void **state)
{
	const struct breaker_config config = only(false, true);
	struct sim sim;

	(void)state;
	/* Idle for an hour after the last answer; then 20 are owed: silence begins with them. */
	sim_begin(&sim, &config);
	sim.input.has_last_answer = true;
	sim.input.last_answer_ns = sim.input.now_ns;
	sim_tick_after(&sim, 3600 * S);
	sim.input.owed = 20;
	sim.input.owed_proven = 3;
	sim_tick(&sim, 0, 0);
	assert_int_equal(sim.breaker.figures.silence_ns, 0);
	sim_tick_after(&sim, 10 * S - 1);
	assert_int_equal(sim.breaker.state, BREAKER_closed);
	/* One answer, and it begins again. */
	sim.input.last_answer_ns = sim.input.now_ns;
	sim.input.owed = 19;
	sim_tick_after(&sim, 10 * S - 1);
	assert_int_equal(sim.breaker.state, BREAKER_closed);
	sim_tick_after(&sim, 1);
	assert_int_equal(sim.breaker.rule, RULE_silent);
	assert_int_equal(sim.event.figures.silence_ns, 10 * S);
	assert_int_equal(sim.event.figures.owed, 19);
	sim_end(&sim);
	/* Too few owed, for however long. */
	sim_begin(&sim, &config);
	sim.input.owed = 19;
	sim.input.owed_proven = 19;
	for (int i = 0; i < 100; i++)
		sim_tick_after(&sim, 10 * S);
	assert_int_equal(sim.breaker.state, BREAKER_closed);
	assert_false(sim.breaker.figures.has_silence);
	sim_end(&sim);
}

/* Who must wait for it: a service that answers nobody has failed, one that is asked nothing has not. */
static void silence_is_borne_out_by_proven_sources(void **state)
{
	const struct {
		const char *text;
		unsigned int active; /* sources with outcomes in the window */
		bool answered;
		unsigned int proven, unproven;
		uint32_t min_sources;
		enum breaker_rule rule;
	} rows[] = {
		{"slow loris alone, one source", 0, true, 0, 1, 3, RULE_none},
		{"slow loris alone, all sources there are", 0, true, 0, 64, 3, RULE_none},
		{"slow loris beside sources that are done", 30, true, 0, 64, 3, RULE_none},
		{"two of many wait", 30, true, 2, 64, 3, RULE_none},
		{"three of many wait", 30, true, 3, 0, 3, RULE_silent},
		{"the one who is there waits", 1, true, 1, 0, 3, RULE_silent},
		{"nobody answered so far, and all wait", 0, false, 0, 3, 3, RULE_silent},
		{"nobody answered so far, two wait", 0, false, 0, 2, 3, RULE_none},
		{"nobody answered so far, one is enough", 0, false, 0, 1, 1, RULE_silent},
		{"more sources asked for than can be told apart", 200, true, 40, 0, 200, RULE_silent},
		{"more sources asked for, a few wait", 200, true, 20, 0, 200, RULE_none},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct breaker_config config = only(false, true);
		struct sim sim;

		config.min_sources = rows[i].min_sources;
		sim_begin(&sim, &config);
		sim.input.has_last_answer = rows[i].answered;
		sim.input.last_answer_ns = rows[i].answered ? sim.input.now_ns : 0;
		for (unsigned int n = 0; n < rows[i].active; n++)
			sim.sample.cells[n].success = 10;
		sim.input.owed = 25;
		sim.input.owed_proven = rows[i].proven;
		sim.input.owed_unproven = rows[i].unproven;
		for (int n = 0; n <= 101; n++)
			sim_tick(&sim, 0, 0);
		if (sim.breaker.tripped_by != rows[i].rule)
			fail_msg("%s: %s", rows[i].text, breaker_rule_names[sim.breaker.tripped_by]);
		sim_end(&sim);
	}
}

/*
 * Ten times overloaded an event loop answers nobody who is still there, and works on for those who have left; then it hangs.
 * Without an overload `working` is not said where nobody gets an answer (test_pressure).
 */
static void overload_without_answers_is_no_silence(void **state)
{
	const struct breaker_config config = sim_config();
	struct sim sim;

	(void)state;
	sim_begin(&sim, &config);
	sim.input.has_last_answer = true;
	sim.input.last_answer_ns = sim.input.now_ns;
	assert_true(sim_run(&sim, 200, 0, 60 * S));
	sim.input.owed_proven = 30;
	for (uint64_t at = 0; at < 600 * S; at += TICK) {
		sim.input.owed = 2000 + dice(1000);
		sim.input.working = at % (2 * S) == 0 || dice(10) > 0;
		sim.sample.pressed = 100;
		sim_tick(&sim, 0, 0);
		assert_int_equal(sim.events, 0);
	}
	for (uint64_t at = 0; at < 1 * S; at += TICK) /* pressure looks at a second */
		sim_tick(&sim, 0, 0);
	sim.input.working = false;
	for (uint64_t at = 0; at < config.silent_ns - TICK; at += TICK)
		sim_tick(&sim, 0, 0);
	assert_int_equal(sim.events, 0);
	sim_tick(&sim, 0, 0);
	assert_int_equal(sim.event.rule, RULE_silent);
	sim_end(&sim);
}

/* A night of it: turns come and are given up on, nobody else is there. */
static void c80_a_night_of_slow_loris_never_opens_it(void **state)
{
	const struct breaker_config config = sim_config();
	struct sim sim;

	(void)state;
	sim_begin(&sim, &config);
	sim.input.has_last_answer = true;
	sim.input.last_answer_ns = sim.input.now_ns;
	assert_true(sim_run(&sim, 50, 0, 60 * S));
	for (uint64_t at = 0; at < 10 * 3600 * S; at += TICK) {
		sim.input.owed = 20 + dice(500);
		sim.input.owed_unproven = 1 + dice(64);
		for (unsigned int n = dice(20); n > 0; n--) /* their time is over */
			sim.sample.cells[dice(SLC_CELLS)].unproven++;
		sim_tick(&sim, 0, 0);
	}
	assert_int_equal(sim.events, 0);
	/* It hangs for those who come in the morning. */
	sim.input.owed_proven = 3;
	sim_tick(&sim, 0, 0);
	assert_int_equal(sim.event.rule, RULE_silent);
	sim_end(&sim);
}

/* --- risk -------------------------------------------------------------------------------------------------------------- */

static void risk_by_hand(void **state)
{
	const struct {
		const char *text;
		enum risk_formula formula;
		double err;
		uint64_t p95_ms, learned_ms; /* 0: none learned */
		double latency, risk;
	} rows[] = {
		{"log: at the baseline latency weighs nothing", RISK_LOG, 0.3, 200, 0, 0, 0.6},
		{"log: below it neither", RISK_LOG, 0.3, 5, 0, 0, 0.6},
		{"log: all at lat_ref", RISK_LOG, 0.3, 400, 0, 1, 1.0},
		{"log: no more beyond", RISK_LOG, 0.6, 4000, 0, 1, 1.0},
		{"log: half way in octaves", RISK_LOG, 0.3, 283, 0, 0.5, 0.8},
		{"log: errors in part", RISK_LOG, 0.15, 400, 0, 1, 0.7},
		{"log: learned baseline", RISK_LOG, 0.3, 200, 100, 0.5, 0.8},
		{"log: a learned one counts up to half of lat_ref", RISK_LOG, 0.3, 400, 390, 1, 1.0},
		{"published: all at the baseline", RISK_PUBLISHED, 0.3, 200, 0, 1, 1.0},
		{"published: half of it", RISK_PUBLISHED, 0.3, 100, 0, 0.585, 0.834},
	};
	struct breaker_config config = sim_config();

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct tally tally = {.has_rate = true, .failure_rate = rows[i].err, .outcomes = 100};
		struct breaker_figures figures = {0};

		config.formula = rows[i].formula;
		assert_true(breaker_risk(&config, rows[i].learned_ms > 0, rows[i].learned_ms * MS, &tally, true,
					 rows[i].p95_ms * MS, &figures));
		if (fabs(figures.risk_latency - rows[i].latency) > 0.002 || fabs(figures.risk - rows[i].risk) > 0.002)
			fail_msg("%s: latency %.3f risk %.3f", rows[i].text, figures.risk_latency, figures.risk);
		assert_false(breaker_risk(&config, false, 0, &tally, false, 0, &figures));
		assert_false(breaker_risk(&config, false, 0, &(struct tally){0}, true, S, &figures));
	}
	config.formula = RISK_NONE;
	assert_false(breaker_risk(&config, false, 0, &(struct tally){.has_rate = true}, true, S,
				  &(struct breaker_figures){0}));
}

/* Profile api: lat_ref below the configured baseline must not turn the logarithm round. */
static void risk_of_a_profile_with_a_low_lat_ref(void **state)
{
	struct breaker_config config = sim_config();
	const struct tally tally = {.has_rate = true, .failure_rate = 0.15, .outcomes = 100};
	struct breaker_figures figures = {0};

	(void)state;
	config.lat_ref_ns = 120 * MS;
	config.err_ref = 1500;
	assert_true(breaker_risk(&config, false, 0, &tally, true, 30 * MS, &figures));
	assert_true(figures.risk_latency == 0);
	assert_true(breaker_risk(&config, false, 0, &tally, true, 119 * MS, &figures));
	assert_true(figures.risk_latency > 0.98 && figures.risk_latency < 1);
}

static void risk_trips_above_its_gate_only(void **state)
{
	const struct breaker_config config = sim_config();

	(void)state;
	for (unsigned int percent = 24; percent <= 27; percent++) {
		struct sim sim;

		sim_begin(&sim, &config);
		sim.input.has_p95 = true;
		sim.input.p95_ns = 600 * MS;
		for (unsigned int i = 0; i < 100; i++) {
			sim.sample.cells[i].success = i >= percent;
			sim.sample.cells[i].failure = i < percent;
		}
		sim_tick_after(&sim, TICK);
		assert_int_equal(sim.breaker.rule, percent > 25 ? RULE_risk : RULE_none);
		sim_end(&sim);
	}
	for (unsigned int n = 19; n <= 20; n++) { /* not of a handful */
		struct sim sim;

		sim_begin(&sim, &config);
		sim.input.has_p95 = true;
		sim.input.p95_ns = 600 * MS;
		for (unsigned int i = 0; i < n; i++) {
			sim.sample.cells[i].success = i >= 7;
			sim.sample.cells[i].failure = i < 7;
		}
		sim_tick_after(&sim, TICK);
		assert_int_equal(sim.breaker.rule, n == 20 ? RULE_risk : RULE_none);
		sim_end(&sim);
	}
}

/* --- flapping ---------------------------------------------------------------------------------------------------------- */

/* Failures around the threshold, a tick good and a tick bad: transitions a minute stay bounded by the growing wait. */
static void test_c100_noise_around_the_threshold_does_not_flap(void **state)
{
	const struct breaker_config config = sim_config();
	struct world world;
	unsigned int events;

	(void)state;
	/* One bad tick of 20 in healthy traffic, and a gap of 500 ms: nothing. */
	world_begin(&world, &config);
	world_run(&world, 60 * S);
	for (int i = 0; i < 50; i++) {
		world.service = FAILING;
		world_tick(&world);
		world.service = HEALTHY;
		world_run(&world, 1500 * MS);
		world.per_s = 0;
		world_run(&world, 500 * MS);
		world.per_s = 200;
	}
	assert_int_equal(world.sim.events, 0);
	/* 2 s bad, 2 s good, for 10 minutes: it opens, and opens for longer each time it was wrong to close. */
	for (int i = 0; i < 150; i++) {
		world.service = FAILING;
		world_run(&world, 2 * S);
		world.service = HEALTHY;
		world_run(&world, 2 * S);
	}
	events = world.sim.events;
	assert_in_range(events, 3, 10 * 12); /* closed, open, half-open and back: 3 a turn, 4 turns a minute at most */
	sim_end(&world.sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_rate_at_its_edge),
		cmocka_unit_test(test_c89_small_services_are_judged_too),
		cmocka_unit_test(test_c91_the_tick_that_rotates_is_counted),
		cmocka_unit_test(slow_answers_over_the_window),
		cmocka_unit_test(failures_of_few_among_many_open_nothing),
		cmocka_unit_test(one_source_alone_is_believed),
		cmocka_unit_test(few_sources_are_doubted),
		cmocka_unit_test(doubt_leaves_what_is_certain),
		cmocka_unit_test(strangers_open_it_in_company_only),
		cmocka_unit_test(strangers_and_natural_failures_never_open_it),
		cmocka_unit_test(strangers_make_no_row),
		cmocka_unit_test(five_in_a_row_at_low_traffic),
		cmocka_unit_test(how_many_in_a_row),
		cmocka_unit_test(a_fifth_failing_at_low_traffic_is_no_outage),
		cmocka_unit_test(unanswered_beside_answers_are_no_run),
		cmocka_unit_test(silence_is_counted_from_the_later_of_both),
		cmocka_unit_test(silence_is_borne_out_by_proven_sources),
		cmocka_unit_test(overload_without_answers_is_no_silence),
		cmocka_unit_test(c80_a_night_of_slow_loris_never_opens_it),
		cmocka_unit_test(risk_by_hand),
		cmocka_unit_test(risk_of_a_profile_with_a_low_lat_ref),
		cmocka_unit_test(risk_trips_above_its_gate_only),
		cmocka_unit_test(test_c100_noise_around_the_threshold_does_not_flap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
