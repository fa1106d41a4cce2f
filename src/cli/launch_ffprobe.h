/* SPDX-License-Identifier: MIT */
/* Durations of recordings that libsndfile cannot read, such as m4a, mp4 and webm: from ffprobe, if it is installed. */
#ifndef CLI_LAUNCH_FFPROBE_H
#define CLI_LAUNCH_FFPROBE_H

/* -ENODATA: not such a recording, by its name or according to ffprobe; -ENOPKG: ffprobe is not installed;
 * -ETIMEDOUT: it used up its CPU time. Starts one process per file. */
int launch_ffprobe_seconds(const char *path, double *ret);

#endif
