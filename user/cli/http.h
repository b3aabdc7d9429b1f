/* SPDX-License-Identifier: GPL-2.0-only */
/* http.h: one request to the daemon over its UNIX socket. */
#ifndef SLUICE_CLI_HTTP_H
#define SLUICE_CLI_HTTP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define DEFAULT_SOCKET "/run/sluice/sluice.sock"

struct http_answer {
	long status;
	json_t *body; /* JSON object; released by http_release() */
};

/*
 * 0 whenever an answer of JSON came, whatever its status; -ENOTCONN: nobody answers at the socket; another -errno:
 * the talk broke off. `why` says it in words.
 */
int http_request(const char *socket_path, const char *method, const char *target, const json_t *body,
		 struct http_answer *ret_answer, char *why, size_t why_len);
/* A GET whose answer may take a while: `stop` is asked about once a second; true breaks it off, -ECANCELED. */
int http_wait(const char *socket_path, const char *target, bool (*stop)(void), struct http_answer *ret_answer,
	      char *why, size_t why_len);
void http_release(struct http_answer *answer);
/* `text` so that it can stand in a target; to be freed. */
char *http_escape(const char *text);

#endif /* SLUICE_CLI_HTTP_H */
