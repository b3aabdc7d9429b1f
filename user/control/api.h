/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * api.h: HTTP on the UNIX socket for orders and status, and on a TCP address for /metrics alone. libmicrohttpd's own
 * threads call the routes; these take the daemon's lock to build an answer, and send it without.
 */
#ifndef SLUICE_API_H
#define SLUICE_API_H

#include <jansson.h>

#include "user/control/daemon.h"
#include "user/control/problem.h"

#define API_BODY_MAX (1u << 20)

struct call {
	struct daemon *d;
	const char *segment; /* NAME, ADDR or ID in the path */
	json_t *body; /* object, or NULL */
	uint32_t uid; /* of the caller */
	const char *(*query)(void *arg, const char *key);
	void *query_arg;
	bool waited; /* asked again, after it had answered `wait` */
	uint64_t wait_until_ns; /* as it had said then */
};

/* Either `json`, or `text` of `type`. Both are taken over. */
struct reply {
	json_t *json;
	char *text;
	size_t len;
	const char *type;
	int status; /* 0: 200 */
	bool last; /* the daemon ends when this is sent */
	bool wait; /* no answer yet: asked again at wait_until_ns, or when the newest event is not wait_seq */
	uint64_t wait_until_ns, wait_seq;
};

struct route {
	const char *method, *path; /* one segment may be "*" */
	const char *shown; /* the path for people */
	int (*run)(const struct call *call, struct reply *reply, struct problem *problem);
	bool locked; /* runs with the daemon's lock held */
	bool public; /* on the TCP address too */
};
extern const struct route routes[];
extern const size_t route_count;

/* 404 with the known names and the nearest. With the lock held. */
int find_service(const struct call *call, const char *name, struct service **ret_service, struct problem *problem);

/* The sockets, before anything is attached: an address that is taken must not be found out afterwards. */
int api_open(struct daemon *d, const struct config *config, char *why, size_t why_len);
int api_serve(struct daemon *d, char *why, size_t why_len);
/* Asks those that wait again, where there is a reason to; `seq` is of the newest event. From any thread. */
void api_wake(struct daemon *d, uint64_t now_ns, uint64_t seq);
void api_stop(struct daemon *d);

#endif /* SLUICE_API_H */
