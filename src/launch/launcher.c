/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "launch/launcher_private.h"

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
	struct gd_gpu_list *gpus = NULL;
	if (launcher_check(options, keep_first, &first, &gpus) > 0)
		return error_set(err, first.code, "%s", first.message);
	struct gd_launcher *l = calloc(1, sizeof(*l));
	int stop_fd = l ? file_above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) : -ENOMEM;
	if (stop_fd < 0) {
		gd_gpu_list_free(gpus);
		free(l);
		return error_set(err, stop_fd, "making a launcher: %s", error_words(stop_fd));
	}
	l->options = *options;
	l->options.output_dir = launcher_output_dir(options);
	if (!l->options.worker_name)
		l->options.worker_name = "";
	l->gpus = gpus;
	l->stop_fd = stop_fd;
	l->input_fd = l->output_fd = -1;
	history_init(&l->history);
	launcher_worker(options, &l->worker);
	launcher_fingerprint(l);
	*ret = l;
	return 0;
}

void gd_launcher_destroy(struct gd_launcher *l)
{
	if (!l)
		return;
	durations_stop(l->durations);
	launcher_drop_plan(l);
	history_finish(&l->history);
	gd_balancer_destroy(l->balancer);
	gd_gpu_list_free(l->gpus);
	text_finish(&l->worker_words);
	free(l->order);
	free(l->submitted);
	free(l->worker_states);
	free(l->output_root);
	close(l->stop_fd);
	closep(&l->input_fd);
	closep(&l->output_fd);
	free(l);
}

int gd_launcher_find(struct gd_launcher *l, struct gd_error *err)
{
	return l->has_run ? error_set(err, -EALREADY, "the launcher has run") : launcher_plan(l, err);
}

const struct gd_files *gd_launcher_files(const struct gd_launcher *l)
{
	return l->files;
}

const struct gd_found *gd_launcher_todo(const struct gd_launcher *l, size_t *ret_count)
{
	*ret_count = l->num_todo;
	return l->todo;
}

const struct gd_gpu_list *gd_launcher_gpus(const struct gd_launcher *l)
{
	return l->gpus;
}

double gd_launcher_earlier_rtf(const struct gd_launcher *l)
{
	return l->earlier_rtf;
}

double gd_launcher_earlier_bytes_per_second(const struct gd_launcher *l)
{
	return l->earlier_bytes_per_second;
}

void gd_launcher_stop(struct gd_launcher *l)
{
	int saved = errno;
	uint64_t one = 1;
	atomic_fetch_add(&l->stops, 1);
	(void)!write(l->stop_fd, &one, sizeof(one)); /* full: readable anyway */
	errno = saved;
}

void gd_launcher_summary(const struct gd_launcher *l, struct gd_launch_summary *ret)
{
	if (l->balancer) {
		gd_balancer_summary(l->balancer, ret);
		return;
	}
	*ret = (struct gd_launch_summary){
		.files_total = l->files ? l->files->count : 0,
		.files_skipped = l->num_skipped,
		.files_left = l->num_todo,
	};
}

int gd_launch_exit_code(int result)
{
	switch (result) {
	case 0:
	case 1:
		return result;
	case -ECANCELED:
		return 130;
	case -ENOMEM:
	case -EIO:
	case -ENOSPC:
	case -EDQUOT:
	case -EBUSY:
		return 1;
	default:
		return 2;
	}
}

/* ---- The whole -------------------------------------------------------------- */

/* One allocation: the summary, its lists, their words. */
static struct gd_launch_summary *copy_summary(const struct gd_launch_summary *s)
{
	size_t lists = s->num_failures * sizeof(*s->failures) + s->num_gpus * sizeof(*s->gpus), words = 0;
	for (size_t i = 0; i < s->num_failures; i++)
		words += strlen(s->failures[i].file) + strlen(s->failures[i].error) + 2;
	struct gd_launch_summary *copy = malloc(sizeof(*copy) + lists + words);
	if (!copy)
		return NULL;
	*copy = *s;
	struct gd_launch_gpu *gpus = (struct gd_launch_gpu *)(copy + 1);
	struct gd_launch_failure *failures = (struct gd_launch_failure *)(gpus + s->num_gpus);
	char *text = (char *)(failures + s->num_failures);
	if (s->num_gpus)
		memcpy(gpus, s->gpus, s->num_gpus * sizeof(*gpus));
	for (size_t i = 0; i < s->num_failures; i++) {
		failures[i].file = text;
		text = stpcpy(text, s->failures[i].file) + 1;
		failures[i].error = text;
		text = stpcpy(text, s->failures[i].error) + 1;
	}
	copy->gpus = gpus;
	copy->failures = failures;
	return copy;
}

void gd_launch_summary_free(struct gd_launch_summary *summary)
{
	free(summary);
}

int gd_launch(const struct gd_launch_options *options, struct gd_launch_summary **ret, struct gd_error *err)
{
	struct gd_launcher *l;
	int r = gd_launcher_create(options, &l, err);
	if (r < 0)
		return r;
	r = gd_launcher_run(l, err);
	if (ret && (r >= 0 || r == -ECANCELED)) {
		struct gd_launch_summary summary;
		gd_launcher_summary(l, &summary);
		struct gd_launch_summary *copy = copy_summary(&summary);
		if (copy)
			*ret = copy;
		else
			r = error_set(err, -ENOMEM, "no memory for the summary");
	}
	gd_launcher_destroy(l);
	return r;
}
