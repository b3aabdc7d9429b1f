/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * service.h: (address, port, protocol) -> service. First the port map, one bit in 8 KiB that stays in the cache: most
 * packets of most hosts end there. Then the snapshot's hash: exact address before wildcard. XDP and sockops use the
 * same lookup, so both agree on what belongs to whom.
 */
#ifndef SLC_SERVICE_H
#define SLC_SERVICE_H

#include "maps/maps.bpf.h"

#include "parse.h"

static __always_inline const struct slc_control *slc_control_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&slc_control, &zero);
}

static __always_inline const struct slc_ports *slc_ports_get(__u16 port)
{
	__u32 index = port >> 6;

	return bpf_map_lookup_elem(&slc_ports, &index);
}

static __always_inline _Bool slc_port_in(__u64 bits, __u16 port)
{
	return bits >> (port & 63) & 1;
}

/* `active` is the word of slc_control, read once by the caller. NULL: the address is no service's. */
static __always_inline const struct slc_service *slc_service_find(const struct slc_global *global, __u32 snapshot,
								  const struct slc_addr *addr, __u16 port, __u8 proto)
{
	struct slc_service_key key = {.port = port, .proto = proto};
	const struct slc_service *found;
	void *services = bpf_map_lookup_elem(&slc_services, &snapshot);

	if (!services)
		return NULL;
	if (global->has_exact) {
		__builtin_memcpy(key.addr, addr, sizeof(key.addr));
		found = bpf_map_lookup_elem(services, &key);
		if (found)
			return found;
	}
	if (!global->has_wildcard)
		return NULL;
	__builtin_memset(key.addr, 0, sizeof(key.addr));
	if (slc_addr_is_v4(addr))
		key.addr[10] = key.addr[11] = 0xff;
	return bpf_map_lookup_elem(services, &key);
}

#endif /* SLC_SERVICE_H */
