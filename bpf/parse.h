/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * parse.h: bytes -> struct slc_pkt, once and strictly; plain C, runs natively under the fuzzer.
 *
 * The result is exactly one kind. Kinds below SLC_REASON_COUNT are final reasons (maps/reasons.h); the others say what
 * the packet is to a service. What is read: Ethernet; up to 4 VLAN tags (0x8100, 0x88a8, 0x9100); IPv4 with options;
 * IPv6 with up to 8 known extension headers; fragments by MF and offset only; TCP, UDP, ICMP. What is not is said:
 * deeper nesting and IPv6 jumbograms are `unparseable`; tunnels are `l3_only`, their inner headers never looked at;
 * PPPoE and MPLS are `not_ip`.
 *
 * There are two ends: the datagram's, from its length field, and the buffer's. Lengths are checked against the first,
 * reads against the second: padding is not payload, and bytes behind a short datagram are not a header. With a
 * multi-buffer program the buffer may end before the datagram does: `beyond` says so, a header out there is
 * `unparseable`, and the caller, who can ask for the length of the whole frame, makes it `malformed` if that is a lie.
 */
#ifndef SLC_PARSE_H
#define SLC_PARSE_H

#include <linux/types.h>
#include <linux/if_ether.h>

#include "hash.h"
#include "maps/reasons.h"

enum slc_kind { /* continues enum slc_reason */
		SLC_KIND_SYN = SLC_REASON_COUNT, /* opens a connection: SYN without ACK, RST, FIN */
		SLC_KIND_TCP, /* continues or ends one */
		SLC_KIND_ODD, /* flags that do neither */
		SLC_KIND_UDP,
};

struct slc_pkt {
	struct slc_addr saddr, daddr;
	__u32 seq; /* SYN and ODD, host order */
	__u32 total; /* datagram's length: IP header, extension headers, payload */
	__u16 sport, dport; /* host order */
	__u16 l3; /* offset of the IP header: within SLC_L3_MASK */
	__u16 l4; /* offset of the TCP or UDP header, within SLC_EXT_MASK */
	__u16 payload; /* TCP payload bytes */
	__u16 vlan; /* outermost tag's VLAN id, 0 without */
	__u8 proto;
	__u8 v6;
	__u8 ip_options; /* IPv4 header longer than 20 bytes */
	__u8 beyond; /* datagram longer than the buffer */
	__u8 more; /* first fragment: more follow */
	__u8 pad;
};

struct slc_vlan {
	__be16 tci;
	__be16 type;
};

struct slc_ip4 {
	__u8 version_ihl;
	__u8 tos;
	__be16 total;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 proto;
	__be16 checksum;
	__be32 saddr, daddr;
};

struct slc_ip6 {
	__be32 version_class_flow;
	__be16 payload;
	__u8 next;
	__u8 hop_limit;
	__be32 saddr[4], daddr[4];
};

struct slc_ip6_ext {
	__u8 next;
	__u8 len; /* of the fragment header: reserved */
	__be16 fragment; /* of the fragment header */
	__be32 id;
};

struct slc_tcp {
	__be16 sport, dport;
	__be32 seq, ack;
	__u8 doff; /* high 4 bits, in words */
	__u8 flags;
	__be16 window, checksum, urgent;
};

struct slc_udp {
	__be16 sport, dport, len, checksum;
};

_Static_assert(sizeof(struct slc_vlan) == 4, "wire: VLAN tag");
_Static_assert(sizeof(struct slc_ip4) == 20, "wire: IPv4");
_Static_assert(sizeof(struct slc_ip6) == 40, "wire: IPv6");
_Static_assert(sizeof(struct slc_ip6_ext) == 8, "wire: IPv6 extension header");
_Static_assert(sizeof(struct slc_tcp) == 20, "wire: TCP");
_Static_assert(sizeof(struct slc_udp) == 8, "wire: UDP");
_Static_assert(sizeof(struct ethhdr) == 14, "wire: Ethernet");

#define SLC_BE16(x) ((__u16)__builtin_bswap16(x))
#define SLC_BE32(x) ((__u32)__builtin_bswap32(x))
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "byte order helpers assume little-endian");

/* IANA protocol numbers; not from <netinet/in.h>, whose names are not the kernel header's. */
enum {
	SLC_PROTO_HOPOPTS = 0,
	SLC_PROTO_ICMP = 1,
	SLC_PROTO_TCP = 6,
	SLC_PROTO_UDP = 17,
	SLC_PROTO_ROUTING = 43,
	SLC_PROTO_FRAGMENT = 44,
	SLC_PROTO_AH = 51,
	SLC_PROTO_ICMPV6 = 58,
	SLC_PROTO_NONE = 59,
	SLC_PROTO_DSTOPTS = 60,
};

#define SLC_MAX_VLANS 4
#define SLC_MAX_EXTS 8
#define SLC_EXT_MASK 0x7fff /* likewise after 8 extension headers (16454) */
#define SLC_L3_MASK 0x3f /* an offset after Ethernet and 4 tags (30) fits; tells the verifier so */

#define SLC_TCP_FIN 0x01
#define SLC_TCP_SYN 0x02
#define SLC_TCP_RST 0x04
#define SLC_TCP_ACK 0x10

/* A complete partition of the flags; PSH and URG never decide, ECE and CWR are not looked at. */
static __always_inline int slc_tcp_kind(__u8 flags)
{
	if (flags & SLC_TCP_SYN) {
		if (flags & (SLC_TCP_FIN | SLC_TCP_RST))
			return SLC_KIND_ODD;
		return flags & SLC_TCP_ACK ? SLC_KIND_TCP : SLC_KIND_SYN;
	}
	if (flags & SLC_TCP_RST)
		return flags & SLC_TCP_FIN ? SLC_KIND_ODD : SLC_KIND_TCP;
	return flags & SLC_TCP_ACK ? SLC_KIND_TCP : SLC_KIND_ODD;
}

static __always_inline void slc_addresses4(struct slc_pkt *p, const struct slc_ip4 *ip)
{
	p->saddr.half[0] = p->daddr.half[0] = 0;
	p->saddr.word[2] = p->daddr.word[2] = SLC_BE32(0x0000ffff);
	p->saddr.word[3] = ip->saddr;
	p->daddr.word[3] = ip->daddr;
}

static __always_inline void slc_addresses6(struct slc_pkt *p, const struct slc_ip6 *ip)
{
	SLC_UNROLL
	for (int i = 0; i < 4; i++) {
		p->saddr.word[i] = ip->saddr[i];
		p->daddr.word[i] = ip->daddr[i];
	}
}

/* `left`: bytes of the datagram from the TCP header on. */
static __always_inline int slc_parse_tcp(struct slc_pkt *p, const void *pos, const void *end, __u32 left)
{
	const struct slc_tcp *tcp = pos;
	__u32 header;
	int kind;

	/* RFC 1858: a first fragment that leaves the flags to the second. */
	if (left < sizeof(*tcp))
		return p->more ? SLC_tiny_fragment : SLC_malformed;
	if ((const void *)(tcp + 1) > end)
		return SLC_unparseable;
	header = (tcp->doff >> 4) * 4;
	if (header < sizeof(*tcp))
		return SLC_malformed;
	if (header > left)
		return p->more ? SLC_tiny_fragment : SLC_malformed;
	p->dport = SLC_BE16(tcp->dport);
	kind = slc_tcp_kind(tcp->flags);
	if (kind != SLC_KIND_TCP) {
		p->sport = SLC_BE16(tcp->sport);
		p->seq = SLC_BE32(tcp->seq);
		p->payload = left - header;
	}
	return kind;
}

static __always_inline int slc_parse_udp(struct slc_pkt *p, const void *pos, const void *end, __u32 left)
{
	const struct slc_udp *udp = pos;
	__u32 len;

	if (left < sizeof(*udp))
		return SLC_malformed;
	if ((const void *)(udp + 1) > end)
		return SLC_unparseable;
	len = SLC_BE16(udp->len);
	if (len < sizeof(*udp) || (len > left && !p->more))
		return SLC_malformed;
	p->sport = SLC_BE16(udp->sport);
	p->dport = SLC_BE16(udp->dport);
	return SLC_KIND_UDP;
}

static __always_inline int slc_parse_l4(struct slc_pkt *p, const void *data, const void *pos, const void *end,
					__u32 left, __u8 proto)
{
	p->proto = proto;
	p->l4 = pos - data;
	if (proto == SLC_PROTO_TCP)
		return slc_parse_tcp(p, pos, end, left);
	if (proto == SLC_PROTO_UDP)
		return slc_parse_udp(p, pos, end, left);
	return SLC_l3_only;
}

/* `offset` in units of 8 bytes, not zero. */
static __always_inline int slc_fragment_kind(__u16 offset, __u8 proto)
{
	return proto == SLC_PROTO_TCP && offset == 1 ? SLC_tiny_fragment : SLC_fragment;
}

static __always_inline int slc_parse_ip4(struct slc_pkt *p, const void *data, const void *pos, const void *end)
{
	const struct slc_ip4 *ip = pos;
	__u32 header, total;
	__u16 fragment;

	if ((const void *)(ip + 1) > end || ip->version_ihl >> 4 != 4)
		return SLC_malformed;
	header = (ip->version_ihl & 15) * 4;
	total = SLC_BE16(ip->total);
	if (header < sizeof(*ip) || total < header)
		return SLC_malformed;
	slc_addresses4(p, ip);
	p->total = total;
	p->ip_options = header > sizeof(*ip);
	p->beyond = total > (__u64)(end - pos);
	fragment = SLC_BE16(ip->fragment);
	if (fragment & 0x1fff)
		return slc_fragment_kind(fragment & 0x1fff, ip->proto);
	p->more = !!(fragment & 0x2000);
	if (ip->proto == SLC_PROTO_ICMP)
		return SLC_icmp;
	return slc_parse_l4(p, data, pos + header, end, total - header, ip->proto);
}

static __always_inline int slc_parse_icmp6(const void *pos, const void *end, __u32 left, __u8 hop_limit)
{
	const __u8 *type = pos;

	if (left < 4)
		return SLC_malformed;
	if (pos + 4 > end)
		return SLC_unparseable;
	return *type >= 133 && *type <= 137 && hop_limit == 255 ? SLC_neighbour : SLC_icmp;
}

/* Known extension headers as a bit set: one branch for the verifier to follow instead of five. */
static __always_inline _Bool slc_ip6_extension(__u8 next)
{
	const __u64 known = 1ULL << SLC_PROTO_HOPOPTS | 1ULL << SLC_PROTO_ROUTING | 1ULL << SLC_PROTO_FRAGMENT |
			    1ULL << SLC_PROTO_AH | 1ULL << SLC_PROTO_DSTOPTS;

	return next < 64 && known >> next & 1;
}

/* Bytes of a header whose length field is `len`: 8 for a fragment header, words for AH, else units of 8. */
static __always_inline __u32 slc_ip6_ext_len(__u8 next, __u8 len)
{
	if (next == SLC_PROTO_FRAGMENT)
		return 8;
	return next == SLC_PROTO_AH ? (len + 2u) * 4 : (len + 1u) * 8;
}

static __always_inline int slc_parse_ip6(struct slc_pkt *p, const void *data, const void *pos, const void *end)
{
	const struct slc_ip6 *ip = pos;
	__u32 left, offset;
	__u8 next, hop_limit;

	if ((const void *)(ip + 1) > end || (SLC_BE32(ip->version_class_flow) >> 28) != 6)
		return SLC_malformed;
	left = SLC_BE16(ip->payload);
	next = ip->next;
	hop_limit = ip->hop_limit;
	p->v6 = 1;
	slc_addresses6(p, ip);
	if (!left) { /* a jumbogram's length is in its hop-by-hop option (RFC 2675) */
		if (next == SLC_PROTO_HOPOPTS)
			return SLC_unparseable;
		return next == SLC_PROTO_NONE ? SLC_l3_only : SLC_malformed;
	}
	p->total = left + sizeof(*ip);
	p->beyond = left + sizeof(*ip) > (__u64)(end - pos);
	offset = (const void *)(ip + 1) - data;
	for (int i = 0; i < SLC_MAX_EXTS; i++) {
		const struct slc_ip6_ext *ext = data + (offset & SLC_EXT_MASK);
		__u32 len;

		if (!slc_ip6_extension(next))
			break;
		if (left < sizeof(*ext))
			return SLC_malformed;
		if ((const void *)(ext + 1) > end)
			return SLC_unparseable;
		if (next == SLC_PROTO_FRAGMENT) {
			__u16 fragment = SLC_BE16(ext->fragment);

			if (fragment >> 3)
				return slc_fragment_kind(fragment >> 3, ext->next);
			p->more = fragment & 1;
		}
		len = slc_ip6_ext_len(next, ext->len);
		if (len > left)
			return SLC_malformed;
		left -= len;
		offset += len;
		next = ext->next;
	}
	if (slc_ip6_extension(next)) /* walked as deep as we go: its own outcome, never success */
		return SLC_unparseable;
	pos = data + (offset & SLC_EXT_MASK);
	if (next == SLC_PROTO_ICMPV6)
		return slc_parse_icmp6(pos, end, left, hop_limit);
	return slc_parse_l4(p, data, pos, end, left, next);
}

static __always_inline _Bool slc_vlan_type(__u16 type)
{
	return type == ETH_P_8021Q || type == ETH_P_8021AD || type == ETH_P_QINQ1;
}

/* `p` is zeroed by the caller. Returns an enum slc_kind or a final enum slc_reason. */
static __always_inline int slc_parse(struct slc_pkt *p, const void *data, const void *end)
{
	const struct ethhdr *eth = data;
	const void *pos = eth + 1;
	__u16 type;

	if (pos > end)
		return SLC_malformed;
	type = SLC_BE16(eth->h_proto);
	for (int i = 0; i < SLC_MAX_VLANS; i++) {
		const struct slc_vlan *tag = pos;

		if (!slc_vlan_type(type))
			break;
		if ((const void *)(tag + 1) > end)
			return SLC_malformed;
		if (!i)
			p->vlan = SLC_BE16(tag->tci) & 0xfff;
		type = SLC_BE16(tag->type);
		pos = tag + 1;
	}
	if (slc_vlan_type(type))
		return SLC_unparseable;
	p->l3 = pos - data;
	if (type == ETH_P_IP)
		return slc_parse_ip4(p, data, pos, end);
	if (type == ETH_P_IPV6)
		return slc_parse_ip6(p, data, pos, end);
	return type == ETH_P_ARP || type == ETH_P_RARP ? SLC_neighbour : SLC_not_ip;
}

/* Sources that no client can have: never state, never an answer. `daddr` equal to `saddr` is ours. */
static __always_inline _Bool slc_martian(const struct slc_pkt *p)
{
	const struct slc_addr *a = &p->saddr;
	__u8 first;

	if (a->half[0] == p->daddr.half[0] && a->half[1] == p->daddr.half[1])
		return 1;
	if (p->v6) {
		if (a->byte[0] == 0xff || slc_addr_is_v4(a))
			return 1;
		return a->half[0] == 0 && (a->half[1] == 0 || a->half[1] == __builtin_bswap64(1));
	}
	first = a->byte[12];
	return first == 0 || first == 127 || first >= 224;
}

#endif /* SLC_PARSE_H */
