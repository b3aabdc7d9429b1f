// SPDX-License-Identifier: GPL-2.0-only
/* doctor.c: looks at the machine: /proc, /sys and sockets; and the judgements about sysctls, mounts and the kernel. */
#include <errno.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "user/control/config.h"
#include "user/control/doctor.h"
#include "user/control/doctor_look.h"
#include "user/control/listen_match.h"
#include "user/control/netns.h"
#include "user/datapath/mountinfo.h"

#define UNREAD INT64_MIN

/* --- report -------------------------------------------------------------------------------------------------- */

void doctor_say(struct doctor_report *report, enum doctor_level level, const char *check, const char *subject,
		const char *todo, const char *fmt, ...)
{
	struct doctor_finding *grown = realloc(report->findings, (report->count + 1) * sizeof(*grown)), *finding;
	va_list args;

	if (!grown)
		return; /* doctor_run() notices: report->count is short of what was said */
	report->findings = grown;
	finding = &grown[report->count++];
	*finding = (struct doctor_finding){.level = level, .check = check};
	snprintf(finding->subject, sizeof(finding->subject), "%s", subject ? subject : "");
	snprintf(finding->todo, sizeof(finding->todo), "%s", todo ? todo : "");
	va_start(args, fmt);
	vsnprintf(finding->what, sizeof(finding->what), fmt, args);
	va_end(args);
}

void doctor_report_free(struct doctor_report *report)
{
	free(report->findings);
	*report = (struct doctor_report){0};
}

/* --- sysctls ------------------------------------------------------------------------------------------------- */

static const struct {
	const char *path;
	size_t offset;
} sysctl_files[] = {
	{"/proc/sys/net/core/somaxconn", offsetof(struct doctor_sysctls, somaxconn)},
	{"/proc/sys/net/ipv4/tcp_syncookies", offsetof(struct doctor_sysctls, syncookies)},
	{"/proc/sys/net/ipv4/tcp_abort_on_overflow", offsetof(struct doctor_sysctls, abort_on_overflow)},
	{"/proc/sys/net/ipv4/tcp_migrate_req", offsetof(struct doctor_sysctls, migrate_req)},
	{"/proc/sys/net/core/bpf_jit_harden", offsetof(struct doctor_sysctls, jit_harden)},
};

int doctor_read(const char *root, const char *path, char *buf, size_t len)
{
	char name[4096];
	size_t n;
	FILE *in;

	snprintf(name, sizeof(name), "%s%s", root ? root : "", path);
	in = fopen(name, "re");
	if (!in)
		return -errno;
	n = fread(buf, 1, len - 1, in);
	buf[n] = '\0';
	if (ferror(in)) {
		fclose(in);
		return -EIO;
	}
	fclose(in);
	return 0;
}

int64_t doctor_read_number(const char *root, const char *path)
{
	char text[64], *end;
	long long number;

	if (doctor_read(root, path, text, sizeof(text)))
		return UNREAD;
	number = strtoll(text, &end, 10);
	return end == text ? UNREAD : number;
}

static void read_sysctls(const char *root, struct doctor_sysctls *sysctls)
{
	for (size_t i = 0; i < sizeof(sysctl_files) / sizeof(sysctl_files[0]); i++) {
		int64_t number = doctor_read_number(root, sysctl_files[i].path);

		memcpy((char *)sysctls + sysctl_files[i].offset, &number, sizeof(number));
	}
}

static void judge_cookies(struct doctor_report *report, int64_t syncookies)
{
	if (syncookies == 1)
		doctor_say(report, DOCTOR_OK, "tcp_syncookies", NULL, NULL,
			   "1: cookies are sent only when the SYN queue is full");
	else if (syncookies == 0)
		doctor_say(
			report, DOCTOR_WARN, "tcp_syncookies", NULL, "sysctl -w net.ipv4.tcp_syncookies=1",
			"0: when forged SYNs fill the SYN queue, honest ones are dropped by the kernel behind sluice");
	else if (syncookies == 2)
		doctor_say(
			report, DOCTOR_WARN, "tcp_syncookies", NULL, "sysctl -w net.ipv4.tcp_syncookies=1",
			"2: every handshake uses a cookie: options are lost, and a retransmitted SYN is not known as "
			"one");
	else
		doctor_say(report, DOCTOR_WARN, "tcp_syncookies", NULL, "build the kernel with CONFIG_SYN_COOKIES=y",
			   "not there: the kernel cannot answer a flood of forged SYNs without a queue");
}

static void judge_overflow(struct doctor_report *report, int64_t abort_on_overflow)
{
	if (abort_on_overflow == 0)
		doctor_say(report, DOCTOR_OK, "tcp_abort_on_overflow", NULL, NULL,
			   "0: a client that meets a full accept queue is left to retry");
	else
		doctor_say(report, DOCTOR_WARN, "tcp_abort_on_overflow", NULL,
			   "sysctl -w net.ipv4.tcp_abort_on_overflow=0; use `action: reset` where a quick answer is "
			   "wanted",
			   "%s: a client that meets a full accept queue is reset after its handshake; sluice refuses "
			   "before, and by class",
			   abort_on_overflow == UNREAD ? "unreadable" : "1");
}

void doctor_judge_sysctls(struct doctor_report *report, const struct doctor_sysctls *sysctls, bool reuseport)
{
	judge_cookies(report, sysctls->syncookies);
	judge_overflow(report, sysctls->abort_on_overflow);
	if (sysctls->jit_harden == 2)
		doctor_say(report, DOCTOR_WARN, "bpf_jit_harden", NULL, "sysctl -w net.core.bpf_jit_harden=1",
			   "2: constants of root's programs are blinded too: slower for each packet");
	if (sysctls->somaxconn != UNREAD && sysctls->somaxconn < 1024)
		doctor_say(report, DOCTOR_WARN, "somaxconn", NULL,
			   "sysctl -w net.core.somaxconn=4096, then restart the services: it acts at listen()",
			   "%lld: no listener of this namespace can have a longer accept queue",
			   (long long)sysctls->somaxconn);
	if (reuseport && sysctls->migrate_req == 0)
		doctor_say(
			report, DOCTOR_WARN, "tcp_migrate_req", NULL, "sysctl -w net.ipv4.tcp_migrate_req=1",
			"0, and several sockets listen on one address: closing one (a reload) resets what waits in its "
			"queue");
}

/* --- listeners ----------------------------------------------------------------------------------------------- */

void doctor_judge_listener(struct doctor_report *report, const char *service, const char *address, uint32_t backlog,
			   const struct doctor_sysctls *sysctls)
{
	char subject[96];

	snprintf(subject, sizeof(subject), "%s %s", service, address);
	if (backlog < 16)
		doctor_say(report, DOCTOR_WARN, "backlog", subject,
			   "raise the backlog that the service gives to listen()",
			   "%u: marks in percent of it are coarse, a short burst fills it", backlog);
	else if (backlog > SLC_RING)
		doctor_say(
			report, DOCTOR_WARN, "backlog", subject, NULL,
			"%u: head age is known up to %d waiting connections; above that only the marks in percent hold",
			backlog, SLC_RING);
	else if (sysctls->somaxconn != UNREAD && backlog == sysctls->somaxconn)
		doctor_say(report, DOCTOR_OK, "backlog", subject,
			   "if the service asks for more: raise net.core.somaxconn and restart it",
			   "%u: as much as somaxconn allows", backlog);
	else
		doctor_say(
			report, DOCTOR_OK, "backlog", subject, NULL,
			"%u, as the service asked or as somaxconn was when it called listen(); somaxconn is %lld now",
			backlog, (long long)sysctls->somaxconn);
}

/* One service against the listening sockets of its namespace. True if several share one of its addresses. */
static bool look_service(struct doctor_report *report, const struct service_keys *all, const struct doctor_input *input,
			 size_t which, const struct diag_list *listeners, const struct doctor_sysctls *sysctls)
{
	const struct doctor_service *service = &input->services[which];
	const struct diag_socket *first = NULL;
	bool shared = false;

	if (!service->key_count || service->keys[0].proto != IPPROTO_TCP)
		return false;
	for (size_t i = 0; i < listeners->count; i++) {
		const struct diag_socket *socket = &listeners->sockets[i];
		char address[96], place[64];

		if (socket->state != TCP_LISTEN || !listen_match(all, input->service_count, which, listeners, socket))
			continue;
		format_address(socket->addr, place, sizeof(place));
		snprintf(address, sizeof(address), strchr(place, ':') ? "[%s]:%u" : "%s:%u", place, socket->port);
		doctor_judge_listener(report, service->name, address, socket->wqueue, sysctls);
		if (socket->ifindex)
			doctor_say(report, DOCTOR_WARN, "backlog", address, NULL,
				   "bound to a device: the gate sees it only if XDP runs on that very device");
		shared = shared || (first && first->port == socket->port && !memcmp(first->addr, socket->addr, 16));
		first = socket;
	}
	if (!first)
		doctor_say(report, service->gate ? DOCTOR_WARN : DOCTOR_OK, "listener", service->name,
			   "start the service, or take accept_queue out if it listens elsewhere (then the other limits "
			   "act)",
			   "no socket listens on its addresses now: %s",
			   service->gate ? "the accept-queue gate has nothing to look at"
					 : "its other limits hold anyway");
	return shared;
}

static void look_listeners(struct doctor_report *report, const struct doctor_input *input,
			   const struct doctor_sysctls *sysctls, bool *ret_reuseport)
{
	struct service_keys *all = calloc(input->service_count + 1, sizeof(*all));

	*ret_reuseport = false;
	for (size_t i = 0; all && i < input->service_count; i++)
		all[i] = (struct service_keys){input->services[i].keys, input->services[i].key_count};
	for (size_t i = 0; all && i < input->service_count; i++) {
		const struct doctor_service *service = &input->services[i];
		struct netns ns = {.diag_fd = -1};
		struct diag_list listeners = {0};
		char why[WHY_LEN] = "";
		int err = netns_open(service->netns, &ns, why, sizeof(why));

		if (!err) {
			err = sockdiag_dump(ns.diag_fd, 1u << TCP_LISTEN, 0, &listeners);
			netns_close(&ns);
		}
		if (err)
			doctor_say(report, DOCTOR_WARN, "listener", service->name,
				   "run as root, in the host's namespace", "its sockets cannot be listed: %s",
				   *why ? why : strerror(-err));
		else
			*ret_reuseport |= look_service(report, all, input, i, &listeners, sysctls);
		diag_list_free(&listeners);
	}
	free(all);
}

/* --- mounts -------------------------------------------------------------------------------------------------- */

void doctor_judge_mounts(struct doctor_report *report, const char *mountinfo)
{
	char path[4096];

	if (!mountinfo_find(mountinfo, "cgroup2", path, sizeof(path)))
		doctor_say(report, DOCTOR_OK, "cgroup2", NULL, NULL, "mounted at %s: connections are counted there",
			   path);
	else
		doctor_say(report, DOCTOR_WARN, "cgroup2", NULL,
			   "mount -t cgroup2 none /sys/fs/cgroup/unified (or boot with "
			   "systemd.unified_cgroup_hierarchy=1)",
			   "not mounted: connections, handshake times and head age are not known; source.concurrent, "
			   "total.concurrent and max_wait do not act");
	if (!mountinfo_find(mountinfo, "bpf", path, sizeof(path)))
		doctor_say(report, DOCTOR_OK, "bpffs", NULL, NULL,
			   "mounted at %s: maps and programs outlive the daemon", path);
	else
		doctor_say(report, DOCTOR_WARN, "bpffs", NULL, "mount -t bpf bpf /sys/fs/bpf",
			   "not mounted: sluiced mounts it at start where it may; other places must be mounted by you");
}

/* --- kernel -------------------------------------------------------------------------------------------------- */

static void judge_capabilities(struct doctor_report *report, uint64_t capabilities)
{
	static const struct {
		unsigned int bit;
		const char *name;
	} needed[] = {
		{CAP_NET_ADMIN, "CAP_NET_ADMIN"},
		{CAP_BPF, "CAP_BPF"},
		{CAP_PERFMON, "CAP_PERFMON"},
		{CAP_SYS_ADMIN, "CAP_SYS_ADMIN"},
	};
	char missing[128] = "";
	size_t len = 0;

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		if (!(capabilities >> needed[i].bit & 1))
			len += snprintf(missing + len, sizeof(missing) - len, " %s", needed[i].name);
	}
	if (len)
		doctor_say(report, DOCTOR_WARN, "capabilities", NULL,
			   "run doctor as root, and give sluiced what is missing",
			   "this process lacks%s: sluiced needs it to load and attach", missing);
	else
		doctor_say(report, DOCTOR_OK, "capabilities", NULL, NULL, "all that loading and attaching needs");
}

void doctor_judge_kernel(struct doctor_report *report, const char *release, const struct datapath_features *features,
			 uint64_t capabilities)
{
	judge_capabilities(report, capabilities);
	if (features->bpf)
		doctor_say(report, DOCTOR_OK, "kernel", NULL, NULL,
			   "Linux %s takes our maps (5.15 or newer by its features)%s", release,
			   features->frags ? ", and programs for large frames" : "");
	else
		doctor_say(report, DOCTOR_FAIL, "kernel", NULL, NULL, "Linux %s: %s", release, features->bpf_why);
	if (features->jit)
		doctor_say(report, DOCTOR_OK, "bpf_jit", NULL, NULL, "on: programs run as machine code");
	else if (features->bpf)
		doctor_say(report, DOCTOR_FAIL, "bpf_jit", NULL, "sysctl -w net.core.bpf_jit_enable=1",
			   "off: programs are interpreted, several times slower: the filter itself becomes the "
			   "bottleneck");
	if (features->gate_fields)
		doctor_say(report, DOCTOR_OK, "btf", NULL, NULL,
			   "the kernel describes its types: the accept-queue gate can read queues");
	else
		doctor_say(report, DOCTOR_WARN, "btf", NULL, "use a kernel with CONFIG_DEBUG_INFO_BTF=y",
			   "%s: the accept-queue gate is off, everything else works", features->gate_why);
}

static void look_kernel(struct doctor_report *report, const struct doctor_input *input,
			struct datapath_features *features)
{
	struct utsname name;
	char text[8192] = "", *line;

	datapath_probe(features);
	uname(&name);
	doctor_read(input->root, "/proc/self/status", text, sizeof(text));
	line = strstr(text, "CapEff:");
	doctor_judge_kernel(report, name.release, features, line ? strtoull(line + 7, NULL, 16) : 0);
}

static int look_mounts(struct doctor_report *report, const struct doctor_input *input)
{
	size_t size = 1u << 20;
	char *text = malloc(size);

	if (!text)
		return -ENOMEM;
	if (doctor_read(input->root, "/proc/self/mountinfo", text, size))
		doctor_say(report, DOCTOR_WARN, "cgroup2", NULL, "mount /proc", "/proc/self/mountinfo cannot be read");
	else
		doctor_judge_mounts(report, text);
	free(text);
	return 0;
}

int doctor_run(const struct doctor_input *input, struct doctor_report *ret_report)
{
	struct doctor_report report = {0};
	struct datapath_features features;
	struct doctor_sysctls sysctls;
	bool reuseport = false, reset = false;
	int err;

	look_kernel(&report, input, &features);
	err = look_mounts(&report, input);
	read_sysctls(input->root, &sysctls);
	look_listeners(&report, input, &sysctls, &reuseport);
	doctor_judge_sysctls(&report, &sysctls, reuseport);
	for (size_t i = 0; i < input->service_count; i++) {
		reset = reset || input->services[i].reset;
		if (input->services[i].advice[0])
			doctor_say(&report, DOCTOR_WARN, "breaker", input->services[i].name, "change it in the file",
				   "%s", input->services[i].advice);
	}
	for (size_t i = 0; i < input->interface_count; i++)
		doctor_look_interface(&report, input->interfaces[i], features.frags, reset);
	if (err || !report.count) {
		doctor_report_free(&report);
		return -ENOMEM;
	}
	*ret_report = report;
	return 0;
}
