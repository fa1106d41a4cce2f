/* SPDX-License-Identifier: MIT */
/*
 * A persistent program for the tests, after docs/worker-protocol.md: its first argument selects what it does in setup,
 * and the name of a file what it does with that file. It writes its input to FOLDER/heard.
 *
 *     speaker MODE FOLDER
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *folder;
static char *line;
static size_t room;

static bool hear(void)
{
	if (getline(&line, &room, stdin) < 0)
		return false;
	char path[512];
	snprintf(path, sizeof(path), "%s/heard", folder);
	FILE *f = fopen(path, "ae");
	if (!f)
		exit(9);
	fputs(line, f);
	fclose(f);
	return true;
}

static void note(const char *name, long number)
{
	char path[512], before[520];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	snprintf(before, sizeof(before), "%s.new", path);
	FILE *f = fopen(before, "we");
	if (!f)
		exit(9);
	fprintf(f, "%ld\n", number);
	fclose(f);
	rename(before, path);
}

static void say(const char *text)
{
	fputs(text, stdout);
	fputc('\n', stdout);
	fflush(stdout);
}

static void say_much(char first, size_t size)
{
	putchar(first);
	for (size_t i = 1; i < size; i++)
		putchar('x');
	putchar('\n');
	fflush(stdout);
}

/* Some are outside its session: these must be found, too. */
static void start_children(void)
{
	for (int i = 0; i < 2; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			if (i == 1)
				setsid();
			for (;;)
				pause();
		}
		note(i == 0 ? "child" : "other", (long)pid);
	}
}

static _Noreturn void hang(bool deaf)
{
	if (deaf)
		signal(SIGTERM, SIG_IGN);
	note("hangs", (long)getpid());
	for (;;)
		pause();
}

static void set_up(const char *mode)
{
	if (strcmp(mode, "deaf") == 0)
		hang(true);
	if (strcmp(mode, "gone") == 0) {
		fprintf(stderr, "no module named torch\n");
		exit(4);
	}
	if (strcmp(mode, "noisy") == 0) {
		say("Loading the model\xff…\n\n[1, 2]\nnull");
		say_much('=', 10 << 20);
	}
	if (!hear())
		exit(8);
	if (strcmp(mode, "refuses") == 0)
		say("{\"type\":\"error\",\"error\":\"no model \\\"x\\\"\\nhere\"}");
	else if (strcmp(mode, "mute") == 0)
		say("not a word of JSON");
	else if (strcmp(mode, "early") == 0)
		say("{\"id\":0,\"ok\":true}");
	else if (strcmp(mode, "broken") == 0)
		say("{\"type\":ready}");
	else if (strcmp(mode, "chatty") == 0)
		say("{\"type\":\"news\",\"ready\":false}\n{\"type\":\"ready\",\"more\":[{}]}");
	else
		say("{\"type\":\"ready\"}");
}

static bool asked(const char *what)
{
	const char *name = strstr(line, "\",\"output_dir");
	while (name && name > line && name[-1] != '/')
		name--;
	return name && strncmp(name, what, strlen(what)) == 0;
}

/* True if there is nothing more to send. */
static bool go_wrong(long long id)
{
	if (asked("exit3"))
		fprintf(stderr, "one\nout of ideas\n\n"), exit(3);
	if (asked("segv"))
		signal(SIGSEGV, SIG_DFL), raise(SIGSEGV);
	if (asked("hang"))
		hang(asked("hang-deaf"));
	if (asked("close")) {
		close(STDOUT_FILENO);
		hang(false);
	}
	if (asked("children"))
		start_children(), hang(false);
	if (asked("wrong-id"))
		return printf("{\"id\":%lld,\"ok\":true}\n", id + 70), fflush(stdout), true;
	if (asked("broken"))
		return say("{\"id\":1,\"ok\":tru"), true;
	if (asked("long"))
		return say_much('{', 10 << 20), true;
	if (asked("endless")) {
		for (;;)
			fwrite("{\"id\":0,", 1, 8, stdout);
	}
	if (asked("gives-up"))
		return say("{\"type\":\"error\",\"error\":\"CUDA is gone\"}"), true;
	if (asked("fails"))
		return printf("{\"id\":%lld,\"ok\":false,\"error\":\"not \\u00e0 picture\"}\n", id), fflush(stdout),
		       true;
	if (asked("refuses"))
		return printf("{\"id\":%lld,\"ok\":false}\n", id), fflush(stdout), true;
	if (asked("noisy"))
		say("100%\r"), say_much('=', 10 << 20);
	return false;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	const char *mode = argv[1];
	folder = argv[2];
	note("speaker", (long)getpid());
	set_up(mode);
	while (hear()) {
		const char *after = strstr(line, "\"id\":");
		long long id = after ? atoll(after + 5) : -1;
		if (strcmp(mode, "strict") == 0 && !strstr(line, "\"file\":")) {
			printf("{\"id\":%lld,\"ok\":false,\"error\":\"no file\"}\n", id), fflush(stdout);
			continue;
		}
		if (go_wrong(id))
			continue;
		const char *duration = asked("plain") ? "" : ",\"duration\":12.5";
		printf("{\"id\":%lld,\"ok\":true%s}\n", id, duration);
		if (asked("twice"))
			printf("{\"id\":%lld,\"ok\":true%s}\n", id, duration);
		fflush(stdout);
		if (asked("leave") || strcmp(mode, "leaves") == 0)
			return 0;
	}
	note("left", 1);
	return strcmp(mode, "sulks") == 0 ? 5 : 0;
}
