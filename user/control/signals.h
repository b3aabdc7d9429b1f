/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * signals.h: from what the kernel has counted of a service to what one tick saw. The kernel's counters only grow; here
 * are their values of the last tick, and windows over the differences.
 *
 * Outcomes of the breaker's generation G are in row G & 1. When the generation changes, the other row is the current
 * one from the push on: nothing is filed there before it, so that its values just before the push are its bases.
 */
#ifndef SLUICE_SIGNALS_H
#define SLUICE_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

#include "maps/abi.h"
#include "user/control/dist_total.h"
#include "user/decide/dist.h"
#include "user/decide/overdue.h"
#include "user/decide/window.h"

/* A distribution of the kernel, its totals and its windows. `fast` and `long_` may be NULL. */
struct dist_view {
	struct dist_total total;
	struct dist_window *fast; /* 10 s */
	struct dist_window *minute; /* 60 s */
	struct dist_window *five; /* 5 min */
};

struct signals {
	/* outcomes of the current generation */
	bool based;
	uint32_t generation;
	uint64_t since_ns; /* nothing that began before this is of the generation */
	struct slc_cell cells[SLC_CELLS];
	uint64_t known_success, known_failure, no_listener;
	uint64_t filed[SLC_OUTCOME_COUNT]; /* by kind */
	uint64_t pressed; /* outcomes under pressure, of any generation */
	uint32_t no_listener_s[SLC_CELLS];
	struct overdue *overdue;
	uint64_t in_flight; /* signals_in_flight() as of the last tick */

	/* what the kernel cannot count, since the daemon's start */
	uint64_t unanswered[SLC_ROW_COUNT]; /* by row as if the kernel had filed it */
	uint64_t overflow, handshake_lost, unlistened;
	uint64_t missing_admitted; /* admissions when its listener was seen last, or counted last */

	struct window *minute, *five; /* for health */
	struct dist_view latency, tls, rtt, head_wait;
	struct slc_dist head_waits; /* sampled by us, once a tick */
	uint64_t ended; /* turns and connections when distributions were read last */
};

/* -ENOMEM; what was made is freed by signals_free() in any case. */
int signals_init(struct signals *s);
void signals_free(struct signals *s);

/* What user space knows of the service besides its maps. */
struct signals_facts {
	uint64_t now_ns;
	bool has_head_wait;
	uint64_t head_wait_ns;
	bool gate_blind; /* the kernel side does not look for a listener */
	bool was_listening, listening; /* it has a listener, whatever address that is on */
	uint64_t admitted, established; /* cumulated */
	uint64_t admitted_then; /* admitted so long ago that the handshake is over, or lost */
	uint32_t drops; /* of its listeners, since the last tick */
};

/* One tick of `generation`. Windows of distributions and of health are fed too. */
void signals_take(struct signals *s, const struct slc_signals *map, const struct slc_measure *measure,
		  const struct signals_facts *facts, uint32_t generation, struct sample *ret_sample);
/* Just before `generation` is pushed, whose state began at since_ns. */
void signals_rebase(struct signals *s, const struct slc_signals *map, uint32_t generation, uint64_t since_ns);
/* After a gap: what happened in it is in no sample. */
void signals_renew(struct signals *s, const struct slc_signals *map, uint64_t now_ns);

/* Sum over `kinds` (bits 1 << kind) and all rows, of what the kernel files. */
uint64_t signals_filed(const struct slc_signals *map, uint32_t kinds);
/* By kind: the kernel's and ours. */
uint64_t signals_outcome(const struct signals *s, const struct slc_signals *map, enum slc_row row,
			 enum slc_outcome kind);
uint64_t signals_outcome_total(const struct signals *s, const struct slc_signals *map, enum slc_outcome kind);
enum slc_outcome_class outcome_class(const struct slc_measure *measure, enum slc_outcome kind);
extern const char *const outcome_names[SLC_OUTCOME_COUNT];
#define ANSWERS (1u << SLC_OUT_answered | 1u << SLC_OUT_slow | 1u << SLC_OUT_http_5xx)
/* Turns that are owed an answer and are younger than timeout: those of the service's open ones that can still succeed. */
uint64_t signals_in_flight(const struct signals *s, const struct slc_signals *map, uint64_t now_ns);
/* What the kernel side compares turns_max with: also those that hang on, and datagrams that nobody answered. */
uint64_t signals_owed(const struct slc_signals *map);

#endif /* SLUICE_SIGNALS_H */
