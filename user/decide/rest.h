/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rest.h: whether a service is at rest, so that it need not be judged at each tick: hosts have many that nobody asks.
 * It is after REST_AFTER_NS, when every window of the last 10 s is empty, and until anything moves: the tick that sees
 * it judges, so that nothing is seen later than otherwise.
 */
#ifndef SLUICE_REST_H
#define SLUICE_REST_H

#include <stdbool.h>
#include <stdint.h>

#define REST_AFTER_NS 12000000000ULL
#define REST_TICKS 5 /* one at rest is judged once in so many: half a second, less than any gap that voids a rate */

struct rest { /* zeroed: at a start */
	bool any;
	uint64_t moved; /* sum of all that the kernel counts of it */
	uint64_t since_ns;
};

/* `calm`: nothing waits, and nothing is decided that ends with time. `turn`: of the ticks, this one is its turn. */
bool rest_tick(struct rest *rest, uint64_t moved, bool calm, uint64_t turn, uint64_t now_ns);

#endif /* SLUICE_REST_H */
