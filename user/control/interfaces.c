// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/interfaces.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "user/control/clock.h"
#include "user/control/log.h"
#include "user/control/scope.h"

#define VERIFY_NS (5 * NS_PER_S) /* asks the kernel whether the program is still there */
#define RETRY_MIN_NS NS_PER_S
#define RETRY_MAX_NS (30 * NS_PER_S)

int interfaces_open(void)
{
	struct sockaddr_nl address = {.nl_family = AF_NETLINK,
				      .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
	SCOPE_FD fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return take_fd(&fd);
}

static void notice_carrier(struct daemon *d, const struct ifinfomsg *info)
{
	int carrier = info->ifi_flags & IFF_RUNNING ? 1 : 0;

	for (size_t i = 0; i < d->interface_count; i++) {
		struct interface *iface = &d->interfaces[i];

		if (iface->ifindex != info->ifi_index)
			continue;
		if (iface->carrier >= 0 && iface->carrier != carrier)
			log_info("interface %s: carrier %s", iface->config.name, carrier ? "is back" : "lost");
		iface->carrier = carrier;
	}
}

void interfaces_notice(struct daemon *d)
{
	char buf[16384] __attribute__((aligned(NLMSG_ALIGNTO)));
	ssize_t len;

	/* Messages that were lost (ENOBUFS) make no difference: the look reads what is there. */
	d->interfaces_dirty = true;
	while ((len = recv(d->rtnl_fd, buf, sizeof(buf), 0)) > 0) {
		size_t left = len;

		for (struct nlmsghdr *nlh = (struct nlmsghdr *)buf; NLMSG_OK(nlh, left); nlh = NLMSG_NEXT(nlh, left)) {
			if (nlh->nlmsg_type == RTM_NEWLINK)
				notice_carrier(d, NLMSG_DATA(nlh));
			if (nlh->nlmsg_type == RTM_NEWADDR || nlh->nlmsg_type == RTM_DELADDR)
				d->addresses_dirty = true;
		}
	}
}

static struct interface *named(struct interface *list, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(list[i].config.name, name) == 0)
			return &list[i];
	}
	return NULL;
}

int interfaces_set(struct daemon *d, const struct config *config)
{
	struct interface *list = calloc(config->interface_count ? config->interface_count : 1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < config->interface_count; i++) {
		const struct interface *before = named(d->interfaces, d->interface_count, config->interfaces[i].name);

		list[i] = before ? *before : (struct interface){.carrier = -1};
		list[i].config = config->interfaces[i];
		list[i].retry_ns = list[i].checked_ns = 0;
	}
	for (size_t i = 0; i < d->interface_count; i++) {
		const char *name = d->interfaces[i].config.name;

		if (named(list, config->interface_count, name))
			continue;
		log_info("interface %s: no longer in the configuration, detached", name);
		datapath_detach_interface(d->dp, name);
	}
	free(d->interfaces);
	d->interfaces = list;
	d->interface_count = config->interface_count;
	d->interfaces_dirty = true;
	return 0;
}

/* The name stands for nothing now. The program stays where it is, if the interface lives on under another name. */
static void lost(struct interface *iface)
{
	char other[IF_NAMESIZE];

	if (iface->ifindex && if_indextoname(iface->ifindex, other)) {
		snprintf(iface->why, sizeof(iface->why),
			 "renamed to %s, where the program still is; put the new name in interfaces:", other);
		if (iface->attached)
			log_warning("interface %s: %s", iface->config.name, iface->why);
	} else {
		snprintf(iface->why, sizeof(iface->why), "there is no such interface; it is attached when it comes");
		if (iface->attached || !iface->checked_ns)
			log_warning("interface %s: %s", iface->config.name, iface->why);
		iface->ifindex = 0;
		iface->state = (struct attach_state){.mode = ATTACH_OFFLINE};
	}
	iface->attached = false;
	iface->failures = 0;
	iface->retry_ns = 0;
	iface->carrier = -1;
}

static void failed(struct interface *iface, int err, uint64_t now_ns)
{
	uint64_t pause_ns = RETRY_MIN_NS << (iface->failures < 5 ? iface->failures : 5);

	if (iface->failures++ == 0 || iface->attached)
		log_warning("interface %s: not attached: %s", iface->config.name,
			    iface->state.why[0] ? iface->state.why : strerror(-err));
	snprintf(iface->why, sizeof(iface->why), "%.*s", WHY_LEN - 1,
		 iface->state.why[0] ? iface->state.why : strerror(-err));
	iface->attached = false;
	iface->retry_ns = now_ns + (pause_ns < RETRY_MAX_NS ? pause_ns : RETRY_MAX_NS);
}

/* What the first notification is compared with. */
static int carrier_of(const char *name)
{
	struct ifreq request = {0};
	SCOPE_FD fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) < 0)
		return -1;
	return request.ifr_flags & IFF_RUNNING ? 1 : 0;
}

static const char *const mode_names[] = {
	[ATTACH_NATIVE] = "native",
	[ATTACH_GENERIC] = "generic",
	[ATTACH_OFFLINE] = "none",
};

static int attach(struct daemon *d, struct interface *iface, int ifindex, uint64_t now_ns)
{
	struct attach_state state = {0};
	bool was = iface->attached && iface->ifindex == ifindex && iface->failures == 0;
	int err = datapath_attach(d->dp, iface->config.name, iface->config.mode, &state);

	if (err) {
		memcpy(iface->state.why, state.why, sizeof(state.why));
		failed(iface, err, now_ns);
		return err;
	}
	if (!was || iface->state.program_id != state.program_id)
		log_info("interface %s: %s XDP, program %u%s%s", iface->config.name, mode_names[state.mode],
			 state.program_id, state.why[0] ? ": " : "", state.why);
	iface->state = state;
	iface->ifindex = ifindex;
	iface->attached = true;
	iface->failures = 0;
	if (iface->carrier < 0)
		iface->carrier = carrier_of(iface->config.name);
	snprintf(iface->why, sizeof(iface->why), "%s", state.why);
	return 0;
}

static int look_at(struct daemon *d, struct interface *iface, uint64_t now_ns)
{
	int ifindex = if_nametoindex(iface->config.name), err = 0;
	bool due = !iface->attached || iface->ifindex != ifindex || d->interfaces_dirty ||
		   now_ns - iface->checked_ns >= VERIFY_NS;

	if (!ifindex) {
		lost(iface);
	} else if (due && now_ns >= iface->retry_ns) {
		err = attach(d, iface, ifindex, now_ns);
	} else {
		return 0;
	}
	iface->checked_ns = now_ns;
	return err;
}

int interfaces_reconcile(struct daemon *d, uint64_t now_ns, bool first, char *why, size_t why_len)
{
	if (!first && !d->interfaces_dirty && now_ns - d->interfaces_ns < NS_PER_S)
		return 0;
	for (size_t i = 0; i < d->interface_count; i++) {
		struct interface *iface = &d->interfaces[i];
		int err = look_at(d, iface, now_ns);

		if (err && first) {
			snprintf(why, why_len, "interface %s: %.*s", iface->config.name, (int)why_len / 2, iface->why);
			return err;
		}
	}
	d->interfaces_dirty = false;
	d->interfaces_ns = now_ns;
	return 0;
}
