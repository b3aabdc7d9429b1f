// SPDX-License-Identifier: GPL-2.0-only
/* next.c: works out the next snapshot: who keeps which uid, slots, unit and range. Writes nothing to the kernel. */
#include "user/datapath/apply.h"

#include <netinet/in.h>
#include <string.h>

/* Unit of a service without configured source.rate: an operator's rate up to 3900/s is exact to 0.1 %, tau up to 275 s. */
#define SHIFT_WITHOUT_RATE 8

static int check_services(const struct snapshot *snapshot, char *why, size_t why_len)
{
	if (snapshot->service_count >= SLC_STATES)
		return because(-ENOSPC, why, why_len, "services: %zu given, slc_policy and its state slots hold %d",
			       snapshot->service_count, SLC_STATES - 1);
	for (size_t i = 0; i < snapshot->service_count; i++) {
		const struct snapshot_service *s = &snapshot->services[i];

		if (!s->policy.name[0] || !memchr(s->policy.name, 0, SLC_NAME_LEN))
			return because(-EINVAL, why, why_len, "services: entry %zu has no name of 1 to %d bytes", i + 1,
				       SLC_NAME_LEN - 1);
		if (!s->key_count)
			return because(-EINVAL, why, why_len, "services: %s listens nowhere", s->policy.name);
		for (size_t j = 0; j < i; j++)
			if (strcmp(s->policy.name, snapshot->services[j].policy.name) == 0)
				return because(-EINVAL, why, why_len, "services: %s is given twice", s->policy.name);
	}
	return 0;
}

static int by_key(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct slc_service_key));
}

static int check_keys(const struct snapshot *snapshot, char *why, size_t why_len)
{
	_cleanup_free_ struct slc_service_key *keys = NULL;
	size_t count = 0;

	for (size_t i = 0; i < snapshot->service_count; i++)
		count += snapshot->services[i].key_count;
	keys = calloc(count + 1, sizeof(*keys));
	if (!keys)
		return -ENOMEM;
	count = 0;
	for (size_t i = 0; i < snapshot->service_count; i++) {
		const struct snapshot_service *s = &snapshot->services[i];

		memcpy(keys + count, s->keys, s->key_count * sizeof(*keys));
		count += s->key_count;
	}
	if (count)
		qsort(keys, count, sizeof(*keys), by_key);
	for (size_t i = 1; i < count; i++)
		if (by_key(&keys[i - 1], &keys[i]) == 0)
			return because(-EINVAL, why, why_len, "services: port %u of one address is listened on twice",
				       keys[i].port);
	return 0;
}

/* uid and state slot: those of the name, else new ones. */
static int give_identity(const struct datapath *dp, struct next *next, char *why, size_t why_len)
{
	bool used[SLC_STATES] = {[0] = true};
	uint32_t state = 1;

	for (size_t i = 0; i < dp->live.count; i++) /* removed services' slots too: packets may still be there */
		used[dp->live.services[i].policy.state % SLC_STATES] = true;
	for (size_t i = 0; i < next->count; i++) {
		struct next_service *s = &next->services[i];

		if (s->have) {
			s->policy.uid = s->have->policy.uid;
			s->policy.state = s->have->policy.state;
			continue;
		}
		while (state < SLC_STATES && used[state])
			state++;
		if (state == SLC_STATES)
			return because(-ENOSPC, why, why_len,
				       "services: no state slot is free for %s: %d in all, those of removed services "
				       "are free after this change; apply it in two steps",
				       s->policy.name, SLC_STATES - 1);
		used[state] = true;
		s->policy.state = (uint16_t)state;
		s->policy.uid = next->next_uid++;
	}
	return 0;
}

enum { BUCKET_SOURCE, BUCKET_WIDE, BUCKET_OVERRIDES };

static int give_units(struct next_service *s, char *why, size_t why_len)
{
	const struct snapshot_service *want = s->want;
	_cleanup_free_ struct unit_bucket *b = calloc(BUCKET_OVERRIDES + want->override_count, sizeof(*b));
	int old = s->have ? s->have->policy.shift : -1, r;
	size_t bad;

	s->overrides = calloc(want->override_count + 1, sizeof(*s->overrides));
	if (!b || !s->overrides)
		return -ENOMEM;
	if (want->policy.flags & SLC_P_SOURCE) {
		b[BUCKET_SOURCE].interval16 = want->source_interval_ns16;
		b[BUCKET_SOURCE].depth16 = want->source_depth_ns16;
	}
	if (want->policy.flags & SLC_P_WIDE) {
		b[BUCKET_WIDE].interval16 = want->wide_interval_ns16;
		b[BUCKET_WIDE].depth16 = want->wide_depth_ns16;
	}
	for (size_t i = 0; i < want->override_count; i++) {
		b[BUCKET_OVERRIDES + i].interval16 = want->overrides[i].interval_ns16;
		b[BUCKET_OVERRIDES + i].depth16 = want->overrides[i].depth_ns16;
	}
	if (old < 0 && !(want->policy.flags & (SLC_P_SOURCE | SLC_P_WIDE)) && !want->override_count)
		old = SHIFT_WITHOUT_RATE;
	r = choose_units(b, BUCKET_OVERRIDES + want->override_count, old, &s->policy.shift, &bad);
	if (r < 0)
		return because(
			r, why, why_len,
			"services: %s: no unit of time holds %s%s to 0.1 %% together with its other rates: bring "
			"its rates and bursts closer together",
			want->policy.name,
			bad == BUCKET_SOURCE ? "source.rate"
			: bad == BUCKET_WIDE ? "source.wide"
					     : "source.overrides",
			bad >= BUCKET_OVERRIDES ? " (one of them)" : "");
	s->policy.source_interval = b[BUCKET_SOURCE].interval;
	s->policy.source_depth = b[BUCKET_SOURCE].depth;
	s->policy.wide_interval = b[BUCKET_WIDE].interval;
	s->policy.wide_depth = b[BUCKET_WIDE].depth;
	for (size_t i = 0; i < want->override_count; i++)
		s->overrides[i] = (struct slc_rule){
			.action = SLC_ACTION_rate,
			.interval = b[BUCKET_OVERRIDES + i].interval,
			.depth = b[BUCKET_OVERRIDES + i].depth,
			.until_ns = SLC_FOREVER,
			.id = want->overrides[i].id,
		};
	return 0;
}

/*
 * Every service gets a range, also one without source.rate: an operator may set a rate at any time. A service whose
 * unit changed needs another range, since packets of the live snapshot read the old one in the old unit.
 */
static int give_ranges(const struct datapath *dp, struct next *next, char *why, size_t why_len)
{
	_cleanup_free_ struct range_want *want = calloc(next->count + 1, sizeof(*want));
	_cleanup_free_ struct range *busy = calloc(dp->live.count + 1, sizeof(*busy));
	size_t busy_count = dp->shared[MAP_sources] || dp->plan != PLAN_MIGRATE ? dp->live.count : 0;
	uint32_t target = range_target(dp->configured_sets, next->count);
	int r;

	if (!want || !busy)
		return -ENOMEM;
	for (size_t i = 0; i < busy_count; i++) {
		const struct slc_policy *p = &dp->live.services[i].policy;

		busy[i] = (struct range){.base = p->set_base, .size = p->set_mask + 1};
	}
	for (size_t i = 0; i < next->count; i++) {
		const struct next_service *s = &next->services[i];

		if (busy_count && s->have && s->have->policy.shift == s->policy.shift)
			want[i].now =
				(struct range){.base = s->have->policy.set_base, .size = s->have->policy.set_mask + 1};
	}
	r = layout_ranges(want, next->count, busy, busy_count, 2 * dp->configured_sets, target, &next->settled);
	if (r < 0)
		return because(r, why, why_len,
			       "tables.sources: %u entries (%u sets of %d) are too few for %zu services; at least %zu",
			       dp->configured_sets * SLC_WAYS, dp->configured_sets, SLC_WAYS, next->count,
			       next->count * SLC_WAYS);
	for (size_t i = 0; i < next->count; i++) {
		struct next_service *s = &next->services[i];

		s->policy.set_base = want[i].next.base;
		s->policy.set_mask = want[i].next.size - 1;
		s->moves = s->have && (!busy_count || want[i].now.base != want[i].next.base ||
				       want[i].now.size != want[i].next.size);
	}
	return 0;
}

/* Policy slots: an unchanged policy keeps its own, the others get one that the live snapshot does not name. */
static void give_slots(const struct datapath *dp, struct next *next)
{
	bool used[SLC_POLICIES] = {false};
	uint16_t slot = 0;

	for (size_t i = 0; i < dp->live.count; i++)
		used[dp->live.services[i].slot % SLC_POLICIES] = true;
	for (size_t i = 0; i < next->count; i++) {
		struct next_service *s = &next->services[i];

		if (s->have && dp->plan != PLAN_MIGRATE &&
		    memcmp(&s->have->policy, &s->policy, sizeof(s->policy)) == 0) {
			s->slot = s->have->slot;
			continue;
		}
		while (used[slot]) /* 255 + 255 of 512 */
			slot++;
		used[slot] = true;
		s->slot = slot;
	}
}

static void fill_ports(const struct datapath *dp, const struct snapshot *snapshot, struct next *next)
{
	for (size_t i = 0; i < snapshot->service_count; i++) {
		const struct snapshot_service *s = &snapshot->services[i];

		for (size_t k = 0; k < s->key_count; k++) {
			struct slc_ports *p = &next->ports[s->keys[k].port >> 6];
			uint64_t bit = 1ULL << (s->keys[k].port & 63);

			if (s->keys[k].proto == IPPROTO_UDP)
				p->udp |= bit;
			else
				p->tcp |= bit;
		}
	}
	for (size_t i = 0; i < snapshot->management_port_count; i++) {
		uint16_t port = snapshot->management_ports[i];

		next->ports[port >> 6].management |= 1ULL << (port & 63);
	}
	for (size_t i = 0; i < ARRAY_SIZE(next->ports); i++)
		next->ports[i].once = dp->ports[i].once | next->ports[i].tcp;
}

static bool is_wildcard(const struct slc_service_key *key)
{
	static const uint8_t any4[16] = {[10] = 0xff, [11] = 0xff};
	static const uint8_t any6[16] = {0};

	return memcmp(key->addr, any4, 16) == 0 || memcmp(key->addr, any6, 16) == 0;
}

static void fill_global(const struct snapshot *snapshot, struct next *next)
{
	next->global = snapshot->global;
	next->global.has_trust = 0;
	for (size_t i = 0; i < snapshot->trust_count; i++)
		next->global.has_trust |= !(snapshot->trust[i].rule.flags & SLC_RULE_OWN);
	next->global.has_exact = next->global.has_wildcard = 0;
	for (size_t i = 0; i < snapshot->service_count; i++) {
		for (size_t k = 0; k < snapshot->services[i].key_count; k++) {
			if (is_wildcard(&snapshot->services[i].keys[k]))
				next->global.has_wildcard = 1;
			else
				next->global.has_exact = 1;
		}
	}
}

int next_build(struct datapath *dp, const struct snapshot *snapshot, struct next *next, char *why, size_t why_len)
{
	int r = check_services(snapshot, why, why_len);

	if (r == 0)
		r = check_keys(snapshot, why, why_len);
	if (r < 0)
		return r;
	next->services = calloc(snapshot->service_count + 1, sizeof(*next->services));
	if (!next->services)
		return because(-ENOMEM, why, why_len, "out of memory");
	next->count = snapshot->service_count;
	next->next_uid = dp->control->next_uid;
	next->index = dp->plan == PLAN_MIGRATE ? dp->control->active & 1 : !dp->live.index;
	for (size_t i = 0; i < next->count; i++) {
		struct next_service *s = &next->services[i];

		s->want = &snapshot->services[i];
		s->policy = s->want->policy;
		if (s->want->override_count)
			s->policy.flags |= SLC_P_OVERRIDES;
		s->have = live_find(&dp->live, s->policy.name);
	}
	r = give_identity(dp, next, why, why_len);
	for (size_t i = 0; i < next->count; i++) {
		next->services[i].measure = next->services[i].want->measure;
		next->services[i].measure.uid = next->services[i].policy.uid;
	}
	for (size_t i = 0; i < next->count && r == 0; i++)
		r = give_units(&next->services[i], why, why_len);
	if (r == 0)
		r = give_ranges(dp, next, why, why_len);
	if (r == 0)
		r = trust_build(dp, snapshot, next, why, why_len);
	if (r < 0)
		return r;
	give_slots(dp, next);
	fill_ports(dp, snapshot, next);
	fill_global(snapshot, next);
	return 0;
}

void next_free(struct datapath *dp, struct next *next, bool applied)
{
	_cleanup_free_ struct trust_entry *live = NULL;
	size_t live_count = 0;

	if (!applied && next->trust && trust_read(dp->live.trust_fd, dp->live.trust_count, &live, &live_count) == 0)
		trust_release(dp, next->trust, next->trust_count, live, live_count);
	for (size_t i = 0; i < next->count; i++)
		free(next->services[i].overrides);
	free(next->services);
	free(next->trust);
}

static bool same_keys(const struct next_service *s)
{
	const struct live_service *have = s->have;

	if (have->key_count != s->want->key_count)
		return false;
	for (size_t i = 0; i < have->key_count; i++) {
		bool found = false;

		for (size_t j = 0; j < have->key_count && !found; j++)
			found = by_key(&have->keys[i], &s->want->keys[j]) == 0;
		if (!found)
			return false;
	}
	return true;
}

int next_is_live(const struct datapath *dp, const struct next *next)
{
	_cleanup_free_ struct trust_entry *live = NULL;
	size_t live_count = 0;
	int r;

	if (!dp->live.number || dp->plan == PLAN_MIGRATE || !next->settled || next->count != dp->live.count ||
	    next->trust_count != dp->live.trust_count)
		return 0;
	if (memcmp(&next->global, &dp->control->global[dp->live.index], sizeof(next->global)) != 0 ||
	    memcmp(next->ports, dp->ports, sizeof(next->ports)) != 0)
		return 0;
	for (size_t i = 0; i < next->count; i++) {
		const struct next_service *s = &next->services[i];

		if (!s->have || memcmp(&s->policy, &s->have->policy, sizeof(s->policy)) != 0 || !same_keys(s) ||
		    memcmp(&s->measure, &dp->measure[s->policy.state], sizeof(s->measure)) != 0)
			return 0;
	}
	r = trust_read(dp->live.trust_fd, dp->live.trust_count, &live, &live_count);
	if (r < 0)
		return r;
	return live_count == next->trust_count && trust_equal(live, next->trust, live_count);
}
