// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/own_addresses.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <net/if.h>
#include <string.h>

#include "user/control/address.h"
#include "user/control/config_load.h"
#include "user/control/scope.h"

static int by_bytes(const void *a, const void *b)
{
	return memcmp(a, b, 16);
}

static int add(struct own_addresses *own, const uint8_t addr[16])
{
	uint8_t(*bigger)[16] = reallocarray(own->at, own->count + 1, sizeof(*bigger));

	if (!bigger)
		return -ENOMEM;
	own->at = bigger;
	memcpy(own->at[own->count++], addr, 16);
	return 0;
}

static int add_interface(struct own_addresses *own, const struct ifaddrs *ifa)
{
	uint8_t addr[16];

	if (!ifa->ifa_addr)
		return 0;
	if (ifa->ifa_addr->sa_family == AF_INET) {
		const struct in_addr *v4 = &((const struct sockaddr_in *)ifa->ifa_addr)->sin_addr;

		if (ntohl(v4->s_addr) >> 24 == IN_LOOPBACKNET)
			return 0;
		address_from_v4(v4, addr);
		return add(own, addr);
	}
	if (ifa->ifa_addr->sa_family == AF_INET6) {
		const struct in6_addr *v6 = &((const struct sockaddr_in6 *)ifa->ifa_addr)->sin6_addr;

		if (IN6_IS_ADDR_LOOPBACK(v6) || IN6_IS_ADDR_LINKLOCAL(v6))
			return 0;
		return add(own, v6->s6_addr);
	}
	return 0;
}

/* Iface Destination Gateway ... in hexadecimal, the address as the machine holds it. */
bool own_router_v4(const char *line, uint8_t ret_addr[16])
{
	unsigned int gateway;
	uint32_t v4;

	if (sscanf(line, "%*s %*x %x", &gateway) != 1 || gateway == 0)
		return false;
	v4 = gateway;
	address_from_v4(&v4, ret_addr);
	return true;
}

/* Destination, its length, source, its length, next hop: 32 hexadecimal digits each. */
bool own_router_v6(const char *line, uint8_t ret_addr[16])
{
	uint8_t addr[16], any = 0;
	char hop[33];

	if (sscanf(line, "%*32s %*x %*32s %*x %32s", hop) != 1 || strlen(hop) != 32)
		return false;
	for (size_t i = 0; i < sizeof(addr); i++) {
		if (sscanf(hop + 2 * i, "%2hhx", &addr[i]) != 1)
			return false;
		any |= addr[i];
	}
	if (!any || (addr[0] == 0xfe && (addr[1] & 0xc0) == 0x80))
		return false;
	memcpy(ret_addr, addr, sizeof(addr));
	return true;
}

static int add_routers(struct own_addresses *own, const char *path, bool (*read_line)(const char *, uint8_t[16]))
{
	SCOPE_FILE *file = fopen(path, "re");
	uint8_t addr[16];
	char line[512];
	int err = 0;

	while (!err && file && fgets(line, sizeof(line), file)) {
		if (read_line(line, addr))
			err = add(own, addr);
	}
	return err;
}

static void sort_out(struct own_addresses *own)
{
	size_t kept = 0;

	if (own->count)
		qsort(own->at, own->count, sizeof(*own->at), by_bytes);
	for (size_t i = 0; i < own->count; i++) {
		if (kept == 0 || by_bytes(own->at[kept - 1], own->at[i]) != 0)
			memmove(own->at[kept++], own->at[i], sizeof(*own->at));
	}
	own->count = kept;
}

int own_addresses_read(struct own_addresses *ret)
{
	struct own_addresses own = {0};
	struct ifaddrs *list = NULL;
	int err = getifaddrs(&list) < 0 ? -errno : 0;

	for (const struct ifaddrs *ifa = list; ifa && !err; ifa = ifa->ifa_next)
		err = add_interface(&own, ifa);
	freeifaddrs(list);
	if (!err)
		err = add_routers(&own, "/proc/thread-self/net/route", own_router_v4);
	if (!err)
		err = add_routers(&own, "/proc/thread-self/net/ipv6_route", own_router_v6);
	if (err) {
		own_addresses_free(&own);
		return err;
	}
	sort_out(&own);
	*ret = own;
	return 0;
}

void own_addresses_free(struct own_addresses *own)
{
	free(own->at);
	*own = (struct own_addresses){0};
}

uint64_t own_addresses_hash(const struct own_addresses *own)
{
	return config_hash(CONFIG_HASH_START, own->at, own->count * sizeof(*own->at));
}

int own_addresses_append(const struct own_addresses *own, struct snapshot *snapshot)
{
	struct snapshot_rule *bigger;

	if (own->count == 0)
		return 0;
	bigger = reallocarray(snapshot->trust, snapshot->trust_count + own->count, sizeof(*bigger));
	if (!bigger)
		return -ENOMEM;
	snapshot->trust = bigger;
	for (size_t i = 0; i < own->count; i++) {
		struct snapshot_rule *rule = &bigger[snapshot->trust_count++];

		*rule = (struct snapshot_rule){
			.prefix = 128,
			.rule = {.action = SLC_ACTION_management, .flags = SLC_RULE_OWN, .until_ns = SLC_FOREVER}};
		memcpy(rule->addr, own->at[i], sizeof(rule->addr));
	}
	return 0;
}
