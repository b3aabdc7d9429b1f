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

#include "outcomes.h"
#include "reasons.h"

#define SLC_ABI_MAJOR 1 /* a change makes pins of the other major unusable as they are */
#define SLC_ABI_MINOR 1 /* additions at the end: pins are adopted */
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
#define SLC_DIST_OCTAVE 32 /* bins per octave of struct slc_dist: 3 % wide */
#define SLC_DIST_FIRST 14 /* 2^14 ns (16 us): everything below is in bin 0 */
#define SLC_DIST_BINS (22 * SLC_DIST_OCTAVE) /* to 2^36 ns (69 s); the last one is open */
#define SLC_CELLS 256 /* sources by 8 bits of their keyed hash: who weighs how much in a window */
#define SLC_TURN_SLOT_NS 100000000ULL /* turns by time of their last request byte */
#define SLC_TURN_SLOTS 1280 /* 128 s: more than twice the longest timeout */
#define SLC_TIMEOUT_MAX_NS 60000000000ULL
#define SLC_OWED_SLOTS 32 /* of 2^owed_shift ns: who owes what, coarsely */
#define SLC_OWED_CELLS 64 /* cell >> 2 */
#define SLC_PROBES 16 /* slots of slc_probe */
#define SLC_HTTP_CODES 16
#define SLC_YOUNG_NS 10000000000ULL /* a connection younger than this is one that refusing SYNs could have spared */
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
	__u64 hold_ns; /* failsafe.hold: how long the floor of an open breaker outlives the lease */
	__u16 dscp_ifindex[4]; /* interfaces whose DSCP marks are believed; 0: none */
};

enum slc_on_loss { SLC_ON_LOSS_static, SLC_ON_LOSS_pass, SLC_ON_LOSS_closed };

/* flags of slc_control: what the fast path may skip when clear */
#define SLC_F_ORDERS (1ULL << 0) /* slc_orders is not empty */
#define SLC_F_DENY_ALL (1ULL << 1) /* an order with --all-packets exists: established traffic is looked up too */
#define SLC_F_KNOWN (1ULL << 2) /* slc_known is not empty */
#define SLC_F_NO_TURNS (1ULL << 3) /* no program looks at packets of connections: all services are opaque */

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
	__u64 once; /* that were in `tcp` since the tables were made: connections outlive what the configuration says */
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
#define SLC_SCOPE_DSCP 0xfffffffdu /* sources whose DSCP marks are believed */
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
#define SLC_P_DYED (1u << 11) /* breaker.probe: dyed */

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
#define SLC_D_HALF_OPEN (1u << 3) /* breaker half-open: by ticket only */
#define SLC_D_RAMP (1u << 4) /* total_interval16 is the ramp of a breaker that has closed: refused as circuit_open */
#define SLC_D_PRESSURE \
	(1u << 5) /* turns in flight over the limit, or a law cuts: what fails now, fails under pressure */
#define SLC_D_LISTENED (1u << 6) /* a listener was seen: a SYN without one is an outcome */
#define SLC_D_SHADOW (1u << 7) /* metrics-only: nothing of the breaker is enforced */
#define SLC_D_TURNS_MAX (1u << 8) /* turns_max holds */

/*
 * With SLC_D_OPEN or SLC_D_HALF_OPEN total_interval16 is the floor that holds for failsafe.hold after the lease has
 * lapsed (~0: none), and does not bind before.
 */
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
	__u8 probes; /* half-open: tickets and probes at most, 1 to SLC_PROBES */
	__u8 reserved; /* of these for known-good sources: slots 0 to reserved - 1 */
	__u16 pad;
	__u32 ticket_ms; /* an unfinished ticket is free again after this */
	__u32 turns_max; /* with SLC_D_TURNS_MAX: begun - ended from which on, modulo 2^32, one begins under pressure */
};

struct slc_decision {
	__u64 word; /* {generation:32, 0:31, index:1}; written last. The generation grows by 1 with each state of the breaker */
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
	__u32 good; /* answered turns; opaque: connections closed without RST by either side */
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
		__u64 generation : 3; /* of the breaker at the last pass, modulo 8 */
		__u64 pressure : 1; /* last passed under pressure */
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
	__u64 dry_tat16; /* of what the controller adds to the total, in a dry run */
	__u64 pad2[2];
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

/*
 * Outcomes are filed with the generation under which the turn began: rows 0 and 1 by its low bit where it is still the
 * current one, row `other` where it is not, and row `pressure` what was admitted under pressure, whatever its generation.
 * The controller takes what has grown since its last tick.
 */
enum slc_row { SLC_ROW_even, SLC_ROW_odd, SLC_ROW_other, SLC_ROW_pressure, SLC_ROW_COUNT };

/* Whose failure it is. Proven: the source is known-good, or had a good turn before. */
enum slc_grade { SLC_GRADE_proven, SLC_GRADE_unproven, SLC_GRADE_pressure, SLC_GRADE_COUNT };

struct slc_cell { /* outcomes of the sources in this cell, without those under pressure */
	__u32 success;
	__u32 failure; /* by proven sources */
	__u32 unproven; /* failures by the others */
	__u32 slow;
};

/*
 * Turns whose last request byte came in this slot's 100 ms, monotone: started, and of these finished within timeout. A
 * slot does not change any more once it is older than timeout; what it has grown by since the last round, started less
 * finished, is unanswered. A further request byte takes the turn from its slot (finished) and puts it in a later one.
 */
struct slc_turns {
	__u32 started;
	__u32 finished;
};

struct slc_dist { /* log-linear; atomics, so that a reading may be some counts behind */
	__u64 sum_ns;
	__u32 bin[SLC_DIST_BINS];
};

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
	/* since ABI 1.1 */
	__u64 turns_begun;
	__u64 turns_ended; /* begun - ended: an answer is owed, however old; datagrams without one may never end */
	__u64 turns_young; /* begun on connections younger than SLC_YOUNG_NS */
	__u64 last_answer_ns; /* last first byte of an answer */
	__u64 retransmits; /* segments sent again, counted at close */
	__u64 known_success[2], known_failure[2]; /* by known-good sources, by generation & 1 */
	__u64 outcomes[SLC_ROW_COUNT][SLC_OUTCOME_COUNT];
	struct slc_cell cells[2][SLC_CELLS]; /* by generation & 1 */
	__u32 no_listener_s[SLC_CELLS]; /* second of the last no_listener */
	struct slc_turns started[SLC_GRADE_COUNT]
				[SLC_TURN_SLOTS]; /* [last request byte / SLC_TURN_SLOT_NS % SLC_TURN_SLOTS] */
	__u32 owed[SLC_GRADE_COUNT][SLC_OWED_SLOTS]
		  [SLC_OWED_CELLS]; /* started - finished; of those under pressure the proven sources' alone */
	struct slc_dist latency; /* last request byte -> first of the answer */
	struct slc_dist tls; /* the same of TLS handshake turns */
	struct slc_dist
		rtt; /* smoothed RTT of connections: at the first turn, then at most once a second, and at the end */
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
#define SLC_C_OPAQUE (1u << 3) /* turns are not looked at: the connection itself is filed as an outcome, at its end */
#define SLC_C_PRESSURE (1u << 4) /* admitted under pressure */
#define SLC_C_PROBE (1u << 5) /* opaque: holds slot `probe` of slc_probe */

struct slc_conn { /* slc_conns: on the connection */
	__u32 uid;
	__u16 state;
	__u8 class;
	__u8 flags; /* SLC_C_* */
	__u64 cold; /* keyed hash of the source key: finds the cold entry again */
	__u64 established_ns;
	__u32 generation; /* under which it was admitted */
	__u32 tag; /* of its flow: hash >> 32 */
	__u8 probe; /* with SLC_C_PROBE */
	__u8 pad[7];
};

/*
 * slc_turn_of: on connections of services whose turns are measured. Written by cgroup_skb in both directions and by
 * sockops; ingress runs before the socket's lock is taken, so that two packets of one connection may race: a turn may be
 * timed by the earlier of two simultaneous bytes, never counted twice.
 */
#define SLC_T_OWED (1u << 0) /* a request has begun and no byte of its answer was seen */
#define SLC_T_ANSWERING (1u << 1) /* tls: answered, the end of the longest silence is not known yet */
#define SLC_T_TLS (1u << 2) /* first client byte was 0x16, or turns: tls */
#define SLC_T_HANDSHAKE (1u << 3) /* tls: this turn belongs to the handshake */
#define SLC_T_CLIENT_RST (1u << 4) /* the client sent RST */
#define SLC_T_CLIENT_FIN (1u << 5) /* the client sent FIN, before the service did */
#define SLC_T_PROVEN (1u << 6) /* known-good, or had a good turn */
#define SLC_T_KNOWN (1u << 7) /* known-good */
#define SLC_T_PRESSURE (1u << 8) /* the turn in hand began under pressure */
#define SLC_T_HAD_TURN (1u << 9)
#define SLC_T_PROBE (1u << 10) /* holds slot `probe` of slc_probe */
#define SLC_T_GREETING (1u << 11) /* server-first: the service speaks first */
#define SLC_T_SERVICE_FIN (1u << 12) /* the service sent FIN: it will answer nothing more */
#define SLC_T_LEFT (1u << 13) /* the client sent FIN before slow_after: counted as finished, owes no more */
#define SLC_T_FINISHED_NEXT (1u << 14) /* tls: ChangeCipherSpec came alone: the next record is Finished */
#define SLC_T_SOFT (1u << 15) /* tls: small records, as HTTP/2 sends for its own ends: filed only if answered */
#define SLC_T_PEEKED (1u << 16) /* first client byte was looked at (turns: auto) */
#define SLC_T_FIRST (1u << 17) /* no turn yet: generation and pressure are those of the admission */
#define SLC_T_NOTED (1u << 18) /* noted_ns is set */

struct slc_turn {
	__u32 uid;
	__u16 state;
	__u8 cell;
	__u8 probe; /* slot of slc_probe, with SLC_T_PROBE */
	__u32 flags; /* SLC_T_* */
	__u32 generation; /* under which the turn in hand began */
	__u64 begun_ns; /* last request byte of the turn in hand */
	__u64 last_ns; /* tls: last byte in either direction */
	__u64 answer_ns; /* tls: end of the longest silence so far */
	__u64 silence_ns; /* tls: the longest so far */
	__u64 established_ns;
	__u64 cold; /* keyed hash of the source key */
	__u64 noted_ns; /* when `good` was last written to the cold entry, and the RTT noted */
	__u32 good; /* good turns not written there yet */
	__u32 rcv_high, snd_high; /* sequence number after the newest payload byte */
	__u32 tag; /* of its flow, hash >> 32: names the slot of slc_probe with its generation */
};

/* --- slc_measure: [state slot], user writes ---------------------------------------------------------------------------- */

enum slc_turns_mode {
	SLC_TURNS_auto,
	SLC_TURNS_request_response,
	SLC_TURNS_tls,
	SLC_TURNS_server_first,
	SLC_TURNS_opaque
};

/* What an outcome is at this service. Of its own map: policies are found by address, this by the slot a socket keeps. */
struct slc_measure {
	__u32 uid;
	__u8 turns; /* enum slc_turns_mode */
	__u8 owed_shift; /* 2^this ns >= timeout / 8 */
	__u8 http; /* number of http_codes; 0: answers are not read */
	__u8 pad;
	__u32 failures; /* bit per enum slc_outcome that is a failure here */
	__u32 pad2;
	__u64 slow_after_ns;
	__u64 timeout_ns; /* at most SLC_TIMEOUT_MAX_NS */
	__u16 http_codes[SLC_HTTP_CODES];
};

/* --- slc_probe: [state slot], kernel writes ------------------------------------------------------------------------------- */

/*
 * free     may be claimed; so may one of another generation, a ticket or idle probe past its deadline
 * ticket   a SYN was let through, its handshake is under way
 * probe    established, owes nothing yet
 * owed     established, owes an answer; past its deadline it has failed
 * success, failure: how it ended; stays until the generation changes. A neutral end frees the slot.
 */
enum slc_slot_state {
	SLC_SLOT_free,
	SLC_SLOT_ticket,
	SLC_SLOT_probe,
	SLC_SLOT_owed,
	SLC_SLOT_success,
	SLC_SLOT_failure,
};

union slc_slot {
	struct {
		__u64 tag : 32; /* of the flow: hash >> 32 */
		__u64 generation : 24; /* modulo 2^24 */
		__u64 state : 8; /* enum slc_slot_state */
	};
	__u64 word;
};

struct slc_probe {
	union slc_slot slot[SLC_PROBES];
	__u64 deadline_ns[SLC_PROBES];
	__u64 granted; /* tickets */
	__u64 returned; /* of these, never established */
	__u64 established;
	__u64 succeeded, failed, neutral;
	__u64 invited; /* strangers' first SYNs, dropped so that they repeat */
	__u64 dscp_ignored; /* DSCP marks from where they are not believed */
};

/* --- slc_udp_turns: [flow hash], kernel writes: UDP requests not answered yet ---------------------------------------------- */

#define SLC_UDP_TURNS 16384

struct slc_udp_turn {
	__u64 begun_ns;
	__u16 state;
	__u8 cell;
	__u8 flags; /* SLC_T_PROVEN, SLC_T_KNOWN, SLC_U_PRESSURE */
	__u32 generation;
};
#define SLC_U_PRESSURE (1u << 0) /* begun under pressure */

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
SLC_ASSERT_SIZE(struct slc_conn, 40);
SLC_ASSERT_SIZE(struct slc_cell, 16);
SLC_ASSERT_SIZE(struct slc_turns, 8);
SLC_ASSERT_SIZE(struct slc_dist, 8 + 4 * SLC_DIST_BINS);
SLC_ASSERT_SIZE(struct slc_turn, 88);
SLC_ASSERT_SIZE(struct slc_measure, 64);
SLC_ASSERT_SIZE(union slc_slot, 8);
SLC_ASSERT_SIZE(struct slc_probe, 2 * 128 + 64);
SLC_ASSERT_SIZE(struct slc_udp_turn, 16);
SLC_ASSERT_SIZE(struct slc_event, 80);

#endif /* SLC_ABI_H */
