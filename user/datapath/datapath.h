/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * datapath.h: the only code that knows libbpf and libxdp. Everything the controller can ask of the kernel side is
 * here; all functions return 0 or -errno and do not log: the reason in words goes to `why` where one is taken.
 *
 * Life: datapath_open() takes the lock on the pin directory, adopts what is pinned there or makes it new, loads the
 * programs; datapath_apply() makes a snapshot the live one; datapath_attach() puts the programs on an interface.
 * A failing call undoes only what it did itself: what was in force stays in force.
 */
#ifndef SLUICE_DATAPATH_H
#define SLUICE_DATAPATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "maps/abi.h"

struct datapath; /* opaque */

#define WHY_LEN 512

struct datapath_options {
	const char *pins; /* directory, made if missing; on a bpffs, mounted if it is the usual place */
	uint32_t sources; /* entries of the hot table: rounded up to a power of two; table has twice as many */
	uint32_t flows;
	bool udp; /* some service is UDP: it needs to see its answers */
};

/* How the datapath came up: every degraded form is a named mode that status and metrics show. */
struct datapath_modes {
	bool fresh; /* nothing was pinned: all that is in force is of this run */
	bool adopted; /* pinned maps were taken over */
	bool migrated; /* pins of another ABI: buckets and counters were copied */
	bool no_btf; /* gate off: no kernel BTF or fields missing */
	bool no_cgroup2; /* connection counting off */
	bool no_turns; /* cgroup_skb refused: answers are not timed, outcomes of connections alone */
	char no_btf_why[WHY_LEN];
	char no_cgroup2_why[WHY_LEN];
	char no_turns_why[WHY_LEN];
	uint64_t build_id; /* of the loaded programs: hash of their instructions' tags */
	uint16_t pinned_major, pinned_minor; /* found at start */
};

/*
 * -EBUSY: another instance holds the lock (why names its pid). -EPERM and -ENOTSUP: why names the privilege or
 * kernel feature that is missing.
 */
int datapath_open(struct datapath **ret_dp, const struct datapath_options *options, char *why, size_t why_len);
void datapath_close(struct datapath **dp); /* leaves everything pinned and attached */
const struct datapath_modes *datapath_modes(const struct datapath *dp);

/* What this kernel and our privileges allow, without opening anything: for doctor. */
struct datapath_features {
	bool bpf; /* a mappable array can be made */
	bool gate_fields; /* kernel BTF has what the accept-queue gate reads */
	bool frags; /* xdp.frags programs: native mode above one page of MTU */
	bool jit; /* programs become machine code */
	char bpf_why[WHY_LEN], gate_why[WHY_LEN];
};
void datapath_probe(struct datapath_features *ret_features);

/* --- snapshots ------------------------------------------------------------------------------------------------- */

struct snapshot_service {
	struct slc_policy policy; /* uid, state, shift, set_base and set_mask are filled by datapath_apply() */
	struct slc_measure measure; /* uid is filled by datapath_apply() */
	struct slc_service_key *keys; /* addresses; the policy's proto */
	size_t key_count;
	uint64_t source_interval_ns16; /* T of the source bucket in 1/16 ns, before it is put in units */
	uint64_t source_depth_ns16; /* tau, likewise */
	uint64_t wide_interval_ns16, wide_depth_ns16;
	struct snapshot_rate_rule {
		uint8_t addr[16];
		uint8_t prefix;
		uint64_t interval_ns16, depth_ns16;
		uint32_t id;
	} * overrides;
	size_t override_count;
};

struct snapshot_rule {
	uint8_t addr[16];
	uint8_t prefix;
	struct slc_rule rule; /* slot is filled by datapath_apply() for allow rules */
};

struct snapshot {
	struct slc_global global;
	struct snapshot_service *services;
	size_t service_count;
	struct snapshot_rule *trust; /* SLC_SCOPE_ALL */
	size_t trust_count;
	uint16_t *management_ports;
	size_t management_port_count;
	struct snapshot_rule *dscp; /* SLC_SCOPE_DSCP; only addr and prefix count */
	size_t dscp_count;
};

/*
 * Builds a complete snapshot beside the live one, verifies it, and swaps by one 8-byte write. A service of the same
 * name keeps uid, state slot, buckets and counters; unit (shift) and table range too where the new limits allow it,
 * else its {tag, TAT} are copied. -ENOSPC names the table that is too small and its size. An identical snapshot
 * writes nothing (*ret_changed false). 0 with `why` filled: it is in force, but something smaller is not as it should be.
 */
int datapath_apply(struct datapath *dp, const struct snapshot *snapshot, bool *ret_changed, char *why, size_t why_len);
uint64_t datapath_snapshot_number(const struct datapath *dp);

/* The live services, for status: their policies as the kernel sees them. */
size_t datapath_services(const struct datapath *dp, struct slc_policy *policies, size_t max);
int datapath_service_find(const struct datapath *dp, const char *name, struct slc_policy *ret_policy);
/* Units of a policy: rounds up, so that a pushed rate is never exceeded. -ERANGE when the error is over 0.1 %. */
int datapath_to_units(uint64_t ns16, uint8_t shift, uint32_t *ret_units);

/* --- interfaces ------------------------------------------------------------------------------------------------- */

enum attach_mode { ATTACH_NATIVE, ATTACH_GENERIC, ATTACH_OFFLINE };

struct attach_state {
	int ifindex; /* 0: the interface is not there */
	enum attach_mode mode;
	uint32_t program_id;
	bool dispatcher; /* behind libxdp's dispatcher, beside other programs */
	char why[WHY_LEN]; /* why generic rather than native, or why not attached */
};

/* mode_wanted: 0 auto, 1 native, 2 generic. Idempotent; replaces our own older program in place. */
int datapath_attach(struct datapath *dp, const char *ifname, int mode_wanted, struct attach_state *ret_state);
int datapath_detach_interface(struct datapath *dp, const char *ifname);
/* A name of an interface that another name was attached by too: the program stays, by that one. */
int datapath_forget_interface(struct datapath *dp, const char *ifname);
/* Names that our links are pinned by, also of earlier starts. ifindex 0: the device is gone. Returns their number. */
struct attached_interface {
	char name[16];
	int ifindex;
};
size_t datapath_interfaces(const struct datapath *dp, struct attached_interface *list, size_t max);
int datapath_attach_sockops(struct datapath *dp, char *why, size_t why_len);
/*
 * Removes programs, links, maps and pins under `pins`; works without a running daemon and without datapath_open().
 * Verifies afterwards: -EBUSY if anything of ours is still attached (why says what). Nothing there: 0.
 */
int datapath_detach_all(const char *pins, char *why, size_t why_len);

/*
 * What of sluice is attached to an interface of this network namespace, or (ifname NULL) at the cgroup2 root, whatever
 * its pins. `pins` is the directory below /sys/fs/bpf that has its maps; empty: none found.
 */
typedef void (*attached_visit)(const char *ifname, uint32_t program_id, const char *pins, void *arg);
void datapath_attached(attached_visit visit, void *arg);

/* --- pushed each tick -------------------------------------------------------------------------------------------- */

/* The half and the generation become visible together. */
int datapath_push_decision(struct datapath *dp, uint16_t state, const struct slc_decision_half *half,
			   uint32_t generation);
/* As the kernel reads it now: for reading back, and for a restart. */
int datapath_get_decision(const struct datapath *dp, uint16_t state, struct slc_decision_half *ret_half,
			  uint32_t *ret_generation);
int datapath_renew_lease(struct datapath *dp, uint64_t until_ns);
int datapath_set_salt(struct datapath *dp, uint64_t salt); /* becomes current; the older one is kept */
int datapath_sweep(struct datapath *dp); /* one slice of set ranges: rewrites TATs older than 2^38 units */

/* --- overrides ----------------------------------------------------------------------------------------------------- */

int datapath_set_override(struct datapath *dp, uint16_t state, const struct slc_override_half *half);
int datapath_get_override(struct datapath *dp, uint16_t state, struct slc_override_half *ret_half);
/* Fills rule.prefix. */
int datapath_order_set(struct datapath *dp, const uint8_t addr[16], uint8_t prefix, const struct slc_rule *rule);
int datapath_order_delete(struct datapath *dp, const uint8_t addr[16], uint8_t prefix);
/* For reading back: the rule of the longest prefix that covers this one (-ENOENT: none), and all of them. */
int datapath_order_covering(const struct datapath *dp, const uint8_t addr[16], uint8_t prefix,
			    struct slc_rule *ret_rule);
typedef void (*order_visit)(const uint8_t addr[16], uint8_t prefix, const struct slc_rule *rule, void *arg);
int datapath_orders_walk(const struct datapath *dp, order_visit visit, void *arg);
/* Flags of slc_control that follow from slc_orders and slc_known are kept by these calls. */
int datapath_ceiling_slot(struct datapath *dp, uint32_t *ret_slot); /* a free ceiling bucket, full */
void datapath_ceiling_release(struct datapath *dp, uint32_t slot);

/* --- facts -------------------------------------------------------------------------------------------------------------- */

int datapath_counters(const struct datapath *dp, uint16_t state, struct slc_counters *ret_sum); /* over possible CPUs */
int datapath_counters_per_cpu(const struct datapath *dp, uint16_t state, struct slc_counters *ret, size_t cpus);
size_t datapath_cpus(const struct datapath *dp); /* possible */
const struct slc_signals *datapath_signals(const struct datapath *dp, uint16_t state); /* mapped, live */
const struct slc_probe *datapath_probes(const struct datapath *dp, uint16_t state); /* mapped, live */
const struct slc_measure *datapath_measure(const struct datapath *dp, uint16_t state); /* as in force */
const struct slc_control *datapath_control(const struct datapath *dp); /* mapped, live */
/* Tokens a source has now, in 1/1000, and its cold entry if any (-ENOENT: never seen). */
int datapath_source(const struct datapath *dp, const struct slc_policy *policy, const uint8_t addr[16], uint16_t vlan,
		    struct slc_cold *ret_cold, uint64_t *ret_millitokens);
/* Walks cold sets [first, first + count): the callback gets entries in use. Returns sets visited. */
typedef void (*cold_visit)(const struct slc_cold *cold, void *arg);
size_t datapath_cold_walk(const struct datapath *dp, size_t first, size_t count, cold_visit visit, void *arg);
size_t datapath_cold_sets(const struct datapath *dp);

int datapath_known_set(struct datapath *dp, const struct slc_known_key *key, const struct slc_known *known);
int datapath_known_delete(struct datapath *dp, const struct slc_known_key *key);
typedef bool (*known_visit)(const struct slc_known_key *key, const struct slc_known *known, void *arg);
int datapath_known_walk(const struct datapath *dp, known_visit visit, void *arg);

/* --- listeners ------------------------------------------------------------------------------------------------------------- */

/* Arrival ring of a listener: -ENOENT if it has none. *ret_head_age_ns for `backlog` waiting; 0 if none wait. */
int datapath_head_age(const struct datapath *dp, uint64_t cookie, uint32_t backlog, uint64_t now_ns,
		      uint64_t *ret_head_age_ns);
/* A listener from before the start, by a descriptor of it (pidfd_getfd): mark and ring, `backlog` already waiting. */
int datapath_adopt_listener(struct datapath *dp, int fd, uint64_t cookie, uint32_t uid, uint16_t state,
			    uint32_t backlog, uint64_t now_ns);
int datapath_drop_listener(struct datapath *dp, uint64_t cookie); /* its socket is gone */
typedef void (*listener_visit)(uint64_t cookie, uint32_t uid, uint16_t state, void *arg);
int datapath_listeners_walk(const struct datapath *dp, listener_visit visit, void *arg);

/* --- events ------------------------------------------------------------------------------------------------------------------ */

typedef void (*event_visit)(const struct slc_event *event, void *arg);
int datapath_events_fd(const struct datapath *dp); /* to poll */
int datapath_events_consume(struct datapath *dp, event_visit visit, void *arg);

#endif /* SLUICE_DATAPATH_H */
