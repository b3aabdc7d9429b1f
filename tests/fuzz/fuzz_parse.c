// SPDX-License-Identifier: GPL-2.0-only
/*
 * Any bytes through the parser: reads stay inside the frame (the sanitizer's part), and what it says about the frame
 * holds (ours). The rows of parse_cases.h are the seeds; they are written into the corpus directory at the start.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bpf/parse.h"
#include "tests/bpf/packet.c" /* compiled in: under the fuzzer's instrumentation */
#include "tests/bpf/parse_cases.h"
#include "tests/fuzz/fuzz.h"

struct result {
	int kind;
	struct slc_pkt p;
};

/* `behind` bytes of rubbish follow the frame, inside the block but outside what the parser may use. */
static struct result parse(const uint8_t *data, size_t size, size_t behind, uint8_t rubbish)
{
	uint8_t *block = malloc(2 + size + behind);
	struct result r;

	if (!block)
		abort();
	memcpy(block + 2, data, size);
	memset(block + 2 + size, rubbish, behind);
	memset(&r, 0, sizeof(r));
	r.kind = slc_parse(&r.p, block + 2, block + 2 + size);
	free(block);
	return r;
}

static bool same(const struct result *a, const struct result *b)
{
	return a->kind == b->kind && !memcmp(&a->p, &b->p, sizeof(a->p));
}

static void check_offsets(const struct result *r, size_t size)
{
	const struct slc_pkt *p = &r->p;
	unsigned header = p->proto == SLC_PROTO_TCP ? sizeof(struct slc_tcp) : sizeof(struct slc_udp);

	HOLDS(p->proto == (r->kind == SLC_KIND_UDP ? SLC_PROTO_UDP : SLC_PROTO_TCP));
	HOLDS(p->l3 >= 14 && p->l3 <= 14 + 4 * SLC_MAX_VLANS);
	HOLDS(p->l4 >= p->l3 + (p->v6 ? 40 : 20));
	HOLDS(p->l4 + header <= size);
	HOLDS(p->l4 - p->l3 + header <= p->total);
	HOLDS(p->l4 - p->l3 + p->payload <= p->total);
	HOLDS(p->beyond == (p->l3 + p->total > size));
	HOLDS(p->vlan < 4096);
}

/* Bytes behind the datagram mean nothing, whether they are there or not. */
static void check_padding(const uint8_t *data, size_t size, const struct result *r)
{
	size_t end = r->p.l3 + r->p.total;
	uint8_t *longer;
	struct result other;

	other = parse(data, end, 0, 0);
	HOLDS(same(&other, r));
	longer = calloc(1, size + 64);
	if (!longer)
		abort();
	memcpy(longer, data, size);
	memset(longer + size, 0xa5, 64);
	other = parse(longer, size + 64, 0, 0);
	HOLDS(same(&other, r));
	free(longer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct result r = parse(data, size, 0, 0), again;

	HOLDS(r.kind >= 0 && r.kind <= SLC_KIND_UDP);
	again = parse(data, size, 256, 0xff);
	HOLDS(same(&r, &again));
	again = parse(data, size, 256, 0x02);
	HOLDS(same(&r, &again));
	if (size < 14)
		HOLDS(r.kind == SLC_malformed);
	if (r.kind >= SLC_KIND_SYN) {
		check_offsets(&r, size);
		if (!r.p.beyond)
			check_padding(data, size, &r);
	}
	if (r.kind == SLC_KIND_SYN)
		HOLDS((data[r.p.l4 + 13] & 0x17) == SLC_TCP_SYN);
	return 0;
}

static void write_seed(const char *directory, size_t number, const struct packet *frame)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/case-%03zu", directory, number);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, frame->data, frame->length) != (ssize_t)frame->length) {
		perror(path);
		exit(1);
	}
	close(fd);
}

/* The first argument that is no option is the corpus; libFuzzer reads it after this. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	for (int i = 1; i < *argc; i++) {
		const char *directory = (*argv)[i];

		if (directory[0] == '-')
			continue;
		if (access(directory, W_OK | X_OK))
			break; /* one input to reproduce */
		for (size_t c = 0; c < PARSE_CASE_COUNT; c++) {
			struct packet frame = packet_build(&PARSE_CASES[c].recipe);

			write_seed(directory, c, &frame);
		}
		break;
	}
	return 0;
}
