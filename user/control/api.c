// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/api.h"

#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <microhttpd.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "user/control/log.h"
#include "user/control/scope.h"
#include "user/control/status.h"
#include "user/directories.h"

#define JSON_TYPE "application/json"
#define CONNECTIONS_MAX 128
#define WAITING_MAX 64 /* half of the connections are left for others */
#define IDLE_S 30

struct api {
	struct MHD_Daemon *unix_side, *tcp_side;
	pthread_mutex_t waiting_lock; /* taken last: never around anything else */
	struct request *waiting;
	unsigned int waiting_count;
	bool stopping; /* nobody waits any more */
	int unix_fd, tcp_fd; /* ours until they are served */
	char socket[108];
	dev_t socket_dev;
	ino_t socket_ino;
};

/* One request while its body arrives. */
struct request {
	char *body;
	size_t len;
	bool too_long;
	bool last;
	bool waited;
	struct MHD_Connection *connection; /* suspended, while it is in api.waiting */
	uint64_t until_ns, seq;
	struct request *next;
};

/* --- requests that wait ------------------------------------------------------------------------------------------ */

/*
 * A suspended connection costs a descriptor and no thread. It is resumed from the loop; libmicrohttpd then calls the
 * handler again with the same request, which answers with what there is.
 */
static bool suspend_request(struct api *api, struct MHD_Connection *connection, struct request *request,
			    const struct reply *reply)
{
	SCOPE_LOCK(&api->waiting_lock);
	if (api->stopping || api->waiting_count >= WAITING_MAX)
		return false;
	request->waited = true;
	request->connection = connection;
	request->until_ns = reply->wait_until_ns;
	request->seq = reply->wait_seq;
	request->next = api->waiting;
	api->waiting = request;
	api->waiting_count++;
	MHD_suspend_connection(connection);
	return true;
}

static void resume_requests(struct api *api, uint64_t now_ns, uint64_t seq, bool all)
{
	SCOPE_LOCK(&api->waiting_lock);
	for (struct request **at = &api->waiting; *at;) {
		struct request *request = *at;

		if (!all && request->until_ns > now_ns && request->seq == seq) {
			at = &request->next;
			continue;
		}
		*at = request->next;
		api->waiting_count--;
		MHD_resume_connection(request->connection);
	}
}

void api_wake(struct daemon *d, uint64_t now_ns, uint64_t seq)
{
	if (d->api)
		resume_requests(d->api, now_ns, seq, false);
}

/* --- answers ---------------------------------------------------------------------------------------------------- */

static enum MHD_Result send_text(struct MHD_Connection *connection, int status, char *text, size_t len,
				 const char *type, const char *allow)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE);
	enum MHD_Result sent;

	if (!response) {
		free(text);
		return MHD_NO;
	}
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	if (allow)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, allow);
	sent = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return sent;
}

static enum MHD_Result send_json(struct MHD_Connection *connection, int status, json_t *json, const char *allow)
{
	char *text = json ? json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL, *line = NULL;
	int len = text ? asprintf(&line, "%s\n", text) : -1;

	free(text);
	json_decref(json);
	return len < 0 ? MHD_NO : send_text(connection, status, line, len, JSON_TYPE, allow);
}

static void set_text(json_t *json, const char *key, const char *text)
{
	if (text[0])
		json_object_set_new(json, key, text_json(text));
}

static enum MHD_Result send_problem(struct MHD_Connection *connection, const struct problem *problem, const char *allow)
{
	json_t *error = json_object();

	json_object_set_new(error, "message", text_json(problem->message));
	set_text(error, "key", problem->key);
	set_text(error, "value", problem->value);
	set_text(error, "accepted", problem->accepted);
	set_text(error, "hint", problem->hint);
	return send_json(connection, problem->status, json_pack("{s:o}", "error", error), allow);
}

static enum MHD_Result send_reply(struct MHD_Connection *connection, struct reply *reply, int status)
{
	if (reply->text)
		return send_text(connection, status, reply->text, reply->len, reply->type, NULL);
	return send_json(connection, status, reply->json, NULL);
}

/* --- routes ------------------------------------------------------------------------------------------------------- */

/* Whether `url` has the form of `path`; the segment that stands for "*" is copied. */
static bool path_match(const char *path, const char *url, char *segment, size_t len)
{
	while (*path && *path != '*') {
		if (*path++ != *url++)
			return false;
	}
	if (*path == '*') {
		size_t n = strcspn(url, "/");

		if (n == 0 || n >= len)
			return false;
		memcpy(segment, url, n);
		segment[n] = '\0';
		return path_match(path + 1, url + n, segment, len);
	}
	return *url == '\0';
}

static const struct route *find_route(const char *method, const char *url, bool tcp, char *segment, size_t len,
				      char *allow, size_t allow_len)
{
	size_t used = 0;

	allow[0] = '\0';
	for (size_t i = 0; i < route_count; i++) {
		if ((tcp && !routes[i].public) || !path_match(routes[i].path, url, segment, len))
			continue;
		if (strcmp(routes[i].method, method) == 0)
			return &routes[i];
		if (used < allow_len)
			used += snprintf(allow + used, allow_len - used, "%s%s", used ? ", " : "", routes[i].method);
	}
	return NULL;
}

static enum MHD_Result no_route(struct MHD_Connection *connection, const char *method, const char *url, bool tcp,
				const char *allow)
{
	struct problem problem;
	char known[1024] = "";
	size_t used = 0;

	if (allow[0]) {
		problem_value(&problem, MHD_HTTP_METHOD_NOT_ALLOWED, "method", method, allow, NULL,
			      "%s is not for %.200s", method, url);
		return send_problem(connection, &problem, allow);
	}
	for (size_t i = 0; i < route_count && used < sizeof(known); i++) {
		if (!tcp || routes[i].public)
			used += snprintf(known + used, sizeof(known) - used, "%s%s %s", used ? ", " : "",
					 routes[i].method, routes[i].shown);
	}
	problem_value(&problem, MHD_HTTP_NOT_FOUND, "path", url, NULL, NULL, "no such path; there are: %s", known);
	return send_problem(connection, &problem, NULL);
}

static const char *query(void *arg, const char *key)
{
	return MHD_lookup_connection_value(arg, MHD_GET_ARGUMENT_KIND, key);
}

/* As in "?service=NAME&limit=N". */
static bool takes(const char *shown, const char *key)
{
	size_t len = strlen(key);

	for (const char *at = strchr(shown, '?'); at; at = strchr(at + 1, '&')) {
		if (strncmp(at + 1, key, len) == 0 && at[1 + len] == '=')
			return true;
	}
	return false;
}

struct query_check {
	const struct route *route;
	struct problem *problem;
	int err;
};

static enum MHD_Result check_one_query(void *arg, enum MHD_ValueKind kind, const char *key, const char *value)
{
	struct query_check *check = arg;
	const char *accepted = strchr(check->route->shown, '?');
	char quoted[QUOTE_LEN];

	(void)kind;
	if (takes(check->route->shown, key))
		return MHD_YES;
	check->err = problem_value(check->problem, MHD_HTTP_BAD_REQUEST, key, value,
				   accepted ? accepted + 1 : "no parameters", NULL, "unknown parameter %s",
				   quote(key, quoted));
	return MHD_NO;
}

/* As with the keys of a body. What a scraper adds for its own purposes does no harm. */
static int check_query(struct MHD_Connection *connection, const struct route *route, struct problem *problem)
{
	struct query_check check = {.route = route, .problem = problem};

	if (!route->public)
		MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, check_one_query, &check);
	return check.err;
}

static uint32_t caller(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct ucred cred = {.uid = (uid_t)-1};
	socklen_t len = sizeof(cred);

	if (info)
		getsockopt(info->connect_fd, SOL_SOCKET, SO_PEERCRED, &cred, &len);
	return cred.uid;
}

static int parse_body(const struct request *request, json_t **ret_body, struct problem *problem)
{
	json_error_t error;
	json_t *body;

	if (request->len == 0)
		return 0;
	body = json_loadb(request->body, request->len, JSON_REJECT_DUPLICATES, &error);
	if (!body)
		return problem_say(problem, MHD_HTTP_BAD_REQUEST,
				   "the body is not JSON in UTF-8: line %d column %d: %s", error.line, error.column,
				   error.text);
	if (!json_is_object(body)) {
		json_decref(body);
		return problem_value(problem, MHD_HTTP_BAD_REQUEST, "body", NULL,
				     "an object, as in {\"key\": \"value\"}", NULL,
				     "the body is JSON, but not an object");
	}
	*ret_body = body;
	return 0;
}

/* A daemon that has detached has no maps to answer from. */
static int run_route(const struct route *route, const struct call *call, struct reply *reply, struct problem *problem)
{
	if (!route->locked)
		return route->run(call, reply, problem);
	SCOPE_LOCK(&call->d->lock);
	if (!call->d->dp)
		return problem_say(problem, MHD_HTTP_SERVICE_UNAVAILABLE, "sluiced is detached and ends");
	return route->run(call, reply, problem);
}

static enum MHD_Result answer(struct daemon *d, struct MHD_Connection *connection, const char *url, const char *method,
			      struct request *request, bool tcp)
{
	struct call call = {.d = d, .query = query, .query_arg = connection};
	struct reply reply = {0};
	struct problem problem = {.status = MHD_HTTP_INTERNAL_SERVER_ERROR};
	SCOPE_JSON *body = NULL;
	char segment[256] = "", allow[64];
	const struct route *route;

	route = find_route(method, url, tcp, segment, sizeof(segment), allow, sizeof(allow));
	if (!route)
		return no_route(connection, method, url, tcp, allow);
	if (request->too_long) {
		problem_value(&problem, MHD_HTTP_CONTENT_TOO_LARGE, "body", NULL, "1 MiB at most", NULL,
			      "the body is longer than 1 MiB");
		return send_problem(connection, &problem, NULL);
	}
	if (check_query(connection, route, &problem) || parse_body(request, &body, &problem))
		return send_problem(connection, &problem, NULL);
	call.segment = segment;
	call.body = body;
	call.uid = tcp ? (uint32_t)-1 : caller(connection);
	call.waited = request->waited;
	call.wait_until_ns = request->until_ns;
	if (run_route(route, &call, &reply, &problem)) {
		json_decref(reply.json);
		free(reply.text);
		return send_problem(connection, &problem, NULL);
	}
	if (reply.wait) {
		if (suspend_request(d->api, connection, request, &reply))
			return MHD_YES;
		problem_value(&problem, MHD_HTTP_SERVICE_UNAVAILABLE, "wait", NULL, NULL,
			      "ask without `wait`, or later", "%d requests wait already, or sluiced is stopping",
			      WAITING_MAX);
		return send_problem(connection, &problem, NULL);
	}
	request->last = reply.last;
	return send_reply(connection, &reply, reply.status ? reply.status : MHD_HTTP_OK);
}

/* --- requests --------------------------------------------------------------------------------------------------------- */

static void take_body(struct request *request, const char *data, size_t len)
{
	char *bigger;

	if (request->too_long || len > API_BODY_MAX - request->len) {
		request->too_long = true;
		return;
	}
	bigger = realloc(request->body, request->len + len);
	if (!bigger) {
		request->too_long = true;
		return;
	}
	memcpy(bigger + request->len, data, len);
	request->body = bigger;
	request->len += len;
}

static enum MHD_Result handle(struct daemon *d, struct MHD_Connection *connection, const char *url, const char *method,
			      const char *data, size_t *len, void **state, bool tcp)
{
	struct request *request = *state;

	if (!request) {
		*state = calloc(1, sizeof(*request));
		return *state ? MHD_YES : MHD_NO;
	}
	if (*len) {
		take_body(request, data, *len);
		*len = 0;
		return MHD_YES;
	}
	return answer(d, connection, url, method, request, tcp);
}

static enum MHD_Result handle_unix(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
				   const char *version, const char *data, size_t *len, void **state)
{
	(void)version;
	return handle(arg, connection, url, method, data, len, state, false);
}

static enum MHD_Result handle_tcp(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
				  const char *version, const char *data, size_t *len, void **state)
{
	(void)version;
	return handle(arg, connection, url, method, data, len, state, true);
}

static void completed(void *arg, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode code)
{
	struct request *request = *state;

	(void)connection;
	(void)code;
	if (!request)
		return;
	if (request->last)
		daemon_stop(arg);
	free(request->body);
	free(request);
	*state = NULL;
}

/* --- sockets -------------------------------------------------------------------------------------------------------------- */

/* A socket file that nobody serves is left from a daemon that was killed. */
static int clear_stale(const struct sockaddr_un *address)
{
	SCOPE_FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (lstat(address->sun_path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0)
		return -EADDRINUSE;
	if (errno != ECONNREFUSED)
		return -errno;
	return unlink(address->sun_path) < 0 ? -errno : 0;
}

/* Only the owner until group and mode are right: the order of the calls leaves no gap. */
static int bind_private(int fd, const struct sockaddr_un *address, const char *group)
{
	struct group *entry = group[0] ? getgrnam(group) : NULL;
	mode_t mask;
	int err;

	if (group[0] && !entry)
		return -ENOKEY;
	mask = umask(0177);
	err = bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ? -errno : 0;
	umask(mask);
	if (err)
		return err;
	if (entry && chown(address->sun_path, (uid_t)-1, entry->gr_gid) < 0)
		return -errno;
	if (chmod(address->sun_path, 0660) < 0 || listen(fd, 64) < 0)
		return -errno;
	return 0;
}

static int listen_unix(struct daemon *d, const char *group, int *ret_fd, char *why, size_t why_len)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	SCOPE_FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;
	int err = fd < 0 ? -errno : 0;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", d->socket);
	if (!err)
		err = make_parents(d->socket, 0755);
	if (!err)
		err = clear_stale(&address);
	if (!err)
		err = bind_private(fd, &address, group);
	if (err) {
		snprintf(why, why_len, "control.socket %s: %s", d->socket,
			 err == -ENOKEY       ? "control.group: there is no such group"
			 : err == -EEXIST     ? "there is a file of this name that is no socket"
			 : err == -EADDRINUSE ? "another process serves it"
					      : strerror(-err));
		return err;
	}
	if (stat(d->socket, &st) == 0) {
		d->api->socket_dev = st.st_dev;
		d->api->socket_ino = st.st_ino;
	}
	memcpy(d->api->socket, d->socket, sizeof(d->api->socket));
	*ret_fd = take_fd(&fd);
	return 0;
}

static int listen_tcp(const char *where, int *ret_fd, char *why, size_t why_len)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, *info = NULL;
	const char *colon = strrchr(where, ':');
	SCOPE_FD fd = -1;
	char host[64];
	size_t len = colon ? colon - where : 0;
	int one = 1, err = 0;

	if (len >= 2 && where[0] == '[') /* [::1]:9469 */
		snprintf(host, sizeof(host), "%.*s", (int)len - 2, where + 1);
	else
		snprintf(host, sizeof(host), "%.*s", (int)len, where);
	if (!colon || getaddrinfo(host[0] ? host : NULL, colon + 1, &hints, &info)) {
		snprintf(why, why_len, "control.metrics %s: not ADDRESS:PORT", where);
		return -EINVAL;
	}
	fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    bind(fd, info->ai_addr, info->ai_addrlen) < 0 || listen(fd, 64) < 0)
		err = -errno;
	freeaddrinfo(info);
	if (err) {
		snprintf(why, why_len, "control.metrics %s: %s", where, strerror(-err));
		return err;
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

static struct MHD_Daemon *serve(struct daemon *d, int fd, MHD_AccessHandlerCallback handler)
{
	return MHD_start_daemon(MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_ITC | MHD_ALLOW_SUSPEND_RESUME,
				0, NULL, NULL, handler, d, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
				CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, MHD_OPTION_NOTIFY_COMPLETED,
				completed, d, MHD_OPTION_END);
}

/* MHD closes the descriptor with the daemon; until it serves it is ours. */
static int serve_fd(struct daemon *d, int *fd, MHD_AccessHandlerCallback handler, struct MHD_Daemon **ret)
{
	struct MHD_Daemon *side;

	if (*fd < 0)
		return 0;
	side = serve(d, *fd, handler);
	if (!side)
		return -ENOMEM;
	take_fd(fd);
	*ret = side;
	return 0;
}

int api_open(struct daemon *d, const struct config *config, char *why, size_t why_len)
{
	struct api *api = calloc(1, sizeof(*api));
	int err = 0;

	if (!api)
		return -ENOMEM;
	api->unix_fd = api->tcp_fd = -1;
	pthread_mutex_init(&api->waiting_lock, NULL);
	d->api = api;
	if (config->metrics[0])
		err = listen_tcp(config->metrics, &api->tcp_fd, why, why_len);
	if (!err)
		err = listen_unix(d, config->group, &api->unix_fd, why, why_len);
	return err;
}

int api_serve(struct daemon *d, char *why, size_t why_len)
{
	struct api *api = d->api;
	int err = serve_fd(d, &api->tcp_fd, handle_tcp, &api->tcp_side);

	if (!err)
		err = serve_fd(d, &api->unix_fd, handle_unix, &api->unix_side);
	if (err)
		snprintf(why, why_len, "libmicrohttpd does not start: %s", strerror(-err));
	return err;
}

void api_stop(struct daemon *d)
{
	struct api *api = d->api;
	struct stat st;

	if (!api)
		return;
	pthread_mutex_lock(&api->waiting_lock);
	api->stopping = true;
	pthread_mutex_unlock(&api->waiting_lock);
	resume_requests(api, 0, 0, true); /* libmicrohttpd does not stop over suspended ones */
	if (api->unix_side)
		MHD_stop_daemon(api->unix_side);
	if (api->tcp_side)
		MHD_stop_daemon(api->tcp_side);
	scope_close(&api->unix_fd);
	scope_close(&api->tcp_fd);
	/* Only our own file: a later daemon may have made another. */
	if (api->socket[0] && lstat(api->socket, &st) == 0 && st.st_dev == api->socket_dev &&
	    st.st_ino == api->socket_ino)
		unlink(api->socket);
	pthread_mutex_destroy(&api->waiting_lock);
	free(api);
	d->api = NULL;
}
