/* SPDX-License-Identifier: GPL-2.0-only */
/* gen.h: what user space tells the generator; shared with gen.bpf.c. */
#ifndef SLUICE_BENCH_GEN_H
#define SLUICE_BENCH_GEN_H

#include <linux/types.h>

#define GEN_FIRST_SOURCE 0x0b000000u /* 11.0.0.0, host order */

#define GEN_LINES 131072 /* 8 MiB of cache lines: 8 bytes for each of 1 M sources */

struct gen_config {
	__u32 ifindex; /* the near end of the veth pair, in the generator's namespace */
	__u32 sources; /* 0: the whole unicast space */
	__u32 sweep; /* 1: each source in turn (to fill tables); 0: at random */
	__u32 ip_sum; /* of the IP header with source and checksum zero */
	__u64 pace_ns; /* between two frames of a CPU; 0: as fast as it goes */
	__u64 until_ns; /* with pace_ns: no frame after this */
	__u64 interval_ns, depth_ns; /* with pace_ns: T and tau of the bucket that the generator asks for comparison */
};

/* Of one CPU, on its own line. */
struct gen_state {
	__u64 counter; /* frames made */
	__u64 due_ns; /* with pace_ns: when the next one is sent */
	__u64 first_ns, last_ns; /* of the frames sent */
	__u64 ideal; /* of these, such as an exact bucket would have let through when they were sent */
	__u64 pad[3];
};

#endif /* SLUICE_BENCH_GEN_H */
