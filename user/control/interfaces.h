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

/*
 * Another list, make before break: interfaces_prepare() attaches what is new in it, interfaces_commit() then releases
 * what is not in it, interfaces_abort() takes back what was prepared. A name that is new and stands for nothing, or
 * cannot be attached, is an error: a misspelt one would end the protection that its owner wants. One that was there and
 * vanished is waited for. At the start nothing is taken away by a name, so interfaces that come later are waited for.
 */
struct interfaces_change {
	struct interface *list;
	size_t count;
	bool changed; /* names or modes */
};
int interfaces_prepare(struct daemon *d, const struct config *config, struct interfaces_change *change,
		       struct diag *diag);
void interfaces_commit(struct daemon *d, struct interfaces_change *change, struct diag *diag);
void interfaces_abort(struct daemon *d, struct interfaces_change *change);
/* After a start: what an earlier run attached to interfaces that the file no longer names is released. */
void interfaces_release_strays(struct daemon *d);

/* `first`: the start, where a failure is one. Else failures are tried again with a growing pause. */
int interfaces_reconcile(struct daemon *d, uint64_t now_ns, bool first, char *why, size_t why_len);

#endif /* SLUICE_INTERFACES_H */
