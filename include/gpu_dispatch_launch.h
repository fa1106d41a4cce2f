/* SPDX-License-Identifier: MIT */
/** gpu_dispatch: a folder of files over the GPUs, as `gpuq launch` does it. */
#ifndef GPU_DISPATCH_LAUNCH_H
#define GPU_DISPATCH_LAUNCH_H

#include <gpu_dispatch.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Workers of gpuq launch ----------------------------------------------- */

/**
 * A plug-in for `gpuq launch --worker FILE.so` exports its hooks:
 *
 *     const struct gd_worker_ops gd_worker = {.setup = …, .process = …};
 *     const char gd_worker_about[] = "one line for --list-workers"; // if it likes
 *
 * and each task is a file. --model-size, --language and --set reach it as
 * settings: gd_worker_setting(w, "model_size", "base").
 */
struct gd_file {
	const char *path;       /**< absolute */
	const char *output_dir; /**< absolute, made before the worker is called; of this file alone */
	const char *stem;       /**< its name without folder and extension */
	uint64_t size_bytes;
	double seconds; /**< of audio, -1 where that is not known */
};

/** The file that a task stands for; its strings are valid as long as the task's bytes. -EBADMSG: it is none. */
GD_API int gd_file_read(const struct gd_bytes *task, struct gd_file *ret);
/** The result of a file: how many seconds of audio it held, -1 where that has no meaning. */
GD_API int gd_file_done(struct gd_worker *w, double seconds);

/* ---- Launch: a folder of files over the GPUs ------------------------------ */

/*
 * What `gpuq launch` is made of: gd_launch() does it all; its parts (files, shares,
 * balancer, launcher) are here to be used alone. None of them may be used by
 * two threads at a time, but for gd_launcher_stop().
 */

/** A file that was found. */
struct gd_found {
	const char *path; /**< below the folder: "a/b.wav" */
	uint64_t size_bytes;
	int64_t mtime_ns; /**< of its last change, since 1970 */
	double seconds;   /**< of audio; -1: not known. Whoever knows may fill it in */
};

/** Files of a folder. Release with gd_files_free(). */
struct gd_files {
	const char *folder; /**< absolute, links resolved */
	size_t count;
	struct gd_found *files; /**< sorted by name, folder by folder */
	/** Folders that could not be read, loops of links: a line each. */
	size_t num_warnings;
	const char *const *warnings;
	/* For those who wonder why so little was found. */
	uint64_t others;        /**< files that match no pattern */
	const char *other;      /**< one of them, or NULL */
	uint64_t other_folders; /**< that were not entered, for want of `recursive` */
};

struct gd_find_options {
	size_t size; /**< sizeof(struct gd_find_options) */
	/** Of names, as the shell has them; a leading dot must be written. None: *.wav */
	const char *const *patterns;
	size_t num_patterns;
	bool recursive; /**< also what is in its folders, and in those behind links, once around each loop */
	/** A folder that is not entered, or NULL. Where it is the one that is searched: of what is in it, what
	 *  a launcher keeps there (launch.jsonl) is no file that is meant. */
	const char *exclude;
	/** Asked now and then; true ends it with -ECANCELED. */
	bool (*stopped)(void *context);
	void *context;
};

/** Looks for files. Only names, sizes and times are read. -ENOENT, -ENOTDIR, -EACCES: of the folder itself. */
GD_API int gd_files_find(
	const char *folder, const struct gd_find_options *options, struct gd_files **ret, struct gd_error *err);
GD_API void gd_files_free(struct gd_files *files);

/** How many seconds of audio a file holds; -1 where it cannot tell. Called by several threads at a time. */
typedef double gd_seconds_reader(void *context, const char *path);

/** Asks for all whose seconds are not known. Returns how many it learned. */
GD_API size_t gd_files_read_seconds(struct gd_files *files, gd_seconds_reader *reader, void *context);

/** How much there is to do. */
struct gd_workload {
	uint64_t files;
	uint64_t bytes;
	double audio_seconds;   /**< of those of which it is known */
	uint64_t audio_unknown; /**< files of which it is not */
	uint64_t largest_bytes;
	uint64_t smallest_bytes;
	const char *largest; /**< path of the first such file; NULL where there is none */
	const char *smallest;
};

GD_API void gd_workload_estimate(const struct gd_found *files, size_t count, struct gd_workload *ret);

/** In which order files are worked on, and how they are shared out beforehand. */
enum gd_balance {
	/** The longest first: by seconds, or what the size makes of them. Shares: each to the GPU with the least. */
	GD_BALANCE_LONGEST_FIRST = 0,
	GD_BALANCE_BY_SIZE,     /**< the largest first; shares: dealt out in turn */
	GD_BALANCE_ROUND_ROBIN, /**< as they are; shares: dealt out in turn */
	GD_BALANCE_AS_FOUND,    /**< as they are; shares: one piece each */
};

/** "longest-first", "size", "round-robin", "none". */
GD_API const char *gd_balance_name(enum gd_balance balance);
/** -EINVAL: it is none of them. */
GD_API int gd_balance_parse(const char *name, enum gd_balance *ret);

/** A strategy of one's own: which of the GPUs 0…num_gpus-1 gets files[i], into ret_gpus[i]. 0 or a negative errno. */
typedef int gd_strategy(void *context, const struct gd_found *files, size_t count, size_t num_gpus, size_t *ret_gpus);

/** Which GPU would get which file, into ret_gpus[0…count). */
GD_API int gd_share_out(
	const struct gd_found *files, size_t count, enum gd_balance balance, size_t num_gpus, size_t *ret_gpus);

/** The order of work: indices of files, into ret_order[0…count). */
GD_API int gd_queue_order(const struct gd_found *files, size_t count, enum gd_balance balance, size_t *ret_order);
/** The same for shares that are given: the first of each GPU, the second of each… -EINVAL for a GPU that is none. */
GD_API int gd_queue_shares(const size_t *gpus, size_t count, size_t num_gpus, size_t *ret_order);

/** What one GPU would get. */
struct gd_share {
	uint64_t files;
	uint64_t bytes;
	double audio_seconds; /**< of those of which it is known */
	double load;          /**< its part of the whole, 0…1: by seconds, or what the size makes of them */
};

/**
 * Shares as numbers, into ret[0…num_gpus). Returns the imbalance: how much more than
 * the mean the GPU with the most has; 0: even.
 */
GD_API double gd_share_stats(
	const struct gd_found *files, const size_t *gpus, size_t count, size_t num_gpus, struct gd_share *ret);

/* ---- Balancer: what came out ------------------------------------------------ */

struct gd_file_result {
	const char *file;
	const char *error; /**< NULL: done */
	int gpu;           /**< -1: it came to none */
	uint64_t size_bytes;
	double audio_seconds; /**< -1: not known */
	double processing_seconds;
};

struct gd_launch_failure {
	const char *file;
	const char *error;
};

/** One GPU's part. */
struct gd_launch_gpu {
	int gpu;
	uint64_t files; /**< done */
	uint64_t failed;
	double audio_seconds;
	double processing_seconds;
	/** Of all that is done, 0…1: by audio seconds, or, where a file has none, by files. */
	double share;
};

/**
 * All numbers of a run. Processing seconds are those of files that are done, all
 * workers together: more than the wall clock's when they work side by side.
 */
struct gd_launch_summary {
	uint64_t files_total; /**< = done + failed + skipped + left */
	uint64_t files_done;
	uint64_t files_failed;
	uint64_t files_skipped; /**< done by an earlier run */
	uint64_t files_left;    /**< not begun: it was stopped, or no worker was left */
	uint64_t bytes_done;
	double audio_seconds;
	double processing_seconds;
	double wall_seconds;
	double rtf;     /**< processing over audio seconds, of files of which both are known; 0 while there are none */
	double speedup; /**< processing seconds over wall clock */
	double skew;    /**< how much longer than the mean the busiest GPU worked; 0: even */
	size_t num_failures;
	const struct gd_launch_failure *failures;
	size_t num_gpus;
	const struct gd_launch_gpu *gpus; /**< by number */
};

struct gd_balancer;

/** For these GPUs (others may come up later); its clock starts now. */
GD_API int gd_balancer_create(const int *gpus, size_t num_gpus, struct gd_balancer **ret);
GD_API void gd_balancer_destroy(struct gd_balancer *b);
/** How many there will be, and how many need nothing to be done. */
GD_API void gd_balancer_expect(struct gd_balancer *b, uint64_t files_total, uint64_t files_skipped);
/** Strings are copied. */
GD_API int gd_balancer_add(struct gd_balancer *b, const struct gd_file_result *result);
/** Part of the expected files that has come to an end, 0…1; 1 where nothing is expected. */
GD_API double gd_balancer_progress(const struct gd_balancer *b);
GD_API double gd_balancer_rtf(const struct gd_balancer *b);
GD_API double gd_balancer_speedup(const struct gd_balancer *b);
GD_API double gd_balancer_skew(const struct gd_balancer *b);
/** Its lists are the balancer's, valid until the next change. */
GD_API void gd_balancer_summary(const struct gd_balancer *b, struct gd_launch_summary *ret);
/** The clock stands still from now on. */
GD_API void gd_balancer_stop_clock(struct gd_balancer *b);
/** As it was when created. */
GD_API void gd_balancer_reset(struct gd_balancer *b);

/* ---- Launcher: all of it ------------------------------------------------------ */

/** A worker in the middle of a run. */
struct gd_launch_worker {
	struct gd_worker_stats stats;
	const char *file; /**< that it works on, or NULL */
};

struct gd_launch_progress {
	const struct gd_launch_summary *summary; /**< so far */
	bool ending;                             /**< a stop was asked for: nothing new begins */
	bool cancelling;                         /**< another one was: what has begun is ended */
	bool in_seconds;                         /**< the amounts are audio seconds, else bytes */
	double total_amount;                     /**< of what this run has to do */
	double done_amount;
	double eta_seconds; /**< -1: not known yet */
	size_t num_workers;
	const struct gd_launch_worker *workers;
};

struct gd_launch_options {
	size_t size; /**< sizeof(struct gd_launch_options) */

	const char *input_dir;       /**< mandatory */
	const char *output_dir;      /**< data/outputs; made when the run begins */
	const char *gpus;            /**< see gd_gpu_list() */
	const char *const *patterns; /**< see struct gd_find_options */
	size_t num_patterns;
	bool recursive;
	bool force; /**< also what an earlier run has done */

	/* The worker: one of these. */
	const char *const *command;         /**< run per file, {file} and so on filled in; NULL at the end */
	const char *const *program;         /**< persistent, speaks docs/worker-protocol.md; NULL at the end */
	const char *plugin;                 /**< a shared object that exports gd_worker */
	const struct gd_worker_ops *worker; /**< hooks of this program: each task is a gd_file_read() */
	/** For `worker`: what tells this one from others, so that results of another are not taken for its own. */
	const char *worker_name;

	const struct gd_setting *settings; /**< for the worker; a change of them makes all results old */
	size_t num_settings;
	int workers_per_gpu;      /**< 1 */
	int64_t task_timeout_ms;  /**< none */
	int64_t setup_timeout_ms; /**< none; but a program has ten minutes to be ready */
	int retries;              /**< 0 */
	uint64_t max_failures;    /**< after so many no new file begins; 0: no limit */
	enum gd_balance balance;
	gd_strategy *strategy; /**< in place of `balance`, or NULL */
	/** Reads durations, in a thread of its own while the first files are being worked on; or NULL. */
	gd_seconds_reader *seconds;
	/** Where workers' output goes. Inherited, or files in output_dir/launch.logs. */
	enum gd_output output;

	/* Callbacks, from inside gd_launcher_run(). */
	void *context; /**< first argument of each, of seconds and strategy too */
	/** About ten times a second, and at the end. */
	void (*on_progress)(void *context, const struct gd_launch_progress *progress);
	void (*on_result)(void *context, const struct gd_file_result *result);
	/** A line for people: a folder that cannot be read, a worker that is lost, results that cannot be recorded. */
	void (*on_warning)(void *context, const char *words);
};

struct gd_launcher;

/**
 * Everything that is wrong with the options, found before anything starts: folder,
 * pattern, GPUs, worker, numbers. Calls `mistake` for each (it may be NULL); returns
 * how many there are. Touches nothing.
 */
GD_API int gd_launch_validate(const struct gd_launch_options *options,
	void (*mistake)(void *context, const struct gd_error *err), void *context);

/** -EINVAL and the like for the first mistake. What the options point to must outlive the launcher. */
GD_API int gd_launcher_create(const struct gd_launch_options *options, struct gd_launcher **ret, struct gd_error *err);
GD_API void gd_launcher_destroy(struct gd_launcher *l);

/** Finds the files, and what earlier runs have left to do; gd_launcher_run() does it by itself. */
GD_API int gd_launcher_find(struct gd_launcher *l, struct gd_error *err);
/** All files that were found; NULL before gd_launcher_find(). */
GD_API const struct gd_files *gd_launcher_files(const struct gd_launcher *l);
/** What is to be done by this run: of these files[*ret_count], in the order of gd_files. */
GD_API const struct gd_found *gd_launcher_todo(const struct gd_launcher *l, size_t *ret_count);
GD_API const struct gd_gpu_list *gd_launcher_gpus(const struct gd_launcher *l);
/** Processing over audio seconds in earlier runs with these settings, 0 where there were none. */
GD_API double gd_launcher_earlier_rtf(const struct gd_launcher *l);
/** Bytes of files per second of processing in them, likewise. */
GD_API double gd_launcher_earlier_bytes_per_second(const struct gd_launcher *l);

/**
 * Does it. 0: all done, or nothing to do; 1: some failed, or could not be recorded,
 * and `err` has words where there is one reason for all of it; -ECANCELED: stopped.
 * Other negative errno values: nothing was begun. Once per launcher.
 */
GD_API int gd_launcher_run(struct gd_launcher *l, struct gd_error *err);
/**
 * First call: nothing new begins, what runs is finished. Second: it is cancelled, and
 * killed after a second. For threads and signal handlers.
 */
GD_API void gd_launcher_stop(struct gd_launcher *l);
/** Its lists are the launcher's. */
GD_API void gd_launcher_summary(const struct gd_launcher *l, struct gd_launch_summary *ret);
/** The exit code for what gd_launcher_run() or gd_launch() returned: 0, 1, 2 (usage, configuration) or 130. */
GD_API int gd_launch_exit_code(int result);

/** Create, run, summary, destroy. `ret` may be NULL; release with gd_launch_summary_free(). */
GD_API int gd_launch(const struct gd_launch_options *options, struct gd_launch_summary **ret, struct gd_error *err);
GD_API void gd_launch_summary_free(struct gd_launch_summary *summary);

#ifdef __cplusplus
}
#endif

#endif
