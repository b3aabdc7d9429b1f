// SPDX-License-Identifier: GPL-2.0-only
#include "user/datapath/device.h"

#include <errno.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "user/datapath/ethtool.h"
#include "user/datapath/internal.h"

/* Features that make receive buffers other than what one XDP buffer is. */
static const char *const receive_offloads[] = {"rx-lro", "rx-gro-hw", "rx-checksum", "rx-gro-list"};

static void note_offload(const char *name, bool on, bool fixed, void *arg)
{
	struct device *device = arg;
	size_t n = strlen(device->offloads), len = sizeof(device->offloads);

	for (size_t o = 0; on && o < ARRAY_SIZE(receive_offloads); o++) {
		if (strcmp(name, receive_offloads[o]) == 0)
			snprintf(device->offloads + n, len - n, "%s%s%s", n ? ", " : "", name, fixed ? " [fixed]" : "");
	}
}

int device_read(const char *ifname, struct device *ret_device)
{
	_cleanup_fd_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct device device = {0};
	struct ifreq req = {0};

	if (fd < 0)
		return -errno;
	snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", ifname);
	if (ioctl(fd, SIOCGIFHWADDR, &req) < 0)
		return -errno;
	device.type = req.ifr_hwaddr.sa_family;
	if (ioctl(fd, SIOCGIFMTU, &req) < 0)
		return -errno;
	device.mtu = req.ifr_mtu;
	ethtool_driver(fd, ifname, device.driver);
	ethtool_features(fd, ifname, note_offload, &device);
	*ret_device = device;
	return 0;
}

/* One page less headroom (256) and the tail (320): what a driver without multi-buffer XDP can receive at 4 KiB. */
#define ONE_BUFFER_MTU 3498

void device_explain(const struct device *device, int error, char *why, size_t why_len)
{
	const char *driver = *device->driver ? device->driver : "of this interface";

	if (error == -ERANGE || (error == -EINVAL && device->mtu > ONE_BUFFER_MTU)) {
		because(0, why, why_len,
			"the driver %s takes no native XDP at MTU %d: a frame must fit one buffer, about %d bytes; "
			"lower the "
			"MTU to get native mode (the driver also refuses to raise it while attached)",
			driver, device->mtu, ONE_BUFFER_MTU);
		return;
	}
	if (*device->offloads && strcmp(device->driver, "virtio_net") == 0) {
		because(0, why, why_len,
			"the driver %s takes no native XDP (%s) with these receive offloads on: %s; turn them off with "
			"ethtool -K, or at the hypervisor where they are [fixed]; it also needs a spare queue per CPU",
			driver, strerror(-error), device->offloads);
		return;
	}
	because(0, why, why_len, "the driver %s takes no native XDP (%s)%s%s", driver,
		error == -524 ? "not supported" : strerror(-error), *device->offloads ? "; receive offloads on: " : "",
		device->offloads);
}
