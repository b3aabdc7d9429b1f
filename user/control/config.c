// SPDX-License-Identifier: GPL-2.0-only
/* Reading a configuration, from file or text, and freeing it. */
#include "user/control/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "user/control/config_load.h"

#define CONFIG_MAX (1u << 20)

void config_free(struct config **config)
{
	struct config *c = *config;

	if (!c)
		return;
	for (size_t i = 0; i < c->service_count; i++) {
		free(c->services[i].listen);
		free(c->services[i].overrides);
		free(c->services[i].depends_on);
	}
	for (size_t i = 0; i < c->setting_count; i++) {
		free(c->settings[i].path);
		free(c->settings[i].value);
		free(c->settings[i].origin);
	}
	free(c->settings);
	free(c->services);
	free(c->trust);
	free(c->trust_entries);
	free(c->management_cidrs);
	free(c->dscp_trust);
	free(c->management_ports);
	free(c->interfaces);
	free(c);
	*config = NULL;
}

uint64_t config_hash(uint64_t hash, const void *bytes, size_t len)
{
	for (const unsigned char *p = bytes; len--; p++)
		hash = (hash ^ *p) * 0x100000001b3ULL;
	return hash;
}

/* --- files ------------------------------------------------------------------------------------------------------ */

static int read_descriptor(int fd, size_t max, char **ret_text, size_t *ret_len)
{
	size_t len = 0, capacity = 0;
	char *text = NULL;
	ssize_t n;

	do {
		if (capacity - len < 2) {
			char *grown = realloc(text, capacity + 65536);

			if (!grown) {
				free(text);
				return -ENOMEM;
			}
			text = grown;
			capacity += 65536;
		}
		n = read(fd, text + len, capacity - len - 1);
		if (n > 0)
			len += (size_t)n;
	} while (len <= max && (n > 0 || (n < 0 && errno == EINTR)));
	if (n < 0 || len > max) {
		int err = n < 0 ? -errno : -EFBIG;

		free(text);
		return err;
	}
	text[len] = 0;
	*ret_text = text;
	*ret_len = len;
	return 0;
}

static int check_kind(int fd, size_t max)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (!S_ISREG(st.st_mode))
		return -ENOTSUP;
	return st.st_size > (off_t)max ? -EFBIG : 0;
}

int config_read_file(const char *path, size_t max, char **ret_text, size_t *ret_len, char *why, size_t why_len)
{
	/* O_NONBLOCK: a FIFO must not hold the daemon; it is refused then. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), err = fd < 0 ? -errno : 0;

	if (!err)
		err = check_kind(fd, max);
	if (!err)
		err = read_descriptor(fd, max, ret_text, ret_len);
	if (fd >= 0)
		close(fd);
	if (err == -EFBIG)
		snprintf(why, why_len, "is larger than %zu KiB, the most that is accepted", max / 1024);
	else if (err == -ENOTSUP)
		snprintf(why, why_len, "is not a regular file");
	else if (err == -EISDIR)
		snprintf(why, why_len, "is a directory; name a file in it");
	else if (err)
		snprintf(why, why_len, "cannot be read: %s", strerror(-err));
	return err;
}

/* --- steps ------------------------------------------------------------------------------------------------------ */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Runs the steps on a new `config`; what was found is in the report. */
static int build(struct config *config, const char *text, size_t len, struct report *report)
{
	struct load load = {.report = report, .config = config, .base_name = base_name(config->path)};
	struct node *root = NULL;
	int err = config_yaml(text, len, &root, report);

	if (err)
		return err;
	load.root = root;
	config->hash = config_hash(CONFIG_HASH_START, text, len);
	config_walk(&load);
	if (!report->errors && !report->oom)
		config_resolve(&load);
	if (!report->errors && !report->oom)
		config_check(&load);
	node_free(&root);
	free(load.references);
	free(load.service_settings);
	return report->oom ? -ENOMEM : report->errors ? -EINVAL : 0;
}

int config_parse(const char *name, const char *text, size_t len, struct config **ret_config, struct diag *diag)
{
	struct config *config = calloc(1, sizeof(*config));
	struct report report = {.file = name};
	int err;

	if (!config) {
		diag_error(diag, "%s: out of memory", name);
		return -ENOMEM;
	}
	snprintf(config->path, sizeof(config->path), "%s", name);
	if (len > CONFIG_MAX) {
		report_error(&report, 0, 0, "is larger than %u KiB, the most that is accepted", CONFIG_MAX / 1024);
		err = -EFBIG;
	} else {
		err = build(config, text, len, &report);
	}
	if (err == -ENOMEM)
		report.oom = true;
	report_flush(&report, diag);
	if (err) {
		config_free(&config);
		return err;
	}
	*ret_config = config;
	return 0;
}

int config_load(const char *path, struct config **ret_config, struct diag *diag)
{
	char *text, why[256];
	size_t len;
	int err = config_read_file(path, CONFIG_MAX, &text, &len, why, sizeof(why));

	if (err) {
		diag_error(diag, "%s: %s", path, why);
		return err;
	}
	err = config_parse(path, text, len, ret_config, diag);
	free(text);
	return err;
}
