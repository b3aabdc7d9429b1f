/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * trust.h: who the source is to us. Operators' orders first (they outlive the controller), then the snapshot's trust
 * list; both by longest prefix. An allow is bounded by its ceiling, so a spoofed trusted source cannot pass without
 * bound. Asked for services only: a rule here cannot lock anybody out of ssh.
 */
#ifndef SLC_TRUST_H
#define SLC_TRUST_H

#include "attempt.h"

/*
 * The longest prefix whose time has not come. A longest-prefix match knows one rule only: where that one has ended and
 * the controller, which removes it within a tick, is dead, the next wider one is asked for, SLC_ORDER_DEPTH deep.
 */
#define SLC_ORDER_DEPTH 4
static __always_inline const struct slc_rule *slc_order_find(const struct slc_addr *addr, __u64 now)
{
	struct slc_order_key key = {.prefixlen = 128};

	__builtin_memcpy(key.addr, addr, sizeof(key.addr));
	for (int i = 0; i < SLC_ORDER_DEPTH; i++) {
		const struct slc_rule *rule = bpf_map_lookup_elem(&slc_orders, &key);

		if (!rule)
			return NULL;
		if (now < rule->until_ns)
			return rule;
		if (!rule->prefix)
			return NULL;
		key.prefixlen = rule->prefix - 1;
	}
	return NULL;
}

static __always_inline const struct slc_rule *slc_trust_find(__u32 snapshot, __u32 scope, const struct slc_addr *addr)
{
	struct slc_trust_key key = {.prefixlen = 32 + 128, .scope = scope};
	void *trust = bpf_map_lookup_elem(&slc_trust, &snapshot);

	if (!trust)
		return NULL;
	__builtin_memcpy(key.addr, addr, sizeof(key.addr));
	return bpf_map_lookup_elem(trust, &key);
}

/* Under its ceiling an allowed source skips every later stage but commit, which charges the total without asking. */
static __always_inline int slc_allow(struct slc_attempt *a, const struct slc_rule *rule)
{
	__u32 slot = rule->slot;
	__u64 *tat16 = bpf_map_lookup_elem(&slc_ceiling, &slot);

	if (tat16 && slc_bucket_take(tat16, slc_now16(a), rule->interval, rule->depth, rule->depth) != SLC_TAKEN)
		REFUSE(a, ceiling);
	return SLC_allowed;
}

SLC_STAGE_FN int slc_trust_ask(struct slc_attempt *a)
{
	const struct slc_rule *order = NULL, *trust = NULL;

	if (a->control->flags & SLC_F_ORDERS)
		order = slc_order_find(&a->pkt.saddr, a->now);
	if (a->global->has_trust)
		trust = slc_trust_find(a->snapshot, SLC_SCOPE_ALL, &a->pkt.saddr);

	if (trust && trust->action == SLC_ACTION_management &&
	    !(order && order->action == SLC_ACTION_deny && order->flags & SLC_RULE_FORCE))
		return SLC_management;
	if (order && order->action == SLC_ACTION_deny)
		REFUSE(a, denied);
	if (slc_ordered(a, SLC_O_DRAIN, a->override->drain_until_ns))
		REFUSE(a, draining);
	if (order && order->action == SLC_ACTION_allow)
		return slc_allow(a, order);
	if (!trust)
		return SLC_NEXT;
	if (trust->action == SLC_ACTION_deny) {
		REFUSE(a, denied);
	} else if (trust->action == SLC_ACTION_allow) {
		return slc_allow(a, trust);
	} else if (trust->action == SLC_ACTION_class) {
		a->class = trust->class & 3;
		a->class_known = 1;
	}
	return SLC_NEXT;
}

/* Most attempts meet neither an order nor a list. */
static __always_inline int slc_stage_trust(struct slc_attempt *a)
{
	if (!(a->control->flags & SLC_F_ORDERS) && !a->global->has_trust && !(a->override->flags & SLC_O_DRAIN))
		return SLC_NEXT;
	return slc_trust_ask(a);
}

/* Known-good is asked late: a source refused by its own bucket never pays for the lookup. */
SLC_STAGE_FN void slc_known_ask(struct slc_attempt *a)
{
	struct slc_known_key key = {.uid = a->policy->uid};
	const struct slc_known *known;

	a->class_known = 1;
	__builtin_memcpy(key.addr, &a->key, sizeof(key.addr));
	known = bpf_map_lookup_elem(&slc_known, &key);
	if (known && a->now < known->until_ns)
		a->class = SLC_CLASS_known;
}

static __always_inline void slc_class_settle(struct slc_attempt *a)
{
	if (!a->class_known && a->control->flags & SLC_F_KNOWN)
		slc_known_ask(a);
}

/* Lease, manual stop, class cut. */
static __always_inline int slc_stage_ladder(struct slc_attempt *a)
{
	__u32 level = a->decision ? a->decision->level : 0;

	if (slc_ordered(a, SLC_O_LEVEL, a->override->level_until_ns))
		level = a->override->level;
	if (level >= 4)
		REFUSE(a, stopped);
	if (!a->decision) {
		if (a->global->on_loss == SLC_ON_LOSS_pass)
			return SLC_unprotected;
		if (a->global->on_loss == SLC_ON_LOSS_closed)
			REFUSE(a, failsafe);
		return SLC_NEXT;
	}
	if (a->decision->cut_classes) {
		slc_class_settle(a);
		if (a->decision->cut_classes >> a->class & 1)
			REFUSE(a, shed);
	}
	return SLC_NEXT;
}

#endif /* SLC_TRUST_H */
