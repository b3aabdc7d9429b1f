// SPDX-License-Identifier: GPL-2.0-only
/*
 * turns_live.c: the same programs on real connections, because the socket of a BPF_PROG_TEST_RUN is no TCP socket and is
 * always in the cache. One thread is client and server, so that every segment is sent, judged at both ends and received
 * within its own system calls, and the thread's CPU time is the whole of it. In each round the programs under test, empty
 * ones, and none take turns at a cgroup of the bench's own, first by CPU time, then by the kernel's own clock around each
 * program, which costs time itself.
 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <linux/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "maps/abi.h"
#include "user/datapath/mountinfo.h"

#define EXCHANGES 1024 /* of a slice: 5 ms */
#define MOST_CONNECTIONS 256
#define PORT_UDP_CLIENT 8001 /* and upwards: of no service */

enum mode { MODE_NONE, MODE_EMPTY, MODE_TURNS, MODES };

struct pair {
	int client, server;
};

struct live {
	struct turns *turns;
	char path[512]; /* of the cgroup */
	int cgroup;
	unsigned connections;
	bool acks;
	struct pair pairs[LIVE_SOCKETS][MOST_CONNECTIONS];
};

static const char request[] = "GET / HTTP/1.1\r\nHost: service.example\r\n\r\n";
static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/* --- a cgroup ------------------------------------------------------------------------------------------------------ */

static int read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t used = 0;
	ssize_t n;

	if (fd < 0)
		return -errno;
	while (used < size - 1 && (n = read(fd, text + used, size - 1 - used)) > 0)
		used += (size_t)n;
	close(fd);
	text[used] = '\0';
	return 0;
}

/* A socket belongs to the cgroup in which it was made, wherever its process goes. */
static int move_to(const char *cgroup)
{
	char path[640];
	int fd, r = 0;

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, "0", 1) != 1)
		r = -errno;
	close(fd);
	return r;
}

/* `home`: where this process is now. */
static int make_cgroup(struct live *live, char *home, size_t home_size)
{
	char text[65536], root[256], *line, *end;
	int r = read_text("/proc/self/mountinfo", text, sizeof(text));

	r = r ?: mountinfo_find(text, "cgroup2", root, sizeof(root));
	r = r ?: read_text("/proc/self/cgroup", text, sizeof(text));
	if (r)
		return r;
	line = strncmp(text, "0::", 3) ? strstr(text, "\n0::") : text - 1;
	if (!line)
		return -ENOENT;
	line += strlen("\n0::");
	end = strchrnul(line, '\n');
	snprintf(home, home_size, "%s%.*s", root, (int)(end - line), line);
	snprintf(live->path, sizeof(live->path), "%s/slcbench", root);
	if (mkdir(live->path, 0755) && errno != EEXIST)
		return -errno;
	live->cgroup = open(live->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return live->cgroup < 0 ? -errno : 0;
}

static int program_of(const struct live *live, enum mode mode, bool egress)
{
	static const enum turn_program programs[MODES][2] = {
		[MODE_EMPTY] = {TURN_EMPTY_INGRESS, TURN_EMPTY_EGRESS}, [MODE_TURNS] = {TURN_INGRESS, TURN_EGRESS}};

	return turns_program(live->turns, programs[mode][egress]);
}

static int set_mode(struct live *live, enum mode mode, bool on)
{
	static const enum bpf_attach_type types[2] = {BPF_CGROUP_INET_INGRESS, BPF_CGROUP_INET_EGRESS};
	int r = 0;

	for (int egress = 0; mode != MODE_NONE && !r && egress < 2; egress++) {
		const int fd = program_of(live, mode, egress);

		r = on ? bpf_prog_attach(fd, live->cgroup, types[egress], BPF_F_ALLOW_MULTI)
		       : bpf_prog_detach2(fd, live->cgroup, types[egress]);
	}
	return r;
}

/* Programs that see these packets though the bench has attached none. */
static unsigned foreign_programs(const struct live *live)
{
	uint32_t in = 0, out = 0;

	bpf_prog_query(live->cgroup, BPF_CGROUP_INET_INGRESS, BPF_F_QUERY_EFFECTIVE, NULL, NULL, &in);
	bpf_prog_query(live->cgroup, BPF_CGROUP_INET_EGRESS, BPF_F_QUERY_EFFECTIVE, NULL, NULL, &out);
	return in + out;
}

/* --- sockets ------------------------------------------------------------------------------------------------------- */

static struct sockaddr_in address_of(uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(SERVICE_ADDR_HOST),
	};
}

static int open_at(int type, uint16_t port, int *ret_fd)
{
	const struct sockaddr_in address = address_of(port);
	const int one = 1;
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	return port && bind(fd, (const struct sockaddr *)&address, sizeof(address)) ? -errno : 0;
}

static int connect_to(int fd, uint16_t port)
{
	const struct sockaddr_in address = address_of(port);

	return connect(fd, (const struct sockaddr *)&address, sizeof(address)) ? -errno : 0;
}

static int tcp_pair(int listener, uint16_t port, struct pair *pair)
{
	const int one = 1;
	int r = open_at(SOCK_STREAM, 0, &pair->client);

	r = r ?: connect_to(pair->client, port);
	if (r)
		return r;
	pair->server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (pair->server < 0)
		return -errno;
	setsockopt(pair->client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(pair->server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return 0;
}

static int tcp_pairs(struct live *live, enum live_sockets sockets, uint16_t port)
{
	int listener = -1, r = open_at(SOCK_STREAM, port, &listener);

	if (!r && listen(listener, MOST_CONNECTIONS))
		r = -errno;
	for (unsigned i = 0; !r && i < live->connections; i++)
		r = tcp_pair(listener, port, &live->pairs[sockets][i]);
	if (listener >= 0)
		close(listener);
	return r;
}

static int udp_pairs(struct live *live)
{
	int r = 0;

	for (unsigned i = 0; !r && i < live->connections; i++) {
		struct pair *pair = &live->pairs[LIVE_UDP][i];
		uint16_t client = (uint16_t)(PORT_UDP_CLIENT + 2 * i), server = client + 1;

		r = open_at(SOCK_DGRAM, client, &pair->client);
		r = r ?: open_at(SOCK_DGRAM, server, &pair->server);
		r = r ?: connect_to(pair->client, server);
		r = r ?: connect_to(pair->server, client);
	}
	return r;
}

/* The service's connections are made while sluice's socket program looks on, which opens their storage. */
static int make_sockets(struct live *live)
{
	const int sockops = turns_program(live->turns, TURN_SOCKOPS);
	int r = bpf_prog_attach(sockops, live->cgroup, BPF_CGROUP_SOCK_OPS, BPF_F_ALLOW_MULTI);

	if (r)
		return r;
	r = tcp_pairs(live, LIVE_SERVICE, PORT_TURNS);
	r = r ?: tcp_pairs(live, LIVE_OTHER, PORT_OTHER);
	r = r ?: udp_pairs(live);
	return bpf_prog_detach2(sockops, live->cgroup, BPF_CGROUP_SOCK_OPS) ?: r;
}

static void close_sockets(struct live *live)
{
	for (int s = 0; s < LIVE_SOCKETS; s++)
		for (unsigned i = 0; i < live->connections; i++) {
			if (live->pairs[s][i].client >= 0)
				close(live->pairs[s][i].client);
			if (live->pairs[s][i].server >= 0)
				close(live->pairs[s][i].server);
		}
}

/* --- slices -------------------------------------------------------------------------------------------------------- */

/* What was received is acknowledged now, by a segment of its own. */
static void acknowledge(int fd)
{
	const int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &one, sizeof(one));
}

static int exchange(const struct pair *pair, bool acks)
{
	char buffer[128];

	if (send(pair->client, request, sizeof(request) - 1, 0) != sizeof(request) - 1 ||
	    recv(pair->server, buffer, sizeof(buffer), 0) != sizeof(request) - 1)
		return errno ? -errno : -EPROTO;
	if (acks)
		acknowledge(pair->server);
	if (send(pair->server, answer, sizeof(answer) - 1, 0) != sizeof(answer) - 1 ||
	    recv(pair->client, buffer, sizeof(buffer), 0) != sizeof(answer) - 1)
		return errno ? -errno : -EPROTO;
	if (acks)
		acknowledge(pair->client);
	return 0;
}

static int exchanges(const struct live *live, enum live_sockets sockets, double *ret_ns)
{
	const bool acks = live->acks && sockets != LIVE_UDP;
	struct timespec before, after;
	int r = 0;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
	for (unsigned i = 0; !r && i < EXCHANGES; i++)
		r = exchange(&live->pairs[sockets][i % live->connections], acks);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
	*ret_ns = ((double)(after.tv_sec - before.tv_sec) * 1e9 + (double)(after.tv_nsec - before.tv_nsec)) / EXCHANGES;
	return r;
}

/* Segments that these sockets have sent so far, ACKs too; datagrams: two an exchange. */
static uint64_t segments_sent(const struct live *live, enum live_sockets sockets)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < live->connections; i++) {
		const int fds[2] = {live->pairs[sockets][i].client, live->pairs[sockets][i].server};

		for (int end = 0; end < 2; end++) {
			struct tcp_info info = {};
			socklen_t size = sizeof(info);

			getsockopt(fds[end], IPPROTO_TCP, TCP_INFO, &info, &size);
			sum += info.tcpi_segs_out;
		}
	}
	return sum;
}

struct slice {
	double ns, segments; /* of an exchange */
};

/* Where ours are attached, each exchange on a connection of the service must be a turn, begun and ended. */
static int one_slice(const struct live *live, enum mode mode, enum live_sockets sockets, struct slice *ret)
{
	const struct slc_signals *signals = turns_signals(live->turns);
	const uint64_t begun = signals->turns_begun, ended = signals->turns_ended;
	const uint64_t segments = segments_sent(live, sockets);
	const uint64_t turns = mode == MODE_TURNS && sockets == LIVE_SERVICE ? EXCHANGES : 0;
	int r = exchanges(live, sockets, &ret->ns);

	ret->segments = sockets == LIVE_UDP ? 2 : (double)(segments_sent(live, sockets) - segments) / EXCHANGES;
	if (r)
		return r;
	if (signals->turns_begun - begun == turns && signals->turns_ended - ended == turns)
		return 0;
	fprintf(stderr, "bench: of %u turns on loopback %ju were begun, %ju ended\n", (unsigned)turns,
		(uintmax_t)(signals->turns_begun - begun), (uintmax_t)(signals->turns_ended - ended));
	return -EPROTO;
}

/* --- rounds -------------------------------------------------------------------------------------------------------- */

typedef struct slice slices_of_round[MODES][LIVE_SOCKETS];

static void take(struct turns_live *row, const slices_of_round slices)
{
	const struct slice *none = slices[MODE_NONE], *empty = slices[MODE_EMPTY], *ours = slices[MODE_TURNS];
	const double segments = none[LIVE_OTHER].segments;
	const double other = (ours[LIVE_OTHER].ns - empty[LIVE_OTHER].ns) / segments / 2;
	const unsigned i = row->rounds;

	row->segments = segments;
	row->way[i] = none[LIVE_OTHER].ns / segments;
	row->hook[i] = (empty[LIVE_OTHER].ns - none[LIVE_OTHER].ns) / segments / 2;
	row->other[i] = other;
	row->udp[i] = (ours[LIVE_UDP].ns - empty[LIVE_UDP].ns) / ours[LIVE_UDP].segments / 2;
	/* The other end of each segment is the client's socket, which is of no service. */
	row->service[i] = (ours[LIVE_SERVICE].ns - empty[LIVE_SERVICE].ns) / ours[LIVE_SERVICE].segments - other;
}

/* The order of the programs moves on each round, so that none of them always comes first. */
static int one_round(struct live *live, unsigned round, slices_of_round slices)
{
	int r = 0;

	for (unsigned i = 0; !r && i < MODES; i++) {
		const enum mode mode = (round + i) % MODES;

		r = set_mode(live, mode, true);
		for (int s = 0; !r && s < LIVE_SOCKETS; s++)
			r = one_slice(live, mode, s, &slices[mode][s]);
		r = set_mode(live, mode, false) ?: r;
	}
	return r;
}

struct timed {
	double ns, runs;
};

static int read_timed(const struct live *live, enum mode mode, struct timed timed[2])
{
	for (int egress = 0; egress < 2; egress++) {
		struct bpf_prog_info info = {};
		uint32_t len = sizeof(info);

		if (bpf_obj_get_info_by_fd(program_of(live, mode, egress), &info, &len))
			return -errno;
		timed[egress] = (struct timed){(double)info.run_time_ns, (double)info.run_cnt};
	}
	return 0;
}

/* ns of a run of each of the two programs. */
static int one_timed(struct live *live, enum mode mode, enum live_sockets sockets, double ret_ns[2])
{
	struct timed before[2], after[2];
	struct slice slice;
	int r = set_mode(live, mode, true);

	r = r ?: read_timed(live, mode, before);
	r = r ?: one_slice(live, mode, sockets, &slice);
	r = r ?: read_timed(live, mode, after);
	r = set_mode(live, mode, false) ?: r;
	for (int egress = 0; !r && egress < 2; egress++) {
		if (after[egress].runs <= before[egress].runs)
			return -EPROTO;
		ret_ns[egress] = (after[egress].ns - before[egress].ns) / (after[egress].runs - before[egress].runs);
	}
	return r;
}

/* As many runs are of the client's sockets, which are of no service, as of the service's. */
static int timed_round(struct live *live, struct turns_live *row)
{
	double empty[2], other[2], both[2];
	int stats = bpf_enable_stats(BPF_STATS_RUN_TIME), r;

	if (stats < 0)
		return stats;
	r = one_timed(live, MODE_EMPTY, LIVE_OTHER, empty);
	r = r ?: one_timed(live, MODE_TURNS, LIVE_OTHER, other);
	r = r ?: one_timed(live, MODE_TURNS, LIVE_SERVICE, both);
	close(stats);
	for (int egress = 0; !r && egress < 2; egress++) {
		row->timed_other[egress][row->rounds] = other[egress] - empty[egress];
		row->timed_service[egress][row->rounds] = 2 * both[egress] - other[egress] - empty[egress];
	}
	return r;
}

static int rounds(struct bench *bench, struct live *live, struct turns_live *row)
{
	const unsigned count = bench->results->quick ? 9 : BENCH_MAX_ROUNDS;
	const double until = seconds_now() + (bench->results->quick ? 1.3 : 10);
	slices_of_round slices;
	int r = one_round(live, 0, slices); /* warms up, and leaves the connections' first, quick ACKs behind */

	for (unsigned i = 0; !r && i < count && (i < BENCH_MIN_ROUNDS || seconds_now() < until); i++) {
		r = bench_stopped ? -EINTR : one_round(live, i, slices);
		r = r ?: timed_round(live, row);
		if (r)
			break;
		take(row, (const struct slice(*)[LIVE_SOCKETS])slices);
		row->rounds++;
	}
	return r;
}

/* --- rows ---------------------------------------------------------------------------------------------------------- */

static int open_live(struct live *live, struct turns *turns, unsigned connections)
{
	char home[512];
	int r;

	*live = (struct live){.turns = turns, .cgroup = -1, .connections = connections};
	memset(live->pairs, 0xff, sizeof(live->pairs)); /* no descriptor yet */
	r = make_cgroup(live, home, sizeof(home));
	r = r ?: move_to(live->path);
	if (r)
		return r;
	r = make_sockets(live);
	return move_to(home) ?: r;
}

static void close_live(struct live *live)
{
	close_sockets(live);
	if (live->cgroup < 0)
		return;
	close(live->cgroup);
	rmdir(live->path);
}

int turns_introduce(struct bench *bench)
{
	struct live live;
	int r = topology_enter(bench->topology, SUBJECT_SLUICE);

	if (!r) {
		r = open_live(&live, bench->turns, 1);
		close_live(&live);
	}
	return topology_enter_generator(bench->topology) ?: r;
}

static int measure_row(struct bench *bench, struct turns_live *row)
{
	struct live live;
	int r = open_live(&live, bench->turns, row->connections);

	live.acks = row->acks;
	if (!r)
		bench->results->foreign += foreign_programs(&live);
	r = r ?: rounds(bench, &live, row);
	close_live(&live);
	return r;
}

int measure_turns_live(struct bench *bench)
{
	static const struct turns_live rows[TURNS_LIVE_ROWS] = {
		{.connections = 1, .acks = true}, {.connections = 1}, {.connections = MOST_CONNECTIONS}};
	struct rlimit files;
	int r = topology_enter(bench->topology, SUBJECT_SLUICE);

	if (!getrlimit(RLIMIT_NOFILE, &files) && files.rlim_cur < files.rlim_max) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	for (int i = 0; !r && i < TURNS_LIVE_ROWS; i++) {
		bench->results->turns_live[i] = rows[i];
		r = measure_row(bench, &bench->results->turns_live[i]);
	}
	if (r)
		fprintf(stderr, "bench: turns over loopback: %s\n", strerror(-r));
	return topology_enter_generator(bench->topology) ?: r;
}

int measure_turns_live_loop(struct bench *bench, double seconds)
{
	const double until = seconds_now() + seconds;
	struct slice slice = {};
	struct live live;
	int r = topology_enter(bench->topology, SUBJECT_SLUICE);

	if (r)
		return r;
	r = open_live(&live, bench->turns, 1);
	r = r ?: set_mode(&live, MODE_TURNS, true);
	while (!r && seconds_now() < until)
		r = one_slice(&live, MODE_TURNS, LIVE_SERVICE, &slice);
	if (!r)
		printf("turns over loopback: %.0f ns per exchange of %.2f segments\n", slice.ns, slice.segments);
	close_live(&live);
	return topology_enter_generator(bench->topology) ?: r;
}
