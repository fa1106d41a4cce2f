/* SPDX-License-Identifier: MIT */
#include "cli/stop_signals.h"

#include <signal.h>
#include <stddef.h>

static void (*stop_run)(void *run);
static void *volatile attached;
static volatile sig_atomic_t stops_so_far;
static int last_stop;

static void on_signal(int number)
{
	int stops = number == SIGINT ? 1 : 2;
	stops_so_far += stops;
	for (int i = 0; attached && i < stops; i++)
		stop_run(attached);
	if (last_stop && stops_so_far >= last_stop)
		signal(number, SIG_DFL);
}

void stop_signals_catch(void (*stop)(void *run), int last)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
	stop_run = stop;
	last_stop = last;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* exceeding the file size limit is an error like a full disk */
}

void stop_signals_attach(void *run)
{
	attached = run;
	for (int i = 0; i < stops_so_far; i++)
		stop_run(run);
}

void stop_signals_detach(void)
{
	attached = NULL;
}

int stop_signals_count(void)
{
	return stops_so_far;
}
