// SPDX-License-Identifier: GPL-2.0-only
#include "user/datapath/device.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "user/datapath/internal.h"

static int ethtool(int fd, const char *ifname, void *command)
{
	struct ifreq req = {.ifr_data = command};

	snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", ifname);
	return ioctl(fd, SIOCETHTOOL, &req) < 0 ? -errno : 0;
}

static uint32_t feature_count(int fd, const char *ifname)
{
	struct {
		struct ethtool_sset_info info;
		uint32_t count;
	} sset = {.info = {.cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ULL << ETH_SS_FEATURES}};

	if (ethtool(fd, ifname, &sset) < 0 || !sset.info.sset_mask)
		return 0;
	return sset.count;
}

/* Features that make receive buffers other than what one XDP buffer is. */
static const char *const receive_offloads[] = {"rx-lro", "rx-gro-hw", "rx-checksum", "rx-gro-list"};

static void read_offloads(int fd, const char *ifname, char *buf, size_t len)
{
	uint32_t count = feature_count(fd, ifname), blocks = (count + 31) / 32;
	_cleanup_free_ struct ethtool_gstrings *names = NULL;
	_cleanup_free_ struct ethtool_gfeatures *features = NULL;
	size_t n = 0;

	if (!count || count > 4096)
		return;
	names = calloc(1, sizeof(*names) + (size_t)count * ETH_GSTRING_LEN);
	features = calloc(1, sizeof(*features) + blocks * sizeof(features->features[0]));
	if (!names || !features)
		return;
	*names = (struct ethtool_gstrings){.cmd = ETHTOOL_GSTRINGS, .string_set = ETH_SS_FEATURES, .len = count};
	*features = (struct ethtool_gfeatures){.cmd = ETHTOOL_GFEATURES, .size = blocks};
	if (ethtool(fd, ifname, names) < 0 || ethtool(fd, ifname, features) < 0)
		return;
	for (uint32_t i = 0; i < count; i++) {
		const char *name = (const char *)names->data + (size_t)i * ETH_GSTRING_LEN;
		const struct ethtool_get_features_block *block = &features->features[i / 32];

		if (!(block->active >> i % 32 & 1))
			continue;
		for (size_t o = 0; o < ARRAY_SIZE(receive_offloads); o++) {
			if (strncmp(name, receive_offloads[o], ETH_GSTRING_LEN) != 0)
				continue;
			n += (size_t)snprintf(buf + n, len - n, "%s%s%s", n ? ", " : "", receive_offloads[o],
					      block->never_changed >> i % 32 & 1 || !(block->available >> i % 32 & 1)
						      ? " [fixed]"
						      : "");
			if (n >= len)
				return;
		}
	}
}

int device_read(const char *ifname, struct device *ret_device)
{
	_cleanup_fd_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ethtool_drvinfo driver = {.cmd = ETHTOOL_GDRVINFO};
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
	if (ethtool(fd, ifname, &driver) == 0)
		snprintf(device.driver, sizeof(device.driver), "%.31s", driver.driver);
	read_offloads(fd, ifname, device.offloads, sizeof(device.offloads));
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
