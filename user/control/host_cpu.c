// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/host_cpu.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "user/control/clock.h"
#include "user/control/scope.h"

#define LOOK_NS (200 * NS_PER_MS)
#define SMOOTH_NS (500 * NS_PER_MS)
#define GAP_NS (5 * NS_PER_S) /* further apart, two readings tell of another time */

/* Columns of the line; guests are in user and nice already. */
enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, COLUMNS };

int cpu_ticks_parse(const char *text, struct cpu_ticks *ret_ticks)
{
	uint64_t columns[COLUMNS] = {0}, all = 0;
	int count = 0;
	char *end;

	if (strncmp(text, "cpu ", 4) != 0)
		return -EBADMSG;
	for (text += 4; count < COLUMNS; text = end, count++) {
		text += strspn(text, " ");
		if (*text < '0' || *text > '9')
			break;
		columns[count] = strtoull(text, &end, 10);
		all += columns[count];
	}
	if (count <= IDLE)
		return -EBADMSG;
	*ret_ticks = (struct cpu_ticks){.spent = all - columns[IDLE] - columns[IOWAIT], .all = all};
	return 0;
}

void host_cpu_take(struct host_cpu *cpu, const struct cpu_ticks *ticks, uint64_t now_ns)
{
	const struct cpu_ticks then = cpu->ticks;
	uint64_t passed_ns = now_ns - cpu->at_ns;
	double share, weight;

	/* iowait may fall, and CPUs may go. */
	if (!cpu->primed || ticks->all < then.all || ticks->spent < then.spent || passed_ns > GAP_NS) {
		*cpu = (struct host_cpu){.primed = true, .at_ns = now_ns, .ticks = *ticks};
		return;
	}
	if (ticks->all == then.all)
		return;
	share = fmin(1, (double)(ticks->spent - then.spent) / (double)(ticks->all - then.all));
	weight = cpu->has ? 1 - exp(-(double)passed_ns / (double)SMOOTH_NS) : 1;
	cpu->share += weight * (share - cpu->share);
	cpu->has = true;
	cpu->at_ns = now_ns;
	cpu->ticks = *ticks;
}

void host_cpu_look(struct host_cpu *cpu, uint64_t now_ns)
{
	SCOPE_FD fd = -1;
	struct cpu_ticks ticks;
	char text[512];
	ssize_t len;

	if (cpu->primed && now_ns - cpu->at_ns < LOOK_NS)
		return;
	fd = open("/proc/stat", O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (len > 0)
		text[len] = '\0';
	if (len <= 0 || cpu_ticks_parse(text, &ticks)) {
		*cpu = (struct host_cpu){0};
		return;
	}
	host_cpu_take(cpu, &ticks, now_ns);
}
