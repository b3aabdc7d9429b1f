// SPDX-License-Identifier: GPL-2.0-only
/* main.c: sluicectl. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/cli/command.h"
#include "user/cli/fault.h"
#include "user/cli/request.h"
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
			report_fault(inv, &(struct fault){.message = "there is no help on this",
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

/* Of a line that was not understood, so that who reads JSON gets it. */
static bool asks_for_json(int argc, char *argv[])
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
		if (!strcmp(argv[i], "--json"))
			return true;
	}
	return false;
}

int main(int argc, char *argv[])
{
	struct invocation inv;
	json_t *error = NULL;

	if (parse_command_line(argc, argv, &inv, &error)) {
		if (error && asks_for_json(argc, argv))
			print_json(error);
		if (error)
			print_answer_fault(stderr, error, 0);
		else
			fputs("sluicectl: out of memory\n", stderr);
		json_decref(error);
		return finish(STATUS_USAGE);
	}
	if (!inv.command)
		return finish(informational(&inv));
	return finish(inv.command->run ? inv.command->run(&inv) : run_request(&inv));
}
