/* SPDX-License-Identifier: MIT */
#include "view/model/palette.h"

const char *palette_escape(enum palette_color color)
{
	/* Bright blue: plain blue is unreadable on black. Dim, not bright black: some themes use that as background.
	 */
	static const char *const escapes[PALETTE_COLORS] = {
		[PALETTE_PLAIN] = "",
		[PALETTE_GRAY] = "\033[2m",
		[PALETTE_BLUE] = "\033[94m",
		[PALETTE_GREEN] = "\033[32m",
		[PALETTE_RED] = "\033[31m",
		[PALETTE_YELLOW] = "\033[33m",
		[PALETTE_MAGENTA] = "\033[35m",
		[PALETTE_CYAN] = "\033[36m",
	};
	return (unsigned)color < PALETTE_COLORS ? escapes[color] : "";
}

static const enum palette_color job_colors[VIEW_JOB_STATES] = {
	[VIEW_JOB_PENDING] = PALETTE_GRAY,
	[VIEW_JOB_HELD] = PALETTE_YELLOW,
	[VIEW_JOB_RUNNING] = PALETTE_BLUE,
	[VIEW_JOB_COMPLETED] = PALETTE_GREEN,
	[VIEW_JOB_FAILED] = PALETTE_RED,
	[VIEW_JOB_CANCELLED] = PALETTE_MAGENTA,
	[VIEW_JOB_UNKNOWN] = PALETTE_CYAN,
};

static const struct {
	const char *sign;
	enum palette_color color;
} gpus[VIEW_GPU_STATUSES] = {
	[VIEW_GPU_IDLE] = {"○", PALETTE_GRAY},
	[VIEW_GPU_INITIALIZING] = {"◐", PALETTE_YELLOW},
	[VIEW_GPU_PROCESSING] = {"●", PALETTE_BLUE},
	[VIEW_GPU_FINISHED] = {"✓", PALETTE_GREEN},
	[VIEW_GPU_ERROR] = {"✗", PALETTE_RED},
};

enum palette_color palette_of_job(enum view_job_state state)
{
	return (unsigned)state < VIEW_JOB_STATES ? job_colors[state] : PALETTE_PLAIN;
}

enum palette_color palette_of_gpu(enum view_gpu_status status)
{
	return (unsigned)status < VIEW_GPU_STATUSES ? gpus[status].color : PALETTE_RED;
}

const char *palette_sign_of_gpu(enum view_gpu_status status)
{
	return (unsigned)status < VIEW_GPU_STATUSES ? gpus[status].sign : gpus[VIEW_GPU_ERROR].sign;
}

const char *palette_job_word(const struct view_job *job)
{
	if (job->cancelling)
		return "ending";
	if (job->paused)
		return "paused";
	return view_job_is_idle(job) ? "GPU idle" : view_job_state_name(job->state);
}

enum palette_color palette_color_of(const struct view_job *job)
{
	if (job->cancelling)
		return job_colors[VIEW_JOB_CANCELLED];
	return job->paused || view_job_is_idle(job) ? PALETTE_YELLOW : palette_of_job(job->state);
}

/* ---- Pages ------------------------------------------------------------------------------ */

/* Contrast of text on the page's panels: at least 4.5 to 1. */
static const struct {
	const char *light, *dark;
} pages[PALETTE_COLORS] = {
	[PALETTE_GRAY] = {"#6b7482", "#98a2b3"},
	[PALETTE_BLUE] = {"#2560d3", "#7aa7ff"},
	[PALETTE_GREEN] = {"#1b7a43", "#62c98b"},
	[PALETTE_RED] = {"#c22f2f", "#ff8080"},
	[PALETTE_YELLOW] = {"#8a5a00", "#e0b05a"},
	[PALETTE_MAGENTA] = {"#9c2f8f", "#e08ad4"},
	[PALETTE_CYAN] = {"#0f7285", "#63c5d8"},
};

/* The color of memory, which is not a state. It is next to utilization, which is blue like running jobs. */
#define MEMORY_LIGHT "#7a5af0"
#define MEMORY_DARK  "#ab96ff"

static void put_values(struct text *t, bool dark)
{
	text_append_string(t, ":root{");
	for (int i = 0; i < VIEW_JOB_STATES; i++) {
		enum palette_color color = job_colors[i];
		text_appendf(t, "--%s:%s;", view_job_state_name((enum view_job_state)i),
			dark ? pages[color].dark : pages[color].light);
	}
	text_appendf(t, "--memory:%s}", dark ? MEMORY_DARK : MEMORY_LIGHT);
}

void palette_put_css(struct text *t)
{
	put_values(t, false);
	text_append_string(t, "\n@media screen and (prefers-color-scheme:dark){");
	put_values(t, true);
	text_append_string(t, "}\n");
}
