/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * packet.h: frames from a recipe, for tables of one line per packet. A field left out has a sane default, and lengths
 * and checksums follow from the rest; AS(x) forces a length or offset field to x, right or wrong.
 *
 *	PACKET(.tag = {QINQ(100), VLAN(200)}, .tcp = SYN, .dport = 443)
 */
#ifndef TESTS_BPF_PACKET_H
#define TESTS_BPF_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PACKET_MAX 3900 /* one page less XDP's headroom: what a test run takes without fragments */
#define PACKET_TAGS 6
#define PACKET_EXTS 10
#define PACKET_BYTES 64

/* Documentation addresses (RFC 5737, RFC 3849). */
#define CLIENT4 "198.51.100.7"
#define SERVER4 "203.0.113.10"
#define CLIENT6 "2001:db8:1::7"
#define SERVER6 "2001:db8::10"

enum tcp_flag { FIN = 1, SYN = 2, RST = 4, PSH = 8, ACK = 16, URG = 32, ECE = 64, CWR = 128 };

/* A field that is derived unless AS() gives it. */
struct forced {
	bool set;
	uint32_t value;
};
#define AS(x)                             \
	{                                 \
		.set = true, .value = (x) \
	}

#define VLAN(vid) (0x81000000u | (vid))
#define QINQ(vid) (0x88a80000u | (vid))

enum link { LINK_IP4, LINK_IP6, LINK_ARP, LINK_OTHER };

/* An IPv6 extension header: `units` of 8 bytes beyond the first 8; AH counts otherwise and the builder knows it. */
struct ext {
	uint8_t type; /* IPPROTO_HOPOPTS and the like; 0 is hop-by-hop: `used` tells it from an empty slot */
	bool used;
	uint8_t units;
	struct forced length; /* the length byte as written */
	uint16_t fragment; /* IPPROTO_FRAGMENT: offset and M, as on the wire in host order */
	uint8_t reserved; /* IPPROTO_FRAGMENT: second byte */
	bool jumbo; /* IPPROTO_HOPOPTS: carries the jumbo payload option */
};
#define EXT(t, ...)                                      \
	{                                                \
		.type = (t), .used = true, ##__VA_ARGS__ \
	}

struct recipe {
	enum link link;
	uint32_t tag[PACKET_TAGS]; /* VLAN(), QINQ(): tpid << 16 | tci; zero ends the list */
	struct forced ethertype;
	const char *from, *to; /* addresses of the link's family */
	/* IPv4 */
	uint8_t options; /* bytes of options, a multiple of 4 */
	uint16_t option_ports[2]; /* what a parser with a fixed offset would take for ports */
	uint16_t fragment; /* the flags and offset field, host order; 0x4000 is DF */
	struct forced ihl, ip_length, ip_version;
	/* IPv6 */
	struct ext ext[PACKET_EXTS];
	uint8_t hop_limit; /* TTL too; 0: 64 */
	/* transport */
	uint8_t proto; /* 0: TCP */
	struct forced raw_proto; /* any, with `payload` as its body and no header of ours */
	uint16_t sport, dport; /* 0: 40000, 443 */
	uint8_t tcp; /* flags; 0 is SYN unless `null` */
	bool null; /* no flag at all */
	uint32_t seq, ack;
	struct forced doff;
	uint8_t tcp_options; /* bytes, a multiple of 4; starts with option_kind if set */
	uint8_t option_kind, option_length; /* 34: fast open; 30: MPTCP */
	uint8_t option_value; /* first byte after kind and length: the MPTCP subtype */
	uint8_t icmp_type;
	uint16_t payload;
	struct forced udp_length;
	uint32_t decoy; /* ports written over the first 4 payload bytes, sport << 16 | dport */
	/* frame */
	uint16_t trailing; /* bytes after the datagram */
	uint8_t trailing_byte;
	struct forced cut; /* frame ends after so many bytes */
};

struct packet {
	uint32_t length;
	uint16_t l3, l4; /* where the builder put them */
	uint8_t align[2]; /* so that the IP header is aligned, as drivers have it */
	uint8_t data[PACKET_MAX];
};

/* Aborts on a recipe that makes no sense: it is a fault of the test. */
struct packet packet_build(const struct recipe *recipe);
#define PACKET(...) packet_build(&(struct recipe){__VA_ARGS__})

/* An address as the program keys it: 16 bytes, IPv4 as ::ffff:a.b.c.d. */
void packet_address(const char *text, uint8_t ret_addr[16]);

/* Changes in place what storms vary, checksums kept right. */
void packet_set_source4(struct packet *packet, uint32_t addr);
void packet_set_source_port(struct packet *packet, uint16_t port);
void packet_set_seq(struct packet *packet, uint32_t seq);

/* 0 when the checksum of this IPv4 header, or of this TCP segment with its pseudo header, is right. */
uint16_t packet_check4(const uint8_t *ip4);
uint16_t packet_check_tcp(const uint8_t *ip, const uint8_t *tcp, uint16_t length);

#endif /* TESTS_BPF_PACKET_H */
