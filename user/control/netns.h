/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * netns.h: a network namespace seen from outside. A socket belongs to the namespace it was made in, so one short
 * visit of a helper thread is enough; the daemon's own threads never change theirs.
 */
#ifndef SLUICE_NETNS_H
#define SLUICE_NETNS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NETNS_NAME_LEN 64
#define NSID_NOWHERE 0x7fffffff /* no namespace has it: the gate sees nobody, instead of the wrong one */

struct netns {
	char name[NETNS_NAME_LEN]; /* "": the daemon's own */
	int diag_fd; /* NETLINK_SOCK_DIAG in it */
	uint64_t cookie;
	int32_t nsid; /* as this namespace numbers it */
	dev_t dev;
	ino_t ino; /* of the file: another one means that the namespace was made anew */
};

/* *ret_ns is untouched on failure; `why` says what is missing. */
int netns_open(const char *name, struct netns *ret_ns, char *why, size_t why_len);
void netns_close(struct netns *ns);
/* Whether the name still stands for the same namespace. */
int netns_same(const struct netns *ns);

#endif /* SLUICE_NETNS_H */
