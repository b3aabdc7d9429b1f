// SPDX-License-Identifier: GPL-2.0-only
/*
 * delays: a service that logs its own delays (--listen), and the client that drives it (--to). HTTP/1.1, kept alive or
 * one request a connection, in the clear or over TLS 1.2 or 1.3 with a key made at start. Each answer takes a log-normal
 * time between 10 and 500 ms, hundreds at once in one event loop. The log has one line per answer, microseconds from
 * having read the last byte of the request to just before the answer is written: what anybody outside should measure.
 */
#include <fcntl.h>
#include <math.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "timers.h"

#define CONNECTIONS_MAX 65536
#define HEAD_MAX 1024

static struct {
	const char *listen, *to, *log, *from;
	uint64_t tls, seconds, seed, median_ms, sigma_percent, min_ms, max_ms;
	uint64_t sources, rate, turns, connections;
	bool keep_alive;
} options = {.from = "198.18.0.1",
	     .seconds = 120,
	     .seed = 1,
	     .median_ms = 70,
	     .sigma_percent = 80,
	     .min_ms = 10,
	     .max_ms = 500,
	     .sources = 100,
	     .rate = 300,
	     .turns = 10000,
	     .connections = 64};

static const struct flag flags[] = {
	{"listen", FLAG_TEXT, &options.listen, 0, 0, "ADDR:PORT", "be the service"},
	{"log", FLAG_TEXT, &options.log, 0, 0, "FILE", "service: one line of microseconds per answer"},
	{"median-ms", FLAG_COUNT, &options.median_ms, 1, 10000, "N", "service: of the delays"},
	{"sigma-percent", FLAG_COUNT, &options.sigma_percent, 0, 300, "N", "service: of their logarithm"},
	{"min-ms", FLAG_COUNT, &options.min_ms, 0, 10000, "N", "service: no delay is shorter"},
	{"max-ms", FLAG_COUNT, &options.max_ms, 1, 60000, "N", "service: no delay is longer"},
	{"to", FLAG_TEXT, &options.to, 0, 0, "ADDR:PORT", "be the client"},
	{"from", FLAG_TEXT, &options.from, 0, 0, "ADDR", "client: first source address"},
	{"sources", FLAG_COUNT, &options.sources, 1, 100000, "N", "client: addresses from there on"},
	{"turns", FLAG_COUNT, &options.turns, 1, 1000000, "N", "client: requests in all"},
	{"rate", FLAG_COUNT, &options.rate, 1, 20000, "N", "client, one-shot: connections a second"},
	{"connections", FLAG_COUNT, &options.connections, 1, 10000, "N", "client, kept alive: that many, back to back"},
	{"keep-alive", FLAG_BOOL, &options.keep_alive, 0, 0, NULL, "client: many requests a connection"},
	{"tls", FLAG_COUNT, &options.tls, 0, 13, "12|13", "TLS 1.2 or 1.3; 0: in the clear"},
	{"seconds", FLAG_COUNT, &options.seconds, 1, 600, "N", "ends by itself after this"},
	{"seed", FLAG_COUNT, &options.seed, 0, UINT32_MAX, "N", "of the delays"},
	{0},
};

struct connection {
	int fd;
	SSL *ssl; /* NULL in the clear */
	uint32_t serial; /* service: of its timer */
	bool ready; /* connected, and the TLS handshake is done */
	bool owed; /* a request is whole and has no answer yet */
	bool keep_alive;
	uint16_t head_len;
	char head[HEAD_MAX];
	uint64_t begun_ns; /* service: request whole; client: connect() or request */
};

static struct connection *connections[CONNECTIONS_MAX]; /* by fd */
static union address address;
static int listener = -1, poller = -1;
static SSL_CTX *tls;
static struct timers timers;
static uint32_t serials;
static FILE *log_file;

static struct {
	uint64_t accepted, answered, broken, lost; /* service; lost: the client left before its answer */
	uint64_t started, done, failed; /* client */
	struct samples took;
	uint64_t overslept_ns;
} stats;

/* --- bytes, in the clear or not ---------------------------------------------------------------------------------------- */

enum { IO_AGAIN = -1, IO_ENDED = -2 };

static int tls_result(struct connection *connection, int done)
{
	int why = SSL_get_error(connection->ssl, done);

	ERR_clear_error();
	return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? IO_AGAIN : IO_ENDED;
}

static int read_some(struct connection *connection, char *buf, int room)
{
	ssize_t got;

	if (connection->ssl) {
		int done = SSL_read(connection->ssl, buf, room);

		return done > 0 ? done : tls_result(connection, done);
	}
	got = recv(connection->fd, buf, (size_t)room, 0);
	if (got > 0)
		return (int)got;
	return got < 0 && (errno == EAGAIN || errno == EINTR) ? IO_AGAIN : IO_ENDED;
}

/* Messages are far smaller than any socket buffer: all or nothing. */
static bool write_all(struct connection *connection, const char *text, int len)
{
	if (connection->ssl)
		return SSL_write(connection->ssl, text, len) == len;
	return send(connection->fd, text, (size_t)len, MSG_NOSIGNAL) == len;
}

static void finish(struct connection *connection)
{
	int fd = connection->fd;

	if (connection->ssl) {
		if (connection->ready)
			SSL_shutdown(connection->ssl); /* close_notify, as real ends send it */
		ERR_clear_error();
		SSL_free(connection->ssl);
	}
	close(fd);
	connections[fd] = NULL;
	free(connection);
}

static struct connection *connection_make(int fd, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.fd = fd};
	struct connection *connection = fd < CONNECTIONS_MAX ? calloc(1, sizeof(*connection)) : NULL;

	if (!connection)
		die("too many connections: %d", fd);
	connection->fd = fd;
	connections[fd] = connection;
	if (tls) {
		connection->ssl = SSL_new(tls);
		if (!connection->ssl || !SSL_set_fd(connection->ssl, fd))
			die("SSL_new failed");
	} else {
		connection->ready = true;
	}
	epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
	return connection;
}

/* False: the connection is gone, or the handshake needs more. */
static bool handshake(struct connection *connection)
{
	int done;

	if (connection->ready)
		return true;
	done = SSL_do_handshake(connection->ssl);
	if (done == 1) {
		connection->ready = true;
		return true;
	}
	if (tls_result(connection, done) == IO_ENDED) {
		stats.broken++;
		stats.failed += !!options.to;
		finish(connection);
	}
	return false;
}

static void tls_start(void)
{
	EVP_PKEY *key = NULL;
	X509 *cert = NULL;
	int version = options.tls == 12 ? TLS1_2_VERSION : TLS1_3_VERSION;

	if (!options.tls)
		return;
	if (options.tls < 12)
		die("--tls %ju: 12 or 13", (uintmax_t)options.tls);
	tls = SSL_CTX_new(options.listen ? TLS_server_method() : TLS_client_method());
	if (!tls || !SSL_CTX_set_min_proto_version(tls, version) || !SSL_CTX_set_max_proto_version(tls, version))
		die("TLS: no context");
	if (!options.listen)
		return; /* trusts anybody */
	key = EVP_EC_gen("P-256");
	cert = X509_new();
	if (!key || !cert)
		die("TLS: no key");
	X509_set_version(cert, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
	X509_gmtime_adj(X509_getm_notBefore(cert), 0);
	X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
				   (const unsigned char *)"service.example", -1, -1, 0);
	X509_set_issuer_name(cert, X509_get_subject_name(cert));
	X509_set_pubkey(cert, key);
	if (!X509_sign(cert, key, EVP_sha256()) || SSL_CTX_use_certificate(tls, cert) != 1 ||
	    SSL_CTX_use_PrivateKey(tls, key) != 1)
		die("TLS: the certificate cannot be used");
	X509_free(cert);
	EVP_PKEY_free(key);
}

/* --- service ---------------------------------------------------------------------------------------------------------------- */

static uint64_t draw_delay_ns(void)
{
	double normal = sqrt(-2 * log(1 - drand48())) * cos(2 * M_PI * drand48());
	double ms = (double)options.median_ms * exp((double)options.sigma_percent / 100 * normal);

	if (ms < (double)options.min_ms)
		ms = (double)options.min_ms;
	if (ms > (double)options.max_ms)
		ms = (double)options.max_ms;
	return (uint64_t)(ms * 1e6);
}

static void on_request(struct connection *connection)
{
	uint64_t now = now_ns();

	connection->owed = true;
	connection->begun_ns = now;
	connection->keep_alive = !strcasestr(connection->head, "\r\nConnection: close");
	connection->serial = ++serials;
	timers_add(&timers, now + draw_delay_ns(), (uint32_t)connection->fd, connection->serial);
}

static void on_due(struct connection *connection, uint64_t at_ns)
{
	static const char kept[] = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n";
	static const char last[] = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n";
	bool keep_alive = connection->keep_alive;
	uint64_t now = now_ns();

	if (now - at_ns > stats.overslept_ns)
		stats.overslept_ns = now - at_ns;
	if (!write_all(connection, keep_alive ? kept : last, (int)(keep_alive ? sizeof(kept) : sizeof(last)) - 1)) {
		stats.broken++;
		finish(connection);
		return;
	}
	samples_add(&stats.took, now - connection->begun_ns);
	if (log_file)
		fprintf(log_file, "%ju\n", (uintmax_t)((now - connection->begun_ns) / 1000));
	stats.answered++;
	connection->owed = false;
	connection->head_len = 0;
	if (!keep_alive)
		finish(connection);
}

static void serve(struct connection *connection)
{
	int got;

	if (!handshake(connection))
		return;
	while ((got = read_some(connection, connection->head + connection->head_len,
				HEAD_MAX - 1 - connection->head_len)) > 0) {
		connection->head_len = (uint16_t)(connection->head_len + got);
		connection->head[connection->head_len] = '\0';
		if (!connection->owed && strstr(connection->head, "\r\n\r\n"))
			on_request(connection);
		if (connection->head_len == HEAD_MAX - 1)
			break;
	}
	if (got != IO_AGAIN) {
		stats.lost += connection->owed;
		finish(connection);
	}
}

static void accept_all(void)
{
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		struct connection *connection = connection_make(fd, EPOLLIN);

		stats.accepted++;
		if (connection->ssl)
			SSL_set_accept_state(connection->ssl);
	}
}

static void service_start(void)
{
	struct epoll_event event = {.events = EPOLLIN};
	int on = 1;

	listener = socket(address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (listener < 0 || bind(listener, &address.any, address_len(&address)) || listen(listener, 4096))
		die("listen on %s: %s", options.listen, strerror(errno));
	event.data.fd = listener;
	epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event);
	if (options.log) {
		log_file = fopen(options.log, "we");
		if (!log_file)
			die("%s: %s", options.log, strerror(errno));
	}
}

/* --- client ----------------------------------------------------------------------------------------------------------------- */

static void ask(struct connection *connection)
{
	static const char kept[] = "GET / HTTP/1.1\r\nHost: service.example\r\n\r\n";
	static const char last[] = "GET / HTTP/1.1\r\nHost: service.example\r\nConnection: close\r\n\r\n";
	const char *text = options.keep_alive ? kept : last;

	connection->owed = true;
	connection->head_len = 0;
	if (options.keep_alive)
		connection->begun_ns = now_ns();
	if (!write_all(connection, text, (int)strlen(text))) {
		stats.failed++;
		finish(connection);
	}
}

static void client_connect(void)
{
	static union address first;
	union address from;
	struct connection *connection;
	int on = 1, fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (!first.any.sa_family)
		address_parse_host(options.from, 0, &first);
	from = address_add(&first, (uint32_t)(stats.started % options.sources));
	stats.started++;
	if (fd < 0)
		die("socket: %s", strerror(errno));
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	if (bind(fd, &from.any, address_len(&from)) ||
	    (connect(fd, &address.any, address_len(&address)) && errno != EINPROGRESS)) {
		stats.failed++;
		close(fd);
		return;
	}
	connection = connection_make(fd, EPOLLOUT);
	connection->begun_ns = now_ns();
	if (connection->ssl)
		SSL_set_connect_state(connection->ssl);
}

static void on_connected(struct connection *connection)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = connection->fd};

	epoll_ctl(poller, EPOLL_CTL_MOD, connection->fd, &event); /* no longer EPOLLOUT */
	if (handshake(connection))
		ask(connection);
}

static void on_answer(struct connection *connection)
{
	stats.done++;
	connection->owed = false;
	samples_add(&stats.took, now_ns() - connection->begun_ns);
	if (options.keep_alive && stats.done + options.connections <= options.turns)
		ask(connection);
	else
		finish(connection);
}

static void client_read(struct connection *connection)
{
	int got = read_some(connection, connection->head + connection->head_len, HEAD_MAX - 1 - connection->head_len);

	if (got == IO_AGAIN)
		return;
	if (got == IO_ENDED) {
		stats.failed++;
		finish(connection);
		return;
	}
	connection->head_len = (uint16_t)(connection->head_len + got);
	connection->head[connection->head_len] = '\0';
	if (strstr(connection->head, "\r\n\r\nok\n"))
		on_answer(connection);
}

static void drive(struct connection *connection, uint32_t events)
{
	if (connection->owed)
		client_read(connection);
	else if (events & (EPOLLERR | EPOLLHUP)) {
		stats.failed++;
		finish(connection);
	} else {
		on_connected(connection);
	}
}

/* One-shot: evenly spaced, whatever the service does. Kept alive: all at once, each as fast as it is answered. */
static void client_due(uint64_t now, uint64_t begin_ns)
{
	uint64_t due = options.keep_alive ? options.connections : (now - begin_ns) * options.rate / NS_PER_S + 1;

	if (due > options.turns)
		due = options.turns;
	while (stats.started < due)
		client_connect();
}

static bool client_is_over(void)
{
	uint64_t all = options.keep_alive ? options.connections : options.turns;

	if (options.keep_alive)
		return stats.done + stats.failed >= options.turns || stats.failed >= all;
	return stats.done + stats.failed >= all;
}

/* --- loop --------------------------------------------------------------------------------------------------------------------- */

static void run(void)
{
	uint64_t begin_ns = now_ns(), end_ns = begin_ns + options.seconds * NS_PER_S, now;

	while (!tool_stopped && (now = now_ns()) < end_ns && !(options.to && client_is_over())) {
		struct timespec wait = timers_wait(&timers, now, options.to ? NS_PER_MS : 100 * NS_PER_MS);
		struct epoll_event events[128];
		int ready = epoll_pwait2(poller, events, 128, &wait, NULL);
		struct timer timer;

		for (int i = 0; i < ready; i++) {
			struct connection *connection = connections[events[i].data.fd];

			if (events[i].data.fd == listener)
				accept_all();
			else if (connection && options.to)
				drive(connection, events[i].events);
			else if (connection)
				serve(connection);
		}
		while (timers_take(&timers, now_ns(), &timer))
			if (connections[timer.id] && connections[timer.id]->serial == timer.serial)
				on_due(connections[timer.id], timer.at_ns);
		if (options.to)
			client_due(now_ns(), begin_ns);
	}
}

int main(int argc, char **argv)
{
	flags_parse("a service that logs its own delays, and its client", flags, argc, argv);
	if (!options.listen == !options.to)
		die("give either --listen or --to");
	address_parse(options.listen ? options.listen : options.to, &address);
	tool_signals();
	tool_open_files();
	srand48((long)options.seed);
	tls_start();
	poller = epoll_create1(EPOLL_CLOEXEC);
	if (options.listen)
		service_start();
	tool_ready();
	run();
	if (log_file && fclose(log_file))
		die("%s: %s", options.log, strerror(errno));
	if (options.listen)
		printf("{\"accepted\": %ju, \"answered\": %ju, \"broken\": %ju, \"lost\": %ju, \"overslept_ms\": %.1f, "
		       "\"took_ms\": ",
		       (uintmax_t)stats.accepted, (uintmax_t)stats.answered, (uintmax_t)stats.broken,
		       (uintmax_t)stats.lost, (double)stats.overslept_ns / 1e6);
	else
		printf("{\"connections\": %ju, \"done\": %ju, \"failed\": %ju, \"took_ms\": ", (uintmax_t)stats.started,
		       (uintmax_t)stats.done, (uintmax_t)stats.failed);
	samples_print(&stats.took);
	puts("}");
	return 0;
}
