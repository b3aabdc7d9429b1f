// SPDX-License-Identifier: GPL-2.0-only
/*
 * detach.c: takes everything away, with or without a daemon. What is ours is told by the maps a program uses, not by
 * names: each link whose program uses our slc_control is detached, also one whose pin was lost. The lock is not
 * asked for: an operator's detach must work whatever else runs (a daemon that runs on re-attaches: stop it first, or
 * use its API).
 */
#include "user/datapath/links.h"

#include <dirent.h>
#include <net/if.h>
#include <string.h>
#include <sys/stat.h>

#include "user/datapath/dispatcher.h"

#define OUR_MAPS_MAX 8 /* slc_control: pinned, and that of a migration under way */

struct ours {
	uint32_t id[OUR_MAPS_MAX];
	size_t count;
};

static void remember_map(const char *path, struct ours *ours)
{
	_cleanup_fd_ int fd = bpf_obj_get(path);
	struct bpf_map_info info = {0};
	uint32_t len = sizeof(info);

	if (fd >= 0 && ours->count < OUR_MAPS_MAX && bpf_obj_get_info_by_fd(fd, &info, &len) == 0)
		ours->id[ours->count++] = info.id;
}

static bool program_is_ours(uint32_t prog_id, const void *arg)
{
	const struct ours *ours = arg;
	_cleanup_fd_ int fd = bpf_prog_get_fd_by_id(prog_id);
	bool uses = false;

	for (size_t i = 0; fd >= 0 && i < ours->count && !uses; i++)
		program_uses_map(fd, ours->id[i], &uses);
	return uses;
}

/* After an old program was replaced it uses another slc_control: all programs of pinned links tell theirs. */
static void remember_links_map(const char *path, struct ours *ours)
{
	_cleanup_fd_ int link = -1, prog = -1;
	struct bpf_link_info info;
	uint32_t ids[64];
	struct bpf_prog_info program = {.nr_map_ids = ARRAY_SIZE(ids), .map_ids = (uintptr_t)ids};
	uint32_t len = sizeof(program);

	if (link_open(path, &link, &info) < 0)
		return;
	prog = bpf_prog_get_fd_by_id(info.prog_id);
	if (prog < 0 || bpf_obj_get_info_by_fd(prog, &program, &len) < 0)
		return;
	for (uint32_t i = 0; i < program.nr_map_ids && i < ARRAY_SIZE(ids) && ours->count < OUR_MAPS_MAX; i++) {
		_cleanup_fd_ int fd = bpf_map_get_fd_by_id(ids[i]);
		struct bpf_map_info map = {0};
		uint32_t map_len = sizeof(map);

		if (fd >= 0 && bpf_obj_get_info_by_fd(fd, &map, &map_len) == 0 && strcmp(map.name, "slc_control") == 0)
			ours->id[ours->count++] = map.id;
	}
}

static bool starts_with(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool is_pin_of_ours(const char *name)
{
	return starts_with(name, "slc_") || starts_with(name, "link_") || starts_with(name, "new_slc_") ||
	       starts_with(name, "new_link_");
}

typedef int (*pin_visit)(const char *path, const char *name, void *arg);

static int for_each_pin(const char *pins, pin_visit visit, void *arg)
{
	DIR *dir = opendir(pins);
	struct dirent *entry;
	int r = 0;

	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	while (r == 0 && (entry = readdir(dir))) {
		char path[PATH_MAX];

		if (is_pin_of_ours(entry->d_name) && pin_path(path, sizeof(path), pins, "", entry->d_name) == 0)
			r = visit(path, entry->d_name, arg);
	}
	closedir(dir);
	return r;
}

static int collect(const char *path, const char *name, void *arg)
{
	if (strcmp(name, "slc_control") == 0 || strcmp(name, "new_slc_control") == 0)
		remember_map(path, arg);
	else if (is_link_pin(name))
		remember_links_map(path, arg);
	return 0;
}

static int detach_pinned(const char *path, const char *name, void *arg)
{
	_cleanup_fd_ int fd = -1;
	struct bpf_link_info info;

	(void)arg;
	if (!strstr(name, "link_") || link_open(path, &fd, &info) < 0)
		return 0;
	if (!link_is_dead(&info))
		bpf_link_detach(fd); /* verified below */
	return 0;
}

/* Stops after one: a directory that changes while it is read may hide entries. */
static int remove_first(const char *path, const char *name, void *arg)
{
	(void)name;
	(void)arg;
	if (unlink(path) < 0 && errno != ENOENT)
		return -errno;
	return 1;
}

/* Detaches links of ours that no pin names; returns how many are attached still. */
static size_t detach_lost(const struct ours *ours, struct bpf_link_info *ret_left)
{
	uint32_t id = 0;
	size_t left = 0;

	while (bpf_link_get_next_id(id, &id) == 0) {
		_cleanup_fd_ int fd = bpf_link_get_fd_by_id(id);
		struct bpf_link_info info;

		if (fd < 0 || link_info(fd, &info) < 0 ||
		    (info.type != BPF_LINK_TYPE_XDP && info.type != BPF_LINK_TYPE_CGROUP) || link_is_dead(&info) ||
		    !program_is_ours(info.prog_id, ours))
			continue;
		bpf_link_detach(fd);
		if (link_info(fd, &info) < 0 || link_is_dead(&info))
			continue;
		*ret_left = info;
		left++;
	}
	return left;
}

static void leave_dispatchers(const struct ours *ours)
{
	struct if_nameindex *list = if_nameindex();

	for (struct if_nameindex *i = list; i && i->if_index; i++)
		dispatcher_detach((int)i->if_index, program_is_ours, ours); /* verified below */
	if_freenameindex(list);
}

/* The truth from the interfaces themselves (c104): ours in any mode, by link or by netlink. */
static int verify_interfaces(const struct ours *ours, char *why, size_t why_len)
{
	struct if_nameindex *list = if_nameindex();
	int r = 0;

	for (struct if_nameindex *i = list; i && i->if_index && r == 0; i++) {
		LIBBPF_OPTS(bpf_xdp_query_opts, opts);

		if (bpf_xdp_query((int)i->if_index, 0, &opts) < 0)
			continue;
		uint32_t ids[] = {opts.prog_id, opts.drv_prog_id, opts.skb_prog_id, opts.hw_prog_id,
				  dispatcher_find((int)i->if_index, program_is_ours, ours)};

		for (size_t n = 0; n < ARRAY_SIZE(ids) && r == 0; n++)
			if (ids[n] && program_is_ours(ids[n], ours))
				r = because(
					-EBUSY, why, why_len,
					"the program with id %u is still attached to %s; `ip link set dev %s xdp off`",
					ids[n], i->if_name, i->if_name);
	}
	if_freenameindex(list);
	return r;
}

int datapath_detach_all(const char *pins, char *why, size_t why_len)
{
	struct bpf_link_info left;
	struct ours ours = {0};
	struct stat st;
	size_t count;
	int r;

	if (stat(pins, &st) < 0) {
		if (errno != ENOENT)
			return because(-errno, why, why_len, "%s: %s", pins, strerror(errno));
		lock_remove(pins);
		return 0;
	}
	if (!is_bpffs(pins))
		return because(-EINVAL, why, why_len, "%s is not on a BPF file system: nothing of sluice can be in it",
			       pins);
	r = for_each_pin(pins, collect, &ours);
	if (r == 0)
		r = for_each_pin(pins, detach_pinned, NULL);
	if (r < 0)
		return because(r, why, why_len, "reading %s: %s", pins, strerror(-r));
	count = ours.count ? detach_lost(&ours, &left) : 0;
	if (count)
		return because(-EBUSY, why, why_len, "%zu attachments are left: program id %u on %s %u", count,
			       left.prog_id, left.type == BPF_LINK_TYPE_XDP ? "interface" : "cgroup",
			       left.type == BPF_LINK_TYPE_XDP ? left.xdp.ifindex : (uint32_t)left.cgroup.cgroup_id);
	leave_dispatchers(&ours);
	r = verify_interfaces(&ours, why, why_len);
	if (r < 0)
		return r; /* pins stay: they name what is still in force */
	do
		r = for_each_pin(pins, remove_first, NULL);
	while (r == 1);
	if (r < 0)
		return because(r, why, why_len, "removing pins in %s: %s", pins, strerror(-r));
	lock_remove(pins);
	rmdir(pins); /* not empty: something of others is in it */
	return 0;
}
