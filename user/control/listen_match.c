// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/listen_match.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "user/control/address.h"

/* How well the kernel's lookup likes `l` for a connection to `addr`: 0 not at all, more is better. */
static int score(const struct diag_socket *l, const uint8_t addr[16], uint16_t port)
{
	if (l->port != port)
		return 0;
	if (address_equal(l->addr, addr))
		return 3;
	if (address_is_v4(addr)) {
		if (address_equal(l->addr, address_any_v4))
			return 2;
		return address_equal(l->addr, address_any_v6) && l->family == AF_INET6 && !l->v6only ? 1 : 0;
	}
	return address_equal(l->addr, address_any_v6) && l->family == AF_INET6 ? 2 : 0;
}

/* Reached by connections to one exact address. */
static bool reached(const struct diag_list *listeners, const struct diag_socket *listener, const uint8_t addr[16],
		    uint16_t port)
{
	int own = score(listener, addr, port);

	for (size_t i = 0; i < listeners->count && own; i++) {
		if (score(&listeners->sockets[i], addr, port) > own)
			return false;
	}
	return own > 0;
}

static bool named_by_other(const struct service_keys *services, size_t service_count, size_t which,
			   const uint8_t addr[16], uint16_t port)
{
	for (size_t s = 0; s < service_count; s++) {
		for (size_t k = 0; s != which && k < services[s].count; k++) {
			const struct slc_service_key *key = &services[s].keys[k];

			if (key->proto == IPPROTO_TCP && key->port == port && address_equal(key->addr, addr))
				return true;
		}
	}
	return false;
}

bool listen_match(const struct service_keys *services, size_t service_count, size_t which,
		  const struct diag_list *listeners, const struct diag_socket *listener)
{
	for (size_t k = 0; k < services[which].count; k++) {
		const struct slc_service_key *key = &services[which].keys[k];

		if (key->proto != IPPROTO_TCP || key->port != listener->port)
			continue;
		if (!address_is_any(key->addr) || address_is_any(listener->addr)) {
			if (reached(listeners, listener, key->addr, key->port))
				return true;
			continue;
		}
		if (address_is_v4(key->addr) == address_is_v4(listener->addr) &&
		    !named_by_other(services, service_count, which, listener->addr, listener->port))
			return true;
	}
	return false;
}
