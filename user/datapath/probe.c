// SPDX-License-Identifier: GPL-2.0-only
/* probe.c: the kernel's answers for doctor, without a datapath. */
#include "user/datapath/internal.h"

/* The sysctl is only visible in the host's network namespace; a loaded program tells in any. */
static bool kernel_compiles(void)
{
	static const struct bpf_insn pass[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_PASS},
		{.code = BPF_JMP | BPF_EXIT},
	};
	_cleanup_fd_ int fd = bpf_prog_load(BPF_PROG_TYPE_XDP, "slc_probe", "GPL", pass, ARRAY_SIZE(pass), NULL);
	struct bpf_prog_info info = {0};
	__u32 len = sizeof(info);

	return fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &len) && info.jited_prog_len > 0;
}

void datapath_probe(struct datapath_features *ret_features)
{
	struct datapath_features features = {0};

	features.bpf = !kernel_check(features.bpf_why, sizeof(features.bpf_why));
	features.gate_fields = kernel_has_gate_fields(features.gate_why, sizeof(features.gate_why));
	features.frags = features.bpf && kernel_takes_frags();
	features.jit = features.bpf && kernel_compiles();
	*ret_features = features;
}
