/* SPDX-License-Identifier: GPL-2.0-only */
/* device.h: what an interface is, asked by ioctl in the caller's network namespace (sysfs may show another one). */
#ifndef SLUICE_DATAPATH_DEVICE_H
#define SLUICE_DATAPATH_DEVICE_H

#include <stddef.h>

#include "user/datapath/ethtool.h"

struct device {
	int type; /* ARPHRD_* */
	int mtu;
	char driver[ETHTOOL_DRIVER_LEN]; /* "" if the device does not tell */
	char offloads[256]; /* receive offloads that are on and may stand in the way of XDP: "name [fixed], ..." */
};

int device_read(const char *ifname, struct device *ret_device);
/* Why a native attach with `error` may have failed, in words. */
void device_explain(const struct device *device, int error, char *why, size_t why_len);

#endif /* SLUICE_DATAPATH_DEVICE_H */
