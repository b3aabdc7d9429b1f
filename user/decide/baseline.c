// SPDX-License-Identifier: GPL-2.0-only
#include "user/decide/baseline.h"

#define NS_PER_S 1000000000ULL
#define WHOLE 10000.0

static bool is_well(const struct baseline_watch *watch, const struct baseline_input *input)
{
	const struct tally *tally = input->tally;

	if (input->disturbed || input->answered < watch->answered)
		return false;
	if (input->now_ns - watch->tick_ns > BASELINE_GAP_NS) /* so is a clock that went back */
		return false;
	return !tally->has_rate || tally->failure_rate * 2 * WHOLE < input->failure_rate;
}

static void start_over(struct baseline_watch *watch, const struct baseline_input *input)
{
	*watch = (struct baseline_watch){
		.running = true,
		.tick_ns = input->now_ns,
		.clean_ns = input->now_ns,
		.stretch_ns = input->now_ns,
		.answered = input->answered,
	};
}

static uint64_t moved(uint64_t from, uint64_t to, uint32_t n)
{
	return to > from ? from + (to - from) / n : from - (from - to) / n;
}

static void learn_latency(struct baseline *baseline, const struct dist_counts *latency)
{
	uint32_t n = baseline->windows < BASELINE_MEMORY ? baseline->windows + 1 : BASELINE_MEMORY;
	uint64_t p95_ns;

	if (latency->total >= BASELINE_P99_SAMPLES_MIN)
		baseline->has_p99 |= dist_quantile(latency, 9900, &baseline->p99_ns);
	if (latency->total < BASELINE_SAMPLES_MIN || !dist_quantile(latency, 9500, &p95_ns))
		return;
	baseline->p95_ns = moved(baseline->p95_ns, p95_ns, n);
	baseline->mean_ns = moved(baseline->mean_ns, latency->sum_ns / latency->total, n);
	if (baseline->windows < UINT32_MAX)
		baseline->windows++;
}

static void learn_rate(struct baseline *baseline, const struct baseline_watch *watch,
		       const struct baseline_input *input)
{
	uint64_t answers = input->answered - watch->answered;

	if (!answers)
		return; /* at rest: what it can serve is as before */
	baseline->has_rate = true;
	baseline->rate = (double)answers * NS_PER_S / (double)(input->now_ns - watch->stretch_ns);
}

bool baseline_tick(struct baseline *baseline, struct baseline_watch *watch, const struct baseline_input *input)
{
	if (!watch->running || !is_well(watch, input)) {
		start_over(watch, input);
		return false;
	}
	watch->tick_ns = input->now_ns;
	if (input->now_ns - watch->stretch_ns >= BASELINE_WINDOW_NS) {
		learn_rate(baseline, watch, input);
		learn_latency(baseline, input->latency);
		watch->stretch_ns = input->now_ns;
		watch->answered = input->answered;
	}
	return input->now_ns - watch->clean_ns >= BASELINE_WINDOW_NS;
}

uint64_t baseline_base_ns(const struct baseline *baseline, uint64_t base_ns, uint64_t lat_ref_ns)
{
	if (baseline->windows)
		base_ns = baseline->p95_ns;
	return base_ns < lat_ref_ns / 2 ? base_ns : lat_ref_ns / 2;
}
