/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * known.h: who has earned the class `known`. The kernel gathers facts about sources (slc_cold); the rule here turns
 * them into entries that live for a while. One network may hold only so many: a botnet in one /24 cannot fill the map.
 */
#ifndef SLUICE_KNOWN_H
#define SLUICE_KNOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "maps/abi.h"

struct known_rule {
	uint32_t turns; /* good connections */
	uint64_t over_ns; /* that span at least this */
	uint64_t ttl_ns;
	uint16_t jitter; /* of ttl, in 1/100 %: entries made together do not end together */
	uint32_t max_per_v4_24, max_per_v6_48;
};

struct known_entry {
	struct slc_known_key key;
	uint64_t since_ns, until_ns;
	uint32_t good; /* the source's good connections when the entry was made or renewed */
	bool used;
	bool ended; /* kept for its `good`: the same facts do not earn the class twice */
};

/* Open addressing, grown at half load; `seed` keeps clients from choosing who collides. */
struct known_table {
	struct known_entry *slots;
	size_t capacity, count;
	uint64_t seed;
};

struct known_set {
	struct known_table entries;
	struct known_table networks; /* `good` counts the live entries of a network */
	size_t live, max; /* twice `max` with the ended ones */
};

void known_init(struct known_set *set, uint64_t seed, size_t max);
void known_free(struct known_set *set);
/* Live entries only. */
const struct known_entry *known_find(const struct known_set *set, const struct slc_known_key *key);
/* -ENOSPC when the set is full, -ENOMEM. An entry of the same key is replaced. */
int known_put(struct known_set *set, const struct slc_known_key *key, const struct slc_known *known, uint32_t good);
void known_remove(struct known_set *set, const struct slc_known_key *key);

enum known_verdict { KNOWN_NOT, KNOWN_NEW, KNOWN_RENEW, KNOWN_CROWDED };

/*
 * What the facts of one source earn at `now_ns`. With KNOWN_NEW and KNOWN_RENEW *ret_known is the entry to put; a
 * renewal needs `turns` further good connections and half of the time gone. KNOWN_CROWDED: its network holds its
 * share, or the set is full. `random` is uniform over 64 bits.
 */
enum known_verdict known_judge(const struct known_set *set, const struct known_rule *rule, const struct slc_cold *cold,
			       uint64_t now_ns, uint64_t random, struct slc_known *ret_known);

/*
 * Looks at `count` slots from *cursor on, which moves around: entries past their end are handed to `ended`, and
 * forgotten `keep_ns` later.
 */
void known_expire(struct known_set *set, size_t *cursor, size_t count, uint64_t now_ns, uint64_t keep_ns,
		  void (*ended)(const struct slc_known_key *key, void *arg), void *arg);

#endif /* SLUICE_KNOWN_H */
