/* SPDX-License-Identifier: MIT */
/*
 * `gpuq complete -- WORD…`, which the completions of bash, zsh and fish call. It is not in the list of commands.
 *
 * The words are those behind "gpuq" up to the cursor; the last one, which may be empty, is to be completed. Candidates
 * come from the tables that --help prints. Each is a line: the whole word, a tab and a description. A line that begins
 * with a tab asks the shell for more: "files", "directories", "commands", or "arguments N" where the words from the Nth
 * on (from 0) are a command line of its own.
 *
 * Someone waits at a prompt and has not asked for anything yet: the command prints no error, exits with 0, gives up
 * after COMPLETE_SECONDS, writes nothing, and takes nothing from a journal that other users can change unless --trust
 * is there.
 */
#ifndef CLI_COMPLETE_H
#define CLI_COMPLETE_H

#define COMPLETE_SECONDS 2

/* argv[0] is "complete". The exit code. */
int complete_main(int argc, char **argv);

#endif
