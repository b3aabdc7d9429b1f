// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/unread.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

#include "user/control/accept_queues.h"
#include "user/control/clock.h"
#include "user/control/daemon.h"
#include "user/control/figures_json.h"

#define LOOK_EVERY_NS NS_PER_S
#define LOOK_AGAIN_NS (30 * NS_PER_S) /* after too many connections, whose number only the look told */
#define BUDGET_NS (4 * NS_PER_MS) /* of one tick: no further service is looked at after it */
#define STALE_NS (10 * NS_PER_S)

bool unread_turns_off(const struct daemon *d, const struct service *service)
{
	return datapath_modes(d->dp)->no_turns || service->config->turns == SLC_TURNS_opaque;
}

static bool is_wanted(const struct daemon *d, const struct service *service)
{
	return service->policy.proto == IPPROTO_TCP && unread_turns_off(d, service);
}

/* It is known no more. */
static void give_up(struct unread *unread, const char *why)
{
	unread->known = false;
	snprintf(unread->why, sizeof(unread->why), "%s", why);
}

static void say_too_many(struct unread *unread, uint64_t count)
{
	char why[sizeof(unread->why)];

	snprintf(why, sizeof(why), "%llu connections: of more than %d each look would cost too much",
		 (unsigned long long)count, UNREAD_CONNECTIONS_MAX);
	give_up(unread, why);
}

void unread_sum(const struct diag_socket *sockets, size_t count,
		bool (*is_of)(const struct service *service, const struct diag_socket *socket),
		const struct service *service, struct unread *unread)
{
	for (size_t i = 0; i < count; i++) {
		const struct diag_socket *socket = &sockets[i];
		uint64_t age_ns = (uint64_t)socket->last_received_ms * NS_PER_MS;

		if (!socket->rqueue || !is_of(service, socket))
			continue;
		unread->connections++;
		unread->bytes += socket->rqueue;
		if (age_ns > unread->age_ns)
			unread->age_ns = age_ns;
	}
}

/* A port is asked for once. */
static bool asked_before(const struct service *service, size_t key)
{
	for (size_t k = 0; k < key; k++) {
		if (service->keys[k].port == service->keys[key].port)
			return true;
	}
	return false;
}

static void look_at(const struct daemon *d, struct service *service, uint64_t now_ns)
{
	struct unread seen = {.known = true, .seen_ns = now_ns, .next_ns = now_ns + LOOK_EVERY_NS};
	uint64_t open = datapath_signals(d->dp, service->policy.state)->open + service->before_start;
	size_t total = 0;

	if (service->ns == NO_NETNS || d->netns[service->ns].diag_fd < 0) {
		give_up(&seen, "its network namespace is not there");
	} else if (open > UNREAD_CONNECTIONS_MAX) {
		say_too_many(&seen, open);
	}
	for (size_t k = 0; k < service->key_count && seen.known; k++) {
		struct diag_list list = {0};

		if (asked_before(service, k))
			continue;
		if (sockdiag_dump(d->netns[service->ns].diag_fd, 1u << TCP_ESTABLISHED, service->keys[k].port, &list))
			give_up(&seen, "sock_diag does not answer");
		unread_sum(list.sockets, list.count, listeners_connection_of, service, &seen);
		total += list.count;
		diag_list_free(&list);
	}
	if (seen.known && total > UNREAD_CONNECTIONS_MAX) {
		seen.next_ns = now_ns + LOOK_AGAIN_NS;
		say_too_many(&seen, total);
	}
	service->unread = seen;
}

void unread_look(struct daemon *d, uint64_t now_ns)
{
	uint64_t began_ns = clock_ns();

	for (size_t i = 0; i < d->service_count; i++) {
		struct service *service = d->services[(d->unread_cursor + i) % d->service_count];

		if (!is_wanted(d, service) || now_ns < service->unread.next_ns)
			continue;
		look_at(d, service, now_ns);
		if (clock_ns() - began_ns < BUDGET_NS)
			continue;
		d->unread_cursor = (d->unread_cursor + i + 1) % d->service_count;
		return;
	}
}

bool unread_known(const struct unread *unread, uint64_t now_ns)
{
	return unread->known && now_ns - unread->seen_ns < STALE_NS;
}

json_t *unread_json(const struct daemon *d, const struct service *service, uint64_t now_ns)
{
	const struct unread *unread = &service->unread;
	bool known = unread_known(unread, now_ns);

	if (!is_wanted(d, service))
		return json_null();
	return json_pack("{s:o, s:o, s:o, s:s?}", "connections",
			 known ? json_integer((json_int_t)unread->connections) : json_null(), "bytes",
			 known ? json_integer((json_int_t)unread->bytes) : json_null(), "age_ms",
			 known ? milliseconds_json(unread->age_ns) : json_null(), "why",
			 unread->why[0] ? unread->why : NULL);
}
