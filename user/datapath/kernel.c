// SPDX-License-Identifier: GPL-2.0-only
/* kernel.c: what this kernel and our privileges allow, in words. Asks by trying; versions are not compared. */
#include "user/datapath/internal.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include <bpf/btf.h>

static bool has_capability(unsigned int capability)
{
	_cleanup_fd_ int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	char text[4096], *line;
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n < 0)
		return true; /* cannot tell: blame something else */
	text[n] = '\0';
	line = strstr(text, "CapEff:");
	return !line || strtoull(line + 7, NULL, 16) >> capability & 1;
}

static bool first_word_active(const char *path, const char *word)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[256];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n < 0)
		return false;
	text[n] = '\0';
	return strstr(text, word);
}

/* bpf() said EPERM: which of the gates was it? */
static int explain_eperm(const char *what, char *why, size_t why_len)
{
	bool admin = has_capability(CAP_SYS_ADMIN);

	if (!admin && !has_capability(CAP_BPF))
		return because(
			-EPERM, why, why_len,
			"%s: not permitted: needs CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON and CAP_SYS_ADMIN (run as root)",
			what);
	if (!has_capability(CAP_NET_ADMIN))
		return because(-EPERM, why, why_len, "%s: not permitted: CAP_NET_ADMIN is missing", what);
	if (!admin)
		return because(-EPERM, why, why_len,
			       "%s: not permitted: CAP_SYS_ADMIN is missing (maps and programs are found by their ids)",
			       what);
	if (first_word_active("/sys/kernel/security/lockdown", "[confidentiality]"))
		return because(-EPERM, why, why_len,
			       "%s: not permitted: kernel lockdown is in confidentiality mode "
			       "(/sys/kernel/security/lockdown); integrity mode allows BPF",
			       what);
	return because(
		-EPERM, why, why_len,
		"%s: not permitted although all capabilities are there: a container's seccomp filter, a security "
		"module, or a memory-lock limit (ulimit -l) refuses bpf()",
		what);
}

/* The live snapshot and foreign programs are found by their ids, which takes more than CAP_BPF. */
static int check_ids(int map, char *why, size_t why_len)
{
	struct bpf_map_info info = {0};
	uint32_t len = sizeof(info);
	_cleanup_fd_ int again = -1;
	int r = bpf_obj_get_info_by_fd(map, &info, &len);

	if (r == 0)
		r = again = bpf_map_get_fd_by_id(info.id);
	if (r == -EPERM)
		return explain_eperm("opening a BPF map by its id", why, why_len);
	return r < 0 ? because(r, why, why_len, "opening a BPF map by its id: %s", strerror(-r)) : 0;
}

int kernel_check(char *why, size_t why_len)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
	struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
	_cleanup_fd_ int fd = -1;

	setrlimit(RLIMIT_MEMLOCK, &all); /* kernels before 5.11 charge maps to it; a refusal shows below */
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "slc_probe", 4, 8, 1, &opts);
	if (fd >= 0)
		return check_ids(fd, why, why_len);
	switch (fd) {
	case -EPERM:
		return explain_eperm("making a BPF map", why, why_len);
	case -ENOSYS:
		return because(-ENOTSUP, why, why_len, "this kernel has no bpf(): CONFIG_BPF_SYSCALL=y is needed");
	case -EINVAL:
		return because(-ENOTSUP, why, why_len,
			       "this kernel has no memory-mapped BPF arrays: Linux 5.15 or newer is needed");
	default:
		return because(fd, why, why_len, "making a BPF map: %s", strerror(-fd));
	}
}

static bool has_member(const struct btf *btf, const char *type, const char *member)
{
	int id = btf__find_by_name_kind(btf, type, BTF_KIND_STRUCT);
	const struct btf_type *t = id < 0 ? NULL : btf__type_by_id(btf, (uint32_t)id);

	if (!t)
		return false;
	for (int i = 0; i < btf_vlen(t); i++)
		if (strcmp(btf__name_by_offset(btf, btf_members(t)[i].name_off), member) == 0)
			return true;
	return false;
}

bool kernel_has_gate_fields(char *why, size_t why_len)
{
	struct btf *btf = btf__load_vmlinux_btf();
	bool has;

	if (!btf) {
		because(0, why, why_len, "no kernel type information (CONFIG_DEBUG_INFO_BTF): %s", strerror(errno));
		return false;
	}
	has = has_member(btf, "sock", "sk_ack_backlog") && has_member(btf, "sock", "sk_max_ack_backlog");
	btf__free(btf);
	if (!has)
		because(0, why, why_len, "the kernel's struct sock has no sk_ack_backlog or sk_max_ack_backlog");
	return has;
}

bool kernel_takes_frags(void)
{
	static const struct bpf_insn pass[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_PASS},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .prog_flags = BPF_F_XDP_HAS_FRAGS);
	_cleanup_fd_ int fd = bpf_prog_load(BPF_PROG_TYPE_XDP, "slc_probe", "GPL", pass, ARRAY_SIZE(pass), &opts);

	return fd >= 0;
}

/*
 * Asked by loading: libbpf's own probe knows "unknown func" alone, and takes the refusal of newer kernels, "program of
 * this type cannot use helper", for a yes.
 */
bool kernel_egress_has_cookie(void)
{
	static const struct bpf_insn ask[] = {
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_get_netns_cookie},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_CGROUP_INET_EGRESS);
	_cleanup_fd_ int fd = bpf_prog_load(BPF_PROG_TYPE_CGROUP_SKB, "slc_probe", "GPL", ask, ARRAY_SIZE(ask), &opts);

	return fd >= 0;
}
