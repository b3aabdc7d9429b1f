// SPDX-License-Identifier: GPL-2.0-only
/* override_push.c: what all overrides together ask of the kernel, written and read back. */
#include "user/control/override_parts.h"

#include <errno.h>
#include <string.h>

#include "user/control/clock.h"
#include "user/control/compile.h"

/* --- limits of a service ------------------------------------------------------------------------------------------ */

/* T and tau in 1/16 ns of a bucket that an override replaces. */
static int bucket16(const char *name, const struct rate *rate, uint32_t burst, uint64_t *ret_interval,
		    uint64_t *ret_depth, struct problem *problem)
{
	char why[WHY_LEN] = "", text[64], key[64];
	int err;

	if (!rate->set || burst == 0) {
		snprintf(key, sizeof(key), "%s.%s", name, rate->set ? "burst" : "rate");
		return problem_value(problem, 400, key, NULL, rate->set ? "a count, 1 or more" : "a rate, as in 20/s",
				     "set it in the same command: a rate and its burst hold together",
				     "%s is not set, neither by the file nor by an override", key);
	}
	format_rate(rate, text, sizeof(text));
	snprintf(key, sizeof(key), "%s.rate", name);
	err = compile_bucket(&(struct bucket_config){*rate, burst}, ret_interval, ret_depth, why, sizeof(why));
	if (err)
		return problem_value(problem, 400, key, text, why, NULL, "%s: %s cannot be held: %s", key, text, why);
	return 0;
}

/* Depth of a source bucket in units: the kernel side compares modulo 2^40 and allows 32 bits of it. */
static int depth_units(const struct effective_limits *e, uint32_t interval, uint32_t *ret_depth,
		       struct problem *problem)
{
	uint64_t depth = (uint64_t)interval * e->source.burst;
	char burst[32], accepted[96], rate[64];

	if (depth <= UINT32_MAX) {
		*ret_depth = depth;
		return 0;
	}
	format_rate(&e->source.rate, rate, sizeof(rate));
	snprintf(burst, sizeof(burst), "%u", e->source.burst);
	snprintf(accepted, sizeof(accepted), "1 to %llu at %s", UINT32_MAX / (unsigned long long)interval, rate);
	return problem_value(problem, 400, "source.burst", burst, accepted,
			     "give a smaller source.burst in the same command, or change the file: the service's"
			     " buckets are then laid out anew",
			     "source.burst: %s at %s takes longer to fill than the buckets of this service can count",
			     burst, rate);
}

#define DAY_NS (86400 * NS_PER_S)

/* Rates that buckets of this unit hold for sure: T from 1000 units, which rounding changes by 0.1 %, to 2^32 - 1. */
static void rates_of_unit(uint8_t shift, char *buf, size_t len)
{
	uint64_t longest = (uint64_t)UINT32_MAX << (shift < 32 ? shift : 31), per_s = NS_PER_S / 1000 >> shift;
	struct rate low = {true, 1, longest < DAY_NS ? longest / NS_PER_S * NS_PER_S : DAY_NS};
	struct rate high = {true, per_s, NS_PER_S};
	char from[64], to[64];

	if (!per_s)
		high = (struct rate){true, (DAY_NS / 1000 >> shift) ?: 1, DAY_NS};
	format_rate(&low, from, sizeof(from));
	format_rate(&high, to, sizeof(to));
	snprintf(buf, len, "%s to %s", from, to);
}

/* A service without source.rate in the file has its range of buckets too, in a unit that suits many rates (next.c). */
static int compute_source(const struct service *service, const struct effective_limits *e,
			  struct slc_override_half *half, struct problem *problem)
{
	uint64_t interval16, depth16;
	uint32_t interval, depth = 0;
	char rate[64], accepted[160];
	int err;

	if (!e->source.rate_from && !e->source.burst_from)
		return 0;
	err = bucket16("source", &e->source.rate, e->source.burst, &interval16, &depth16, problem);
	if (err)
		return err;
	if (datapath_to_units(interval16, service->policy.shift, &interval)) {
		format_rate(&e->source.rate, rate, sizeof(rate));
		rates_of_unit(service->policy.shift, accepted, sizeof(accepted));
		return problem_value(problem, 400, "source.rate", rate, accepted,
				     "change the file: the service's buckets are then laid out anew",
				     "source.rate: the buckets of this service count in %llu ns, which cannot hold %s"
				     " within 0.1 %%",
				     1ULL << service->policy.shift, rate);
	}
	err = depth_units(e, interval, &depth, problem);
	if (err)
		return err;
	half->flags |= SLC_O_SOURCE;
	half->source_interval = interval;
	half->source_depth = depth;
	half->source_until_ns = e->source.until_ns;
	return 0;
}

static int compute_total(const struct service *service, const struct effective_limits *e,
			 struct slc_override_half *half, struct problem *problem)
{
	uint64_t interval16, depth16;
	char why[WHY_LEN] = "", rate[64];
	int err;

	if (!e->total.rate_from && !e->total.burst_from)
		return 0;
	err = bucket16("total", &e->total.rate, e->total.burst, &interval16, &depth16, problem);
	if (err)
		return err;
	if (compile_shares(&service->policy, interval16, why, sizeof(why))) {
		format_rate(&e->total.rate, rate, sizeof(rate));
		return problem_value(problem, 400, "total.rate", rate, why, NULL, "total.rate: %s: %s", rate, why);
	}
	half->flags |= SLC_O_TOTAL;
	half->total_interval16 = interval16;
	half->total_depth16 = depth16;
	half->total_until_ns = e->total.until_ns;
	return 0;
}

/* What the kernel is to enforce instead of the file's terms. */
static int compute(const struct daemon *d, const struct service *service, struct slc_override_half *ret_half,
		   struct problem *problem)
{
	const struct override *drain = overrides_find(d, OVERRIDE_drain, service->policy.name);
	const struct override *breaker = overrides_find(d, OVERRIDE_breaker, service->policy.name);
	struct slc_override_half half = {0};
	struct effective_limits e;
	int err;

	overrides_effective(d, service, clock_ns(), &e);
	err = compute_source(service, &e, &half, problem);
	if (!err)
		err = compute_total(service, &e, &half, problem);
	if (err)
		return err;
	if (e.source_concurrent.from) {
		half.flags |= SLC_O_CONCURRENT;
		half.source_concurrent = e.source_concurrent.limit.value;
		half.concurrent_until_ns = e.source_concurrent.until_ns;
	}
	if (e.total_concurrent.from) {
		half.flags |= SLC_O_BULKHEAD;
		half.total_concurrent = e.total_concurrent.limit.value;
		half.bulkhead_until_ns = e.total_concurrent.until_ns;
	}
	if (drain) {
		half.flags |= SLC_O_DRAIN;
		half.drain_until_ns = drain->until_ns;
	}
	if (breaker) {
		half.flags |= SLC_O_BREAKER;
		half.breaker_open = breaker->open;
		half.breaker_until_ns = breaker->until_ns;
	}
	*ret_half = half;
	return 0;
}

static bool same_half(const struct slc_override_half *a, const struct slc_override_half *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

int override_try_service(const struct daemon *d, const struct service *service, struct problem *problem)
{
	struct slc_override_half half;

	return compute(d, service, &half, problem);
}

/* Computes, writes and reads back: an order that the map does not hold is none. */
int override_push_service(struct daemon *d, const struct service *service, struct problem *problem)
{
	struct slc_override_half half, found;
	int err = compute(d, service, &half, problem);

	if (err)
		return err;
	err = datapath_get_override(d->dp, service->policy.state, &found);
	if (!err && same_half(&half, &found))
		return 0;
	err = datapath_set_override(d->dp, service->policy.state, &half);
	if (!err)
		err = datapath_get_override(d->dp, service->policy.state, &found);
	if (err)
		return problem_say(problem, 500, "%s: the map of overrides refuses: %s", service->policy.name,
				   strerror(-err));
	if (!same_half(&half, &found))
		return problem_say(problem, 500, "%s: the map of overrides holds other values than written",
				   service->policy.name);
	return 0;
}

/* --- orders by address --------------------------------------------------------------------------------------------- */

/* The newest order for the prefix that holds. */
static struct override *order_in_force(const struct daemon *d, const struct cidr *cidr, uint64_t now_ns)
{
	struct override *newest = NULL;

	for (size_t i = 0; i < d->overrides.count; i++) {
		struct override *o = d->overrides.items[i];

		if (override_is_order(o) && o->until_ns > now_ns && override_same_cidr(&o->cidr, cidr))
			newest = o;
	}
	return newest;
}

/*
 * When what `o` says ends: with the daemon dead nobody puts back an older order of the same prefix, so one that says
 * the same and ends later lends its time. One that says something else, and holds beyond, ends the search.
 */
static uint64_t end_of(const struct daemon *d, const struct override *o)
{
	uint64_t until_ns = o->until_ns;
	size_t i = d->overrides.count;

	while (i > 0 && d->overrides.items[i - 1] != o)
		i--;
	for (; o->kind == OVERRIDE_deny && i > 1; i--) {
		const struct override *older = d->overrides.items[i - 2];

		if (!override_is_order(older) || !override_same_cidr(&older->cidr, &o->cidr) ||
		    older->until_ns <= until_ns)
			continue;
		if (older->kind != o->kind || older->all_packets != o->all_packets || older->force != o->force)
			break;
		until_ns = older->until_ns;
	}
	return until_ns;
}

/*
 * The rule that the map has for this prefix; -ENOENT. A trie answers with the longest prefix that covers: one of
 * another order is not meant.
 */
static int rule_found(const struct daemon *d, const struct cidr *cidr, struct slc_rule *ret_rule)
{
	struct slc_rule rule;
	const struct override *o;
	int err = datapath_order_covering(d->dp, cidr->addr, cidr->prefix, &rule);

	if (err)
		return err;
	o = override_by_id(d, rule.id);
	if (o && !override_same_cidr(&o->cidr, cidr))
		return -ENOENT;
	*ret_rule = rule;
	return 0;
}

/* Bucket of an allow order: the one it has, so that its ceiling is not refilled, or a new one. */
static int ceiling_of(struct daemon *d, const struct override *o, const struct slc_rule *found, struct slc_rule *rule)
{
	if (found->action == SLC_ACTION_allow && found->id == o->id) {
		rule->slot = found->slot;
		return 0;
	}
	return datapath_ceiling_slot(d->dp, &rule->slot);
}

static int rule_of(struct daemon *d, const struct override *o, const struct slc_rule *found, struct slc_rule *ret_rule,
		   struct problem *problem)
{
	struct slc_rule rule = {.id = o->id, .until_ns = end_of(d, o), .prefix = o->cidr.prefix};
	uint64_t interval16, depth16;
	int err;

	rule.action = o->kind == OVERRIDE_deny ? SLC_ACTION_deny : SLC_ACTION_allow;
	if (o->all_packets)
		rule.flags |= SLC_RULE_ALL_PACKETS;
	if (o->kind == OVERRIDE_deny && o->force && override_in_management(d, &o->cidr))
		rule.flags |= SLC_RULE_FORCE;
	if (o->kind == OVERRIDE_allow) {
		err = bucket16("ceiling", &o->ceiling, o->burst, &interval16, &depth16, problem);
		if (err)
			return err;
		rule.interval = interval16;
		rule.depth = depth16;
		err = ceiling_of(d, o, found, &rule);
		if (err)
			return problem_value(problem, 507, "cidr", o->subject, NULL,
					     "release allow orders that are no longer needed: sluicectl overrides list",
					     "no ceiling is free: %d allow rules and orders hold them all",
					     SLC_CEILINGS);
	}
	*ret_rule = rule;
	return 0;
}

static int push_order(struct daemon *d, const struct cidr *cidr, struct problem *problem)
{
	const struct override *o = order_in_force(d, cidr, clock_ns());
	struct slc_rule rule, found = {0}, check;
	bool had = rule_found(d, cidr, &found) == 0, had_slot = had && found.action == SLC_ACTION_allow;
	int err;

	if (!o) {
		err = had ? datapath_order_delete(d->dp, cidr->addr, cidr->prefix) : 0;
		if (!err && had_slot)
			datapath_ceiling_release(d->dp, found.slot);
		return err && err != -ENOENT
			       ? problem_say(problem, 500, "the map of orders refuses: %s", strerror(-err))
			       : 0;
	}
	err = rule_of(d, o, &found, &rule, problem);
	if (err)
		return err;
	if (had && memcmp(&rule, &found, sizeof(rule)) == 0)
		return 0;
	err = datapath_order_set(d->dp, cidr->addr, cidr->prefix, &rule);
	if (!err)
		err = rule_found(d, cidr, &check);
	if (!err && memcmp(&rule, &check, sizeof(rule)) != 0)
		err = -EIO;
	if (err) {
		if (rule.action == SLC_ACTION_allow && !(had_slot && found.slot == rule.slot))
			datapath_ceiling_release(d->dp, rule.slot);
		return problem_value(problem, err == -ENOSPC ? 507 : 500, "cidr", o->subject, NULL, NULL,
				     err == -ENOSPC ? "the map of orders is full (%s)"
						    : "the map of orders does not hold it: %s",
				     strerror(-err));
	}
	if (had_slot && !(rule.action == SLC_ACTION_allow && rule.slot == found.slot))
		datapath_ceiling_release(d->dp, found.slot);
	return 0;
}

/* --- either --------------------------------------------------------------------------------------------------------- */

/* What an override acts on, computed anew. */
int override_push(struct daemon *d, const struct override *o, struct problem *problem)
{
	struct service *service;

	if (override_is_order(o))
		return push_order(d, &o->cidr, problem);
	service = daemon_service(d, o->subject);
	return service ? override_push_service(d, service, problem) : 0;
}
