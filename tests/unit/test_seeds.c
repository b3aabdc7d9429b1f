// SPDX-License-Identifier: GPL-2.0-only
/* test_seeds: the parameter sets of tests/seeds, loaded as a daemon would and replayed: what each says, happens. */
#include <libgen.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/breaker_sim.h"
#include "user/control/config.h"

static struct config *load_seed(const char *name)
{
	char self[PATH_MAX] = "", path[PATH_MAX];
	struct config *config = NULL;
	struct diag diag = {};

	assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	for (int i = 0; i < 3; i++) /* ROOT/build/unit/test_seeds */
		dirname(self);
	snprintf(path, sizeof(path), "%.4000s/tests/seeds/%s.yaml", self, name);
	if (config_load(path, &config, &diag))
		fail_msg("%s", diag.errors[0]);
	diag_reset(&diag);
	return config;
}

static const struct service_config *service_of(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->service_count; i++) {
		if (!strcmp(config->services[i].name, name))
			return &config->services[i];
	}
	fail_msg("no service %s", name);
	return NULL;
}

/* From half-open back to where this verdict leads. */
static void probe(struct sim *sim, unsigned int succeeded, unsigned int failed)
{
	while (sim->breaker.state == BREAKER_open)
		sim_tick(sim, 0, 0);
	assert_int_equal(sim->breaker.state, BREAKER_half_open);
	sim->input.probes = (struct probe_view){.succeeded = succeeded, .failed = failed};
	sim_tick(sim, 0, 0);
	sim->input.probes = (struct probe_view){0};
}

static void set_a_forty_percent_and_thirty_seconds(void **state)
{
	struct config *config = load_seed("a");
	const struct service_config *web = service_of(config, "web");
	struct sim sim;

	(void)state;
	sim_begin(&sim, &web->breaker);
	assert_true(sim_run(&sim, 200, 0, 60 * S));
	assert_true(sim_run(&sim, 200, 0.2, 120 * S));
	assert_false(sim_run(&sim, 200, 0.6, 3 * S));
	assert_int_equal(sim.event.open_for_ns, 30 * S);
	assert_true(sim.event.enforced);
	probe(&sim, 0, 1);
	assert_int_equal(sim.event.open_for_ns, 30 * S); /* fixed, the second time too */
	assert_int_equal(sim.decision.probes, 5);
	/* Only what is named counts against it. */
	assert_true(web->failures >> SLC_OUT_reset & 1);
	assert_false(web->failures >> SLC_OUT_abandoned & 1);
	assert_false(web->failures >> SLC_OUT_closed_unanswered & 1);
	sim_end(&sim);
	config_free(&config);
}

static void set_b_five_in_a_row_and_one_success(void **state)
{
	struct config *config = load_seed("b");
	struct sim sim;

	(void)state;
	sim_begin(&sim, &service_of(config, "web")->breaker);
	for (int i = 0; i < 4; i++)
		sim_tick(&sim, 0, 1);
	sim_tick(&sim, 1, 0);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(sim.breaker.state, BREAKER_closed);
		sim_tick_after(&sim, 500 * MS);
		sim_tick(&sim, 0, 1);
	}
	assert_int_equal(sim.event.rule, RULE_consecutive);
	assert_int_equal(sim.event.open_for_ns, 60 * S);
	probe(&sim, 1, 0);
	assert_int_equal(sim.breaker.state, BREAKER_closed);
	sim_end(&sim);
	config_free(&config);
}

/* Share `err` of the outcomes failed, at this P95, as long as 10 s see. */
static bool stays(const struct breaker_config *config, double err, uint64_t p95_ns)
{
	struct sim sim;
	bool none;

	sim_begin(&sim, config);
	assert_true(sim_run(&sim, 1000, 0, 15 * S)); /* of a handful, chance makes any share */
	sim.input.has_p95 = true;
	sim.input.p95_ns = p95_ns;
	none = sim_run(&sim, 1000, err, 60 * S);
	assert_true(none || sim.event.rule == RULE_risk);
	sim_end(&sim);
	return none;
}

static void set_c_risk_by_profile(void **state)
{
	const struct {
		const char *name;
		double err_ref;
		uint64_t lat_ref_ms;
	} rows[] = {{"plain", 0.3, 400}, {"api", 0.15, 120}, {"transaction", 0.05, 800}, {"batch", 0.2, 5000}};
	struct config *config = load_seed("c");

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct breaker_config *breaker = &service_of(config, rows[i].name)->breaker;
		const uint64_t slow = rows[i].lat_ref_ms * MS;

		assert_true(stays(breaker, rows[i].err_ref, 10 * MS)); /* errors alone */
		assert_true(stays(breaker, rows[i].err_ref / 2, slow)); /* late alone, errors under the gate */
		assert_false(stays(breaker, rows[i].err_ref * 1.1, slow)); /* both */
	}
	config_free(&config);
}

static void set_c_back_off_and_successes(void **state)
{
	struct config *config = load_seed("c");
	struct sim sim;

	(void)state;
	sim_begin(&sim, &service_of(config, "api")->breaker);
	sim_tick(&sim, 0, 200);
	for (unsigned int n = 0; n < 12; n++) {
		assert_int_equal(sim.event.open_for_ns, n < 9 ? (100 * MS) << n : 30 * S);
		probe(&sim, 2, 1);
	}
	probe(&sim, 2, 0);
	assert_int_equal(sim.breaker.state, BREAKER_half_open);
	probe(&sim, 3, 0);
	assert_int_equal(sim.breaker.state, BREAKER_closed);
	sim_end(&sim);
	config_free(&config);
}

static void set_d_twenty_outcomes_and_half_of_them(void **state)
{
	struct config *config = load_seed("d");
	const struct service_config *web = service_of(config, "web");
	struct breaker_config breaker = web->breaker;

	(void)state;
	assert_int_equal(web->slow_after_ns, 200 * MS);
	assert_true(web->failures >> SLC_OUT_slow & 1);
	breaker.has_consecutive = false; /* its runs are not what is looked at */
	for (unsigned int failures = 9; failures <= 10; failures++) {
		struct sim sim;

		sim_begin(&sim, &breaker);
		sim.input.known_any = true;
		for (unsigned int i = 0; i < 20; i++) {
			sim.sample.cells[i].success = i >= failures;
			sim.sample.cells[i].failure = i < failures;
		}
		sim_tick_after(&sim, TICK);
		assert_int_equal(sim.breaker.rule, failures == 10 ? RULE_long : RULE_none);
		if (failures == 10) {
			assert_int_equal(sim.event.open_for_ns, 30 * S);
			probe(&sim, 0, 0);
			assert_int_equal(sim.decision.probes, 3);
			/* Strangers can close it though the known stay away. */
			assert_true(sim.decision.probes - sim.decision.reserved >= breaker.close_after);
		}
		sim_end(&sim);
	}
	config_free(&config);
}

static void set_e_thirty_seconds(void **state)
{
	struct config *config = load_seed("e");
	struct breaker_config breaker = service_of(config, "web")->breaker;

	(void)state;
	breaker.has_consecutive = false;
	for (unsigned int apart = 20; apart <= 40; apart += 20) {
		struct sim sim;

		sim_begin(&sim, &breaker);
		sim_tick(&sim, 0, 15);
		sim_tick_after(&sim, apart * S);
		sim_tick(&sim, 0, 15);
		assert_int_equal(sim.breaker.rule, apart < 30 ? RULE_long : RULE_none);
		if (apart < 30)
			assert_int_equal(sim.event.open_for_ns, 10 * S);
		sim_end(&sim);
	}
	config_free(&config);
}

/* Of the laws, not of the breaker: without a block it watches and enforces nothing. */
static void set_f_watches_only(void **state)
{
	struct config *config = load_seed("f");
	struct sim sim;

	(void)state;
	for (size_t i = 0; i < config->service_count; i++) {
		sim_begin(&sim, &config->services[i].breaker);
		assert_false(sim_run(&sim, 200, 1, 5 * S));
		assert_false(sim.event.enforced);
		assert_true(sim.decision.shadow);
		sim_end(&sim);
	}
	config_free(&config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(set_a_forty_percent_and_thirty_seconds),
		cmocka_unit_test(set_b_five_in_a_row_and_one_success),
		cmocka_unit_test(set_c_risk_by_profile),
		cmocka_unit_test(set_c_back_off_and_successes),
		cmocka_unit_test(set_d_twenty_outcomes_and_half_of_them),
		cmocka_unit_test(set_e_thirty_seconds),
		cmocka_unit_test(set_f_watches_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
