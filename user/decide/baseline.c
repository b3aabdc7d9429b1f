// SPDX-License-Identifier: GPL-2.0-only
#include "user/decide/baseline.h"

#include <math.h>

#define NS_PER_S 1000000000ULL
#define WHOLE 10000.0

static bool is_well(const struct baseline_watch *watch, const struct baseline_input *input)
{
	const struct tally *tally = input->tally;

	if (input->disturbed || input->answered < watch->answered || input->connected < watch->connected)
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
		.stretch_ns = input->now_ns,
		.answered = input->answered,
		.connected = input->connected,
	};
}

static uint64_t moved(uint64_t from, uint64_t to, uint32_t n)
{
	return to > from ? from + (to - from) / n : from - (from - to) / n;
}

static void learn_latency(struct baseline *baseline, const struct baseline_stretch *stretch)
{
	uint32_t n = baseline->windows < BASELINE_MEMORY ? baseline->windows + 1 : BASELINE_MEMORY;

	baseline->p95_ns = moved(baseline->p95_ns, stretch->p95_ns, n);
	/* A P95 that was kept over a restart has no mean beside it. */
	baseline->mean_ns = moved(baseline->mean_ns, stretch->mean_ns, baseline->has_mean ? n : 1);
	baseline->has_mean = true;
	if (baseline->windows < UINT32_MAX)
		baseline->windows++;
}

static void learn(struct baseline *baseline, const struct baseline_stretch *stretch)
{
	if (stretch->has_latency)
		learn_latency(baseline, stretch);
	if (stretch->has_p99) {
		baseline->has_p99 = true;
		baseline->p99_ns = stretch->p99_ns;
	}
	if (stretch->has_rate) {
		baseline->has_rate = true;
		baseline->rate = stretch->rate;
	}
	if (stretch->has_connections) {
		baseline->has_connections = true;
		baseline->connections = stretch->connections;
	}
}

static void measure(const struct baseline_watch *watch, const struct baseline_input *input,
		    struct baseline_stretch *stretch)
{
	const struct dist_counts *latency = input->latency;
	uint64_t answers = input->answered - watch->answered, connections = input->connected - watch->connected;
	double seconds = (double)(input->now_ns - watch->stretch_ns) / NS_PER_S;
	double back = (double)input->held * NS_PER_S / BASELINE_WINDOW_NS;

	/* Without any it is at rest: what it can take is as before. */
	*stretch = (struct baseline_stretch){
		.has_rate = answers > 0,
		.rate = (double)answers / seconds,
		.has_connections = connections > 0 || input->held > 0,
		.connections = fmax((double)connections / seconds, back),
	};
	if (latency->total >= BASELINE_P99_SAMPLES_MIN)
		stretch->has_p99 = dist_quantile(latency, 9900, &stretch->p99_ns);
	if (latency->total >= BASELINE_SAMPLES_MIN) {
		stretch->has_latency = dist_quantile(latency, 9500, &stretch->p95_ns);
		stretch->mean_ns = latency->sum_ns / latency->total;
	}
}

static void end_stretch(struct baseline *baseline, struct baseline_watch *watch, const struct baseline_input *input)
{
	bool first = !baseline->has_rate && !baseline->has_connections && !baseline->windows;
	struct baseline_stretch stretch;

	measure(watch, input, &stretch);
	learn(baseline, first ? &stretch : &watch->late);
	watch->late = first ? (struct baseline_stretch){0} : stretch;
	watch->stretch_ns = input->now_ns;
	watch->answered = input->answered;
	watch->connected = input->connected;
}

void baseline_tick(struct baseline *baseline, struct baseline_watch *watch, const struct baseline_input *input)
{
	if (!watch->running || !is_well(watch, input)) {
		start_over(watch, input);
		return;
	}
	watch->tick_ns = input->now_ns;
	if (input->now_ns - watch->stretch_ns >= BASELINE_WINDOW_NS)
		end_stretch(baseline, watch, input);
}
