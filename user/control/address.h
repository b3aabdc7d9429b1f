/* SPDX-License-Identifier: GPL-2.0-only */
/* address.h: addresses as 16 bytes in network order, IPv4 as ::ffff:a.b.c.d (abi.h). */
#ifndef SLUICE_ADDRESS_H
#define SLUICE_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static const uint8_t address_any_v4[16] = {[10] = 0xff, [11] = 0xff};
static const uint8_t address_any_v6[16] = {0};

static inline bool address_equal(const uint8_t a[16], const uint8_t b[16])
{
	return memcmp(a, b, 16) == 0;
}

static inline bool address_is_v4(const uint8_t addr[16])
{
	return memcmp(addr, address_any_v4, 12) == 0;
}

static inline bool address_is_any(const uint8_t addr[16])
{
	return address_equal(addr, address_any_v4) || address_equal(addr, address_any_v6);
}

/* `v4` is the four bytes of an IPv4 address. */
static inline void address_from_v4(const void *v4, uint8_t ret_addr[16])
{
	memcpy(ret_addr, address_any_v4, 12);
	memcpy(ret_addr + 12, v4, 4);
}

#endif /* SLUICE_ADDRESS_H */
