// SPDX-License-Identifier: GPL-2.0-only
/* probe.c: the kernel's answers for doctor, without a datapath. */
#include "user/datapath/internal.h"

void datapath_probe(struct datapath_features *ret_features)
{
	struct datapath_features features = {0};

	features.bpf = !kernel_check(features.bpf_why, sizeof(features.bpf_why));
	features.gate_fields = kernel_has_gate_fields(features.gate_why, sizeof(features.gate_why));
	features.frags = features.bpf && kernel_takes_frags();
	*ret_features = features;
}
