// SPDX-License-Identifier: GPL-2.0-only
/* programs.c: loads the skeleton onto the maps chosen by open.c, and tells programs apart. */
#include "user/datapath/internal.h"

#include <linux/btf.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <bpf/btf.h>

#include "sluice.skel.h"

/*
 * What libbpf would have printed: its first complaint about a load is the cause, those after it are consequences; of a
 * verifier's log the last line but its statistics says why. Loading is single-threaded.
 */
static char libbpf_said[WHY_LEN];

#define LOG_BEGIN "-- BEGIN PROG LOAD LOG --\n"
#define LOG_END "processed "

static void keep_verifier_line(const char *log)
{
	const char *end = strstr(log, "\n" LOG_END), *line;
	size_t said = strlen(libbpf_said);

	for (const char *later = end; later; later = strstr(later + 1, "\n" LOG_END))
		end = later;
	if (!end)
		return;
	for (line = end; line > log && line[-1] != '\n';)
		line--;
	snprintf(libbpf_said + said, sizeof(libbpf_said) - said, ": %.*s", (int)(end - line), line);
}

static int keep_message(enum libbpf_print_level level, const char *fmt, va_list args)
{
	_cleanup_free_ char *text = NULL;
	const char *log;

	if (level != LIBBPF_WARN || vasprintf(&text, fmt, args) < 0)
		return 0;
	log = strstr(text, LOG_BEGIN);
	if (log)
		keep_verifier_line(log + strlen(LOG_BEGIN));
	else if (!libbpf_said[0])
		snprintf(libbpf_said, sizeof(libbpf_said), "%.*s", (int)strcspn(text, "\n"), text);
	return 0;
}

static uint64_t mix_bytes(uint64_t hash, const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3ULL; /* FNV-1a */
	return hash;
}

static int info_of(int prog_fd, struct bpf_prog_info *info)
{
	uint32_t len = sizeof(*info);

	return bpf_obj_get_info_by_fd(prog_fd, info, &len);
}

static int mix_programs(const struct sluice_bpf *skel, uint64_t *hash)
{
	struct bpf_program *prog;

	bpf_object__for_each_program(prog, skel->obj)
	{
		struct bpf_prog_info info = {0};
		int r;

		if (bpf_program__fd(prog) < 0)
			continue;
		r = info_of(bpf_program__fd(prog), &info);
		if (r < 0)
			return r;
		*hash += mix_bytes(0xcbf29ce484222325ULL, info.tag, sizeof(info.tag));
	}
	return 0;
}

/* Of all loaded programs' tags (SHA of their instructions), in no order: other instructions, or one more, other id. */
int programs_build_id(struct datapath *dp)
{
	uint64_t hash = 0;
	int r = mix_programs(dp->skel, &hash);

	if (r == 0 && dp->turns_skel)
		r = mix_programs(dp->turns_skel, &hash);
	if (r < 0)
		return r;
	dp->modes.build_id = hash;
	return 0;
}

/*
 * The gate's field accesses stand in the object, so libbpf wants the kernel's BTF even where the program with the gate
 * is not loaded. Without one it gets this, which has no structures: the other programs relocate nothing. The
 * descriptor is read at each load.
 */
static int empty_btf(void)
{
	_cleanup_fd_ int fd = memfd_create("slc_btf", MFD_CLOEXEC);
	struct btf *btf = btf__new_empty();
	const void *data = NULL;
	bool written = false;
	__u32 size = 0;

	if (btf && btf__add_int(btf, "int", sizeof(int), BTF_INT_SIGNED) > 0)
		data = btf__raw_data(btf, &size);
	if (fd >= 0 && data)
		written = write(fd, data, size) == (ssize_t)size;
	btf__free(btf);
	return written ? TAKE_FD(fd) : -EIO;
}

struct sluice_bpf *programs_open(const struct datapath *dp)
{
	char path[32];
	LIBBPF_OPTS(bpf_object_open_opts, opts);

	if (dp->btf >= 0) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", dp->btf);
		opts.btf_custom_path = path;
	}
	return sluice_bpf__open_opts(&opts);
}

/* Every map of `skel` is one we have already. */
int programs_reuse_maps(const struct datapath *dp, struct bpf_object *obj)
{
	for (int i = 0; i < MAP_COUNT; i++) {
		int r = bpf_map__reuse_fd(bpf_object__find_map_by_name(obj, map_names[i]), dp->maps.fd[i]);

		if (r < 0)
			return r;
	}
	return 0;
}

static int use_maps(struct datapath *dp, const struct datapath_options *options)
{
	int r;

	for (int i = 0; i < MAP_COUNT; i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(dp->skel->obj, map_names[i]);

		r = 0;
		if (dp->maps.fd[i] >= 0)
			r = bpf_map__reuse_fd(map, dp->maps.fd[i]);
		else if (table_entries(options, i))
			r = bpf_map__set_max_entries(map, table_entries(options, i));
		if (r < 0)
			return r;
	}
	return 0;
}

/* The programs of turns.bpf.c and no others, or all but these. */
static void set_turns_autoload(struct sluice_bpf *skel, bool turns)
{
	struct bpf_program *prog;

	bpf_object__for_each_program(prog, skel->obj)
	{
		bool times = prog == skel->progs.slc_ingress || prog == skel->progs.slc_egress;

		if (turns || times)
			bpf_program__set_autoload(prog, turns && times);
	}
}

static int open_and_load(struct datapath *dp, const struct datapath_options *options, bool gate, bool frags)
{
	struct bpf_program *xdp[2];
	int r;

	if (!gate && dp->btf < 0)
		dp->btf = empty_btf();
	if (!gate && dp->btf < 0)
		return dp->btf;
	dp->skel = programs_open(dp);
	if (!dp->skel)
		return -errno;
	xdp[0] = dp->skel->progs.slc_xdp_nogate;
	xdp[1] = dp->skel->progs.slc_xdp;
	dp->xdp = xdp[gate];
	bpf_program__set_autoload(xdp[!gate], false);
	set_turns_autoload(dp->skel, false); /* by themselves: without them the rest works */
	dp->skel->rodata->slc_frags = frags;
	dp->skel->rodata->slc_tcp_fields = gate; /* the same BTF */
	if (frags)
		bpf_program__set_flags(dp->xdp, bpf_program__flags(dp->xdp) | BPF_F_XDP_HAS_FRAGS);
	r = use_maps(dp, options);
	if (r == 0)
		r = sluice_bpf__load(dp->skel);
	if (r < 0) {
		sluice_bpf__destroy(dp->skel);
		dp->skel = NULL;
	}
	return r;
}

int programs_load(struct datapath *dp, const struct datapath_options *options, char *why, size_t why_len)
{
	libbpf_print_fn_t before = libbpf_set_print(keep_message);
	bool gate = kernel_has_gate_fields(dp->modes.no_btf_why, sizeof(dp->modes.no_btf_why));
	bool frags = kernel_takes_frags();
	int r;

	libbpf_said[0] = '\0';
	r = open_and_load(dp, options, gate, frags);
	if (r < 0 && gate && r != -ENOMEM && r != -EPERM) {
		/* Fields are there but the verifier refuses how the gate reads them: every other stage still works. */
		char first[WHY_LEN];

		memcpy(first, libbpf_said, sizeof(first));
		if (open_and_load(dp, options, false, frags) == 0) {
			gate = false;
			r = 0;
			because(0, dp->modes.no_btf_why, sizeof(dp->modes.no_btf_why),
				"the kernel refuses the program with the gate: %.400s", first);
		}
	}
	libbpf_set_print(before);
	if (r < 0)
		return because(r, why, why_len, "loading the programs: %s%s%.380s", strerror(-r),
			       libbpf_said[0] ? ": " : "", libbpf_said);
	dp->modes.no_btf = !gate;
	return 0;
}

int programs_load_turns(struct datapath *dp, char *why, size_t why_len)
{
	libbpf_print_fn_t before = libbpf_set_print(keep_message);
	struct sluice_bpf *skel = programs_open(dp);
	int r = skel ? 0 : -errno;

	libbpf_said[0] = '\0';
	if (r == 0) {
		set_turns_autoload(skel, true);
		skel->rodata->slc_egress_cookie = kernel_egress_has_cookie();
		r = programs_reuse_maps(dp, skel->obj);
	}
	if (r == 0)
		r = sluice_bpf__load(skel);
	libbpf_set_print(before);
	if (r < 0) {
		if (skel)
			sluice_bpf__destroy(skel);
		return because(r, why, why_len, "loading the programs that time answers: %s%s%.380s", strerror(-r),
			       libbpf_said[0] ? ": " : "", libbpf_said);
	}
	dp->turns_skel = skel;
	return 0;
}

int program_uses_map(int prog_fd, uint32_t map_id, bool *ret_uses)
{
	uint32_t ids[64];
	struct bpf_prog_info info = {.nr_map_ids = ARRAY_SIZE(ids), .map_ids = (uintptr_t)ids};
	int r = info_of(prog_fd, &info);

	if (r < 0)
		return r;
	*ret_uses = false;
	for (uint32_t i = 0; i < info.nr_map_ids && i < ARRAY_SIZE(ids); i++)
		*ret_uses |= ids[i] == map_id;
	return 0;
}

/* A program of the same instructions on the same maps does the same: it may stay where it is. */
bool program_is_current(const struct datapath *dp, uint32_t prog_id, const struct bpf_program *prog)
{
	struct bpf_prog_info theirs = {0}, ours = {0};
	_cleanup_fd_ int fd = bpf_prog_get_fd_by_id(prog_id);
	bool uses = false;

	if (fd < 0 || info_of(fd, &theirs) < 0 || info_of(bpf_program__fd(prog), &ours) < 0)
		return false;
	if (theirs.id == ours.id)
		return true;
	if (theirs.type != ours.type && theirs.type != BPF_PROG_TYPE_EXT) /* behind a dispatcher */
		return false;
	return memcmp(theirs.tag, ours.tag, sizeof(ours.tag)) == 0 &&
	       program_uses_map(fd, map_id_of(dp->maps.fd[MAP_control]), &uses) == 0 && uses;
}
