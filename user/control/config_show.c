// SPDX-License-Identifier: GPL-2.0-only
/* What is in force and where it comes from; what differs between two configurations; one assignment of the CLI. */
#include "user/control/config.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "user/control/schema.h"

int config_effective(const struct config *config, FILE *out)
{
	json_t *settings = json_array(), *root;
	char hash[20];

	for (size_t i = 0; i < config->setting_count; i++) {
		const struct setting *setting = &config->settings[i];

		json_array_append_new(settings, json_pack("{s:s, s:s, s:s, s:b, s:s}", "key", setting->path, "value",
							  setting->value, "origin", setting->origin, "acted_on",
							  !schema_is_later(setting->key), "help", setting->key->help));
	}
	snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)config->hash);
	root = json_pack("{s:s, s:s, s:o}", "file", config->path, "hash", hash, "settings", settings);
	if (!root) {
		json_decref(settings);
		return -ENOMEM;
	}
	int err = json_dumpf(root, out, JSON_INDENT(1) | JSON_PRESERVE_ORDER) || fputc('\n', out) == EOF ? -EIO : 0;
	json_decref(root);
	return err;
}

/* --- diff ------------------------------------------------------------------------------------------------------- */

static int by_path(const void *left, const void *right)
{
	return strcmp((*(const struct setting *const *)left)->path, (*(const struct setting *const *)right)->path);
}

static const struct setting **sorted(const struct config *config, size_t *ret_count)
{
	size_t count = config ? config->setting_count : 0;
	const struct setting **list = calloc(count + 1, sizeof(*list));

	for (size_t i = 0; list && i < count; i++)
		list[i] = &config->settings[i];
	if (list && count)
		qsort(list, count, sizeof(*list), by_path);
	*ret_count = count;
	return list;
}

int config_diff(const struct config *running, const struct config *file, config_diff_visit visit, void *arg)
{
	size_t m, n, i = 0, j = 0;
	const struct setting **a = sorted(running, &m), **b = sorted(file, &n);
	int rows = a && b ? 0 : -ENOMEM;

	while (rows >= 0 && (i < m || j < n)) {
		int order = i == m ? 1 : j == n ? -1 : strcmp(a[i]->path, b[j]->path);
		const char *old = order <= 0 ? a[i]->value : NULL, *new = order >= 0 ? b[j]->value : NULL;

		if (order || strcmp(old, new)) {
			visit(order <= 0 ? a[i]->path : b[j]->path, old, new, arg);
			rows++;
		}
		i += order <= 0;
		j += order >= 0;
	}
	free(a);
	free(b);
	return rows;
}

/* --- limits set ------------------------------------------------------------------------------------------------- */

/* Where each settable key goes. */
static const struct target {
	const char *path;
	size_t offset;
} targets[] = {
	{"services.source.rate", offsetof(struct limits_change, source_rate)},
	{"services.source.burst", offsetof(struct limits_change, source_burst)},
	{"services.source.concurrent", offsetof(struct limits_change, source_concurrent)},
	{"services.total.rate", offsetof(struct limits_change, total_rate)},
	{"services.total.burst", offsetof(struct limits_change, total_burst)},
	{"services.total.concurrent", offsetof(struct limits_change, total_concurrent)},
};
#define TARGETS (sizeof(targets) / sizeof(targets[0]))

static const struct target *find_target(const char *name, size_t len)
{
	for (size_t i = 0; i < TARGETS; i++) {
		const char *key = targets[i].path + sizeof("services.") - 1;

		if (strlen(key) == len && !memcmp(key, name, len))
			return &targets[i];
	}
	return NULL;
}

static int refuse(const char *given, const char *problem, char *why, size_t why_len)
{
	char quoted[QUOTE_LEN];

	snprintf(why, why_len,
		 "%s %s; KEY=VALUE is accepted, where KEY is source.rate, source.burst, source.concurrent, total.rate, "
		 "total.burst or total.concurrent",
		 quote(given, quoted), problem);
	return -EINVAL;
}

/* Both are set by their first member. */
static bool is_set(const void *slot, enum key_type type)
{
	return type == KEY_RATE ? ((const struct rate *)slot)->set : ((const struct limit *)slot)->set;
}

int limits_assign(struct limits_change *change, const char *assignment, char *why, size_t why_len)
{
	const char *equals = strchr(assignment, '=');
	const struct target *target = equals ? find_target(assignment, (size_t)(equals - assignment)) : NULL;
	char problem[400];
	struct value value;

	if (!equals)
		return refuse(assignment, "has no =", why, why_len);
	if (!target)
		return refuse(assignment, "names no limit", why, why_len);
	const struct schema_key *key = schema_find(target->path);
	const char *name = target->path + sizeof("services.") - 1;
	void *slot = (char *)change + target->offset;
	if (is_set(slot, key->type)) {
		snprintf(why, why_len, "%s is given twice", name);
		return -EINVAL;
	}
	if (!strcmp(equals + 1, "unlimited")) {
		snprintf(why, why_len,
			 "%s: \"unlimited\" is for the configuration; an override replaces a limit by another one, "
			 "give a "
			 "number",
			 name);
		return -EINVAL;
	}
	/* The file's other ways of saying it are not the CLI's. */
	struct schema_key numbers = *key;
	numbers.words = NULL;
	numbers.flags = 0;
	if (schema_value(&numbers, equals + 1, &value, problem, sizeof(problem))) {
		snprintf(why, why_len, "%s: %s%s", name, problem,
			 strstr(problem, " is zero")
				 ? "; to refuse use deny or drain, to end an override overrides release"
				 : "");
		return -EINVAL;
	}
	if (key->type == KEY_RATE)
		*(struct rate *)slot = value.rate;
	else
		*(struct limit *)slot = (struct limit){true, (uint32_t)value.n};
	return 0;
}
