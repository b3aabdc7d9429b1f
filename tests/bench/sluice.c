// SPDX-License-Identifier: GPL-2.0-only
/*
 * sluice.c: the packet path as an operator would have it: a configuration, compiled, applied, and attached by the
 * datapath in the namespace of its service. Only the daemon is not there: its lease is renewed once, for good, and its
 * decision for the gate says that no handshake completes, or the flood itself would fill the prediction.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "user/control/compile.h"
#include "user/control/config.h"
#include "user/datapath/datapath.h"

#define PINS "/sys/fs/bpf/slcbench"

/*
 * Every service gets its own range of the source table: sized so that the range of each holds 1 M sources, as that of
 * a gateway with one service and the default table does.
 */
static const char configuration[] =
	"interfaces: [{name: far, mode: native}]\n"
	"control: {pins: " PINS "}\n"
	"tables: {sources: 8388608, events: 1000/s}\n"
	"classes: {stranger: {depth: 100%%}}\n"
	"services:\n"
	"  - {name: source, listen: [\"" SERVICE_ADDR ":%u\"],\n"
	"     source: {rate: 1/m, burst: 1}, total: {rate: 1/m, burst: 1}}\n"
	"  - {name: total, listen: [\"" SERVICE_ADDR ":%u\"],\n"
	"     source: {rate: 100000000/s, burst: 1000000}, total: {rate: 1/m, burst: 1}}\n"
	"  - {name: gate, listen: [\"" SERVICE_ADDR ":%u\"],\n"
	"     source: {rate: 100000000/s, burst: 1000000}, total: {rate: 100000000/s, burst: 1000000},\n"
	"     accept_queue: {low: 50%%, high: 90%%, max_wait: 250ms}}\n"
	"  - {name: exact-source, listen: [\"" SERVICE_ADDR ":%u\"],\n"
	"     source: {rate: %u/s, burst: %u}}\n"
	"  - {name: exact-total, listen: [\"" SERVICE_ADDR ":%u\"],\n"
	"     source: {rate: 100000000/s, burst: 1000000}, total: {rate: %u/s, burst: %u}}\n"
	"  - {name: turns, listen: [\"" SERVICE_ADDR ":%u\"],\n"
	"     source: {rate: 100000000/s, burst: 1000000}}\n";

static const struct {
	uint16_t port;
	const char *name;
} services[] = {
	{PORT_SOURCE, "source"},
	{PORT_TOTAL, "total"},
	{PORT_GATE, "gate"},
	{PORT_EXACT_SOURCE, "exact-source"},
	{PORT_EXACT_TOTAL, "exact-total"},
	{PORT_TURNS, "turns"},
};

struct sluice {
	struct datapath *dp;
	struct attach_state attached;
	int prog_fd, listener;
};

static void complain(const char *what, int error, const char *why)
{
	fprintf(stderr, "bench: %s: %s%s%s\n", what, strerror(-error), *why ? ": " : "", why);
}

static int compile(struct snapshot **ret)
{
	char text[2048];
	struct config *config = NULL;
	struct diag diag = {};
	int r;

	snprintf(text, sizeof(text), configuration, PORT_SOURCE, PORT_TOTAL, PORT_GATE, PORT_EXACT_SOURCE, EXACT_RATE,
		 EXACT_BURST, PORT_EXACT_TOTAL, EXACT_RATE, EXACT_BURST, PORT_TURNS);
	r = config_parse("bench.yaml", text, strlen(text), &config, &diag);
	r = r ?: compile_snapshot(config, ret, &diag);
	for (size_t i = 0; i < diag.error_count; i++)
		fprintf(stderr, "bench: %s\n", diag.errors[i]);
	diag_reset(&diag);
	config_free(&config);
	return r;
}

static int apply(struct sluice *s)
{
	struct snapshot *snapshot = NULL;
	char why[WHY_LEN] = "";
	bool changed;
	int r = compile(&snapshot);

	if (r)
		return r;
	r = datapath_apply(s->dp, snapshot, &changed, why, sizeof(why));
	snapshot_free(&snapshot);
	if (r)
		complain("apply", r, why);
	return r;
}

int sluice_policy(const struct sluice *sluice, uint16_t port, struct slc_policy *ret)
{
	for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++)
		if (services[i].port == port)
			return datapath_service_find(sluice->dp, services[i].name, ret);
	return -ENOENT;
}

const struct slc_signals *sluice_signals(const struct sluice *sluice, uint16_t state)
{
	return datapath_signals(sluice->dp, state);
}

int sluice_map(const struct sluice *sluice, const char *name)
{
	char path[128];
	int fd;

	(void)sluice;
	snprintf(path, sizeof(path), PINS "/%s", name);
	fd = bpf_obj_get(path);
	return fd < 0 ? -errno : fd;
}

static int decide(struct sluice *s)
{
	struct slc_decision_half half = {
		.valid_until_ns = SLC_FOREVER,
		.slice_shift = 24,
		.slices = 12,
		.listeners = 1,
	};
	struct slc_policy policy;
	int r = datapath_renew_lease(s->dp, SLC_FOREVER);

	for (size_t i = 0; !r && i < sizeof(services) / sizeof(services[0]); i++) {
		r = sluice_policy(s, services[i].port, &policy);
		r = r ?: datapath_push_decision(s->dp, policy.state, &half, 0);
	}
	return r;
}

/* A real listener for the gate to find; nothing ever reaches it. */
static int listen_at(uint16_t port, int *ret_fd)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(SERVICE_ADDR_HOST),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 1024)) {
		int r = -errno;

		close(fd);
		return r;
	}
	*ret_fd = fd;
	return 0;
}

static int start(struct sluice *s, const struct topology *topology)
{
	const struct datapath_options options = {.pins = PINS, .sources = 8388608, .flows = 65536};
	char why[WHY_LEN] = "";
	int r;

	datapath_detach_all(PINS, why, sizeof(why)); /* of a run that was killed */
	*why = '\0';
	r = datapath_open(&s->dp, &options, why, sizeof(why));
	if (r) {
		complain("load", r, why);
		return r;
	}
	if (datapath_modes(s->dp)->no_btf)
		fprintf(stderr, "bench: gate is off: %s\n", datapath_modes(s->dp)->no_btf_why);
	r = apply(s) ?: decide(s);
	if (r)
		return r;
	r = datapath_attach(s->dp, topology_far(topology, SUBJECT_SLUICE), 0, &s->attached);
	if (r) {
		complain("attach", r, s->attached.why);
		return r;
	}
	s->prog_fd = bpf_prog_get_fd_by_id(s->attached.program_id);
	if (s->prog_fd < 0)
		return s->prog_fd;
	r = listen_at(PORT_GATE, &s->listener);
	if (r)
		complain("listen", r, "");
	return r;
}

int sluice_make(struct sluice **ret, const struct topology *topology)
{
	struct sluice *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->prog_fd = s->listener = -1;
	r = topology_enter(topology, SUBJECT_SLUICE);
	r = r ?: start(s, topology);
	r = topology_enter_generator(topology) ?: r;
	if (r) {
		sluice_destroy(&s);
		return r;
	}
	*ret = s;
	return 0;
}

void sluice_destroy(struct sluice **sluice)
{
	struct sluice *s = *sluice;
	char why[WHY_LEN] = "";
	int r;

	*sluice = NULL;
	if (!s)
		return;
	if (s->listener >= 0)
		close(s->listener);
	if (s->prog_fd >= 0)
		close(s->prog_fd);
	datapath_close(&s->dp);
	free(s);
	r = datapath_detach_all(PINS, why, sizeof(why));
	if (r)
		complain("detach", r, why);
}

int sluice_prog_fd(const struct sluice *sluice)
{
	return sluice->prog_fd;
}

const char *sluice_mode(const struct sluice *sluice)
{
	return sluice->attached.mode == ATTACH_NATIVE ? "native" : "generic";
}

int sluice_counters(const struct sluice *sluice, uint16_t port, struct slc_counters *ret)
{
	struct slc_policy policy;
	int r = port ? sluice_policy(sluice, port, &policy) : 0;

	return r ?: datapath_counters(sluice->dp, port ? policy.state : 0, ret);
}

int sluice_sizes(const struct sluice *sluice, uint32_t *ret_xlated, uint32_t *ret_jited, uint32_t *ret_verified)
{
	struct bpf_prog_info info = {};
	uint32_t len = sizeof(info);
	int r = bpf_obj_get_info_by_fd(sluice->prog_fd, &info, &len);

	if (r)
		return r;
	*ret_xlated = info.xlated_prog_len / 8;
	*ret_jited = info.jited_prog_len;
	*ret_verified = info.verified_insns;
	return 0;
}
