/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/sized.h"
#include "launch/launcher_private.h"

SIZED_NO_TAIL(gd_launch_pace, bytes_per_second);

void launcher_warn(struct gd_launcher *l, const char *format, ...)
{
	cleanup_(text_finish) struct text words = {0};
	va_list args;
	if (!l->options.on_warning)
		return;
	va_start(args, format);
	text_vappendf(&words, format, args);
	va_end(args);
	l->options.on_warning(l->options.context, text_string(&words));
}

static void keep_first(void *context, const struct gd_error *err)
{
	struct gd_error *first = context;
	if (first->code == 0)
		*first = *err;
}

int gd_launcher_create(const struct gd_launch_options *options, struct gd_launcher **ret, struct gd_error *err)
{
	struct gd_error first = {0};
	struct gd_launcher *l = calloc(1, sizeof(*l));
	if (!l)
		return error_set(err, -ENOMEM, "cannot create a launcher: %s", error_words(-ENOMEM));
	l->input_fd = l->output_fd = -1;
	l->input_way = TRUST_WAY_INIT;
	l->writer = HISTORY_WRITER_CLOSED;
	l->stop_fd = -1;
	if (launcher_check(options, keep_first, &first, l) > 0) {
		gd_launcher_destroy(l);
		return error_set(err, first.code, "%s", first.message);
	}
	l->stop_fd = file_above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (l->stop_fd < 0) {
		int r = l->stop_fd;
		gd_launcher_destroy(l);
		return error_set(err, r, "cannot create a launcher: %s", error_words(r));
	}
	const char *input = getenv("GPUQ_LAUNCH_INPUT");
	if (input && input[0] == '/' && !(l->input_name = strdup(input))) {
		gd_launcher_destroy(l);
		return error_set(err, -ENOMEM, "cannot create a launcher: %s", error_words(-ENOMEM));
	}
	launcher_fingerprint(l);
	*ret = l;
	return 0;
}

void gd_launcher_destroy(struct gd_launcher *l)
{
	if (!l)
		return;
	durations_stop(l->durations);
	launcher_watch_close(l);
	launcher_drop_plan(l);
	history_writer_close(&l->writer);
	gd_balancer_destroy(l->balancer);
	launcher_drop_options(l);
	text_finish(&l->worker_words);
	launch_queue_finish(&l->queue);
	free(l->submitted);
	free(l->early);
	free(l->last_end_ns);
	free(l->reloading_ns);
	free(l->remote_slots);
	free(l->remote_numbers);
	free(l->put_backs);
	free(l->worker_states);
	free(l->worker_list);
	free(l->output_root);
	free(l->input_name);
	closep(&l->stop_fd);
	closep(&l->input_fd);
	closep(&l->output_fd);
	free(l);
}

int gd_launcher_find(struct gd_launcher *l, struct gd_error *err)
{
	return l->has_run ? error_set(err, -EALREADY, "the launcher has already run") : launcher_plan(l, err);
}

const struct gd_files *gd_launcher_files(const struct gd_launcher *l)
{
	return l->files;
}

const struct gd_found *const *gd_launcher_todo(const struct gd_launcher *l, size_t *ret_count)
{
	*ret_count = l->num_todo;
	return (const struct gd_found *const *)l->todo;
}

const struct gd_gpu_list *gd_launcher_gpus(const struct gd_launcher *l)
{
	return l->gpus;
}

void gd_launcher_earlier_pace(const struct gd_launcher *l, struct gd_launch_pace *ret, size_t size)
{
	struct gd_launch_pace pace = l->earlier;
	pace.size = sizeof(pace);
	sized_write(ret, size, &pace, sizeof(pace));
}

void gd_launcher_stop(struct gd_launcher *l)
{
	int saved = errno;
	uint64_t one = 1;
	atomic_fetch_add(&l->stops, 1);
	(void)!write(l->stop_fd, &one, sizeof(one)); /* full: readable anyway */
	errno = saved;
}

void gd_launcher_summary(struct gd_launcher *l, struct gd_launch_summary *ret, size_t size)
{
	struct gd_launch_summary s = {.size = sizeof(s)};
	if (l->balancer) {
		gd_balancer_summary(l->balancer, &s, sizeof(s));
		s.files_unrecorded = l->unrecorded;
	} else {
		s.files_total = l->files ? l->files->count : 0;
		s.files_skipped = l->num_skipped;
		s.files_left = l->num_todo;
		s.progress = s.files_total ? (double)s.files_skipped / (double)s.files_total : 1;
	}
	s.inputs_skipped = l->inputs_skipped;
	sized_write(ret, size, &s, sizeof(s));
}

int gd_launch_exit_code(int result, const struct gd_launch_summary *summary)
{
	switch (result) {
	case 0:
		return summary && (summary->files_failed || summary->files_left || summary->files_unrecorded);
	case -ECANCELED:
		return 130;
	case -ECHILD:
	case -EDQUOT:
	case -ENOMEM:
	case -EIO:
	case -ENOSPC:
	case -EBUSY:
		return 1;
	default:
		return 2;
	}
}

/* ---- One call ----------------------------------------------------------- */

static void copy_gpus(struct gd_launch_gpu *gpus, const struct gd_launch_gpu **list, const struct gd_launch_summary *s)
{
	for (size_t i = 0; i < s->num_gpus; i++) {
		gpus[i] = *s->gpus[i];
		gpus[i].node = NULL; /* a library call uses this machine only */
		list[i] = &gpus[i];
	}
}

static void copy_failures(struct gd_launch_failure *failures, const struct gd_launch_failure **list, char *text,
	const struct gd_launch_summary *s)
{
	for (size_t i = 0; i < s->num_failures; i++) {
		failures[i] = (struct gd_launch_failure){.size = sizeof(*failures), .file = text};
		text = stpcpy(text, s->failures[i]->file) + 1;
		failures[i].error = text;
		text = stpcpy(text, s->failures[i]->error) + 1;
		list[i] = &failures[i];
	}
}

/* One allocation: the summary, its structs, the lists of them, their strings. */
static struct gd_launch_summary *copy_summary(const struct gd_launch_summary *s)
{
	size_t size = sizeof(*s);
	size += s->num_gpus * (sizeof(struct gd_launch_gpu) + sizeof(void *));
	size += s->num_failures * (sizeof(struct gd_launch_failure) + sizeof(void *));
	for (size_t i = 0; i < s->num_failures; i++)
		size += strlen(s->failures[i]->file) + strlen(s->failures[i]->error) + 2;
	struct gd_launch_summary *copy = malloc(size);
	if (!copy)
		return NULL;
	struct gd_launch_gpu *gpus = (struct gd_launch_gpu *)(copy + 1);
	struct gd_launch_failure *failures = (struct gd_launch_failure *)(gpus + s->num_gpus);
	const struct gd_launch_gpu **gpu_list = (const struct gd_launch_gpu **)(failures + s->num_failures);
	const struct gd_launch_failure **failure_list = (const struct gd_launch_failure **)(gpu_list + s->num_gpus);
	copy_gpus(gpus, gpu_list, s);
	copy_failures(failures, failure_list, (char *)(failure_list + s->num_failures), s);
	*copy = *s;
	copy->gpus = gpu_list;
	copy->failures = failure_list;
	return copy;
}

void gd_launch_summary_free(struct gd_launch_summary *summary)
{
	free(summary);
}

int gd_launch(const struct gd_launch_options *options, struct gd_launch_summary **ret, struct gd_error *err)
{
	struct gd_launcher *l;
	if (ret)
		*ret = NULL;
	int r = gd_launcher_create(options, &l, err);
	if (r < 0)
		return r;
	r = gd_launcher_run(l, err);
	if (ret && l->begun) {
		struct gd_launch_summary summary;
		gd_launcher_summary(l, &summary, sizeof(summary));
		*ret = copy_summary(&summary);
		if (!*ret)
			r = error_set(err, -ENOMEM, "not enough memory for the summary");
	}
	gd_launcher_destroy(l);
	return r;
}
