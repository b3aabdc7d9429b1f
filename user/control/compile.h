/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * compile.h: from the configuration to a complete snapshot. Pure: no map, no clock. Rates become intervals in
 * 1/16 ns, bursts a depth in time (tau = burst x T of the configured rate), percents 1/65536.
 */
#ifndef SLUICE_COMPILE_H
#define SLUICE_COMPILE_H

#include "user/control/config.h"
#include "user/datapath/datapath.h"

/* -ERANGE if the interval cannot be held within 0.1 % (why: the rates that can). */
int compile_rate(const struct rate *rate, uint64_t *ret_interval16, char *why, size_t why_len);
/* netns_cookie and nsid of services are left to the caller (they need the system). */
int compile_snapshot(const struct config *config, struct snapshot **ret_snapshot, struct diag *diag);
void snapshot_free(struct snapshot **snapshot);

#endif /* SLUICE_COMPILE_H */
