// SPDX-License-Identifier: GPL-2.0-only
#include "user/decide/health.h"

#include <math.h>

#define WHOLE 10000.0 /* rates, 1/100 % */
#define WEIGHT 1000.0 /* weights, 1/1000 */

static double clamp01(double x)
{
	return x < 0 ? 0 : x > 1 ? 1 : x;
}

static double error_term(const struct breaker_config *config, const struct tally *tally)
{
	if (!tally->has_rate || !config->err_ref)
		return 0;
	return clamp01(tally->failure_rate * WHOLE / config->err_ref);
}

/* 0 at the base, 1 at lat_ref, in octaves between them; the base is at most half of lat_ref. */
static double latency_term(const struct breaker_config *config, const struct health_input *input)
{
	uint64_t base_ns = input->has_base ? input->learned_base_ns : config->base_ns;

	if (base_ns > config->lat_ref_ns / 2)
		base_ns = config->lat_ref_ns / 2;
	if (!input->has_p95 || !base_ns || input->p95_ns <= base_ns)
		return 0;
	return clamp01(log2((double)input->p95_ns / (double)base_ns) /
		       log2((double)config->lat_ref_ns / (double)base_ns));
}

void health_of(const struct breaker_config *config, const struct health_input *input, struct health *ret_health)
{
	struct health health = {
		.known = input->open || input->tally.outcomes >= HEALTH_MIN_OUTCOMES,
		.error = error_term(config, &input->tally),
		.latency = latency_term(config, input),
		.queue =
			input->has_queue ? clamp01(input->queue_fill) : 0, /* what is not seen is not held against it */
		.cpu = input->has_cpu ? clamp01(input->cpu) : 0,
	};
	const uint32_t *weights = config->health_weights;
	double loss = (weights[0] * health.error + weights[1] * health.latency + weights[2] * health.queue +
		       weights[3] * health.cpu) /
		      WEIGHT;

	if (health.known && !input->open)
		health.percent = 100 * (1 - clamp01(loss));
	*ret_health = health;
}

bool health_holds(const struct health *all, const uint16_t *gates, const size_t *depends, size_t depend_count,
		  size_t *ret_culprit)
{
	bool holds = false;

	for (size_t i = 0; i < depend_count; i++) {
		const struct health *health = &all[depends[i]];

		if (!health->known || health->percent * 100 >= gates[depends[i]])
			continue;
		if (!holds || health->percent < all[*ret_culprit].percent)
			*ret_culprit = depends[i];
		holds = true;
	}
	return holds;
}
