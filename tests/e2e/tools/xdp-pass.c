// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-pass: puts a program that passes everything on an interface. What the other end of a veth sends by XDP_TX (our
 * resets) is received only where the receiving end has an XDP program too.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <net/if.h>

#include "tool.h"

static const char *interface;

static const struct flag flags[] = {
	{"dev", FLAG_TEXT, &interface, 0, 0, "NAME", "the interface"},
	{0},
};

int main(int argc, char **argv)
{
	static const struct bpf_insn pass[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_PASS},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int index, fd, err;

	flags_parse("passes every packet of an interface through XDP", flags, argc, argv);
	index = interface ? (int)if_nametoindex(interface) : 0;
	if (!index)
		die("--dev: no such interface");
	fd = bpf_prog_load(BPF_PROG_TYPE_XDP, "xdp_pass", "GPL", pass, sizeof(pass) / sizeof(pass[0]), NULL);
	if (fd < 0)
		die("load: %s", strerror(-fd));
	err = bpf_xdp_attach(index, fd, XDP_FLAGS_DRV_MODE, NULL);
	if (err)
		die("attach to %s: %s", interface, strerror(-err));
	return 0;
}
