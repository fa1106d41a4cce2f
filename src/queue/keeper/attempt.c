/* SPDX-License-Identifier: MIT */
#include "queue/keeper/attempt.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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
#include "base/cpu_list.h"
#include "base/date.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/trust.h"
#include "queue/journal/content_store.h"
#include "queue/journal/environment.h"
#include "queue/journal/record.h"
#include "queue/journal/seal.h"
#include "queue/keeper/allocation.h"

extern char **environ;

/* The kernel accepts arguments shorter than 32 pages. */
#define LONGEST_ARGUMENT ((size_t)128 * 1024 - 1)

void attempt_cookie(struct text *t, const char *keeper, uint64_t id, uint32_t attempt)
{
	text_appendf(t, ATTEMPT_COOKIE "=%s-%llu-%u", keeper, (unsigned long long)id, attempt);
}

/* ---- Parsing an order ------------------------------------------------------------ */

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
	*a = (struct attempt){.order = *order,
		.payload = payload,
		.script_fd = -1,
		.cwd_fd = -1,
		.queue_fd = -1,
		.log = ATTEMPT_LOG_NONE};
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
	free(a->moved_log_dir);
	closep(&a->script_fd);
	free(a->envp);
	free(a->cookie);
	text_finish(&a->start);
	text_finish(&a->sealed);
	for (size_t i = 0; i < sizeof(a->own_env) / sizeof(a->own_env[0]); i++)
		free(a->own_env[i]);
	*a = (struct attempt){.script_fd = -1, .cwd_fd = -1, .queue_fd = -1, .log = ATTEMPT_LOG_NONE};
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

void attempt_set_variable(struct attempt *a, const char *variable)
{
	size_t n = 0;
	while (a->envp[n])
		n++;
	n = env_change(a->envp, n, variable);
	a->envp[n] = NULL;
}

/* Loads it into the cache, which owns the memory of envp's entries. */
static int load_environment(const struct attempt *a, const struct journal *j, struct attempt_cache *cache)
{
	if (cache->env && strcmp(cache->env, a->env) == 0)
		return 0;
	char *block = NULL, *name = strdup(a->env);
	size_t size = 0;
	int r = !name     ? -ENOMEM
		: *a->env ? environment_load(
				    j->dir_fd, a->env, j->accepted ? ENVIRONMENT_OF_ANYBODY : geteuid(), &block, &size)
			  : 0;
	if (r < 0) {
		free(name);
		return r;
	}
	free(cache->env);
	free(cache->env_block);
	cache->env = name;
	cache->env_block = block;
	cache->env_size = size;
	return 0;
}

static int build_environment(
	struct attempt *a, const struct journal *j, const char *keeper, struct attempt_cache *cache)
{
	size_t n = 0;
	int r = a->front ? 0 : load_environment(a, j, cache);
	if (r < 0)
		return r;
	char *block = a->front ? NULL : cache->env_block;
	size_t size = a->front ? 0 : cache->env_size;
	for (size_t i = 0; i < size; i++)
		n += block[i] == '\0';
	for (char **entry = environ; *entry; entry++)
		n += a->front || allocation_is_variable(*entry);
	a->envp = calloc(n + a->order.num_env + 8, sizeof(*a->envp));
	cleanup_(text_finish) struct text cookie = {0};
	attempt_cookie(&cookie, keeper, a->order.id, a->order.attempt);
	a->cookie = text_take(&cookie);
	if (!a->envp || !a->cookie ||
		asprintf(&a->own_env[0], "GPUQ_JOB_ID=%llu", (unsigned long long)a->order.id) < 0 ||
		asprintf(&a->own_env[1], "GPUQ_ATTEMPT=%u", a->order.attempt) < 0)
		return -ENOMEM;
	n = 0;
	for (char *p = block; p && p < block + size; p += strlen(p) + 1)
		if (!allocation_is_variable(p))
			a->envp[n++] = p;
	/* The command of a lease has the environment of `gpuq exec`, the parent of this process. */
	for (char **entry = environ; *entry; entry++)
		if (a->front || allocation_is_variable(*entry))
			a->envp[n++] = *entry;
	for (uint32_t i = 0; i < a->order.num_env; i++)
		n = env_change(a->envp, n, a->env_changes[i]);
	n = env_change(a->envp, n, a->own_env[0]);
	n = env_change(a->envp, n, a->own_env[1]);
	n = env_change(a->envp, n, a->cookie);
	a->envp[n] = NULL;
	return 0;
}

/* ---- Script --------------------------------------------------------------------- */

/* In memory, so that no other user can replace the script. */
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

static int check_stored_script(int dir_fd, const char *name)
{
	cleanup_(closep) int folder = openat(dir_fd, STORE_SCRIPTS, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_(closep) int fd = folder < 0 ? -1 : openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	/* A missing script is reported by the interpreter, in the log. */
	return fd >= 0 && trust_objection(fd) ? -EPERM : 0;
}

int attempt_check_scripts(const char *command, int dir_fd)
{
	static const char folder[] = "/" STORE_SCRIPTS "/";
	int r = 0;
	for (const char *p = strstr(command, folder); r == 0 && p; p = strstr(p, folder)) {
		char name[HASH_TEXT];
		p += sizeof(folder) - 1;
		if (strspn(p, "0123456789abcdef") < sizeof(name) - 1)
			continue;
		snprintf(name, sizeof(name), "%s", p);
		r = check_stored_script(dir_fd, name);
	}
	return r;
}

int attempt_prepare_hook(struct attempt *a, const struct journal *j, const char *keeper, struct attempt_cache *cache)
{
	a->queue_fd = j->parent_fd;
	return build_environment(a, j, keeper, cache);
}

static int open_log(struct attempt *a, const struct journal *j, struct attempt_cache *cache)
{
	char name[ATTEMPT_LOG_NAME_ROOM];
	attempt_log_name_on_cluster(name, a->order.id, a->order.attempt, a->order.slurm_job, a->order.log_tag);
	int r = attempt_log_open(&a->log,
		&(struct attempt_log_options){.directory = a->log_dir,
			.name = a->order.slurm_job ? name : NULL,
			.trust = (enum log_trust)a->order.log_trust,
			.access = (enum log_access)a->order.log_access,
			.max_bytes = a->order.max_log_bytes,
			.known = &cache->logs,
			.journal = j},
		a->order.id);
	if (r == -ENOTUNIQ)
		a->missing = ATTEMPT_LOG_DIRECTORY;
	/* -ESTALE means the fence. */
	return r == -ENOTUNIQ ? -EPERM : r == -ESTALE ? -EIO : r;
}

int attempt_prepare(struct attempt *a, const struct journal *j, const char *keeper, struct attempt_cache *cache)
{
	a->missing = ATTEMPT_ENVIRONMENT;
	a->queue_fd = j->parent_fd;
	int r = build_environment(a, j, keeper, cache);
	if (a->front)
		return r;
	if (r == 0) {
		a->missing = ATTEMPT_SCRIPT;
		r = j->accepted ? 0 : attempt_check_scripts(a->command, j->dir_fd);
	}
	if (r == 0) {
		a->missing = ATTEMPT_COMMAND;
		r = write_script(a);
	}
	attempt_find_directory(a, cache);
	if (r == 0) {
		a->missing = ATTEMPT_LOG;
		r = attempt_follow_log_dir(a, j);
	}
	return r < 0 ? r : open_log(a, j, cache);
}

/* ---- The job's first process ------------------------------------------------------------ */

void attempt_reset_signals(void)
{
	/* Dispositions are the defaults already: the nursery blocks signals and does not ignore them. */
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

void attempt_write_start(const struct attempt *a, const char *keeper, pid_t pid, int64_t time_ms, struct text *t)
{
	record_write_start(t, &(struct attempt_start){.id = a->order.id,
				      .attempt = a->order.attempt,
				      .time_ms = time_ms,
				      .pid = pid,
				      .keeper = keeper,
				      .log = a->log.path,
				      .gpus = a->gpus,
				      .num_gpus = a->order.num_gpus,
				      .retries = (int)a->order.retries,
				      .on_finish = *a->on_finish && !a->order.hook_own ? a->on_finish : NULL});
}

/*
 * j is a copy of the keeper's journal: if this process reopens it after a prune, the keeper does not
 * have the new descriptor. Allocates no memory (reserve_start()), unless the journal must be opened,
 * checked or recovered first. An ordinary job does not start if the directory of its queue was renamed after its order
 * was written, because the order contains paths.
 */
static int append_start(struct attempt *a, struct journal *j, const char *keeper, struct attempt_page *page)
{
	page->start_ms = date_now_ms();
	text_clear(&a->start);
	attempt_write_start(a, keeper, getpid(), page->start_ms, &a->start);
	if (text_error(&a->start))
		return -ENOMEM;
	int r = journal_lock(j, NULL);
	if (r < 0)
		return r;
	bool valid = j->fence == a->order.fence && (a->front || !j->moved);
	r = valid ? journal_append_in(j, a->start.data, a->start.length, &a->sealed) : -ESTALE;
	journal_unlock(j);
	return r;
}

/* Arguments and environment may take a quarter of the stack limit: raise the limit if they need more. */
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

/* The shell opens the script through the descriptor's name in /proc, and the job inherits the descriptor. */
static void exec_script(const struct attempt *a)
{
	char name[32];
	snprintf(name, sizeof(name), "/proc/self/fd/%d", a->script_fd);
	if (lseek(a->script_fd, 0, SEEK_SET) == 0 && fcntl(a->script_fd, F_SETFD, 0) == 0)
		execle("/bin/sh", "sh", name, (char *)NULL, a->envp);
}

/* The job also sees the CPUs in the variable. CPUs that have gone offline do not keep the job from running. */
static void enter_cpus(const struct attempt *a)
{
	static const char name[] = KEEPER_CPUS "=";
	for (uint32_t i = 0; i < a->order.num_env; i++) {
		struct cpu_list cpus = {0};
		if (strncmp(a->env_changes[i], name, sizeof(name) - 1) == 0 &&
			cpu_list_parse(a->env_changes[i] + sizeof(name) - 1, &cpus) == 0)
			(void)cpu_list_set_affinity(&cpus);
	}
}

void attempt_enter_umask(char *const *envp)
{
	static const char name[] = ENVIRONMENT_UMASK "=";
	for (; *envp; envp++) {
		const char *digits = *envp + sizeof(name) - 1;
		if (strncmp(*envp, name, sizeof(name) - 1) == 0 && strspn(digits, "01234567") == 4 && !digits[4])
			umask((mode_t)strtoul(digits, NULL, 8));
	}
}

/* Standard input is /dev/null already. */
static int enter_session(const struct attempt *a)
{
	setsid();
	return dup2(a->log.fd, STDOUT_FILENO) < 0 || dup2(a->log.fd, STDERR_FILENO) < 0 ? -errno : 0;
}

/*
 * The command joins the process group of `gpuq exec`, which the shell knows: Ctrl-C, Ctrl-Z and changes
 * of the terminal size reach both processes. If that group is gone, so is `gpuq exec`, and the keeper is
 * about to end the command.
 */
static int enter_front(const struct attempt *a)
{
	(void)setpgid(0, a->front->group);
	return 0;
}

/* Does not return if it succeeds. */
static void execute(const struct attempt *a)
{
	if (a->front) {
		sigprocmask(SIG_SETMASK, &a->front->mask, NULL);
		execvpe(a->front->argv[0], a->front->argv, a->envp);
		return;
	}
	attempt_reset_signals();
	if (a->script_fd >= 0)
		exec_script(a);
	else
		execle("/bin/sh", "sh", "-c", a->command, (char *)NULL, a->envp);
}

_Noreturn static void become_job(
	struct attempt *a, const struct journal *journal, const char *keeper, struct attempt_page *page, pid_t parent)
{
	struct journal j = *journal;
	/* From here on this process dies with its keeper. If the keeper is gone already, no signal will come. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		leave(page, ATTEMPT_REFUSED, -ECANCELED);
	int r = a->front ? enter_front(a) : enter_session(a);
	if (r == 0)
		r = append_start(a, &j, keeper, page);
	if (r < 0)
		leave(page, ATTEMPT_REFUSED, r);
	page->stage = ATTEMPT_STARTED;
	r = attempt_enter_directory(a);
	if (r < 0)
		leave(page, ATTEMPT_NO_DIRECTORY, r);
	enter_cpus(a);
	if (!a->front)
		attempt_enter_umask(a->envp);
	raise_stack_limit(a->envp, a->script_fd >= 0 ? 0 : strlen(a->command));
	/* Unblocks signals only now: one that ends this process inside malloc() would damage the keeper's memory. */
	execute(a);
	leave(page, ATTEMPT_NO_EXEC, -errno);
}

/*
 * Reserves space for the longest `start` line, plain and sealed. The job's process shares our memory
 * and must not allocate: if it were killed during an allocation, our heap would be damaged.
 */
static int reserve_start(struct attempt *a, const char *keeper)
{
	text_clear(&a->start);
	text_clear(&a->sealed);
	attempt_write_start(a, keeper, INT_MAX, date_now_ms(), &a->start);
	if (text_error(&a->start))
		return text_error(&a->start);
	seal_append(&a->sealed, a->start.data, a->start.length, UINT64_MAX);
	return text_error(&a->sealed);
}

pid_t attempt_start(struct attempt *a, const struct journal *j, const char *keeper, struct attempt_page *page)
{
	pid_t parent = getpid();
	int r = reserve_start(a, keeper);
	if (r < 0)
		return r;
	*page = (struct attempt_page){0};
	/*
	 * Not fork(): copying and dropping our page tables would cost more than the rest of the start.
	 * The new process has our memory until it calls exec, and we wait for that.
	 */
	pid_t pid = vfork();
	if (pid == 0)
		become_job(a, j, keeper, page, parent);
	return pid < 0 ? -errno : pid;
}
