// SPDX-License-Identifier: GPL-2.0-only
/*
 * doctor_interface.c: is an interface fit for native XDP? Drivers refuse for reasons of their own (MTU, receive
 * offloads); sluiced falls back to generic mode then, which works and costs more. Features come from ethtool.
 */
#include <errno.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "user/control/doctor_look.h"
#include "user/datapath/ethtool.h"

/* What fits in one page beside headroom and skb_shared_info, on most drivers: above it native mode needs xdp.frags. */
#define ONE_PAGE_MTU 3498

/* --- looking ------------------------------------------------------------------------------------------------- */

static enum doctor_offload state_of(bool on, bool fixed)
{
	if (fixed)
		return on ? OFFLOAD_FIXED_ON : OFFLOAD_FIXED_OFF;
	return on ? OFFLOAD_ON : OFFLOAD_OFF;
}

static void note_offload(const char *feature, bool on, bool fixed, void *arg)
{
	struct doctor_interface *interface = arg;
	enum doctor_offload state = state_of(on, fixed);

	if (!strcmp(feature, "rx-lro"))
		interface->lro = state;
	else if (!strcmp(feature, "rx-gro-hw"))
		interface->gro_hw = state;
	else if (!strcmp(feature, "rx-checksum"))
		interface->rx_checksum = state;
	else if (!strncmp(feature, "tx-checksum-", 12) && (state == OFFLOAD_ON || state == OFFLOAD_FIXED_ON))
		interface->tx_checksum = state; /* any of the kinds that is on */
}

static void read_features(int fd, struct doctor_interface *interface)
{
	if (ethtool_features(fd, interface->name, note_offload, interface) == 0 &&
	    interface->tx_checksum == OFFLOAD_UNKNOWN)
		interface->tx_checksum = OFFLOAD_OFF;
}

/* By socket, not from /sys: that shows the interfaces of the namespace it was mounted in. */
static void read_link(int fd, struct doctor_interface *interface)
{
	struct ifreq request = {0};

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", interface->name);
	if (ioctl(fd, SIOCGIFHWADDR, &request))
		return; /* not there */
	interface->type = request.ifr_hwaddr.sa_family;
	if (!ioctl(fd, SIOCGIFMTU, &request))
		interface->mtu = request.ifr_mtu;
	if (!ioctl(fd, SIOCGIFFLAGS, &request))
		interface->member = request.ifr_flags & IFF_SLAVE;
}

void doctor_look_interface(struct doctor_report *report, const char *name, bool frags, bool reset)
{
	struct doctor_interface interface = {.name = name, .type = -1};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd >= 0) {
		read_link(fd, &interface);
		if (interface.type >= 0) {
			read_features(fd, &interface);
			ethtool_driver(fd, name, interface.driver);
		}
		close(fd);
	}
	doctor_judge_interface(report, &interface, frags, reset);
}

/* --- judging ------------------------------------------------------------------------------------------------- */

static bool is_on(enum doctor_offload state)
{
	return state == OFFLOAD_ON || state == OFFLOAD_FIXED_ON;
}

static void judge_receive_offload(struct doctor_report *report, const char *name, const char *offload, const char *what,
				  enum doctor_offload state)
{
	char todo[160];

	if (!is_on(state))
		return;
	snprintf(todo, sizeof(todo), "ethtool -K %s %s off", name, offload);
	if (state == OFFLOAD_FIXED_ON)
		doctor_say(report, DOCTOR_WARN, "offloads", name,
			   "turn it off where it is set: on a virtual machine that is its host",
			   "%s is on and fixed: the driver may refuse native XDP; generic mode works and costs more",
			   what);
	else
		doctor_say(report, DOCTOR_WARN, "offloads", name, todo,
			   "%s is on: the driver may refuse native XDP, and frames merged by it are longer than their "
			   "length "
			   "fields say",
			   what);
}

static void judge_mtu(struct doctor_report *report, const struct doctor_interface *interface, bool frags)
{
	if (interface->mtu <= ONE_PAGE_MTU)
		doctor_say(report, DOCTOR_OK, "mtu", interface->name, NULL,
			   "%d: fits native XDP; raising it above %d while attached can be refused by the driver",
			   interface->mtu, ONE_PAGE_MTU);
	else if (frags)
		doctor_say(report, DOCTOR_OK, "mtu", interface->name, NULL,
			   "%d: needs a program for large frames, which this kernel takes; the driver may still refuse",
			   interface->mtu);
	else
		doctor_say(report, DOCTOR_WARN, "mtu", interface->name, "lower the MTU to 1500, or use generic mode",
			   "%d: more than one page, and this kernel has no programs for large frames: native XDP is "
			   "refused",
			   interface->mtu);
}

static void judge_place(struct doctor_report *report, const struct doctor_interface *interface)
{
	if (!strcmp(interface->driver, "bonding"))
		doctor_say(report, DOCTOR_WARN, "interface", interface->name, "or name its members instead",
			   "is a bond: native XDP depends on its mode and on the drivers of its members");
	else if (interface->member)
		doctor_say(report, DOCTOR_WARN, "interface", interface->name, "name every member that receives",
			   "belongs to a bond: only what arrives on this member is seen");
	else
		doctor_say(report, DOCTOR_OK, "interface", interface->name, NULL, "Ethernet, driver %s",
			   *interface->driver ? interface->driver : "unknown");
}

void doctor_judge_interface(struct doctor_report *report, const struct doctor_interface *interface, bool frags,
			    bool reset)
{
	if (interface->type < 0) {
		doctor_say(report, DOCTOR_WARN, "interface", interface->name,
			   "check the name; sluiced attaches as soon as it appears",
			   "is not there: nothing is filtered on it");
		return;
	}
	if (interface->type == ARPHRD_LOOPBACK)
		doctor_say(report, DOCTOR_WARN, "interface", interface->name, "attach to the interface of the clients",
			   "is the loopback: frames are large and local, nobody else's traffic is filtered");
	else if (interface->type != ARPHRD_ETHER)
		doctor_say(report, DOCTOR_FAIL, "interface", interface->name, "name an Ethernet interface",
			   "frames have no Ethernet header (type %d): sluiced does not attach to it", interface->type);
	else
		judge_place(report, interface);
	judge_mtu(report, interface, frags);
	judge_receive_offload(report, interface->name, "lro", "large receive offload (LRO)", interface->lro);
	judge_receive_offload(report, interface->name, "rx-gro-hw", "hardware GRO", interface->gro_hw);
	if (!is_on(interface->lro) && !is_on(interface->gro_hw))
		doctor_say(report, DOCTOR_OK, "offloads", interface->name, NULL,
			   "LRO and hardware GRO are off%s: nothing in the way of native XDP",
			   interface->lro == OFFLOAD_UNKNOWN ? " or unknown" : "");
	if (reset && !strcmp(interface->driver, "veth"))
		doctor_say(
			report, DOCTOR_WARN, "resets", interface->name,
			"attach an XDP program to the peer (one that passes everything will do), or use action: drop",
			"is a veth: resets sent from XDP arrive only if the peer has an XDP program too");
	if (reset && is_on(interface->tx_checksum) && strcmp(interface->driver, "veth"))
		doctor_say(report, DOCTOR_OK, "resets", interface->name, NULL,
			   "transmit checksums are left to the card; resets carry their own full one");
}
