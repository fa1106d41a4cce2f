/* SPDX-License-Identifier: MIT */
#include "queue/keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/machine.h"
#include "base/pidref.h"
#include "base/process.h"
#include "queue/journal/follow.h"
#include "queue/journal/record.h"
#include "queue/keeper/attempt.h"
#include "queue/keeper/hook.h"
#include "queue/keeper/keeper_claim.h"
#include "queue/keeper/keeper_news.h"
#include "queue/keeper/oom.h"

/* How soon a record that did not fit the disk is tried again, and how often leftovers are killed. */
#define WRITE_AGAIN_MS 200
#define KILL_AGAIN_MS  50
/* What has not died so long after the first SIGKILL is stuck in the kernel; then it is looked at less often. */
#define STUCK_MS       10000
#define STUCK_AGAIN_MS 1000

enum phase {
	PHASE_IDLE,
	PHASE_RUNNING,
	PHASE_ENDING, /* it has been told to end */
	PHASE_KILLING,
};

struct keeper {
	const char *journal_path;
	struct journal *journal;
	int runner_fd; /* -1: the runner is gone */
	int signal_fd;
	int lock_fd;
	int removed_ms; /* so long it has waited for a queue that was removed */
	char name[20];
	char lock_name[32];
	bool announced; /* the journal has its `keeper` line */
	struct attempt_page *page;

	struct attempt attempt;
	enum phase phase;
	pid_t pid; /* the job's first process */
	bool reaped;
	int status;
	int64_t peak_mem_mb; /* -1: nobody saw it */
	bool gpu_full;       /* when the job was last seen on it */
	const char *reason;  /* why it was ended by us */
	uint64_t started_ns, deadline_ns, step_ns;
	uint64_t killed_ns; /* when SIGKILL was sent first; 0: not yet */
	bool stuck;         /* the journal says so */
	struct keeper_claim claim;
};

/* ---- Beginning ------------------------------------------------------------------- */

/* A file of its own, locked; once more if somebody cleaned it away before it was locked. */
static int take_name(struct keeper *k)
{
	for (int tries = 0; tries < 100; tries++) {
		uint64_t random;
		if (getrandom(&random, sizeof(random), 0) != sizeof(random))
			return -EIO;
		snprintf(k->name, sizeof(k->name), "k%012llx", (unsigned long long)(random >> 16));
		snprintf(k->lock_name, sizeof(k->lock_name), "keepers/%s", k->name);
		int fd = openat(
			k->journal->dir_fd, k->lock_name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0 && errno == EEXIST)
			continue;
		if (fd < 0)
			return -errno;
		int r = lock_try(fd);
		struct stat st;
		if (r == 0 && fstat(fd, &st) == 0 && st.st_nlink > 0) {
			k->lock_fd = fd;
			return 0;
		}
		close(fd);
		if (r < 0 && r != -EAGAIN)
			return r;
	}
	return -EEXIST;
}

static int keeper_open(struct keeper *k)
{
	int r = k->journal ? 0 : journal_open(k->journal_path, &k->journal, NULL);
	if (r == 0 && k->lock_fd < 0)
		r = take_name(k);
	if (r < 0 || k->announced)
		return r;
	struct machine m;
	cleanup_(text_finish) struct text t = {0};
	r = machine_get(&m);
	if (r < 0)
		return r;
	record_write_keeper(&t, k->name, getpid(), &m);
	if (text_error(&t))
		return -ENOMEM;
	r = journal_append_line(k->journal, t.data, t.length, NULL);
	k->announced = r == 0;
	return r;
}

static void send_notes(struct keeper *k, const struct keeper_note *notes, size_t count)
{
	if (k->runner_fd >= 0 && file_write_all(k->runner_fd, notes, count * sizeof(*notes)) < 0)
		closep(&k->runner_fd), k->runner_fd = -1;
}

static void send_note(struct keeper *k, enum keeper_note_kind kind, uint64_t id, int code)
{
	send_notes(k, &(struct keeper_note){.kind = kind, .code = code, .id = id}, 1);
}

/* In one piece with READY: seen apart, the runner would ask for another keeper in between. */
static void send_note_and_ready(struct keeper *k, enum keeper_note_kind kind, uint64_t id, int code)
{
	struct keeper_note notes[2] = {{.kind = kind, .code = code, .id = id}, {.kind = KEEPER_NOTE_READY}};
	send_notes(k, notes, 2);
}

_Noreturn static void leave(struct keeper *k)
{
	keeper_claim_finish(&k->claim);
	if (k->lock_fd >= 0)
		unlinkat(k->journal->dir_fd, k->lock_name, 0);
	_exit(0);
}

/* ---- Ending a job ------------------------------------------------------------------ */

static bool ran_out_of_memory(const struct keeper *k, const struct attempt_end *e)
{
	cleanup_(closep) int fd = open(k->attempt.log_path, O_RDONLY | O_CLOEXEC);
	cleanup_(freep) char *tail = malloc(OOM_TAIL_BYTES);
	struct stat st;
	if (k->attempt.order.num_gpus == 0 || fd < 0 || !tail || fstat(fd, &st) < 0)
		return false;
	off_t from = st.st_size > OOM_TAIL_BYTES ? st.st_size - OOM_TAIL_BYTES : 0;
	ssize_t n = pread(fd, tail, OOM_TAIL_BYTES, from);
	return oom_happened(&(struct oom_evidence){.exit_code = e->exit_code,
		.signal = e->signal,
		.full = k->gpu_full,
		.tail = tail,
		.size = n > 0 ? (size_t)n : 0});
}

/* What a later runner has seen; our own, if there was one, knew less. True if the job's GPU is lost. */
static bool hear_news(struct keeper *k)
{
	struct keeper_news news;
	const struct keeper_order *o = &k->attempt.order;
	if (k->runner_fd >= 0 || keeper_news_read(k->lock_fd, &news) < 0 || news.id != o->id ||
		news.attempt != o->attempt)
		return false;
	if (news.peak_mem_mb > k->peak_mem_mb)
		k->peak_mem_mb = news.peak_mem_mb;
	k->gpu_full = news.gpu_full;
	return news.gpu_lost;
}

static void describe_end(struct keeper *k, struct attempt_end *e, struct text *words)
{
	const struct attempt *a = &k->attempt;
	hear_news(k);
	*e = (struct attempt_end){
		.id = a->order.id, .attempt = a->order.attempt, .exit_code = -1, .peak_mem_mb = k->peak_mem_mb};
	e->duration_ms = (int64_t)((clock_now_ns() - k->started_ns) / NS_PER_MS);
	e->state = JOB_FAILED;
	if (WIFSIGNALED(k->status))
		e->signal = WTERMSIG(k->status);
	else
		e->exit_code = WEXITSTATUS(k->status);
	if (k->page->stage == ATTEMPT_NO_DIRECTORY)
		text_appendf(words, "entering directory '%s': %s", a->cwd, error_words(k->page->code));
	else if (k->page->stage == ATTEMPT_NO_EXEC)
		text_appendf(words, "executing /bin/sh: %s", error_words(k->page->code));
	else if (k->reason)
		text_append_string(words, k->reason);
	else if (e->exit_code == 0)
		e->state = JOB_COMPLETED;
	else if (ran_out_of_memory(k, e))
		text_append_string(words, REASON_GPU_MEMORY);
	if (k->reason && strcmp(k->reason, REASON_CANCELLED) == 0)
		e->state = JOB_CANCELLED;
	if (words->length)
		e->reason = text_string(words);
}

/* Waits a moment before it is tried again to write; leaves where that has become senseless. */
static void wait_for_journal(struct keeper *k)
{
	poll(NULL, 0, WRITE_AGAIN_MS);
	k->removed_ms = journal_is_removed(k->journal) ? k->removed_ms + WRITE_AGAIN_MS : 0;
	if (k->removed_ms > JOURNAL_REMOVED_MS)
		leave(k);
}

/* Nothing else is done until it is written: this keeper's lock says that the end is still to come. */
static void append_end(struct keeper *k, const struct text *line)
{
	bool told = false;
	int r;
	while ((r = journal_append_line(k->journal, line->data, line->length, NULL)) < 0) {
		if (!told)
			send_note(k, KEEPER_NOTE_BLOCKED, k->attempt.order.id, r);
		told = true;
		wait_for_journal(k);
	}
}

/*
 * The job's first process was killed before it could say how far it came: the
 * journal tells. Under the lock, so that a torn line is dealt with first.
 */
static bool start_is_written(struct keeper *k)
{
	struct follow f;
	const struct keeper_order *o = &k->attempt.order;
	while (journal_lock(k->journal, NULL) < 0)
		wait_for_journal(k);
	journal_unlock(k->journal);
	while (follow_open(k->journal_path, false, &f, NULL) < 0)
		wait_for_journal(k);
	const struct job *job = jobs_find(&f.jobs, o->id);
	bool written = job && job->state == JOB_RUNNING && job->attempts->attempt == o->attempt && job->keeper &&
		       strcmp(job->keeper->name, k->name) == 0;
	follow_close(&f);
	return written;
}

/* The end must not be lost for lack of memory. */
static void format_end(struct text *line, const struct attempt_end *e)
{
	for (;;) {
		record_write_end(line, e);
		if (!text_error(line))
			return;
		poll(NULL, 0, WRITE_AGAIN_MS);
		text_clear(line);
	}
}

/* What does not die would be taken for a process of the next job: that gets another keeper. */
static void after_hook(struct keeper *k, int result)
{
	if (result == -ETIMEDOUT)
		leave(k);
	send_note(k, KEEPER_NOTE_READY, 0, 0);
}

/* With a hook: what it is told is read before the end is written, and said to the runner before the hook runs. */
static void end_with_hook(struct keeper *k, const struct text *line, enum job_state state)
{
	cleanup_(text_finish) struct text input = {0};
	struct jobs js;
	uint64_t id = k->attempt.order.id;
	int r = hook_read_job(k->journal_path, id, &js);
	append_end(k, line);
	send_note(k, KEEPER_NOTE_ENDED, id, (int)state);
	if (r == 0) {
		r = hook_describe(&js, id, line, &input);
		jobs_finish(&js);
	}
	/* Without memory for more, the end alone. */
	after_hook(k, hook_run(&k->attempt, r == 0 ? &input : line, k->signal_fd));
}

static void finish_job(struct keeper *k)
{
	cleanup_(text_finish) struct text line = {0};
	cleanup_(text_finish) struct text words = {0};
	uint64_t id = k->attempt.order.id;
	k->phase = PHASE_IDLE;
	keeper_claim_leave(&k->claim);
	if (k->page->stage == ATTEMPT_FORKED && start_is_written(k))
		k->page->stage = ATTEMPT_STARTED;
	if (k->page->stage <= ATTEMPT_REFUSED) {
		attempt_undo(&k->attempt);
		send_note_and_ready(
			k, KEEPER_NOTE_REFUSED, id, k->page->stage == ATTEMPT_REFUSED ? k->page->code : -ECANCELED);
	} else {
		struct attempt_end e;
		if (k->attempt.script_path)
			unlink(k->attempt.script_path);
		describe_end(k, &e, &words);
		format_end(&line, &e);
		if (*k->attempt.on_finish) {
			end_with_hook(k, &line, e.state);
		} else {
			append_end(k, &line);
			send_note_and_ready(k, KEEPER_NOTE_ENDED, id, (int)e.state);
		}
	}
	attempt_finish(&k->attempt);
}

/* True when no process of the job is left. */
static bool reap(struct keeper *k)
{
	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG);
		if (pid == k->pid) {
			k->reaped = true;
			k->status = status;
		} else if (pid < 0) {
			return k->reaped;
		} else if (pid == 0) {
			return false;
		}
	}
}

static void signal_tree(int signal)
{
	process_signal_descendants(getpid(), signal);
	/* One that is stopped would not see it. */
	if (signal != SIGKILL)
		process_signal_descendants(getpid(), SIGCONT);
}

static void end_job(struct keeper *k, const char *reason, bool at_once)
{
	if (reason && !k->reason && !k->reaped)
		k->reason = reason;
	uint64_t now = clock_now_ns();
	if (at_once) {
		k->phase = PHASE_KILLING;
		k->step_ns = now;
	} else if (k->phase == PHASE_RUNNING) {
		k->phase = PHASE_ENDING;
		signal_tree(SIGTERM);
		k->step_ns = now + (uint64_t)k->attempt.order.grace_ms * NS_PER_MS;
	}
}

/* For all who look on: its GPUs take no other job. Where it cannot be written now, it is tried again. */
static void say_stuck(struct keeper *k)
{
	cleanup_(text_finish) struct text line = {0};
	record_write_stuck(&line, k->attempt.order.id, k->attempt.order.attempt);
	k->stuck = !text_error(&line) && k->page->stage >= ATTEMPT_STARTED &&
		   journal_append_line(k->journal, line.data, line.length, NULL) == 0;
}

static void on_time(struct keeper *k)
{
	uint64_t now = clock_now_ns();
	if (k->phase == PHASE_RUNNING && k->deadline_ns && now >= k->deadline_ns)
		end_job(k, REASON_TIMEOUT, false);
	if (k->phase == PHASE_ENDING && now >= k->step_ns)
		k->phase = PHASE_KILLING;
	if (k->phase == PHASE_KILLING && now >= k->step_ns) {
		signal_tree(SIGKILL);
		if (!k->killed_ns)
			k->killed_ns = now;
		if (!k->stuck && now - k->killed_ns >= STUCK_MS * NS_PER_MS)
			say_stuck(k);
		k->step_ns = now + (k->stuck ? STUCK_AGAIN_MS : KILL_AGAIN_MS) * NS_PER_MS;
	}
	keeper_claim_on_time(&k->claim, now, k->runner_fd < 0);
}

/* ---- Orders ------------------------------------------------------------------------- */

static int read_all(int fd, void *data, size_t size)
{
	char *p = data;
	while (size > 0) {
		ssize_t n = read(fd, p, size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EPIPE;
		p += n;
		size -= (size_t)n;
	}
	return 0;
}

static int start_job(struct keeper *k, const struct keeper_order *order, char *payload)
{
	int r = attempt_init(&k->attempt, order, payload);
	cleanup_(closep) int log_fd = -1;
	if (r == 0)
		r = keeper_open(k);
	if (r == 0)
		r = attempt_prepare(&k->attempt, k->journal, k->name, &log_fd);
	if (r < 0)
		return r;
	k->attempt.missing = ATTEMPT_PROCESS;
	*k->page = (struct attempt_page){0};
	k->reaped = k->stuck = false;
	k->killed_ns = 0;
	k->reason = NULL;
	k->peak_mem_mb = -1;
	k->gpu_full = false;
	/* Before it can start: from then on the runner relies on it. */
	keeper_claim_take(&k->claim, k->attempt.claim);
	pid_t parent = getpid();
	k->started_ns = clock_now_ns();
	k->pid = fork();
	if (k->pid == 0)
		attempt_exec(&k->attempt, k->journal, k->name, log_fd, k->page, parent);
	if (k->pid < 0) {
		r = -errno;
		keeper_claim_leave(&k->claim);
		attempt_undo(&k->attempt);
		return r;
	}
	k->phase = PHASE_RUNNING;
	k->deadline_ns = order->timeout_ms ? k->started_ns + (uint64_t)order->timeout_ms * NS_PER_MS : 0;
	return 0;
}

/* For an end that somebody else has written. */
static void run_hook(struct keeper *k, const struct keeper_order *order, char *payload)
{
	int r = attempt_init(&k->attempt, order, payload);
	if (r == 0)
		r = keeper_open(k);
	if (r == 0)
		r = attempt_prepare_hook(&k->attempt, k->journal, k->name);
	if (r == 0) {
		char *input = k->attempt.payload + (k->attempt.input - k->attempt.payload);
		r = hook_run(&k->attempt, &(struct text){.data = input, .length = strlen(input)}, k->signal_fd);
	}
	attempt_finish(&k->attempt);
	after_hook(k, r);
}

static void on_order(struct keeper *k)
{
	struct keeper_order o;
	char *payload = NULL;
	int r = read_all(k->runner_fd, &o, sizeof(o));
	if (r == 0 && o.size) {
		payload = malloc(o.size);
		r = payload ? read_all(k->runner_fd, payload, o.size) : -ENOMEM;
	}
	if (r < 0) {
		free(payload);
		closep(&k->runner_fd);
		k->runner_fd = -1;
		return;
	}
	if (o.kind == KEEPER_ORDER_RUN && k->phase == PHASE_IDLE) {
		r = start_job(k, &o, payload);
		if (r < 0) {
			struct keeper_note notes[2] = {
				{.kind = KEEPER_NOTE_REFUSED, .code = r, .id = o.id, .part = k->attempt.missing},
				{.kind = KEEPER_NOTE_READY}};
			attempt_finish(&k->attempt);
			send_notes(k, notes, 2);
		}
		return;
	}
	if (o.kind == KEEPER_ORDER_HOOK && k->phase == PHASE_IDLE) {
		run_hook(k, &o, payload);
		return;
	}
	free(payload);
	if (k->phase == PHASE_IDLE || o.id != k->attempt.order.id)
		return;
	if (o.kind == KEEPER_ORDER_SEEN) {
		k->peak_mem_mb = o.peak_mem_mb;
		k->gpu_full = o.gpu_full;
	} else if (o.kind == KEEPER_ORDER_SETTLED) {
		keeper_claim_settle(&k->claim);
	} else {
		end_job(k, o.kind == KEEPER_ORDER_LOST ? REASON_GPU_LOST : REASON_CANCELLED,
			o.kind == KEEPER_ORDER_KILL);
	}
}

/* What was said of a job is heard before its end is told. */
static void on_orders(struct keeper *k)
{
	struct pollfd p;
	do {
		on_order(k);
		p = (struct pollfd){k->runner_fd, POLLIN, 0};
	} while (k->phase != PHASE_IDLE && k->runner_fd >= 0 && poll(&p, 1, 0) > 0);
}

static void on_signal(struct keeper *k)
{
	struct signalfd_siginfo si;
	bool child = false;
	while (read(k->signal_fd, &si, sizeof(si)) == sizeof(si)) {
		if (si.ssi_signo == SIGCHLD)
			child = true;
		else if (k->phase != PHASE_IDLE && (uint32_t)si.ssi_int == (uint32_t)k->attempt.order.id)
			end_job(k, hear_news(k) ? REASON_GPU_LOST : REASON_CANCELLED, si.ssi_signo == SIGUSR2);
	}
	if (!child || k->phase == PHASE_IDLE)
		return;
	if (reap(k))
		finish_job(k);
	else if (k->reaped)
		end_job(k, NULL, false); /* what the job left behind ends with it */
}

static int next_timeout_ms(const struct keeper *k)
{
	uint64_t at = k->phase == PHASE_RUNNING ? k->deadline_ns : k->phase == PHASE_IDLE ? 0 : k->step_ns;
	uint64_t claim = keeper_claim_due(&k->claim, k->runner_fd < 0);
	if (claim && (!at || claim < at))
		at = claim;
	return at ? clock_ms_until(at, clock_now_ns()) : -1;
}

static void keeper_round(struct keeper *k)
{
	struct pollfd fds[2] = {{k->signal_fd, POLLIN, 0}, {k->runner_fd, POLLIN, 0}};
	int n = poll(fds, 2, next_timeout_ms(k));
	if (n < 0)
		return;
	if (k->runner_fd >= 0 && fds[1].revents)
		on_orders(k);
	if (fds[0].revents)
		on_signal(k);
	if (k->phase != PHASE_IDLE)
		on_time(k);
}

_Noreturn void keeper_main(const char *journal_path, int fd)
{
	struct keeper k = {.journal_path = journal_path, .runner_fd = fd, .lock_fd = -1};
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_SETMASK, &set, NULL);
	prctl(PR_SET_NAME, "gpuq-keeper");
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	k.signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	k.page = mmap(NULL, sizeof(*k.page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (k.signal_fd < 0 || k.page == MAP_FAILED)
		_exit(1);
	/* A runner that is gone by now may have left an order. */
	(void)file_write_all(fd, &(struct keeper_note){.kind = KEEPER_NOTE_HELLO, .id = (uint64_t)getpid()},
		sizeof(struct keeper_note));
	while (k.runner_fd >= 0 || k.phase != PHASE_IDLE)
		keeper_round(&k);
	if (k.journal)
		journal_sync(k.journal, NULL);
	leave(&k);
}

int keeper_signal_cancel(const struct journal *j, const char *keeper, uint64_t id, bool at_once)
{
	char name[64];
	pid_t holder, again;
	/* The name comes from a journal, and must not lead out of the folder. */
	if (strchr(keeper, '/') || strlen(keeper) > 40)
		return -EINVAL;
	snprintf(name, sizeof(name), "keepers/%s", keeper);
	int r = lock_holder_at(j->dir_fd, name, &holder);
	if (r < 0 || holder == 0)
		return r < 0 ? r : -ESRCH;
	if (holder < 0)
		return -EXDEV;
	cleanup_(pidref_close) struct pidref process = PIDREF_NONE;
	r = pidref_open(holder, &process);
	if (r < 0)
		return r;
	/* Still the holder: so the descriptor is that of the keeper, and of no later process with its number. */
	r = lock_holder_at(j->dir_fd, name, &again);
	if (r < 0 || again != holder)
		return r < 0 ? r : -ESRCH;
	return pidref_queue(&process, at_once ? SIGUSR2 : SIGUSR1, (union sigval){.sival_int = (int)(uint32_t)id});
}
