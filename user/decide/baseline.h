/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * baseline.h: how a service is when it is well, learned only then (CONTROL 2): in stretches of BASELINE_WINDOW_NS without
 * a refusal by gate, law, ladder or breaker, without a passed mark, and with a failure rate under half of its threshold.
 * A service that gets worse does not teach its own slowness as long as one of these shows, and a start inside a storm
 * learns nothing: the profile's figure stands in.
 *
 * Each stretch with BASELINE_SAMPLES_MIN answers moves P95 and mean by 1 / n of the difference, n its number, at most
 * BASELINE_MEMORY: the mean of the first ones, then slow, half of a lasting change in 3.7 minutes.
 */
#ifndef SLUICE_BASELINE_H
#define SLUICE_BASELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "user/decide/dist.h"
#include "user/decide/window.h"

#define BASELINE_WINDOW_NS 10000000000ULL
#define BASELINE_SAMPLES_MIN 100 /* five answers are above the P95 */
#define BASELINE_P99_SAMPLES_MIN 20 /* of fewer the P99 is the largest, whatever that was */
#define BASELINE_MEMORY 32
#define BASELINE_GAP_NS 1000000000ULL /* ticks further apart do not tell what was between them */

/* Plain, without clocks: may be kept over restarts. */
struct baseline {
	uint32_t windows; /* learned from; 0: P95 and mean are not known */
	uint64_t p95_ns, mean_ns;
	bool has_rate, has_p99;
	double rate; /* answers per second in the last healthy stretch */
	uint64_t p99_ns; /* of its answers */
};

struct baseline_watch { /* zeroed: at a start */
	bool running;
	uint64_t tick_ns; /* last one */
	uint64_t clean_ns; /* well since then */
	uint64_t stretch_ns, answered; /* begin of the stretch in hand, answers until then */
};

struct baseline_input {
	uint64_t now_ns;
	bool disturbed; /* refused since the last tick, a mark passed now, or the breaker is not closed */
	const struct tally *tally; /* of the last 10 s */
	uint16_t failure_rate; /* the threshold, 1/100 % */
	uint64_t answered; /* answers, cumulated */
	const struct dist_counts *latency; /* of at most the last BASELINE_WINDOW_NS */
};

/* True while the last BASELINE_WINDOW_NS were a healthy window. */
bool baseline_tick(struct baseline *baseline, struct baseline_watch *watch, const struct baseline_input *input);
/* Base of risk and health: the learned P95, at most half of lat_ref; `base_ns` where none is known. */
uint64_t baseline_base_ns(const struct baseline *baseline, uint64_t base_ns, uint64_t lat_ref_ns);

#endif /* SLUICE_BASELINE_H */
