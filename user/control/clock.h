/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * clock.h: one clock decides (CLOCK_MONOTONIC, the one of bpf_ktime_get_ns). Wall time is for people and for what
 * must outlive a boot; it is never compared with a deadline of this boot.
 */
#ifndef SLUICE_CLOCK_H
#define SLUICE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#define NS_PER_MS 1000000ULL
#define NS_PER_S 1000000000ULL

uint64_t clock_ns(void);
int64_t clock_wall_ms(void);
uint64_t clock_random(void);

#define BOOT_ID_LEN 37
/* Of this boot; "unknown" where the kernel does not tell. */
const char *clock_boot_id(void);
/* "2026-11-30T18:41:09Z" */
void clock_iso(int64_t wall_ms, char *buf, size_t len);
#define ISO_LEN 32
/* "2026-11-30T18:41:09.042Z" */
void clock_iso_ms(int64_t wall_ms, char *buf, size_t len);
#define ISO_MS_LEN 40

/* A moment as the journal keeps it: deadline of one boot, wall time for all others. */
struct moment {
	uint64_t mono_ns; /* SLC_FOREVER: never */
	int64_t wall_ms;
	char boot[BOOT_ID_LEN];
};
struct moment moment_at(uint64_t mono_ns);
/* As a deadline of this boot; 0 when it passed before this boot began. */
uint64_t moment_here(const struct moment *moment);

#endif /* SLUICE_CLOCK_H */
