// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/breakers.h"

#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <string.h>

#include "user/control/clock.h"
#include "user/control/controller.h"
#include "user/control/dependencies.h"
#include "user/control/figures_json.h"
#include "user/control/log.h"
#include "user/control/overrides.h"
#include "user/decide/breaker_time.h"

#define LOST_MIN_NS NS_PER_S /* a handshake that is not over after this, and 3 x H, is lost */
#define LOST_HANDSHAKES 3
#define SAVE_EVERY_NS (60 * NS_PER_S) /* of baselines; a transition is saved at once */
#define LINES_MAX 10 /* a minute about one breaker */
#define LINES_NS (60 * NS_PER_S)

/* --- life ------------------------------------------------------------------------------------------------------- */

struct find_row {
	bool found;
	struct journal_breaker row;
};

static void find_row(const struct journal_breaker *row, void *arg)
{
	struct find_row *find = arg;

	find->row = *row;
	find->found = true;
}

static int name_index(const char *const *names, int count, const char *name)
{
	for (int i = 0; i < count; i++) {
		if (strcmp(names[i], name) == 0)
			return i;
	}
	return -1;
}

static void restore_learned(struct service *service, const struct journal_breaker *row)
{
	int tripped_by = name_index(breaker_rule_names, RULE_COUNT, row->tripped_by);

	service->baseline = (struct baseline){
		.windows = row->has_base ? BASELINE_MEMORY : 0,
		.p95_ns = row->base_ns,
		.has_p99 = row->has_p99,
		.p99_ns = row->p99_ns,
		.has_rate = row->has_rate,
		.rate = row->rate,
		.has_connections = row->has_connections,
		.connections = row->connections,
	};
	breaker_learn(&service->breaker, &service->baseline);
	if (tripped_by > 0)
		service->breaker.tripped_by = tripped_by;
}

/*
 * The journal is written just after the push: killed between the two, only the maps know. Then the deadline is lost; an
 * open breaker goes on for one opening, a ramp begins anew.
 */
static void restore_from_half(struct breaker *breaker, const struct slc_decision_half *half, uint64_t now_ns)
{
	enum breaker_state state = half->flags & SLC_D_OPEN        ? BREAKER_open
				   : half->flags & SLC_D_HALF_OPEN ? BREAKER_half_open
								   : BREAKER_closed;

	breaker_restore(breaker, state, 0, now_ns + breaker->config.open_base_ns, now_ns);
	if (half->flags & SLC_D_RAMP)
		breaker_restore_ramp(breaker, 0, now_ns + breaker->config.ramp_every_ns, now_ns);
}

static void restore_from_row(struct breaker *breaker, const struct journal_breaker *row, uint64_t now_ns)
{
	int state = name_index(breaker_state_names, BREAKER_STATE_COUNT, row->state);
	int rule = name_index(breaker_rule_names, RULE_COUNT, row->rule);

	breaker->generation = row->generation;
	if (rule > 0)
		breaker->rule = rule;
	if (state >= 0)
		breaker_restore(breaker, state, row->openings, moment_here(&row->open_until), now_ns);
	if (row->has_ramp)
		breaker_restore_ramp(breaker, row->ramp_steps, moment_here(&row->ramp_at), now_ns);
}

static void restore(struct daemon *d, struct service *service, const struct slc_decision_half *half, uint64_t now_ns)
{
	struct breaker *breaker = &service->breaker;
	const char *name = service->policy.name;
	struct find_row find = {0};
	int err = journal_breakers(d->journal, name, find_row, &find);

	if (err)
		log_warning("%s: its breaker cannot be read from the journal: %s", name, strerror(-err));
	if (find.found)
		restore_learned(service, &find.row);
	/* A slot without a push is of new maps, or of a service that was taken up now. */
	if (find.found &&
	    (find.row.generation == breaker->generation || (datapath_modes(d->dp)->fresh && !half->valid_until_ns)))
		restore_from_row(breaker, &find.row, now_ns);
	else
		restore_from_half(breaker, half, now_ns);
	if (breaker->state != BREAKER_closed)
		log_info("breaker of %s: %s goes on, generation %u", name, breaker_state_names[breaker->state],
			 breaker->generation);
	else if (breaker->ramping)
		log_info("breaker of %s: its ramp goes on at %.0f/s", name, breaker_ramp_rate(breaker));
}

int breakers_new(struct daemon *d, struct service *service, uint64_t now_ns)
{
	struct slc_decision_half half;
	uint32_t generation;
	int err = datapath_get_decision(d->dp, service->policy.state, &half, &generation);

	if (!err)
		err = signals_init(&service->signals);
	if (!err)
		err = breaker_init(&service->breaker, &service->config->breaker, generation, now_ns);
	if (err) {
		signals_free(&service->signals);
		return err;
	}
	service->has_breaker = true;
	service->was_listening = half.flags & SLC_D_LISTENED;
	restore(d, service, &half, now_ns);
	signals_rebase(&service->signals, datapath_signals(d->dp, service->policy.state), service->breaker.generation,
		       now_ns);
	return 0;
}

void breakers_free(struct service *service)
{
	if (!service->has_breaker)
		return;
	breaker_finish(&service->breaker);
	signals_free(&service->signals);
	service->has_breaker = false;
}

void breakers_move(struct service *to, struct service *from, uint64_t now_ns)
{
	breakers_free(to);
	to->signals = from->signals;
	to->breaker = from->breaker;
	to->has_breaker = from->has_breaker;
	from->has_breaker = false;
	to->listening = from->listening;
	to->was_listening = from->was_listening;
	to->drops = from->drops;
	to->authority = from->authority;
	to->refusals = from->refusals;
	to->pressure = from->pressure;
	to->baseline = from->baseline;
	to->watch = from->watch;
	to->unsaved = from->unsaved;
	memcpy(to->health, from->health, sizeof(to->health));
	memcpy(&to->lines, &from->lines, sizeof(to->lines));
	if (breaker_reconfigure(&to->breaker, &to->config->breaker, now_ns))
		log_warning("breaker of %s: out of memory, it goes on as configured before", to->policy.name);
}

/* --- what was seen ------------------------------------------------------------------------------------------------- */

static uint64_t sum_classes(const uint64_t counts[SLC_CLASS_COUNT])
{
	uint64_t sum = 0;

	for (unsigned int c = 0; c < SLC_CLASS_COUNT; c++)
		sum += counts[c];
	return sum;
}

/* What only happens to a service that is not well, or that somebody protects; dry runs count too. */
static uint64_t count_refusals(const struct slc_counters *counters)
{
	const struct slc_reasons *e = &counters->enforced, *dry = &counters->dry;

	return e->accept_pressure + e->queue_wait + e->shed + e->stopped + e->circuit_open + e->failsafe +
	       dry->accept_pressure + dry->queue_wait + dry->shed + dry->circuit_open;
}

static bool mark_passed(const struct service *service)
{
	const struct queue_view *queue = &service->queue;
	const struct service_config *config = service->config;

	if (!config->has_queue || !queue->listeners)
		return false;
	return (uint64_t)queue->length * 10000 > (uint64_t)queue->limit * config->low ||
	       (queue->has_head_age && queue->head_age_ns > config->target_ns);
}

bool breakers_disturbed(const struct service *service)
{
	return count_refusals(&service->counters) != service->refusals || mark_passed(service) ||
	       service->pressure.on || service->breaker.state != BREAKER_closed || service->breaker.ramping;
}

/* What a healthy service is like is learned while this one is. */
static void watch_wellness(struct service *service, const struct slc_signals *map, uint64_t connected,
			   const struct dist_counts *latency, uint64_t now_ns)
{
	struct tally tally;
	struct baseline_input input = {
		.now_ns = now_ns,
		.disturbed = breakers_disturbed(service),
		.tally = &tally,
		.failure_rate = service->config->breaker.failure_rate,
		.answered = signals_filed(map, ANSWERS),
		.connected = connected,
		.held = __atomic_load_n(&map->held, __ATOMIC_RELAXED),
		.latency = latency,
	};

	window_newest(service->breaker.fast, now_ns, UINT64_MAX, BASELINE_WINDOW_NS, &tally);
	baseline_tick(&service->baseline, &service->watch, &input);
	service->refusals = count_refusals(&service->counters);
}

/* Overloaded is not broken: what begins under pressure does not count against the service. */
static void weigh_pressure(struct service *service, const struct slc_signals *map, uint64_t now_ns)
{
	uint64_t reset = __atomic_load_n(&map->reset, __ATOMIC_RELAXED), closed;
	struct pressure_input input = {
		.now_ns = now_ns,
		.in_flight = service->signals.in_flight,
		.begun = __atomic_load_n(&map->turns_begun, __ATOMIC_RELAXED),
		.answered = signals_filed(map, 1u << SLC_OUT_answered | 1u << SLC_OUT_slow | 1u << SLC_OUT_late),
		.failed = signals_filed(map, 1u << SLC_OUT_closed_unanswered | 1u << SLC_OUT_http_5xx),
		.slow_after_ns = service->config->slow_after_ns,
		.has_healthy_rate = service->baseline.has_rate,
		.healthy_rate = service->baseline.rate,
	};

	closed = __atomic_load_n(&map->closed, __ATOMIC_RELAXED);
	input.closed = closed > reset ? closed - reset : 0;
	pressure_tick(&service->pressure, &input);
}

static void weigh_authority(struct service *service, const struct slc_signals *map, uint64_t now_ns)
{
	const struct queue_view *queue = &service->queue;
	struct authority_input input = {
		.now_ns = now_ns,
		.has_head_age = queue->has_head_age && service->config->has_queue,
		.head_age_ns = queue->head_age_ns,
		.target_ns = service->config->target_ns,
		.has_occupancy = queue->listeners && queue->limit,
		.turns_begun = __atomic_load_n(&map->turns_begun, __ATOMIC_RELAXED),
		.turns_young = __atomic_load_n(&map->turns_young, __ATOMIC_RELAXED),
	};

	if (input.has_occupancy)
		input.occupancy = (double)queue->length / queue->limit;
	authority_tick(&service->authority, &input);
}

bool breakers_rest(const struct daemon *d, struct service *service, uint64_t turn, uint64_t now_ns)
{
	const struct slc_signals *map = datapath_signals(d->dp, service->policy.state);
	/* The second `closed` makes a close, by which `open` falls, a step up too. */
	uint64_t moved = signals_filed(map, ~0u) + __atomic_load_n(&map->turns_begun, __ATOMIC_RELAXED) +
			 __atomic_load_n(&map->turns_ended, __ATOMIC_RELAXED) +
			 __atomic_load_n(&map->open, __ATOMIC_RELAXED) +
			 2 * __atomic_load_n(&map->closed, __ATOMIC_RELAXED);
	bool calm = service->breaker.state == BREAKER_closed && !service->breaker.ramping && !service->pressure.on &&
		    !service->signals.in_flight && !service->queue.length && !service->drops &&
		    !overrides_find(d, OVERRIDE_breaker, service->policy.name);

	return rest_tick(&service->rest, moved, calm, turn, now_ns);
}

static void sense(struct daemon *d, struct service *service, uint64_t now_ns)
{
	const struct slc_signals *map = datapath_signals(d->dp, service->policy.state);
	uint64_t lost_ns = LOST_HANDSHAKES * service->decision.handshake_ns;
	const struct completion_sample *newest = completion_before(&service->completion, 0, now_ns), *then;
	bool tcp = service->policy.proto == IPPROTO_TCP;
	struct signals_facts facts = {
		.now_ns = now_ns,
		.has_head_wait = service->queue.has_head_age,
		.head_wait_ns = service->queue.head_age_ns,
		.gate_blind = tcp && (datapath_modes(d->dp)->no_btf || !(service->policy.flags & SLC_P_GATE)),
		.was_listening = service->was_listening,
		.listening = service->listening,
		.admitted = newest ? sum_classes(newest->admitted) : 0,
		.established = newest ? sum_classes(newest->established) : 0,
		.drops = service->drops,
	};
	struct dist_counts latency;

	then = completion_before(&service->completion, lost_ns > LOST_MIN_NS ? lost_ns : LOST_MIN_NS, now_ns);
	if (tcp && d->sockops && then)
		facts.admitted_then = sum_classes(then->admitted);
	service->drops = 0;
	signals_take(&service->signals, map, datapath_measure(d->dp, service->policy.state), &facts,
		     service->breaker.generation, &service->sample);
	dist_window_sum(service->signals.latency.fast, now_ns, &latency);
	service->has_p95 = dist_quantile(&latency, 9500, &service->p95_ns);
	weigh_authority(service, map, now_ns);
	weigh_pressure(service, map, now_ns);
	/* In the unit of the total bucket, less what never became a connection: spoofed SYNs are no load. */
	if (newest)
		watch_wellness(service, map, tcp && d->sockops ? facts.established : facts.admitted, &latency, now_ns);
}

void breakers_sense(struct daemon *d, uint64_t now_ns)
{
	for (size_t i = 0; i < d->service_count; i++) {
		if (!d->services[i]->resting)
			sense(d, d->services[i], now_ns);
	}
	dependencies_judge(d, now_ns);
}

void probes_view(const struct slc_probe *probe, uint32_t generation, uint64_t now_ns, struct probe_view *ret_view)
{
	struct probe_view view = {0};

	for (unsigned int i = 0; i < SLC_PROBES; i++) {
		union slc_slot slot = {.word = __atomic_load_n(&probe->slot[i].word, __ATOMIC_ACQUIRE)};
		bool over = __atomic_load_n(&probe->deadline_ns[i], __ATOMIC_RELAXED) <= now_ns;

		if (slot.generation != (generation & 0xffffff))
			continue;
		view.succeeded += slot.state == SLC_SLOT_success;
		view.failed += slot.state == SLC_SLOT_failure || (slot.state == SLC_SLOT_owed && over);
		view.tickets += slot.state == SLC_SLOT_ticket && !over;
		view.outstanding += (slot.state == SLC_SLOT_probe || slot.state == SLC_SLOT_owed) && !over;
	}
	*ret_view = view;
}

static enum breaker_order order_of(const struct override *order)
{
	if (!order)
		return ORDER_NONE;
	return order->open ? ORDER_OPEN : ORDER_CLOSED;
}

static void make_input(struct daemon *d, struct service *service, const struct override *order, uint64_t now_ns,
		       struct breaker_input *input)
{
	const struct slc_signals *map = datapath_signals(d->dp, service->policy.state);

	*input = (struct breaker_input){
		.now_ns = now_ns,
		.random = clock_random(),
		.sample = &service->sample,
		.owed = service->signals.in_flight,
		.working = service->pressure.works,
		.has_p95 = service->has_p95,
		.p95_ns = service->p95_ns,
		.last_answer_ns = __atomic_load_n(&map->last_answer_ns, __ATOMIC_RELAXED),
		.baseline = &service->baseline,
		.handshake_ns = service->decision.handshake_ns,
		.known_any = d->known.live > 0,
		.held = service->held,
		.order = order_of(order),
	};
	input->has_last_answer = input->last_answer_ns != 0; /* the clock was never 0 */
	if (input->owed * 2 >= service->breaker.config.min_outcomes) { /* else nobody asks */
		struct overdue_waiting waiting =
			overdue_waiting(service->signals.overdue, map, now_ns, service->breaker.config.silent_ns);

		input->owed_proven = waiting.proven;
		input->owed_unproven = service->policy.proto == IPPROTO_TCP ? waiting.unproven : 0;
	}
	probes_view(datapath_probes(d->dp, service->policy.state), service->breaker.generation, now_ns, &input->probes);
}

/* --- what is decided ------------------------------------------------------------------------------------------------- */

uint64_t rate_interval16(double per_second)
{
	double interval = per_second > 0 ? ceil(16.0 * (double)NS_PER_S / per_second) : INFINITY;

	return interval < 1 ? 1 : interval < 0x1p63 ? (uint64_t)interval : ~0ULL;
}

/*
 * What is in flight when a turn begins the kernel side knows at once, the tick only later. It counts those too that
 * were given up on and hang on in open connections, and datagrams that nobody answered: they are added to the limit.
 */
static void put_pressure(const struct daemon *d, const struct service *service, struct slc_decision_half *half)
{
	const struct pressure *pressure = &service->pressure;
	uint64_t owed = signals_owed(datapath_signals(d->dp, service->policy.state));
	uint64_t hanging = owed > service->signals.in_flight ? owed - service->signals.in_flight : 0;

	if (pressure->on)
		half->flags |= SLC_D_PRESSURE;
	if (!pressure->works || pressure->limit >= INT32_MAX)
		return;
	half->flags |= SLC_D_TURNS_MAX;
	half->turns_max = (uint32_t)(hanging + (uint64_t)pressure->limit); /* compared modulo 2^32 */
}

static void put_half(const struct service *service, const struct breaker_decision *decision,
		     struct slc_decision_half *half)
{
	if (decision->shadow)
		half->flags |= SLC_D_SHADOW;
	if (service->was_listening)
		half->flags |= SLC_D_LISTENED;
	half->probes = decision->probes;
	half->reserved = decision->reserved;
	half->ticket_ms = decision->ticket_ms;
	if (decision->ramp && !decision->shadow) {
		half->flags |= SLC_D_RAMP | SLC_D_TOTAL;
		half->total_interval16 = rate_interval16(decision->ramp_rate);
	}
	if (!decision->open && !decision->half_open)
		return;
	half->flags |= decision->open ? SLC_D_OPEN : SLC_D_HALF_OPEN;
	half->total_interval16 = decision->has_floor ? rate_interval16(decision->floor_rate) : ~0ULL;
}

/* What the figures say, in words, after the names of the states. */
static void say_figures(const struct breaker_event *event, char *buf, size_t len)
{
	const struct tally *tally = event->rule == RULE_fast ? &event->figures.fast : &event->figures.window;
	int used = snprintf(buf, len, "%llu of %llu failed, %u of %u sources", (unsigned long long)tally->failures,
			    (unsigned long long)tally->outcomes, tally->failing, tally->active);

	if (event->figures.has_p95 && (size_t)used < len)
		used += snprintf(buf + used, len - used, ", P95 %.1f ms", (double)event->figures.p95_ns / 1e6);
	if (event->figures.has_silence && (size_t)used < len)
		used += snprintf(buf + used, len - used, ", %llu owed and silent for %.1f s",
				 (unsigned long long)event->figures.owed, (double)event->figures.silence_ns / 1e9);
	if (event->to == BREAKER_open && (size_t)used < len)
		snprintf(buf + used, len - used, "; for %.3f s", (double)event->open_for_ns / 1e9);
}

static void log_event(struct service *service, const struct breaker_event *event)
{
	char figures[256];

	if (event->at_ns - service->lines.since_ns >= LINES_NS) {
		if (service->lines.count > LINES_MAX)
			log_warning("breaker of %s: %u more changes in the last minute", service->policy.name,
				    service->lines.count - LINES_MAX);
		service->lines.since_ns = event->at_ns;
		service->lines.count = 0;
	}
	if (++service->lines.count > LINES_MAX)
		return;
	say_figures(event, figures, sizeof(figures));
	log_info("breaker of %s: %s -> %s (%s)%s, generation %u: %s", service->policy.name,
		 breaker_state_names[event->from], breaker_state_names[event->to], breaker_rule_names[event->rule],
		 event->enforced ? "" : ", metrics only", event->generation, figures);
}

static void note_event(struct daemon *d, struct service *service, const struct override *order,
		       struct breaker_event *event)
{
	json_t *by = NULL;

	event->enforced |= breaker_is_forced(event->to);

	if (order)
		by = json_pack("{s:I, s:s, s:I}", "id", (json_int_t)order->id, "reason", order->reason, "by_uid",
			       (json_int_t)order->by_uid);
	event_log_breaker(d->event_log, service->policy.name, event->at_ns,
			  breaker_event_json(event, by, context_json(d, service, &event->figures)));
	log_event(service, event);
	service->unsaved = true;
	d->health_ns = 0; /* an open breaker is health 0 at once */
}

void breakers_decide(struct daemon *d, struct service *service, uint64_t now_ns, struct slc_decision_half *half)
{
	const struct override *order = overrides_find(d, OVERRIDE_breaker, service->policy.name);
	const struct breaker *breaker = &service->breaker;
	const unsigned int steps = breaker->ramp_steps;
	const bool ramping = breaker->ramping;
	struct breaker_event events[BREAKER_EVENTS_MAX];
	struct breaker_decision decision;
	struct breaker_input input;
	unsigned int count;

	make_input(d, service, order, now_ns, &input);
	count = breaker_tick(&service->breaker, &input, events, &decision);
	for (unsigned int i = 0; i < count; i++)
		note_event(d, service, order, &events[i]);
	service->unsaved |= breaker->ramping != ramping || breaker->ramp_steps != steps;
	if (count)
		signals_rebase(&service->signals, datapath_signals(d->dp, service->policy.state),
			       service->breaker.generation, now_ns);
	put_half(service, &decision, half);
	put_pressure(d, service, half);
}

void breakers_gap(struct daemon *d, uint64_t gap_ns, uint64_t now_ns)
{
	if (gap_ns <= d->config->lease_ns)
		return;
	for (size_t i = 0; i < d->service_count; i++) {
		struct service *service = d->services[i];

		signals_renew(&service->signals, datapath_signals(d->dp, service->policy.state), now_ns);
		breaker_forget(&service->breaker);
		memset(&service->pressure, 0, sizeof(service->pressure));
	}
}

bool breakers_in_force(const struct daemon *d, const struct service *service)
{
	struct slc_decision_half half;
	uint32_t generation;

	return datapath_get_decision(d->dp, service->policy.state, &half, &generation) == 0 &&
	       generation == service->breaker.generation && half.flags == service->decision.flags;
}

bool breakers_advice(const struct service *service, const struct service_config *config, char *buf, size_t len)
{
	const struct breaker *breaker = &service->breaker;
	uint64_t p99_ms = (breaker->healthy_p99_ns + NS_PER_MS - 1) / NS_PER_MS; /* for people */
	char advice[480];

	if (!breaker->has_healthy_p99 || !config_advise_open_base(config, p99_ms * NS_PER_MS, advice, sizeof(advice)))
		return false;
	snprintf(buf, len, "services[%s].breaker.open.base: %s", config->name, advice);
	return true;
}

void breakers_advise(const struct daemon *d, const struct config *config, struct diag *diag)
{
	char advice[512 + SLC_NAME_LEN];

	for (size_t i = 0; i < config->service_count; i++) {
		for (size_t j = 0; j < d->service_count; j++) {
			if (strcmp(d->services[j]->policy.name, config->services[i].name) == 0 &&
			    breakers_advice(d->services[j], &config->services[i], advice, sizeof(advice)))
				diag_warn(diag, "%s", advice);
		}
	}
}

/* --- journal ------------------------------------------------------------------------------------------------------------ */

struct save {
	uv_work_t req;
	struct daemon *d;
	struct journal_breaker *rows;
	size_t count;
	bool all;
	int err;
};

static void fill_row(const struct service *service, struct journal_breaker *row)
{
	const struct breaker *breaker = &service->breaker;

	*row = (struct journal_breaker){
		.generation = breaker->generation,
		.openings = breaker->openings,
		.since = moment_at(breaker->since_ns),
		.open_until = moment_at(breaker->open_until_ns),
		.has_base = breaker->has_base,
		.base_ns = breaker->learned_base_ns,
		.has_p99 = breaker->has_healthy_p99,
		.p99_ns = breaker->healthy_p99_ns,
		.has_rate = service->baseline.has_rate,
		.rate = service->baseline.rate,
		.has_connections = service->baseline.has_connections,
		.connections = service->baseline.connections,
		.has_ramp = breaker->ramping,
		.ramp_steps = breaker->ramp_steps,
		.ramp_at = moment_at(breaker->ramp_at_ns),
	};
	memcpy(row->service, service->policy.name, sizeof(row->service));
	snprintf(row->state, sizeof(row->state), "%s", breaker_state_names[breaker->state]);
	snprintf(row->rule, sizeof(row->rule), "%s", breaker_rule_names[breaker->rule]);
	snprintf(row->tripped_by, sizeof(row->tripped_by), "%s", breaker_rule_names[breaker->tripped_by]);
}

/* Rows of those that have moved, or of all. NULL: none, or no memory. */
static struct journal_breaker *make_rows(struct daemon *d, bool all, size_t *ret_count)
{
	struct journal_breaker *rows = calloc(d->service_count ? d->service_count : 1, sizeof(*rows));
	size_t count = 0;

	for (size_t i = 0; rows && i < d->service_count; i++) {
		struct service *service = d->services[i];

		if (!service->has_breaker || (!all && !service->unsaved))
			continue;
		fill_row(service, &rows[count++]);
		service->unsaved = false;
	}
	if (!count) {
		free(rows);
		rows = NULL;
	}
	*ret_count = count;
	return rows;
}

static void save_rows(uv_work_t *req)
{
	struct save *save = req->data;

	save->err = journal_breakers_write(save->d->journal, save->rows, save->count, save->all);
}

static void saved(uv_work_t *req, int status)
{
	struct save *save = req->data;

	if (status == 0 && save->err)
		log_warning("states of breakers are not in the journal: %s", strerror(-save->err));
	pthread_mutex_lock(&save->d->lock);
	save->d->breakers_saving = false;
	pthread_mutex_unlock(&save->d->lock);
	free(save->rows);
	free(save);
}

void breakers_save_later(struct daemon *d, uint64_t now_ns)
{
	bool all = d->breakers_stray || now_ns - d->breakers_saved_ns >= SAVE_EVERY_NS;
	struct save *save;

	if (d->breakers_saving)
		return;
	save = calloc(1, sizeof(*save));
	if (!save)
		return;
	*save = (struct save){.req.data = save, .d = d, .all = all};
	save->rows = make_rows(d, all, &save->count);
	if (all) {
		d->breakers_saved_ns = now_ns;
		d->breakers_stray = false;
	}
	if (!save->rows || uv_queue_work(&d->loop, &save->req, save_rows, saved)) {
		free(save->rows);
		free(save);
		return;
	}
	d->breakers_saving = true;
}

void breakers_finish(struct daemon *d)
{
	size_t count;
	struct journal_breaker *rows = d->journal ? make_rows(d, true, &count) : NULL;

	if (rows)
		journal_breakers_write(d->journal, rows, count, d->api_was_up);
	free(rows);
}
