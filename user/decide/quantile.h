/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * quantile.h: how long handshakes take, from the bins that the kernel counts (abi.h: 16 per octave from 2^16 ns).
 * The kernel only counts; which of the counts are the newest is known from their growth between two ticks.
 */
#ifndef SLUICE_QUANTILE_H
#define SLUICE_QUANTILE_H

#include <stdbool.h>
#include <stdint.h>

#include "maps/abi.h"

#define HANDSHAKE_SAMPLES 200 /* newest flows that count */
#define HANDSHAKE_SAMPLES_MIN 20 /* with fewer nothing is said */
#define HANDSHAKE_AGE_NS 60000000000ULL

unsigned int hist_bin(uint64_t ns);
uint64_t hist_upper_ns(unsigned int bin); /* first time beyond the bin */

/* The newest handshakes of one class, oldest overwritten first. */
struct handshakes {
	bool primed; /* `seen` is a copy of the kernel's bins */
	uint32_t seen[SLC_HIST];
	uint16_t next, count;
	uint8_t bin[HANDSHAKE_SAMPLES];
	uint64_t at_ns[HANDSHAKE_SAMPLES];
};

/* What came since the last call. The first call takes none: those are from before. */
void handshakes_take(struct handshakes *h, const uint32_t hist[SLC_HIST], uint64_t now_ns);
/* Adds the samples that are not older than HANDSHAKE_AGE_NS to `hist`; returns their number. */
uint32_t handshakes_fresh(const struct handshakes *h, uint64_t now_ns, uint32_t hist[SLC_HIST]);
/* P90 of the samples that are not older than HANDSHAKE_AGE_NS; 0 with fewer than HANDSHAKE_SAMPLES_MIN. */
uint64_t handshakes_p90(const struct handshakes *h, uint64_t now_ns);

#endif /* SLUICE_QUANTILE_H */
