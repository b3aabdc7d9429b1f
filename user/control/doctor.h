/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * doctor.h: is this machine set up so that sluice can do its work? Findings in words, each with what it means and
 * what to do. Needs no daemon. Judgements are apart from looking, so that tests can give them any machine.
 */
#ifndef SLUICE_DOCTOR_H
#define SLUICE_DOCTOR_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "maps/abi.h"
#include "user/control/sockdiag.h"
#include "user/datapath/datapath.h"
#include "user/datapath/ethtool.h"

enum doctor_level { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL };

struct doctor_finding {
	enum doctor_level level;
	const char *check; /* "somaxconn" */
	char subject[96]; /* the listener, interface or service it is about; "" for the machine */
	char what[512]; /* found, and what it means */
	char todo[320]; /* "" where nothing is to be done */
};

struct doctor_report {
	struct doctor_finding *findings;
	size_t count;
};
void doctor_report_free(struct doctor_report *report);
void doctor_say(struct doctor_report *report, enum doctor_level level, const char *check, const char *subject,
		const char *todo, const char *fmt, ...) __attribute__((format(printf, 6, 7)));

struct doctor_service {
	char name[SLC_NAME_LEN];
	char netns[64]; /* "" for the host's */
	struct slc_service_key *keys;
	size_t key_count;
	bool reset; /* action: reset */
	bool gate; /* has accept_queue */
	char advice[512]; /* about its breaker, from what a running daemon has measured; "" */
};

struct doctor_input {
	const char *root; /* "" or where a test keeps its /proc */
	char (*interfaces)[IF_NAMESIZE];
	size_t interface_count;
	struct doctor_service *services;
	size_t service_count;
};

/* Looks and judges everything. -ENOMEM, or 0: what cannot be looked at is a finding. */
int doctor_run(const struct doctor_input *input, struct doctor_report *ret_report);

/* --- judgements: facts in, findings out --------------------------------------------------------------------------- */

/* Integers of sysctls; INT64_MIN: could not be read. */
struct doctor_sysctls {
	int64_t somaxconn, syncookies, abort_on_overflow, migrate_req, jit_harden;
};
void doctor_judge_sysctls(struct doctor_report *report, const struct doctor_sysctls *sysctls, bool reuseport);
void doctor_judge_listener(struct doctor_report *report, const char *service, const char *address, uint32_t backlog,
			   const struct doctor_sysctls *sysctls);
/* `mountinfo` is the text of /proc/self/mountinfo. */
void doctor_judge_mounts(struct doctor_report *report, const char *mountinfo);
void doctor_judge_kernel(struct doctor_report *report, const char *release, const struct datapath_features *features,
			 uint64_t capabilities);

enum doctor_offload { OFFLOAD_UNKNOWN, OFFLOAD_OFF, OFFLOAD_ON, OFFLOAD_FIXED_OFF, OFFLOAD_FIXED_ON };
struct doctor_interface {
	const char *name;
	int type; /* ARPHRD_*; -1: there is no such interface */
	int mtu;
	char driver[ETHTOOL_DRIVER_LEN];
	bool member; /* of a bond */
	enum doctor_offload lro, gro_hw, rx_checksum, tx_checksum;
};
void doctor_judge_interface(struct doctor_report *report, const struct doctor_interface *interface, bool frags,
			    bool reset);

#endif /* SLUICE_DOCTOR_H */
