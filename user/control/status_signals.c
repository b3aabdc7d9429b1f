// SPDX-License-Identifier: GPL-2.0-only
/* status_signals.c: what the kernel side sees of a service, as JSON: outcomes, answer times, turns, health. */
#include "user/control/status.h"

#include <netinet/in.h>
#include <string.h>

#include "user/control/clock.h"
#include "user/control/dependencies.h"
#include "user/control/figures_json.h"

static const char *const turns_names[] = {
	[SLC_TURNS_auto] = "auto",     [SLC_TURNS_request_response] = "request-response",
	[SLC_TURNS_tls] = "tls",       [SLC_TURNS_server_first] = "server-first",
	[SLC_TURNS_opaque] = "opaque",
};

static const unsigned int quantiles[] = {5000, 9500, 9900};
static const char *const quantile_names[] = {"p50", "p95", "p99"};
#define QUANTILES (sizeof(quantiles) / sizeof(quantiles[0]))

/* --- outcomes -------------------------------------------------------------------------------------------------- */

static json_t *row_json(const struct signals *s, const struct slc_signals *map, enum slc_row row)
{
	json_t *json = json_object();

	for (int k = 0; k < SLC_OUTCOME_COUNT; k++) {
		uint64_t count = signals_outcome(s, map, row, k);

		if (count)
			json_object_set_new(json, outcome_names[k], json_integer(count));
	}
	return json;
}

static json_t *outcomes_json(const struct daemon *d, const struct service *service, bool detail)
{
	const struct slc_signals *map = datapath_signals(d->dp, service->policy.state);
	const struct slc_measure *measure = datapath_measure(d->dp, service->policy.state);
	uint64_t by_class[] = {[SLC_OUTCOME_SUCCESS] = 0, [SLC_OUTCOME_FAILURE] = 0, [SLC_OUTCOME_NEUTRAL] = 0};
	json_t *by_kind = json_object(), *json;

	for (int k = 0; k < SLC_OUTCOME_COUNT; k++) {
		uint64_t count = signals_outcome_total(&service->signals, map, k);

		by_class[outcome_class(measure, k)] += count;
		json_object_set_new(by_kind, outcome_names[k], json_integer(count));
	}
	json = json_pack("{s:I, s:I, s:I}", "success", (json_int_t)by_class[SLC_OUTCOME_SUCCESS], "failure",
			 (json_int_t)by_class[SLC_OUTCOME_FAILURE], "neutral",
			 (json_int_t)by_class[SLC_OUTCOME_NEUTRAL]);
	if (detail) {
		json_object_set(json, "by_kind", by_kind);
		json_object_set_new(json, "under_pressure", row_json(&service->signals, map, SLC_ROW_pressure));
		json_object_set_new(json, "other_generation", row_json(&service->signals, map, SLC_ROW_other));
	}
	json_decref(by_kind);
	return json;
}

/* --- times --------------------------------------------------------------------------------------------------------- */

static json_t *times_json(const struct dist_window *window, unsigned int window_s, uint64_t now_ns)
{
	json_t *json = json_object();
	struct dist_counts counts;

	dist_window_sum(window, now_ns, &counts);
	for (size_t q = 0; q < QUANTILES; q++) {
		uint64_t ns;
		bool known = dist_quantile(&counts, quantiles[q], &ns);

		json_object_set_new(json, quantile_names[q], known ? milliseconds_json(ns) : json_null());
	}
	json_object_set_new(json, "samples", json_integer(counts.total));
	json_object_set_new(json, "window_s", json_integer(window_s));
	return json;
}

/* Middle of a bin of handshakes. */
static uint64_t handshake_ns(unsigned int bin)
{
	uint64_t lower_ns = bin ? hist_upper_ns(bin - 1) : 0;

	return lower_ns + (hist_upper_ns(bin) - lower_ns) / 2;
}

/* Of the newest handshakes of all classes: those that the gate reads too. */
static json_t *handshake_times_json(const struct service *service, uint64_t now_ns)
{
	uint32_t bins[SLC_HIST] = {0}, total = 0;
	json_t *json = json_object();

	for (unsigned int c = 0; c < SLC_CLASS_COUNT; c++)
		total += handshakes_fresh(&service->handshakes[c], now_ns, bins);
	for (size_t q = 0; q < QUANTILES; q++) {
		uint64_t passed = 0, rank = ((uint64_t)total * quantiles[q] + 9999) / 10000;
		unsigned int bin = 0;

		while (bin < SLC_HIST - 1 && (passed += bins[bin]) < rank)
			bin++;
		json_object_set_new(json, quantile_names[q],
				    total ? milliseconds_json(handshake_ns(bin)) : json_null());
	}
	json_object_set_new(json, "samples", json_integer(total));
	return json;
}

/* --- turns and what is seen of them ------------------------------------------------------------------------------------ */

static json_t *turns_json(const struct daemon *d, const struct service *service, uint64_t now_ns)
{
	const struct slc_signals *map = datapath_signals(d->dp, service->policy.state);
	double young = 0;
	bool known = authority_young_share(&service->authority, now_ns, &young);

	return json_pack(
		"{s:s, s:I, s:I, s:I, s:o, s:o, s:b}", "mode",
		datapath_modes(d->dp)->no_turns ? "none" : turns_names[service->config->turns], "in_flight",
		(json_int_t)signals_in_flight(&service->signals, map, now_ns), "begun", (json_int_t)map->turns_begun,
		"ended", (json_int_t)map->turns_ended, "young_share", ratio_json(known, young), "limit",
		ratio_json(service->pressure.has_mu, service->pressure.limit), "pressure", service->pressure.on);
}

/* signals: what the application itself pushes, once it can. */
static const char *visibility(const struct daemon *d, const struct service *service)
{
	if (unread_turns_off(d, service))
		return "none";
	return service->config->http_code_count ? "http" : "bytes";
}

/* SYNs that came again, whatever became of them. */
static uint64_t count_repeats(const struct slc_counters *counters)
{
	return counters->enforced.retransmit + counters->enforced.repeat + counters->enforced.half_open;
}

static void add_times(const struct service *service, uint64_t now_ns, json_t *json)
{
	const struct signals *s = &service->signals;

	json_object_set_new(json, "latency_5m_ms", times_json(s->latency.five, 300, now_ns));
	json_object_set_new(json, "tls_handshake_ms", times_json(s->tls.minute, 60, now_ns));
	json_object_set_new(json, "rtt_ms", times_json(s->rtt.minute, 60, now_ns));
	json_object_set_new(json, "head_wait_ms", times_json(s->head_wait.minute, 60, now_ns));
	json_object_set_new(json, "handshake_ms", handshake_times_json(service, now_ns));
}

void status_signals(const struct daemon *d, const struct service *service, const struct slc_counters *counters,
		    uint64_t now_ns, bool detail, json_t *json)
{
	const struct slc_signals *map = datapath_signals(d->dp, service->policy.state);

	json_object_set_new(json, "visibility", json_string(visibility(d, service)));
	json_object_set_new(json, "outcomes", outcomes_json(d, service, detail));
	json_object_set_new(json, "latency_ms", times_json(service->signals.latency.minute, 60, now_ns));
	json_object_set_new(json, "breaker", status_breaker(d, service, now_ns, detail));
	if (!detail)
		return;
	add_times(service, now_ns, json);
	json_object_set_new(json, "turns", turns_json(d, service, now_ns));
	json_object_set_new(json, "unread", unread_json(d, service, now_ns));
	json_object_set_new(json, "retransmits", json_integer(map->retransmits));
	json_object_set_new(json, "repeats", json_integer(count_repeats(counters)));
	json_object_set_new(json, "health",
			    json_pack("{s:o, s:o}", "60s", health_json(&service->health[HEALTH_60s]), "5m",
				      health_json(&service->health[HEALTH_5m])));
	json_object_set_new(json, "depends_on", dependencies_json(d, service));
}
