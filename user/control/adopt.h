/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * adopt.h: a descriptor of a listener that another process holds. Such a one listened before sluice did; its arrival
 * ring can only be made from outside.
 */
#ifndef SLUICE_ADOPT_H
#define SLUICE_ADOPT_H

#include <stddef.h>
#include <stdint.h>

struct adopt_want {
	uint64_t cookie;
	uint32_t inode;
	int pid, fd; /* found: who holds it; else 0 and -1 */
};

/* Looks through /proc once for all: may take long, no lock is needed. Returns how many were found. */
size_t adopt_find(struct adopt_want *wants, size_t count);
/* A descriptor of our own, made sure of by its cookie. -ENOENT: not found, -ESTALE: it is another socket by now. */
int adopt_take(const struct adopt_want *want, int *ret_fd);

#endif /* SLUICE_ADOPT_H */
