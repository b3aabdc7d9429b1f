// SPDX-License-Identifier: GPL-2.0-only
/* maps.c: the pinned maps as a table: names, shapes, shared memory, bounded walks. */
#include "user/datapath/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

const char *const map_names[MAP_COUNT] = {
#define X(name, carry) [MAP_##name] = "slc_" #name,
	SLC_MAPS(X)
#undef X
};

const enum carry map_carry[MAP_COUNT] = {
#define X(name, carry) [MAP_##name] = CARRY_##carry,
	SLC_MAPS(X)
#undef X
};

int because(int error, char *why, size_t why_len, const char *fmt, ...)
{
	va_list args;

	if (!why || !why_len)
		return error;
	va_start(args, fmt);
	vsnprintf(why, why_len, fmt, args);
	va_end(args);
	return error;
}

uint32_t table_entries(const struct datapath_options *options, enum map map)
{
	uint32_t sources = pow2_ceil(options->sources), flows = pow2_ceil(options->flows);

	switch (map) {
	case MAP_sources: /* twice: a new layout of ranges is built beside the live one */
		return sources > SLC_WAYS ? sources / SLC_WAYS * 2 : 2;
	case MAP_cold: /* facts are kept for a quarter of the sources */
		return sources > 4 * SLC_COLD_WAYS ? sources / 4 / SLC_COLD_WAYS : 1;
	case MAP_flows:
		return flows > SLC_FLOW_WAYS ? flows / SLC_FLOW_WAYS : 1;
	default:
		return 0;
	}
}

int shape_of(int fd, struct shape *ret_shape)
{
	struct bpf_map_info info = {0};
	uint32_t len = sizeof(info);
	int r = bpf_obj_get_info_by_fd(fd, &info, &len);

	if (r < 0)
		return r;
	*ret_shape = (struct shape){
		.type = info.type,
		.key_size = info.key_size,
		.value_size = info.value_size,
		.max_entries = info.max_entries,
		.flags = info.map_flags,
	};
	return 0;
}

uint32_t map_id_of(int fd)
{
	struct bpf_map_info info = {0};
	uint32_t len = sizeof(info);

	return bpf_obj_get_info_by_fd(fd, &info, &len) < 0 ? 0 : info.id;
}

bool shape_equal(const struct shape *a, const struct shape *b)
{
	return a->type == b->type && a->key_size == b->key_size && a->value_size == b->value_size &&
	       a->max_entries == b->max_entries && a->flags == b->flags;
}

int pin_path(char *buf, size_t len, const char *pins, const char *prefix, const char *name)
{
	int n = snprintf(buf, len, "%s/%s%s", pins, prefix, name);

	return n < 0 || (size_t)n >= len ? -ENAMETOOLONG : 0;
}

void maps_close(struct maps *maps)
{
	for (int i = 0; i < MAP_COUNT; i++)
		close_fd(&maps->fd[i]);
}

int maps_open_pinned(const char *pins, struct maps *ret_maps)
{
	struct maps maps;
	int found = 0, r;

	memset(&maps, 0, sizeof(maps));
	memset(maps.fd, -1, sizeof(maps.fd));
	for (int i = 0; i < MAP_COUNT; i++) {
		char path[PATH_MAX];

		r = pin_path(path, sizeof(path), pins, "", map_names[i]);
		if (r < 0)
			goto fail;
		r = bpf_obj_get(path);
		if (r == -ENOENT)
			continue;
		if (r < 0)
			goto fail;
		maps.fd[i] = r;
		r = shape_of(maps.fd[i], &maps.shape[i]);
		if (r < 0)
			goto fail;
		found++;
	}
	if (!found)
		return -ENOENT;
	*ret_maps = maps;
	return 0;
fail:
	maps_close(&maps);
	return r;
}

int mapping_open(struct mapping *mapping, int fd, const struct shape *shape)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t stride = (shape->value_size + 7) & ~(size_t)7;
	size_t len = (stride * shape->max_entries + page - 1) & ~(page - 1);
	void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		return -errno;
	*mapping = (struct mapping){.at = at, .len = len};
	return 0;
}

void mapping_close(struct mapping *mapping)
{
	if (mapping->at)
		munmap(mapping->at, mapping->len);
	*mapping = (struct mapping){0};
}

int map_walk(int fd, size_t key_size, uint32_t max_entries, key_visit visit, void *arg)
{
	_cleanup_free_ uint8_t *key = malloc(key_size);
	_cleanup_free_ uint8_t *next = malloc(key_size);
	uint64_t steps = 2ULL * max_entries + 16;
	bool first = true;
	int r;

	if (!key || !next)
		return -ENOMEM;
	for (uint64_t i = 0; i < steps; i++) {
		r = bpf_map_get_next_key(fd, first ? NULL : key, next);
		if (r == -ENOENT)
			return 0;
		if (r < 0)
			return r;
		r = visit(next, arg);
		if (r)
			return r;
		memcpy(key, next, key_size);
		first = false;
	}
	return 0;
}
