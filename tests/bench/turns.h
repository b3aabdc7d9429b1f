/* SPDX-License-Identifier: GPL-2.0-only */
/* turns.h: what user space tells the wrapper of the programs that look at turns; shared with turns.bpf.c. */
#ifndef SLUICE_BENCH_TURNS_H
#define SLUICE_BENCH_TURNS_H

#include "maps/abi.h"

struct turns_config {
	struct slc_turn
		turn; /* what the socket's storage says before each packet; `noted_ns` and `good` are left alone */
	__u32 measured; /* 0: a socket of no service, which has no storage */
	__u32 pad;
};

#endif /* SLUICE_BENCH_TURNS_H */
