/* SPDX-License-Identifier: MIT */
/*
 * A file on its way to a worker, and the answer on its way back: the bytes of the
 * pool's tasks and results. Plug-ins read a task with gd_file_read() and answer with
 * gd_worker_file_seconds().
 */
#ifndef LAUNCH_FILE_TASK_H
#define LAUNCH_FILE_TASK_H

#include "gpu_dispatch_launch.h"

/* Bytes that file_task_write() needs. */
size_t file_task_size(const struct gd_file *file);
/* `ret` has this size. */
void file_task_write(const struct gd_file *file, void *ret);
/* Pointers into the task's bytes. -EBADMSG: they are not a file. */
int file_task_read(const struct gd_bytes *task, struct gd_file *ret);

/* The audio seconds that the worker reported, or -1. */
double file_result_seconds(const struct gd_bytes *result);

#endif
