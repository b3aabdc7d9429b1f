/* SPDX-License-Identifier: GPL-2.0-only */
/* problem.h: an error for the person who asked: what was given, what is accepted, what to do. */
#ifndef SLUICE_PROBLEM_H
#define SLUICE_PROBLEM_H

struct problem {
	int status; /* HTTP */
	char message[1024];
	char key[64], value[160], accepted[256], hint[320];
};

/* Returns -EINVAL, so that a refusal is one statement. */
int problem_say(struct problem *problem, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The same about one key and its value. `accepted` and `hint` may be NULL. */
int problem_value(struct problem *problem, int status, const char *key, const char *value, const char *accepted,
		  const char *hint, const char *fmt, ...) __attribute__((format(printf, 7, 8)));

#endif /* SLUICE_PROBLEM_H */
