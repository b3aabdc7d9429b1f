// SPDX-License-Identifier: GPL-2.0-only
/* sluiced.c: the command line of the daemon. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/control/config.h"
#include "user/control/daemon.h"

#define EXIT_USAGE 2

static const struct {
	struct option option;
	const char *argument, *help;
} table[] = {
	{{"config", required_argument, NULL, 'c'}, "FILE", "configuration (required)"},
	{{"check", no_argument, NULL, 'k'}, "", "check the configuration and exit: 0 good, 1 not"},
	{{"pins", required_argument, NULL, 'p'}, "DIR", "pins on a bpffs, instead of control.pins"},
	{{"socket", required_argument, NULL, 's'}, "PATH", "API socket, instead of control.socket"},
	{{"watch", no_argument, NULL, 'w'}, "", "load the file again when its content changes"},
	{{"version", no_argument, NULL, 'v'}, "", "print the version and exit"},
	{{"help", no_argument, NULL, 'h'}, "", "print this and exit"},
};
#define OPTIONS (sizeof(table) / sizeof(table[0]))

static void usage(FILE *out)
{
	fputs("usage: sluiced --config FILE [--check] [--pins DIR] [--socket PATH] [--watch]\n", out);
	for (size_t i = 0; i < OPTIONS; i++) {
		char left[40];

		snprintf(left, sizeof(left), "--%s %s", table[i].option.name, table[i].argument);
		fprintf(out, "  %-16s %s\n", left, table[i].help);
	}
	fputs("Runs in the foreground. SIGHUP loads the file again; SIGTERM and SIGINT end it: what is enforced stays\n"
	      "enforced (`sluicectl detach` removes it), unless control.on_exit is detach.\n",
	      out);
}

static int check(const char *path)
{
	struct config *config = NULL;
	struct diag diag = {0};
	int err = config_load(path, &config, &diag);

	if (!err)
		err = daemon_check(config, &diag);
	for (size_t i = 0; i < diag.warning_count; i++)
		fprintf(stderr, "sluiced: warning: %s\n", diag.warnings[i]);
	for (size_t i = 0; i < diag.error_count; i++)
		fprintf(stderr, "sluiced: error: %s\n", diag.errors[i]);
	if (err && diag.error_count == 0)
		fprintf(stderr, "sluiced: error: %s: %s\n", path, strerror(-err));
	if (!err)
		printf("%s: ok\n", path);
	diag_reset(&diag);
	config_free(&config);
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

static bool too_long(const char *name, const char *path, size_t room)
{
	if (!path || strlen(path) < room)
		return false;
	fprintf(stderr, "sluiced: %s: %s: longer than %zu bytes\n", name, path, room - 1);
	return true;
}

int main(int argc, char **argv)
{
	struct daemon_options options = {0};
	struct option long_options[OPTIONS + 1] = {0};
	bool only_check = false;
	int opt;

	for (size_t i = 0; i < OPTIONS; i++)
		long_options[i] = table[i].option;
	while ((opt = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (opt) {
		case 'c':
			options.config = optarg;
			break;
		case 'k':
			only_check = true;
			break;
		case 'p':
			options.pins = optarg;
			break;
		case 's':
			options.socket = optarg;
			break;
		case 'w':
			options.watch = true;
			break;
		case 'v':
			printf("sluiced %s\n", SLUICE_VERSION);
			return EXIT_SUCCESS;
		case 'h':
			usage(stdout);
			return EXIT_SUCCESS;
		default:
			usage(stderr);
			return EXIT_USAGE;
		}
	}
	if (optind < argc || !options.config) {
		fprintf(stderr, "sluiced: %s%s\n", optind < argc ? "unexpected argument " : "--config FILE is required",
			optind < argc ? argv[optind] : "");
		usage(stderr);
		return EXIT_USAGE;
	}
	if (too_long("--socket", options.socket, sizeof(((struct daemon *)0)->socket)) ||
	    too_long("--pins", options.pins, sizeof(((struct daemon *)0)->pins)))
		return EXIT_USAGE;
	return only_check ? check(options.config) : daemon_run(&options);
}
