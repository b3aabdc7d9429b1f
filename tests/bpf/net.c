// SPDX-License-Identifier: GPL-2.0-only
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/bpf/net.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

static void __attribute__((format(printf, 1, 2), noreturn)) die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "net: ");
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	va_end(args);
	net_cgroup_leave(-1);
	abort();
}

static socklen_t address(const char *text, uint16_t port, struct sockaddr_storage *ret)
{
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)ret;
	struct sockaddr_in *four = (struct sockaddr_in *)ret;

	memset(ret, 0, sizeof(*ret));
	if (strchr(text, ':')) {
		six->sin6_family = AF_INET6;
		six->sin6_port = htons(port);
		if (inet_pton(AF_INET6, text, &six->sin6_addr) != 1)
			die("%s is no address", text);
		return sizeof(*six);
	}
	four->sin_family = AF_INET;
	four->sin_port = htons(port);
	if (inet_pton(AF_INET, text, &four->sin_addr) != 1)
		die("%s is no address", text);
	return sizeof(*four);
}

static void set_option(int fd, int level, int option, int value)
{
	if (setsockopt(fd, level, option, &value, sizeof(value)))
		die("socket option %d: %s", option, strerror(errno));
}

static int listeners[64];
static size_t listener_count;

static int keep(int fd)
{
	if (listener_count == sizeof(listeners) / sizeof(*listeners))
		die("too many listeners");
	return listeners[listener_count++] = fd;
}

void net_close(int listener)
{
	for (size_t i = 0; i < listener_count; i++) {
		if (listeners[i] == listener)
			listeners[i] = listeners[--listener_count];
	}
	close(listener);
}

int net_listen(const struct net_listen *how)
{
	struct sockaddr_storage at;
	socklen_t length = address(how->addr, how->port, &at);
	int fd = socket(at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, how->proto);

	if (fd < 0)
		return -errno;
	set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (how->reuseport)
		set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	if (at.ss_family == AF_INET6)
		set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, how->v6only);
	if (how->fastopen)
		set_option(fd, IPPROTO_TCP, TCP_FASTOPEN, how->fastopen);
	if (bind(fd, (struct sockaddr *)&at, length) || listen(fd, how->backlog))
		die("listen on %s:%u: %s", how->addr, how->port, strerror(errno));
	return keep(fd);
}

static struct tcp_info info(int fd)
{
	struct tcp_info i = {0};
	socklen_t length = sizeof(i);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &i, &length))
		die("TCP_INFO: %s", strerror(errno));
	return i;
}

uint32_t net_waiting(int listener)
{
	return info(listener).tcpi_unacked;
}

uint32_t net_backlog(int listener)
{
	return info(listener).tcpi_sacked;
}

int net_connect(const char *from, uint16_t sport, const char *to, uint16_t port, int ms)
{
	struct sockaddr_storage local, remote;
	socklen_t local_length = address(from, sport, &local), remote_length = address(to, port, &remote);
	int fd = socket(remote.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error = 0;
	struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};
	struct linger reset = {.l_onoff = 1};
	socklen_t length = sizeof(error);

	if (fd < 0)
		die("socket: %s", strerror(errno));
	set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	/* closing leaves nothing behind: no TIME_WAIT that a later test would meet */
	if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)))
		die("SO_LINGER: %s", strerror(errno));
	if (bind(fd, (struct sockaddr *)&local, local_length))
		die("bind to %s:%u: %s", from, sport, strerror(errno));
	if (connect(fd, (struct sockaddr *)&remote, remote_length) && errno != EINPROGRESS) {
		error = errno;
	} else if (poll(&poll_fd, 1, ms) == 0) {
		error = ETIMEDOUT;
	} else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length)) {
		die("SO_ERROR: %s", strerror(errno));
	}
	if (!error)
		return fd;
	close(fd);
	return -error;
}

static int held[4096];
static size_t held_count;

void net_fill(const char *to, uint16_t port, int count)
{
	const char *from = strchr(to, ':') ? "2001:db8:1::7" : "198.51.100.7";

	while (count--) {
		int fd = net_connect(from, 0, to, port, 2000);

		if (fd < 0)
			die("connection to %s:%u: %s", to, port, strerror(-fd));
		if (held_count == sizeof(held) / sizeof(*held))
			die("too many connections held");
		held[held_count++] = fd;
	}
}

void net_drop_all(void)
{
	while (held_count)
		close(held[--held_count]);
}

void net_close_all(void)
{
	net_drop_all();
	while (listener_count)
		close(listeners[--listener_count]);
}

void net_accept_all(int listener)
{
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		close(fd);
}

uint64_t net_counter(const char *name)
{
	FILE *f = fopen("/proc/thread-self/net/netstat", "re");
	static char names[16384], values[16384];
	uint64_t found = 0;

	if (!f)
		die("netstat: %s", strerror(errno));
	while (fgets(names, sizeof(names), f) && fgets(values, sizeof(values), f)) {
		char *n, *v, *n_rest, *v_rest;

		for (n = strtok_r(names, " \n", &n_rest), v = strtok_r(values, " \n", &v_rest); n && v;
		     n = strtok_r(NULL, " \n", &n_rest), v = strtok_r(NULL, " \n", &v_rest)) {
			if (!strcmp(n, name))
				found = strtoull(v, NULL, 10);
		}
	}
	fclose(f);
	return found;
}

void net_sysctl(const char *path, const char *value)
{
	char full[256];
	int fd;

	snprintf(full, sizeof(full), "/proc/sys/net/%s", path);
	fd = open(full, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		die("%s = %s: %s", full, value, strerror(errno));
	close(fd);
}

uint64_t net_cookie(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint64_t cookie = 0;
	socklen_t length = sizeof(cookie);

	if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &length))
		die("SO_NETNS_COOKIE: %s", strerror(errno));
	close(fd);
	return cookie;
}

/* --- veth --------------------------------------------------------------------------------------------------------- */

int net_veth(const char *first, const char *second, int mtu)
{
	char command[256];

	snprintf(command, sizeof(command),
		 "ip link add %s mtu %d type veth peer name %s mtu %d && ip link set %s up && ip link set %s up", first,
		 mtu, second, mtu, first, second);
	if (system(command))
		die("`%s` failed", command);
	return if_nametoindex(second);
}

int net_raw(const char *interface)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_ifindex = if_nametoindex(interface)};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)))
		die("packet socket on %s: %s", interface, strerror(errno));
	set_option(fd, SOL_PACKET, PACKET_QDISC_BYPASS, 1);
	return fd;
}

static void ethtool(int fd, struct ifreq *ifr, void *command)
{
	ifr->ifr_data = command;
	if (ioctl(fd, SIOCETHTOOL, ifr))
		die("ethtool on %s: %s", ifr->ifr_name, strerror(errno));
}

uint64_t net_xdp_packets(const char *interface)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	struct ifreq ifr = {.ifr_data = NULL};
	struct ethtool_gstrings *names;
	struct ethtool_stats *values;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint64_t sum = 0;

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", interface);
	ethtool(fd, &ifr, &info);
	names = calloc(1, sizeof(*names) + info.n_stats * ETH_GSTRING_LEN);
	values = calloc(1, sizeof(*values) + info.n_stats * sizeof(uint64_t));
	names->cmd = ETHTOOL_GSTRINGS;
	names->string_set = ETH_SS_STATS;
	names->len = info.n_stats;
	ethtool(fd, &ifr, names);
	values->cmd = ETHTOOL_GSTATS;
	values->n_stats = info.n_stats;
	ethtool(fd, &ifr, values);
	for (uint32_t i = 0; i < info.n_stats; i++) {
		const char *name = (const char *)names->data + i * ETH_GSTRING_LEN;
		unsigned queue;
		char rest[ETH_GSTRING_LEN];

		if (sscanf(name, "rx_queue_%u_%31s", &queue, rest) == 2 && !strcmp(rest, "xdp_packets"))
			sum += values->data[i];
	}
	free(names);
	free(values);
	close(fd);
	return sum;
}

/* --- cgroup ------------------------------------------------------------------------------------------------------- */

static char cgroup_path[PATH_MAX];

static bool find_cgroup2(char *ret_path, size_t size)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t room = 0;
	bool found = false;

	while (f && !found && getline(&line, &room, f) >= 0) {
		char where[1024];

		if (strstr(line, " - cgroup2 ") && sscanf(line, "%*s %*s %*s %*s %1023s", where) == 1) {
			snprintf(ret_path, size, "%s", where);
			found = true;
		}
	}
	free(line);
	if (f)
		fclose(f);
	return found;
}

static int move_self(const char *directory)
{
	char path[PATH_MAX];
	int fd, err = 0;

	snprintf(path, sizeof(path), "%s/cgroup.procs", directory);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "0", 1) != 1)
		err = -errno;
	if (fd >= 0)
		close(fd);
	return err;
}

/* Those of tests that were killed: only an empty one can be removed. */
static void remove_stale(const char *root)
{
	DIR *dir = opendir(root);
	const struct dirent *entry;
	char path[PATH_MAX];

	while (dir && (entry = readdir(dir))) {
		if (strncmp(entry->d_name, "sluice-test-", 12))
			continue;
		snprintf(path, sizeof(path), "%s/%s", root, entry->d_name);
		rmdir(path);
	}
	if (dir)
		closedir(dir);
}

int net_cgroup_enter(void)
{
	char root[1024];
	int fd, err;

	if (!find_cgroup2(root, sizeof(root)))
		return -ENOENT;
	remove_stale(root);
	snprintf(cgroup_path, sizeof(cgroup_path), "%s/sluice-test-%d", root, getpid());
	if (mkdir(cgroup_path, 0755))
		return -errno;
	err = move_self(cgroup_path);
	fd = err ? err : open(cgroup_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		rmdir(cgroup_path);
	return fd;
}

void net_cgroup_leave(int fd)
{
	char root[1024];

	if (fd >= 0)
		close(fd);
	if (cgroup_path[0] && find_cgroup2(root, sizeof(root)) && !move_self(root))
		rmdir(cgroup_path);
}
