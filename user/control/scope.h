/* SPDX-License-Identifier: GPL-2.0-only */
/* scope.h: what ends with the scope that holds it. Descriptors start at -1, pointers at NULL. */
#ifndef SLUICE_SCOPE_H
#define SLUICE_SCOPE_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <jansson.h>

static inline void scope_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static inline void scope_free(void *p)
{
	free(*(void **)p);
}

static inline void scope_fclose(FILE **file)
{
	if (*file)
		fclose(*file);
}

static inline void scope_json(json_t **json)
{
	json_decref(*json);
}

static inline void scope_unlock(pthread_mutex_t **lock)
{
	if (*lock)
		pthread_mutex_unlock(*lock);
}

static inline pthread_mutex_t *scope_lock(pthread_mutex_t *lock)
{
	pthread_mutex_lock(lock);
	return lock;
}

#define SCOPE_FD __attribute__((cleanup(scope_close))) int
#define SCOPE_FREE __attribute__((cleanup(scope_free)))
#define SCOPE_FILE __attribute__((cleanup(scope_fclose))) FILE
#define SCOPE_JSON __attribute__((cleanup(scope_json))) json_t
#define SCOPE_LOCK(lock) __attribute__((cleanup(scope_unlock), unused)) pthread_mutex_t *held_lock = scope_lock(lock)

/* The descriptor leaves the scope with the caller. */
static inline int take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

#endif /* SLUICE_SCOPE_H */
