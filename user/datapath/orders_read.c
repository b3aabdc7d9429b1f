// SPDX-License-Identifier: GPL-2.0-only
/* orders_read.c: operators' orders as the kernel has them: an order counts as given only when it is read back. */
#include "user/datapath/internal.h"

#include <string.h>

int datapath_order_covering(const struct datapath *dp, const uint8_t addr[16], uint8_t prefix,
			    struct slc_rule *ret_rule)
{
	struct slc_order_key key = {.prefixlen = prefix};

	if (prefix > 128)
		return -EINVAL;
	memcpy(key.addr, addr, sizeof(key.addr));
	return bpf_map_lookup_elem(dp->maps.fd[MAP_orders], &key, ret_rule);
}

struct order_walk {
	int fd;
	order_visit visit;
	void *arg;
};

static int visit_order(const void *key, void *arg)
{
	const struct slc_order_key *order = key;
	struct order_walk *walk = arg;
	struct slc_rule rule;

	if (bpf_map_lookup_elem(walk->fd, key, &rule) == 0)
		walk->visit(order->addr, order->prefixlen, &rule, walk->arg);
	return 0;
}

int datapath_orders_walk(const struct datapath *dp, order_visit visit, void *arg)
{
	struct order_walk walk = {dp->maps.fd[MAP_orders], visit, arg};

	return map_walk(walk.fd, sizeof(struct slc_order_key), SLC_ORDERS, visit_order, &walk);
}
