/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sockdiag.h: TCP sockets as the kernel lists them (NETLINK_SOCK_DIAG). Of a listener, rqueue is how many wait and
 * wqueue how many may; of a connection the same fields are bytes: the two are never read together.
 */
#ifndef SLUICE_SOCKDIAG_H
#define SLUICE_SOCKDIAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct diag_socket {
	uint8_t family; /* AF_INET or AF_INET6 */
	uint8_t state; /* TCP_LISTEN, TCP_ESTABLISHED ... */
	bool v6only;
	uint8_t addr[16]; /* local; IPv4 as ::ffff:a.b.c.d */
	uint16_t port; /* local */
	uint32_t ifindex; /* bound to a device */
	uint32_t rqueue, wqueue;
	uint64_t cookie;
	uint32_t inode;
	uint32_t drops; /* of a listener: connections that found its queue full, among others (modulo 2^32) */
	uint32_t last_received_ms; /* of a connection: ago */
};

struct diag_list {
	struct diag_socket *sockets;
	size_t count, capacity;
};
void diag_list_free(struct diag_list *list);

/* What one datagram of a dump said. */
struct diag_answer {
	bool done;
	bool interrupted; /* NLM_F_DUMP_INTR: the table changed meanwhile, the dump is no use */
	int err;
};
/* Pure: messages of another dump (`seq`), and sockets in none of `states`, are passed over. */
int sockdiag_parse(const void *buf, size_t len, uint32_t seq, uint32_t states, struct diag_list *list,
		   struct diag_answer *answer);

/*
 * All sockets in `states` (bits 1 << TCP_*) of both families, with local port `port` or any (0). A dump that was
 * interrupted is begun again; -EAGAIN if that does not help. *ret_list is complete or untouched.
 */
int sockdiag_dump(int diag_fd, uint32_t states, uint16_t port, struct diag_list *ret_list);

#endif /* SLUICE_SOCKDIAG_H */
