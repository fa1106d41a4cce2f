/* SPDX-License-Identifier: MIT */
#include "queue/keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/machine.h"
#include "queue/journal/record.h"
#include "queue/keeper/keeper_private.h"
#include "queue/keeper/keeper_socket.h"

/* Connections accepted in one round. */
#define ACCEPTS 64

/* ---- Beginning ------------------------------------------------------------------- */

/* Creates and locks the keeper's file; retries if the file was removed before it was locked. */
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
			r = keeper_socket_listen(fd, &k->listen_fd);
			if (r == 0) {
				k->lock_fd = fd;
				return 0;
			}
			unlinkat(k->journal->dir_fd, k->lock_name, 0);
		}
		close(fd);
		if (r < 0 && r != -EAGAIN)
			return r;
	}
	return -EEXIST;
}

static int open_journal(struct keeper *k)
{
	const struct nursery_options *o = k->options;
	return journal_open_at(o->parent_fd, o->journal_path, o->accepted, &k->journal, NULL);
}

int keeper_write_own_line(const struct keeper *k, struct text *ret)
{
	struct machine m;
	int r = machine_get(&m);
	if (r < 0)
		return r;
	record_write_keeper(ret, k->name, getpid(), &m, k->options->allocation);
	return text_error(ret);
}

int keeper_open(struct keeper *k)
{
	int r = k->journal ? 0 : open_journal(k);
	if (r == 0 && k->lock_fd < 0)
		r = take_name(k);
	if (r < 0 || k->announced)
		return r;
	cleanup_(text_finish) struct text t = {0};
	r = keeper_write_own_line(k, &t);
	if (r < 0)
		return r;
	r = journal_append_line(k->journal, t.data, t.length, NULL);
	k->announced = r == 0;
	return r;
}

void keeper_send_notes(struct keeper *k, struct keeper_note *notes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		notes[i].bytes = sizeof(notes[i]);
	if (k->runner.fd >= 0 && !keeper_link_send(&k->runner, notes, count))
		keeper_link_close(&k->runner);
}

static bool send_hello(struct keeper_link *l)
{
	struct keeper_note hello = {
		.bytes = sizeof(hello), .kind = KEEPER_NOTE_HELLO, .code = keeper_protocol, .id = (uint64_t)getpid()};
	return keeper_link_send(l, &hello, 1);
}

void keeper_send_note(struct keeper *k, enum keeper_note_kind kind, uint64_t id, int code)
{
	keeper_send_notes(k, &(struct keeper_note){.kind = kind, .code = code, .id = id}, 1);
}

void keeper_send_note_and_ready(struct keeper *k, enum keeper_note_kind kind, uint64_t id, int code)
{
	struct keeper_note notes[2] = {{.kind = kind, .code = code, .id = id}, {.kind = KEEPER_NOTE_READY}};
	keeper_send_notes(k, notes, 2);
}

_Noreturn void keeper_leave(struct keeper *k)
{
	keeper_claim_finish(&k->claim);
	if (k->lock_fd >= 0)
		unlinkat(k->journal->dir_fd, k->lock_name, 0);
	_exit(0);
}

/* ---- Events ------------------------------------------------------------------------- */

static void on_link(struct keeper *k, struct keeper_link *l)
{
	bool alive = keeper_link_receive(l);
	int fd = l->fd;
	keeper_take_orders(k, l);
	if (!alive && l->fd == fd)
		keeper_link_close(l);
	else if (!alive && k->runner.fd == fd)
		keeper_link_close(&k->runner);
}

/* NULL: no visitor can be accepted now. */
static struct keeper_link *free_visitor(struct keeper *k)
{
	for (size_t i = 0; i < KEEPER_VISITORS; i++)
		if (k->visitors[i].fd < 0)
			return &k->visitors[i];
	return NULL;
}

/* Accepts many at once: rejected connections of other users must not delay those of this user. */
static void on_visitors(struct keeper *k)
{
	struct keeper_link *l;
	int r = 0;
	for (int i = 0; i < ACCEPTS && (r == 0 || r == -EPERM) && (l = free_visitor(k)); i++) {
		r = keeper_socket_accept(k->listen_fd, &l->fd);
		if (r == 0 && !send_hello(l))
			keeper_link_close(l);
	}
}

/* No process of the job is left. */
static void on_job_over(struct keeper *k)
{
	uint64_t until = keeper_explained_until_ns(k);
	if (until <= clock_now_ns()) {
		keeper_finish_job(k);
		return;
	}
	k->phase = KEEPER_HOLDING;
	k->step_ns = until;
}

static void on_signal(struct keeper *k)
{
	struct signalfd_siginfo si[2]; /* one of each kind at most */
	bool child = false, interrupted = false;
	ssize_t n = read(k->signal_fd, si, sizeof(si));
	for (size_t i = 0; n > 0 && i < (size_t)n / sizeof(si[0]); i++) {
		if (si[i].ssi_signo == SIGCHLD)
			child = true;
		else if (si[i].ssi_signo == SIGTERM)
			k->interrupted = interrupted = true;
	}
	if (interrupted && k->phase != KEEPER_IDLE)
		keeper_end_job(k, REASON_INTERRUPTED, false);
	if (!child || k->phase == KEEPER_IDLE || k->phase == KEEPER_HOLDING)
		return;
	keeper_lease_look_for_stop(k);
	if (keeper_reap(k))
		on_job_over(k);
	else if (k->reaped)
		keeper_end_job(k, NULL, false); /* processes that the job left behind end with it */
}

static int next_timeout_ms(const struct keeper *k)
{
	uint64_t limit = k->paused_ns ? 0 : k->warn_ns ? k->warn_ns : k->deadline_ns;
	uint64_t at = k->phase == KEEPER_RUNNING ? limit : k->phase == KEEPER_IDLE ? 0 : k->step_ns;
	uint64_t claim = keeper_claim_due(&k->claim, k->runner.fd < 0);
	uint64_t trim = k->phase == KEEPER_IDLE ? 0 : k->attempt.log.trim_ns;
	if (claim && (!at || claim < at))
		at = claim;
	if (trim && (!at || trim < at))
		at = trim;
	return at ? clock_ms_until(at, clock_now_ns()) : -1;
}

void keeper_round(struct keeper *k)
{
	enum { SIGNALS, RUNNER, DOOR, FRONT, FIRST_VISITOR, ALL = FIRST_VISITOR + KEEPER_VISITORS };
	struct pollfd fds[ALL] = {[SIGNALS] = {k->signal_fd, POLLIN, 0},
		[RUNNER] = {k->runner.fd, POLLIN, 0},
		[DOOR] = {free_visitor(k) ? k->listen_fd : -1, POLLIN, 0},
		[FRONT] = {k->lease ? k->lease->fd : -1, POLLIN, 0}};
	for (size_t i = 0; i < KEEPER_VISITORS; i++)
		fds[FIRST_VISITOR + i] = (struct pollfd){k->visitors[i].fd, POLLIN, 0};
	int n = poll(fds, ALL, next_timeout_ms(k));
	if (n < 0)
		return;
	/* Before an order to run: do not start a command whose front is gone. */
	if (fds[FRONT].revents)
		keeper_lease_on_front(k);
	/* Handle reports about a job before its end is written. */
	if (k->runner.fd >= 0 && fds[RUNNER].revents)
		on_link(k, &k->runner);
	for (size_t i = 0; i < KEEPER_VISITORS; i++)
		if (k->visitors[i].fd >= 0 && fds[FIRST_VISITOR + i].revents)
			on_link(k, &k->visitors[i]);
	if (fds[DOOR].revents)
		on_visitors(k);
	if (fds[SIGNALS].revents)
		on_signal(k);
	if (k->phase != KEEPER_IDLE)
		keeper_on_time(k);
}

int keeper_init(struct keeper *k)
{
	sigset_t set;
	k->lock_fd = k->listen_fd = -1;
	k->runner = KEEPER_LINK_NONE;
	for (size_t i = 0; i < KEEPER_VISITORS; i++)
		k->visitors[i] = KEEPER_LINK_NONE;
	/* All signals are blocked. SIGTERM to all processes of an allocation announces its end. */
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	if (*k->options->allocation)
		sigaddset(&set, SIGTERM);
	prctl(PR_SET_NAME, KEEPER_PROCESS);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	k->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return k->signal_fd < 0 ? -errno : 0;
}

_Noreturn void keeper_main(const struct nursery_options *options, int fd)
{
	struct keeper k = {.options = options};
	if (keeper_init(&k) < 0)
		_exit(1);
	k.runner.fd = fd;
	if (!send_hello(&k.runner))
		keeper_link_close(&k.runner);
	while ((k.runner.fd >= 0 && !k.adopted) || k.phase != KEEPER_IDLE)
		keeper_round(&k);
	if (k.journal)
		journal_sync(k.journal, NULL);
	keeper_leave(&k);
}
