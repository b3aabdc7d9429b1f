// SPDX-License-Identifier: GPL-2.0-only
#include "user/decide/quantile.h"

#include <string.h>

#define FIRST_OCTAVE 16
#define PER_OCTAVE 16

unsigned int hist_bin(uint64_t ns)
{
	unsigned int octave;

	if (ns >> FIRST_OCTAVE == 0)
		return 0;
	octave = 63 - __builtin_clzll(ns);
	if (octave >= FIRST_OCTAVE + SLC_HIST / PER_OCTAVE)
		return SLC_HIST - 1;
	return (octave - FIRST_OCTAVE) * PER_OCTAVE + ((ns >> (octave - 4)) & (PER_OCTAVE - 1));
}

uint64_t hist_upper_ns(unsigned int bin)
{
	unsigned int octave = FIRST_OCTAVE + bin / PER_OCTAVE;

	return (uint64_t)(PER_OCTAVE + bin % PER_OCTAVE + 1) << (octave - 4);
}

static void sample(struct handshakes *h, unsigned int bin, uint64_t now_ns)
{
	h->bin[h->next] = bin;
	h->at_ns[h->next] = now_ns;
	h->next = (h->next + 1) % HANDSHAKE_SAMPLES;
	if (h->count < HANDSHAKE_SAMPLES)
		h->count++;
}

void handshakes_take(struct handshakes *h, const uint32_t hist[SLC_HIST], uint64_t now_ns)
{
	uint32_t now[SLC_HIST], grown[SLC_HIST];
	uint64_t total = 0, passed = 0, take, taken = 0;

	memcpy(now, hist, sizeof(now)); /* the kernel goes on counting meanwhile */
	for (unsigned int b = 0; b < SLC_HIST; b++) {
		grown[b] = h->primed ? now[b] - h->seen[b] : 0;
		total += grown[b];
	}
	memcpy(h->seen, now, sizeof(now));
	h->primed = true;

	/*
	 * Order within a tick is not known: of more than fit, every (total / take)th of the sorted ones is taken,
	 * which keeps their distribution.
	 */
	take = total < HANDSHAKE_SAMPLES ? total : HANDSHAKE_SAMPLES;
	for (unsigned int b = 0; b < SLC_HIST && taken < take; b++) {
		passed += grown[b];
		while (taken < take && (2 * taken + 1) * total < 2 * take * passed) {
			sample(h, b, now_ns);
			taken++;
		}
	}
}

uint32_t handshakes_fresh(const struct handshakes *h, uint64_t now_ns, uint32_t hist[SLC_HIST])
{
	uint32_t fresh = 0;

	for (unsigned int i = 0; i < h->count; i++) {
		if (now_ns - h->at_ns[i] > HANDSHAKE_AGE_NS)
			continue;
		hist[h->bin[i]]++;
		fresh++;
	}
	return fresh;
}

uint64_t handshakes_p90(const struct handshakes *h, uint64_t now_ns)
{
	uint32_t hist[SLC_HIST] = {0}, fresh = handshakes_fresh(h, now_ns, hist);
	unsigned int below = 0, rank;

	if (fresh < HANDSHAKE_SAMPLES_MIN)
		return 0;
	rank = (fresh * 9 + 9) / 10;
	for (unsigned int b = 0; b < SLC_HIST; b++) {
		below += hist[b];
		if (below >= rank)
			return hist_upper_ns(b);
	}
	return hist_upper_ns(SLC_HIST - 1);
}
