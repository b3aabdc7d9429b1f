/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pressure.h: whether a service is overloaded, which is for laws, or broken, which is for its breaker (CONTROL 2). With mu
 * the rate that it is known to serve, it is under pressure while
 *
 *   turns in flight > max(PRESSURE_TURNS_MIN, mu x slow_after)      more is owed than it can answer in time
 *   and either    answers >= mu / 2                                 it answers as ever
 *       or        turns begun >= 2 mu and departures >= mu / 2      it works for clients who have left
 *
 * all rates over the last second, and unless for a second by now no more than 1.25 mu began: it is slow at its usual load
 * then, and not overloaded. Once overloaded it is so until the limit holds again, its backlog included. A service that has stopped answering is broken, however much it owes: pressure ends
 * within a second of the last answer. The second half is for overloads with impatient clients: of an event loop that
 * works in order and is ten times overloaded every client has left before its turn comes, so that no answer is seen, but
 * it goes on closing the connections. At a load that it was seen to serve the same picture is a failure.
 *
 * The first half at work in order of arrival: what begins while fewer are in flight than the limit is answered within
 * slow_after. An overload begins between two ticks, and what begins in that time is not; whoever admits can do better than
 * `on` by comparing the turns in flight with `limit` at each one, while `works` holds.
 *
 * mu is the largest of the rate of the last healthy window, the rate that a tenth of the last 60 s reached (one burst of
 * answers after a stall is not what it can serve), and the rate of now. Without any answer it is unknown: no pressure.
 */
#ifndef SLUICE_PRESSURE_H
#define SLUICE_PRESSURE_H

#include <stdbool.h>
#include <stdint.h>

#define PRESSURE_TURNS_MIN 4
#define PRESSURE_SAMPLES 32 /* more ticks than a second has */
#define PRESSURE_SECONDS 60

/* One tick; counts are cumulated. */
struct pressure_input {
	uint64_t now_ns;
	uint64_t in_flight; /* turns younger than timeout: overdue_in_flight() */
	uint64_t begun; /* turns */
	uint64_t answered; /* answered, slow, late; not http_5xx */
	uint64_t closed; /* connections, without those that ended by RST */
	uint64_t failed; /* closed_unanswered and http_5xx: such closes are no departures */
	uint64_t slow_after_ns;
	bool has_healthy_rate;
	double healthy_rate; /* answers per second in the last healthy window */
};

struct pressure_sample {
	uint64_t at_ns, begun, answered, closed, failed;
};

struct pressure { /* zeroed: nothing is known */
	bool on; /* works, and more in flight than the limit */
	bool works; /* it answers as ever, or is overloaded: what is over the limit is under pressure */
	bool has_mu;
	bool over, overloaded; /* over the limit; and since then more was begun than it was seen to serve */
	uint64_t over_since_ns;
	double mu, limit; /* per second; turns */
	double begun, answered, departed; /* per second, over the last one */
	unsigned int next, count;
	struct pressure_sample samples[PRESSURE_SAMPLES];
	struct pressure_second {
		bool used;
		uint64_t second;
		double answered; /* largest in it */
	} seconds[PRESSURE_SECONDS];
};

/* Returns `on`. */
bool pressure_tick(struct pressure *pressure, const struct pressure_input *input);

#endif /* SLUICE_PRESSURE_H */
