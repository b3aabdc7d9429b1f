// SPDX-License-Identifier: GPL-2.0-only
/* The table of keys. Code that reads it is in schema_value.c. */
#include "user/control/schema.h"

#include <string.h>

#define US 1000ULL
#define MS (1000 * US)
#define S (1000 * MS)
#define M (60 * S)
#define H (60 * M)

/* Bounds that are not a matter of taste. */
#define COUNT32 1000000000 /* fits 32 bits with room for sums */
#define OPEN_MAX ((1 << 24) - 1) /* union slc_cold_head.open */
#define SOURCE_BURST 1000000 /* T stays exact in units of tau / 2^30 */
#define TOTAL_BURST 100000000
#define PER_S 100000000 /* parse_rate's */
#define DAY (24 * H)

#define AT(type, member) .offset = offsetof(struct type, member), .size = sizeof(((struct type *)0)->member)
#define ITEMS(type, list, count)                                                         \
	.offset = offsetof(struct type, list), .size = sizeof(((struct type *)0)->list), \
	.count_offset = offsetof(struct type, count), .item_size = sizeof(*((struct type *)0)->list)

/* Items in the struct itself; with a count, or always all of them. */
#define PLACED(type, list)                                                               \
	.offset = offsetof(struct type, list), .size = sizeof(((struct type *)0)->list), \
	.item_size = sizeof(((struct type *)0)->list[0]),                                \
	.capacity = sizeof(((struct type *)0)->list) / sizeof(((struct type *)0)->list[0])
#define COUNTED(type, count) .count_offset = offsetof(struct type, count)
#define FLAG(type, member) .flag_offset = offsetof(struct type, member)

#define NAME_OF(name) #name "|"
#define CLASS_NAMES SLC_CLASSES(NAME_OF)

#define CLASS_KEYS(name, theta)                                                            \
	{"classes." #name, KEY_MAP, .help = "class " #name},                               \
		{"classes." #name ".depth",                                                \
		 KEY_PERCENT,                                                              \
		 .min = 100,                                                               \
		 .max = 10000,                                                             \
		 .fallback = theta,                                                        \
		 AT(config, classes[SLC_CLASS_##name].depth),                              \
		 .help = "part of the service's burst that this class may use (theta)"},   \
	{                                                                                  \
		"classes." #name ".min", KEY_PERCENT,                                      \
			.min = 100, .max = 10000, .words = "none", .fallback = "5%",       \
			AT(config, classes[SLC_CLASS_##name].min),                         \
			.help = "part of the service's rate that this class gets at least" \
	}

const struct schema_key schema[] = {
	{"interfaces", KEY_LIST, KEY_REQUIRED, 1, 64, ITEMS(config, interfaces, interface_count), .id = "name",
	 .help = "interfaces that the programs are attached to"},
	{"interfaces.name", KEY_NAME, KEY_REQUIRED, 1, IF_NAMESIZE - 1, AT(interface_config, name),
	 .help = "name of the interface; one that is not there is an error in a load, and waited for at the start or "
		 "when it vanishes later"},
	{"interfaces.mode", KEY_WORD, .words = "auto|native|generic", .fallback = "auto", AT(interface_config, mode),
	 .help = "XDP mode; auto: native, else generic"},
	{"interfaces.dscp_trust", KEY_BOOL, .fallback = "false", AT(interface_config, dscp_trust),
	 .help = "believe DSCP marks of what comes in here; at most 4 interfaces"},

	{"control", KEY_MAP, .help = "the daemon itself"},
	{"control.socket", KEY_PATH, .fallback = "/run/sluice/sluice.sock", AT(config, socket),
	 .help = "UNIX socket of the API"},
	{"control.group", KEY_NAME, 0, 1, 63, .fallback = "root", AT(config, group),
	 .help = "group that may use the socket"},
	{"control.metrics", KEY_ENDPOINT, .words = "none", .fallback = "127.0.0.1:9469", AT(config, metrics),
	 .help = "address of /metrics"},
	{"control.pins", KEY_PATH, .fallback = "/sys/fs/bpf/sluice", AT(config, pins),
	 .help = "directory on a bpffs for maps, programs and links"},
	{"control.state", KEY_PATH, .fallback = "/var/lib/sluice", AT(config, state),
	 .help = "directory for overrides and history"},
	{"control.on_exit", KEY_WORD, .words = "keep|detach", .fallback = "keep", AT(config, detach_on_exit),
	 .help = "at a clean end: leave enforcement in place, or detach"},

	{"failsafe", KEY_MAP, .help = "what holds when the daemon is gone"},
	{"failsafe.lease", KEY_DURATION, 0, 500 * MS, 60 * S, .fallback = "3s", AT(config, lease_ns),
	 .help = "silence after which the fail-safe acts"},
	{"failsafe.on_loss", KEY_WORD, .words = "static|pass|closed", .fallback = "static", .wrong = "open=pass",
	 AT(config, on_loss), .help = "static: configured limits; pass: admit all; closed: refuse all but trusted"},
	{"failsafe.hold", KEY_DURATION, 0, 1 * S, 1 * H, .fallback = "30s", AT(config, hold_ns),
	 .help = "how long an open breaker's floor outlives the lease"},

	{"management", KEY_MAP, .help = "never refused"},
	{"management.ports", KEY_COUNT, KEY_MANY, 1, 65535, .fallback = "22",
	 ITEMS(config, management_ports, management_port_count), .help = "ports of this host, TCP and UDP"},
	{"management.cidrs", KEY_CIDR, KEY_MANY, .fallback = "", ITEMS(config, management_cidrs, management_cidr_count),
	 .help = "sources"},

	{"parser", KEY_MAP, .help = "packets that are valid but unusual"},
	{"parser.fragments", KEY_WORD, .words = "pass|drop", .fallback = "pass", AT(config, fragments_drop),
	 .help = "non-first fragments"},
	{"parser.ip_options", KEY_WORD, .words = "pass|drop", .fallback = "pass", AT(config, ip_options_drop),
	 .help = "IPv4 options"},
	{"parser.unparseable", KEY_WORD, .words = "drop|pass", .fallback = "drop", AT(config, unparseable_pass),
	 .help = "deeper than the parser reads"},

	{"tables", KEY_MAP, .help = "sizes"},
	{"tables.sources", KEY_COUNT, 0, 1024, 1 << 26, .fallback = "1048576", AT(config, sources),
	 .help = "sources with a bucket; 16 bytes each"},
	{"tables.flows", KEY_COUNT, 0, 1024, 1 << 24, .fallback = "65536", AT(config, flows),
	 .help = "handshakes remembered; 16 bytes each"},
	{"tables.events", KEY_RATE, 0, DAY, 1000000, .fallback = "1000/s", AT(config, events),
	 .help = "sampled refusals reported, per CPU"},

	{"dscp_trust", KEY_CIDR, KEY_MANY, .fallback = "", ITEMS(config, dscp_trust, dscp_trust_count),
	 .help = "sources whose DSCP marks are believed"},

	{"host", KEY_MAP, .help = "the whole machine"},
	{"host.cpus", KEY_COUNT, KEY_MANY | KEY_ONE_OK | KEY_LATER, 0, 4095, .words = "auto", .fallback = "auto",
	 .help = "CPUs that count"},
	{"host.cpu", KEY_MAP, KEY_LATER, .help = "CPU busy"},
	{"host.cpu.cut", KEY_PERCENT, 0, 100, 10000, .fallback = "90%", .help = "cut services above"},
	{"host.cpu.release", KEY_PERCENT, 0, 100, 10000, .fallback = "80%", .help = "until below"},
	{"host.psi", KEY_MAP, KEY_LATER, .help = "pressure stall information"},
	{"host.psi.cut", KEY_PERCENT, 0, 100, 10000, .fallback = "20%", .help = "cut services above"},
	{"host.psi.release", KEY_PERCENT, 0, 100, 10000, .fallback = "10%", .help = "until below"},
	{"host.memory", KEY_MAP, KEY_LATER, .help = "memory in use"},
	{"host.memory.cut", KEY_PERCENT, 0, 100, 10000, .fallback = "90%", .help = "cut services above"},
	{"host.memory.release", KEY_PERCENT, 0, 100, 10000, .fallback = "80%", .help = "until below"},
	{"host.reset_rate", KEY_RATE, 0, DAY, 1000000, .fallback = "10000/s", AT(config, host_reset_rate),
	 .help = "RSTs of the whole host"},

	{"known", KEY_MAP, .help = "known-good sources"},
	{"known.turns", KEY_COUNT, 0, 1, 1000, .fallback = "3", AT(config, known.turns),
	 .help = "good turns that make a source known"},
	{"known.over", KEY_DURATION, 0, 1 * S, 24 * H, .fallback = "60s", AT(config, known.over_ns),
	 .help = "spread over at least"},
	{"known.ttl", KEY_DURATION, 0, 1 * M, 8760 * H, .fallback = "24h", AT(config, known.ttl_ns),
	 .help = "known for"},
	{"known.jitter", KEY_PERCENT, 0, 1, 10000, .words = "none", .fallback = "20%", AT(config, known.jitter),
	 .help = "of ttl, so that they do not end together"},
	{"known.max_per_v4_24", KEY_COUNT, 0, 1, 256, .fallback = "64", AT(config, known.max_per_v4_24),
	 .help = "known sources of one IPv4 /24"},
	{"known.max_per_v6_48", KEY_COUNT, 0, 1, 65536, .fallback = "64", AT(config, known.max_per_v6_48),
	 .help = "known sources of one IPv6 /48"},

	{"classes", KEY_MAP, .help = "classes of sources, best first"},
	CLASS_KEYS(vip, "100%"),
	CLASS_KEYS(known, "90%"),
	CLASS_KEYS(stranger, "50%"),
	CLASS_KEYS(low, "25%"),

	{"signals", KEY_NAMED, KEY_LATER, 0, 64, .help = "signals pushed by others"},
	{"signals.*", KEY_MAP, .help = "one signal"},
	{"signals.*.unit", KEY_WORD, .words = "count|percent|duration|rate", .fallback = "count", .help = "its unit"},
	{"signals.*.missing", KEY_MISSING, .fallback = "ignore", .help = "what stands for it when it is silent"},

	{"trust", KEY_LIST, 0, 0, SLC_TRUST, ITEMS(config, trust_entries, trust_entry_count), .id = "cidr|file",
	 .line_offset = offsetof(struct trust_entry, line), .help = "sources with a rule of their own"},
	{"trust.cidr", KEY_CIDR, AT(trust_entry, cidr), .help = "the sources"},
	{"trust.file", KEY_PATH, KEY_RELATIVE, AT(trust_entry, file), .help = "or a file with a CIDR a line"},
	{"trust.action", KEY_WORD, KEY_REQUIRED, .words = "allow|deny|class", AT(trust_entry, action),
	 .help = "allow within the ceiling, deny, or put into a class"},
	{"trust.ceiling", KEY_RATE, 0, DAY, PER_S, AT(trust_entry, ceiling), .help = "of allow, for all its sources"},
	{"trust.class", KEY_WORD, .words = CLASS_NAMES, AT(trust_entry, class), .help = "of action: class"},
	{"trust.max_age", KEY_DURATION, 0, 1 * S, 87600 * H, AT(trust_entry, max_age_ns),
	 .help = "a file older than this is refused"},
	{"trust.dscp", KEY_COUNT, KEY_LATER, 0, 63, .words = "any", .fallback = "any", .help = "only with this mark"},

	{"services", KEY_LIST, KEY_REQUIRED, 1, SLC_STATES - 1, ITEMS(config, services, service_count), .id = "name",
	 .line_offset = offsetof(struct service_config, line), .help = "what is protected"},
	{"services.name", KEY_NAME, KEY_REQUIRED, 1, SLC_NAME_LEN - 1, AT(service_config, name), .help = "its name"},
	{"services.listen", KEY_LISTEN, KEY_REQUIRED | KEY_MANY, 1, 64, ITEMS(service_config, listen, listen_count),
	 .help = "its addresses; * is all of both families"},
	{"services.protocol", KEY_PROTOCOL, .words = "tcp|udp", .fallback = "tcp", AT(service_config, proto),
	 .help = "transport"},
	{"services.netns", KEY_NAME, 0, 1, 63, .words = "host", .fallback = "host", AT(service_config, netns),
	 .help = "network namespace of its listener"},
	{"services.profile", KEY_WORD, .words = "none|api|transaction|batch", .fallback = "none",
	 AT(service_config, profile), .help = "defaults for one kind of service"},
	{"services.priority", KEY_COUNT, KEY_LATER, 1, 1000, .fallback = "100",
	 .help = "under host pressure the lowest is cut first"},
	{"services.depends_on", KEY_SERVICE, KEY_MANY, .fallback = "",
	 .help = "services it needs: while one of them is below its health.gate, this one does not probe"},
	{"services.dry_run", KEY_STAGE, KEY_MANY | KEY_ONE_OK, .words = "all", .fallback = "", AT(service_config, dry),
	 .help = "stages that count and do not enforce"},

	{"services.source", KEY_MAP, .words = "unlimited", .fallback = "unlimited", AT(service_config, has_source),
	 .help = "limits of each source"},
	{"services.source.rate", KEY_RATE, KEY_SETTABLE, DAY, PER_S, .words = "unlimited", .fallback = "unlimited",
	 AT(service_config, source.rate), .help = "new connections of one source"},
	{"services.source.burst", KEY_COUNT, KEY_SETTABLE, 1, SOURCE_BURST, AT(service_config, source.burst),
	 .help = "at once after a pause"},
	{"services.source.concurrent", KEY_LIMIT, KEY_SETTABLE | KEY_TCP, 1, OPEN_MAX, .words = "unlimited",
	 .fallback = "unlimited", AT(service_config, source_concurrent), .help = "open connections of one source"},
	{"services.source.ipv4_prefix", KEY_COUNT, 0, 8, 32, .fallback = "32", AT(service_config, v4_prefix),
	 .help = "a source is an IPv4 prefix of this length"},
	{"services.source.ipv6_prefix", KEY_COUNT, 0, 48, 128, .fallback = "64", AT(service_config, v6_prefix),
	 .help = "a source is an IPv6 prefix of this length"},
	{"services.source.vlan", KEY_BOOL, .fallback = "false", AT(service_config, vlan),
	 .help = "the same address in another VLAN is another source"},
	{"services.source.wide", KEY_MAP, .words = "none", .fallback = "none", AT(service_config, has_wide),
	 .help = "a second bucket for wider prefixes"},
	{"services.source.wide.ipv4_prefix", KEY_COUNT, 0, 8, 31, .fallback = "24", AT(service_config, wide_v4_prefix),
	 .help = "its IPv4 prefix length"},
	{"services.source.wide.ipv6_prefix", KEY_COUNT, 0, 16, 127, .fallback = "48",
	 AT(service_config, wide_v6_prefix), .help = "its IPv6 prefix length"},
	{"services.source.wide.rate", KEY_RATE, KEY_REQUIRED, DAY, PER_S, AT(service_config, wide.rate),
	 .help = "new connections of one wide source"},
	{"services.source.wide.burst", KEY_COUNT, KEY_REQUIRED, 1, SOURCE_BURST, AT(service_config, wide.burst),
	 .help = "at once after a pause"},
	{"services.source.overrides", KEY_LIST, 0, 0, 4096, ITEMS(service_config, overrides, override_count),
	 .id = "cidr", .help = "other limits for some sources"},
	{"services.source.overrides.cidr", KEY_CIDR, KEY_REQUIRED, AT(source_override, cidr), .help = "the sources"},
	{"services.source.overrides.rate", KEY_RATE, KEY_REQUIRED, DAY, PER_S, AT(source_override, bucket.rate),
	 .help = "new connections of one of them"},
	{"services.source.overrides.burst", KEY_COUNT, KEY_REQUIRED, 1, SOURCE_BURST, AT(source_override, bucket.burst),
	 .help = "at once after a pause"},
	{"services.source.overrides.weight", KEY_COUNT, KEY_LATER, 1, 1000, .fallback = "1",
	 AT(source_override, weight), .help = "share when a law cuts"},

	{"services.total", KEY_MAP, .words = "unlimited", .fallback = "unlimited", .help = "limits of the service"},
	/* T x (256 / smallest share) stays in 64 bits: not slower than one an hour. */
	{"services.total.rate", KEY_RATE, KEY_SETTABLE, H, PER_S, .words = "unlimited", .fallback = "unlimited",
	 AT(service_config, total.rate), .help = "new connections"},
	{"services.total.burst", KEY_COUNT, KEY_SETTABLE, 1, TOTAL_BURST, AT(service_config, total.burst),
	 .help = "at once after a pause"},
	{"services.total.concurrent", KEY_LIMIT, KEY_SETTABLE | KEY_TCP, 1, COUNT32, .words = "unlimited",
	 .fallback = "unlimited", AT(service_config, total_concurrent), .help = "open connections (bulkhead)"},

	{"services.accept_queue", KEY_MAP, KEY_TCP, .words = "none", AT(service_config, has_queue),
	 .help = "gate on the listener's accept queue"},
	{"services.accept_queue.low", KEY_PERCENT, 0, 100, 10000, .fallback = "50%", AT(service_config, low),
	 .help = "of the backlog: above, lower classes are refused with rising odds"},
	{"services.accept_queue.high", KEY_PERCENT, 0, 100, 10000, .fallback = "90%", AT(service_config, high),
	 .help = "of the backlog: above, all are refused"},
	{"services.accept_queue.target", KEY_DURATION, 0, 100 * US, 60 * S, .fallback = "20ms",
	 AT(service_config, target_ns),
	 .help = "head age below which a short queue is not refused for its wait, and no law refuses"},
	{"services.accept_queue.max_wait", KEY_DURATION, 0, 1 * MS, 300 * S, .fallback = "250ms",
	 AT(service_config, max_wait_ns), .help = "head age above which the gate refuses"},
	{"services.accept_queue.deadline", KEY_DURATION, KEY_LATER, 1 * MS, 3600 * S, .fallback = "800ms",
	 AT(service_config, deadline_ns), .help = "later answers are worthless"},
	{"services.accept_queue.reserve", KEY_DURATION, KEY_LATER, 100 * US, 3600 * S,
	 .help = "part of the deadline kept free; a tenth of it"},

	{"services.breaker", KEY_MAP, AT(service_config, has_breaker),
	 .help = "circuit breaker; without this block it measures and reports what it would have done"},
	{"services.breaker.mode", KEY_WORD, .words = "metrics|enforce", .fallback = "enforce", .absent = "metrics",
	 AT(service_config, breaker.enforce), .help = "refuse, or only report"},
	{"services.breaker.window", KEY_DURATION, 0, 1 * S, 1 * H, .fallback = "60s",
	 AT(service_config, breaker.window_ns), .help = "of the long rule; whole milliseconds in each of its buckets"},
	{"services.breaker.buckets", KEY_COUNT, 0, 2, 60, .fallback = "10", AT(service_config, breaker.buckets),
	 .help = "the window has"},
	{"services.breaker.min_outcomes", KEY_COUNT, 0, 1, 1000000, .fallback = "20",
	 AT(service_config, breaker.min_outcomes), .help = "in the window, before its rates count"},
	{"services.breaker.min_sources", KEY_COUNT, 0, 1, 1000, .fallback = "3",
	 AT(service_config, breaker.min_sources), .help = "with failures, where as many are active"},
	{"services.breaker.failure_rate", KEY_PERCENT, 0, 1, 10000, .fallback = "50%",
	 AT(service_config, breaker.failure_rate), .help = "that opens"},
	{"services.breaker.fast", KEY_MAP, .help = "rule for a sudden failure"},
	{"services.breaker.fast.outcomes", KEY_COUNT, 0, 1, 1000000, .fallback = "100",
	 AT(service_config, breaker.fast_outcomes), .help = "newest"},
	{"services.breaker.fast.within", KEY_DURATION, 0, 100 * MS, 1 * H, .fallback = "10s",
	 AT(service_config, breaker.fast_within_ns), .help = "none older; at least a tick of the controller"},
	{"services.breaker.consecutive", KEY_COUNT, 0, 1, 1000000, .words = "none", .fallback = "5",
	 AT(service_config, breaker.consecutive), FLAG(service_config, breaker.has_consecutive),
	 .help = "failures in a row that open, at low traffic"},
	{"services.breaker.slow_rate", KEY_PERCENT, 0, 1, 10000, .words = "none", .fallback = "none",
	 AT(service_config, breaker.slow_rate), FLAG(service_config, breaker.has_slow_rate),
	 .help = "of slow answers that opens"},
	{"services.breaker.silent", KEY_DURATION, 0, 1 * S, 1 * H, .words = "auto|none", .fallback = "auto",
	 AT(service_config, breaker.silent_ns), FLAG(service_config, breaker.has_silent),
	 .help = "without any answer while answers are owed; auto: twice the timeout, at least 5s"},
	{"services.breaker.failures", KEY_OUTCOME, KEY_MANY | KEY_ONE_OK, .words = "auto", .fallback = "auto",
	 AT(service_config, failures), FLAG(service_config, failures_listed),
	 .help = "outcomes that are failures, and no others; auto: all but slow, which slow_is adds"},
	{"services.breaker.risk", KEY_MAP, .help = "rule on errors and latency together"},
	{"services.breaker.risk.formula", KEY_WORD, .words = "log|published|none", .fallback = "log",
	 AT(service_config, breaker.formula), .help = "of the latency term; published trips on errors alone"},
	{"services.breaker.risk.err_ref", KEY_PERCENT, 0, 1, 10000, .fallback = "30%",
	 AT(service_config, breaker.err_ref), .help = "errors that weigh 1"},
	{"services.breaker.risk.base", KEY_DURATION, 0, 10 * US, 60 * S, .fallback = "200ms",
	 AT(service_config, breaker.base_ns),
	 .help = "latency that weighs 0, until learned; if not given, at most half of lat_ref"},
	{"services.breaker.risk.lat_ref", KEY_DURATION, 0, 10 * US, 60 * S, .fallback = "400ms",
	 AT(service_config, breaker.lat_ref_ns), .help = "latency that weighs 1"},
	{"services.breaker.risk.weights", KEY_NUMBER, KEY_MANY, 0, 1000, .fallback = "0.6, 0.4",
	 PLACED(service_config, breaker.risk_weights), .help = "of errors and latency"},
	{"services.breaker.risk.open_at", KEY_NUMBER, 0, 1, 1000, .fallback = "0.8",
	 AT(service_config, breaker.open_at), .help = "risk that opens, while errors are over 5/6 of err_ref"},
	{"services.breaker.open", KEY_MAP, .help = "time before probes"},
	{"services.breaker.open.base", KEY_DURATION, 0, 10 * MS, 1 * H, .fallback = "1s",
	 AT(service_config, breaker.open_base_ns), .help = "the first time; doubles with each opening in a row"},
	{"services.breaker.open.cap", KEY_DURATION, 0, 10 * MS, 24 * H, .fallback = "30s",
	 AT(service_config, breaker.open_cap_ns), .help = "at most"},
	{"services.breaker.open.jitter", KEY_PERCENT, 0, 1, 10000, .words = "full|none", .fallback = "full",
	 AT(service_config, breaker.jitter_part), .help = "so that many do not probe at once"},
	{"services.breaker.probes", KEY_COUNT, 0, 1, SLC_PROBES, .fallback = "5", AT(service_config, breaker.probes),
	 .help = "outstanding in half-open, and at most so many in one half-open period"},
	{"services.breaker.close_after", KEY_COUNT, 0, 1, SLC_PROBES, .fallback = "3",
	 AT(service_config, breaker.close_after),
	 .help = "successes that close; not more than probes, and if not given at most these"},
	{"services.breaker.probe", KEY_WORD, .words = "any|dyed", .fallback = "any", AT(service_config, breaker.dyed),
	 .help = "which connections; dyed: with a DSCP mark that is believed (dscp_trust)"},
	{"services.breaker.max_half_open", KEY_DURATION, 0, 1 * S, 24 * H, .words = "auto", .fallback = "auto",
	 AT(service_config, breaker.max_half_open_ns),
	 .help = "then open again; auto: the larger of open.cap and twice the timeout"},
	{"services.breaker.ramp", KEY_MAP, .help = "rate after closing"},
	{"services.breaker.ramp.from", KEY_PERCENT, 0, 100, 10000, .fallback = "10%",
	 AT(service_config, breaker.ramp_from), .help = "of the healthy rate"},
	{"services.breaker.ramp.step", KEY_PERCENT, 0, 100, 10000, .fallback = "10%",
	 AT(service_config, breaker.ramp_step), .help = "added each time"},
	{"services.breaker.ramp.every", KEY_DURATION, 0, 100 * MS, 1 * H, .fallback = "1s",
	 AT(service_config, breaker.ramp_every_ns), .help = "between steps"},
	{"services.breaker.health", KEY_MAP, .help = "for dependants"},
	{"services.breaker.health.weights", KEY_NUMBER, KEY_MANY, 0, 1000, .fallback = "0.4, 0.3, 0.2, 0.1",
	 PLACED(service_config, breaker.health_weights), .help = "of errors, latency, queue and CPU"},
	{"services.breaker.health.gate", KEY_PERCENT, 0, 1, 10000, .fallback = "85%",
	 AT(service_config, breaker.health_gate), .help = "dependants wait with their probes below"},

	{"services.shed", KEY_MAP, .help = "what is refused under load, and how"},
	{"services.shed.law", KEY_WORD, KEY_LATER, .words = "static|proportional|adaptive|ratio|gradient|delay",
	 .fallback = "static", .help = "how the admitted rate follows the load"},
	{"services.shed.shadow", KEY_WORD, KEY_LATER, .words = "none|proportional|adaptive|ratio|gradient|delay",
	 .fallback = "none", .help = "law that is computed and not enforced"},
	{"services.shed.k", KEY_NUMBER, KEY_LATER, 1000, 10000, .words = "auto", .fallback = "auto",
	 .help = "of law: adaptive"},
	{"services.shed.target_success", KEY_PERCENT, KEY_LATER, 100, 10000, .words = "none", .fallback = "none",
	 .help = "k is 1 / this"},
	{"services.shed.floor", KEY_RATE, KEY_LATER, DAY, PER_S, .fallback = "1/s",
	 .help = "admitted whatever the law says"},
	{"services.shed.ceiling", KEY_RATE, KEY_LATER, DAY, PER_S, .words = "none", .fallback = "none",
	 .help = "a law admits at most"},
	{"services.shed.signal", KEY_SIGNAL, KEY_LATER, .words = "none", .fallback = "none",
	 .help = "of law: proportional"},
	{"services.shed.warn", KEY_NUMBER, KEY_LATER, 1, 1000000000000000, .words = "none", .fallback = "none",
	 .help = "signal where refusing begins"},
	{"services.shed.fuse", KEY_NUMBER, KEY_LATER, 1, 1000000000000000, .words = "none", .fallback = "none",
	 .help = "signal where all are refused"},
	{"services.shed.at_fuse", KEY_WORD, KEY_LATER, .words = "none|" CLASS_NAMES, .fallback = "none",
	 .help = "class that is kept at the fuse"},
	{"services.shed.interval", KEY_DURATION, KEY_LATER, 10 * MS, 60 * S, .fallback = "100ms",
	 .help = "between updates"},
	{"services.shed.action", KEY_WORD, .words = "drop|reset", .fallback = "drop", AT(service_config, action),
	 .help = "drop in silence, or answer RST"},
	{"services.shed.fallback", KEY_SERVICE, KEY_LATER, .words = "none", .fallback = "none",
	 .help = "service that takes over at L3"},
	{"services.shed.on_storm", KEY_WORD, KEY_LATER, .words = "drop|reset", .fallback = "drop",
	 .help = "action while retries are over budget"},
	{"services.shed.retry_budget", KEY_PERCENT, KEY_LATER, 1, 10000, .fallback = "10%", .help = "of attempts"},
	{"services.shed.reset_rate", KEY_RATE, 0, DAY, 1000000, .fallback = "10000/s", AT(service_config, reset_rate),
	 .help = "RSTs of the service"},
	{"services.shed.ladder", KEY_MAP, KEY_LATER, .help = "levels"},
	{"services.shed.ladder.up", KEY_DURATION, 0, 100 * MS, 1 * H, .fallback = "2s", .help = "before a step up"},
	{"services.shed.ladder.down", KEY_DURATION, 0, 100 * MS, 1 * H, .fallback = "10s", .help = "a step down"},
	{"services.shed.ladder.l1", KEY_PERCENT, 0, 1, 10000, .fallback = "30%", .help = "cut that leads to L1"},
	{"services.shed.ladder.l2", KEY_PERCENT, 0, 1, 10000, .fallback = "70%", .help = "cut that leads to L2"},
	{"services.shed.missing", KEY_MAP, KEY_LATER, .help = "what stands for a silent signal"},
	{"services.shed.missing.head_age", KEY_MISSING, .fallback = "tighten", .help = "accept queue's head age"},
	{"services.shed.missing.turns", KEY_MISSING, .fallback = "ignore", .help = "turns in flight"},
	{"services.shed.missing.psi", KEY_MISSING, .fallback = "ignore", .help = "pressure stall information"},

	{"services.turns", KEY_WORD, .words = "auto|request-response|tls|server-first|opaque", .fallback = "auto",
	 AT(service_config, turns),
	 .help = "how its answers are seen; auto: tls where the client's first byte says so, else request-response; "
		 "opaque: not at all"},
	{"services.http", KEY_MAP, KEY_TCP, .words = "none", .fallback = "none", .help = "read plaintext answers"},
	{"services.http.status", KEY_COUNT, KEY_REQUIRED | KEY_MANY, 400, 599, PLACED(service_config, http_codes),
	 COUNTED(service_config, http_code_count), .help = "status codes that are failures"},
	{"services.slow_after", KEY_DURATION, 0, 100 * US, SLC_TIMEOUT_MAX_NS, AT(service_config, slow_after_ns),
	 .help = "a later answer is slow; if not given, breaker.risk.lat_ref"},
	{"services.slow_is", KEY_WORD, .words = "success|failure", .fallback = "success",
	 AT(service_config, slow_is_failure), .help = "what a slow answer counts as"},
	{"services.timeout", KEY_DURATION, 0, 1 * MS, SLC_TIMEOUT_MAX_NS, .fallback = "5s",
	 AT(service_config, timeout_ns),
	 .help = "unanswered beyond it; at most 60s, because the packet path keeps what is owed for 128s"},
	{"services.timeouts", KEY_MAP, KEY_LATER, .help = "of those around the service"},
	{"services.timeouts.connect", KEY_DURATION, 0, 1 * MS, 24 * H, .words = "none", .fallback = "none",
	 .help = "connect timeout of its clients"},
	{"services.timeouts.client", KEY_DURATION, 0, 1 * MS, 24 * H, .words = "none", .fallback = "none",
	 .help = "whole timeout of its clients"},
	{"services.timeouts.gateway", KEY_DURATION, 0, 1 * MS, 24 * H, .words = "none", .fallback = "none",
	 .help = "of the gateway"},
	{"services.timeouts.upstream", KEY_DURATION, 0, 1 * MS, 24 * H, .words = "none", .fallback = "none",
	 .help = "of the upstream"},
};

const size_t schema_count = sizeof(schema) / sizeof(schema[0]);

/* What each profile changes (CONTROL 3, DECISIONS 24). slow_after follows lat_ref. */
static const struct profile_default {
	const char *path, *api, *transaction, *batch;
} profile_defaults[] = {
	{"services.breaker.risk.err_ref", "15%", "5%", "20%"},
	{"services.breaker.risk.lat_ref", "120ms", "800ms", "5s"},
	{"services.breaker.risk.weights", "0.7, 0.3", "0.4, 0.6", "0.5, 0.5"},
	{"services.timeout", "3s", "10s", "60s"},
};

const char *schema_profile(const char *profile, const struct schema_key *key)
{
	for (size_t i = 0; i < sizeof(profile_defaults) / sizeof(profile_defaults[0]); i++) {
		const struct profile_default *row = &profile_defaults[i];

		if (strcmp(row->path, key->path))
			continue;
		return !strcmp(profile, "api")           ? row->api
		       : !strcmp(profile, "transaction") ? row->transaction
		       : !strcmp(profile, "batch")       ? row->batch
							 : NULL;
	}
	return NULL;
}
