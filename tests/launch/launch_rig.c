/* SPDX-License-Identifier: MIT */
#include "launch_rig.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The board's words are the first letters of the files in the order in which they were begun; note 0 counts them. */
#define LETTERS (sizeof(board->words) / sizeof(board->words[0]))

static void note_begin(char letter)
{
	int at = atomic_fetch_add(&board->notes[0], 1);
	if ((size_t)at < LETTERS)
		atomic_store(&board->words[at], (unsigned char)letter);
	atomic_fetch_add(&board->begun, 1);
}

static void do_as_told(struct gd_worker *w, char what)
{
	switch (what) {
	case 'k':
		raise(SIGKILL);
		break;
	case 'o':
		if (gd_worker_attempt(w, 0) == 1)
			raise(SIGKILL);
		break;
	case 'w':
		while (!atomic_load(&board->go) && !gd_worker_cancelled(w, 0))
			usleep(500);
		break;
	case 'h':
		for (;;)
			pause();
	default:
		break;
	}
}

static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct gd_file f;
	int r = gd_file_read(task, &f, sizeof(f));
	if (r < 0)
		return r;
	struct stat st;
	if (f.path[0] != '/' || stat(f.path, &st) < 0 || stat(f.output_dir, &st) < 0 || !S_ISDIR(st.st_mode))
		return gd_worker_fail(w, -EIO, "no such file, or no output folder");
	note_begin(f.stem[0]);
	if (f.stem[1] == 'f')
		return gd_worker_fail(w, -EIO, "cannot do %s", f.stem);
	do_as_told(w, f.stem[1]);
	return f.stem[1] == 's' ? gd_worker_file_seconds(w, 7) : 0;
}

static int fail_setup(struct gd_worker *w, void **ret_state)
{
	*ret_state = NULL;
	return gd_worker_fail(w, -EIO, "no model in this test");
}

const struct gd_worker_ops launch_rig_worker = {.size = sizeof(struct gd_worker_ops), .process = process};
const struct gd_worker_ops launch_rig_broken_worker = {
	.size = sizeof(struct gd_worker_ops), .setup = fail_setup, .process = process};

int launch_rig_enter(void **state)
{
	board_renew();
	return scratch_enter(state);
}

struct gd_launch_options launch_rig_options(void)
{
	return (struct gd_launch_options){
		.size = sizeof(struct gd_launch_options),
		.input_dir = "in",
		.output_dir = "out",
		.gpus = "sim:2",
		.worker = &launch_rig_worker,
	};
}

void launch_rig_put(char first, char last, const char *rest, size_t size_bytes)
{
	for (char c = first; c <= last; c++) {
		char path[64];
		snprintf(path, sizeof(path), "in/%c%s.wav", c, rest);
		scratch_put(path, size_bytes);
	}
}

void launch_rig_assert_counts(const struct gd_launch_summary *s, struct launch_counts expected)
{
	assert_int_equal(s->files_done, expected.done);
	assert_int_equal(s->files_failed, expected.failed);
	assert_int_equal(s->files_skipped, expected.skipped);
	assert_int_equal(s->files_left, expected.left);
	assert_int_equal(s->files_total, expected.done + expected.failed + expected.skipped + expected.left);
}

struct gd_launch_summary *launch_rig_launch(const struct gd_launch_options *o, int expected)
{
	struct gd_launch_summary *s = NULL;
	struct gd_error err = {0};
	int r = gd_launch(o, &s, &err);
	if (r != expected)
		print_message("%d: %s\n", r, err.message);
	assert_int_equal(r, expected);
	return s;
}

void launch_rig_run(const struct gd_launch_options *o, int expected, struct launch_counts counts)
{
	struct gd_launch_summary *s = launch_rig_launch(o, expected);
	launch_rig_assert_counts(s, counts);
	gd_launch_summary_free(s);
}

void launch_rig_run_well(const struct gd_launch_options *o)
{
	gd_launch_summary_free(launch_rig_launch(o, 0));
}

int launch_rig_seconds(void *context, const char *path, double *ret)
{
	(void)context;
	*ret = strrchr(path, '/')[1] == 'd' ? 100 : 1;
	return 0;
}

int launch_rig_begun(char letter)
{
	int count = 0;
	for (size_t i = 0; i < LETTERS; i++)
		count += atomic_load(&board->words[i]) == (unsigned char)letter;
	return count;
}

void launch_rig_assert_order(size_t from, const char *letters)
{
	char begun[LETTERS + 1] = "";
	assert_true(from + strlen(letters) <= LETTERS);
	for (size_t i = 0; letters[i]; i++)
		begun[i] = (char)atomic_load(&board->words[from + i]);
	assert_string_equal(begun, letters);
}
