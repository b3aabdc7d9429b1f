/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * completion.h: which part of the admitted SYNs becomes connections (p), and in how many slices the gate counts the
 * admitted ones of one handshake time (H). A spoofed SYN never completes: without p a flood of admitted ones would
 * look like a full accept queue.
 */
#ifndef SLUICE_COMPLETION_H
#define SLUICE_COMPLETION_H

#include <stdint.h>

#include "maps/abi.h"

#define COMPLETION_FLOWS 200 /* newest admitted flows that count */
#define COMPLETION_FLOWS_MIN 20
#define COMPLETION_AGE_NS 60000000000ULL
#define COMPLETION_ONE 65536u
#define COMPLETION_SAMPLES 720 /* 60 s + the largest H in ticks of 100 ms */
#define HANDSHAKE_DEFAULT_NS 200000000ULL /* H while too few samples say otherwise */

/* Cumulated counters at one tick. */
struct completion_sample {
	uint64_t at_ns;
	uint64_t admitted[SLC_CLASS_COUNT];
	uint64_t established[SLC_CLASS_COUNT];
};

struct completion {
	unsigned int next, count;
	struct completion_sample samples[COMPLETION_SAMPLES];
};

/* A counter that fell means another life of the service: what was gathered is forgotten. */
void completion_add(struct completion *c, const struct completion_sample *sample);
void completion_reset(struct completion *c);
/* The newest sample that is at least `age_ns` old at `now_ns`; NULL: there is none. */
const struct completion_sample *completion_before(const struct completion *c, uint64_t age_ns, uint64_t now_ns);
/*
 * Established over admitted, 65536 = 1, rounded up, of the newest COMPLETION_FLOWS flows admitted at least
 * `handshake_ns` ago: these had the time to complete. 1 when fewer than COMPLETION_FLOWS_MIN are known.
 */
uint32_t completion_q16(const struct completion *c, unsigned int class, uint64_t handshake_ns);

/* H in slices of 2^shift ns, 8 to 15 of them. `shift` in force is kept while it does: a change voids the counts. */
void handshake_slices(uint64_t handshake_ns, uint32_t *shift, uint32_t *ret_slices);

#endif /* SLUICE_COMPLETION_H */
