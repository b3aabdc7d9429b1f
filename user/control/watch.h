/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * watch.h: loads the file when its content changes (--watch). A name is watched, not an inode: rename, exchange of a
 * symlink, delete and create are all seen, by watching directories and by a look every few seconds besides (c131).
 */
#ifndef SLUICE_WATCH_H
#define SLUICE_WATCH_H

#include "user/control/daemon.h"

void watch_start(struct daemon *d);
void watch_free(struct daemon *d);

#endif /* SLUICE_WATCH_H */
