// SPDX-License-Identifier: GPL-2.0-only
#include "user/datapath/ethtool.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>

#include "user/datapath/internal.h"

#define FEATURES_MAX 4096

static int ethtool(int fd, const char *ifname, void *command)
{
	struct ifreq req = {.ifr_data = command};

	snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", ifname);
	return ioctl(fd, SIOCETHTOOL, &req) < 0 ? -errno : 0;
}

void ethtool_driver(int fd, const char *ifname, char driver[ETHTOOL_DRIVER_LEN])
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};

	driver[0] = '\0';
	if (ethtool(fd, ifname, &info) == 0)
		snprintf(driver, ETHTOOL_DRIVER_LEN, "%.31s", info.driver);
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

int ethtool_features(int fd, const char *ifname, ethtool_visit visit, void *arg)
{
	uint32_t count = feature_count(fd, ifname), blocks = (count + 31) / 32;
	_cleanup_free_ struct ethtool_gstrings *names = NULL;
	_cleanup_free_ struct ethtool_gfeatures *features = NULL;
	int r;

	if (!count || count > FEATURES_MAX)
		return -EOPNOTSUPP;
	names = calloc(1, sizeof(*names) + (size_t)count * ETH_GSTRING_LEN);
	features = calloc(1, sizeof(*features) + blocks * sizeof(features->features[0]));
	if (!names || !features)
		return -ENOMEM;
	*names = (struct ethtool_gstrings){.cmd = ETHTOOL_GSTRINGS, .string_set = ETH_SS_FEATURES, .len = count};
	*features = (struct ethtool_gfeatures){.cmd = ETHTOOL_GFEATURES, .size = blocks};
	r = ethtool(fd, ifname, names);
	if (r == 0)
		r = ethtool(fd, ifname, features);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < names->len && i < features->size * 32; i++) {
		const struct ethtool_get_features_block *block = &features->features[i / 32];
		uint32_t bit = 1u << i % 32;
		char name[ETH_GSTRING_LEN + 1] = "";

		memcpy(name, names->data + (size_t)i * ETH_GSTRING_LEN, ETH_GSTRING_LEN);
		visit(name, block->active & bit, !(block->available & bit) || block->never_changed & bit, arg);
	}
	return 0;
}
