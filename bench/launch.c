/* SPDX-License-Identifier: MIT */
/*
 * gpuq launch: cost per file, time to find files, and balance between GPUs.
 *
 *     launch NOOP_WORKER.so
 *
 * $GPUQ_WORKER names the helper gpuq-worker of this build, by default the one in the parent folder. The files are
 * created in /dev/shm, or in $TMPDIR if that is not available, and removed.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "gpu_dispatch_launch.h"

#define NOOP_FILES  20000
#define MANY_FILES  1000000
#define PER_FOLDER  10000
#define TAIL_FILES  500
#define TAIL_GPUS   4
#define TAIL_SLOW   3    /* this GPU has half the speed of the others */
#define TAIL_MEAN_S 0.02 /* mean work per file */

static char scratch[64];

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "bench/launch: %s: %s\n", what, why);
	exit(1);
}

static double seconds_since(uint64_t start_ns)
{
	return (double)(clock_now_ns() - start_ns) / (double)NS_PER_S;
}

/* ---- Files -------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st;
	(void)kind;
	(void)ftw;
	return remove(path);
}

static void remove_all(void)
{
	if (scratch[0])
		nftw(scratch, remove_one, 32, FTW_DEPTH | FTW_PHYS);
}

static void enter_scratch(void)
{
	const char *usual = getenv("TMPDIR");
	snprintf(scratch, sizeof(scratch), "/dev/shm/gpuq-bench-XXXXXX");
	if (!mkdtemp(scratch)) {
		snprintf(scratch, sizeof(scratch), "%.40s/gpuq-bench-XXXXXX", usual ? usual : "/tmp");
		if (!mkdtemp(scratch))
			fail(scratch, strerror(errno));
	}
	atexit(remove_all);
	if (chdir(scratch) < 0)
		fail(scratch, strerror(errno));
}

static void put_file(const char *path, off_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0 || (size > 0 && ftruncate(fd, size) < 0))
		fail(path, strerror(errno));
	close(fd);
}

/* Creates empty files, one folder for every PER_FOLDER of them; or removes them. */
static void each_file(const char *folder, int count, bool put)
{
	char name[64];
	int fd = -1;
	for (int i = 0; i < count; i++) {
		if (i % PER_FOLDER == 0) {
			snprintf(name, sizeof(name), "%s/%03d", folder, i / PER_FOLDER);
			if (fd >= 0)
				close(fd);
			mkdir(name, 0755);
			fd = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		}
		snprintf(name, sizeof(name), "recording-%07d.wav", i);
		if ((put ? mknodat(fd, name, S_IFREG | 0644, 0) : unlinkat(fd, name, 0)) < 0)
			fail(name, strerror(errno));
	}
	close(fd);
}

static void put_files(const char *folder, int count)
{
	mkdir(folder, 0755);
	each_file(folder, count, true);
}

/* ---- Files per second --------------------------------------------------- */

static void run(const struct gd_launch_options *options, struct gd_launch_summary *ret)
{
	struct gd_launch_summary *summary;
	struct gd_error err = {0};
	int r = gd_launch(options, &summary, &err);
	if (r < 0)
		fail("gd_launch()", err.message);
	if (gd_launch_exit_code(r, summary) != 0)
		fail("gd_launch()", "some files failed");
	*ret = *summary;
	gd_launch_summary_free(summary);
}

static void measure_noop(const char *plugin)
{
	struct gd_launch_summary s;
	put_files("noop", NOOP_FILES);
	struct gd_launch_options o = {
		.size = sizeof(o),
		.input_dir = "noop",
		.output_dir = "noop-out",
		.gpus = "sim:2",
		.recursive = 1,
		.plugin = plugin,
	};
	uint64_t start = clock_now_ns();
	run(&o, &s);
	double all = seconds_since(start);
	start = clock_now_ns();
	run(&o, &s);
	double again = seconds_since(start);
	printf("%d files, a plug-in that does nothing, 2 workers: %.0f files/s (goal: 20000);"
	       " once more, all skipped: %.0f files/s\n",
		NOOP_FILES, NOOP_FILES / all, NOOP_FILES / again);
}

/* ---- Finding files ------------------------------------------------------ */

static double time_find(void)
{
	uint64_t start = clock_now_ns();
	if (system("find many -name '*.wav' -type f -printf '%s\\n' > /dev/null") != 0)
		return 0;
	return seconds_since(start);
}

static void measure_discovery(void)
{
	struct gd_files *files;
	struct gd_find_options o = {.size = sizeof(o), .recursive = 1};
	struct gd_error err;
	put_files("many", MANY_FILES);
	double find = time_find();
	uint64_t start = clock_now_ns();
	if (gd_files_find("many", &o, &files, &err) < 0)
		fail("gd_files_find()", err.message);
	double ours = seconds_since(start);
	if (files->count != MANY_FILES)
		fail("gd_files_find()", "not all were found");
	gd_files_free(files);
	each_file("many", MANY_FILES, false);
	printf("%d files found and sorted: %.2f s, find -printf %%s: %.2f s, ratio %.2f (goal: at most 2)\n",
		MANY_FILES, ours, find, ours / find);
}

/* ---- A heavy tail ------------------------------------------------------- */

/* A file has as many bytes as it takes microseconds of work. */
static int simulate(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct gd_file file;
	int r = gd_file_read(task, &file, sizeof(file));
	if (r < 0)
		return r;
	uint64_t ns = file.size_bytes * 1000 * (gd_worker_gpu(w) == TAIL_SLOW ? 2 : 1);
	struct timespec t = {(time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S)};
	nanosleep(&t, NULL);
	return 0;
}

static double uniform(void)
{
	return ((double)rand() + 1) / ((double)RAND_MAX + 2);
}

static double put_tail(void)
{
	double total = 0;
	srand(1);
	mkdir("tail", 0755);
	for (int i = 0; i < TAIL_FILES; i++) {
		double normal = sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
		double seconds = TAIL_MEAN_S * exp(normal - 0.5);
		char path[64];
		snprintf(path, sizeof(path), "tail/%04d.wav", i);
		put_file(path, (off_t)(seconds * 1e6));
		total += seconds;
	}
	return total;
}

/* The time needed if each GPU gets a fixed share in advance. */
static double time_of_shares(enum gd_balance balance)
{
	struct gd_files *files;
	size_t gpus[TAIL_FILES];
	double load[TAIL_GPUS] = {0}, most = 0;
	struct gd_error err;
	if (gd_files_find("tail", NULL, &files, &err) < 0)
		fail("gd_files_find()", err.message);
	if (gd_balance_share(files->files, files->count, balance, TAIL_GPUS, gpus) < 0)
		fail("gd_balance_share()", "out of memory");
	for (size_t i = 0; i < files->count; i++)
		load[gpus[i]] += (double)files->files[i]->size_bytes / 1e6 * (gpus[i] == TAIL_SLOW ? 2 : 1);
	for (size_t g = 0; g < TAIL_GPUS; g++)
		most = load[g] > most ? load[g] : most;
	gd_files_free(files);
	return most;
}

static void measure_tail(void)
{
	static const struct gd_worker_ops worker = {.size = sizeof(struct gd_worker_ops), .process = simulate};
	struct gd_launch_summary s;
	double bound = put_tail() / (TAIL_GPUS - 0.5);
	struct gd_launch_options o = {
		.size = sizeof(o), .input_dir = "tail", .output_dir = "tail-out", .gpus = "sim:4", .worker = &worker};
	run(&o, &s);
	printf("%d files of log-normal length, 4 GPUs, one of half the speed: %.2f s, %.3f times the lower bound (goal: 1.05);\n"
	       "  fixed shares would take %.2f times the lower bound (round-robin) or %.2f times (longest first)\n",
		TAIL_FILES, s.wall_seconds, s.wall_seconds / bound, time_of_shares(GD_BALANCE_ROUND_ROBIN) / bound,
		time_of_shares(GD_BALANCE_LONGEST_FIRST) / bound);
}

static void find_helper(void)
{
	char own[4096], helper[4096 + 32];
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
	if (n <= 0)
		fail("/proc/self/exe", strerror(errno));
	own[n] = '\0';
	*strrchr(own, '/') = '\0';
	snprintf(helper, sizeof(helper), "%s/../gpuq-worker", own);
	setenv("GPUQ_WORKER", helper, 0);
}

int main(int argc, char **argv)
{
	char plugin[4096];
	if (argc != 2 || !realpath(argv[1], plugin)) {
		fprintf(stderr, "usage: launch NOOP_WORKER.so\n");
		return 2;
	}
	find_helper();
	enter_scratch();
	measure_noop(plugin);
	measure_tail();
	measure_discovery();
	return 0;
}
