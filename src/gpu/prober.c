/* SPDX-License-Identifier: MIT */
#include "gpu/prober.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/pidref.h"
#include "base/signals.h"
#include "base/text.h"
#include "gpu/prober_card.h"
#include "gpu/prober_threads.h"
#include "gpu/wire.h"

#define NUM_DRIVERS    2
#define PARENT_LOOK_MS 1000

static const struct gpu_backend *const drivers[NUM_DRIVERS] = {&gpu_nvml, &gpu_amd};

struct driver {
	struct prober *prober;
	const struct gpu_backend *backend;
	bool opened; /* written by its thread, under the lock */
	bool given_up;
	void *state;
	unsigned num_cards;
	struct gpu_set warnings;
	unsigned first_card;
	bool watched; /* its thread for events runs */
};

struct prober {
	const struct prober_settings *settings;
	int socket;
	struct pidref parent;
	struct prober_threads threads;
	struct driver drivers[NUM_DRIVERS];
	struct prober_card *cards;
	unsigned num_cards;
	struct gpu_event *events; /* under the lock; cards by index */
	size_t num_events, events_capacity;
	struct text out;
	size_t sent;
	bool started;    /* the parent has started the probe */
	bool round_told; /* WIRE_ROUND was sent */
	uint64_t met_ns; /* latest time at which a card gave its first answer */
	uint64_t tick_ns;
	bool lacks_driver;  /* a driver did not open in time */
	uint64_t opened_ns; /* when the other drivers had opened */
};

/* ---- Threads that call drivers ------------------------------------------ */

static void *open_driver(void *arg)
{
	struct driver *d = arg;
	void *state = NULL;
	unsigned num_cards = 0;
	struct gpu_set warnings = {0};
	if (d->backend->open(NULL, &warnings, &state, &num_cards) < 0)
		prober_leave();
	pthread_mutex_lock(&d->prober->threads.lock);
	d->state = state;
	d->num_cards = num_cards;
	d->warnings = warnings;
	d->opened = true;
	pthread_mutex_unlock(&d->prober->threads.lock);
	prober_threads_wake(&d->prober->threads);
	return NULL;
}

static void *wait_for_events(void *arg)
{
	struct driver *d = arg;
	struct prober *p = d->prober;
	for (;;) {
		struct gpu_event event;
		if (d->backend->wait_event(d->state, &event) == 0)
			continue;
		event.card += d->first_card;
		pthread_mutex_lock(&p->threads.lock);
		if (array_reserve(p->events, &p->events_capacity, p->num_events + 1) < 0)
			prober_leave();
		p->events[p->num_events++] = event;
		pthread_mutex_unlock(&p->threads.lock);
		prober_threads_wake(&p->threads);
	}
	return NULL;
}

/* ---- The first thread --------------------------------------------------- */

static void send_out(struct prober *p)
{
	if (text_error(&p->out))
		prober_leave();
	while (p->sent < p->out.length) {
		ssize_t n = send(p->socket, p->out.data + p->sent, p->out.length - p->sent, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0)
			prober_leave();
		p->sent += (size_t)n;
	}
	text_clear(&p->out);
	p->sent = 0;
}

/* The byte with which the parent starts the probe, or the end of the stream. */
static void read_parent(struct prober *p)
{
	char bytes[64];
	ssize_t n = recv(p->socket, bytes, sizeof(bytes), 0);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		prober_leave();
	if (n > 0)
		p->started = true;
}

/* Waits for an event or the deadline. Exits if the parent has ended. */
static void wait_until(struct prober *p, uint64_t deadline_ns)
{
	struct pollfd fds[] = {
		{.fd = p->socket, .events = POLLIN},
		{.fd = p->parent.fd, .events = POLLIN},
		{.fd = p->threads.wake_fd, .events = POLLIN},
	};
	if (p->sent < p->out.length)
		fds[0].events |= POLLOUT;
	int timeout = deadline_ns == UINT64_MAX ? -1 : clock_ms_until(deadline_ns, clock_now_ns());
	/* Without a descriptor for the parent (see pidref.h), one of its children may keep the socket open. */
	if (p->parent.fd < 0 && (timeout < 0 || timeout > PARENT_LOOK_MS))
		timeout = PARENT_LOOK_MS;
	int n = poll(fds, sizeof(fds) / sizeof(*fds), timeout);
	if (n < 0 && errno != EINTR)
		prober_leave();
	if (getppid() != p->settings->parent)
		prober_leave();
	if (n <= 0)
		return;
	if (fds[1].revents)
		prober_leave();
	if (fds[0].revents & ~POLLOUT)
		read_parent(p);
	if (fds[2].revents) {
		uint64_t count;
		ssize_t got = read(p->threads.wake_fd, &count, sizeof(count));
		(void)got;
	}
}

static bool all_opened(struct prober *p)
{
	bool all = true;
	pthread_mutex_lock(&p->threads.lock);
	for (size_t i = 0; i < NUM_DRIVERS; i++)
		all &= p->drivers[i].opened;
	pthread_mutex_unlock(&p->threads.lock);
	return all;
}

/*
 * A driver that does not open in time is ignored, because its cards could not be numbered. Another process tries again.
 */
static void open_drivers(struct prober *p, struct gpu_set *warnings)
{
	for (size_t i = 0; i < NUM_DRIVERS; i++) {
		struct driver *d = &p->drivers[i];
		*d = (struct driver){.prober = p, .backend = drivers[i]};
		if (prober_threads_start(open_driver, d) < 0)
			prober_leave();
	}
	uint64_t deadline_ns = clock_now_ns() + p->settings->answer_ms * NS_PER_MS;
	while (!all_opened(p) && clock_now_ns() < deadline_ns)
		wait_until(p, deadline_ns);

	int r = 0;
	pthread_mutex_lock(&p->threads.lock);
	for (size_t i = 0; i < NUM_DRIVERS; i++) {
		struct driver *d = &p->drivers[i];
		d->given_up = !d->opened;
		p->lacks_driver |= d->given_up;
		if (d->given_up && r == 0)
			r = gpu_set_warn(
				warnings, "%s does not answer: none of its GPUs can be used", d->backend->driver);
		for (size_t k = 0; !d->given_up && k < d->warnings.num_warnings && r == 0; k++)
			r = gpu_set_warn(warnings, "%s", d->warnings.warnings[k]);
	}
	pthread_mutex_unlock(&p->threads.lock);
	p->opened_ns = clock_now_ns();
	if (r < 0)
		prober_leave();
}

static void ask_all(struct prober *p)
{
	for (unsigned i = 0; i < p->num_cards; i++)
		prober_card_ask(&p->cards[i]);
}

static struct driver *driver_of(struct prober *p, unsigned card)
{
	struct driver *d = p->drivers;
	while (d->given_up || card >= d->first_card + d->num_cards)
		d++;
	return d;
}

static void start_cards(struct prober *p, const struct gpu_set *warnings)
{
	for (size_t i = 0; i < NUM_DRIVERS; i++) {
		p->drivers[i].first_card = p->num_cards;
		p->num_cards += p->drivers[i].given_up ? 0 : p->drivers[i].num_cards;
	}
	p->cards = calloc(p->num_cards + 1, sizeof(*p->cards));
	if (!p->cards)
		prober_leave();
	wire_put(&p->out, WIRE_CARDS, p->lacks_driver, p->num_cards, warnings);
	for (unsigned i = 0; i < p->num_cards; i++) {
		struct prober_card *c = &p->cards[i];
		const struct driver *d = driver_of(p, i);
		*c = (struct prober_card){
			.threads = &p->threads,
			.backend = d->backend,
			.driver_state = d->state,
			.number = i - d->first_card,
			.index = i,
			.wants_events = p->settings->events,
		};
		if (prober_card_start(c) < 0) {
			c->busy = true;
			prober_card_give_up(c, p->settings->answer_ms);
			prober_card_put_sick(
				c, GD_GPU_HEALTH_UNREADABLE, "cannot be queried: cannot start a thread", &p->out);
		}
	}
}

static void take_answer(struct prober *p, struct prober_card *c)
{
	struct gpu_set answer;
	bool watching, first = !c->met;
	if (!prober_card_take(c, &answer, &watching))
		return;
	wire_put(&p->out, WIRE_CARD, c->index, 0, &answer);
	gpu_set_finish(&answer);
	if (first)
		p->met_ns = clock_now_ns();
	struct driver *d = driver_of(p, c->index);
	if (watching && !d->watched)
		d->watched = prober_threads_start(wait_for_events, d) == 0;
}

static uint64_t card_deadline(const struct prober *p, const struct prober_card *c)
{
	return prober_card_deadline(c, p->met_ns, p->settings->answer_ms);
}

static void look_at_card(struct prober *p, struct prober_card *c)
{
	take_answer(p, c);
	if (c->busy && !c->given_up && clock_now_ns() >= card_deadline(p, c)) {
		prober_card_give_up(c, p->settings->answer_ms);
		prober_card_put_sick(c, GD_GPU_HEALTH_NOT_ANSWERING, "does not answer", &p->out);
	}
	if (c->given_up && clock_now_ns() >= c->replace_ns) {
		/* The parent starts another process. */
		if (c->replacements == PROBER_CARD_REPLACEMENTS)
			prober_leave();
		prober_card_replace(c, p->settings->answer_ms);
	}
}

static void take_events(struct prober *p)
{
	pthread_mutex_lock(&p->threads.lock);
	struct gpu_event *events = p->events;
	size_t num_events = p->num_events;
	p->events = NULL;
	p->num_events = p->events_capacity = 0;
	pthread_mutex_unlock(&p->threads.lock);
	for (size_t i = 0; i < num_events; i++) {
		if (events[i].card >= p->num_cards)
			continue;
		wire_put(&p->out, WIRE_XID, events[i].card, events[i].xid, NULL);
		prober_card_ask(&p->cards[events[i].card]);
	}
	free(events);
}

/* Reports once that each card has answered or been given up. */
static void tell_round(struct prober *p)
{
	for (unsigned i = 0; i < p->num_cards; i++)
		if (!p->cards[i].given_up && !p->cards[i].met)
			return;
	if (!p->round_told)
		wire_put(&p->out, WIRE_ROUND, 0, 0, NULL);
	p->round_told = true;
}

/* The time at which the next card is given up or queried by another thread, or of the next tick. */
static uint64_t next_deadline(const struct prober *p)
{
	uint64_t next = p->settings->period_ms ? p->tick_ns : UINT64_MAX;
	for (unsigned i = 0; i < p->num_cards; i++) {
		const struct prober_card *c = &p->cards[i];
		if (c->busy && !c->given_up && card_deadline(p, c) < next)
			next = card_deadline(p, c);
		if (c->given_up && c->replace_ns < next)
			next = c->replace_ns;
	}
	return next;
}

/* A parent that does not read gets no more samples until it does. */
static bool is_time(struct prober *p)
{
	uint64_t now_ns = clock_now_ns();
	if (!p->settings->period_ms || now_ns < p->tick_ns)
		return false;
	p->tick_ns = now_ns + p->settings->period_ms * NS_PER_MS;
	return p->sent == p->out.length;
}

/*
 * The time at which another process is tried for a driver that did not open in time: its cards can no longer be
 * numbered here.
 */
static uint64_t reopen_deadline(const struct prober *p)
{
	return p->opened_ns + (p->settings->answer_ms * NS_PER_MS << PROBER_CARD_REPLACEMENTS);
}

/* The parent starts another process, in which the driver opens in time, or is given up again. */
static void leave_for_drivers(struct prober *p)
{
	bool leave = false;
	pthread_mutex_lock(&p->threads.lock);
	for (size_t i = 0; i < NUM_DRIVERS; i++)
		leave |= p->drivers[i].given_up && p->drivers[i].opened && p->drivers[i].num_cards > 0;
	pthread_mutex_unlock(&p->threads.lock);
	if (p->settings->period_ms && (leave || (p->lacks_driver && clock_now_ns() >= reopen_deadline(p))))
		prober_leave();
}

static _Noreturn void serve(struct prober *p)
{
	p->tick_ns = clock_now_ns() + p->settings->period_ms * NS_PER_MS;
	ask_all(p);
	for (;;) {
		if (is_time(p))
			ask_all(p);
		for (unsigned i = 0; i < p->num_cards; i++)
			look_at_card(p, &p->cards[i]);
		leave_for_drivers(p);
		take_events(p);
		tell_round(p);
		send_out(p);
		wait_until(p, next_deadline(p));
	}
}

/* ---- Becoming the probe process ----------------------------------------- */

static int take_over_fds(int socket)
{
	int kept = fcntl(socket, F_DUPFD, 3);
	int null = open("/dev/null", O_RDWR);
	if (kept < 0 || null < 0)
		prober_leave();
	for (int fd = 0; fd < 3; fd++)
		if (dup2(null, fd) < 0)
			prober_leave();
	if (kept != 3 && dup2(kept, 3) < 0)
		prober_leave();
	file_close_range(4, INT_MAX); /* a fork without exec does not close them */
	return 3;
}

static void reset_signals(void)
{
	signals_reset();
	sigset_t none;
	sigemptyset(&none);
	pthread_sigmask(SIG_SETMASK, &none, NULL);
}

/*
 * A fork of a program with threads inherits the locks that they held at that moment, and no thread releases them. The
 * locks that we need are tried before we report that we run; the parent notices if we hang here, and forks again.
 */
static void say_ready(struct prober *p)
{
	void *self = dlopen(NULL, RTLD_LAZY);
	if (self)
		dlclose(self);
	wire_put(&p->out, WIRE_READY, 0, 0, NULL);
	send_out(p);
}

void prober_main(const struct prober_settings *settings)
{
	struct prober prober = {.settings = settings};
	struct prober *p = &prober;
	setsid();
	reset_signals();
	prctl(PR_SET_NAME, "gpuq-probe");
	p->socket = take_over_fds(settings->socket);
	int r = pidref_open(settings->parent, &p->parent);
	if (r < 0 || prober_threads_init(&p->threads) < 0 || getppid() != settings->parent)
		prober_leave();

	/* The parent opens its pidfd before it starts the probe, so a driver may crash us only after this. */
	while (!p->started)
		wait_until(p, UINT64_MAX);
	say_ready(p);
	struct gpu_set warnings = {0};
	open_drivers(p, &warnings);
	start_cards(p, &warnings);
	serve(p);
}
