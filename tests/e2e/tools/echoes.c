// SPDX-License-Identifier: GPL-2.0-only
/*
 * echoes: long-lived streams to an echo service. Each sends an 8-byte sequence number at its rate and checks that
 * every number comes back once and in order. Any gap, reset, close or silence is a break; exit 1 if there was one.
 */
#include <poll.h>
#include <unistd.h>

#include "tool.h"

#define STREAMS_MAX 1000

static struct {
	const char *to, *from;
	uint64_t streams, rate, seconds, silence_ms;
} options = {.streams = 20, .rate = 50, .seconds = 6, .silence_ms = 5000};

static const struct flag flags[] = {
	{"to", FLAG_TEXT, &options.to, 0, 0, "ADDR:PORT", "the echo service"},
	{"from", FLAG_TEXT, &options.from, 0, 0, "ADDR", "first source address; the streams use successive ones"},
	{"streams", FLAG_COUNT, &options.streams, 1, STREAMS_MAX, "N", "connections"},
	{"rate", FLAG_COUNT, &options.rate, 1, 5000, "N", "messages a second on each"},
	{"seconds", FLAG_COUNT, &options.seconds, 1, 120, "N", "sends for so long"},
	{"silence-ms", FLAG_COUNT, &options.silence_ms, 10, 60000, "N", "an echo later than this is a break"},
	{0},
};

struct stream {
	int fd;
	uint64_t sent, echoed;
	uint64_t last_ns; /* of the last echo */
	uint8_t part[8]; /* of the number that is arriving */
	size_t part_len;
};

static struct stream streams[STREAMS_MAX];
static uint64_t resets, closes, gaps, silences, refused, longest_ns;

static void end_stream(struct stream *stream, uint64_t *why)
{
	++*why;
	close(stream->fd);
	stream->fd = -1;
}

static int open_stream(const union address *service, uint32_t index)
{
	union address base, from;
	int fd = socket(service->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		die("socket: %s", strerror(errno));
	if (options.from) {
		address_parse_host(options.from, 0, &base);
		from = address_add(&base, index);
		if (bind(fd, &from.any, address_len(&from)))
			die("bind: %s", strerror(errno));
	}
	if (connect(fd, &service->any, address_len(service))) {
		close(fd);
		return -errno;
	}
	return fd;
}

static void open_streams(const union address *service)
{
	for (uint32_t i = 0; i < options.streams; i++) {
		streams[i].fd = open_stream(service, i);
		streams[i].last_ns = now_ns();
		if (streams[i].fd < 0)
			refused++;
	}
}

static void check(struct stream *stream, const uint8_t *bytes, size_t len, uint64_t now)
{
	uint64_t number;

	for (size_t i = 0; i < len; i++) {
		stream->part[stream->part_len++] = bytes[i];
		if (stream->part_len < sizeof(number))
			continue;
		stream->part_len = 0;
		memcpy(&number, stream->part, sizeof(number));
		if (number != stream->echoed) {
			end_stream(stream, &gaps);
			return;
		}
		stream->echoed++;
	}
	if (now - stream->last_ns > longest_ns)
		longest_ns = now - stream->last_ns;
	stream->last_ns = now;
}

static void receive(struct stream *stream, uint64_t now)
{
	uint8_t buf[4096];
	ssize_t got = recv(stream->fd, buf, sizeof(buf), MSG_DONTWAIT);

	if (got > 0)
		check(stream, buf, (size_t)got, now);
	else if (got == 0)
		end_stream(stream, &closes);
	else if (errno != EAGAIN && errno != EINTR)
		end_stream(stream, &resets);
}

static void send_due(struct stream *stream, uint64_t due)
{
	while (stream->fd >= 0 && stream->sent < due) {
		ssize_t put = send(stream->fd, &stream->sent, sizeof(stream->sent), MSG_NOSIGNAL | MSG_DONTWAIT);

		if (put == (ssize_t)sizeof(stream->sent))
			stream->sent++;
		else if (put < 0 && errno == EAGAIN)
			return;
		else
			end_stream(stream, &resets);
	}
}

static void receive_all(void)
{
	struct pollfd waits[STREAMS_MAX];
	uint64_t now;

	for (uint64_t i = 0; i < options.streams; i++)
		waits[i] = (struct pollfd){.fd = streams[i].fd, .events = POLLIN};
	poll(waits, options.streams, 5);
	now = now_ns();
	for (uint64_t i = 0; i < options.streams; i++) {
		struct stream *stream = &streams[i];

		if (stream->fd >= 0 && waits[i].revents)
			receive(stream, now);
		if (stream->fd >= 0 && stream->echoed < stream->sent &&
		    now - stream->last_ns > options.silence_ms * NS_PER_MS)
			end_stream(stream, &silences);
	}
}

static bool all_echoed(void)
{
	for (uint64_t i = 0; i < options.streams; i++)
		if (streams[i].fd >= 0 && streams[i].echoed < streams[i].sent)
			return false;
	return true;
}

static void run(void)
{
	uint64_t start = now_ns(), end = start + options.seconds * NS_PER_S;

	while (!tool_stopped) {
		uint64_t now = now_ns(), sending_ns = (now < end ? now : end) - start;

		for (uint64_t i = 0; i < options.streams; i++)
			send_due(&streams[i], sending_ns * options.rate / NS_PER_S);
		if (now >= end && all_echoed())
			return;
		receive_all();
	}
}

int main(int argc, char **argv)
{
	uint64_t echoed = 0, breaks;
	union address service;

	flags_parse("long-lived, sequence-checked echo streams", flags, argc, argv);
	address_parse(options.to, &service);
	tool_signals();
	open_streams(&service);
	tool_ready();
	run();
	breaks = resets + closes + gaps + silences + refused;
	for (uint64_t i = 0; i < options.streams; i++)
		echoed += streams[i].echoed;
	printf("{\"streams\": %ju, \"echoed\": %ju, \"breaks\": %ju, \"resets\": %ju, \"closes\": %ju, \"gaps\": %ju, "
	       "\"silences\": %ju, \"refused\": %ju, \"longest_pause_ms\": %.1f}\n",
	       (uintmax_t)options.streams, (uintmax_t)echoed, (uintmax_t)breaks, (uintmax_t)resets, (uintmax_t)closes,
	       (uintmax_t)gaps, (uintmax_t)silences, (uintmax_t)refused, (double)longest_ns / 1e6);
	return breaks ? 1 : 0;
}
