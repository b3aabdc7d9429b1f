// SPDX-License-Identifier: GPL-2.0-only
#include "user/decide/breaker_rules.h"
#include "user/decide/breaker_time.h"

#define HOLD_CAPS 4 /* a dependency holds back for so many caps */
#define WHOLE 10000 /* of shares in 1/100 % */

/* Uniform in [low, high]. */
static uint64_t uniform(uint64_t low, uint64_t high, uint64_t random)
{
	return low + (uint64_t)(((unsigned __int128)(high - low + 1) * random) >> 64);
}

uint64_t breaker_open_time(const struct breaker_config *config, unsigned int n, bool has_p99, uint64_t p99_ns,
			   uint64_t random)
{
	const uint64_t cap = config->open_cap_ns, base = config->open_base_ns < cap ? config->open_base_ns : cap;
	unsigned int doublings = config->jitter == JITTER_FULL && n == 0 ? 1 : n;
	uint64_t wait = base;

	while (doublings-- > 0 && wait < cap)
		wait = wait > cap / 2 ? cap : wait * 2;
	if (config->jitter == JITTER_FULL)
		wait = uniform(base, wait, random);
	else if (config->jitter == JITTER_PART)
		wait = uniform(wait - (uint64_t)((unsigned __int128)wait * config->jitter_part / WHOLE), wait, random);
	if (has_p99 && p99_ns > wait / 4)
		wait = p99_ns > cap / 4 ? cap : p99_ns * 4;
	return wait;
}

bool breaker_calm(const struct breaker_config *config, const struct tally *tally)
{
	return !tally->has_rate || tally->failure_rate * 2 * WHOLE < config->failure_rate;
}

void breaker_learn(struct breaker *breaker, const struct baseline *baseline)
{
	breaker->has_healthy_rate = baseline->has_connections;
	breaker->healthy_rate = baseline->connections;
	breaker->has_healthy_p99 = baseline->has_p99;
	breaker->healthy_p99_ns = baseline->p99_ns;
	breaker->has_base = baseline->windows > 0;
	breaker->learned_base_ns = baseline->p95_ns;
}

void breaker_ramp_begin(struct breaker *breaker, uint64_t now_ns)
{
	const struct breaker_config *config = &breaker->config;

	breaker->ramping = config->enforce && breaker->has_healthy_rate && config->ramp_from < WHOLE;
	breaker->ramp_steps = 0;
	breaker->ramp_at_ns = now_ns + config->ramp_every_ns;
}

static uint64_t ramp_share(const struct breaker *breaker)
{
	return breaker->config.ramp_from + (uint64_t)breaker->ramp_steps * breaker->config.ramp_step;
}

void breaker_restore_ramp(struct breaker *breaker, unsigned int steps, uint64_t step_at_ns, uint64_t now_ns)
{
	if (breaker->state != BREAKER_closed)
		return;
	breaker_ramp_begin(breaker, now_ns);
	breaker->ramp_steps = steps < WHOLE ? steps : WHOLE;
	if (step_at_ns < breaker->ramp_at_ns)
		breaker->ramp_at_ns = step_at_ns;
	if (ramp_share(breaker) >= WHOLE)
		breaker->ramping = false;
}

/* One step at a time, however late the tick is: each is judged by what came after the one before. */
void breaker_ramp_step(struct breaker *breaker, uint64_t now_ns)
{
	struct tally recent;

	if (!breaker->ramping || now_ns < breaker->ramp_at_ns)
		return;
	window_newest(breaker->fast, now_ns, UINT64_MAX, BREAKER_RECENT_NS, &recent);
	if (!breaker_calm(&breaker->config, &recent))
		return;
	breaker->ramp_steps++;
	breaker->ramp_at_ns = now_ns + breaker->config.ramp_every_ns;
	if (ramp_share(breaker) >= WHOLE)
		breaker->ramping = false;
}

double breaker_ramp_rate(const struct breaker *breaker)
{
	double rate = breaker->healthy_rate * (double)ramp_share(breaker) / WHOLE;

	return rate > 1 ? rate : 1;
}

bool breaker_waits(struct breaker *breaker, bool held, uint64_t now_ns)
{
	if (!held) {
		breaker->held = false;
		return false;
	}
	if (!breaker->held) {
		breaker->held = true;
		breaker->held_since_ns = now_ns;
	}
	return breaker_elapsed(now_ns, breaker->held_since_ns) / HOLD_CAPS < breaker->config.open_cap_ns;
}
