// SPDX-License-Identifier: GPL-2.0-only
/* topology.c: namespaces, veth pairs, and the rules of the peers. */
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/bench/bench.h"

#define NS "slcbench"

static const char *const subject_names[SUBJECT_COUNT] = {
	[SUBJECT_DROP] = "drop",     [SUBJECT_TOUCH] = "touch", [SUBJECT_PASS] = "pass",
	[SUBJECT_SLUICE] = "sluice", [SUBJECT_NFT] = "nft",     [SUBJECT_NFT_INGRESS] = "nfti",
	[SUBJECT_IPTABLES] = "ipt",
};

/* One attempt a minute and source: in a run of seconds every source is above it, as in a flood. */
#define PEER_SET_SIZE 1048576

static const char nft_limit[] = "table %s b {\n"
				"  counter limited { }\n"
				"  counter within { }\n"
				"  set sources { type ipv4_addr; size %u; flags dynamic,timeout; timeout 5m; }\n"
				"  chain c {\n"
				"    type filter hook %s\n"
				"    tcp dport %u tcp flags & (fin|syn|rst|ack) == syn update @sources"
				" { ip saddr limit rate over 1/minute burst 1 packets } counter name limited drop\n"
				"    counter name within drop\n"
				"  }\n"
				"}\n";

static const char nft_drop_passed[] = "table netdev b {\n"
				      "  chain c {\n"
				      "    type filter hook ingress device far priority 0;\n"
				      "    drop\n"
				      "  }\n"
				      "}\n";

struct topology {
	int home_fd, generator_fd;
	struct {
		int fd;
		int near, far;
	} ends[SUBJECT_COUNT];
};

int shell(const char *fmt, ...)
{
	char *command = NULL;
	va_list args;
	int status;

	va_start(args, fmt);
	if (vasprintf(&command, fmt, args) < 0)
		command = NULL;
	va_end(args);
	if (!command)
		return -ENOMEM;
	status = system(command);
	if (status)
		fprintf(stderr, "bench: failed (status %d): %s\n", status, command);
	free(command);
	return status ? -EIO : 0;
}

static int open_namespace(const char *name)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/run/netns/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int enter(int fd)
{
	return setns(fd, CLONE_NEWNET) ? -errno : 0;
}

/* Text of rules to `nft -f -` in a namespace. */
static int nft_load(const char *ns, const char *rules)
{
	char command[128];
	FILE *pipe;
	int status;

	snprintf(command, sizeof(command), "nsenter --net=/run/netns/%s nft -f -", ns);
	pipe = popen(command, "w");
	if (!pipe)
		return -errno;
	fputs(rules, pipe);
	status = pclose(pipe);
	if (status)
		fprintf(stderr, "bench: nft refused in %s:\n%s", ns, rules);
	return status ? -EIO : 0;
}

static int rules_of(enum subject subject, const char *ns)
{
	char rules[1024];

	switch (subject) {
	case SUBJECT_PASS:
	case SUBJECT_SLUICE:
		return nft_load(ns, nft_drop_passed);
	case SUBJECT_NFT:
		snprintf(rules, sizeof(rules), nft_limit, "ip", PEER_SET_SIZE, "prerouting priority raw;", PORT_SOURCE);
		return nft_load(ns, rules);
	case SUBJECT_NFT_INGRESS:
		snprintf(rules, sizeof(rules), nft_limit, "netdev", PEER_SET_SIZE, "ingress device far priority 0;",
			 PORT_SOURCE);
		return nft_load(ns, rules);
	case SUBJECT_IPTABLES:
		return shell("nsenter --net=/run/netns/%s sh -c '"
			     "iptables -t raw -A PREROUTING -p tcp --syn --dport %u -m hashlimit"
			     " --hashlimit-above 1/min --hashlimit-burst 1 --hashlimit-mode srcip"
			     " --hashlimit-name slcbench --hashlimit-htable-size 524288"
			     " --hashlimit-htable-max %u --hashlimit-htable-expire 300000"
			     " --hashlimit-htable-gcinterval 60000 -j DROP && "
			     "iptables -t raw -A PREROUTING -p tcp -j DROP'",
			     ns, PORT_SOURCE, PEER_SET_SIZE);
	default:
		return 0;
	}
}

static void remove_namespaces(void)
{
	if (!access("/run/netns/" NS "-gen", F_OK))
		shell("ip netns del " NS "-gen");
	for (int i = 0; i < SUBJECT_COUNT; i++) {
		char path[64];

		snprintf(path, sizeof(path), "/run/netns/" NS "-%s", subject_names[i]);
		if (!access(path, F_OK))
			shell("ip netns del %s", path + sizeof("/run/netns"));
	}
}

static int make_pair(struct topology *topology, enum subject subject)
{
	const char *name = subject_names[subject];
	char ns[32];
	int r;

	snprintf(ns, sizeof(ns), NS "-%s", name);
	/* GRO switches NAPI on, without which a veth takes no redirected frames when it has no XDP program. */
	r = shell("ip netns add %s && "
		  "ip -n " NS "-gen link add %s address 02:00:00:00:01:01 numrxqueues 2 numtxqueues 2 type veth"
		  " peer name far address 02:00:00:00:01:02 numrxqueues 2 numtxqueues 2 netns %s && "
		  "ip -n %s link set lo up && ip -n %s addr add " SERVICE_ADDR "/24 dev far && "
		  "nsenter --net=/run/netns/%s ethtool -K far gro on && "
		  "ip -n " NS "-gen link set %s up && ip -n %s link set far up",
		  ns, name, ns, ns, ns, ns, name, ns);
	if (r)
		return r;
	r = rules_of(subject, ns);
	if (r)
		return r;
	topology->ends[subject].fd = open_namespace(ns);
	if (topology->ends[subject].fd < 0)
		return topology->ends[subject].fd;

	r = enter(topology->generator_fd);
	topology->ends[subject].near = r ? 0 : (int)if_nametoindex(name);
	r = r ?: enter(topology->ends[subject].fd);
	topology->ends[subject].far = r ? 0 : (int)if_nametoindex("far");
	r = r ?: enter(topology->home_fd);
	if (!r && !(topology->ends[subject].near && topology->ends[subject].far))
		r = -ENODEV;
	return r;
}

int topology_make(struct topology **ret)
{
	struct topology *topology = calloc(1, sizeof(*topology));
	int r;

	if (!topology)
		return -ENOMEM;
	topology->generator_fd = -1;
	for (int i = 0; i < SUBJECT_COUNT; i++)
		topology->ends[i].fd = -1;
	topology->home_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	r = topology->home_fd < 0 ? -errno : 0;
	remove_namespaces();
	r = r ?: shell("ip netns add " NS "-gen && ip -n " NS "-gen link set lo up");
	if (!r) {
		topology->generator_fd = open_namespace(NS "-gen");
		r = topology->generator_fd < 0 ? topology->generator_fd : 0;
	}
	for (int i = 0; !r && i < SUBJECT_COUNT; i++)
		r = make_pair(topology, i);
	if (r) {
		topology_destroy(&topology);
		return r;
	}
	*ret = topology;
	return 0;
}

void topology_destroy(struct topology **topology)
{
	struct topology *t = *topology;

	*topology = NULL;
	if (!t)
		return;
	if (t->home_fd >= 0) {
		enter(t->home_fd);
		close(t->home_fd);
	}
	if (t->generator_fd >= 0)
		close(t->generator_fd);
	for (int i = 0; i < SUBJECT_COUNT; i++)
		if (t->ends[i].fd >= 0)
			close(t->ends[i].fd);
	remove_namespaces();
	free(t);
}

int topology_near(const struct topology *topology, enum subject subject)
{
	return topology->ends[subject].near;
}

const char *topology_far(const struct topology *topology, enum subject subject)
{
	(void)topology;
	(void)subject;
	return "far";
}

int topology_far_index(const struct topology *topology, enum subject subject)
{
	return topology->ends[subject].far;
}

int topology_enter(const struct topology *topology, enum subject subject)
{
	return enter(topology->ends[subject].fd);
}

int topology_enter_generator(const struct topology *topology)
{
	return enter(topology->generator_fd);
}

int topology_received(const struct topology *topology, enum subject subject, uint32_t *ret)
{
	struct ifaddrs *list;
	int r = topology_enter(topology, subject);

	if (!r && getifaddrs(&list))
		r = -errno;
	if (!r) {
		r = -ENODEV;
		for (struct ifaddrs *i = list; i; i = i->ifa_next)
			if (i->ifa_addr && i->ifa_addr->sa_family == AF_PACKET && !strcmp(i->ifa_name, "far")) {
				*ret = ((struct rtnl_link_stats *)i->ifa_data)->rx_packets;
				r = 0;
			}
		freeifaddrs(list);
	}
	return topology_enter_generator(topology) ?: r;
}

/* Rules in order: refused for the rate, then the rest. */
static int iptables_counters(const char *ns, uint64_t *limited, uint64_t *within)
{
	char command[160];
	uintmax_t numbers[2];
	FILE *pipe;
	int read;

	snprintf(command, sizeof(command),
		 "nsenter --net=/run/netns/%s iptables -t raw -nvxL PREROUTING | awk 'NR > 2 { print $1 }'", ns);
	pipe = popen(command, "r");
	if (!pipe)
		return -errno;
	read = fscanf(pipe, "%ju %ju", &numbers[0], &numbers[1]);
	if (pclose(pipe) || read != 2)
		return -EPROTO;
	*limited = numbers[0];
	*within = numbers[1];
	return 0;
}

int topology_peer_counters(const struct topology *topology, enum subject subject, uint64_t *limited, uint64_t *within)
{
	const char *family = subject == SUBJECT_NFT ? "ip" : "netdev";
	int r;

	if (subject == SUBJECT_IPTABLES)
		return iptables_counters(NS "-ipt", limited, within);
	r = topology_enter(topology, subject);
	r = r ?: nft_counter(family, "b", "limited", limited);
	r = r ?: nft_counter(family, "b", "within", within);
	return topology_enter_generator(topology) ?: r;
}
