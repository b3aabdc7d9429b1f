// SPDX-License-Identifier: GPL-2.0-only
/* The tree against the schema: every key known and given once, every value read, every default filled in. */
#include "user/control/config_load.h"

#include <stdlib.h>
#include <string.h>

#define PATH_LEN 512
#define MANY_MAX 256 /* values of one list */

struct place {
	const struct schema_key *key;
	const struct node *node; /* NULL: not in the file */
	void *base; /* struct that the key's offset is in */
	bool present; /* the block around it is in the file */
	char path[PATH_LEN];
};

static void walk_key(struct load *load, const struct place *place);

void config_add_setting(struct load *load, const struct schema_key *key, const char *path, const char *value,
			const char *origin, const struct node *node)
{
	struct config *config = load->config;
	size_t n = config->setting_count;

	if (!(n & (n - 1))) {
		struct setting *grown = reallocarray(config->settings, n ? 2 * n : 1, sizeof(*grown));

		if (!grown) {
			load->report->oom = true;
			return;
		}
		config->settings = grown;
	}
	struct setting *setting = &config->settings[n];
	*setting = (struct setting){
		.key = key,
		.path = strdup(path),
		.value = strdup(value),
		.line = node ? node->line : 0,
		.column = node ? node->column : 0,
	};
	if (!node)
		setting->origin = strdup(origin);
	else if (asprintf(&setting->origin, "%s:%u", load->base_name, node->line) < 0)
		setting->origin = NULL;
	config->setting_count++;
	if (!setting->path || !setting->value || !setting->origin)
		load->report->oom = true;
}

const struct setting *config_service_setting(const struct load *load, size_t service, const char *name)
{
	static const size_t skip = sizeof("services.") - 1;

	for (size_t i = load->service_settings[service]; i < load->service_settings[service + 1]; i++)
		if (!strcmp(load->config->settings[i].key->path + skip, name))
			return &load->config->settings[i];
	return NULL;
}

/* --- defaults --------------------------------------------------------------------------------------------------- */

/* Of the service that is being read; its later keys are not there yet. */
static const struct setting *earlier(const struct load *load, const char *path)
{
	for (size_t i = load->config->setting_count; i-- > load->service_settings[load->service];)
		if (!strcmp(load->config->settings[i].key->path, path))
			return &load->config->settings[i];
	return NULL;
}

/* Defaults that follow from another key of the same service. */
static const char *derived(const struct load *load, const struct place *place, char *buf, size_t len,
			   const char **ret_origin)
{
	if (!strcmp(place->key->path, "services.slow_after")) {
		const struct setting *lat_ref = earlier(load, "services.breaker.risk.lat_ref");

		*ret_origin = lat_ref && !lat_ref->line ? lat_ref->origin : "breaker.risk.lat_ref";
		return lat_ref ? lat_ref->value : NULL;
	}
	if (!strcmp(place->key->path, "services.accept_queue.reserve")) {
		const struct service_config *service = place->base;

		*ret_origin = "a tenth of accept_queue.deadline";
		format_duration(service->deadline_ns / 10, buf, len);
		return buf;
	}
	return NULL;
}

static const char *default_of(const struct load *load, const struct place *place, char *buf, size_t len,
			      const char **ret_origin)
{
	static const struct {
		const char *name, *origin;
	} profiles[] = {{"api", "profile api"}, {"transaction", "profile transaction"}, {"batch", "profile batch"}};
	const struct schema_key *key = place->key;

	*ret_origin = "default";
	for (size_t i = 0; load->profile && i < sizeof(profiles) / sizeof(profiles[0]); i++) {
		const char *text = strcmp(profiles[i].name, load->profile) ? NULL : schema_profile(load->profile, key);

		if (text) {
			*ret_origin = profiles[i].origin;
			return text;
		}
	}
	if (!place->present && key->absent)
		return key->absent;
	return key->fallback ?: derived(load, place, buf, len, ret_origin);
}

/* --- errors common to all kinds --------------------------------------------------------------------------------- */

static void complain(struct load *load, const struct place *place, const char *what)
{
	report_error(load->report, place->node->line, place->node->column, "%s: %s", place->path, what);
}

static void wrong_kind(struct load *load, const struct place *place, const char *expected)
{
	report_error(load->report, place->node->line, place->node->column, "%s: is %s, where %s is expected (%s)",
		     place->path, node_kind_name(place->node), expected, place->key->help);
}

/* Keys that the schema does not know, that stand twice, that are no text. */
static void check_keys(struct load *load, const struct schema_key *parent, const struct node *map, const char *path)
{
	char quoted[QUOTE_LEN], hint[512];
	const char *dot = path[0] ? ": " : "";

	for (size_t i = 0; i + 1 < map->count && !report_full(load->report); i += 2) {
		const struct node *name = map->child[i];

		if (name->kind != NODE_SCALAR) {
			if (name->kind != NODE_BAD)
				report_error(load->report, name->line, name->column, "%s%skey is %s, not a name", path,
					     dot, node_kind_name(name));
			continue;
		}
		if (!strcmp(name->text, "<<")) {
			report_error(load->report, name->line, name->column,
				     "%s%smerge key \"<<\" is not accepted, write the keys out", path, dot);
			continue;
		}
		if (!schema_child(parent, name->text)) {
			schema_suggest(parent, name->text, hint, sizeof(hint));
			report_error(load->report, name->line, name->column, "%s%sunknown key %s; %s", path, dot,
				     quote(name->text, quoted), hint);
			continue;
		}
		for (size_t j = 0; j < i; j += 2)
			if (map->child[j]->kind == NODE_SCALAR && !strcmp(map->child[j]->text, name->text)) {
				report_error(load->report, name->line, name->column,
					     "%s%skey \"%s\" stands twice, first in line %u", path, dot, name->text,
					     map->child[j]->line);
				break;
			}
	}
}

/* --- kinds of keys ---------------------------------------------------------------------------------------------- */

static void walk_children(struct load *load, const struct schema_key *parent, const struct node *map, void *base,
			  const char *path)
{
	if (map)
		check_keys(load, parent, map, path);
	for (const struct schema_key *key = NULL; (key = schema_next(parent, key)) && !report_full(load->report);) {
		struct place place = {
			.key = key, .base = base, .present = map, .node = node_get(map, schema_name(key))};

		snprintf(place.path, sizeof(place.path), "%s%s%s", path, path[0] ? "." : "", schema_name(key));
		if (!place.node && map && (key->flags & KEY_REQUIRED))
			report_error(load->report, map->line, map->column, "%s%skey \"%s\" is missing (%s)", path,
				     path[0] ? ": " : "", schema_name(key), key->help);
		walk_key(load, &place);
	}
}

static void store_flag(const struct place *place, bool on)
{
	if (place->key->size)
		schema_store(place->key, &(struct value){.n = on}, place->base);
}

static void walk_map(struct load *load, const struct place *place)
{
	const struct schema_key *key = place->key;
	const struct node *node = place->node;
	struct value value;
	char why[512];

	if (!node && (key->fallback || (key->flags & KEY_TCP && load->udp))) {
		store_flag(place, false);
		config_add_setting(load, key, place->path, key->fallback ?: key->words,
				   key->fallback ? "default" : "protocol udp", NULL);
		return;
	}
	if (node && node->kind == NODE_SCALAR && key->words) {
		if (schema_value(key, node->text, &value, why, sizeof(why))) {
			wrong_kind(load, place, "a block of keys");
			return;
		}
		store_flag(place, false);
		config_add_setting(load, key, place->path, node->text, NULL, node);
		return;
	}
	if (node && node->kind != NODE_MAP) {
		wrong_kind(load, place, "a block of keys");
		return;
	}
	store_flag(place, node || key->words);
	walk_children(load, key, node, place->base, place->path);
}

/* Path of an item: by what names it where that is printable, else by its number. */
static void item_path(const struct place *list, const struct node *item, size_t index, char *path)
{
	char ids[64], *next = ids;

	snprintf(ids, sizeof(ids), "%s", list->key->id);
	for (const char *id; (id = strsep(&next, "|"));) {
		const struct node *node = node_get(item, id);
		size_t len = node && node->kind == NODE_SCALAR ? strlen(node->text) : 0;

		if (!len || len > 128 ||
		    strspn(node->text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				       "0123456789_.-:/") != len)
			continue;
		snprintf(path, PATH_LEN, "%.300s[%s]", list->path, node->text);
		return;
	}
	snprintf(path, PATH_LEN, "%.300s[%zu]", list->path, index + 1);
}

static void enter_service(struct load *load, const struct node *item, size_t index)
{
	const struct node *profile = node_get(item, "profile"), *protocol = node_get(item, "protocol");

	load->service = index;
	load->service_settings[index] = load->config->setting_count;
	load->profile = profile && profile->kind == NODE_SCALAR ? profile->text : NULL;
	load->udp = protocol && protocol->kind == NODE_SCALAR && !strcmp(protocol->text, "udp");
}

static void leave_service(struct load *load)
{
	load->service_settings[load->service + 1] = load->config->setting_count;
	load->profile = NULL;
	load->udp = false;
}

static void walk_item(struct load *load, const struct place *list, const struct node *item, size_t index, void *base)
{
	bool service = !strcmp(list->key->path, "services");
	struct place place = {.key = list->key, .node = item};

	item_path(list, item, index, place.path);
	if (service)
		enter_service(load, item, index);
	if (list->key->line_offset)
		*(int *)((char *)base + list->key->line_offset) = (int)item->line;
	if (item->kind == NODE_MAP)
		walk_children(load, list->key, item, base, place.path);
	else if (item->kind != NODE_BAD)
		wrong_kind(load, &place, "a block of keys");
	if (service)
		leave_service(load);
}

static bool list_length(struct load *load, const struct place *place, size_t count, size_t min, size_t max)
{
	if (count >= min && count <= max)
		return true;
	report_error(load->report, place->node->line, place->node->column,
		     "%s: has %zu entries; %zu to %zu are accepted", place->path, count, min, max);
	return false;
}

static void walk_list(struct load *load, const struct place *place)
{
	const struct schema_key *key = place->key;
	const struct node *node = place->node;

	if (!node) {
		config_add_setting(load, key, place->path, "[]", "default", NULL);
		return;
	}
	if (node->kind != NODE_LIST) {
		wrong_kind(load, place, "a list, each entry with a dash or in [ ],");
		return;
	}
	if (!list_length(load, place, node->count, key->min, key->max))
		return;
	if (!node->count) {
		config_add_setting(load, key, place->path, "[]", NULL, node);
		return;
	}
	char *items = calloc(node->count, key->item_size);
	bool services = !strcmp(key->path, "services");
	if (services)
		load->service_settings = calloc(node->count + 1, sizeof(*load->service_settings));
	if (!items || (services && !load->service_settings)) {
		free(items);
		load->report->oom = true;
		return;
	}
	*(void **)((char *)place->base + key->offset) = items;
	*(size_t *)((char *)place->base + key->count_offset) = node->count;
	for (size_t i = 0; i < node->count && !report_full(load->report); i++)
		walk_item(load, place, node->child[i], i, items + i * key->item_size);
}

static void walk_named(struct load *load, const struct place *place)
{
	static const struct schema_key name_rule = {.type = KEY_NAME, .max = SLC_NAME_LEN - 1};
	const struct node *node = place->node;
	char child_path[PATH_LEN], why[512];
	struct value value;

	if (!node || (node->kind == NODE_MAP && !node->count)) {
		config_add_setting(load, place->key, place->path, "{}", "default", node);
		return;
	}
	if (node->kind != NODE_MAP) {
		wrong_kind(load, place, "a block of names");
		return;
	}
	if (!list_length(load, place, node->count / 2, place->key->min, place->key->max))
		return;
	snprintf(child_path, sizeof(child_path), "%s.*", place->key->path);
	for (size_t i = 0; i + 1 < node->count && !report_full(load->report); i += 2) {
		const struct node *name = node->child[i];
		struct place child = {.key = schema_find(child_path), .base = place->base, .present = true};

		child.node = node->child[i + 1];
		if (name->kind != NODE_SCALAR || schema_value(&name_rule, name->text, &value, why, sizeof(why))) {
			report_error(load->report, name->line, name->column, "%s: key %s", place->path,
				     name->kind == NODE_SCALAR ? why : "is not a name");
			continue;
		}
		if (node_get(node, name->text) != child.node) {
			report_error(load->report, name->line, name->column, "%s: key \"%s\" stands twice", place->path,
				     name->text);
			continue;
		}
		snprintf(child.path, sizeof(child.path), "%.400s[%s]", place->path, name->text);
		walk_key(load, &child);
	}
}

static void remember_reference(struct load *load, const struct place *place, const struct node *node)
{
	size_t n = load->reference_count;

	if (!(n & (n - 1))) {
		struct reference *grown = reallocarray(load->references, n ? 2 * n : 1, sizeof(*grown));

		if (!grown) {
			load->report->oom = true;
			return;
		}
		load->references = grown;
	}
	load->references[load->reference_count++] =
		(struct reference){.key = place->key, .service = load->service, .node = node};
}

/* One value from the file or a default; false: reported. */
static bool read_value(struct load *load, const struct place *place, const struct node *node, const char *text,
		       struct value *ret)
{
	char why[512];

	if (schema_value(place->key, text, ret, why, sizeof(why))) {
		report_error(load->report, node ? node->line : 0, node ? node->column : 0, "%s: %s", place->path, why);
		return false;
	}
	if (node && !ret->word && (place->key->type == KEY_SERVICE || place->key->type == KEY_SIGNAL))
		remember_reference(load, place, node);
	return true;
}

static void walk_single(struct load *load, const struct place *place)
{
	const struct node *node = place->node;
	char buf[64], shown[VALUE_LEN];
	const char *origin = NULL, *text;
	struct value value;

	if (node && node->kind != NODE_SCALAR) {
		wrong_kind(load, place, "a single value");
		return;
	}
	text = node ? node->text : default_of(load, place, buf, sizeof(buf), &origin);
	if (!text || !read_value(load, place, node, text, &value))
		return;
	schema_store(place->key, &value, place->base);
	schema_format(place->key, &value, shown, sizeof(shown));
	config_add_setting(load, place->key, place->path, shown, origin, node);
}

/* --- lists of values -------------------------------------------------------------------------------------------- */

/* What a KEY_MANY key has gathered. */
struct many {
	char *items;
	size_t count;
	char *shown; /* "a, b" */
	size_t values;
	uint64_t sum; /* of KEY_NUMBER */
	bool word;
};

static void append_item(struct load *load, const struct schema_key *key, struct many *many, const void *item)
{
	char *grown = reallocarray(many->items, many->count + 1, key->item_size);

	if (!grown) {
		load->report->oom = true;
		return;
	}
	many->items = grown;
	memcpy(grown + key->item_size * many->count++, item, key->item_size);
}

static void append_value(struct load *load, const struct place *place, struct many *many, const struct value *value)
{
	const struct schema_key *key = place->key;
	uint16_t half = (uint16_t)value->n;
	uint32_t whole = (uint32_t)value->n;
	char shown[VALUE_LEN], *joined;

	if (!key->item_size)
		schema_store(key, value, place->base);
	else if (key->type == KEY_LISTEN)
		for (size_t i = 0; i < value->listen_count; i++)
			append_item(load, key, many, &value->listen[i]);
	else if (key->type == KEY_CIDR)
		append_item(load, key, many, &value->cidr);
	else
		append_item(load, key, many, key->item_size == sizeof(half) ? (void *)&half : &whole);
	schema_format(key, value, shown, sizeof(shown));
	if (asprintf(&joined, "%s%s%s", many->shown ?: "", many->shown ? ", " : "", shown) < 0) {
		load->report->oom = true;
		return;
	}
	free(many->shown);
	many->shown = joined;
	many->values++;
	many->sum += value->n;
	many->word |= value->word;
}

static void many_from_node(struct load *load, const struct place *place, struct many *many)
{
	const struct node *node = place->node;
	size_t min = place->key->flags & KEY_REQUIRED ? 1 : 0;
	size_t max = place->key->type == KEY_LISTEN ? place->key->max : MANY_MAX;
	bool single = node->kind == NODE_SCALAR;
	struct value value;

	if (place->key->count_offset && place->key->capacity)
		max = place->key->capacity;
	if (!single && !list_length(load, place, node->count, min, max))
		return;
	for (size_t i = 0; i < (single ? 1 : node->count) && !report_full(load->report); i++) {
		struct place item = *place;

		item.node = single ? node : node->child[i];
		if (item.node->kind == NODE_BAD)
			continue;
		if (item.node->kind != NODE_SCALAR)
			wrong_kind(load, &item, "a list of single values");
		else if (read_value(load, place, item.node, item.node->text, &value))
			append_value(load, place, many, &value);
	}
}

static void many_from_text(struct load *load, const struct place *place, struct many *many, const char *text)
{
	char *copy = strdup(text), *next = copy;
	struct value value;

	if (!copy)
		load->report->oom = true;
	for (char *one; *text && (one = strsep(&next, ","));) {
		one += strspn(one, " ");
		if (read_value(load, place, NULL, one, &value))
			append_value(load, place, many, &value);
	}
	free(copy);
}

/* Weights are as many as the default has, and make 1 together. */
static void check_weights(struct load *load, const struct place *place, const struct many *many)
{
	size_t wanted = 1;

	for (const char *p = place->key->fallback; *p; p++)
		wanted += *p == ',';
	/* Thirds and sevenths are rounded to thousandths. */
	if (many->values != wanted || many->sum < 999 || many->sum > 1001)
		report_error(load->report, place->node->line, place->node->column,
			     "%s: [%s]: %zu numbers that make 1 together are accepted", place->path, many->shown ?: "",
			     wanted);
}

/* Takes over the items. */
static void store_items(const struct place *place, struct many *many)
{
	const struct schema_key *key = place->key;
	char *base = place->base;
	size_t kept = many->count < key->capacity ? many->count : key->capacity;

	if (!key->item_size)
		return;
	if (key->capacity) {
		if (kept)
			memcpy(base + key->offset, many->items, kept * key->item_size);
		free(many->items);
	} else {
		*(void **)(base + key->offset) = many->items;
	}
	if (key->count_offset)
		*(size_t *)(base + key->count_offset) = key->capacity ? kept : many->count;
	many->items = NULL;
}

static void walk_many(struct load *load, const struct place *place)
{
	const struct schema_key *key = place->key;
	const struct node *node = place->node;
	struct many many = {};
	const char *origin = NULL;
	char *shown = NULL;
	size_t errors = load->report->errors;

	if (node && node->kind != NODE_LIST && !(node->kind == NODE_SCALAR && key->flags & KEY_ONE_OK)) {
		wrong_kind(load, place, "a list of values, as in [a, b],");
		return;
	}
	if (node) {
		many_from_node(load, place, &many);
	} else {
		const char *text = default_of(load, place, NULL, 0, &origin);

		if (text)
			many_from_text(load, place, &many, text);
	}
	if (node && many.word && many.values > 1)
		complain(load, place, "a word that stands for all cannot stand beside others");
	if (node && key->type == KEY_NUMBER && load->report->errors == errors)
		check_weights(load, place, &many);
	store_items(place, &many);
	if (asprintf(&shown, many.word ? "%s" : "[%s]", many.shown ?: "") < 0)
		load->report->oom = true;
	else if (node || !(key->flags & KEY_REQUIRED))
		config_add_setting(load, key, place->path, shown, origin, node);
	free(shown);
	free(many.shown);
}

/* --- any key ---------------------------------------------------------------------------------------------------- */

/* The value that asks for nothing is in force already: "none" needs no warning. */
static bool asks_for_nothing(const struct schema_key *key, const struct node *node)
{
	static const char *const nothing[] = {"none", "false", "any", "static"};

	if (!key->fallback)
		return false;
	if (node->kind == NODE_LIST && !node->count)
		return !*key->fallback;
	for (size_t i = 0; node->kind == NODE_SCALAR && i < sizeof(nothing) / sizeof(nothing[0]); i++)
		if (!strcmp(key->fallback, nothing[i]) && !strcmp(node->text, nothing[i]))
			return true;
	return false;
}

static void walk_key(struct load *load, const struct place *place)
{
	const struct schema_key *key = place->key;
	const struct node *node = place->node;

	if (node && node->kind == NODE_BAD)
		return;
	if (node && node->kind == NODE_NULL) {
		report_error(load->report, node->line, node->column,
			     "%s: has no value; give one, or remove the key for the default%s%s (%s)", place->path,
			     key->fallback && *key->fallback ? " " : "", key->fallback ?: "", key->help);
		return;
	}
	if (node && key->flags & KEY_TCP && load->udp) {
		complain(load, place, "is for protocol: tcp only; this service is udp");
		return;
	}
	if (node && key->flags & KEY_LATER && !asks_for_nothing(key, node))
		report_warn(load->report, node->line, node->column, "%s is read but not acted on by this version",
			    place->path);
	if (key->type == KEY_MAP)
		walk_map(load, place);
	else if (key->type == KEY_LIST)
		walk_list(load, place);
	else if (key->type == KEY_NAMED)
		walk_named(load, place);
	else if (key->flags & KEY_MANY)
		walk_many(load, place);
	else
		walk_single(load, place);
}

void config_walk(struct load *load)
{
	if (load->root->kind != NODE_MAP) {
		report_error(load->report, load->root->line, load->root->column,
			     "the file is %s, where a block of keys is expected, as in \"services: [...]\"",
			     node_kind_name(load->root));
		return;
	}
	walk_children(load, NULL, load->root, load->config, "");
}
