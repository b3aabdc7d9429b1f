// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/sockdiag.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "user/control/address.h"
#include "user/control/scope.h"

#define LAST_RECEIVED_END (offsetof(struct tcp_info, tcpi_last_data_recv) + sizeof(uint32_t))
#define DUMP_TRIES 8
#define DUMP_BUFFER 65536 /* the kernel fills 32 KiB at most */

void diag_list_free(struct diag_list *list)
{
	free(list->sockets);
	*list = (struct diag_list){0};
}

static int add(struct diag_list *list, const struct diag_socket *socket)
{
	if (list->count == list->capacity) {
		size_t capacity = list->capacity ? 2 * list->capacity : 64;
		struct diag_socket *bigger = reallocarray(list->sockets, capacity, sizeof(*bigger));

		if (!bigger)
			return -ENOMEM;
		list->sockets = bigger;
		list->capacity = capacity;
	}
	list->sockets[list->count++] = *socket;
	return 0;
}

static void map_address(uint8_t family, const __be32 src[4], uint8_t addr[16])
{
	if (family == AF_INET6) {
		memcpy(addr, src, 16);
		return;
	}
	address_from_v4(src, addr);
}

static void socket_of(const struct nlmsghdr *nlh, struct diag_socket *socket)
{
	const struct inet_diag_msg *msg = NLMSG_DATA(nlh);
	int len = NLMSG_PAYLOAD(nlh, sizeof(*msg));

	*socket = (struct diag_socket){
		.family = msg->idiag_family,
		.state = msg->idiag_state,
		.port = ntohs(msg->id.idiag_sport),
		.ifindex = msg->id.idiag_if,
		.rqueue = msg->idiag_rqueue,
		.wqueue = msg->idiag_wqueue,
		.cookie = msg->id.idiag_cookie[0] | (uint64_t)msg->id.idiag_cookie[1] << 32,
		.inode = msg->idiag_inode,
	};
	map_address(msg->idiag_family, msg->id.idiag_src, socket->addr);
	for (const struct rtattr *rta = (const void *)(msg + 1); RTA_OK(rta, len); rta = RTA_NEXT(rta, len)) {
		if (rta->rta_type == INET_DIAG_SKV6ONLY)
			socket->v6only = *(const uint8_t *)RTA_DATA(rta);
		else if (rta->rta_type == INET_DIAG_SKMEMINFO && RTA_PAYLOAD(rta) > SK_MEMINFO_DROPS * sizeof(uint32_t))
			socket->drops = ((const uint32_t *)RTA_DATA(rta))[SK_MEMINFO_DROPS];
		else if (rta->rta_type == INET_DIAG_INFO && RTA_PAYLOAD(rta) >= LAST_RECEIVED_END)
			memcpy(&socket->last_received_ms,
			       (const char *)RTA_DATA(rta) + offsetof(struct tcp_info, tcpi_last_data_recv),
			       sizeof(socket->last_received_ms));
	}
}

/* Error code of a message that ends the dump. */
static int end_of_dump(const struct nlmsghdr *nlh)
{
	int err = 0;

	if (nlh->nlmsg_len >= NLMSG_LENGTH(sizeof(err)))
		memcpy(&err, NLMSG_DATA(nlh), sizeof(err));
	return err;
}

int sockdiag_parse(const void *buf, size_t len, uint32_t seq, uint32_t states, struct diag_list *list,
		   struct diag_answer *answer)
{
	struct diag_socket socket;
	int err;

	for (const struct nlmsghdr *nlh = buf; NLMSG_OK(nlh, len); nlh = NLMSG_NEXT(nlh, len)) {
		if (nlh->nlmsg_seq != seq)
			continue;
		if (nlh->nlmsg_flags & NLM_F_DUMP_INTR)
			answer->interrupted = true;
		if (nlh->nlmsg_type == NLMSG_DONE || nlh->nlmsg_type == NLMSG_ERROR) {
			answer->done = true;
			answer->err = end_of_dump(nlh);
			return 0;
		}
		if (nlh->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
		    nlh->nlmsg_len < NLMSG_LENGTH(sizeof(struct inet_diag_msg)))
			continue;
		socket_of(nlh, &socket);
		if (socket.state > 31 || !(states & 1u << socket.state))
			continue;
		err = add(list, &socket);
		if (err)
			return err;
	}
	return 0;
}

static int request(int diag_fd, uint32_t seq, uint8_t family, uint32_t states, uint16_t port)
{
	struct {
		struct nlmsghdr nlh;
		struct inet_diag_req_v2 req;
	} msg = {
		.nlh = {.nlmsg_len = sizeof(msg),
			.nlmsg_type = SOCK_DIAG_BY_FAMILY,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
			.nlmsg_seq = seq},
		.req = {.sdiag_family = family,
			.sdiag_protocol = IPPROTO_TCP,
			/* Drops of listeners; of connections, which may be many, the rest only where it is asked for. */
			.idiag_ext =
				1 << (states == 1u << TCP_ESTABLISHED ? INET_DIAG_INFO - 1 : INET_DIAG_SKMEMINFO - 1),
			.idiag_states = states,
			.id = {.idiag_sport = htons(port), .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}},
	};

	return send(diag_fd, &msg, sizeof(msg), 0) < 0 ? -errno : 0;
}

static int dump_family(int diag_fd, char *buf, uint8_t family, uint32_t states, uint16_t port, struct diag_list *list)
{
	static _Atomic uint32_t next_seq = 1;
	uint32_t seq = next_seq++;
	struct diag_answer answer = {0};
	int err = request(diag_fd, seq, family, states, port);

	while (!err && !answer.done) {
		ssize_t len = recv(diag_fd, buf, DUMP_BUFFER, MSG_TRUNC);

		if (len < 0 && errno == EINTR)
			continue;
		if (len < 0)
			return errno == ENOBUFS ? -EAGAIN : -errno; /* messages were lost: begin again */
		if (len > DUMP_BUFFER)
			return -EMSGSIZE;
		err = sockdiag_parse(buf, len, seq, states, list, &answer);
	}
	if (!err && answer.interrupted)
		return -EAGAIN;
	return err ? err : answer.err;
}

int sockdiag_dump(int diag_fd, uint32_t states, uint16_t port, struct diag_list *ret_list)
{
	static const uint8_t families[] = {AF_INET, AF_INET6};
	SCOPE_FREE char *buf = malloc(DUMP_BUFFER);
	struct diag_list list = {0};
	int err = -EAGAIN;

	if (!buf)
		return -ENOMEM;
	for (unsigned int try = 0; try < DUMP_TRIES && err == -EAGAIN; try++) {
		list.count = 0;
		err = 0;
		for (size_t i = 0; i < sizeof(families) && !err; i++)
			err = dump_family(diag_fd, buf, families[i], states, port, &list);
		if (err == -ENOENT && list.count > 0)
			err = 0; /* a kernel without IPv6 */
	}
	if (err) {
		diag_list_free(&list);
		return err;
	}
	*ret_list = list;
	return 0;
}
