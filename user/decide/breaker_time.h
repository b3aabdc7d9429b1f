/* SPDX-License-Identifier: GPL-2.0-only */
/* breaker_time.h: what goes by the clock: what was learned, ramp, holding by dependencies. For breaker.c. */
#ifndef SLUICE_BREAKER_TIME_H
#define SLUICE_BREAKER_TIME_H

#include "user/decide/breaker.h"

/* Monotonic time does not go back; if a caller's does, nothing has passed. */
static inline uint64_t breaker_elapsed(uint64_t now_ns, uint64_t then_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

/* Whether failures are rare enough to ramp up: under half the threshold, or none known. */
bool breaker_calm(const struct breaker_config *config, const struct tally *tally);

void breaker_ramp_begin(struct breaker *breaker, uint64_t now_ns);
void breaker_ramp_step(struct breaker *breaker, uint64_t now_ns);
/* Admitted per second in this step; at least one. */
double breaker_ramp_rate(const struct breaker *breaker);

/* Whether the open state, whose time is over, waits for a dependency; at most 4 x cap. */
bool breaker_waits(struct breaker *breaker, bool held, uint64_t now_ns);

#endif /* SLUICE_BREAKER_TIME_H */
