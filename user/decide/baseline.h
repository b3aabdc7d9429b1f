/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * baseline.h: how a service is when it is well, learned only then (CONTROL 2): in stretches of BASELINE_WINDOW_NS without
 * a refusal by gate, law, ladder or breaker, without a passed mark, and with a failure rate under half of its threshold.
 * A service that gets worse does not teach its own slowness as long as one of these shows, and a start inside a storm
 * learns nothing: the profile's figure stands in.
 *
 * A stretch comes into force when the next one was healthy too, so that the seconds in which a service has begun to fail,
 * and nobody knows it, are not what its recovery is measured by. The first one is in force at once: there is none better.
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
#define BASELINE_SAMPLES_MIN 40 /* two answers are above the P95 */
#define BASELINE_P99_SAMPLES_MIN 20 /* of fewer the P99 is the largest, whatever that was */
#define BASELINE_MEMORY 32
#define BASELINE_GAP_NS 1000000000ULL /* ticks further apart do not tell what was between them */

/* Plain, without clocks: may be kept over restarts. */
struct baseline {
	uint32_t windows; /* that the P95 was learned from; 0: it is not known */
	uint64_t p95_ns;
	bool has_mean, has_rate, has_connections, has_p99;
	uint64_t mean_ns;
	double rate; /* answers per second in the last healthy stretch */
	/*
	 * New ones per second in it, fewer than answers where they are kept alive; and as many as bring those that were
	 * open back within BASELINE_WINDOW_NS: after an outage pools of kept connections come back at once.
	 */
	double connections;
	uint64_t p99_ns; /* of its answers */
};

/* What a healthy stretch has shown. */
struct baseline_stretch {
	bool has_latency, has_rate, has_connections, has_p99;
	uint64_t p95_ns, mean_ns, p99_ns;
	double rate, connections;
};

struct baseline_watch { /* zeroed: at a start */
	bool running;
	uint64_t tick_ns; /* last one */
	uint64_t stretch_ns, answered, connected; /* begin of the stretch in hand, answers and connections until then */
	struct baseline_stretch late; /* the one before it: not in force yet */
};

struct baseline_input {
	uint64_t now_ns;
	bool disturbed; /* refused since the last tick, a mark passed now, or the breaker is not closed, or ramps up */
	const struct tally *tally; /* of the last 10 s */
	uint16_t failure_rate; /* the threshold, 1/100 % */
	uint64_t answered; /* answers, cumulated */
	uint64_t connected; /* connections, likewise */
	uint64_t held; /* connections open now */
	const struct dist_counts *latency; /* of at most the last BASELINE_WINDOW_NS */
};

void baseline_tick(struct baseline *baseline, struct baseline_watch *watch, const struct baseline_input *input);

#endif /* SLUICE_BASELINE_H */
