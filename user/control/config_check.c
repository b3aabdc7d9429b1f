// SPDX-License-Identifier: GPL-2.0-only
/* What one key alone cannot violate: order of marks, keys that need each other, names and addresses that collide. */
#include "user/control/config_load.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "user/control/compile.h"

#define LISTEN_TABLE 1024 /* slc_services_inner */

static const struct cidr everything4 = {.addr = {[10] = 0xff, [11] = 0xff}, .prefix = 96};

bool cidr_covers_ipv4(const struct cidr *cidr)
{
	return cidr_contains(cidr, &everything4);
}

/* --- order of two values ---------------------------------------------------------------------------------------- */

/* `below` is below `above`; where `equal`, it may equal it. */
static const struct pair {
	const char *below, *above;
	bool equal;
} service_pairs[] =
	{
		{"accept_queue.low", "accept_queue.high", true},
		{"accept_queue.target", "accept_queue.max_wait", false},
		{"accept_queue.reserve", "accept_queue.deadline", false},
		{"breaker.open.base", "breaker.open.cap", true},
		{"breaker.close_after", "breaker.probes", true},
		{"shed.ladder.l1", "shed.ladder.l2", false},
		{"shed.warn", "shed.fuse", false},
},
  host_pairs[] = {
	  {"host.cpu.release", "host.cpu.cut", false},
	  {"host.psi.release", "host.psi.cut", false},
	  {"host.memory.release", "host.memory.cut", false},
};

static const struct setting *setting_of(const struct config *config, const char *path)
{
	for (size_t i = 0; i < config->setting_count; i++)
		if (!strcmp(config->settings[i].path, path))
			return &config->settings[i];
	return NULL;
}

static void check_pair(struct load *load, const struct pair *pair, const struct setting *below,
		       const struct setting *above)
{
	struct value low, high;
	char why[512];

	if (!below || !above || schema_value(below->key, below->value, &low, why, sizeof(why)) ||
	    schema_value(above->key, above->value, &high, why, sizeof(why)) || low.word || high.word ||
	    low.n < high.n || (pair->equal && low.n == high.n))
		return;
	const struct setting *blame = below->line > above->line ? below : above;
	report_error(load->report, blame->line, blame->column, "%s: %s%s is %s %s: %s%s; %s must be %s %s", below->path,
		     below->value, below->line ? "" : " (default)", pair->equal ? "above" : "not below",
		     schema_name(above->key), above->value, above->line ? "" : " (default)", schema_name(below->key),
		     pair->equal ? "at most" : "less than", schema_name(above->key));
}

/* --- services --------------------------------------------------------------------------------------------------- */

void config_blame(struct load *load, size_t service, const char *name, const char *what)
{
	const struct setting *setting = config_service_setting(load, service, name);
	const struct service_config *config = &load->config->services[service];

	report_error(load->report, setting && setting->line ? setting->line : (unsigned)config->line,
		     setting && setting->line ? setting->column : 1, "services[%s].%s: %s", config->name, name, what);
}

static void check_bucket(struct load *load, size_t service, const struct bucket_config *bucket, const char *rate,
			 const char *burst)
{
	char what[256];

	if (bucket->rate.set == (bucket->burst != 0))
		return;
	if (bucket->rate.set)
		snprintf(what, sizeof(what), "%s is set without burst; add burst, the number accepted at once, from 1",
			 config_service_setting(load, service, rate)->value);
	else
		snprintf(what, sizeof(what), "%u is set without rate; add rate, or remove burst", bucket->burst);
	config_blame(load, service, bucket->rate.set ? rate : burst, what);
}

/* Of two keys the one that was given: the other is a default. */
static const char *given(const struct load *load, size_t service, const char *name, const char *other)
{
	const struct setting *setting = config_service_setting(load, service, name);

	return setting && setting->line ? name : other;
}

static void check_source(struct load *load, size_t index)
{
	const struct service_config *service = &load->config->services[index];
	char what[256];

	if (service->has_wide && !service->source.rate.set)
		config_blame(load, index, "source.wide.rate", "wide is the second bucket; source.rate must be set too");
	if (service->override_count && !service->source.rate.set)
		config_blame(load, index, "source.overrides.cidr",
			     "overrides are exceptions to source.rate, which must be set too");
	if (service->has_wide && service->wide_v4_prefix >= service->v4_prefix) {
		snprintf(what, sizeof(what), "source.wide.ipv4_prefix, %u, is not shorter than source.ipv4_prefix, %u",
			 service->wide_v4_prefix, service->v4_prefix);
		config_blame(load, index, given(load, index, "source.wide.ipv4_prefix", "source.ipv4_prefix"), what);
	}
	if (service->has_wide && service->wide_v6_prefix >= service->v6_prefix) {
		snprintf(what, sizeof(what), "source.wide.ipv6_prefix, %u, is not shorter than source.ipv6_prefix, %u",
			 service->wide_v6_prefix, service->v6_prefix);
		config_blame(load, index, given(load, index, "source.wide.ipv6_prefix", "source.ipv6_prefix"), what);
	}
	for (size_t i = 0; i < service->override_count; i++) {
		const struct cidr *cidr = &service->overrides[i].cidr;
		char text[64];

		format_cidr(cidr, text, sizeof(text));
		if (cidr->prefix < 96 && cidr_covers_ipv4(cidr)) {
			snprintf(what, sizeof(what), "%s would take in IPv4 too; 2000::/3 is the IPv6 Internet", text);
			config_blame(load, index, "source.overrides.cidr", what);
		}
		for (size_t j = 0; j < i; j++)
			if (!memcmp(cidr, &service->overrides[j].cidr, sizeof(*cidr))) {
				snprintf(what, sizeof(what), "%s stands twice", text);
				config_blame(load, index, "source.overrides.cidr", what);
				break;
			}
	}
}

/* What the packet path cannot hold. */
static void check_compiles(struct load *load, size_t index)
{
	struct snapshot_service compiled;
	const char *key;
	char why[WHY_LEN];
	int err = compile_service(load->config, &load->config->services[index], &compiled, &key, why, sizeof(why));

	if (err) {
		config_blame(load, index, key, why);
		return;
	}
	free(compiled.keys);
	free(compiled.overrides);
}

static void check_queue(struct load *load, size_t index)
{
	const struct service_config *service = &load->config->services[index];
	const struct setting *wait = config_service_setting(load, index, "accept_queue.max_wait");
	const struct setting *deadline = config_service_setting(load, index, "accept_queue.deadline");

	if (service->has_queue && wait && deadline && service->max_wait_ns > service->deadline_ns)
		report_warn(load->report, wait->line ?: deadline->line, 1,
			    "%s: %s is longer than deadline, %s%s: connections may wait until they are worthless",
			    wait->path, wait->value, deadline->value, deadline->line ? "" : " (default)");
}

static void check_service(struct load *load, size_t index)
{
	const struct service_config *service = &load->config->services[index];

	check_bucket(load, index, &service->source, "source.rate", "source.burst");
	check_bucket(load, index, &service->total, "total.rate", "total.burst");
	check_source(load, index);
	check_queue(load, index);
	config_check_breaker(load, index);
	if (service->action == ACTION_RESET && service->proto != IPPROTO_TCP)
		config_blame(load, index, "shed.action", "reset is for protocol: tcp only; this service is udp");
	for (size_t i = 0; i < sizeof(service_pairs) / sizeof(service_pairs[0]); i++)
		check_pair(load, &service_pairs[i], config_service_setting(load, index, service_pairs[i].below),
			   config_service_setting(load, index, service_pairs[i].above));
	if (!load->report->errors)
		check_compiles(load, index);
}

static void check_service_names(struct load *load)
{
	const struct config *config = load->config;
	char what[128];

	for (size_t i = 0; i < config->service_count; i++)
		for (size_t j = 0; j < i; j++)
			if (!strcmp(config->services[i].name, config->services[j].name)) {
				snprintf(what, sizeof(what), "\"%s\" is taken by the service in line %d",
					 config->services[i].name, config->services[j].line);
				config_blame(load, i, "name", what);
				break;
			}
}

/* --- addresses -------------------------------------------------------------------------------------------------- */

struct claim {
	struct slc_service_key key;
	size_t service;
};

static int by_key(const void *left, const void *right)
{
	const struct claim *a = left, *b = right;
	int order = memcmp(&a->key, &b->key, sizeof(a->key));

	return order ?: (a->service > b->service) - (a->service < b->service);
}

static struct claim *gather_claims(const struct config *config, size_t *ret_count)
{
	size_t count = 0, at = 0;

	for (size_t i = 0; i < config->service_count; i++)
		count += config->services[i].listen_count;
	struct claim *claims = calloc(count ?: 1, sizeof(*claims));
	for (size_t i = 0; claims && i < config->service_count; i++)
		for (size_t j = 0; j < config->services[i].listen_count; j++, at++) {
			const struct listen_address *listen = &config->services[i].listen[j];

			claims[at].service = i;
			claims[at].key.port = listen->port;
			claims[at].key.proto = config->services[i].proto;
			memcpy(claims[at].key.addr, listen->addr, sizeof(listen->addr));
		}
	*ret_count = count;
	return claims;
}

/* One address belongs to one service; `*` beside an address is fine, the address is more specific. */
static void check_addresses(struct load *load)
{
	const struct config *config = load->config;
	size_t count;
	struct claim *claims = gather_claims(config, &count);
	char address[64], what[256];

	if (!claims) {
		load->report->oom = true;
		return;
	}
	if (count > LISTEN_TABLE)
		report_error(load->report, 0, 0, "services: %zu addresses in all (* counts twice); at most %d fit",
			     count, LISTEN_TABLE);
	qsort(claims, count, sizeof(*claims), by_key);
	for (size_t i = 1; i < count; i++) {
		const struct service_config *first = &config->services[claims[i - 1].service];

		if (memcmp(&claims[i].key, &claims[i - 1].key, sizeof(claims[i].key)))
			continue;
		format_address(claims[i].key.addr, address, sizeof(address));
		if (claims[i].service == claims[i - 1].service)
			snprintf(what, sizeof(what), "%s port %u stands twice", address, claims[i].key.port);
		else
			snprintf(what, sizeof(what),
				 "%s port %u is taken by service %s in line %d; one address belongs to one service",
				 address, claims[i].key.port, first->name, first->line);
		config_blame(load, claims[i].service, "listen", what);
	}
	free(claims);
}

static void check_management_ports(struct load *load)
{
	const struct config *config = load->config;

	for (size_t i = 0; i < config->service_count; i++)
		for (size_t j = 0; j < config->services[i].listen_count; j++)
			for (size_t k = 0; k < config->management_port_count; k++)
				if (config->services[i].listen[j].port == config->management_ports[k]) {
					report_warn(
						load->report, (unsigned)config->services[i].line, 1,
						"services[%s].listen: port %u is a management port, never refused: no "
						"limit of this service acts on it",
						config->services[i].name, config->management_ports[k]);
					j = config->services[i].listen_count - 1;
					break;
				}
}

/* --- references ------------------------------------------------------------------------------------------------- */

static size_t find_service(const struct config *config, const char *name)
{
	size_t i = 0;

	while (i < config->service_count && strcmp(config->services[i].name, name))
		i++;
	return i;
}

static void check_named_once(struct load *load, const struct reference *reference)
{
	const struct reference *other = load->references;

	while (other < reference && (other->service != reference->service || other->key != reference->key ||
				     other->target != reference->target))
		other++;
	if (other < reference)
		report_error(load->report, reference->node->line, reference->node->column,
			     "services[%s].%s: \"%s\" stands twice; name each service once",
			     load->config->services[reference->service].name, schema_name(reference->key),
			     reference->node->text);
}

static void check_reference(struct load *load, struct reference *reference)
{
	const struct config *config = load->config;
	const struct service_config *service = &config->services[reference->service];
	const char *name = schema_name(reference->key), *text = reference->node->text;
	unsigned line = reference->node->line, column = reference->node->column;

	if (reference->key->type == KEY_SIGNAL) {
		if (!node_get(node_get(load->root, "signals"), text))
			report_error(load->report, line, column,
				     "services[%s].%s: \"%s\" is no signal; declare it under signals:", service->name,
				     name, text);
		return;
	}
	reference->target = find_service(config, text);
	if (reference->target == config->service_count)
		report_error(
			load->report, line, column,
			"services[%s].%s: \"%s\" is no service; the name of another entry of services: is accepted",
			service->name, name, text);
	else if (reference->target == reference->service)
		report_error(load->report, line, column,
			     "services[%s].%s: \"%s\" is the service itself; the name of another one is accepted",
			     service->name, name, text);
	else
		check_named_once(load, reference);
}

/* Of a walk along references by one key. */
struct walk {
	struct load *load;
	const char *path;
	enum { NEW, ABOVE, DONE } state[SLC_STATES];
};

/* The reference that leads from `service` back to a service above it, or NULL. */
static const struct reference *find_cycle(struct walk *walk, size_t service)
{
	const struct reference *found = NULL;

	walk->state[service] = ABOVE;
	for (size_t i = 0; !found && i < walk->load->reference_count; i++) {
		const struct reference *reference = &walk->load->references[i];

		if (reference->service != service || strcmp(reference->key->path, walk->path))
			continue;
		if (walk->state[reference->target] == ABOVE)
			found = reference;
		else if (walk->state[reference->target] == NEW)
			found = find_cycle(walk, reference->target);
	}
	walk->state[service] = DONE;
	return found;
}

/* Names become indices. */
static void store_dependencies(struct load *load)
{
	struct config *config = load->config;

	for (size_t i = 0; i < load->reference_count; i++) {
		const struct reference *reference = &load->references[i];
		struct service_config *service = &config->services[reference->service];

		if (strcmp(reference->key->path, "services.depends_on"))
			continue;
		size_t *grown = reallocarray(service->depends_on, service->depends_count + 1, sizeof(*grown));
		if (!grown) {
			load->report->oom = true;
			return;
		}
		service->depends_on = grown;
		service->depends_on[service->depends_count++] = reference->target;
	}
}

static void check_cycles(struct load *load, const char *path)
{
	const struct config *config = load->config;
	struct walk walk = {.load = load, .path = path};

	for (size_t i = 0; i < config->service_count; i++) {
		const struct reference *reference = walk.state[i] == NEW ? find_cycle(&walk, i) : NULL;

		if (!reference)
			continue;
		report_error(load->report, reference->node->line, reference->node->column,
			     "services[%s].%s: \"%s\" leads back to %s: a cycle is not accepted",
			     config->services[reference->service].name, schema_name(reference->key),
			     reference->node->text, config->services[reference->service].name);
		return;
	}
}

/* --- trust ------------------------------------------------------------------------------------------------------ */

const char *config_trust_problem(enum trust_action action, const struct cidr *cidr)
{
	if (!cidr_covers_ipv4(cidr))
		return NULL;
	if (action == TRUST_DENY)
		return "would deny everyone; deny prefixes, or stop a service by \"sluicectl drain NAME\"";
	return cidr->prefix < 96 ? "would take in IPv4 too; 2000::/3 is the IPv6 Internet" : NULL;
}

static void check_trust_entry(struct load *load, size_t index)
{
	static const char *const actions[] = {"allow", "deny", "class"};
	const struct trust_entry *entry = &load->config->trust_entries[index];
	const struct node *item = node_get(load->root, "trust")->child[index];
	const struct node *cidr = node_get(item, "cidr"), *file = node_get(item, "file"), *blame = cidr ?: item;
	bool ceiling = node_get(item, "ceiling"), class = node_get(item, "class"), max_age = node_get(item, "max_age");
	const char *problem = NULL;

	if (!cidr == !file)
		problem = "one of cidr and file is needed, and only one";
	else if (max_age && !file)
		problem = "max_age is for file: only";
	else if (entry->action == TRUST_ALLOW && !ceiling)
		problem = "allow needs a ceiling, as in ceiling: 1000/s, since an allowed address can be spoofed";
	else if (entry->action != TRUST_ALLOW && ceiling)
		problem = "ceiling is for action: allow only";
	else if (entry->action == TRUST_CLASS && !class)
		problem = "action: class needs class: vip, known, stranger or low";
	else if (entry->action != TRUST_CLASS && class)
		problem = "class: is for action: class only";
	else if (cidr)
		problem = config_trust_problem(entry->action, &entry->cidr);
	if (problem)
		report_error(load->report, blame->line, blame->column, "trust[%zu]: %s%s%s: %s", index + 1,
			     cidr && cidr->kind == NODE_SCALAR ? cidr->text : "action ",
			     cidr && cidr->kind == NODE_SCALAR ? ", action " : "", actions[entry->action], problem);
}

static int by_cidr(const void *left, const void *right)
{
	const struct trust_config *a = *(const struct trust_config *const *)left;
	const struct trust_config *b = *(const struct trust_config *const *)right;
	int order = memcmp(a->cidr.addr, b->cidr.addr, sizeof(a->cidr.addr));

	if (!order)
		order = (int)a->cidr.prefix - (int)b->cidr.prefix;
	return order ?: (a > b) - (a < b);
}

static bool same_rule(const struct trust_config *a, const struct trust_config *b)
{
	return a->action == b->action && a->class == b->class && a->ceiling.set == b->ceiling.set &&
	       a->ceiling.count == b->ceiling.count && a->ceiling.per_ns == b->ceiling.per_ns;
}

/* The same prefix again: once is enough if it says the same; lists merge, they do not override each other. */
static size_t mark_duplicates(struct load *load, bool *drop)
{
	struct config *config = load->config;
	const struct trust_config **sorted = calloc(config->trust_count, sizeof(struct trust_config *));
	size_t duplicates = 0;
	char text[64];

	if (!sorted) {
		load->report->oom = true;
		return 0;
	}
	for (size_t i = 0; i < config->trust_count; i++)
		sorted[i] = &config->trust[i];
	qsort(sorted, config->trust_count, sizeof(struct trust_config *), by_cidr);
	for (size_t i = 1, first = 0; i < config->trust_count; i++) {
		if (memcmp(&sorted[i]->cidr, &sorted[first]->cidr, sizeof(sorted[i]->cidr))) {
			first = i;
			continue;
		}
		duplicates++;
		drop[sorted[i] - config->trust] = true;
		if (same_rule(sorted[i], sorted[first]))
			continue;
		format_cidr(&sorted[i]->cidr, text, sizeof(text));
		report_error(load->report, (unsigned)sorted[i]->line, 1,
			     "trust: %s stands in %s and in %s with different rules; keep one of them", text,
			     sorted[first]->origin, sorted[i]->origin);
	}
	free(sorted);
	return duplicates;
}

/* A rule within a management prefix would be the longer one and win: it is left out instead. */
static void mark_managed(struct load *load, bool *drop)
{
	const struct config *config = load->config;
	char rule[64], prefix[64];

	for (size_t i = 0; i < config->trust_count; i++)
		for (size_t j = 0; !drop[i] && j < config->management_cidr_count; j++) {
			if (!cidr_contains(&config->management_cidrs[j], &config->trust[i].cidr))
				continue;
			drop[i] = true;
			format_cidr(&config->trust[i].cidr, rule, sizeof(rule));
			format_cidr(&config->management_cidrs[j], prefix, sizeof(prefix));
			report_warn(load->report, (unsigned)config->trust[i].line, 1,
				    "trust: %s (%s) lies within management prefix %s, which is never refused: left out",
				    rule, config->trust[i].origin, prefix);
		}
}

static void compact(struct config *config, const bool *drop)
{
	size_t kept = 0;

	for (size_t i = 0; i < config->trust_count; i++)
		if (!drop[i])
			config->trust[kept++] = config->trust[i];
	config->trust_count = kept;
}

/* Against the tables' sizes, before anything is written to them. */
static void check_capacity(struct load *load)
{
	const struct config *config = load->config;
	size_t overrides = 0, allows = 0;

	for (size_t i = 0; i < config->service_count; i++)
		overrides += config->services[i].override_count;
	for (size_t i = 0; i < config->trust_count; i++)
		allows += config->trust[i].action == TRUST_ALLOW;
	size_t all = config->trust_count + overrides + config->management_cidr_count;
	if (all > SLC_TRUST)
		report_error(load->report, 0, 0,
			     "trust: %zu prefixes (%zu trusted, %zu source.overrides, %zu management); at most %d fit",
			     all, config->trust_count, overrides, config->management_cidr_count, SLC_TRUST);
	if (allows > SLC_CEILINGS / 2)
		report_error(load->report, 0, 0,
			     "trust: %zu prefixes with action allow; at most %d fit, each has a ceiling of its own",
			     allows, SLC_CEILINGS / 2);
}

static void check_trust(struct load *load)
{
	struct config *config = load->config;

	for (size_t i = 0; i < config->trust_entry_count && !report_full(load->report); i++)
		check_trust_entry(load, i);
	if (load->report->errors)
		return;
	listfile_expand(load, &config->hash);
	if (load->report->errors || !config->trust_count)
		return;
	bool *drop = calloc(config->trust_count, sizeof(*drop));
	if (!drop) {
		load->report->oom = true;
		return;
	}
	size_t duplicates = mark_duplicates(load, drop);
	mark_managed(load, drop);
	compact(config, drop);
	free(drop);
	if (duplicates)
		report_warn(load->report, 0, 0, "trust: %zu prefixes stand more than once; each counts once",
			    duplicates);
}

/* --- the rest --------------------------------------------------------------------------------------------------- */

static void check_interfaces(struct load *load)
{
	const struct config *config = load->config;
	const struct node *list = node_get(load->root, "interfaces");

	for (size_t i = 0; i < config->interface_count; i++)
		for (size_t j = 0; j < i; j++)
			if (!strcmp(config->interfaces[i].name, config->interfaces[j].name))
				report_error(load->report, list->child[i]->line, list->child[i]->column,
					     "interfaces[%s].name: \"%s\" stands twice, first in line %u",
					     config->interfaces[i].name, config->interfaces[i].name,
					     list->child[j]->line);
}

/* Lock-out and its opposite: nothing would ever be refused. */
static void check_management(struct load *load)
{
	const struct config *config = load->config;
	const struct node *list = node_get(node_get(load->root, "management"), "cidrs");
	char text[64];

	for (size_t i = 0; i < config->management_cidr_count; i++) {
		if (!cidr_covers_ipv4(&config->management_cidrs[i]))
			continue;
		format_cidr(&config->management_cidrs[i], text, sizeof(text));
		report_warn(load->report, list->line, list->column,
			    "management.cidrs: %s covers every address%s: sluice will refuse nobody", text,
			    config->management_cidrs[i].prefix == 96 ? " of IPv4" : "");
	}
}

static void check_classes(struct load *load)
{
	static const char *const names[] = {
#define X(name) #name,
		SLC_CLASSES(X)
#undef X
	};
	const struct class_config *classes = load->config->classes;
	const struct node *block = node_get(load->root, "classes");
	unsigned sum = 0, line = block ? block->line : 0, column = block ? block->column : 0;

	for (int c = 0; c < SLC_CLASS_COUNT; c++) {
		char better[16], worse[16];

		sum += classes[c].min;
		if (!c || classes[c].depth <= classes[c - 1].depth)
			continue;
		format_percent(classes[c - 1].depth, better, sizeof(better));
		format_percent(classes[c].depth, worse, sizeof(worse));
		report_warn(load->report, line, column,
			    "classes.%s.depth: %s is more than that of the better class %s, %s: it goes first",
			    names[c], worse, names[c - 1], better);
	}
	if (sum > 10000)
		report_error(load->report, line, column,
			     "classes: minimum shares (min) make %u.%02u%% together, at most 100%%", sum / 100,
			     sum % 100);
}

static void check_rates(struct load *load)
{
	static const char *const paths[] = {"tables.events", "host.reset_rate"};
	const struct rate *rates[] = {&load->config->events, &load->config->host_reset_rate};
	char why[256];
	uint64_t interval;

	for (size_t i = 0; i < 2; i++) {
		const struct setting *setting = setting_of(load->config, paths[i]);

		if (setting && compile_rate(rates[i], &interval, why, sizeof(why)))
			report_error(load->report, setting->line, setting->column, "%s: %s", paths[i], why);
	}
}

/* Ceilings are rates too. */
static void check_ceilings(struct load *load)
{
	const struct config *config = load->config;
	uint64_t interval;
	char why[256];

	for (size_t i = 0; i < config->trust_entry_count; i++)
		if (config->trust_entries[i].ceiling.set &&
		    compile_rate(&config->trust_entries[i].ceiling, &interval, why, sizeof(why)))
			report_error(load->report, (unsigned)config->trust_entries[i].line, 1, "trust[%zu].ceiling: %s",
				     i + 1, why);
}

void config_check(struct load *load)
{
	struct config *config = load->config;

	check_interfaces(load);
	config_check_dscp(load);
	check_management(load);
	check_classes(load);
	check_rates(load);
	check_ceilings(load);
	for (size_t i = 0; i < sizeof(host_pairs) / sizeof(host_pairs[0]); i++)
		check_pair(load, &host_pairs[i], setting_of(config, host_pairs[i].below),
			   setting_of(config, host_pairs[i].above));
	for (size_t i = 0; i < config->service_count && !report_full(load->report); i++)
		check_service(load, i);
	check_service_names(load);
	check_addresses(load);
	check_management_ports(load);
	for (size_t i = 0; i < load->reference_count && !report_full(load->report); i++)
		check_reference(load, &load->references[i]);
	if (!load->report->errors) {
		check_cycles(load, "services.depends_on");
		check_cycles(load, "services.shed.fallback");
	}
	if (!load->report->errors)
		store_dependencies(load);
	check_trust(load);
	if (!load->report->errors)
		check_capacity(load);
}
