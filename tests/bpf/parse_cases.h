/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * parse_cases.h: what the parser must make of each frame, one line a frame. The same rows run natively under
 * sanitizers (tests/unit/test_parse.c), as seeds of the fuzzer, and through XDP with and without a service on the
 * port (tests/bpf/test_parse_p.c).
 *
 * 443 is the service's port. Columns: case and what it is, kind, recipe. DATAGRAM_LIES marks frames that end before
 * their datagram: the parser reads on and says `beyond`, XDP, which knows the frame's length, says malformed.
 */
#ifndef TESTS_BPF_PARSE_CASES_H
#define TESTS_BPF_PARSE_CASES_H

#include <netinet/in.h>

#include "bpf/parse.h"
#include "tests/bpf/packet.h"

#define DATAGRAM_LIES 0x1000

struct parse_case {
	const char *name;
	int kind; /* enum slc_kind, or a final enum slc_reason; | DATAGRAM_LIES */
	struct recipe recipe;
};

#define CASE(text, what, ...)                                             \
	{                                                                 \
		.name = (text), .kind = (what), .recipe = { __VA_ARGS__ } \
	}
#define CASE6(text, what, ...) CASE(text, what, .link = LINK_IP6, ##__VA_ARGS__)
#define DST(...) EXT(IPPROTO_DSTOPTS, ##__VA_ARGS__)

/* One unit is 8 bytes; M is the lowest bit. */
#define FRAG6(offset, m) EXT(IPPROTO_FRAGMENT, .fragment = (offset) << 3 | (m))

static const struct parse_case PARSE_CASES[] = {
	/* VLAN tags */
	CASE("c01 no tag", SLC_KIND_SYN),
	CASE("c01 three tags 88a8 8100 8100", SLC_KIND_SYN, .tag = {QINQ(100), VLAN(200), VLAN(300)}),
	CASE("c01 8100 then 88a8", SLC_KIND_SYN, .tag = {VLAN(100), QINQ(200)}),
	CASE("c01 four tags", SLC_KIND_SYN, .tag = {QINQ(1), VLAN(2), VLAN(3), VLAN(4)}),
	CASE("c01 five tags", SLC_unparseable, .tag = {QINQ(1), VLAN(2), VLAN(3), VLAN(4), VLAN(5)}),
	CASE("c01 six tags", SLC_unparseable, .tag = {VLAN(1), VLAN(2), VLAN(3), VLAN(4), VLAN(5), VLAN(6)}),
	CASE("c01 tag 9100", SLC_KIND_SYN, .tag = {0x91000001u, VLAN(2)}),
	CASE("c01 priority tag, vid 0", SLC_KIND_SYN, .tag = {0x8100e000u}),
	CASE("c01 tag cut short", SLC_malformed, .tag = {VLAN(1)}, .cut = AS(16)),
	CASE("c02 tagged data", SLC_KIND_TCP, .tag = {VLAN(10)}, .tcp = ACK | PSH, .payload = 100),
	CASE6("c02 tagged IPv6", SLC_KIND_SYN, .tag = {VLAN(10)}),
	CASE("c04 source with unlike neighbours", SLC_KIND_SYN, .tag = {VLAN(10)}, .from = "192.0.2.33"),

	/* IPv4 options: the ports are where IHL says */
	CASE("c05 ihl 6, options spell 22", SLC_KIND_SYN, .options = 4, .option_ports = {40000, 22}),
	CASE("c05 ihl 7, options spell 22", SLC_KIND_SYN, .options = 8, .option_ports = {40000, 22}),
	CASE("c05 ihl 10, options spell 22", SLC_KIND_SYN, .options = 20, .option_ports = {40000, 22}),
	CASE("c05 ihl 15, options spell 22", SLC_KIND_SYN, .options = 40, .option_ports = {40000, 22}),
	CASE("c05 ihl 15, tagged", SLC_KIND_SYN, .options = 40, .option_ports = {40000, 22}, .tag = {VLAN(1)}),
	CASE("c05 ihl 4", SLC_malformed, .ihl = AS(4)),
	CASE("c05 ihl 0", SLC_malformed, .ihl = AS(0)),
	CASE("c05 ihl beyond the datagram", SLC_malformed, .ihl = AS(15), .ip_length = AS(40)),
	CASE("c05 ihl beyond frame and datagram", SLC_malformed, .ihl = AS(15), .cut = AS(54)),
	CASE("c05 version 6 in an IPv4 frame", SLC_malformed, .ip_version = AS(6)),
	CASE6("c05 version 4 in an IPv6 frame", SLC_malformed, .ip_version = AS(4)),

	/* fragments */
	CASE("c07 later fragment that decodes to a SYN", SLC_fragment, .fragment = 8),
	CASE("c07 last fragment far out", SLC_fragment, .fragment = 0x1fff),
	CASE("c07 offset of the highest bit alone", SLC_fragment, .fragment = 0x1000),
	CASE("c07 later fragment with MF", SLC_fragment, .fragment = 0x2008),
	CASE("c07 first fragment with 8 bytes of TCP", SLC_tiny_fragment, .fragment = 0x2000, .ip_length = AS(28),
	     .cut = AS(42)),
	CASE("c07 first fragment without the flags byte", SLC_tiny_fragment, .fragment = 0x2000, .ip_length = AS(33)),
	CASE("c07 first fragment with header but not its options", SLC_tiny_fragment, .fragment = 0x2000,
	     .tcp_options = 12, .ip_length = AS(40)),
	CASE("c07 first fragment with a whole header", SLC_KIND_SYN, .fragment = 0x2000),
	CASE("c07 fragment at 8 bytes hides flags", SLC_tiny_fragment, .fragment = 1),
	CASE("c07 UDP fragment at 8 bytes", SLC_fragment, .fragment = 1, .proto = IPPROTO_UDP),
	CASE("c07 UDP first fragment of a longer datagram", SLC_KIND_UDP, .fragment = 0x2000, .proto = IPPROTO_UDP,
	     .payload = 16, .udp_length = AS(2000)),
	CASE("c07 later fragment shorter than 8 bytes", SLC_fragment, .fragment = 100, .ip_length = AS(24)),
	CASE("c08 DF clear", SLC_KIND_SYN, .fragment = 0),
	CASE("c08 DF", SLC_KIND_SYN, .fragment = 0x4000),
	CASE("c08 reserved bit", SLC_KIND_SYN, .fragment = 0x8000),
	CASE("c08 reserved bit and DF, data", SLC_KIND_TCP, .fragment = 0xc000, .tcp = ACK, .payload = 5),
	CASE("c08 MF", SLC_KIND_TCP, .fragment = 0x2000, .tcp = ACK, .payload = 8),
	CASE("c08 offset 1", SLC_tiny_fragment, .fragment = 0x0001),

	/* IPv6 extension headers */
	CASE6("c11 plain", SLC_KIND_SYN),
	CASE6("c11 atomic fragment", SLC_KIND_SYN, .ext = {FRAG6(0, 0)}),
	CASE6("c11 first fragment, whole TCP header", SLC_KIND_SYN, .ext = {FRAG6(0, 1)}),
	CASE6("c11 later fragment", SLC_fragment, .ext = {FRAG6(10, 0)}),
	CASE6("c11 later fragment with M", SLC_fragment, .ext = {FRAG6(10, 1)}),
	CASE6("c11 fragment at 8 bytes", SLC_tiny_fragment, .ext = {FRAG6(1, 0)}),
	CASE6("c11 reserved byte is no length", SLC_KIND_SYN, .ext = {EXT(IPPROTO_FRAGMENT, .reserved = 0xff)}),
	CASE6("c11 first fragment with 8 bytes of TCP", SLC_tiny_fragment, .ext = {FRAG6(0, 1)}, .ip_length = AS(16)),
	CASE6("c11 later fragment behind options", SLC_fragment, .ext = {DST(), FRAG6(3, 0)}),
	CASE6("c11 options behind the fragment header", SLC_KIND_SYN, .ext = {FRAG6(0, 0), DST(.units = 1)}),
	CASE6("c11 hop-by-hop, routing, fragment, options", SLC_KIND_SYN,
	      .ext = {EXT(IPPROTO_HOPOPTS), EXT(IPPROTO_ROUTING), FRAG6(0, 0), DST()}),
	CASE6("c11 AH of 24 bytes counts in words", SLC_KIND_SYN, .ext = {EXT(IPPROTO_AH, .units = 2)}),
	CASE6("c11 ESP", SLC_l3_only, .raw_proto = AS(IPPROTO_ESP), .payload = 40),
	CASE6("c11 unknown next header", SLC_l3_only, .raw_proto = AS(200), .payload = 40),
	CASE6("c11 unknown behind options", SLC_l3_only, .ext = {DST()}, .raw_proto = AS(253), .payload = 8),
	CASE6("c11 no next header", SLC_l3_only, .raw_proto = AS(59), .payload = 8),
	CASE6("c11 no next header, nothing at all", SLC_l3_only, .raw_proto = AS(59)),
	CASE6("c11 options end the datagram", SLC_malformed, .ext = {DST()}, .ip_length = AS(8)),
	CASE6("c11 datagram ends inside a header", SLC_malformed, .ext = {DST()}, .ip_length = AS(6)),
	CASE6("c13 options of 256 bytes, decoy at a wrapped offset", SLC_KIND_SYN, .ext = {DST(.units = 31)}),
	CASE6("c13 options of 2048 bytes", SLC_KIND_SYN, .ext = {DST(.units = 255)}),
	CASE6("c13 length 255 with 8 bytes there", SLC_malformed, .ext = {DST(.length = AS(255))}),
	CASE6("c13 length 31 with 8 bytes there", SLC_malformed, .ext = {DST(.length = AS(31))}),
	CASE6("c13 AH length 255 with 8 bytes there", SLC_malformed, .ext = {EXT(IPPROTO_AH, .length = AS(255))}),
	CASE6("c14 eight headers", SLC_KIND_SYN, .ext = {DST(), DST(), DST(), DST(), DST(), DST(), DST(), DST()}),
	CASE6("c14 nine headers", SLC_unparseable,
	      .ext = {DST(), DST(), DST(), DST(), DST(), DST(), DST(), DST(), DST()}),
	CASE6("c14 ten headers of several kinds", SLC_unparseable,
	      .ext = {EXT(IPPROTO_HOPOPTS), DST(), EXT(IPPROTO_ROUTING), DST(), DST(), DST(), DST(), DST(), DST(),
		      FRAG6(0, 0)}),

	/* the datagram's end is not the frame's */
	CASE("c16 SYN padded with zeros", SLC_KIND_SYN, .trailing = 6),
	CASE("c16 SYN padded with rubbish", SLC_KIND_SYN, .trailing = 6, .trailing_byte = 0xff),
	CASE("c16 200 bytes behind", SLC_KIND_SYN, .trailing = 200, .trailing_byte = 0x12),
	CASE6("c16 IPv6 with bytes behind", SLC_KIND_SYN, .trailing = 40, .trailing_byte = 6),
	CASE("c16 ACK padded", SLC_KIND_TCP, .tcp = ACK, .trailing = 6),
	CASE("c17 total length 0", SLC_malformed, .ip_length = AS(0), .payload = 3000),
	CASE("c17 total length 19", SLC_malformed, .ip_length = AS(19)),
	CASE("c17 total length is the header alone", SLC_malformed, .ip_length = AS(20)),
	CASE("c17 total length beyond the frame", SLC_KIND_SYN | DATAGRAM_LIES, .ip_length = AS(41)),
	CASE("c17 total length 65535", SLC_KIND_SYN | DATAGRAM_LIES, .ip_length = AS(65535)),
	CASE("c17 data, total length beyond the frame", SLC_KIND_TCP | DATAGRAM_LIES, .tcp = ACK,
	     .ip_length = AS(1500)),
	CASE("c17 UDP beyond the frame", SLC_KIND_UDP | DATAGRAM_LIES, .proto = IPPROTO_UDP, .ip_length = AS(100)),
	CASE("c17 ICMP beyond the frame", SLC_icmp | DATAGRAM_LIES, .proto = IPPROTO_ICMP, .ip_length = AS(100)),
	CASE6("c17 payload length 0 with TCP", SLC_malformed, .ip_length = AS(0)),
	CASE6("c17 jumbogram", SLC_unparseable, .ext = {EXT(IPPROTO_HOPOPTS, .jumbo = true)}, .ip_length = AS(0)),
	CASE6("c17 payload length 19 with TCP", SLC_malformed, .ip_length = AS(19)),
	CASE6("c17 payload length beyond the frame", SLC_KIND_SYN | DATAGRAM_LIES, .ip_length = AS(21)),
	CASE6("c17 payload length 65535", SLC_KIND_SYN | DATAGRAM_LIES, .ip_length = AS(65535)),

	/* neighbour and control protocols */
	CASE("c20 ARP request", SLC_neighbour, .link = LINK_ARP),
	CASE("c20 ARP in a VLAN", SLC_neighbour, .link = LINK_ARP, .tag = {VLAN(7)}),
	CASE("c20 RARP", SLC_neighbour, .link = LINK_ARP, .ethertype = AS(0x8035)),
	CASE6("c20 router solicitation", SLC_neighbour, .proto = IPPROTO_ICMPV6, .icmp_type = 133, .hop_limit = 255),
	CASE6("c20 router advertisement", SLC_neighbour, .proto = IPPROTO_ICMPV6, .icmp_type = 134, .hop_limit = 255),
	CASE6("c20 neighbour solicitation", SLC_neighbour, .proto = IPPROTO_ICMPV6, .icmp_type = 135, .hop_limit = 255),
	CASE6("c20 neighbour advertisement", SLC_neighbour, .proto = IPPROTO_ICMPV6, .icmp_type = 136,
	      .hop_limit = 255),
	CASE6("c20 redirect", SLC_neighbour, .proto = IPPROTO_ICMPV6, .icmp_type = 137, .hop_limit = 255),
	CASE6("c20 solicitation that was routed", SLC_icmp, .proto = IPPROTO_ICMPV6, .icmp_type = 135, .hop_limit = 64),
	CASE6("c20 packet too big", SLC_icmp, .proto = IPPROTO_ICMPV6, .icmp_type = 2, .payload = 48),
	CASE6("c20 echo behind options", SLC_icmp, .proto = IPPROTO_ICMPV6, .icmp_type = 128, .ext = {DST()}),
	CASE6("c20 multicast listener report", SLC_icmp, .proto = IPPROTO_ICMPV6, .icmp_type = 143, .hop_limit = 1,
	      .ext = {EXT(IPPROTO_HOPOPTS)}),
	CASE6("c20 ICMPv6 of 2 bytes", SLC_malformed, .proto = IPPROTO_ICMPV6, .icmp_type = 135, .ip_length = AS(2)),
	CASE("c20 fragmentation needed", SLC_icmp, .proto = IPPROTO_ICMP, .icmp_type = 3, .payload = 28),
	CASE("c20 echo request", SLC_icmp, .proto = IPPROTO_ICMP, .icmp_type = 8, .payload = 56),
	CASE("c20 LLDP", SLC_not_ip, .link = LINK_OTHER, .payload = 46),
	CASE("c20 MPLS", SLC_not_ip, .link = LINK_OTHER, .ethertype = AS(0x8847), .payload = 46),
	CASE("c20 802.3 length instead of a type", SLC_not_ip, .link = LINK_OTHER, .ethertype = AS(46), .payload = 46),

	/* TCP headers that are not all there */
	CASE("c22 13 bytes of TCP, the rest is padding", SLC_malformed, .ip_length = AS(33), .trailing = 6),
	CASE("c22 19 bytes of TCP", SLC_malformed, .ip_length = AS(39)),
	CASE("c22 19 bytes of TCP and nothing behind", SLC_malformed, .ip_length = AS(39), .cut = AS(53)),
	CASE("c22 doff 0", SLC_malformed, .doff = AS(0)),
	CASE("c22 doff 4", SLC_malformed, .doff = AS(4)),
	CASE("c22 doff beyond the datagram", SLC_malformed, .doff = AS(6)),
	CASE("c22 doff beyond the datagram, bytes are in the frame", SLC_malformed, .doff = AS(15), .trailing = 60),
	CASE("c22 doff 15, whole", SLC_KIND_SYN, .tcp_options = 40),
	CASE("c22 frame ends in the TCP header", SLC_malformed | DATAGRAM_LIES, .cut = AS(14 + 20 + 13)),
	CASE("c22 frame ends in the IPv4 header", SLC_malformed, .cut = AS(14 + 19)),
	CASE("c22 Ethernet header alone", SLC_malformed, .cut = AS(14)),
	CASE6("c22 frame ends in the IPv6 header", SLC_malformed, .cut = AS(14 + 39)),
	CASE6("c22 doff 4 over IPv6", SLC_malformed, .doff = AS(4)),
	CASE("c22 UDP length 7", SLC_malformed, .proto = IPPROTO_UDP, .udp_length = AS(7)),
	CASE("c22 UDP length beyond the datagram", SLC_malformed, .proto = IPPROTO_UDP, .udp_length = AS(9),
	     .trailing = 20),
	CASE("c22 UDP of 4 bytes", SLC_malformed, .proto = IPPROTO_UDP, .ip_length = AS(24)),
	CASE("c22 UDP", SLC_KIND_UDP, .proto = IPPROTO_UDP, .payload = 20),
	CASE6("c22 UDP over IPv6", SLC_KIND_UDP, .proto = IPPROTO_UDP, .payload = 20),

	/* tunnels: the outer header is all we read */
	CASE("c25 IPIP", SLC_l3_only, .raw_proto = AS(4), .payload = 60),
	CASE("c25 GRE", SLC_l3_only, .raw_proto = AS(47), .payload = 60),
	CASE("c25 ESP", SLC_l3_only, .raw_proto = AS(50), .payload = 60),
	CASE("c25 6in4", SLC_l3_only, .raw_proto = AS(41), .payload = 60),
	CASE("c25 SCTP", SLC_l3_only, .raw_proto = AS(132), .payload = 60),
	CASE6("c25 IPv6 in IPv6", SLC_l3_only, .raw_proto = AS(41), .payload = 60),
	CASE6("c25 GRE behind options", SLC_l3_only, .ext = {DST()}, .raw_proto = AS(47), .payload = 60),
	CASE("c25 ICMPv6's number over IPv4", SLC_l3_only, .raw_proto = AS(58), .payload = 60),
	CASE6("c25 ICMPv4's number over IPv6", SLC_l3_only, .raw_proto = AS(1), .payload = 60),

	/* a SYN may carry data, options of any kind */
	CASE("c73 SYN with data and fast-open cookie", SLC_KIND_SYN, .payload = 200, .tcp_options = 12,
	     .option_kind = 34, .option_length = 10),
	CASE("c73 SYN asking for a cookie", SLC_KIND_SYN, .tcp_options = 4, .option_kind = 34, .option_length = 2),
	CASE("c74 MPTCP capable", SLC_KIND_SYN, .tcp_options = 12, .option_kind = 30, .option_length = 4),
	CASE("c74 MPTCP join", SLC_KIND_SYN, .tcp_options = 12, .option_kind = 30, .option_length = 12,
	     .option_value = 0x10),
};

#define PARSE_CASE_COUNT (sizeof(PARSE_CASES) / sizeof(*PARSE_CASES))

/* The partition of c19, written out by hand rather than computed like the program does. */
static inline int flags_kind(uint8_t flags)
{
	static const int by_fsr[2][8] = {
		/* index RST SYN FIN; first row without ACK, second with */
		{SLC_KIND_ODD, SLC_KIND_ODD, SLC_KIND_SYN, SLC_KIND_ODD, SLC_KIND_TCP, SLC_KIND_ODD, SLC_KIND_ODD,
		 SLC_KIND_ODD},
		{SLC_KIND_TCP, SLC_KIND_TCP, SLC_KIND_TCP, SLC_KIND_ODD, SLC_KIND_TCP, SLC_KIND_ODD, SLC_KIND_ODD,
		 SLC_KIND_ODD},
	};

	return by_fsr[!!(flags & ACK)][flags & 7];
}

#endif /* TESTS_BPF_PARSE_CASES_H */
