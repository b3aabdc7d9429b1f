/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * breaker_transitions.h: the one table of the breaker's transitions, read by breaker.c, by its table test and by the SPIN
 * model (tests/spin): what is not here cannot happen. Only X-macros, so that the C preprocessor can give it to either.
 *
 * States: closed, open, half_open. forced_open and forced_closed are orders laid over the state, which they freeze, and
 * ramp is a phase of closed; metrics-only is a mode.
 */
#ifndef SLUICE_BREAKER_TRANSITIONS_H
#define SLUICE_BREAKER_TRANSITIONS_H

#define BREAKER_STATES(X) \
	X(closed)         \
	X(open)           \
	X(half_open)      \
	X(forced_open)    \
	X(forced_closed)

/* What makes the breaker change, and the trip rules among them: name, is a trip rule, meaning. */
#define BREAKER_RULES(X)                                                      \
	X(none, 0, "no transition yet")                                       \
	X(long, 1, "failure rate over the whole window")                      \
	X(fast, 1, "failure rate of the newest outcomes")                     \
	X(consecutive, 1, "failures in a row and no success, at low traffic") \
	X(slow, 1, "rate of slow answers over the whole window")              \
	X(silent, 1, "no answer at all for long, and answers owed")           \
	X(risk, 1, "errors and latency together")                             \
	X(wait_over, 0, "open time is over and no dependency holds it back")  \
	X(probes_succeeded, 0, "close_after probes succeeded")                \
	X(probe_failed, 0, "a probe failed")                                  \
	X(half_open_over, 0, "half-open for too long without a verdict")      \
	X(order_open, 0, "operator: breaker open")                            \
	X(order_closed, 0, "operator: breaker close")                         \
	X(order_over, 0, "operator's order released or over")                 \
	X(recovered, 0, "metrics only: time is over and no trip rule holds")

/*
 * From, rule, to, what happens to the number n of openings in a row: KEEP, NEXT (n + 1), ZERO, RAMP (NEXT where the trip
 * comes during the ramp, else KEEP).
 */
#define BREAKER_TRANSITIONS(X)                            \
	X(closed, long, open, RAMP)                       \
	X(closed, fast, open, RAMP)                       \
	X(closed, consecutive, open, RAMP)                \
	X(closed, slow, open, RAMP)                       \
	X(closed, silent, open, RAMP)                     \
	X(closed, risk, open, RAMP)                       \
	X(open, wait_over, half_open, KEEP)               \
	X(half_open, probes_succeeded, closed, KEEP)      \
	X(half_open, probe_failed, open, NEXT)            \
	X(half_open, half_open_over, open, NEXT)          \
	X(open, recovered, closed, KEEP)                  \
	X(half_open, recovered, closed, KEEP)             \
	X(closed, order_open, forced_open, KEEP)          \
	X(open, order_open, forced_open, KEEP)            \
	X(half_open, order_open, forced_open, KEEP)       \
	X(forced_closed, order_open, forced_open, KEEP)   \
	X(closed, order_closed, forced_closed, KEEP)      \
	X(open, order_closed, forced_closed, KEEP)        \
	X(half_open, order_closed, forced_closed, KEEP)   \
	X(forced_open, order_closed, forced_closed, KEEP) \
	X(forced_open, order_over, half_open, ZERO)       \
	X(forced_closed, order_over, closed, ZERO)

#endif /* SLUICE_BREAKER_TRANSITIONS_H */
