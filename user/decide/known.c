// SPDX-License-Identifier: GPL-2.0-only
#include "user/decide/known.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY_MIN 256
#define V4_NETWORK (96 + 24)
#define V6_NETWORK 48

static uint64_t mix(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ULL;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ULL;
	return x ^ x >> 32;
}

static size_t home(const struct known_table *t, const struct slc_known_key *key)
{
	uint64_t word[2];

	memcpy(word, key->addr, sizeof(word));
	return mix(mix(mix(t->seed ^ word[0]) ^ word[1]) ^ key->uid) & (t->capacity - 1);
}

static bool same(const struct slc_known_key *a, const struct slc_known_key *b)
{
	return a->uid == b->uid && memcmp(a->addr, b->addr, sizeof(a->addr)) == 0;
}

/* The key's slot, or the empty one where it would go. */
static size_t probe(const struct known_table *t, const struct slc_known_key *key)
{
	size_t i = home(t, key);

	while (t->slots[i].used && !same(&t->slots[i].key, key))
		i = (i + 1) & (t->capacity - 1);
	return i;
}

static struct known_entry *table_find(const struct known_table *t, const struct slc_known_key *key)
{
	struct known_entry *slot;

	if (t->count == 0)
		return NULL;
	slot = &t->slots[probe(t, key)];
	return slot->used ? slot : NULL;
}

static int table_grow(struct known_table *t)
{
	struct known_table bigger = {.capacity = t->capacity ? t->capacity * 2 : CAPACITY_MIN, .seed = t->seed};

	if (2 * (t->count + 1) <= t->capacity)
		return 0;
	bigger.slots = calloc(bigger.capacity, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < t->capacity; i++) {
		if (t->slots[i].used)
			bigger.slots[probe(&bigger, &t->slots[i].key)] = t->slots[i];
	}
	bigger.count = t->count;
	free(t->slots);
	*t = bigger;
	return 0;
}

/* Finds or makes the entry of `key`. */
static int table_claim(struct known_table *t, const struct slc_known_key *key, struct known_entry **ret)
{
	struct known_entry *slot = table_find(t, key);
	int err;

	if (!slot) {
		err = table_grow(t);
		if (err)
			return err;
		slot = &t->slots[probe(t, key)];
		*slot = (struct known_entry){.key = *key, .used = true};
		t->count++;
	}
	*ret = slot;
	return 0;
}

/* Empties a slot and moves back those that only stood behind it, so that no probe meets a hole. */
static void table_drop(struct known_table *t, struct known_entry *slot)
{
	size_t mask = t->capacity - 1, hole = slot - t->slots;

	for (size_t i = (hole + 1) & mask; t->slots[i].used; i = (i + 1) & mask) {
		size_t want = home(t, &t->slots[i].key);

		if (((i - want) & mask) >= ((i - hole) & mask)) {
			t->slots[hole] = t->slots[i];
			hole = i;
		}
	}
	memset(&t->slots[hole], 0, sizeof(t->slots[hole]));
	t->count--;
}

static bool is_v4(const uint8_t addr[16])
{
	static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

	return memcmp(addr, mapped, sizeof(mapped)) == 0;
}

static struct slc_known_key network_of(const struct slc_known_key *key)
{
	struct slc_known_key network = {.uid = key->uid};

	memcpy(network.addr, key->addr, (is_v4(key->addr) ? V4_NETWORK : V6_NETWORK) / 8);
	return network;
}

void known_init(struct known_set *set, uint64_t seed, size_t max)
{
	*set = (struct known_set){.max = max};
	set->entries.seed = seed;
	set->networks.seed = ~seed;
}

void known_free(struct known_set *set)
{
	free(set->entries.slots);
	free(set->networks.slots);
	*set = (struct known_set){0};
}

const struct known_entry *known_find(const struct known_set *set, const struct slc_known_key *key)
{
	const struct known_entry *entry = table_find(&set->entries, key);

	return entry && !entry->ended ? entry : NULL;
}

static void leave_network(struct known_set *set, const struct slc_known_key *key)
{
	struct slc_known_key network = network_of(key);
	struct known_entry *count = table_find(&set->networks, &network);

	set->live--;
	if (count && --count->good == 0)
		table_drop(&set->networks, count);
}

int known_put(struct known_set *set, const struct slc_known_key *key, const struct slc_known *known, uint32_t good)
{
	struct slc_known_key network = network_of(key);
	struct known_entry *entry, *count;
	int err;

	if (!known_find(set, key)) {
		if (set->live >= set->max || set->entries.count >= 2 * set->max)
			return -ENOSPC;
		err = table_claim(&set->networks, &network, &count);
		if (err)
			return err;
		count->good++;
		set->live++;
		err = table_claim(&set->entries, key, &entry);
		if (err) {
			leave_network(set, key);
			return err;
		}
	}
	entry = table_find(&set->entries, key);
	entry->since_ns = known->since_ns;
	entry->until_ns = known->until_ns;
	entry->good = good;
	entry->ended = false;
	return 0;
}

void known_remove(struct known_set *set, const struct slc_known_key *key)
{
	struct known_entry *entry = table_find(&set->entries, key);

	if (!entry)
		return;
	if (!entry->ended)
		leave_network(set, key);
	table_drop(&set->entries, entry);
}

static uint64_t end_of(const struct known_rule *rule, uint64_t now_ns, uint64_t random)
{
	uint64_t swing = rule->ttl_ns / 10000 * rule->jitter;

	return now_ns + rule->ttl_ns - swing + random % (2 * swing + 1);
}

static bool crowded(const struct known_set *set, const struct known_rule *rule, const struct slc_known_key *key)
{
	struct slc_known_key network = network_of(key);
	const struct known_entry *count = table_find(&set->networks, &network);
	uint32_t max = is_v4(key->addr) ? rule->max_per_v4_24 : rule->max_per_v6_48;

	if (set->live >= set->max || set->entries.count >= 2 * set->max)
		return true;
	return count && count->good >= max;
}

enum known_verdict known_judge(const struct known_set *set, const struct known_rule *rule, const struct slc_cold *cold,
			       uint64_t now_ns, uint64_t random, struct slc_known *ret_known)
{
	struct slc_known_key key = {.uid = cold->uid};
	const struct known_entry *entry;

	memcpy(key.addr, cold->addr, sizeof(key.addr));
	if (cold->good < rule->turns || cold->good_since_ns == 0)
		return KNOWN_NOT;
	if (cold->seen_ns < cold->good_since_ns || cold->seen_ns - cold->good_since_ns < rule->over_ns)
		return KNOWN_NOT;
	entry = table_find(&set->entries, &key);
	if (entry) {
		/* The cold entry may have been evicted and begun anew: its count is then below the entry's. */
		uint32_t further = cold->good >= entry->good ? cold->good - entry->good : cold->good;

		if (further < rule->turns)
			return KNOWN_NOT;
	}
	if (entry && !entry->ended) {
		if (entry->until_ns > now_ns + rule->ttl_ns / 2)
			return KNOWN_NOT;
		*ret_known = (struct slc_known){.since_ns = entry->since_ns, .until_ns = end_of(rule, now_ns, random)};
		return KNOWN_RENEW;
	}
	if (now_ns > cold->seen_ns && now_ns - cold->seen_ns > rule->ttl_ns)
		return KNOWN_NOT; /* facts that end so long ago are no reason any more */
	if (crowded(set, rule, &key))
		return KNOWN_CROWDED;
	*ret_known = (struct slc_known){.since_ns = now_ns, .until_ns = end_of(rule, now_ns, random)};
	return KNOWN_NEW;
}

void known_expire(struct known_set *set, size_t *cursor, size_t count, uint64_t now_ns, uint64_t keep_ns,
		  void (*ended)(const struct slc_known_key *key, void *arg), void *arg)
{
	if (count > set->entries.capacity)
		count = set->entries.capacity;
	for (size_t i = 0; i < count; i++) {
		struct known_entry *entry = &set->entries.slots[*cursor & (set->entries.capacity - 1)];

		if (entry->used && !entry->ended && entry->until_ns <= now_ns) {
			ended(&entry->key, arg);
			entry->ended = true;
			leave_network(set, &entry->key);
		}
		if (entry->ended && now_ns - entry->until_ns > keep_ns) {
			table_drop(&set->entries, entry); /* another may move into this slot: it is looked at again */
			continue;
		}
		*cursor = (*cursor + 1) & (set->entries.capacity - 1);
	}
}
