// SPDX-License-Identifier: GPL-2.0-only
/* facts.c: what the kernel side knows: counters, signals, sources. Reading changes nothing. */
#include "user/datapath/internal.h"

#include <string.h>

#include "bpf/bucket.h"
#include "bpf/hash.h"

/* The kernel copies one value of 8-byte multiples for each possible CPU, offline ones included (c140). */
_Static_assert(sizeof(struct slc_counters) % 8 == 0, "per-CPU slots are multiples of 8 bytes");

int datapath_counters_per_cpu(const struct datapath *dp, uint16_t state, struct slc_counters *ret, size_t cpus)
{
	uint32_t key = state;

	if (state >= SLC_STATES || cpus < dp->cpus)
		return -EINVAL;
	return bpf_map_lookup_elem(dp->maps.fd[MAP_counters], &key, ret);
}

int datapath_counters(const struct datapath *dp, uint16_t state, struct slc_counters *ret_sum)
{
	_cleanup_free_ struct slc_counters *per_cpu = calloc(dp->cpus, sizeof(*per_cpu));
	struct slc_counters sum = {0};
	int r = per_cpu ? datapath_counters_per_cpu(dp, state, per_cpu, dp->cpus) : -ENOMEM;

	if (r < 0)
		return r;
	/* Every field is a __u64. */
	for (size_t cpu = 0; cpu < dp->cpus; cpu++)
		for (size_t i = 0; i < sizeof(sum) / sizeof(uint64_t); i++)
			((uint64_t *)&sum)[i] += ((const uint64_t *)&per_cpu[cpu])[i];
	*ret_sum = sum;
	return 0;
}

const struct slc_probe *datapath_probes(const struct datapath *dp, uint16_t state)
{
	return state < SLC_STATES ? &dp->probe[state] : NULL;
}

const struct slc_measure *datapath_measure(const struct datapath *dp, uint16_t state)
{
	return state < SLC_STATES ? &dp->measure[state] : NULL;
}

const struct slc_signals *datapath_signals(const struct datapath *dp, uint16_t state)
{
	return state < SLC_STATES ? &dp->signals[state] : NULL;
}

const struct slc_control *datapath_control(const struct datapath *dp)
{
	return dp->control;
}

/* Tokens left of a bucket in 1/1000: how often T fits into what is free of max(tau, T). */
static uint64_t millitokens(uint64_t ahead, uint64_t interval, uint64_t depth)
{
	uint64_t bound = depth > interval ? depth : interval;

	if (!interval || ahead >= bound)
		return 0;
	return (bound - ahead) * 1000 / interval;
}

int datapath_source(const struct datapath *dp, const struct slc_policy *policy, const uint8_t addr[16], uint16_t vlan,
		    struct slc_cold *ret_cold, uint64_t *ret_millitokens)
{
	struct slc_addr key;
	const struct slc_cold_set *cold;
	uint64_t hash, ahead = 0;

	memcpy(&key, addr, sizeof(key));
	slc_addr_mask(&key, policy->v4_prefix, policy->v6_prefix);
	hash = slc_hash_source(dp->control->secret, &key, policy->uid, policy->flags & SLC_P_VLAN ? vlan : 0,
			       SLC_TIER_OWN);
	if (policy->flags & SLC_P_SOURCE) {
		uint64_t now = now_ns() >> policy->shift;
		const struct slc_set *set;

		if ((uint64_t)policy->set_base + policy->set_mask >= dp->maps.shape[MAP_sources].max_entries)
			return -EINVAL;
		set = &dp->sources[policy->set_base + (hash & policy->set_mask)];
		for (int i = 0; i < SLC_WAYS; i++) {
			uint64_t word = __atomic_load_n(&set->way[i].word, __ATOMIC_RELAXED);

			if (word && word >> 40 == hash >> 40) {
				ahead = slc_tat_ahead(word & SLC_TAT_MASK, now);
				break;
			}
		}
	}
	*ret_millitokens = millitokens(ahead, policy->source_interval, policy->source_depth);
	cold = &dp->cold[hash & (dp->maps.shape[MAP_cold].max_entries - 1)];
	for (int i = 0; i < SLC_COLD_WAYS; i++) {
		struct slc_cold way = cold->way[i];

		if (way.head.tag == hash >> 24 && way.seen_ns && way.uid == policy->uid) {
			*ret_cold = way;
			return 0;
		}
	}
	return -ENOENT;
}

size_t datapath_cold_sets(const struct datapath *dp)
{
	return dp->maps.shape[MAP_cold].max_entries;
}

size_t datapath_cold_walk(const struct datapath *dp, size_t first, size_t count, cold_visit visit, void *arg)
{
	size_t sets = datapath_cold_sets(dp), i;

	for (i = first; i < sets && i - first < count; i++) {
		for (int w = 0; w < SLC_COLD_WAYS; w++) {
			struct slc_cold copy = dp->cold[i].way[w]; /* may be torn: counts are facts of the moment */

			if (copy.seen_ns)
				visit(&copy, arg);
		}
	}
	return i > first ? i - first : 0;
}
