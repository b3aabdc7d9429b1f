// SPDX-License-Identifier: GPL-2.0-only
/*
 * detach.c: the way out that always works. A running daemon is asked, because it would attach again what is taken
 * from under it; where none answers, the pins are all that is needed.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "user/cli/fault.h"
#include "user/cli/output.h"
#include "user/cli/request.h"
#include "user/datapath/datapath.h"

#define DEFAULT_PINS "/sys/fs/bpf/sluice"
#define GOODBYE_MS 5000 /* the daemon answers first, then removes and exits */

static int fail(const struct invocation *inv, const char *message, const char *pins, const char *hint)
{
	report_fault(inv, &(struct fault){message, "--pins", pins, NULL, hint});
	return STATUS_REFUSED;
}

/* Removes what is left and verifies. A daemon that just said goodbye may hold its lock for a moment. */
static int detach_pins(const struct invocation *inv, const char *pins, int patience_ms)
{
	const struct timespec pause = {0, 100 * 1000000L};
	char why[WHY_LEN] = "", message[WHY_LEN + 64];
	int err;

	for (;;) {
		err = datapath_detach_all(pins, why, sizeof(why));
		if (err != -EBUSY || patience_ms <= 0)
			break;
		patience_ms -= 100;
		nanosleep(&pause, NULL);
	}
	if (!err)
		return STATUS_OK;
	snprintf(message, sizeof(message), "not everything is detached: %s", *why ? why : strerror(-err));
	return fail(inv, message, pins,
		    err == -EBUSY   ? "a daemon that uses these pins must end first: is --socket right?"
		    : err == -EPERM ? "run as root"
				    : NULL);
}

static void report(const struct invocation *inv, const char *pins, bool by_daemon)
{
	json_t *answer;

	if (inv->values[OPT_json]) {
		answer = json_pack("{s:b, s:s?, s:b}", "detached", 1, "pins", pins, "by_daemon", by_daemon);
		print_json(answer);
		json_decref(answer);
	} else {
		printf("detached: no program, link, map or pin is left%s%s%s\n", pins ? " under " : "",
		       pins ? pins : "", by_daemon ? "; the daemon has ended" : "");
	}
}

/* The daemon's answer names its pins; they are looked at again from here. */
static int after_daemon(const struct invocation *inv, const json_t *answer)
{
	const char *pins = inv->values[OPT_pins] ? inv->values[OPT_pins] : text_at(answer, "pins");
	int status = STATUS_OK;

	if (*pins && !geteuid())
		status = detach_pins(inv, pins, GOODBYE_MS);
	else if (*pins && !access(pins, F_OK))
		status = fail(inv, "the daemon answered, and the pins are still there", pins,
			      "run as root to look closer");
	if (status == STATUS_OK)
		report(inv, *pins ? pins : NULL, true);
	return status;
}

/* --- what other pins hold ----------------------------------------------------------------------------------------- */

struct elsewhere {
	FILE *lines;
	char pins[PATH_MAX]; /* of the first that has any */
	int count;
};

static void note_attached(const char *ifname, uint32_t program_id, const char *pins, void *arg)
{
	struct elsewhere *elsewhere = arg;

	fprintf(elsewhere->lines, "\n%s%s: program id %u, %s%s", ifname ? "interface " : "cgroup2 root",
		ifname ? ifname : "", program_id, *pins ? "pinned in " : "its pins were not found", pins);
	elsewhere->count++;
	if (!*elsewhere->pins)
		snprintf(elsewhere->pins, sizeof(elsewhere->pins), "%s", pins);
}

/* No daemon said where its pins are, and nobody else did: the usual place may not be all there is (c104). */
static int look_elsewhere(const struct invocation *inv, const char *looked_at)
{
	struct elsewhere elsewhere = {0};
	char *message = NULL, hint[PATH_MAX + 256];
	size_t len;

	elsewhere.lines = open_memstream(&message, &len);
	if (!elsewhere.lines)
		return fail(inv, "out of memory", looked_at, NULL);
	fprintf(elsewhere.lines, "nothing is left under %s, but sluice is still in force here:", looked_at);
	datapath_attached(note_attached, &elsewhere);
	if (fclose(elsewhere.lines))
		return fail(inv, "out of memory", looked_at, NULL);
	if (*elsewhere.pins)
		snprintf(hint, sizeof(hint),
			 "sluicectl detach --pins %s; where its daemon still runs, name its socket: --socket PATH",
			 elsewhere.pins);
	else
		snprintf(hint, sizeof(hint),
			 "give control.pins of its configuration: sluicectl detach --pins DIR (`ip netns exec` hides "
			 "/sys/fs/bpf: use `nsenter --net=`); without pins, `ip link set dev NAME xdp off`");
	if (elsewhere.count)
		fail(inv, message, looked_at, hint);
	free(message);
	return elsewhere.count ? STATUS_REFUSED : STATUS_OK;
}

int run_detach(const struct invocation *inv)
{
	const char *pins = inv->values[OPT_pins] ? inv->values[OPT_pins] : DEFAULT_PINS;
	struct http_answer answer = {0};
	char why[512];
	int err = http_request(socket_of(inv), inv->command->method, inv->command->target, NULL, &answer, why,
			       sizeof(why));
	int status;

	if (!err && answer.status / 100 == 2) {
		status = after_daemon(inv, answer.body);
	} else if (!err) {
		if (inv->values[OPT_json])
			print_json(answer.body);
		print_answer_fault(stderr, answer.body, answer.status);
		status = STATUS_REFUSED;
	} else {
		status = detach_pins(inv, pins, 0);
		if (status == STATUS_OK && !inv->values[OPT_pins])
			status = look_elsewhere(inv, pins);
		if (status == STATUS_OK)
			report(inv, pins, false);
	}
	http_release(&answer);
	return status;
}
