/* SPDX-License-Identifier: MIT */
/* Standard output of a program: a program that cannot write all of its output has failed. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

/*
 * Checks at exit that all output was written; otherwise prints an error and ends the program with
 * EXIT_WORK_FAILED. At exit, because argp calls exit() itself after --help.
 */
void output_check_at_exit(void);

#endif
