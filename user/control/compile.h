/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * compile.h: from the configuration to a complete snapshot. Pure: no map, no clock; of the system only the indices of
 * interfaces with dscp_trust. Rates become intervals in 1/16 ns, bursts a depth in time (tau = burst x T of the
 * configured rate), percents 1/65536.
 */
#ifndef SLUICE_COMPILE_H
#define SLUICE_COMPILE_H

#include "user/control/config.h"
#include "user/datapath/datapath.h"

/* -ERANGE if the interval cannot be held within 0.1 % (why: the rates that can). */
int compile_rate(const struct rate *rate, uint64_t *ret_interval16, char *why, size_t why_len);
/* T and tau. -ERANGE also where the bucket takes longer than 26 days to fill: no unit of time suits both then. */
int compile_bucket(const struct bucket_config *bucket, uint64_t *ret_interval16, uint64_t *ret_depth16, char *why,
		   size_t why_len);
/* Whether the classes' minimum shares of a total with this T can be counted; -ERANGE. */
int compile_shares(const struct slc_policy *policy, uint64_t interval16, char *why, size_t why_len);
/*
 * Every limit of a service into a policy and its buckets (no keys, no overrides' addresses beyond the list).
 * On failure *ret_key is the key to blame below "services.", as in "source.rate".
 */
int compile_service(const struct config *config, const struct service_config *service,
		    struct snapshot_service *ret_service, const char **ret_key, char *why, size_t why_len);
/* netns_cookie and nsid of services are left to the caller (they need the system). */
int compile_snapshot(const struct config *config, struct snapshot **ret_snapshot, struct diag *diag);
void snapshot_free(struct snapshot **snapshot);

#endif /* SLUICE_COMPILE_H */
