// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/reload.h"

#include <errno.h>
#include <string.h>

#include "user/control/breakers.h"
#include "user/control/clock.h"
#include "user/control/compile.h"
#include "user/control/interfaces.h"
#include "user/control/accept_queues.h"
#include "user/control/log.h"
#include "user/control/overrides.h"
#include "user/control/own_addresses.h"
#include "user/control/promote.h"
#include "user/control/scope.h"

#define SERVICES_MAX SLC_STATES

static void free_snapshot(struct snapshot **snapshot)
{
	snapshot_free(snapshot);
}
#define SCOPE_SNAPSHOT __attribute__((cleanup(free_snapshot))) struct snapshot

/* --- namespaces ---------------------------------------------------------------------------------------------------- */

static size_t netns_find(const struct daemon *d, const char *name)
{
	for (size_t i = 0; i < d->netns_count; i++) {
		if (d->netns[i].diag_fd >= 0 && strcmp(d->netns[i].name, name) == 0)
			return i;
	}
	return NO_NETNS;
}

/* Known already, or opened now. A free place is used again: services and listeners name places by number. */
static int netns_want(struct daemon *d, const char *name, size_t *ret_ns, char *why, size_t why_len)
{
	size_t at = netns_find(d, name);
	struct netns ns;
	int err;

	if (at == NO_NETNS) {
		err = netns_open(name, &ns, why, why_len);
		if (err)
			return err;
		for (at = 0; at < d->netns_count && d->netns[at].diag_fd >= 0; at++)
			;
		if (at == d->netns_count) {
			struct netns *bigger = reallocarray(d->netns, at + 1, sizeof(*bigger));

			if (!bigger) {
				netns_close(&ns);
				return -ENOMEM;
			}
			d->netns = bigger;
			d->netns_count++;
		}
		d->netns[at] = ns;
	}
	*ret_ns = at;
	return 0;
}

/* A service of a namespace that is not there yet is loaded, sees nobody, and is taken up when it comes. */
static int resolve_services(struct daemon *d, const struct config *config, struct snapshot *snapshot, size_t *places,
			    struct diag *diag)
{
	char why[WHY_LEN] = "";
	size_t host;
	int failed = netns_want(d, "", &host, why, sizeof(why));

	if (failed) {
		diag_error(diag, "%s", why);
		return failed;
	}
	snapshot->global.has_netns = 1;
	snapshot->global.netns_cookie = d->netns[host].cookie;
	for (size_t i = 0; i < config->service_count; i++) {
		const char *name = config->services[i].netns;
		struct slc_policy *policy = &snapshot->services[i].policy;
		int err = netns_want(d, name, &places[i], why, sizeof(why));

		if (err && (!name[0] || err != -ENOENT)) {
			diag_error(diag, "service %s: %s", config->services[i].name, why);
			return err;
		}
		if (err) {
			diag_warn(diag, "service %s: %s; its accept queue is not seen until it is", policy->name, why);
			places[i] = NO_NETNS;
		}
		if (name[0])
			policy->flags |= SLC_P_NETNS;
		policy->nsid = err ? NSID_NOWHERE : d->netns[places[i]].nsid;
		policy->netns_cookie = err ? 0 : d->netns[places[i]].cookie;
	}
	return 0;
}

static int resolve_own(struct daemon *d, struct snapshot *snapshot, struct diag *diag)
{
	struct own_addresses own = {0};
	int err = own_addresses_read(&own);

	if (!err)
		err = own_addresses_append(&own, snapshot);
	if (err)
		diag_error(diag, "the addresses of this host cannot be read: %s", strerror(-err));
	else
		d->own_hash = own_addresses_hash(&own);
	own_addresses_free(&own);
	return err;
}

/* What a snapshot needs to know of the system, beside the file. */
static int resolve(struct daemon *d, const struct config *config, struct snapshot *snapshot, size_t *places,
		   struct diag *diag)
{
	int err = resolve_services(d, config, snapshot, places, diag);

	return err ? err : resolve_own(d, snapshot, diag);
}

/* --- services ------------------------------------------------------------------------------------------------------------ */

static void free_service(struct service *service)
{
	if (!service)
		return;
	breakers_free(service);
	free(service->keys);
	free(service->listeners);
	free(service);
}

void reload_free_services(struct daemon *d)
{
	for (size_t i = 0; i < d->service_count; i++)
		free_service(d->services[i]);
	free(d->services);
	d->services = NULL;
	d->service_count = 0;
}

static int copy_keys(struct service *service)
{
	const struct service_config *config = service->config;

	service->keys = calloc(config->listen_count ? config->listen_count : 1, sizeof(*service->keys));
	if (!service->keys)
		return -ENOMEM;
	for (size_t i = 0; i < config->listen_count; i++) {
		service->keys[i] = (struct slc_service_key){.port = config->listen[i].port, .proto = config->proto};
		memcpy(service->keys[i].addr, config->listen[i].addr, sizeof(service->keys[i].addr));
	}
	service->key_count = config->listen_count;
	return 0;
}

/* What was measured of the service before; another uid is another service. */
static void inherit(struct service *service, const struct service *before)
{
	if (!before)
		return;
	service->completion = before->completion;
	memcpy(service->handshakes, before->handshakes, sizeof(service->handshakes));
	memcpy(service->handshakes_seen, before->handshakes_seen, sizeof(service->handshakes_seen));
	service->decision = before->decision;
	service->before_start = before->before_start;
}

static int make_service(struct daemon *d, const struct service_config *config, size_t ns, struct service **ret)
{
	struct service *service = calloc(1, sizeof(*service));
	const struct service *before;
	int err = service ? 0 : -ENOMEM;

	if (!err) {
		service->config = config;
		service->ns = ns;
		err = datapath_service_find(d->dp, config->name, &service->policy);
	}
	if (!err)
		err = copy_keys(service);
	before = daemon_service(d, config->name);
	if (before && before->policy.uid != service->policy.uid)
		before = NULL;
	if (!err && !before)
		err = breakers_new(d, service, clock_ns());
	if (err) {
		free_service(service);
		return err;
	}
	inherit(service, before);
	*ret = service;
	return 0;
}

static int make_services(struct daemon *d, const struct config *config, const size_t *places, struct service ***ret)
{
	struct service **services = calloc(config->service_count ? config->service_count : 1, sizeof(*services));
	int err = services ? 0 : -ENOMEM;

	for (size_t i = 0; i < config->service_count && !err; i++)
		err = make_service(d, &config->services[i], places[i], &services[i]);
	if (err) {
		for (size_t i = 0; services && i < config->service_count; i++)
			free_service(services[i]);
		free(services);
		return err;
	}
	*ret = services;
	return 0;
}

/* What has its own memory goes over when nothing can fail any more. */
static void move_breakers(struct daemon *d, struct service **services, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct service *before = daemon_service(d, services[i]->policy.name);

		if (before && before->policy.uid == services[i]->policy.uid)
			breakers_move(services[i], before, clock_ns());
	}
}

/* Namespaces that no service lives in any more. */
static void release_netns(struct daemon *d)
{
	for (size_t n = 0; n < d->netns_count; n++) {
		bool used = d->netns[n].name[0] == '\0';

		for (size_t i = 0; i < d->service_count && !used; i++)
			used = d->services[i]->ns == n;
		if (!used)
			netns_close(&d->netns[n]);
	}
}

/* --- apply ------------------------------------------------------------------------------------------------------------------ */

/* Keys that only a start reads. */
static void warn_fixed(const struct daemon *d, const struct config *config, struct diag *diag)
{
	const struct config *running = d->config;

	if (!running)
		return;
	if (running->sources != config->sources || running->flows != config->flows)
		diag_warn(diag, "tables: sizes are those of the start; restart sluiced to change them");
	if (strcmp(running->pins, config->pins) != 0 || strcmp(running->state, config->state) != 0 ||
	    strcmp(running->socket, config->socket) != 0 || strcmp(running->group, config->group) != 0 ||
	    strcmp(running->metrics, config->metrics) != 0)
		diag_warn(diag,
			  "control: socket, group, metrics, pins and state are those of the start; restart sluiced"
			  " to change them");
}

/* After the swap nothing may fail any more but by want of memory: then the old view of services stays. */
static int take_over(struct daemon *d, struct config **config, const size_t *places,
		     struct interfaces_change *interfaces, struct diag *diag)
{
	struct service **services = NULL;
	int err = make_services(d, *config, places, &services);

	if (err) {
		diag_error(diag, "the services cannot be read back: %s", strerror(-err));
		return err;
	}
	move_breakers(d, services, (*config)->service_count);
	reload_free_services(d);
	d->services = services;
	d->service_count = (*config)->service_count;
	interfaces_commit(d, interfaces, diag);
	config_free(&d->config);
	d->config = *config;
	*config = NULL;
	d->loaded_wall_ms = clock_wall_ms();
	release_netns(d);
	overrides_refresh(d);
	promote_prune(d);
	d->breakers_stray = true;
	d->adopt_ns = 0; /* a new service's listeners have listened before */
	d->rings_ns = 0; /* rings of services that are no more */
	listeners_look(d, clock_ns());
	return 0;
}

static int apply_snapshot(struct daemon *d, const struct snapshot *snapshot, struct reload_result *result)
{
	const struct slc_control *control = datapath_control(d->dp);
	uint64_t before = __atomic_load_n(&control->active, __ATOMIC_ACQUIRE);
	char why[WHY_LEN] = "";
	int err = datapath_apply(d->dp, snapshot, &result->changed, why, sizeof(why));

	result->in_force = datapath_control(d->dp)->active != before;
	if (err)
		diag_error(&result->diag, "%s", why[0] ? why : strerror(-err));
	else if (why[0])
		diag_warn(&result->diag, "%s", why);
	return err;
}

int reload_apply(struct daemon *d, struct config **config, struct reload_result *result)
{
	SCOPE_SNAPSHOT *snapshot = NULL;
	struct interfaces_change interfaces;
	size_t places[SERVICES_MAX];
	int err;

	if ((*config)->service_count > SERVICES_MAX) {
		diag_error(&result->diag, "services: %zu are more than %d", (*config)->service_count, SERVICES_MAX);
		return -E2BIG;
	}
	err = compile_snapshot(*config, &snapshot, &result->diag);
	if (!err)
		err = resolve(d, *config, snapshot, places, &result->diag);
	if (err)
		return err;
	warn_fixed(d, *config, &result->diag);
	breakers_advise(d, *config, &result->diag);
	err = interfaces_prepare(d, *config, &interfaces, &result->diag);
	if (err)
		return err;
	err = apply_snapshot(d, snapshot, result);
	if (!err)
		err = take_over(d, config, places, &interfaces, &result->diag);
	if (err) {
		interfaces_abort(d, &interfaces);
		return err;
	}
	result->changed |= interfaces.changed;
	result->snapshot = datapath_snapshot_number(d->dp);
	return 0;
}

const char *reload_what_holds(const struct reload_result *result)
{
	return result->in_force ? "the limits of this file are in force, but the interfaces and what status says are "
				  "those of before: load it again"
				: "not loaded, the configuration before stays in force";
}

static void note_result(struct daemon *d, const char *path, int err, const struct reload_result *result)
{
	d->reload_success = err == 0;
	d->reload_error[0] = '\0';
	for (size_t i = 0; i < result->diag.warning_count; i++)
		log_warning("%s", result->diag.warnings[i]);
	if (!err) {
		log_info("%s: %s, snapshot %llu", path, result->changed ? "loaded" : "loaded, nothing changed",
			 (unsigned long long)result->snapshot);
		return;
	}
	for (size_t i = 0; i < result->diag.error_count; i++) {
		size_t used = strlen(d->reload_error);

		log_error("%s", result->diag.errors[i]);
		snprintf(d->reload_error + used, sizeof(d->reload_error) - used, "%s%s", used ? "\n" : "",
			 result->diag.errors[i]);
	}
	log_error("%s: %s", path, reload_what_holds(result));
}

int reload_file(struct daemon *d, const char *path, struct reload_result *result)
{
	SCOPE_CONFIG *config = NULL;
	int err;

	SCOPE_LOCK(&d->reload_lock);
	err = config_load(path, &config, &result->diag);
	pthread_mutex_lock(&d->lock);
	if (d->stopping) {
		diag_error(&result->diag, "sluiced is stopping");
		err = -ESHUTDOWN;
	} else {
		if (!err)
			err = reload_apply(d, &config, result);
		note_result(d, path, err, result);
	}
	pthread_mutex_unlock(&d->lock);
	return err;
}

/* --- namespaces and addresses that come and go ------------------------------------------------------------------------------------------------ */

/* Whether some service's namespace is another one by now, is gone, or has come. */
static bool netns_changed(struct daemon *d)
{
	bool changed = false;
	char why[WHY_LEN];

	for (size_t n = 0; n < d->netns_count; n++) {
		if (d->netns[n].diag_fd < 0 || netns_same(&d->netns[n]))
			continue;
		log_warning("network namespace %s is gone", d->netns[n].name);
		netns_close(&d->netns[n]);
		changed = true;
	}
	for (size_t i = 0; i < d->service_count; i++) {
		size_t ns;

		if (d->services[i]->ns == NO_NETNS &&
		    netns_want(d, d->services[i]->config->netns, &ns, why, sizeof(why)) == 0) {
			log_info("network namespace %s has come", d->services[i]->config->netns);
			changed = true;
		}
	}
	return changed;
}

/* Addresses, or interfaces that are known by index: an equal snapshot is applied without a change. */
static bool own_changed(struct daemon *d)
{
	struct own_addresses own = {0};
	bool changed, links = d->links_dirty;

	d->links_dirty = false;
	if (!d->addresses_dirty)
		return links;
	d->addresses_dirty = false;
	changed = own_addresses_read(&own) == 0 && own_addresses_hash(&own) != d->own_hash;
	own_addresses_free(&own);
	return changed || links;
}

void reload_system(struct daemon *d, uint64_t now_ns)
{
	SCOPE_SNAPSHOT *snapshot = NULL;
	struct diag diag = {0};
	size_t places[SERVICES_MAX];
	char why[WHY_LEN] = "";
	bool changed;

	if (now_ns - d->netns_checked_ns < NS_PER_S)
		return;
	d->netns_checked_ns = now_ns;
	changed = netns_changed(d);
	if (!own_changed(d) && !changed)
		return;
	/* The same file, other numbers: policies name namespaces by nsid and cookie, resets spare our addresses. */
	if (compile_snapshot(d->config, &snapshot, &diag) == 0 && resolve(d, d->config, snapshot, places, &diag) == 0 &&
	    datapath_apply(d->dp, snapshot, &changed, why, sizeof(why)) == 0) {
		for (size_t i = 0; i < d->service_count; i++) {
			d->services[i]->ns = places[i];
			datapath_service_find(d->dp, d->services[i]->policy.name, &d->services[i]->policy);
		}
	} else {
		log_warning("namespaces or addresses changed, the snapshot did not: %s", why);
	}
	diag_reset(&diag);
}
