// SPDX-License-Identifier: GPL-2.0-only
/*
 * service: a TCP application of fixed, sleep-bound capacity. W workers each accept one connection, read its request,
 * take W/capacity seconds, answer and close; so it accepts only what it can serve and the rest waits in the accept
 * queue, dead requests included. --echo returns what it reads on long-lived connections instead.
 */
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tool.h"

#define LISTENERS_MAX 16
#define WORKERS_MAX 64
#define REQUEST_WAIT_MS 200 /* a client that sends nothing costs a worker no more than this */

static const char answer[] = "HTTP/1.0 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n";

static struct {
	const char *listen;
	uint64_t backlog, capacity, workers, reuseport, defer_s, relisten, pause_listener, seconds;
	bool v6only, share, echo, never_accept;
} options = {.backlog = 511, .capacity = 200, .workers = 4, .reuseport = 1, .pause_listener = 99, .seconds = 300};

static const struct flag flags[] = {
	{"listen", FLAG_TEXT, &options.listen, 0, 0, "ADDR:PORT", "where to listen; [::]:PORT is dual-stack"},
	{"backlog", FLAG_COUNT, &options.backlog, 0, 65535, "N", "argument of listen()"},
	{"capacity", FLAG_COUNT, &options.capacity, 1, 100000, "N", "answers per second"},
	{"workers", FLAG_COUNT, &options.workers, 1, WORKERS_MAX, "N", "connections served at a time"},
	{"reuseport", FLAG_COUNT, &options.reuseport, 1, LISTENERS_MAX, "N", "listeners that share the port"},
	{"defer", FLAG_COUNT, &options.defer_s, 0, 60, "SECONDS", "TCP_DEFER_ACCEPT"},
	{"relisten", FLAG_COUNT, &options.relisten, 0, 65535, "N", "backlog of the second listen(), on SIGUSR2"},
	{"pause-listener", FLAG_COUNT, &options.pause_listener, 0, 99, "N", "SIGUSR1 toggles accept() on it; 99: all"},
	{"seconds", FLAG_COUNT, &options.seconds, 1, 600, "N", "ends by itself after this"},
	{"v6only", FLAG_BOOL, &options.v6only, 0, 0, NULL, "IPV6_V6ONLY"},
	{"share", FLAG_BOOL, &options.share, 0, 0, NULL, "SO_REUSEPORT on a single listener too"},
	{"echo", FLAG_BOOL, &options.echo, 0, 0, NULL, "return what is read"},
	{"never-accept", FLAG_BOOL, &options.never_accept, 0, 0, NULL, "starts paused"},
	{0},
};

static int listeners[LISTENERS_MAX];
static volatile sig_atomic_t paused, relisten_asked;

struct worker {
	pthread_t thread;
	unsigned int index;
	uint64_t accepted, answered, silent, broken;
	uint64_t overslept_ns; /* most: the machine stood still, or gave the CPU to others */
	struct samples waits; /* in the accept queue, as the kernel dates the connection: ms resolution */
};

static void on_pause(int signal)
{
	(void)signal;
	paused = !paused;
}

static void on_relisten(int signal)
{
	(void)signal;
	relisten_asked = 1;
}

static void set_option(int fd, int level, int option, int value, const char *name)
{
	if (setsockopt(fd, level, option, &value, sizeof(value)))
		die("%s: %s", name, strerror(errno));
}

static int open_listener(const union address *address)
{
	int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		die("socket: %s", strerror(errno));
	set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
	if (options.reuseport > 1 || options.share)
		set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1, "SO_REUSEPORT");
	if (address->any.sa_family == AF_INET6)
		set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, options.v6only, "IPV6_V6ONLY");
	if (options.defer_s)
		set_option(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, (int)options.defer_s, "TCP_DEFER_ACCEPT");
	if (bind(fd, &address->any, address_len(address)))
		die("bind %s: %s", options.listen, strerror(errno));
	if (listen(fd, (int)options.backlog))
		die("listen %s: %s", options.listen, strerror(errno));
	return fd;
}

static bool accepts(unsigned int listener)
{
	return !paused || (options.pause_listener != 99 && options.pause_listener != listener);
}

/* Since its handshake ended, or since its request came where that was later. */
static void record_wait(struct worker *worker, int fd)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);

	if (!getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len))
		samples_add(&worker->waits, info.tcpi_last_data_recv * NS_PER_MS);
}

static bool read_request(int fd)
{
	struct pollfd readable = {.fd = fd, .events = POLLIN};
	char request[2048];

	return poll(&readable, 1, REQUEST_WAIT_MS) == 1 && read(fd, request, sizeof(request)) > 0;
}

static void serve(struct worker *worker, int fd, uint64_t *free_ns)
{
	uint64_t service_ns = options.workers * NS_PER_S / options.capacity, now = now_ns();
	struct timespec until;

	worker->accepted++;
	record_wait(worker, fd);
	if (!read_request(fd))
		worker->silent++;
	/* Back to back the schedule is absolute, so oversleeping does not cost capacity. */
	*free_ns = (now > *free_ns + service_ns ? now : *free_ns) + service_ns;
	until = to_timespec(*free_ns);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR && !tool_stopped)
		;
	now = now_ns();
	if (now > *free_ns && now - *free_ns > worker->overslept_ns)
		worker->overslept_ns = now - *free_ns;
	if (send(fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL) == (ssize_t)sizeof(answer) - 1)
		worker->answered++;
	else
		worker->broken++;
	close(fd);
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	unsigned int listener = worker->index % options.reuseport;
	uint64_t free_ns = now_ns();

	while (!tool_stopped) {
		struct pollfd ready = {.fd = listeners[listener], .events = POLLIN};
		int fd;

		if (!accepts(listener)) {
			usleep(2000);
			continue;
		}
		if (poll(&ready, 1, 50) != 1)
			continue;
		fd = accept4(listeners[listener], NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0)
			serve(worker, fd, &free_ns);
	}
	return NULL;
}

static void handle_asked(void)
{
	if (!relisten_asked)
		return;
	relisten_asked = 0;
	for (unsigned int i = 0; i < options.reuseport; i++)
		if (listen(listeners[i], (int)options.relisten))
			die("second listen: %s", strerror(errno));
}

static void wait_for_end(uint64_t end_ns)
{
	while (!tool_stopped && now_ns() < end_ns) {
		poll(NULL, 0, 20);
		handle_asked();
	}
	tool_stopped = 1;
}

static void run_bounded(uint64_t end_ns)
{
	static struct worker workers[WORKERS_MAX];
	struct worker sum = {0};
	sigset_t all, before;

	/* Signals go to the main thread alone. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	for (unsigned int i = 0; i < options.workers; i++) {
		workers[i].index = i;
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			die("cannot start worker %u", i);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	tool_ready();
	wait_for_end(end_ns);
	for (unsigned int i = 0; i < options.workers; i++) {
		pthread_join(workers[i].thread, NULL);
		sum.accepted += workers[i].accepted;
		sum.answered += workers[i].answered;
		sum.silent += workers[i].silent;
		sum.broken += workers[i].broken;
		if (workers[i].overslept_ns > sum.overslept_ns)
			sum.overslept_ns = workers[i].overslept_ns;
		for (size_t n = 0; n < workers[i].waits.count; n++)
			samples_add(&sum.waits, workers[i].waits.us[n] * 1000ULL);
	}
	printf("{\"accepted\": %ju, \"answered\": %ju, \"silent\": %ju, \"broken\": %ju, \"overslept_ms\": %.1f, "
	       "\"queue_wait_ms\": ",
	       (uintmax_t)sum.accepted, (uintmax_t)sum.answered, (uintmax_t)sum.silent, (uintmax_t)sum.broken,
	       (double)sum.overslept_ns / 1e6);
	samples_print(&sum.waits);
	puts("}");
}

/* --- echo -------------------------------------------------------------------------------------------------------- */

struct echo_stats {
	uint64_t accepted, bytes, closed, broken;
};

static void echo_accept(int poller, int listener, struct echo_stats *stats)
{
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

		stats->accepted++;
		epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
	}
}

static void echo_back(int fd, struct echo_stats *stats)
{
	char buf[4096];
	ssize_t got = read(fd, buf, sizeof(buf));

	if (got > 0 && send(fd, buf, (size_t)got, MSG_NOSIGNAL) == got) {
		stats->bytes += (uint64_t)got;
		return;
	}
	if (got == 0)
		stats->closed++;
	else
		stats->broken++;
	close(fd);
}

static void run_echo(uint64_t end_ns)
{
	struct echo_stats stats = {0};
	int poller = epoll_create1(EPOLL_CLOEXEC);

	for (unsigned int i = 0; i < options.reuseport; i++) {
		struct epoll_event event = {.events = EPOLLIN, .data.fd = listeners[i]};

		epoll_ctl(poller, EPOLL_CTL_ADD, listeners[i], &event);
	}
	tool_ready();
	while (!tool_stopped && now_ns() < end_ns) {
		struct epoll_event events[64];
		int ready = epoll_wait(poller, events, 64, 50);

		handle_asked();
		for (int i = 0; i < ready; i++) {
			unsigned int listener = 0;

			while (listener < options.reuseport && listeners[listener] != events[i].data.fd)
				listener++;
			if (listener == options.reuseport)
				echo_back(events[i].data.fd, &stats);
			else if (accepts(listener))
				echo_accept(poller, listeners[listener], &stats);
		}
	}
	printf("{\"accepted\": %ju, \"bytes\": %ju, \"closed\": %ju, \"broken\": %ju}\n", (uintmax_t)stats.accepted,
	       (uintmax_t)stats.bytes, (uintmax_t)stats.closed, (uintmax_t)stats.broken);
}

int main(int argc, char **argv)
{
	union address address;
	uint64_t end_ns;

	flags_parse("a TCP application of fixed capacity", flags, argc, argv);
	address_parse(options.listen, &address);
	if (options.workers < options.reuseport)
		options.workers = options.reuseport;
	paused = options.never_accept;
	tool_signals();
	tool_on_signal(SIGUSR1, on_pause);
	tool_on_signal(SIGUSR2, on_relisten);
	for (unsigned int i = 0; i < options.reuseport; i++)
		listeners[i] = open_listener(&address);
	end_ns = now_ns() + options.seconds * NS_PER_S;
	(options.echo ? run_echo : run_bounded)(end_ns);
	return 0;
}
