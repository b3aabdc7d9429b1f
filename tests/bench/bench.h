/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * bench.h: what the parts of the bench share.
 *
 *   gen namespace             one namespace per subject
 *   [generator] --redirect--> near ==veth== far   XDP program, nftables or iptables rules; every frame dies here
 *
 * All far ends have the same addresses, so each subject gets the very same frames. A frame is made, redirected,
 * received and judged on one CPU, inside one loop of the kernel: its time over frames is the cost of the whole way,
 * and the difference to bare_drop (or bare_pass) of the same round is the cost of the subject.
 */
#ifndef SLUICE_BENCH_H
#define SLUICE_BENCH_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define BENCH_MAX_CPUS 2
#define BENCH_MAX_ROUNDS 64

struct json_t;
struct slc_counters;
struct slc_policy;
struct slc_signals;

/* Ports of the services under test: one per way through the pipeline. */
#define PORT_SOURCE 7001 /* refused by the bucket of the source */
#define PORT_TOTAL 7002 /* each source passes its own bucket, the service's refuses */
#define PORT_GATE 7003 /* every stage lets it through, with a real listener */
#define PORT_EXACT_SOURCE 7004 /* accuracy: one source at its rate */
#define PORT_EXACT_TOTAL 7005 /* accuracy: a service at its rate */
#define PORT_TURNS 7006 /* its turns are measured */
#define PORT_OTHER 7999 /* of no service */

#define SERVICE_ADDR "10.77.0.1" /* of every far end */
#define SERVICE_ADDR_HOST 0x0a4d0001u

/* --- topology.c ------------------------------------------------------------------------------------------------- */

enum subject {
	SUBJECT_DROP, /* XDP_DROP and nothing else */
	SUBJECT_TOUCH, /* XDP_DROP after one look at a random line of 8 MiB: the floor of any table of 1 M sources */
	SUBJECT_PASS, /* XDP_PASS, then dropped by the ingress hook */
	SUBJECT_SLUICE, /* passed frames: dropped by the same hook */
	SUBJECT_NFT, /* no XDP: dynamic set with `limit rate over` in raw prerouting */
	SUBJECT_NFT_INGRESS, /* the same set in the ingress hook: the best place nftables has */
	SUBJECT_IPTABLES, /* no XDP: hashlimit in raw PREROUTING */
	SUBJECT_COUNT
};

struct topology;
int topology_make(struct topology **ret);
void topology_destroy(struct topology **topology);
int topology_near(const struct topology *topology, enum subject subject); /* ifindex in the generator's namespace */
const char *topology_far(const struct topology *topology, enum subject subject); /* name inside its namespace */
int topology_far_index(const struct topology *topology, enum subject subject);
/* The calling thread moves; threads made later start where their maker is. */
int topology_enter(const struct topology *topology, enum subject subject);
int topology_enter_generator(const struct topology *topology);
/* Frames that reached the far end, modulo 2^32; lost before it: ring of the veth full. */
int topology_received(const struct topology *topology, enum subject subject, uint32_t *ret);
/* Frames that nftables or iptables refused for their rate, and those it let through to the last rule. */
int topology_peer_counters(const struct topology *topology, enum subject subject, uint64_t *limited, uint64_t *within);
int nft_counter(const char *family, const char *table, const char *name, uint64_t *ret); /* nftcount.c: packets */
int shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* --- load.c ------------------------------------------------------------------------------------------------------ */

struct load {
	int ifindex; /* near end */
	uint16_t dport;
	bool ack; /* ACK of an established connection instead of a SYN */
	uint32_t sources; /* 0: whole unicast space */
	bool sweep;
	unsigned frames; /* per CPU */
	unsigned cpus;
};

struct load_result {
	double ns; /* per frame and CPU, mean over CPUs */
	bool disturbed; /* somebody else had the CPU in the middle of it */
	uint64_t frames; /* that were redirected */
	double seconds; /* loader_pace(): from the first frame to the last */
	uint64_t ideal; /* loader_pace(): of the frames, such as an exact limiter would let through */
};

struct loader;
int loader_make(struct loader **ret);
void loader_destroy(struct loader **loader);
int loader_run(struct loader *loader, const struct load *load, struct load_result *ret);
/*
 * Sends frames at a steady rate from all CPUs together and calls `sample` about once a ms meanwhile. The load's
 * `frames` and the result's `ns` do not matter.
 */
struct pace {
	double rate, seconds;
	double limit_rate, limit_burst; /* of the limiter under test, for `ideal` */
};
int loader_pace(struct loader *loader, const struct load *load, const struct pace *pace, void (*sample)(void *arg),
		void *arg, struct load_result *ret);
/* Bare programs: descriptors for attaching; they live as long as the loader. */
int loader_bare_fd(const struct loader *loader, enum subject subject);
/* PROG_TEST_RUN of `prog_fd` behind the wrapper that varies the source: ns per run, and the last run's action. */
int loader_test_run(struct loader *loader, int prog_fd, const struct load *load, double *ret_ns, uint32_t *ret_action);

/* --- sluice.c: the program under test ------------------------------------------------------------------------------ */

struct sluice;
int sluice_make(struct sluice **ret, const struct topology *topology);
void sluice_destroy(struct sluice **sluice);
int sluice_prog_fd(const struct sluice *sluice);
const char *sluice_mode(const struct sluice *sluice); /* native or generic */
/* Counters of the service at `port`; port 0: of what belongs to no service. */
int sluice_counters(const struct sluice *sluice, uint16_t port, struct slc_counters *ret);
int sluice_policy(const struct sluice *sluice, uint16_t port, struct slc_policy *ret);
const struct slc_signals *sluice_signals(const struct sluice *sluice, uint16_t state); /* mapped, live */
int sluice_map(const struct sluice *sluice, const char *name); /* a descriptor of the pinned map, to be closed */
int sluice_sizes(const struct sluice *sluice, uint32_t *ret_xlated, uint32_t *ret_jited, uint32_t *ret_verified);

/* Limits of the accuracy services. */
#define EXACT_RATE 50000 /* per second */
#define EXACT_BURST 1000

/* --- turns.c: what the programs at cgroup_skb cost ------------------------------------------------------------------ */

enum turn_program { TURN_INGRESS, TURN_EGRESS, TURN_SOCKOPS, TURN_EMPTY_INGRESS, TURN_EMPTY_EGRESS, TURN_PROGRAMS };

struct turns;
int turns_make(struct turns **ret, const struct sluice *sluice);
void turns_destroy(struct turns **turns);
int turns_program(const struct turns *turns, enum turn_program program); /* a descriptor, of `turns` */
const struct slc_signals *turns_signals(const struct turns *turns); /* of the service at PORT_TURNS */

enum turn_packet {
	TURN_OTHER_IN,
	TURN_OTHER_OUT,
	TURN_ACK_IN,
	TURN_ACK_OUT,
	TURN_REQUEST,
	TURN_MORE,
	TURN_ANSWER,
	TURN_BULK,
	TURN_TLS_REQUEST,
	TURN_TLS_ANSWER,
	TURN_TLS_BULK,
	TURN_PACKETS
};

struct turn_packet_info {
	const char *name; /* in JSON */
	const char *label; /* in the table */
};
extern const struct turn_packet_info turn_packets[TURN_PACKETS];

/* Packets of a whole turn: plain, and over TLS. */
#define TURN_WHOLES 2
#define TURN_WHOLE_PACKETS 4
extern const enum turn_packet turn_wholes[TURN_WHOLES][TURN_WHOLE_PACKETS];

/* --- measure.c: rounds -------------------------------------------------------------------------------------------- */

enum scenario {
	BARE_DROP,
	BARE_TOUCH,
	BARE_PASS,
	REFUSED_SOURCE,
	REFUSED_TOTAL,
	ESTABLISHED,
	ADMITTED,
	NFT,
	NFT_INGRESS,
	IPTABLES,
	SCENARIO_COUNT
};

struct scenario_info {
	const char *name; /* in JSON */
	const char *label; /* in the table */
	enum subject subject;
	enum scenario base; /* what its cost is over */
	uint16_t dport;
	bool ack;
};
extern const struct scenario_info scenarios[SCENARIO_COUNT];

#define SPREADS 5
struct spread_info {
	uint32_t sources; /* 0: whole unicast space */
	const char *label;
	const char *name;
};
extern const struct spread_info spreads[SPREADS];

struct cell {
	unsigned rounds;
	double ns[BENCH_MAX_ROUNDS];
	double over[BENCH_MAX_ROUNDS]; /* minus the base of the same round */
	uint64_t sent, received;
	double limited; /* part of the frames that met the verdict the scenario is named after; < 0: not asked */
};

struct run_cell { /* PROG_TEST_RUN */
	unsigned rounds;
	double ns[BENCH_MAX_ROUNDS];
	double over[BENCH_MAX_ROUNDS];
};

struct accuracy {
	const char *limit; /* source or total */
	unsigned cpus;
	double factor; /* offered over the limit */
	double seconds;
	uint64_t offered, admitted;
	double allowed; /* rate x t + burst over the whole run */
	uint64_t ideal; /* an exact limiter would have admitted of the frames as they were sent */
	double worst; /* largest excess over rate x t + burst in any interval between two readings, in admissions */
};

/*
 * Requests and answers over loopback, with our programs attached, with empty ones, and without. CPU time is of the whole
 * way of a packet; the kernel's clock around each program (BPF_STATS_RUN_TIME) tells the directions apart.
 */
enum live_sockets { LIVE_SERVICE, LIVE_OTHER, LIVE_UDP, LIVE_SOCKETS };

struct turns_live {
	unsigned connections; /* visited in turn */
	bool acks; /* request and answer are acknowledged by segments of their own */
	unsigned rounds;
	double segments; /* of an exchange */
	double way[BENCH_MAX_ROUNDS]; /* a segment of no service from end to end, without programs */
	double hook[BENCH_MAX_ROUNDS]; /* what an empty program adds to each of its two ends */
	double service[BENCH_MAX_ROUNDS]; /* what ours adds to that, per packet of the service's socket */
	double other[BENCH_MAX_ROUNDS]; /* per packet of a TCP socket of no service */
	double udp[BENCH_MAX_ROUNDS]; /* per packet of a UDP socket of no service */
	double timed_service[2]
			    [BENCH_MAX_ROUNDS]; /* the program at [egress] over the empty one, by the kernel's clock */
	double timed_other[2][BENCH_MAX_ROUNDS];
};
#define TURNS_LIVE_ROWS 3

#define ACCURACY_ROWS 8
struct results {
	bool quick, has_sluice;
	unsigned cpus; /* there are, at most 2 */
	unsigned live_cpus; /* 1 or 2: live frames from one, and from both */
	unsigned rounds; /* at most */
	struct cell cells[BENCH_MAX_CPUS][SPREADS][SCENARIO_COUNT];
	struct run_cell runs[SPREADS][SCENARIO_COUNT];
	struct accuracy accuracy[ACCURACY_ROWS];
	unsigned accuracy_count;
	struct run_cell turns[TURN_PACKETS];
	struct turns_live turns_live[TURNS_LIVE_ROWS];
	unsigned foreign; /* programs of others that are attached above the bench's cgroup: they see the packets too */
	uint32_t xlated, jited, verified;
	const char *mode;
	unsigned slices, disturbed; /* measured, and of these with somebody else on the CPU */
	double seconds; /* the whole bench */
};

struct bench {
	struct topology *topology;
	struct loader *loader;
	struct sluice *sluice; /* NULL: without */
	struct turns *turns; /* NULL: without */
	struct results *results;
	bool verbose;
	double deadline; /* CLOCK_MONOTONIC seconds: no further round after it, but the first three */
};

extern volatile int bench_stopped; /* a signal came: clean up and go */
double seconds_now(void);
#define BENCH_MIN_ROUNDS 3

int measure_live(struct bench *bench);
/* One scenario from `sources` again and again for `seconds`, for a profiler to look at; prints ns. */
int measure_loop(struct bench *bench, const char *scenario, uint32_t sources, double seconds, bool live);
int measure_runs(struct bench *bench);
int measure_accuracy(struct bench *bench);
int measure_turns(struct bench *bench);
int measure_turns_loop(struct bench *bench, const char *packet, double seconds);
int measure_turns_live(struct bench *bench); /* turns_live.c */
int measure_turns_live_loop(struct bench *bench, double seconds);
int turns_introduce(struct bench *bench); /* its first connection makes a service's signals its own */

/* --- report.c, goals.c ------------------------------------------------------------------------------------------- */

double median(const double *values, unsigned count);
double quantile(const double *values, unsigned count, double q); /* by the nearest value */
void report_text(const struct results *results, FILE *out);
int report_json(const struct results *results, const char *path);
/* PASS or MISS for each goal; returns how many missed. */
int report_goals(const struct results *results, FILE *out);
struct json_t *goals_json(const struct results *results);
/* turns_report.c. Means over the packets of a whole turn, and the dearest of them. */
double turn_mean(const struct results *results, int whole);
double turn_dearest(const struct results *results, int whole, const char **ret_label);
void report_turns(const struct results *results, FILE *out);
struct json_t *turns_json(const struct results *results);

#endif /* SLUICE_BENCH_H */
