// SPDX-License-Identifier: GPL-2.0-only
/* drain.c: orders the drain, then watches open connections fall. The drain outlives this program on purpose. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "user/cli/fault.h"
#include "user/cli/output.h"
#include "user/cli/request.h"
#include "user/cli/services.h"
#include "user/control/config.h"

#define POLL_MS 200
#define QUIET_LINES_S 5 /* where there is no terminal: a line when the figure falls, at most this seldom */

struct watch {
	const struct invocation *inv;
	double began, until; /* seconds of the monotonic clock; until 0: no limit */
	double shown_at, shown_open;
};

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void show_progress(struct watch *watch, double open, double now)
{
	char waited[FIGURE], left[FIGURE];
	bool terminal = isatty(STDOUT_FILENO);

	if (watch->inv->values[OPT_json])
		return;
	if (!terminal && watch->shown_at > 0 &&
	    (open >= watch->shown_open || (open > 0 && now - watch->shown_at < QUIET_LINES_S)))
		return;
	if (terminal)
		printf("\r\033[K");
	printf("%s drains: %.0f open, %s waited", watch->inv->args[0], open, seconds_text(now - watch->began, waited));
	if (watch->until > 0)
		printf(", %s left", seconds_text(watch->until > now ? watch->until - now : 0, left));
	if (!terminal)
		putchar('\n');
	fflush(stdout);
	watch->shown_at = now;
	watch->shown_open = open;
}

static void end_line(const struct watch *watch)
{
	if (!watch->inv->values[OPT_json] && isatty(STDOUT_FILENO))
		putchar('\n');
}

/* Open connections of the service now. */
static int look(const struct invocation *inv, double *ret_open, json_t **ret_service)
{
	char *name = http_escape(inv->args[0]), *target = NULL;
	struct http_answer answer = {0};
	int status = STATUS_REFUSED;

	if (name && asprintf(&target, "/v1/services/%s", name) >= 0)
		status = ask(inv, "GET", target, NULL, &answer);
	if (status == STATUS_OK) {
		*ret_open = open_total(answer.body);
		json_decref(*ret_service);
		*ret_service = json_incref(answer.body);
	}
	http_release(&answer);
	free(name);
	free(target);
	return status;
}

static int wait_for_none(struct watch *watch, json_t **ret_service)
{
	const struct timespec pause = {0, POLL_MS * 1000000L};
	double open = 0, now;
	int status;

	for (;;) {
		status = look(watch->inv, &open, ret_service);
		now = now_s();
		if (status != STATUS_OK)
			return status;
		show_progress(watch, open, now);
		if (open <= 0)
			return STATUS_OK;
		if (watch->until > 0 && now >= watch->until)
			return STATUS_TIME_LIMIT;
		nanosleep(&pause, NULL);
	}
}

static void print_end(const struct watch *watch, int status, const json_t *service)
{
	const struct invocation *inv = watch->inv;

	end_line(watch);
	if (inv->values[OPT_json] && service) {
		json_t *end = json_pack("{s:s, s:I, s:b}", "service", inv->args[0], "open_connections",
					(json_int_t)open_total(service), "drained", status == STATUS_OK);

		print_json(end);
		json_decref(end);
	}
	if (status == STATUS_OK && !inv->values[OPT_json])
		printf("%s: no connection is open; it stays drained until `sluicectl undrain %s`\n", inv->args[0],
		       inv->args[0]);
	if (status == STATUS_TIME_LIMIT) {
		char message[160];

		snprintf(message, sizeof(message), "%s still has %.0f open connection%s after %s", inv->args[0],
			 open_total(service), open_total(service) == 1 ? "" : "s", inv->values[OPT_for]);
		print_fault(stderr,
			    &(struct fault){.message = message,
					    .hint = "it stays drained; drain again to wait longer, or undrain"});
	}
}

int run_drain(const struct invocation *inv)
{
	struct watch watch = {.inv = inv, .began = now_s()};
	struct http_answer answer = {0};
	json_t *body = NULL, *service = NULL;
	char *target = NULL, why[256];
	uint64_t limit_ns;
	int status = STATUS_REFUSED;

	if (inv->values[OPT_for] && !parse_duration(inv->values[OPT_for], &limit_ns, why, sizeof(why)))
		watch.until = watch.began + (double)limit_ns / 1e9;
	if (!build_request(inv, &target, &body))
		status = ask(inv, inv->command->method, target, body, &answer);
	if (status == STATUS_OK) {
		status = wait_for_none(&watch, &service);
		print_end(&watch, status, service);
	}
	http_release(&answer);
	json_decref(service);
	json_decref(body);
	free(target);
	return status;
}
