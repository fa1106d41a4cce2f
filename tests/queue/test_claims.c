/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/units.h"
#include "queue/schedule/claim_folders.h"
#include "queue/schedule/claims.h"
#include "support/check.h"
#include "support/process.h"
#include "support/scratch.h"

/* Replaces the C library's function: an unreadable claim is read again after it. */
static unsigned num_yields;
int sched_yield(void)
{
	num_yields++;
	return 0;
}

static struct claim_info info_of(const char *queue, const char *gpu)
{
	struct claim_info info = {
		.job = 12, .pid = 4711, .promised_bytes = 8 * UNITS_GB, .declared = true, .num_gpus = 1};
	snprintf(info.queue, sizeof(info.queue), "%s", queue);
	snprintf(info.gpus[0], sizeof(info.gpus[0]), "%s", gpu);
	return info;
}

static struct claims *open_claims(void)
{
	struct claims *c = NULL;
	struct gd_error err = {0};
	if (claims_open("claims", &c, &err) != 0)
		fail_msg("%s", err.message);
	return c;
}

static size_t count_claims(struct claims *c, const char *queue)
{
	struct claims_list list;
	assert_int_equal(claims_list(c, queue, &list), 0);
	size_t count = list.count;
	claims_list_finish(&list);
	return count;
}

static size_t count_files(void)
{
	FILE *f = popen("find claims -type f | wc -l", "re");
	size_t n = 99;
	assert_int_equal(fscanf(f, "%zu", &n), 1);
	pclose(f);
	return n;
}

/* The checksum, reimplemented from its description: FNV-1a, 64 bits. */
static int add_sum(const char *lines, char *text, size_t room)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325);
	for (const char *p = lines; *p; p++)
		sum = (sum ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
	return snprintf(text, room, "%ssum %016llx\n", lines, (unsigned long long)sum);
}

/* Unused user ids. */
#define OTHER  54322
#define VICTIM 54323

struct holder {
	const char *queue;
	uid_t user;    /* 0: this one */
	unsigned more; /* number of further claims, for other jobs */
	bool rewrites; /* rewrites its claim repeatedly */
};

static _Noreturn void hold(const struct holder *h, int ready_fd)
{
	struct claims *c;
	struct claim *claim;
	struct claim_info info = info_of(h->queue, "GPU-1");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (h->user && setresuid(h->user, h->user, h->user) < 0)
		_exit(2);
	if (claims_open("claims", &c, NULL) < 0 || claims_announce(c, &info, &claim) < 0)
		_exit(1);
	for (unsigned i = 0; i < h->more; i++) {
		struct claim *another;
		info.job++;
		if (claims_announce(c, &info, &another) < 0)
			_exit(5);
	}
	if (write(ready_fd, "x", 1) != 1)
		_exit(3);
	for (info.pid = 1; h->rewrites; info.pid = info.pid % 1000000 * 7 + 1)
		if (claim_update(claim, &info) < 0)
			_exit(4);
	process_hang();
}

/* Starts a process that announces a claim, reports it, and waits to be killed. It has its own PIDs and locks. */
static pid_t hold_elsewhere(struct holder h)
{
	int ready[2];
	char byte;
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		hold(&h, ready[1]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

/* The number of claims that a process with its own locks sees. */
static size_t count_elsewhere(const char *queue)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct claims *c;
		struct claims_list list;
		if (claims_open("claims", &c, NULL) < 0 || claims_list(c, queue, &list) < 0)
			_exit(99);
		_exit((int)list.count);
	}
	return (size_t)process_exit_code(pid);
}

static void test_a_claim_is_seen_with_its_owner_and_ends_with_its_process(void **state)
{
	(void)state;
	struct claims *c = open_claims();
	pid_t pid = hold_elsewhere((struct holder){.queue = "other"});
	struct claims_list list;
	assert_int_equal(claims_list(c, "mine", &list), 0);
	assert_int_equal(list.count, 1);
	const struct claim_other *other = &list.claims[0];
	assert_int_equal(other->holder, pid);
	assert_int_equal(other->owner, geteuid());
	assert_int_equal(other->info.job, 12);
	assert_int_equal(other->info.pid, 4711);
	assert_int_equal(other->info.promised_bytes, 8 * UNITS_GB);
	assert_true(other->info.declared);
	assert_false(other->info.settled);
	assert_int_equal(other->info.num_gpus, 1);
	assert_string_equal(other->info.gpus[0], "GPU-1");
	claims_list_finish(&list);
	assert_int_equal(count_claims(c, "other"), 0); /* that queue knows it already */

	process_kill_child(pid);
	assert_int_equal(count_claims(c, "mine"), 0);
	assert_int_equal(count_files(), 0); /* and is removed */
	claims_close(c);
}

static void test_listing_claims_keeps_the_locks_of_this_process(void **state)
{
	(void)state;
	struct claims *c = open_claims();
	struct claim *claim;
	struct claim_info info = info_of("mine", "GPU-0");
	assert_int_equal(claims_announce(c, &info, &claim), 0);
	assert_int_equal(count_claims(c, NULL), 0);
	assert_int_equal(count_claims(c, NULL), 0);
	assert_int_equal(count_elsewhere("other"), 1);
	claim_release(claim);
	assert_int_equal(count_elsewhere("other"), 0);
	assert_int_equal(count_files(), 0);
	assert_int_equal(claims_announce(c, &info, &claim), 0);
	claims_close(c);
	assert_int_equal(count_files(), 0);
}

static void test_an_update_is_seen_and_survives_a_sweeper(void **state)
{
	(void)state;
	struct claims *c = open_claims();
	struct claim *claim;
	struct claim_info info = info_of("mine", "GPU-0");
	assert_int_equal(claims_announce(c, &info, &claim), 0);
	info.settled = true;
	assert_int_equal(claim_update(claim, &info), 0);
	assert_int_equal(count_claims(c, NULL), 0);
	assert_int_equal(count_elsewhere("other"), 1);
	assert_int_equal(count_files(), 1);
	assert_int_equal(system("rm -r claims/*"), 0);
	assert_int_equal(count_elsewhere("other"), 0);
	assert_int_equal(claim_update(claim, &info), 0);
	assert_int_equal(count_elsewhere("other"), 1);
	claims_close(c);
}

static void test_a_claim_that_is_rewritten_is_seen_all_the_time(void **state)
{
	(void)state;
	struct claims *c = open_claims();
	pid_t pid = hold_elsewhere((struct holder){.queue = "other", .rewrites = true});
	for (int i = 0; i < 2000; i++)
		assert_int_equal(count_claims(c, "mine"), 1);
	process_kill_child(pid);
	claims_close(c);
}

static void test_of_two_simultaneous_claims_one_sees_the_other(void **state)
{
	(void)state;
	claims_close(open_claims());
	for (int round = 0; round < 100; round++) {
		int go[2], saw[2];
		pid_t pids[2];
		assert_int_equal(pipe2(go, O_CLOEXEC) | pipe2(saw, O_CLOEXEC), 0);
		for (int i = 0; i < 2; i++) {
			pids[i] = fork();
			assert_true(pids[i] >= 0);
			if (pids[i] == 0) {
				struct claims *c;
				struct claim *claim;
				struct claims_list list;
				struct claim_info info = info_of(i ? "a" : "b", "GPU-0");
				char byte;
				prctl(PR_SET_PDEATHSIG, SIGKILL);
				close(go[1]);
				if (claims_open("claims", &c, NULL) < 0 || read(go[0], &byte, 1) != 0)
					_exit(1);
				if (claims_announce(c, &info, &claim) < 0 || claims_list(c, info.queue, &list) < 0)
					_exit(1);
				byte = list.count > 0;
				if (write(saw[1], &byte, 1) != 1)
					_exit(1);
				process_hang(); /* the claim exists until both have checked */
			}
		}
		close(go[0]);
		close(go[1]);
		char seen[2] = {0};
		assert_int_equal(read(saw[0], &seen[0], 1), 1);
		assert_int_equal(read(saw[0], &seen[1], 1), 1);
		assert_true(seen[0] || seen[1]);
		process_kill_child(pids[0]);
		process_kill_child(pids[1]);
		close(saw[0]);
		close(saw[1]);
	}
}

/* A runner that announces, and the keeper that takes over from it. */
static void test_a_job_that_is_handed_over_is_listed_once(void **state)
{
	(void)state;
	struct claims *c = open_claims();
	struct claim *runner, *keeper, *next;
	struct claim_info info = info_of("a", "GPU-1"), none = info_of("a", "GPU-1");
	none.num_gpus = 0;
	info.pid = 0;
	assert_int_equal(claims_announce(c, &info, &runner), 0);
	info.pid = 99;
	assert_int_equal(claims_announce(c, &info, &keeper), 0);
	assert_int_equal(count_elsewhere("b"), 1);
	assert_int_equal(claim_update(runner, &none), 0);
	assert_int_equal(count_elsewhere("b"), 1);
	info.job++;
	assert_int_equal(claims_announce(c, &info, &next), 0);
	assert_int_equal(count_elsewhere("b"), 2);
	assert_int_equal(claim_update(next, &none), 0);
	assert_int_equal(claim_update(keeper, &none), 0);
	assert_int_equal(count_elsewhere("b"), 0);
	claims_close(c);
}

/* "claims/gpuq-claims-UID/NAME", in a buffer that the next call reuses. */
static const char *path_of(uid_t user, const char *name)
{
	static char path[128];
	snprintf(path, sizeof(path), "claims/gpuq-claims-%u/%s", (unsigned)user, name);
	return path;
}

static const char *own_path(const char *name)
{
	return path_of(geteuid(), name);
}

static void test_foreign_files_in_the_claims_folder_are_ignored(void **state)
{
	(void)state;
	struct claims *c = open_claims();
	assert_int_equal(mkdir(own_path(""), 0755), 0);
	scratch_write_text("secret", "gpuq-claim 1\nqueue x\n");
	assert_int_equal(symlink("../../secret", own_path("link")), 0);
	assert_int_equal(symlink("/dev/zero", own_path("zero")), 0);
	assert_int_equal(mkfifo(own_path("fifo"), 0666), 0); /* opening it would hang */
	assert_int_equal(mkdir(own_path("folder"), 0777), 0);
	assert_int_equal(count_claims(c, NULL), 0);

	/* Locked, but not a claim; and a valid claim with a read lock, which any user could take. */
	int fd = open(own_path("garbage"), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	int shared = open(own_path("shared"), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	assert_int_equal(ftruncate(fd, 1 << 30), 0);
	char text[256];
	int size = add_sum("gpuq-claim 1\nqueue x\ngpu GPU-1\n", text, sizeof(text));
	assert_int_equal(write(shared, text, (size_t)size), size);
	struct flock lock = {.l_type = F_WRLCK};
	assert_int_equal(fcntl(fd, F_SETLK, &lock), 0);
	lock.l_type = F_RDLCK;
	assert_int_equal(fcntl(shared, F_SETLK, &lock), 0);
	assert_int_equal(count_elsewhere(NULL), 0);
	lock.l_type = F_WRLCK; /* to verify that the lock decides */
	assert_int_equal(fcntl(shared, F_SETLK, &lock), 0);
	assert_int_equal(count_elsewhere(NULL), 1);
	close(fd);
	close(shared);
	/* Files not named like a claim are not removed. */
	assert_int_equal(count_elsewhere(NULL), 0);
	assert_int_equal(access(own_path("garbage"), F_OK) | access(own_path("shared"), F_OK), 0);
	scratch_write_text(own_path("q-1-0123456789abcdef"), "");
	scratch_write_text(own_path(".0123456789abcdef"), "");
	assert_int_equal(count_elsewhere(NULL), 0);
	assert_int_equal(access(own_path("q-1-0123456789abcdef"), F_OK), -1);
	assert_int_equal(access(own_path(".0123456789abcdef"), F_OK), -1);
	claims_close(c);
}

/* Runs `act` as another user and waits for its end. */
static void as_other_user(void (*act)(void))
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (setresgid(OTHER, OTHER, OTHER) < 0 || setresuid(OTHER, OTHER, OTHER) < 0)
			_exit(99);
		act();
		_exit(0);
	}
	assert_int_equal(process_exit_code(pid), 0);
}

static void test_claim_of_another_user_names_its_owner(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	struct claims *c = open_claims();
	assert_int_equal(chmod(".", 0755), 0);
	pid_t pid = hold_elsewhere((struct holder){.queue = "mine", .user = OTHER});
	struct claims_list list;
	assert_int_equal(claims_list(c, "mine", &list), 0); /* the same queue name does not make it ours */
	assert_int_equal(list.count, 1);
	assert_int_equal(list.claims[0].owner, OTHER);
	claims_list_finish(&list);
	process_kill_child(pid);
	assert_int_equal(count_claims(c, "mine"), 0);
	assert_int_equal(count_files(), 1); /* not ours to remove */
	claims_close(c);
}

static void take_names(void)
{
	if (mkdir(path_of(VICTIM, ""), 0777) < 0 || chmod(path_of(VICTIM, ""), 0777) < 0 ||
		symlink("/", "claims/gpuq-claims-54324") < 0)
		_exit(1);
}

static void rename_folders(void)
{
	if (system("mv -T claims/gpuq-claims-54323-* claims/away 2>/dev/null") == 0 ||
		system("rm -f claims/gpuq-claims-54323-*/* 2>/dev/null") == 0)
		_exit(1);
}

static void test_name_that_another_user_took_first_disables_no_claims(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	struct claims *c = open_claims();
	assert_int_equal(chmod(".", 0755), 0);
	as_other_user(take_names);
	pid_t first = hold_elsewhere((struct holder){.queue = "first", .user = VICTIM});
	pid_t second = hold_elsewhere((struct holder){.queue = "second", .user = VICTIM});
	pid_t third = hold_elsewhere((struct holder){.queue = "third", .user = 54324});
	assert_int_equal(count_claims(c, "mine"), 3);
	as_other_user(rename_folders);
	assert_int_equal(count_claims(c, "mine"), 3);
	/* The second process of the user has found the folder of the first. */
	assert_int_equal(system("test $(ls claims | grep -c '^gpuq-claims-54323-') = 1"), 0);
	process_kill_child(first);
	process_kill_child(second);
	process_kill_child(third);
	claims_close(c);
}

/* Folders are remembered while the directory does not change; a new user is still found. */
static void test_folder_that_is_made_later_is_found_at_once(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	struct claims *c = open_claims();
	assert_int_equal(chmod(".", 0755), 0);
	pid_t pids[20];
	for (unsigned i = 0; i < 20; i++) {
		if (i % 2) { /* the directory has not changed for long */
			struct timespec old[2] = {{.tv_sec = 1000 + i}, {.tv_sec = 1000 + i}};
			assert_int_equal(utimensat(AT_FDCWD, "claims", old, 0), 0);
		}
		assert_int_equal(count_claims(c, "mine"), i);
		assert_int_equal(count_claims(c, "mine"), i);
		pids[i] = hold_elsewhere((struct holder){.queue = "q", .user = OTHER + i});
		assert_int_equal(count_claims(c, "mine"), i + 1);
	}
	for (unsigned i = 0; i < 20; i++)
		process_kill_child(pids[i]);
	assert_int_equal(count_claims(c, "mine"), 0);
	claims_close(c);
}

/* A process that locks files which are not claims. */
static pid_t hold_broken(unsigned count)
{
	int ready[2];
	char byte, name[32];
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct flock lock = {.l_type = F_WRLCK};
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (unsigned i = 0; i < count; i++) {
			snprintf(name, sizeof(name), "x-1-%016x", i);
			int fd = open(own_path(name), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
			if (fd < 0 || write(fd, "x", 1) != 1 || fcntl(fd, F_SETLK, &lock) < 0)
				_exit(1);
		}
		if (write(ready[1], "x", 1) != 1)
			_exit(2);
		process_hang();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void test_many_broken_claims_cost_little(void **state)
{
	(void)state;
	struct claims *c = open_claims();
	assert_int_equal(mkdir(own_path(""), 0755), 0);
	pid_t broken = hold_broken(200);
	pid_t good = hold_elsewhere((struct holder){.queue = "other"});
	num_yields = 0;
	assert_int_equal(count_claims(c, "mine"), 1);
	assert_in_range(num_yields, 1, 256);
	if (geteuid() == 0) {
		/* The same for another user, who hides only their own claims. */
		assert_int_equal(rename(own_path(""), "claims/gpuq-claims-54322"), 0);
		assert_int_equal(system("chown -R 54322:54322 claims/gpuq-claims-54322"), 0);
		assert_int_equal(chmod(".", 0755), 0);
		pid_t victim = hold_elsewhere((struct holder){.queue = "victim", .user = VICTIM});
		num_yields = 0;
		assert_in_range(count_claims(c, "mine"), 1, 2);
		assert_in_range(num_yields, 1, 256);
		process_kill_child(victim);
	}
	process_kill_child(broken);
	process_kill_child(good);
	claims_close(c);
}

#define SUBORDINATE     2000000
#define NUM_SUBORDINATE 300

/* As a user with subordinate ids can do it: locked files of many users, held by one process. */
static void hold_for_many_users(unsigned files, unsigned names, const char *last_line)
{
	const struct rlimit limit = {.rlim_cur = 8192, .rlim_max = 8192};
	struct flock lock = {.l_type = F_WRLCK};
	char lines[256], file[256], name[32];
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		_exit(1);
	for (uid_t user = SUBORDINATE; user < SUBORDINATE + NUM_SUBORDINATE; user++) {
		if (mkdir(path_of(user, ""), 0755) < 0)
			_exit(2);
		for (unsigned i = 0; i < files; i++) {
			snprintf(lines, sizeof(lines), "gpuq-claim 1\nqueue x\njob %u\n%s", i, last_line);
			int size = add_sum(lines, file, sizeof(file));
			snprintf(name, sizeof(name), "x-%u-0", i);
			int fd = open(path_of(user, name), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
			if (fd < 0 || write(fd, file, (size_t)size) != size || fcntl(fd, F_SETLK, &lock) < 0 ||
				fchown(fd, user, user) < 0)
				_exit(3);
			char *first = strdup(path_of(user, name));
			for (unsigned k = 1; k < names; k++) {
				snprintf(name, sizeof(name), "x-%u-%u", i, k);
				if (link(first, path_of(user, name)) < 0)
					_exit(4);
			}
			free(first);
		}
		if (chown(path_of(user, ""), user, user) < 0)
			_exit(5);
	}
}

static pid_t start_many_users(unsigned files, unsigned names, const char *last_line)
{
	int ready[2];
	char byte;
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		hold_for_many_users(files, names, last_line);
		if (write(ready[1], "x", 1) != 1)
			_exit(6);
		process_hang();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

/* Listing them would need much memory. The claims of an ordinary user are listed nevertheless. */
static void test_claims_of_many_users_are_limited_in_number(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	struct claims *c = open_claims();
	assert_int_equal(chmod(".", 0755), 0);
	pid_t victim = hold_elsewhere((struct holder){.queue = "victim", .user = VICTIM, .more = 7});
	assert_int_equal(count_claims(c, "mine"), 8);
	pid_t many = start_many_users(20, 1, "gpu GPU-1\n");
	assert_in_range(count_claims(c, "mine"), 8 + NUM_SUBORDINATE, 4096);
	process_kill_child(many);
	assert_int_equal(count_claims(c, "mine"), 8);
	process_kill_child(victim);
	claims_close(c);
}

/* Folders remain until the next boot, and a user with subordinate ids can create hundreds. */
static void test_users_without_claims_do_not_limit_the_claims_of_others(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	struct claims *c = open_claims();
	assert_int_equal(chmod(".", 0755), 0);
	for (uid_t user = SUBORDINATE; user < SUBORDINATE + NUM_SUBORDINATE; user++) {
		assert_int_equal(mkdir(path_of(user, ""), 0755), 0);
		if (user % 2) /* as of a job that has ended */
			assert_int_equal(close(open(path_of(user, "x-1-0"), O_RDWR | O_CREAT | O_CLOEXEC, 0644)), 0);
		assert_int_equal(chown(path_of(user, "x-1-0"), user, user) < 0, user % 2 == 0);
		assert_int_equal(chown(path_of(user, ""), user, user), 0);
	}
	pid_t first = hold_elsewhere((struct holder){.queue = "first", .user = OTHER, .more = 600});
	pid_t second = hold_elsewhere((struct holder){.queue = "second", .user = VICTIM, .more = 99});
	pid_t ours = hold_elsewhere((struct holder){.queue = "ours", .more = 600});
	assert_int_equal(count_claims(c, "mine"), 256 + 100 + 601);
	process_kill_child(first);
	process_kill_child(second);
	process_kill_child(ours);
	claims_close(c);
}

/* Reading them again and again would take much time. */
static void test_broken_claims_of_many_users_cost_little(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	struct claims *c = open_claims();
	assert_int_equal(chmod(".", 0755), 0);
	pid_t many = start_many_users(1, 64, "gpu\n");
	num_yields = 0;
	assert_int_equal(count_claims(c, "mine"), 0);
	assert_in_range(num_yields, 1, 4096);
	process_kill_child(many);
	claims_close(c);
}

/* Claims held by a process that may be their user's, but in a folder of another user. */
static void test_claim_of_one_user_in_the_folder_of_another_is_ignored(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	struct claims *c = open_claims();
	char text[256];
	int size = add_sum("gpuq-claim 1\nqueue x\ngpu GPU-1\n", text, sizeof(text));
	assert_int_equal(mkdir(path_of(OTHER, ""), 0755), 0);
	int fd = open(path_of(OTHER, "x"), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	assert_int_equal(write(fd, text, (size_t)size), size);
	struct flock lock = {.l_type = F_WRLCK};
	assert_int_equal(fcntl(fd, F_SETLK, &lock), 0);
	assert_int_equal(chown(path_of(OTHER, ""), OTHER, OTHER), 0);
	assert_int_equal(count_elsewhere("mine"), 0);
	assert_int_equal(chown(path_of(OTHER, "x"), OTHER, OTHER), 0);
	assert_int_equal(count_elsewhere("mine"), 1);
	assert_int_equal(chmod(path_of(OTHER, ""), 0777), 0);
	assert_int_equal(count_elsewhere("mine"), 0);
	assert_int_equal(chmod(path_of(OTHER, ""), 0755), 0);
	assert_int_equal(chown(path_of(OTHER, ""), VICTIM, VICTIM), 0);
	assert_int_equal(count_elsewhere("mine"), 0);
	close(fd);
	claims_close(c);
}

static void fill_directory(void)
{
	char path[128];
	if (mkdir(path_of(OTHER, ""), 0755) < 0)
		_exit(1);
	for (int i = 0; i < 1100; i++) {
		snprintf(path, sizeof(path), "claims/gpuq-claims-%d/%d", OTHER, i);
		if (close(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644)) < 0)
			_exit(1);
	}
	for (int i = 0; i < 4200; i++) {
		snprintf(path, sizeof(path), "claims/gpuq-claims-%d", 1000000 + i);
		if (mkdir(path, 0755) < 0)
			_exit(1);
	}
}

static void test_directory_filled_by_another_user_hides_no_claims(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	struct claims *c = open_claims();
	assert_int_equal(chmod(".", 0755), 0);
	as_other_user(fill_directory);
	pid_t first = hold_elsewhere((struct holder){.queue = "first", .user = VICTIM});
	pid_t second = hold_elsewhere((struct holder){.queue = "second"});
	assert_int_equal(count_claims(c, "mine"), 2);
	process_kill_child(first);
	process_kill_child(second);
	claims_close(c);
}

static void test_claims_of_another_user_are_limited_in_number(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	struct claims *c = open_claims();
	assert_int_equal(chmod(".", 0755), 0);
	pid_t many = hold_elsewhere((struct holder){.queue = "many", .user = OTHER, .more = 600});
	pid_t ours = hold_elsewhere((struct holder){.queue = "ours", .more = 600});
	assert_int_equal(count_claims(c, "mine"), 256 + 601);
	process_kill_child(many);
	process_kill_child(ours);
	claims_close(c);
}

static void make_folders(void)
{
	char path[128];
	for (int i = 0; i < 100; i++) {
		snprintf(path, sizeof(path), "claims/gpuq-claims-%d-%016d", OTHER, i);
		if (mkdir(path, 0755) < 0)
			_exit(1);
	}
}

/* Each listing of claims opens all folders. */
static void test_folders_of_another_user_are_limited_in_number(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	struct claim_folders folders = {0};
	claims_close(open_claims());
	assert_int_equal(chmod(".", 0755), 0);
	as_other_user(make_folders);
	assert_int_equal(mkdir(path_of(VICTIM, ""), 0755) | chown(path_of(VICTIM, ""), VICTIM, VICTIM), 0);
	int fd = open("claims", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(claim_folders_update(fd, &folders), 0);
	assert_int_equal(folders.count, 16 + 1);
	assert_int_equal(folders.folders[16].owner, VICTIM);
	claim_folders_finish(&folders);
	close(fd);
}

static void test_the_directory_is_for_all_users_and_sticky(void **state)
{
	(void)state;
	struct claims *c;
	struct gd_error err;
	struct stat st;
	mode_t mask = umask(077);
	claims_close(open_claims());
	umask(mask);
	assert_int_equal(stat("claims", &st), 0);
	assert_int_equal(st.st_mode & 07777, 01777);
	assert_int_equal(symlink("claims", "link"), 0);
	assert_int_equal(claims_open("link", &c, &err), -ENOTDIR);
	assert_int_equal(claims_open("link/", &c, &err), -ENOTDIR);
	assert_int_equal(chmod("claims", 0777), 0);
	assert_int_equal(claims_open("claims", &c, &err), -EPERM);
	check_contains(err.message, "chmod +t");
	setenv("GPUQ_CLAIMS_DIR", "by-environment/", 1);
	assert_int_equal(claims_open(NULL, &c, &err), 0);
	claims_close(c);
	assert_int_equal(stat("by-environment", &st), 0);
	unsetenv("GPUQ_CLAIMS_DIR");
	if (geteuid() != 0)
		return;
	assert_int_equal(chown("by-environment", OTHER, OTHER), 0);
	assert_int_equal(claims_open("by-environment", &c, &err), -EPERM);
	check_contains(err.message,
		"belongs to another user, so other users could hide claims; set GPUQ_CLAIMS_DIR to a directory of your own or of root");
}

static void test_a_claims_text_is_strict(void **state)
{
	(void)state;
	char text[16384];
	struct claim_info info = info_of("q-1", "GPU-0"), back = {.job = 77};
	for (info.num_gpus = 1; info.num_gpus < CLAIM_MAX_GPUS; info.num_gpus++)
		memcpy(info.gpus[info.num_gpus], info.gpus[0], sizeof(info.gpus[0]));
	int n = claim_info_format(&info, text, sizeof(text));
	assert_true(n > 0);
	assert_int_equal(claim_info_parse(text, (size_t)n, &back), 0);
	assert_memory_equal(&info, &back, sizeof(info));
	/* Cut before its checksum, or half rewritten. */
	const char *end = strstr(text, "sum ") + 4 + 16;
	for (int cut = 0; cut <= end - text; cut++)
		assert_int_equal(claim_info_parse(text, (size_t)cut, &back), -EBADMSG);
	text[20] ^= 1;
	assert_int_equal(claim_info_parse(text, (size_t)n, &back), -EBADMSG);

	static const struct {
		const char *lines;
		int code;
	} cases[] = {
		{"gpuq-claim 1\nqueue x\n", 0},
		{"gpuq-claim 1\nqueue x\ncolor red\n", 0}, /* from a later version */
		{"gpuq-claim 2\nqueue x\n", -EBADMSG},
		{"queue x\n", -EBADMSG},
		{"gpuq-claim 1\n", -EBADMSG},
		{"gpuq-claim 1\nqueue x\njob -1\n", -EBADMSG},
		{"gpuq-claim 1\nqueue x\npromised 99999999999999999999\n", -EBADMSG},
		{"gpuq-claim 1\nqueue x\ndeclared 2\n", -EBADMSG},
		{"gpuq-claim 1\nqueue x\ngpu a b\n", -EBADMSG},
		{"gpuq-claim 1\nqueue x\ngpu \x1b[31m\n", -EBADMSG},
		{"gpuq-claim 1\nqueue x\nword\n", -EBADMSG},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		n = add_sum(cases[i].lines, text, sizeof(text));
		if (claim_info_parse(text, (size_t)n, &back) != cases[i].code)
			fail_msg("wrong about: %s", cases[i].lines);
		assert_int_equal(claim_info_parse(text, (size_t)n - 1, &back), -EBADMSG);
		text[n] = 'x';
		assert_int_equal(claim_info_parse(text, (size_t)n + 1, &back), -EBADMSG);
	}
	info.gpus[0][0] = ' ';
	assert_int_equal(claim_info_format(&info, text, sizeof(text)), -EINVAL);
}

static void test_key_of_a_gpu_is_its_uuid_or_else_its_pci_address(void **state)
{
	(void)state;
	char key[CLAIM_KEY_ROOM];
	struct gd_gpu gpu = {.vendor = GD_VENDOR_NVIDIA, .mig_index = -1, .uuid = "GPU-1", .pci_id = "0000:01:00.0"};
	assert_false(claim_gpu_key(&gpu, key));
	gpu.known = GD_GPU_KNOWN_PCI_ID;
	assert_true(claim_gpu_key(&gpu, key));
	assert_string_equal(key, "pci-0000:01:00.0");
	gpu.known |= GD_GPU_KNOWN_UUID;
	assert_true(claim_gpu_key(&gpu, key));
	assert_string_equal(key, "GPU-1");
	gpu.vendor = GD_VENDOR_SIMULATED;
	assert_false(claim_gpu_key(&gpu, key));
}

static void test_backoff_is_at_least_1_ms_and_at_most_1_s(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100; i++)
		assert_in_range(claims_backoff_ms(i), 1, 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_a_claim_is_seen_with_its_owner_and_ends_with_its_process),
		scratch_test(test_listing_claims_keeps_the_locks_of_this_process),
		scratch_test(test_an_update_is_seen_and_survives_a_sweeper),
		scratch_test(test_a_claim_that_is_rewritten_is_seen_all_the_time),
		scratch_test(test_of_two_simultaneous_claims_one_sees_the_other),
		scratch_test(test_a_job_that_is_handed_over_is_listed_once),
		scratch_test(test_foreign_files_in_the_claims_folder_are_ignored),
		scratch_test(test_claim_of_another_user_names_its_owner),
		scratch_test(test_name_that_another_user_took_first_disables_no_claims),
		scratch_test(test_many_broken_claims_cost_little),
		scratch_test(test_folder_that_is_made_later_is_found_at_once),
		scratch_test(test_claim_of_one_user_in_the_folder_of_another_is_ignored),
		scratch_test(test_directory_filled_by_another_user_hides_no_claims),
		scratch_test(test_claims_of_another_user_are_limited_in_number),
		scratch_test(test_folders_of_another_user_are_limited_in_number),
		scratch_test(test_claims_of_many_users_are_limited_in_number),
		scratch_test(test_users_without_claims_do_not_limit_the_claims_of_others),
		scratch_test(test_broken_claims_of_many_users_cost_little),
		scratch_test(test_the_directory_is_for_all_users_and_sticky),
		cmocka_unit_test(test_a_claims_text_is_strict),
		cmocka_unit_test(test_key_of_a_gpu_is_its_uuid_or_else_its_pci_address),
		cmocka_unit_test(test_backoff_is_at_least_1_ms_and_at_most_1_s),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
