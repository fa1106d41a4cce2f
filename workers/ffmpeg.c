/* SPDX-License-Identifier: MIT */
#include "ffmpeg.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/media.h"

extern char **environ;

/*
 * Standard error goes to the worker's log. A file must not make ffmpeg open the network or other files. ffmpeg can seek
 * in a file that it opens itself, but not in its standard input.
 */
static int spawn(int file_fd, int rate, int out, pid_t *ret)
{
	char hertz[16];
	snprintf(hertz, sizeof(hertz), "%d", rate);
	const char *const argv[] = {"ffmpeg", "-nostdin", "-v", "error", "-protocol_whitelist", "file,pipe",
		"-format_whitelist", MEDIA_FORMATS, "-i", "file:/proc/self/fd/0", "-vn", "-f", "f32le", "-ac", "1",
		"-ar", hertz, "pipe:1", NULL};
	posix_spawn_file_actions_t actions;
	if (posix_spawn_file_actions_init(&actions) != 0)
		return -ENOMEM;
	int r = posix_spawn_file_actions_adddup2(&actions, file_fd, STDIN_FILENO);
	r = r ? r : posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	r = r ? r : posix_spawnp(ret, "ffmpeg", &actions, NULL, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

int ffmpeg_open(struct ffmpeg *f, int file_fd, int rate)
{
	int fds[2];
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	cleanup_(closep) int from = fds[0], to = fds[1];
	*f = (struct ffmpeg){0};
	int r = spawn(file_fd, rate, to, &f->pid);
	if (r == 0)
		f->fd = take_fd(&from);
	else
		f->pid = 0;
	return r;
}

/* At the end of its output: 0, or -EIO if its exit status reports failure. */
static int reap(struct ffmpeg *f)
{
	int status = 0;
	while (waitpid(f->pid, &status, 0) < 0 && errno == EINTR)
		;
	f->pid = 0;
	close(f->fd);
	return status == 0 ? 0 : -EIO;
}

long ffmpeg_read(struct ffmpeg *f, float *samples, size_t count)
{
	unsigned char *to = (unsigned char *)samples;
	size_t have = f->left;
	if (!f->pid)
		return 0;
	memcpy(to, f->rest, have);
	while (have < sizeof(float)) {
		ssize_t n = read(f->fd, to + have, count * sizeof(float) - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : reap(f);
		have += (size_t)n;
	}
	f->left = have % sizeof(float);
	memcpy(f->rest, to + have - f->left, f->left);
	return (long)(have / sizeof(float));
}

void ffmpeg_close(struct ffmpeg *f)
{
	if (!f->pid)
		return;
	kill(f->pid, SIGKILL);
	(void)reap(f);
}
