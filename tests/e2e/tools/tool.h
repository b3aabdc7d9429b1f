/* SPDX-License-Identifier: GPL-2.0-only */
/* tool.h: what the traffic tools share: the clock, flags with --help from one table, addresses, percentiles. */
#ifndef SLUICE_TEST_TOOL_H
#define SLUICE_TEST_TOOL_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#define NS_PER_S 1000000000ULL
#define NS_PER_MS 1000000ULL

static inline uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static inline struct timespec to_timespec(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
}

static inline void __attribute__((noreturn, format(printf, 1, 2))) die(const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	exit(2);
}

/* --- flags ----------------------------------------------------------------------------------------------------- */

enum flag_kind { FLAG_BOOL, FLAG_COUNT, FLAG_TEXT };

/* `value` points to bool, uint64_t or const char *, as `kind` says; min and max bound a count. */
struct flag {
	const char *name;
	enum flag_kind kind;
	void *value;
	uint64_t min, max;
	const char *arg;
	const char *text;
};

static inline void __attribute__((noreturn)) flags_help(const char *what, const struct flag *flags)
{
	printf("%s: %s\n", program_invocation_short_name, what);
	for (const struct flag *flag = flags; flag->name; flag++) {
		char left[64];

		snprintf(left, sizeof(left), "--%s %s", flag->name, flag->arg ? flag->arg : "");
		printf("  %-30s %s", left, flag->text);
		if (flag->kind == FLAG_COUNT)
			printf(" (%ju to %ju; %ju)", (uintmax_t)flag->min, (uintmax_t)flag->max,
			       (uintmax_t) * (uint64_t *)flag->value);
		putchar('\n');
	}
	exit(0);
}

static inline void flag_set(const struct flag *flag, const char *text)
{
	uint64_t count;
	char *end;

	if (flag->kind == FLAG_TEXT) {
		*(const char **)flag->value = text;
		return;
	}
	errno = 0;
	count = strtoull(text, &end, 10);
	if (errno || end == text || *end || text[0] == '-' || count < flag->min || count > flag->max)
		die("--%s %s: takes a count from %ju to %ju", flag->name, text, (uintmax_t)flag->min,
		    (uintmax_t)flag->max);
	*(uint64_t *)flag->value = count;
}

static inline void flags_parse(const char *what, const struct flag *flags, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const struct flag *flag = flags;

		if (!strcmp(argv[i], "--help"))
			flags_help(what, flags);
		while (flag->name && (strncmp(argv[i], "--", 2) || strcmp(argv[i] + 2, flag->name)))
			flag++;
		if (!flag->name)
			die("unknown argument '%s'; --help lists them", argv[i]);
		if (flag->kind == FLAG_BOOL)
			*(bool *)flag->value = true;
		else if (++i == argc)
			die("--%s needs %s", flag->name, flag->arg);
		else
			flag_set(flag, argv[i]);
	}
}

/* --- addresses ------------------------------------------------------------------------------------------------- */

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static inline socklen_t address_len(const union address *address)
{
	return address->any.sa_family == AF_INET ? sizeof(address->v4) : sizeof(address->v6);
}

static inline void address_parse_host(const char *host, uint16_t port, union address *ret)
{
	*ret = (union address){0};
	if (inet_pton(AF_INET, host, &ret->v4.sin_addr) == 1) {
		ret->v4.sin_family = AF_INET;
		ret->v4.sin_port = htons(port);
	} else if (inet_pton(AF_INET6, host, &ret->v6.sin6_addr) == 1) {
		ret->v6.sin6_family = AF_INET6;
		ret->v6.sin6_port = htons(port);
	} else {
		die("'%s' is no IPv4 or IPv6 address", host);
	}
}

/* "192.0.2.1:80" or "[2001:db8::1]:80" */
static inline void address_parse(const char *text, union address *ret)
{
	const char *colon = text ? strrchr(text, ':') : NULL;
	char host[64];
	size_t len;
	long port;

	if (!colon || colon == text || (size_t)(colon - text) >= sizeof(host))
		die("'%s' is no address: give ADDR:PORT or [ADDR]:PORT", text ? text : "");
	len = (size_t)(colon - text);
	if (text[0] == '[' && text[len - 1] == ']')
		snprintf(host, sizeof(host), "%.*s", (int)len - 2, text + 1);
	else
		snprintf(host, sizeof(host), "%.*s", (int)len, text);
	port = strtol(colon + 1, NULL, 10);
	if (port < 1 || port > 65535)
		die("'%s': port must be 1 to 65535", text);
	address_parse_host(host, (uint16_t)port, ret);
}

/* The `index`th address after the base. */
static inline union address address_add(const union address *base, uint32_t index)
{
	union address sum = *base;
	uint32_t *low = sum.any.sa_family == AF_INET ? &sum.v4.sin_addr.s_addr : &sum.v6.sin6_addr.s6_addr32[3];

	*low = htonl(ntohl(*low) + index);
	return sum;
}

/* --- samples --------------------------------------------------------------------------------------------------- */

/* Durations in microseconds; kept whole, so a percentile is exact. */
struct samples {
	uint32_t *us;
	size_t count, room;
};

static inline void samples_add(struct samples *samples, uint64_t ns)
{
	uint64_t us = ns / 1000;

	if (samples->count == samples->room) {
		samples->room = samples->room ? samples->room * 2 : 1024;
		samples->us = realloc(samples->us, samples->room * sizeof(*samples->us));
		if (!samples->us)
			die("out of memory for %zu samples", samples->room);
	}
	samples->us[samples->count++] = us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

static inline int samples_compare(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	return (left > right) - (left < right);
}

/* Prints {"n":..., "p50":..., "p99":..., "max":...} in ms; percentiles of nothing are null. */
static inline void samples_print(struct samples *samples)
{
	size_t n = samples->count;

	if (!n) {
		printf("{\"n\": 0, \"p50\": null, \"p99\": null, \"max\": null}");
		return;
	}
	qsort(samples->us, n, sizeof(*samples->us), samples_compare);
	printf("{\"n\": %zu, \"p50\": %.2f, \"p99\": %.2f, \"max\": %.2f}", n, samples->us[(n - 1) / 2] / 1e3,
	       samples->us[(n - 1) * 99 / 100] / 1e3, samples->us[n - 1] / 1e3);
}

/* --- signals --------------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t tool_stopped;

static inline void tool_stop(int signal)
{
	(void)signal;
	tool_stopped = 1;
}

/* Without SA_RESTART: waits return at once. */
static inline void tool_on_signal(int signal, void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler};

	sigaction(signal, &action, NULL);
}

static inline void tool_signals(void)
{
	tool_on_signal(SIGTERM, tool_stop);
	tool_on_signal(SIGINT, tool_stop);
	signal(SIGPIPE, SIG_IGN);
}

/* As many sockets as the machine lets us have: the usual 1024 are too few. */
static inline void tool_open_files(void)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_NOFILE, &limit)) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* The one line on stdout that a script waits for before it sends anything. */
static inline void tool_ready(void)
{
	puts("ready");
	fflush(stdout);
}

#endif /* SLUICE_TEST_TOOL_H */
