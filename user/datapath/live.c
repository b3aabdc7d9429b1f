// SPDX-License-Identifier: GPL-2.0-only
/*
 * live.c: reads the live snapshot back from the maps. Policies hold name, uid, state, unit and range, so a restarted
 * controller needs no file of its own to know which buckets are whose.
 */
#include "user/datapath/internal.h"

#include <string.h>

/* Reads an array element of a possibly other size: the common prefix, the rest zero. */
static int read_prefix(const struct maps *maps, enum map map, uint32_t key, void *ret, size_t len)
{
	uint32_t size = maps->shape[map].value_size;
	_cleanup_free_ void *value = NULL;
	int r;

	if (maps->fd[map] < 0 || maps->shape[map].type != BPF_MAP_TYPE_ARRAY || maps->shape[map].key_size != 4)
		return -ENOENT;
	value = calloc(1, (size + 7) & ~7u);
	if (!value)
		return -ENOMEM;
	r = bpf_map_lookup_elem(maps->fd[map], &key, value);
	if (r < 0)
		return r;
	memset(ret, 0, len);
	memcpy(ret, value, size < len ? size : len);
	return 0;
}

/* Inner map of `index`, -1 if the slot is empty or holds something of another shape. */
static int inner_fd(const struct maps *maps, enum map map, uint32_t index, size_t key_size, size_t value_size)
{
	_cleanup_fd_ int fd = -1;
	struct shape shape;
	uint32_t id;

	if (maps->fd[map] < 0 || bpf_map_lookup_elem(maps->fd[map], &index, &id) < 0)
		return -1;
	fd = bpf_map_get_fd_by_id(id);
	if (fd < 0 || shape_of(fd, &shape) < 0 || shape.key_size != key_size || shape.value_size != value_size)
		return -1;
	return TAKE_FD(fd);
}

struct reading {
	const struct maps *maps;
	struct live *live;
	int fd;
};

static int add_service(struct reading *reading, uint16_t slot, struct live_service **ret)
{
	struct live *live = reading->live;
	struct live_service *grown;
	int r;

	for (size_t i = 0; i < live->count; i++) {
		if (live->services[i].slot == slot) {
			*ret = &live->services[i];
			return 0;
		}
	}
	grown = reallocarray(live->services, live->count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	live->services = grown;
	*ret = &grown[live->count];
	**ret = (struct live_service){.slot = slot};
	r = read_prefix(reading->maps, MAP_policy, slot, &(*ret)->policy, sizeof((*ret)->policy));
	if (r < 0)
		return r;
	(*ret)->policy.name[SLC_NAME_LEN - 1] = '\0';
	live->count++;
	return 0;
}

static int take_key(const void *key, void *arg)
{
	struct reading *reading = arg;
	struct slc_service_key *grown;
	struct live_service *service;
	struct slc_service value;
	int r = bpf_map_lookup_elem(reading->fd, key, &value);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	r = add_service(reading, value.policy, &service);
	if (r < 0)
		return r;
	grown = reallocarray(service->keys, service->key_count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	service->keys = grown;
	memcpy(&grown[service->key_count++], key, sizeof(*grown));
	return 0;
}

static int by_slot(const void *a, const void *b)
{
	const struct live_service *x = a, *y = b;

	return x->slot < y->slot ? -1 : x->slot > y->slot;
}

static int count_key(const void *key, void *arg)
{
	(void)key;
	++*(size_t *)arg;
	return 0;
}

int live_read(const struct maps *maps, struct live *ret_live)
{
	struct live live = {.trust_fd = -1};
	struct reading reading = {.maps = maps, .live = &live};
	struct slc_control control;
	_cleanup_fd_ int services = -1;
	struct shape shape;
	int r = read_prefix(maps, MAP_control, 0, &control, sizeof(control));

	/* Another major number may mean other things by the same fields: only exact sizes are believed. */
	if (r == -ENOMEM)
		return r;
	if (r < 0 || control.magic != SLC_MAGIC ||
	    (control.abi_major != SLC_ABI_MAJOR && (maps->shape[MAP_control].value_size != sizeof(control) ||
						    maps->shape[MAP_policy].value_size != sizeof(struct slc_policy))))
		goto none;
	live.number = control.active >> 1;
	live.index = control.active & 1;
	if (!live.number)
		goto none;
	services = inner_fd(maps, MAP_services, live.index, sizeof(struct slc_service_key), sizeof(struct slc_service));
	if (services < 0)
		goto none;
	reading.fd = services;
	r = shape_of(services, &shape);
	if (r == 0)
		r = map_walk(services, sizeof(struct slc_service_key), shape.max_entries, take_key, &reading);
	if (r < 0)
		goto fail;
	if (live.count)
		qsort(live.services, live.count, sizeof(*live.services), by_slot);
	live.trust_fd = inner_fd(maps, MAP_trust, live.index, sizeof(struct slc_trust_key), sizeof(struct slc_rule));
	if (live.trust_fd >= 0) {
		r = map_walk(live.trust_fd, sizeof(struct slc_trust_key), SLC_TRUST, count_key, &live.trust_count);
		if (r < 0)
			goto fail;
	}
	*ret_live = live;
	return 0;
none:
	*ret_live = (struct live){.trust_fd = -1};
	return 0;
fail:
	live_free(&live);
	return r;
}

void live_free(struct live *live)
{
	for (size_t i = 0; i < live->count; i++)
		free(live->services[i].keys);
	free(live->services);
	close_fd(&live->trust_fd);
	*live = (struct live){.trust_fd = -1};
}

const struct live_service *live_find(const struct live *live, const char *name)
{
	for (size_t i = 0; i < live->count; i++)
		if (strncmp(live->services[i].policy.name, name, SLC_NAME_LEN) == 0)
			return &live->services[i];
	return NULL;
}

uint64_t datapath_snapshot_number(const struct datapath *dp)
{
	return dp->live.number;
}

size_t datapath_services(const struct datapath *dp, struct slc_policy *policies, size_t max)
{
	for (size_t i = 0; i < dp->live.count && i < max; i++)
		policies[i] = dp->live.services[i].policy;
	return dp->live.count < max ? dp->live.count : max;
}

int datapath_service_find(const struct datapath *dp, const char *name, struct slc_policy *ret_policy)
{
	const struct live_service *service = live_find(&dp->live, name);

	if (!service)
		return -ENOENT;
	*ret_policy = service->policy;
	return 0;
}
