/* SPDX-License-Identifier: GPL-2.0-only */
/* doctor_look.h: what the files of doctor share. */
#ifndef SLUICE_DOCTOR_LOOK_H
#define SLUICE_DOCTOR_LOOK_H

#include "user/control/doctor.h"

int doctor_read(const char *root, const char *path, char *buf, size_t len);
int64_t doctor_read_number(const char *root, const char *path); /* INT64_MIN if it cannot */
void doctor_look_interface(struct doctor_report *report, const char *name, bool frags, bool reset);

#endif /* SLUICE_DOCTOR_LOOK_H */
