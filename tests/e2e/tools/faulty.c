// SPDX-License-Identifier: GPL-2.0-only
/*
 * faulty: an HTTP/1.x service whose faults are switched while it runs, by lines on stdin:
 *
 *   ok | stall | reset | close | leave | slow MS | status CODE | fill | refuse | counters      [PERCENT%]
 *
 * stall never answers, reset reads the request and sends RST, close sends FIN without an answer, leave closes before
 * it has read everything, slow answers after MS, status answers with CODE, fill no longer accepts, refuse no longer
 * listens. A percentage is of requests; the others are answered. What was begun under another mode keeps to that. Each
 * line is acknowledged by one JSON object on stdout. One event loop: it accepts at once, or with --at-once N keeps N
 * connections and leaves the rest in the accept queue. With --capacity it is slow under load.
 */
#include <sys/epoll.h>
#include <unistd.h>

#include "timers.h"

#define CONNECTIONS_MAX 65536
#define HEAD_MAX 4096
#define LINE_MAX_LEN 64

static struct {
	const char *listen;
	uint64_t backlog, at_once, delay_ms, capacity, request_timeout_ms, seconds, seed;
} options = {.backlog = 511, .delay_ms = 5, .request_timeout_ms = 0, .seconds = 300, .seed = 1};

static const struct flag flags[] = {
	{"listen", FLAG_TEXT, &options.listen, 0, 0, "ADDR:PORT", "where to listen"},
	{"backlog", FLAG_COUNT, &options.backlog, 0, 65535, "N", "argument of listen()"},
	{"at-once", FLAG_COUNT, &options.at_once, 0, 10000, "N", "connections kept at a time; 0: any number"},
	{"delay-ms", FLAG_COUNT, &options.delay_ms, 0, 60000, "N", "from the request to the answer"},
	{"capacity", FLAG_COUNT, &options.capacity, 0, 100000, "N", "answers per second, in turn; 0: no limit"},
	{"request-timeout-ms", FLAG_COUNT, &options.request_timeout_ms, 0, 60000, "N",
	 "closes connections without a whole request; 0: waits"},
	{"seconds", FLAG_COUNT, &options.seconds, 1, 600, "N", "ends by itself after this"},
	{"seed", FLAG_COUNT, &options.seed, 0, UINT32_MAX, "N", "of the percentages"},
	{0},
};

#define MODES(X)  \
	X(ok)     \
	X(stall)  \
	X(reset)  \
	X(close)  \
	X(leave)  \
	X(slow)   \
	X(status) \
	X(fill)   \
	X(refuse)
enum mode {
#define X(name) MODE_##name,
	MODES(X)
#undef X
		MODE_COUNT
};
static const char *const mode_names[] = {
#define X(name) #name,
	MODES(X)
#undef X
};

static enum mode mode;
static uint64_t mode_value; /* slow: ms; status: code */
static uint32_t mode_percent = 100;

static struct {
	uint64_t accepted, requests, answered, bad_requests, clients_left, timed_out, faults[MODE_COUNT];
	uint64_t first_fault_ns; /* since the last change of mode; 0: none */
	uint64_t answered_since; /* the same */
	uint64_t overslept_ns;
} stats;

struct connection {
	int fd; /* -1: free */
	uint32_t serial; /* of its timer */
	enum mode mode; /* of the request in hand */
	uint64_t value;
	bool keep_alive, owed;
	uint16_t head_len;
	char head[HEAD_MAX];
};

static struct connection *connections[CONNECTIONS_MAX]; /* by fd */
static uint32_t open_count, serials;
static union address address;
static int listener = -1, poller = -1;
static bool listener_watched;
static struct timers timers;

/* --- listener ---------------------------------------------------------------------------------------------------- */

static void listener_open(void)
{
	int on = 1;

	listener = socket(address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (listener < 0)
		die("socket: %s", strerror(errno));
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listener, &address.any, address_len(&address)) || listen(listener, (int)options.backlog))
		die("listen on %s: %s", options.listen, strerror(errno));
}

/* Level-triggered: a listener that must not be accepted from is not watched. */
static void listener_watch(bool watch)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};

	if (listener < 0 || watch == listener_watched)
		return;
	epoll_ctl(poller, watch ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, listener, &event);
	listener_watched = watch;
}

static bool may_accept(void)
{
	return mode != MODE_fill && (!options.at_once || open_count < options.at_once);
}

static void listener_update(void)
{
	if (mode == MODE_refuse && listener >= 0) {
		listener_watch(false);
		close(listener);
		listener = -1;
	} else if (mode != MODE_refuse && listener < 0) {
		listener_open();
	}
	listener_watch(may_accept());
}

/* --- connections --------------------------------------------------------------------------------------------------- */

static void finish(struct connection *connection, bool reset)
{
	struct linger none = {.l_onoff = 1, .l_linger = 0};
	int fd = connection->fd;

	if (reset)
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	close(fd);
	connections[fd] = NULL;
	free(connection);
	open_count--;
	listener_watch(may_accept());
}

static void answer(struct connection *connection, unsigned int status)
{
	char text[160];
	int len = snprintf(text, sizeof(text), "HTTP/1.1 %u X\r\nContent-Length: 3\r\nConnection: %s\r\n\r\nok\n",
			   status, connection->keep_alive ? "keep-alive" : "close");

	connection->owed = false;
	connection->serial = 0;
	connection->head_len = 0;
	if (send(connection->fd, text, (size_t)len, MSG_NOSIGNAL) != len || !connection->keep_alive)
		finish(connection, false);
}

static void fault(enum mode which)
{
	stats.faults[which]++;
	if (!stats.first_fault_ns)
		stats.first_fault_ns = now_ns();
}

static void set_timer(struct connection *connection, uint64_t at_ns)
{
	connection->serial = ++serials;
	timers_add(&timers, at_ns, (uint32_t)connection->fd, connection->serial);
}

/* With --capacity requests are worked on in turn, each for 1/capacity seconds; nothing is spent on clients that left. */
static struct {
	struct waiting {
		uint32_t fd, serial;
		uint64_t delay_ms;
	} * ring;
	size_t head, tail; /* of CONNECTIONS_MAX */
	uint64_t each_ns, free_ns; /* what one takes; when the next may begin */
} work;

static void work_add(struct connection *connection, uint64_t delay_ms)
{
	if (!work.ring)
		work.ring = calloc(CONNECTIONS_MAX, sizeof(*work.ring));
	if (!work.ring || work.tail - work.head == CONNECTIONS_MAX)
		die("too many requests wait");
	connection->serial = ++serials;
	work.ring[work.tail++ % CONNECTIONS_MAX] =
		(struct waiting){(uint32_t)connection->fd, connection->serial, delay_ms};
}

static void work_on(uint64_t now)
{
	while (work.head != work.tail && work.free_ns <= now) {
		struct waiting next = work.ring[work.head++ % CONNECTIONS_MAX];
		struct connection *connection = connections[next.fd];

		if (!connection || connection->serial != next.serial)
			continue;
		/* Back to back the schedule is absolute, so oversleeping costs no capacity. */
		if (work.free_ns + 10 * NS_PER_MS < now)
			work.free_ns = now;
		work.free_ns += work.each_ns;
		set_timer(connection, work.free_ns + next.delay_ms * NS_PER_MS);
	}
}

static void answer_later(struct connection *connection, uint64_t delay_ms)
{
	if (options.capacity)
		work_add(connection, delay_ms);
	else
		set_timer(connection, now_ns() + delay_ms * NS_PER_MS);
}

/* What becomes of a request, by the mode in which it came whole. */
static void on_request(struct connection *connection)
{
	bool faulty = mode != MODE_ok && (uint32_t)(drand48() * 100) < mode_percent;

	stats.requests++;
	connection->owed = true;
	connection->mode = faulty ? mode : MODE_ok;
	connection->value = mode_value;
	connection->serial = 0; /* no longer --request-timeout-ms */
	switch (connection->mode) {
	case MODE_stall:
		fault(MODE_stall);
		return;
	case MODE_reset:
	case MODE_close:
	case MODE_leave: /* its request was read before the mode changed */
		fault(connection->mode);
		finish(connection, connection->mode == MODE_reset);
		return;
	case MODE_slow:
		answer_later(connection, mode_value);
		return;
	default:
		answer_later(connection, options.delay_ms);
	}
}

static void on_due(struct connection *connection, uint64_t at_ns)
{
	uint64_t now = now_ns();

	if (now - at_ns > stats.overslept_ns)
		stats.overslept_ns = now - at_ns;

	if (!connection->owed) {
		stats.timed_out++;
		finish(connection, false);
		return;
	}
	if (connection->mode != MODE_ok)
		fault(connection->mode);
	stats.answered++;
	stats.answered_since++;
	answer(connection, connection->mode == MODE_status ? (unsigned int)connection->value : 200);
}

static bool is_http(const char *head, size_t len)
{
	static const char *const methods[] = {"GET ", "POST ", "HEAD "};

	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (!strncmp(head, methods[i], len < strlen(methods[i]) ? len : strlen(methods[i])))
			return true;
	return false;
}

static bool asks_keep_alive(const char *head)
{
	return strstr(head, " HTTP/1.1\r\n") && !strcasestr(head, "\r\nConnection: close");
}

static void on_readable(struct connection *connection)
{
	size_t room = HEAD_MAX - 1U - connection->head_len;
	/* `leave` reads 16 bytes of any request and goes: RST for what it has not read. */
	bool leaves = mode == MODE_leave && !connection->owed;
	ssize_t got = recv(connection->fd, connection->head + connection->head_len, leaves ? 16 : room, 0);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		stats.clients_left++;
		finish(connection, false);
		return;
	}
	if (leaves) {
		stats.requests++;
		fault(MODE_leave);
		finish(connection, false);
		return;
	}
	connection->head_len = (uint16_t)(connection->head_len + got);
	connection->head[connection->head_len] = '\0';
	if (!is_http(connection->head, connection->head_len) || connection->head_len == HEAD_MAX - 1) {
		stats.bad_requests++;
		connection->keep_alive = false;
		answer(connection, 400);
	} else if (!connection->owed && strstr(connection->head, "\r\n\r\n")) {
		connection->keep_alive = asks_keep_alive(connection->head);
		on_request(connection);
	}
}

static void accept_all(void)
{
	int fd;

	while (may_accept() && (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.fd = fd};
		struct connection *connection = fd < CONNECTIONS_MAX ? calloc(1, sizeof(*connection)) : NULL;

		if (!connection)
			die("too many connections: %d", fd);
		stats.accepted++;
		open_count++;
		connection->fd = fd;
		connections[fd] = connection;
		epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
		if (options.request_timeout_ms)
			set_timer(connection, now_ns() + options.request_timeout_ms * NS_PER_MS);
	}
	listener_watch(may_accept());
}

/* --- control --------------------------------------------------------------------------------------------------------- */

static void print_counters(void)
{
	printf("{\"mode\": \"%s\", \"now_ns\": %ju, \"first_fault_ns\": ", mode_names[mode], (uintmax_t)now_ns());
	if (stats.first_fault_ns)
		printf("%ju", (uintmax_t)stats.first_fault_ns);
	else
		printf("null");
	printf(", \"open\": %u, \"accepted\": %ju, \"requests\": %ju, \"answered\": %ju, \"answered_since\": %ju, "
	       "\"bad_requests\": %ju, \"clients_left\": %ju, \"timed_out\": %ju",
	       open_count, (uintmax_t)stats.accepted, (uintmax_t)stats.requests, (uintmax_t)stats.answered,
	       (uintmax_t)stats.answered_since, (uintmax_t)stats.bad_requests, (uintmax_t)stats.clients_left,
	       (uintmax_t)stats.timed_out);
	for (size_t i = MODE_ok + 1; i < MODE_COUNT; i++)
		printf(", \"%s\": %ju", mode_names[i], (uintmax_t)stats.faults[i]);
	printf(", \"overslept_ms\": %.1f}\n", (double)stats.overslept_ns / 1e6);
	fflush(stdout);
}

static void order_value(const char *text)
{
	char *end;
	unsigned long long value = strtoull(text, &end, 10);

	if (end == text || (*end && strcmp(end, "%")))
		die("order: '%s' is no number and no percentage", text);
	if (*end)
		mode_percent = (uint32_t)value;
	else
		mode_value = value;
}

static void order(char *line)
{
	char *rest = NULL, *name = strtok_r(line, " \n", &rest);
	size_t wanted = 0;

	if (name && strcmp(name, "counters")) {
		while (wanted < MODE_COUNT && strcmp(name, mode_names[wanted]))
			wanted++;
		if (wanted == MODE_COUNT)
			die("order '%s': no such mode", name);
		mode = (enum mode)wanted;
		mode_percent = 100;
		mode_value = 0;
		stats.first_fault_ns = stats.answered_since = 0;
		for (char *text; (text = strtok_r(NULL, " \n", &rest));)
			order_value(text);
		listener_update();
	}
	print_counters();
}

/* One line per read: whoever gives orders waits for the acknowledgement. */
static void on_orders(void)
{
	char line[LINE_MAX_LEN];
	ssize_t got = read(STDIN_FILENO, line, sizeof(line) - 1);

	if (got <= 0) {
		epoll_ctl(poller, EPOLL_CTL_DEL, STDIN_FILENO, NULL);
		return;
	}
	line[got] = '\0';
	order(line);
}

/* --- loop -------------------------------------------------------------------------------------------------------------- */

static void on_event(int fd)
{
	if (fd == STDIN_FILENO)
		on_orders();
	else if (fd == listener)
		accept_all();
	else if (connections[fd])
		on_readable(connections[fd]);
}

static void run(void)
{
	uint64_t end_ns = now_ns() + options.seconds * NS_PER_S, now;

	while (!tool_stopped && (now = now_ns()) < end_ns) {
		uint64_t most = work.head == work.tail ? 100 * NS_PER_MS : work.free_ns > now ? work.free_ns - now : 0;
		struct timespec wait = timers_wait(&timers, now, most);
		struct epoll_event events[128];
		int ready = epoll_pwait2(poller, events, 128, &wait, NULL);
		struct timer timer;

		for (int i = 0; i < ready; i++)
			on_event(events[i].data.fd);
		work_on(now_ns());
		for (now = now_ns(); timers_take(&timers, now, &timer);)
			if (connections[timer.id] && connections[timer.id]->serial == timer.serial)
				on_due(connections[timer.id], timer.at_ns);
	}
}

int main(int argc, char **argv)
{
	struct epoll_event orders = {.events = EPOLLIN, .data.fd = STDIN_FILENO};

	flags_parse("an HTTP service whose faults are switched while it runs", flags, argc, argv);
	address_parse(options.listen, &address);
	tool_signals();
	tool_open_files();
	srand48((long)options.seed);
	work.each_ns = options.capacity ? NS_PER_S / options.capacity : 0;
	poller = epoll_create1(EPOLL_CLOEXEC);
	epoll_ctl(poller, EPOLL_CTL_ADD, STDIN_FILENO, &orders);
	listener_update();
	tool_ready();
	run();
	print_counters();
	return 0;
}
