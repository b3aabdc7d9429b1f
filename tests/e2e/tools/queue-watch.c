// SPDX-License-Identifier: GPL-2.0-only
/*
 * queue-watch: samples the accept queues of the listeners on one port by sock_diag and prints the highest and mean
 * occupancy of the fullest one. It reads what the kernel says, independent of anything sluice measures.
 */
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include "tool.h"

#define STATE_LISTEN 10 /* TCP_LISTEN: the uapi has no name for it outside netinet/tcp.h's enum */
_Static_assert(STATE_LISTEN == TCP_LISTEN, "state number");

static struct {
	uint64_t port, interval_ms, seconds;
} options = {.port = 80, .interval_ms = 2, .seconds = 60};

static const struct flag flags[] = {
	{"port", FLAG_COUNT, &options.port, 1, 65535, "N", "local port of the listeners"},
	{"interval-ms", FLAG_COUNT, &options.interval_ms, 1, 1000, "N", "time between samples"},
	{"seconds", FLAG_COUNT, &options.seconds, 1, 600, "N", "ends by itself after this"},
	{0},
};

/* One look at all listeners on the port. */
struct look {
	uint32_t length, limit; /* of the fullest one */
	uint32_t listeners;
};

static int send_request(int fd, uint8_t family)
{
	struct {
		struct nlmsghdr header;
		struct inet_diag_req_v2 request;
	} message = {
		.header = {.nlmsg_len = sizeof(message),
			   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			   .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		.request = {.sdiag_family = family,
			    .sdiag_protocol = IPPROTO_TCP,
			    .idiag_states = 1U << STATE_LISTEN,
			    .id.idiag_sport = htons((uint16_t)options.port)},
	};

	return send(fd, &message, sizeof(message), 0) < 0 ? -errno : 0;
}

static void look_at(const struct inet_diag_msg *socket, struct look *look)
{
	if (socket->idiag_state != STATE_LISTEN || ntohs(socket->id.idiag_sport) != options.port)
		return;
	look->listeners++;
	if (look->listeners == 1 || socket->idiag_rqueue > look->length) {
		look->length = socket->idiag_rqueue;
		look->limit = socket->idiag_wqueue;
	}
}

/* Reads one dump to its end. */
static int read_answer(int fd, struct look *look)
{
	static char buf[65536];

	for (;;) {
		ssize_t got = recv(fd, buf, sizeof(buf), 0);

		if (got < 0)
			return -errno;
		for (struct nlmsghdr *header = (struct nlmsghdr *)buf; NLMSG_OK(header, (size_t)got);
		     header = NLMSG_NEXT(header, got)) {
			if (header->nlmsg_type == NLMSG_DONE)
				return 0;
			if (header->nlmsg_type == NLMSG_ERROR)
				return -EIO;
			look_at(NLMSG_DATA(header), look);
		}
	}
}

static int take_look(int fd, struct look *ret_look)
{
	static const uint8_t families[] = {AF_INET, AF_INET6};
	struct look look = {0};

	for (size_t i = 0; i < 2; i++) {
		int err = send_request(fd, families[i]);

		if (!err)
			err = read_answer(fd, &look);
		if (err)
			return err;
	}
	*ret_look = look;
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t end_ns, samples = 0, sum = 0, missing = 0, empty = 0;
	struct look highest = {0};
	int fd;

	flags_parse("highest and mean occupancy of accept queues", flags, argc, argv);
	tool_signals();
	fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (fd < 0)
		die("netlink socket: %s", strerror(errno));
	end_ns = now_ns() + options.seconds * NS_PER_S;
	tool_ready();
	for (; !tool_stopped && now_ns() < end_ns; poll(NULL, 0, (int)options.interval_ms)) {
		struct look look;
		int err = take_look(fd, &look);

		if (err == -EINTR)
			continue;
		if (err)
			die("sock_diag: %s", strerror(-err));
		samples++;
		missing += !look.listeners;
		empty += !look.length;
		sum += look.length;
		if (look.listeners && look.length >= highest.length)
			highest = look;
	}
	printf("{\"samples\": %ju, \"max\": %u, \"limit\": %u, \"listeners\": %u, \"mean\": %.1f, \"empty\": %ju, "
	       "\"missing\": %ju}\n",
	       (uintmax_t)samples, highest.length, highest.limit, highest.listeners,
	       samples ? (double)sum / (double)samples : 0.0, (uintmax_t)empty, (uintmax_t)missing);
	close(fd);
	return 0;
}
