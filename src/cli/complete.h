/* SPDX-License-Identifier: MIT */
/*
 * `gpuq complete -- WORD…`, which the completions of bash, zsh and fish call. It is not in the list of commands.
 *
 * The words are those after "gpuq" up to the cursor; the last word, which may be empty, is the one to complete.
 * Candidates come from the tables that --help prints. Each is a line: the whole word, a tab and a description. The
 * word is plain, see complete_offer.h. A line that begins with a tab asks the shell for more: "files", "directories",
 * or "arguments N" if the words from index N (from 0) on are a separate command line.
 *
 * The scripts never get file names that are not plain: they ask their shell to complete files itself, because only the
 * shell knows how to quote a name, and how the word was quoted.
 *
 * The user is waiting at a prompt and has not run anything yet. So the command prints no error, exits with 0, gives up
 * after COMPLETE_SECONDS, writes nothing, and ignores a journal that other users can change unless --trust is given.
 */
#ifndef CLI_COMPLETE_H
#define CLI_COMPLETE_H

#define COMPLETE_SECONDS 2

/* argv[0] is "complete". Returns the exit code. */
int complete_main(int argc, char **argv);

#endif
