// SPDX-License-Identifier: GPL-2.0-only
/*
 * migrate.c: from pinned maps of another layout (other ABI, other table sizes) to new ones, without an unfiltered packet.
 *
 * Maps that are alike are shared by the old and the new programs. The others are made new, and the first
 * datapath_apply() fills them, swaps every pinned link to the new programs in place, and renames the new pins over the
 * old. Until that swap nothing of the old is touched; if it fails the links go back and the new maps vanish.
 *
 * Carried over: secret, salts, next_uid (with slc_control); services with uid, state slot, unit; debts of sources;
 * counters (other numbers of reasons are understood: they are appended only); totals, ceilings, overrides, decisions,
 * signals; orders, known-good sources; cold entries. Not carried: slc_flows of another size (for 128 s a retransmitted SYN
 * counts as an attempt), arrival rings, events. If slc_conns changes, open connections are counted from zero.
 * If the pinned slc_control is not readable (no magic, or other major with another size), nothing is carried: keys are
 * hashed with another secret.
 */
#include "user/datapath/links.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "bpf/hash.h"

/* Sizes differ by appended fields within one major number; another major is believed at equal size only. */
static bool can_copy(const struct datapath *dp, enum map map)
{
	const struct shape *old = &dp->old.shape[map], *new = &dp->maps.shape[map];

	if (dp->old.fd[map] < 0 || old->type != new->type || old->key_size != new->key_size)
		return false;
	return old->value_size == new->value_size || dp->modes.pinned_major == SLC_ABI_MAJOR;
}

/* Value of element `key` of an old map, at least `len` bytes, zero beyond the old size. */
static void *old_value(const struct datapath *dp, enum map map, const void *key, size_t len, size_t copies)
{
	size_t size = ((size_t)dp->old.shape[map].value_size + 7) & ~(size_t)7;
	void *value;

	size *= copies;
	value = calloc(1, size > len ? size : len);
	if (value && bpf_map_lookup_elem(dp->old.fd[map], key, value) < 0) {
		free(value);
		return NULL;
	}
	return value;
}

void migrate_control(struct datapath *dp)
{
	_cleanup_free_ struct slc_control *old = NULL;
	struct slc_control *new = dp->control;
	uint32_t zero = 0;

	if (!can_copy(dp, MAP_control))
		return;
	old = old_value(dp, MAP_control, &zero, sizeof(*old), 1);
	if (!old || old->magic != SLC_MAGIC)
		return;
	memcpy(new->secret, old->secret, sizeof(new->secret));
	memcpy(new->salt, old->salt, sizeof(new->salt));
	new->salt_index = old->salt_index;
	new->next_uid = old->next_uid;
	new->boot_ns = old->boot_ns;
	new->lease_until_ns = old->lease_until_ns;
	new->flags = old->flags;
	dp->carried = true;
}

/* --- one function per kind of map -------------------------------------------------------------------------------- */

static int carry_slots(struct datapath *dp, enum map map)
{
	size_t old_size = dp->old.shape[map].value_size, new_size = dp->maps.shape[map].value_size;
	uint32_t entries = dp->maps.shape[map].max_entries;
	uint8_t *to = dp->mappings[map].at;

	if (dp->old.shape[map].max_entries < entries)
		entries = dp->old.shape[map].max_entries;
	for (uint32_t i = 0; i < entries; i++, to += (new_size + 7) & ~(size_t)7) {
		_cleanup_free_ void *value = old_value(dp, map, &i, new_size, 1);

		if (!value)
			return -EIO;
		memcpy(to, value, old_size < new_size ? old_size : new_size);
	}
	return 0;
}

/* Reasons are appended to the table, so a value of n reasons is: n enforced, n dry, the rest. */
#define COUNTERS_REST (sizeof(struct slc_counters) - 2 * sizeof(struct slc_reasons))

static bool counters_reasons(uint32_t value_size, size_t *ret_reasons)
{
	if (value_size < COUNTERS_REST || (value_size - COUNTERS_REST) % (2 * sizeof(uint64_t)))
		return false;
	*ret_reasons = (value_size - COUNTERS_REST) / (2 * sizeof(uint64_t));
	return true;
}

static int carry_counters(struct datapath *dp, enum map map)
{
	uint32_t old_size = dp->old.shape[map].value_size, entries = dp->maps.shape[map].max_entries;
	_cleanup_free_ struct slc_counters *to = calloc(dp->cpus, sizeof(*to));
	size_t n, keep;

	if (!counters_reasons(old_size, &n))
		return 0;
	if (!to)
		return -ENOMEM;
	keep = (n < SLC_REASON_COUNT ? n : SLC_REASON_COUNT) * sizeof(uint64_t);
	if (dp->old.shape[map].max_entries < entries)
		entries = dp->old.shape[map].max_entries;
	for (uint32_t i = 0; i < entries; i++) {
		_cleanup_free_ uint8_t *from = old_value(dp, map, &i, 0, dp->cpus);
		int r;

		if (!from)
			return -EIO;
		for (size_t cpu = 0; cpu < dp->cpus; cpu++) {
			const uint8_t *old = from + cpu * old_size;

			memset(&to[cpu], 0, sizeof(to[cpu]));
			memcpy(&to[cpu].enforced, old, keep);
			memcpy(&to[cpu].dry, old + n * sizeof(uint64_t), keep);
			memcpy(&to[cpu].attempts, old + 2 * n * sizeof(uint64_t), COUNTERS_REST);
		}
		r = bpf_map_update_elem(dp->maps.fd[map], &i, to, BPF_ANY);
		if (r < 0)
			return r;
	}
	return 0;
}

struct keys_carry {
	struct datapath *dp;
	enum map map;
	void *value;
};

static int carry_key(const void *key, void *arg)
{
	struct keys_carry *carry = arg;
	struct datapath *dp = carry->dp;
	int r = bpf_map_lookup_elem(dp->old.fd[carry->map], key, carry->value);

	if (r == -ENOENT)
		return 0;
	if (r == 0)
		r = bpf_map_update_elem(dp->maps.fd[carry->map], key, carry->value, BPF_ANY);
	return r == -E2BIG || r == -ENOSPC ? 0 : r; /* a smaller table keeps what fits */
}

static int carry_keys(struct datapath *dp, enum map map)
{
	const struct shape *old = &dp->old.shape[map];
	uint32_t size =
		old->value_size > dp->maps.shape[map].value_size ? old->value_size : dp->maps.shape[map].value_size;
	_cleanup_free_ void *value = calloc(1, (size + 7) & ~7u);
	struct keys_carry carry = {dp, map, value};

	if (!value)
		return -ENOMEM;
	return map_walk(dp->old.fd[map], old->key_size, old->max_entries, carry_key, &carry);
}

static void place_cold(struct datapath *dp, const struct slc_cold *entry, uint32_t old_set, uint32_t old_sets)
{
	uint32_t sets = dp->maps.shape[MAP_cold].max_entries, set = old_set & (sets - 1);
	struct slc_cold *victim = NULL;

	if (sets > old_sets) {
		/* The tag has the hash's upper bits, the old set its lowest; those between come from hashing again. */
		struct slc_addr addr;
		uint64_t hash;

		memcpy(&addr, entry->addr, sizeof(addr));
		hash = slc_hash_source(dp->control->secret, &addr, entry->uid, 0, SLC_TIER_OWN);
		if (hash >> 24 != entry->head.tag)
			return; /* keyed by VLAN too: seen again as new */
		set = (uint32_t)hash & (sets - 1);
	}
	for (int w = 0; w < SLC_COLD_WAYS; w++) {
		struct slc_cold *way = &dp->cold[set].way[w];

		if (!way->seen_ns) {
			victim = way;
			break;
		}
		if (!way->head.open && (!victim || way->seen_ns < victim->seen_ns))
			victim = way;
	}
	if (victim && (!victim->seen_ns || entry->head.open || victim->seen_ns < entry->seen_ns))
		*victim = *entry;
}

static int carry_cold(struct datapath *dp, enum map map)
{
	const struct shape *old = &dp->old.shape[map];

	if (old->value_size != sizeof(struct slc_cold_set) || !dp->carried)
		return 0;
	for (uint32_t i = 0; i < old->max_entries; i++) {
		struct slc_cold_set set;

		if (bpf_map_lookup_elem(dp->old.fd[map], &i, &set) < 0)
			return -EIO;
		for (int w = 0; w < SLC_COLD_WAYS; w++)
			if (set.way[w].seen_ns)
				place_cold(dp, &set.way[w], i, old->max_entries);
	}
	return 0;
}

/* apply moves {tag, TAT} by service; here the old table only becomes readable. */
static int carry_buckets(struct datapath *dp, enum map map)
{
	const struct shape *old = &dp->old.shape[map];

	if (dp->old_sources.at || !dp->carried || old->value_size != sizeof(struct slc_set) ||
	    !(old->flags & BPF_F_MMAPABLE))
		return 0;
	return mapping_open(&dp->old_sources, dp->old.fd[map], old);
}

static int (*const carriers[])(struct datapath *dp, enum map map) = {
	[CARRY_SLOTS] = carry_slots, [CARRY_COUNTERS] = carry_counters, [CARRY_BUCKETS] = carry_buckets,
	[CARRY_COLD] = carry_cold,   [CARRY_KEYS] = carry_keys,         [CARRY_FRESH] = NULL,
	[CARRY_SNAPSHOT] = NULL,
};

/* Connections counted by storage that the new programs do not see would never be uncounted. */
static void forget_connections(struct datapath *dp)
{
	for (uint32_t i = 0; i < SLC_STATES; i++) {
		__atomic_store_n(&dp->signals[i].open, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&dp->signals[i].held, 0, __ATOMIC_RELAXED);
	}
	for (uint32_t i = 0; i < dp->maps.shape[MAP_cold].max_entries; i++)
		for (int w = 0; w < SLC_COLD_WAYS; w++)
			dp->cold[i].way[w].head.open = 0;
}

/* Turns that the new programs do not know would be in flight for ever. */
static void forget_turns(struct datapath *dp)
{
	for (uint32_t i = 0; i < SLC_STATES; i++) {
		uint64_t begun = __atomic_load_n(&dp->signals[i].turns_begun, __ATOMIC_RELAXED);

		__atomic_store_n(&dp->signals[i].turns_ended, begun, __ATOMIC_RELAXED);
	}
}

int migrate_carry(struct datapath *dp, char *why, size_t why_len)
{
	for (int i = 0; i < MAP_COUNT; i++) {
		int r = 0;

		if (!dp->shared[i] && can_copy(dp, i) && carriers[map_carry[i]])
			r = carriers[map_carry[i]](dp, i);
		if (r < 0)
			return because(r, why, why_len, "carrying %s over to its new layout: %s", map_names[i],
				       strerror(-r));
	}
	return 0;
}

/* --- pins ------------------------------------------------------------------------------------------------------------ */

#define NEW_PREFIX "new_"

static void unpin(const struct datapath *dp, const char *prefix, int from, int to)
{
	char path[PATH_MAX];

	for (int i = from; i < to; i++)
		if (!dp->shared[i] && pin_path(path, sizeof(path), dp->pins, prefix, map_names[i]) == 0)
			unlink(path);
}

static int pin_under(const struct datapath *dp, const char *prefix, char *why, size_t why_len)
{
	for (int i = 0; i < MAP_COUNT; i++) {
		char path[PATH_MAX];
		int r;

		if (dp->shared[i])
			continue;
		r = pin_path(path, sizeof(path), dp->pins, prefix, map_names[i]);
		if (r == 0)
			r = bpf_obj_pin(dp->maps.fd[i], path);
		if (r < 0) {
			unpin(dp, prefix, 0, i);
			return because(r, why, why_len, "pinning %s in %s: %s", map_names[i], dp->pins, strerror(-r));
		}
	}
	return 0;
}

int pin_all(struct datapath *dp, char *why, size_t why_len)
{
	return pin_under(dp, "", why, why_len);
}

/*
 * The last step of a swap. slc_control goes last: while its new name is there, a run that died in between is recognised
 * by migrate_recover(), and so are the others' names.
 */
static void rename_new(const struct datapath *dp)
{
	for (int i = MAP_COUNT - 1; i >= 0; i--) {
		char from[PATH_MAX], to[PATH_MAX];

		if (dp->shared[i] || pin_path(from, sizeof(from), dp->pins, NEW_PREFIX, map_names[i]) < 0 ||
		    pin_path(to, sizeof(to), dp->pins, "", map_names[i]) < 0)
			continue;
		/* Programs run on the new maps already; one that cannot be renamed is found by the next start. */
		rename(from, to);
	}
}

int migrate_pin(struct datapath *dp, char *why, size_t why_len)
{
	return pin_under(dp, NEW_PREFIX, why, why_len);
}

int migrate_swap(struct datapath *dp, char *why, size_t why_len)
{
	int r = links_swap(dp, why, why_len);

	if (r < 0) {
		unpin(dp, NEW_PREFIX, 0, MAP_COUNT);
		return r;
	}
	if (!dp->shared[MAP_conns])
		forget_connections(dp);
	if (!dp->shared[MAP_turn_of])
		forget_turns(dp);
	rename_new(dp);
	return 0;
}

/* Does a pinned link run a program on this map? */
static bool link_uses(const struct datapath *dp, uint32_t map_id)
{
	DIR *dir = opendir(dp->pins);
	struct dirent *entry;
	bool uses = false;

	while (dir && !uses && (entry = readdir(dir))) {
		_cleanup_fd_ int link = -1, prog = -1;
		struct bpf_link_info info;
		char path[PATH_MAX];

		if (!is_link_pin(entry->d_name) || pin_path(path, sizeof(path), dp->pins, "", entry->d_name) < 0 ||
		    link_open(path, &link, &info) < 0)
			continue;
		prog = bpf_prog_get_fd_by_id(info.prog_id);
		if (prog >= 0)
			program_uses_map(prog, map_id, &uses);
	}
	if (dir)
		closedir(dir);
	return uses;
}

void migrate_recover(struct datapath *dp)
{
	_cleanup_fd_ int control = -1;
	char path[PATH_MAX];

	if (pin_path(path, sizeof(path), dp->pins, NEW_PREFIX, map_names[MAP_control]) == 0)
		control = bpf_obj_get(path);
	if (control >= 0 && link_uses(dp, map_id_of(control)))
		rename_new(dp);
	else
		unpin(dp, NEW_PREFIX, 0, MAP_COUNT);
}

void migrate_finish(struct datapath *dp)
{
	if (dp->plan != PLAN_MIGRATE)
		return;
	mapping_close(&dp->old_sources);
	dp->old_control_id = dp->old.fd[MAP_control] < 0 ? 0 : map_id_of(dp->old.fd[MAP_control]);
	maps_close(&dp->old);
	dp->modes.migrated = true;
	dp->plan = PLAN_SETTLED;
}
