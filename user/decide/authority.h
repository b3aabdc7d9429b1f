/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * authority.h: which signal may steer a service (CONTROL 1). The accept queue speaks for services that accept as they can
 * serve; for those that accept at once the turns in flight do; where turns begin on old connections, refusing SYNs
 * cannot help, and nobody has authority.
 *
 *   accept    head age over target, or occupancy over 5 %, in >= 20 % of the ticks of the last 10 s
 *   inflight  else, if >= 20 % of the turns of that time began on connections under 10 s old
 *   none      else
 *
 * It starts as accept and changes when another one has been right for 2 s. While no turn begins nothing
 * speaks against what was right before: a service at rest keeps its signal, and so does one whose turns are not seen.
 */
#ifndef SLUICE_AUTHORITY_H
#define SLUICE_AUTHORITY_H

#include <stdbool.h>
#include <stdint.h>

#include "maps/abi.h"

#define AUTHORITIES(X) \
	X(accept)      \
	X(inflight)    \
	X(none)
enum authority {
#define X(name) AUTHORITY_##name,
	AUTHORITIES(X)
#undef X
		AUTHORITY_COUNT
};
extern const char *const authority_names[AUTHORITY_COUNT];

#define AUTHORITY_SECONDS 10
#define AUTHORITY_DWELL_NS 2000000000ULL
#define AUTHORITY_OCCUPANCY 0.05

/* One tick. What is not known (no queue, no look into it) marks nothing. */
struct authority_input {
	uint64_t now_ns;
	bool has_head_age; /* and a target for it */
	uint64_t head_age_ns, target_ns;
	bool has_occupancy;
	double occupancy; /* of the fullest listener, 0 to 1 */
	uint64_t turns_begun, turns_young; /* cumulated, of slc_signals */
};

struct authority_view { /* zeroed: as at a start */
	enum authority authority;
	bool primed;
	uint64_t begun, young; /* cumulated, at the last tick */
	bool differs; /* another one is right, since then */
	enum authority next;
	uint64_t next_since_ns;
	uint64_t newest; /* second of the clock */
	struct authority_second {
		bool used;
		uint64_t second;
		uint64_t ticks, marked, begun, young;
	} seconds[AUTHORITY_SECONDS];
};

/* True when the authority has changed. */
bool authority_tick(struct authority_view *view, const struct authority_input *input);
/* Part of the turns of the last 10 s that began on young connections. False: no turns. */
bool authority_young_share(const struct authority_view *view, uint64_t now_ns, double *ret_share);

#endif /* SLUICE_AUTHORITY_H */
