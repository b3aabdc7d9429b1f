// SPDX-License-Identifier: GPL-2.0-only
/* http.c: the transport: libcurl over the UNIX socket, JSON both ways. */
#include <curl/curl.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "user/cli/http.h"

#define ANSWER_MAX (64u << 20)
#define CONNECT_MS 2000L
#define ANSWER_S 60L /* loading a configuration with a quarter of a million prefixes takes a while */

struct buffer {
	char *data;
	size_t len;
};

static size_t take(char *data, size_t size, size_t count, void *arg)
{
	struct buffer *buffer = arg;
	size_t len = size * count;
	char *grown;

	if (buffer->len + len > ANSWER_MAX)
		return 0;
	grown = realloc(buffer->data, buffer->len + len + 1);
	if (!grown)
		return 0;
	buffer->data = grown;
	memcpy(grown + buffer->len, data, len);
	buffer->len += len;
	grown[buffer->len] = '\0';
	return len;
}

/* Why nobody answers: libcurl keeps the errno of connect() to itself, so it is asked for again. */
static int connect_errno(const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd, err = 0;

	if (strlen(path) >= sizeof(addr.sun_path))
		return ENAMETOOLONG;
	memcpy(addr.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)))
		err = errno;
	close(fd);
	return err;
}

static int explain(CURL *curl, CURLcode code, const char *path, char *why, size_t why_len)
{
	int err;

	if (code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST) {
		err = connect_errno(path);
		snprintf(why, why_len, "%s", err ? strerror(err) : "no answer to connect");
		return -ENOTCONN;
	}
	if (code == CURLE_OPERATION_TIMEDOUT) {
		double connected = 0;

		curl_easy_getinfo(curl, CURLINFO_CONNECT_TIME, &connected);
		snprintf(why, why_len, "no answer within %ld s", connected > 0 ? ANSWER_S : CONNECT_MS / 1000);
		return connected > 0 ? -ETIMEDOUT : -ENOTCONN;
	}
	snprintf(why, why_len, "%s", curl_easy_strerror(code));
	return code == CURLE_ABORTED_BY_CALLBACK ? -ECANCELED : -EPROTO;
}

static int ask_to_stop(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	bool (*const *stop)(void) = arg;

	(void)a, (void)b, (void)c, (void)d;
	return (*stop)();
}

static void set_request(CURL *curl, const char *path, const char *method, const char *url, const char *text,
			struct curl_slist *headers, struct buffer *buffer)
{
	curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, path);
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT, ANSWER_S);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, buffer);
	/* Without a body too: a POST says that its length is 0. */
	if (!strcmp(method, "POST")) {
		curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, text ? (long)strlen(text) : 0L);
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, text ? text : "");
	}
	curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
}

static int read_answer(CURL *curl, const struct buffer *buffer, struct http_answer *ret_answer, char *why,
		       size_t why_len)
{
	json_error_t error;
	json_t *body = json_loadb(buffer->data ? buffer->data : "", buffer->len, 0, &error);
	long status = 0;

	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	if (!body) {
		snprintf(why, why_len, "the answer (HTTP status %ld, %zu bytes) is not JSON: %s", status, buffer->len,
			 error.text);
		return -EPROTO;
	}
	*ret_answer = (struct http_answer){status, body};
	return 0;
}

static int perform(const char *socket_path, const char *method, const char *target, const json_t *body,
		   bool (*stop)(void), struct http_answer *ret_answer, char *why, size_t why_len)
{
	struct curl_slist *headers = curl_slist_append(NULL, "Expect:");
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	struct buffer buffer = {0};
	CURL *curl = curl_easy_init();
	char *url = NULL;
	CURLcode code;
	int err = -ENOMEM;

	snprintf(why, why_len, "out of memory");
	if (headers && curl && (text || !body) && asprintf(&url, "http://sluiced%s", target) >= 0) {
		if (text)
			curl_slist_append(headers, "Content-Type: application/json");
		set_request(curl, socket_path, method, url, text, headers, &buffer);
		if (stop) {
			curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
			curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, ask_to_stop);
			curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &stop);
		}
		code = curl_easy_perform(curl);
		err = code ? explain(curl, code, socket_path, why, why_len)
			   : read_answer(curl, &buffer, ret_answer, why, why_len);
	}
	curl_slist_free_all(headers);
	curl_easy_cleanup(curl);
	free(text);
	free(url);
	free(buffer.data);
	return err;
}

int http_request(const char *socket_path, const char *method, const char *target, const json_t *body,
		 struct http_answer *ret_answer, char *why, size_t why_len)
{
	return perform(socket_path, method, target, body, NULL, ret_answer, why, why_len);
}

int http_wait(const char *socket_path, const char *target, bool (*stop)(void), struct http_answer *ret_answer,
	      char *why, size_t why_len)
{
	return perform(socket_path, "GET", target, NULL, stop, ret_answer, why, why_len);
}

void http_release(struct http_answer *answer)
{
	json_decref(answer->body);
	answer->body = NULL;
}

char *http_escape(const char *text)
{
	static const char digits[] = "0123456789ABCDEF";
	char *escaped = malloc(3 * strlen(text) + 1), *to = escaped;

	if (!escaped)
		return NULL;
	for (const unsigned char *s = (const unsigned char *)text; *s; s++) {
		bool plain = (*s >= '0' && *s <= '9') || (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ||
			     strchr("-._~:", *s);

		if (plain) {
			*to++ = (char)*s;
		} else {
			*to++ = '%';
			*to++ = digits[*s >> 4];
			*to++ = digits[*s & 15];
		}
	}
	*to = '\0';
	return escaped;
}
