/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * abi.h: every struct and constant that the packet path and user space share, and nothing else.
 *
 * Rules: fixed-width types; explicit padding, zeroed in keys; monotonic nanoseconds end in _ns; ports in host byte
 * order; addresses are 16 bytes in network order, IPv4 as ::ffff:a.b.c.d; sizes asserted below. Rates are intervals:
 * T between two tokens, tau the depth of the bucket in time (burst x T of the configured rate). See maps/README.md.
 */
#ifndef SLC_ABI_H
#define SLC_ABI_H

#include <linux/types.h>

#include "reasons.h"

#define SLC_ABI_MAJOR 1 /* a change makes pins of the other major unusable as they are */
#define SLC_ABI_MINOR 0 /* additions at the end: pins are adopted */
#define SLC_MAGIC 0x534c5543u /* "SLUC" */

#define SLC_STATES 256 /* state slots; slot 0 counts what belongs to no service */
#define SLC_POLICIES 512 /* policy slots: two snapshots' worth */
#define SLC_CEILINGS 4096 /* ceiling buckets: one per allow rule or order */
#define SLC_ORDERS 65536 /* operator's CIDR orders */
#define SLC_TRUST 262144 /* prefixes per snapshot */
#define SLC_KNOWN 262144 /* known-good sources */
#define SLC_LISTENERS 256 /* arrival rings */
#define SLC_RING 4096 /* stamps per ring: the default somaxconn */
#define SLC_WAYS 8 /* ways of a hot set: one cache line */
#define SLC_COLD_WAYS 4
#define SLC_FLOW_WAYS 4
#define SLC_SLICES 16 /* slices of "under way within H" */
#define SLC_HIST 256 /* handshake bins: 16 per octave from 2^16 ns (65 us) to 2^32 ns (4.3 s) */
#define SLC_NAME_LEN 32 /* service name with its NUL */
#define SLC_FOREVER 0xffffffffffffffffULL /* until_ns of an order without --for */

/* Retransmitted SYN: free at most SLC_REPEATS times, not sooner than SLC_REPEAT_GAP after the last. */
#define SLC_REPEATS 6
#define SLC_REPEAT_GAP_MS 500
#define SLC_FLOW_TTL_NS 128000000000ULL /* a client's SYN retries end before this */
#define SLC_TICKS(ms) ((__u32)((ms)*1000000ULL >> 20)) /* unit of slc_flow_head.last_ms: 2^20 ns */
#define SLC_UDP_ANSWERED_NS 30000000000ULL

/* Classes of sources, best first (DECISIONS glossary). */
#define SLC_CLASSES(X) \
	X(vip)         \
	X(known)       \
	X(stranger)    \
	X(low)
enum slc_class {
#define X(name) SLC_CLASS_##name,
	SLC_CLASSES(X)
#undef X
		SLC_CLASS_COUNT
};

/* --- slc_control: one entry, user writes -------------------------------------------------------------------- */

/* Parser policy and fail-safe of one snapshot. */
struct slc_global {
	__u8 fragments_drop; /* 1: refuse non-first fragments */
	__u8 ip_options_drop;
	__u8 unparseable_pass;
	__u8 on_loss; /* enum slc_on_loss */
	__u8 has_trust; /* the trust list of this snapshot is not empty */
	__u8 has_exact; /* a service listens on an address */
	__u8 has_wildcard; /* a service listens on * */
	__u8 has_netns; /* netns_cookie is set: listeners of other namespaces are not ours */
	__u64 event_interval16; /* per CPU, 1/16 ns between two sampled events */
	__u64 event_depth16;
	__u64 reset_interval16; /* RSTs of the whole host */
	__u64 reset_depth16;
	__u64 netns_cookie; /* of the namespace of `netns: host` services */
	__u64 pad[2];
};

enum slc_on_loss { SLC_ON_LOSS_static, SLC_ON_LOSS_pass, SLC_ON_LOSS_closed };

/* flags of slc_control: what the fast path may skip when clear */
#define SLC_F_ORDERS (1ULL << 0) /* slc_orders is not empty */
#define SLC_F_DENY_ALL (1ULL << 1) /* an order with --all-packets exists: established traffic is looked up too */
#define SLC_F_KNOWN (1ULL << 2) /* slc_known is not empty */

struct slc_control {
	__u64 active; /* {number:63, index:1}: the live snapshot; written last, read once per packet */
	__u64 lease_until_ns; /* fail-safe acts after this */
	__u64 flags; /* SLC_F_* */
	__u64 secret[2]; /* SipHash key of all tables, made once with them */
	__u64 salt[2]; /* dice; each lives 128 s */
	__u64 salt_index; /* the one new flows use */
	struct slc_global global[2]; /* by snapshot index */
	__u32 magic; /* SLC_MAGIC */
	__u16 abi_major, abi_minor;
	__u64 build_id; /* of the program that user space loaded last */
	__u64 boot_ns; /* when the tables were made */
	__u32 next_uid; /* uids are never reused while the pins live */
	__u32 source_sets; /* sets in slc_sources */
	__u32 cold_sets;
	__u32 flow_sets;
	__u64 pad[3];
};

/* --- slc_ports: 1024 entries, user writes: index port >> 6, bit port & 63 ------------------------------------ */

struct slc_ports {
	__u64 tcp; /* ports of any live snapshot's TCP services */
	__u64 udp;
	__u64 management;
	__u64 pad;
};

/* --- slc_services: [snapshot index] -> hash, user writes ------------------------------------------------------ */

struct slc_service_key {
	__u8 addr[16]; /* wildcard: ::ffff:0.0.0.0 for IPv4, :: for IPv6 */
	__u16 port; /* host order */
	__u8 proto; /* IPPROTO_TCP or IPPROTO_UDP */
	__u8 pad;
};

struct slc_service {
	__u32 uid;
	__u16 policy; /* slot in slc_policy */
	__u16 state; /* slot in slc_decision, slc_override, slc_total, slc_counters, slc_signals */
};

#define SLC_RECENT 16 /* slots of slc_recent, by the port's low bits */

struct slc_recent { /* per CPU: a look-up in slc_services that need not be made again */
	__u64 active; /* slc_control.active it was made under; another value: forgotten */
	struct slc_service_key key;
	__u8 wildcard; /* found under *, which means the gateway's own addresses */
	__u8 ours; /* the address was asked for and is one of these, or is not forwarded */
	__u8 pad[2];
	struct slc_service service;
};

/* --- slc_trust: [snapshot index] -> LPM, and slc_orders: LPM, user writes ------------------------------------- */

struct slc_trust_key {
	__u32 prefixlen; /* 32 + prefix of the 16-byte address (IPv4: 32 + 96 + n) */
	__u32 scope; /* SLC_SCOPE_ALL, or uid of the service whose source.overrides this is */
	__u8 addr[16];
};
#define SLC_SCOPE_ALL 0xffffffffu
#define SLC_SCOPE_OWN 0xfffffffeu /* the gateway's own and its routers' addresses: never reset */

struct slc_order_key {
	__u32 prefixlen; /* of the 16-byte address */
	__u8 addr[16];
};

enum slc_action {
	SLC_ACTION_deny,
	SLC_ACTION_allow, /* within the ceiling; skips every later stage but commit */
	SLC_ACTION_class,
	SLC_ACTION_rate, /* source.overrides: own interval and depth */
	SLC_ACTION_management, /* never refused */
};

#define SLC_RULE_ALL_PACKETS (1u << 0) /* deny established traffic too */
#define SLC_RULE_FORCE (1u << 2) /* deny given with --force: acts on management prefixes too */
#define SLC_RULE_OWN (1u << 1) /* snapshot rule that goes to SLC_SCOPE_OWN */

struct slc_rule {
	__u8 action; /* enum slc_action */
	__u8 class; /* of SLC_ACTION_class */
	__u16 flags; /* SLC_RULE_* */
	__u32 slot; /* ceiling bucket in slc_ceiling */
	__u64 interval; /* allow: T of the ceiling, 1/16 ns; rate: T in the service's units */
	__u64 depth; /* tau, same unit as interval */
	__u64 until_ns; /* SLC_FOREVER, or the order's end */
	__u32 id; /* order's or rule's number, as the CLI shows it */
	__u8 prefix; /* orders: their own prefix of the 16 bytes, so that a wider one is found when they end */
	__u8 pad[3];
};

/* --- slc_policy: immutable while a snapshot names it, user writes --------------------------------------------- */

#define SLC_P_SOURCE (1u << 0) /* has source.rate */
#define SLC_P_WIDE (1u << 1)
#define SLC_P_OVERRIDES (1u << 2) /* has source.overrides in slc_trust */
#define SLC_P_TOTAL (1u << 3) /* has total.rate */
#define SLC_P_CONCURRENT (1u << 4) /* has source.concurrent */
#define SLC_P_BULKHEAD (1u << 5) /* has total.concurrent */
#define SLC_P_GATE (1u << 6) /* has accept_queue */
#define SLC_P_RESET (1u << 7) /* action: reset */
#define SLC_P_VLAN (1u << 8) /* source key includes the VLAN id */
#define SLC_P_NETNS (1u << 9) /* listener in the namespace nsid */
#define SLC_P_MIN_SHARE (1u << 10) /* some class has a minimum share */

#define SLC_NO_SHARE 0xffffffffu

struct slc_policy {
	char name[SLC_NAME_LEN];
	__u32 uid;
	__u16 state;
	__u8 proto;
	__u8 shift; /* unit of source buckets: 2^shift ns */
	__u32 flags; /* SLC_P_* */
	__u32 dry; /* bit per enum slc_stage: count, do not enforce */
	/* source: interval and depth in units of 2^shift ns; depth <= 2^30 */
	__u32 source_interval;
	__u32 source_depth;
	__u32 set_base; /* the service's range in slc_sources: set_base + (hash & set_mask) */
	__u32 set_mask;
	__u32 source_concurrent;
	__u8 v4_prefix, v6_prefix; /* source key */
	__u8 wide_v4_prefix, wide_v6_prefix;
	__u32 wide_interval;
	__u32 wide_depth;
	/* total: 1/16 ns */
	__u64 total_interval16;
	__u64 total_depth16;
	__u32 theta_q16[SLC_CLASS_COUNT]; /* class c's part of tau, 65536 = all of it */
	/* 256 / minimum share: the share bucket's T = T x this >> 8; SLC_NO_SHARE: none */
	__u32 share_inverse_q8[SLC_CLASS_COUNT];
	__u64 share_depth16; /* depth of the minimum-share buckets: 1 s */
	__u32 total_concurrent;
	__s32 nsid; /* with SLC_P_NETNS */
	/* gate: marks as 1/65536 of the listener's backlog */
	__u32 low_q16[SLC_CLASS_COUNT]; /* low + (high - low) x theta_c */
	__u32 high_q16;
	__u32 pad;
	__u64 max_wait_ns;
	__u64 target_ns;
	__u64 netns_cookie; /* of the namespace the service lives in */
	__u64 reset_interval16;
	__u64 reset_depth16;
};

/* --- slc_decision: [state slot], user writes, under the lease ------------------------------------------------- */

#define SLC_D_SOURCE (1u << 0) /* source_interval binds beside the static one */
#define SLC_D_TOTAL (1u << 1) /* total_interval16 binds beside the static one */
#define SLC_D_OPEN (1u << 2) /* breaker open */

struct slc_decision_half {
	__u64 valid_until_ns;
	__u32 flags; /* SLC_D_* */
	__u32 cut_classes; /* bit per class: refused as shed */
	__u32 level; /* ladder, 0 to 4 */
	__u32 source_interval; /* units of the policy's shift */
	__u64 total_interval16;
	__u32 completion_q16[SLC_CLASS_COUNT]; /* p: established over admitted, 65536 = 1 */
	__u32 slice_shift; /* a slice of "admitted within H" is 2^slice_shift ns */
	__u32 slices; /* H in slices, 1 to SLC_SLICES - 1 */
	__u64 handshake_ns; /* H, largest of the classes */
	__u32 listeners; /* that share the service's SYNs (SO_REUSEPORT), at least 1 */
	__u32 pad[3];
};

struct slc_decision {
	__u64 word; /* {generation:32, 0:31, index:1}; written last */
	__u64 pad[7];
	struct slc_decision_half half[2];
};

/* --- slc_override: [state slot], user writes, NOT under the lease --------------------------------------------- */

#define SLC_O_SOURCE (1u << 0)
#define SLC_O_TOTAL (1u << 1)
#define SLC_O_CONCURRENT (1u << 2)
#define SLC_O_BULKHEAD (1u << 3)
#define SLC_O_DRAIN (1u << 4)
#define SLC_O_LEVEL (1u << 5)
#define SLC_O_BREAKER (1u << 6)

struct slc_override_half {
	__u32 flags; /* SLC_O_*: which terms are replaced */
	__u32 source_interval, source_depth; /* units of the policy's shift */
	__u32 source_concurrent;
	__u32 total_concurrent;
	__u32 level;
	__u32 breaker_open; /* with SLC_O_BREAKER: 1 open, 0 closed */
	__u32 pad;
	__u64 total_interval16, total_depth16;
	__u64 source_until_ns, total_until_ns, concurrent_until_ns, bulkhead_until_ns;
	__u64 drain_until_ns, level_until_ns, breaker_until_ns;
	__u64 pad2;
};

struct slc_override {
	__u64 word; /* {0:63, index:1}; written last */
	__u64 pad[7];
	struct slc_override_half half[2];
};

/* --- slc_sources: hot sets, kernel writes ---------------------------------------------------------------------- */

/*
 * One source: TAT in units of 2^shift ns modulo 2^40, and a tag from the keyed hash. A TAT in the past is a full
 * bucket, so an all-zero way is a source that may spend its burst: no empty marker is needed.
 */
union slc_way {
	struct {
		__u64 tat : 40;
		__u64 tag : 24;
	};
	__u64 word;
};

struct slc_set {
	union slc_way way[SLC_WAYS];
};

/* --- slc_cold: facts about sources, kernel writes -------------------------------------------------------------- */

/* {tag, open} move together by compare-and-swap, so an entry with open connections cannot be evicted. */
union slc_cold_head {
	struct {
		__u64 open : 24; /* connections counted for this source */
		__u64 tag : 40;
	};
	__u64 word;
};

struct slc_cold {
	union slc_cold_head head;
	__u8 addr[16]; /* the source key: address under its prefix */
	__u32 uid;
	__u32 attempts; /* sampled refused ones are scaled */
	__u32 refused;
	__u32 established;
	__u32 good; /* connections closed without RST by either side */
	__u32 pad;
	__u64 good_since_ns; /* first good one */
	__u64 seen_ns; /* last touch */
};

struct slc_cold_set {
	struct slc_cold way[SLC_COLD_WAYS];
};

/* --- slc_known: user writes ------------------------------------------------------------------------------------- */

struct slc_known_key {
	__u8 addr[16]; /* source key */
	__u32 uid;
	__u32 pad;
};

struct slc_known {
	__u64 since_ns;
	__u64 until_ns;
};

/* --- slc_flows: SYNs that passed the source bucket, and answered UDP flows, kernel writes ------------------------ */

union slc_flow_head {
	struct {
		__u64 last_ms : 20; /* of the last pass, modulo 2^20 (17 min) in 2^20 ns */
		__u64 passes : 4; /* 0: never used */
		__u64 class : 2;
		__u64 admitted : 1; /* every stage let it through at its last pass */
		__u64 salt : 1; /* which salt its dice use */
		__u64 spare : 4;
		__u64 tag : 32;
	};
	__u64 word;
};

struct slc_flow {
	union slc_flow_head head;
	__u64 last_ns; /* last pass (TCP), last answer (UDP) */
};

struct slc_flow_set {
	struct slc_flow way[SLC_FLOW_WAYS];
};

/* --- slc_total: [state slot], kernel writes ----------------------------------------------------------------------- */

/* Admitted in one slice of 2^slice_shift ns and not established yet, per class; `slice` says which slice that is. */
union slc_slice {
	struct {
		__u64 first : 24; /* vip (word 0), stranger (word 1) */
		__u64 second : 24; /* known (word 0), low (word 1) */
		__u64 slice : 16;
	};
	__u64 word;
};

struct slc_total {
	__u64 tat16; /* of the service, 1/16 ns; written by admitted packets only */
	__u64 pad[7];
	__u64 share_tat16[SLC_CLASS_COUNT];
	__u64 reset_tat16; /* RSTs sent; slot 0: of the host */
	__u64 pad2[3];
	union slc_slice admitted[SLC_SLICES][2];
};

/* --- slc_counters: per CPU, [state slot], kernel writes ------------------------------------------------------------ */

struct slc_reasons {
#define X(name, verdict, stage, text) __u64 name;
	SLC_REASONS(X)
#undef X
};

struct slc_counters {
	struct slc_reasons enforced; /* one per packet */
	struct slc_reasons dry; /* what a dry-run stage would have refused; the packet has its one reason above */
	__u64 attempts; /* SYNs and first datagrams, retransmits not */
	__u64 admitted[SLC_CLASS_COUNT]; /* first admissions by class */
	__u64 inherited; /* newcomers that took over an evicted debt */
	__u64 flow_evicted; /* live flow records evicted */
	__u64 gate_blind; /* attempts the gate could not judge: no listener, other namespace */
	__u64 resets; /* refusals answered with RST|ACK */
	__u64 resets_held; /* resets over their bound: dropped */
	__u64 events_lost; /* over the event budget, or ring full */
};

/* --- slc_signals: [state slot], kernel writes, atomics --------------------------------------------------------------- */

struct slc_signals {
	__u32 uid; /* whose connections these are: late closes of a former owner are not counted */
	__u32 pad;
	__u64 open; /* connections established since the start and not closed */
	__u64 held; /* of these, not yet closed by the application: the bulkhead counts them */
	__u64 established[SLC_CLASS_COUNT];
	__u64 closed;
	__u64 reset; /* of these, ended by a RST of either side */
	__u64 cold_full; /* newcomers without a cold entry: source concurrency off for them */
	__u64 ring_full; /* listeners without an arrival ring: head age off for them */
	__u64 unmatched; /* established without a flow record: SYN cookie, eviction, before the start */
	__u32 handshake[SLC_CLASS_COUNT][SLC_HIST]; /* last SYN -> ESTABLISHED */
};

/* --- slc_arrivals: [listener cookie], kernel writes -------------------------------------------------------------------- */

/* The accept queue is FIFO: with Q waiting, stamp[(n - Q) & (SLC_RING - 1)] is when its head arrived. */
struct slc_arrivals {
	__u64 n; /* connections established so far */
	__u64 since_ns; /* ring made: stamps before this are unknown */
	__u32 uid;
	__u32 state;
	__u64 mark[2]; /* older, newer: {ticks of 2^20 ns:32, accepted so far:32}, from which the gate knows mu */
	__u64 limit; /* {ticks:32, mu x max_wait:32}: what the gate knew last */
	__u64 stamp_ns[SLC_RING];
};

/* --- sk_storage -------------------------------------------------------------------------------------------------------- */

struct slc_mark { /* slc_marks: on the listener, cloned to its children */
	__u64 listener; /* cookie */
};

#define SLC_C_OPEN (1u << 0) /* counted in open */
#define SLC_C_HELD (1u << 1) /* counted in held */
#define SLC_C_SOURCE (1u << 2) /* counted in the cold entry */

struct slc_conn { /* slc_conns: on the connection */
	__u32 uid;
	__u16 state;
	__u8 class;
	__u8 flags; /* SLC_C_* */
	__u64 cold; /* keyed hash of the source key: finds the cold entry again */
	__u64 established_ns;
};

/* --- slc_events: ring buffer ---------------------------------------------------------------------------------------------- */

struct slc_event {
	__u64 time_ns;
	__u32 uid;
	__u16 state;
	__u8 reason; /* enum slc_reason */
	__u8 dry; /* 1: would have been refused */
	__u8 class;
	__u8 proto;
	__u16 sport, dport; /* host order */
	__u16 pad;
	__u8 saddr[16], daddr[16];
	__u32 backlog; /* of the listener, where the gate looked */
	__u32 backlog_max;
	__u32 predicted;
	__u32 pad2;
	__u64 head_age_ns;
};

/* --- slc_budget: per CPU, kernel writes: bounds the work spent on events --------------------------------------------------- */

struct slc_budget {
	__u64 tat16;
};

/* --- arguments of the sweep program (BPF_PROG_TEST_RUN of a syscall program) ------------------------------------------------ */

#define SLC_SWEEP_MAX 1024 /* sets per run */

struct slc_sweep {
	__u32 first; /* set */
	__u32 count;
	__u32 shift; /* unit of the range */
	__u32 rewritten; /* out */
};

/* Types that only inner maps name (see maps.bpf.h); the skeleton declares a variable of it. */
struct slc_inner_types {
	struct slc_service_key service_key;
	struct slc_service service;
	struct slc_trust_key trust_key;
	struct slc_rule rule;
};

#define SLC_ASSERT_SIZE(type, size) _Static_assert(sizeof(type) == (size), "ABI: size of " #type)
SLC_ASSERT_SIZE(struct slc_global, 64);
SLC_ASSERT_SIZE(struct slc_control, 64 + 128 + 64);
SLC_ASSERT_SIZE(struct slc_ports, 32);
SLC_ASSERT_SIZE(struct slc_service_key, 20);
SLC_ASSERT_SIZE(struct slc_service, 8);
SLC_ASSERT_SIZE(struct slc_trust_key, 24);
SLC_ASSERT_SIZE(struct slc_order_key, 20);
SLC_ASSERT_SIZE(struct slc_rule, 40);
SLC_ASSERT_SIZE(struct slc_policy, 208);
SLC_ASSERT_SIZE(struct slc_decision_half, 80);
SLC_ASSERT_SIZE(struct slc_override_half, 112);
SLC_ASSERT_SIZE(union slc_way, 8);
SLC_ASSERT_SIZE(struct slc_set, 64);
SLC_ASSERT_SIZE(struct slc_cold, 64);
SLC_ASSERT_SIZE(struct slc_known_key, 24);
SLC_ASSERT_SIZE(struct slc_flow, 16);
SLC_ASSERT_SIZE(struct slc_flow_set, 64);
SLC_ASSERT_SIZE(struct slc_total, 64 + 64 + 256);
SLC_ASSERT_SIZE(struct slc_arrivals, 48 + 8 * SLC_RING);
SLC_ASSERT_SIZE(struct slc_conn, 24);
SLC_ASSERT_SIZE(struct slc_event, 80);

#endif /* SLC_ABI_H */
