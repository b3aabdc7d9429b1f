// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <cmocka.h>

#include "tests/bpf/rig.h"

#include "sluice.skel.h" /* after abi.h, whose types it names */

#define SETS 4096u /* per service */

static const uint32_t THETA_PERCENT[SLC_CLASS_COUNT] = {100, 90, 50, 25};

static void __attribute__((format(printf, 1, 2), noreturn)) die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "rig: ");
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	va_end(args);
	abort();
}

uint64_t rig_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* --- namespace ---------------------------------------------------------------------------------------------------- */

static void run_ip(const char *command)
{
	int rc = system(command);

	if (rc)
		die("`%s` gave %d", command, rc);
}

void rig_private_network(void)
{
	if (unshare(CLONE_NEWNET))
		die("unshare(CLONE_NEWNET): %s: run as root", strerror(errno));
	run_ip("ip link set lo up");
	run_ip("ip addr add " SERVER4 "/32 dev lo");
	run_ip("ip addr add " CLIENT4 "/32 dev lo");
	run_ip("ip -6 addr add " SERVER6 "/128 dev lo nodad");
	run_ip("ip -6 addr add " CLIENT6 "/128 dev lo nodad");
}

/* --- loading ------------------------------------------------------------------------------------------------------- */

static size_t mapped_bytes(const struct bpf_map *map)
{
	size_t page = sysconf(_SC_PAGESIZE);

	return (bpf_map__value_size(map) * (size_t)bpf_map__max_entries(map) + page - 1) & ~(page - 1);
}

static void *map_area(const struct bpf_map *map)
{
	void *area;

	if (bpf_map__value_size(map) % 8) /* the kernel's stride would not be ours */
		die("%s: value is no multiple of 8", bpf_map__name(map));
	area = mmap(NULL, mapped_bytes(map), PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);
	if (area == MAP_FAILED)
		die("mmap of %s: %s", bpf_map__name(map), strerror(errno));
	return area;
}

/* With BTF, as the outer map's template has it: kernels of 6.1 compare what it says about the value. */
static int make_inner(const struct sluice_bpf *skel, const struct bpf_map *outer, uint32_t index,
		      enum bpf_map_type type, const char *key, const char *value, uint32_t entries, uint32_t flags)
{
	const struct btf *btf = bpf_object__btf(skel->obj);
	int key_id = btf__find_by_name_kind(btf, key, BTF_KIND_STRUCT);
	int value_id = btf__find_by_name_kind(btf, value, BTF_KIND_STRUCT), fd;
	struct bpf_map_create_opts opts = {
		.sz = sizeof(opts),
		.map_flags = flags,
		.btf_fd = bpf_object__btf_fd(skel->obj),
		.btf_key_type_id = key_id,
		.btf_value_type_id = value_id,
	};

	if (key_id < 0 || value_id < 0)
		die("no BTF of %s or %s", key, value);
	fd = bpf_map_create(type, "inner", btf__resolve_size(btf, key_id), btf__resolve_size(btf, value_id), entries,
			    &opts);
	if (fd < 0)
		die("inner map of %s: %s", bpf_map__name(outer), strerror(errno));
	if (bpf_map_update_elem(bpf_map__fd(outer), &index, &fd, BPF_ANY))
		die("%s[%u]: %s", bpf_map__name(outer), index, strerror(errno));
	return fd;
}

/* Never used twice: the program remembers what it found under a number. */
static uint64_t snapshots;

void rig_next_snapshot(struct rig *rig)
{
	rig->control->active = ++snapshots << 1 | (rig->control->active & 1);
}

static void fill_control(struct rig *rig, const struct rig_sizes *sizes)
{
	struct slc_control *c = rig->control;

	c->secret[0] = 0x0706050403020100ULL;
	c->secret[1] = 0x0f0e0d0c0b0a0908ULL;
	c->salt[0] = 0x1122334455667788ULL;
	c->salt[1] = 0x99aabbccddeeff00ULL;
	c->magic = SLC_MAGIC;
	c->abi_major = SLC_ABI_MAJOR;
	c->abi_minor = SLC_ABI_MINOR;
	c->boot_ns = rig_now();
	c->next_uid = 1;
	c->source_sets = sizes->source_sets;
	c->cold_sets = sizes->cold_sets;
	c->flow_sets = sizes->flow_sets;
	for (int i = 0; i < 2; i++) {
		c->global[i].event_interval16 = NS_PER_MS << 4;
		c->global[i].event_depth16 = NS_PER_S << 4;
		c->global[i].reset_interval16 = 1000 << 4;
		c->global[i].reset_depth16 = NS_PER_S << 4;
	}
	c->lease_until_ns = rig_now() + 3600 * NS_PER_S;
	c->active = ++snapshots << 1;
}

static int quiet(enum libbpf_print_level level, const char *format, va_list args)
{
	return level == LIBBPF_WARN ? vfprintf(stderr, format, args) : 0;
}

static struct sluice_bpf *load(const struct rig_sizes *s)
{
	struct sluice_bpf *skel = sluice_bpf__open();
	int err;

	if (!skel)
		die("skeleton: %s", strerror(errno));
	bpf_map__set_max_entries(skel->maps.slc_sources, s->source_sets);
	bpf_map__set_max_entries(skel->maps.slc_cold, s->cold_sets);
	bpf_map__set_max_entries(skel->maps.slc_flows, s->flow_sets);
	if (s->frags) {
		bpf_program__set_flags(skel->progs.slc_xdp, BPF_F_XDP_HAS_FRAGS);
		skel->rodata->slc_frags = 1;
	}
	bpf_program__set_autoload(skel->progs.slc_xdp_nogate, false);
	skel->rodata->slc_tcp_fields = 1;
	err = sluice_bpf__load(skel);
	if (err)
		die("load: %s", strerror(-err));
	return skel;
}

static void map_all(struct rig *rig)
{
	struct sluice_bpf *skel = rig->skel;

	rig->control = map_area(skel->maps.slc_control);
	rig->ports = map_area(skel->maps.slc_ports);
	rig->decision = map_area(skel->maps.slc_decision);
	rig->override = map_area(skel->maps.slc_override);
	rig->sources = map_area(skel->maps.slc_sources);
	rig->cold = map_area(skel->maps.slc_cold);
	rig->flows = map_area(skel->maps.slc_flows);
	rig->total = map_area(skel->maps.slc_total);
	rig->signals = map_area(skel->maps.slc_signals);
	rig->measure = map_area(skel->maps.slc_measure);
	rig->probe = map_area(skel->maps.slc_probe);
	rig->ceiling = map_area(skel->maps.slc_ceiling);
}

/* Once: writing to a map of maps waits for an RCU grace period. */
static void make_inner_maps(struct rig *rig)
{
	for (uint32_t i = 0; i < 2; i++) {
		rig->services[i] = make_inner(rig->skel, rig->skel->maps.slc_services, i, BPF_MAP_TYPE_HASH,
					      "slc_service_key", "slc_service", 1024, 0);
		rig->trust[i] = make_inner(rig->skel, rig->skel->maps.slc_trust, i, BPF_MAP_TYPE_LPM_TRIE,
					   "slc_trust_key", "slc_rule", SLC_TRUST, BPF_F_NO_PREALLOC);
	}
}

/* The verifier takes most of a second: a rig that was closed is emptied and used again. */
static struct rig *spare;

struct rig *rig_open(const struct rig_sizes *sizes)
{
	struct rig_sizes s = sizes ? *sizes : (struct rig_sizes){0};
	struct rig *rig = spare;

	libbpf_set_print(quiet);
	s.source_sets = s.source_sets ? s.source_sets : 16 * SETS;
	s.cold_sets = s.cold_sets ? s.cold_sets : 4096;
	s.flow_sets = s.flow_sets ? s.flow_sets : 16384;
	if (rig && !memcmp(&rig->sizes, &s, sizeof(s))) {
		spare = NULL;
	} else {
		rig = calloc(1, sizeof(*rig));
		rig->sizes = s;
		rig->skel = load(&s);
		rig->program = bpf_program__fd(rig->skel->progs.slc_xdp);
		rig->cpus = libbpf_num_possible_cpus();
		rig->scratch = calloc(rig->cpus, sizeof(*rig->scratch));
		map_all(rig);
		make_inner_maps(rig);
	}
	rig->states = 1;
	fill_control(rig, &s);
	return rig;
}

static void delete_all(int map)
{
	char key[64];

	while (!bpf_map_get_next_key(map, NULL, key))
		bpf_map_delete_elem(map, key);
}

static void clear_counters(struct rig *rig)
{
	memset(rig->scratch, 0, rig->cpus * sizeof(*rig->scratch));
	for (uint32_t state = 0; state < rig->states; state++)
		bpf_map_update_elem(bpf_map__fd(rig->skel->maps.slc_counters), &state, rig->scratch, BPF_ANY);
}

static void clear_budget(struct rig *rig)
{
	struct slc_budget *full = calloc(rig->cpus, sizeof(*full));
	uint32_t zero = 0;

	bpf_map_update_elem(bpf_map__fd(rig->skel->maps.slc_budget), &zero, full, BPF_ANY);
	free(full);
}

static void clear(struct rig *rig)
{
	const struct sluice_bpf *skel = rig->skel;

	clear_counters(rig);
	clear_budget(rig);
	memset(rig->control, 0, mapped_bytes(skel->maps.slc_control));
	memset(rig->ports, 0, mapped_bytes(skel->maps.slc_ports));
	memset(rig->decision, 0, mapped_bytes(skel->maps.slc_decision));
	memset(rig->override, 0, mapped_bytes(skel->maps.slc_override));
	memset(rig->sources, 0, mapped_bytes(skel->maps.slc_sources));
	memset(rig->cold, 0, mapped_bytes(skel->maps.slc_cold));
	memset(rig->flows, 0, mapped_bytes(skel->maps.slc_flows));
	memset(rig->total, 0, mapped_bytes(skel->maps.slc_total));
	memset(rig->signals, 0, rig->states * sizeof(*rig->signals)); /* 18 MB in all */
	memset(rig->measure, 0, mapped_bytes(skel->maps.slc_measure));
	memset(rig->probe, 0, mapped_bytes(skel->maps.slc_probe));
	memset(rig->ceiling, 0, mapped_bytes(skel->maps.slc_ceiling));
	delete_all(bpf_map__fd(skel->maps.slc_orders));
	delete_all(bpf_map__fd(skel->maps.slc_known));
	delete_all(bpf_map__fd(skel->maps.slc_arrivals));
	delete_all(bpf_map__fd(skel->maps.slc_udp_turns));
	for (int i = 0; i < 2; i++) {
		delete_all(rig->services[i]);
		delete_all(rig->trust[i]);
	}
	rig->policies = 0;
	rig->next_set = 0;
	rig->ifindex = 0;
}

static void destroy(struct rig *rig)
{
	struct sluice_bpf *skel = rig->skel;

	munmap(rig->control, mapped_bytes(skel->maps.slc_control));
	munmap(rig->ports, mapped_bytes(skel->maps.slc_ports));
	munmap(rig->decision, mapped_bytes(skel->maps.slc_decision));
	munmap(rig->override, mapped_bytes(skel->maps.slc_override));
	munmap(rig->sources, mapped_bytes(skel->maps.slc_sources));
	munmap(rig->cold, mapped_bytes(skel->maps.slc_cold));
	munmap(rig->flows, mapped_bytes(skel->maps.slc_flows));
	munmap(rig->total, mapped_bytes(skel->maps.slc_total));
	munmap(rig->signals, mapped_bytes(skel->maps.slc_signals));
	munmap(rig->measure, mapped_bytes(skel->maps.slc_measure));
	munmap(rig->probe, mapped_bytes(skel->maps.slc_probe));
	munmap(rig->ceiling, mapped_bytes(skel->maps.slc_ceiling));
	for (int i = 0; i < 2; i++) {
		close(rig->services[i]);
		close(rig->trust[i]);
	}
	free(rig->scratch);
	sluice_bpf__destroy(skel);
	free(rig);
}

void rig_close(struct rig *rig)
{
	if (!rig)
		return;
	if (spare)
		destroy(spare);
	clear(rig);
	spare = rig;
}

/* --- the user side -------------------------------------------------------------------------------------------------- */

struct slc_policy rig_policy(const char *name)
{
	struct slc_policy p = {
		.proto = IPPROTO_TCP,
		.set_mask = SETS - 1,
		.v4_prefix = 32,
		.v6_prefix = 64,
		.wide_v4_prefix = 24,
		.wide_v6_prefix = 56,
		.reset_interval16 = 1000 << 4,
		.reset_depth16 = NS_PER_S << 4,
	};

	snprintf(p.name, sizeof(p.name), "%s", name);
	for (int c = 0; c < SLC_CLASS_COUNT; c++)
		p.share_inverse_q8[c] = SLC_NO_SHARE;
	return p;
}

/* Rounded up: 90 % of 100 is 90. */
static uint32_t to_q16(uint32_t percent)
{
	return (percent * 65536 + 99) / 100;
}

static uint32_t to_units(uint64_t ns, uint8_t shift)
{
	return (ns + (1ULL << shift) - 1) >> shift;
}

/* The unit makes both depths fit into 2^30. */
static uint8_t shift_for(uint64_t depth_ns)
{
	uint8_t shift = 0;

	while (depth_ns >> shift > 1ULL << 30)
		shift++;
	return shift;
}

void rig_policy_source(struct slc_policy *p, uint64_t interval_ns, uint32_t burst)
{
	p->flags |= SLC_P_SOURCE;
	p->shift = shift_for(interval_ns * burst);
	p->source_interval = to_units(interval_ns, p->shift);
	p->source_depth = p->source_interval * burst;
}

void rig_policy_wide(struct slc_policy *p, uint64_t interval_ns, uint32_t burst, uint8_t v4, uint8_t v6)
{
	uint8_t shift = shift_for(interval_ns * burst);

	p->flags |= SLC_P_WIDE;
	if (shift > p->shift) { /* one unit for both tiers: the coarser one */
		uint32_t own = p->source_depth / p->source_interval;

		p->source_interval = to_units((uint64_t)p->source_interval << p->shift, shift);
		p->source_depth = p->source_interval * own;
		p->shift = shift;
	}
	p->wide_interval = to_units(interval_ns, p->shift);
	p->wide_depth = p->wide_interval * burst;
	p->wide_v4_prefix = v4;
	p->wide_v6_prefix = v6;
}

void rig_policy_total(struct slc_policy *p, uint64_t interval_ns, uint32_t burst)
{
	p->flags |= SLC_P_TOTAL;
	p->total_interval16 = interval_ns << 4;
	p->total_depth16 = p->total_interval16 * burst;
	for (int c = 0; c < SLC_CLASS_COUNT; c++)
		p->theta_q16[c] = to_q16(THETA_PERCENT[c]);
	p->share_depth16 = NS_PER_S << 4;
}

void rig_policy_gate(struct slc_policy *p, uint32_t low_percent, uint32_t high_percent)
{
	uint32_t low = to_q16(low_percent), high = to_q16(high_percent);

	p->flags |= SLC_P_GATE;
	p->high_q16 = high;
	for (int c = 0; c < SLC_CLASS_COUNT; c++)
		p->low_q16[c] = low + (high - low) * THETA_PERCENT[c] / 100;
	p->max_wait_ns = 3600 * NS_PER_S;
	p->target_ns = p->max_wait_ns / 2;
}

static uint32_t index_now(const struct rig *rig)
{
	return rig->control->active & 1;
}

static uint16_t write_policy(struct rig *rig, const struct slc_policy *policy)
{
	uint32_t slot = ++rig->policies;

	if (bpf_map_update_elem(bpf_map__fd(rig->skel->maps.slc_policy), &slot, policy, BPF_ANY))
		die("slc_policy[%u]: %s", slot, strerror(errno));
	return slot;
}

static void write_service(struct rig *rig, const struct slc_policy *policy, uint16_t slot, const char *addr,
			  uint16_t port)
{
	struct slc_service_key key = {.port = port, .proto = policy->proto};
	struct slc_service service = {.uid = policy->uid, .policy = slot, .state = policy->state};
	static const uint8_t any6[16], any4[16] = {[10] = 0xff, [11] = 0xff};
	struct slc_global *global = &rig->control->global[index_now(rig)];
	struct slc_ports *ports = &rig->ports[port >> 6];

	packet_address(addr, key.addr);
	if (bpf_map_update_elem(rig->services[index_now(rig)], &key, &service, BPF_ANY))
		die("service %s:%u: %s", addr, port, strerror(errno));
	if (!memcmp(key.addr, any6, 16) || !memcmp(key.addr, any4, 16))
		global->has_wildcard = 1;
	else
		global->has_exact = 1;
	*(policy->proto == IPPROTO_TCP ? &ports->tcp : &ports->udp) |= 1ULL << (port & 63);
	rig_next_snapshot(rig);
}

uint16_t rig_service(struct rig *rig, struct slc_policy *policy, const char *addr, uint16_t port)
{
	struct slc_decision_half half;

	policy->uid = rig->control->next_uid++;
	policy->state = rig->states++;
	policy->set_base = rig->next_set;
	rig->next_set += policy->set_mask + 1;
	if (rig->next_set > rig->control->source_sets)
		die("%s: no sets left in slc_sources", policy->name);
	write_service(rig, policy, write_policy(rig, policy), addr, port);
	half = rig_decision();
	rig_decide(rig, policy->state, &half);
	return policy->state;
}

static uint16_t find_policy(struct rig *rig, const struct slc_policy *policy)
{
	struct slc_policy found;

	for (uint32_t slot = rig->policies; slot; slot--) {
		if (!bpf_map_lookup_elem(bpf_map__fd(rig->skel->maps.slc_policy), &slot, &found) &&
		    found.uid == policy->uid)
			return slot;
	}
	die("%s: no policy with its uid", policy->name);
}

void rig_address(struct rig *rig, const struct slc_policy *policy, const char *addr, uint16_t port)
{
	write_service(rig, policy, find_policy(rig, policy), addr, port);
}

void rig_replace_policy(struct rig *rig, const struct slc_policy *policy, const char *addr, uint16_t port)
{
	write_service(rig, policy, write_policy(rig, policy), addr, port);
	rig->control->active +=
		2; /* the next snapshot's number: the packet path forgets what it found under the last */
}

void rig_management(struct rig *rig, uint16_t port)
{
	rig->ports[port >> 6].management |= 1ULL << (port & 63);
}

static uint32_t bits_of(const char *addr, uint8_t prefix)
{
	return strchr(addr, ':') ? prefix : 96 + prefix;
}

void rig_scope(struct rig *rig, uint32_t scope, const char *addr, uint8_t prefix, const struct slc_rule *rule)
{
	struct slc_trust_key key = {.prefixlen = 32 + bits_of(addr, prefix), .scope = scope};

	packet_address(addr, key.addr);
	if (bpf_map_update_elem(rig->trust[index_now(rig)], &key, rule, BPF_ANY))
		die("trust %s/%u: %s", addr, prefix, strerror(errno));
}

void rig_trust(struct rig *rig, const char *addr, uint8_t prefix, const struct slc_rule *rule)
{
	rig_scope(rig, SLC_SCOPE_ALL, addr, prefix, rule);
	rig->control->global[index_now(rig)].has_trust = 1;
}

void rig_order(struct rig *rig, const char *addr, uint8_t prefix, const struct slc_rule *rule)
{
	struct slc_order_key key = {.prefixlen = bits_of(addr, prefix)};
	struct slc_rule own = *rule;

	own.prefix = key.prefixlen;
	packet_address(addr, key.addr);
	if (bpf_map_update_elem(bpf_map__fd(rig->skel->maps.slc_orders), &key, &own, BPF_ANY))
		die("order %s/%u: %s", addr, prefix, strerror(errno));
	rig->control->flags |= SLC_F_ORDERS;
	if (rule->flags & SLC_RULE_ALL_PACKETS)
		rig->control->flags |= SLC_F_DENY_ALL;
}

void rig_order_delete(struct rig *rig, const char *addr, uint8_t prefix)
{
	struct slc_order_key key = {.prefixlen = bits_of(addr, prefix)};

	packet_address(addr, key.addr);
	if (bpf_map_delete_elem(bpf_map__fd(rig->skel->maps.slc_orders), &key))
		die("order %s/%u: %s", addr, prefix, strerror(errno));
}

void rig_known(struct rig *rig, uint32_t uid, const char *addr, uint64_t until_ns)
{
	struct slc_known_key key = {.uid = uid};
	struct slc_known known = {.since_ns = rig_now(), .until_ns = until_ns};

	packet_address(addr, key.addr);
	if (bpf_map_update_elem(bpf_map__fd(rig->skel->maps.slc_known), &key, &known, BPF_ANY))
		die("known %s: %s", addr, strerror(errno));
	rig->control->flags |= SLC_F_KNOWN;
}

struct slc_decision_half rig_decision(void)
{
	struct slc_decision_half half = {
		.valid_until_ns = rig_now() + 3600 * NS_PER_S,
		.slice_shift = 24,
		.slices = 12,
		.handshake_ns = 12ULL << 24,
		.listeners = 1,
	};

	for (int c = 0; c < SLC_CLASS_COUNT; c++)
		half.completion_q16[c] = 65536;
	return half;
}

void rig_decide(struct rig *rig, uint16_t state, const struct slc_decision_half *half)
{
	struct slc_decision *d = &rig->decision[state];
	uint64_t index = ~d->word & 1;

	d->half[index] = *half;
	__atomic_store_n(&d->word, (d->word & ~1ULL) | index, __ATOMIC_RELEASE);
}

void rig_generation(struct rig *rig, uint16_t state, uint32_t generation)
{
	struct slc_decision *d = &rig->decision[state];

	__atomic_store_n(&d->word, (uint64_t)generation << 32 | (d->word & 1), __ATOMIC_RELEASE);
}

void rig_override(struct rig *rig, uint16_t state, const struct slc_override_half *half)
{
	struct slc_override *o = &rig->override[state];
	uint64_t index = ~o->word & 1;

	o->half[index] = *half;
	__atomic_store_n(&o->word, index, __ATOMIC_RELEASE);
}

void rig_age_flows(struct rig *rig, uint32_t ms)
{
	uint32_t ticks = (ms * NS_PER_MS + (1 << 20) - 1) >> 20;

	for (uint32_t set = 0; set < rig->control->flow_sets; set++) {
		for (int w = 0; w < SLC_FLOW_WAYS; w++) {
			struct slc_flow *flow = &rig->flows[set].way[w];

			if (!flow->head.word)
				continue;
			flow->head.last_ms -= ticks;
			flow->last_ns -= ms * NS_PER_MS;
		}
	}
}

static struct slc_cold *cold_of(struct rig *rig, const char *addr, uint32_t uid)
{
	uint8_t key[16];

	packet_address(addr, key);
	for (uint32_t set = 0; set < rig->control->cold_sets; set++) {
		for (int w = 0; w < SLC_COLD_WAYS; w++) {
			struct slc_cold *cold = &rig->cold[set].way[w];

			if (cold->uid == uid && !memcmp(cold->addr, key, 16))
				return cold;
		}
	}
	return NULL;
}

bool rig_set_open(struct rig *rig, const char *addr, uint32_t uid, uint32_t open)
{
	struct slc_cold *cold = cold_of(rig, addr, uid);

	if (cold)
		cold->head.open = open;
	return cold;
}

bool rig_set_good(struct rig *rig, const char *addr, uint32_t uid, uint32_t good)
{
	struct slc_cold *cold = cold_of(rig, addr, uid);

	if (cold)
		cold->good = good;
	return cold;
}

/* --- packets --------------------------------------------------------------------------------------------------------- */

static int test_run(struct rig *rig, const void *bytes, uint32_t length, uint32_t count, uint32_t flags,
		    struct packet *out, uint32_t *ret_action)
{
	struct xdp_md ctx = {.data_end = length, .ingress_ifindex = rig->ifindex};
	struct bpf_test_run_opts opts = {
		.sz = sizeof(opts),
		.data_in = bytes,
		.data_size_in = length,
		.data_out = out ? out->data : NULL,
		.data_size_out = out ? sizeof(out->data) : 0,
		.repeat = count,
		.flags = flags,
		.ctx_in = rig->ifindex ? &ctx : NULL,
		.ctx_size_in = rig->ifindex ? sizeof(ctx) : 0,
	};
	int err = bpf_prog_test_run_opts(rig->program, &opts);

	if (err)
		return err;
	if (out)
		out->length = opts.data_size_out;
	if (ret_action)
		*ret_action = opts.retval;
	return 0;
}

static uint32_t run_or_die(struct rig *rig, const struct packet *packet, uint32_t count, struct packet *out)
{
	uint32_t action;
	int err = test_run(rig, packet->data, packet->length, count, 0, out, &action);

	if (err)
		die("BPF_PROG_TEST_RUN of %u bytes: %s", packet->length, strerror(-err));
	if (out) {
		out->l3 = packet->l3;
		out->l4 = packet->l4;
	}
	return action;
}

uint32_t rig_repeat(struct rig *rig, const struct packet *packet, uint32_t count)
{
	return run_or_die(rig, packet, count, NULL);
}

uint32_t rig_run(struct rig *rig, const struct packet *packet, struct packet *out)
{
	return run_or_die(rig, packet, 1, out);
}

int rig_run_bytes(struct rig *rig, const void *bytes, uint32_t length, uint32_t *ret_action)
{
	return test_run(rig, bytes, length, 1, 0, NULL, ret_action);
}

int rig_live(struct rig *rig, const struct packet *packet, uint32_t count)
{
	return test_run(rig, packet->data, packet->length, count, BPF_F_TEST_XDP_LIVE_FRAMES, NULL, NULL);
}

/* --- counters ---------------------------------------------------------------------------------------------------------- */

static void add_counters(struct slc_counters *sum, const struct slc_counters *one)
{
	__u64 *to = (__u64 *)sum;
	const __u64 *from = (const __u64 *)one;

	_Static_assert(sizeof(*sum) % sizeof(__u64) == 0, "counters are 64-bit words");
	for (size_t i = 0; i < sizeof(*sum) / sizeof(__u64); i++)
		to[i] += from[i];
}

struct slc_counters rig_counters(struct rig *rig, uint16_t state)
{
	struct slc_counters sum = {0};
	uint32_t key = state;

	if (bpf_map_lookup_elem(bpf_map__fd(rig->skel->maps.slc_counters), &key, rig->scratch))
		die("slc_counters[%u]: %s", state, strerror(errno));
	for (int cpu = 0; cpu < rig->cpus; cpu++)
		add_counters(&sum, &rig->scratch[cpu]);
	return sum;
}

/* Slots that were not handed out are left out: a count there shows as a packet without a reason. */
struct slc_counters rig_all_counters(struct rig *rig)
{
	struct slc_counters sum = {0};

	for (uint16_t state = 0; state < rig->states; state++) {
		struct slc_counters one = rig_counters(rig, state);

		add_counters(&sum, &one);
	}
	return sum;
}

static const struct {
	const char *name;
	enum slc_verdict verdict;
} REASONS[] = {
#define X(name, verdict, stage, text) {#name, SLC_##verdict},
	SLC_REASONS(X)
#undef X
};

uint64_t rig_reason(const struct slc_reasons *reasons, enum slc_reason reason)
{
	return ((const __u64 *)reasons)[reason];
}

uint64_t rig_reason_sum(const struct slc_reasons *reasons)
{
	uint64_t sum = 0;

	for (int r = 0; r < SLC_REASON_COUNT; r++)
		sum += rig_reason(reasons, r);
	return sum;
}

const char *rig_reason_name(enum slc_reason reason)
{
	return REASONS[reason].name;
}

enum slc_verdict rig_reason_verdict(enum slc_reason reason)
{
	return REASONS[reason].verdict;
}

const char *rig_action_name(uint32_t action)
{
	static const char *const names[] = {"XDP_ABORTED", "XDP_DROP", "XDP_PASS", "XDP_TX", "XDP_REDIRECT"};

	return action < sizeof(names) / sizeof(*names) ? names[action] : "no XDP action";
}

const char *rig_difference(const struct slc_reasons *before, const struct slc_reasons *after)
{
	static char text[1024];
	size_t used = 0;

	text[0] = '\0';
	for (int r = 0; r < SLC_REASON_COUNT && used < sizeof(text); r++) {
		int64_t moved = rig_reason(after, r) - rig_reason(before, r);

		if (moved)
			used += snprintf(text + used, sizeof(text) - used, "%s%s %+lld", used ? ", " : "",
					 REASONS[r].name, (long long)moved);
	}
	return used ? text : "no reason";
}

/* --- expectations -------------------------------------------------------------------------------------------------------- */

void rig_expect(struct rig *rig, const struct packet *packet, uint32_t action, enum slc_reason reason, const char *name,
		const char *file, int line)
{
	struct slc_counters before = rig_all_counters(rig), after;
	uint32_t got = rig_run(rig, packet, NULL);

	after = rig_all_counters(rig);
	if (got == action && rig_reason(&after.enforced, reason) - rig_reason(&before.enforced, reason) == 1 &&
	    rig_reason_sum(&after.enforced) - rig_reason_sum(&before.enforced) == 1)
		return;
	print_error("%s:\n  expected %s, %s +1\n  got      %s, %s\n", name, rig_action_name(action),
		    REASONS[reason].name, rig_action_name(got), rig_difference(&before.enforced, &after.enforced));
	_fail(file, line);
}

void rig_expect_many(struct rig *rig, const struct packet *packet, uint32_t count, enum slc_reason reason,
		     const char *file, int line)
{
	struct slc_counters before = rig_all_counters(rig), after;

	if (count >= 2000) {
		rig_repeat(rig, packet, count);
	} else {
		for (uint32_t i = 0; i < count; i++)
			rig_run(rig, packet, NULL);
	}
	after = rig_all_counters(rig);
	if (rig_reason(&after.enforced, reason) - rig_reason(&before.enforced, reason) == count &&
	    rig_reason_sum(&after.enforced) - rig_reason_sum(&before.enforced) == count)
		return;
	print_error("expected %s +%u\n  got %s\n", REASONS[reason].name, count,
		    rig_difference(&before.enforced, &after.enforced));
	_fail(file, line);
}

/* --- two CPUs -------------------------------------------------------------------------------------------------------------- */

struct racer {
	struct rig *rig;
	void (*fn)(struct rig *rig, void *arg, int cpu);
	void *arg;
	int cpu;
	pthread_barrier_t *start;
};

static void *race(void *arg)
{
	struct racer *r = arg;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(r->cpu, &set);
	if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set))
		die("CPU %d: cannot pin a thread there", r->cpu);
	pthread_barrier_wait(r->start);
	r->fn(r->rig, r->arg, r->cpu);
	return NULL;
}

bool rig_on_two_cpus(struct rig *rig, void (*fn)(struct rig *rig, void *arg, int cpu), void *arg)
{
	pthread_barrier_t start;
	struct racer racer[2];
	pthread_t thread[2];

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		return false;
	pthread_barrier_init(&start, NULL, 2);
	for (int cpu = 0; cpu < 2; cpu++) {
		racer[cpu] = (struct racer){rig, fn, arg, cpu, &start};
		if (pthread_create(&thread[cpu], NULL, race, &racer[cpu]))
			die("pthread_create failed");
	}
	for (int cpu = 0; cpu < 2; cpu++)
		pthread_join(thread[cpu], NULL);
	pthread_barrier_destroy(&start);
	return true;
}
