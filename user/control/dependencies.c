// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/dependencies.h"

#include "user/control/clock.h"
#include "user/control/figures_json.h"

/* Whether the kernel side refuses or rations because of it, now. */
static bool is_shut(const struct breaker *breaker)
{
	if (breaker->state == BREAKER_forced_open)
		return true;
	return breaker->config.enforce && (breaker->state == BREAKER_open || breaker->state == BREAKER_half_open);
}

static void judge_one(const struct daemon *d, struct service *service, uint64_t now_ns, enum health_window which)
{
	const struct signals *signals = &service->signals;
	const struct breaker *breaker = &service->breaker;
	const struct queue_view *queue = &service->queue;
	struct health_input input = {
		.has_base = breaker->has_base,
		.learned_base_ns = breaker->learned_base_ns,
		.has_queue = queue->listeners && queue->limit,
		.has_cpu = d->cpu.has,
		.cpu = d->cpu.share,
		.open = is_shut(breaker),
	};
	struct dist_counts latency;

	window_sum(which == HEALTH_60s ? signals->minute : signals->five, now_ns, &input.tally);
	dist_window_sum(which == HEALTH_60s ? signals->latency.minute : signals->latency.five, now_ns, &latency);
	input.has_p95 = dist_quantile(&latency, 9500, &input.p95_ns);
	if (input.has_queue)
		input.queue_fill = queue->length < queue->limit ? (double)queue->length / queue->limit : 1;
	health_of(&service->config->breaker, &input, &service->health[which]);
}

/* Reading two windows of each service costs some microseconds: once a second, and when a breaker has moved. */
static void judge_all(struct daemon *d, uint64_t now_ns)
{
	if (d->health_ns && now_ns - d->health_ns < NS_PER_S)
		return;
	d->health_ns = now_ns;
	for (size_t i = 0; i < d->service_count; i++) {
		for (int w = 0; w < HEALTH_WINDOW_COUNT; w++)
			judge_one(d, d->services[i], now_ns, w);
	}
}

void dependencies_judge(struct daemon *d, uint64_t now_ns)
{
	struct health all[SLC_STATES];
	uint16_t gates[SLC_STATES];

	host_cpu_look(&d->cpu, now_ns);
	judge_all(d, now_ns);
	for (size_t i = 0; i < d->service_count; i++) {
		all[i] = d->services[i]->health[HEALTH_60s];
		gates[i] = d->services[i]->config->breaker.health_gate;
	}
	for (size_t i = 0; i < d->service_count; i++) {
		struct service *service = d->services[i];
		const struct service_config *config = service->config;

		service->held = health_holds(all, gates, config->depends_on, config->depends_count, &service->held_by);
	}
}

json_t *health_json(const struct health *health)
{
	bool known = health->known;

	return json_pack("{s:b, s:o, s:o, s:o, s:o, s:o}", "known", known, "percent",
			 ratio_json(known, health->percent), "error", ratio_json(known, health->error), "latency",
			 ratio_json(known, health->latency), "queue", ratio_json(known, health->queue), "cpu",
			 ratio_json(known, health->cpu));
}

json_t *dependencies_json(const struct daemon *d, const struct service *service)
{
	json_t *json = json_array();

	for (size_t i = 0; i < service->config->depends_count; i++) {
		const struct service *other = d->services[service->config->depends_on[i]];
		const struct health *health = &other->health[HEALTH_60s];

		json_array_append_new(json, json_pack("{s:s, s:s, s:o, s:o, s:o}", "service", other->policy.name,
						      "state", breaker_state_names[other->breaker.state], "health",
						      ratio_json(health->known, health->percent), "gate",
						      ratio_json(true, other->config->breaker.health_gate / 100.0),
						      "figures", figures_json(&other->breaker.figures)));
	}
	return json;
}

json_t *context_json(const struct daemon *d, const struct service *service, const struct breaker_figures *figures)
{
	return json_pack("{s:o, s:o}", "service", figures_json(figures), "depends_on", dependencies_json(d, service));
}
