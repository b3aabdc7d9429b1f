/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * daemon.h: the state of sluiced. The event loop (tick, netlink, signals) and the HTTP threads share it under one
 * lock; whoever holds it does work that is short against the lease. Nothing here is the truth about limits: that is
 * in the maps, and outlives the daemon.
 */
#ifndef SLUICE_DAEMON_H
#define SLUICE_DAEMON_H

#include <pthread.h>
#include <stdbool.h>
#include <uv.h>

#include "user/control/config.h"
#include "user/control/event_log.h"
#include "user/control/host_cpu.h"
#include "user/control/journal.h"
#include "user/control/netns.h"
#include "user/control/signals.h"
#include "user/control/sockdiag.h"
#include "user/control/unread.h"
#include "user/datapath/datapath.h"
#include "user/decide/authority.h"
#include "user/decide/baseline.h"
#include "user/decide/breaker.h"
#include "user/decide/completion.h"
#include "user/decide/health.h"
#include "user/decide/known.h"
#include "user/decide/pressure.h"
#include "user/decide/quantile.h"
#include "user/decide/rest.h"

#define SLUICE_VERSION "0.1.0"

/* A listener that some service's connections reach. Kept from tick to tick by its cookie. */
struct listener {
	struct diag_socket socket;
	size_t ns; /* in daemon.netns */
	bool ring; /* has an arrival ring */
	bool adopted; /* was there before the ring; its ring was made from outside */
	uint64_t head_age_ns; /* with `ring` */
	uint64_t ring_since_ns; /* daemon's view: when a ring was first seen */
	uint64_t missing_since_ns; /* no ring since; 0 with one */
	int pid; /* 0: not looked up */
	uint32_t drops; /* since the look before */
	char blind[160]; /* why its head age is not known */
};

enum health_window { HEALTH_60s, HEALTH_5m, HEALTH_WINDOW_COUNT };

/* The accept queues of one service at the last tick. */
struct queue_view {
	size_t listeners;
	uint32_t sharers; /* listeners of one address that share its SYNs: of the smallest such group, at least 1 */
	uint32_t length, limit; /* of the fullest listener */
	bool has_head_age;
	uint64_t head_age_ns; /* oldest of all */
	char blind[160]; /* empty: everything is seen */
};

struct service {
	struct slc_policy policy; /* as the kernel has it */
	const struct service_config *config; /* in daemon.config */
	struct slc_service_key *keys;
	size_t key_count;
	size_t ns; /* in daemon.netns; NO_NETNS while it is not there */
	size_t *listeners; /* in daemon.listeners */
	struct queue_view queue;
	struct completion completion;
	struct handshakes handshakes[SLC_CLASS_COUNT];
	uint64_t handshakes_seen[SLC_CLASS_COUNT]; /* established when last taken */
	struct slc_decision_half decision; /* last one pushed */
	uint64_t before_start; /* connections that sockops does not know */
	uint64_t before_start_ns; /* when counted */
	struct unread unread; /* where turns are not seen */
	bool before_start_over; /* none left: there will be no more */

	struct slc_counters counters; /* at the last tick */
	struct signals signals;
	struct rest rest;
	bool resting; /* in this tick it is not looked at, and what was decided stays */
	struct breaker breaker;
	bool has_breaker; /* the two above are made */
	bool listening; /* at the last look */
	bool was_listening; /* ever */
	uint32_t drops; /* of its listeners, not taken by signals yet */
	bool has_p95; /* of the answers of the last 10 s, at the last tick */
	uint64_t p95_ns;
	struct sample sample; /* of this tick */
	struct authority_view authority;
	struct pressure pressure;
	struct baseline baseline;
	struct baseline_watch watch;
	uint64_t refusals; /* that show that not all is well, at the last tick */
	struct health health[HEALTH_WINDOW_COUNT];
	bool held; /* a service that it depends on is ill: no probes yet */
	size_t held_by; /* in daemon.services, with `held` */
	bool unsaved; /* its breaker has moved since the journal was written */
	struct {
		uint64_t since_ns;
		unsigned int count;
	} lines; /* in the log about its breaker */
};
#define NO_NETNS ((size_t)-1)

struct interface {
	struct interface_config config;
	struct attach_state state;
	int ifindex; /* where our program is, even if the name has gone */
	int carrier; /* -1 unknown */
	uint64_t checked_ns, retry_ns;
	unsigned int failures;
	bool attached;
	char why[WHY_LEN];
};

struct tick_stats {
	uint64_t count, sum_ns, last_ns, max_ns, discarded, lapses;
	uint64_t began_ns; /* of the last one */
};

struct overrides {
	struct override **items; /* by id */
	size_t count;
};

struct api;
struct watch;

struct daemon {
	pthread_mutex_t lock;
	pthread_mutex_t reload_lock; /* one reload at a time; taken before `lock` */
	char config_path[4096];
	char pins[256], socket[108];
	struct config *config;
	struct datapath *dp;
	struct journal *journal;
	bool journal_reset;

	struct service **services;
	size_t service_count;
	struct netns *netns;
	size_t netns_count;
	uint64_t netns_checked_ns;
	uint64_t own_hash; /* of the addresses that the snapshot calls our own */
	bool addresses_dirty;
	bool links_dirty; /* the snapshot names interfaces by index, and one has come or gone */
	struct listener *listeners;
	size_t listener_count;
	bool listeners_blind; /* the last dump failed */
	uint64_t rings_ns; /* when all rings were listed */
	bool adopting;
	uint64_t adopt_ns;
	size_t unread_cursor; /* service whose turn it is to be looked at */
	struct interface *interfaces;
	size_t interface_count;
	bool interfaces_dirty;
	uint64_t interfaces_ns;
	int rtnl_fd, events_fd;

	struct overrides overrides;
	struct known_set known;
	size_t known_cursor, cold_cursor;
	uint64_t known_crowded;
	struct journal_known *known_changes;
	size_t known_change_count, known_change_capacity;
	uint64_t known_written_ns;
	bool known_writing;

	struct event_log *event_log;
	struct tick_stats tick;
	uint64_t health_ns; /* when it was judged last */
	uint64_t breakers_saved_ns;
	bool breakers_saving;
	bool breakers_stray; /* the journal may have rows of services that are no more */
	struct host_cpu cpu;
	uint64_t salt_ns;
	uint64_t started_ns;

	bool reload_success;
	char reload_error[2048];
	int64_t loaded_wall_ms;
	bool sockops;
	char sockops_why[WHY_LEN];

	uv_loop_t loop;
	uv_timer_t timer;
	uv_signal_t hup, term, interrupt;
	uv_poll_t rtnl_poll, events_poll;
	uv_async_t stop;
	struct watch *watch;
	struct api *api;
	bool api_was_up; /* the start succeeded */
	bool detached; /* by the API: nothing is left to serve */
	bool stopping;
};

struct daemon_options {
	const char *config, *pins, *socket; /* pins and socket: NULL for the config's */
	bool watch;
};

/* Runs until a signal or `detach` ends it. 0, or the exit status for a failed start. */
int daemon_run(const struct daemon_options *options);
/* From any thread: ends the loop. */
void daemon_stop(struct daemon *d);

/* Without locks: takes everything of ours off the host. The loop goes on until daemon_stop(). */
int daemon_detach(struct daemon *d, char *why, size_t why_len);
/* Whether a configuration that was read also compiles. */
int daemon_check(const struct config *config, struct diag *diag);

/* By name; NULL. With the lock held. */
struct service *daemon_service(struct daemon *d, const char *name);
const struct service *daemon_service_by_uid(const struct daemon *d, uint32_t uid);
bool daemon_lapsed(const struct daemon *d, uint64_t now_ns);

#endif /* SLUICE_DAEMON_H */
