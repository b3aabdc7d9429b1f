/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * listen_match.h: which listeners a service's connections can reach. Same order as the kernel's lookup: the exact
 * address, then the wildcard of the family, then a dual-stack :: (V6ONLY off) for IPv4. Pure.
 */
#ifndef SLUICE_LISTEN_MATCH_H
#define SLUICE_LISTEN_MATCH_H

#include "maps/abi.h"
#include "user/control/sockdiag.h"

struct service_keys {
	const struct slc_service_key *keys;
	size_t count;
};

/*
 * Whether a connection to some address of services[which] may land in `listener`, one of the `listeners` of the
 * service's namespace. A wildcard service owns all addresses of its port but those that another service names.
 */
bool listen_match(const struct service_keys *services, size_t service_count, size_t which,
		  const struct diag_list *listeners, const struct diag_socket *listener);

#endif /* SLUICE_LISTEN_MATCH_H */
