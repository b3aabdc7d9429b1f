// SPDX-License-Identifier: GPL-2.0-only
/* orders.c: operators' deny and allow orders, ceilings, and the flags that let packets skip empty maps. */
#include "user/datapath/internal.h"

#include <string.h>

#include "bpf/hash.h"

/* --- ceilings ------------------------------------------------------------------------------------------------------ */

static void ceiling_take(struct datapath *dp, uint32_t slot)
{
	if (slot < SLC_CEILINGS)
		dp->ceiling_used[slot / 8] |= (uint8_t)(1u << slot % 8);
}

int datapath_ceiling_slot(struct datapath *dp, uint32_t *ret_slot)
{
	for (uint32_t slot = 0; slot < SLC_CEILINGS; slot++) {
		if (dp->ceiling_used[slot / 8] >> slot % 8 & 1)
			continue;
		ceiling_take(dp, slot);
		__atomic_store_n(&dp->ceiling[slot], 0, __ATOMIC_RELAXED); /* a TAT long past: full */
		*ret_slot = slot;
		return 0;
	}
	return -ENOSPC;
}

void datapath_ceiling_release(struct datapath *dp, uint32_t slot)
{
	if (slot < SLC_CEILINGS)
		dp->ceiling_used[slot / 8] &= (uint8_t) ~(1u << slot % 8);
}

struct rule_walk {
	struct datapath *dp;
	int fd;
};

static int take_ceiling_of(const void *key, void *arg)
{
	struct rule_walk *walk = arg;
	struct slc_rule rule;

	if (bpf_map_lookup_elem(walk->fd, key, &rule) == 0 && rule.action == SLC_ACTION_allow)
		ceiling_take(walk->dp, rule.slot);
	return 0;
}

/* After a start: the slots that live rules and orders name are taken. */
void ceilings_recover(struct datapath *dp)
{
	struct rule_walk trust = {dp, dp->live.trust_fd};
	struct rule_walk orders = {dp, dp->plan == PLAN_MIGRATE && dp->old.fd[MAP_orders] >= 0
					       ? dp->old.fd[MAP_orders]
					       : dp->maps.fd[MAP_orders]};

	if (trust.fd >= 0)
		map_walk(trust.fd, sizeof(struct slc_trust_key), SLC_TRUST, take_ceiling_of, &trust);
	map_walk(orders.fd, sizeof(struct slc_order_key), SLC_ORDERS, take_ceiling_of, &orders);
}

/* --- orders ---------------------------------------------------------------------------------------------------------- */

static void set_flag(struct datapath *dp, uint64_t flag, bool on)
{
	if (on)
		__atomic_or_fetch(&dp->control->flags, flag, __ATOMIC_RELEASE);
	else
		__atomic_and_fetch(&dp->control->flags, ~flag, __ATOMIC_RELEASE);
}

static bool map_is_empty(int fd, size_t key_size)
{
	uint8_t key[64];

	return key_size <= sizeof(key) && bpf_map_get_next_key(fd, NULL, key) == -ENOENT;
}

static int find_deny_all(const void *key, void *arg)
{
	struct rule_walk *walk = arg;
	struct slc_rule rule;

	return bpf_map_lookup_elem(walk->fd, key, &rule) == 0 && rule.action == SLC_ACTION_deny &&
	       rule.flags & SLC_RULE_ALL_PACKETS;
}

static void refresh_order_flags(struct datapath *dp)
{
	struct rule_walk walk = {dp, dp->maps.fd[MAP_orders]};

	set_flag(dp, SLC_F_ORDERS, !map_is_empty(walk.fd, sizeof(struct slc_order_key)));
	if (dp->control->flags & SLC_F_DENY_ALL)
		set_flag(dp, SLC_F_DENY_ALL,
			 map_walk(walk.fd, sizeof(struct slc_order_key), SLC_ORDERS, find_deny_all, &walk) == 1);
}

/* Host bits are cleared, so that one prefix has one key. */
static int order_key(const uint8_t addr[16], uint8_t prefix, struct slc_order_key *ret)
{
	if (prefix > 128)
		return -EINVAL;
	*ret = (struct slc_order_key){.prefixlen = prefix};
	memcpy(ret->addr, addr, prefix / 8);
	if (prefix % 8)
		ret->addr[prefix / 8] = addr[prefix / 8] & (uint8_t)(0xff00u >> prefix % 8);
	return 0;
}

int datapath_order_set(struct datapath *dp, const uint8_t addr[16], uint8_t prefix, const struct slc_rule *rule)
{
	struct slc_rule with_prefix = *rule;
	struct slc_order_key key;
	int r = order_key(addr, prefix, &key);

	if (r < 0)
		return r;
	with_prefix.prefix = prefix;
	r = bpf_map_update_elem(dp->maps.fd[MAP_orders], &key, &with_prefix, BPF_ANY);
	if (r < 0)
		return r;
	if (rule->action == SLC_ACTION_deny && rule->flags & SLC_RULE_ALL_PACKETS)
		set_flag(dp, SLC_F_DENY_ALL, true);
	refresh_order_flags(dp); /* it may have replaced the last deny-all */
	return 0;
}

int datapath_order_delete(struct datapath *dp, const uint8_t addr[16], uint8_t prefix)
{
	struct slc_order_key key;
	int r = order_key(addr, prefix, &key);

	if (r < 0)
		return r;
	r = bpf_map_delete_elem(dp->maps.fd[MAP_orders], &key);
	if (r == 0)
		refresh_order_flags(dp);
	return r;
}

/* --- known-good sources ------------------------------------------------------------------------------------------------ */

int datapath_known_set(struct datapath *dp, const struct slc_known_key *key, const struct slc_known *known)
{
	int r = bpf_map_update_elem(dp->maps.fd[MAP_known], key, known, BPF_ANY);

	if (r == 0)
		set_flag(dp, SLC_F_KNOWN, true);
	return r == -E2BIG ? -ENOSPC : r;
}

int datapath_known_delete(struct datapath *dp, const struct slc_known_key *key)
{
	int r = bpf_map_delete_elem(dp->maps.fd[MAP_known], key);

	if (r == 0 && map_is_empty(dp->maps.fd[MAP_known], sizeof(*key)))
		set_flag(dp, SLC_F_KNOWN, false);
	return r;
}

#define KNOWN_BATCH 1024

struct known_walk {
	int fd;
	known_visit visit;
	void *arg;
};

static int visit_known(const void *key, void *arg)
{
	struct known_walk *walk = arg;
	struct slc_known known;

	if (bpf_map_lookup_elem(walk->fd, key, &known) < 0)
		return 0;
	return walk->visit(key, &known, walk->arg) ? 0 : 1;
}

/* The visitor may delete: batches are copies, and a key seen twice must do no harm. It returns false to stop. */
int datapath_known_walk(const struct datapath *dp, known_visit visit, void *arg)
{
	struct known_walk walk = {dp->maps.fd[MAP_known], visit, arg};
	_cleanup_free_ struct slc_known_key *keys = calloc(KNOWN_BATCH, sizeof(*keys));
	_cleanup_free_ struct slc_known *values = calloc(KNOWN_BATCH, sizeof(*values));
	uint32_t cursor = 0, count;
	bool first = true;
	int r;

	if (!keys || !values)
		return -ENOMEM;
	for (uint32_t seen = 0; seen <= 2 * SLC_KNOWN; seen += count) {
		count = KNOWN_BATCH;
		r = bpf_map_lookup_batch(walk.fd, first ? NULL : &cursor, &cursor, keys, values, &count, NULL);
		if (first && r < 0 && r != -ENOENT) /* no batches, or a bucket longer than one */
			return map_walk(walk.fd, sizeof(*keys), SLC_KNOWN, visit_known, &walk) < 0 ? -EIO : 0;
		if (r < 0 && r != -ENOENT)
			return r;
		for (uint32_t i = 0; i < count; i++)
			if (!visit(&keys[i], &values[i], arg))
				return 0;
		if (r == -ENOENT)
			return 0;
		first = false;
	}
	return 0;
}
