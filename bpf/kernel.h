/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * kernel.h: the kernel fields that sluice reads, and no others; CO-RE finds their offsets (include/net/sock.h,
 * include/linux/tcp.h, include/net/request_sock.h). A vmlinux.h would clash with the UAPI headers.
 */
#ifndef SLC_KERNEL_H
#define SLC_KERNEL_H

#include <linux/types.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	__s64 counter;
} atomic64_t;

struct sock_common {
	atomic64_t skc_cookie;
};

struct sock {
	struct sock_common __sk_common;
	__u32 sk_ack_backlog; /* established, not accepted; full when > sk_max_ack_backlog (sk_acceptq_is_full) */
	__u32 sk_max_ack_backlog;
	int sk_err; /* why the kernel ended it; 0: the application did */
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	_Bool is_mptcp; /* CONFIG_MPTCP */
	__u32 copied_seq; /* what the application has not read begins here */
	__u32 rcv_nxt;
};

struct tcp_request_sock {
	__u32 rcv_isn; /* the client's, host order */
};

#pragma clang attribute pop

/* enum of include/net/tcp_states.h, which UAPI does not export */
enum {
	SLC_TCP_TIME_WAIT = 6,
	SLC_TCP_LISTEN = 10,
	SLC_TCP_NEW_SYN_RECV = 12,
};

#endif /* SLC_KERNEL_H */
