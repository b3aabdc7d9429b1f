// SPDX-License-Identifier: GPL-2.0-only
#include <arpa/inet.h>
#include <linux/icmpv6.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "packet.h"

static const uint8_t MACS[12] = {0x02, 0, 0, 0, 0, 0x10, 0x02, 0, 0, 0, 0, 0x07};

static void die(const char *what)
{
	fprintf(stderr, "packet: %s\n", what);
	abort();
}

static void put(struct packet *p, const void *bytes, size_t n)
{
	if (p->length + n > PACKET_MAX)
		die("recipe is longer than PACKET_MAX");
	memcpy(p->data + p->length, bytes, n);
	p->length += n;
}

static void put_fill(struct packet *p, uint8_t byte, size_t n)
{
	if (p->length + n > PACKET_MAX)
		die("recipe is longer than PACKET_MAX");
	memset(p->data + p->length, byte, n);
	p->length += n;
}

static void put8(struct packet *p, uint8_t v)
{
	put(p, &v, 1);
}

static void put16(struct packet *p, uint16_t v)
{
	put(p, &(uint16_t){htons(v)}, 2);
}

static void put32(struct packet *p, uint32_t v)
{
	put(p, &(uint32_t){htonl(v)}, 4);
}

static void set16(uint8_t *at, uint16_t v)
{
	at[0] = v >> 8;
	at[1] = v;
}

static uint16_t get16(const uint8_t *at)
{
	return at[0] << 8 | at[1];
}

static uint32_t pick(struct forced f, uint32_t derived)
{
	return f.set ? f.value : derived;
}

static uint32_t sum16(const uint8_t *bytes, size_t n, uint32_t sum)
{
	for (size_t i = 0; i + 1 < n; i += 2)
		sum += get16(bytes + i);
	if (n & 1)
		sum += bytes[n - 1] << 8;
	return sum;
}

static uint16_t fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static bool is_ip4(const uint8_t *ip)
{
	return ip[0] >> 4 == 4;
}

static uint16_t check_transport(const uint8_t *ip, const uint8_t *l4, uint16_t length, uint8_t proto)
{
	uint32_t sum = is_ip4(ip) ? sum16(ip + 12, 8, 0) : sum16(ip + 8, 32, 0);

	return fold(sum16(l4, length, sum + proto + length));
}

uint16_t packet_check4(const uint8_t *ip4)
{
	return fold(sum16(ip4, (ip4[0] & 15) * 4, 0));
}

uint16_t packet_check_tcp(const uint8_t *ip, const uint8_t *tcp, uint16_t length)
{
	return check_transport(ip, tcp, length, IPPROTO_TCP);
}

void packet_address(const char *text, uint8_t ret_addr[16])
{
	uint8_t addr[16] = {[10] = 0xff, [11] = 0xff};

	if (strchr(text, ':') ? inet_pton(AF_INET6, text, addr) != 1 : inet_pton(AF_INET, text, addr + 12) != 1)
		die(text);
	memcpy(ret_addr, addr, 16);
}

/* --- transport ------------------------------------------------------------------------------------------------ */

static uint8_t transport(const struct recipe *r)
{
	if (r->raw_proto.set)
		return r->raw_proto.value;
	return r->proto ? r->proto : IPPROTO_TCP;
}

static void put_payload(struct packet *p, const struct recipe *r)
{
	uint32_t start = p->length;

	put_fill(p, 0x5a, r->payload);
	if (r->decoy) {
		if (r->payload < 4)
			die("a decoy needs 4 bytes of payload");
		memcpy(p->data + start, &(uint32_t){htonl(r->decoy)}, 4);
	}
}

static void put_tcp(struct packet *p, const struct recipe *r)
{
	uint8_t flags = r->null ? 0 : r->tcp ? r->tcp : SYN;

	put16(p, r->sport ? r->sport : 40000);
	put16(p, r->dport ? r->dport : 443);
	put32(p, r->seq);
	put32(p, r->ack);
	put8(p, pick(r->doff, 5 + r->tcp_options / 4) << 4);
	put8(p, flags);
	put16(p, 64240);
	put32(p, 0); /* checksum, urgent pointer */
	if (r->option_kind) {
		put8(p, r->option_kind);
		put8(p, r->option_length);
		put8(p, r->option_value);
		put_fill(p, 1, r->tcp_options - 3);
	} else {
		put_fill(p, 1, r->tcp_options); /* NOP */
	}
	put_payload(p, r);
}

static void put_udp(struct packet *p, const struct recipe *r)
{
	put16(p, r->sport ? r->sport : 40000);
	put16(p, r->dport ? r->dport : 443);
	put16(p, pick(r->udp_length, 8 + r->payload));
	put16(p, 0);
	put_payload(p, r);
}

static void put_icmp(struct packet *p, const struct recipe *r)
{
	put8(p, r->icmp_type);
	put_fill(p, 0, 7);
	put_payload(p, r);
}

static void put_transport(struct packet *p, const struct recipe *r)
{
	static const uint8_t checksum_at[256] = {
		[IPPROTO_TCP] = 16, [IPPROTO_UDP] = 6, [IPPROTO_ICMP] = 2, [IPPROTO_ICMPV6] = 2};
	uint8_t proto = transport(r);
	uint8_t *ip = p->data + p->l3, *l4;
	uint16_t check;

	p->l4 = p->length;
	if (r->raw_proto.set)
		put_payload(p, r);
	else if (proto == IPPROTO_TCP)
		put_tcp(p, r);
	else if (proto == IPPROTO_UDP)
		put_udp(p, r);
	else if (proto == IPPROTO_ICMP || proto == IPPROTO_ICMPV6)
		put_icmp(p, r);
	else
		die("proto without a builder: use raw_proto");
	if (r->raw_proto.set)
		return;
	l4 = p->data + p->l4;
	check = proto == IPPROTO_ICMP ? fold(sum16(l4, p->length - p->l4, 0))
				      : check_transport(ip, l4, p->length - p->l4, proto);
	set16(l4 + checksum_at[proto], check);
}

/* --- network -------------------------------------------------------------------------------------------------- */

static void put_options4(struct packet *p, const struct recipe *r)
{
	uint32_t start = p->length;

	put_fill(p, 1, r->options); /* NOP */
	if (r->option_ports[0] || r->option_ports[1]) {
		set16(p->data + start, r->option_ports[0]);
		set16(p->data + start + 2, r->option_ports[1]);
	}
}

static void put_ip4(struct packet *p, const struct recipe *r)
{
	uint8_t addr[16], *ip;

	p->l3 = p->length;
	put8(p, pick(r->ip_version, 4) << 4 | pick(r->ihl, 5 + r->options / 4));
	put8(p, 0);
	put16(p, 0); /* length */
	put16(p, 0x1234);
	put16(p, r->fragment);
	put8(p, r->hop_limit ? r->hop_limit : 64);
	put8(p, transport(r));
	put16(p, 0); /* checksum */
	packet_address(r->from ? r->from : CLIENT4, addr);
	put(p, addr + 12, 4);
	packet_address(r->to ? r->to : SERVER4, addr);
	put(p, addr + 12, 4);
	put_options4(p, r);
	put_transport(p, r);
	ip = p->data + p->l3;
	set16(ip + 2, pick(r->ip_length, p->length - p->l3));
	if ((ip[0] & 15) * 4u <= p->length - p->l3)
		set16(ip + 10, packet_check4(ip));
}

static void put_ext(struct packet *p, const struct ext *e, uint8_t next)
{
	uint32_t start = p->length;
	/* AH: payload length is in 4-byte words less 2. */
	uint8_t length = e->type == IPPROTO_AH ? e->units * 2 : e->units;

	put8(p, next);
	if (e->type == IPPROTO_FRAGMENT) {
		put8(p, e->reserved);
		put16(p, e->fragment);
		put32(p, 0x12345678);
		return;
	}
	put8(p, pick(e->length, length));
	if (e->jumbo) {
		put16(p, 0xc204); /* jumbo payload, 4 bytes */
		put32(p, 70000);
	}
	put_fill(p, 0, start + 8 + e->units * 8 - p->length); /* Pad1 */
}

static void put_ip6(struct packet *p, const struct recipe *r)
{
	uint8_t addr[16];
	size_t n = 0;

	while (n < PACKET_EXTS && r->ext[n].used)
		n++;
	p->l3 = p->length;
	put32(p, pick(r->ip_version, 6) << 28);
	put16(p, 0); /* payload length */
	put8(p, n ? r->ext[0].type : transport(r));
	put8(p, r->hop_limit ? r->hop_limit : 64);
	packet_address(r->from ? r->from : CLIENT6, addr);
	put(p, addr, 16);
	packet_address(r->to ? r->to : SERVER6, addr);
	put(p, addr, 16);
	for (size_t i = 0; i < n; i++)
		put_ext(p, &r->ext[i], i + 1 < n ? r->ext[i + 1].type : transport(r));
	put_transport(p, r);
	set16(p->data + p->l3 + 4, pick(r->ip_length, p->length - p->l3 - 40));
}

static void put_arp(struct packet *p, const struct recipe *r)
{
	uint8_t addr[16];

	p->l3 = p->l4 = p->length;
	put16(p, 1);
	put16(p, ETH_P_IP);
	put16(p, 0x0604);
	put16(p, 1); /* request */
	put(p, MACS + 6, 6);
	packet_address(r->from ? r->from : CLIENT4, addr);
	put(p, addr + 12, 4);
	put_fill(p, 0, 6);
	packet_address(r->to ? r->to : SERVER4, addr);
	put(p, addr + 12, 4);
}

static void put_other(struct packet *p, const struct recipe *r)
{
	p->l3 = p->l4 = p->length;
	put_payload(p, r);
}

static const struct {
	uint16_t ethertype;
	void (*put)(struct packet *p, const struct recipe *r);
} LINKS[] = {
	[LINK_IP4] = {ETH_P_IP, put_ip4},
	[LINK_IP6] = {ETH_P_IPV6, put_ip6},
	[LINK_ARP] = {ETH_P_ARP, put_arp},
	[LINK_OTHER] = {0x88cc, put_other}, /* LLDP */
};

struct packet packet_build(const struct recipe *r)
{
	struct packet p = {.length = 0};

	put(&p, MACS, sizeof(MACS));
	for (size_t i = 0; i < PACKET_TAGS && r->tag[i]; i++)
		put32(&p, r->tag[i]);
	put16(&p, pick(r->ethertype, LINKS[r->link].ethertype));
	LINKS[r->link].put(&p, r);
	put_fill(&p, r->trailing_byte, r->trailing);
	if (r->cut.set && r->cut.value < p.length)
		p.length = r->cut.value;
	return p;
}

/* --- variation ------------------------------------------------------------------------------------------------- */

/* RFC 1624: the checksum at `check` after the 16-bit field at `at` becomes v. */
static void patch16(uint8_t *check, uint8_t *at, uint16_t v)
{
	uint32_t sum = (uint16_t)~get16(check) + (uint16_t)~get16(at) + v;

	set16(check, fold(sum));
	set16(at, v);
}

void packet_set_source4(struct packet *p, uint32_t addr)
{
	uint8_t *ip = p->data + p->l3, *check = p->data + p->l4 + (ip[9] == IPPROTO_TCP ? 16 : 6);
	uint16_t half[2] = {addr >> 16, addr};

	for (int i = 0; i < 2; i++) {
		uint8_t *at = ip + 12 + 2 * i;
		uint16_t old = get16(at);

		patch16(ip + 10, at, half[i]);
		set16(at, old);
		patch16(check, at, half[i]);
	}
}

void packet_set_source_port(struct packet *p, uint16_t port)
{
	const uint8_t *ip = p->data + p->l3;
	uint8_t proto = is_ip4(ip) ? ip[9] : ip[6];
	uint8_t *l4 = p->data + p->l4;

	patch16(l4 + (proto == IPPROTO_TCP ? 16 : 6), l4, port);
}

void packet_set_seq(struct packet *p, uint32_t seq)
{
	uint8_t *l4 = p->data + p->l4;

	patch16(l4 + 16, l4 + 4, seq >> 16);
	patch16(l4 + 16, l4 + 6, seq);
}
