/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * reasons.h: the one table of verdict reasons, and the one of stages.
 *
 * Each packet that XDP sees gets exactly one reason, from the stage that decided. The same word stands in
 * `bpftool map dump` (field names of slc_counters come from this table), in the CLI, the metrics and the events.
 * Adding a reason is one row here; the numbers are ABI: append, never reorder (SLC_ABI_MINOR counts additions).
 *
 * Columns of SLC_REASONS: name, verdict, stage, meaning.
 *   PASS      goes to the kernel
 *   DROP      dropped whatever the service says (parser)
 *   REFUSE    the service's action: drop, or reset (RST|ACK) where it is TCP
 */
#ifndef SLC_REASONS_H
#define SLC_REASONS_H

/* Stages in packet order. `dry_run: [STAGE]` names them; a reason's stage decides whether it is enforced. */
#define SLC_STAGES(X)                                     \
	X(parse, "strict parser")                         \
	X(order, "operator's deny and allow orders")      \
	X(trust, "trust list: allow, deny, class")        \
	X(drain, "service is draining")                   \
	X(ladder, "class and ladder cut")                 \
	X(repeat, "retransmitted SYN")                    \
	X(source, "token bucket of the source")           \
	X(concurrency, "open connections of the source")  \
	X(bulkhead, "open connections of the service")    \
	X(total, "token bucket of the service, by class") \
	X(gate, "accept queue of the listener")           \
	X(breaker, "circuit breaker")                     \
	X(commit, "admission")

#define SLC_REASONS(X)                                                                          \
	X(not_ip, PASS, parse, "neither IPv4, IPv6 nor neighbour protocol")                     \
	X(neighbour, PASS, parse, "ARP, or IPv6 neighbour discovery with hop limit 255")        \
	X(icmp, PASS, parse, "ICMP and ICMPv6, path-MTU errors included")                       \
	X(l3_only, PASS, parse, "IP without ports we read: tunnels, ESP, SCTP, others")         \
	X(fragment, PASS, parse, "non-first fragment, parser.fragments: pass")                  \
	X(not_service, PASS, parse, "TCP or UDP to a port that is no service")                  \
	X(established, PASS, parse, "TCP to a service port that opens nothing: data, ACK, FIN") \
	X(answered, PASS, parse, "UDP of a flow the service answered within 30 s")              \
	X(management, PASS, order, "management port or prefix")                                 \
	X(half_open, PASS, repeat, "SYN again for a handshake the kernel already holds")        \
	X(allowed, PASS, commit, "admitted by an allow rule or order, within its ceiling")      \
	X(admitted, PASS, commit, "new connection or flow that every stage let through")        \
	X(retransmit, PASS, commit, "SYN again for a connection already admitted")              \
	X(unprotected, PASS, commit, "lease lapsed with failsafe.on_loss: pass")                \
	X(diverted, PASS, commit, "steered to the fallback listener")                           \
	X(malformed, DROP, parse, "lengths or header fields that contradict each other")        \
	X(unparseable, DROP, parse, "deeper than the parser reads (parser.unparseable)")        \
	X(anomalous, DROP, parse, "TCP flags that neither open nor continue a connection")      \
	X(martian, DROP, parse, "source that cannot be a client: loopback, multicast, own")     \
	X(tiny_fragment, DROP, parse, "fragment made to hide TCP flags (RFC 1858)")             \
	X(fragment_refused, DROP, parse, "non-first fragment, parser.fragments: drop")          \
	X(ip_options, DROP, parse, "IPv4 options, parser.ip_options: drop")                     \
	X(denied, REFUSE, order, "deny order, or deny rule of the trust list")                  \
	X(ceiling, REFUSE, trust, "allowed source above its ceiling")                           \
	X(draining, REFUSE, drain, "service drains: no new connections")                        \
	X(stopped, REFUSE, ladder, "manual stop (L4)")                                          \
	X(shed, REFUSE, ladder, "cut by the controller: class, law or fair rate")               \
	X(repeat, REFUSE, repeat, "SYN retransmitted too soon or too often")                    \
	X(rate_limited, REFUSE, source, "source above its configured rate")                     \
	X(contended, REFUSE, source, "lost the race for a bucket three times")                  \
	X(source_concurrency, REFUSE, concurrency, "source at its open connections")            \
	X(bulkhead_full, REFUSE, bulkhead, "service at its open connections")                   \
	X(service_rate, REFUSE, total, "service above its configured rate for this class")      \
	X(accept_pressure, REFUSE, gate, "accept queue near full")                              \
	X(queue_wait, REFUSE, gate, "head of the accept queue older than max_wait")             \
	X(circuit_open, REFUSE, breaker, "circuit breaker open")                                \
	X(failsafe, REFUSE, commit, "lease lapsed with failsafe.on_loss: closed")

enum slc_verdict { SLC_PASS, SLC_DROP, SLC_REFUSE };

enum slc_stage {
#define X(name, text) SLC_STAGE_##name,
	SLC_STAGES(X)
#undef X
		SLC_STAGE_COUNT
};

enum slc_reason {
#define X(name, verdict, stage, text) SLC_##name,
	SLC_REASONS(X)
#undef X
		SLC_REASON_COUNT
};

/* The stage of a reason as a constant: SLC_STAGE_OF_rate_limited == SLC_STAGE_source. */
enum {
#define X(name, verdict, stage, text) SLC_STAGE_OF_##name = SLC_STAGE_##stage,
	SLC_REASONS(X)
#undef X
};

#endif /* SLC_REASONS_H */
