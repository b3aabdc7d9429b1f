// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/accept_queues.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <string.h>

#include "user/control/address.h"
#include "user/control/adopt.h"
#include "user/control/listen_match.h"
#include "user/control/log.h"
#include "user/control/scope.h"

#define ADOPT_AFTER_NS (200 * NS_PER_MS) /* one made just now gets its ring from sockops */
#define ADOPT_AGAIN_NS (10 * NS_PER_S)
#define RINGS_EVERY_NS (10 * NS_PER_S)

/* Connections that the application or the kernel still holds; TIME_WAIT and half-open ones are none. */
#define OPEN_STATES                                                                                 \
	(1u << TCP_ESTABLISHED | 1u << TCP_FIN_WAIT1 | 1u << TCP_FIN_WAIT2 | 1u << TCP_CLOSE_WAIT | \
	 1u << TCP_LAST_ACK | 1u << TCP_CLOSING)

/* --- one look -------------------------------------------------------------------------------------------------------- */

struct look {
	struct diag_list *lists; /* by namespace */
	bool complete; /* every namespace answered */
	struct listener *found;
	size_t count;
};

static void look_free(struct look *look, size_t netns_count)
{
	for (size_t i = 0; look->lists && i < netns_count; i++)
		diag_list_free(&look->lists[i]);
	free(look->lists);
	free(look->found);
}

static const struct listener *by_cookie(const struct daemon *d, uint64_t cookie)
{
	for (size_t i = 0; i < d->listener_count; i++) {
		if (d->listeners[i].socket.cookie == cookie)
			return &d->listeners[i];
	}
	return NULL;
}

static bool port_served(const struct daemon *d, size_t ns, uint16_t port)
{
	for (size_t s = 0; s < d->service_count; s++) {
		const struct service *service = d->services[s];

		for (size_t k = 0; service->ns == ns && k < service->key_count; k++) {
			if (service->keys[k].port == port && service->keys[k].proto == IPPROTO_TCP)
				return true;
		}
	}
	return false;
}

/* Listeners on ports of services, with what was known of them. Others are of no interest, and may be many. */
static int collect(const struct daemon *d, struct look *look)
{
	size_t total = 0;

	for (size_t n = 0; n < d->netns_count; n++)
		total += look->lists[n].count;
	look->found = calloc(total ? total : 1, sizeof(*look->found));
	if (!look->found)
		return -ENOMEM;
	for (size_t n = 0; n < d->netns_count; n++) {
		for (size_t i = 0; i < look->lists[n].count; i++) {
			const struct diag_socket *socket = &look->lists[n].sockets[i];
			const struct listener *known;

			if (!port_served(d, n, socket->port))
				continue;
			known = by_cookie(d, socket->cookie);
			if (known)
				look->found[look->count] = *known;
			look->found[look->count].drops = known ? socket->drops - known->socket.drops : 0;
			look->found[look->count].socket = *socket;
			look->found[look->count].ns = n;
			look->count++;
		}
	}
	return 0;
}

static int dump_all(const struct daemon *d, struct look *look)
{
	look->complete = true;
	look->lists = calloc(d->netns_count ? d->netns_count : 1, sizeof(*look->lists));
	if (!look->lists)
		return -ENOMEM;
	for (size_t n = 0; n < d->netns_count; n++) {
		if (d->netns[n].diag_fd < 0)
			continue; /* gone: what listened there is gone too */
		if (sockdiag_dump(d->netns[n].diag_fd, 1u << TCP_LISTEN, 0, &look->lists[n]))
			look->complete = false;
	}
	return 0;
}

/* --- rings --------------------------------------------------------------------------------------------------------------- */

struct rings {
	struct ring {
		uint64_t cookie;
		uint32_t uid;
	} at[SLC_LISTENERS];
	size_t count;
};

static void note_ring(uint64_t cookie, uint32_t uid, uint16_t state, void *arg)
{
	struct rings *rings = arg;

	(void)state;
	if (rings->count < SLC_LISTENERS)
		rings->at[rings->count++] = (struct ring){cookie, uid};
}

static struct listener *in_look(const struct look *look, uint64_t cookie)
{
	for (size_t i = 0; i < look->count; i++) {
		if (look->found[i].socket.cookie == cookie)
			return &look->found[i];
	}
	return NULL;
}

/*
 * `rings` were listed before the sockets were: a ring whose listener is not among these has lost it, in another life
 * of the daemon.
 */
static void drop_orphans(struct daemon *d, const struct rings *rings, const struct look *look)
{
	for (size_t r = 0; r < rings->count; r++) {
		struct listener *l = in_look(look, rings->at[r].cookie);

		if (l && daemon_service_by_uid(d, rings->at[r].uid))
			continue;
		datapath_drop_listener(d->dp, rings->at[r].cookie);
		if (l)
			l->ring = false; /* of a service that was renamed: adopted for the new one */
	}
}

/* Those of the last look that are gone. Their rings go at once: rings are few. */
static void drop_vanished(struct daemon *d, const struct look *look)
{
	for (size_t i = 0; i < d->listener_count; i++) {
		if (d->listeners[i].ring && !in_look(look, d->listeners[i].socket.cookie))
			datapath_drop_listener(d->dp, d->listeners[i].socket.cookie);
	}
}

static void judge_ring(const struct daemon *d, struct listener *l, uint64_t now_ns)
{
	uint64_t age_ns = 0;

	if (l->ring && l->socket.rqueue == 0) {
		l->head_age_ns = 0;
		return;
	}
	l->ring = datapath_head_age(d->dp, l->socket.cookie, l->socket.rqueue, now_ns, &age_ns) == 0;
	if (l->ring) {
		l->head_age_ns = age_ns;
		l->missing_since_ns = 0;
		l->blind[0] = '\0';
		if (!l->ring_since_ns)
			l->ring_since_ns = now_ns;
	} else if (!l->missing_since_ns) {
		l->missing_since_ns = now_ns;
	}
}

/* --- by service -------------------------------------------------------------------------------------------------------------- */

static bool fuller(const struct diag_socket *a, uint32_t length, uint32_t limit)
{
	uint64_t left = (uint64_t)a->rqueue * (limit ? limit : 1),
		 right = (uint64_t)length * (a->wqueue ? a->wqueue : 1);

	return left != right ? left > right : a->rqueue > length;
}

/* The first reason stands. */
__attribute__((format(printf, 2, 3))) static void name_blind(struct queue_view *view, const char *fmt, ...)
{
	va_list args;

	if (view->blind[0])
		return;
	va_start(args, fmt);
	vsnprintf(view->blind, sizeof(view->blind), fmt, args);
	va_end(args);
}

static void add_to_view(struct queue_view *view, const struct listener *l)
{
	if (view->listeners == 0 || fuller(&l->socket, view->length, view->limit)) {
		view->length = l->socket.rqueue;
		view->limit = l->socket.wqueue;
	}
	view->listeners++;
	if (l->ring && (!view->has_head_age || l->head_age_ns > view->head_age_ns)) {
		view->has_head_age = true;
		view->head_age_ns = l->head_age_ns;
	}
	if (l->socket.ifindex)
		name_blind(view, "a listener is bound to a device: the gate may not find it");
	if (!l->ring && l->blind[0])
		name_blind(view, "%s", l->blind);
}

/* SO_REUSEPORT: listeners of one address share its SYNs by hash. */
static bool share(const struct diag_socket *a, const struct diag_socket *b)
{
	return a->port == b->port && a->family == b->family && memcmp(a->addr, b->addr, sizeof(a->addr)) == 0;
}

static uint32_t count_sharers(const struct look *look, const size_t *mine, size_t count)
{
	uint32_t fewest = 1;

	for (size_t i = 0; i < count; i++) {
		uint32_t group = 0;

		for (size_t j = 0; j < count; j++)
			group += share(&look->found[mine[i]].socket, &look->found[mine[j]].socket);
		if (i == 0 || group < fewest)
			fewest = group;
	}
	return fewest;
}

static void view_service(struct daemon *d, struct look *look, const struct service_keys *keys, size_t which)
{
	struct service *service = d->services[which];
	struct queue_view view = {0};
	size_t *mine = NULL;

	if (service->policy.proto != IPPROTO_TCP)
		name_blind(&view, "UDP has no accept queue");
	else if (service->ns == NO_NETNS)
		name_blind(&view, "network namespace %s is not there", service->config->netns);
	else if (look->count)
		mine = calloc(look->count, sizeof(*mine));
	for (size_t i = 0; mine && i < look->count; i++) {
		const struct listener *l = &look->found[i];

		if (l->ns != service->ns ||
		    !listen_match(keys, d->service_count, which, &look->lists[l->ns], &l->socket))
			continue;
		mine[view.listeners] = i;
		service->drops += l->drops;
		add_to_view(&view, l);
	}
	if (view.listeners == 0)
		name_blind(&view, "nobody listens");
	view.sharers = count_sharers(look, mine, view.listeners);
	free(service->listeners);
	service->listeners = mine;
	service->queue = view;
	service->listening = view.listeners > 0;
	service->was_listening |= service->listening;
}

static bool view_services(struct daemon *d, struct look *look)
{
	struct service_keys *keys = calloc(d->service_count ? d->service_count : 1, sizeof(*keys));

	if (!keys)
		return false;
	for (size_t s = 0; s < d->service_count; s++) {
		/* An address that a service names belongs to it within its own namespace only. */
		for (size_t other = 0; other < d->service_count; other++) {
			const struct service *service = d->services[other];
			bool near = service->ns == d->services[s]->ns;

			keys[other] = (struct service_keys){service->keys, near ? service->key_count : 0};
		}
		view_service(d, look, keys, s);
	}
	free(keys);
	return true;
}

/* Reading all rings costs 32 KiB each: seldom. */
static void list_rings(struct daemon *d, uint64_t now_ns, struct rings *rings)
{
	if (d->rings_ns && now_ns - d->rings_ns < RINGS_EVERY_NS)
		return;
	d->rings_ns = now_ns;
	datapath_listeners_walk(d->dp, note_ring, rings);
}

void listeners_look(struct daemon *d, uint64_t now_ns)
{
	struct look look = {0};
	struct rings rings = {0};

	list_rings(d, now_ns, &rings);
	if (dump_all(d, &look) || !look.complete) {
		/* A dump that is not complete proves nothing. */
		if (!d->listeners_blind)
			log_warning("sock_diag does not answer: the accept queues in status are those of before");
		d->listeners_blind = true;
		look_free(&look, d->netns_count);
		return;
	}
	d->listeners_blind = false;
	if (collect(d, &look) == 0) {
		drop_orphans(d, &rings, &look);
		drop_vanished(d, &look);
		for (size_t i = 0; i < look.count; i++)
			judge_ring(d, &look.found[i], now_ns);
		if (view_services(d, &look)) {
			free(d->listeners);
			d->listeners = look.found;
			d->listener_count = look.count;
			look.found = NULL;
		}
	}
	look_free(&look, d->netns_count);
}

/* --- adoption ------------------------------------------------------------------------------------------------------------------ */

static const struct service *service_of(const struct daemon *d, size_t listener)
{
	for (size_t s = 0; s < d->service_count; s++) {
		const struct service *service = d->services[s];

		for (size_t i = 0; service->listeners && i < service->queue.listeners; i++) {
			if (service->listeners[i] == listener)
				return service;
		}
	}
	return NULL;
}

static size_t wanted(const struct daemon *d, uint64_t now_ns, uint64_t after_ns, struct adopt_want **ret_wants)
{
	struct adopt_want *wants = calloc(d->listener_count ? d->listener_count : 1, sizeof(*wants));
	size_t count = 0;

	for (size_t i = 0; wants && i < d->listener_count; i++) {
		const struct listener *l = &d->listeners[i];

		if (l->ring || now_ns - l->missing_since_ns < after_ns || !service_of(d, i))
			continue;
		wants[count++] = (struct adopt_want){.cookie = l->socket.cookie, .inode = l->socket.inode, .fd = -1};
	}
	*ret_wants = wants;
	return count;
}

static int adopt_one(struct daemon *d, struct listener *l, const struct service *service, const struct adopt_want *want,
		     uint64_t now_ns)
{
	SCOPE_FD fd = -1;
	int err = adopt_take(want, &fd);

	if (!err)
		err = datapath_adopt_listener(d->dp, fd, want->cookie, service->policy.uid, service->policy.state,
					      l->socket.rqueue, now_ns);
	l->pid = want->pid;
	if (!err) {
		l->adopted = true;
		return 0;
	}
	if (err == -ENOENT)
		snprintf(l->blind, sizeof(l->blind), "no head age: no process in sight holds the listener");
	else
		snprintf(l->blind, sizeof(l->blind), "no head age: the listener of pid %d cannot be reached: %s",
			 want->pid, strerror(-err));
	return err;
}

static void adopt_found(struct daemon *d, const struct adopt_want *wants, size_t count, uint64_t now_ns)
{
	size_t adopted = 0;

	for (size_t w = 0; w < count; w++) {
		for (size_t i = 0; i < d->listener_count; i++) {
			const struct service *service;

			if (d->listeners[i].socket.cookie != wants[w].cookie)
				continue;
			service = service_of(d, i);
			if (service && adopt_one(d, &d->listeners[i], service, &wants[w], now_ns) == 0)
				adopted++;
		}
	}
	if (adopted)
		log_info("%zu listeners were there before: their arrivals are counted from now on", adopted);
}

void listeners_adopt_now(struct daemon *d, uint64_t now_ns)
{
	SCOPE_FREE struct adopt_want *wants = NULL;
	size_t count = wanted(d, now_ns, 0, &wants);

	if (count == 0)
		return;
	adopt_find(wants, count);
	adopt_found(d, wants, count, now_ns);
	listeners_look(d, now_ns);
}

struct adopt_work {
	uv_work_t req;
	struct daemon *d;
	struct adopt_want *wants;
	size_t count;
};

static void adopt_search(uv_work_t *req)
{
	struct adopt_work *work = req->data;

	adopt_find(work->wants, work->count);
}

static void adopt_done(uv_work_t *req, int status)
{
	struct adopt_work *work = req->data;
	struct daemon *d = work->d;

	pthread_mutex_lock(&d->lock);
	if (status == 0 && d->dp && !d->stopping)
		adopt_found(d, work->wants, work->count, clock_ns());
	d->adopting = false;
	pthread_mutex_unlock(&d->lock);
	free(work->wants);
	free(work);
}

void listeners_adopt_later(struct daemon *d, uint64_t now_ns)
{
	struct adopt_work *work;
	struct adopt_want *wants = NULL;
	size_t count;

	if (d->adopting || now_ns < d->adopt_ns || !d->sockops)
		return;
	count = wanted(d, now_ns, ADOPT_AFTER_NS, &wants);
	work = count ? calloc(1, sizeof(*work)) : NULL;
	if (!work) {
		free(wants);
		return;
	}
	*work = (struct adopt_work){.req.data = work, .d = d, .wants = wants, .count = count};
	d->adopt_ns = now_ns + ADOPT_AGAIN_NS;
	d->adopting = uv_queue_work(&d->loop, &work->req, adopt_search, adopt_done) == 0;
	if (!d->adopting) {
		free(wants);
		free(work);
	}
}

/* --- connections from before the start ------------------------------------------------------------------------------------------- */

bool listeners_connection_of(const struct service *service, const struct diag_socket *socket)
{
	const uint8_t *any = address_is_v4(socket->addr) ? address_any_v4 : address_any_v6;

	for (size_t k = 0; k < service->key_count; k++) {
		const struct slc_service_key *key = &service->keys[k];

		if (key->port != socket->port)
			continue;
		if (address_equal(key->addr, socket->addr) || address_equal(key->addr, any))
			return true;
	}
	return false;
}

/* -errno, or the number of the service's connections by sock_diag. A port is asked for once. */
static int64_t count_open(const struct daemon *d, const struct service *service)
{
	int64_t count = 0;

	for (size_t k = 0; k < service->key_count; k++) {
		struct diag_list list = {0};
		bool asked = false;
		int err;

		for (size_t j = 0; j < k && !asked; j++)
			asked = service->keys[j].port == service->keys[k].port;
		if (asked)
			continue;
		err = sockdiag_dump(d->netns[service->ns].diag_fd, OPEN_STATES, service->keys[k].port, &list);
		if (err)
			return err;
		for (size_t i = 0; i < list.count; i++)
			count += listeners_connection_of(service, &list.sockets[i]);
		diag_list_free(&list);
	}
	return count;
}

void listeners_count_before_start(struct daemon *d, struct service *service, uint64_t now_ns, uint64_t max_age_ns)
{
	uint64_t counted;
	int64_t open;

	if (service->before_start_over || service->policy.proto != IPPROTO_TCP || service->ns == NO_NETNS ||
	    d->netns[service->ns].diag_fd < 0)
		return;
	if (service->before_start_ns && now_ns - service->before_start_ns < max_age_ns)
		return;
	open = count_open(d, service);
	if (open < 0)
		return;
	counted = datapath_signals(d->dp, service->policy.state)->open;
	service->before_start = (uint64_t)open > counted ? open - counted : 0;
	service->before_start_ns = now_ns;
	/* Without sockops nothing is counted: then all of them are, and stay, unknown. */
	service->before_start_over = service->before_start == 0 && d->sockops;
}
