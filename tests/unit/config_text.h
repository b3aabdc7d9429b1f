/* SPDX-License-Identifier: GPL-2.0-only */
/* config_text.h: configurations from text, for tests: what is refused leaves its output untouched and says why. */
#ifndef SLUICE_TESTS_CONFIG_TEXT_H
#define SLUICE_TESTS_CONFIG_TEXT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "user/control/config.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Four lines; a row's own text begins in line 5. */
#define HEAD "interfaces: [{name: eth0}]\nservices:\n  - name: web\n    listen: [\"192.0.2.1:80\"]\n"
#define SECOND "  - name: api\n    listen: [\"192.0.2.1:81\"]\n"

static inline void check_messages(const struct diag *diag)
{
	for (size_t i = 0; i < diag->error_count + diag->warning_count; i++) {
		const char *text = i < diag->error_count ? diag->errors[i] : diag->warnings[i - diag->error_count];

		assert_true(strlen(text) < 2000);
		for (const char *p = text; *p; p++)
			if ((unsigned char)*p < 0x20 || *p == 0x7f)
				fail_msg("message of more than one plain line: %s", text);
	}
	assert_true(diag->error_count <= 21);
}

/* Untouched output, a non-empty message: whatever the reason was. */
static inline int parse_bad(const char *text, size_t len, struct diag *diag)
{
	struct config *untouched = (void *)diag, *config = untouched;
	int err = config_parse("test.yaml", text, len, &config, diag);

	if (!err) {
		config_free(&config);
		return 0;
	}
	assert_ptr_equal(config, untouched);
	assert_true(diag->error_count > 0);
	check_messages(diag);
	return err;
}

static inline struct config *parse_good(const char *text, struct diag *diag)
{
	struct config *config = NULL;

	if (config_parse("test.yaml", text, strlen(text), &config, diag))
		fail_msg("%s\n%s", diag->errors[0], text);
	assert_int_equal(diag->error_count, 0);
	check_messages(diag);
	return config;
}

static inline bool has_message(char *const *messages, size_t count, const char *const *parts, size_t part_count)
{
	for (size_t i = 0; i < count; i++) {
		size_t found = 0;

		while (found < part_count && (!parts[found] || strstr(messages[i], parts[found])))
			found++;
		if (found == part_count)
			return true;
	}
	return false;
}

static inline const char *value_of(const struct config *config, const char *path)
{
	for (size_t i = 0; i < config->setting_count; i++)
		if (!strcmp(config->settings[i].path, path))
			return config->settings[i].value;
	return "(none)";
}

static inline const char *origin_of(const struct config *config, const char *path)
{
	for (size_t i = 0; i < config->setting_count; i++)
		if (!strcmp(config->settings[i].path, path))
			return config->settings[i].origin;
	return "(none)";
}

#endif /* SLUICE_TESTS_CONFIG_TEXT_H */
