/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * health.h: how well a service does, for those that depend on it (CONTROL 3):
 *
 *     health = 100 x (1 - (w0 err/err_ref + w1 latency + w2 queue fill + w3 CPU)), clamped to 0..100
 *
 * Without HEALTH_MIN_OUTCOMES outcomes it is unknown, and holds nobody back. The latency term is 0 at the base and 1 at
 * lat_ref, as in the risk, whatever formula that has.
 */
#ifndef SLUICE_HEALTH_H
#define SLUICE_HEALTH_H

#include "user/decide/breaker.h"

#define HEALTH_MIN_OUTCOMES 20

struct health_input {
	struct tally tally; /* of 60 s, or 5 min */
	bool has_p95;
	uint64_t p95_ns;
	bool has_base;
	uint64_t learned_base_ns;
	bool has_queue; /* fullest listener */
	double queue_fill; /* 0 to 1 */
	bool has_cpu;
	double cpu; /* 0 to 1 */
	bool open; /* its breaker is open or half-open: health 0 */
};

struct health {
	bool known;
	double percent;
	double error, latency, queue, cpu; /* terms before weights, 0 to 1 */
};

void health_of(const struct breaker_config *config, const struct health_input *input, struct health *ret_health);

/*
 * Who must wait with its probes: leaf first, so that a service is held while any of its dependencies is known and below
 * its gate (1/100 %). `depends` lists indices of `all` and `gates`; the culprit is the worst of them. At most 4 x cap of waiting (breaker.c sees to that), then one probe period.
 */
bool health_holds(const struct health *all, const uint16_t *gates, const size_t *depends, size_t depend_count,
		  size_t *ret_culprit);

#endif /* SLUICE_HEALTH_H */
