/* SPDX-License-Identifier: GPL-2.0-only */
/* http.h: the status in the first bytes of a plaintext answer: "HTTP/1.x NNN". */
#ifndef SLC_HTTP_H
#define SLC_HTTP_H

#include "hash.h"
#include "maps/maps.bpf.h"

#define SLC_HTTP_CONTINUE_LENGTH 25 /* of "HTTP/1.1 100 Continue\r\n\r\n" */

/* 0: the bytes at `at` are no status line. */
static __always_inline __u32 slc_http_status(struct __sk_buff *skb, __u32 at)
{
	__u8 line[12]; /* "HTTP/1.1 503" */
	__u32 status = 0;

	if (bpf_skb_load_bytes(skb, at, line, sizeof(line)))
		return 0;
	if (line[0] != 'H' || line[1] != 'T' || line[2] != 'T' || line[3] != 'P' || line[4] != '/' || line[5] != '1' ||
	    line[6] != '.' || line[8] != ' ')
		return 0;
	SLC_UNROLL
	for (int i = 9; i < 12; i++) {
		if (line[i] < '0' || line[i] > '9')
			return 0;
		status = status * 10 + line[i] - '0';
	}
	return status;
}

/* 1xx promises an answer and is none; 101 is one: the protocol changes. */
static __always_inline _Bool slc_http_provisional(__u32 status)
{
	return status >= 100 && status < 200 && status != 101;
}

static __always_inline __u32 slc_http_failed(const struct slc_measure *measure, __u32 status)
{
	__u32 failed = 0;

	if (!measure || !measure->http || !status)
		return 0;
	for (__u32 i = 0; i < SLC_HTTP_CODES; i++)
		failed |= i < measure->http && measure->http_codes[i] == status;
	return failed;
}

#endif /* SLC_HTTP_H */
