/* SPDX-License-Identifier: MIT */
#include "queue/keeper/attempt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/trust.h"
#include "queue/journal/environment.h"
#include "queue/journal/record.h"

/* The kernel takes arguments below 32 pages. */
#define LONGEST_ARGUMENT ((size_t)128 * 1024 - 1)

void attempt_cookie(struct text *t, const char *keeper, uint64_t id, uint32_t attempt)
{
	text_appendf(t, ATTEMPT_COOKIE "=%s-%llu-%u", keeper, (unsigned long long)id, attempt);
}

/* ---- Taking an order apart ------------------------------------------------------ */

static const char *next_string(const char **p, const char *end)
{
	const char *start = *p, *nul = start < end ? memchr(start, '\0', (size_t)(end - start)) : NULL;
	if (!nul)
		return NULL;
	*p = nul + 1;
	return start;
}

int attempt_init(struct attempt *a, const struct keeper_order *order, char *payload)
{
	*a = (struct attempt){.order = *order, .payload = payload, .script_fd = -1, .log = ATTEMPT_LOG_NONE};
	const char *p = payload, *end = payload + order->size;
	const char **strings[] = {
		&a->command, &a->cwd, &a->env, &a->log_dir, &a->on_finish, &a->name, &a->claim, &a->input};
	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++)
		if (!(*strings[i] = next_string(&p, end)))
			return -EBADMSG;
	a->env_changes = calloc(order->num_env + 1, sizeof(*a->env_changes));
	a->gpus = calloc(order->num_gpus + 1, sizeof(*a->gpus));
	if (!a->env_changes || !a->gpus)
		return -ENOMEM;
	for (uint32_t i = 0; i < order->num_env; i++)
		if (!(a->env_changes[i] = next_string(&p, end)))
			return -EBADMSG;
	if ((size_t)(end - p) != order->num_gpus * sizeof(int32_t))
		return -EBADMSG;
	memcpy(a->gpus, p, order->num_gpus * sizeof(int32_t));
	return 0;
}

void attempt_finish(struct attempt *a)
{
	free(a->payload);
	free(a->env_changes);
	free(a->gpus);
	attempt_log_close(&a->log);
	closep(&a->script_fd);
	free(a->envp);
	free(a->env_block);
	free(a->cookie);
	for (size_t i = 0; i < sizeof(a->own_env) / sizeof(a->own_env[0]); i++)
		free(a->own_env[i]);
	*a = (struct attempt){.script_fd = -1, .log = ATTEMPT_LOG_NONE};
}

/* ---- Environment ------------------------------------------------------------------ */

static bool same_name(const char *entry, const char *change)
{
	size_t n = strcspn(change, "=");
	return strncmp(entry, change, n) == 0 && entry[n] == '=';
}

/* An entry "NAME=value" sets, "NAME" unsets. */
static size_t env_change(char **envp, size_t n, const char *change)
{
	size_t kept = 0;
	for (size_t i = 0; i < n; i++)
		if (!same_name(envp[i], change))
			envp[kept++] = envp[i];
	if (strchr(change, '='))
		envp[kept++] = (char *)(uintptr_t)change;
	return kept;
}

static int build_environment(struct attempt *a, const struct journal *j, const char *keeper)
{
	size_t size = 0, n = 0;
	int r = *a->env ? environment_load(j->dir_fd, a->env, &a->env_block, &size) : 0;
	if (r < 0)
		return r;
	for (size_t i = 0; i < size; i++)
		n += a->env_block[i] == '\0';
	a->envp = calloc(n + a->order.num_env + 8, sizeof(*a->envp));
	cleanup_(text_finish) struct text cookie = {0};
	attempt_cookie(&cookie, keeper, a->order.id, a->order.attempt);
	a->cookie = text_take(&cookie);
	if (!a->envp || !a->cookie ||
		asprintf(&a->own_env[0], "GPUQ_JOB_ID=%llu", (unsigned long long)a->order.id) < 0 ||
		asprintf(&a->own_env[1], "GPUQ_ATTEMPT=%u", a->order.attempt) < 0)
		return -ENOMEM;
	n = 0;
	for (char *p = a->env_block; p && p < a->env_block + size; p += strlen(p) + 1)
		a->envp[n++] = p;
	for (uint32_t i = 0; i < a->order.num_env; i++)
		n = env_change(a->envp, n, a->env_changes[i]);
	n = env_change(a->envp, n, a->own_env[0]);
	n = env_change(a->envp, n, a->own_env[1]);
	n = env_change(a->envp, n, a->cookie);
	a->envp[n] = NULL;
	return 0;
}

/* ---- Script --------------------------------------------------------------------- */

/* In memory, so that no other user can put another script in its place. */
static int write_script(struct attempt *a)
{
	size_t size = strlen(a->command);
	if (size < LONGEST_ARGUMENT)
		return 0;
	a->script_fd = memfd_create("script", MFD_CLOEXEC);
	if (a->script_fd < 0)
		return -errno;
	return file_write_all(a->script_fd, a->command, size);
}

int attempt_prepare_hook(struct attempt *a, const struct journal *j, const char *keeper)
{
	return build_environment(a, j, keeper);
}

static int open_log(struct attempt *a)
{
	int r = attempt_log_open(&a->log,
		&(struct attempt_log_options){.directory = a->log_dir,
			.accepted = a->order.log_accepted,
			.access = (enum log_access)a->order.log_access,
			.max_bytes = a->order.max_log_bytes},
		a->order.id);
	if (r == -ENOTUNIQ)
		a->missing = ATTEMPT_LOG_DIRECTORY;
	return r == -ENOTUNIQ ? -EPERM : r;
}

int attempt_prepare(struct attempt *a, const struct journal *j, const char *keeper)
{
	a->missing = ATTEMPT_ENVIRONMENT;
	int r = build_environment(a, j, keeper);
	if (r == 0) {
		a->missing = ATTEMPT_SCRIPT;
		r = write_script(a);
	}
	if (r == 0) {
		a->missing = ATTEMPT_LOG;
		r = open_log(a);
	}
	return r;
}

/* ---- The job's first process ------------------------------------------------------------ */

void attempt_reset_signals(void)
{
	/* All others are as the nursery left them, and it left them at their defaults. */
	static const int ignored[] = {SIGHUP, SIGINT, SIGTERM, SIGPIPE};
	struct sigaction dfl = {.sa_handler = SIG_DFL};
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		sigaction(ignored[i], &dfl, NULL);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static int append_start(const struct attempt *a, struct journal *j, const char *keeper)
{
	cleanup_(text_finish) struct text t = {0};
	record_write_start(&t, &(struct attempt_start){.id = a->order.id,
				       .attempt = a->order.attempt,
				       .pid = getpid(),
				       .keeper = keeper,
				       .log = a->log.path,
				       .gpus = a->gpus,
				       .num_gpus = a->order.num_gpus,
				       .retries = (int)a->order.retries});
	if (text_error(&t))
		return -ENOMEM;
	int r = journal_lock(j, NULL);
	if (r < 0)
		return r;
	r = j->fence == a->order.fence ? journal_append(j, t.data, t.length, NULL, NULL) : -ESTALE;
	journal_unlock(j);
	return r;
}

/* The room for arguments and environment is a quarter of the stack's limit: where they need more, it is raised. */
static void raise_stack_limit(char *const *envp, size_t more)
{
	size_t need = more;
	for (; *envp; envp++)
		need += strlen(*envp) + 1 + sizeof(char *);
	struct rlimit l;
	if (need < (size_t)1 << 20 || getrlimit(RLIMIT_STACK, &l) < 0 || l.rlim_cur == RLIM_INFINITY)
		return;
	rlim_t want = (rlim_t)need * 5;
	if (l.rlim_max != RLIM_INFINITY && want > l.rlim_max)
		want = l.rlim_max;
	if (want > l.rlim_cur) {
		l.rlim_cur = want;
		setrlimit(RLIMIT_STACK, &l);
	}
}

_Noreturn static void leave(struct attempt_page *page, int stage, int code)
{
	page->code = code;
	page->stage = stage;
	_exit(127);
}

/* The shell opens the script by the descriptor's name, and the job inherits the descriptor. */
static void exec_script(const struct attempt *a)
{
	char name[32];
	snprintf(name, sizeof(name), "/proc/self/fd/%d", a->script_fd);
	if (lseek(a->script_fd, 0, SEEK_SET) == 0 && fcntl(a->script_fd, F_SETFD, 0) == 0)
		execle("/bin/sh", "sh", name, (char *)NULL, a->envp);
}

/* The directory that is checked is the one that is entered: both go by its descriptor. */
int attempt_enter_directory(const struct attempt *a)
{
	struct gd_error err;
	cleanup_(closep) int fd = -1;
	if (!*a->cwd)
		return 0;
	if (!a->order.cwd_own)
		return chdir(a->cwd) < 0 ? -errno : 0;
	int r = trust_open_directory(a->cwd, false, &fd, &err);
	if (r == -EPERM || (r >= 0 && trust_objection(fd)))
		return -ENOTUNIQ;
	if (r < 0)
		return r;
	return fchdir(fd) < 0 ? -errno : 0;
}

_Noreturn void attempt_exec(
	const struct attempt *a, struct journal *j, const char *keeper, struct attempt_page *page, pid_t parent)
{
	/* From here on this process ends with its keeper; if that is gone already, nobody would tell us. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		leave(page, ATTEMPT_REFUSED, -ECANCELED);
	setsid();
	attempt_reset_signals();
	/* Standard input is /dev/null already. */
	if (dup2(a->log.fd, STDOUT_FILENO) < 0 || dup2(a->log.fd, STDERR_FILENO) < 0)
		leave(page, ATTEMPT_REFUSED, -errno);
	int r = append_start(a, j, keeper);
	if (r < 0)
		leave(page, ATTEMPT_REFUSED, r);
	page->stage = ATTEMPT_STARTED;
	r = attempt_enter_directory(a);
	if (r < 0)
		leave(page, ATTEMPT_NO_DIRECTORY, r);
	raise_stack_limit(a->envp, a->script_fd >= 0 ? 0 : strlen(a->command));
	if (a->script_fd >= 0)
		exec_script(a);
	else
		execle("/bin/sh", "sh", "-c", a->command, (char *)NULL, a->envp);
	leave(page, ATTEMPT_NO_EXEC, -errno);
}
