// SPDX-License-Identifier: GPL-2.0-only
/*
 * Keys of breaker, turns and outcomes: what is stored with and without them, what follows from what, what is refused,
 * what is advised, and the parameter sets of tests/seeds, value by value.
 */
#include "tests/unit/config_text.h"

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MS 1000000ULL
#define S (1000 * MS)
#define FAILS(kind) (1u << SLC_OUT_##kind)

/* --- what is stored --------------------------------------------------------------------------------------------- */

static void complete_without_a_block(void **state)
{
	struct diag diag = {};
	struct config *config = parse_good(HEAD, &diag);
	const struct service_config *web = &config->services[0];
	const struct breaker_config *breaker = &web->breaker;

	(void)state;
	assert_false(web->has_breaker);
	assert_false(breaker->enforce);
	assert_int_equal(web->profile, PROFILE_NONE);
	assert_int_equal(web->depends_count, 0);
	assert_int_equal(web->turns, SLC_TURNS_auto);
	assert_int_equal(web->http_code_count, 0);
	assert_int_equal(web->slow_after_ns, 400 * MS);
	assert_int_equal(web->timeout_ns, 5 * S);
	assert_false(web->slow_is_failure);
	assert_int_equal(web->failures, SLC_FAILURES_DEFAULT);
	assert_int_equal(breaker->window_ns, 60 * S);
	assert_int_equal(breaker->buckets, 10);
	assert_int_equal(breaker->min_outcomes, 20);
	assert_int_equal(breaker->min_sources, 3);
	assert_int_equal(breaker->failure_rate, 5000);
	assert_int_equal(breaker->fast_outcomes, 100);
	assert_int_equal(breaker->fast_within_ns, 10 * S);
	assert_true(breaker->has_consecutive);
	assert_int_equal(breaker->consecutive, 5);
	assert_false(breaker->has_slow_rate);
	assert_true(breaker->has_silent);
	assert_int_equal(breaker->silent_ns, 10 * S);
	assert_int_equal(breaker->formula, RISK_LOG);
	assert_int_equal(breaker->err_ref, 3000);
	assert_int_equal(breaker->base_ns, 200 * MS);
	assert_int_equal(breaker->lat_ref_ns, 400 * MS);
	assert_int_equal(breaker->risk_weights[0], 600);
	assert_int_equal(breaker->risk_weights[1], 400);
	assert_int_equal(breaker->open_at, 800);
	assert_int_equal(breaker->open_base_ns, S);
	assert_int_equal(breaker->open_cap_ns, 30 * S);
	assert_int_equal(breaker->jitter, JITTER_FULL);
	assert_int_equal(breaker->probes, 5);
	assert_int_equal(breaker->close_after, 3);
	assert_false(breaker->dyed);
	assert_int_equal(breaker->max_half_open_ns, 30 * S);
	assert_int_equal(breaker->ramp_from, 1000);
	assert_int_equal(breaker->ramp_step, 1000);
	assert_int_equal(breaker->ramp_every_ns, S);
	for (int i = 0; i < 4; i++)
		assert_int_equal(breaker->health_weights[i], 400 - 100 * i);
	assert_int_equal(breaker->health_gate, 8500);
	assert_int_equal(breaker->slow_after_ns, 400 * MS);
	assert_int_equal(breaker->timeout_ns, 5 * S);
	assert_int_equal(config->hold_ns, 30 * S);
	assert_int_equal(config->dscp_trust_count, 0);
	assert_false(config->interfaces[0].dscp_trust);
	assert_int_equal(diag.warning_count, 0);
	config_free(&config);
}

static const char everything[] =
	"interfaces: [{name: eth0, dscp_trust: true}]\n"
	"failsafe: {hold: 7s}\n"
	"dscp_trust: [192.0.2.0/24, \"2001:db8::/32\"]\n"
	"services:\n"
	"  - name: web\n"
	"    listen: [\"192.0.2.1:80\"]\n"
	"    depends_on: [db, api]\n"
	"    breaker: {mode: metrics, window: 30s, buckets: 6, min_outcomes: 21, min_sources: 4, failure_rate: 45.5%,\n"
	"      fast: {outcomes: 50, within: 100ms}, consecutive: none, slow_rate: 70%, silent: 4s,\n"
	"      failures: [unanswered, http_5xx, slow],\n"
	"      risk: {formula: none, err_ref: 31%, base: 150ms, lat_ref: 600ms, weights: [0.333, 0.666], open_at: "
	"0.9},\n"
	"      open: {base: 3s, cap: 40s, jitter: 15%}, probes: 16, close_after: 16, probe: dyed, max_half_open: 9s,\n"
	"      ramp: {from: 20%, step: 5%, every: 2s}, health: {weights: [0.1, 0.2, 0.3, 0.4], gate: 80%}}\n"
	"    turns: request-response\n"
	"    http: {status: [500, 502, 599]}\n"
	"    slow_after: 700ms\n"
	"    timeout: 4s\n"
	"  - {name: api, listen: [\"192.0.2.1:81\"], profile: transaction, breaker: {silent: none}, slow_is: failure}\n"
	"  - {name: db, listen: [\"192.0.2.1:82\"], turns: server-first, breaker: {failures: reset}}\n";

static void everything_said_is_stored(void **state)
{
	struct diag diag = {};
	struct config *config = parse_good(everything, &diag);
	const struct service_config *web = &config->services[0], *api = &config->services[1];
	const struct breaker_config *breaker = &web->breaker;

	(void)state;
	assert_true(web->has_breaker);
	assert_false(breaker->enforce);
	assert_int_equal(web->depends_count, 2);
	assert_int_equal(web->depends_on[0], 2);
	assert_int_equal(web->depends_on[1], 1);
	assert_int_equal(web->turns, SLC_TURNS_request_response);
	assert_int_equal(web->http_code_count, 3);
	assert_memory_equal(web->http_codes, ((uint16_t[]){500, 502, 599}), 3 * sizeof(uint16_t));
	assert_int_equal(web->slow_after_ns, 700 * MS);
	assert_int_equal(web->timeout_ns, 4 * S);
	assert_true(web->slow_is_failure); /* by the list */
	assert_int_equal(web->failures, FAILS(unanswered) | FAILS(http_5xx) | FAILS(slow));
	assert_int_equal(breaker->window_ns, 30 * S);
	assert_int_equal(breaker->buckets, 6);
	assert_int_equal(breaker->min_outcomes, 21);
	assert_int_equal(breaker->min_sources, 4);
	assert_int_equal(breaker->failure_rate, 4550);
	assert_int_equal(breaker->fast_outcomes, 50);
	assert_int_equal(breaker->fast_within_ns, 100 * MS);
	assert_false(breaker->has_consecutive);
	assert_true(breaker->has_slow_rate);
	assert_int_equal(breaker->slow_rate, 7000);
	assert_true(breaker->has_silent);
	assert_int_equal(breaker->silent_ns, 4 * S);
	assert_int_equal(breaker->formula, RISK_NONE);
	assert_int_equal(breaker->err_ref, 3100);
	assert_int_equal(breaker->base_ns, 150 * MS);
	assert_int_equal(breaker->lat_ref_ns, 600 * MS);
	assert_int_equal(breaker->risk_weights[0], 333);
	assert_int_equal(breaker->risk_weights[1], 666);
	assert_int_equal(breaker->open_at, 900);
	assert_int_equal(breaker->open_base_ns, 3 * S);
	assert_int_equal(breaker->open_cap_ns, 40 * S);
	assert_int_equal(breaker->jitter, JITTER_PART);
	assert_int_equal(breaker->jitter_part, 1500);
	assert_int_equal(breaker->probes, 16);
	assert_int_equal(breaker->close_after, 16);
	assert_true(breaker->dyed);
	assert_int_equal(breaker->max_half_open_ns, 9 * S);
	assert_int_equal(breaker->ramp_from, 2000);
	assert_int_equal(breaker->ramp_step, 500);
	assert_int_equal(breaker->ramp_every_ns, 2 * S);
	for (int i = 0; i < 4; i++)
		assert_int_equal(breaker->health_weights[i], 100 + 100 * i);
	assert_int_equal(breaker->health_gate, 8000);
	assert_int_equal(breaker->slow_after_ns, 700 * MS);
	assert_int_equal(breaker->timeout_ns, 4 * S);

	assert_true(api->has_breaker);
	assert_true(api->breaker.enforce);
	assert_int_equal(api->profile, PROFILE_TRANSACTION);
	assert_false(api->breaker.has_silent);
	assert_int_equal(api->failures, SLC_FAILURES_DEFAULT | FAILS(slow));
	assert_int_equal(config->services[2].turns, SLC_TURNS_server_first);
	assert_int_equal(config->services[2].failures, FAILS(reset));
	assert_int_equal(config->hold_ns, 7 * S);
	assert_true(config->interfaces[0].dscp_trust);
	assert_int_equal(config->dscp_trust_count, 2);
	assert_int_equal(config->dscp_trust[0].prefix, 120);
	assert_int_equal(config->dscp_trust[1].prefix, 32);
	config_free(&config);
	diag_reset(&diag);
}

/* --- what follows from what ------------------------------------------------------------------------------------- */

static void automatic_values_follow_from_others(void **state)
{
	static const struct {
		const char *text;
		uint64_t silent_ns, max_half_open_ns, slow_after_ns, base_ns;
	} rows[] = {
		{"", 10 * S, 30 * S, 400 * MS, 200 * MS},
		{"    timeout: 2s\n", 5 * S, 30 * S, 400 * MS, 200 * MS},
		{"    timeout: 60s\n", 120 * S, 120 * S, 400 * MS, 200 * MS},
		{"    timeout: 2501ms\n", 5002 * MS, 30 * S, 400 * MS, 200 * MS},
		{"    timeout: 20s\n    breaker: {open: {cap: 39s}}\n", 40 * S, 40 * S, 400 * MS, 200 * MS},
		{"    timeout: 20s\n    breaker: {open: {cap: 41s}}\n", 40 * S, 41 * S, 400 * MS, 200 * MS},
		{"    breaker: {risk: {lat_ref: 100ms}}\n", 10 * S, 30 * S, 100 * MS, 50 * MS},
		{"    breaker: {risk: {lat_ref: 2s}}\n", 10 * S, 30 * S, 2 * S, 200 * MS},
		{"    breaker: {risk: {lat_ref: 2s}}\n    slow_after: 1s\n", 10 * S, 30 * S, S, 200 * MS},
		{"    breaker: {risk: {lat_ref: 100ms, base: 99ms}}\n", 10 * S, 30 * S, 100 * MS, 99 * MS},
		{"    profile: api\n", 6 * S, 30 * S, 120 * MS, 60 * MS},
		{"    profile: transaction\n", 20 * S, 30 * S, 800 * MS, 200 * MS},
		{"    profile: batch\n", 120 * S, 120 * S, 5 * S, 200 * MS},
		{"    profile: batch\n    timeout: 8s\n", 16 * S, 30 * S, 5 * S, 200 * MS},
		{"    breaker: {silent: 77s, max_half_open: 88s}\n", 77 * S, 88 * S, 400 * MS, 200 * MS},
	};
	char text[512];

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct diag diag = {};

		snprintf(text, sizeof(text), HEAD "%s", rows[i].text);
		struct config *config = parse_good(text, &diag);
		const struct service_config *web = &config->services[0];
		assert_true(web->breaker.has_silent);
		assert_int_equal(web->breaker.silent_ns, rows[i].silent_ns);
		assert_int_equal(web->breaker.max_half_open_ns, rows[i].max_half_open_ns);
		assert_int_equal(web->slow_after_ns, rows[i].slow_after_ns);
		assert_int_equal(web->breaker.base_ns, rows[i].base_ns);
		config_free(&config);
		diag_reset(&diag);
	}
}

static void profiles_change_defaults_only(void **state)
{
	static const struct {
		const char *name;
		uint16_t err_ref;
		uint64_t lat_ref_ns, timeout_ns;
		uint32_t weights[2];
	} rows[] = {
		{"none", 3000, 400 * MS, 5 * S, {600, 400}},
		{"api", 1500, 120 * MS, 3 * S, {700, 300}},
		{"transaction", 500, 800 * MS, 10 * S, {400, 600}},
		{"batch", 2000, 5 * S, 60 * S, {500, 500}},
	};
	char text[512];

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct diag diag = {};

		snprintf(text, sizeof(text), HEAD "    profile: %s\n" SECOND "    profile: %s\n    timeout: 7s\n",
			 rows[i].name, rows[i].name);
		struct config *config = parse_good(text, &diag);
		const struct service_config *web = &config->services[0];
		assert_int_equal(web->profile, i);
		assert_int_equal(web->breaker.err_ref, rows[i].err_ref);
		assert_int_equal(web->breaker.lat_ref_ns, rows[i].lat_ref_ns);
		assert_int_equal(web->slow_after_ns, rows[i].lat_ref_ns);
		assert_int_equal(web->timeout_ns, rows[i].timeout_ns);
		assert_memory_equal(web->breaker.risk_weights, rows[i].weights, sizeof(rows[i].weights));
		assert_int_equal(config->services[1].timeout_ns, 7 * S);
		assert_int_equal(config->services[1].breaker.err_ref, rows[i].err_ref);
		config_free(&config);
		diag_reset(&diag);
	}
}

static void effective_says_where_each_value_comes_from(void **state)
{
	static const struct {
		const char *key, *value, *origin;
	} rows[] = {
		{"services[web].timeout", "3s", "profile api"},
		{"services[web].breaker.risk.err_ref", "15%", "profile api"},
		{"services[web].breaker.risk.weights", "[0.7, 0.3]", "profile api"},
		{"services[web].slow_after", "120ms", "profile api"},
		{"services[web].breaker.risk.base", "60ms", "auto: half of breaker.risk.lat_ref"},
		{"services[web].breaker.silent", "6s", "auto: max(2 x timeout, 5s)"},
		{"services[web].breaker.max_half_open", "30s", "auto: max(breaker.open.cap, 2 x timeout)"},
		{"services[web].breaker.mode", "metrics", "default"},
		{"services[web].breaker.failures",
		 "[unanswered, reset, closed_unanswered, http_5xx, abandoned, no_listener]",
		 "auto: failures by nature"},
		{"services[web].slow_is", "success", "default"},
		{"services[web].breaker.close_after", "3", "default"},
		{"services[api].breaker.close_after", "2", "auto: at most breaker.probes"},
		{"services[api].breaker.silent", "8s", "test.yaml:8, auto: max(2 x timeout, 5s)"},
		{"services[api].breaker.failures", "[slow, unanswered]", "test.yaml:8"},
		{"services[api].slow_is", "failure", "breaker.failures"},
		{"services[api].breaker.mode", "enforce", "default"},
		{"services[api].timeout", "4s", "test.yaml:9"},
		{"services[api].slow_after", "1s", "breaker.risk.lat_ref"},
	};
	struct diag diag = {};
	struct config *config = parse_good(
		HEAD "    profile: api\n" SECOND
		     "    breaker: {silent: auto, failures: [slow, unanswered], risk: {lat_ref: 1s}, probes: 2}\n"
		     "    timeout: 4s\n",
		&diag);
	char *json = NULL;
	size_t len;
	FILE *out = open_memstream(&json, &len);

	(void)state;
	assert_int_equal(config_effective(config, out), 0);
	fclose(out);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		char wanted[400];

		snprintf(wanted, sizeof(wanted), "\"key\": \"%s\",\n   \"value\": \"%s\",\n   \"origin\": \"%s\"",
			 rows[i].key, rows[i].value, rows[i].origin);
		if (!strstr(json, wanted))
			fail_msg("%s: %s, %s", rows[i].key, value_of(config, rows[i].key),
				 origin_of(config, rows[i].key));
	}
	/* Each value has an origin, and `auto` nowhere stands for one that is known. */
	for (size_t i = 0; i < config->setting_count; i++) {
		const struct setting *setting = &config->settings[i];

		assert_true(setting->origin[0]);
		if (strstr(setting->path, ".breaker.") && !strcmp(setting->value, "auto"))
			fail_msg("%s is auto", setting->path);
	}
	free(json);
	config_free(&config);
	diag_reset(&diag);
}

/* --- bad input -------------------------------------------------------------------------------------------------- */

#define UDP "interfaces: [{name: eth0}]\nservices:\n  - {name: dns, protocol: udp, listen: [\"*:53\"], "

static const struct row {
	const char *name, *text;
	const char *parts[5]; /* one message has them all */
} bad[] = {
	{"slow_after above timeout",
	 HEAD "    slow_after: 2s\n    timeout: 1s\n",
	 {"test.yaml:6:14:", "services[web].timeout", "slow_after: 2s is above timeout: 1s", "longer timeout"}},
	{"slow_after above the default timeout",
	 HEAD "    slow_after: 6s\n",
	 {"test.yaml:5:17:", "services[web].slow_after", "6s is above timeout: 5s (default)"}},
	{"timeout below the default slow_after",
	 HEAD "    timeout: 399ms\n",
	 {"test.yaml:5:14:", "services[web].timeout", "slow_after: 400ms (default) is above timeout: 399ms"}},
	{"timeout below slow_after by the profile",
	 HEAD "    profile: batch\n    timeout: 4s\n",
	 {"test.yaml:6:14:", "slow_after: 5s (profile batch) is above timeout: 4s"}},
	{"lat_ref above timeout",
	 HEAD "    breaker: {risk: {lat_ref: 8s}}\n",
	 {"test.yaml:5:31:", "breaker.risk.lat_ref", "slow_after: 8s (breaker.risk.lat_ref) is above timeout: 5s"}},
	{"timeout above 60 s",
	 HEAD "    timeout: 61s\n",
	 {"test.yaml:5:14:", "services[web].timeout", "\"61s\" is too large", "1ms to 1m"}},
	{"probes 0",
	 HEAD "    breaker: {probes: 0}\n",
	 {"test.yaml:5:23:", "breaker.probes", "\"0\" is zero", "from 1 to 16"}},
	{"probes 17", HEAD "    breaker: {probes: 17}\n", {"test.yaml:5:23:", "\"17\" is too large", "from 1 to 16"}},
	{"close_after above probes",
	 HEAD "    breaker: {probes: 2, close_after: 3}\n",
	 {"test.yaml:5:", "breaker.close_after: 3 is above probes: 2", "at most probes"}},
	{"close_after 0", HEAD "    breaker: {close_after: 0}\n", {"test.yaml:5:28:", "\"0\" is zero", "from 1 to 16"}},
	{"cap below base",
	 HEAD "    breaker: {open: {base: 3s, cap: 2s}}\n",
	 {"test.yaml:5:", "breaker.open.base: 3s is above cap: 2s", "at most cap"}},
	{"base above the default cap",
	 HEAD "    breaker: {open: {base: 31s}}\n",
	 {"test.yaml:5:28:", "breaker.open.base: 31s is above cap: 30s (default)"}},
	{"window not divisible",
	 HEAD "    breaker: {window: 10s, buckets: 7}\n",
	 {"test.yaml:5:", "a window of 10s has no whole milliseconds in each of its 7 buckets",
	  "window: 9996ms or 10003ms", "another number of buckets"}},
	{"window not divisible by the default",
	 HEAD "    breaker: {window: 1001ms}\n",
	 {"test.yaml:5:23:", "breaker.window", "1001ms", "10 buckets", "1s or 1010ms"}},
	{"window of less than a millisecond's multiple",
	 HEAD "    breaker: {window: 1000001us, buckets: 2}\n",
	 {"test.yaml:5:", "breaker.window", "1s or 1002ms"}},
	{"buckets that do not divide the default",
	 HEAD "    breaker: {buckets: 7}\n",
	 {"test.yaml:5:24:", "breaker.buckets", "a window of 1m", "59997ms or 60004ms"}},
	{"failure_rate 0", HEAD "    breaker: {failure_rate: 0%}\n", {"test.yaml:5:29:", "\"0%\" is zero", "to 100%"}},
	{"failure_rate 101 %",
	 HEAD "    breaker: {failure_rate: 101%}\n",
	 {"test.yaml:5:29:", "\"101%\" is too large", "to 100%"}},
	{"failure_rate without unit",
	 HEAD "    breaker: {failure_rate: 50}\n",
	 {"test.yaml:5:29:", "\"50\" has no unit", "with %"}},
	{"slow_rate 0",
	 HEAD "    breaker: {slow_rate: 0%}\n",
	 {"test.yaml:5:26:", "\"0%\" is zero", "write none", "to 100%"}},
	{"slow_rate 101 %", HEAD "    breaker: {slow_rate: 101%}\n", {"test.yaml:5:26:", "\"101%\" is too large"}},
	{"err_ref 0", HEAD "    breaker: {risk: {err_ref: 0%}}\n", {"test.yaml:5:31:", "\"0%\" is zero"}},
	{"err_ref 101 %", HEAD "    breaker: {risk: {err_ref: 101%}}\n", {"test.yaml:5:31:", "\"101%\" is too large"}},
	{"gate 0", HEAD "    breaker: {health: {gate: 0%}}\n", {"test.yaml:5:30:", "\"0%\" is zero"}},
	{"gate 101 %", HEAD "    breaker: {health: {gate: 101%}}\n", {"test.yaml:5:30:", "\"101%\" is too large"}},
	{"ramp.from 0",
	 HEAD "    breaker: {ramp: {from: 0%}}\n",
	 {"test.yaml:5:28:", "ramp.from", "\"0%\" is zero", "1% to 100%"}},
	{"ramp.from 101 %", HEAD "    breaker: {ramp: {from: 101%}}\n", {"test.yaml:5:28:", "\"101%\" is too large"}},
	{"ramp.step 0",
	 HEAD "    breaker: {ramp: {step: 0%}}\n",
	 {"test.yaml:5:28:", "ramp.step", "\"0%\" is zero", "1% to 100%"}},
	{"ramp.step 101 %", HEAD "    breaker: {ramp: {step: 101%}}\n", {"test.yaml:5:28:", "\"101%\" is too large"}},
	{"ramp.every below a tick",
	 HEAD "    breaker: {ramp: {every: 99ms}}\n",
	 {"test.yaml:5:29:", "\"99ms\" is too small", "100ms to 1h"}},
	{"jitter 0", HEAD "    breaker: {open: {jitter: 0%}}\n", {"test.yaml:5:30:", "\"0%\" is zero", "write none"}},
	{"jitter 101 %",
	 HEAD "    breaker: {open: {jitter: 101%}}\n",
	 {"test.yaml:5:30:", "is too large", "full, none"}},
	{"jitter without unit", HEAD "    breaker: {open: {jitter: 10}}\n", {"test.yaml:5:30:", "\"10\" has no unit"}},
	{"jitter misspelt", HEAD "    breaker: {open: {jitter: ful}}\n", {"test.yaml:5:30:", "\"ful\"", "full"}},
	{"one weight",
	 HEAD "    breaker: {risk: {weights: [1]}}\n",
	 {"test.yaml:5:31:", "[1]", "2 numbers that make 1"}},
	{"three weights of risk",
	 HEAD "    breaker: {risk: {weights: [0.5, 0.3, 0.2]}}\n",
	 {"test.yaml:5:31:", "[0.5, 0.3, 0.2]", "2 numbers that make 1"}},
	{"weights of 0.998",
	 HEAD "    breaker: {risk: {weights: [0.499, 0.499]}}\n",
	 {"test.yaml:5:31:", "[0.499, 0.499]", "2 numbers that make 1"}},
	{"weights of 1.002",
	 HEAD "    breaker: {risk: {weights: [0.501, 0.501]}}\n",
	 {"test.yaml:5:31:", "2 numbers that make 1"}},
	{"three weights of health",
	 HEAD "    breaker: {health: {weights: [0.5, 0.3, 0.2]}}\n",
	 {"test.yaml:5:33:", "[0.5, 0.3, 0.2]", "4 numbers that make 1"}},
	{"five weights of health",
	 HEAD "    breaker: {health: {weights: [0.2, 0.2, 0.2, 0.2, 0.2]}}\n",
	 {"test.yaml:5:33:", "4 numbers that make 1"}},
	{"negative weight",
	 HEAD "    breaker: {risk: {weights: [0.5, -0.5]}}\n",
	 {"test.yaml:5:", "\"-0.5\" is negative"}},
	{"open_at 0",
	 HEAD "    breaker: {risk: {open_at: 0}}\n",
	 {"test.yaml:5:31:", "\"0\" is too small", "0.001 to 1"}},
	{"open_at 1.1", HEAD "    breaker: {risk: {open_at: 1.1}}\n", {"test.yaml:5:31:", "\"1.1\" is too large"}},
	{"base = lat_ref",
	 HEAD "    breaker: {risk: {base: 300ms, lat_ref: 300ms}}\n",
	 {"test.yaml:5:", "base: 300ms is not below lat_ref: 300ms", "smaller base"}},
	{"base above the default lat_ref",
	 HEAD "    breaker: {risk: {base: 500ms}}\n",
	 {"test.yaml:5:28:", "breaker.risk.base", "500ms is not below lat_ref: 400ms (default)"}},
	{"base above the profile's lat_ref",
	 HEAD "    profile: api\n    breaker: {risk: {base: 200ms}}\n",
	 {"test.yaml:6:28:", "200ms is not below lat_ref: 120ms (profile api)"}},
	{"fast.within below a tick",
	 HEAD "    breaker: {fast: {within: 99ms}}\n",
	 {"test.yaml:5:30:", "\"99ms\" is too small", "100ms to 1h"}},
	{"silent below timeout",
	 HEAD "    breaker: {silent: 3s}\n    timeout: 4s\n",
	 {"test.yaml:5:23:", "breaker.silent", "3s is shorter than timeout: 4s", "auto"}},
	{"silent below the default timeout",
	 HEAD "    breaker: {silent: 3s}\n",
	 {"test.yaml:5:23:", "3s is shorter than timeout: 5s (default)"}},
	{"http_5xx without http",
	 HEAD "    breaker: {failures: [reset, http_5xx]}\n",
	 {"test.yaml:5:25:", "breaker.failures", "http_5xx is seen only with http:", "add http: {status:"}},
	{"no_listener without the gate",
	 HEAD "    accept_queue: none\n    breaker: {failures: [reset, no_listener]}\n",
	 {"test.yaml:6:25:", "breaker.failures", "no_listener is seen only by the gate", "leave no_listener out"}},
	{"success named as a failure",
	 HEAD "    breaker: {failures: [answered]}\n",
	 {"test.yaml:5:26:", "breaker.failures", "\"answered\" is not known", "slow, unanswered, reset"}},
	{"neutral named as a failure",
	 HEAD "    breaker: {failures: gave_up}\n",
	 {"test.yaml:5:25:", "\"gave_up\" is not known", "accepted: auto, slow, unanswered"}},
	{"failure misspelt",
	 HEAD "    breaker: {failures: [no-listener]}\n",
	 {"test.yaml:5:26:", "\"no-listener\"", "did you mean no_listener?"}},
	{"auto beside others",
	 HEAD "    breaker: {failures: [auto, slow]}\n",
	 {"test.yaml:5:25:", "cannot stand beside"}},
	{"no failures", HEAD "    breaker: {failures: []}\n", {"test.yaml:5:25:", "names no outcome", "auto"}},
	{"slow as failure and success",
	 HEAD "    breaker: {failures: [slow]}\n    slow_is: success\n",
	 {"test.yaml:5:25:", "names slow, and slow_is: success", "remove"}},
	{"slow_is failure, not listed",
	 HEAD "    breaker: {failures: [reset]}\n    slow_is: failure\n",
	 {"test.yaml:5:25:", "does not name slow, and slow_is: failure", "add slow"}},
	{"dyed and no marks",
	 HEAD "    breaker: {probe: dyed}\n",
	 {"test.yaml:5:22:", "breaker.probe", "no dscp_trust says where from", "add dscp_trust:"}},
	{"depends_on twice",
	 HEAD "    depends_on: [api, api]\n" SECOND,
	 {"test.yaml:5:23:", "services[web].depends_on", "\"api\" stands twice"}},
	{"depends_on in a circle of three",
	 HEAD "    depends_on: [api]\n" SECOND
	      "    depends_on: [db]\n  - {name: db, listen: [\"*:5\"], depends_on: [web]}\n",
	 {"test.yaml:9:46:", "services[db].depends_on", "\"web\" leads back to db", "cycle"}},
	{"http without status",
	 HEAD "    http: {}\n",
	 {"test.yaml:5:11:", "services[web].http", "\"status\" is missing"}},
	{"http of no codes", HEAD "    http: {status: []}\n", {"test.yaml:5:20:", "0 entries", "1 to 16"}},
	{"http of 17 codes",
	 HEAD
	 "    http: {status: [500, 501, 502, 503, 504, 505, 506, 507, 508, 509, 510, 511, 512, 513, 514, 515, 516]}\n",
	 {"test.yaml:5:20:", "17 entries", "1 to 16"}},
	{"http success as failure",
	 HEAD "    http: {status: [200]}\n",
	 {"test.yaml:5:21:", "\"200\" is too small", "from 400 to 599"}},
	{"http code twice",
	 HEAD "    http: {status: [502, 502]}\n",
	 {"test.yaml:5:20:", "http.status", "502 stands twice"}},
	{"http at udp", UDP "http: {status: [502]}}\n", {"test.yaml:3:", "services[dns].http", "tcp only"}},
	{"turns of tcp at udp", UDP "turns: tls}\n", {"test.yaml:3:", "services[dns].turns", "udp", "auto and opaque"}},
	{"reset at udp",
	 UDP "breaker: {failures: [reset, unanswered]}}\n",
	 {"test.yaml:3:", "services[dns].breaker.failures", "this service is udp", "unanswered and slow are accepted"}},
	{"dscp_trust at a fifth interface",
	 "interfaces: [{name: a, dscp_trust: true}, {name: b, dscp_trust: true}, {name: c, dscp_trust: true},\n"
	 "  {name: d, dscp_trust: true}, {name: e}, {name: f, dscp_trust: true}]\n"
	 "services: [{name: web, listen: [\"*:80\"]}]\n",
	 {"test.yaml:2:43:", "interfaces[f].dscp_trust", "at most 4", "prefixes in dscp_trust:"}},
	{"dscp_trust with host bits",
	 "dscp_trust: [192.0.2.1/24]\n" HEAD,
	 {"test.yaml:1:14:", "dscp_trust", "write 192.0.2.0/24"}},
	{"hold 0", "failsafe: {hold: 0s}\n" HEAD, {"test.yaml:1:18:", "\"0s\" is zero", "1s to 1h"}},
	{"consecutive 0", HEAD "    breaker: {consecutive: 0}\n", {"test.yaml:5:28:", "\"0\" is zero", "write none"}},
	{"min_outcomes 0", HEAD "    breaker: {min_outcomes: 0}\n", {"test.yaml:5:29:", "\"0\" is zero"}},
	{"min_sources 0", HEAD "    breaker: {min_sources: 0}\n", {"test.yaml:5:28:", "\"0\" is zero"}},
};

static void what_contradicts_is_refused_with_its_place(void **state)
{
	unsigned failed = 0;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		struct diag diag = {};

		if (!parse_bad(bad[i].text, strlen(bad[i].text), &diag)) {
			print_error("%s: accepted\n", bad[i].name);
			failed++;
		} else if (diag.error_count != 1 ||
			   !has_message(diag.errors, diag.error_count, bad[i].parts, COUNT_OF(bad[i].parts))) {
			print_error("%s: %zu errors, first: %s\n", bad[i].name, diag.error_count, diag.errors[0]);
			failed++;
		}
		diag_reset(&diag);
	}
	assert_int_equal(failed, 0);
}

/* On the good side of each edge. */
static void what_just_fits_is_accepted(void **state)
{
	static const char *const rows[] = {
		HEAD "    slow_after: 1s\n    timeout: 1s\n",
		HEAD "    slow_after: 60s\n    timeout: 60s\n",
		HEAD "    breaker: {probes: 1, close_after: 1}\n",
		HEAD "    breaker: {probes: 16, close_after: 16}\n",
		HEAD "    breaker: {open: {base: 30s, cap: 30s}}\n",
		HEAD "    breaker: {window: 7s, buckets: 7}\n",
		HEAD "    breaker: {window: 59997ms, buckets: 7}\n",
		HEAD "    breaker: {failure_rate: 100%, slow_rate: 100%}\n",
		HEAD "    breaker: {risk: {weights: [0.499, 0.5]}}\n",
		HEAD "    breaker: {risk: {weights: [0.501, 0.5]}}\n",
		HEAD "    breaker: {risk: {weights: [0, 1]}}\n",
		HEAD "    breaker: {health: {weights: [0.25, 0.25, 0.25, 0.25], gate: 100%}}\n",
		HEAD "    breaker: {silent: 5s}\n",
		HEAD "    breaker: {fast: {within: 100ms}, ramp: {from: 100%, step: 1%, every: 100ms}}\n",
		HEAD "    breaker: {open: {jitter: 100%}, failures: auto}\n",
		HEAD "    breaker: {failures: [slow]}\n    slow_is: failure\n",
		HEAD "    http: {status: [500, 501, 502, 503, 504, 505, 506, 507, 508, 509, 510, 511, 512, 513, 514, "
		     "515]}\n",
		"dscp_trust: [192.0.2.0/24]\n" HEAD "    breaker: {probe: dyed}\n",
		HEAD "    depends_on: [api]\n" SECOND,
		UDP "turns: opaque}\n",
		UDP "breaker: {failures: [unanswered, slow]}, timeout: 2s}\n",
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct diag diag = {};
		struct config *config = parse_good(rows[i], &diag);

		config_free(&config);
		diag_reset(&diag);
	}
}

/* --- advice ----------------------------------------------------------------------------------------------------- */

static const struct row advice[] = {
	{"failure_rate",
	 HEAD "    breaker: {failure_rate: 19.99%, risk: {formula: none}}\n",
	 {"test.yaml:5: ", "services[web].breaker.failure_rate", "19.99% is under 20%", "20% or more"}},
	{"min_outcomes",
	 HEAD "    breaker: {min_outcomes: 19}\n",
	 {"test.yaml:5: ", "services[web].breaker.min_outcomes", "19 is under 20"}},
	{"open.base",
	 HEAD "    breaker: {open: {base: 1199ms}}\n",
	 {"test.yaml:5: ", "breaker.open.base", "1199ms is under 3 x slow_after (P99 is not known yet), 400ms",
	  "1200ms"}},
	{"open.base by slow_after",
	 HEAD "    breaker: {}\n    slow_after: 334ms\n",
	 {"test.yaml:3: ", "breaker.open.base", "1s is under 3 x slow_after", "334ms", "1002ms"}},
	{"open.base by the profile",
	 HEAD "    breaker: {}\n    profile: transaction\n",
	 {"test.yaml:3: ", "breaker.open.base", "1s is under 3 x slow_after", "800ms", "2400ms"}},
	{"formula",
	 HEAD "    breaker: {risk: {formula: published}}\n",
	 {"test.yaml:5: ", "breaker.risk.formula", "published", "errors alone", "log is advised"}},
	{"base",
	 HEAD "    breaker: {risk: {base: 201ms}}\n",
	 {"test.yaml:5: ", "breaker.risk.base", "201ms is above half of lat_ref", "200ms holds"}},
	{"err_ref",
	 HEAD "    breaker: {risk: {err_ref: 60%}}\n",
	 {"test.yaml:5: ", "breaker.risk.err_ref", "60%", "50%, where failure_rate: 50% has opened before"}},
	{"err_ref by failure_rate",
	 HEAD "    breaker: {failure_rate: 25%}\n",
	 {"test.yaml:5: ", "breaker.failure_rate", "30% (default)", "5/6 of it, 25%"}},
	{"open_at",
	 HEAD "    breaker: {risk: {open_at: 1, weights: [0.333, 0.666]}}\n",
	 {"test.yaml:5: ", "breaker.risk.open_at", "sum of the weights"}},
	{"min_sources",
	 HEAD "    breaker: {min_sources: 257}\n",
	 {"test.yaml:5: ", "breaker.min_sources", "257 is never reached", "at most 256"}},
	{"opaque",
	 HEAD "    breaker: {}\n    turns: opaque\n",
	 {"test.yaml:6: ", "services[web].turns", "opaque: answers are not seen"}},
	{"http and tls",
	 HEAD "    turns: tls\n    http: {status: [503]}\n",
	 {"services[web].http", "encrypted", "turns: tls"}},
	{"http and opaque",
	 HEAD "    turns: opaque\n    http: {status: [503]}\n",
	 {"services[web].http", "turns: opaque"}},
	{"http and server-first",
	 HEAD "    turns: server-first\n    http: {status: [503]}\n",
	 {"services[web].http", "do not speak first"}},
	{"max_half_open",
	 HEAD "    breaker: {max_half_open: 4s}\n",
	 {"test.yaml:5: ", "breaker.max_half_open", "4s is shorter than timeout: 5s (default)"}},
	{"marks of everyone", "dscp_trust: [0.0.0.0/0]\n" HEAD, {"test.yaml:1: ", "dscp_trust: 0.0.0.0/0", "anyone"}},
};

static void what_is_unwise_is_a_warning(void **state)
{
	unsigned failed = 0;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(advice); i++) {
		struct diag diag = {};
		struct config *config = parse_good(advice[i].text, &diag);

		if (diag.warning_count != 1 ||
		    !has_message(diag.warnings, diag.warning_count, advice[i].parts, COUNT_OF(advice[i].parts))) {
			print_error("%s: %zu warnings, first: %s\n", advice[i].name, diag.warning_count,
				    diag.warning_count ? diag.warnings[0] : "none");
			failed++;
		}
		config_free(&config);
		diag_reset(&diag);
	}
	assert_int_equal(failed, 0);
}

static void what_is_wise_is_none(void **state)
{
	static const char *const rows[] = {
		HEAD,
		HEAD "    breaker: {}\n",
		HEAD "    breaker: {mode: enforce, open: {base: 1s}}\n    slow_after: 400ms\n",
		HEAD "    breaker: {failure_rate: 20%, min_outcomes: 20, min_sources: 256, risk: {err_ref: 23%}}\n",
		HEAD "    breaker: {open: {base: 1200ms}, max_half_open: 5s}\n",
		HEAD "    breaker: {risk: {err_ref: 59.9%, base: 200ms}}\n",
		HEAD "    breaker: {risk: {err_ref: 100%, formula: none}}\n",
		/* Without a block nothing is enforced: no advice on what only measures. */
		HEAD "    profile: batch\n",
		HEAD "    turns: opaque\n",
		HEAD "    turns: auto\n    http: {status: [503]}\n",
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct diag diag = {};
		struct config *config = parse_good(rows[i], &diag);

		if (diag.warning_count)
			fail_msg("%s", diag.warnings[0]);
		config_free(&config);
	}
}

static void open_base_against_the_measured_p99(void **state)
{
	struct diag diag = {};
	struct config *config = parse_good(HEAD "    breaker: {}\n", &diag);
	const struct service_config *web = &config->services[0];
	char text[400] = "untouched";

	(void)state;
	assert_false(config_advise_open_base(web, 333 * MS, text, sizeof(text)));
	assert_string_equal(text, "untouched");
	assert_true(config_advise_open_base(web, 334 * MS, text, sizeof(text)));
	assert_string_equal(text,
			    "1s is under 3 x the P99 of healthy answers, 334ms: it probes before an answer can be "
			    "expected; 1002ms or more is advised");
	config_free(&config);
}

/* --- parameter sets --------------------------------------------------------------------------------------------- */

static struct config *load_seed(const char *name)
{
	char self[PATH_MAX] = "", path[PATH_MAX];
	struct config *config = NULL;
	struct diag diag = {};

	assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	/* ROOT/build/unit/test_config_breaker */
	for (int i = 0; i < 3; i++)
		dirname(self);
	snprintf(path, sizeof(path), "%.4000s/tests/seeds/%s.yaml", self, name);
	if (config_load(path, &config, &diag))
		fail_msg("%s", diag.errors[0]);
	diag_reset(&diag);
	return config;
}

static void assert_fixed_wait(const struct breaker_config *breaker, uint64_t ns)
{
	assert_int_equal(breaker->open_base_ns, ns);
	assert_int_equal(breaker->open_cap_ns, ns);
	assert_int_equal(breaker->jitter, JITTER_NONE);
}

static void set_a(void **state)
{
	struct config *config = load_seed("a");
	const struct service_config *web = &config->services[0];

	(void)state;
	assert_true(web->breaker.enforce);
	assert_int_equal(web->breaker.failure_rate, 4000);
	assert_fixed_wait(&web->breaker, 30 * S);
	assert_int_equal(web->breaker.probes, 5);
	assert_int_equal(web->failures, FAILS(unanswered) | FAILS(reset) | FAILS(http_5xx));
	assert_int_equal(web->http_code_count, 3);
	config_free(&config);
}

static void set_b(void **state)
{
	struct config *config = load_seed("b");
	const struct breaker_config *breaker = &config->services[0].breaker;

	(void)state;
	assert_true(breaker->enforce);
	assert_true(breaker->has_consecutive);
	assert_int_equal(breaker->consecutive, 5);
	assert_fixed_wait(breaker, 60 * S);
	assert_int_equal(breaker->close_after, 1);
	config_free(&config);
}

static void set_c(void **state)
{
	static const struct {
		uint16_t err_ref;
		uint64_t base_ns, lat_ref_ns;
		uint32_t weights[2];
	} rows[] = {
		{3000, 200 * MS, 400 * MS, {600, 400}},
		{1500, 60 * MS, 120 * MS, {700, 300}},
		{500, 200 * MS, 800 * MS, {400, 600}},
		{2000, 200 * MS, 5 * S, {500, 500}},
	};
	struct config *config = load_seed("c");

	(void)state;
	assert_int_equal(config->service_count, COUNT_OF(rows));
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		const struct breaker_config *breaker = &config->services[i].breaker;

		assert_int_equal(config->services[i].profile, i);
		assert_true(breaker->enforce);
		assert_int_equal(breaker->formula, RISK_LOG);
		assert_int_equal(breaker->err_ref, rows[i].err_ref);
		assert_int_equal(breaker->base_ns, rows[i].base_ns);
		assert_int_equal(breaker->lat_ref_ns, rows[i].lat_ref_ns);
		assert_memory_equal(breaker->risk_weights, rows[i].weights, sizeof(rows[i].weights));
		assert_int_equal(breaker->open_at, 800);
		assert_int_equal(breaker->open_base_ns, 100 * MS);
		assert_int_equal(breaker->open_cap_ns, 30 * S);
		assert_int_equal(breaker->jitter, JITTER_NONE);
		assert_int_equal(breaker->close_after, 3);
		assert_int_equal(breaker->health_gate, 8500);
	}
	assert_int_equal(config->services[0].depends_count, 3);
	config_free(&config);
}

static void set_d(void **state)
{
	struct config *config = load_seed("d");
	const struct service_config *web = &config->services[0];

	(void)state;
	assert_true(web->breaker.enforce);
	assert_int_equal(web->breaker.window_ns, 60 * S);
	assert_int_equal(web->breaker.buckets, 10);
	assert_int_equal(web->breaker.failure_rate, 5000);
	assert_int_equal(web->breaker.min_outcomes, 20);
	assert_fixed_wait(&web->breaker, 30 * S);
	assert_int_equal(web->breaker.probes, 3);
	assert_int_equal(web->slow_after_ns, 200 * MS);
	assert_true(web->slow_is_failure);
	assert_int_equal(web->failures, SLC_FAILURES_DEFAULT | FAILS(slow));
	config_free(&config);
}

static void set_e(void **state)
{
	struct config *config = load_seed("e");
	const struct breaker_config *breaker = &config->services[0].breaker;

	(void)state;
	assert_true(breaker->enforce);
	assert_int_equal(breaker->window_ns, 30 * S);
	assert_fixed_wait(breaker, 10 * S);
	assert_int_equal(breaker->min_outcomes, 20);
	assert_int_equal(breaker->failure_rate, 5000);
	assert_int_equal(breaker->probes, 2);
	config_free(&config);
}

/* Laws and host pressure are read and checked; nothing acts on them yet. */
static void set_f(void **state)
{
	static const char *const rows[][2] = {
		{"host.cpu.cut", "90%"},
		{"host.cpu.release", "80%"},
		{"services[consumer].shed.law", "proportional"},
		{"services[consumer].shed.signal", "lag"},
		{"services[consumer].shed.warn", "100000"},
		{"services[consumer].shed.fuse", "500000"},
		{"services[consumer].shed.interval", "5s"},
		{"services[web].shed.law", "delay"},
		{"services[web].shed.interval", "500ms"},
	};
	struct config *config = load_seed("f");

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		assert_string_equal(value_of(config, rows[i][0]), rows[i][1]);
	assert_int_equal(config->services[1].slow_after_ns, 500 * MS);
	config_free(&config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(complete_without_a_block),
		cmocka_unit_test(everything_said_is_stored),
		cmocka_unit_test(automatic_values_follow_from_others),
		cmocka_unit_test(profiles_change_defaults_only),
		cmocka_unit_test(effective_says_where_each_value_comes_from),
		cmocka_unit_test(what_contradicts_is_refused_with_its_place),
		cmocka_unit_test(what_just_fits_is_accepted),
		cmocka_unit_test(what_is_unwise_is_a_warning),
		cmocka_unit_test(what_is_wise_is_none),
		cmocka_unit_test(open_base_against_the_measured_p99),
		cmocka_unit_test(set_a),
		cmocka_unit_test(set_b),
		cmocka_unit_test(set_c),
		cmocka_unit_test(set_d),
		cmocka_unit_test(set_e),
		cmocka_unit_test(set_f),
	};

	return cmocka_run_group_tests_name("config_breaker", tests, NULL, NULL);
}
