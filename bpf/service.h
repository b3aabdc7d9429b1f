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

/*
 * `active` is the word of slc_control, read once by the caller. NULL: the address is no service's. A wildcard stands for
 * the gateway's own addresses: where the packet may be for another host, the caller asks (XDP, slc_forwarded()).
 */
static __always_inline const struct slc_service *slc_service_find(const struct slc_global *global, __u32 snapshot,
								  const struct slc_addr *addr, __u16 port, __u8 proto,
								  _Bool *ret_wildcard)
{
	struct slc_service_key key = {.port = port, .proto = proto};
	const struct slc_service *found;
	void *services = bpf_map_lookup_elem(&slc_services, &snapshot);

	*ret_wildcard = 0;
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
	*ret_wildcard = 1;
	__builtin_memset(key.addr, 0, sizeof(key.addr));
	if (slc_addr_is_v4(addr))
		key.addr[10] = key.addr[11] = 0xff;
	return bpf_map_lookup_elem(services, &key);
}

/*
 * The same through the CPU's memory of what it found last: comparing 20 bytes instead of hashing them. A miss is not
 * remembered. XDP only: it does not nest.
 */
static __always_inline struct slc_recent *slc_service_recall(const struct slc_global *global, __u64 active,
							     const struct slc_addr *addr, __u16 port, __u8 proto)
{
	__u32 slot = port & (SLC_RECENT - 1);
	struct slc_recent *recent = bpf_map_lookup_elem(&slc_recent, &slot);
	const struct slc_service *found;
	const __u32 *have, *want = addr->word;
	_Bool wildcard;

	if (!recent)
		return NULL;
	have = (const __u32 *)recent->key.addr;
	if (recent->active == active && recent->key.port == port && recent->key.proto == proto &&
	    !((have[0] ^ want[0]) | (have[1] ^ want[1]) | (have[2] ^ want[2]) | (have[3] ^ want[3])))
		return recent;
	found = slc_service_find(global, active & 1, addr, port, proto, &wildcard);
	if (!found)
		return NULL;
	recent->active = active;
	__builtin_memcpy(recent->key.addr, addr, sizeof(recent->key.addr));
	recent->key.port = port;
	recent->key.proto = proto;
	recent->wildcard = wildcard;
	recent->ours = 0;
	recent->service = *found;
	return recent;
}

#endif /* SLC_SERVICE_H */
