// SPDX-License-Identifier: GPL-2.0-only
/* trust.c: the trust list of a snapshot, source.overrides included, as one LPM map. */
#include "user/datapath/apply.h"

#include <string.h>

static int by_key(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct slc_trust_key));
}

/* Host bits are cleared, so that one prefix has one key. */
static struct slc_trust_key trust_key(const uint8_t addr[16], uint8_t prefix, uint32_t scope)
{
	struct slc_trust_key key = {.prefixlen = 32u + prefix, .scope = scope};

	memcpy(key.addr, addr, prefix / 8);
	if (prefix % 8)
		key.addr[prefix / 8] = addr[prefix / 8] & (uint8_t)(0xff00u >> prefix % 8);
	return key;
}

int trust_read(int fd, size_t expected, struct trust_entry **ret_entries, size_t *ret_count)
{
	_cleanup_free_ struct trust_entry *entries = calloc(expected + 1, sizeof(*entries));
	size_t count = 0;
	int r;

	if (!entries)
		return -ENOMEM;
	for (; fd >= 0 && count < expected; count++) {
		struct trust_entry *e = &entries[count];

		r = bpf_map_get_next_key(fd, count ? &entries[count - 1].key : NULL, &e->key);
		if (r == -ENOENT)
			break;
		if (r == 0)
			r = bpf_map_lookup_elem(fd, &e->key, &e->rule);
		if (r < 0)
			return r;
	}
	if (count)
		qsort(entries, count, sizeof(*entries), by_key);
	*ret_entries = TAKE_PTR(entries);
	*ret_count = count;
	return 0;
}

bool trust_equal(const struct trust_entry *a, const struct trust_entry *b, size_t count)
{
	return !count || memcmp(a, b, count * sizeof(*a)) == 0;
}

static const struct trust_entry *trust_find(const struct trust_entry *entries, size_t count,
					    const struct slc_trust_key *key)
{
	return count ? bsearch(key, entries, count, sizeof(*entries), by_key) : NULL;
}

static bool holds_ceiling(const struct trust_entry *entry)
{
	return entry && entry->rule.action == SLC_ACTION_allow;
}

/* An allow rule of the same prefix keeps its bucket over the reload; a new one gets a full one. */
static int assign_ceilings(struct datapath *dp, struct next *next, const struct trust_entry *live, size_t live_count,
			   char *why, size_t why_len)
{
	for (size_t i = 0; i < next->trust_count; i++) {
		struct trust_entry *e = &next->trust[i];
		const struct trust_entry *old = trust_find(live, live_count, &e->key);

		if (!holds_ceiling(e))
			continue;
		if (holds_ceiling(old)) {
			e->rule.slot = old->rule.slot;
			continue;
		}
		if (datapath_ceiling_slot(dp, &e->rule.slot) < 0) {
			trust_release(dp, next->trust, i, live, live_count);
			return because(
				-ENOSPC, why, why_len,
				"trust: no room for another allow rule: all %d ceilings are in use by rules and orders",
				SLC_CEILINGS);
		}
	}
	return 0;
}

/* Its being there is what counts. */
static const struct slc_rule DSCP_BELIEVED = {
	.action = SLC_ACTION_class, .class = SLC_CLASS_stranger, .until_ns = SLC_FOREVER};

static int check_twice(const struct trust_entry *entries, size_t count, char *why, size_t why_len)
{
	for (size_t i = 1; i < count; i++) {
		if (by_key(&entries[i - 1], &entries[i]) != 0)
			continue;
		if (entries[i].key.scope == SLC_SCOPE_DSCP)
			return because(-EINVAL, why, why_len,
				       "dscp_trust: one prefix is given twice; keep one of them");
		return because(-EINVAL, why, why_len,
			       "trust: one prefix is given twice (rules %u and %u); keep one of them",
			       entries[i - 1].rule.id, entries[i].rule.id);
	}
	return 0;
}

int trust_build(struct datapath *dp, const struct snapshot *snapshot, struct next *next, char *why, size_t why_len)
{
	_cleanup_free_ struct trust_entry *entries = NULL, *live = NULL;
	size_t total = snapshot->trust_count + snapshot->dscp_count, count = 0, live_count = 0;
	int r;

	for (size_t i = 0; i < next->count; i++)
		total += next->services[i].want->override_count;
	if (total > SLC_TRUST)
		return because(-ENOSPC, why, why_len,
			       "trust: %zu prefixes, source.overrides and dscp_trust included, but slc_trust holds %d",
			       total, SLC_TRUST);
	entries = calloc(total + 1, sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	for (size_t i = 0; i < snapshot->trust_count; i++) {
		const struct snapshot_rule *rule = &snapshot->trust[i];

		entries[count].key = trust_key(rule->addr, rule->prefix,
					       rule->rule.flags & SLC_RULE_OWN ? SLC_SCOPE_OWN : SLC_SCOPE_ALL);
		entries[count].rule = rule->rule;
		entries[count++].rule.slot = 0;
	}
	for (size_t i = 0; i < snapshot->dscp_count; i++) {
		const struct snapshot_rule *rule = &snapshot->dscp[i];

		entries[count].key = trust_key(rule->addr, rule->prefix, SLC_SCOPE_DSCP);
		entries[count++].rule = DSCP_BELIEVED;
	}
	for (size_t i = 0; i < next->count; i++) {
		const struct next_service *s = &next->services[i];

		for (size_t o = 0; o < s->want->override_count; o++) {
			const struct snapshot_rate_rule *rule = &s->want->overrides[o];

			entries[count].key = trust_key(rule->addr, rule->prefix, s->policy.uid);
			entries[count++].rule = s->overrides[o];
		}
	}
	if (count)
		qsort(entries, count, sizeof(*entries), by_key);
	r = check_twice(entries, count, why, why_len);
	if (r < 0)
		return r;
	r = trust_read(dp->live.trust_fd, dp->live.trust_count, &live, &live_count);
	if (r < 0)
		return because(r, why, why_len, "reading the live trust list: %s", strerror(-r));
	next->trust = TAKE_PTR(entries);
	next->trust_count = count;
	return assign_ceilings(dp, next, live, live_count, why, why_len);
}

void trust_release(struct datapath *dp, const struct trust_entry *gone, size_t gone_count,
		   const struct trust_entry *kept, size_t kept_count)
{
	for (size_t i = 0; i < gone_count; i++)
		if (holds_ceiling(&gone[i]) && !holds_ceiling(trust_find(kept, kept_count, &gone[i].key)))
			datapath_ceiling_release(dp, gone[i].rule.slot);
}

int trust_write(const struct datapath *dp, const struct next *next, char *why, size_t why_len)
{
	_cleanup_fd_ int fd =
		inner_create(dp, "slc_trust_list", BPF_MAP_TYPE_LPM_TRIE, "slc_trust_key", sizeof(struct slc_trust_key),
			     "slc_rule", sizeof(struct slc_rule), BPF_F_NO_PREALLOC, next->trust_count);
	_cleanup_free_ struct trust_entry *written = NULL;
	size_t count;
	int r = fd < 0 ? fd : 0;

	if (r < 0)
		return because(r, why, why_len, "making a trust list: %s", strerror(-r));
	for (size_t i = 0; i < next->trust_count && r == 0; i++)
		r = bpf_map_update_elem(fd, &next->trust[i].key, &next->trust[i].rule, BPF_NOEXIST);
	if (r < 0)
		return because(r, why, why_len, "filling a trust list of %zu prefixes: %s", next->trust_count,
			       strerror(-r));
	r = trust_read(fd, next->trust_count, &written, &count);
	if (r < 0 || count != next->trust_count || !trust_equal(written, next->trust, count))
		return because(-EIO, why, why_len, "the trust list reads back differently than written");
	return bpf_map_update_elem(dp->maps.fd[MAP_trust], &next->index, &fd, BPF_ANY);
}
