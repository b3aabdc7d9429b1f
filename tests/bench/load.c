// SPDX-License-Identifier: GPL-2.0-only
/* load.c: frames through BPF_PROG_TEST_RUN, live (redirected into a veth) or not. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/bench/gen.h"
#include "bench/gen.skel.h"

#define BATCH 250

struct frame {
	struct ethhdr eth;
	struct iphdr ip;
	struct tcphdr tcp;
	uint8_t options[20]; /* what a Linux client sends */
} __attribute__((packed));

struct loader {
	struct gen_bpf *skel;
	unsigned cpus; /* online */
	int possible;
};

static const uint8_t syn_options[20] = {
	2, 4,  5, 180, /* MSS 1460 */
	4, 2, /* SACK permitted */
	8, 10, 1, 2,   3, 4, 0, 0, 0, 0, /* timestamps */
	1, 3,  3, 7, /* window scale 7 */
};

static const uint8_t ack_options[20] = {
	1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, /* timestamps */
	1, 1, 1, 1,  1, 1, 1, 1,
};

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void make_frame(struct frame *frame, uint16_t dport, bool ack)
{
	memset(frame, 0, sizeof(*frame));
	memcpy(frame->eth.h_source, "\x02\0\0\0\1\1", 6);
	memcpy(frame->eth.h_dest, "\x02\0\0\0\1\2", 6);
	frame->eth.h_proto = htons(ETH_P_IP);
	frame->ip.version = 4;
	frame->ip.ihl = 5;
	frame->ip.tot_len = htons(sizeof(*frame) - sizeof(frame->eth));
	frame->ip.frag_off = htons(IP_DF);
	frame->ip.ttl = 57;
	frame->ip.protocol = IPPROTO_TCP;
	frame->ip.daddr = htonl(SERVICE_ADDR_HOST);
	frame->tcp.dest = htons(dport);
	frame->tcp.doff = (sizeof(frame->tcp) + sizeof(frame->options)) / 4;
	frame->tcp.syn = !ack;
	frame->tcp.ack = ack;
	frame->tcp.ack_seq = ack ? htonl(0x1234567) : 0;
	frame->tcp.window = htons(64240);
	memcpy(frame->options, ack ? ack_options : syn_options, sizeof(frame->options));
}

/* As the program adds them: 16-bit words as they stand in memory. */
static uint32_t header_sum(const void *ip)
{
	uint16_t words[sizeof(struct iphdr) / 2];
	uint32_t sum = 0;

	memcpy(words, ip, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		sum += words[i];
	return sum;
}

static void configure(struct loader *loader, const struct load *load, struct frame *frame)
{
	make_frame(frame, load->dport, load->ack);
	loader->skel->bss->config = (struct gen_config){
		.ifindex = (uint32_t)load->ifindex,
		.sources = load->sources,
		.sweep = load->sweep,
		.ip_sum = header_sum((const char *)frame + offsetof(struct frame, ip)),
	};
}

int loader_make(struct loader **ret)
{
	struct loader *loader = calloc(1, sizeof(*loader));

	if (!loader)
		return -ENOMEM;
	loader->skel = gen_bpf__open_and_load();
	if (!loader->skel) {
		int r = -errno;

		free(loader);
		return r ?: -EINVAL;
	}
	loader->cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	loader->possible = libbpf_num_possible_cpus();
	*ret = loader;
	return 0;
}

void loader_destroy(struct loader **loader)
{
	if (*loader)
		gen_bpf__destroy((*loader)->skel);
	free(*loader);
	*loader = NULL;
}

int loader_bare_fd(const struct loader *loader, enum subject subject)
{
	switch (subject) {
	case SUBJECT_DROP:
		return bpf_program__fd(loader->skel->progs.bare_drop);
	case SUBJECT_TOUCH:
		return bpf_program__fd(loader->skel->progs.bare_touch);
	case SUBJECT_PASS:
		return bpf_program__fd(loader->skel->progs.bare_pass);
	default:
		return -EINVAL;
	}
}

struct worker {
	pthread_t thread;
	pthread_barrier_t *start;
	const struct frame *frame;
	int prog_fd;
	unsigned cpu, frames;
	uint32_t ns; /* per frame, as the kernel's loop measures it: set-up and other tasks' turns not counted */
	uint64_t busy; /* CPU time of the whole call */
	int r;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	struct xdp_md ctx = {.data_end = sizeof(*w->frame)};
	cpu_set_t cpus;
	uint64_t busy;
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = w->frame, .data_size_in = sizeof(*w->frame), .ctx_in = &ctx,
		    .ctx_size_in = sizeof(ctx), .repeat = (int)w->frames, .flags = BPF_F_TEST_XDP_LIVE_FRAMES,
		    .batch_size = BATCH);

	CPU_ZERO(&cpus);
	CPU_SET(w->cpu, &cpus);
	w->r = -pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
	pthread_barrier_wait(w->start);
	if (w->r)
		return NULL;
	busy = now_ns(CLOCK_THREAD_CPUTIME_ID);
	w->r = bpf_prog_test_run_opts(w->prog_fd, &opts);
	w->busy = now_ns(CLOCK_THREAD_CPUTIME_ID) - busy;
	w->ns = opts.duration;
	return NULL;
}

/* One CPU: the last one, which has fewer interrupts. */
static void start_workers(struct loader *loader, const struct load *load, const struct frame *frame,
			  pthread_barrier_t *start, struct worker *workers)
{
	pthread_barrier_init(start, NULL, load->cpus);
	for (unsigned i = 0; i < load->cpus; i++) {
		int r;

		workers[i] = (struct worker){
			.start = start,
			.frame = frame,
			.prog_fd = bpf_program__fd(loader->skel->progs.gen),
			.cpu = load->cpus == 1 ? loader->cpus - 1 : i,
			.frames = load->frames,
		};
		r = pthread_create(&workers[i].thread, NULL, work, &workers[i]);
		if (r) { /* the others wait at the barrier: nothing sensible is left */
			fprintf(stderr, "bench: no thread: %s\n", strerror(r));
			exit(1);
		}
	}
}

int loader_run(struct loader *loader, const struct load *load, struct load_result *ret)
{
	struct worker workers[BENCH_MAX_CPUS] = {};
	struct load_result result = {.frames = (uint64_t)load->frames * load->cpus};
	pthread_barrier_t start;
	struct frame frame;
	int r = 0;

	configure(loader, load, &frame);
	start_workers(loader, load, &frame, &start, workers);
	for (unsigned i = 0; i < load->cpus; i++) {
		struct worker *w = &workers[i];

		pthread_join(w->thread, NULL);
		r = r ?: w->r;
		result.ns += (double)w->ns / load->cpus;
		/* Less CPU time than the loop took: another task or the hypervisor was in the middle of it. */
		result.disturbed |= (uint64_t)w->ns * w->frames > w->busy;
	}
	pthread_barrier_destroy(&start);
	if (!r)
		*ret = result;
	return r;
}

/* --- paced -------------------------------------------------------------------------------------------------------- */

/* The counters go on, so that no flow comes twice; the clock starts anew. */
static int read_states(const struct loader *loader, struct gen_state *states)
{
	uint32_t zero = 0;

	return bpf_map_lookup_elem(bpf_map__fd(loader->skel->maps.state), &zero, states);
}

static int reset_clocks(const struct loader *loader, struct gen_state *states)
{
	uint32_t zero = 0;
	int r = read_states(loader, states);

	for (int i = 0; i < loader->possible; i++)
		states[i].due_ns = states[i].first_ns = states[i].last_ns = states[i].ideal = 0;
	return r ?: bpf_map_update_elem(bpf_map__fd(loader->skel->maps.state), &zero, states, BPF_ANY);
}

static void paced_result(const struct loader *loader, const struct gen_state *before, const struct gen_state *after,
			 struct load_result *ret)
{
	uint64_t first = UINT64_MAX, last = 0;

	*ret = (struct load_result){};
	for (int i = 0; i < loader->possible; i++) {
		if (!after[i].first_ns)
			continue;
		ret->frames += after[i].counter - before[i].counter;
		first = after[i].first_ns < first ? after[i].first_ns : first;
		last = after[i].last_ns > last ? after[i].last_ns : last;
		ret->ideal += after[i].ideal;
	}
	ret->seconds = last > first ? (double)(last - first) / 1e9 : 0;
}

static void ignore(int number)
{
	(void)number;
}

/* The kernel's loop ends at a signal: the frames' number says nothing about when it would end by itself. */
static int stop_workers(struct worker *workers, unsigned count)
{
	int r = 0;

	for (unsigned i = 0; i < count; i++) {
		struct timespec soon = {.tv_nsec = 10000000};

		do
			pthread_kill(workers[i].thread, SIGUSR1);
		while (nanosleep(&soon, NULL) || pthread_tryjoin_np(workers[i].thread, NULL));
		r = r ?: workers[i].r == -EINTR ? 0 : workers[i].r;
	}
	return r;
}

int loader_pace(struct loader *loader, const struct load *load, const struct pace *pace, void (*sample)(void *arg),
		void *arg, struct load_result *ret)
{
	struct gen_state before[loader->possible], after[loader->possible];
	const struct sigaction on_stop = {.sa_handler = ignore};
	struct worker workers[BENCH_MAX_CPUS] = {};
	struct load endless = *load;
	pthread_barrier_t start;
	struct frame frame;
	uint64_t until;
	int r = reset_clocks(loader, before);

	if (r)
		return r;
	sigaction(SIGUSR1, &on_stop, NULL);
	configure(loader, load, &frame);
	until = now_ns(CLOCK_MONOTONIC) + (uint64_t)(pace->seconds * 1e9);
	loader->skel->bss->config.pace_ns = (uint64_t)(1e9 * load->cpus / pace->rate);
	loader->skel->bss->config.interval_ns = (uint64_t)(1e9 / pace->limit_rate);
	loader->skel->bss->config.depth_ns = (uint64_t)(1e9 * pace->limit_burst / pace->limit_rate);
	loader->skel->bss->ideal_tat = 0;
	loader->skel->bss->config.until_ns = until;
	endless.frames = INT32_MAX;
	start_workers(loader, &endless, &frame, &start, workers);
	while (now_ns(CLOCK_MONOTONIC) < until) {
		struct timespec ms = {.tv_nsec = 1000000};

		sample(arg);
		nanosleep(&ms, NULL);
	}
	r = stop_workers(workers, load->cpus);
	sample(arg);
	pthread_barrier_destroy(&start);
	r = r ?: read_states(loader, after);
	if (!r)
		paced_result(loader, before, after, ret);
	return r;
}

/* --- without frames ----------------------------------------------------------------------------------------------- */

int loader_test_run(struct loader *loader, int prog_fd, const struct load *load, double *ret_ns, uint32_t *ret_action)
{
	struct frame frame;
	uint32_t zero = 0;
	int r;
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = &frame, .data_size_in = sizeof(frame),
		    .repeat = (int)load->frames);

	configure(loader, load, &frame);
	r = bpf_map_update_elem(bpf_map__fd(loader->skel->maps.under_test), &zero, &prog_fd, BPF_ANY);
	if (!r)
		r = bpf_prog_test_run_opts(bpf_program__fd(loader->skel->progs.wrap), &opts);
	if (r)
		return r;
	*ret_ns = opts.duration;
	*ret_action = opts.retval;
	return 0;
}
