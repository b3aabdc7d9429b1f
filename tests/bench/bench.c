// SPDX-License-Identifier: GPL-2.0-only
/* bench.c: ns per packet of the packet path beside what people use today. See README.md. */
#include <bpf/libbpf.h>
#include <errno.h>
#include <getopt.h>
#include <linux/if_link.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/bench.h"

static const char usage[] = "usage: bench [--quick] [--only-peers] [--rounds N] [--json FILE] [--strict] [--verbose]\n"
			    "  --quick       fewer rounds, at most 60 s\n"
			    "  --only-peers  without sluice: bare programs, nftables, iptables\n"
			    "  --rounds N    1 to 64 rounds (default 21; quick 7)\n"
			    "  --json FILE   where the figures go (default build/bench.json)\n"
			    "  --strict      exit 1 if a goal is missed\n";

volatile int bench_stopped;

static void on_signal(int number)
{
	bench_stopped = number;
}

double seconds_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int attach_bare(struct bench *bench, enum subject subject)
{
	int r = topology_enter(bench->topology, subject);

	r = r
		    ?: bpf_xdp_attach(topology_far_index(bench->topology, subject),
				      loader_bare_fd(bench->loader, subject), XDP_FLAGS_DRV_MODE, NULL);
	return topology_enter_generator(bench->topology) ?: r;
}

static int set_up(struct bench *bench, bool only_peers)
{
	int r = topology_make(&bench->topology);

	r = r ?: topology_enter_generator(bench->topology);
	r = r ?: loader_make(&bench->loader);
	r = r ?: attach_bare(bench, SUBJECT_DROP);
	r = r ?: attach_bare(bench, SUBJECT_TOUCH);
	r = r ?: attach_bare(bench, SUBJECT_PASS);
	if (r) {
		fprintf(stderr, "bench: cannot set up the namespaces: %s\n", strerror(-r));
		return r;
	}
	if (only_peers)
		return 0;
	r = sluice_make(&bench->sluice, bench->topology);
	if (r)
		return r;
	bench->results->has_sluice = true;
	bench->results->mode = sluice_mode(bench->sluice);
	r = turns_make(&bench->turns, bench->sluice);
	if (r)
		return r;
	return sluice_sizes(bench->sluice, &bench->results->xlated, &bench->results->jited, &bench->results->verified);
}

static void tear_down(struct bench *bench)
{
	turns_destroy(&bench->turns);
	sluice_destroy(&bench->sluice);
	loader_destroy(&bench->loader);
	topology_destroy(&bench->topology);
}

/* SCENARIO[:SOURCES[:alone]], or turn:PACKET, or turn:live */
static int loop(struct bench *bench, const char *text)
{
	char name[32] = "", mode[8] = "";
	unsigned sources = 1;

	if (sscanf(text, "%31[^:]:%u:%7s", name, &sources, mode) < 1)
		return -EINVAL;
	if (!strcmp(name, "turn"))
		return measure_turns_loop(bench, strchr(text, ':') ? strchr(text, ':') + 1 : "", 3);
	return measure_loop(bench, name, sources, 3, strcmp(mode, "alone") != 0);
}

static int pin_to_last_cpu(void)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET((size_t)sysconf(_SC_NPROCESSORS_ONLN) - 1, &cpus);
	return sched_setaffinity(0, sizeof(cpus), &cpus) ? -errno : 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"quick", no_argument, NULL, 'q'},        {"only-peers", no_argument, NULL, 'p'},
		{"parts", required_argument, NULL, 'P'},  {"loop", required_argument, NULL, 'l'},
		{"rounds", required_argument, NULL, 'r'}, {"json", required_argument, NULL, 'j'},
		{"strict", no_argument, NULL, 's'},       {"verbose", no_argument, NULL, 'v'},
		{"help", no_argument, NULL, 'h'},         {},
	};
	static struct results results;
	struct bench bench = {.results = &results};
	const char *json = "build/bench.json", *parts = "live,run,turns,accuracy", *looped = NULL;
	bool only_peers = false, strict = false;
	int option, r, missed = 0;
	double start = seconds_now();

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'q':
			results.quick = true;
			break;
		case 'p':
			only_peers = true;
			break;
		case 'r':
			results.rounds = (unsigned)atoi(optarg);
			if (results.rounds < 1 || results.rounds > BENCH_MAX_ROUNDS) {
				fprintf(stderr, "bench: --rounds %s: 1 to %d are accepted\n", optarg, BENCH_MAX_ROUNDS);
				return 2;
			}
			break;
		case 'P':
			parts = optarg;
			break;
		case 'l':
			looped = optarg;
			break;
		case 'j':
			json = optarg;
			break;
		case 's':
			strict = true;
			break;
		case 'v':
			bench.verbose = true;
			break;
		default:
			fputs(usage, option == 'h' ? stdout : stderr);
			return option == 'h' ? 0 : 2;
		}
	}
	if (!results.rounds)
		results.rounds = results.quick ? 7 : 21;
	results.cpus = sysconf(_SC_NPROCESSORS_ONLN) >= 2 ? 2 : 1;
	results.live_cpus = results.quick ? 1 : results.cpus;
	bench.deadline = start + (results.quick ? 12 : 200);
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	r = set_up(&bench, only_peers);
	r = r ?: pin_to_last_cpu();
	if (looped) {
		r = r ?: loop(&bench, looped);
		tear_down(&bench);
		return r ? 1 : 0;
	}
	if (!r && strstr(parts, "live"))
		r = measure_live(&bench);
	if (!r && strstr(parts, "run"))
		r = measure_runs(&bench);
	if (!r && bench.turns && strstr(parts, "turns"))
		r = measure_turns(&bench) ?: measure_turns_live(&bench);
	if (!r && bench.sluice && strstr(parts, "accuracy"))
		r = measure_accuracy(&bench);
	tear_down(&bench);
	if (r)
		return 1;
	results.seconds = seconds_now() - start;
	report_text(&results, stdout);
	missed = report_goals(&results, stdout);
	r = report_json(&results, json);
	if (r)
		fprintf(stderr, "bench: cannot write %s: %s\n", json, strerror(-r));
	return r || (strict && missed) ? 1 : 0;
}
