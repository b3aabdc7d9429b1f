/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * reload.h: from a file to the live snapshot. Everything is read, checked and compiled before anything is touched;
 * on any error the last good configuration stays in force, and status and metrics say why. Two at once are done one
 * after the other.
 */
#ifndef SLUICE_RELOAD_H
#define SLUICE_RELOAD_H

#include "user/control/daemon.h"

#define SCOPE_CONFIG __attribute__((cleanup(config_free))) struct config

struct reload_result {
	uint64_t snapshot;
	bool changed; /* maps or interfaces */
	bool in_force; /* with an error: the maps are those of the new configuration nevertheless */
	struct diag diag; /* to be reset by the caller */
};

/*
 * Makes `config` with its snapshot the live one: namespaces, maps, services, interfaces, overrides. Takes over
 * *config on success. With both locks held.
 */
int reload_apply(struct daemon *d, struct config **config, struct reload_result *result);
/* After an error, for people. */
const char *reload_what_holds(const struct reload_result *result);
/* The whole way from the file; without locks held. */
int reload_file(struct daemon *d, const char *path, struct reload_result *result);
/* Once a second: namespaces and own addresses that came or went are taken up. With the lock held. */
void reload_system(struct daemon *d, uint64_t now_ns);
void reload_free_services(struct daemon *d);

#endif /* SLUICE_RELOAD_H */
