/* SPDX-License-Identifier: GPL-2.0-only */
/* ethtool.h: driver and offload features of an interface by ioctl, in the network namespace of the socket `fd`. */
#ifndef SLUICE_DATAPATH_ETHTOOL_H
#define SLUICE_DATAPATH_ETHTOOL_H

#include <stdbool.h>

#define ETHTOOL_DRIVER_LEN 32

/* "" if the device does not tell. */
void ethtool_driver(int fd, const char *ifname, char driver[ETHTOOL_DRIVER_LEN]);

/* Each feature by its name ("rx-lro"); fixed: it cannot be changed. 0, or -errno before the first visit. */
typedef void (*ethtool_visit)(const char *name, bool on, bool fixed, void *arg);
int ethtool_features(int fd, const char *ifname, ethtool_visit visit, void *arg);

#endif /* SLUICE_DATAPATH_ETHTOOL_H */
