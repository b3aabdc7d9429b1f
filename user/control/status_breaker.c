// SPDX-License-Identifier: GPL-2.0-only
/* status_breaker.c: the breaker of a service as JSON: its state, what decided, and its settings. */
#include "user/control/status.h"

#include "user/control/breakers.h"
#include "user/control/clock.h"
#include "user/control/figures_json.h"
#include "user/decide/breaker_time.h"

static json_t *seconds_json(uint64_t ns)
{
	return json_real((double)(ns / NS_PER_MS) / 1000.0);
}

static json_t *probes_json(const struct daemon *d, const struct service *service, uint64_t now_ns)
{
	const struct slc_probe *map = datapath_probes(d->dp, service->policy.state);
	struct probe_view view;

	probes_view(map, service->breaker.generation, now_ns, &view);
	/* Of this period, as far as it is one; then since the maps were made. */
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "limit",
			 (json_int_t)service->breaker.config.probes, "reserved", (json_int_t)service->decision.reserved,
			 "tickets", (json_int_t)view.tickets, "outstanding", (json_int_t)view.outstanding, "succeeded",
			 (json_int_t)view.succeeded, "failed", (json_int_t)view.failed, "granted",
			 (json_int_t)map->granted, "returned", (json_int_t)map->returned, "established",
			 (json_int_t)map->established, "succeeded_total", (json_int_t)map->succeeded, "failed_total",
			 (json_int_t)map->failed, "neutral", (json_int_t)map->neutral, "invited",
			 (json_int_t)map->invited);
}

static json_t *trips_json(const struct breaker *breaker)
{
	json_t *json = json_object();

	for (int r = 0; r < RULE_COUNT; r++) {
		if (breaker->trips[r])
			json_object_set_new(json, breaker_rule_names[r], json_integer(breaker->trips[r]));
	}
	return json;
}

static json_t *ramp_json(const struct breaker *breaker)
{
	double share = (breaker->config.ramp_from + (double)breaker->ramp_steps * breaker->config.ramp_step) / 10000;

	if (!breaker->ramping)
		return json_null();
	return json_pack("{s:o, s:o}", "share", ratio_json(true, share < 1 ? share : 1), "rate",
			 ratio_json(true, breaker_ramp_rate(breaker)));
}

/* What is in force, which for metrics-only is `closed` but for an order, and where its machine stands. */
static enum breaker_state state_in_force(const struct breaker *breaker)
{
	return breaker->config.enforce || breaker_is_forced(breaker->state) ? breaker->state : BREAKER_closed;
}

/* What its settings should be after what was measured; null: nothing speaks against them. */
static json_t *advice_json(const struct service *service)
{
	char advice[512 + SLC_NAME_LEN];

	return breakers_advice(service, service->config, advice, sizeof(advice)) ? json_string(advice) : json_null();
}

static void add_detail(const struct daemon *d, const struct service *service, uint64_t now_ns, json_t *json)
{
	const struct breaker *breaker = &service->breaker;
	bool open = breaker->state == BREAKER_open;
	uint64_t left_ns = breaker->open_until_ns > now_ns ? breaker->open_until_ns - now_ns : 0;

	json_object_set_new(json, "tripped_by",
			    breaker->tripped_by ? json_string(breaker_rule_names[breaker->tripped_by]) : json_null());
	json_object_set_new(json, "since_s", seconds_json(now_ns - breaker->since_ns));
	json_object_set_new(json, "open_left_ms", open ? milliseconds_json(left_ns) : json_null());
	json_object_set_new(json, "openings", json_integer(breaker->openings));
	json_object_set_new(json, "ramp", ramp_json(breaker));
	json_object_set_new(json, "held_by",
			    open && breaker->held && service->held
				    ? json_string(d->services[service->held_by]->policy.name)
				    : json_null());
	json_object_set_new(json, "probes", probes_json(d, service, now_ns));
	json_object_set_new(json, "trips", trips_json(breaker));
	json_object_set_new(json, "figures", figures_json(&breaker->figures));
}

json_t *status_breaker(const struct daemon *d, const struct service *service, uint64_t now_ns, bool detail)
{
	const struct breaker *breaker = &service->breaker;
	bool enforce = breaker->config.enforce;
	json_t *json = json_pack("{s:s, s:s, s:s?, s:s, s:I}", "mode", enforce ? "enforce" : "metrics", "state",
				 breaker_state_names[state_in_force(breaker)], "would",
				 enforce ? NULL : breaker_state_names[breaker->state], "rule",
				 breaker_rule_names[breaker->rule], "generation", (json_int_t)breaker->generation);

	json_object_set_new(json, "advice", advice_json(service));
	if (detail)
		add_detail(d, service, now_ns, json);
	return json;
}

/* --- settings ------------------------------------------------------------------------------------------------------ */

static void set_if(json_t *json, const char *key, bool has, json_t *value)
{
	json_object_set_new(json, key, has ? json_incref(value) : json_null());
	json_decref(value);
}

json_t *status_breaker_policy(const struct breaker_config *c)
{
	json_t *json = json_pack("{s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:I, s:I, s:o}", "window",
				 duration_json(c->window_ns), "buckets", (json_int_t)c->buckets, "min_outcomes",
				 (json_int_t)c->min_outcomes, "min_sources", (json_int_t)c->min_sources, "failure_rate",
				 percent_json(c->failure_rate), "open_base", duration_json(c->open_base_ns), "open_cap",
				 duration_json(c->open_cap_ns), "probes", (json_int_t)c->probes, "close_after",
				 (json_int_t)c->close_after, "health_gate", percent_json(c->health_gate));

	json_object_set_new(json, "slow_after", duration_json(c->slow_after_ns));
	json_object_set_new(json, "timeout", duration_json(c->timeout_ns));
	set_if(json, "consecutive", c->has_consecutive, json_integer(c->consecutive));
	set_if(json, "slow_rate", c->has_slow_rate, percent_json(c->slow_rate));
	set_if(json, "silent", c->has_silent, duration_json(c->silent_ns));
	set_if(json, "open_at", c->formula != RISK_NONE, json_real(c->open_at / 1000.0));
	return json;
}
