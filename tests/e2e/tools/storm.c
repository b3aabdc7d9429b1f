// SPDX-License-Identifier: GPL-2.0-only
/*
 * storm: connection attempts from many IPv4 sources through a packet socket. Plain, it only sends SYNs. With
 * --handshake it is a client per SYN: retransmits after 1 and 3 s, holds its ACK (which carries the request) back for
 * a round trip, and gives up after its patience. It runs in a namespace where none of its addresses is local, so the
 * kernel answers nothing for it. Bounded in rate and time.
 */
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include "tool.h"

#define BATCH 64
#define FRAME_MAX 128
#define FIRST_PORT 1024
#define PORTS 64000
#define CONNECTIONS_MAX 8000000
#define ANY_SOURCES 0 /* sources drawn anew for each SYN from all of IPv4 that can be a client */

static const char request[] = "GET / HTTP/1.0\r\n\r\n";

static struct {
	const char *dev, *mac, *to, *base;
	uint64_t sources, rate, seconds, rtt_ms, patience_ms, syn_copies;
	bool handshake, silent;
} options = {.base = "10.0.0.1", .sources = 3, .rate = 1000, .seconds = 6, .patience_ms = 1500, .syn_copies = 1};

static const struct flag flags[] = {
	{"dev", FLAG_TEXT, &options.dev, 0, 0, "NAME", "interface to send on"},
	{"mac", FLAG_TEXT, &options.mac, 0, 0, "MAC", "of the next hop"},
	{"to", FLAG_TEXT, &options.to, 0, 0, "ADDR:PORT", "the service, IPv4"},
	{"base", FLAG_TEXT, &options.base, 0, 0, "ADDR", "first source address"},
	{"sources", FLAG_COUNT, &options.sources, 0, 1 << 24, "N", "addresses from the base on; 0: all of IPv4"},
	{"rate", FLAG_COUNT, &options.rate, 1, 500000, "N", "new connections a second, over all sources"},
	{"seconds", FLAG_COUNT, &options.seconds, 1, 60, "N", "sends for so long"},
	{"handshake", FLAG_BOOL, &options.handshake, 0, 0, NULL, "be real clients"},
	{"silent", FLAG_BOOL, &options.silent, 0, 0, NULL, "with --handshake: connect, but send no request"},
	{"rtt-ms", FLAG_COUNT, &options.rtt_ms, 0, 2000, "N", "with --handshake: holds its packets back so long"},
	{"patience-ms", FLAG_COUNT, &options.patience_ms, 1, 30000, "N", "with --handshake: gives up after this"},
	{"syn-copies", FLAG_COUNT, &options.syn_copies, 1, 1000, "N", "sends each SYN so often, at once"},
	{0},
};

enum state { STATE_SYN_SENT, STATE_CONNECTED, STATE_ANSWERED, STATE_ENDED };

struct connection {
	uint64_t start_ns;
	uint32_t ack; /* next byte expected from the service */
	uint8_t state;
	bool acked; /* our ACK left */
};

struct due {
	uint64_t at_ns;
	uint32_t id;
};

static struct {
	uint64_t syns, retransmits, syn_acks, repeated_syn_acks, connected, served, served_in_window, failed, refused,
		reset, gave_up_syn;
	uint64_t gave_up_waiting, late_syn_acks, send_errors;
	struct samples served_ns, refused_ns, syn_ack_ns;
} stats;

static struct connection *connections;
static uint32_t connection_count, connection_room;
static struct due *acks; /* constant delay, so in order */
static uint32_t acks_head, acks_tail;
static uint32_t retransmit_1s, retransmit_3s, give_up; /* first connection not yet past that age */

static uint64_t window_end; /* no new connections from then on */
static int fd = -1;
static struct sockaddr_ll next_hop;
static union address service;
static uint32_t base; /* host order */
static uint8_t own_mac[ETH_ALEN];

static uint8_t frames[BATCH][FRAME_MAX];
static struct iovec frame_parts[BATCH];
static struct mmsghdr batch[BATCH];
static unsigned int batch_len;

/* --- frames ------------------------------------------------------------------------------------------------------ */

static void flush(void)
{
	unsigned int sent = 0;

	while (sent < batch_len) {
		int done = sendmmsg(fd, batch + sent, batch_len - sent, 0);

		if (done <= 0) {
			stats.send_errors += batch_len - sent; /* the device's queue is full */
			break;
		}
		sent += (unsigned int)done;
	}
	batch_len = 0;
}

static uint32_t sum16(const void *data, size_t len, uint32_t sum)
{
	const uint8_t *bytes = data;

	for (size_t i = 0; i + 1 < len; i += 2)
		sum += (uint32_t)(bytes[i] << 8 | bytes[i + 1]);
	if (len & 1)
		sum += (uint32_t)bytes[len - 1] << 8;
	return sum;
}

static uint16_t fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)~sum);
}

struct segment {
	uint32_t source; /* host order */
	uint16_t port;
	uint32_t seq, ack;
	uint8_t flags;
	const char *data;
	size_t len;
};

#define FIN 0x01
#define SYN 0x02
#define RST 0x04
#define ACK 0x10

static void fill_tcp(struct tcphdr *tcp, const struct iphdr *ip, const struct segment *segment, size_t options_len)
{
	static const uint8_t mss[4] = {2, 4, 0x05, 0xb4};
	uint16_t len = (uint16_t)(sizeof(*tcp) + options_len + segment->len);

	*tcp = (struct tcphdr){.source = htons(segment->port),
			       .dest = service.v4.sin_port,
			       .seq = htonl(segment->seq),
			       .ack_seq = htonl(segment->ack),
			       .doff = (sizeof(*tcp) + options_len) / 4,
			       .window = htons(65535)};
	((uint8_t *)tcp)[13] = segment->flags;
	memcpy(tcp + 1, mss, options_len);
	memcpy((uint8_t *)(tcp + 1) + options_len, segment->data, segment->len);
	tcp->check = fold(sum16(tcp, len, sum16(&ip->saddr, 8, IPPROTO_TCP + len)));
}

static void transmit(const struct segment *segment)
{
	uint8_t *frame = frames[batch_len];
	struct ethhdr *eth = (struct ethhdr *)frame;
	struct iphdr *ip = (struct iphdr *)(eth + 1);
	size_t options_len = segment->flags & SYN ? 4 : 0;
	size_t len = sizeof(*ip) + sizeof(struct tcphdr) + options_len + segment->len;

	memcpy(eth->h_dest, next_hop.sll_addr, ETH_ALEN);
	memcpy(eth->h_source, own_mac, ETH_ALEN);
	eth->h_proto = htons(ETH_P_IP);
	*ip = (struct iphdr){.version = 4,
			     .ihl = 5,
			     .tot_len = htons((uint16_t)len),
			     .frag_off = htons(IP_DF),
			     .ttl = 64,
			     .protocol = IPPROTO_TCP,
			     .saddr = htonl(segment->source),
			     .daddr = service.v4.sin_addr.s_addr};
	ip->check = fold(sum16(ip, sizeof(*ip), 0));
	fill_tcp((struct tcphdr *)(ip + 1), ip, segment, options_len);
	frame_parts[batch_len] = (struct iovec){.iov_base = frame, .iov_len = sizeof(*eth) + len};
	if (++batch_len == BATCH)
		flush();
}

/* --- connections: id -> source, port and sequence number, all computable ----------------------------------------- */

static uint32_t mix(uint32_t x)
{
	x = (x ^ x >> 16) * 0x7feb352dU;
	x = (x ^ x >> 15) * 0x846ca68bU;
	return x ^ x >> 16;
}

static uint32_t any_source(uint32_t id)
{
	uint32_t addr = mix(id ^ 0x9e3779b9U), first = addr >> 24;

	return first == 0 || first == 127 || first >= 224 ? addr % 0x60000000U + 0x01000000U : addr;
}

static struct segment segment_of(uint32_t id)
{
	struct segment segment = {.seq = mix(id), .data = "", .port = FIRST_PORT};

	if (options.sources == ANY_SOURCES) {
		segment.source = any_source(id);
		segment.port = (uint16_t)(FIRST_PORT + id % PORTS);
	} else {
		segment.source = base + id % (uint32_t)options.sources;
		segment.port = (uint16_t)(FIRST_PORT + id / options.sources % PORTS);
	}
	return segment;
}

/* The newest connection of this source and port; UINT32_MAX: none. */
static uint32_t id_of(uint32_t source, uint16_t port)
{
	uint64_t cycle = options.sources * PORTS, id;

	if (source < base || source - base >= options.sources || port < FIRST_PORT)
		return UINT32_MAX;
	id = (uint64_t)(port - FIRST_PORT) * options.sources + (source - base);
	if (id >= connection_count)
		return UINT32_MAX;
	return (uint32_t)(id + (connection_count - 1 - id) / cycle * cycle);
}

static void send_syn(uint32_t id)
{
	struct segment syn = segment_of(id);

	syn.flags = SYN;
	transmit(&syn);
}

static void start(uint64_t now)
{
	uint32_t id = connection_count++;

	if (options.handshake)
		connections[id] = (struct connection){.start_ns = now};
	for (uint64_t copy = 0; copy < options.syn_copies; copy++, stats.syns++)
		send_syn(id);
}

static void answer(uint32_t id, uint8_t tcp_flags, uint32_t sent, bool with_request)
{
	struct segment segment = segment_of(id);

	segment.seq += sent;
	segment.ack = connections[id].ack;
	segment.flags = tcp_flags;
	if (with_request) {
		segment.data = request;
		segment.len = sizeof(request) - 1;
	}
	transmit(&segment);
}

static uint32_t request_len(void)
{
	return options.silent ? 0 : sizeof(request) - 1;
}

static void on_syn_ack(uint32_t id, uint32_t seq, uint64_t now)
{
	struct connection *connection = &connections[id];

	if (connection->state == STATE_ENDED) { /* a client that gave up answers with RST */
		struct segment reset = segment_of(id);

		stats.late_syn_acks++;
		reset.seq++;
		reset.flags = RST;
		transmit(&reset);
		return;
	}
	if (connection->state != STATE_SYN_SENT) {
		stats.repeated_syn_acks++;
		if (!connection->acked)
			return;
		answer(id, ACK, 1, !options.silent); /* the service lost our ACK: say it again */
		return;
	}
	connection->state = STATE_CONNECTED;
	connection->ack = seq + 1;
	stats.syn_acks++;
	samples_add(&stats.syn_ack_ns, now - connection->start_ns);
	acks[acks_head++ % connection_room] = (struct due){now + options.rtt_ms * NS_PER_MS, id};
}

static void on_reset(uint32_t id, uint64_t now)
{
	struct connection *connection = &connections[id];

	if (connection->state == STATE_SYN_SENT) {
		stats.refused++;
		samples_add(&stats.refused_ns, now - connection->start_ns);
	} else if (connection->state == STATE_CONNECTED) {
		stats.reset++;
	}
	if (connection->state != STATE_ANSWERED)
		connection->state = STATE_ENDED;
}

/* "HTTP/1.x 200": anything else is an answer, but does not serve the client. */
static bool is_ok(const uint8_t *data, uint32_t len)
{
	return len >= 12 && !memcmp(data, "HTTP/1.", 7) && !memcmp(data + 8, " 200", 4);
}

static void on_data(uint32_t id, const uint8_t *data, uint32_t seq, uint32_t len, bool fin, uint64_t now)
{
	struct connection *connection = &connections[id];

	if (seq != connection->ack || (!len && !fin))
		return;
	connection->ack = seq + len + fin;
	if (len && connection->state == STATE_CONNECTED) {
		connection->state = STATE_ANSWERED;
		if (is_ok(data, len)) {
			stats.served++;
			stats.served_in_window += now < window_end;
			samples_add(&stats.served_ns, now - connection->start_ns);
		} else {
			stats.failed++;
		}
	} else if (len && connection->state == STATE_ENDED) {
		answer(id, RST, 1 + request_len(), false); /* nobody reads this any more */
		return;
	}
	answer(id, fin ? FIN | ACK : ACK, 1 + request_len(), false);
}

/* --- clocks: every kind of wait is constant, so a cursor over connections in order of start serves each ---------- */

static void retransmit_due(uint32_t *cursor, uint64_t age_ns, uint64_t now)
{
	while (*cursor < connection_count && now - connections[*cursor].start_ns >= age_ns) {
		uint32_t id = (*cursor)++;

		if (connections[id].state == STATE_SYN_SENT) {
			stats.retransmits++;
			send_syn(id);
		}
	}
}

static void client_gives_up(uint32_t id)
{
	struct connection *connection = &connections[id];

	if (connection->state == STATE_SYN_SENT)
		stats.gave_up_syn++;
	else if (connection->state == STATE_CONNECTED)
		stats.gave_up_waiting++;
	/* close(): the service still has the request */
	if (connection->state == STATE_CONNECTED && connection->acked)
		answer(id, FIN | ACK, 1 + request_len(), false);
	if (connection->state != STATE_ANSWERED)
		connection->state = STATE_ENDED;
}

static bool is_over(uint32_t id)
{
	return connections[id].state == STATE_ANSWERED || connections[id].state == STATE_ENDED;
}

static void give_up_due(uint64_t now)
{
	for (; give_up < connection_count; give_up++) {
		if (is_over(give_up))
			continue;
		if (now - connections[give_up].start_ns < options.patience_ms * NS_PER_MS)
			return;
		client_gives_up(give_up);
	}
}

static void acks_due(uint64_t now)
{
	for (; acks_tail != acks_head && acks[acks_tail % connection_room].at_ns <= now; acks_tail++) {
		uint32_t id = acks[acks_tail % connection_room].id;

		if (connections[id].state != STATE_CONNECTED)
			continue;
		connections[id].acked = true;
		stats.connected++;
		answer(id, ACK, 1, !options.silent);
	}
}

/* --- receiving ----------------------------------------------------------------------------------------------------- */

static void receive_frame(const uint8_t *frame, size_t len, uint64_t now)
{
	const struct iphdr *ip = (const struct iphdr *)(frame + sizeof(struct ethhdr));
	const struct tcphdr *tcp = (const struct tcphdr *)(ip + 1);
	uint32_t id, header, data;

	if (len < sizeof(struct ethhdr) + sizeof(*ip) + sizeof(*tcp) || ip->ihl != 5 || ip->protocol != IPPROTO_TCP ||
	    ip->saddr != service.v4.sin_addr.s_addr || tcp->source != service.v4.sin_port)
		return;
	id = id_of(ntohl(ip->daddr), ntohs(tcp->dest));
	if (id == UINT32_MAX)
		return;
	header = (uint32_t)sizeof(*ip) + tcp->doff * 4U;
	if (ntohs(ip->tot_len) < header || len < sizeof(struct ethhdr) + ntohs(ip->tot_len))
		return;
	data = ntohs(ip->tot_len) - header;
	if (tcp->rst)
		on_reset(id, now);
	else if (tcp->syn && tcp->ack && ntohl(tcp->ack_seq) == mix(id) + 1)
		on_syn_ack(id, ntohl(tcp->seq), now);
	else if (!tcp->syn && connections[id].acked)
		on_data(id, (const uint8_t *)ip + header, ntohl(tcp->seq), data, tcp->fin, now);
}

static void receive(void)
{
	static uint8_t buffers[BATCH][2048];
	static struct iovec parts[BATCH];
	static struct mmsghdr messages[BATCH];
	int got;

	do {
		uint64_t now;

		for (unsigned int i = 0; i < BATCH; i++) {
			parts[i] = (struct iovec){.iov_base = buffers[i], .iov_len = sizeof(buffers[i])};
			messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &parts[i], .msg_iovlen = 1}};
		}
		got = recvmmsg(fd, messages, BATCH, MSG_DONTWAIT, NULL);
		now = now_ns();
		for (int i = 0; i < got; i++)
			receive_frame(buffers[i], messages[i].msg_len, now);
	} while (got == BATCH);
}

/* --- run --------------------------------------------------------------------------------------------------------- */

static void open_socket(void)
{
	int protocol = options.handshake ? htons(ETH_P_IP) : 0; /* 0: receives nothing */
	int size = 32 << 20, on = 1;

	if (!options.dev || !options.mac)
		die("--dev and --mac are needed");
	fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, protocol);
	if (fd < 0)
		die("packet socket: %s", strerror(errno));
	next_hop = (struct sockaddr_ll){.sll_family = AF_PACKET,
					.sll_protocol = (uint16_t)protocol,
					.sll_ifindex = (int)if_nametoindex(options.dev),
					.sll_halen = ETH_ALEN};
	if (!next_hop.sll_ifindex || bind(fd, (struct sockaddr *)&next_hop, sizeof(next_hop)))
		die("interface %s: %s", options.dev, strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
	setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on));
	setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on));
	if (sscanf(options.mac, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &next_hop.sll_addr[0], &next_hop.sll_addr[1],
		   &next_hop.sll_addr[2], &next_hop.sll_addr[3], &next_hop.sll_addr[4], &next_hop.sll_addr[5]) != 6)
		die("--mac %s: give six bytes", options.mac);
	own_mac[0] = 0x02; /* locally administered; the gateway has permanent neighbours and never uses it */
}

static void make_room(void)
{
	uint64_t room = options.rate * options.seconds + 1000;

	if (!options.handshake)
		return;
	if (room > CONNECTIONS_MAX || options.sources == ANY_SOURCES)
		die("--handshake takes at most %d connections and needs --sources", CONNECTIONS_MAX);
	connection_room = (uint32_t)room;
	connections = calloc(room, sizeof(*connections));
	acks = calloc(room, sizeof(*acks));
	if (!connections || !acks)
		die("out of memory for %ju connections", (uintmax_t)room);
}

static void clients_due(uint64_t now)
{
	receive();
	acks_due(now);
	retransmit_due(&retransmit_1s, NS_PER_S, now);
	retransmit_due(&retransmit_3s, 3 * NS_PER_S, now);
	give_up_due(now);
}

/* After the last SYN the clients still wait for their answers, and after those a moment for the FINs. */
static bool is_running(uint64_t now)
{
	static uint64_t linger_until;

	if (now < window_end || (options.handshake && give_up < connection_count))
		linger_until = now + 50 * NS_PER_MS;
	return !tool_stopped && (now < window_end || (options.handshake && now < linger_until));
}

static void run(void)
{
	uint64_t begin = now_ns(), now;

	window_end = begin + options.seconds * NS_PER_S;
	while (is_running(now = now_ns())) {
		struct pollfd readable = {.fd = fd, .events = POLLIN};
		struct timespec nap = {.tv_nsec = 100000};
		uint64_t due = ((now < window_end ? now : window_end) - begin) * options.rate / NS_PER_S;

		for (unsigned int i = 0; i < 4 * BATCH && connection_count < due; i++)
			start(now);
		if (options.handshake)
			clients_due(now);
		flush();
		if (connection_count >= due)
			ppoll(&readable, options.handshake ? 1 : 0, &nap, NULL);
	}
}

static void print_stats(uint64_t took_ns)
{
	const struct {
		const char *name;
		uint64_t count;
	} counts[] = {
		{"attempts", connection_count},
		{"syns", stats.syns},
		{"retransmits", stats.retransmits},
		{"syn_acks", stats.syn_acks},
		{"repeated_syn_acks", stats.repeated_syn_acks},
		{"connected", stats.connected},
		{"served", stats.served},
		{"served_in_window", stats.served_in_window},
		{"failed", stats.failed},
		{"refused", stats.refused},
		{"reset", stats.reset},
		{"gave_up_connecting", stats.gave_up_syn},
		{"gave_up_waiting", stats.gave_up_waiting},
		{"late_syn_acks", stats.late_syn_acks},
		{"send_errors", stats.send_errors},
	};

	printf("{");
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		printf("\"%s\": %ju, ", counts[i].name, (uintmax_t)counts[i].count);
	printf("\"seconds\": %.2f, \"served_ms\": ", (double)took_ns / 1e9);
	samples_print(&stats.served_ns);
	printf(", \"syn_ack_ms\": ");
	samples_print(&stats.syn_ack_ns);
	printf(", \"refused_ms\": ");
	samples_print(&stats.refused_ns);
	puts("}");
}

int main(int argc, char **argv)
{
	uint64_t begin;
	union address first;

	flags_parse("connection attempts from many sources through a packet socket", flags, argc, argv);
	address_parse(options.to, &service);
	address_parse_host(options.base, 0, &first);
	if (service.any.sa_family != AF_INET || first.any.sa_family != AF_INET)
		die("--to and --base take IPv4 addresses");
	base = ntohl(first.v4.sin_addr.s_addr);
	tool_signals();
	open_socket();
	make_room();
	for (unsigned int i = 0; i < BATCH; i++)
		batch[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &frame_parts[i], .msg_iovlen = 1}};
	tool_ready();
	begin = now_ns();
	run();
	print_stats(now_ns() - begin);
	return 0;
}
