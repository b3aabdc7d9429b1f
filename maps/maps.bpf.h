/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * maps.bpf.h: every map, its type, and which side writes it. Included once by each *.bpf.c; __weak lets
 * `bpftool gen object` merge them into one skeleton. Sizes marked (sized at load) are set by user/datapath.
 */
#ifndef SLC_MAPS_BPF_H
#define SLC_MAPS_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "abi.h"

/* clang 14 emits forward declarations for types that only inner maps name; a variable makes it emit them whole. */
const volatile struct slc_inner_types slc_inner_types __weak = {};

/* User writes: the live snapshot, lease, salts, secret. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct slc_control);
} slc_control __weak SEC(".maps");

/* User writes: which ports belong to a service, to management. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct slc_ports);
} slc_ports __weak SEC(".maps");

struct slc_services_inner {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct slc_service_key);
	__type(value, struct slc_service);
};

/* User writes: [snapshot index] -> services by address, port and protocol. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, __u32);
	__array(values, struct slc_services_inner);
} slc_services __weak SEC(".maps");

struct slc_trust_inner {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SLC_TRUST);
	__type(key, struct slc_trust_key);
	__type(value, struct slc_rule);
};

/* User writes: [snapshot index] -> trust list and source.overrides. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, __u32);
	__array(values, struct slc_trust_inner);
} slc_trust __weak SEC(".maps");

/* User writes: deny and allow orders of operators; not under the lease. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SLC_ORDERS);
	__type(key, struct slc_order_key);
	__type(value, struct slc_rule);
} slc_orders __weak SEC(".maps");

/* User writes: policies, immutable while a snapshot names them. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLC_POLICIES);
	__type(key, __u32);
	__type(value, struct slc_policy);
} slc_policy __weak SEC(".maps");

/* User writes: what the controller decided, per service, under the lease. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLC_STATES);
	__type(key, __u32);
	__type(value, struct slc_decision);
} slc_decision __weak SEC(".maps");

/* User writes: what operators ordered, per service; not under the lease. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLC_STATES);
	__type(key, __u32);
	__type(value, struct slc_override);
} slc_override __weak SEC(".maps");

/* Kernel writes: token buckets of sources (sized at load). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct slc_set);
} slc_sources __weak SEC(".maps");

/* Kernel writes: facts about sources (sized at load). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct slc_cold_set);
} slc_cold __weak SEC(".maps");

/* User writes: known-good sources. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SLC_KNOWN);
	__type(key, struct slc_known_key);
	__type(value, struct slc_known);
} slc_known __weak SEC(".maps");

/* Kernel writes: SYNs that passed the source bucket, answered UDP flows (sized at load). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct slc_flow_set);
} slc_flows __weak SEC(".maps");

/* Kernel writes: total, class and reset buckets; admitted within H. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLC_STATES);
	__type(key, __u32);
	__type(value, struct slc_total);
} slc_total __weak SEC(".maps");

/* Kernel writes: ceilings of allow rules, a TAT in 1/16 ns each. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLC_CEILINGS);
	__type(key, __u32);
	__type(value, __u64);
} slc_ceiling __weak SEC(".maps");

/* Kernel writes: reasons by service. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SLC_STATES);
	__type(key, __u32);
	__type(value, struct slc_counters);
} slc_counters __weak SEC(".maps");

/* Kernel writes: connections and handshakes by service. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLC_STATES);
	__type(key, __u32);
	__type(value, struct slc_signals);
} slc_signals __weak SEC(".maps");

/* Kernel writes: establishment times by listener cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SLC_LISTENERS);
	__type(key, __u64);
	__type(value, struct slc_arrivals);
} slc_arrivals __weak SEC(".maps");

/* Never written: an empty ring to start from, too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct slc_arrivals);
} slc_blank __weak SEC(".maps");

/* Kernel writes: services found last, by port: a flood asks for the same one again. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SLC_RECENT);
	__type(key, __u32);
	__type(value, struct slc_recent);
} slc_recent __weak SEC(".maps");

/* Kernel writes: sampled refusals. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} slc_events __weak SEC(".maps");

/* Kernel writes: event budget. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct slc_budget);
} slc_budget __weak SEC(".maps");

/* User writes: what an outcome is, per service. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLC_STATES);
	__type(key, __u32);
	__type(value, struct slc_measure);
} slc_measure __weak SEC(".maps");

/* Kernel writes: half-open tickets and probes. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLC_STATES);
	__type(key, __u32);
	__type(value, struct slc_probe);
} slc_probe __weak SEC(".maps");

/* Kernel writes: UDP requests not answered yet. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SLC_UDP_TURNS);
	__type(key, __u64);
	__type(value, struct slc_udp_turn);
} slc_udp_turns __weak SEC(".maps");

/* On connections of services whose turns are measured. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct slc_turn);
} slc_turn_of __weak SEC(".maps");

/* On listeners; user space marks those from before the start. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct slc_mark);
} slc_marks __weak SEC(".maps");

/* On connections of services. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct slc_conn);
} slc_conns __weak SEC(".maps");

#endif /* SLC_MAPS_BPF_H */
