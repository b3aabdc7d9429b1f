// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/promote.h"

#include <errno.h>
#include <string.h>

#include "user/control/clock.h"
#include "user/control/log.h"
#include "user/control/scope.h"

#define SCAN_TICKS 10 /* a full scan of slc_cold takes a second at least */
#define SETS_PER_TICK 65536 /* 16 MiB: a few milliseconds */
#define WRITE_EVERY_NS (5 * NS_PER_S)
#define CHANGES_MAX 65536 /* kept for the journal: more are left to the next renewal */

static void note_change(struct daemon *d, const struct slc_known_key *key, const struct slc_known *known)
{
	const struct service *service = daemon_service_by_uid(d, key->uid);
	struct journal_known *change;

	if (!service || d->known_change_count >= CHANGES_MAX)
		return;
	if (d->known_change_count == d->known_change_capacity) {
		size_t capacity = d->known_change_capacity ? 2 * d->known_change_capacity : 64;
		struct journal_known *bigger = reallocarray(d->known_changes, capacity, sizeof(*bigger));

		if (!bigger)
			return;
		d->known_changes = bigger;
		d->known_change_capacity = capacity;
	}
	change = &d->known_changes[d->known_change_count++];
	*change = (struct journal_known){0};
	memcpy(change->service, service->policy.name, sizeof(change->service));
	memcpy(change->addr, key->addr, sizeof(change->addr));
	if (known) {
		change->since = moment_at(known->since_ns);
		change->until = moment_at(known->until_ns);
	}
}

static struct known_rule rule_of(const struct config *config)
{
	return (struct known_rule){
		.turns = config->known.turns,
		.over_ns = config->known.over_ns,
		.ttl_ns = config->known.ttl_ns,
		.jitter = config->known.jitter,
		.max_per_v4_24 = config->known.max_per_v4_24,
		.max_per_v6_48 = config->known.max_per_v6_48,
	};
}

struct scan {
	struct daemon *d;
	struct known_rule rule;
	uint64_t now_ns;
};

static void judge(const struct slc_cold *cold, void *arg)
{
	struct scan *scan = arg;
	struct daemon *d = scan->d;
	struct slc_known_key key = {.uid = cold->uid};
	struct slc_known known;
	enum known_verdict verdict;

	if (cold->good < scan->rule.turns || !daemon_service_by_uid(d, cold->uid))
		return;
	verdict = known_judge(&d->known, &scan->rule, cold, scan->now_ns, clock_random(), &known);
	if (verdict == KNOWN_CROWDED)
		d->known_crowded++;
	if (verdict != KNOWN_NEW && verdict != KNOWN_RENEW)
		return;
	memcpy(key.addr, cold->addr, sizeof(key.addr));
	if (known_put(&d->known, &key, &known, cold->good))
		return;
	if (datapath_known_set(d->dp, &key, &known)) {
		known_remove(&d->known, &key);
		return;
	}
	note_change(d, &key, &known);
}

static void ended(const struct slc_known_key *key, void *arg)
{
	struct daemon *d = arg;

	datapath_known_delete(d->dp, key);
	note_change(d, key, NULL);
}

/* --- journal, in the background ---------------------------------------------------------------------------------- */

struct write_work {
	uv_work_t req;
	struct daemon *d;
	struct journal_known *changes;
	size_t count;
	int err;
};

static void write_changes(uv_work_t *req)
{
	struct write_work *work = req->data;

	work->err = journal_known_write(work->d->journal, work->changes, work->count);
}

static void written(uv_work_t *req, int status)
{
	struct write_work *work = req->data;

	if (status == 0 && work->err)
		log_warning("known-good sources are not in the journal: %s", strerror(-work->err));
	pthread_mutex_lock(&work->d->lock);
	work->d->known_writing = false;
	pthread_mutex_unlock(&work->d->lock);
	free(work->changes);
	free(work);
}

static void write_later(struct daemon *d, uint64_t now_ns)
{
	struct write_work *work;

	if (d->known_writing || d->known_change_count == 0 || now_ns - d->known_written_ns < WRITE_EVERY_NS)
		return;
	work = calloc(1, sizeof(*work));
	if (!work)
		return;
	*work = (struct write_work){
		.req.data = work, .d = d, .changes = d->known_changes, .count = d->known_change_count};
	d->known_written_ns = now_ns;
	if (uv_queue_work(&d->loop, &work->req, write_changes, written)) {
		free(work);
		return;
	}
	d->known_writing = true;
	d->known_changes = NULL;
	d->known_change_count = d->known_change_capacity = 0;
}

void promote_finish(struct daemon *d)
{
	if (d->journal && d->known_change_count)
		journal_known_write(d->journal, d->known_changes, d->known_change_count);
	free(d->known_changes);
	d->known_changes = NULL;
	d->known_change_count = d->known_change_capacity = 0;
}

/* --- tick ------------------------------------------------------------------------------------------------------------- */

void promote_tick(struct daemon *d, uint64_t now_ns)
{
	struct scan scan = {.d = d, .rule = rule_of(d->config), .now_ns = now_ns};
	size_t sets = datapath_cold_sets(d->dp), slice = (sets + SCAN_TICKS - 1) / SCAN_TICKS;

	if (slice > SETS_PER_TICK)
		slice = SETS_PER_TICK;
	if (d->cold_cursor >= sets)
		d->cold_cursor = 0;
	if (slice > sets - d->cold_cursor)
		slice = sets - d->cold_cursor;
	datapath_cold_walk(d->dp, d->cold_cursor, slice, judge, &scan);
	d->cold_cursor += slice;
	known_expire(&d->known, &d->known_cursor, (d->known.entries.capacity + SCAN_TICKS - 1) / SCAN_TICKS, now_ns,
		     scan.rule.ttl_ns, ended, d);
	write_later(d, now_ns);
}

/* --- start and changes of services ------------------------------------------------------------------------------------ */

struct keys {
	struct slc_known_key *at;
	size_t count, capacity;
};

static void keep_key(struct keys *keys, const struct slc_known_key *key)
{
	if (keys->count == keys->capacity) {
		size_t capacity = keys->capacity ? 2 * keys->capacity : 64;
		struct slc_known_key *bigger = reallocarray(keys->at, capacity, sizeof(*bigger));

		if (!bigger)
			return;
		keys->at = bigger;
		keys->capacity = capacity;
	}
	keys->at[keys->count++] = *key;
}

void promote_prune(struct daemon *d)
{
	struct keys keys = {0};

	for (size_t i = 0; i < d->known.entries.capacity; i++) {
		const struct known_entry *entry = &d->known.entries.slots[i];

		if (entry->used && !daemon_service_by_uid(d, entry->key.uid))
			keep_key(&keys, &entry->key);
	}
	for (size_t i = 0; i < keys.count; i++) {
		known_remove(&d->known, &keys.at[i]);
		datapath_known_delete(d->dp, &keys.at[i]);
	}
	free(keys.at);
}

struct load {
	struct daemon *d;
	struct keys stale;
	uint64_t now_ns;
	size_t from_map, from_journal;
};

static bool load_from_map(const struct slc_known_key *key, const struct slc_known *known, void *arg)
{
	struct load *load = arg;

	if (known->until_ns <= load->now_ns || !daemon_service_by_uid(load->d, key->uid))
		keep_key(&load->stale, key);
	else if (known_put(&load->d->known, key, known, 0) == 0)
		load->from_map++;
	return true;
}

static void load_from_journal(const struct journal_known *row, void *arg)
{
	struct load *load = arg;
	struct service *service = daemon_service(load->d, row->service);
	struct slc_known_key key = {0};
	struct slc_known known = {.since_ns = moment_here(&row->since), .until_ns = moment_here(&row->until)};

	if (!service || known.until_ns <= load->now_ns)
		return;
	key.uid = service->policy.uid;
	memcpy(key.addr, row->addr, sizeof(key.addr));
	if (known_find(&load->d->known, &key) || known_put(&load->d->known, &key, &known, 0))
		return;
	if (datapath_known_set(load->d->dp, &key, &known))
		known_remove(&load->d->known, &key);
	else
		load->from_journal++;
}

void promote_load(struct daemon *d)
{
	struct load load = {.d = d, .now_ns = clock_ns()};
	int err = datapath_known_walk(d->dp, load_from_map, &load);

	for (size_t i = 0; i < load.stale.count; i++)
		datapath_known_delete(d->dp, &load.stale.at[i]);
	free(load.stale.at);
	if (!err)
		err = journal_knowns(d->journal, load_from_journal, &load);
	if (err)
		log_warning("known-good sources cannot be read: %s", strerror(-err));
	if (load.from_map + load.from_journal)
		log_info("known-good sources: %zu from the map, %zu more from the journal", load.from_map,
			 load.from_journal);
}
