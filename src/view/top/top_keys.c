/* SPDX-License-Identifier: MIT */
/* Handling of keys. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/utf8.h"
#include "view/top/top.h"

static const char help[] = "j k ↑ ↓        next and previous job\n"
			   "[ ] PgUp PgDn  previous and next page\n"
			   "Home End       first and last job\n"
			   "Enter, w       details: why it waits, how it ended\n"
			   "l              follow its log\n"
			   "/, F4          show only matching jobs; Esc: show all\n"
			   "Tab            all, running, pending, failed, cancelled, completed\n"
			   "s, F6          choose the sort order\n"
			   "< >            previous and next sort order\n"
			   "I              reverse the sort order\n"
			   "Space          select; the keys below act on all selected jobs\n"
			   "c, F9          cancel (asks first)\n"
			   "r              retry\n"
			   "h              hold, or release a held job\n"
			   "u              make urgent: move to the front\n"
			   "{ }            scroll the GPUs\n"
			   "?, F1          show these keys\n"
			   "q, F10         quit; jobs and runner continue\n";

static void move_to(struct top *t, size_t position)
{
	if (t->num_jobs == 0)
		return;
	t->cursor = position < t->num_jobs ? position : t->num_jobs - 1;
	t->job = t->jobs[t->cursor]->id;
}

static bool move_key(struct top *t, int key)
{
	size_t page = t->rows > 1 ? (size_t)t->rows - 1 : 1;
	switch (key) {
	case TOP_KEY_UP:
	case 'k':
		move_to(t, t->cursor ? t->cursor - 1 : 0);
		return true;
	case TOP_KEY_DOWN:
	case 'j':
		move_to(t, t->cursor + 1);
		return true;
	case TOP_KEY_PAGE_UP:
	case '[':
		move_to(t, t->cursor > page ? t->cursor - page : 0);
		return true;
	case TOP_KEY_PAGE_DOWN:
	case ']':
		move_to(t, t->cursor + page);
		return true;
	case TOP_KEY_HOME:
		move_to(t, 0);
		/* From here on the cursor stays on the first row, whatever job is there. */
		t->job = 0;
		return true;
	case TOP_KEY_END:
		move_to(t, t->num_jobs);
		return true;
	default:
		return false;
	}
}

static const struct view_job *current(struct top *t)
{
	/* Actions apply to the job that is now on the first row, and the cursor stays on it. */
	if (t->job == 0 && t->num_jobs)
		t->job = t->jobs[0]->id;
	return t->job ? view_find_job(t->model, t->job) : NULL;
}

/* ---- Order ---------------------------------------------------------------------------------- */

static int order_index(const struct top *t)
{
	int i = 0;
	while (i + 1 < TOP_ORDERS && top_orders[i].order != t->order)
		i++;
	return i;
}

static void set_order(struct top *t, int i)
{
	i = (i + TOP_ORDERS) % TOP_ORDERS;
	t->order = top_orders[i].order;
	t->reverse = top_orders[i].reverse;
	t->stale = true;
	top_say(t, false, "sorted by %s", top_orders[i].name);
}

static void sort_key(struct top *t, int key)
{
	if (key == TOP_KEY_UP || key == TOP_KEY_LEFT)
		t->sort_choice = (t->sort_choice + TOP_ORDERS - 1) % TOP_ORDERS;
	else if (key == TOP_KEY_DOWN || key == TOP_KEY_RIGHT)
		t->sort_choice = (t->sort_choice + 1) % TOP_ORDERS;
	else {
		t->mode = TOP_LIST;
		if (key == TOP_KEY_ENTER || key == '\r')
			set_order(t, t->sort_choice);
		else if (key >= '1' && key < '1' + TOP_ORDERS)
			set_order(t, key - '1');
	}
}

/* ---- Filter ---------------------------------------------------------------------------------- */

static void set_filter(struct top *t, const char *text)
{
	if (text != t->filter)
		memmove(t->filter, text, strlen(text) + 1);
	t->stale = true;
	t->first = 0;
}

static void drop_character(char *text)
{
	size_t n = strlen(text);
	while (n && ((unsigned char)text[n - 1] & 0xc0) == 0x80)
		n--;
	text[n ? n - 1 : 0] = '\0';
}

static void add_character(struct top *t, int c)
{
	unsigned u = (unsigned)c;
	size_t n = strlen(t->filter);
	char bytes[5] = {0};
	if (u < 0x80)
		bytes[0] = (char)u;
	else if (u < 0x800)
		bytes[0] = (char)(0xc0 | u >> 6), bytes[1] = (char)(0x80 | (u & 0x3f));
	else if (u < 0x10000)
		bytes[0] = (char)(0xe0 | u >> 12), bytes[1] = (char)(0x80 | (u >> 6 & 0x3f)),
		bytes[2] = (char)(0x80 | (u & 0x3f));
	else
		bytes[0] = (char)(0xf0 | u >> 18), bytes[1] = (char)(0x80 | (u >> 12 & 0x3f)),
		bytes[2] = (char)(0x80 | (u >> 6 & 0x3f)), bytes[3] = (char)(0x80 | (u & 0x3f));
	if (n + strlen(bytes) < TOP_FILTER_ROOM)
		memcpy(t->filter + n, bytes, strlen(bytes) + 1);
}

static void filter_key(struct top *t, int key)
{
	/* Letters are text in this mode. */
	if (key >= TOP_KEY_UP && move_key(t, key))
		return;
	if (key == TOP_KEY_ENTER || key == '\r') {
		t->mode = TOP_LIST;
	} else if (key == TOP_KEY_ESCAPE) {
		t->mode = TOP_LIST;
		set_filter(t, "");
	} else if (key == TOP_KEY_BACKSPACE || key == 127 || key == '\b') {
		if (!t->filter[0])
			t->mode = TOP_LIST;
		drop_character(t->filter);
		set_filter(t, t->filter);
	} else if (key == ('u' & 0x1f)) {
		set_filter(t, "");
	} else if (key >= ' ' && key < TOP_KEY_UP) {
		add_character(t, key);
		set_filter(t, t->filter);
	}
}

/* ---- Tags -------------------------------------------------------------------------------------- */

static void tag(struct top *t)
{
	const struct view_job *job = current(t);
	if (!job)
		return;
	for (size_t i = 0; i < t->num_tagged; i++)
		if (t->tagged[i] == job->id) {
			t->tagged[i] = t->tagged[--t->num_tagged];
			move_to(t, t->cursor + 1);
			return;
		}
	if (array_reserve(t->tagged, &t->tagged_capacity, t->num_tagged + 1) < 0) {
		top_say(t, true, "out of memory");
		return;
	}
	t->tagged[t->num_tagged++] = job->id;
	move_to(t, t->cursor + 1);
}

/* ---- Actions ------------------------------------------------------------------------------------- */

/* Whether the action applies to any of the chosen jobs; otherwise shows why not. */
static bool can(struct top *t, enum view_action action)
{
	const struct view_job *job = current(t);
	size_t count;
	const uint64_t *ids = top_chosen(t, &count);
	for (size_t i = 0; i < count; i++) {
		job = view_find_job(t->model, ids[i]);
		if (job && view_action_applies(action, job))
			return true;
	}
	const char *verb = action == VIEW_URGENT ? "make urgent" : view_action_name(action);
	if (count == 0 || !job)
		top_say(t, true, "no job to %s", verb);
	else if (count == 1)
		top_say(t, true, "job %llu is %s: nothing to %s", (unsigned long long)view_id_number(job->id),
			job->cancelling ? "being cancelled" : view_job_state_name(job->state), verb);
	else
		top_say(t, true, "the selected jobs include none to %s", verb);
	return false;
}

static void act(struct top *t, enum view_action action)
{
	t->action = action;
	if (!can(t, action))
		return;
	if (action == VIEW_CANCEL)
		t->mode = TOP_CONFIRM;
	else
		t->request = TOP_ACT;
}

static void confirm_key(struct top *t, int key)
{
	t->mode = TOP_LIST;
	if (key == 'y' || key == 'Y')
		t->request = TOP_ACT;
	else
		top_say(t, false, "no job was cancelled");
}

static void hold(struct top *t)
{
	const struct view_job *job = current(t);
	size_t count;
	const uint64_t *ids = top_chosen(t, &count);
	job = count ? view_find_job(t->model, ids[0]) : NULL;
	act(t, job && job->state == VIEW_JOB_HELD ? VIEW_RELEASE : VIEW_HOLD);
}

/* ---- All keys --------------------------------------------------------------------------------------- */

static void leave_marks(struct top *t)
{
	if (t->filter[0])
		set_filter(t, "");
	else
		t->num_tagged = 0;
}

static void ask(struct top *t, enum top_request request)
{
	if (current(t))
		t->request = request;
}

static bool action_key(struct top *t, int key)
{
	switch (key) {
	case 'c':
	case TOP_KEY_F9:
		act(t, VIEW_CANCEL);
		return true;
	case 'r':
		act(t, VIEW_RETRY);
		return true;
	case 'h':
		hold(t);
		return true;
	case 'u':
		act(t, VIEW_URGENT);
		return true;
	case ' ':
		tag(t);
		return true;
	case 'l':
		ask(t, TOP_OPEN_LOG);
		return true;
	case 'w':
	case '\r':
	case TOP_KEY_ENTER:
		ask(t, TOP_DETAILS);
		return true;
	default:
		return false;
	}
}

static void list_key(struct top *t, int key)
{
	if (move_key(t, key) || action_key(t, key))
		return;
	switch (key) {
	case 'q':
	case TOP_KEY_F10:
		t->request = TOP_QUIT;
		break;
	case '?':
	case TOP_KEY_F1:
		top_show_page(t, "keys", help);
		break;
	case '/':
	case TOP_KEY_F4:
		t->mode = TOP_FILTER;
		break;
	case 's':
	case TOP_KEY_F6:
		t->mode = TOP_SORT;
		t->sort_choice = order_index(t);
		break;
	case '<':
		set_order(t, order_index(t) - 1);
		break;
	case '>':
		set_order(t, order_index(t) + 1);
		break;
	case 'I':
		t->reverse = !t->reverse;
		t->stale = true;
		break;
	case '\t':
		t->states = (t->states + 1) % TOP_STATES;
		t->stale = true;
		break;
	case '{':
		t->gpu_first -= t->gpu_first > 0;
		break;
	case '}':
		t->gpu_first += t->gpu_hidden > 0;
		break;
	case TOP_KEY_ESCAPE:
		leave_marks(t);
		break;
	default:
		break;
	}
}

static void page_key(struct top *t, int key)
{
	if (key == TOP_KEY_UP || key == 'k')
		t->page_first -= t->page_first > 0;
	else if (key == TOP_KEY_DOWN || key == 'j')
		t->page_first++;
	else
		t->mode = TOP_LIST;
}

void top_key(struct top *t, int key)
{
	t->request = TOP_NOTHING;
	t->message[0] = '\0';
	/* The model may have changed since the last screen, so the list may point to old jobs. */
	if (top_list(t, t->now_ms) < 0)
		return;
	switch (t->mode) {
	case TOP_LIST:
		list_key(t, key);
		break;
	case TOP_FILTER:
		filter_key(t, key);
		break;
	case TOP_SORT:
		sort_key(t, key);
		break;
	case TOP_CONFIRM:
		confirm_key(t, key);
		break;
	case TOP_PAGE:
		page_key(t, key);
		break;
	case TOP_LOG:
		top_log_key(t, key);
		break;
	}
}
