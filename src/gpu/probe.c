/* SPDX-License-Identifier: MIT */
#include "gpu/probe.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "gpu/backend.h"
#include "gpu/probe_process.h"
#include "gpu/select.h"
#include "gpu/wire.h"

#define ANSWER_MS    5000
#define SLACK_MS     2000
#define XID_OFF_BUS  79
#define READ_AT_ONCE 65536
#define IDENTITY_BITS                                                                                                  \
	(GD_GPU_KNOWN_UUID | GD_GPU_KNOWN_NAME | GD_GPU_KNOWN_PCI_ID | GD_GPU_KNOWN_MEMORY_TOTAL |                     \
		GD_GPU_KNOWN_NUMA_NODE | GD_GPU_KNOWN_MIG | GD_GPU_KNOWN_LINKS)

struct probe_card {
	struct gpu_set last; /* its last answer, with its instances */
	bool off_bus;
};

struct gpu_probe {
	struct gpu_spec spec;
	struct prober_settings settings;
	struct probe_process process;
	bool unlimited;
	bool silent;
	bool lacks_driver;     /* a driver does not answer: its GPUs are unknown */
	struct gpu_set before; /* the list of an earlier probe */
	int timer_fd;          /* for simulated GPUs, in place of the process */
	struct text in;
	size_t taken;
	struct probe_card *cards;
	unsigned num_cards;
	struct gpu_set warnings; /* of the drivers */
};

/* ---- Simulated GPUs: no process, a timer for the news ------------------- */

static int sim_sample_all(const struct gpu_spec *spec, struct gpu_probe *p)
{
	void *state = NULL;
	int r = gpu_sim.open(spec, &p->warnings, &state, &p->num_cards);
	if (r < 0)
		return r;
	p->cards = calloc(p->num_cards, sizeof(*p->cards));
	if (!p->cards)
		r = -ENOMEM;
	for (unsigned i = 0; i < p->num_cards && r == 0; i++) {
		r = gpu_sim.sample(state, i, &p->cards[i].last);
		if (r == 0)
			p->cards[i].last.gpus[0].index = (int)i;
	}
	gpu_sim.close(state);
	return r;
}

static int sim_arm(struct gpu_probe *p)
{
	struct itimerspec soon = {
		.it_value.tv_nsec = 1,
		.it_interval.tv_sec = p->settings.period_ms / 1000,
		.it_interval.tv_nsec = (long)(p->settings.period_ms % 1000 * NS_PER_MS),
	};
	return timerfd_settime(p->timer_fd, 0, &soon, NULL) < 0 ? -errno : 0;
}

static int sim_read(struct gpu_probe *p, struct gpu_news *ret)
{
	uint64_t ticks;
	if (read(p->timer_fd, &ticks, sizeof(ticks)) < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	*ret = (struct gpu_news){.kind = GPU_NEWS_ROUND};
	return 1;
}

/* ---- Opening and closing ------------------------------------------------ */

static int start(struct gpu_probe *p)
{
	if (!p->spec.sim_count)
		return probe_process_start(&p->settings, &p->process);
	p->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (p->timer_fd < 0)
		return -errno;
	int r = sim_sample_all(&p->spec, p);
	return r < 0 ? r : sim_arm(p);
}

/* Tests with a hanging driver shorten this time. */
static unsigned default_answer_ms(void)
{
	const char *text = getenv("GPUQ_ANSWER_MS");
	int64_t ms;
	return text && units_parse_integer(text, 1, 3600 * 1000, &ms, NULL) == 0 ? (unsigned)ms : ANSWER_MS;
}

int gpu_probe_open(const struct gpu_probe_options *options, struct gpu_probe **ret, struct gd_error *err)
{
	struct gpu_probe *p = calloc(1, sizeof(*p));
	if (!p)
		return error_set(err, -ENOMEM, "cannot query GPUs: out of memory");
	p->process = PROBE_PROCESS_NONE;
	p->timer_fd = -1;
	p->settings.period_ms = options->period_ms;
	p->settings.answer_ms = options->answer_ms ? options->answer_ms : default_answer_ms();
	p->settings.events = options->events;
	p->unlimited = options->machine != NULL;
	p->silent = options->silent;
	int r = gpu_spec_parse(options->spec, options->machine, &p->spec, err);
	for (size_t i = 0; r == 0 && options->last && i < options->last->count; i++)
		if (gpu_set_add(&p->before, options->last->gpus[i]) < 0)
			r = error_set(err, -ENOMEM, "cannot query GPUs: out of memory");
	if (r == 0) {
		r = start(p);
		if (r < 0)
			error_set(err, r, "cannot query GPUs: cannot start the probe process: %s", error_words(r));
	}
	if (r < 0) {
		gpu_probe_close(p);
		return r;
	}
	*ret = p;
	return 0;
}

void gpu_probe_close(struct gpu_probe *p)
{
	if (!p)
		return;
	probe_process_end(&p->process);
	closep(&p->timer_fd);
	for (unsigned i = 0; i < p->num_cards && p->cards; i++)
		gpu_set_finish(&p->cards[i].last);
	free(p->cards);
	gpu_set_finish(&p->warnings);
	gpu_set_finish(&p->before);
	gpu_spec_finish(&p->spec);
	text_finish(&p->in);
	free(p);
}

int gpu_probe_fd(const struct gpu_probe *p)
{
	return p->spec.sim_count ? p->timer_fd : p->process.fd;
}

int gpu_probe_select(struct gpu_probe *p, const char *spec, struct gd_error *err)
{
	struct gpu_spec fresh = {0};
	char machine[GPU_MACHINE_SIZE];
	gpu_probe_machine(p, machine);
	int r = gpu_spec_parse(spec, machine, &fresh, err);
	if (r < 0)
		return r;
	gpu_spec_finish(&p->spec);
	p->spec = fresh;
	return 0;
}

void gpu_probe_machine(const struct gpu_probe *p, char ret[GPU_MACHINE_SIZE])
{
	gpu_spec_machine(&p->spec, ret);
}

pid_t gpu_probe_pid(const struct gpu_probe *p)
{
	return p->process.ref.pid;
}

/* ---- Records from the process ---------------------------------------------- */

/* A card that does not answer keeps its identity; its usage becomes unknown. */
static void mark_sick(struct gpu_set *last, enum gd_gpu_health health)
{
	for (size_t i = 0; i < last->count; i++) {
		struct gd_gpu *gpu = &last->gpus[i];
		gpu->health = health;
		gpu->known &= IDENTITY_BITS;
		free((void *)gpu->processes);
		gpu->processes = NULL;
		gpu->num_processes = 0;
	}
}

static void replace(struct gpu_set *a, struct gpu_set *b)
{
	gpu_set_finish(a);
	*a = *b;
	*b = (struct gpu_set){0};
}

static int learn_card(struct gpu_probe *p, unsigned index, struct gpu_set *said)
{
	if (index >= p->num_cards || said->count == 0)
		return -EBADMSG;
	struct probe_card *card = &p->cards[index];
	enum gd_gpu_health health = said->gpus[0].health;
	if (health == GD_GPU_HEALTH_OK || card->last.count == 0) {
		replace(&card->last, said);
	} else {
		mark_sick(&card->last, health);
		gpu_set_swap_warnings(said, &card->last);
	}
	if (card->off_bus)
		mark_sick(&card->last, GD_GPU_HEALTH_LOST);
	return 0;
}

/* The cards, with their identity from an earlier probe. */
static int learn_cards(struct gpu_probe *p, unsigned count, struct gpu_set *warnings)
{
	if (p->cards)
		return -EBADMSG;
	p->cards = calloc((size_t)count + 1, sizeof(*p->cards));
	if (!p->cards)
		return -ENOMEM;
	p->num_cards = count;
	replace(&p->warnings, warnings);
	for (size_t i = 0; i < p->before.count; i++) {
		int index = p->before.gpus[i].index;
		if (index < 0 || (unsigned)index >= count)
			continue;
		if (gpu_set_add(&p->cards[index].last, &p->before.gpus[i]) < 0)
			return -ENOMEM;
		mark_sick(&p->cards[index].last, GD_GPU_HEALTH_NOT_ANSWERING);
	}
	return 0;
}

static int learn(struct gpu_probe *p, const struct wire_record *record, struct gpu_set *said, struct gpu_news *ret)
{
	switch ((enum wire_kind)record->kind) {
	case WIRE_READY:
		return 0;
	case WIRE_CARDS:
		p->lacks_driver = record->card != 0;
		return learn_cards(p, record->value, said);
	case WIRE_CARD:
		*ret = (struct gpu_news){.kind = GPU_NEWS_CARD, .index = (int)record->card};
		int r = learn_card(p, record->card, said);
		return r < 0 ? r : 1;
	case WIRE_XID:
		if (record->card >= p->num_cards)
			return -EBADMSG;
		*ret = (struct gpu_news){.kind = GPU_NEWS_XID, .index = (int)record->card, .xid = record->value};
		if (record->value == XID_OFF_BUS) {
			p->cards[record->card].off_bus = true;
			mark_sick(&p->cards[record->card].last, GD_GPU_HEALTH_LOST);
		}
		return 1;
	case WIRE_ROUND:
		*ret = (struct gpu_news){.kind = GPU_NEWS_ROUND};
		return 1;
	}
	return -EBADMSG;
}

/* Returns 1 and an event from the bytes read so far, or 0 if more must be read first. */
static int next_news(struct gpu_probe *p, struct gpu_news *ret)
{
	while (p->taken < p->in.length) {
		struct wire_record record;
		cleanup_(gpu_set_finish) struct gpu_set said = {0};
		int size = wire_take(p->in.data + p->taken, p->in.length - p->taken, &record, &said);
		if (size <= 0)
			return size;
		p->taken += (size_t)size;
		int r = learn(p, &record, &said, ret);
		if (r != 0)
			return r;
	}
	return 0;
}

/* Returns the number of bytes received, or 0; -EPIPE at the end of the stream. */
static ssize_t read_more(struct gpu_probe *p)
{
	char bytes[READ_AT_ONCE];
	ssize_t n = recv(p->process.fd, bytes, sizeof(bytes), 0);
	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return -EPIPE;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	size_t left = p->in.length - p->taken;
	if (p->taken > 0 && left > 0)
		memmove(p->in.data, p->in.data + p->taken, left);
	p->in.length = left;
	p->taken = 0;
	text_append(&p->in, bytes, (size_t)n);
	return text_error(&p->in) ? text_error(&p->in) : n;
}

int gpu_probe_read(struct gpu_probe *p, struct gpu_news *ret)
{
	if (p->spec.sim_count)
		return sim_read(p, ret);
	for (;;) {
		int r = next_news(p, ret);
		if (r == -EBADMSG)
			return -EPIPE;
		if (r != 0)
			return r;
		ssize_t n = read_more(p);
		if (n <= 0)
			return (int)n;
	}
}

/* ---- The list of GPUs --------------------------------------------------- */

/* Makes links symmetric: a link may have been queried when only one of the two cards had answered. */
static void mirror_links(struct gpu_set *all)
{
	for (size_t i = 0; i < all->count; i++)
		for (size_t k = 0; k < all->count; k++) {
			const struct gd_gpu *a = &all->gpus[i];
			struct gd_gpu *b = &all->gpus[k];
			if (a->known & b->known & GD_GPU_KNOWN_LINKS && a->vendor == b->vendor &&
				a->vendor_index < 64 && b->vendor_index < 64 && a->links >> b->vendor_index & 1)
				b->links |= UINT64_C(1) << a->vendor_index;
		}
}

static int collect(const struct gpu_probe *p, struct gpu_set *ret)
{
	cleanup_(gpu_set_finish) struct gpu_set all = {0};
	int r = 0;
	for (size_t i = 0; i < p->warnings.num_warnings && r == 0; i++)
		r = gpu_set_warn(&all, "%s", p->warnings.warnings[i]);
	for (unsigned c = 0; c < p->num_cards && r == 0; c++) {
		const struct gpu_set *last = &p->cards[c].last;
		for (size_t i = 0; i < last->count && r == 0; i++)
			r = gpu_set_add(&all, &last->gpus[i]);
		for (size_t i = 0; i < last->num_warnings && r == 0; i++)
			r = gpu_set_warn(&all, "GPU %u %s", c, last->warnings[i]);
	}
	mirror_links(&all);
	if (r == 0 && p->spec.sim_count == 0 && !p->unlimited)
		r = gpu_limit(&all);
	if (r == 0 && p->num_cards == 0 && p->spec.sim_count == 0 && !p->unlimited && !p->lacks_driver)
		r = gpu_grant(&all);
	if (r < 0)
		return r;
	*ret = all;
	all = (struct gpu_set){0};
	return 0;
}

int gpu_probe_list(const struct gpu_probe *p, struct gd_gpu_list **ret, struct gd_error *err)
{
	cleanup_(gpu_set_finish) struct gpu_set there = {0};
	cleanup_(gpu_set_finish) struct gpu_set chosen = {0};
	int r = collect(p, &there);
	if (r < 0)
		return error_set(err, r, "cannot list GPUs: out of memory");
	r = gpu_select(&there, &p->spec, &chosen, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < there.count && p->silent && p->spec.kind == GPU_SPEC_ALL && r == 0; i++)
		if (there.gpus[i].health == GD_GPU_HEALTH_NOT_ANSWERING && there.gpus[i].mig_index < 0)
			r = gpu_set_add(&chosen, &there.gpus[i]);
	if (r < 0)
		return error_set(err, r, "cannot list GPUs: out of memory");
	r = gpu_set_to_list(&chosen, ret);
	return r < 0 ? error_set(err, r, "cannot list GPUs: out of memory") : 0;
}

/* The probe process limits the time of drivers; this limit is for a probe process that does not run. */
static int wait_for_round(struct gpu_probe *p)
{
	uint64_t wait_ns = (p->settings.answer_ms + SLACK_MS) * NS_PER_MS;
	uint64_t deadline_ns = clock_now_ns() + wait_ns;
	for (;;) {
		struct gpu_news news;
		int r = gpu_probe_read(p, &news);
		if (r < 0)
			return r;
		if (r > 0 && news.kind == GPU_NEWS_ROUND)
			return 0;
		if (r > 0) {
			deadline_ns = clock_now_ns() + wait_ns;
			continue;
		}
		struct pollfd ready = {.fd = gpu_probe_fd(p), .events = POLLIN};
		r = poll(&ready, 1, clock_ms_until(deadline_ns, clock_now_ns()));
		if (r < 0 && errno != EINTR)
			return -errno;
		if (r == 0)
			return -ETIMEDOUT;
	}
}

int gpu_probe_once(
	const struct gpu_probe_options *options, struct gpu_spec *ret_spec, struct gpu_set *ret, struct gd_error *err)
{
	struct gpu_probe *p;
	int r = gpu_probe_open(options, &p, err);
	if (r < 0)
		return r;
	r = wait_for_round(p);
	if (r == -EPIPE) {
		probe_process_end(&p->process);
		if (p->process.exit_signal && p->process.exit_signal != SIGKILL)
			r = error_set(err, -EIO, "cannot query GPUs: the driver crashed the probe process (%s)",
				sigdescr_np(p->process.exit_signal));
		else
			r = error_set(err, -EIO, "cannot query GPUs: the probe process has ended");
	} else if (r < 0) {
		error_set(err, r, "cannot query GPUs: %s", error_words(r));
	} else {
		r = collect(p, ret);
		if (r < 0)
			error_set(err, r, "cannot list GPUs: out of memory");
	}
	if (r == 0) {
		*ret_spec = p->spec;
		p->spec = (struct gpu_spec){0};
	}
	gpu_probe_close(p);
	return r;
}
