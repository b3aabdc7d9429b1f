// SPDX-License-Identifier: GPL-2.0-only
/*
 * attached.c: what of sluice is attached here, whatever its pins: a detach that looks at one pin directory alone would
 * say "done" beside a program that goes on refusing (c104). Ours is a program of our names that uses an slc_control.
 */
#include "user/datapath/internal.h"

#include <dirent.h>
#include <net/if.h>
#include <string.h>
#include <sys/stat.h>

#include "user/datapath/dispatcher.h"

#define PINS_PLACE "/sys/fs/bpf"
#define PINS_DEPTH 4 /* directories below it that are searched */
#define CGROUP_PROGRAMS 64

/* Id of the slc_control that the program uses; 0: it is none of sluice. */
static uint32_t control_of(uint32_t prog_id)
{
	_cleanup_fd_ int fd = bpf_prog_get_fd_by_id(prog_id);
	uint32_t ids[64];
	struct bpf_prog_info program = {.nr_map_ids = ARRAY_SIZE(ids), .map_ids = (uintptr_t)ids};
	uint32_t len = sizeof(program);

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &program, &len) < 0 || strncmp(program.name, "slc_", 4) != 0)
		return 0;
	for (uint32_t i = 0; i < program.nr_map_ids && i < ARRAY_SIZE(ids); i++) {
		_cleanup_fd_ int map = bpf_map_get_fd_by_id(ids[i]);
		struct bpf_map_info info = {0};
		uint32_t map_len = sizeof(info);

		if (map >= 0 && bpf_obj_get_info_by_fd(map, &info, &map_len) == 0 &&
		    strcmp(info.name, "slc_control") == 0)
			return info.id;
	}
	return 0;
}

static bool is_of_sluice(uint32_t prog_id, const void *arg)
{
	(void)arg;
	return control_of(prog_id) != 0;
}

static bool pins_control(const char *dir, uint32_t control_id)
{
	char path[PATH_MAX];
	_cleanup_fd_ int fd = -1;

	if (pin_path(path, sizeof(path), dir, "", "slc_control") < 0 || access(path, F_OK) < 0)
		return false;
	fd = bpf_obj_get(path);
	return fd >= 0 && map_id_of(fd) == control_id;
}

/* The directory at or below `dir` that pins this slc_control. */
static bool find_pins(const char *dir, uint32_t control_id, int depth, char *ret_pins, size_t len)
{
	struct dirent *entry;
	bool found = false;
	DIR *list;

	if (pins_control(dir, control_id)) {
		snprintf(ret_pins, len, "%s", dir);
		return true;
	}
	list = depth > 0 ? opendir(dir) : NULL;
	while (list && !found && (entry = readdir(list))) {
		char path[PATH_MAX];
		struct stat st;

		if (entry->d_name[0] != '.' && pin_path(path, sizeof(path), dir, "", entry->d_name) == 0 &&
		    lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
			found = find_pins(path, control_id, depth - 1, ret_pins, len);
	}
	if (list)
		closedir(list);
	return found;
}

struct search {
	attached_visit visit;
	void *arg;
};

static void tell(const struct search *search, const char *ifname, uint32_t prog_id)
{
	uint32_t control_id = prog_id ? control_of(prog_id) : 0;
	char pins[PATH_MAX] = "";

	if (!control_id)
		return;
	find_pins(PINS_PLACE, control_id, PINS_DEPTH, pins, sizeof(pins));
	search->visit(ifname, prog_id, pins, search->arg);
}

static void look_at_interfaces(const struct search *search)
{
	struct if_nameindex *list = if_nameindex();

	for (struct if_nameindex *i = list; i && i->if_index; i++) {
		LIBBPF_OPTS(bpf_xdp_query_opts, opts);

		if (bpf_xdp_query((int)i->if_index, 0, &opts) < 0)
			continue;
		/* drv and skb cannot both be used; hw is offload, which we never load */
		tell(search, i->if_name, opts.drv_prog_id ? opts.drv_prog_id : opts.skb_prog_id);
		tell(search, i->if_name, dispatcher_find((int)i->if_index, is_of_sluice, NULL));
	}
	if_freenameindex(list);
}

static void look_at_cgroup(const struct search *search, int cgroup, enum bpf_attach_type type)
{
	uint32_t ids[CGROUP_PROGRAMS], count = ARRAY_SIZE(ids);

	if (bpf_prog_query(cgroup, type, 0, NULL, ids, &count) < 0)
		return;
	for (uint32_t i = 0; i < count && i < ARRAY_SIZE(ids); i++)
		tell(search, NULL, ids[i]);
}

void datapath_attached(attached_visit visit, void *arg)
{
	const struct search search = {visit, arg};
	_cleanup_fd_ int cgroup = -1;
	char why[WHY_LEN];

	look_at_interfaces(&search);
	if (cgroup2_open(&cgroup, why, sizeof(why)) < 0)
		return; /* not mounted: nothing can be attached to it */
	look_at_cgroup(&search, cgroup, BPF_CGROUP_SOCK_OPS);
	look_at_cgroup(&search, cgroup, BPF_CGROUP_INET_INGRESS);
	look_at_cgroup(&search, cgroup, BPF_CGROUP_INET_EGRESS);
}
