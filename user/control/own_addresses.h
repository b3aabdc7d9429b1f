/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * own_addresses.h: the gateway's own addresses and those of its routers. A SYN that claims to come from one of them
 * is refused like any other, but never answered with a reset: that would go to ourselves, or to who carries us.
 */
#ifndef SLUICE_OWN_ADDRESSES_H
#define SLUICE_OWN_ADDRESSES_H

#include <stddef.h>
#include <stdint.h>

#include "user/datapath/datapath.h"

struct own_addresses {
	uint8_t (*at)[16]; /* sorted, each once */
	size_t count;
};

/* Loopback and link-local ones left out: martian, or of no route. *ret is to be freed by own_addresses_free(). */
int own_addresses_read(struct own_addresses *ret);
void own_addresses_free(struct own_addresses *own);
uint64_t own_addresses_hash(const struct own_addresses *own);
/* As rules with SLC_RULE_OWN behind the trust list. */
int own_addresses_append(const struct own_addresses *own, struct snapshot *snapshot);

/* Routers of one line of /proc/net/route and /proc/net/ipv6_route; false if it names none. */
bool own_router_v4(const char *line, uint8_t ret_addr[16]);
bool own_router_v6(const char *line, uint8_t ret_addr[16]);

#endif /* SLUICE_OWN_ADDRESSES_H */
