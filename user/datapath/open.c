// SPDX-License-Identifier: GPL-2.0-only
/*
 * open.c: datapath_open() and datapath_close().
 *
 * What is pinned decides the plan: nothing -> make the maps; all alike -> take them over; anything else -> make new
 * ones beside them (migrate.c), leaving the old in force until the first datapath_apply() has filled the new.
 */
#include "user/datapath/internal.h"

#include <stdio.h>
#include <string.h>
#include <fcntl.h>
#include <sys/random.h>

#include "sluice.skel.h"

static int take_shape(struct datapath *dp, enum map map)
{
	struct bpf_map *m = bpf_object__find_map_by_name(dp->skel->obj, map_names[map]);
	int fd = m ? bpf_map__fd(m) : -ENOENT;

	if (fd < 0)
		return fd;
	if (dp->maps.fd[map] < 0) {
		dp->maps.fd[map] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (dp->maps.fd[map] < 0)
			return -errno;
	}
	return shape_of(fd, &dp->maps.shape[map]);
}

static int map_tables(struct datapath *dp)
{
	int r;

	for (int i = 0; i < MAP_COUNT; i++) {
		r = take_shape(dp, i);
		if (r < 0)
			return r;
		if (!(dp->maps.shape[i].flags & BPF_F_MMAPABLE))
			continue;
		r = mapping_open(&dp->mappings[i], dp->maps.fd[i], &dp->maps.shape[i]);
		if (r < 0)
			return r;
	}
	dp->control = dp->mappings[MAP_control].at;
	dp->ports = dp->mappings[MAP_ports].at;
	dp->decision = dp->mappings[MAP_decision].at;
	dp->override = dp->mappings[MAP_override].at;
	dp->sources = dp->mappings[MAP_sources].at;
	dp->cold = dp->mappings[MAP_cold].at;
	dp->total = dp->mappings[MAP_total].at;
	dp->ceiling = dp->mappings[MAP_ceiling].at;
	dp->signals = dp->mappings[MAP_signals].at;
	dp->probe = dp->mappings[MAP_probe].at;
	dp->measure = dp->mappings[MAP_measure].at;
	return 0;
}

/* The shapes this build makes, without making anything. */
static int expected_shapes(const struct datapath_options *options, struct shape *ret)
{
	struct sluice_bpf *skel = sluice_bpf__open();
	int r = 0;

	if (!skel)
		return -errno;
	for (int i = 0; i < MAP_COUNT && r == 0; i++) {
		struct bpf_map *m = bpf_object__find_map_by_name(skel->obj, map_names[i]);

		if (!m) {
			r = -ENOENT;
			break;
		}
		ret[i] = (struct shape){
			.type = bpf_map__type(m),
			.key_size = bpf_map__key_size(m),
			.value_size = bpf_map__value_size(m),
			.max_entries = table_entries(options, i) ?: bpf_map__max_entries(m),
			.flags = bpf_map__map_flags(m),
		};
	}
	sluice_bpf__destroy(skel);
	return r;
}

/* magic and version of the pinned slc_control; 0 where it is not ours. */
static void read_version(const struct maps *pinned, uint16_t *ret_major, uint16_t *ret_minor)
{
	_cleanup_free_ struct slc_control *control = NULL;
	uint32_t size = pinned->shape[MAP_control].value_size, zero = 0;

	*ret_major = *ret_minor = 0;
	if (pinned->fd[MAP_control] < 0 || pinned->shape[MAP_control].type != BPF_MAP_TYPE_ARRAY || size > 1 << 16)
		return;
	control = calloc(1, size > sizeof(*control) ? size : sizeof(*control));
	if (!control || bpf_map_lookup_elem(pinned->fd[MAP_control], &zero, control) < 0 || control->magic != SLC_MAGIC)
		return;
	*ret_major = control->abi_major;
	*ret_minor = control->abi_minor;
}

/* Which of the pinned maps the new programs use: fills dp->maps.fd with these. */
static int make_plan(struct datapath *dp, const struct datapath_options *options)
{
	struct shape expected[MAP_COUNT];
	bool alike[MAP_COUNT], all = true;
	int r = maps_open_pinned(dp->pins, &dp->old);

	if (r == -ENOENT) {
		dp->plan = PLAN_FRESH;
		dp->modes.fresh = true;
		return 0;
	}
	if (r < 0)
		return r;
	r = expected_shapes(options, expected);
	if (r < 0)
		return r;
	read_version(&dp->old, &dp->modes.pinned_major, &dp->modes.pinned_minor);
	for (int i = 0; i < MAP_COUNT; i++) {
		alike[i] = dp->old.fd[i] >= 0 && shape_equal(&dp->old.shape[i], &expected[i]) &&
			   dp->modes.pinned_major == SLC_ABI_MAJOR;
		all &= alike[i];
	}
	for (int i = 0; i < MAP_COUNT; i++) {
		dp->shared[i] = alike[i] && (all || map_carry[i] != CARRY_SNAPSHOT);
		if (!dp->shared[i])
			continue;
		dp->maps.fd[i] = fcntl(dp->old.fd[i], F_DUPFD_CLOEXEC, 0);
		if (dp->maps.fd[i] < 0)
			return -errno;
	}
	dp->plan = all ? PLAN_ADOPT : PLAN_MIGRATE;
	dp->modes.adopted = all;
	if (all)
		maps_close(&dp->old);
	return 0;
}

static int fill_control(struct datapath *dp)
{
	struct slc_control *control = dp->control;
	uint64_t random[4];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	memcpy(control->secret, random, sizeof(control->secret));
	memcpy(control->salt, random + 2, sizeof(control->salt));
	control->next_uid = 1;
	control->boot_ns = now_ns();
	control->abi_major = SLC_ABI_MAJOR;
	control->abi_minor = SLC_ABI_MINOR;
	return 0;
}

static void finish_control(struct datapath *dp)
{
	struct slc_control *control = dp->control;

	control->source_sets = dp->maps.shape[MAP_sources].max_entries;
	control->cold_sets = dp->maps.shape[MAP_cold].max_entries;
	control->flow_sets = dp->maps.shape[MAP_flows].max_entries;
	control->abi_minor = SLC_ABI_MINOR;
	control->build_id = dp->modes.build_id;
	__atomic_store_n(&control->magic, SLC_MAGIC, __ATOMIC_RELEASE); /* last: what carries it is complete */
}

static int bring_up(struct datapath *dp, const struct datapath_options *options, char *why, size_t why_len)
{
	int r;

	migrate_recover(dp);
	r = make_plan(dp, options);
	if (r < 0)
		return because(r, why, why_len, "reading the pins in %s: %s", dp->pins, strerror(-r));
	r = programs_load(dp, options, why, why_len);
	if (r < 0)
		return r;
	r = map_tables(dp);
	if (r < 0)
		return because(r, why, why_len, "mapping the tables: %s", strerror(-r));
	r = programs_load_turns(dp, dp->modes.no_turns_why, sizeof(dp->modes.no_turns_why));
	dp->modes.no_turns = r < 0;
	if (r < 0 && dp->udp)
		return because(r, why, why_len, "a UDP service needs to see its answers: %.400s",
			       dp->modes.no_turns_why);
	r = programs_build_id(dp);
	if (r < 0)
		return because(r, why, why_len, "reading what programs were loaded: %s", strerror(-r));
	if (dp->plan != PLAN_ADOPT) {
		r = fill_control(dp);
		if (r < 0)
			return because(r, why, why_len, "no random bytes for the secret of the tables");
	}
	r = events_open(dp);
	if (r < 0)
		return because(r, why, why_len, "opening the ring buffer of events: %s", strerror(-r));
	if (dp->plan == PLAN_MIGRATE)
		migrate_control(dp);
	finish_control(dp);
	r = live_read(dp->plan == PLAN_MIGRATE ? &dp->old : &dp->maps, &dp->live);
	if (r < 0)
		return because(r, why, why_len, "reading the live snapshot: %s", strerror(-r));
	ceilings_recover(dp);
	if (dp->plan != PLAN_FRESH)
		return 0;
	r = pin_all(dp, why, why_len);
	if (r == 0)
		dp->plan = PLAN_SETTLED;
	return r;
}

static int copy_pins_path(char *buf, const char *pins)
{
	size_t len = strlen(pins);

	while (len > 1 && pins[len - 1] == '/')
		len--;
	if (len + 64 >= PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(buf, pins, len);
	buf[len] = '\0';
	return 0;
}

int datapath_open(struct datapath **ret_dp, const struct datapath_options *options, char *why, size_t why_len)
{
	struct datapath *dp = calloc(1, sizeof(*dp));
	int cpus, r;

	if (!dp)
		return because(-ENOMEM, why, why_len, "out of memory");
	dp->lock = dp->btf = -1;
	memset(dp->maps.fd, -1, sizeof(dp->maps.fd));
	memset(dp->old.fd, -1, sizeof(dp->old.fd));
	dp->live.trust_fd = -1;
	dp->udp = options->udp;
	dp->configured_sets = table_entries(options, MAP_sources) / 2;
	r = copy_pins_path(dp->pins, options->pins);
	if (r < 0) {
		because(r, why, why_len, "pins: the path is too long");
		goto fail;
	}
	if (dp->configured_sets > 1u << 23) { /* of 24 bits of set index, one is for the second layout */
		r = because(-EINVAL, why, why_len, "tables.sources: %u is more than %u", options->sources, 1u << 26);
		goto fail;
	}
	cpus = libbpf_num_possible_cpus();
	if (cpus < 0) {
		r = because(cpus, why, why_len, "cannot tell the possible CPUs (/sys/devices/system/cpu/possible)");
		goto fail;
	}
	dp->cpus = (size_t)cpus;
	r = kernel_check(why, why_len);
	if (r == 0)
		r = lock_pins(dp->pins, &dp->lock, why, why_len);
	if (r == 0)
		r = bpffs_prepare(dp->pins, why, why_len);
	if (r == 0)
		r = bring_up(dp, options, why, why_len);
	if (r < 0)
		goto fail;
	*ret_dp = dp;
	return 0;
fail:
	/* Where nothing is pinned, nothing tells of this start: neither the directory nor the lock's file. */
	if (dp->lock >= 0 && (!is_bpffs(dp->pins) || rmdir(dp->pins) == 0))
		lock_forget(dp->pins, dp->lock);
	datapath_close(&dp);
	return r;
}

void datapath_close(struct datapath **pdp)
{
	struct datapath *dp = *pdp;

	if (!dp)
		return;
	if (dp->ring)
		ring_buffer__free(dp->ring);
	live_free(&dp->live);
	mapping_close(&dp->old_sources);
	for (int i = 0; i < MAP_COUNT; i++)
		mapping_close(&dp->mappings[i]);
	if (dp->turns_skel)
		sluice_bpf__destroy(dp->turns_skel);
	if (dp->skel)
		sluice_bpf__destroy(dp->skel);
	maps_close(&dp->maps);
	maps_close(&dp->old);
	close_fd(&dp->btf);
	if (dp->lock >= 0)
		lock_forget(dp->pins, dp->lock);
	close_fd(&dp->lock);
	free(dp);
	*pdp = NULL;
}

const struct datapath_modes *datapath_modes(const struct datapath *dp)
{
	return &dp->modes;
}

size_t datapath_cpus(const struct datapath *dp)
{
	return dp->cpus;
}
