/* SPDX-License-Identifier: MIT */
/* One line about a command's result: "cancelled 3 jobs: 4, 5, 6". */
#ifndef CLI_DONE_LINE_H
#define CLI_DONE_LINE_H

#include "queue/input/id_list.h"

/* Prints to standard output. The ids are ascending. More than a few are written as ranges, and no more than fit into a
 * line or two. */
void done_line_print(const char *done, const struct id_list *ids);

#endif
