// SPDX-License-Identifier: GPL-2.0-only
/*
 * cgroup.c: sockops and the programs of turns at the root of cgroup2. Links are "multi" by nature: programs of others run
 * beside ours. Where cgroup2 is mounted comes from mountinfo; without it connections are not counted, a named mode.
 */
#include "user/datapath/links.h"

#include <fcntl.h>
#include <string.h>

#include "sluice.skel.h"
#include "user/datapath/mountinfo.h"

#define MOUNTINFO_MAX (4u << 20)

static int read_file(const char *path, char **ret_text)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *text = NULL;
	size_t size = 0, room = 0;

	if (fd < 0)
		return -errno;
	for (;;) {
		char *grown;
		ssize_t n;

		if (size + 1 >= room) {
			room = room ? 2 * room : 16384;
			grown = room > MOUNTINFO_MAX ? NULL : realloc(text, room);
			if (!grown)
				return -ENOMEM;
			text = grown;
		}
		n = read(fd, text + size, room - size - 1);
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		size += (size_t)n;
	}
	text[size] = '\0';
	*ret_text = TAKE_PTR(text);
	return 0;
}

int cgroup2_open(int *ret_fd, char *why, size_t why_len)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	int fd, r = read_file("/proc/self/mountinfo", &text);

	if (r < 0)
		return because(r, why, why_len, "cannot read /proc/self/mountinfo: %s", strerror(-r));
	r = mountinfo_find(text, "cgroup2", path, sizeof(path));
	if (r < 0)
		return because(
			r, why, why_len,
			"cgroup2 is not mounted: connections are not counted, so source.concurrent, total.concurrent, "
			"head age and known-good are off; `mount -t cgroup2 none /sys/fs/cgroup/unified` and restart");
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return because(-errno, why, why_len, "cannot open the cgroup2 root %s: %s", path, strerror(errno));
	*ret_fd = fd;
	return 0;
}

/* Who holds the hook exclusively, so that ours is refused (c79). */
static int explain_refusal(int cgroup, enum bpf_attach_type type, const char *what, int error, char *why,
			   size_t why_len)
{
	const char *lost = type == BPF_CGROUP_SOCK_OPS ? "connections are not counted" : "answers are not timed";
	uint32_t ids[16], count = ARRAY_SIZE(ids);
	struct bpf_prog_info info = {0};
	uint32_t len = sizeof(info);
	_cleanup_fd_ int fd = -1;

	if (error != -EPERM || bpf_prog_query(cgroup, type, 0, NULL, ids, &count) < 0 || !count)
		return because(error, why, why_len, "attaching %s at the cgroup2 root: %s", what, strerror(-error));
	fd = bpf_prog_get_fd_by_id(ids[0]);
	if (fd >= 0)
		bpf_obj_get_info_by_fd(fd, &info, &len);
	return because(
		error, why, why_len,
		"attaching %s at the cgroup2 root is refused: program id %u, name '%s', was attached there without "
		"BPF_F_ALLOW_MULTI and tolerates no other; %s",
		what, ids[0], *info.name ? info.name : "?", lost);
}

static int attach_one(struct datapath *dp, int cgroup, const struct bpf_program *prog, enum bpf_attach_type type,
		      const char *pin, char *why, size_t why_len)
{
	_cleanup_fd_ int fd = -1;
	struct bpf_link_info info;
	char path[PATH_MAX];
	int r = pin_path(path, sizeof(path), dp->pins, "", pin);

	if (r == 0)
		r = link_open(path, &fd, &info);
	if (r == 0 && !link_is_dead(&info) && info.type == BPF_LINK_TYPE_CGROUP && info.cgroup.attach_type == type) {
		r = link_renew(dp, fd, &info);
		if (r < 0)
			return because(r, why, why_len, "replacing the program of %s: %s", path, strerror(-r));
		return 0;
	}
	close_fd(&fd);
	fd = bpf_link_create(bpf_program__fd(prog), cgroup, type, NULL);
	if (fd < 0)
		return explain_refusal(cgroup, type, pin + strlen("link_"), fd, why, why_len);
	r = link_pin_over(fd, path);
	return r < 0 ? because(r, why, why_len, "pinning %s: %s", path, strerror(-r)) : 0;
}

static void detach_one(const struct datapath *dp, const char *pin)
{
	_cleanup_fd_ int fd = -1;
	struct bpf_link_info info;
	char path[PATH_MAX];

	if (pin_path(path, sizeof(path), dp->pins, "", pin) < 0 || link_open(path, &fd, &info) < 0)
		return;
	bpf_link_detach(fd);
	unlink(path);
}

/* Outcomes of whole connections are what is left, if these are counted. */
static void turns_off(struct datapath *dp, const char *why)
{
	detach_one(dp, "link_ingress");
	detach_one(dp, "link_egress");
	__atomic_or_fetch(&dp->control->flags, SLC_F_NO_TURNS, __ATOMIC_RELEASE);
	dp->modes.no_turns = true;
	snprintf(dp->modes.no_turns_why, sizeof(dp->modes.no_turns_why), "%s", why);
}

/* Both directions or none: half of the turns would never end. */
static int attach_turns(struct datapath *dp, int cgroup)
{
	char why[WHY_LEN] = "";
	int r = 0;

	if (!dp->turns_skel)
		r = because(-ENOTSUP, why, sizeof(why), "%s", dp->modes.no_turns_why);
	if (r == 0)
		r = attach_one(dp, cgroup, dp->turns_skel->progs.slc_ingress, BPF_CGROUP_INET_INGRESS, "link_ingress",
			       why, sizeof(why));
	if (r == 0)
		r = attach_one(dp, cgroup, dp->turns_skel->progs.slc_egress, BPF_CGROUP_INET_EGRESS, "link_egress", why,
			       sizeof(why));
	if (r < 0) {
		turns_off(dp, why);
		return r;
	}
	__atomic_and_fetch(&dp->control->flags, ~SLC_F_NO_TURNS, __ATOMIC_RELEASE);
	dp->modes.no_turns = false;
	return 0;
}

/* Turns of TCP live in what sockops keeps of a connection; those of UDP do without. */
static int attach_all(struct datapath *dp, int cgroup, char *why, size_t why_len)
{
	int r;

	if (attach_turns(dp, cgroup) < 0 && dp->udp)
		return because(-ENOTSUP, why, why_len, "a UDP service needs to see its answers: %.400s",
			       dp->modes.no_turns_why);
	r = attach_one(dp, cgroup, dp->skel->progs.slc_sockops, BPF_CGROUP_SOCK_OPS, "link_sockops", why, why_len);
	if (r < 0 && !dp->udp)
		turns_off(dp, why);
	return r;
}

int datapath_attach_sockops(struct datapath *dp, char *why, size_t why_len)
{
	_cleanup_fd_ int cgroup = -1;
	char said[WHY_LEN] = "";
	int r;

	if (dp->plan == PLAN_MIGRATE)
		return because(-EBUSY, why, why_len,
			       "tables of another layout are in force until a snapshot is applied");
	r = cgroup2_open(&cgroup, said, sizeof(said));
	if (r < 0)
		turns_off(dp, said);
	else
		r = attach_all(dp, cgroup, said, sizeof(said));
	dp->modes.no_cgroup2 = r < 0;
	memcpy(dp->modes.no_cgroup2_why, said, sizeof(said));
	return r < 0 ? because(r, why, why_len, "%s", said) : 0;
}
