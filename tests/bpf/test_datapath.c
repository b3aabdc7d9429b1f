// SPDX-License-Identifier: GPL-2.0-only
/*
 * test_datapath: user/datapath against the kernel: pins, adoption, migration, snapshots, attachments. Each test opens its
 * own pin directory and, where it needs interfaces, a private network namespace with a veth pair.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cmocka.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <xdp/libxdp.h>

#include "bpf/bucket.h"
#include "bpf/hash.h"
#include "user/datapath/datapath.h"

#define NS16_PER_S (16 * 1000000000ULL)
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static char why[WHY_LEN];
static char pins[64]; /* of this process: test runs may overlap */
static struct datapath *opened; /* by the running test: closed after it, however it ends */

static void run(const char *command)
{
	int rc = system(command);

	if (rc)
		fail_msg("`%s` gave %d", command, rc);
}

#define ok(call)                                                             \
	do {                                                                 \
		int ok_r = (call);                                           \
		if (ok_r < 0)                                                \
			fail_msg("%s: %s: %s", #call, strerror(-ok_r), why); \
	} while (0)

#define says(text)                                                     \
	do {                                                           \
		if (!strstr(why, text))                                \
			fail_msg("'%s' does not say '%s'", why, text); \
	} while (0)

/* --- fixtures -------------------------------------------------------------------------------------------------------- */

static struct datapath *open_sized(uint32_t sources, bool udp)
{
	struct datapath_options options = {.pins = pins, .sources = sources, .flows = 1024, .udp = udp};
	struct datapath *dp = NULL;

	why[0] = '\0';
	ok(datapath_open(&dp, &options, why, sizeof(why)));
	opened = dp;
	return dp;
}

static void shut(struct datapath **dp)
{
	bool was_opened = opened == *dp;

	datapath_close(dp);
	if (was_opened)
		opened = NULL;
}

static struct datapath *open_pins(void)
{
	return open_sized(4096, false);
}

/* A service on 203.0.113.N:80, `rate` per second with `burst`. */
struct test_service {
	struct snapshot_service service;
	struct slc_service_key keys[2];
	struct snapshot_rate_rule override;
};

static void v4(uint8_t addr[16], uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
	memset(addr, 0, 16);
	addr[10] = addr[11] = 0xff;
	addr[12] = a;
	addr[13] = b;
	addr[14] = c;
	addr[15] = d;
}

static void make_service(struct test_service *t, const char *name, uint8_t host, uint64_t rate, uint64_t burst)
{
	memset(t, 0, sizeof(*t));
	snprintf(t->service.policy.name, SLC_NAME_LEN, "%s", name);
	t->service.policy.proto = IPPROTO_TCP;
	t->service.policy.v4_prefix = 32;
	t->service.policy.v6_prefix = 64;
	v4(t->keys[0].addr, 203, 0, 113, host);
	t->keys[0].port = 80;
	t->keys[0].proto = IPPROTO_TCP;
	t->service.keys = t->keys;
	t->service.key_count = 1;
	if (rate) {
		t->service.policy.flags = SLC_P_SOURCE;
		t->service.source_interval_ns16 = NS16_PER_S / rate;
		t->service.source_depth_ns16 = burst * (NS16_PER_S / rate);
	}
}

static int try_services(struct datapath *dp, struct test_service *services, size_t count, bool *ret_changed)
{
	struct snapshot_service list[16];
	uint16_t management[] = {22};
	struct snapshot_rule trust = {.prefix = 120,
				      .rule = {.action = SLC_ACTION_allow,
					       .interval = 16000,
					       .depth = 16000,
					       .until_ns = SLC_FOREVER,
					       .id = 1}};
	struct snapshot snapshot = {.services = list,
				    .service_count = count,
				    .trust = &trust,
				    .trust_count = 1,
				    .management_ports = management,
				    .management_port_count = 1};

	v4(trust.addr, 192, 0, 2, 0);
	for (size_t i = 0; i < count; i++)
		list[i] = services[i].service;
	return datapath_apply(dp, &snapshot, ret_changed, why, sizeof(why));
}

static bool apply_services(struct datapath *dp, struct test_service *services, size_t count)
{
	bool changed = false;

	ok(try_services(dp, services, count, &changed));
	return changed;
}

static struct slc_policy policy_of(const struct datapath *dp, const char *name)
{
	struct slc_policy policy;

	assert_int_equal(datapath_service_find(dp, name, &policy), 0);
	return policy;
}

static int pinned(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", pins, name);
	return bpf_obj_get(path);
}

static int unlink_pin(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", pins, name);
	return unlink(path);
}

static uint32_t map_id(const char *name)
{
	struct bpf_map_info info = {0};
	uint32_t len = sizeof(info);
	int fd = pinned(name);

	if (fd < 0)
		return 0;
	assert_int_equal(bpf_obj_get_info_by_fd(fd, &info, &len), 0);
	close(fd);
	return info.id;
}

static int clean(void **state)
{
	(void)state;
	why[0] = '\0';
	shut(&opened);
	if (datapath_detach_all(pins, why, sizeof(why)) < 0) {
		fprintf(stderr, "detach_all: %s\n", why);
		return -1;
	}
	return 0;
}

/* --- network --------------------------------------------------------------------------------------------------------- */

static int host_net = -1;

/* A network of its own for this process, mounts unchanged so that bpffs stays. veth pair dp0 - dp1. */
static int network(void **state)
{
	if (host_net < 0)
		host_net = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (host_net < 0 || unshare(CLONE_NEWNET) < 0)
		return -1;
	run("ip link set lo up && ip link add dp0 type veth peer name dp1 && ip link set dp0 up && ip link set dp1 up");
	return clean(state);
}

static int network_end(void **state)
{
	int r = clean(state);

	setns(host_net, CLONE_NEWNET);
	return r;
}

static uint32_t xdp_on(const char *ifname, uint8_t *ret_mode)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, opts);

	assert_int_equal(bpf_xdp_query((int)if_nametoindex(ifname), 0, &opts), 0);
	if (ret_mode)
		*ret_mode = opts.attach_mode;
	return opts.prog_id;
}

/* --- opening ----------------------------------------------------------------------------------------------------------- */

static void opens_pins_and_closes(void **state)
{
	struct datapath *dp = open_pins();
	const struct slc_control *control = datapath_control(dp);

	(void)state;
	assert_int_equal(control->magic, SLC_MAGIC);
	assert_int_equal(control->abi_major, SLC_ABI_MAJOR);
	assert_true(control->secret[0] != control->secret[1]);
	assert_int_equal(control->source_sets, 4096 / SLC_WAYS * 2);
	assert_int_equal(control->cold_sets, 4096 / 16);
	assert_int_equal(control->flow_sets, 1024 / SLC_FLOW_WAYS);
	assert_true(datapath_modes(dp)->build_id != 0);
	assert_false(datapath_modes(dp)->adopted);
	shut(&dp);
	assert_null(dp);
	assert_true(map_id("slc_control") != 0); /* close leaves everything pinned */
}

/* Of what the running test has loaded: programs that use its maps, FNV-1a of each tag, summed. */
static uint64_t id_of_loaded(const char *but, unsigned int *ret_count)
{
	const uint32_t control = map_id("slc_control"), sources = map_id("slc_sources");
	uint64_t sum = 0;
	uint32_t id = 0;

	*ret_count = 0;
	while (bpf_prog_get_next_id(id, &id) == 0) {
		uint64_t hash = 0xcbf29ce484222325ULL;
		uint32_t maps[64];
		struct bpf_prog_info info = {.nr_map_ids = ARRAY_SIZE(maps), .map_ids = (uintptr_t)maps};
		uint32_t len = sizeof(info);
		bool ours = false;
		int fd = bpf_prog_get_fd_by_id(id);

		if (fd < 0)
			continue;
		assert_int_equal(bpf_obj_get_info_by_fd(fd, &info, &len), 0);
		close(fd);
		for (uint32_t i = 0; i < info.nr_map_ids; i++)
			ours |= maps[i] == control || maps[i] == sources;
		if (!ours || strcmp(info.name, but) == 0)
			continue;
		for (size_t i = 0; i < sizeof(info.tag); i++)
			hash = (hash ^ info.tag[i]) * 0x100000001b3ULL;
		sum += hash;
		++*ret_count;
	}
	return sum;
}

/* Status shows another id when any of them changes: those of turns too. */
static void build_id_is_of_all_programs(void **state)
{
	static const char *const names[] = {"slc_ingress", "slc_egress", "slc_sockops"};
	struct datapath *dp = open_pins();
	unsigned int all, rest;

	(void)state;
	assert_true(datapath_modes(dp)->build_id == id_of_loaded("", &all));
	assert_true(datapath_control(dp)->build_id == datapath_modes(dp)->build_id);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_true(datapath_modes(dp)->build_id != id_of_loaded(names[i], &rest));
		assert_int_equal(rest, all - 1);
	}
	shut(&dp);
}

static void second_instance_is_busy_and_told_the_pid(void **state)
{
	char with_slash[80];

	struct datapath_options options = {.pins = with_slash, .sources = 4096, .flows = 1024};
	struct datapath *dp = open_pins(), *second = NULL;
	char pid[32];

	(void)state;
	snprintf(with_slash, sizeof(with_slash), "%s/", pins);
	assert_int_equal(datapath_open(&second, &options, why, sizeof(why)), -EBUSY);
	assert_null(second);
	snprintf(pid, sizeof(pid), "pid %d", (int)getpid());
	says(pid);
	shut(&dp);
	ok(datapath_open(&second, &options, why, sizeof(why)));
	datapath_close(&second);
}

/* In a mount namespace where the kernel's type information is missing, or is `bytes` of something else. */
static int start_without_btf(const char *bytes)
{
	struct datapath_options options = {.pins = pins, .sources = 4096, .flows = 1024, .udp = true};
	struct datapath *dp = NULL;
	struct test_service web;
	struct attach_state a;
	int fd, r;

	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", "/sys/kernel/btf", "tmpfs", 0, NULL) < 0)
		return 1;
	if (bytes) {
		fd = open("/sys/kernel/btf/vmlinux", O_WRONLY | O_CREAT, 0644);
		if (fd < 0 || write(fd, bytes, strlen(bytes)) < 0)
			return 2;
		close(fd);
	}
	r = datapath_open(&dp, &options, why, sizeof(why));
	if (r < 0) {
		fprintf(stderr, "open: %s\n", why);
		return 3;
	}
	if (!datapath_modes(dp)->no_btf || !strstr(datapath_modes(dp)->no_btf_why, "BTF"))
		return 4;
	make_service(&web, "web", 10, 20, 40);
	apply_services(dp, &web, 1);
	if (datapath_attach(dp, "lo", 0, &a) < 0) {
		fprintf(stderr, "attach: %s\n", a.why);
		return 5;
	}
	datapath_close(&dp);
	return 0;
}

static void c119_without_kernel_btf_only_the_gate_is_off(void **state)
{
	static const char *const contents[] = {NULL, "", "BTF of a newer format, or no BTF"};

	for (size_t i = 0; i < sizeof(contents) / sizeof(contents[0]); i++) {
		int status, child = fork();

		assert_true(child >= 0);
		if (!child)
			_exit(start_without_btf(contents[i]));
		assert_int_equal(waitpid(child, &status, 0), child);
		if (!WIFEXITED(status) || WEXITSTATUS(status))
			fail_msg("case %zu: status %x", i, (unsigned int)status);
		assert_int_equal(clean(state), 0);
	}
}

static void adopts_what_is_pinned(void **state)
{
	struct datapath *dp = open_pins();
	uint64_t secret = datapath_control(dp)->secret[0], build = datapath_modes(dp)->build_id;
	uint32_t control = map_id("slc_control"), sources = map_id("slc_sources");

	(void)state;
	shut(&dp);
	dp = open_pins();
	assert_true(datapath_modes(dp)->adopted);
	assert_false(datapath_modes(dp)->migrated);
	assert_int_equal(datapath_modes(dp)->pinned_major, SLC_ABI_MAJOR);
	assert_true(datapath_control(dp)->secret[0] == secret);
	assert_true(datapath_modes(dp)->build_id == build);
	assert_int_equal(map_id("slc_control"), control);
	assert_int_equal(map_id("slc_sources"), sources);
	shut(&dp);
}

/* --- snapshots ------------------------------------------------------------------------------------------------------- */

/* The inner service map that is live. */
static int live_services_map(const struct datapath *dp)
{
	uint32_t index = datapath_control(dp)->active & 1, id = 0;
	int outer = pinned("slc_services");

	assert_int_equal(bpf_map_lookup_elem(outer, &index, &id), 0);
	close(outer);
	return bpf_map_get_fd_by_id(id);
}

/* The programs that look at turns go by the port of a socket, which outlives the service's. */
static void remembers_ports_of_services(void **state)
{
	struct datapath *dp = open_pins();
	struct test_service web;
	struct slc_ports ports;
	uint32_t index = 80 >> 6;
	int fd;

	(void)state;
	make_service(&web, "web", 10, 20, 40);
	assert_true(apply_services(dp, &web, 1));
	web.keys[0].port = 8081;
	assert_true(apply_services(dp, &web, 1));
	fd = pinned("slc_ports");
	assert_int_equal(bpf_map_lookup_elem(fd, &index, &ports), 0);
	assert_true(ports.tcp == 0 && ports.once == 1ULL << (80 & 63));
	index = 8081 >> 6;
	assert_int_equal(bpf_map_lookup_elem(fd, &index, &ports), 0);
	assert_true(ports.tcp == 1ULL << (8081 & 63) && ports.once == ports.tcp);
	close(fd);
	assert_false(apply_services(dp, &web, 1)); /* what is remembered is no change */
	shut(&dp);
}

static void applies_a_snapshot(void **state)
{
	struct datapath *dp = open_pins();
	struct test_service web;
	struct slc_service value;
	struct slc_policy policy, in_map;
	struct slc_ports ports;
	uint32_t slot, index = 80 >> 6;
	int fd;

	(void)state;
	make_service(&web, "web", 10, 20, 40);
	assert_true(apply_services(dp, &web, 1));
	assert_int_equal(datapath_snapshot_number(dp), 1);
	policy = policy_of(dp, "web");
	assert_int_equal(policy.uid, 1);
	assert_int_equal(policy.state, 1);
	assert_int_equal(policy.set_mask + 1, 4096 / SLC_WAYS); /* one service: the whole configured size */
	/* T = 50 ms; tau = 40 T in at most 2^28 units, as fine as that allows */
	assert_true(policy.source_depth == 40 * policy.source_interval);
	assert_true(policy.source_depth <= 1u << 28 && policy.source_depth > 1u << 27);
	assert_true((uint64_t)policy.source_interval << policy.shift >= 50000000);
	fd = live_services_map(dp);
	assert_int_equal(bpf_map_lookup_elem(fd, &web.keys[0], &value), 0);
	close(fd);
	assert_int_equal(value.uid, 1);
	slot = value.policy;
	fd = pinned("slc_policy");
	assert_int_equal(bpf_map_lookup_elem(fd, &slot, &in_map), 0);
	close(fd);
	assert_memory_equal(&policy, &in_map, sizeof(policy));
	fd = pinned("slc_ports");
	assert_int_equal(bpf_map_lookup_elem(fd, &index, &ports), 0);
	assert_true(ports.tcp == 1ULL << (80 & 63));
	index = 0;
	assert_int_equal(bpf_map_lookup_elem(fd, &index, &ports), 0);
	assert_true(ports.management == 1ULL << 22);
	close(fd);
	assert_int_equal(datapath_control(dp)->global[datapath_control(dp)->active & 1].has_trust, 1);
	assert_int_equal(datapath_control(dp)->global[datapath_control(dp)->active & 1].has_exact, 1);
	shut(&dp);
}

/* All bytes of what a snapshot is made of, ids of inner maps included. */
static uint64_t fingerprint(void)
{
	static const struct {
		const char *name;
		uint32_t entries;
	} maps[] = {{"slc_control", 1},           {"slc_ports", 1024},
		    {"slc_services", 2},          {"slc_trust", 2},
		    {"slc_policy", SLC_POLICIES}, {"slc_sources", 1024},
		    {"slc_override", SLC_STATES}, {"slc_measure", SLC_STATES}};
	static uint8_t value[1 << 16];
	uint64_t hash = 0xcbf29ce484222325ULL;

	for (size_t m = 0; m < sizeof(maps) / sizeof(maps[0]); m++) {
		int fd = pinned(maps[m].name);

		assert_true(fd >= 0);
		for (uint32_t i = 0; i < maps[m].entries; i++) {
			memset(value, 0, sizeof(struct slc_control) + 4096);
			if (bpf_map_lookup_elem(fd, &i, value) < 0)
				continue;
			for (size_t b = 0; b < sizeof(struct slc_control) + 4096; b++)
				hash = (hash ^ value[b]) * 0x100000001b3ULL;
		}
		close(fd);
	}
	return hash;
}

static void c128_c143_identical_snapshot_writes_nothing(void **state)
{
	struct datapath *dp = open_pins();
	struct test_service services[2];
	uint64_t before;

	(void)state;
	make_service(&services[0], "web", 10, 20, 40);
	make_service(&services[1], "api", 11, 100, 10);
	assert_true(apply_services(dp, services, 2));
	before = fingerprint();
	assert_false(apply_services(dp, services, 2));
	assert_true(fingerprint() == before);
	assert_int_equal(datapath_snapshot_number(dp), 1);
	shut(&dp);
	dp = open_pins(); /* and what a new instance reads back from the maps is the same too */
	before = fingerprint();
	assert_false(apply_services(dp, services, 2));
	assert_true(fingerprint() == before);
	make_service(&services[1], "api", 11, 100, 11);
	assert_true(apply_services(dp, services, 2));
	assert_true(fingerprint() != before);
	assert_int_equal(datapath_snapshot_number(dp), 2);
	shut(&dp);
}

static void identity_follows_the_name(void **state)
{
	struct datapath *dp = open_pins();
	struct test_service services[3];
	struct slc_policy web, api;

	(void)state;
	make_service(&services[0], "web", 10, 20, 40);
	make_service(&services[1], "api", 11, 100, 10);
	apply_services(dp, services, 2);
	web = policy_of(dp, "web");
	api = policy_of(dp, "api");
	make_service(&services[0], "api", 11, 50, 10); /* other order, other limits, one more */
	make_service(&services[1], "new", 12, 50, 10);
	make_service(&services[2], "web", 13, 20, 40);
	apply_services(dp, services, 3);
	assert_int_equal(policy_of(dp, "web").uid, web.uid);
	assert_int_equal(policy_of(dp, "web").state, web.state);
	assert_int_equal(policy_of(dp, "api").uid, api.uid);
	assert_int_equal(policy_of(dp, "new").uid, 3);
	apply_services(dp, services, 1); /* only api is left */
	assert_int_equal(datapath_services(dp, &web, 1), 1);
	shut(&dp);
	dp = open_pins();
	apply_services(dp, services, 3); /* web is back: a new identity, uids are never reused */
	assert_int_equal(policy_of(dp, "api").uid, api.uid);
	assert_int_equal(policy_of(dp, "new").uid, 4);
	assert_int_equal(policy_of(dp, "web").uid, 5);
	shut(&dp);
}

static uint64_t hash_of(const struct datapath *dp, const struct slc_policy *policy, uint8_t host)
{
	struct slc_addr addr;

	v4(addr.byte, 198, 51, 100, host);
	return slc_hash_source(datapath_control(dp)->secret, &addr, policy->uid, 0, SLC_TIER_OWN);
}

static uint64_t tokens(const struct datapath *dp, const struct slc_policy *policy, uint8_t host)
{
	struct slc_cold cold;
	uint64_t milli = 0;
	uint8_t addr[16];

	v4(addr, 198, 51, 100, host);
	datapath_source(dp, policy, addr, 0, &cold, &milli);
	return milli;
}

static uint64_t monotonic(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

static uint64_t spent_ns[256]; /* by host: when it began to */

/* Takes `n` tokens of a source as the packet path would; returns how many it got. */
static int spend(const struct datapath *dp, const char *name, uint8_t host, int n)
{
	struct slc_policy policy = policy_of(dp, name);
	uint64_t hash = hash_of(dp, &policy, host);
	uint32_t key = policy.set_base + (hash & policy.set_mask);
	int fd = pinned("slc_sources"), got = 0;
	struct slc_set set;

	spent_ns[host] = monotonic();
	assert_int_equal(bpf_map_lookup_elem(fd, &key, &set), 0);
	for (int i = 0; i < n; i++)
		got += (slc_source_take(&set, hash >> 40, monotonic() >> policy.shift & SLC_TAT_MASK,
					policy.source_interval, policy.source_depth) &
			3) == SLC_TAKEN;
	assert_int_equal(bpf_map_update_elem(fd, &key, &set, BPF_ANY), 0);
	close(fd);
	return got;
}

/* Ten tokens are left of what gets one in 100 s, and what came back since it spent the others. */
static void assert_ten_left(const struct datapath *dp, const struct slc_policy *policy, uint8_t host)
{
	uint64_t left = tokens(dp, policy, host), back = (monotonic() - spent_ns[host]) / 100000000 + 1;

	assert_in_range(left, 10000, 10000 + back);
}

static void c128_buckets_survive_reloads(void **state)
{
	struct datapath *dp = open_pins();
	struct test_service services[12];
	char name[8];

	(void)state;
	make_service(&services[0], "web", 10, 1, 40);
	services[0].service.source_interval_ns16 = 100 * NS16_PER_S;
	services[0].service.source_depth_ns16 = 4000 * NS16_PER_S;
	apply_services(dp, services, 1);
	for (uint8_t host = 1; host <= 40; host++)
		assert_int_equal(spend(dp, "web", host, 30), 30);
	/* Other services come and go: web's range moves, shrinks and grows, its debts stay. */
	for (int n = 1; n <= 12; n++) {
		for (int i = 1; i < n; i++) {
			snprintf(name, sizeof(name), "s%d", i);
			make_service(&services[i], name, (uint8_t)(100 + i), 10, 10);
		}
		apply_services(dp, services, (size_t)n);
		assert_int_equal(policy_of(dp, "web").set_mask + 1, n == 1   ? 512
								    : n == 2 ? 256
								    : n <= 4 ? 128
								    : n <= 8 ? 64
									     : 32);
		for (uint8_t host = 1; host <= 40; host++) {
			struct slc_policy policy = policy_of(dp, "web");

			assert_ten_left(dp, &policy, host);
		}
	}
	for (int n = 11; n >= 1; n--) {
		apply_services(dp, services, (size_t)n);
		assert_int_equal(policy_of(dp, "web").set_mask + 1, n == 1   ? 512
								    : n == 2 ? 256
								    : n <= 4 ? 128
								    : n <= 8 ? 64
									     : 32);
	}
	/* A unit that no longer fits: T a thousand times shorter, burst 40 000. */
	services[0].service.source_interval_ns16 = NS16_PER_S / 10;
	services[0].service.source_depth_ns16 = 4 * NS16_PER_S;
	apply_services(dp, services, 1);
	for (uint8_t host = 1; host <= 40; host++) {
		struct slc_policy policy = policy_of(dp, "web");

		assert_int_equal(tokens(dp, &policy, host), 0); /* the debt of 3000 s is larger than the new depth */
		assert_int_equal(spend(dp, "web", host, 1), 0);
	}
	shut(&dp);
}

/* One slice a call; a TAT that would come round to the future is rewritten, a debt and an unused way are not. */
static void sweeps_every_range_in_slices(void **state)
{
	struct datapath *dp = open_sized(65536, false); /* 8192 sets: several slices */
	struct test_service services[2];
	struct slc_set set = {0};
	int fd = pinned("slc_sources");

	(void)state;
	make_service(&services[0], "web", 10, 20, 40);
	make_service(&services[1], "api", 11, 10, 10);
	apply_services(dp, services, 2);
	for (int i = 0; i < 2; i++) {
		struct slc_policy policy = policy_of(dp, i ? "api" : "web");
		uint32_t key = policy.set_base + policy.set_mask; /* the last set */
		uint64_t now = monotonic() >> policy.shift;

		set.way[0].word = slc_way_word(1, now - (1ULL << 39));
		set.way[1].word = slc_way_word(2, now + 100000);
		assert_int_equal(bpf_map_update_elem(fd, &key, &set, BPF_ANY), 0);
	}
	for (int i = 0; i < 2 * 4096 / SLC_SWEEP_MAX; i++)
		assert_int_equal(datapath_sweep(dp), 0);
	for (int i = 0; i < 2; i++) {
		struct slc_policy policy = policy_of(dp, i ? "api" : "web");
		uint32_t key = policy.set_base + policy.set_mask;
		struct slc_set after;

		assert_int_equal(bpf_map_lookup_elem(fd, &key, &after), 0);
		assert_true(after.way[0].word != slc_way_word(1, 0) && after.way[0].word >> 40 == 1);
		assert_in_range(slc_tat_age(after.way[0].word, monotonic() >> policy.shift) - SLC_TAT_FUTURE,
				SLC_TAT_OLD, SLC_TAT_OLD + (5000000000ULL >> policy.shift));
		if (i == 1) /* what `set` was made for */
			assert_true(after.way[1].word == set.way[1].word);
		assert_true(after.way[2].word == 0);
	}
	close(fd);
	shut(&dp);
}

static void ceilings_and_orders(void **state)
{
	struct datapath *dp = open_pins();
	struct slc_rule rule = {.action = SLC_ACTION_deny, .flags = SLC_RULE_ALL_PACKETS, .until_ns = SLC_FOREVER};
	struct test_service web;
	uint32_t slot, again;
	uint8_t addr[16];

	(void)state;
	make_service(&web, "web", 10, 20, 40);
	apply_services(dp, &web, 1); /* its allow rule has ceiling 0 */
	assert_int_equal(datapath_ceiling_slot(dp, &slot), 0);
	assert_int_equal(slot, 1);
	v4(addr, 192, 0, 2, 77);
	assert_int_equal(datapath_control(dp)->flags, 0);
	ok(datapath_order_set(dp, addr, 120, &rule));
	assert_int_equal(datapath_control(dp)->flags, SLC_F_ORDERS | SLC_F_DENY_ALL);
	rule.flags = 0;
	ok(datapath_order_set(dp, addr, 120, &rule)); /* replaces the deny-all: host bits do not count */
	assert_int_equal(datapath_control(dp)->flags, SLC_F_ORDERS);
	rule.action = SLC_ACTION_allow;
	rule.slot = slot;
	ok(datapath_order_set(dp, addr, 128, &rule));
	shut(&dp);
	dp = open_pins(); /* the order's ceiling is still taken */
	assert_int_equal(datapath_ceiling_slot(dp, &again), 0);
	assert_int_equal(again, 2);
	assert_int_equal(datapath_order_delete(dp, addr, 127), -ENOENT);
	ok(datapath_order_delete(dp, addr, 128));
	ok(datapath_order_delete(dp, addr, 120));
	assert_int_equal(datapath_control(dp)->flags, 0);
	shut(&dp);
}

static bool count_known(const struct slc_known_key *key, const struct slc_known *known, void *arg)
{
	size_t *count = arg;

	assert_int_equal(key->uid, 7);
	assert_true(known->until_ns == 5);
	return ++*count < 3000;
}

static void c141_known_sources_walk(void **state)
{
	struct datapath *dp = open_pins();
	struct slc_known_key key = {.uid = 7};
	struct slc_known known = {.until_ns = 5};
	size_t count = 0;

	(void)state;
	ok(datapath_known_walk(dp, count_known, &count)); /* empty */
	assert_int_equal(count, 0);
	v4(key.addr, 198, 51, 100, 1);
	ok(datapath_known_set(dp, &key, &known)); /* exactly one */
	ok(datapath_known_walk(dp, count_known, &count));
	assert_int_equal(count, 1);
	assert_int_equal(datapath_control(dp)->flags, SLC_F_KNOWN);
	for (int i = 0; i < 2500; i++) {
		key.addr[14] = (uint8_t)(i >> 8);
		key.addr[15] = (uint8_t)i;
		ok(datapath_known_set(dp, &key, &known));
	}
	count = 0;
	ok(datapath_known_walk(dp, count_known, &count));
	assert_in_range(count, 2500, 2501);
	for (int i = 0; i < 2500; i++) {
		key.addr[14] = (uint8_t)(i >> 8);
		key.addr[15] = (uint8_t)i;
		ok(datapath_known_delete(dp, &key));
	}
	v4(key.addr, 198, 51, 100, 1);
	datapath_known_delete(dp, &key);
	assert_int_equal(datapath_control(dp)->flags, 0);
	shut(&dp);
}

static void pushes_are_double_buffered(void **state)
{
	struct datapath *dp = open_pins();
	static const uint32_t generations[] = {1, 2, 0x80000000u, 0xffffffffu, 0, 7};
	struct slc_decision_half half = {.valid_until_ns = 1, .level = 2}, pushed;
	struct slc_override_half over = {.flags = SLC_O_DRAIN, .drain_until_ns = SLC_FOREVER}, back;
	struct slc_decision in_map;
	uint32_t key = 5, generation;
	int fd = pinned("slc_decision");

	(void)state;
	ok(datapath_push_decision(dp, 5, &half, 0));
	assert_int_equal(bpf_map_lookup_elem(fd, &key, &in_map), 0);
	assert_true(in_map.word == 1 && in_map.half[1].level == 2 && in_map.half[0].level == 0);
	half.level = 3;
	ok(datapath_push_decision(dp, 5, &half, 0));
	assert_int_equal(bpf_map_lookup_elem(fd, &key, &in_map), 0);
	assert_true(in_map.word == 0 && in_map.half[0].level == 3 && in_map.half[1].level == 2);
	close(fd);
	/* the generation comes with the half, to the last bit, and is read back with it */
	for (size_t i = 0; i < ARRAY_SIZE(generations); i++) {
		half.flags = SLC_D_HALF_OPEN | SLC_D_SHADOW;
		half.probes = 1 + (uint8_t)i;
		half.ticket_ms = 1000 + (uint32_t)i;
		half.total_interval16 = ~0ULL - i;
		ok(datapath_push_decision(dp, 5, &half, generations[i]));
		ok(datapath_get_decision(dp, 5, &pushed, &generation));
		assert_memory_equal(&half, &pushed, sizeof(half));
		assert_int_equal(generation, generations[i]);
		ok(datapath_get_decision(dp, 6, &pushed, &generation));
		assert_true(generation == 0 && pushed.flags == 0);
	}
	shut(&dp);
	dp = open_pins(); /* and by the next controller */
	ok(datapath_get_decision(dp, 5, &pushed, &generation));
	assert_memory_equal(&half, &pushed, sizeof(half));
	assert_int_equal(generation, generations[ARRAY_SIZE(generations) - 1]);
	assert_int_equal(datapath_get_decision(dp, SLC_STATES, &pushed, &generation), -EINVAL);
	ok(datapath_set_override(dp, 5, &over));
	ok(datapath_get_override(dp, 5, &back));
	assert_memory_equal(&over, &back, sizeof(back));
	ok(datapath_renew_lease(dp, 77));
	assert_true(datapath_control(dp)->lease_until_ns == 77);
	assert_int_equal(datapath_control(dp)->salt_index, 0);
	ok(datapath_set_salt(dp, 99));
	assert_true(datapath_control(dp)->salt_index == 1 && datapath_control(dp)->salt[1] == 99);
	assert_int_equal(datapath_push_decision(dp, SLC_STATES, &half, 0), -EINVAL);
	shut(&dp);
}

static void give_measure(struct test_service *t, uint64_t slow_after_ns)
{
	t->service.measure = (struct slc_measure){.turns = SLC_TURNS_tls,
						  .owed_shift = 29,
						  .http = 2,
						  .failures = SLC_FAILURES_DEFAULT,
						  .slow_after_ns = slow_after_ns,
						  .timeout_ns = 3000000000ULL,
						  .http_codes = {502, 504}};
}

/* What an outcome is comes with the snapshot, under the uid that it gave; a change of it alone is a change. */
static void measures_follow_the_snapshot(void **state)
{
	struct datapath *dp = open_pins();
	struct test_service services[2];
	const struct slc_measure *web, *api;
	bool changed;

	(void)state;
	make_service(&services[0], "web", 10, 20, 40);
	make_service(&services[1], "api", 11, 20, 40);
	give_measure(&services[0], 100);
	give_measure(&services[1], 200);
	assert_true(apply_services(dp, services, 2));
	web = datapath_measure(dp, policy_of(dp, "web").state);
	api = datapath_measure(dp, policy_of(dp, "api").state);
	assert_true(web->uid == policy_of(dp, "web").uid && api->uid == policy_of(dp, "api").uid);
	assert_true(web->slow_after_ns == 100 && api->slow_after_ns == 200);
	assert_true(web->turns == SLC_TURNS_tls && web->owed_shift == 29 && web->failures == SLC_FAILURES_DEFAULT);
	assert_true(web->http == 2 && web->http_codes[1] == 504 && web->timeout_ns == 3000000000ULL);
	assert_false(apply_services(dp, services, 2));
	give_measure(&services[0], 300);
	services[0].service.measure.http = 0;
	assert_true(apply_services(dp, services, 2));
	assert_true(web->slow_after_ns == 300 && web->http == 0 && web->uid == policy_of(dp, "web").uid);
	assert_true(api->slow_after_ns == 200);
	assert_int_equal(datapath_snapshot_number(dp), 2);
	shut(&dp);
	dp = open_pins();
	assert_false(apply_services(dp, services, 2));
	assert_null(datapath_measure(dp, SLC_STATES));
	/* a snapshot that is refused changes nothing of it */
	give_measure(&services[0], 400);
	services[1].keys[0] = services[0].keys[0];
	assert_int_equal(try_services(dp, services, 2, &changed), -EINVAL);
	assert_int_equal(datapath_measure(dp, policy_of(dp, "web").state)->slow_after_ns, 300);
	shut(&dp);
}

/* A slot that another service gets has none of the former one's tickets, outcomes or generation. */
static void reused_slots_start_from_nothing(void **state)
{
	struct datapath *dp = open_pins();
	struct test_service services[2];
	struct slc_decision_half half = {.valid_until_ns = SLC_FOREVER, .flags = SLC_D_OPEN};
	struct slc_signals *signals;
	struct slc_probe *probe;
	uint32_t generation;
	uint16_t slot;

	(void)state;
	make_service(&services[0], "gone", 10, 20, 40);
	make_service(&services[1], "api", 11, 20, 40);
	give_measure(&services[0], 100);
	apply_services(dp, services, 2);
	slot = policy_of(dp, "gone").state;
	ok(datapath_push_decision(dp, slot, &half, 9));
	probe = (struct slc_probe *)datapath_probes(dp, slot);
	probe->slot[3] = (union slc_slot){.tag = 1, .generation = 9, .state = SLC_SLOT_owed};
	probe->granted = 5;
	signals = (struct slc_signals *)datapath_signals(dp, slot);
	signals->outcomes[SLC_ROW_odd][SLC_OUT_reset] = 5;
	signals->no_listener_s[255] = 5;
	apply_services(dp, services + 1, 1);
	assert_int_equal(probe->granted, 5); /* nobody's yet: packets of the last snapshot may be under way */
	make_service(&services[0], "new", 12, 20, 40);
	apply_services(dp, services, 2);
	assert_int_equal(policy_of(dp, "new").state, slot);
	assert_true(probe->granted == 0 && probe->slot[3].word == 0);
	assert_true(signals->outcomes[SLC_ROW_odd][SLC_OUT_reset] == 0 && signals->no_listener_s[255] == 0);
	assert_true(datapath_measure(dp, slot)->uid == policy_of(dp, "new").uid);
	assert_true(datapath_measure(dp, slot)->slow_after_ns == 0);
	ok(datapath_get_decision(dp, slot, &half, &generation));
	assert_true(generation == 0 && half.flags == 0);
	shut(&dp);
}

/* Whose DSCP marks are believed: a scope of its own in the trust list, which by itself is no trust list. */
static void dscp_prefixes_are_a_scope(void **state)
{
	struct datapath *dp = open_pins();
	struct test_service web;
	struct snapshot_rule dscp[2] = {{.prefix = 96 + 16}, {.prefix = 128}};
	struct snapshot snapshot = {.service_count = 1, .dscp = dscp, .dscp_count = 2};
	struct slc_trust_key key = {.prefixlen = 32 + 128, .scope = SLC_SCOPE_DSCP};
	struct slc_rule rule;
	bool changed;
	uint32_t index, id;
	int outer, fd;

	(void)state;
	make_service(&web, "web", 10, 20, 40);
	web.service.policy.flags |= SLC_P_DYED;
	snapshot.services = &web.service;
	snapshot.global.hold_ns = 30000000000ULL;
	snapshot.global.dscp_ifindex[2] = 7;
	v4(dscp[0].addr, 10, 1, 2, 3); /* host bits are cleared */
	v4(dscp[1].addr, 10, 9, 0, 1);
	ok(datapath_apply(dp, &snapshot, &changed, why, sizeof(why)));
	assert_true(changed);
	index = datapath_control(dp)->active & 1;
	assert_int_equal(datapath_control(dp)->global[index].has_trust, 0);
	assert_int_equal(datapath_control(dp)->global[index].hold_ns, 30000000000ULL);
	assert_int_equal(datapath_control(dp)->global[index].dscp_ifindex[2], 7);
	assert_true(policy_of(dp, "web").flags & SLC_P_DYED);
	outer = pinned("slc_trust");
	assert_int_equal(bpf_map_lookup_elem(outer, &index, &id), 0);
	close(outer);
	fd = bpf_map_get_fd_by_id(id);
	v4(key.addr, 10, 1, 255, 255);
	assert_int_equal(bpf_map_lookup_elem(fd, &key, &rule), 0);
	v4(key.addr, 10, 9, 0, 1);
	assert_int_equal(bpf_map_lookup_elem(fd, &key, &rule), 0);
	v4(key.addr, 10, 9, 0, 2);
	assert_int_equal(bpf_map_lookup_elem(fd, &key, &rule), -ENOENT);
	v4(key.addr, 10, 9, 0, 1);
	key.scope = SLC_SCOPE_ALL;
	assert_int_equal(bpf_map_lookup_elem(fd, &key, &rule), -ENOENT);
	close(fd);
	ok(datapath_apply(dp, &snapshot, &changed, why, sizeof(why)));
	assert_false(changed);
	snapshot.dscp_count = 1;
	ok(datapath_apply(dp, &snapshot, &changed, why, sizeof(why)));
	assert_true(changed);
	snapshot.dscp_count = 2;
	dscp[1] = dscp[0];
	assert_int_equal(datapath_apply(dp, &snapshot, &changed, why, sizeof(why)), -EINVAL);
	says("dscp_trust: one prefix is given twice");
	shut(&dp);
}

static void full_tables_are_named(void **state)
{
	struct datapath *dp = open_sized(8, false); /* one set */
	struct test_service services[2];
	struct snapshot_service list[2];
	struct snapshot snapshot = {.services = list, .service_count = 2};
	bool changed = true;

	(void)state;
	make_service(&services[0], "web", 10, 20, 40);
	make_service(&services[1], "api", 11, 20, 40);
	list[0] = services[0].service;
	list[1] = services[1].service;
	assert_int_equal(datapath_apply(dp, &snapshot, &changed, why, sizeof(why)), -ENOSPC);
	says("tables.sources: 8 entries");
	assert_true(changed); /* outputs untouched on failure */
	assert_int_equal(datapath_snapshot_number(dp), 0);
	list[1].keys = list[0].keys;
	snapshot.service_count = 2;
	assert_int_equal(datapath_apply(dp, &snapshot, &changed, why, sizeof(why)), -EINVAL);
	says("port 80 of one address is listened on twice");
	shut(&dp);
}

/* --- attaching ------------------------------------------------------------------------------------------------------- */

static int load_foreign(void)
{
	static const struct bpf_insn pass[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_PASS},
		{.code = BPF_JMP | BPF_EXIT},
	};

	return bpf_prog_load(BPF_PROG_TYPE_XDP, "foreign", "GPL", pass, 2, NULL);
}

static void c103_attaches_and_is_adopted(void **state)
{
	struct datapath *dp = open_pins();
	struct attach_state a, b;
	struct test_service web;
	uint8_t mode;

	(void)state;
	make_service(&web, "web", 10, 20, 40);
	apply_services(dp, &web, 1);
	ok(datapath_attach(dp, "dp0", 0, &a));
	assert_int_equal(a.mode, ATTACH_NATIVE);
	assert_int_equal(xdp_on("dp0", &mode), a.program_id);
	assert_int_equal(mode, XDP_ATTACHED_DRV);
	ok(datapath_attach(dp, "dp0", 0, &b)); /* idempotent */
	assert_int_equal(a.program_id, b.program_id);
	shut(&dp); /* as after kill -9: everything stays */
	assert_int_equal(xdp_on("dp0", NULL), a.program_id);
	dp = open_pins();
	/* same instructions, same maps: the program stays; asked for generic, the mode stays too, and it says so */
	ok(datapath_attach(dp, "dp0", 2, &b));
	assert_int_equal(b.mode, ATTACH_NATIVE);
	assert_int_equal(a.program_id, b.program_id);
	assert_non_null(strstr(b.why, "kept"));
	ok(datapath_detach_interface(dp, "dp0"));
	assert_int_equal(xdp_on("dp0", NULL), 0);
	ok(datapath_detach_interface(dp, "dp0"));
	ok(datapath_attach(dp, "dp0", 2, &b));
	assert_int_equal(b.mode, ATTACH_GENERIC);
	shut(&dp);
}

static void c103_lost_pin_is_found_again(void **state)
{
	struct datapath *dp = open_pins();
	struct attach_state a, b;
	int fd;

	(void)state;
	ok(datapath_attach(dp, "dp0", 0, &a));
	fd = pinned("link_xdp_dp0"); /* keeps the link alive */
	assert_int_equal(unlink_pin("link_xdp_dp0"), 0);
	ok(datapath_attach(dp, "dp0", 0, &b));
	assert_int_equal(a.program_id, b.program_id);
	close(fd);
	assert_int_equal(xdp_on("dp0", NULL), a.program_id);
	shut(&dp);
}

/* The same pins, a device of the same name and number, another network: the pinned link is not the one we need. */
static void a_link_of_another_namespace_is_not_ours(void **state)
{
	struct datapath *dp = open_pins();
	struct attach_state a, b;
	int there = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

	ok(datapath_attach(dp, "dp0", 0, &a));
	assert_int_equal(unshare(CLONE_NEWNET), 0);
	run("ip link add dp0 type veth peer name dp1 && ip link set dp0 up");
	assert_int_equal(if_nametoindex("dp0"), a.ifindex);
	assert_int_equal(xdp_on("dp0", NULL), 0);
	ok(datapath_attach(dp, "dp0", 0, &b));
	assert_int_equal(xdp_on("dp0", NULL), b.program_id);
	shut(&dp);
	assert_int_equal(setns(there, CLONE_NEWNET), 0);
	close(there);
	(void)state;
}

static void c103_foreign_program_is_refused_by_name(void **state)
{
	struct datapath *dp = open_pins();
	struct attach_state a;
	int prog = load_foreign(), ifindex = (int)if_nametoindex("dp0");
	uint32_t id;

	(void)state;
	assert_int_equal(bpf_xdp_attach(ifindex, prog, XDP_FLAGS_SKB_MODE, NULL), 0);
	id = xdp_on("dp0", NULL);
	assert_int_equal(datapath_attach(dp, "dp0", 0, &a), -EBUSY);
	assert_int_equal(a.mode, ATTACH_OFFLINE);
	assert_non_null(strstr(a.why, "'foreign'"));
	assert_int_equal(xdp_on("dp0", NULL), id);
	assert_int_equal(bpf_xdp_attach(ifindex, -1, XDP_FLAGS_SKB_MODE, NULL), 0);
	assert_int_equal(bpf_xdp_attach(ifindex, prog, XDP_FLAGS_DRV_MODE, NULL), 0);
	assert_int_equal(datapath_attach(dp, "dp0", 0, &a), -EBUSY); /* never the other mode because of EBUSY */
	ok(datapath_detach_all(pins, why, sizeof(why)));
	assert_int_not_equal(xdp_on("dp0", NULL), 0); /* nor is it removed with ours */
	assert_int_equal(bpf_xdp_attach(ifindex, -1, XDP_FLAGS_DRV_MODE, NULL), 0);
	close(prog);
	shut(&dp);
}

struct rival {
	int ifindex, prog, stop;
	unsigned long attached;
};

/* Another agent that attaches and detaches all the time, politely: only where nothing is. */
static void *rival_run(void *arg)
{
	struct rival *rival = arg;

	while (!__atomic_load_n(&rival->stop, __ATOMIC_RELAXED)) {
		LIBBPF_OPTS(bpf_xdp_attach_opts, opts, .old_prog_fd = rival->prog);

		if (bpf_xdp_attach(rival->ifindex, rival->prog, XDP_FLAGS_SKB_MODE | XDP_FLAGS_UPDATE_IF_NOEXIST, NULL))
			continue;
		rival->attached++;
		bpf_xdp_attach(rival->ifindex, -1, XDP_FLAGS_SKB_MODE | XDP_FLAGS_REPLACE, &opts);
	}
	return NULL;
}

static void c122_another_agent_attaches_meanwhile(void **state)
{
	struct datapath *dp = open_pins();
	struct rival rival = {.ifindex = (int)if_nametoindex("dp0"), .prog = load_foreign()};
	libbpf_print_fn_t before = libbpf_set_print(NULL);
	unsigned int got = 0, refused = 0;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, rival_run, &rival), 0);
	for (int i = 0; i < 60 || (!refused && i < 3000); i++) {
		struct attach_state a;
		int r = datapath_attach(dp, "dp0", 0, &a);

		if (r == 0) {
			got++;
			assert_int_equal(xdp_on("dp0", NULL), a.program_id);
			ok(datapath_detach_interface(dp, "dp0"));
		} else {
			refused++;
			if (r != -EBUSY || !a.why[0])
				fail_msg("attach gave %d '%s'", r, a.why);
		}
	}
	__atomic_store_n(&rival.stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	libbpf_set_print(before);
	assert_true(got > 0 && refused > 0 && rival.attached > 0);
	close(rival.prog);
	shut(&dp);
}

static void c23_devices_without_ethernet_are_refused(void **state)
{
	struct datapath *dp = open_pins();
	struct attach_state a;

	(void)state;
	run("ip tuntap add dev tun-dp mode tun");
	assert_int_equal(datapath_attach(dp, "tun-dp", 0, &a), -EINVAL);
	assert_non_null(strstr(a.why, "no Ethernet header"));
	assert_int_equal(datapath_attach(dp, "nothere", 0, &a), -ENODEV);
	assert_non_null(strstr(a.why, "no interface nothere"));
	shut(&dp);
}

static void renamed_and_returning_interfaces(void **state)
{
	struct datapath *dp = open_pins();
	struct attach_state a, b;

	(void)state;
	ok(datapath_attach(dp, "dp0", 0, &a));
	run("ip link set dp0 down && ip link set dp0 name dp0.9 && ip link set dp0.9 up");
	ok(datapath_attach(dp, "dp0", 0, &b)); /* the same device, filtered under its new name */
	assert_int_equal(b.ifindex, a.ifindex);
	assert_non_null(strstr(b.why, "now called dp0.9"));
	assert_int_equal(xdp_on("dp0.9", NULL), a.program_id);
	ok(datapath_attach(dp, "dp0.9", 0, &b)); /* a dot in the name: bpffs takes none */
	assert_int_equal(b.program_id, a.program_id);
	run("ip link del dp1");
	assert_int_equal(datapath_attach(dp, "dp0", 0, &b), -ENODEV);
	run("ip link add dp0 type veth peer name dp1");
	ok(datapath_attach(dp, "dp0", 0, &b));
	assert_int_not_equal(b.ifindex, a.ifindex);
	assert_int_equal(xdp_on("dp0", NULL), b.program_id);
	shut(&dp);
}

static void c112_mtu_beyond_one_page(void **state)
{
	struct datapath *dp = open_pins();
	struct attach_state a;

	(void)state;
	run("ip link set dp0 mtu 9000 && ip link set dp1 mtu 9000");
	ok(datapath_attach(dp, "dp0", 0, &a));
	/* A kernel that takes multi-buffer programs attaches natively; an older one says the MTU. */
	if (a.mode != ATTACH_NATIVE)
		assert_non_null(strstr(a.why, "MTU 9000"));
	shut(&dp);
}

static int programs_behind_dispatcher(int ifindex)
{
	struct xdp_multiprog *mp = xdp_multiprog__get_from_ifindex(ifindex);
	int programs;

	assert_int_equal(libxdp_get_error(mp), 0);
	programs = xdp_multiprog__program_count(mp);
	xdp_multiprog__close(mp);
	return programs;
}

/* Another tool's program behind libxdp's dispatcher: ours runs beside it, and leaves it alone when it goes. */
static void joins_a_dispatcher(void **state)
{
	struct xdp_program *other = xdp_program__find_file("xsk_def_xdp_prog.o", NULL, NULL);
	int ifindex = (int)if_nametoindex("dp0");
	struct xdp_multiprog *mp;
	struct datapath *dp;
	struct attach_state a, b;
	struct test_service web;

	(void)state;
	assert_int_equal(libxdp_get_error(other), 0);
	assert_int_equal(xdp_program__attach(other, ifindex, XDP_MODE_NATIVE, 0), 0);
	mp = xdp_multiprog__get_from_ifindex(ifindex);
	assert_int_equal(libxdp_get_error(mp), 0);
	if (xdp_multiprog__is_legacy(mp)) {
		xdp_multiprog__close(mp);
		assert_int_equal(xdp_program__detach(other, ifindex, XDP_MODE_NATIVE, 0), 0);
		xdp_program__close(other);
		printf("probe: the kernel refuses program extensions (BPF_PROG_TYPE_EXT), libxdp has no dispatcher\n");
		skip();
	}
	xdp_multiprog__close(mp);
	dp = open_pins();
	make_service(&web, "web", 10, 20, 40);
	apply_services(dp, &web, 1);
	if (datapath_attach(dp, "dp0", 0, &a) < 0) {
		if (!strstr(a.why, "may change packets"))
			fail_msg("%s", a.why);
		shut(&dp);
		assert_int_equal(programs_behind_dispatcher(ifindex), 1); /* the other one goes on */
		assert_int_equal(xdp_program__detach(other, ifindex, XDP_MODE_NATIVE, 0), 0);
		xdp_program__close(other);
		printf("probe: the kernel lets only a dispatcher that changes packets have such extensions\n");
		skip();
	}
	assert_true(a.dispatcher && a.mode == ATTACH_NATIVE && a.program_id);
	ok(datapath_attach(dp, "dp0", 0, &b));
	assert_int_equal(a.program_id, b.program_id);
	shut(&dp);
	dp = open_sized(8192, false); /* other tables: the program behind the dispatcher is replaced too */
	apply_services(dp, &web, 1);
	ok(datapath_attach(dp, "dp0", 0, &b));
	assert_int_not_equal(a.program_id, b.program_id);
	assert_int_equal(programs_behind_dispatcher(ifindex), 2);
	shut(&dp);
	ok(datapath_detach_all(pins, why, sizeof(why)));
	assert_int_equal(programs_behind_dispatcher(ifindex), 1);
	assert_int_equal(xdp_program__detach(other, ifindex, XDP_MODE_NATIVE, 0), 0);
	xdp_program__close(other);
}

static bool lock_file_exists(void)
{
	char path[96];

	snprintf(path, sizeof(path), "/run/sluice/sys-fs-bpf-test--datapath--%d.lock", (int)getpid());
	return access(path, F_OK) == 0;
}

static void c104_detach_all_verifies(void **state)
{
	struct datapath *dp = open_pins();
	struct attach_state a;
	int lost;

	(void)state;
	ok(datapath_attach(dp, "dp0", 2, &a));
	ok(datapath_attach(dp, "dp1", 0, &a));
	ok(datapath_attach_sockops(dp, why, sizeof(why)));
	lost = pinned("link_xdp_dp1");
	assert_true(lock_file_exists());
	assert_int_equal(unlink_pin("link_xdp_dp1"), 0);
	shut(&dp);
	ok(datapath_detach_all(pins, why, sizeof(why)));
	assert_int_equal(xdp_on("dp0", NULL), 0);
	assert_int_equal(xdp_on("dp1", NULL), 0); /* found although nothing pinned it */
	assert_int_equal(access(pins, F_OK), -1);
	assert_false(lock_file_exists());
	ok(datapath_detach_all(pins, why, sizeof(why))); /* nothing there: success */
	close(lost);
}

static void c79_sockops_beside_others(void **state)
{
	struct datapath *dp = open_pins();
	struct test_service dns;

	(void)state;
	ok(datapath_attach_sockops(dp, why, sizeof(why)));
	assert_true(pinned("link_sockops") >= 0);
	ok(datapath_attach_sockops(dp, why, sizeof(why)));
	assert_false(datapath_modes(dp)->no_cgroup2);
	assert_false(datapath_modes(dp)->no_turns);
	assert_true(pinned("link_ingress") >= 0);
	assert_true(pinned("link_egress") >= 0);
	assert_int_equal(datapath_control(dp)->flags & SLC_F_NO_TURNS, 0);
	make_service(&dns, "dns", 53, 0, 0); /* the first UDP service comes by a reload */
	dns.service.policy.proto = dns.keys[0].proto = IPPROTO_UDP;
	apply_services(dp, &dns, 1);
	assert_true(pinned("link_egress") >= 0);
	shut(&dp);
	dp = open_sized(4096, true);
	ok(datapath_attach_sockops(dp, why, sizeof(why)));
	assert_true(pinned("link_ingress") >= 0);
	assert_true(pinned("link_egress") >= 0);
	shut(&dp);
}

/* A program that any cgroup takes and that passes everything. */
static int load_cgroup_skb(const char *name)
{
	static const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_CGROUP_SKB, name, "GPL", insns, ARRAY_SIZE(insns), NULL);

	if (fd < 0)
		fail_msg("loading %s: %s", name, strerror(-fd));
	return fd;
}

/* Link and program of a pinned link; the name of the program where `name` is given. */
static struct bpf_link_info link_of(const char *pin, char name[BPF_OBJ_NAME_LEN])
{
	struct bpf_prog_info program = {0};
	struct bpf_link_info info = {0};
	uint32_t len = sizeof(info), program_len = sizeof(program);
	int fd = pinned(pin), prog;

	if (fd < 0)
		fail_msg("%s is not pinned: %s", pin, strerror(-fd));
	assert_int_equal(bpf_obj_get_info_by_fd(fd, &info, &len), 0);
	close(fd);
	prog = bpf_prog_get_fd_by_id(info.prog_id);
	assert_true(prog >= 0);
	assert_int_equal(bpf_obj_get_info_by_fd(prog, &program, &program_len), 0);
	close(prog);
	if (name)
		memcpy(name, program.name, BPF_OBJ_NAME_LEN);
	return info;
}

/* An older sluice left other programs: the links stay where they are, no packet meets none or two. */
static void turns_are_replaced_in_place(void **state)
{
	static const char *const pin_names[] = {"link_ingress", "link_egress"};
	static const char *const programs[] = {"slc_ingress", "slc_egress"};
	struct datapath *dp = open_pins();
	struct bpf_link_info before[2], after;
	char name[BPF_OBJ_NAME_LEN];

	(void)state;
	ok(datapath_attach_sockops(dp, why, sizeof(why)));
	shut(&dp);
	for (size_t i = 0; i < 2; i++) {
		int link = pinned(pin_names[i]), old = load_cgroup_skb("slc_older");

		assert_int_equal(bpf_link_update(link, old, NULL), 0);
		close(link);
		close(old);
		before[i] = link_of(pin_names[i], name);
		assert_string_equal(name, "slc_older");
	}
	dp = open_pins();
	assert_true(datapath_modes(dp)->adopted);
	ok(datapath_attach_sockops(dp, why, sizeof(why)));
	for (size_t i = 0; i < 2; i++) {
		after = link_of(pin_names[i], name);
		assert_int_equal(after.id, before[i].id);
		assert_int_not_equal(after.prog_id, before[i].prog_id);
		assert_string_equal(name, programs[i]);
		before[i] = after;
	}
	ok(datapath_attach_sockops(dp, why, sizeof(why)));
	shut(&dp);
	dp = open_pins(); /* the same ones: they stay as they are */
	ok(datapath_attach_sockops(dp, why, sizeof(why)));
	for (size_t i = 0; i < 2; i++) {
		after = link_of(pin_names[i], NULL);
		assert_true(after.id == before[i].id && after.prog_id == before[i].prog_id);
	}
	shut(&dp);
}

/* What is attached to the cgroup by a program whose id is one of `ids`. */
static unsigned int attached_of(int cgroup, const uint32_t ids[3])
{
	static const enum bpf_attach_type types[] = {BPF_CGROUP_SOCK_OPS, BPF_CGROUP_INET_INGRESS,
						     BPF_CGROUP_INET_EGRESS};
	unsigned int found = 0;

	for (size_t t = 0; t < ARRAY_SIZE(types); t++) {
		uint32_t there[64], count = ARRAY_SIZE(there);

		assert_int_equal(bpf_prog_query(cgroup, types[t], 0, NULL, there, &count), 0);
		for (uint32_t i = 0; i < count; i++)
			for (size_t n = 0; n < 3; n++)
				found += there[i] == ids[n];
	}
	return found;
}

static int open_cgroup_root(void)
{
	char path[256] = "";
	FILE *f = popen("awk '/ - cgroup2 /{print $5; exit}' /proc/self/mountinfo", "r");
	int fd;

	assert_non_null(f);
	assert_non_null(fgets(path, sizeof(path), f));
	pclose(f);
	path[strcspn(path, "\n")] = '\0';
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

/* Nothing of ours is left at the cgroup, whether a pin names it or not; a second instance keeps its own. */
static void c104_detach_clears_the_cgroup(void **state)
{
	struct datapath_options options = {.sources = 4096, .flows = 1024};
	struct datapath *dp = open_pins(), *second = NULL;
	char other[96], path[128], said[WHY_LEN] = "";
	int root = open_cgroup_root(), lost;
	uint32_t ids[3], others[3];

	(void)state;
	snprintf(other, sizeof(other), "%s-second", pins);
	options.pins = other;
	ok(datapath_attach_sockops(dp, why, sizeof(why)));
	ok(datapath_open(&second, &options, why, sizeof(why)));
	ok(datapath_attach_sockops(second, why, sizeof(why)));
	datapath_close(&second);
	for (size_t i = 0; i < 3; i++) {
		static const char *const names[] = {"link_sockops", "link_ingress", "link_egress"};
		struct bpf_link_info info = {0};
		uint32_t len = sizeof(info);
		int fd;

		ids[i] = link_of(names[i], NULL).prog_id;
		snprintf(path, sizeof(path), "%s/%s", other, names[i]);
		fd = bpf_obj_get(path);
		assert_int_equal(bpf_obj_get_info_by_fd(fd, &info, &len), 0);
		others[i] = info.prog_id;
		close(fd);
	}
	assert_int_equal(attached_of(root, ids), 3);
	assert_int_equal(attached_of(root, others), 3);
	lost = pinned("link_egress"); /* held open, no pin names it */
	assert_int_equal(unlink_pin("link_egress"), 0);
	shut(&dp);
	ok(datapath_detach_all(pins, why, sizeof(why)));
	assert_int_equal(attached_of(root, ids), 0);
	assert_int_equal(attached_of(root, others), 3);
	assert_int_equal(datapath_detach_all(other, said, sizeof(said)), 0);
	assert_int_equal(attached_of(root, others), 0);
	close(lost);
	close(root);
}

/* In a cgroup that is the root for whoever lives in it, with a program that tolerates no other at `type`. */
static int start_beside_exclusive(const char *cgroup, enum bpf_attach_type type)
{
	struct datapath_options options = {.pins = pins, .sources = 4096, .flows = 1024};
	const struct datapath_modes *modes;
	struct datapath *dp = NULL;
	char procs[160];
	int fd, r;

	snprintf(procs, sizeof(procs), "%s/cgroup.procs", cgroup);
	fd = open(procs, O_WRONLY);
	if (fd < 0 || write(fd, "0", 1) != 1)
		return 1;
	close(fd);
	if (unshare(CLONE_NEWCGROUP | CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return 2;
	/* All others away, then the one that shows this cgroup alone. */
	if (system("awk '/ - cgroup2 /{print $5}' /proc/self/mountinfo | xargs -n 1 umount -l") != 0 ||
	    mount("none", "/mnt", "cgroup2", 0, NULL) < 0)
		return 3;
	fd = open("/mnt", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || bpf_prog_attach(load_cgroup_skb("jealous"), fd, type, 0) < 0)
		return 4;
	if (datapath_open(&dp, &options, why, sizeof(why)) < 0)
		return 5;
	r = datapath_attach_sockops(dp, why, sizeof(why));
	modes = datapath_modes(dp);
	if (r < 0 || modes->no_cgroup2 || pinned("link_sockops") < 0)
		return 6; /* connections are counted all the same */
	if (!modes->no_turns || !(datapath_control(dp)->flags & SLC_F_NO_TURNS))
		return 7;
	if (!strstr(modes->no_turns_why, "'jealous'") || !strstr(modes->no_turns_why, "answers are not timed"))
		return 8;
	if (pinned("link_ingress") >= 0 || pinned("link_egress") >= 0)
		return 9; /* both or none */
	if (bpf_prog_detach(fd, type) < 0 || datapath_attach_sockops(dp, why, sizeof(why)) < 0)
		return 10;
	if (modes->no_turns || datapath_control(dp)->flags & SLC_F_NO_TURNS || pinned("link_egress") < 0)
		return 11;
	datapath_close(&dp);
	return datapath_detach_all(pins, why, sizeof(why)) < 0 ? 12 : 0;
}

static void c79_exclusive_program_leaves_no_turns(void **state)
{
	static const enum bpf_attach_type types[] = {BPF_CGROUP_INET_INGRESS, BPF_CGROUP_INET_EGRESS};
	char root[64], cgroup[128];
	int fd = open_cgroup_root();

	(void)state;
	snprintf(root, sizeof(root), "/proc/self/fd/%d", fd);
	snprintf(cgroup, sizeof(cgroup), "%s/test-datapath-%d", root, (int)getpid());
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		int status, child;

		assert_int_equal(mkdir(cgroup, 0755), 0);
		child = fork();
		if (!child) {
			int r = start_beside_exclusive(cgroup, types[i]);

			if (r)
				fprintf(stderr, "case %zu: %d: %s, %s\n", i, r, strerror(errno), why);
			_exit(r);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(rmdir(cgroup), 0);
		assert_int_equal(clean(state), 0);
		if (!WIFEXITED(status) || WEXITSTATUS(status))
			fail_msg("case %zu: status %x", i, (unsigned int)status);
	}
	close(fd);
}

/* --- migration -------------------------------------------------------------------------------------------------------- */

static void c109_other_table_size_keeps_everything(void **state)
{
	struct datapath *dp = open_pins();
	struct test_service services[2];
	struct slc_override_half over = {.flags = SLC_O_DRAIN, .drain_until_ns = SLC_FOREVER}, back;
	struct attach_state a, b;
	struct slc_policy before;
	uint64_t secret = datapath_control(dp)->secret[0];
	uint32_t counters, sources;

	(void)state;
	make_service(&services[0], "web", 10, 1, 40);
	services[0].service.source_interval_ns16 = 100 * NS16_PER_S;
	services[0].service.source_depth_ns16 = 4000 * NS16_PER_S;
	make_service(&services[1], "api", 11, 10, 10);
	apply_services(dp, services, 2);
	for (uint8_t host = 1; host <= 40; host++)
		assert_int_equal(spend(dp, "web", host, 30), 30);
	before = policy_of(dp, "web");
	ok(datapath_set_override(dp, before.state, &over));
	ok(datapath_attach(dp, "dp0", 0, &a));
	ok(datapath_attach_sockops(dp, why, sizeof(why)));
	shut(&dp);
	counters = map_id("slc_counters");
	sources = map_id("slc_sources");

	dp = open_sized(65536, false);
	assert_false(datapath_modes(dp)->adopted);
	/* nothing of the old is touched before the new is complete (c125) */
	assert_int_equal(map_id("slc_sources"), sources);
	assert_int_equal(xdp_on("dp0", NULL), a.program_id);
	assert_int_equal(datapath_attach(dp, "dp0", 0, &b), -EBUSY);
	assert_true(apply_services(dp, services, 2));
	assert_true(datapath_modes(dp)->migrated);
	assert_int_not_equal(map_id("slc_sources"), sources);
	assert_int_equal(map_id("slc_counters"), counters); /* alike: shared */
	assert_int_not_equal(xdp_on("dp0", NULL), a.program_id);
	assert_true(datapath_control(dp)->secret[0] == secret);
	assert_int_equal(policy_of(dp, "web").uid, before.uid);
	assert_int_equal(policy_of(dp, "web").state, before.state);
	assert_int_equal(policy_of(dp, "web").set_mask + 1, 65536 / SLC_WAYS / 2);
	for (uint8_t host = 1; host <= 40; host++) {
		struct slc_policy policy = policy_of(dp, "web");

		assert_ten_left(dp, &policy, host);
	}
	ok(datapath_get_override(dp, before.state, &back));
	assert_memory_equal(&over, &back, sizeof(back));
	ok(datapath_attach(dp, "dp0", 0, &b));
	assert_int_equal(xdp_on("dp0", NULL), b.program_id);
	shut(&dp);

	dp = open_pins(); /* and back to the smaller table */
	assert_true(apply_services(dp, services, 2));
	for (uint8_t host = 1; host <= 40; host++) {
		struct slc_policy policy = policy_of(dp, "web");

		assert_ten_left(dp, &policy, host);
	}
	assert_false(apply_services(dp, services, 2));
	shut(&dp);
}

/* Replaces a pinned map by one of another shape, as another version would have left it. */
static void repin(const char *name, enum bpf_map_type type, int more_value, int divide_entries, uint32_t flags_toggle)
{
	struct bpf_map_info info = {0};
	uint32_t len = sizeof(info);
	LIBBPF_OPTS(bpf_map_create_opts, opts);
	char path[256];
	int fd = pinned(name);

	assert_true(fd >= 0);
	assert_int_equal(bpf_obj_get_info_by_fd(fd, &info, &len), 0);
	close(fd);
	opts.map_flags = info.map_flags ^ flags_toggle;
	fd = bpf_map_create(type ?: info.type, name, info.key_size, info.value_size + (uint32_t)more_value,
			    info.max_entries / (uint32_t)divide_entries, &opts);
	assert_true(fd >= 0);
	snprintf(path, sizeof(path), "%s/%s", pins, name);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(bpf_obj_pin(fd, path), 0);
	close(fd);
}

static void c109_pins_of_other_shapes(void **state)
{
	static const struct {
		const char *name;
		enum bpf_map_type type;
		int more_value, divide;
		uint32_t flags;
	} shapes[] = {
		{"slc_counters", 0, 8, 1, 0},
		{"slc_counters", 0, 16, 1, 0}, /* one reason more */
		{"slc_total", 0, 8, 1, 0},
		{"slc_policy", 0, 0, 2, 0},
		{"slc_orders", BPF_MAP_TYPE_HASH, 0, 1, 0},
		{"slc_signals", 0, 0, 1, BPF_F_MMAPABLE},
		{"slc_known", 0, 0, 2, 0},
		{"slc_flows", 0, 0, 2, 0},
		{"slc_cold", 0, 0, 2, 0},
		{"slc_control", 0, 8, 1, 0},
	};
	struct test_service web;

	(void)state;
	make_service(&web, "web", 10, 1, 40);
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct datapath *dp = open_pins();
		struct attach_state a;

		apply_services(dp, &web, 1);
		ok(datapath_attach(dp, "dp0", 0, &a));
		shut(&dp);
		repin(shapes[i].name, shapes[i].type, shapes[i].more_value, shapes[i].divide, shapes[i].flags);
		dp = open_pins();
		if (datapath_modes(dp)->adopted)
			fail_msg("%s of another shape was adopted", shapes[i].name);
		assert_true(apply_services(dp, &web, 1));
		assert_true(datapath_modes(dp)->migrated);
		ok(datapath_attach(dp, "dp0", 0, &a));
		assert_int_equal(xdp_on("dp0", NULL), a.program_id);
		shut(&dp);
		dp = open_pins(); /* what it left is of our shape */
		assert_true(datapath_modes(dp)->adopted);
		shut(&dp);
		ok(datapath_detach_all(pins, why, sizeof(why)));
	}
}

/* A pinned array with values of `size` bytes, as an older version would have left it; what fits is kept. */
static void shorten_pin(const char *name, size_t size, const uint32_t *keys, size_t count)
{
	static uint8_t values[4][1 << 18];
	struct bpf_map_info info = {0};
	uint32_t len = sizeof(info);
	int fd = pinned(name);

	assert_true(fd >= 0 && count <= ARRAY_SIZE(values));
	assert_int_equal(bpf_obj_get_info_by_fd(fd, &info, &len), 0);
	assert_true(info.value_size > size && info.value_size <= sizeof(values[0]));
	for (size_t i = 0; i < count; i++)
		assert_int_equal(bpf_map_lookup_elem(fd, &keys[i], values[i]), 0);
	close(fd);
	repin(name, 0, (int)size - (int)info.value_size, 1, 0);
	fd = pinned(name);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(bpf_map_update_elem(fd, &keys[i], values[i], BPF_ANY), 0);
	close(fd);
}

/* Pins as ABI 1.0 left them: no maps of turns, tickets and measures, slc_signals to its first half. */
static void make_pins_of_abi_1_0(const uint32_t *states, size_t count)
{
	static const char *const later[] = {"slc_measure", "slc_probe", "slc_udp_turns", "slc_turn_of",
					    "slc_conns" /* of other size */};
	struct slc_control control;
	uint32_t zero = 0;
	int fd;

	shorten_pin("slc_signals", offsetof(struct slc_signals, turns_begun), states, count);
	for (size_t i = 0; i < ARRAY_SIZE(later); i++)
		assert_int_equal(unlink_pin(later[i]), 0);
	fd = pinned("slc_control");
	assert_int_equal(bpf_map_lookup_elem(fd, &zero, &control), 0);
	control.abi_minor = 0;
	for (int i = 0; i < 2; i++) {
		control.global[i].hold_ns = 0;
		memset(control.global[i].dscp_ifindex, 0, sizeof(control.global[i].dscp_ifindex));
	}
	assert_int_equal(bpf_map_update_elem(fd, &zero, &control, BPF_ANY), 0);
	close(fd);
}

/* From ABI 1.0: uids, buckets, counters and what signals there were are kept, what is new starts from nothing. */
static void c109_pins_of_abi_1_0(void **state)
{
	struct datapath *dp = open_pins();
	struct slc_counters *per_cpu = calloc(datapath_cpus(dp), sizeof(*per_cpu)), sum;
	struct slc_decision_half half = {.valid_until_ns = SLC_FOREVER, .listeners = 3}, back;
	const struct slc_measure *measure;
	const struct slc_signals *signals;
	struct test_service services[2];
	struct slc_signals *old;
	struct attach_state a, b;
	struct slc_policy before, now;
	uint32_t states[2], generation;
	int fd;

	(void)state;
	make_service(&services[0], "web", 10, 1, 40);
	services[0].service.source_interval_ns16 = 100 * NS16_PER_S;
	services[0].service.source_depth_ns16 = 4000 * NS16_PER_S;
	make_service(&services[1], "api", 11, 10, 10);
	apply_services(dp, services, 2);
	before = policy_of(dp, "web");
	for (size_t i = 0; i < 2; i++)
		states[i] = policy_of(dp, i ? "api" : "web").state;
	assert_int_equal(spend(dp, "web", 1, 30), 30);
	old = (struct slc_signals *)datapath_signals(dp, before.state);
	*old = (struct slc_signals){.uid = before.uid, .closed = 17, .reset = 3};
	old->established[SLC_CLASS_stranger] = 20;
	old->handshake[SLC_CLASS_stranger][100] = 20;
	per_cpu[0].enforced.admitted = 20;
	per_cpu[0].attempts = 25;
	fd = pinned("slc_counters");
	assert_int_equal(bpf_map_update_elem(fd, &states[0], per_cpu, BPF_ANY), 0);
	close(fd);
	free(per_cpu);
	ok(datapath_push_decision(dp, before.state, &half, 0));
	ok(datapath_attach(dp, "dp0", 0, &a));
	ok(datapath_attach_sockops(dp, why, sizeof(why)));
	shut(&dp);
	make_pins_of_abi_1_0(states, 2);

	give_measure(&services[0], 100);
	dp = open_pins();
	assert_false(datapath_modes(dp)->adopted);
	assert_true(datapath_modes(dp)->pinned_major == 1 && datapath_modes(dp)->pinned_minor == 0);
	assert_int_equal(xdp_on("dp0", NULL), a.program_id);
	assert_true(apply_services(dp, services, 2));
	assert_true(datapath_modes(dp)->migrated);
	assert_int_not_equal(xdp_on("dp0", NULL), a.program_id);
	now = policy_of(dp, "web");
	assert_true(now.uid == before.uid && now.state == before.state);
	assert_ten_left(dp, &now, 1);
	ok(datapath_counters(dp, now.state, &sum));
	assert_true(sum.enforced.admitted == 20 && sum.attempts == 25);
	signals = datapath_signals(dp, now.state);
	assert_true(signals->uid == before.uid && signals->closed == 17 && signals->reset == 3);
	assert_int_equal(signals->established[SLC_CLASS_stranger], 20);
	assert_int_equal(signals->handshake[SLC_CLASS_stranger][100], 20);
	for (size_t at = offsetof(struct slc_signals, turns_begun); at < sizeof(*signals); at++)
		assert_int_equal(((const uint8_t *)signals)[at], 0);
	for (int i = 0; i < SLC_PROBES; i++)
		assert_true(datapath_probes(dp, now.state)->slot[i].word == 0);
	measure = datapath_measure(dp, now.state);
	assert_true(measure->uid == before.uid && measure->slow_after_ns == 100);
	ok(datapath_get_decision(dp, now.state, &back, &generation));
	assert_true(back.listeners == 3 && generation == 0);
	assert_int_equal(datapath_control(dp)->abi_minor, SLC_ABI_MINOR);
	ok(datapath_attach(dp, "dp0", 0, &b));
	assert_int_equal(xdp_on("dp0", NULL), b.program_id);
	assert_false(apply_services(dp, services, 2));
	shut(&dp);
	dp = open_pins();
	assert_true(datapath_modes(dp)->adopted);
	assert_false(apply_services(dp, services, 2));
	shut(&dp);
}

static void rename_pin(const char *from, const char *to)
{
	char a[256], b[256];

	snprintf(a, sizeof(a), "%s/%s", pins, from);
	snprintf(b, sizeof(b), "%s/%s", pins, to);
	assert_int_equal(rename(a, b), 0);
}

/* A run that died between swapping the programs and naming its maps: its maps are the ones in force. */
static void a_swap_cut_short_is_finished(void **state)
{
	struct datapath *dp = open_pins();
	struct attach_state a, b;
	struct test_service web;
	uint32_t control, sources;

	(void)state;
	make_service(&web, "web", 10, 20, 40);
	apply_services(dp, &web, 1);
	ok(datapath_attach(dp, "dp0", 0, &a));
	control = map_id("slc_control");
	sources = map_id("slc_sources");
	shut(&dp);
	rename_pin("slc_control", "new_slc_control");
	rename_pin("slc_sources", "new_slc_sources");
	dp = open_pins();
	assert_true(datapath_modes(dp)->adopted);
	assert_int_equal(map_id("slc_control"), control);
	assert_int_equal(map_id("slc_sources"), sources);
	ok(datapath_attach(dp, "dp0", 0, &b));
	assert_int_equal(a.program_id, b.program_id);
	shut(&dp);
	/* and one that died before the swap: its maps are nobody's */
	dp = open_sized(8192, false);
	shut(&dp);
	assert_int_equal(map_id("new_slc_sources"), 0);
	rename_pin("slc_sources", "new_slc_sources");
	rename_pin("slc_budget", "new_slc_control");
	dp = open_pins();
	assert_int_equal(map_id("new_slc_sources"), 0);
	assert_int_equal(map_id("new_slc_control"), 0);
	assert_false(datapath_modes(dp)->adopted);
	shut(&dp);
}

static void c109_other_abi_major(void **state)
{
	struct datapath *dp = open_pins();
	struct test_service web;
	uint16_t major = SLC_ABI_MAJOR + 1;
	struct slc_control control;
	uint32_t zero = 0;
	int fd;

	(void)state;
	make_service(&web, "web", 10, 1, 40);
	apply_services(dp, &web, 1);
	shut(&dp);
	fd = pinned("slc_control");
	assert_int_equal(bpf_map_lookup_elem(fd, &zero, &control), 0);
	control.abi_major = major;
	assert_int_equal(bpf_map_update_elem(fd, &zero, &control, BPF_ANY), 0);
	close(fd);
	dp = open_pins();
	assert_false(datapath_modes(dp)->adopted);
	assert_int_equal(datapath_modes(dp)->pinned_major, major);
	apply_services(dp, &web, 1);
	assert_true(datapath_modes(dp)->migrated);
	assert_int_equal(datapath_control(dp)->abi_major, SLC_ABI_MAJOR);
	assert_int_equal(policy_of(dp, "web").uid, 1); /* equal sizes: the service is carried over */
	shut(&dp);
}

static void c140_counters_of_every_possible_cpu(void **state)
{
	struct datapath *dp = open_pins();
	struct slc_counters sum, *per_cpu = calloc(datapath_cpus(dp), sizeof(*per_cpu));
	uint32_t key = 3;
	int fd = pinned("slc_counters");

	(void)state;
	assert_int_equal(datapath_cpus(dp), libbpf_num_possible_cpus());
	for (size_t cpu = 0; cpu < datapath_cpus(dp); cpu++) {
		per_cpu[cpu].enforced.admitted = cpu + 1;
		per_cpu[cpu].events_lost = 10;
	}
	assert_int_equal(bpf_map_update_elem(fd, &key, per_cpu, BPF_ANY), 0);
	ok(datapath_counters(dp, 3, &sum));
	assert_int_equal(sum.enforced.admitted, datapath_cpus(dp) * (datapath_cpus(dp) + 1) / 2);
	assert_int_equal(sum.events_lost, 10 * datapath_cpus(dp));
	assert_int_equal(datapath_counters_per_cpu(dp, 3, per_cpu, datapath_cpus(dp) - 1), -EINVAL);
	free(per_cpu);
	close(fd);
	shut(&dp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define PLAIN(name) cmocka_unit_test_setup_teardown(name, clean, clean)
#define NETWORK(name) cmocka_unit_test_setup_teardown(name, network, network_end)
		PLAIN(opens_pins_and_closes),
		PLAIN(build_id_is_of_all_programs),
		PLAIN(second_instance_is_busy_and_told_the_pid),
		NETWORK(c119_without_kernel_btf_only_the_gate_is_off),
		PLAIN(adopts_what_is_pinned),
		PLAIN(applies_a_snapshot),
		PLAIN(remembers_ports_of_services),
		PLAIN(c128_c143_identical_snapshot_writes_nothing),
		PLAIN(identity_follows_the_name),
		PLAIN(c128_buckets_survive_reloads),
		PLAIN(sweeps_every_range_in_slices),
		PLAIN(ceilings_and_orders),
		PLAIN(c141_known_sources_walk),
		PLAIN(pushes_are_double_buffered),
		PLAIN(measures_follow_the_snapshot),
		PLAIN(reused_slots_start_from_nothing),
		PLAIN(dscp_prefixes_are_a_scope),
		PLAIN(full_tables_are_named),
		PLAIN(c140_counters_of_every_possible_cpu),
		NETWORK(c103_attaches_and_is_adopted),
		NETWORK(c103_lost_pin_is_found_again),
		NETWORK(a_link_of_another_namespace_is_not_ours),
		NETWORK(c103_foreign_program_is_refused_by_name),
		NETWORK(c122_another_agent_attaches_meanwhile),
		NETWORK(c23_devices_without_ethernet_are_refused),
		NETWORK(renamed_and_returning_interfaces),
		NETWORK(c112_mtu_beyond_one_page),
		NETWORK(joins_a_dispatcher),
		NETWORK(c104_detach_all_verifies),
		NETWORK(c79_sockops_beside_others),
		NETWORK(turns_are_replaced_in_place),
		NETWORK(c104_detach_clears_the_cgroup),
		NETWORK(c79_exclusive_program_leaves_no_turns),
		NETWORK(c109_other_table_size_keeps_everything),
		NETWORK(c109_pins_of_other_shapes),
		NETWORK(c109_pins_of_abi_1_0),
		NETWORK(a_swap_cut_short_is_finished),
		NETWORK(c109_other_abi_major),
	};

	snprintf(pins, sizeof(pins), "/sys/fs/bpf/test-datapath-%d", (int)getpid());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
