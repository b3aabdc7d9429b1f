/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * overrides.h: what operators ordered while the daemon runs: limits, deny, allow, drain. Each is one row of the
 * journal; what the kernel gets is computed anew from all rows on each change, so that a released one leaves nothing
 * behind and the layer below it holds again. All calls are made with the daemon's lock held.
 */
#ifndef SLUICE_OVERRIDES_H
#define SLUICE_OVERRIDES_H

#include <jansson.h>

#include "user/control/daemon.h"
#include "user/control/order_text.h"
#include "user/control/problem.h"

#define OVERRIDE_KINDS(X) \
	X(limits)         \
	X(deny)           \
	X(allow)          \
	X(drain)          \
	X(breaker)
enum override_kind {
#define X(name) OVERRIDE_##name,
	OVERRIDE_KINDS(X)
#undef X
		OVERRIDE_KIND_COUNT
};
extern const char *const override_kind_names[OVERRIDE_KIND_COUNT];

struct override {
	uint32_t id;
	enum override_kind kind;
	char subject[64]; /* service, or CIDR as shown */
	struct cidr cidr;
	json_t *values; /* as ordered: assignments, or ceiling, burst, all_packets, force, or order */
	struct limits_change change; /* of `values` */
	struct rate ceiling;
	uint32_t burst; /* of the ceiling */
	bool all_packets;
	bool open; /* breaker: open, else close */
	bool force; /* meant, whatever override_check_reach() would say */
	char reason[REASON_MAX + 1];
	uint32_t by_uid;
	int64_t set_wall_ms;
	struct moment until;
	uint64_t until_ns; /* SLC_FOREVER */
	char inactive[256]; /* why it does not act; empty: it does */
};

/* Reads the journal. What ended meanwhile is taken out of it. */
int overrides_load(struct daemon *d, char *why, size_t why_len);
void overrides_free(struct overrides *overrides);
/* After each snapshot: units and file values may be others. */
void overrides_refresh(struct daemon *d);
/* At the start: orders in the map that no row explains, from a journal that was lost, would hold for ever unseen. */
void overrides_drop_strays(struct daemon *d);
void overrides_expire(struct daemon *d, uint64_t now_ns);

/*
 * Checks, writes the journal, then the map, and reads the map back. On failure nothing of it stays. `override` is a
 * template: kind, subject, cidr, values, reason, by_uid, until_ns; `values` is taken over in any case. An order about a
 * breaker replaces the one before: there is one at most.
 */
int overrides_add(struct daemon *d, struct override *override, const struct override **ret_override,
		  struct problem *problem);
int overrides_release(struct daemon *d, uint32_t id, struct problem *problem);
const struct override *overrides_find(const struct daemon *d, enum override_kind kind, const char *subject);

json_t *override_json(const struct override *override, uint64_t now_ns);

/* Limits in force and where each comes from: override's id, or 0 for the file. */
struct effective_limits {
	struct {
		struct rate rate;
		uint32_t burst;
		uint32_t rate_from, burst_from;
		uint64_t until_ns;
	} source, total;
	struct {
		struct limit limit;
		uint32_t from;
		uint64_t until_ns;
	} source_concurrent, total_concurrent;
};
void overrides_effective(const struct daemon *d, const struct service *service, uint64_t now_ns,
			 struct effective_limits *ret_limits);
bool overrides_draining(const struct daemon *d, const struct service *service);

#endif /* SLUICE_OVERRIDES_H */
