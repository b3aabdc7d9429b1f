// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/sources.h"

#include <errno.h>
#include <string.h>

#include "user/control/address.h"
#include "user/control/clock.h"
#include "user/control/overrides.h"
#include "user/control/scope.h"
#include "user/control/status.h"

#define TOP_DEFAULT 20
#define TOP_MAX 1000
#define WALK_SETS 65536 /* between two breaths of the lock */

/* --- top ------------------------------------------------------------------------------------------------------------ */

/* The best `max` so far, as a heap with the least of them at the root. */
struct top {
	struct slc_cold *heap;
	size_t count, max;
	bool by_uid;
	uint32_t uid;
	uint64_t scanned;
};

static bool less(const struct slc_cold *a, const struct slc_cold *b)
{
	return a->refused != b->refused ? a->refused < b->refused : a->attempts < b->attempts;
}

static void swap(struct slc_cold *a, struct slc_cold *b)
{
	struct slc_cold t = *a;

	*a = *b;
	*b = t;
}

static void sift_down(struct top *top, size_t i)
{
	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= top->count)
			return;
		if (child + 1 < top->count && less(&top->heap[child + 1], &top->heap[child]))
			child++;
		if (!less(&top->heap[child], &top->heap[i]))
			return;
		swap(&top->heap[child], &top->heap[i]);
		i = child;
	}
}

static void offer(const struct slc_cold *cold, void *arg)
{
	struct top *top = arg;
	size_t i;

	top->scanned++;
	if (top->by_uid && cold->uid != top->uid)
		return;
	if (top->count == top->max) {
		if (!less(&top->heap[0], cold))
			return;
		top->heap[0] = *cold;
		sift_down(top, 0);
		return;
	}
	i = top->count++;
	top->heap[i] = *cold;
	for (; i > 0 && less(&top->heap[i], &top->heap[(i - 1) / 2]); i = (i - 1) / 2)
		swap(&top->heap[i], &top->heap[(i - 1) / 2]);
}

static int by_refused(const void *a, const void *b)
{
	return less(a, b) ? 1 : less(b, a) ? -1 : 0;
}

static bool is_known(const struct daemon *d, const uint8_t addr[16], uint32_t uid, uint64_t now_ns)
{
	struct slc_known_key key = {.uid = uid};
	const struct known_entry *entry;

	memcpy(key.addr, addr, sizeof(key.addr));
	entry = known_find(&d->known, &key);
	return entry && entry->until_ns > now_ns;
}

/* The policy with what an override puts in the place of source.rate. */
static struct slc_policy policy_in_force(const struct daemon *d, const struct service *service, uint64_t now_ns)
{
	struct slc_policy policy = service->policy;
	struct slc_override_half ordered;

	if (datapath_get_override(d->dp, policy.state, &ordered) == 0 && ordered.flags & SLC_O_SOURCE &&
	    now_ns < ordered.source_until_ns) {
		policy.flags |= SLC_P_SOURCE;
		policy.source_interval = ordered.source_interval;
		policy.source_depth = ordered.source_depth;
	}
	return policy;
}

/* Tokens now, or NULL where no rate of sources is set. */
static json_t *tokens_json(const struct daemon *d, const struct service *service, const uint8_t addr[16])
{
	const struct slc_policy policy = policy_in_force(d, service, clock_ns());
	struct slc_cold cold;
	uint64_t millitokens = 0;
	int err;

	if (!(policy.flags & SLC_P_SOURCE))
		return json_null();
	err = datapath_source(d->dp, &policy, addr, 0, &cold, &millitokens);
	return err && err != -ENOENT ? json_null() : json_real(millitokens / 1000.0);
}

static json_t *source_json(const struct daemon *d, const struct slc_cold *cold, uint64_t now_ns)
{
	const struct service *service = daemon_service_by_uid(d, cold->uid);
	char address[64];

	format_address(cold->addr, address, sizeof(address));
	return json_pack("{s:s, s:s?, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:b}", "address", address, "service",
			 service ? service->policy.name : NULL, "attempts", (json_int_t)cold->attempts, "refused",
			 (json_int_t)cold->refused, "established", (json_int_t)cold->established, "open",
			 (json_int_t)cold->head.open, "good", (json_int_t)cold->good, "seen_ms_ago",
			 (json_int_t)(now_ns > cold->seen_ns ? (now_ns - cold->seen_ns) / NS_PER_MS : 0), "tokens",
			 service ? tokens_json(d, service, cold->addr) : json_null(), "known",
			 is_known(d, cold->addr, cold->uid, now_ns));
}

static int read_limit(const struct call *call, size_t *ret_limit, struct problem *problem)
{
	const char *text = call->query(call->query_arg, "limit");
	char why[WHY_LEN] = "";
	uint64_t limit = TOP_DEFAULT;

	if (text && parse_count(text, 1, TOP_MAX, &limit, why, sizeof(why)))
		return problem_value(problem, 400, "limit", text, "1 to 1000", NULL, "limit: %s", why);
	*ret_limit = limit;
	return 0;
}

static int read_service(const struct call *call, struct service **ret_service, struct problem *problem)
{
	const char *name = call->query(call->query_arg, "service");

	*ret_service = NULL;
	return name ? find_service(call, name, ret_service, problem) : 0;
}

/* Walks with the lock let go between slices: a tick is not held up. False if the daemon detached meanwhile. */
static bool walk(struct daemon *d, struct top *top)
{
	size_t sets = datapath_cold_sets(d->dp);

	for (size_t first = 0; first < sets; first += WALK_SETS) {
		size_t count = sets - first < WALK_SETS ? sets - first : WALK_SETS;

		datapath_cold_walk(d->dp, first, count, offer, top);
		pthread_mutex_unlock(&d->lock);
		pthread_mutex_lock(&d->lock);
		if (!d->dp)
			return false;
	}
	return true;
}

int sources_top(const struct call *call, struct reply *reply, struct problem *problem)
{
	SCOPE_FREE struct slc_cold *heap = NULL;
	struct top top = {0};
	struct service *service;
	json_t *list;
	uint64_t now_ns;
	bool complete;

	if (read_limit(call, &top.max, problem))
		return -EINVAL;
	heap = top.heap = calloc(top.max, sizeof(*top.heap));
	if (!heap)
		return problem_say(problem, 500, "out of memory");
	SCOPE_LOCK(&call->d->lock);
	if (!call->d->dp)
		return problem_say(problem, 503, "sluiced is detached and ends");
	if (read_service(call, &service, problem))
		return -EINVAL;
	top.by_uid = service != NULL;
	top.uid = service ? service->policy.uid : 0;
	complete = walk(call->d, &top);
	if (!call->d->dp)
		return problem_say(problem, 503, "sluiced is detached and ends");
	qsort(top.heap, top.count, sizeof(*top.heap), by_refused);
	list = json_array();
	now_ns = clock_ns();
	for (size_t i = 0; i < top.count; i++)
		json_array_append_new(list, source_json(call->d, &top.heap[i], now_ns));
	reply->json =
		json_pack("{s:o, s:I, s:b}", "sources", list, "scanned", (json_int_t)top.scanned, "complete", complete);
	return 0;
}

/* --- one source --------------------------------------------------------------------------------------------------------- */

/* The file's rule of the longest prefix, or NULL. */
static json_t *trust_of(const struct daemon *d, const struct cidr *source)
{
	const struct trust_config *best = NULL;
	char text[64];
	static const char *const actions[] = {[TRUST_ALLOW] = "allow", [TRUST_DENY] = "deny", [TRUST_CLASS] = "class"};

	for (size_t i = 0; i < d->config->trust_count; i++) {
		const struct trust_config *rule = &d->config->trust[i];

		if (cidr_contains(&rule->cidr, source) && (!best || rule->cidr.prefix > best->cidr.prefix))
			best = rule;
	}
	if (!best)
		return json_null();
	format_cidr(&best->cidr, text, sizeof(text));
	return json_pack("{s:s, s:s, s:o}", "action", actions[best->action], "cidr", text, "origin",
			 text_json(best->origin));
}

static json_t *order_of(const struct daemon *d, const struct cidr *source, uint64_t now_ns)
{
	const struct override *best = NULL;

	for (size_t i = 0; i < d->overrides.count; i++) {
		const struct override *o = d->overrides.items[i];

		if ((o->kind == OVERRIDE_deny || o->kind == OVERRIDE_allow) && o->until_ns > now_ns &&
		    cidr_contains(&o->cidr, source) && (!best || o->cidr.prefix >= best->cidr.prefix))
			best = o;
	}
	if (!best)
		return json_null();
	return json_pack("{s:s, s:s, s:I}", "action", override_kind_names[best->kind], "cidr", best->subject, "id",
			 (json_int_t)best->id);
}

/* The key under which the service counts the address. */
static struct cidr key_of(const struct service *service, const struct cidr *source)
{
	bool v4 = address_is_v4(source->addr);
	struct cidr key = {.prefix = v4 ? 96 + service->policy.v4_prefix : service->policy.v6_prefix};
	unsigned int whole = key.prefix / 8, bits = key.prefix % 8;

	memcpy(key.addr, source->addr, whole);
	if (bits)
		key.addr[whole] = source->addr[whole] & (0xff << (8 - bits));
	return key;
}

static json_t *source_of_service(const struct daemon *d, const struct service *service, const struct cidr *source,
				 uint64_t now_ns, bool *ret_seen)
{
	struct cidr key = key_of(service, source);
	struct slc_cold cold = {0};
	uint64_t millitokens = 0;
	struct effective_limits limits;
	char rate[64] = "";
	int err = datapath_source(d->dp, &service->policy, source->addr, 0, &cold, &millitokens);

	*ret_seen = err == 0;
	if (err)
		cold = (struct slc_cold){0};
	overrides_effective(d, service, now_ns, &limits);
	if (limits.source.rate.set)
		format_rate(&limits.source.rate, rate, sizeof(rate));
	return json_pack("{s:s, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:b, s:o, s:o}", "service", service->policy.name,
			 "tokens", tokens_json(d, service, source->addr), "rate",
			 rate[0] ? json_string(rate) : json_null(), "attempts", (json_int_t)cold.attempts, "refused",
			 (json_int_t)cold.refused, "established", (json_int_t)cold.established, "open",
			 (json_int_t)cold.head.open, "good", (json_int_t)cold.good, "known",
			 is_known(d, key.addr, service->policy.uid, now_ns), "trust", trust_of(d, source), "order",
			 order_of(d, source, now_ns));
}

int sources_show(const struct call *call, struct reply *reply, struct problem *problem)
{
	struct cidr source = {.prefix = 128}, key;
	struct service *only;
	char why[WHY_LEN] = "", address[64], counted[64], quoted[QUOTE_LEN];
	uint64_t now_ns = clock_ns();
	json_t *list;

	if (parse_address(call->segment, source.addr, why, sizeof(why)))
		return problem_value(problem, 400, "address", call->segment, why, NULL, "%s is not an address: %s",
				     quote(call->segment, quoted), why);
	if (read_service(call, &only, problem))
		return -EINVAL;
	list = json_array();
	key = source;
	for (size_t i = 0; i < call->d->service_count; i++) {
		const struct service *service = call->d->services[i];
		bool seen;

		if (only && service != only)
			continue;
		json_array_append_new(list, source_of_service(call->d, service, &source, now_ns, &seen));
		key = key_of(service, &source);
	}
	format_address(source.addr, address, sizeof(address));
	format_cidr(&key, counted, sizeof(counted));
	reply->json = json_pack("{s:s, s:s, s:o}", "address", address, "key", counted, "services", list);
	return 0;
}
