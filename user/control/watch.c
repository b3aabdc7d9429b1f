// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/watch.h"

#include <fcntl.h>
#include <libgen.h>
#include <string.h>

#include "user/control/config_load.h"
#include "user/control/log.h"
#include "user/control/reload.h"
#include "user/control/scope.h"

#define SETTLE_MS 200 /* a burst of writes is one change */
#define LOOK_MS 5000 /* what the watch misses: another directory behind a symlink */

struct watch {
	struct daemon *d;
	uv_fs_event_t directory;
	uv_timer_t settle, look;
	uint64_t hash; /* of the content that was loaded, or refused, last */
};

/* Of the file as it is; 0 when it cannot be read, which is no change. */
static uint64_t content_hash(const char *path)
{
	SCOPE_FILE *file = fopen(path, "re");
	uint64_t hash = CONFIG_HASH_START;
	char buf[4096];
	size_t len;

	if (!file)
		return 0;
	while ((len = fread(buf, 1, sizeof(buf), file)) > 0)
		hash = config_hash(hash, buf, len);
	return ferror(file) ? 0 : hash;
}

static void load_if_changed(struct watch *watch)
{
	uint64_t hash = content_hash(watch->d->config_path);
	struct reload_result result = {0};

	if (hash == 0 || hash == watch->hash)
		return;
	watch->hash = hash;
	reload_file(watch->d, watch->d->config_path, &result);
	diag_reset(&result.diag);
}

static void on_settled(uv_timer_t *timer)
{
	load_if_changed(timer->data);
}

static void on_event(uv_fs_event_t *event, const char *name, int events, int status)
{
	struct watch *watch = event->data;

	(void)name;
	(void)events;
	(void)status;
	uv_timer_start(&watch->settle, on_settled, SETTLE_MS, 0);
}

void watch_start(struct daemon *d)
{
	struct watch *watch = calloc(1, sizeof(*watch));
	char path[sizeof(d->config_path)];

	if (!watch)
		return;
	*watch = (struct watch){.d = d, .hash = content_hash(d->config_path)};
	watch->directory.data = watch->settle.data = watch->look.data = watch;
	d->watch = watch;
	memcpy(path, d->config_path, sizeof(path));
	uv_timer_init(&d->loop, &watch->settle);
	uv_timer_init(&d->loop, &watch->look);
	uv_fs_event_init(&d->loop, &watch->directory);
	if (uv_fs_event_start(&watch->directory, on_event, dirname(path), 0))
		log_warning("--watch: %s cannot be watched, the file is looked at every %d s", path, LOOK_MS / 1000);
	uv_timer_start(&watch->look, on_settled, LOOK_MS, LOOK_MS);
}

/* After the loop closed its handles. */
void watch_free(struct daemon *d)
{
	free(d->watch);
	d->watch = NULL;
}
