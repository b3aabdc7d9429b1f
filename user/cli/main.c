// SPDX-License-Identifier: GPL-2.0-only
/* main.c: sluicectl. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/cli/command.h"
#include "user/cli/fault.h"
#include "user/version.h"

/* --help, --version, --man; `help` is a command of the table. */
static int informational(const struct invocation *inv)
{
	if (inv->values[OPT_man]) {
		print_man_section(stdout);
	} else if (inv->values[OPT_man_config]) {
		print_man_config(stdout);
	} else if (inv->values[OPT_version]) {
		printf("sluicectl %s\n", SLUICE_VERSION);
	} else if (inv->topic_count) {
		if (!print_topic_help(stdout, inv->topic, inv->topic_count)) {
			print_fault(stderr, &(struct fault){.message = "there is no help on this",
							    .value = inv->topic[0],
							    .hint = "sluicectl --help lists the commands"});
			return STATUS_USAGE;
		}
	} else {
		print_help(stdout);
	}
	return STATUS_OK;
}

/* A status of 0 promises that the answer was written: a full disk or a closed pipe must not look like success. */
static int finish(int status)
{
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "sluicectl: cannot write the answer: %s\n", strerror(errno));
		return status ? status : STATUS_REFUSED;
	}
	return status;
}

int main(int argc, char *argv[])
{
	struct invocation inv;
	char *message = NULL;

	if (parse_command_line(argc, argv, &inv, &message)) {
		fputs(message ? message : "sluicectl: out of memory\n", stderr);
		free(message);
		return STATUS_USAGE;
	}
	if (!inv.command)
		return finish(informational(&inv));
	return finish(inv.command->run ? inv.command->run(&inv) : run_request(&inv));
}
