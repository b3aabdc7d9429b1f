/* SPDX-License-Identifier: GPL-2.0-only */
/* internal.h: what the files of user/datapath share: the open datapath, its maps, and helpers of the house style. */
#ifndef SLUICE_DATAPATH_INTERNAL_H
#define SLUICE_DATAPATH_INTERNAL_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "user/datapath/datapath.h"
#include "user/datapath/ranges.h"
#include "user/datapath/unit.h"

struct sluice_bpf;

/* --- house style --------------------------------------------------------------------------------------------------- */

static inline void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}
static inline void free_ptr(void *ptr)
{
	free(*(void **)ptr);
}
#define _cleanup_fd_ __attribute__((cleanup(close_fd)))
#define _cleanup_free_ __attribute__((cleanup(free_ptr)))
#define TAKE_FD(fd)              \
	({                       \
		int __fd = (fd); \
		(fd) = -1;       \
		__fd;            \
	})
#define TAKE_PTR(ptr)                    \
	({                               \
		typeof(ptr) __p = (ptr); \
		(ptr) = NULL;            \
		__p;                     \
	})
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Puts the reason in words into `why` and returns `error`, so that a failure is one statement. */
int because(int error, char *why, size_t why_len, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

static inline uint64_t now_ns(void) /* the packet path's clock */
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

/* --- maps ------------------------------------------------------------------------------------------------------------ */

/*
 * All pinned maps, and what becomes of them when pins of another layout are found (see migrate.c):
 *   SNAPSHOT  made new with each migration and filled by the first datapath_apply()
 *   SLOTS     plain array by state slot or index: shared if alike, else copied element by element
 *   COUNTERS  per-CPU slc_counters: shared if alike, else copied; other numbers of reasons are understood
 *   BUCKETS   slc_sources: shared if alike, else {tag, TAT} are moved
 *   COLD      slc_cold: shared if alike, else entries are placed again by their hash
 *   KEYS      hash or LPM: shared if alike, else copied key by key
 *   FRESH     shared if alike, else starts empty
 */
#define SLC_MAPS(X)           \
	X(control, SNAPSHOT)  \
	X(ports, SNAPSHOT)    \
	X(services, SNAPSHOT) \
	X(trust, SNAPSHOT)    \
	X(policy, SNAPSHOT)   \
	X(orders, KEYS)       \
	X(decision, SLOTS)    \
	X(override, SLOTS)    \
	X(sources, BUCKETS)   \
	X(cold, COLD)         \
	X(known, KEYS)        \
	X(flows, FRESH)       \
	X(total, SLOTS)       \
	X(ceiling, SLOTS)     \
	X(counters, COUNTERS) \
	X(signals, SLOTS)     \
	X(arrivals, FRESH)    \
	X(events, FRESH)      \
	X(budget, FRESH)      \
	X(measure, SNAPSHOT)  \
	X(probe, SLOTS)       \
	X(udp_turns, FRESH)   \
	X(turn_of, FRESH)     \
	X(marks, FRESH)       \
	X(conns, FRESH)

enum map {
#define X(name, carry) MAP_##name,
	SLC_MAPS(X)
#undef X
		MAP_COUNT
};

enum carry { CARRY_SNAPSHOT, CARRY_SLOTS, CARRY_COUNTERS, CARRY_BUCKETS, CARRY_COLD, CARRY_KEYS, CARRY_FRESH };

extern const char *const map_names[MAP_COUNT]; /* "slc_control", ... */
extern const enum carry map_carry[MAP_COUNT];

struct shape {
	uint32_t type, key_size, value_size, max_entries, flags;
};

/* A set of maps by descriptor: the ones in use, or the pinned ones of another layout. */
struct maps {
	int fd[MAP_COUNT]; /* -1: none */
	struct shape shape[MAP_COUNT];
};

/* Shared memory of a BPF_F_MMAPABLE array. */
struct mapping {
	void *at; /* NULL: not mapped */
	size_t len;
};

/* Entries of a table that the configuration sizes; 0: any other map. */
uint32_t table_entries(const struct datapath_options *options, enum map map);
int shape_of(int fd, struct shape *ret_shape);
uint32_t map_id_of(int fd); /* 0 on failure */
bool shape_equal(const struct shape *a, const struct shape *b);
int maps_open_pinned(const char *pins, struct maps *ret_maps); /* -ENOENT: none at all */
void maps_close(struct maps *maps);
int mapping_open(struct mapping *mapping, int fd, const struct shape *shape);
void mapping_close(struct mapping *mapping);
int pin_path(char *buf, size_t len, const char *pins, const char *prefix, const char *name);

/* Walks keys, bounded: a map under churn may show a key twice or not at all, but never forever (c141). */
typedef int (*key_visit)(const void *key, void *arg); /* not 0: stop, and returned */
int map_walk(int fd, size_t key_size, uint32_t max_entries, key_visit visit, void *arg);

/* --- the live snapshot ------------------------------------------------------------------------------------------------ */

struct live_service {
	uint16_t slot; /* in slc_policy */
	struct slc_policy policy;
	struct slc_service_key *keys;
	size_t key_count;
};

/* What the kernel side enforces now, read back from the maps: they are the only state there is. */
struct live {
	uint64_t number; /* 0: no snapshot yet */
	uint32_t index;
	struct live_service *services; /* by policy slot */
	size_t count;
	size_t trust_count; /* entries in the live slc_trust */
	int trust_fd; /* inner map, -1 if none */
};

int live_read(const struct maps *maps, struct live *ret_live);
void live_free(struct live *live);
const struct live_service *live_find(const struct live *live, const char *name);

/* --- the datapath ------------------------------------------------------------------------------------------------------- */

enum plan {
	PLAN_FRESH, /* nothing pinned */
	PLAN_ADOPT, /* everything alike */
	PLAN_MIGRATE, /* other layout: new maps beside the old, swapped by the first apply */
	PLAN_SETTLED, /* maps in use are the pinned ones */
};

struct datapath {
	char pins[PATH_MAX];
	int lock; /* flocked */
	int btf; /* without kernel BTF: a file of our own; else -1 */
	enum plan plan;
	bool udp; /* a UDP service is live, or the options said there will be */
	struct datapath_modes modes;
	struct sluice_bpf *skel;
	struct bpf_program *xdp; /* with or without gate */
	struct sluice_bpf *turns_skel; /* slc_ingress and slc_egress; NULL: refused (modes.no_turns) */
	struct maps maps;
	bool carried; /* PLAN_MIGRATE: the old secret is known, so old hashes mean something */
	bool shared[MAP_COUNT]; /* maps.fd is the pinned one */
	uint32_t old_control_id; /* after a migration: slc_control that programs behind a dispatcher may still use */
	struct maps old; /* PLAN_MIGRATE: the pinned ones */
	struct mapping old_sources;
	struct slc_control *control;
	struct slc_ports *ports;
	struct slc_decision *decision;
	struct slc_override *override;
	struct slc_set *sources;
	struct slc_cold_set *cold;
	struct slc_total *total;
	uint64_t *ceiling;
	struct slc_signals *signals;
	struct slc_probe *probe;
	struct slc_measure *measure;
	struct mapping mappings[MAP_COUNT];
	uint32_t configured_sets; /* of one layout; the table has twice as many */
	size_t cpus; /* possible */
	struct live live;
	uint8_t ceiling_used[SLC_CEILINGS / 8];
	struct {
		size_t service; /* next to sweep */
		uint32_t set;
	} sweep;
	struct ring_buffer *ring;
	event_visit event_visit;
	void *event_arg;
};

int events_open(struct datapath *dp);

/* lock.c */
int lock_pins(const char *pins, int *ret_fd, char *why, size_t why_len);
void lock_remove(const char *pins); /* unless somebody holds it */
void lock_forget(const char *pins, int fd); /* removes the file of a lock that we hold */
/* cgroup.c */
int cgroup2_open(int *ret_fd, char *why, size_t why_len);
/* bpffs.c */
bool is_bpffs(const char *path);
int bpffs_prepare(const char *pins, char *why, size_t why_len);
/* kernel.c */
int kernel_check(char *why, size_t why_len);
bool kernel_has_gate_fields(char *why, size_t why_len);
bool kernel_takes_frags(void);
bool kernel_egress_has_cookie(void); /* cgroup_skb programs may ask for the cookie of the network namespace */
/* programs.c */
int programs_load(struct datapath *dp, const struct datapath_options *options, char *why, size_t why_len);
bool program_is_current(const struct datapath *dp, uint32_t prog_id, const struct bpf_program *prog);
int programs_load_turns(struct datapath *dp, char *why, size_t why_len);
int programs_build_id(struct datapath *dp); /* once both are loaded */
struct sluice_bpf *programs_open(const struct datapath *dp);
int programs_reuse_maps(const struct datapath *dp, struct bpf_object *obj);
/* True if the program uses the map. */
int program_uses_map(int prog_fd, uint32_t map_id, bool *ret_uses);
/* migrate.c */
void migrate_control(struct datapath *dp);
int migrate_carry(struct datapath *dp, char *why, size_t why_len);
void migrate_recover(struct datapath *dp); /* of a run that died: finishes its swap, or removes what it made */
int migrate_pin(struct datapath *dp, char *why, size_t why_len); /* under temporary names */
int migrate_swap(struct datapath *dp, char *why,
		 size_t why_len); /* programs, then names; undoes migrate_pin() if it fails */
void migrate_finish(struct datapath *dp);
int pin_all(struct datapath *dp, char *why, size_t why_len);
/* links.c */
bool is_link_pin(const char *name);
int links_swap(struct datapath *dp, char *why, size_t why_len); /* every pinned link to our programs, or none */
/* orders.c */
void ceilings_recover(struct datapath *dp);
/* attach.c */
int interface_pin_path(char *buf, size_t len, const char *pins, const char *ifname);

#endif /* SLUICE_DATAPATH_INTERNAL_H */
