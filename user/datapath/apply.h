/* SPDX-License-Identifier: GPL-2.0-only */
/* apply.h: a snapshot on its way into the maps: what is wanted, beside what is live. Shared by apply*.c. */
#ifndef SLUICE_DATAPATH_APPLY_H
#define SLUICE_DATAPATH_APPLY_H

#include "user/datapath/internal.h"

struct next_service {
	const struct snapshot_service *want;
	const struct live_service *have; /* same name in the live snapshot, or NULL */
	struct slc_policy policy; /* complete */
	struct slc_measure measure; /* complete */
	struct slc_rule *overrides; /* in units, one per want->overrides */
	uint16_t slot; /* in slc_policy */
	bool moves; /* buckets go to another range, unit or table */
};

struct trust_entry {
	struct slc_trust_key key;
	struct slc_rule rule;
};

struct next {
	struct next_service *services;
	size_t count;
	struct trust_entry *trust; /* sorted by key */
	size_t trust_count;
	struct slc_global global;
	struct slc_ports ports[1024];
	uint32_t index; /* snapshot slot it goes to */
	uint32_t next_uid;
	bool settled; /* every range has its target size */
};

int next_build(struct datapath *dp, const struct snapshot *snapshot, struct next *next, char *why, size_t why_len);
void next_free(struct datapath *dp, struct next *next, bool applied);
/* 1: what is live is the same; 0: differs; or -errno. */
int next_is_live(const struct datapath *dp, const struct next *next);

/* trust.c */
int trust_build(struct datapath *dp, const struct snapshot *snapshot, struct next *next, char *why, size_t why_len);
int trust_read(int fd, size_t expected, struct trust_entry **ret_entries, size_t *ret_count);
bool trust_equal(const struct trust_entry *a, const struct trust_entry *b, size_t count);
int trust_write(const struct datapath *dp, const struct next *next, char *why, size_t why_len);
/* Gives back ceilings: of `next` that the live trust does not have, or the other way round. */
void trust_release(struct datapath *dp, const struct trust_entry *gone, size_t gone_count,
		   const struct trust_entry *kept, size_t kept_count);

/* An inner map like the skeleton's, with BTF, sized for `entries`. */
int inner_create(const struct datapath *dp, const char *name, int type, const char *key, size_t key_size,
		 const char *value, size_t value_size, uint32_t flags, size_t entries);

#endif /* SLUICE_DATAPATH_APPLY_H */
