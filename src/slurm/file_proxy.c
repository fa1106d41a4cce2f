/* SPDX-License-Identifier: MIT */
#include "slurm/file_proxy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "launch/remote_note.h"
#include "slurm/file_proxy_private.h"
#include "slurm/file_worker.h"
#include "slurm/secret.h"

#define ROUND_MS  100            /* between checks for a cancellation */
#define ABSENT_NS (3 * NS_PER_S) /* how long a file that was not sent waits for a connection */
#define BYE_NS    (5 * NS_PER_S) /* how long cleanup() waits for the end of the worker */

/* ---- Waiting for the thread --------------------------------------------------------------------- */

/* Waits for a change, for ROUND_MS at most. The caller holds the lock. */
static void wait_for_change(struct file_proxy *p)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += ROUND_MS * 1000000L;
	if (until.tv_nsec >= 1000000000L) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000L;
	}
	(void)pthread_cond_timedwait(&p->changed, &p->lock, &until);
}

/* Forwards messages of gpuq-worker to the launcher. Releases the lock meanwhile: sending can block. */
static void pass_notes(struct file_proxy *p, struct gd_worker *w)
{
	struct text notes = p->notes;
	uint32_t size;
	if (!notes.length)
		return;
	p->notes = (struct text){0};
	pthread_mutex_unlock(&p->lock);
	for (size_t at = 0; !text_error(&notes) && at + sizeof(size) <= notes.length; at += sizeof(size) + size) {
		memcpy(&size, notes.data + at, sizeof(size));
		(void)gd_worker_send(w, notes.data + at + sizeof(size), size);
	}
	text_finish(&notes);
	pthread_mutex_lock(&p->lock);
}

static void send_note(struct file_proxy *p, struct gd_worker *w, enum remote_note_kind kind)
{
	pthread_mutex_lock(&p->lock);
	struct remote_note note = {
		.kind = kind, .gpu = p->hello.gpu, .tries = p->answer.tries, .processing_ns = p->answer.processing_ns};
	memcpy(note.node, p->hello.node, sizeof(note.node));
	pthread_mutex_unlock(&p->lock);
	(void)gd_worker_send(w, &note, sizeof(note));
}

/* ---- Hooks --------------------------------------------------------------------------------------- */

static int prepare(struct file_proxy *p, struct gd_worker *w, const char *dir, struct gd_error *err)
{
	pthread_condattr_t attributes;
	p->worker = (size_t)gd_worker_slot(w);
	file_job_init(&p->job, p->worker + 1);
	if (snprintf(p->journal, sizeof(p->journal), "%s/" FILE_JOURNAL_NAME, dir) >= (int)sizeof(p->journal))
		return error_set(err, -ENAMETOOLONG, "the path of the output folder is too long");
	p->dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (p->dir_fd < 0)
		return error_set(err, -errno, "cannot open '%s': %s", dir, error_words(errno));
	if (getrandom(&p->number, sizeof(p->number), 0) != sizeof(p->number))
		return error_set(err, -EIO, "cannot get random numbers");
	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&p->changed, &attributes);
	int r = secret_load(p->dir_fd, p->secret, err);
	return r < 0 ? r : file_proxy_link_start(p, err);
}

/* The attempt died before it was ready: wait for the next one. No file was sent. */
static void wait_for_next(struct file_proxy *p)
{
	p->state = PROXY_WAITS;
	p->ready = p->busy_before = false;
}

static int wait_until_ready(struct file_proxy *p, struct gd_worker *w)
{
	int r = 0;
	pthread_mutex_lock(&p->lock);
	while (r == 0 && !(p->state == PROXY_BOUND && p->ready && !p->busy_before)) {
		if (gd_worker_cancelled(w, 0))
			r = -ECANCELED;
		else if (p->state == PROXY_FAILED)
			r = gd_worker_fail(w, -ECHILD, "%s", p->words);
		else if (p->state == PROXY_LOST)
			wait_for_next(p);
		else
			wait_for_change(p);
		pass_notes(p, w);
	}
	pthread_mutex_unlock(&p->lock);
	if (r == 0)
		send_note(p, w, REMOTE_READY);
	return r;
}

static int setup(struct gd_worker *w, void **ret_state)
{
	struct gd_error err = {0};
	struct file_proxy *p = calloc(1, sizeof(*p));
	*ret_state = p; /* released when the process exits */
	if (!p)
		return -ENOMEM;
	int r = prepare(p, w, gd_worker_context(w), &err);
	return r < 0 ? gd_worker_fail(w, r, "%s", err.message) : wait_until_ready(p, w);
}

/* The launcher gives the file to another worker; an answer that arrived does not count. Ends the process. */
_Noreturn static void put_back(struct file_proxy *p, struct gd_worker *w)
{
	send_note(p, w, REMOTE_PUT_BACK);
	_exit(0);
}

static int encode_task(struct file_proxy *p, const struct gd_bytes *task)
{
	p->file++;
	p->sent = p->cancel = p->answered = false;
	p->answer = (struct file_message){0};
	file_message_encode(&p->task, &(struct file_message){.kind = FILE_TASK,
					      .proxy = p->number,
					      .number = p->file,
					      .bytes = task->data,
					      .size = task->size});
	return text_error(&p->task);
}

/* Waits for the answer. 1: there is one; 0: put the file back; -ECANCELED: no answer can be expected. */
static int wait_for_answer(struct file_proxy *p, struct gd_worker *w)
{
	uint64_t begun_ns = clock_now_ns();
	while (!p->answered) {
		/* A file that was sent stays with its attempt until the attempt is proven dead. */
		if (p->state != PROXY_BOUND || (!p->sent && clock_now_ns() > begun_ns + ABSENT_NS))
			return 0;
		if (gd_worker_cancelled(w, 0) && !p->connected)
			return -ECANCELED;
		if (gd_worker_cancelled(w, 0) && !p->cancel) {
			p->cancel = true;
			file_proxy_link_wake(p);
		}
		wait_for_change(p);
		pass_notes(p, w);
	}
	return 1;
}

static int pass_answer(struct file_proxy *p, struct gd_worker *w)
{
	if (text_error(&p->bytes))
		return gd_worker_fail(w, -ENOMEM, "no memory for the answer");
	if (p->answer.outcome == FILE_FAILED)
		return gd_worker_fail(w, -EIO, "%s", text_string(&p->bytes));
	return p->bytes.length ? gd_worker_result(w, p->bytes.data, p->bytes.length) : 0;
}

static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	struct file_proxy *p = state;
	pthread_mutex_lock(&p->lock);
	int r = encode_task(p, task);
	if (r == 0) {
		file_proxy_link_wake(p);
		r = wait_for_answer(p, w);
	}
	text_clear(&p->task);
	pass_notes(p, w);
	pthread_mutex_unlock(&p->lock);
	if (r < 0)
		return r;
	bool unprocessed = r == 0 || p->answer.outcome == FILE_UNPROCESSED;
	if (unprocessed && gd_worker_cancelled(w, 0))
		return -ECANCELED;
	if (unprocessed)
		put_back(p, w);
	send_note(p, w, REMOTE_ANSWER);
	return pass_answer(p, w);
}

static int cleanup(struct gd_worker *w, void *state)
{
	struct file_proxy *p = state;
	uint64_t until_ns = clock_now_ns() + BYE_NS;
	(void)w;
	pthread_mutex_lock(&p->lock);
	p->end = true;
	file_proxy_link_wake(p);
	while (p->connected && clock_now_ns() < until_ns)
		wait_for_change(p);
	pthread_mutex_unlock(&p->lock);
	return 0;
}

int file_proxy_main(const char *dir)
{
	const struct gd_worker_ops ops = {.size = sizeof(ops),
		.context = (void *)(uintptr_t)dir,
		.setup = setup,
		.process = process,
		.cleanup = cleanup};
	return gd_worker_main(&ops);
}
