// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/clock.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "maps/abi.h"
#include "user/control/scope.h"

uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

int64_t clock_wall_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

uint64_t clock_random(void)
{
	uint64_t random = 0;

	while (getrandom(&random, sizeof(random), 0) != sizeof(random))
		; /* a signal came: only before the pool is ready */
	return random;
}

static char boot_id[BOOT_ID_LEN] = "unknown";

static void read_boot_id(void)
{
	SCOPE_FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	char line[BOOT_ID_LEN];

	if (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		memcpy(boot_id, line, sizeof(line));
	}
}

const char *clock_boot_id(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_boot_id);
	return boot_id;
}

void clock_iso(int64_t wall_ms, char *buf, size_t len)
{
	time_t seconds = wall_ms / 1000;
	struct tm tm;

	gmtime_r(&seconds, &tm);
	strftime(buf, len, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

void clock_iso_ms(int64_t wall_ms, char *buf, size_t len)
{
	char seconds[ISO_LEN];

	clock_iso(wall_ms, seconds, sizeof(seconds));
	snprintf(buf, len, "%.19s.%03dZ", seconds, (int)(wall_ms % 1000));
}

struct moment moment_at(uint64_t mono_ns)
{
	struct moment moment = {.mono_ns = mono_ns};

	if (mono_ns != SLC_FOREVER)
		moment.wall_ms = clock_wall_ms() + ((int64_t)(mono_ns - clock_ns())) / (int64_t)NS_PER_MS;
	memcpy(moment.boot, clock_boot_id(), sizeof(moment.boot));
	return moment;
}

uint64_t moment_here(const struct moment *moment)
{
	int64_t left_ms;
	uint64_t now_ns = clock_ns();

	if (moment->mono_ns == SLC_FOREVER || strcmp(moment->boot, clock_boot_id()) == 0)
		return moment->mono_ns;
	left_ms = moment->wall_ms - clock_wall_ms();
	if (left_ms <= 0 && (uint64_t)-left_ms >= now_ns / NS_PER_MS)
		return 0;
	return now_ns + left_ms * (int64_t)NS_PER_MS;
}
