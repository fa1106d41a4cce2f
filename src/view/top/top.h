/* SPDX-License-Identifier: MIT */
/*
 * gpuq top without a terminal: computes the screen from a model and typed keys. Pure code: its caller has the terminal
 * and the queue, feeds it and serves its requests.
 *
 *     top_init() → top_key() → serve top.request → top_draw() → …
 */
#ifndef VIEW_TOP_TOP_H
#define VIEW_TOP_TOP_H

#include "view/model/actions.h"
#include "view/model/model.h"
#include "view/top/log_tail.h"
#include "view/top/screen.h"

/* Keys are Unicode characters, or one of these. */
enum top_key {
	TOP_KEY_UP = 0x110000,
	TOP_KEY_DOWN,
	TOP_KEY_LEFT,
	TOP_KEY_RIGHT,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_BACKSPACE,
	TOP_KEY_F1,
	TOP_KEY_F4 = TOP_KEY_F1 + 3,
	TOP_KEY_F6 = TOP_KEY_F1 + 5,
	TOP_KEY_F9 = TOP_KEY_F1 + 8,
	TOP_KEY_F10,
};
#define TOP_KEY_ESCAPE 27
#define TOP_KEY_ENTER  '\n'

enum top_mode {
	TOP_LIST = 0,
	TOP_FILTER,  /* the filter is being typed */
	TOP_SORT,    /* choosing the order */
	TOP_CONFIRM, /* asks before cancelling */
	TOP_PAGE,    /* help, or why a job waits */
	TOP_LOG,
};

/* What a key requests from the caller. */
enum top_request {
	TOP_NOTHING = 0,
	TOP_QUIT,
	TOP_ACT,     /* top.action for the jobs of top_chosen() */
	TOP_DETAILS, /* of top.job: pass top_put_details() and why it waits to top_show_page() */
	TOP_OPEN_LOG,
	TOP_CLOSE_LOG,
};

#define TOP_FILTER_ROOM  128
#define TOP_MESSAGE_ROOM 256

struct top {
	const struct view_model *model;
	struct view_facts facts;
	enum top_mode mode;

	/* The listed jobs and their order; kept until something changes. */
	enum view_order order;
	bool reverse;
	int states; /* index into top_states */
	char filter[TOP_FILTER_ROOM];
	const struct view_job **jobs;
	size_t num_jobs, jobs_capacity;
	uint64_t listed_version;
	int64_t now_ms; /* of the last screen */
	bool stale;

	uint64_t job;   /* under the cursor; 0: always the first job */
	size_t cursor;  /* index of that job */
	size_t first;   /* index of the job on the first row */
	int rows;       /* of jobs on the last screen */
	int gpu_first;  /* first line of GPUs, if there are more than fit */
	int gpu_hidden; /* lines that did not fit */
	uint64_t *tagged;
	size_t num_tagged, tagged_capacity;

	enum top_request request;
	enum view_action action;
	int sort_choice;

	char message[TOP_MESSAGE_ROOM]; /* shown until the next key */
	bool message_bad;

	/* TOP_PAGE */
	struct text page;
	char page_title[64];
	size_t page_first;

	/* TOP_LOG */
	uint64_t log_job;
	struct log_tail log;
	bool log_follows, log_wraps;
	uint64_t log_first; /* number of the first line shown, if it does not follow */
	int log_left;       /* columns scrolled off to the left */
	int log_rows;
};

void top_init(struct top *t, const struct view_model *m);
void top_finish(struct top *t);

/* Sets t->request. */
void top_key(struct top *t, int key);

/* The jobs of an action: the tagged ones, otherwise the one under the cursor. Valid until the next key. */
const uint64_t *top_chosen(const struct top *t, size_t *ret_count);

/* Shows a message in the last line. */
void top_say(struct top *t, bool bad, const char *format, ...) GD_PRINTF(3, 4);
/* After TOP_DETAILS; also top's own help. */
void top_show_page(struct top *t, const char *title, const char *text);
/* The facts of the model about a job, as lines. */
void top_put_details(struct text *t, const struct view_job *job, int64_t now_ms);
/* After TOP_OPEN_LOG, then log_tail_append() to t->log. */
void top_show_log(struct top *t, uint64_t job);

/* Draws the current screen. 0 or -ENOMEM. */
int top_draw(struct top *t, struct screen *s, int rows, int columns, int64_t now_ms, uint64_t now_ns);

/* ---- Internal --------------------------------------------------------------------------- */

/* Updates jobs, cursor and first. 0 or -ENOMEM. */
int top_list(struct top *t, int64_t now_ms);
bool top_is_tagged(const struct top *t, uint64_t id);

/* Draws from `row` on; returns the number of rows used, at most max_rows. */
int top_draw_gpus(struct top *t, struct screen *s, int row, int max_rows);
int top_draw_runs(const struct top *t, struct screen *s, int row, int max_rows);
void top_draw_jobs(struct top *t, struct screen *s, int row, int rows, int64_t now_ms);
void top_draw_page(struct top *t, struct screen *s);
void top_draw_log(struct top *t, struct screen *s);
void top_log_key(struct top *t, int key);

/* The choices of Tab. */
struct top_states {
	const char *name;
	unsigned states; /* bits; 0: all */
};
extern const struct top_states top_states[];
#define TOP_STATES 6

/* The orders to choose from. */
struct top_order {
	const char *name;
	enum view_order order;
	bool reverse; /* the default direction */
};
extern const struct top_order top_orders[];
#define TOP_ORDERS VIEW_ORDERS

#endif
