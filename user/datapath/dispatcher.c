// SPDX-License-Identifier: GPL-2.0-only
#include "user/datapath/dispatcher.h"

#include <linux/if_link.h>
#include <string.h>
#include <xdp/libxdp.h>

#include "sluice.skel.h"

#define RUN_PRIORITY 10

static void multiprog_close(struct xdp_multiprog **mp)
{
	if (*mp)
		xdp_multiprog__close(*mp);
}
#define _cleanup_multiprog_ __attribute__((cleanup(multiprog_close)))

static void program_close(struct xdp_program **prog)
{
	if (*prog)
		xdp_program__close(*prog);
}
#define _cleanup_program_ __attribute__((cleanup(program_close)))

static int silent(enum libxdp_print_level level, const char *fmt, va_list args)
{
	(void)level;
	(void)fmt;
	(void)args;
	return 0;
}

/* NULL: nothing there, or a program without dispatcher. */
static struct xdp_multiprog *open_multiprog(int ifindex)
{
	struct xdp_multiprog *mp;

	libxdp_set_print(silent);
	mp = xdp_multiprog__get_from_ifindex(ifindex);
	if (libxdp_get_error(mp))
		return NULL;
	if (xdp_multiprog__is_legacy(mp)) {
		xdp_multiprog__close(mp);
		return NULL;
	}
	return mp;
}

bool dispatcher_present(int ifindex)
{
	_cleanup_multiprog_ struct xdp_multiprog *mp = open_multiprog(ifindex);

	return mp;
}

static struct xdp_program *find(const struct xdp_multiprog *mp, dispatcher_match match, const void *arg)
{
	struct xdp_program *prog = NULL;

	while ((prog = xdp_multiprog__next_prog(prog, mp)))
		if (match(xdp_program__id(prog), arg))
			return prog;
	return NULL;
}

uint32_t dispatcher_find(int ifindex, dispatcher_match match, const void *arg)
{
	_cleanup_multiprog_ struct xdp_multiprog *mp = open_multiprog(ifindex);
	const struct xdp_program *prog = mp ? find(mp, match, arg) : NULL;

	return prog ? xdp_program__id(prog) : 0;
}

int dispatcher_detach(int ifindex, dispatcher_match match, const void *arg)
{
	for (int tries = 0; tries < 16; tries++) {
		_cleanup_multiprog_ struct xdp_multiprog *mp = open_multiprog(ifindex);
		struct xdp_program *prog = mp ? find(mp, match, arg) : NULL;
		int r;

		if (!prog)
			return 0;
		r = xdp_program__detach(prog, ifindex, xdp_multiprog__attach_mode(mp), 0);
		if (r < 0)
			return r;
	}
	return -EBUSY;
}

static bool is_ours(uint32_t prog_id, const void *arg)
{
	const struct datapath *dp = arg;
	_cleanup_fd_ int fd = bpf_prog_get_fd_by_id(prog_id);
	bool now = false, before = false;

	if (fd < 0)
		return false;
	program_uses_map(fd, map_id_of(dp->maps.fd[MAP_control]), &now);
	if (dp->old_control_id)
		program_uses_map(fd, dp->old_control_id, &before);
	return now || before;
}

static bool is_ours_and_stale(uint32_t prog_id, const void *arg)
{
	const struct datapath *dp = arg;

	return is_ours(prog_id, dp) && !program_is_current(dp, prog_id, dp->xdp);
}

static bool is_ours_and_current(uint32_t prog_id, const void *arg)
{
	const struct datapath *dp = arg;

	return is_ours(prog_id, dp) && program_is_current(dp, prog_id, dp->xdp);
}

/* libxdp loads the program itself, as an extension of its dispatcher: a second object on the same maps. */
static struct sluice_bpf *open_object(const struct datapath *dp)
{
	struct sluice_bpf *skel = programs_open(dp);
	struct bpf_program *prog;

	if (!skel)
		return NULL;
	bpf_object__for_each_program(prog, skel->obj)
		bpf_program__set_autoload(prog, strcmp(bpf_program__name(prog), bpf_program__name(dp->xdp)) == 0);
	if (programs_reuse_maps(dp, skel->obj) < 0) {
		sluice_bpf__destroy(skel);
		return NULL;
	}
	return skel;
}

static int join(const struct datapath *dp, struct sluice_bpf *skel, const struct xdp_multiprog *mp, int ifindex)
{
	LIBBPF_OPTS(xdp_program_opts, opts, .obj = skel->obj, .prog_name = bpf_program__name(dp->xdp));
	struct xdp_program *created = xdp_program__create(&opts);
	_cleanup_program_ struct xdp_program *prog = NULL;
	int r = (int)libxdp_get_error(created);

	if (r < 0)
		return r;
	prog = created;
	for (unsigned int action = XDP_ABORTED; action <= XDP_REDIRECT && r == 0; action++)
		r = xdp_program__set_chain_call_enabled(prog, action, action == XDP_PASS);
	if (r == 0)
		r = xdp_program__set_run_prio(prog, RUN_PRIORITY);
	if (r == 0)
		r = xdp_program__set_xdp_frags_support(prog, xdp_multiprog__xdp_frags_support(mp));
	if (r == 0)
		r = xdp_program__attach(prog, ifindex, xdp_multiprog__attach_mode(mp), 0);
	return r;
}

/*
 * The new program joins before the old one leaves, so no packet is unfiltered; a connection that opens in between pays
 * twice. The mode and the other programs stay as they are.
 */
int dispatcher_attach(const struct datapath *dp, const char *ifname, int ifindex, struct attach_state *state)
{
	_cleanup_multiprog_ struct xdp_multiprog *mp = open_multiprog(ifindex);
	int r = mp ? 0 : -ENOENT;

	if (mp && !find(mp, is_ours_and_current, dp)) {
		struct sluice_bpf *skel = open_object(dp);

		r = skel ? join(dp, skel, mp, ifindex) : -ENOMEM;
		if (skel)
			sluice_bpf__destroy(skel);
	}
	if (r == 0)
		r = dispatcher_detach(ifindex, is_ours_and_stale, dp);
	if (r < 0)
		return because(r, state->why, sizeof(state->why),
			       "%s has libxdp's dispatcher with programs of others; joining them failed: %s%s", ifname,
			       strerror(-r),
			       r == -EINVAL
				       ? "; kernels since 6.12 want a dispatcher that may change packets for a "
					 "program that answers with RST (libxdp 1.3 has none): unload the others, or "
					 "attach sluice first"
				       : "");
	state->ifindex = ifindex;
	state->mode = xdp_multiprog__attach_mode(mp) == XDP_MODE_SKB ? ATTACH_GENERIC : ATTACH_NATIVE;
	state->program_id = dispatcher_find(ifindex, is_ours_and_current, dp);
	state->dispatcher = true;
	return 0;
}

int dispatcher_leave(const struct datapath *dp, int ifindex)
{
	return ifindex ? dispatcher_detach(ifindex, is_ours, dp) : 0;
}
