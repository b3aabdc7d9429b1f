/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tls.h: what a client's segment of a TLS connection asks for, from the headers of its records, which are never
 * encrypted (RFC 8446, 5.1; RFC 5246, 6.2.1).
 *
 * ClientHello and, in TLS 1.2, ClientKeyExchange want an answer. Finished at the end of a handshake does not: it comes
 * after ChangeCipherSpec, in TLS 1.3 in the clothes of application data. Nor does an alert.
 */
#ifndef SLC_TLS_H
#define SLC_TLS_H

#include "maps/maps.bpf.h"

#include "parse.h"

enum slc_tls_type {
	SLC_TLS_CHANGE_CIPHER = 0x14,
	SLC_TLS_ALERT = 0x15,
	SLC_TLS_HANDSHAKE = 0x16,
	SLC_TLS_DATA = 0x17,
};

enum slc_ask {
	SLC_ASK_nothing, /* alert, Finished */
	SLC_ASK_handshake,
	SLC_ASK_request,
	SLC_ASK_small, /* one small record: HTTP/2's own business, or a small request */
	SLC_ASK_more, /* does not begin with a record: more of the one before */
};

struct slc_tls_record {
	__u8 type;
	__u8 major, minor;
	__u8 length[2];
};
_Static_assert(sizeof(struct slc_tls_record) == 5, "wire: TLS record");

#define SLC_TLS_RECORDS 4 /* looked at per segment */
#define SLC_TLS_ALERT_13 19 /* an alert of TLS 1.3: 2 bytes, type, tag of 16; also a request of 2 bytes */
#define SLC_TLS_SMALL 46 /* header, frame of 17 bytes (HTTP/2 PING, the largest that wants nothing), nonce, tag */

static __always_inline _Bool slc_tls_record_at(struct __sk_buff *skb, __u32 at, struct slc_tls_record *record)
{
	return !bpf_skb_load_bytes(skb, at, record, sizeof(*record)) && record->major == 3 &&
	       record->type >= SLC_TLS_CHANGE_CIPHER && record->type <= SLC_TLS_DATA;
}

/* Records from `at` to `end`: of application data in the low half, of the handshake in the high one. */
static __always_inline __u32 slc_tls_count(struct __sk_buff *skb, __u32 at, __u32 end)
{
	struct slc_tls_record record;
	__u32 count = 0;

	for (int i = 0; i < SLC_TLS_RECORDS; i++) {
		if (at >= end || !slc_tls_record_at(skb, at, &record))
			break;
		count += record.type == SLC_TLS_DATA;
		count += (record.type == SLC_TLS_HANDSHAKE) << 16;
		at += sizeof(record) + (record.length[0] << 8 | record.length[1]);
	}
	return count;
}

#define SLC_ASK_MASK 7u
#define SLC_ASK_FINISHED_NEXT 8u /* with an enum slc_ask: ChangeCipherSpec came alone */

/* The segment's payload is [at, end). `finished_next`: ChangeCipherSpec came alone before it. */
SLC_VERIFIED_ALONE __u32 slc_tls_ask(struct __sk_buff *skb, __u32 at, __u32 end, __u32 finished_next)
{
	struct slc_tls_record record;
	__u32 length, rest, data;

	if (!slc_tls_record_at(skb, at, &record))
		return SLC_ASK_more;
	length = sizeof(record) + (record.length[0] << 8 | record.length[1]);
	if (record.type == SLC_TLS_ALERT)
		return SLC_ASK_nothing;
	if (record.type == SLC_TLS_DATA && !finished_next) {
		if (length == sizeof(record) + SLC_TLS_ALERT_13 && end - at == length)
			return SLC_ASK_nothing;
		return end - at <= SLC_TLS_SMALL ? SLC_ASK_small : SLC_ASK_request;
	}
	rest = slc_tls_count(skb, at + length, end);
	data = rest & 0xffff;
	if (record.type == SLC_TLS_CHANGE_CIPHER) {
		if (!rest)
			return SLC_ASK_nothing | SLC_ASK_FINISHED_NEXT;
		return data && data + (rest >> 16) > 1 ? SLC_ASK_request : SLC_ASK_nothing;
	}
	if (data)
		return SLC_ASK_request;
	return finished_next ? SLC_ASK_nothing : SLC_ASK_handshake;
}

#endif /* SLC_TLS_H */
