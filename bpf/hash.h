/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hash.h: keyed hashes of sources and flows; plain C, the same for packet path, controller and tests.
 *
 * Sources: SipHash-1-3 (Aumasson and Bernstein, 2012; one compression and three final rounds, as in Rust and Linux's
 * hsiphash family) under a secret made once with the tables, so that nobody outside can aim at a set. How its 64 bits
 * are used:
 *
 *   hot table   set = hash & set_mask (at most 2^24 sets), tag = hash >> 40
 *   cold table  set = hash & (cold_sets - 1),              tag = hash >> 24
 *
 * Flows: the source's hash, which nobody outside knows, mixed with the rest of the tuple. Two flows
 * collide by chance only, in the 32 bits of the tag.
 *
 *   flow table  set = hash & (flow_sets - 1): bits 4 to 31 are the source's, the others the flow's; tag = hash >> 32
 *
 * So a source has 16 neighbouring sets, 64 records: the lines of a source that floods stay in the cache [refused SYN, one
 * source: 212 -> 153 ns], and it can evict nobody's records but its own neighbourhood's. The price: a source with more
 * than 64 handshakes in flight (a large NAT) loses the oldest records; their retransmits are charged, their handshakes not
 * timed.
 */
#ifndef SLC_HASH_H
#define SLC_HASH_H

#include <linux/types.h>

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

#ifdef __clang__
#define SLC_UNROLL _Pragma("unroll")
#else
#define SLC_UNROLL
#endif

/*
 * A function that the BPF verifier checks once and alone, with any arguments (a BPF "global function"), instead of on
 * every path that leads to it. Pointer arguments may be NULL for it.
 */
#ifdef __bpf__
#define SLC_VERIFIED_ALONE __attribute__((weak, noinline))
#else
#define SLC_VERIFIED_ALONE static inline
#endif

/* Hides where a value comes from, so that the compiler keeps the arithmetic as written. */
#define SLC_OPAQUE(x) __asm__ volatile("" : "+r"(x))

/* An address as two words in memory (network) order; IPv4 as ::ffff:a.b.c.d. */
struct slc_addr {
	union {
		__u8 byte[16];
		__u32 word[4];
		__u64 half[2];
	};
};

#define SLC_TIER_OWN 0 /* the source key itself */
#define SLC_TIER_WIDE 1 /* source.wide: must not meet the key of a host whose address ends in zeros */

static __always_inline __u64 slc_rotl(__u64 x, int bits)
{
	return x << bits | x >> (64 - bits);
}

struct slc_sip {
	__u64 v0, v1, v2, v3;
};

static __always_inline void slc_sip_round(struct slc_sip *s)
{
	s->v0 += s->v1;
	s->v1 = slc_rotl(s->v1, 13) ^ s->v0;
	s->v0 = slc_rotl(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = slc_rotl(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = slc_rotl(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = slc_rotl(s->v1, 17) ^ s->v2;
	s->v2 = slc_rotl(s->v2, 32);
}

static __always_inline void slc_sip_block(struct slc_sip *s, __u64 word)
{
	s->v3 ^= word;
	slc_sip_round(s);
	s->v0 ^= word;
}

static __always_inline _Bool slc_addr_is_v4(const struct slc_addr *a)
{
	return a->half[0] == 0 && a->word[2] == (__u32)__builtin_bswap32(0x0000ffff);
}

/*
 * SipHash-1-3 of the bytes addr || uid || {vlan:12, tier:4}; an IPv4 address is the 8 bytes 00 00 ff ff a b c d,
 * an IPv6 address 16 bytes. `addr` has its host bits cleared.
 */
static __always_inline __u64 slc_hash_source(const __u64 secret[2], const struct slc_addr *addr, __u32 uid, __u16 vlan,
					     __u8 tier)
{
	struct slc_sip s = {
		.v0 = secret[0] ^ 0x736f6d6570736575ULL,
		.v1 = secret[1] ^ 0x646f72616e646f6dULL,
		.v2 = secret[0] ^ 0x6c7967656e657261ULL,
		.v3 = secret[1] ^ 0x7465646279746573ULL,
	};
	__u64 last = (__u64)uid | (__u64)((vlan & 0xfff) | tier << 12) << 32;

	if (slc_addr_is_v4(addr)) {
		last |= 14ULL << 56;
	} else {
		slc_sip_block(&s, addr->half[0]);
		last |= 22ULL << 56;
	}
	slc_sip_block(&s, addr->half[1]);
	slc_sip_block(&s, last);
	s.v2 ^= 0xff;
	slc_sip_round(&s);
	slc_sip_round(&s);
	slc_sip_round(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

/* MurmurHash3's 64-bit finalizer (Appleby): a bijection in which each input bit moves half the output bits. */
static __always_inline __u64 slc_mix(__u64 x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdULL;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53ULL;
	return x ^ x >> 33;
}

#define SLC_FLOW_KEY_BITS 0xfffffff0ULL

/* `key` is the hash of the source key; ports in host order; seq 0 and proto UDP for datagrams. */
static __always_inline __u64 slc_hash_flow(__u64 key, const struct slc_addr *saddr, const struct slc_addr *daddr,
					   __u16 sport, __u16 dport, __u32 seq, __u8 proto)
{
	__u64 source = key, mixed;
	__u64 rest = (__u64)sport << 48 | (__u64)dport << 32 | seq;
	__u64 to = slc_addr_is_v4(daddr) ? daddr->word[3] : slc_mix(daddr->half[0]) + daddr->half[1];

	/* The key may cover a whole prefix: the low half tells its hosts apart. */
	source ^= saddr->half[1] * 0x9e3779b97f4a7c15ULL;
	mixed = slc_mix(source + (to + proto) * 0xd6e8feb86659fd93ULL + rest);
	return mixed ^ ((mixed ^ key) & SLC_FLOW_KEY_BITS);
}

SLC_VERIFIED_ALONE int slc_addr_mask6(struct slc_addr *a, __u32 prefix)
{
	__u64 hi = prefix >= 64 ? ~0ULL : ~(~0ULL >> (prefix & 63));
	__u64 lo = prefix >= 128 ? ~0ULL : prefix <= 64 ? 0 : ~(~0ULL >> ((prefix - 64) & 63));

	if (!a)
		return 0;
	a->half[0] &= __builtin_bswap64(hi);
	a->half[1] &= __builtin_bswap64(lo);
	return 0;
}

/* Clears the host bits: `v4` and `v6` are prefixes of the IPv4 and of the IPv6 address. */
static __always_inline void slc_addr_mask(struct slc_addr *a, __u32 v4, __u32 v6)
{
	if (slc_addr_is_v4(a))
		a->word[3] &= __builtin_bswap32((__u32)(0xffffffff00000000ULL >> (v4 & 63)));
	else
		slc_addr_mask6(a, v6);
}

#endif /* SLC_HASH_H */
