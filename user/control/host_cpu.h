/* SPDX-License-Identifier: GPL-2.0-only */
/* host_cpu.h: which share of the host's CPU time is spent, smoothed over 500 ms (CONTROL 4), from /proc/stat. */
#ifndef SLUICE_HOST_CPU_H
#define SLUICE_HOST_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Clock ticks of all CPUs since the boot. Spent: all but idle and waiting for disks; what the hypervisor stole is too. */
struct cpu_ticks {
	uint64_t spent, all;
};

struct host_cpu { /* zeroed: nothing is known */
	bool primed, has;
	uint64_t at_ns;
	struct cpu_ticks ticks; /* then */
	double share; /* 0 to 1, with `has` */
};

/* Pure: the first line of /proc/stat. -EBADMSG. */
int cpu_ticks_parse(const char *text, struct cpu_ticks *ret_ticks);
/* Pure: one reading. */
void host_cpu_take(struct host_cpu *cpu, const struct cpu_ticks *ticks, uint64_t now_ns);
/* Reads, at most every 200 ms: on large hosts the file is not cheap. What cannot be read is not known. */
void host_cpu_look(struct host_cpu *cpu, uint64_t now_ns);

#endif /* SLUICE_HOST_CPU_H */
