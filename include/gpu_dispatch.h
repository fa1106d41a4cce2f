/* SPDX-License-Identifier: MIT */
/**
 * gpu_dispatch: keep all the GPUs of a box busy.
 *
 * The short way, a stream of tasks through persistent workers, one per GPU:
 *
 *     gd_dispatcher_create() → gd_dispatcher_run() → gd_dispatcher_destroy()
 *
 * gd_dispatcher_run() starts one process per GPU, calls `setup` in each, pulls tasks from
 * your generator, hands them out, makes your callbacks, ends the workers and
 * returns. gd_dispatcher_stop() ends it early, from another thread or a signal handler.
 *
 * The long way, for servers, event loops and bindings:
 *
 *     gd_pool_open() → gd_pool_submit() … gd_pool_poll() … → gd_pool_close()
 *
 * Which thread calls what: the generator runs in a thread of its own (unless
 * the source says `inline_generator`), beside the callbacks: what both touch
 * needs a lock. Every other callback is made from inside gd_dispatcher_run(), gd_pool_poll() or
 * gd_pool_close(), on the thread that called it, one at a time. Worker hooks run in
 * the worker's process, on its first thread, and only from there, during a hook,
 * may a struct gd_worker be used.
 *
 * In a callback one may submit (it does not wait: -EAGAIN), stop, interrupt and
 * ask for statistics. gd_pool_poll() and gd_pool_close() are -EDEADLK there.
 *
 * Who owns what: bytes given to gd_pool_submit() and gd_feed_emit() are copied before the
 * call returns. Bytes in an event belong to the library and are valid during
 * the callback only. Tasks and results are aligned for any type.
 *
 * A program that forks: its child has no pool. The shared memory is not
 * inherited, so nothing here may be called on a pool or dispatcher of the
 * parent; let it exec, or leave by _exit().
 *
 * Options structs begin with their size; in every field zero means the default.
 * Functions return 0 (or a count) on success, a negative errno value on failure;
 * outputs are untouched on failure. A `struct gd_error *` may be NULL.
 *
 * The library prints nothing (but see gd_dispatcher_run_shown(), whose purpose it is, and
 * gd_worker_main()), never exits, does not touch SIGCHLD and waits for no process that it did not start.
 */
#ifndef GPU_DISPATCH_H
#define GPU_DISPATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GD_VERSION_MAJOR 0
#define GD_VERSION_MINOR 1
#define GD_VERSION_PATCH 0

#if defined(__GNUC__)
#define GD_API               __attribute__((visibility("default")))
#define GD_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define GD_API
#define GD_PRINTF(fmt, args)
#endif

/** "0.1.0", of the library that was loaded. */
GD_API const char *gd_version(void);

/* ---- Errors ------------------------------------------------------------- */

/** What went wrong, in words: one line, no newline at its end. */
struct gd_error {
	int code; /**< negative errno value, the same that was returned */
	char message[508];
};

/** Some bytes that somebody else owns. */
struct gd_bytes {
	const void *data;
	size_t size;
};

/* ---- GPUs --------------------------------------------------------------- */

enum gd_vendor {
	GD_VENDOR_NVIDIA = 1,
	GD_VENDOR_AMD,
	GD_VENDOR_SIMULATED,
};

/** "nvidia", "amd", "simulated". */
GD_API const char *gd_vendor_name(enum gd_vendor vendor);

/** Which fields of a struct gd_gpu are known: unknown is never 0. */
enum gd_gpu_known {
	GD_GPU_KNOWN_UUID = 1 << 0,
	GD_GPU_KNOWN_NAME = 1 << 1,
	GD_GPU_KNOWN_PCI_ID = 1 << 2,
	GD_GPU_KNOWN_MEMORY_TOTAL = 1 << 3,
	GD_GPU_KNOWN_MEMORY_FREE = 1 << 4,
	GD_GPU_KNOWN_MEMORY_USED = 1 << 5,
	GD_GPU_KNOWN_UTILIZATION = 1 << 6,
	GD_GPU_KNOWN_TEMPERATURE = 1 << 7,
	GD_GPU_KNOWN_POWER = 1 << 8,
	GD_GPU_KNOWN_NUMA_NODE = 1 << 9,
	GD_GPU_KNOWN_PROCESSES = 1 << 10,
	GD_GPU_KNOWN_MIG = 1 << 11,
	GD_GPU_KNOWN_COMPUTE_MODE = 1 << 12, /**< the compute mode: exclusive and prohibited */
	GD_GPU_KNOWN_MEMORY_RESERVED = 1 << 13,
};

/** What condition a GPU is in. */
enum gd_gpu_health {
	GD_GPU_HEALTH_OK = 0,
	GD_GPU_HEALTH_LOST,          /**< fell off the bus */
	GD_GPU_HEALTH_NOT_ANSWERING, /**< its driver call did not return in time */
	GD_GPU_HEALTH_UNREADABLE,    /**< the driver refused it; see the list's warnings */
};

/** A process that uses a GPU. */
struct gd_gpu_process {
	int64_t pid; /**< as the driver tells it: in a container, maybe the host's */
	uint64_t memory_bytes;
	bool memory_known;
};

/** One GPU, or one MIG instance of one, at the moment it was asked. */
struct gd_gpu {
	unsigned known; /**< bits of enum gd_gpu_known */
	enum gd_gpu_health health;
	enum gd_vendor vendor;
	int index;        /**< as nvidia-smi numbers them, AMD's after them; a MIG instance has its card's */
	int vendor_index; /**< its number among the cards of its vendor */
	int mig_index;    /**< -1, or the number of the MIG instance on its card */
	bool mig_enabled; /**< the card is split: work goes to its instances, which follow it in a survey */
	bool exclusive;   /**< exclusive compute mode: one process at a time */
	bool prohibited;  /**< compute mode "prohibited": no process may use it */
	char uuid[96];
	char name[96];   /**< UTF-8, whatever the driver said */
	char pci_id[32]; /**< as the driver writes it: "00000000:65:00.0", AMD "0000:65:00.0" */
	uint64_t memory_total_bytes;
	uint64_t memory_free_bytes;
	uint64_t memory_used_bytes;     /**< by processes; with what the driver reserved where that is not known */
	uint64_t memory_reserved_bytes; /**< by the driver, for itself */
	unsigned utilization_percent;
	int temperature_celsius;
	unsigned power_milliwatts;
	int numa_node;
	const struct gd_gpu_process *processes;
	size_t num_processes;
};

/** Some GPUs. Release with gd_gpu_list_free(). */
struct gd_gpu_list {
	size_t count;
	const struct gd_gpu *gpus;
	/** What was wrong with a card or a driver, a line each; often none. */
	size_t num_warnings;
	const char *const *warnings;
};

/**
 * The GPUs that a specification selects, as they are now.
 *
 * `spec`: "all": every GPU that can be used, in the order of their
 * index, MIG instances in place of the card that they split; "0,1,2", "0-3",
 * "GPU-uuid…", "MIG-uuid…" (a unique beginning is enough), also mixed: these, in
 * this order, whatever their health, a split card again as its instances; "sim:4"
 * or "sim:4x16G": simulated ones. NULL and "auto" mean $GPUQ_GPUS, which takes the
 * same forms, or "all" if it is not set. An inherited CUDA_VISIBLE_DEVICES
 * (ROCR_VISIBLE_DEVICES for AMD) limits what there is. No GPU is no error for "all":
 * the list is then empty. A GPU that is not there is -ENODEV, and the error names
 * those that are.
 *
 * If $GPUQ_GPUS is "sim:N[xSIZE]", these simulated GPUs are the GPUs of the machine
 * for every function: all specifications but an explicit "sim:…", and all numbers,
 * mean them. If it names real GPUs, it is only the default selection.
 *
 * The driver is asked in a process of its own: this one never loads it, and
 * a driver that hangs costs five seconds, not the caller.
 */
GD_API int gd_gpu_list(const char *spec, struct gd_gpu_list **ret, struct gd_error *err);
GD_API void gd_gpu_list_free(struct gd_gpu_list *list);

/**
 * All there is, usable or not, in the order of their index: sick cards too, and
 * split ones, each followed by its MIG instances.
 */
GD_API int gd_gpu_survey(struct gd_gpu_list **ret, struct gd_error *err);

/** How many GPUs `spec` selects, or a negative errno value. */
GD_API int gd_gpu_count(const char *spec, struct gd_error *err);

/** One GPU of the survey by its index, followed by its MIG instances if it is split; or -ENODEV with the words. */
GD_API int gd_gpu_get(int index, struct gd_gpu_list **ret, struct gd_error *err);

/**
 * The indices that `spec` selects, in its order, into ids[0…max).
 * Returns how many there are, which may be more than max. A card that is split
 * stands there once for each of its MIG instances.
 */
GD_API int gd_gpu_parse(const char *spec, int *ids, size_t max, struct gd_error *err);

/** 0 if every one of the ids is a usable GPU of the survey; else -ENODEV or -EINVAL and which is not, and why. */
GD_API int gd_gpu_validate(const int *ids, size_t num_ids, struct gd_error *err);

/** Whether work can be put on a GPU now: it answers and is neither split nor prohibited. */
GD_API bool gd_gpu_usable(const struct gd_gpu *gpu);

/** Whether there is at least one usable NVIDIA GPU. */
GD_API bool gd_gpu_cuda_available(void);

/** One change to an environment: value NULL means unset. */
struct gd_env_change {
	const char *name;
	const char *value;
};

/**
 * The environment that lets a child process see these GPUs and no others; with
 * none of them, no GPU at all. GPUs of two vendors at once are -EINVAL. One
 * allocation, ended by an entry whose name is NULL; release with free().
 */
GD_API int gd_gpu_bind(const struct gd_gpu *gpus, size_t num_gpus, struct gd_env_change **ret, struct gd_error *err);

/* ---- Workers ------------------------------------------------------------ */

/** The worker as its hooks see it; exists in the worker's process only. */
struct gd_worker;

/**
 * What runs inside a worker process. One of process and process_batch is
 * mandatory. Every hook returns 0 or a negative errno value; gd_worker_fail() adds the
 * words. A hook that crashes or exits costs its own task and process, never the
 * dispatcher or the other workers; one that hangs, too, where it has a limit
 * (task_timeout_ms, setup_timeout_ms).
 *
 * A worker has a process group of its own (Ctrl-C does not reach it), /dev/null
 * as its input, no handler and no mask of the host's signals. It leaves by
 * _exit(), after its stdout and stderr were flushed. What it started ends with it.
 */
struct gd_worker_ops {
	/** Load the model: once per process, after the GPU is selected. */
	int (*setup)(struct gd_worker *w, void **ret_state);
	/** One task. Its bytes are valid during the call only, and cannot be written to. */
	int (*process)(struct gd_worker *w, void *state, const struct gd_bytes *task);
	/**
	 * All that is there, at most max_batch tasks, at least one; never waits for
	 * more. Answer each with gd_worker_batch_result() or gd_worker_batch_fail(); one with neither
	 * gets an empty result, or, where the hook returns an error, that error.
	 */
	int (*process_batch)(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t num_tasks);
	size_t max_batch; /**< for process_batch; 0: 32; at most 1024 */
	/** Release what setup returned. Not called after a crash, a kill or a setup that failed. */
	int (*cleanup)(struct gd_worker *w, void *state);
};

/** The GPU's number on this machine. */
GD_API int gd_worker_gpu(const struct gd_worker *w);
/** The number by which this process opens its GPU: 0, for it sees no other. */
GD_API int gd_worker_device(const struct gd_worker *w);
/** Which worker this is, 0…; two workers on one GPU have two slots. */
GD_API int gd_worker_slot(const struct gd_worker *w);
/** base_seed + the GPU's number: the same for two workers on one GPU. */
GD_API int64_t gd_worker_seed(const struct gd_worker *w);
/** A setting given in the options, or `otherwise` where there is none. */
GD_API const char *gd_worker_setting(const struct gd_worker *w, const char *key, const char *otherwise);
/** The id and the attempt (1…) of the task being processed; of a batch, of its i-th. */
GD_API uint64_t gd_worker_task_id(const struct gd_worker *w, size_t i);
GD_API int gd_worker_attempt(const struct gd_worker *w, size_t i);

/**
 * True when the current task's time is over, or when what runs is cancelled (a
 * second gd_dispatcher_stop(), gd_pool_close()). A long task looks now and then and returns,
 * whatever it likes: its worker, with the model, stays. It costs next to nothing.
 */
GD_API bool gd_worker_cancelled(const struct gd_worker *w);

/** The task's result, copied; the last one given counts. Waits for room if the callbacks are slow. */
GD_API int gd_worker_result(struct gd_worker *w, const void *data, size_t size);
/** Room for a result of `size` bytes, to be written in place before the hook returns; NULL if there is no memory. */
GD_API void *gd_worker_result_reserve(struct gd_worker *w, size_t size);
/** Says why a hook fails, in at most 1023 bytes (setup: 511). Returns `code`, so: return gd_worker_fail(w, -EIO, "…",
 * …); */
GD_API int gd_worker_fail(struct gd_worker *w, int code, const char *format, ...) GD_PRINTF(3, 4);
/** The same for the i-th task of a batch. In any order; -EINVAL for one that is answered and gone. */
GD_API int gd_worker_batch_result(struct gd_worker *w, size_t i, const void *data, size_t size);
GD_API int gd_worker_batch_fail(struct gd_worker *w, size_t i, int code, const char *format, ...) GD_PRINTF(4, 5);

/**
 * The body of main() in a program that a dispatcher executes (`worker_argv`):
 * `return gd_worker_main(&ops);`. It does not return: the worker leaves by
 * _exit(). Started by hand, or without a process hook, it says so on stderr and
 * returns 2, the only words this library ever prints.
 */
GD_API int gd_worker_main(const struct gd_worker_ops *ops);

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

/* ---- Events ------------------------------------------------------------- */

/** Why a task, a setup or a cleanup did not succeed. */
enum gd_failure {
	GD_FAILURE_NONE = 0,
	GD_FAILURE_ERROR,         /**< the hook returned an error */
	GD_FAILURE_CRASHED,       /**< a signal, or the worker called exit() */
	GD_FAILURE_OUT_OF_MEMORY, /**< killed by the kernel, probably for memory */
	GD_FAILURE_TIMED_OUT,     /**< not done in time, whatever it said afterwards */
	GD_FAILURE_CANCELLED,     /**< the run was stopped first */
	GD_FAILURE_NO_WORKER,     /**< no worker is left */
	GD_FAILURE_STUCK,         /**< its process cannot be killed (stuck in the driver) */
	GD_FAILURE_NOT_CARRIED,   /**< the bytes could not be brought back, or to another worker */
};

/** "failed", "crashed", … */
GD_API const char *gd_failure_name(enum gd_failure failure);

/**
 * One thing that happened. Times are CLOCK_MONOTONIC nanoseconds; 0: it did not
 * happen. Of a setup or a cleanup only slot, gpu, ended_ns and the failure are told.
 */
struct gd_event {
	uint64_t id; /**< 0, 1, 2… in the order of submission */
	void *tag;   /**< as given with the task */
	int slot;    /**< worker, or -1 where it waited for one */
	int gpu;     /**< its GPU's number, or -1 */
	int attempt; /**< 1… ; 0 if it never started */
	uint64_t queued_ns;
	uint64_t started_ns;
	uint64_t ended_ns;
	struct gd_bytes task;   /**< as it was submitted; no data where there was no memory to keep it */
	struct gd_bytes result; /**< of a success */
	enum gd_failure failure;
	int code;   /**< the hook's negative errno value; -ETIMEDOUT, -ECANCELED, -ENODEV of ours; 0 after a crash */
	int signal; /**< that ended the worker, or 0 */
	uint64_t address;    /**< of the memory fault, with SIGSEGV and SIGBUS */
	const char *message; /**< in words; "" on success */
};

/** Returns 0 to go on; anything else asks to stop, as the first gd_dispatcher_stop() does. */
typedef int gd_callback(void *context, const struct gd_event *event);

/* ---- Statistics --------------------------------------------------------- */

enum gd_worker_state {
	GD_WORKER_STATE_STARTING = 0, /**< process being made, or setup running */
	GD_WORKER_STATE_IDLE,
	GD_WORKER_STATE_BUSY,
	GD_WORKER_STATE_ENDING,   /**< cleanup running */
	GD_WORKER_STATE_FINISHED, /**< ended as it should */
	GD_WORKER_STATE_LOST,     /**< setup failed, crashed too often, or cannot be killed */
};

/** "starting", "idle", … */
GD_API const char *gd_worker_state_name(enum gd_worker_state state);

struct gd_worker_stats {
	int slot;
	int gpu;
	int64_t pid; /**< 0 while there is none */
	enum gd_worker_state state;
	bool has_task;
	uint64_t task_id;  /**< the one being worked on, if has_task */
	uint64_t since_ns; /**< when it began, as far as it is known */
	uint64_t last_duration_ns;
	uint64_t busy_ns;
	uint64_t completed;
	uint64_t failed;
	uint64_t timeouts;
	unsigned restarts;
	size_t queued;         /**< handed to it and not begun */
	enum gd_vendor vendor; /**< of its GPU */
};

struct gd_stats {
	uint64_t expected;  /**< total_tasks of the source; 0: not known */
	uint64_t submitted; /**< = queued + running + completed + failed + timeouts */
	uint64_t queued;    /**< waiting: for a worker, or with its result for the callback */
	uint64_t running;
	uint64_t completed; /**< ended in on_success */
	uint64_t failed;    /**< ended in on_error */
	uint64_t timeouts;  /**< ended in on_timeout */
	uint64_t retries;
	uint64_t setup_failures;
	uint64_t restarts;
	size_t queue_size;
	size_t workers;
	size_t workers_alive;
	uint64_t start_ns; /**< CLOCK_MONOTONIC */
	uint64_t end_ns;   /**< 0 while it goes on */
	double tasks_per_second;
	/** From begin to end in the worker; upper bound of the bucket, within 7 %. */
	uint64_t duration_p50_ns;
	uint64_t duration_p90_ns;
	uint64_t duration_p99_ns;
	uint64_t duration_max_ns;
};

typedef void gd_stats_callback(void *context, const struct gd_stats *stats);

/* ---- Options ------------------------------------------------------------ */

struct gd_setting {
	const char *key;
	const char *value;
};

/** Where the output of workers goes. */
enum gd_output {
	GD_OUTPUT_INHERIT = 0,
	GD_OUTPUT_SILENT,
	GD_OUTPUT_FILES, /**< output_dir/worker-SLOT.log, appended to */
};

/** base_seed for those who want 0 itself. */
#define GD_SEED_ZERO INT64_MIN

struct gd_options {
	size_t size; /**< sizeof(struct gd_options) */

	/* The workers: one of these two. */
	/** Hooks of this program, run in forked processes that see its memory and its
	 *  descriptors as they were in gd_pool_open() or gd_dispatcher_run(), replacements too. Not for a
	 *  program with several threads (-EBUSY), nor for one that has used its GPU. */
	const struct gd_worker_ops *worker;
	/** A program that calls gd_worker_main(), and its arguments; NULL at the end. Looked
	 *  for in $PATH; inherits the environment, with its GPU in it, and no descriptor
	 *  beyond stdout and stderr. */
	const char *const *worker_argv;

	/* The GPUs: a specification (see gd_gpu_list()), or numbers; with neither, "auto". */
	const char *gpus;
	/** Any GPUs of the machine: {2} is the same as "2". One may stand here twice: two workers on it. */
	const int *gpu_ids;
	size_t num_gpu_ids;
	int workers_per_gpu; /**< 1; at most 1024, and 4096 workers in all */

	const struct gd_setting *settings; /**< for gd_worker_setting(), in setup and later; together below 60 KiB */
	size_t num_settings;
	int64_t base_seed; /**< 42; a worker's seed is this plus its GPU's number */

	uint64_t total_tasks; /**< for progress; 0: not known. gd_dispatcher_run() takes the source's */
	/** 1024: tasks that wait, beyond those in the workers' hands. Of payloads of 64 KiB
	 *  and more there are only about one per worker, and what fits into the workers'
	 *  inboxes (4 MiB each): memory stays bounded. Those over 2 MiB, up to gigabytes,
	 *  have a memfd of their own. */
	int queue_size;
	/** 0: how often a task that failed, crashed, timed out or was not carried is tried
	 *  again, on another worker if there is one. Only its last end is called back. */
	int retries;
	bool ordered;       /**< callbacks in the order of task ids; holds back (copies of) queue_size results */
	bool allow_threads; /**< fork although there are threads: only for hooks that use no lock */

	/* Limits, in milliseconds. */
	/** None. From the begin of process() to its end, not counting a wait for slow
	 *  callbacks; of a batch, for the first task, then from one answer to the next. A
	 *  task that is over its time ends in on_timeout, whatever it returns afterwards. */
	int64_t task_timeout_ms;
	int64_t grace_ms;           /**< 1000: from gd_worker_cancelled() to SIGKILL */
	int64_t setup_timeout_ms;   /**< none */
	int64_t cleanup_timeout_ms; /**< 10000 */
	int64_t kill_wait_ms;       /**< 5000: then a process that does not die is given up, and its slot with it */

	enum gd_output output;
	const char *output_dir; /**< made if it is not there, its parent not */

	/* Callbacks; only on_success is mandatory. What has none is seen in the statistics alone. */
	void *context; /**< first argument of each */
	/* Every task ends in exactly one of these three. */
	gd_callback *on_success;
	gd_callback *on_error;
	gd_callback *on_timeout;
	gd_callback *on_task_start; /**< once per attempt, before its end; costs a message per task */
	/** Once per slot that is lost: its first setup failed, or three of a replacement's in
	 *  a row, or ten in a row have died without having begun a task. */
	gd_callback *on_setup_fail;
	gd_callback *on_cleanup_fail;   /**< cleanup returned an error, crashed, or took too long */
	gd_stats_callback *on_progress; /**< about ten times a second while there is progress, and at the end */
	gd_stats_callback *on_exit;     /**< exactly once, after the workers are gone; ask nothing of the pool then */
};

/* ---- The lower layer ---------------------------------------------------- */

/**
 * Open workers. gd_pool_poll() and gd_pool_close() by one thread at a time; everything else
 * by any, until gd_pool_close() is called.
 */
struct gd_pool;

/** A task that is being written. */
struct gd_draft;

/** For gd_pool_submit() and gd_pool_reserve(): -EAGAIN rather than wait for room. */
#define GD_NOWAIT 1u

/**
 * Checks and copies the options (as gd_dispatcher_create() does), starts the workers, does
 * not wait for their setup: tasks may be submitted at once. -EINVAL for options
 * that make no sense, -ENODEV for a GPU that is not there, -EBUSY where the
 * workers would be forked and there are threads.
 */
GD_API int gd_pool_open(const struct gd_options *options, struct gd_pool **ret, struct gd_error *err);

/**
 * Adds a task; waits for room in the queue while another thread polls. The
 * thread that polls (before the first gd_pool_poll(): that opened the pool) has
 * nobody to wait for, in a callback or not: -EAGAIN, as with GD_NOWAIT.
 * -ESHUTDOWN after a stop, -ENODEV when no worker is left, -ENOMEM. Where it
 * fails there is no task and no callback. `ret_id` may be NULL.
 */
GD_API int gd_pool_submit(
	struct gd_pool *p, const void *data, size_t size, void *tag, unsigned flags, uint64_t *ret_id);

/**
 * The same without a copy: room for `size` bytes, where the worker will read
 * them if that can be had. Fill it, then gd_draft_commit() with the size used (at most
 * `size`), or gd_draft_abandon(). Either releases the draft, gd_draft_commit() also when it
 * fails. A thread holds one draft at a time, and not for long: a worker may be
 * waiting for it. No draft may be held when gd_pool_close() is called.
 */
GD_API int gd_pool_reserve(struct gd_pool *p, size_t size, unsigned flags, struct gd_draft **ret, void **ret_data);
GD_API int gd_draft_commit(struct gd_draft *draft, size_t size, void *tag, uint64_t *ret_id);
GD_API void gd_draft_abandon(struct gd_draft *draft);

/**
 * Readable when gd_pool_poll() has something to do (which may turn out to be no
 * callback). For any event loop, level-triggered; never read from it.
 */
GD_API int gd_pool_fd(const struct gd_pool *p);

/**
 * Makes the callbacks that are due; waits up to timeout_ms (-1: as long as it
 * takes) for the first one. Returns how many were made: 0 at the timeout, after
 * gd_pool_interrupt(), and when no task is left to wait for. When every task has had
 * its callback: -ECANCELED after a stop, -ENODEV when no worker is left. Inside a
 * callback: -EDEADLK.
 */
GD_API int gd_pool_poll(struct gd_pool *p, int timeout_ms);

/** Makes a waiting gd_pool_poll() return. For threads and signal handlers. */
GD_API void gd_pool_interrupt(struct gd_pool *p);

/**
 * Takes no more tasks. First call: what runs is finished, what waits is called
 * back as GD_FAILURE_CANCELLED, nothing is tried again. Second call: what runs is
 * cancelled too (gd_worker_cancelled()), and killed after the grace period; one that
 * succeeds meanwhile has succeeded. Takes effect in gd_pool_poll(). For threads and
 * signal handlers.
 */
GD_API void gd_pool_stop(struct gd_pool *p);

/** Tasks submitted, or being written, and not yet called back. */
GD_API size_t gd_pool_outstanding(const struct gd_pool *p);
/** How many tasks of the last one's size can be submitted now without waiting. */
GD_API size_t gd_pool_room(const struct gd_pool *p);

/** At any time, from any thread. */
GD_API void gd_pool_stats(const struct gd_pool *p, struct gd_stats *ret);
/** -ENOENT where there is no such slot. */
GD_API int gd_pool_worker_stats(const struct gd_pool *p, int slot, struct gd_worker_stats *ret);
/**
 * The task that a worker is at: copies its first bytes, at most `room`, and returns how
 * many it has; its id into *ret_id (may be NULL). -ENOENT where there is no such slot,
 * -ENODATA where it has no task now. At any time, from any thread.
 */
GD_API int64_t gd_pool_worker_task(const struct gd_pool *p, int slot, void *data, size_t room, uint64_t *ret_id);

/**
 * Ends what is left as GD_FAILURE_CANCELLED (poll until gd_pool_outstanding() is 0 to have it
 * finished), lets the workers clean up, kills those still in setup, ends everything
 * they started, makes the last callbacks, releases the pool. Meanwhile and after it
 * no other thread may use the pool, or be inside gd_pool_submit(). `ret_stats` may be
 * NULL; a NULL pool is fine. -EBUSY where a worker could not be killed: the pool is
 * released all the same. -EDEADLK inside a callback: it is not.
 */
GD_API int gd_pool_close(struct gd_pool *p, struct gd_stats *ret_stats, struct gd_error *err);

/* ---- The upper layer ---------------------------------------------------- */

struct gd_dispatcher;

/** Where the generator puts its task. */
struct gd_feed;

/** One task, copied. At most one call of these per call of the generator (-EALREADY). Waits for room. */
GD_API int gd_feed_emit(struct gd_feed *feed, const void *data, size_t size, void *tag);
/**
 * One task of `size` bytes to be written in place, valid until the generator
 * returns. NULL when the run is ending or there is no memory: return -ENOMEM then,
 * a run that was ending knows better.
 */
GD_API void *gd_feed_reserve(struct gd_feed *feed, size_t size, void *tag);

/** Where tasks come from. */
struct gd_run {
	size_t size; /**< sizeof(struct gd_run) */
	/**
	 * The next task: emit it and return 1; return 0 at the end, a negative errno
	 * value on failure: what was emitted before is still done, then gd_dispatcher_run() returns
	 * that value. A generator that may wait for long also watches gd_dispatcher_stop_fd(), for
	 * gd_dispatcher_run() cannot return before it does.
	 */
	int (*generator)(void *context, struct gd_feed *feed);
	void *context;
	uint64_t total_tasks; /**< for progress; 0: not known */
	/** Call it on the thread of gd_dispatcher_run(), where gd_feed_emit() may make callbacks: faster for
	 *  short tasks, but while it waits there are none. */
	bool inline_generator;
};

/** Checks and copies the options, with their strings and lists; not the hooks and the context behind them. */
GD_API int gd_dispatcher_create(const struct gd_options *options, struct gd_dispatcher **ret, struct gd_error *err);

/**
 * Runs the source through fresh workers and returns when every task has had its
 * one callback and the workers are gone. Tasks that fail are no failure of the
 * run: see the statistics (`ret_stats` may be NULL). -ECANCELED when stopped,
 * -ENODEV when no worker was left, the generator's own error, -ENODATA where it
 * returned 1 without a task; -EBUSY when this dispatcher is running already, when
 * there are threads (see gd_pool_open()), or when a worker could not be killed. on_exit
 * is called also where no worker could be started at all.
 */
GD_API int gd_dispatcher_run(
	struct gd_dispatcher *d, const struct gd_run *source, struct gd_stats *ret_stats, struct gd_error *err);

/** See gd_pool_stop(). For threads and signal handlers. Without a run, the next one stops at once. */
GD_API void gd_dispatcher_stop(struct gd_dispatcher *d);
/** Readable from the first gd_dispatcher_stop() to the end of the run, and once it needs no more tasks; for generators
 * that wait.
 */
GD_API int gd_dispatcher_stop_fd(const struct gd_dispatcher *d);

/** Of the run that goes on, or of the last one. From any thread. */
GD_API void gd_dispatcher_stats(const struct gd_dispatcher *d, struct gd_stats *ret);
GD_API int gd_dispatcher_worker_stats(const struct gd_dispatcher *d, int slot, struct gd_worker_stats *ret);
/** See gd_pool_worker_task(). */
GD_API int64_t gd_dispatcher_worker_task(
	const struct gd_dispatcher *d, int slot, void *data, size_t room, uint64_t *ret_id);

/** Not while it runs. NULL is fine. */
GD_API void gd_dispatcher_destroy(struct gd_dispatcher *d);

/* ---- A run that is shown ------------------------------------------------ */

/** How a run is shown. */
enum gd_show_mode {
	/** A panel that is drawn in place, on a terminal; elsewhere, and with $NO_COLOR or
	 *  TERM=dumb, plain lines. */
	GD_SHOW_MODE_AUTO = 0,
	GD_SHOW_MODE_PLAIN, /**< plain lines: when something changed, every ten seconds at most, and at the end */
	GD_SHOW_MODE_OFF,   /**< nothing; the statistics are the same */
};

struct gd_show {
	size_t size; /**< sizeof(struct gd_show) */
	enum gd_show_mode mode;
	double refresh_rate; /**< pictures a second; 4 */
	int fd;              /**< where to draw; 0: standard error */
	const char *title;   /**< before the bar; the program's name */
	/**
	 * Names a task from its bytes (of a long one, its first 4096), for the picture:
	 * writes a string of at most `room` bytes, NUL included. Called on a thread of the
	 * picture's, a few times a second. Without it a task is called by its number.
	 */
	void (*name_task)(void *context, const struct gd_bytes *task, char *name, size_t room);
	void *context; /**< first argument of name_task */
	/** What this program and its workers print on the terminal while the panel is drawn
	 *  appears above it, line by line. True: it is left alone, and may spoil the picture. */
	bool leave_output;
};

/** What the worker of a GPU is doing, in the words of the picture. */
enum gd_gpu_status {
	GD_STATUS_IDLE = 0,
	GD_STATUS_INITIALIZING,
	GD_STATUS_PROCESSING,
	GD_STATUS_FINISHED,
	GD_STATUS_ERROR, /**< its slot is out */
};

/** "idle", "initializing", … */
GD_API const char *gd_gpu_status_name(enum gd_gpu_status status);

/** One worker at the end of a run, or when it was stopped. */
struct gd_gpu_stats {
	int gpu;
	int slot; /**< where a GPU has several workers */
	enum gd_gpu_status status;
	bool has_task;
	uint64_t task_id;  /**< if has_task */
	uint64_t since_ns; /**< when that began, CLOCK_MONOTONIC; 0: not known */
	uint64_t last_duration_ns;
	uint64_t completed;
	uint64_t failed;
	uint64_t timeouts;
};

/** What came of a run. Release with gd_show_stats_finish(). */
struct gd_show_stats {
	uint64_t total; /**< tasks that the source gave */
	uint64_t completed;
	uint64_t failed;
	uint64_t timeouts;
	uint64_t setup_failures;
	int64_t start_ms; /**< milliseconds since 1970 */
	int64_t end_ms;
	uint64_t elapsed_ns;
	uint64_t expected_total; /**< total_tasks of the source; 0: not known */
	size_t num_gpus;         /**< workers */
	struct gd_gpu_stats *gpus;
};

/**
 * gd_dispatcher_run(), and meanwhile a panel: a bar with what is done, failed, the rate, elapsed
 * time and ETA; for each GPU what its worker does, its task and for how long, what it has
 * done, memory and utilisation. Same results, same errors. `show` NULL: all defaults.
 *
 * This is the one call that prints: on the terminal, or as plain lines (`mode`). While a
 * panel is drawn: the cursor is hidden and typed keys are not shown; standard output and
 * error, where they are this terminal, lead through a pipe (see leave_output); signals
 * that would end or stop the program by default are caught, to give the terminal back
 * first. All of that is as it was when it returns, and after exit(). The picture has a
 * thread of its own, made once the workers are forked, which draws a few times a
 * second and costs the run nothing else. One panel at a time: a second is plain.
 *
 * `ret` may be NULL; it is filled in whether the run succeeds or not, unless the run
 * could not begin, and then it is zero.
 */
GD_API int gd_dispatcher_run_shown(struct gd_dispatcher *d, const struct gd_run *source, const struct gd_show *show,
	struct gd_show_stats *ret, struct gd_error *err);
GD_API void gd_show_stats_finish(struct gd_show_stats *stats);

/* ---- Launch: a folder of files over the GPUs ------------------------------ */

/*
 * What `gpuq launch` is made of: gd_launch() does it all; its parts (files, shares,
 * spawner, balancer, launcher) are here to be used alone. None of them may be used by
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

/* ---- Spawner: the workers, one per GPU ------------------------------------- */

struct gd_spawner;

/** Starts the workers, each of which sees its own GPU alone. Does not wait. See gd_pool_open(). */
GD_API int gd_spawner_start(const struct gd_options *options, struct gd_spawner **ret, struct gd_error *err);
/** Until each worker is ready or out, or the time is over (-1: no limit). How many are ready, or -ETIMEDOUT. */
GD_API int gd_spawner_ready(struct gd_spawner *s, int timeout_ms);
/** Until all that was submitted is over. 0, -ETIMEDOUT, -ENODEV when no worker is left, -ECANCELED after a stop. */
GD_API int gd_spawner_wait(struct gd_spawner *s, int timeout_ms);
GD_API size_t gd_spawner_count(const struct gd_spawner *s);
GD_API size_t gd_spawner_alive(const struct gd_spawner *s);
/** -ENOENT where there is no such worker. */
GD_API int gd_spawner_status(const struct gd_spawner *s, int slot, struct gd_worker_stats *ret);
/** For gd_pool_submit() and the like; it stays the spawner's. */
GD_API struct gd_pool *gd_spawner_pool(const struct gd_spawner *s);
/** Ends all workers and what they started; see gd_pool_close(). NULL is fine. */
GD_API int gd_spawner_end(struct gd_spawner *s, struct gd_stats *ret_stats, struct gd_error *err);

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
