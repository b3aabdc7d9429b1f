// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/event_log.h"

#include <errno.h>
#include <string.h>

#include "user/control/clock.h"
#include "user/control/config.h"
#include "user/control/scope.h"
#include "user/control/status.h"

const char *const event_kind_names[EVENT_KIND_COUNT] = {
#define X(name, schema) [EVENT_##name] = #name,
	EVENT_KINDS(X)
#undef X
};

static const char *const schemas[EVENT_KIND_COUNT] = {
#define X(name, schema) [EVENT_##name] = schema,
	EVENT_KINDS(X)
#undef X
};

struct entry {
	uint64_t seq;
	enum event_kind kind;
	uint64_t mono_ns;
	int64_t wall_ms;
	bool has_service;
	char service[SLC_NAME_LEN];
	struct slc_event refusal;
	json_t *body; /* breaker */
};

struct kept {
	struct entry ring[EVENTS_KEPT];
	uint64_t count; /* ever added */
	uint64_t evicted_seq; /* newest that is no longer kept */
};

struct event_log {
	pthread_mutex_t lock;
	uint64_t seq;
	struct kept kept[EVENT_KIND_COUNT];
};

struct event_log *event_log_new(void)
{
	struct event_log *log = calloc(1, sizeof(*log));

	if (log)
		pthread_mutex_init(&log->lock, NULL);
	return log;
}

void event_log_free(struct event_log **log)
{
	if (!*log)
		return;
	for (int k = 0; k < EVENT_KIND_COUNT; k++) {
		for (size_t i = 0; i < EVENTS_KEPT; i++)
			json_decref((*log)->kept[k].ring[i].body);
	}
	pthread_mutex_destroy(&(*log)->lock);
	free(*log);
	*log = NULL;
}

/* --- adding ----------------------------------------------------------------------------------------------------- */

/* Its place, with what every event has. With the lock held. */
static struct entry *take_place(struct event_log *log, enum event_kind kind, const char *service, uint64_t mono_ns)
{
	struct kept *kept = &log->kept[kind];
	struct entry *entry = &kept->ring[kept->count % EVENTS_KEPT];

	if (kept->count >= EVENTS_KEPT)
		kept->evicted_seq = entry->seq;
	kept->count++;
	json_decref(entry->body);
	*entry = (struct entry){
		.seq = ++log->seq,
		.kind = kind,
		.mono_ns = mono_ns,
		.wall_ms = clock_wall_ms() - (int64_t)((clock_ns() - mono_ns) / NS_PER_MS),
		.has_service = service != NULL,
	};
	if (service)
		snprintf(entry->service, sizeof(entry->service), "%s", service);
	return entry;
}

void event_log_refusal(struct event_log *log, const struct slc_event *event, const char *service)
{
	SCOPE_LOCK(&log->lock);
	take_place(log, EVENT_refusal, service, event->time_ns)->refusal = *event;
}

void event_log_breaker(struct event_log *log, const char *service, uint64_t mono_ns, json_t *body)
{
	SCOPE_LOCK(&log->lock);
	take_place(log, EVENT_breaker, service, mono_ns)->body = body;
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

static uint64_t oldest_index(const struct kept *kept)
{
	return kept->count > EVENTS_KEPT ? kept->count - EVENTS_KEPT : 0;
}

static bool asked_kind(const struct event_query *query, int kind)
{
	return !query->has_kind || (int)query->kind == kind;
}

/* With the lock held. */
static uint64_t after_of(const struct event_log *log, const struct event_query *query)
{
	return query->has_after && query->after <= log->seq ? query->after : 0;
}

static bool wanted(const struct entry *entry, const struct event_query *query, uint64_t after)
{
	return entry->seq > after &&
	       (!query->service || (entry->has_service && strcmp(entry->service, query->service) == 0));
}

uint64_t event_log_seq(struct event_log *log)
{
	SCOPE_LOCK(&log->lock);
	return log->seq;
}

bool event_log_has(struct event_log *log, const struct event_query *query)
{
	SCOPE_LOCK(&log->lock);
	uint64_t after = after_of(log, query);

	for (int k = 0; k < EVENT_KIND_COUNT; k++) {
		const struct kept *kept = &log->kept[k];

		/* Newest first: what is not newer than `after` ends the search. */
		for (uint64_t i = kept->count; asked_kind(query, k) && i > oldest_index(kept); i--) {
			const struct entry *entry = &kept->ring[(i - 1) % EVENTS_KEPT];

			if (wanted(entry, query, after))
				return true;
			if (entry->seq <= after)
				break;
		}
	}
	return false;
}

/* Every number after `after` is kept by one kind or was lost. Of one kind alone: no more than were evicted since. */
static uint64_t lost_since(const struct event_log *log, const struct event_query *query, uint64_t after)
{
	uint64_t lost = 0;

	for (int k = 0; k < EVENT_KIND_COUNT; k++) {
		const struct kept *kept = &log->kept[k];
		uint64_t evicted = oldest_index(kept);
		uint64_t since = kept->evicted_seq > after ? kept->evicted_seq - after : 0;

		if (query->has_kind && asked_kind(query, k))
			return evicted < since ? evicted : since;
		lost += kept->count - evicted;
		for (uint64_t i = evicted; i < kept->count && kept->ring[i % EVENTS_KEPT].seq <= after; i++)
			lost--;
	}
	return query->has_kind ? 0 : log->seq - after - lost;
}

static int by_seq(const void *a, const void *b)
{
	uint64_t left = ((const struct entry *)a)->seq, right = ((const struct entry *)b)->seq;

	return left < right ? -1 : left > right;
}

/* Copies of the entries asked for, bodies shared: the lock is held for as long as copying takes, not for making JSON. */
static int copy_entries(struct event_log *log, const struct event_query *query, struct entry **ret_entries,
			size_t *ret_count, struct event_answer *answer)
{
	struct entry *entries = calloc((size_t)EVENT_KIND_COUNT * EVENTS_KEPT, sizeof(*entries));
	size_t count = 0;
	uint64_t after;

	if (!entries)
		return -ENOMEM;
	SCOPE_LOCK(&log->lock);
	after = after_of(log, query);
	for (int k = 0; k < EVENT_KIND_COUNT; k++) {
		const struct kept *kept = &log->kept[k];

		for (uint64_t i = oldest_index(kept); asked_kind(query, k) && i < kept->count; i++) {
			const struct entry *entry = &kept->ring[i % EVENTS_KEPT];

			if (!wanted(entry, query, after))
				continue;
			entries[count] = *entry;
			json_incref(entries[count++].body);
		}
	}
	answer->seq = log->seq;
	answer->lost = query->has_after ? lost_since(log, query, after) : 0;
	answer->seen = log->kept[EVENT_refusal].count;
	*ret_entries = entries;
	*ret_count = count;
	return 0;
}

static void put_refusal(json_t *json, const struct slc_event *event)
{
	char source[64], destination[64];
	json_t *fields;

	format_address(event->saddr, source, sizeof(source));
	format_address(event->daddr, destination, sizeof(destination));
	fields = json_pack("{s:s, s:b, s:s, s:s, s:I, s:s, s:I, s:I, s:I, s:I, s:I}", "reason",
			   event->reason < SLC_REASON_COUNT ? reason_info[event->reason].name : "?", "dry", event->dry,
			   "class", event->class < SLC_CLASS_COUNT ? class_names[event->class] : "?", "source", source,
			   "source_port", (json_int_t)event->sport, "destination", destination, "destination_port",
			   (json_int_t)event->dport, "backlog", (json_int_t)event->backlog, "backlog_max",
			   (json_int_t)event->backlog_max, "predicted", (json_int_t)event->predicted, "head_age_ms",
			   (json_int_t)(event->head_age_ns / NS_PER_MS));
	json_object_update(json, fields);
	json_decref(fields);
}

static json_t *entry_json(const struct entry *entry, uint64_t now_ns)
{
	char wall[ISO_MS_LEN];
	json_t *json;

	clock_iso_ms(entry->wall_ms, wall, sizeof(wall));
	json = json_pack("{s:s, s:I, s:s, s:I, s:s, s:I, s:s?}", "schema", schemas[entry->kind], "seq",
			 (json_int_t)entry->seq, "kind", event_kind_names[entry->kind], "mono_ns",
			 (json_int_t)entry->mono_ns, "wall", wall, "ms_ago",
			 (json_int_t)(now_ns > entry->mono_ns ? (now_ns - entry->mono_ns) / NS_PER_MS : 0), "service",
			 entry->has_service ? entry->service : NULL);
	if (entry->kind == EVENT_refusal)
		put_refusal(json, &entry->refusal);
	else if (entry->body)
		json_object_update(json, entry->body);
	return json;
}

int event_log_read(struct event_log *log, const struct event_query *query, uint64_t now_ns,
		   struct event_answer *ret_answer)
{
	struct event_answer answer = {0};
	struct entry *entries;
	size_t count;
	int err = copy_entries(log, query, &entries, &count, &answer);

	if (err)
		return err;
	answer.events = json_array();
	qsort(entries, count, sizeof(*entries), by_seq);
	for (size_t i = 0; i < count; i++) {
		json_array_append_new(answer.events, entry_json(&entries[i], now_ns));
		json_decref(entries[i].body);
	}
	free(entries);
	*ret_answer = answer;
	return answer.events ? 0 : -ENOMEM;
}
