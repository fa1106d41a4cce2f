/* SPDX-License-Identifier: MIT */
/* How long recordings are that libsndfile cannot read, such as m4a, mp4 and webm: asks ffprobe, where it is installed.
 */
#ifndef CLI_LAUNCH_FFPROBE_H
#define CLI_LAUNCH_FFPROBE_H

/* -ENODATA: not such a recording, by its name or as ffprobe says; -ENOPKG: there is no ffprobe. One process per file.
 */
int launch_ffprobe_seconds(const char *path, double *ret);

#endif
