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

/* An interface that was made again has another index, which the snapshot knows it by. */
static bool marks_believed(const struct daemon *d)
{
	for (size_t i = 0; d->config && i < d->config->interface_count; i++) {
		if (d->config->interfaces[i].dscp_trust)
			return true;
	}
	return false;
}

void interfaces_notice(struct daemon *d)
{
	char buf[16384] __attribute__((aligned(NLMSG_ALIGNTO)));
	ssize_t len;

	/* Messages that were lost (ENOBUFS) make no difference: the look reads what is there. */
	d->interfaces_dirty = true;
	d->links_dirty |= marks_believed(d);
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

static void took(struct interface *iface, const struct attach_state *state)
{
	iface->state = *state;
	iface->ifindex = state->ifindex;
	iface->attached = true;
	iface->failures = 0;
	if (iface->carrier < 0)
		iface->carrier = carrier_of(iface->config.name);
	snprintf(iface->why, sizeof(iface->why), "%s", state->why);
}

static void log_attached(const struct interface *iface)
{
	log_info("interface %s: %s XDP, program %u%s%s", iface->config.name, mode_names[iface->state.mode],
		 iface->state.program_id, iface->why[0] ? ": " : "", iface->why);
}

static int attach(struct daemon *d, struct interface *iface, int ifindex, uint64_t now_ns)
{
	struct attach_state state = {0};
	bool was = iface->attached && iface->ifindex == ifindex && iface->failures == 0;
	uint32_t program_id = iface->state.program_id;
	int err = datapath_attach(d->dp, iface->config.name, iface->config.mode, &state);

	if (err) {
		memcpy(iface->state.why, state.why, sizeof(state.why));
		failed(iface, err, now_ns);
		return err;
	}
	took(iface, &state);
	if (!was || program_id != state.program_id)
		log_attached(iface);
	return 0;
}

/* --- another list --------------------------------------------------------------------------------------------------- */

/* On which the program is by now, under whatever name. */
static const struct interface *holder(const struct interface *list, size_t count, int ifindex)
{
	for (size_t i = 0; i < count; i++) {
		if (ifindex && list[i].ifindex == ifindex)
			return &list[i];
	}
	return NULL;
}

/* "FILE:LINE: interfaces[NAME].name", as the checks of the file begin. */
static void blame(const struct config *config, const char *name, char *buf, size_t len)
{
	const char *origin = "";
	char key[64];

	snprintf(key, sizeof(key), "interfaces[%s].name", name);
	for (size_t i = 0; i < config->setting_count; i++) {
		if (strcmp(config->settings[i].path, key) == 0)
			origin = config->settings[i].origin;
	}
	snprintf(buf, len, "%s%s%s", origin, *origin ? ": " : "", key);
}

static void say_missing(struct diag *diag, const char *where, const char *name)
{
	struct if_nameindex *present = if_nameindex();
	char names[512] = "";
	size_t used = 0;

	for (struct if_nameindex *i = present; i && i->if_index && used < sizeof(names); i++)
		used += snprintf(names + used, sizeof(names) - used, "%s%s", used ? ", " : "", i->if_name);
	if_freenameindex(present);
	diag_error(
		diag,
		"%s: \"%s\": there is no such interface; accepted: %s; correct the name, or make the interface first "
		"(one that is attached and vanishes later is attached again when it comes back)",
		where, name, names);
}

static int attach_new(struct daemon *d, const struct config *config, struct interface *iface, struct diag *diag)
{
	const char *name = iface->config.name;
	struct attach_state state = {0};
	char where[128];
	int err = datapath_attach(d->dp, name, iface->config.mode, &state);

	if (!err) {
		took(iface, &state);
		return 0;
	}
	blame(config, name, where, sizeof(where));
	if (err == -ENODEV)
		say_missing(diag, where, name);
	else
		diag_error(diag, "%s: \"%s\": not attached: %s; until that is done leave it out of interfaces:", where,
			   name, state.why[0] ? state.why : strerror(-err));
	return err;
}

/* Names that the list before has keep what they have: where they cannot be attached, that is tried again. */
static int attach_list(struct daemon *d, const struct config *config, struct interfaces_change *change,
		       struct diag *diag)
{
	for (size_t i = 0; i < change->count; i++) {
		struct interface *iface = &change->list[i];
		int err = 0;

		if (!named(d->interfaces, d->interface_count, iface->config.name))
			err = attach_new(d, config, iface, diag);
		else if (!iface->attached && iface->why[0])
			diag_warn(diag, "interface %s: %s", iface->config.name, iface->why);
		if (err)
			return err;
	}
	return 0;
}

int interfaces_prepare(struct daemon *d, const struct config *config, struct interfaces_change *change,
		       struct diag *diag)
{
	size_t count = config->interface_count;
	int err;

	*change = (struct interfaces_change){.count = count, .changed = count != d->interface_count};
	change->list = calloc(count ? count : 1, sizeof(*change->list));
	if (!change->list) {
		diag_error(diag, "interfaces: out of memory");
		return -ENOMEM;
	}
	for (size_t i = 0; i < count; i++) {
		const struct interface *before = named(d->interfaces, d->interface_count, config->interfaces[i].name);

		change->changed |= !before || before->config.mode != config->interfaces[i].mode;
		change->list[i] = before ? *before : (struct interface){.carrier = -1};
		change->list[i].config = config->interfaces[i];
		change->list[i].retry_ns = change->list[i].checked_ns = 0;
	}
	err = d->config ? attach_list(d, config, change, diag) : 0; /* at the start the first look attaches */
	if (err)
		interfaces_abort(d, change);
	return err;
}

void interfaces_abort(struct daemon *d, struct interfaces_change *change)
{
	for (size_t i = 0; i < change->count; i++) {
		const struct interface *iface = &change->list[i];

		if (!iface->attached || named(d->interfaces, d->interface_count, iface->config.name))
			continue;
		if (holder(d->interfaces, d->interface_count, iface->ifindex))
			datapath_forget_interface(d->dp, iface->config.name);
		else
			datapath_detach_interface(d->dp, iface->config.name);
	}
	free(change->list);
	change->list = NULL;
}

/* An interface that goes on under another name keeps its program: only the name is given up. */
static void release(struct daemon *d, const struct interface *iface, const struct interfaces_change *change,
		    struct diag *diag)
{
	const struct interface *heir = holder(change->list, change->count, iface->ifindex);
	const char *name = iface->config.name;
	int err;

	if (heir) {
		datapath_forget_interface(d->dp, name);
		log_info("interface %s: is %s now, with the program it has", name, heir->config.name);
		return;
	}
	err = datapath_detach_interface(d->dp, name);
	if (err)
		diag_warn(diag, "interface %s: no longer in the configuration, but it cannot be detached: %s", name,
			  strerror(-err));
	else
		diag_warn(diag, "interface %s: no longer in the configuration, detached", name);
}

void interfaces_commit(struct daemon *d, struct interfaces_change *change, struct diag *diag)
{
	for (size_t i = 0; i < d->interface_count; i++) {
		if (!named(change->list, change->count, d->interfaces[i].config.name))
			release(d, &d->interfaces[i], change, diag);
	}
	for (size_t i = 0; i < change->count; i++) {
		const struct interface *iface = &change->list[i];

		if (iface->attached && !named(d->interfaces, d->interface_count, iface->config.name))
			log_attached(iface);
	}
	free(d->interfaces);
	d->interfaces = change->list;
	d->interface_count = change->count;
	d->interfaces_dirty = true;
	change->list = NULL;
}

#define STRAYS_MAX 128

void interfaces_release_strays(struct daemon *d)
{
	struct attached_interface list[STRAYS_MAX];
	size_t count = datapath_interfaces(d->dp, list, STRAYS_MAX);

	for (size_t i = 0; i < count; i++) {
		const struct interface *heir = holder(d->interfaces, d->interface_count, list[i].ifindex);
		const char *name = list[i].name;
		int err;

		if (named(d->interfaces, d->interface_count, name))
			continue;
		err = heir ? datapath_forget_interface(d->dp, name) : datapath_detach_interface(d->dp, name);
		if (err)
			log_warning("interface %s: attached by an earlier run, not in the configuration, and it cannot "
				    "be detached: %s",
				    name, strerror(-err));
		else if (heir)
			log_info("interface %s: is %s now, with the program it has", name, heir->config.name);
		else
			log_warning("interface %s: no longer in the configuration, detached", name);
	}
}

/* --- what happens to them ---------------------------------------------------------------------------------------------- */

/*
 * The name stands for nothing now. Where the interface lives on under another name the link is still pinned under the
 * old one: it stays, and is ours.
 */
static void lost(struct daemon *d, struct interface *iface)
{
	struct attach_state state = {0};
	char other[IF_NAMESIZE], why[WHY_LEN];
	bool renamed = datapath_attach(d->dp, iface->config.name, MODE_AUTO, &state) == 0;
	int ifindex = renamed ? state.ifindex : iface->ifindex;

	if (ifindex && if_indextoname(ifindex, other)) {
		snprintf(why, sizeof(why),
			 "renamed to %s, where the program still is; put the new name in interfaces:", other);
		if (strcmp(why, iface->why) != 0)
			log_warning("interface %s: %s", iface->config.name, why);
	} else {
		snprintf(why, sizeof(why), "there is no such interface; it is attached when it comes");
		if (iface->attached || !iface->checked_ns)
			log_warning("interface %s: %s", iface->config.name, why);
		ifindex = 0;
		state = (struct attach_state){.mode = ATTACH_OFFLINE};
	}
	memcpy(iface->why, why, sizeof(why));
	iface->state = state;
	iface->ifindex = ifindex;
	iface->attached = renamed;
	iface->failures = 0;
	iface->retry_ns = 0;
	iface->carrier = -1;
}

static int look_at(struct daemon *d, struct interface *iface, uint64_t now_ns)
{
	int ifindex = if_nametoindex(iface->config.name), err = 0;
	bool due = !iface->attached || iface->ifindex != ifindex || d->interfaces_dirty ||
		   now_ns - iface->checked_ns >= VERIFY_NS;

	if (!ifindex) {
		lost(d, iface);
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
