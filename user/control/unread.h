/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * unread.h: what services whose turns are not seen have received and not read (sock_diag): there it is what comes closest
 * to an answer that is owed. With the daemon's lock held.
 *
 * The kernel tells how much of a connection is unread, and when data came last: the oldest unread byte is at least that
 * old, and older where the client goes on sending.
 */
#ifndef SLUICE_UNREAD_H
#define SLUICE_UNREAD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "user/control/sockdiag.h"

#define UNREAD_CONNECTIONS_MAX 4000 /* of more, looking costs too much of a tick */

struct unread { /* zeroed: nothing is known */
	bool known;
	uint64_t connections, bytes, age_ns; /* those with unread data; of the one that waits longest, at least */
	uint64_t seen_ns, next_ns; /* last look, and the next one */
	char why[128]; /* it is not known */
};

struct daemon;
struct service;

/* Turns are not seen: opaque, or mode no_turns. */
bool unread_turns_off(const struct daemon *d, const struct service *service);
/* Once a tick: each such service about once a second, as many in one tick as take few milliseconds. */
void unread_look(struct daemon *d, uint64_t now_ns);
/* Pure: connections that are of the service, by `is_of`. */
void unread_sum(const struct diag_socket *sockets, size_t count,
		bool (*is_of)(const struct service *service, const struct diag_socket *socket),
		const struct service *service, struct unread *unread);
/* Not older than a few seconds. */
bool unread_known(const struct unread *unread, uint64_t now_ns);
/* {connections, bytes, age_ms, why}; null where turns are seen, and of UDP. */
json_t *unread_json(const struct daemon *d, const struct service *service, uint64_t now_ns);

#endif /* SLUICE_UNREAD_H */
