// SPDX-License-Identifier: GPL-2.0-only
/*
 * links.c: attachments as pinned bpf_links. A link outlives its maker, names its hook, and takes another program in one
 * step: no packet passes between two programs.
 *
 * Pins: link_xdp_IFNAME, link_sockops, link_ingress, link_egress. A BPF file system refuses names with a dot: in interface names
 * "." is written "%2e" and "%" as "%25".
 */
#include "user/datapath/links.h"

#include <dirent.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <string.h>

#include "sluice.skel.h"

#define XDP_PREFIX "link_xdp_"

bool is_link_pin(const char *name)
{
	return strncmp(name, "link_", 5) == 0;
}

int interface_pin_path(char *buf, size_t len, const char *pins, const char *ifname)
{
	char name[64];
	size_t n = 0;

	for (; *ifname; ifname++) {
		bool special = *ifname == '.' || *ifname == '%';

		if (n + 4 >= sizeof(name))
			return -ENAMETOOLONG;
		if (special)
			memcpy(name + n, *ifname == '.' ? "%2e" : "%25", 3);
		else
			name[n] = *ifname;
		n += special ? 3 : 1;
	}
	name[n] = '\0';
	return pin_path(buf, len, pins, XDP_PREFIX, name);
}

/* The interface of a pin's name; false if it is none of these. */
static bool interface_of_pin(const char *pin, char name[IF_NAMESIZE])
{
	size_t n = 0;

	if (strncmp(pin, XDP_PREFIX, strlen(XDP_PREFIX)) != 0)
		return false;
	for (pin += strlen(XDP_PREFIX); *pin && n < IF_NAMESIZE - 1; pin++) {
		bool special = strncmp(pin, "%2e", 3) == 0 || strncmp(pin, "%25", 3) == 0;

		name[n++] = !special ? *pin : pin[2] == 'e' ? '.' : '%';
		pin += special ? 2 : 0;
	}
	name[n] = '\0';
	return n && !*pin;
}

size_t datapath_interfaces(const struct datapath *dp, struct attached_interface *list, size_t max)
{
	DIR *dir = opendir(dp->pins);
	struct dirent *entry;
	size_t count = 0;

	while (dir && count < max && (entry = readdir(dir))) {
		struct attached_interface *found = &list[count];
		struct bpf_link_info info = {0};
		_cleanup_fd_ int fd = -1;
		char path[PATH_MAX];

		if (!interface_of_pin(entry->d_name, found->name) ||
		    pin_path(path, sizeof(path), dp->pins, "", entry->d_name) < 0 || link_open(path, &fd, &info) < 0)
			continue;
		found->ifindex = info.type == BPF_LINK_TYPE_XDP ? (int)info.xdp.ifindex : 0;
		count++;
	}
	if (dir)
		closedir(dir);
	return count;
}

int link_info(int fd, struct bpf_link_info *ret_info)
{
	uint32_t len = sizeof(*ret_info);

	memset(ret_info, 0, sizeof(*ret_info));
	return bpf_obj_get_info_by_fd(fd, ret_info, &len);
}

int link_open(const char *path, int *ret_fd, struct bpf_link_info *ret_info)
{
	_cleanup_fd_ int fd = bpf_obj_get(path);
	int r;

	if (fd < 0)
		return fd;
	r = link_info(fd, ret_info);
	if (r < 0)
		return r;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

bool link_is_dead(const struct bpf_link_info *info)
{
	switch (info->type) {
	case BPF_LINK_TYPE_XDP:
		return !info->xdp.ifindex; /* its device is gone */
	case BPF_LINK_TYPE_CGROUP:
		return !info->cgroup.cgroup_id;
	default:
		return true; /* not of ours */
	}
}

const struct bpf_program *link_program(const struct datapath *dp, const struct bpf_link_info *info)
{
	if (info->type == BPF_LINK_TYPE_XDP)
		return dp->xdp;
	if (info->type != BPF_LINK_TYPE_CGROUP)
		return NULL;
	if (info->cgroup.attach_type == BPF_CGROUP_SOCK_OPS)
		return dp->skel->progs.slc_sockops;
	if (!dp->turns_skel)
		return NULL;
	return info->cgroup.attach_type == BPF_CGROUP_INET_INGRESS ? dp->turns_skel->progs.slc_ingress
								   : dp->turns_skel->progs.slc_egress;
}

int link_renew(const struct datapath *dp, int fd, const struct bpf_link_info *info)
{
	const struct bpf_program *prog = link_program(dp, info);

	if (!prog || bpf_program__fd(prog) < 0)
		return -ENOENT;
	if (program_is_current(dp, info->prog_id, prog))
		return 0;
	return bpf_link_update(fd, bpf_program__fd(prog), NULL);
}

int link_pin_over(int fd, const char *path)
{
	char fresh[PATH_MAX];
	const char *base = strrchr(path, '/') + 1;
	int r;

	if (snprintf(fresh, sizeof(fresh), "%.*snew_%s", (int)(base - path), path, base) >= (int)sizeof(fresh))
		return -ENAMETOOLONG;
	unlink(fresh);
	r = bpf_obj_pin(fd, fresh);
	if (r < 0)
		return r;
	if (rename(fresh, path) < 0) {
		r = -errno;
		unlink(fresh);
	}
	return r;
}

/* --- all at once, for a migration ------------------------------------------------------------------------------------ */

struct swapped {
	int link, old_program;
	struct swapped *next;
};

static void swapped_free(struct swapped *list, bool back)
{
	while (list) {
		struct swapped *next = list->next;

		if (back)
			bpf_link_update(list->link, list->old_program, NULL);
		close_fd(&list->link);
		close_fd(&list->old_program);
		free(list);
		list = next;
	}
}

static int swap_one(struct datapath *dp, const char *name, struct swapped **list, char *why, size_t why_len)
{
	_cleanup_fd_ int link = -1, old = -1;
	struct bpf_link_info info;
	struct swapped *done;
	char path[PATH_MAX];
	int r = pin_path(path, sizeof(path), dp->pins, "", name);

	if (r == 0)
		r = link_open(path, &link, &info);
	if (r < 0)
		return because(r, why, why_len, "opening %s: %s", path, strerror(-r));
	if (link_is_dead(&info))
		return 0;
	old = bpf_prog_get_fd_by_id(info.prog_id);
	if (old < 0)
		return because(old, why, why_len, "finding the program of %s: %s", path, strerror(-old));
	r = link_renew(dp, link, &info);
	if (r == -ENOENT) /* programs of turns, which this kernel refuses us: datapath_attach_sockops() removes it */
		return 0;
	if (r < 0)
		return because(r, why, why_len, "replacing the program of %s: %s", path, strerror(-r));
	done = malloc(sizeof(*done));
	if (!done)
		return -ENOMEM;
	*done = (struct swapped){.link = TAKE_FD(link), .old_program = TAKE_FD(old), .next = *list};
	*list = done;
	return 0;
}

int links_swap(struct datapath *dp, char *why, size_t why_len)
{
	struct swapped *list = NULL;
	DIR *dir = opendir(dp->pins);
	struct dirent *entry;
	int r = 0;

	if (!dir)
		return because(-errno, why, why_len, "reading %s: %s", dp->pins, strerror(errno));
	while (r == 0 && (entry = readdir(dir)))
		if (is_link_pin(entry->d_name))
			r = swap_one(dp, entry->d_name, &list, why, why_len);
	closedir(dir);
	swapped_free(list, r < 0);
	return r;
}
