// SPDX-License-Identifier: GPL-2.0-only
/*
 * rude: clients that a service is not to blame for. N of them at a time, each from its own address; one that is over
 * begins anew, unless --once.
 *
 *   loris    a request a byte at a time, never whole
 *   garbage  bytes that are no request, then waits for what comes
 *   flood    more of a request than anybody reads, and reads nothing itself
 *   early    a whole request, then FIN after --hold-ms
 *   abort    a whole request, then RST after --hold-ms
 *   silent   connects, says nothing, FIN after --hold-ms
 */
#include <sys/epoll.h>
#include <unistd.h>

#include "timers.h"

#define CLIENTS_MAX 20000
#define FLOOD_LEN 65536

#define MANNERS(X) \
	X(loris)   \
	X(garbage) \
	X(flood)   \
	X(early)   \
	X(abort)   \
	X(silent)
enum manner {
#define X(name) MANNER_##name,
	MANNERS(X)
#undef X
		MANNER_COUNT
};
static const char *const manner_names[] = {
#define X(name) #name,
	MANNERS(X)
#undef X
};

static struct {
	const char *to, *from, *manner;
	uint64_t clients, seconds, step_ms, hold_ms;
	bool once;
} options = {.from = "198.18.100.1", .manner = "loris", .clients = 500, .seconds = 5, .step_ms = 500, .hold_ms = 100};

static const struct flag flags[] = {
	{"to", FLAG_TEXT, &options.to, 0, 0, "ADDR:PORT", "the service"},
	{"from", FLAG_TEXT, &options.from, 0, 0, "ADDR", "first source address"},
	{"manner", FLAG_TEXT, &options.manner, 0, 0, "NAME", "loris, garbage, flood, early, abort or silent"},
	{"clients", FLAG_COUNT, &options.clients, 1, CLIENTS_MAX, "N", "at a time"},
	{"seconds", FLAG_COUNT, &options.seconds, 1, 120, "N", "no new ones after this"},
	{"step-ms", FLAG_COUNT, &options.step_ms, 1, 60000, "N", "between two bytes of loris, and before a new start"},
	{"hold-ms", FLAG_COUNT, &options.hold_ms, 0, 60000, "N", "early, abort, silent: from the request to the end"},
	{"once", FLAG_BOOL, &options.once, 0, 0, NULL, "nobody begins anew; ends with the last of them"},
	{0},
};

struct client {
	int fd; /* -1: none */
	uint32_t serial; /* of its timer */
	bool asked;
};

static struct client clients[CLIENTS_MAX];
static enum manner manner;
static union address service, first;
static int poller = -1;
static uint32_t serials;
static struct timers timers;
static char flood[FLOOD_LEN];
static struct {
	uint64_t attempts, connected, refused, closed, reset, left, bytes;
} stats;
static uint64_t ended;

static void set_timer(uint32_t id, uint64_t ms)
{
	clients[id].serial = ++serials;
	timers_add(&timers, now_ns() + ms * NS_PER_MS, id, clients[id].serial);
}

static void over(uint32_t id, uint64_t *count)
{
	(*count)++;
	close(clients[id].fd);
	clients[id].fd = -1;
	ended++;
	if (!options.once)
		set_timer(id, options.step_ms);
}

static void start(uint32_t id)
{
	struct client *client = &clients[id];
	struct epoll_event event = {.events = EPOLLOUT, .data.u32 = id};
	union address from = address_add(&first, id);
	int on = 1;

	client->fd = socket(service.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (client->fd < 0)
		die("socket: %s", strerror(errno));
	client->asked = false;
	stats.attempts++;
	setsockopt(client->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	if (bind(client->fd, &from.any, address_len(&from)) ||
	    (connect(client->fd, &service.any, address_len(&service)) && errno != EINPROGRESS)) {
		over(id, &stats.refused);
		return;
	}
	epoll_ctl(poller, EPOLL_CTL_ADD, client->fd, &event);
}

static void say(uint32_t id, const char *text, size_t len)
{
	ssize_t sent = send(clients[id].fd, text, len, MSG_NOSIGNAL);

	if (sent > 0)
		stats.bytes += (uint64_t)sent;
	else if (errno != EAGAIN)
		over(id, &stats.reset);
}

static void on_connected(uint32_t id)
{
	static const char request[] = "GET / HTTP/1.1\r\nHost: rude.example\r\n\r\n";
	static const char garbage[] = "\x01\xfe\xca\x00 no request at all \xff\x80\x7f\n\n";
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = id};

	epoll_ctl(poller, EPOLL_CTL_MOD, clients[id].fd, &event);
	clients[id].asked = true;
	stats.connected++;
	if (manner == MANNER_loris) {
		say(id, "GET / HTTP/1.1\r\nX: ", 19);
		set_timer(id, options.step_ms);
	} else if (manner == MANNER_garbage) {
		say(id, garbage, sizeof(garbage) - 1);
	} else if (manner == MANNER_flood) {
		say(id, flood, sizeof(flood));
	} else {
		if (manner != MANNER_silent)
			say(id, request, sizeof(request) - 1);
		set_timer(id, options.hold_ms);
	}
}

static void on_due(uint32_t id)
{
	struct linger none = {.l_onoff = 1, .l_linger = 0};

	if (clients[id].fd < 0) {
		start(id);
		return;
	}
	if (manner == MANNER_loris) {
		say(id, "x", 1);
		if (clients[id].fd >= 0)
			set_timer(id, options.step_ms);
		return;
	}
	if (manner == MANNER_abort)
		setsockopt(clients[id].fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	over(id, &stats.left);
}

static void on_event(uint32_t id, uint32_t events)
{
	char buf[4096];
	ssize_t got;

	if (clients[id].fd < 0)
		return;
	if (!clients[id].asked) {
		if (events & (EPOLLERR | EPOLLHUP))
			over(id, &stats.refused);
		else
			on_connected(id);
		return;
	}
	if (manner == MANNER_flood && !(events & (EPOLLERR | EPOLLHUP)))
		return;
	got = recv(clients[id].fd, buf, sizeof(buf), 0);
	if (got == 0)
		over(id, &stats.closed);
	else if (got < 0 && errno != EAGAIN)
		over(id, &stats.reset);
}

static void run(void)
{
	uint64_t end_ns = now_ns() + options.seconds * NS_PER_S, now;

	/* Not all in one instant. */
	for (uint32_t id = 0; id < options.clients; id++)
		set_timer(id, options.step_ms * id / options.clients);
	while (!tool_stopped && (now = now_ns()) < end_ns && !(options.once && ended == options.clients)) {
		struct timespec wait = timers_wait(&timers, now, 50 * NS_PER_MS);
		struct epoll_event events[128];
		int ready = epoll_pwait2(poller, events, 128, &wait, NULL);
		struct timer timer;

		for (int i = 0; i < ready; i++)
			on_event(events[i].data.u32, events[i].events);
		while (timers_take(&timers, now_ns(), &timer))
			if (clients[timer.id].serial == timer.serial)
				on_due(timer.id);
	}
}

int main(int argc, char **argv)
{
	flags_parse("clients that a service is not to blame for", flags, argc, argv);
	address_parse(options.to, &service);
	address_parse_host(options.from, 0, &first);
	while (manner < MANNER_COUNT && strcmp(options.manner, manner_names[manner]))
		manner++;
	if (manner == MANNER_COUNT)
		die("--manner %s: see --help", options.manner);
	memset(flood, 'x', sizeof(flood));
	memcpy(flood, "GET / HTTP/1.1\r\nX: ", 19);
	for (size_t id = 0; id < CLIENTS_MAX; id++)
		clients[id].fd = -1;
	tool_signals();
	tool_open_files();
	poller = epoll_create1(EPOLL_CLOEXEC);
	tool_ready();
	run();
	printf("{\"attempts\": %ju, \"connected\": %ju, \"refused\": %ju, \"closed\": %ju, \"reset\": %ju, \"left\": "
	       "%ju, "
	       "\"bytes\": %ju}\n",
	       (uintmax_t)stats.attempts, (uintmax_t)stats.connected, (uintmax_t)stats.refused, (uintmax_t)stats.closed,
	       (uintmax_t)stats.reset, (uintmax_t)stats.left, (uintmax_t)stats.bytes);
	return 0;
}
