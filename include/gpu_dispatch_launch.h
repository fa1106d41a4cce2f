/* SPDX-License-Identifier: MIT */
/**
 * gpu_dispatch: processes a folder of files on the GPUs of a machine, as `gpuq launch`
 * does.
 *
 * # Calling sequence
 *
 * One call does everything: finds the files, skips those that an earlier run has finished,
 * distributes the others over the GPUs, longest first, and returns a summary:
 *
 *     struct gd_launch_options options = {
 *             .size = sizeof(options), .input_dir = "audio", .plugin = "./transcribe.so"};
 *     struct gd_launch_summary *summary = NULL;
 *     struct gd_error err;
 *     int r = gd_launch(&options, &summary, &err);
 *     if (r < 0)
 *             fprintf(stderr, "%s\n", err.message);
 *     int code = gd_launch_exit_code(r, summary);
 *     gd_launch_summary_free(summary);
 *
 * To stop it, to inspect the files first, or to read the summary during the run, use
 * its parts:
 *
 *     gd_launcher_create() → [gd_launcher_find()] → gd_launcher_run() → gd_launcher_destroy()
 *
 * A plug-in is a shared object that exports gd_plugin_get(); see struct gd_plugin.
 *
 * # Ownership
 *
 * Unlike the options of a pool, launch options are not copied: the strings and arrays
 * they point to must stay valid until gd_launcher_destroy(); the struct itself need
 * not. Objects that a launcher returns belong to it. Files, lists and GPUs are valid
 * until gd_launcher_destroy(), the pointers in a summary until the next call with the
 * launcher (or the balancer) that filled it.
 *
 * # Threads
 *
 * A launcher, a balancer and a list of files may each be used by one thread at a time;
 * gd_launcher_stop() is the exception. Callbacks are made on the thread that called
 * gd_launcher_run(), one at a time, except for `seconds`. These functions change no
 * signal handlers and print nothing, except for gd_launch_print_*(). Commands, programs
 * and plug-ins run in executed processes, so programs with threads can use them, too;
 * only `worker` (hooks of this program) needs a program without threads.
 *
 * Errors and structs that begin with `size`: see gpu_dispatch.h.
 */
#ifndef GPU_DISPATCH_LAUNCH_H
#define GPU_DISPATCH_LAUNCH_H

#include <stdio.h>

#include <gpu_dispatch.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Bits that indicate which numbers of a struct are known. An unknown number is 0. */
enum gd_known {
	GD_KNOWN_SECONDS = 1 << 0, /**< seconds of audio */
	GD_KNOWN_RTF = 1 << 1,
	GD_KNOWN_ETA = 1 << 2,
	GD_KNOWN_BYTES_PER_SECOND = 1 << 3,
};

/* ---- Plug-ins ------------------------------------------------------------- */

#define GD_PLUGIN_VERSION 1

#if defined(__GNUC__)
#define GD_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define GD_PLUGIN_EXPORT
#endif

/**
 * A plug-in for `gpuq launch --worker FILE.so` exports the function
 *
 *     const struct gd_plugin *gd_plugin_get(void)
 *     {
 *             static const struct gd_worker_ops ops = {.size = sizeof(ops), .setup = …, .process = …};
 *             static const struct gd_plugin plugin = {
 *                     .size = sizeof(plugin), .version = GD_PLUGIN_VERSION, .about = "…", .ops = &ops};
 *             return &plugin;
 *     }
 *
 * Each task is a file, which the hooks read with gd_file_read(). They read the settings
 * --model-size, --language and --set with gd_worker_setting(w, "model_size", "base"). The
 * plug-in is loaded only in separate processes, which provide the gd_*() functions, so it
 * need not be linked with the library:
 *
 *     cc -shared -fPIC x.c -o x.so $(pkg-config --cflags gpu_dispatch)
 *
 * Before a run, the plug-in is loaded once in a process without a GPU, with a time limit of
 * 30 seconds, to read its struct gd_plugin and to call its `check`.
 */
struct gd_plugin {
	size_t size;       /**< sizeof(struct gd_plugin) */
	uint64_t version;  /**< GD_PLUGIN_VERSION */
	const char *about; /**< one line for --list-workers, or NULL */
	const struct gd_worker_ops *ops;
	/**
	 * Called before a run, in the process without a GPU, with the settings as strings: checks
	 * that the worker's needs are met, such as its model, without loading it. Returns
	 * 0, or a negative errno value with a message in *err that states what to do; the
	 * run then does not begin. May be NULL.
	 */
	int (*check)(const struct gd_setting *settings, size_t num_settings, struct gd_error *err);
};

/** Implemented by the plug-in. */
GD_PLUGIN_EXPORT const struct gd_plugin *gd_plugin_get(void);

/** The file that a task describes. */
struct gd_file {
	size_t size;
	const char *path;       /**< absolute */
	const char *output_dir; /**< absolute; for this file only; exists */
	const char *stem;       /**< the file's name without folder and extension */
	uint64_t size_bytes;
	uint64_t known; /**< GD_KNOWN_SECONDS */
	double seconds; /**< duration of the audio */
};

/** Fills *ret (of `size` bytes); its strings are valid as long as the task's bytes. -EBADMSG: the task does not
 * describe a file. */
GD_API int gd_file_read(const struct gd_bytes *task, struct gd_file *ret, size_t size);
/**
 * Writes the task that gd_file_read() reads, for a pool of your own with a worker for
 * files. Returns its size in bytes; if that is more than `room`, nothing is written.
 * `stem` may be NULL: derived from the path. -EINVAL: the struct's size is not set, or
 * a path is not absolute.
 */
GD_API int64_t gd_file_write(const struct gd_file *file, void *data, size_t room);
/**
 * In process(): reports how many seconds of audio the file held; -EINVAL if that is not
 * a number of 0 or more. Without this call the duration is unknown. The seconds are the
 * file's result: in process_batch(), gd_worker_batch_result() with one double reports
 * them.
 */
GD_API int gd_worker_file_seconds(struct gd_worker *w, double seconds);

/* ---- Files ---------------------------------------------------------------- */

/** A file that was found. The functions below also take files that you describe yourself. */
struct gd_found {
	size_t size;      /**< sizeof(struct gd_found) */
	const char *path; /**< relative to the folder: "a/b.wav" */
	uint64_t size_bytes;
	int64_t mtime_ns; /**< last change, since 1970; wraps around for years after 2262 */
	uint64_t known;   /**< GD_KNOWN_SECONDS */
	double seconds;   /**< duration of the audio */
};

/** Files of a folder. Release with gd_files_free(). */
struct gd_files {
	size_t size;
	const char *folder; /**< absolute, links resolved */
	size_t count;
	const struct gd_found *const *files; /**< sorted by name, folder by folder */
	/** Unreadable folders, loops of links and other problems: one line each, for the first thousand, and one for
	 * the rest.
	 */
	size_t num_warnings;
	const char *const *warnings;
	/* Reasons why few files were found. */
	uint64_t others;        /**< files that match no pattern */
	const char *other;      /**< one of them, or NULL */
	uint64_t other_folders; /**< folders that were not entered because `recursive` was not set */
	/** Files and folders that were left out, with a warning, and not found through another path either: links of
	 * other users, broken links, unreadable folders and others. */
	uint64_t skipped;
};

struct gd_find_options {
	size_t size; /**< sizeof(struct gd_find_options) */
	/** Patterns for names, as in the shell; a leading dot must match explicitly. Default: *.wav */
	const char *const *patterns;
	size_t num_patterns;
	/** A folder that is not entered, or NULL. If it is the searched folder itself, only
	 *  the launcher's own files (launch.jsonl) are left out. */
	const char *exclude;
	/** Called from time to time; true ends the search with -ECANCELED. */
	bool (*stopped)(void *context);
	void *context;
	uint64_t recursive; /**< nonzero: also subfolders and links to folders, each once */
	/** Nonzero: also everything that links of other users lead to. By default, such a link is skipped if it leads
	 *  to a folder, to a file of this user, or to a file that not everybody can read. Files of other users and
	 *  files behind their links are skipped if they have more than 64 MiB of holes. If others can choose names,
	 * long paths are limited: the bytes beyond the first 256 of each path of their files may total 64 MiB. Files
	 * beyond this limit are skipped, too. */
	uint64_t trust_input;
};

/** Finds files. Only names, sizes and times are read. -ENOENT, -ENOTDIR and -EACCES refer to the folder itself. */
GD_API int gd_files_find(
	const char *folder, const struct gd_find_options *options, struct gd_files **ret, struct gd_error *err);
GD_API void gd_files_free(struct gd_files *files);

/** Reads how many seconds of audio a file holds. 0, or a negative errno value: unknown. A launch calls it on a separate
 * thread, one call at a time. */
typedef int gd_seconds_reader(void *context, const char *path, double *ret_seconds);

/** Calls `reader` for all files whose seconds are unknown and stores the results. Returns how many became known. */
GD_API size_t gd_files_read_seconds(struct gd_files *files, gd_seconds_reader *reader, void *context);

/** The amount of work. */
struct gd_workload {
	size_t size;
	uint64_t files;
	uint64_t bytes;
	double audio_seconds;   /**< total of the files whose seconds are known */
	uint64_t audio_unknown; /**< files whose seconds are unknown */
	uint64_t largest_bytes;
	uint64_t smallest_bytes;
	const char *largest; /**< path of the first such file; NULL if there is none */
	const char *smallest;
};

/** Fills *ret (of `size` bytes). */
GD_API void gd_files_workload(const struct gd_found *const *files, size_t count, struct gd_workload *ret, size_t size);

/* ---- Distribution --------------------------------------------------------- */

/**
 * In which order files are processed, and how they are divided in advance into shares, one
 * per GPU. A launch follows the shares only with round-robin or a strategy; otherwise the
 * next file goes to the first free GPU.
 */
enum gd_balance {
	/** Longest first: by seconds, or estimated from the size. A launch processes files of other users after those
	 *  of this user and root if others can change the content of the input folder (also with BY_SIZE). Shares: each
	 *  file goes to the GPU with the smallest share. */
	GD_BALANCE_LONGEST_FIRST = 0,
	GD_BALANCE_BY_SIZE,     /**< largest first; shares: assigned in turn */
	GD_BALANCE_ROUND_ROBIN, /**< as found; shares: assigned in turn. A launch processes each file on its GPU. */
	GD_BALANCE_AS_FOUND,    /**< as found; shares: one contiguous part each */
};

/** "longest-first", "size", "round-robin", "none". */
GD_API const char *gd_balance_name(enum gd_balance balance);
/** -EINVAL: unknown name. */
GD_API int gd_balance_parse(const char *name, enum gd_balance *ret);

/** Writes the order of work, as indices of files, into ret_order[0…count). -EINVAL: a file whose `size` is not set, or
 * an unknown balance. */
GD_API int gd_balance_order(
	const struct gd_found *const *files, size_t count, enum gd_balance balance, size_t *ret_order);
/** Writes to ret_gpus[0…count) the GPU (0…num_gpus-1) that each file would get. -EINVAL as above, and if num_gpus is
 * 0. */
GD_API int gd_balance_share(
	const struct gd_found *const *files, size_t count, enum gd_balance balance, size_t num_gpus, size_t *ret_gpus);

/** A strategy of your own: writes to ret_gpus[i] the GPU (0…num_gpus-1) that gets files[i]. 0 or a negative errno. */
typedef int gd_strategy(
	void *context, const struct gd_found *const *files, size_t count, size_t num_gpus, size_t *ret_gpus);

/** The order of work for given shares: the first file of each GPU, the second of each… -EINVAL: no such GPU. */
GD_API int gd_share_order(const size_t *gpus, size_t count, size_t num_gpus, size_t *ret_order);

/** The share of one GPU. */
struct gd_share {
	size_t size;
	uint64_t files;
	uint64_t bytes;
	double audio_seconds; /**< total of the files whose seconds are known */
	double load;          /**< fraction of all work, 0…1: by seconds, or estimated from the size */
	double imbalance;     /**< of all shares: largest load / mean load - 1; 0: even */
};

/** Fills *ret (of `size` bytes) with the share of one GPU. -EINVAL: no such GPU. */
GD_API int gd_share_stats(const struct gd_found *const *files, const size_t *gpus, size_t count, size_t num_gpus,
	size_t gpu, struct gd_share *ret, size_t size);

/* ---- Balancer: statistics of results -------------------------------------- */

/** The result of one file. */
struct gd_file_result {
	size_t size; /**< sizeof(struct gd_file_result) */
	const char *file;
	const char *error; /**< NULL: done */
	int64_t gpu;       /**< -1: the file never reached a GPU */
	uint64_t size_bytes;
	uint64_t known; /**< GD_KNOWN_SECONDS */
	double audio_seconds;
	double processing_seconds;
	const char *node; /**< node of a cluster that has the GPU; NULL: this machine */
};

struct gd_launch_failure {
	size_t size;
	const char *file;
	const char *error;
};

/** The results of one GPU. */
struct gd_launch_gpu {
	size_t size;
	int64_t gpu;
	uint64_t files; /**< done */
	uint64_t failed;
	double audio_seconds;
	double processing_seconds;
	double share;     /**< fraction of the finished work, 0…1: by audio seconds, or by files if any are unknown */
	const char *node; /**< node of a cluster that has the GPU; NULL: this machine */
};

/**
 * All numbers of a run. Processing seconds are the total of all finished files on all
 * workers: more than the wall clock when workers run in parallel.
 */
struct gd_launch_summary {
	size_t size;
	uint64_t known;       /**< GD_KNOWN_RTF */
	uint64_t files_total; /**< = done + failed + skipped + left */
	uint64_t files_done;
	uint64_t files_failed;
	uint64_t files_skipped;    /**< done by an earlier run */
	uint64_t files_left;       /**< not begun, or cancelled: the next run processes them; on_result is not called */
	uint64_t files_unrecorded; /**< results not recorded in launch.jsonl at the end: the next run repeats them */
	uint64_t bytes_done;
	double progress; /**< fraction of the files that have ended, 0…1; 1 if there are no files */
	double audio_seconds;
	double processing_seconds;
	double wall_seconds;
	double rtf;     /**< processing seconds over audio seconds, of files for which both are known */
	double speedup; /**< processing seconds over wall clock without loading_seconds and idle_seconds */
	double skew;    /**< working time of the busiest GPU / mean of all GPUs - 1; 0: even */
	size_t num_failures;
	const struct gd_launch_failure *const *failures;
	size_t num_gpus;
	const struct gd_launch_gpu *const *gpus; /**< by node and number */
	double loading_seconds;  /**< wall clock time that a worker spent loading its model, mean of all workers */
	double idle_seconds;     /**< wall clock time in which a watched folder had no file to process */
	uint64_t inputs_skipped; /**< not part of files_total: see `skipped` of struct gd_files */
};

/** Collects the results of files and computes a summary. */
struct gd_balancer;

/** Creates a balancer for these GPUs (results may also name others); its clock starts now. */
GD_API int gd_balancer_create(const int *gpus, size_t num_gpus, struct gd_balancer **ret);
/** Releases the balancer; NULL is allowed. */
GD_API void gd_balancer_destroy(struct gd_balancer *b);
/** Sets how many files there will be, and how many of them are skipped. */
GD_API void gd_balancer_expect(struct gd_balancer *b, uint64_t files_total, uint64_t files_skipped);
/** Adds the result of a file. -EINVAL or -E2BIG: wrong struct size; -ENOMEM. */
GD_API int gd_balancer_add(struct gd_balancer *b, const struct gd_file_result *result);
/** Fills *ret (of `size` bytes). */
GD_API void gd_balancer_summary(struct gd_balancer *b, struct gd_launch_summary *ret, size_t size);
/** Sets the loading time, the mean over all workers of the time that a worker took to load its model: `speedup`
 * excludes this part of the wall clock. */
GD_API void gd_balancer_set_loading(struct gd_balancer *b, double seconds);
GD_API void gd_balancer_stop_clock(struct gd_balancer *b);
/** Restores the state after creation. */
GD_API void gd_balancer_reset(struct gd_balancer *b);

/* ---- Launcher ------------------------------------------------------------- */

/** A worker during a run. */
struct gd_launch_worker {
	size_t size;
	const struct gd_worker_stats *stats;
	const char *file; /**< the file that it is processing, or NULL */
	const char *node; /**< node of a cluster that has its GPU; NULL: this machine, or no node yet */
	int64_t gpu;      /**< number of its GPU there */
};

struct gd_launch_progress {
	size_t size;
	const struct gd_launch_summary *summary; /**< so far */
	int ending;                              /**< a stop was requested: no new file is started */
	int cancelling;                          /**< a second stop: running files are cancelled */
	uint64_t known;      /**< GD_KNOWN_ETA; GD_KNOWN_SECONDS: amounts are audio seconds, not bytes */
	double total_amount; /**< all work of this run */
	double done_amount;
	double eta_seconds;
	size_t num_workers;
	const struct gd_launch_worker *const *workers;
	int watching; /**< new files may follow */
	int reserved; /**< 0 */
};

struct gd_launch_options {
	size_t size; /**< sizeof(struct gd_launch_options) */

	const char *input_dir; /**< mandatory */
	/** Default data/outputs. Created when the run begins; see trust_output_dir. If other users can write to the
	 * input folder or a folder that is searched, or replace one of them, output_dir is created with mode 0700: they
	 * could make this user process private files (through links, for example), and must not read the results.
	 * on_warning is called in this case. An output_dir that already exists keeps its mode; on_warning is then
	 * called if others can read it.
	 */
	const char *output_dir;
	const char *gpus;            /**< see gd_gpu_list() */
	const char *const *patterns; /**< see struct gd_find_options */
	size_t num_patterns;
	int recursive; /**< nonzero: include subfolders of input_dir */
	int force;     /**< nonzero: include files that an earlier run has finished */

	/* The worker: one of these; default: the installed speech recognizer, whisper or else pocketsphinx. */
	const char *const *command; /**< run for each file, with {file} etc. replaced; NULL at the end */
	const char *const *program; /**< persistent, speaks the protocol of docs/worker-protocol.md; NULL at the end */
	/** Name of an installed plug-in ("pocketsphinx"), or path of a shared object (with a
	 *  slash or ending in ".so"). */
	const char *plugin;
	const struct gd_worker_ops
		*worker;                /**< hooks of this program, forked: each task is a file, see gd_file_read() */
	const char *const *worker_argv; /**< a program that calls gd_worker_main() with such hooks; NULL at the end */
	/** For `worker` and `worker_argv`: identifies the worker. Files that were done by a
	 *  worker with another name are processed again. */
	const char *worker_name;
	int allow_threads; /**< for `worker`: see struct gd_options */

	int workers_per_gpu; /**< default 1 */
	const struct gd_setting
		*settings; /**< for the worker; no NUL in values; if they change, files are processed again */
	size_t num_settings;
	int64_t task_timeout_ms;  /**< default: none */
	int64_t setup_timeout_ms; /**< default: none; a program has ten minutes to report that it is ready */
	/** After this many failures no new file is started (running files may still fail, too); default: unlimited. */
	uint64_t max_failures;
	int retries; /**< default 0 */
	enum gd_balance balance;
	/** Decides which GPU a file runs on, instead of `balance`; or NULL. If a GPU has lost all its workers, the
	 * other GPUs process its files. */
	gd_strategy *strategy;
	/** Reads durations, in a separate thread while the first files are processed; or NULL. No file waits for it,
	 * but the run does not end before a call in progress has returned. */
	gd_seconds_reader *seconds;

	void *context; /**< first argument of the callbacks, `seconds` and `strategy` */
	/** About ten times a second, and at the end. */
	void (*on_progress)(void *context, const struct gd_launch_progress *progress);
	void (*on_result)(void *context, const struct gd_file_result *result);
	/** A human-readable line: an unreadable folder, a lost worker, results that cannot be recorded. */
	void (*on_warning)(void *context, const char *message);
	/** Where the workers' output goes: inherited, dropped, or files in output_dir/launch.logs. */
	enum gd_output output;
	/** Nonzero: output_dir may belong to another user, or be writable or renamable by others. They can make this
	 * account overwrite its own files. */
	int trust_output_dir;
	int setup_concurrency; /**< how many workers load their model at the same time; default: all */
	/** Nonzero: the run continues with new files of input_dir, each when it is complete (closed after writing, or
	 * renamed into place), until gd_launcher_stop(); a file that has changed counts as new. */
	int watch;
	/** Nonzero: process everything that links of other users lead to, and sparse files of others, see struct
	 * gd_find_options. Other users can then make this user process any file that this user can read, and their
	 * files may come before files of this user. */
	uint64_t trust_input;
};

struct gd_launcher;

/**
 * Checks the options without starting or changing anything: folder, patterns, GPUs,
 * worker, numbers. Calls `mistake` (may be NULL) for each mistake and returns their
 * number. A missing worker is not a mistake: if none is given or installed, only
 * gd_launcher_run() fails.
 */
GD_API int gd_launch_validate(const struct gd_launch_options *options,
	void (*mistake)(void *context, const struct gd_error *err), void *context);

/** Creates a launcher. Fails with the first mistake in the options. */
GD_API int gd_launcher_create(const struct gd_launch_options *options, struct gd_launcher **ret, struct gd_error *err);
/** Releases the launcher; NULL is allowed. Must not be called during a run. */
GD_API void gd_launcher_destroy(struct gd_launcher *l);

/** Finds the files, and which of them remain to be processed. gd_launcher_run() calls it if you did not. */
GD_API int gd_launcher_find(struct gd_launcher *l, struct gd_error *err);
/** All files that were found; NULL before gd_launcher_find(). */
GD_API const struct gd_files *gd_launcher_files(const struct gd_launcher *l);
/** The files that this run must process, *ret_count of them, in the order of gd_launcher_files(). With `watch`, valid
 *  until gd_launcher_run(). */
GD_API const struct gd_found *const *gd_launcher_todo(const struct gd_launcher *l, size_t *ret_count);
GD_API const struct gd_gpu_list *gd_launcher_gpus(const struct gd_launcher *l);

/** How fast earlier runs with these settings were. */
struct gd_launch_pace {
	size_t size;
	uint64_t known;          /**< GD_KNOWN_RTF, GD_KNOWN_BYTES_PER_SECOND */
	double rtf;              /**< processing seconds over audio seconds */
	double bytes_per_second; /**< file bytes, for one worker */
};

/** Fills *ret (of `size` bytes) after gd_launcher_find(). */
GD_API void gd_launcher_earlier_pace(const struct gd_launcher *l, struct gd_launch_pace *ret, size_t size);

/**
 * Processes the files. Returns 0 if the run finished; the summary shows whether files
 * failed. -ECANCELED: stopped; -EDQUOT: max_failures was reached; -ECHILD: no worker was
 * left; in these cases the summary shows the work done. Other errors: nothing was started
 * (-ENOENT: no worker was given and none is installed). Can be called once per launcher.
 */
GD_API int gd_launcher_run(struct gd_launcher *l, struct gd_error *err);
/**
 * Stops a run. First call: no new file is started, running files are finished. Second call:
 * they are cancelled, and killed after a second. Third call: they are killed at once.
 * Safe in any thread and in signal handlers.
 */
GD_API void gd_launcher_stop(struct gd_launcher *l);
/** Fills *ret (of `size` bytes). */
GD_API void gd_launcher_summary(struct gd_launcher *l, struct gd_launch_summary *ret, size_t size);

/**
 * Prints a table of the GPUs, a line of totals and up to 20 failures, as `gpuq launch`
 * does when it ends. 0, -ENOMEM, or -EIO if writing failed.
 */
GD_API int gd_launch_print_summary(const struct gd_launch_summary *summary, FILE *out);
/** In on_progress: prints one line, as `gpuq launch` does every few seconds without a terminal. */
GD_API int gd_launch_print_progress(const struct gd_launch_progress *progress, FILE *out);

/**
 * The exit code for the result of gd_launcher_run() or gd_launch(): 0 everything is
 * done, 1 some work failed, 2 wrong usage or configuration, 130 stopped. `summary` may
 * be NULL.
 */
GD_API int gd_launch_exit_code(int result, const struct gd_launch_summary *summary);

/**
 * Creates a launcher, runs it and destroys it. `ret` may be NULL. *ret is set to the
 * summary if work was started, even on failure, otherwise to NULL. Release it with
 * gd_launch_summary_free().
 */
GD_API int gd_launch(const struct gd_launch_options *options, struct gd_launch_summary **ret, struct gd_error *err);
/** Releases a summary; NULL is allowed. */
GD_API void gd_launch_summary_free(struct gd_launch_summary *summary);

#ifdef __cplusplus
}
#endif

#endif
