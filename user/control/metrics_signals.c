// SPDX-License-Identifier: GPL-2.0-only
/* metrics_signals.c: outcomes, answer times, breakers and health of services, for Prometheus. */
#include "user/control/metrics_parts.h"

#include <stdlib.h>

#include "user/control/clock.h"

static const struct slc_signals *signals_of(const struct page *page, const struct service *service)
{
	return datapath_signals(page->d->dp, service->policy.state);
}

static const struct slc_probe *probes_of(const struct page *page, const struct service *service)
{
	return datapath_probes(page->d->dp, service->policy.state);
}

/* --- one value a service ------------------------------------------------------------------------------------------- */

static uint64_t in_flight(const struct page *page, const struct service *service)
{
	(void)page;
	return service->signals.in_flight;
}

static uint64_t retransmits(const struct page *page, const struct service *service)
{
	return signals_of(page, service)->retransmits;
}

static uint64_t enforced(const struct page *page, const struct service *service)
{
	(void)page;
	return service->breaker.config.enforce;
}

static uint64_t generation(const struct page *page, const struct service *service)
{
	(void)page;
	return service->breaker.generation;
}

static uint64_t granted(const struct page *page, const struct service *service)
{
	return probes_of(page, service)->granted;
}

static uint64_t returned(const struct page *page, const struct service *service)
{
	return probes_of(page, service)->returned;
}

static uint64_t invited(const struct page *page, const struct service *service)
{
	return probes_of(page, service)->invited;
}

static uint64_t dscp_ignored(const struct page *page, const struct service *service)
{
	return probes_of(page, service)->dscp_ignored;
}

static const struct {
	const char *name, *type, *help;
	uint64_t (*get)(const struct page *page, const struct service *service);
} values[] = {
	{"sluice_turns_in_flight", "gauge", "Requests that are owed an answer and younger than timeout.", in_flight},
	{"sluice_retransmits_total", "counter", "Segments sent again to clients.", retransmits},
	{"sluice_breaker_enforced", "gauge", "1 if the breaker acts, 0 for metrics only.", enforced},
	{"sluice_breaker_generation", "gauge", "Grows by one with each change of state.", generation},
	{"sluice_breaker_tickets_granted_total", "counter", "SYNs that a half-open breaker let through.", granted},
	{"sluice_breaker_tickets_returned_total", "counter", "Of these, never established: their slots are free again.",
	 returned},
	{"sluice_breaker_invited_total", "counter", "First SYNs of strangers, dropped so that they come again.",
	 invited},
	{"sluice_breaker_dscp_ignored_total", "counter", "DSCP marks from where they are not believed.", dscp_ignored},
};

static void put_values(const struct page *page)
{
	for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
		metrics_family(page->out, values[v].name, values[v].type, values[v].help);
		for (size_t i = 0; i < page->d->service_count; i++) {
			const struct service *service = page->d->services[i];

			metrics_count(page->out, values[v].name, LABELS({"service", service->policy.name}),
				      values[v].get(page, service));
		}
	}
}

/* --- outcomes -------------------------------------------------------------------------------------------------------- */

static void outcomes_of(const struct page *page, const struct service *service, bool pressure)
{
	const struct slc_signals *map = signals_of(page, service);

	for (int k = 0; k < SLC_OUTCOME_COUNT; k++)
		metrics_count(page->out, pressure ? "sluice_outcomes_under_pressure_total" : "sluice_outcomes_total",
			      LABELS({"service", service->policy.name}, {"kind", outcome_names[k]}),
			      pressure ? signals_outcome(&service->signals, map, SLC_ROW_pressure, k)
				       : signals_outcome_total(&service->signals, map, k));
}

static void put_outcomes(const struct page *page)
{
	metrics_family(page->out, "sluice_outcomes_total", "counter", "How turns and connections ended.");
	for (size_t i = 0; i < page->d->service_count; i++)
		outcomes_of(page, page->d->services[i], false);
	metrics_family(page->out, "sluice_outcomes_under_pressure_total", "counter",
		       "Of these, what began under pressure: no failure for the breaker.");
	for (size_t i = 0; i < page->d->service_count; i++)
		outcomes_of(page, page->d->services[i], true);
}

/* --- times --------------------------------------------------------------------------------------------------------- */

#define MS(n) ((n)*NS_PER_MS)
static const uint64_t usual_bounds[] = {
	MS(1),   MS(2),    MS(5),    MS(10),   MS(20),    MS(50),    MS(100),   MS(200),
	MS(500), MS(1000), MS(2000), MS(5000), MS(10000), MS(20000), MS(60000),
};
#define USUAL (sizeof(usual_bounds) / sizeof(usual_bounds[0]))
#define BOUNDS_MAX (USUAL + 2)

static int by_size(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

/* The usual ones, and those that this service is judged by: shares over them can be had exactly. */
static size_t bounds_of(const struct service_config *config, uint64_t bounds[BOUNDS_MAX])
{
	size_t count = 0, kept = 0;

	for (size_t i = 0; i < USUAL; i++)
		bounds[count++] = usual_bounds[i];
	bounds[count++] = config->slow_after_ns;
	if (config->has_queue)
		bounds[count++] = config->deadline_ns;
	qsort(bounds, count, sizeof(*bounds), by_size);
	for (size_t i = 0; i < count; i++) {
		if (!kept || bounds[kept - 1] != bounds[i])
			bounds[kept++] = bounds[i];
	}
	return kept;
}

static void put_histogram(const struct page *page, const char *name, const struct service *service,
			  const struct dist_total *total)
{
	uint64_t bounds[BOUNDS_MAX];
	size_t count = bounds_of(service->config, bounds);
	char series[64], le[32];

	snprintf(series, sizeof(series), "%s_bucket", name);
	for (size_t i = 0; i < count; i++) {
		snprintf(le, sizeof(le), "%.9g", (double)bounds[i] / 1e9);
		metrics_count(page->out, series, LABELS({"service", service->policy.name}, {"le", le}),
			      dist_total_below(total, bounds[i]));
	}
	metrics_count(page->out, series, LABELS({"service", service->policy.name}, {"le", "+Inf"}), total->total);
	snprintf(series, sizeof(series), "%s_sum", name);
	metrics_seconds(page->out, series, LABELS({"service", service->policy.name}), total->sum_ns);
	snprintf(series, sizeof(series), "%s_count", name);
	metrics_count(page->out, series, LABELS({"service", service->policy.name}), total->total);
}

static const struct {
	const char *name, *help;
	size_t offset; /* of a struct dist_view in struct signals */
} histograms[] = {
	{"sluice_answer_seconds", "Last byte of the request to the first of the answer.",
	 offsetof(struct signals, latency)},
	{"sluice_tls_handshake_seconds", "The same of turns of TLS handshakes.", offsetof(struct signals, tls)},
	{"sluice_rtt_seconds", "Round trip to clients, at the end of turns and connections.",
	 offsetof(struct signals, rtt)},
	{"sluice_head_wait_seconds", "Age of the head of the accept queue, sampled once a tick.",
	 offsetof(struct signals, head_wait)},
};

static void put_times(const struct page *page)
{
	for (size_t h = 0; h < sizeof(histograms) / sizeof(histograms[0]); h++) {
		metrics_family(page->out, histograms[h].name, "histogram", histograms[h].help);
		for (size_t i = 0; i < page->d->service_count; i++) {
			const struct service *service = page->d->services[i];
			const char *signals = (const char *)&service->signals;
			const struct dist_view *view = (const void *)(signals + histograms[h].offset);

			put_histogram(page, histograms[h].name, service, &view->total);
		}
	}
}

/* --- breakers -------------------------------------------------------------------------------------------------------- */

/* Whether it is a reason to open. */
static bool rule_opens(enum breaker_rule rule)
{
	static const struct {
		enum breaker_rule rule;
		enum breaker_state to;
	} moves[] = {
#define X(from, name, to_state, openings) {RULE_##name, BREAKER_##to_state},
		BREAKER_TRANSITIONS(X)
#undef X
	};

	for (size_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++) {
		if (moves[i].rule == rule)
			return moves[i].to == BREAKER_open;
	}
	return false;
}

static void states_of(const struct page *page, const struct service *service)
{
	for (int s = 0; s < BREAKER_STATE_COUNT; s++)
		metrics_count(page->out, "sluice_breaker_state",
			      LABELS({"service", service->policy.name}, {"state", breaker_state_names[s]}),
			      (int)service->breaker.state == s);
}

static void trips_of(const struct page *page, const struct service *service)
{
	for (int r = 0; r < RULE_COUNT; r++) {
		if (rule_opens(r))
			metrics_count(page->out, "sluice_breaker_trips_total",
				      LABELS({"service", service->policy.name}, {"rule", breaker_rule_names[r]}),
				      service->breaker.trips[r]);
	}
}

static void probes_ended(const struct page *page, const struct service *service)
{
	const struct slc_probe *probe = probes_of(page, service);

	metrics_count(page->out, "sluice_breaker_probes_total",
		      LABELS({"service", service->policy.name}, {"result", "success"}), probe->succeeded);
	metrics_count(page->out, "sluice_breaker_probes_total",
		      LABELS({"service", service->policy.name}, {"result", "failure"}), probe->failed);
	metrics_count(page->out, "sluice_breaker_probes_total",
		      LABELS({"service", service->policy.name}, {"result", "neutral"}), probe->neutral);
}

static void success_ratio(const struct page *page, const struct service *service)
{
	const struct slc_probe *probe = probes_of(page, service);
	uint64_t judged = probe->succeeded + probe->failed;

	if (judged)
		metrics_ratio(page->out, "sluice_breaker_half_open_success_ratio",
			      LABELS({"service", service->policy.name}), (double)probe->succeeded / (double)judged);
}

static void health_of_service(const struct page *page, const struct service *service)
{
	static const char *const windows[HEALTH_WINDOW_COUNT] = {[HEALTH_60s] = "60s", [HEALTH_5m] = "5m"};

	for (int w = 0; w < HEALTH_WINDOW_COUNT; w++) {
		if (service->health[w].known)
			metrics_ratio(page->out, "sluice_health_percent",
				      LABELS({"service", service->policy.name}, {"window", windows[w]}),
				      service->health[w].percent);
	}
}

static void unread_age(const struct page *page, const struct service *service)
{
	if (unread_known(&service->unread, page->now_ns))
		metrics_seconds(page->out, "sluice_unread_age_seconds", LABELS({"service", service->policy.name}),
				service->unread.age_ns);
}

static void unread_bytes(const struct page *page, const struct service *service)
{
	if (unread_known(&service->unread, page->now_ns))
		metrics_count(page->out, "sluice_unread_bytes", LABELS({"service", service->policy.name}),
			      service->unread.bytes);
}

static const struct {
	const char *name, *type, *help;
	void (*put)(const struct page *page, const struct service *service);
} families[] = {
	{"sluice_breaker_state", "gauge",
	 "1 for the state that the breaker is in; without sluice_breaker_enforced it refuses nobody.", states_of},
	{"sluice_breaker_trips_total", "counter", "Openings by what caused them, since the daemon started.", trips_of},
	{"sluice_breaker_probes_total", "counter", "Probes by how they ended.", probes_ended},
	{"sluice_breaker_half_open_success_ratio", "gauge",
	 "Successes among the probes that said something; absent without any.", success_ratio},
	{"sluice_unread_age_seconds", "gauge",
	 "Where turns are not seen: how long received data have waited to be read, at least.", unread_age},
	{"sluice_unread_bytes", "gauge", "Likewise: how many bytes wait.", unread_bytes},
	{"sluice_health_percent", "gauge", "How well the service does; absent where unknown.", health_of_service},
};

static void put_families(const struct page *page)
{
	for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
		metrics_family(page->out, families[f].name, families[f].type, families[f].help);
		for (size_t i = 0; i < page->d->service_count; i++)
			families[f].put(page, page->d->services[i]);
	}
}

void metrics_put_signals(const struct page *page)
{
	put_values(page);
	put_outcomes(page);
	put_times(page);
	put_families(page);
}
