/* SPDX-License-Identifier: GPL-2.0-only */
/* nearest.h: how far a misspelt word is from one that exists. Pure. */
#ifndef SLUICE_NEAREST_H
#define SLUICE_NEAREST_H

/* Letters to insert, delete or exchange; the first 31 of each word count. */
unsigned text_distance(const char *a, const char *b);

#endif /* SLUICE_NEAREST_H */
