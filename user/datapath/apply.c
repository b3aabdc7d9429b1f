// SPDX-License-Identifier: GPL-2.0-only
/*
 * apply.c: makes a snapshot the live one.
 *
 * Everything is written where no live snapshot looks: the other index of the outer maps, policy slots the live one does
 * not name, state slots and ranges of nobody. Then one 8-byte write to slc_control.active. Until that write a failure
 * leaves the old snapshot as it was; after it the new one is complete.
 */
#include "user/datapath/apply.h"

#include <bpf/btf.h>
#include <linux/membarrier.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/syscall.h>

#include "sluice.skel.h"

int inner_create(const struct datapath *dp, const char *name, int type, const char *key, size_t key_size,
		 const char *value, size_t value_size, uint32_t flags, size_t entries)
{
	const struct btf *btf = bpf_object__btf(dp->skel->obj);
	int key_id = btf__find_by_name_kind(btf, key, BTF_KIND_STRUCT);
	int value_id = btf__find_by_name_kind(btf, value, BTF_KIND_STRUCT);
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = flags);

	if (key_id > 0 && value_id > 0) { /* so that bpftool prints fields */
		opts.btf_fd = (uint32_t)bpf_object__btf_fd(dp->skel->obj);
		opts.btf_key_type_id = (uint32_t)key_id;
		opts.btf_value_type_id = (uint32_t)value_id;
	}
	return bpf_map_create(type, name, (uint32_t)key_size, (uint32_t)value_size, entries ? (uint32_t)entries : 1,
			      &opts);
}

/*
 * The kernel reads it at any moment: word by word, so that no field is half written, the word with `uid` last, and
 * `http` codes not before they are all there.
 */
static void write_measure(struct slc_measure *to, const struct slc_measure *from)
{
	uint64_t words[sizeof(*from) / sizeof(uint64_t)], *at = (uint64_t *)to;

	memcpy(words, from, sizeof(words));
	__atomic_store_n(&to->http, 0, __ATOMIC_RELEASE);
	for (size_t i = ARRAY_SIZE(words); i-- > 0;)
		__atomic_store_n(&at[i], words[i], __ATOMIC_RELEASE);
}

/*
 * What an outcome is lies in the state slot, of which there is one for both snapshots: slots that no packet looks at yet
 * are written before the swap, those of live services after it.
 */
static void write_measures(struct datapath *dp, const struct next *next, bool live)
{
	for (size_t i = 0; i < next->count; i++) {
		const struct next_service *s = &next->services[i];
		struct slc_measure *to = &dp->measure[s->policy.state];

		if (live == (s->have && dp->plan != PLAN_MIGRATE) && memcmp(to, &s->measure, sizeof(*to)) != 0)
			write_measure(to, &s->measure);
	}
}

/*
 * State slots that nobody has are zeroed before somebody gets them (DECISIONS 16), the breaker's generation and its tickets
 * too: connections of the former owner know its uid. First what they would be filed by.
 */
static int zero_states(struct datapath *dp, const struct next *next)
{
	_cleanup_free_ struct slc_counters *zeros = calloc(dp->cpus, sizeof(*zeros));

	if (!zeros)
		return -ENOMEM;
	for (size_t i = 0; i < next->count; i++) {
		uint32_t state = next->services[i].policy.state;
		int r;

		if (next->services[i].have)
			continue;
		write_measure(&dp->measure[state], &(struct slc_measure){0});
		memset(&dp->decision[state], 0, sizeof(*dp->decision));
		memset(&dp->override[state], 0, sizeof(*dp->override));
		memset(&dp->total[state], 0, sizeof(*dp->total));
		memset(&dp->signals[state], 0, sizeof(*dp->signals));
		memset(&dp->probe[state], 0, sizeof(*dp->probe));
		r = bpf_map_update_elem(dp->maps.fd[MAP_counters], &state, zeros, BPF_ANY);
		if (r < 0)
			return r;
	}
	return 0;
}

static struct move move_of(const struct datapath *dp, const struct next_service *s)
{
	const struct slc_policy *old = &s->have->policy;
	bool other_table = dp->plan == PLAN_MIGRATE && !dp->shared[MAP_sources];
	const struct slc_set *from = other_table ? dp->old_sources.at : dp->sources;

	return (struct move){
		.from = from + old->set_base,
		.from_sets = old->set_mask + 1,
		.from_shift = old->shift,
		.to = dp->sources + s->policy.set_base,
		.to_sets = s->policy.set_mask + 1,
		.to_shift = s->policy.shift,
		.now_ns = now_ns(),
	};
}

static bool can_move(const struct datapath *dp, const struct next_service *s)
{
	bool other_table = dp->plan == PLAN_MIGRATE && !dp->shared[MAP_sources];
	uint32_t sets = other_table ? (uint32_t)(dp->old_sources.len / sizeof(struct slc_set))
				    : dp->maps.shape[MAP_sources].max_entries;

	return s->moves && (uint64_t)s->have->policy.set_base + s->have->policy.set_mask < sets;
}

static void clear_ranges(struct datapath *dp, const struct next *next)
{
	for (size_t i = 0; i < next->count; i++) {
		const struct next_service *s = &next->services[i];

		if (s->moves || !s->have)
			memset(dp->sources + s->policy.set_base, 0,
			       (s->policy.set_mask + 1ULL) * sizeof(struct slc_set));
	}
}

/*
 * Once just before the swap, and once after it for the debts made meanwhile. A token spent in the old range after the
 * first pass may be spent again in the new one before the second: so nothing slow stands between pass and swap. That
 * is the copy's own time, some 50 ns for each source in debt, times the source's rate.
 */
static void move_buckets(struct datapath *dp, const struct next *next)
{
	for (size_t i = 0; i < next->count; i++) {
		const struct next_service *s = &next->services[i];

		if (can_move(dp, s)) {
			struct move move = move_of(dp, s);

			move_debts(&move);
		}
	}
}

static int write_policies(const struct datapath *dp, const struct next *next, char *why, size_t why_len)
{
	for (size_t i = 0; i < next->count; i++) {
		const struct next_service *s = &next->services[i];
		uint32_t slot = s->slot;
		struct slc_policy back;
		int r = 0;

		if (!s->have || s->have->slot != slot || dp->plan == PLAN_MIGRATE)
			r = bpf_map_update_elem(dp->maps.fd[MAP_policy], &slot, &s->policy, BPF_ANY);
		if (r == 0)
			r = bpf_map_lookup_elem(dp->maps.fd[MAP_policy], &slot, &back);
		if (r < 0)
			return because(r, why, why_len, "writing the policy of %s: %s", s->policy.name, strerror(-r));
		if (memcmp(&back, &s->policy, sizeof(back)) != 0)
			return because(-EIO, why, why_len, "the policy of %s reads back differently than written",
				       s->policy.name);
	}
	return 0;
}

static int write_services(const struct datapath *dp, const struct next *next, char *why, size_t why_len)
{
	_cleanup_fd_ int fd = -1;
	size_t keys = 0;
	int r;

	for (size_t i = 0; i < next->count; i++)
		keys += next->services[i].want->key_count;
	fd = inner_create(dp, "slc_service_map", BPF_MAP_TYPE_HASH, "slc_service_key", sizeof(struct slc_service_key),
			  "slc_service", sizeof(struct slc_service), 0, keys);
	if (fd < 0)
		return because(fd, why, why_len, "making a service map: %s", strerror(-fd));
	for (size_t i = 0; i < next->count; i++) {
		const struct next_service *s = &next->services[i];
		struct slc_service value = {.uid = s->policy.uid, .policy = s->slot, .state = s->policy.state}, back;

		for (size_t k = 0; k < s->want->key_count; k++) {
			r = bpf_map_update_elem(fd, &s->want->keys[k], &value, BPF_NOEXIST);
			if (r == 0)
				r = bpf_map_lookup_elem(fd, &s->want->keys[k], &back);
			if (r < 0 || memcmp(&back, &value, sizeof(back)) != 0)
				return because(r < 0 ? r : -EIO, why, why_len,
					       "writing an address of %s: it does not read back", s->policy.name);
		}
	}
	return bpf_map_update_elem(dp->maps.fd[MAP_services], &next->index, &fd, BPF_ANY);
}

/* 8-byte stores: a packet sees a word before or after, never half of it. */
static void write_ports(struct datapath *dp, const struct next *next, bool only_add)
{
	for (size_t i = 0; i < ARRAY_SIZE(next->ports); i++) {
		struct slc_ports p = next->ports[i];

		if (only_add) {
			p.tcp |= dp->ports[i].tcp;
			p.udp |= dp->ports[i].udp;
			p.management |= dp->ports[i].management;
		}
		__atomic_store_n(&dp->ports[i].once, p.once, __ATOMIC_RELAXED);
		__atomic_store_n(&dp->ports[i].tcp, p.tcp, __ATOMIC_RELAXED);
		__atomic_store_n(&dp->ports[i].udp, p.udp, __ATOMIC_RELAXED);
		__atomic_store_n(&dp->ports[i].management, p.management, __ATOMIC_RELEASE);
	}
}

/*
 * Waits until no program still runs with what it read before: membarrier() waits for an RCU grace period. Kernels with
 * nohz_full refuse it; there an update of an outer map waits likewise, written to the slot that is no longer live with
 * what it holds already.
 */
static void settle(const struct datapath *dp, uint32_t idle)
{
	_cleanup_fd_ int fd = -1;
	uint32_t id;

	if (syscall(__NR_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0)
		return;
	if (bpf_map_lookup_elem(dp->maps.fd[MAP_services], &idle, &id) == 0)
		fd = bpf_map_get_fd_by_id(id);
	if (fd >= 0)
		bpf_map_update_elem(dp->maps.fd[MAP_services], &idle, &fd, BPF_ANY);
}

static int write_next(struct datapath *dp, const struct next *next, char *why, size_t why_len)
{
	int r;

	/* uids first: should this run die half-way, they are burnt, never given twice */
	__atomic_store_n(&dp->control->next_uid, next->next_uid, __ATOMIC_RELEASE);
	r = zero_states(dp, next);
	if (r < 0)
		return because(r, why, why_len, "clearing state slots: %s", strerror(-r));
	write_measures(dp, next, false);
	clear_ranges(dp, next);
	r = write_policies(dp, next, why, why_len);
	if (r == 0)
		r = write_services(dp, next, why, why_len);
	if (r == 0)
		r = trust_write(dp, next, why, why_len);
	if (r < 0)
		return r;
	dp->control->global[next->index] = next->global;
	write_ports(dp, next, true);
	return 0;
}

/* After the swap: the new view is read back from the maps, so that it is what the kernel has. */
static int finish(struct datapath *dp, const struct next *next)
{
	_cleanup_free_ struct trust_entry *before = NULL;
	size_t before_count = 0;
	struct live live;
	int r;

	write_measures(dp, next, true);
	settle(dp, !next->index);
	move_buckets(dp, next);
	write_ports(dp, next, false);
	if (trust_read(dp->live.trust_fd, dp->live.trust_count, &before, &before_count) == 0)
		trust_release(dp, before, before_count, next->trust, next->trust_count);
	r = live_read(&dp->maps, &live);
	if (r < 0)
		return r;
	live_free(&dp->live);
	dp->live = live;
	dp->sweep.service = dp->sweep.set = 0;
	return 0;
}

/* In a migration no packet reads these maps yet: the swap is that of the programs. */
static int swap_programs(struct datapath *dp, const struct next *next, uint64_t word, char *why, size_t why_len)
{
	int r = migrate_pin(dp, why, why_len);

	if (r < 0)
		return r;
	move_buckets(dp, next);
	__atomic_store_n(&dp->control->active, word, __ATOMIC_RELEASE);
	r = migrate_swap(dp, why, why_len);
	if (r < 0)
		__atomic_store_n(&dp->control->active, next->index, __ATOMIC_RELEASE);
	return r;
}

static int swap(struct datapath *dp, const struct next *next, char *why, size_t why_len)
{
	uint64_t word = (dp->live.number + 1) << 1 | next->index;
	int r = 0;

	if (dp->plan == PLAN_MIGRATE) {
		r = swap_programs(dp, next, word, why, why_len);
		if (r < 0)
			return r;
	} else {
		move_buckets(dp, next);
		__atomic_store_n(&dp->control->active, word, __ATOMIC_RELEASE);
	}
	r = finish(dp, next);
	if (r < 0)
		return because(r, why, why_len, "the snapshot is live, but reading it back failed: %s", strerror(-r));
	migrate_finish(dp);
	return 0;
}

static bool wants_udp(const struct snapshot *snapshot)
{
	for (size_t i = 0; i < snapshot->service_count; i++)
		if (snapshot->services[i].policy.proto == IPPROTO_UDP)
			return true;
	return false;
}

static int apply_once(struct datapath *dp, const struct snapshot *snapshot, bool *ret_changed, bool *ret_settled,
		      char *why, size_t why_len)
{
	_cleanup_free_ struct next *next = calloc(1, sizeof(*next));
	bool applied = false;
	int r;

	if (!next)
		return because(-ENOMEM, why, why_len, "out of memory");
	r = next_build(dp, snapshot, next, why, why_len);
	if (r == 0)
		r = next_is_live(dp, next);
	if (r == 1) {
		*ret_changed = false;
		*ret_settled = true;
		r = 0;
		goto out;
	}
	if (r == 0 && dp->plan == PLAN_MIGRATE)
		r = migrate_carry(dp, why, why_len);
	if (r == 0)
		r = write_next(dp, next, why, why_len);
	if (r == 0)
		r = swap(dp, next, why, why_len);
	if (r < 0)
		goto out;
	applied = true;
	*ret_changed = true;
	*ret_settled = next->settled;
out:
	next_free(dp, next, applied);
	return r;
}

int datapath_apply(struct datapath *dp, const struct snapshot *snapshot, bool *ret_changed, char *why, size_t why_len)
{
	bool changed = false, more, settled = false, udp = wants_udp(snapshot);
	char said[WHY_LEN] = "";
	int r;

	if (udp && dp->modes.no_turns)
		return because(-ENOTSUP, why, why_len, "a UDP service needs to see its answers: %.400s",
			       dp->modes.no_turns_why);
	r = apply_once(dp, snapshot, &changed, &settled, said, sizeof(said));
	if (r < 0)
		return because(r, why, why_len, "%s", said);
	dp->udp = udp;
	*ret_changed = changed;
	/*
	 * Ranges of removed services are free now: those that had to wait get their size (two rounds suffice). The
	 * snapshot is in force already: what fails here costs table space, until the next one.
	 */
	for (int round = 0; !settled && r == 0 && round < 3; round++) {
		r = apply_once(dp, snapshot, &more, &settled, said, sizeof(said));
		if (r < 0)
			because(0, why, why_len, "some services keep a part of the table until the next load: %.400s",
				said);
	}
	return 0;
}
