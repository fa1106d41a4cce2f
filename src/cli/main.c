/* SPDX-License-Identifier: MIT */
/* gpuq: finds the command and runs it. */
#include <argp.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "base/display.h"
#include "base/file.h"
#include "base/suggest.h"
#include "cli/command.h"
#include "cli/command_names.h"
#include "cli/command_table.h"
#include "cli/complete.h"
#include "cli/debug.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "cli/say.h"

/* One screen: 24 lines of 80 columns. */
static void print_help(FILE *out)
{
	fputs("Usage: gpuq COMMAND [OPTION…]\n"
	      "\n"
	      "Submit work\n"
	      "   add       Queue a command, a script or a sweep\n"
	      "   run       Run the commands of a file, and all queued jobs\n"
	      "   exec      Run a command in this terminal on a free GPU\n"
	      "   launch    Process a folder of files on all GPUs\n"
	      "   map       Process a file of items on all GPUs\n"
	      "Watch jobs\n"
	      "   status    List the jobs\n"
	      "   top       Watch GPUs and jobs, full screen\n"
	      "   web       Watch GPUs and jobs in a browser\n"
	      "   logs      Show the output of a job\n"
	      "   why       Explain what a job waits for\n"
	      "   wait      Wait for jobs, and exit with their exit code\n"
	      "Change jobs\n"
	      "   cancel    Cancel jobs\n"
	      "   retry     Queue finished jobs again\n"
	      "Maintain\n"
	      "   gpus      Show the GPUs, their memory and their processes\n"
	      "   doctor    Check the installation, GPUs and queue for problems\n"
	      "\n"
	      "'gpuq help --all' lists all commands, 'gpuq COMMAND --help' explains one.\n"
	      "No GPU? Use simulated ones: export GPUQ_GPUS=sim:4\n",
		out);
}

/* gpuq help --all */
static void print_commands(FILE *out)
{
	fputs("Usage: gpuq COMMAND [OPTION…]\n\n", out);
	for (size_t i = 0; i < COMMAND_TABLE_SIZE; i++)
		fprintf(out, "  %-10s %s\n", command_table[i]->name, command_table[i]->summary);
	fputs("  help       Explain a command, as 'gpuq COMMAND --help' does\n"
	      "\n"
	      "Short forms: ls (status), log (logs), kill and rm (cancel)\n"
	      "\n"
	      "Options:\n"
	      "  --help     Print an overview\n"
	      "  --verbose  Show decisions as they are made\n"
	      "  --version  Print the version\n",
		out);
}

static int unknown(const char *name)
{
	const char *names[COMMAND_TABLE_SIZE + 1] = {"help"};
	for (size_t i = 0; i < COMMAND_TABLE_SIZE; i++)
		names[i + 1] = command_table[i]->name;
	/* The meaning of a word takes precedence over its spelling: "stop" means "cancel", not "top". */
	const char *meant = command_names_meaning(name);
	if (!meant)
		meant = suggest(name, names, COMMAND_TABLE_SIZE + 1);
	char quoted[DISPLAY_QUOTE_ROOM];
	display_quote(name, quoted);
	if (meant)
		say("unknown command '%s'; did you mean '%s'? 'gpuq help --all' lists all commands", quoted, meant);
	else
		say("unknown command '%s'; 'gpuq help --all' lists all commands", quoted);
	return EXIT_USAGE;
}

/* argp prints argv[0] before its messages, so argv[0] contains the full command. */
static int run(const struct command *command, int argc, char **argv)
{
	char name[64];
	snprintf(name, sizeof(name), "gpuq %s", command->name);
	argv[0] = name;
	return command->run(argc, argv);
}

static int help(int argc, char **argv)
{
	if (argc > 1 && (strcmp(argv[1], "--all") == 0 || strcmp(argv[1], "-a") == 0)) {
		print_commands(stdout);
		return EXIT_DONE;
	}
	if (argc < 2 || argv[1][0] == '-' || strcmp(argv[1], "help") == 0) {
		print_help(stdout);
		return EXIT_DONE;
	}
	const struct command *command = command_table_find(argv[1]);
	if (!command)
		return unknown(argv[1]);
	char *asked[] = {NULL, (char[]){"--help"}, NULL};
	return run(command, 2, asked);
}

static int dispatch(int argc, char **argv)
{
	if (argc < 2) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	const char *word = argv[1];
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0)
		return help(argc - 1, argv + 1);
	if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
		puts(argp_program_version);
		return EXIT_DONE;
	}
	if (strcmp(word, "--verbose") == 0) {
		debug_turn_on();
		return dispatch(argc - 1, argv + 1);
	}
	if (strcmp(word, "complete") == 0)
		return complete_main(argc - 1, argv + 1);
	if (word[0] == '-') {
		say("unknown option '%s'; options of a command go after its name, as in 'gpuq add %s'", word, word);
		return EXIT_USAGE;
	}
	const struct command *command = command_table_find(word);
	return command ? run(command, argc - 1, argv + 1) : unknown(word);
}

int main(int argc, char **argv)
{
	file_fill_stdio(true);
	setlocale(LC_ALL, "");
	argp_program_version = "gpuq " GD_VERSION;
	argp_err_exit_status = EXIT_USAGE;
	output_check_at_exit();
	return dispatch(argc, argv);
}
