// SPDX-License-Identifier: GPL-2.0-only
/*
 * nftcount.c: a named nftables counter by one netlink request. `nft list counters` reads all elements of all sets
 * first, which takes minutes for a set of 1 M.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/bench/bench.h"

struct request {
	struct nlmsghdr nl;
	struct nfgenmsg nf;
	char attributes[128];
};

static void put(struct request *request, uint16_t type, const void *data, size_t len)
{
	struct nlattr *attribute = (void *)((char *)request + NLMSG_ALIGN(request->nl.nlmsg_len));

	attribute->nla_type = type;
	attribute->nla_len = (uint16_t)(NLA_HDRLEN + len);
	memcpy((char *)attribute + NLA_HDRLEN, data, len);
	request->nl.nlmsg_len = NLMSG_ALIGN(request->nl.nlmsg_len) + NLA_ALIGN(attribute->nla_len);
}

/* The attribute `type` among `len` bytes, or NULL. */
static const struct nlattr *find(const void *from, size_t len, uint16_t type)
{
	const char *at = from, *end = at + len;

	while (at + NLA_HDRLEN <= end) {
		const struct nlattr *attribute = (const void *)at;

		if (attribute->nla_len < NLA_HDRLEN || at + attribute->nla_len > end)
			break;
		if ((attribute->nla_type & NLA_TYPE_MASK) == type)
			return attribute;
		at += NLA_ALIGN(attribute->nla_len);
	}
	return NULL;
}

static int packets_of(const struct nlmsghdr *nl, uint64_t *ret)
{
	const size_t header = NLMSG_LENGTH(sizeof(struct nfgenmsg));
	const struct nlattr *data, *packets;
	uint64_t value;

	if (nl->nlmsg_type == NLMSG_ERROR)
		return ((const struct nlmsgerr *)NLMSG_DATA(nl))->error ?: -EPROTO;
	data = find((const char *)nl + header, nl->nlmsg_len - header, NFTA_OBJ_DATA);
	packets = data ? find((const char *)data + NLA_HDRLEN, data->nla_len - NLA_HDRLEN, NFTA_COUNTER_PACKETS) : NULL;
	if (!packets || packets->nla_len != NLA_HDRLEN + sizeof(value))
		return -EPROTO;
	memcpy(&value, (const char *)packets + NLA_HDRLEN, sizeof(value));
	*ret = be64toh(value);
	return 0;
}

int nft_counter(const char *family, const char *table, const char *name, uint64_t *ret)
{
	struct request request = {
		.nl = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct nfgenmsg)),
		       .nlmsg_type = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETOBJ,
		       .nlmsg_flags = NLM_F_REQUEST},
		.nf = {.nfgen_family = !strcmp(family, "netdev") ? NFPROTO_NETDEV : NFPROTO_IPV4,
		       .version = NFNETLINK_V0},
	};
	const uint32_t type = htonl(NFT_OBJECT_COUNTER);
	union {
		struct nlmsghdr nl;
		char bytes[4096];
	} answer;
	ssize_t n;
	int fd, r;

	put(&request, NFTA_OBJ_TABLE, table, strlen(table) + 1);
	put(&request, NFTA_OBJ_NAME, name, strlen(name) + 1);
	put(&request, NFTA_OBJ_TYPE, &type, sizeof(type));
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	if (fd < 0)
		return -errno;
	r = send(fd, &request, request.nl.nlmsg_len, 0) < 0 ? -errno : 0;
	n = r ? 0 : recv(fd, &answer, sizeof(answer), 0);
	if (!r)
		r = n < 0 ? -errno : n < (ssize_t)sizeof(answer.nl) ? -EPROTO : packets_of(&answer.nl, ret);
	close(fd);
	return r;
}
