/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rig.h: the packet path on a bench. Loads the skeleton without pins, plays the user side of abi.h with maps mapped
 * into the test, sends packets by BPF_PROG_TEST_RUN and tells which reasons moved. Set-up that fails aborts with the
 * cause; expectations fail the cmocka test they stand in.
 *
 * A run takes its clock from the kernel, so tables use intervals of 100 s and more: nothing refills while they run.
 */
#ifndef TESTS_BPF_RIG_H
#define TESTS_BPF_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/bpf.h>

#include "maps/abi.h"
#include "tests/bpf/packet.h"

#define NS_PER_MS 1000000ULL
#define NS_PER_S 1000000000ULL

struct sluice_bpf;

struct rig_sizes {
	uint32_t source_sets, cold_sets, flow_sets; /* powers of two; 0: a default */
	uint32_t frags; /* 1: as a multi-buffer program */
};

struct rig {
	struct sluice_bpf *skel;
	struct rig_sizes sizes;
	int program; /* slc_xdp */
	int cpus; /* possible */
	/* mapped */
	struct slc_control *control;
	struct slc_ports *ports;
	struct slc_decision *decision;
	struct slc_override *override;
	struct slc_set *sources;
	struct slc_cold_set *cold;
	struct slc_flow_set *flows;
	struct slc_total *total;
	struct slc_signals *signals;
	struct slc_measure *measure;
	struct slc_probe *probe;
	uint64_t *ceiling;
	/* inner maps by snapshot index */
	int services[2], trust[2];
	uint16_t states, policies; /* handed out so far */
	uint32_t next_set;
	struct slc_counters *scratch; /* one per CPU */
	int ifindex; /* 0: the loopback of the namespace */
};

/* Own network namespace with lo up and the addresses of the tables on it. Called once, before any thread. */
void rig_private_network(void);
struct rig *rig_open(const struct rig_sizes *sizes); /* NULL: defaults */
void rig_close(struct rig *rig);
uint64_t rig_now(void);

/* --- the user side ---------------------------------------------------------------------------------------------- */

/* No limit at all; /32 and /64; 4096 sets. */
struct slc_policy rig_policy(const char *name);
void rig_policy_source(struct slc_policy *policy, uint64_t interval_ns, uint32_t burst);
void rig_policy_wide(struct slc_policy *policy, uint64_t interval_ns, uint32_t burst, uint8_t v4, uint8_t v6);
/* Depth of each class is theta_c x tau: vip 1, known 0.9, stranger 0.5, low 0.25. */
void rig_policy_total(struct slc_policy *policy, uint64_t interval_ns, uint32_t burst);
void rig_policy_gate(struct slc_policy *policy, uint32_t low_percent, uint32_t high_percent);

/* Fills uid, state and set range in, writes it and the address; returns the state slot. */
uint16_t rig_service(struct rig *rig, struct slc_policy *policy, const char *addr, uint16_t port);
void rig_address(struct rig *rig, const struct slc_policy *policy, const char *addr, uint16_t port);
/* Another policy for a live service: new slot, then the service entries that named the old one. */
void rig_replace_policy(struct rig *rig, const struct slc_policy *policy, const char *addr, uint16_t port);
/* The same tables under a new number, which is what makes a change of theirs seen. */
void rig_next_snapshot(struct rig *rig);
void rig_management(struct rig *rig, uint16_t port);

void rig_trust(struct rig *rig, const char *addr, uint8_t prefix, const struct slc_rule *rule);
/* SLC_SCOPE_OWN, or the uid of the service whose source.overrides this is */
void rig_scope(struct rig *rig, uint32_t scope, const char *addr, uint8_t prefix, const struct slc_rule *rule);
void rig_order(struct rig *rig, const char *addr, uint8_t prefix, const struct slc_rule *rule);
void rig_order_delete(struct rig *rig, const char *addr, uint8_t prefix);
void rig_known(struct rig *rig, uint32_t uid, const char *addr, uint64_t until_ns);
/* Nothing decided: valid for an hour, p = 1, H = 201 ms, one listener. rig_service() pushes it. */
struct slc_decision_half rig_decision(void);
void rig_decide(struct rig *rig, uint16_t state, const struct slc_decision_half *half); /* the generation stays */
void rig_generation(struct rig *rig, uint16_t state, uint32_t generation);
void rig_override(struct rig *rig, uint16_t state, const struct slc_override_half *half);

/* Makes every record of slc_flows older by so much: time that tests need not wait for. */
void rig_age_flows(struct rig *rig, uint32_t ms);

/* Sources with open connections, as sockops would have counted them. Needs attempts of `addr` before, under a source.rate. */
bool rig_set_open(struct rig *rig, const char *addr, uint32_t uid, uint32_t open);
/* Good turns of a source, likewise. */
bool rig_set_good(struct rig *rig, const char *addr, uint32_t uid, uint32_t good);

/* --- packets ----------------------------------------------------------------------------------------------------- */

/* XDP action of one packet on this CPU; `out` may be NULL. */
uint32_t rig_run(struct rig *rig, const struct packet *packet, struct packet *out);
/* Any length, multi-buffer frames too; 0 or -errno. */
int rig_run_bytes(struct rig *rig, const void *bytes, uint32_t length, uint32_t *ret_action);
/* The same frame `count` times in the kernel's loop; the action of the last. Waits for RCU: for thousands, not for two. */
uint32_t rig_repeat(struct rig *rig, const struct packet *packet, uint32_t count);
/* As real frames: XDP_PASS goes up the stack of the namespace, XDP_TX out of the interface. 0 or -errno. */
int rig_live(struct rig *rig, const struct packet *packet, uint32_t count);

/* --- counters ----------------------------------------------------------------------------------------------------- */

struct slc_counters rig_counters(struct rig *rig, uint16_t state); /* summed over CPUs */
struct slc_counters rig_all_counters(struct rig *rig); /* and over states */
uint64_t rig_reason(const struct slc_reasons *reasons, enum slc_reason reason);
uint64_t rig_reason_sum(const struct slc_reasons *reasons);
const char *rig_reason_name(enum slc_reason reason);
enum slc_verdict rig_reason_verdict(enum slc_reason reason);
const char *rig_action_name(uint32_t action);
/* "admitted +1, repeat +2"; in a static buffer. */
const char *rig_difference(const struct slc_reasons *before, const struct slc_reasons *after);

/* --- expectations -------------------------------------------------------------------------------------------------- */

/* One packet: its action, and that exactly this one reason moved, by one (c149). */
void rig_expect(struct rig *rig, const struct packet *packet, uint32_t action, enum slc_reason reason, const char *name,
		const char *file, int line);
/* `count` packets of one recipe: only this reason moved, by `count`. */
void rig_expect_many(struct rig *rig, const struct packet *packet, uint32_t count, enum slc_reason reason,
		     const char *file, int line);
#define expect(on, recipe, action, reason)                                                   \
	do {                                                                                 \
		struct packet packet_ = (recipe);                                            \
		rig_expect((on), &packet_, (action), (reason), #recipe, __FILE__, __LINE__); \
	} while (0)
#define expect_many(on, recipe, count, reason)                                          \
	do {                                                                            \
		struct packet packet_ = (recipe);                                       \
		rig_expect_many((on), &packet_, (count), (reason), __FILE__, __LINE__); \
	} while (0)

/* Runs fn(rig, arg, cpu) on CPUs 0 and 1 at once, both let go together; false if there is one CPU only. */
bool rig_on_two_cpus(struct rig *rig, void (*fn)(struct rig *rig, void *arg, int cpu), void *arg);

#endif /* TESTS_BPF_RIG_H */
