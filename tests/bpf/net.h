/* SPDX-License-Identifier: GPL-2.0-only */
/* net.h: real listeners and connections in the test's own namespace, and a cgroup of its own for sockops. */
#ifndef TESTS_BPF_NET_H
#define TESTS_BPF_NET_H

#include <stdbool.h>
#include <stdint.h>

struct net_listen {
	const char *addr;
	uint16_t port;
	int backlog;
	bool v6only;
	bool reuseport;
	int fastopen; /* queue length; 0: off */
	int proto; /* 0: TCP */
};

/* -errno where the kernel has no such protocol; aborts on anything else. */
int net_listen(const struct net_listen *how);
void net_close(int listener);
#define LISTEN(...) net_listen(&(struct net_listen){__VA_ARGS__})

/* Connections waiting to be accepted, and the most the socket takes, as the kernel says. */
uint32_t net_waiting(int listener);
uint32_t net_backlog(int listener);

/*
 * Connects from `from` (port 0: any) and waits at most `ms` for the handshake. A descriptor, or -ETIMEDOUT: the
 * kernel did not answer; -ECONNREFUSED.
 */
int net_connect(const char *from, uint16_t sport, const char *to, uint16_t port, int ms);

/* `count` connections that nobody accepts; aborts if one does not come about. Closed by net_drop_all(). */
void net_fill(const char *to, uint16_t port, int count);
void net_drop_all(void);
void net_close_all(void); /* listeners too: after a test that failed in the middle */
void net_accept_all(int listener); /* accepts what waits and closes it */

uint64_t net_counter(const char *name); /* of /proc/net/netstat's TcpExt, in this namespace */
void net_sysctl(const char *path, const char *value); /* below /proc/sys/net */
uint64_t net_cookie(void); /* of this namespace */

/* A pair of veths in this namespace, both up, `mtu` bytes; gone with the namespace. Returns the second one's index. */
int net_veth(const char *first, const char *second, int mtu);
int net_raw(const char *interface); /* a packet socket that sends past the queueing discipline */
uint64_t net_xdp_packets(const char *interface); /* frames that its XDP program was run for */

/* A child of the cgroup2 root with this process in it; its descriptor, or -errno where there is no cgroup2. */
int net_cgroup_enter(void);
void net_cgroup_leave(int fd);

#endif /* TESTS_BPF_NET_H */
