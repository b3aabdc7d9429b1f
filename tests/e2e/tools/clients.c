// SPDX-License-Identifier: GPL-2.0-only
/*
 * clients: good clients with real sockets. Each group has its own source addresses and rate; each connection sends
 * one HTTP request and gives up when its whole answer is not there within the patience, counted from connect().
 * The source addresses must be local (`ip route add local PREFIX dev lo`).
 */
#include <math.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "tool.h"

#define GROUPS_MAX 8
#define ANSWER_HEAD 16

static const char request[] = "GET / HTTP/1.0\r\nHost: good.example\r\n\r\n";

static struct {
	const char *to, *groups;
	uint64_t patience_ms, seconds, seed;
	bool poisson;
} options = {.patience_ms = 1500, .seconds = 6, .seed = 1};

static const struct flag flags[] = {
	{"to", FLAG_TEXT, &options.to, 0, 0, "ADDR:PORT", "the service"},
	{"groups", FLAG_TEXT, &options.groups, 0, 0, "LIST", "NAME=ADDR/COUNT@RATE,...: RATE a second per source"},
	{"patience-ms", FLAG_COUNT, &options.patience_ms, 1, 60000, "N", "from connect to the whole answer"},
	{"seconds", FLAG_COUNT, &options.seconds, 1, 120, "N", "new connections for so long"},
	{"seed", FLAG_COUNT, &options.seed, 0, UINT32_MAX, "N", "of the Poisson arrivals"},
	{"poisson", FLAG_BOOL, &options.poisson, 0, 0, NULL, "random arrivals (default: evenly spaced)"},
	{0},
};

/* Ends of a connection. Attempts are their sum. */
#define ENDS(X)                                                        \
	X(served, "whole answer in time")                              \
	X(late, "whole answer after the patience")                     \
	X(refused, "connection refused")                               \
	X(reset, "reset after it was connected")                       \
	X(failed, "answered with something else than 200, or cut")     \
	X(timed_out_connecting, "patience ended before the handshake") \
	X(timed_out_waiting, "patience ended without the answer")      \
	X(local_error, "could not even be tried")
enum end {
#define X(name, text) END_##name,
	ENDS(X)
#undef X
		END_COUNT
};
static const char *const end_names[] = {
#define X(name, text) #name,
	ENDS(X)
#undef X
};

struct group {
	char name[32];
	union address base;
	uint32_t sources;
	double rate; /* of the whole group, per second */
	uint64_t started, next_ns;
	uint64_t ends[END_COUNT];
	uint64_t served_in_window;
	struct samples served_ns, refused_ns;
};

struct connection {
	int fd; /* -1: ended */
	uint8_t group;
	bool connected;
	uint8_t head_len;
	char head[ANSWER_HEAD];
	uint64_t start_ns;
};

static struct group groups[GROUPS_MAX];
static size_t group_count;
static struct connection *connections;
static size_t connection_count, connection_room, oldest; /* in order of their start */
static uint64_t window_end; /* no new connections from then on */
static int poller;
static union address service;

static void parse_group(char *text)
{
	struct group *group = &groups[group_count++];
	char *host = strchr(text, '='), *count = strchr(text, '/'), *rate = strchr(text, '@');
	double each;

	if (!host || !count || !rate || group_count > GROUPS_MAX)
		die("group '%s': give NAME=ADDR/COUNT@RATE, at most %d of them", text, GROUPS_MAX);
	*host++ = *count++ = *rate++ = '\0';
	snprintf(group->name, sizeof(group->name), "%s", text);
	address_parse_host(host, 0, &group->base);
	group->sources = (uint32_t)strtoul(count, NULL, 10);
	each = strtod(rate, NULL);
	if (group->sources < 1 || group->sources > 100000 || !(each > 0) || each * group->sources > 50000)
		die("group '%s': 1 to 100000 sources, together at most 50000 connections a second", text);
	group->rate = each * group->sources;
	connection_room += (size_t)(group->rate * (double)options.seconds * 1.5) + 1000;
}

static void parse_groups(void)
{
	char *list = strdup(options.groups ? options.groups : ""), *rest = NULL;

	for (char *text = strtok_r(list, ",", &rest); text; text = strtok_r(NULL, ",", &rest))
		parse_group(text);
	if (!group_count)
		die("--groups is needed");
	free(list);
}

static void finish(struct connection *connection, enum end end)
{
	struct group *group = &groups[connection->group];
	uint64_t now = now_ns(), took_ns = now - connection->start_ns;

	if (end == END_served && took_ns > options.patience_ms * NS_PER_MS)
		end = END_late;
	group->ends[end]++;
	if (end == END_served) {
		samples_add(&group->served_ns, took_ns);
		group->served_in_window += now < window_end;
	}
	if (end == END_refused)
		samples_add(&group->refused_ns, took_ns);
	if (connection->fd >= 0)
		close(connection->fd);
	connection->fd = -1;
}

static int open_connection(const struct group *group)
{
	union address from = address_add(&group->base, (uint32_t)(group->started % group->sources));
	int on = 1, fd = socket(from.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	if (bind(fd, &from.any, address_len(&from)) ||
	    (connect(fd, &service.any, address_len(&service)) && errno != EINPROGRESS)) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

static void start(size_t index)
{
	struct group *group = &groups[index];
	struct connection *connection;
	struct epoll_event event;

	if (connection_count == connection_room)
		return; /* cannot happen by much: room is 1.5 times the expected number */
	connection = &connections[connection_count];
	*connection = (struct connection){.group = (uint8_t)index, .start_ns = now_ns()};
	event = (struct epoll_event){.events = EPOLLOUT, .data.u64 = connection_count++};
	connection->fd = open_connection(group);
	group->started++;
	if (connection->fd < 0)
		finish(connection, connection->fd == -ECONNREFUSED ? END_refused : END_local_error);
	else
		epoll_ctl(poller, EPOLL_CTL_ADD, connection->fd, &event);
}

static void on_connected(struct connection *connection, struct epoll_event *event)
{
	int err = 0;
	socklen_t len = sizeof(err);

	getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &err, &len);
	if (err) {
		finish(connection, err == ECONNREFUSED ? END_refused : END_reset);
		return;
	}
	if (send(connection->fd, request, sizeof(request) - 1, MSG_NOSIGNAL) != (ssize_t)sizeof(request) - 1) {
		finish(connection, END_reset);
		return;
	}
	connection->connected = true;
	event->events = EPOLLIN;
	epoll_ctl(poller, EPOLL_CTL_MOD, connection->fd, event);
}

static bool is_ok(const struct connection *connection)
{
	return connection->head_len >= 12 && !memcmp(connection->head, "HTTP/1.", 7) &&
	       !memcmp(connection->head + 8, " 200", 4);
}

/* An answer is whole when the service closes. */
static void on_answer(struct connection *connection)
{
	char buf[4096];
	ssize_t got = recv(connection->fd, buf, sizeof(buf), 0);

	if (got > 0) {
		size_t room = (size_t)(ANSWER_HEAD - connection->head_len);
		size_t take = (size_t)got < room ? (size_t)got : room;

		memcpy(connection->head + connection->head_len, buf, take);
		connection->head_len = (uint8_t)(connection->head_len + take);
	} else if (got == 0) {
		finish(connection, is_ok(connection) ? END_served : END_failed);
	} else if (errno != EAGAIN && errno != EINTR) {
		finish(connection, END_reset);
	}
}

static void give_up_overdue(uint64_t now)
{
	for (; oldest < connection_count; oldest++) {
		struct connection *connection = &connections[oldest];

		if (connection->fd >= 0) {
			if (now < connection->start_ns + options.patience_ms * NS_PER_MS)
				return;
			finish(connection, connection->connected ? END_timed_out_waiting : END_timed_out_connecting);
		}
	}
}

static uint64_t gap_ns(const struct group *group)
{
	double mean = 1e9 / group->rate;

	return (uint64_t)(options.poisson ? -log(1.0 - drand48()) * mean : mean);
}

/* Starts what is due and returns when the next is. */
static uint64_t start_due(uint64_t now, uint64_t end)
{
	uint64_t next = end;

	for (size_t i = 0; i < group_count; i++) {
		while (groups[i].next_ns <= now && groups[i].next_ns < end) {
			start(i);
			groups[i].next_ns += gap_ns(&groups[i]);
		}
		if (groups[i].next_ns < next)
			next = groups[i].next_ns;
	}
	return next;
}

static uint64_t wait_ns(uint64_t now, uint64_t next)
{
	if (oldest < connection_count) {
		uint64_t deadline = connections[oldest].start_ns + options.patience_ms * NS_PER_MS;

		if (next <= now || deadline < next)
			next = deadline;
	}
	return next > now ? next - now : 0;
}

static void run(void)
{
	uint64_t now = now_ns(), end = now + options.seconds * NS_PER_S, next;

	window_end = end;
	for (size_t i = 0; i < group_count; i++)
		groups[i].next_ns = now + (uint64_t)(drand48() * 1e9 / groups[i].rate);
	while (!tool_stopped && (now < end || oldest < connection_count)) {
		struct epoll_event events[128];
		struct timespec timeout;
		int ready;

		next = start_due(now, end);
		now = now_ns();
		timeout = to_timespec(wait_ns(now, next));
		ready = epoll_pwait2(poller, events, 128, &timeout, NULL);
		for (int i = 0; i < ready; i++) {
			struct connection *connection = &connections[events[i].data.u64];

			if (connection->fd < 0)
				continue;
			if (connection->connected)
				on_answer(connection);
			else
				on_connected(connection, &events[i]);
		}
		now = now_ns();
		give_up_overdue(now);
	}
}

static void print_group(struct group *group, bool last)
{
	printf("\"%s\": {\"sources\": %u, \"attempts\": %ju", group->name, group->sources, (uintmax_t)group->started);
	for (size_t end = 0; end < END_COUNT; end++)
		printf(", \"%s\": %ju", end_names[end], (uintmax_t)group->ends[end]);
	printf(", \"served_in_window\": %ju, \"served_ms\": ", (uintmax_t)group->served_in_window);
	samples_print(&group->served_ns);
	printf(", \"refused_ms\": ");
	samples_print(&group->refused_ns);
	printf("}%s", last ? "" : ", ");
}

int main(int argc, char **argv)
{
	flags_parse("good clients with real sockets and a patience", flags, argc, argv);
	address_parse(options.to, &service);
	parse_groups();
	tool_signals();
	srand48((long)options.seed);
	connections = calloc(connection_room, sizeof(*connections));
	poller = epoll_create1(EPOLL_CLOEXEC);
	if (!connections || poller < 0)
		die("cannot start: %s", strerror(errno));
	tool_ready();
	run();
	printf("{");
	for (size_t i = 0; i < group_count; i++)
		print_group(&groups[i], i + 1 == group_count);
	puts("}");
	return 0;
}
