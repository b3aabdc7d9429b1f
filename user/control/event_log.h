/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * event_log.h: the newest events, refusals (sampled by the kernel side) and changes of breakers, under one sequence of
 * numbers. Each kind has its own room, so that a storm of refusals does not push out why a breaker opened. It has a lock
 * of its own: a reader never holds the daemon's, and one that never reads holds nothing at all.
 */
#ifndef SLUICE_EVENT_LOG_H
#define SLUICE_EVENT_LOG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "maps/abi.h"

#define EVENTS_KEPT 1024 /* of each kind */

/* Kind and the name of its layout; a layout only ever gains fields. */
#define EVENT_KINDS(X)                  \
	X(refusal, "sluice.refusal.v1") \
	X(breaker, "sluice.breaker.v1")
enum event_kind {
#define X(name, schema) EVENT_##name,
	EVENT_KINDS(X)
#undef X
		EVENT_KIND_COUNT
};
extern const char *const event_kind_names[EVENT_KIND_COUNT];

struct event_log; /* opaque; all calls from any thread */

struct event_log *event_log_new(void); /* NULL: out of memory */
void event_log_free(struct event_log **log);
/* `service`: NULL for packets to no service. */
void event_log_refusal(struct event_log *log, const struct slc_event *event, const char *service);
/* `body` is taken over: the fields beside those that every event has. */
void event_log_breaker(struct event_log *log, const char *service, uint64_t mono_ns, json_t *body);

struct event_query {
	bool has_after;
	uint64_t after; /* only newer ones. One that was never given is of another life of the daemon: all are newer */
	const char *service; /* NULL: of all */
	bool has_kind;
	enum event_kind kind;
};

struct event_answer {
	json_t *events; /* oldest first */
	uint64_t seq; /* of the newest event of all; 0: none yet */
	/* Events after `after` that are no longer kept; with `has_kind` those of the kind, at most this many. */
	uint64_t lost;
	uint64_t seen; /* refusals since the start */
};
/* -ENOMEM. */
int event_log_read(struct event_log *log, const struct event_query *query, uint64_t now_ns,
		   struct event_answer *ret_answer);
uint64_t event_log_seq(struct event_log *log); /* of the newest event; 0: none yet */
/* Whether something is there that the query asks for. */
bool event_log_has(struct event_log *log, const struct event_query *query);

#endif /* SLUICE_EVENT_LOG_H */
