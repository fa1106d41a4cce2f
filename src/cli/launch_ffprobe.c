/* SPDX-License-Identifier: MIT */
#include "cli/launch_ffprobe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/media.h"

#define CPU_SECONDS 2

extern char **environ;

/* Only names of audio and video files: starting a process for each of a million pictures would take hours. */
static bool promises_sound(const char *path)
{
	static const char *const endings[] = {"m4a", "mp4", "m4b", "webm", "mkv", "mka", "mov", "aac", "ac3", "wma",
		"amr", "3gp", "avi", "mp3", "opus", "ogg", "oga", "mpg", "mpeg", "ts", "wmv"};
	const char *dot = strrchr(path, '.');
	for (size_t i = 0; dot && i < sizeof(endings) / sizeof(*endings); i++)
		if (strcasecmp(dot + 1, endings[i]) == 0)
			return true;
	return false;
}

/* ffprobe's standard output is `out`. A file must not make ffprobe access the network or another file. */
static int spawn(const char *path, int out, pid_t *ret)
{
	char url[PATH_MAX + sizeof("file:")];
	snprintf(url, sizeof(url), "file:%s", path);
	const char *const argv[] = {"ffprobe", "-v", "error", "-protocol_whitelist", "file", "-format_whitelist",
		MEDIA_FORMATS, "-show_entries", "format=duration", "-of", "default=noprint_wrappers=1:nokey=1", "-i",
		url, NULL};
	posix_spawn_file_actions_t actions;
	if (posix_spawn_file_actions_init(&actions) != 0)
		return -ENOMEM;
	int r = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	r = r ? r : posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	r = r ? r : posix_spawnp(ret, "ffprobe", &actions, NULL, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

/* A file of another user may keep it busy. */
static void limit_cpu_time(pid_t pid)
{
	const struct rlimit limit = {CPU_SECONDS, CPU_SECONDS};
	(void)prlimit(pid, RLIMIT_CPU, &limit, NULL); /* fails if a lower limit applies already */
}

/* Reads its output, at most room - 1 bytes. */
static void read_text(int fd, char *text, size_t room)
{
	size_t have = 0;
	while (have + 1 < room) {
		ssize_t n = read(fd, text + have, room - 1 - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		have += (size_t)n;
	}
	text[have] = '\0';
}

int launch_ffprobe_seconds(const char *path, double *ret)
{
	static bool missing;
	if (!promises_sound(path))
		return -ENODATA;
	if (missing)
		return -ENOPKG;
	int fds[2], status = 0;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	cleanup_(closep) int from = fds[0], to = fds[1];
	pid_t pid;
	int r = spawn(path, to, &pid);
	missing = r == -ENOENT;
	if (r < 0)
		return missing ? -ENOPKG : r;
	limit_cpu_time(pid);
	close_fd(&to);
	char text[64], *end;
	read_text(from, text, sizeof(text));
	close_fd(&from); /* the rest of its output is discarded */
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL))
		return -ETIMEDOUT;
	double seconds = strtod(text, &end);
	if (status != 0 || end == text || !isfinite(seconds) || seconds < 0 || seconds >= 1e9)
		return -ENODATA;
	*ret = seconds;
	return 0;
}
