/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * accept_queues.h: the accept queues of all services, by sock_diag in the namespace of each. A listener is its socket
 * (cookie, state LISTEN), not its address: one that was closed and made again is another one (c70, c71).
 * Called with the daemon's lock held.
 */
#ifndef SLUICE_ACCEPT_QUEUES_H
#define SLUICE_ACCEPT_QUEUES_H

#include "user/control/daemon.h"

/* One look at all of them: occupancy, head ages, rings of vanished ones dropped. */
void listeners_look(struct daemon *d, uint64_t now_ns);
/* At the start: rings for those that listen already, before the first packet is judged. */
void listeners_adopt_now(struct daemon *d, uint64_t now_ns);
/* In the background, for those that still have none. */
void listeners_adopt_later(struct daemon *d, uint64_t now_ns);
/* Connections of the service that sockops does not know: from before the start. At most once in `max_age_ns`. */
void listeners_count_before_start(struct daemon *d, struct service *service, uint64_t now_ns, uint64_t max_age_ns);

/* Whether the connection's local address is one of the service's. */
bool listeners_connection_of(const struct service *service, const struct diag_socket *socket);

#endif /* SLUICE_ACCEPT_QUEUES_H */
