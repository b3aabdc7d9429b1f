// SPDX-License-Identifier: GPL-2.0-only
/*
 * events.c: prints events, and follows them: asks with `wait`, so that an event is here a round trip after it happened
 * and a quiet daemon is asked six times a minute. Each line is written as a whole; nothing is buffered here, and while
 * a reader does not read no request is open, so that it is this program alone that waits for it.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "user/cli/event_text.h"
#include "user/cli/fault.h"
#include "user/cli/output.h"
#include "user/cli/request.h"

#define WAIT_MS 10000 /* the daemon's maximum */
#define RETRY_MS 500

struct feed {
	const struct invocation *inv;
	json_int_t after; /* number of the newest event seen */
	bool has_after;
	json_int_t shown_ns; /* mono_ns of the newest event printed */
	double pid; /* of the daemon */
	bool away; /* it does not answer, and this was said */
	bool renumbered; /* another daemon: `after` was none of its numbers */
	bool quiet; /* the last answer had no event */
};

/* --- stdout -------------------------------------------------------------------------------------------------- */

static bool reader_gone(void)
{
	struct pollfd out = {.fd = STDOUT_FILENO};

	return poll(&out, 1, 0) > 0 && out.revents & (POLLERR | POLLHUP);
}

/* stdio would keep what a failed write left and try it again at exit. 0 or -errno. */
static int write_whole(const char *text, size_t len)
{
	struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};

	while (len) {
		ssize_t n = write(STDOUT_FILENO, text, len);

		if (n >= 0) {
			text += n;
			len -= (size_t)n;
		} else if (errno == EAGAIN) {
			poll(&out, 1, -1);
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return 0;
}

static int write_event(const struct feed *feed, const json_t *event)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	int err;

	if (!out)
		return -ENOMEM;
	if (feed->inv->values[OPT_json]) {
		json_dumpf(event, out, JSON_COMPACT);
		fputc('\n', out);
	} else {
		print_event(out, event);
	}
	err = fclose(out) ? -ENOMEM : write_whole(text, len);
	free(text);
	return err;
}

/* --- requests ------------------------------------------------------------------------------------------------ */

static void put_parameter(FILE *out, char *separator, const char *name, const char *value)
{
	char *escaped = value ? http_escape(value) : NULL;

	if (escaped)
		fprintf(out, "%c%s=%s", *separator, name, escaped);
	if (escaped)
		*separator = '&';
	free(escaped);
}

static char *target_of(const struct feed *feed, bool wait)
{
	char *target = NULL, number[32], separator = '?';
	size_t len;
	FILE *out = open_memstream(&target, &len);

	if (!out)
		return NULL;
	fputs("/v1/events", out);
	snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT, feed->after);
	put_parameter(out, &separator, "after", feed->has_after ? number : NULL);
	snprintf(number, sizeof(number), "%d", WAIT_MS);
	put_parameter(out, &separator, "wait", wait ? number : NULL);
	put_parameter(out, &separator, "service", feed->inv->values[OPT_service]);
	put_parameter(out, &separator, "kind", feed->inv->values[OPT_kind]);
	if (fclose(out)) {
		free(target);
		return NULL;
	}
	return target;
}

/* --- an answer ----------------------------------------------------------------------------------------------- */

static void say_lost(const struct feed *feed, const json_t *answer)
{
	double lost = number_at(answer, "lost");

	if (lost > 0 && feed->has_after && !feed->renumbered)
		fprintf(stderr, "sluicectl: %.0f event%s lost: no longer kept when they were asked for\n", lost,
			lost == 1 ? " is" : "s are");
}

static json_int_t integer_at(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static int take(struct feed *feed, const json_t *answer)
{
	const json_t *event;
	size_t i;
	int err;

	say_lost(feed, answer);
	feed->quiet = !json_array_size(json_object_get(answer, "events"));
	json_array_foreach(json_object_get(answer, "events"), i, event)
	{
		json_int_t at_ns = integer_at(event, "mono_ns");

		/* Another daemon's list may begin with what its predecessor had shown. */
		if (feed->renumbered && at_ns && at_ns <= feed->shown_ns)
			continue;
		err = write_event(feed, event);
		if (err)
			return err;
		feed->shown_ns = at_ns > feed->shown_ns ? at_ns : feed->shown_ns;
		feed->after = integer_at(event, "seq") > feed->after ? integer_at(event, "seq") : feed->after;
	}
	if (feed->renumbered || integer_at(answer, "seq") > feed->after)
		feed->after = integer_at(answer, "seq");
	feed->has_after = true;
	feed->renumbered = false;
	return 0;
}

static int end_of_output(const struct feed *feed, int err)
{
	char message[160];

	if (err == -EPIPE || err == -ECANCELED) /* its reader has seen enough */
		return feed->inv->values[OPT_follow] ? STATUS_OK : STATUS_REFUSED;
	snprintf(message, sizeof(message), "cannot write the answer: %s", strerror(-err));
	print_fault(stderr, &(struct fault){.message = message});
	return STATUS_REFUSED;
}

/* --- following ----------------------------------------------------------------------------------------------- */

static void interrupted(int number)
{
	(void)number;
	_exit(STATUS_OK); /* every line was written as a whole */
}

static void catch_signals(void)
{
	signal(SIGINT, interrupted);
	signal(SIGTERM, interrupted);
}

static void say_away(struct feed *feed, const char *why)
{
	if (!feed->away)
		fprintf(stderr, "sluicectl: sluiced does not answer (%s); waiting for it\n", why);
	feed->away = true;
}

/* Numbers are a daemon's own: those of another one begin anew. -EAGAIN: it does not answer. */
static int know_daemon(struct feed *feed, char *why, size_t why_len)
{
	struct http_answer answer = {0};
	double pid;

	if (http_request(socket_of(feed->inv), "GET", "/v1/status", NULL, &answer, why, why_len))
		return -EAGAIN;
	pid = answer.status == 200 ? number_at(answer.body, "pid") : 0;
	snprintf(why, why_len, "HTTP status %ld", answer.status);
	http_release(&answer);
	if (pid <= 0)
		return -EAGAIN;
	if (feed->away)
		fprintf(stderr, "sluicectl: sluiced answers again%s\n",
			feed->pid > 0 && pid != feed->pid ? "; it was restarted" : "");
	if (feed->pid > 0 && pid != feed->pid) {
		feed->after = 0;
		feed->renumbered = feed->has_after = true;
	}
	feed->pid = pid;
	feed->away = false;
	return 0;
}

/* One request. 0; -EAGAIN: the daemon is away; -ECANCELED or -EPIPE: the reader is gone; 1: refused, and said so. */
static int ask_once(struct feed *feed, bool wait)
{
	char *target = target_of(feed, wait), why[512] = "";
	struct http_answer answer = {0};
	int err;

	if (!target)
		return -ENOMEM;
	err = http_wait(socket_of(feed->inv), target, reader_gone, &answer, why, sizeof(why));
	free(target);
	if (err == -ECANCELED)
		return err;
	if (!err && answer.status != 200 && answer.status != 503) {
		if (feed->inv->values[OPT_json])
			print_json(answer.body);
		print_answer_fault(stderr, answer.body, answer.status);
		http_release(&answer);
		return 1;
	}
	if (err || answer.status != 200) {
		say_away(feed, err ? why : "it ends");
		http_release(&answer);
		return -EAGAIN;
	}
	err = take(feed, answer.body);
	http_release(&answer);
	return err;
}

/* Of the time between two requests: a daemon that has no room for one more that waits answers at once. */
static void pace(const struct timespec *began)
{
	struct pollfd out = {.fd = STDOUT_FILENO};
	struct timespec now;
	long ms;

	clock_gettime(CLOCK_MONOTONIC, &now);
	ms = (now.tv_sec - began->tv_sec) * 1000 + (now.tv_nsec - began->tv_nsec) / 1000000;
	if (ms < RETRY_MS)
		poll(&out, 1, (int)(RETRY_MS - ms)); /* ends early where the reader goes away */
}

static int follow(struct feed *feed)
{
	struct timespec began;
	char why[512];
	int err = 0;

	for (;;) {
		clock_gettime(CLOCK_MONOTONIC, &began);
		err = feed->away ? know_daemon(feed, why, sizeof(why)) : 0;
		if (!err)
			err = ask_once(feed, feed->has_after);
		if (err == -EAGAIN || (!err && feed->quiet && feed->has_after))
			pace(&began);
		if (err == -EAGAIN && reader_gone())
			return STATUS_OK;
		if (err > 0)
			return STATUS_REFUSED;
		if (err && err != -EAGAIN)
			return end_of_output(feed, err);
	}
}

static int list(struct feed *feed)
{
	struct http_answer answer = {0};
	char *target = target_of(feed, false);
	int status = STATUS_REFUSED, err;

	if (target)
		status = ask(feed->inv, "GET", target, NULL, &answer);
	free(target);
	if (status != STATUS_OK)
		return status;
	err = take(feed, answer.body);
	if (!err && !feed->inv->values[OPT_json] && !json_array_size(json_object_get(answer.body, "events")))
		puts("no events");
	http_release(&answer);
	return err ? end_of_output(feed, err) : STATUS_OK;
}

int run_events(const struct invocation *inv)
{
	struct feed feed = {.inv = inv};
	struct http_answer status = {0};
	int result;

	if (inv->values[OPT_after]) {
		feed.after = strtoll(inv->values[OPT_after], NULL, 10);
		feed.has_after = true;
	}
	signal(SIGPIPE, SIG_IGN);
	if (!inv->values[OPT_follow])
		return list(&feed);
	/* At the start a daemon that is not there is an error, as for every command. */
	catch_signals();
	result = ask(inv, "GET", "/v1/status", NULL, &status);
	feed.pid = number_at(status.body, "pid");
	http_release(&status);
	return result == STATUS_OK ? follow(&feed) : result;
}
