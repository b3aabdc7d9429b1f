// SPDX-License-Identifier: GPL-2.0-only
/*
 * List files of `trust:`: one CIDR a line, # begins a comment. A file that is missing, too old or wrong in one line is
 * refused as a whole: half a list would let in, or lock out, those of the other half.
 */
#include "user/control/config_load.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LIST_MAX (16u << 20) /* bytes: SLC_TRUST prefixes of 45 characters, and comments */
#define KEEP_MAX (2 * SLC_TRUST) /* prefixes kept before duplicates are removed */

struct list {
	struct load *load;
	const struct trust_entry *entry;
	const char *path;
	size_t added;
	size_t capacity; /* of config->trust, shared by all entries */
};

static bool add(struct list *list, const struct cidr *cidr, const char *origin_file, unsigned line)
{
	struct config *config = list->load->config;
	const struct trust_entry *entry = list->entry;

	if (config->trust_count == list->capacity) {
		size_t capacity = list->capacity ? 2 * list->capacity : 16;
		struct trust_config *grown = reallocarray(config->trust, capacity, sizeof(*grown));

		if (!grown) {
			list->load->report->oom = true;
			return false;
		}
		config->trust = grown;
		list->capacity = capacity;
	}
	struct trust_config *rule = &config->trust[config->trust_count++];
	*rule = (struct trust_config){
		.cidr = *cidr,
		.action = entry->action,
		.ceiling = entry->ceiling,
		.class = entry->class,
		.line = entry->line,
	};
	snprintf(rule->origin, sizeof(rule->origin), "%.48s:%u", origin_file, line);
	list->added++;
	return true;
}

__attribute__((format(printf, 3, 4))) static void complain(const struct list *list, unsigned line, const char *fmt, ...)
{
	char text[640];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (line)
		report_error(list->load->report, (unsigned)list->entry->line, 1, "%s:%u: %s", list->path, line, text);
	else
		report_error(list->load->report, (unsigned)list->entry->line, 1, "%s: %s", list->path, text);
}

/* The one word of a line, comment and spaces cut off. */
static char *trim(char *line)
{
	line[strcspn(line, "#")] = 0;
	line += strspn(line, " \t\r");
	for (size_t len = strlen(line); len && strchr(" \t\r", line[len - 1]); len--)
		line[len - 1] = 0;
	return line;
}

static void read_lines(struct list *list, char *text, size_t len)
{
	char *end = text + len, why[512], *base = basename((char *)list->path);
	unsigned number = 0;
	size_t seen = 0;

	for (char *line = text, *next; line < end && !report_full(list->load->report); line = next) {
		char *newline = memchr(line, '\n', (size_t)(end - line));
		struct cidr cidr;

		next = newline ? newline + 1 : end;
		number++;
		if (memchr(line, 0, (size_t)(next - line))) {
			complain(list, number, "NUL byte: is this a text file?");
			return;
		}
		if (newline)
			*newline = 0;
		char *word = trim(line);
		if (!*word)
			continue;
		seen++;
		if (parse_cidr(word, &cidr, why, sizeof(why))) {
			complain(list, number, "%s", why);
			continue;
		}
		const char *problem = config_trust_problem(list->entry->action, &cidr);
		if (problem)
			complain(list, number, "%s %s", word, problem);
		else if (list->load->config->trust_count < KEEP_MAX && !add(list, &cidr, base, number))
			return;
	}
	if (seen > SLC_TRUST)
		complain(list, 0, "has %zu prefixes; at most %d fit into the trust table", seen, SLC_TRUST);
	else if (!seen && !report_full(list->load->report))
		complain(list, 0, "has no prefix; remove the entry if that is meant");
}

/* Refused when older than max_age: a list that is no longer renewed is not the list that was meant. */
static bool check_age(const struct list *list)
{
	struct timespec now;
	struct stat st;
	char age[32], max[32];

	if (!list->entry->max_age_ns || stat(list->path, &st))
		return true;
	clock_gettime(CLOCK_REALTIME, &now);
	int64_t seconds = now.tv_sec - st.st_mtim.tv_sec;
	if (seconds <= (int64_t)(list->entry->max_age_ns / 1000000000))
		return true;
	format_duration((uint64_t)seconds * 1000000000, age, sizeof(age));
	format_duration(list->entry->max_age_ns, max, sizeof(max));
	complain(list, 0, "was written %s ago, max_age is %s; renew the file, or raise max_age", age, max);
	return false;
}

static void expand_file(struct list *list, uint64_t *hash)
{
	char *text, why[256];
	size_t len;

	if (config_read_file(list->path, LIST_MAX, &text, &len, why, sizeof(why))) {
		complain(list, 0, "%s", why);
		return;
	}
	*hash = config_hash(*hash, text, len);
	if (check_age(list))
		read_lines(list, text, len);
	free(text);
}

/* Relative to the directory of the configuration. */
static void resolve(const struct load *load, const char *file, char *path, size_t len)
{
	const char *slash = strrchr(load->config->path, '/');

	if (file[0] == '/' || !slash)
		snprintf(path, len, "%s", file);
	else
		snprintf(path, len, "%.*s/%s", (int)(slash - load->config->path), load->config->path, file);
}

void listfile_expand(struct load *load, uint64_t *hash)
{
	struct config *config = load->config;
	struct list list = {.load = load};
	char path[sizeof(config->path) + sizeof(((struct trust_entry *)0)->file)], key[600], shown[96];

	for (size_t i = 0; i < config->trust_entry_count && !report_full(load->report); i++) {
		uint64_t one = CONFIG_HASH_START;

		list.entry = &config->trust_entries[i];
		list.added = 0;
		if (!list.entry->file[0]) {
			add(&list, &list.entry->cidr, load->base_name, (unsigned)list.entry->line);
			continue;
		}
		resolve(load, list.entry->file, path, sizeof(path));
		list.path = path;
		expand_file(&list, &one);
		*hash = config_hash(*hash, &one, sizeof(one));
		/* Shown so that `config diff` sees a list whose file has changed. */
		snprintf(key, sizeof(key), "trust[%s].prefixes", list.entry->file);
		snprintf(shown, sizeof(shown), "%zu (hash %016llx)", list.added, (unsigned long long)one);
		config_add_setting(load, schema_find("trust.file"), key, shown, path, NULL);
	}
}
