/* SPDX-License-Identifier: MIT */
/*
 * Which files gpuq map has created: their inode numbers and times of birth, in the file `files` of OUTPUT.logs.
 *
 * In a directory in which others can create files, such as /tmp, another user may have moved a different file of this
 * user to the name of the output. Moving a folder to another directory requires write access to the folder, so a note
 * in OUTPUT.logs proves that the output is not such a file.
 */
#ifndef LAUNCH_MAP_ORIGIN_H
#define LAUNCH_MAP_ORIGIN_H

#include <stdbool.h>

#include "launch/map_record.h"

/* Whether another user may have moved the open file to its place in the directory dir_fd. */
bool map_origin_is_doubtful(const struct map_record *r, int dir_fd, int fd);

/* Writes the note in the folder of logs: first the files of the record, then those of earlier runs. */
void map_origin_note(const struct map_record *r, int logs_fd);
/* Also notes a file that will replace one of them. Does nothing if there is no note. */
void map_origin_add(const struct map_record *r, int fd);

#endif
