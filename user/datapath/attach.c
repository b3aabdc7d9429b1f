// SPDX-License-Identifier: GPL-2.0-only
/*
 * attach.c: the XDP program on an interface, through a pinned bpf_link.
 *
 * A link rather than a netlink attach: it cannot be displaced by another tool, survives kill -9, and is updated in
 * place, in the mode it has. A dead controller's link is found by its pin, or by its program's maps if the pin is
 * lost. Programs of others are never displaced: the hook is then refused with their id and name.
 *
 * Where other tools have put libxdp's dispatcher on the hook already, ours joins it (dispatcher.c). We do not start one:
 * libxdp replaces a program by attaching the new beside the old, and needs the kernel to take program extensions, while
 * a link's program is replaced in one step on every kernel.
 */
#include "user/datapath/links.h"

#include <linux/if_link.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <string.h>

#include "sluice.skel.h"
#include "user/datapath/device.h"
#include "user/datapath/dispatcher.h"

#define ATTACH_TRIES 3 /* another agent may attach or detach between our look and our attach (c122) */

static const struct {
	uint32_t flags;
	const char *name;
} modes[] = {
	[ATTACH_NATIVE] = {XDP_FLAGS_DRV_MODE, "native"},
	[ATTACH_GENERIC] = {XDP_FLAGS_SKB_MODE, "generic"},
};

/* What hangs on the interface now. */
static int look(int ifindex, uint32_t *ret_prog_id, enum attach_mode *ret_mode)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, opts);
	int r = bpf_xdp_query(ifindex, 0, &opts);

	if (r < 0)
		return r;
	*ret_prog_id = opts.prog_id ?: opts.drv_prog_id ?: opts.skb_prog_id ?: opts.hw_prog_id;
	*ret_mode = opts.attach_mode == XDP_ATTACHED_SKB ? ATTACH_GENERIC : ATTACH_NATIVE;
	return 0;
}

static int fill_state(int ifindex, struct attach_state *state)
{
	enum attach_mode mode;
	uint32_t prog_id;
	int r = look(ifindex, &prog_id, &mode);

	if (r < 0)
		return r;
	state->ifindex = ifindex;
	state->program_id = prog_id;
	state->mode = mode;
	return 0;
}

/* Numbers of interfaces are per network namespace: the link may be on one of the same number elsewhere. */
static bool link_is_here(const struct bpf_link_info *info)
{
	enum attach_mode mode;
	uint32_t prog_id;

	return look((int)info->xdp.ifindex, &prog_id, &mode) == 0 && prog_id == info->prog_id;
}

/* A link of ours on this interface whose pin was lost. */
static int find_lost_link(const struct datapath *dp, int ifindex, int *ret_fd)
{
	uint32_t id = 0, control = map_id_of(dp->maps.fd[MAP_control]);

	while (bpf_link_get_next_id(id, &id) == 0) {
		_cleanup_fd_ int fd = bpf_link_get_fd_by_id(id), prog = -1;
		struct bpf_link_info info;
		bool ours;

		if (fd < 0 || link_info(fd, &info) < 0 || info.type != BPF_LINK_TYPE_XDP ||
		    info.xdp.ifindex != (uint32_t)ifindex)
			continue;
		prog = link_is_here(&info) ? bpf_prog_get_fd_by_id(info.prog_id) : -1;
		if (prog < 0 || program_uses_map(prog, control, &ours) < 0 || !ours)
			continue;
		*ret_fd = TAKE_FD(fd);
		return 0;
	}
	return -ENOENT;
}

static int refuse_foreign(uint32_t prog_id, enum attach_mode mode, const char *ifname, struct attach_state *state)
{
	_cleanup_fd_ int fd = bpf_prog_get_fd_by_id(prog_id);
	struct bpf_prog_info info = {0};
	uint32_t len = sizeof(info);

	if (fd >= 0)
		bpf_obj_get_info_by_fd(fd, &info, &len);
	return because(-EBUSY, state->why, sizeof(state->why),
		       "%s has an XDP program of somebody else in %s mode: id %u, name '%s'; it stays. Detach it first "
		       "(`ip link set dev %s xdp off` if it is attached by netlink)",
		       ifname, modes[mode].name, prog_id, *info.name ? info.name : "?", ifname);
}

static bool driver_refuses(int error)
{
	return error == -EOPNOTSUPP || error == -EINVAL || error == -ERANGE || error == -ENOSYS || error == -524;
}

/* One attempt in one mode. -EBUSY: something else is there, as `state->why` says. */
static int create_link(const struct datapath *dp, const char *ifname, int ifindex, enum attach_mode mode, int *ret_fd,
		       struct attach_state *state)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = modes[mode].flags);
	int r = -EBUSY;

	for (int i = 0; i < ATTACH_TRIES; i++) {
		enum attach_mode theirs;
		uint32_t prog_id;

		r = bpf_link_create(bpf_program__fd(dp->xdp), ifindex, BPF_XDP, &opts);
		if (r >= 0) {
			*ret_fd = r;
			return 0;
		}
		if (r != -EBUSY && r != -EEXIST)
			return r;
		r = look(ifindex, &prog_id, &theirs);
		if (r < 0)
			return r;
		if (prog_id)
			return refuse_foreign(prog_id, theirs, ifname, state);
		r = -EBUSY; /* gone again: look once more */
	}
	return because(r, state->why, sizeof(state->why),
		       "%s: another agent attaches and detaches XDP programs just now", ifname);
}

static int create_in_mode(const struct datapath *dp, const char *ifname, int ifindex, int wanted, int *ret_fd,
			  struct attach_state *state)
{
	struct device device;
	char refused[WHY_LEN - 64];
	int r = device_read(ifname, &device);

	if (r < 0)
		return because(r, state->why, sizeof(state->why), "%s: %s", ifname, strerror(-r));
	if (device.type != ARPHRD_ETHER && device.type != ARPHRD_LOOPBACK)
		return because(-EINVAL, state->why, sizeof(state->why),
			       "%s has no Ethernet header (link type %d: PPP, TUN, tunnels): packets would be misread; "
			       "attach to the Ethernet device below it",
			       ifname, device.type);
	if (wanted == 2) {
		r = create_link(dp, ifname, ifindex, ATTACH_GENERIC, ret_fd, state);
		if (r < 0 && !*state->why)
			because(r, state->why, sizeof(state->why), "%s: generic XDP: %s", ifname, strerror(-r));
		return r;
	}
	r = create_link(dp, ifname, ifindex, ATTACH_NATIVE, ret_fd, state);
	if (r == 0 || *state->why)
		return r;
	if (!driver_refuses(r))
		return because(r, state->why, sizeof(state->why), "%s: native XDP: %s", ifname, strerror(-r));
	device_explain(&device, r, refused, sizeof(refused));
	if (wanted == 1)
		return because(r, state->why, sizeof(state->why), "%s: %s", ifname, refused);
	r = create_link(dp, ifname, ifindex, ATTACH_GENERIC, ret_fd, state);
	if (r == 0)
		because(0, state->why, sizeof(state->why), "generic: %s", refused);
	else if (!*state->why)
		because(r, state->why, sizeof(state->why), "%s: %.200s; and generic XDP: %s", ifname, refused,
			strerror(-r));
	return r;
}

/* The link is there: our program goes in if it is another one; the mode stays. */
static int adopt_link(const struct datapath *dp, int fd, const struct bpf_link_info *info, int wanted,
		      struct attach_state *state)
{
	int r = link_renew(dp, fd, info);

	if (r == 0)
		r = fill_state((int)info->xdp.ifindex, state);
	if (r < 0)
		return because(r, state->why, sizeof(state->why),
			       "the link of an earlier start is there, but its program cannot be replaced: %s",
			       strerror(-r));
	if ((wanted == 1 && state->mode != ATTACH_NATIVE) || (wanted == 2 && state->mode != ATTACH_GENERIC))
		because(0, state->why, sizeof(state->why),
			"%s mode of an earlier start is kept: changing it would leave packets unfiltered; `sluicectl "
			"detach` "
			"and start again to change it",
			modes[state->mode].name);
	return 0;
}

static int attach(struct datapath *dp, const char *ifname, int wanted, struct attach_state *state)
{
	_cleanup_fd_ int fd = -1;
	struct bpf_link_info info = {0};
	char path[PATH_MAX], now[IF_NAMESIZE];
	int ifindex = (int)if_nametoindex(ifname), r;

	if (dp->plan == PLAN_MIGRATE)
		return because(-EBUSY, state->why, sizeof(state->why),
			       "tables of another layout are in force until a snapshot is applied");
	r = interface_pin_path(path, sizeof(path), dp->pins, ifname);
	if (r < 0)
		return because(r, state->why, sizeof(state->why), "%s: the name is too long", ifname);
	r = link_open(path, &fd, &info);
	if (r < 0 && r != -ENOENT)
		return because(r, state->why, sizeof(state->why), "opening %s: %s", path, strerror(-r));
	if (r == 0 && !link_is_dead(&info) && info.type == BPF_LINK_TYPE_XDP && link_is_here(&info)) {
		if ((int)info.xdp.ifindex == ifindex)
			return adopt_link(dp, fd, &info, wanted, state);
		if (!ifindex && if_indextoname(info.xdp.ifindex, now)) {
			/* Renamed: it is the same device and stays filtered until one of the old name appears. */
			r = adopt_link(dp, fd, &info, 0, state);
			if (r == 0)
				because(0, state->why, sizeof(state->why), "%s is now called %s; still filtered there",
					ifname, now);
			return r;
		}
	}
	if (!ifindex) {
		if (fd >= 0 && link_is_dead(&info))
			unlink(path);
		return because(-ENODEV, state->why, sizeof(state->why), "there is no interface %s", ifname);
	}
	close_fd(&fd);
	if (find_lost_link(dp, ifindex, &fd) == 0) {
		r = link_info(fd, &info);
		if (r == 0)
			r = adopt_link(dp, fd, &info, wanted, state);
	} else if (dispatcher_present(ifindex)) {
		return dispatcher_attach(dp, ifname, ifindex, state);
	} else {
		r = create_in_mode(dp, ifname, ifindex, wanted, &fd, state);
		if (r == 0)
			r = fill_state(ifindex, state);
	}
	if (r < 0)
		return r;
	r = link_pin_over(fd, path);
	if (r < 0)
		return because(r, state->why, sizeof(state->why), "pinning %s: %s", path, strerror(-r));
	return 0;
}

int datapath_attach(struct datapath *dp, const char *ifname, int mode_wanted, struct attach_state *ret_state)
{
	struct attach_state state = {.mode = ATTACH_OFFLINE};
	int r = attach(dp, ifname, mode_wanted, &state);

	if (r < 0) { /* the reason is in the state, so it is filled on failure too */
		state.ifindex = 0;
		state.mode = ATTACH_OFFLINE;
		state.program_id = 0;
	}
	*ret_state = state;
	return r;
}

int datapath_detach_interface(struct datapath *dp, const char *ifname)
{
	_cleanup_fd_ int fd = -1;
	struct bpf_link_info info;
	char path[PATH_MAX];
	int r = interface_pin_path(path, sizeof(path), dp->pins, ifname);

	if (r == 0)
		r = link_open(path, &fd, &info);
	if (r == -ENOENT)
		return dispatcher_leave(dp, (int)if_nametoindex(ifname));
	if (r < 0)
		return r;
	if (!link_is_dead(&info)) {
		r = bpf_link_detach(fd);
		if (r < 0)
			return r;
	}
	return unlink(path) < 0 ? -errno : 0;
}

int datapath_forget_interface(struct datapath *dp, const char *ifname)
{
	char path[PATH_MAX];
	int r = interface_pin_path(path, sizeof(path), dp->pins, ifname);

	if (r < 0)
		return r;
	return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}
