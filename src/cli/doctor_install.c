/* SPDX-License-Identifier: MIT */
/* `gpuq doctor`: the programs of gpuq, and the system that they run on. */
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <langinfo.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/host.h"
#include "base/units.h"
#include "cli/doctor_parts.h"
#include "cli/subprogram.h"

extern char **environ;

#define VERSION_WAIT_MS 10000

/* ---- Programs --------------------------------------------------------------------------- */

/* The output of `path --version`, or "". */
static void read_version(int fd, char ret[64])
{
	size_t have = 0;
	uint64_t until = clock_now_ns() + VERSION_WAIT_MS * NS_PER_MS;
	while (have < 63) {
		struct pollfd p = {fd, POLLIN, 0};
		int n = poll(&p, 1, clock_ms_until(until, clock_now_ns()));
		if (n < 0 && errno == EINTR)
			continue;
		ssize_t got = n <= 0 ? 0 : read(fd, ret + have, 63 - have);
		if (got <= 0)
			break;
		have += (size_t)got;
	}
	ret[have] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
}

static int ask_version(const char *path, char ret[64])
{
	posix_spawn_file_actions_t actions;
	char *argv[] = {(char *)(uintptr_t)path, (char[]){"--version"}, NULL};
	int ends[2];
	pid_t pid;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	int r = posix_spawn_file_actions_init(&actions);
	if (r == 0) {
		r = posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
		r = r ? r : posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
		r = r ? r : posix_spawn(&pid, path, &actions, NULL, argv, environ);
		posix_spawn_file_actions_destroy(&actions);
	}
	close(ends[1]);
	if (r == 0) {
		read_version(ends[0], ret);
		kill(pid, SIGKILL); /* it may hang; its output has been read */
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close(ends[0]);
	return -r;
}

/* needs: NULL if gpuq requires the program, otherwise its purpose. */
static void check_helper(struct doctor *d, const char *name, const char *needs)
{
	char path[PATH_MAX], version[64] = "";
	struct gd_error err = {0};
	int r = subprogram_find(name, path, sizeof(path), &err);
	if (r == -ENOPKG && needs) {
		doctor_add(d, DOCTOR_NOTE, name, NULL, "not installed; %s", needs);
		return;
	}
	if (r < 0) {
		doctor_add(d, DOCTOR_PROBLEM, name, "install all programs of gpu_dispatch", "%s", err.message);
		return;
	}
	r = ask_version(path, version);
	const char *number = strrchr(version, ' ');
	if (r < 0)
		doctor_add(d, DOCTOR_PROBLEM, name, "install it again", "'%s': %s", path, error_words(r));
	else if (!number || strcmp(number + 1, GD_VERSION) != 0)
		doctor_add(d, DOCTOR_PROBLEM, name, "install all programs of the same version",
			"'%s' is not version " GD_VERSION "%s%s", path, *version ? ": " : "", version);
	else
		doctor_add(d, DOCTOR_OK, name, NULL, GD_VERSION ", %s", path);
}

void doctor_check_installation(struct doctor *d)
{
	char self[PATH_MAX] = "?";
	if (!realpath("/proc/self/exe", self))
		doctor_add(d, DOCTOR_PROBLEM, "/proc", "gpuq needs /proc: mount it in this container",
			"cannot be read: %s", error_words(errno));
	doctor_add(d, DOCTOR_OK, "gpuq", NULL, GD_VERSION ", %s", self);
	/* gpuq-top and others refuse to start without it. */
	setenv(SUBPROGRAM_MARK, self, 1);
	check_helper(d, "gpuq-probe", NULL);
	check_helper(d, "gpuq-worker", NULL);
	check_helper(d, "gpuq-launch", NULL);
	check_helper(d, "gpuq-map", NULL);
	check_helper(d, "gpuq-top", "'gpuq top' needs it; it is built only if ncurses is installed");
	check_helper(d, "gpuq-web", "'gpuq web' needs it; it is built only if libmicrohttpd is installed");
	check_helper(d, "gpuq-slurm", "'gpuq run --slurm' needs it; it is built only if nettle is installed");
	unsetenv(SUBPROGRAM_MARK);
}

/* ---- The machine --------------------------------------------------------------------- */

static void read_distribution(char ret[128])
{
	char line[256];
	cleanup_(fclosep) FILE *f = fopen("/etc/os-release", "re");
	snprintf(ret, 128, "unknown distribution");
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, "PRETTY_NAME=", 12) == 0) {
			const char *name = line + 12 + (line[12] == '"');
			snprintf(ret, 128, "%.*s", (int)strcspn(name, "\"\n"), name);
		}
}

static void check_kernel(struct doctor *d)
{
	struct utsname u;
	char distribution[128];
	read_distribution(distribution);
	if (uname(&u) == 0)
		doctor_add(d, DOCTOR_OK, "system", NULL, "%s, %s %s, %s, glibc %s", distribution, u.sysname, u.release,
			u.machine, gnu_get_libc_version());
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (fd >= 0)
		close(fd);
	else
		doctor_add(d, DOCTOR_NOTE, "pidfd",
			"gpuq polls instead; to avoid that, use Linux 5.3 or newer, and a sandbox that permits pidfd_open",
			"%s", error_words(errno));
}

static void check_variables(struct doctor *d)
{
	/* Without GPUQ_WEB_TOKEN, because it is a secret. */
	static const char *const names[] = {"GPUQ_JOBS_FILE", "GPUQ_GPUS", "GPUQ_TRUST", "GPUQ_CLAIMS_DIR",
		"GPUQ_NVML_LIBRARY", "GPUQ_SYSFS_ROOT", "GPUQ_PROBE", "GPUQ_WORKER", "GPUQ_LAUNCH", "GPUQ_MAP",
		"GPUQ_TOP", "GPUQ_WEB", "GPUQ_DEBUG", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
		"HIP_VISIBLE_DEVICES", "SLURM_JOB_ID", "XDG_STATE_HOME", "XDG_CONFIG_HOME"};
	cleanup_(text_finish) struct text t = {0};
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const char *value = getenv(names[i]);
		if (value)
			text_appendf(&t, "%s%s=%s", t.length ? " " : "", names[i], value);
	}
	doctor_add(d, DOCTOR_OK, "environment", NULL, "%s", t.length ? text_string(&t) : "no gpuq variable is set");
}

void doctor_check_system(struct doctor *d)
{
	struct host_limits host;
	char total[UNITS_ROOM], available[UNITS_ROOM];
	check_kernel(d);
	host_read(NULL, NULL, &host);
	if (host.memory_known)
		doctor_add(d, DOCTOR_OK, "machine", NULL, "%u CPU%s, %s of %s memory available", host.cpus,
			host.cpus == 1 ? "" : "s", units_format_size(host.memory_available_bytes, available),
			units_format_size(host.memory_total_bytes, total));
	else
		doctor_add(d, DOCTOR_NOTE, "machine", "--host-mem is not checked", "%u CPU%s, memory unknown",
			host.cpus, host.cpus == 1 ? "" : "s");
	const char *codeset = nl_langinfo(CODESET);
	doctor_add(d, strcmp(codeset, "UTF-8") == 0 ? DOCTOR_OK : DOCTOR_NOTE, "locale",
		strcmp(codeset, "UTF-8") == 0 ? NULL : "if characters look wrong, set LC_ALL=C.UTF-8", "%s", codeset);
	check_variables(d);
}
