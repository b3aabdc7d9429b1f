/* SPDX-License-Identifier: GPL-2.0-only */
/* status.h: what the daemon knows, as JSON for people. Built with the daemon's lock held, printed without it. */
#ifndef SLUICE_STATUS_H
#define SLUICE_STATUS_H

#include <jansson.h>

#include "user/control/daemon.h"

/* Degraded forms that are named everywhere alike: status, metrics, the log. */
#define MODES(X)                                                                             \
	X(no_btf, "the kernel shows no types: the accept-queue gate is off")                 \
	X(no_cgroup2, "no cgroup2: connections are not counted, no head age, no known-good") \
	X(no_sockops, "the sockops program is not attached: as no_cgroup2")                  \
	X(no_turns, "answers are not timed: outcomes of whole connections alone")            \
	X(generic_xdp, "an interface runs generic XDP: refusing costs more")                 \
	X(not_attached, "an interface of the configuration is not there or not attached")    \
	X(lease_lapsed, "the kernel side acts on failsafe.on_loss")                          \
	X(netns_missing, "a service's network namespace is not there")                       \
	X(listeners_blind, "sock_diag does not answer: accept queues are those of before")   \
	X(rings_full, "more listeners than arrival rings: no head age for some")             \
	X(cold_full, "the cold table was full: source concurrency was off for newcomers")    \
	X(known_full, "no room for further known-good sources")                              \
	X(journal_reset, "the journal was damaged and put aside at the start")               \
	X(override_inactive, "an override cannot act on the configuration as it is")
enum mode {
#define X(name, text) MODE_##name,
	MODES(X)
#undef X
		MODE_COUNT
};
extern const char *const mode_names[MODE_COUNT];
void modes_now(const struct daemon *d, uint64_t now_ns, bool modes[MODE_COUNT]);

extern const char *const class_names[SLC_CLASS_COUNT];
extern const char *const attach_names[]; /* by enum attach_mode */
struct reason_info {
	const char *name, *text;
	enum slc_verdict verdict;
};
extern const struct reason_info reason_info[SLC_REASON_COUNT];
/* The counters of struct slc_reasons by number. */
const uint64_t *reason_counts(const struct slc_reasons *reasons);

json_t *status_json(struct daemon *d, uint64_t now_ns);
json_t *status_services(struct daemon *d, uint64_t now_ns);
json_t *status_service(struct daemon *d, struct service *service, uint64_t now_ns, bool detail);
json_t *status_limits(const struct daemon *d, const struct service *service, uint64_t now_ns);
json_t *status_trust(const struct daemon *d, uint64_t now_ns);
/* status_breaker.c */
json_t *status_breaker(const struct daemon *d, const struct service *service, uint64_t now_ns, bool detail);
json_t *status_breaker_policy(const struct breaker_config *config);
/* status_signals.c: sets its keys in `json`. */
void status_signals(const struct daemon *d, const struct service *service, const struct slc_counters *counters,
		    uint64_t now_ns, bool detail, json_t *json);

json_t *duration_json(uint64_t ns); /* "1s" */
json_t *percent_json(unsigned int hundredths); /* "50%" */
/* A string that may not be UTF-8 after all. */
json_t *text_json(const char *text);

#endif /* SLUICE_STATUS_H */
