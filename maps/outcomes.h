/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * outcomes.h: the one table of outcomes: how a turn (a request and its answer) or a connection ended, as the kernel saw
 * it. Total: everything that ends has exactly one of these kinds. What sluice refused itself is no outcome.
 *
 * A turn begins with the first byte of a request and its time runs from the LAST one; it is filed when it ends. The class
 * is the default; `breaker.failures` and `slow_is` change it per service (slc_measure.failures has a bit per kind).
 *
 * Columns: name, class, meaning.
 *   SUCCESS   the service did its part
 *   FAILURE   it did not
 *   NEUTRAL   says nothing about it
 * Numbers are ABI: append, never reorder.
 */
#ifndef SLC_OUTCOMES_H
#define SLC_OUTCOMES_H

#define SLC_OUTCOMES(X)                                                                               \
	X(answered, SUCCESS, "first byte of the answer within slow_after of the last of the request") \
	X(slow, SUCCESS, "first byte of the answer later, within timeout")                            \
	X(unanswered, FAILURE, "no byte of an answer for timeout; counted by subtraction")            \
	X(reset, FAILURE, "RST by the service, which had read everything, while it owed an answer")   \
	X(closed_unanswered, FAILURE, "FIN by the service while it owed an answer")                   \
	X(http_5xx, FAILURE, "plaintext answer with a status of http.status")                         \
	X(abandoned, FAILURE, "client left after it had been owed an answer for slow_after")          \
	X(no_listener, FAILURE, "SYN and nobody listens; once per source and second")                 \
	X(overflow, NEUTRAL, "the kernel dropped it for a full accept queue")                         \
	X(gave_up, NEUTRAL, "client left before slow_after, or the service reset unread data")        \
	X(idle, NEUTRAL, "connection ended and owed nothing, without any turn before")                \
	X(net_loss, NEUTRAL, "answer sent and never acknowledged")                                    \
	X(handshake_lost, NEUTRAL, "SYN-ACK never answered")                                          \
	X(late, NEUTRAL, "ended after it had been counted as unanswered")

enum slc_outcome_class { SLC_OUTCOME_SUCCESS, SLC_OUTCOME_FAILURE, SLC_OUTCOME_NEUTRAL };

enum slc_outcome {
#define X(name, class, text) SLC_OUT_##name,
	SLC_OUTCOMES(X)
#undef X
		SLC_OUTCOME_COUNT
};

/* Bit per kind whose default class is FAILURE. */
enum {
#define X(name, class, text) SLC_FAILS_##name = (SLC_OUTCOME_##class == SLC_OUTCOME_FAILURE) << SLC_OUT_##name,
	SLC_OUTCOMES(X)
#undef X
#define X(name, class, text) | SLC_FAILS_##name
		SLC_FAILURES_DEFAULT = 0 SLC_OUTCOMES(X)
#undef X
};

#endif /* SLC_OUTCOMES_H */
