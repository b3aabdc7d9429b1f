// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/net_namespace.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "user/control/scope.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

static const char *const directories[] = {"/run/netns", "/var/run/netns"};

/* Work of the visiting thread: in `ns_fd` (or where it is, -1), make the sockets. */
struct visit {
	int ns_fd;
	int diag_fd;
	uint64_t cookie;
	int err;
};

static void *visit_netns(void *arg)
{
	struct visit *v = arg;
	socklen_t len = sizeof(v->cookie);
	struct timeval patience = {.tv_sec = 1};
	SCOPE_FD tcp = -1;

	if (v->ns_fd >= 0 && setns(v->ns_fd, CLONE_NEWNET) < 0) {
		v->err = -errno;
		return NULL;
	}
	tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	v->diag_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (tcp < 0 || v->diag_fd < 0) {
		v->err = -errno;
		return NULL;
	}
	setsockopt(v->diag_fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (getsockopt(tcp, SOL_SOCKET, SO_NETNS_COOKIE, &v->cookie, &len) < 0)
		v->err = -errno;
	return NULL;
}

struct nsid_request {
	struct nlmsghdr nlh;
	struct rtgenmsg gen;
	char attrs[64];
};

static void put_attr(struct nlmsghdr *nlh, uint16_t type, const void *data, size_t len)
{
	struct rtattr *rta = (struct rtattr *)((char *)nlh + NLMSG_ALIGN(nlh->nlmsg_len));

	rta->rta_type = type;
	rta->rta_len = RTA_LENGTH(len);
	memcpy(RTA_DATA(rta), data, len);
	nlh->nlmsg_len = NLMSG_ALIGN(nlh->nlmsg_len) + RTA_ALIGN(rta->rta_len);
}

/* One question, one answer: RTM_NEWNSID or an error. *ret_nsid is only set by the former. */
static int ask_nsid(int rtnl, uint16_t type, uint16_t flags, int ns_fd, int32_t *ret_nsid)
{
	struct nsid_request req = {.nlh = {.nlmsg_len = NLMSG_LENGTH(sizeof(req.gen)),
					   .nlmsg_type = type,
					   .nlmsg_flags = NLM_F_REQUEST | flags}};
	const int32_t any = -1;
	uint32_t fd = ns_fd;
	char buf[1024] __attribute__((aligned(NLMSG_ALIGNTO)));
	struct nlmsghdr *nlh = (struct nlmsghdr *)buf;
	ssize_t len;

	put_attr(&req.nlh, NETNSA_FD, &fd, sizeof(fd));
	if (type == RTM_NEWNSID)
		put_attr(&req.nlh, NETNSA_NSID, &any, sizeof(any));
	if (send(rtnl, &req, req.nlh.nlmsg_len, 0) < 0)
		return -errno;
	len = recv(rtnl, buf, sizeof(buf), 0);
	if (len < 0)
		return -errno;
	if (!NLMSG_OK(nlh, (size_t)len))
		return -EPROTO;
	if (nlh->nlmsg_type == NLMSG_ERROR)
		return ((struct nlmsgerr *)NLMSG_DATA(nlh))->error;
	len = NLMSG_PAYLOAD(nlh, NLMSG_ALIGN(sizeof(struct rtgenmsg)));
	for (struct rtattr *rta = (struct rtattr *)((char *)NLMSG_DATA(nlh) + NLMSG_ALIGN(sizeof(struct rtgenmsg)));
	     RTA_OK(rta, len); rta = RTA_NEXT(rta, len)) {
		if (rta->rta_type == NETNSA_NSID)
			memcpy(ret_nsid, RTA_DATA(rta), sizeof(*ret_nsid));
	}
	return 0;
}

/* The number by which programs of this namespace find the other; given now if it has none. */
static int nsid_of(int ns_fd, int32_t *ret_nsid)
{
	SCOPE_FD rtnl = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	struct timeval patience = {.tv_sec = 1};
	int32_t nsid = NETNSA_NSID_NOT_ASSIGNED;
	int err;

	if (rtnl < 0)
		return -errno;
	setsockopt(rtnl, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	err = ask_nsid(rtnl, RTM_GETNSID, 0, ns_fd, &nsid);
	if (err || nsid != NETNSA_NSID_NOT_ASSIGNED)
		goto out;
	err = ask_nsid(rtnl, RTM_NEWNSID, NLM_F_ACK, ns_fd, &nsid);
	if (err && err != -EEXIST)
		return err;
	err = ask_nsid(rtnl, RTM_GETNSID, 0, ns_fd, &nsid);
out:
	if (!err && nsid == NETNSA_NSID_NOT_ASSIGNED)
		err = -ENODATA;
	if (!err)
		*ret_nsid = nsid;
	return err;
}

static int open_file(const char *name, struct stat *st)
{
	char path[128];

	for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++) {
		int fd;

		snprintf(path, sizeof(path), "%s/%s", directories[i], name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (fstat(fd, st) == 0)
			return fd;
		close(fd);
	}
	return -ENOENT;
}

int netns_open(const char *name, struct netns *ret_ns, char *why, size_t why_len)
{
	struct visit v = {.ns_fd = -1, .diag_fd = -1};
	struct netns ns = {.diag_fd = -1, .nsid = NSID_NOWHERE};
	SCOPE_FD ns_fd = -1;
	struct stat st;
	pthread_t thread;
	int err;

	if (strlen(name) >= sizeof(ns.name) || strchr(name, '/') || strcmp(name, "..") == 0) {
		snprintf(why, why_len, "netns %s: not a name of ip-netns(8)", name);
		return -EINVAL;
	}
	strcpy(ns.name, name);
	if (name[0]) {
		ns_fd = open_file(name, &st);
		if (ns_fd < 0) {
			snprintf(why, why_len, "netns %s: there is no /run/netns/%s; `ip netns list` shows the names",
				 name, name);
			return -ENOENT;
		}
		ns.dev = st.st_dev;
		ns.ino = st.st_ino;
		v.ns_fd = ns_fd;
		err = nsid_of(ns_fd, &ns.nsid);
		if (err) {
			snprintf(why, why_len, "netns %s: no nsid: %s", name, strerror(-err));
			return err;
		}
	}
	err = -pthread_create(&thread, NULL, visit_netns, &v);
	if (err) {
		snprintf(why, why_len, "netns %s: %s", name, strerror(-err));
		return err;
	}
	pthread_join(thread, NULL);
	if (v.err) {
		scope_close(&v.diag_fd);
		snprintf(why, why_len, "netns %s: %s", name[0] ? name : "host", strerror(-v.err));
		return v.err;
	}
	ns.diag_fd = v.diag_fd;
	ns.cookie = v.cookie;
	*ret_ns = ns;
	return 0;
}

void netns_close(struct netns *ns)
{
	scope_close(&ns->diag_fd);
}

int netns_same(const struct netns *ns)
{
	SCOPE_FD fd = -1;
	struct stat st;

	if (!ns->name[0])
		return 1;
	fd = open_file(ns->name, &st);
	return fd >= 0 && st.st_dev == ns->dev && st.st_ino == ns->ino;
}
