// SPDX-License-Identifier: GPL-2.0-only
/* daemon.c: start, loop and end of sluiced. A start that fails takes nothing away that was in force (c125). */
#include "user/control/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>

#include "user/control/api.h"
#include "user/control/breakers.h"
#include "user/control/clock.h"
#include "user/control/compile.h"
#include "user/control/controller.h"
#include "user/control/interfaces.h"
#include "user/control/accept_queues.h"
#include "user/control/log.h"
#include "user/control/overrides.h"
#include "user/control/promote.h"
#include "user/control/reload.h"
#include "user/control/scope.h"
#include "user/control/watch.h"

struct service *daemon_service(struct daemon *d, const char *name)
{
	for (size_t i = 0; i < d->service_count; i++) {
		if (strcmp(d->services[i]->policy.name, name) == 0)
			return d->services[i];
	}
	return NULL;
}

const struct service *daemon_service_by_uid(const struct daemon *d, uint32_t uid)
{
	for (size_t i = 0; i < d->service_count; i++) {
		if (d->services[i]->policy.uid == uid)
			return d->services[i];
	}
	return NULL;
}

bool daemon_lapsed(const struct daemon *d, uint64_t now_ns)
{
	return __atomic_load_n(&datapath_control(d->dp)->lease_until_ns, __ATOMIC_RELAXED) <= now_ns;
}

int daemon_check(const struct config *config, struct diag *diag)
{
	struct snapshot *snapshot = NULL;
	int err = compile_snapshot(config, &snapshot, diag);

	snapshot_free(&snapshot);
	return err;
}

void daemon_stop(struct daemon *d)
{
	uv_async_send(&d->stop);
}

int daemon_detach(struct daemon *d, char *why, size_t why_len)
{
	int err;

	SCOPE_LOCK(&d->reload_lock);
	pthread_mutex_lock(&d->lock);
	d->stopping = true;
	datapath_close(&d->dp);
	err = datapath_detach_all(d->pins, why, why_len);
	if (err)
		log_error("detach: %s", why[0] ? why : strerror(-err));
	else
		log_info("detached: nothing of sluice is left on the host");
	d->detached = true;
	pthread_mutex_unlock(&d->lock);
	if (err)
		daemon_stop(d); /* there is nothing left to serve, and half a state to look at */
	return err;
}

/* --- loop ---------------------------------------------------------------------------------------------------------- */

static void on_tick(uv_timer_t *timer)
{
	struct daemon *d = timer->data;
	uint64_t began_ns = clock_ns(); /* before the lock: waiting for it makes a tick old */

	SCOPE_LOCK(&d->lock);
	if (d->dp)
		controller_tick(d, began_ns);
	api_wake(d, clock_ns(), event_log_seq(d->event_log));
}

static void on_reload(uv_signal_t *handle, int signum)
{
	struct daemon *d = handle->data;
	struct reload_result result = {0};

	(void)signum;
	reload_file(d, d->config_path, &result);
	diag_reset(&result.diag);
}

static void on_end(uv_signal_t *handle, int signum)
{
	struct daemon *d = handle->data;

	log_info("%s: ending", signum == SIGTERM ? "SIGTERM" : "SIGINT");
	uv_stop(&d->loop);
}

static void on_stop(uv_async_t *async)
{
	struct daemon *d = async->data;

	uv_stop(&d->loop);
}

static void on_link(uv_poll_t *poll, int status, int events)
{
	struct daemon *d = poll->data;

	(void)status;
	(void)events;
	SCOPE_LOCK(&d->lock);
	interfaces_notice(d);
}

static void keep_event(const struct slc_event *event, void *arg)
{
	struct daemon *d = arg;
	const struct service *service = daemon_service_by_uid(d, event->uid);

	event_log_refusal(d->event_log, event, service ? service->policy.name : NULL);
}

static void on_events(uv_poll_t *poll, int status, int events)
{
	struct daemon *d = poll->data;

	(void)status;
	(void)events;
	SCOPE_LOCK(&d->lock);
	if (d->dp)
		datapath_events_consume(d->dp, keep_event, d);
}

static int start_loop(struct daemon *d)
{
	int err = uv_timer_init(&d->loop, &d->timer);

	/* Our own copy: a detach by the API closes the other while the loop watches. */
	d->events_fd = fcntl(datapath_events_fd(d->dp), F_DUPFD_CLOEXEC, 3);

	d->timer.data = d->hup.data = d->term.data = d->interrupt.data = d;
	d->rtnl_poll.data = d->events_poll.data = d;
	if (!err)
		err = uv_signal_init(&d->loop, &d->hup) || uv_signal_init(&d->loop, &d->term) ||
		      uv_signal_init(&d->loop, &d->interrupt) || uv_signal_start(&d->hup, on_reload, SIGHUP) ||
		      uv_signal_start(&d->term, on_end, SIGTERM) || uv_signal_start(&d->interrupt, on_end, SIGINT);
	if (!err && d->rtnl_fd >= 0)
		err = uv_poll_init(&d->loop, &d->rtnl_poll, d->rtnl_fd) ||
		      uv_poll_start(&d->rtnl_poll, UV_READABLE, on_link);
	if (!err && d->events_fd >= 0)
		err = uv_poll_init(&d->loop, &d->events_poll, d->events_fd) ||
		      uv_poll_start(&d->events_poll, UV_READABLE, on_events);
	if (!err)
		err = uv_timer_start(&d->timer, on_tick, TICK_NS / NS_PER_MS, TICK_NS / NS_PER_MS);
	return err ? -EIO : 0;
}

/* --- start ------------------------------------------------------------------------------------------------------------ */

static void log_diag(const struct diag *diag)
{
	for (size_t i = 0; i < diag->warning_count; i++)
		log_warning("%s", diag->warnings[i]);
	for (size_t i = 0; i < diag->error_count; i++)
		log_error("%s", diag->errors[i]);
}

/* The name as it was given, wherever we are later. Symlinks stay: what they point to may change (c131). */
static int absolute(const char *path, char *buf, size_t len)
{
	SCOPE_FREE char *here = NULL;

	if (path[0] != '/') {
		here = getcwd(NULL, 0);
		if (!here)
			return -errno;
	}
	return (size_t)snprintf(buf, len, "%s%s%s", here ? here : "", here ? "/" : "", path) < len ? 0 : -ENAMETOOLONG;
}

static int read_config(struct daemon *d, const struct daemon_options *options, struct config **ret_config)
{
	struct diag diag = {0};
	int err = config_load(options->config, ret_config, &diag);

	log_diag(&diag);
	diag_reset(&diag);
	if (err)
		return err;
	err = absolute(options->config, d->config_path, sizeof(d->config_path));
	if (err) {
		log_error("--config: %s: %s", options->config, strerror(-err));
		config_free(ret_config);
		return err;
	}
	snprintf(d->pins, sizeof(d->pins), "%s", options->pins ? options->pins : (*ret_config)->pins);
	snprintf(d->socket, sizeof(d->socket), "%s", options->socket ? options->socket : (*ret_config)->socket);
	return 0;
}

static bool has_udp(const struct config *config)
{
	for (size_t i = 0; i < config->service_count; i++) {
		if (config->services[i].proto == IPPROTO_UDP)
			return true;
	}
	return false;
}

static int open_state(struct daemon *d, const struct config *config, char *why, size_t why_len)
{
	struct datapath_options options = {
		.pins = d->pins, .sources = config->sources, .flows = config->flows, .udp = has_udp(config)};
	const struct datapath_modes *modes;
	int reset = 0, err = journal_open(config->state, &d->journal, &reset, why, why_len);

	if (!err)
		err = overrides_load(d, why, why_len);
	if (!err)
		err = datapath_open(&d->dp, &options, why, why_len);
	if (err)
		return err;
	d->journal_reset = reset;
	if (reset)
		log_warning("the journal was damaged: put aside, overrides and known-good sources of before are lost");
	modes = datapath_modes(d->dp);
	if (modes->adopted)
		log_info("took over what was in force: pins of ABI %u.%u%s", modes->pinned_major, modes->pinned_minor,
			 modes->migrated ? ", buckets and counters are copied" : "");
	if (modes->no_btf)
		log_warning("no_btf: %s", modes->no_btf_why);
	return 0;
}

static int first_snapshot(struct daemon *d, struct config **config)
{
	struct reload_result result = {0};
	int err = reload_apply(d, config, &result);

	log_diag(&result.diag);
	diag_reset(&result.diag);
	d->reload_success = err == 0;
	return err;
}

/* Connections are counted from here on; without it sluice limits what it can see in XDP alone. */
static void attach_sockops(struct daemon *d)
{
	d->sockops = datapath_attach_sockops(d->dp, d->sockops_why, sizeof(d->sockops_why)) == 0;
	if (!d->sockops)
		log_warning("no_sockops: %s", d->sockops_why);
	else if (datapath_modes(d->dp)->no_turns)
		log_warning("no_turns: %s", datapath_modes(d->dp)->no_turns_why);
}

static int start(struct daemon *d, struct config **config, char *why, size_t why_len)
{
	uint64_t now_ns;
	int err = open_state(d, *config, why, why_len);

	if (!err)
		err = api_open(d, *config, why, why_len);
	if (!err)
		err = first_snapshot(d, config);
	if (err)
		return err;
	now_ns = clock_ns();
	controller_start(d, now_ns);
	overrides_drop_strays(d);
	attach_sockops(d);
	listeners_look(d, now_ns);
	listeners_adopt_now(d, now_ns);
	for (size_t i = 0; i < d->service_count; i++)
		listeners_count_before_start(d, d->services[i], now_ns, 0);
	promote_load(d);
	controller_decide(d, clock_ns());
	d->rtnl_fd = interfaces_open();
	if (d->rtnl_fd < 0)
		log_warning("rtnetlink: %s; interfaces are looked at once a second", strerror(-d->rtnl_fd));
	err = interfaces_reconcile(d, clock_ns(), true, why, why_len);
	if (!err)
		err = start_loop(d);
	if (!err)
		err = api_serve(d, why, why_len);
	if (!err)
		interfaces_release_strays(d);
	return err;
}

/* --- end ---------------------------------------------------------------------------------------------------------------- */

static void close_handle(uv_handle_t *handle, void *arg)
{
	(void)arg;
	if (!uv_is_closing(handle))
		uv_close(handle, NULL);
}

/*
 * In the order that leaves no thread with something freed: API, loop with its work, journal, maps. A first start that
 * failed takes back what it had attached and pinned: it would act with no daemon to show it (c125).
 */
static void finish(struct daemon *d)
{
	char why[WHY_LEN] = "";

	pthread_mutex_lock(&d->lock);
	d->stopping = true;
	pthread_mutex_unlock(&d->lock);
	api_stop(d);
	if (d->dp && !d->detached && (d->api_was_up ? d->config->detach_on_exit : datapath_modes(d->dp)->fresh))
		daemon_detach(d, why, sizeof(why));
	uv_walk(&d->loop, close_handle, NULL);
	uv_run(&d->loop, UV_RUN_DEFAULT);
	uv_loop_close(&d->loop);
	watch_free(d);
	promote_finish(d);
	breakers_finish(d);
	reload_free_services(d);
	for (size_t i = 0; i < d->netns_count; i++)
		netns_close(&d->netns[i]);
	free(d->netns);
	free(d->listeners);
	free(d->interfaces);
	known_free(&d->known);
	overrides_free(&d->overrides);
	event_log_free(&d->event_log);
	if (d->dp)
		datapath_close(&d->dp);
	journal_close(&d->journal);
	config_free(&d->config);
	scope_close(&d->rtnl_fd);
	scope_close(&d->events_fd);
}

int daemon_run(const struct daemon_options *options)
{
	struct daemon *d = calloc(1, sizeof(*d));
	struct config *config = NULL;
	char why[WHY_LEN] = "";
	int err;

	if (d)
		d->event_log = event_log_new();
	if (!d || !d->event_log) {
		free(d);
		return 1;
	}
	pthread_mutex_init(&d->lock, NULL);
	pthread_mutex_init(&d->reload_lock, NULL);
	d->rtnl_fd = d->events_fd = -1;
	d->started_ns = clock_ns();
	known_init(&d->known, clock_random(), SLC_KNOWN);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN); /* until the loop takes it: the file is being read anyway */
	uv_loop_init(&d->loop);
	d->stop.data = d;
	uv_async_init(&d->loop, &d->stop, on_stop);

	err = read_config(d, options, &config);
	if (!err) {
		SCOPE_LOCK(&d->lock);
		err = start(d, &config, why, sizeof(why));
	}
	config_free(&config);
	if (err) {
		if (why[0])
			log_error("%s", why);
		log_error("not started: %s; %s", strerror(-err),
			  d->dp && datapath_modes(d->dp)->fresh ? "nothing was in force before"
								: "what was in force before is untouched");
	} else {
		d->api_was_up = true;
		if (options->watch)
			watch_start(d);
		fputs("sluiced: ready\n", stderr);
		uv_run(&d->loop, UV_RUN_DEFAULT);
	}
	finish(d);
	free(d);
	return err ? 1 : 0;
}
