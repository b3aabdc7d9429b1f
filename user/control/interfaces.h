/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * interfaces.h: keeps the program on every interface of the file, whatever happens to the interface: what is there
 * is compared with what is wanted, on each change that the kernel reports and once a second. Losing the carrier,
 * which attaching itself may cause, is no reason to do anything (c107). Called with the daemon's lock held.
 */
#ifndef SLUICE_INTERFACES_H
#define SLUICE_INTERFACES_H

#include "user/control/daemon.h"

/* rtnetlink, to poll; -errno. */
int interfaces_open(void);
/* Something changed: reads it all and remembers that a look is due. */
void interfaces_notice(struct daemon *d);
/* Takes over the list of the file: new ones are attached by the next look, others detached. */
int interfaces_set(struct daemon *d, const struct config *config);
/* `first`: the start, where a failure is one. Else failures are tried again with a growing pause. */
int interfaces_reconcile(struct daemon *d, uint64_t now_ns, bool first, char *why, size_t why_len);

#endif /* SLUICE_INTERFACES_H */
