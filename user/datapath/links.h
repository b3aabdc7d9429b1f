/* SPDX-License-Identifier: GPL-2.0-only */
/* links.h: pinned bpf_links, shared by attach.c, cgroup.c, detach.c and migrate.c. */
#ifndef SLUICE_DATAPATH_LINKS_H
#define SLUICE_DATAPATH_LINKS_H

#include <stdio.h>

#include "user/datapath/internal.h"

int link_info(int fd, struct bpf_link_info *ret_info);
int link_open(const char *path, int *ret_fd, struct bpf_link_info *ret_info); /* -ENOENT: no such pin */
bool link_is_dead(const struct bpf_link_info *info); /* what it was attached to is gone */
/* Puts our program into the link unless an equal one is there. -ENOENT: we have none for this hook. */
int link_renew(const struct datapath *dp, int fd, const struct bpf_link_info *info);
int link_pin_over(int fd, const char *path); /* replaces an older pin in one step */
const struct bpf_program *link_program(const struct datapath *dp, const struct bpf_link_info *info);

#endif /* SLUICE_DATAPATH_LINKS_H */
