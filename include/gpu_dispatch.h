/* SPDX-License-Identifier: MIT */
/**
 * gpu_dispatch: keep all GPUs of a machine busy.
 *
 * The library passes a stream of tasks through persistent worker processes, one per GPU.
 * Each worker loads its model once (setup) and then processes one task after another.
 *
 * # Calling sequence
 *
 * Most programs use the dispatcher:
 *
 *     gd_dispatcher_create() → gd_dispatcher_run() → gd_dispatcher_destroy()
 *
 * gd_dispatcher_run() starts one worker per GPU, calls `setup` in each, calls your
 * generator for one task after another, passes the tasks to the workers, calls your
 * callbacks with the results, ends the workers and returns. Ctrl-C stops it in an
 * orderly way (see gd_dispatcher_run()). On a machine without a GPU, set `gpus` to
 * "sim:4" for four simulated GPUs. This is a complete program except for the includes:
 *
 *     static int square(struct gd_worker *w, void *state, const struct gd_bytes *task)
 *     {
 *             long n = *(const long *)task->data;     // in a worker process
 *             n *= n;
 *             return gd_worker_result(w, &n, sizeof(n));
 *     }
 *     static int next(void *context, struct gd_feed *feed)
 *     {
 *             long *next = context, n = (*next)++;    // in this program
 *             return n < 100 ? gd_feed_emit(feed, &n, sizeof(n), NULL, NULL) : 0;
 *     }
 *     static int print(void *context, const struct gd_event *e)
 *     {
 *             printf("%ld\n", *(const long *)e->result.data);
 *             return 0;
 *     }
 *     int main(void)
 *     {
 *             long n = 0;
 *             struct gd_worker_ops ops = {.size = sizeof(ops), .process = square};
 *             struct gd_options options = {.size = sizeof(options), .worker = &ops};
 *             struct gd_run run = {.size = sizeof(run), .generator = next, .generator_context = &n};
 *             struct gd_callbacks callbacks = {.size = sizeof(callbacks), .on_success = print};
 *             struct gd_dispatcher *d = NULL;
 *             struct gd_error err;
 *             int r = gd_dispatcher_create(&options, &d, &err);
 *             if (r == 0)
 *                     r = gd_dispatcher_run(d, &run, &callbacks, &err);
 *             if (r < 0)
 *                     fprintf(stderr, "%s\n", err.message);
 *             gd_dispatcher_destroy(d);
 *             return r < 0;
 *     }
 *
 * Servers, event loops and bindings use the pool, on which the dispatcher is built:
 *
 *     gd_pool_open() → gd_pool_submit() … gd_pool_poll() … → gd_pool_close()
 *
 * The pool changes no signal handlers, never prints and never exits.
 *
 * # Ownership
 *
 * Bytes that you pass to a function are copied before it returns. Bytes and strings
 * in an event belong to the library and are valid only during the callback
 * (gd_event_hold() keeps a result). Tasks and results are aligned for any type.
 * Options are copied, including strings and arrays; hooks, callbacks and contexts
 * are pointers into your program and must stay valid.
 *
 * # Threads
 *
 * Callbacks are called one at a time, on the thread that called gd_dispatcher_run(),
 * gd_pool_poll(), gd_pool_wait(), gd_pool_wait_ready() or gd_pool_close(). The generator
 * runs in a thread of its own, unless the run sets `inline_generator`, so data that the
 * generator and the callbacks share needs a lock. Worker hooks run on the first thread of
 * the worker's process; gd_worker_*() functions may be called only there, during a hook.
 * The comment of a function states whether several threads or signal handlers may call it.
 *
 * Inside a callback, you may submit tasks (submitting does not wait there), cancel, stop,
 * interrupt and read statistics. Polling and closing fail with -EDEADLK.
 *
 * A child process that your program forks must not use pools or dispatchers of its
 * parent: it does not inherit their shared memory.
 *
 * # Errors
 *
 * Functions return 0 or a count on success and a negative errno value on failure;
 * outputs are untouched on failure. A `struct gd_error *` receives a human-readable
 * message and may be NULL.
 *
 * # Structs that can grow
 *
 * Structs that begin with `size` may get new fields at their end in later versions. Set
 * `size` to sizeof the struct in every struct that you fill; in all other fields, zero
 * means the default. A program and a library of different versions work together:
 * fields that one side does not know are zero, and a field that the library does not
 * know but that is set is refused with -E2BIG. Functions that fill a struct take its
 * size as an argument. Arrays of such structs are always arrays of pointers.
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
#define GD_VERSION_MINOR 2
#define GD_VERSION_PATCH 0

#if defined(__GNUC__)
#define GD_API               __attribute__((visibility("default")))
#define GD_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define GD_API
#define GD_PRINTF(fmt, args)
#endif

/** The version of the loaded library: "0.2.0". */
GD_API const char *gd_version(void);

/* ---- Errors ------------------------------------------------------------- */

/** A human-readable error: one line without a newline. */
struct gd_error {
	int code; /**< the negative errno value that was returned */
	char message[508];
};

/** A reference to bytes that the struct does not own. */
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

/** Bits that indicate which fields of a struct gd_gpu are known. An unknown field is 0. */
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
	GD_GPU_KNOWN_COMPUTE_MODE = 1 << 12, /**< `exclusive` and `prohibited` */
	GD_GPU_KNOWN_MEMORY_RESERVED = 1 << 13,
	GD_GPU_KNOWN_LINKS = 1 << 14,
	GD_GPU_KNOWN_ENERGY = 1 << 15,
};

enum gd_gpu_health {
	GD_GPU_HEALTH_OK = 0,
	GD_GPU_HEALTH_LOST,          /**< fell off the bus */
	GD_GPU_HEALTH_NOT_ANSWERING, /**< its driver call did not return in time */
	GD_GPU_HEALTH_UNREADABLE,    /**< the driver returned an error; see the list's warnings */
};

/** A process that uses a GPU. */
struct gd_gpu_process {
	size_t size;
	int64_t pid; /**< as the driver reports it: in a container, this may be the PID on the host */
	uint64_t memory_bytes;
	uint64_t memory_known; /**< nonzero: memory_bytes is known */
};

/** One GPU, or one MIG instance, at the moment it was read. */
struct gd_gpu {
	size_t size;
	unsigned known; /**< bits of enum gd_gpu_known */
	enum gd_gpu_health health;
	enum gd_vendor vendor;
	int index;        /**< as in nvidia-smi; AMD cards follow NVIDIA cards; a MIG instance has its card's index */
	int vendor_index; /**< number among the cards of its vendor; -1 if no driver could be queried */
	int mig_index;    /**< number of the MIG instance on its card, or -1 */
	int mig_enabled;  /**< the card is split: workers use its instances, which follow it in a survey */
	int exclusive;    /**< exclusive compute mode: one process at a time */
	int prohibited;   /**< compute mode "prohibited": no process may use it */
	int numa_node;
	char uuid[96];
	char name[96];   /**< UTF-8 */
	char pci_id[32]; /**< as the driver writes it: "00000000:65:00.0", AMD "0000:65:00.0" */
	uint64_t memory_total_bytes;
	uint64_t memory_free_bytes;
	uint64_t memory_used_bytes;     /**< by processes; includes the driver's share if that is unknown */
	uint64_t memory_reserved_bytes; /**< by the driver for itself */
	unsigned utilization_percent;
	unsigned power_milliwatts;
	int temperature_celsius;
	int reserved;
	const struct gd_gpu_process *const *processes;
	size_t num_processes;
	/** Bit i: a direct link (NVLink, xGMI) to the card of the same vendor whose vendor_index
	 *  is i; cards from 64 on have no bit. */
	uint64_t links;
	uint64_t energy_millijoules; /**< used since the driver was loaded; restarts at 0 when the driver is reloaded */
};

/** A list of GPUs. Release it with gd_gpu_list_free(). */
struct gd_gpu_list {
	size_t size;
	size_t count;
	const struct gd_gpu *const *gpus;
	/** Problems of a card or a driver, one line each; often none. */
	size_t num_warnings;
	const char *const *warnings;
};

/**
 * Returns the GPUs that a specification selects, with their current state.
 *
 * `spec` is one of:
 * - NULL or "auto": $GPUQ_GPUS if that is set, otherwise every usable GPU;
 * - "all": every usable GPU in the order of their index, with the MIG
 *   instances of a split card instead of the card;
 * - "0,1,2", "0-3", "GPU-uuid…", "MIG-uuid…" (a unique prefix is enough), or a mix of
 *   these: these GPUs in this order, whatever their health; a split card selects its
 *   instances;
 * - "sim:4" or "sim:4x16G": simulated GPUs.
 *
 * If $GPUQ_GPUS names simulated GPUs, they are the GPUs of the machine for every function
 * here. GPUs that an inherited CUDA_VISIBLE_DEVICES (AMD: ROCR_VISIBLE_DEVICES or
 * HIP_VISIBLE_DEVICES) does not list are hidden; if no NVIDIA driver can be queried, the
 * GPUs in CUDA_VISIBLE_DEVICES are assumed to exist, and nothing else is known about them.
 * A machine without GPUs is not an error for "auto" and "all": the list is empty. If a GPU
 * does not exist, the call fails with -ENODEV, and the error lists the existing ones.
 *
 * The driver is called in a separate process: your process never loads it, and a
 * hanging driver delays the call by five seconds.
 */
GD_API int gd_gpu_list(const char *spec, struct gd_gpu_list **ret, struct gd_error *err);
GD_API void gd_gpu_list_free(struct gd_gpu_list *list);

/** Returns all GPUs, usable or not, in the order of their index; MIG instances follow their split card. */
GD_API int gd_gpu_survey(struct gd_gpu_list **ret, struct gd_error *err);

/** Returns the number of GPUs that `spec` selects. */
GD_API int gd_gpu_count(const char *spec, struct gd_error *err);

/** Returns the GPU with this index, followed by its MIG instances if it is split; -ENODEV if it does not exist. */
GD_API int gd_gpu_get(int index, struct gd_gpu_list **ret, struct gd_error *err);

/**
 * Writes the indices that `spec` selects, in the order of `spec`, into ids[0…max). Returns
 * their number, which may exceed max. A split card occurs once for each of its MIG
 * instances.
 */
GD_API int gd_gpu_parse(const char *spec, int *ids, size_t max, struct gd_error *err);

/**
 * Checks that every id is a usable GPU. Otherwise returns -ENODEV or -EINVAL; the message
 * names the first unusable GPU and the reason.
 */
GD_API int gd_gpu_validate(const int *ids, size_t num_ids, struct gd_error *err);

/** True if work can be placed on the GPU: it answers and is neither split nor prohibited. */
GD_API bool gd_gpu_usable(const struct gd_gpu *gpu);

/** True if there is at least one usable NVIDIA GPU. */
GD_API bool gd_gpu_cuda_available(void);

/** One change to an environment; value NULL: unset the variable. */
struct gd_env_change {
	const char *name;
	const char *value;
};

/**
 * Computes the changes to the environment with which a child process sees only these
 * GPUs; with num_gpus 0, no GPU. -EINVAL if the GPUs are of two vendors. The result is one
 * allocation that ends with an entry whose name is NULL; release it with free().
 */
GD_API int gd_gpu_bind(
	const struct gd_gpu *const *gpus, size_t num_gpus, struct gd_env_change **ret, struct gd_error *err);

/* ---- Workers ------------------------------------------------------------ */

/** A worker as its hooks see it; exists only in the worker's process. */
struct gd_worker;

/**
 * Hooks that run inside a worker process. Set exactly one of process and process_batch;
 * all other hooks are optional.
 *
 * A hook returns 0 or a negative errno value; gd_worker_fail() adds a message. A
 * positive value is also a failure. A hook that crashes or exits ends its task and its
 * process, never the dispatcher or other workers; a hook that hangs is ended at its
 * time limit (task_timeout_ms, setup_timeout_ms, cleanup_timeout_ms).
 *
 * A worker has its own process group (Ctrl-C does not reach it), /dev/null as standard
 * input, and default signal dispositions and mask. It flushes stdout and stderr and
 * ends by _exit(); processes that it started are ended with it.
 */
struct gd_worker_ops {
	size_t size;   /**< sizeof(struct gd_worker_ops) */
	void *context; /**< for gd_worker_context(); forked workers see its memory as of gd_pool_open() */
	/** Loads the model. Called once per process, after the GPU has been selected. */
	int (*setup)(struct gd_worker *w, void **ret_state);
	/** Processes one task. Its bytes are read-only and valid only during the call. */
	int (*process)(struct gd_worker *w, void *state, const struct gd_bytes *task);
	/**
	 * Processes between one and max_batch tasks: those that are available; the worker
	 * does not wait for more. Answer each with gd_worker_batch_result() or
	 * gd_worker_batch_fail(). A task without an answer gets an empty result or, if
	 * the hook fails, its error. Only tasks with the same time limit share a batch.
	 */
	int (*process_batch)(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t num_tasks);
	size_t max_batch; /**< for process_batch; default 32, at most 1024 */
	/** Releases the state that setup returned. Not called after a crash, a kill or a failed
	 *  setup. cleanup and on_leave share cleanup_timeout_ms. */
	int (*cleanup)(struct gd_worker *w, void *state);
	/**
	 * Interrupts process() or process_batch() when the running task is out of time
	 * or cancelled, for code that cannot poll gd_worker_cancelled(). Called at most
	 * once per task (per batch), in a signal handler (SIGURG) on the worker's first
	 * thread: use only functions that are safe there, e.g. set a flag. A system call
	 * in which the hook waits fails with EINTR. on_cancel is never called while a
	 * gd_*() function runs (the call is deferred until the function returns) and never
	 * after the hook has returned, but possibly just before the hook's first line: a
	 * hook that resets a flag there must check gd_worker_cancelled() afterwards.
	 * Leaving on_cancel by longjmp() is undefined. If it is NULL, SIGURG is not used.
	 */
	void (*on_cancel)(struct gd_worker *w, void *state);
	/** Called last, before _exit(), also after a failed setup. Not called after a crash or a kill. */
	void (*on_leave)(struct gd_worker *w);
	/**
	 * Interrupts setup() when the pool is ending or setup_timeout_ms has passed, under
	 * the rules of on_cancel; gd_worker_cancel_reason() returns the reason. setup()
	 * then has grace_ms to return, preferably -ECANCELED. If this hook is NULL, a setup
	 * that is out of time is killed at once.
	 */
	void (*on_setup_cancel)(struct gd_worker *w);
	/**
	 * Called before the worker waits for its next task, and before gd_worker_*()
	 * functions that send answers and messages wait for space. Called on the worker's
	 * first thread; call no gd_*() function here. A binding for a language with a
	 * global lock can keep the lock from task to task and release it here.
	 */
	void (*on_wait)(struct gd_worker *w);
};

/** Returns the `context` of the ops. */
GD_API void *gd_worker_context(const struct gd_worker *w);
/** The GPU's number on this machine. */
GD_API int gd_worker_gpu(const struct gd_worker *w);
/**
 * The number by which this process opens its GPU: 0, because it sees only this GPU. With
 * GD_BIND_NONE: the GPU's number.
 */
GD_API int gd_worker_device(const struct gd_worker *w);
/** The number of this worker, 0…; two workers on one GPU have different slots. */
GD_API int gd_worker_slot(const struct gd_worker *w);
/**
 * base_seed + gpu + k × (highest GPU number of the pool + 1) for the k-th worker (0…) of
 * a GPU. A replacement has the seed of its slot.
 */
GD_API int64_t gd_worker_seed(const struct gd_worker *w);
/** The value of a setting as a string (the bytes are followed by a NUL), or `otherwise` if it was not given. */
GD_API const char *gd_worker_setting(const struct gd_worker *w, const char *key, const char *otherwise);
/** The value of a setting as bytes, valid for the worker's life. -ENOENT if it was not given. */
GD_API int gd_worker_setting_bytes(const struct gd_worker *w, const char *key, struct gd_bytes *ret);
/** The id and the attempt (1…) of the i-th task of the batch; i is 0 in process(). */
GD_API uint64_t gd_worker_task_id(const struct gd_worker *w, size_t i);
GD_API int gd_worker_attempt(const struct gd_worker *w, size_t i);

/**
 * True if the i-th task of the batch (0 in process()) is out of time or cancelled; in
 * setup: if the worker must end. A long hook polls this function and returns when it is
 * true, so the worker keeps its model. After a timeout, the return value of the hook does
 * not matter; a cancelled task that returns 0 without a result counts as cancelled. A call takes
 * a few nanoseconds.
 */
GD_API bool gd_worker_cancelled(const struct gd_worker *w, size_t i);
/** Why gd_worker_cancelled() is true: -ETIMEDOUT or -ECANCELED; 0 if it is false. */
GD_API int gd_worker_cancel_reason(const struct gd_worker *w, size_t i);

/** Sets the result of the task; copies the bytes. The last call counts. Waits for space while callbacks are slow. */
GD_API int gd_worker_result(struct gd_worker *w, const void *data, size_t size);
/** Returns space for a result of `size` bytes; write it before the hook returns. NULL: out of memory. */
GD_API void *gd_worker_result_reserve(struct gd_worker *w, size_t size);
/**
 * Sets the message of a failing hook, truncated to 1023 bytes. Returns `code`, negated if
 * it was positive, or -EIO if it was 0; the hook should return this value. The last call
 * counts. The failure has no bytes; see gd_worker_fail_with().
 */
GD_API int gd_worker_fail(struct gd_worker *w, int code, const char *format, ...) GD_PRINTF(3, 4);
/**
 * Like gd_worker_fail(), and adds bytes of any size to the failure (gd_event.result), for
 * example a pickled exception; copies them. If there is no memory for the bytes, the
 * message states this.
 */
GD_API int gd_worker_fail_with(struct gd_worker *w, int code, const char *message, const void *data, size_t size);
/**
 * gd_worker_result(), gd_worker_fail() and gd_worker_fail_with() for the i-th task of a
 * batch, in any order; -EINVAL if it was already answered and sent.
 */
GD_API int gd_worker_batch_result(struct gd_worker *w, size_t i, const void *data, size_t size);
GD_API int gd_worker_batch_fail(struct gd_worker *w, size_t i, int code, const char *format, ...) GD_PRINTF(4, 5);
GD_API int gd_worker_batch_fail_with(
	struct gd_worker *w, size_t i, int code, const char *message, const void *data, size_t size);

/**
 * Sends bytes of any size to on_message, from any hook; copies them. Messages and ends
 * of tasks arrive in the order in which the worker sent them, including messages sent
 * before a crash. Waits for space while callbacks are slow; the wait does not count
 * toward the task's time limit. Works while a result is reserved, but is slower then.
 * Returns 0, -ENOMEM, -EMFILE….
 */
GD_API int gd_worker_send(struct gd_worker *w, const void *data, size_t size);

/**
 * The body of main() in a worker program (`worker_argv`): `return gd_worker_main(&ops);`.
 * Runs the worker and ends the process by _exit(). If the program was started by
 * hand, or the ops are wrong, it prints an explanation on standard error and returns 2.
 */
GD_API int gd_worker_main(const struct gd_worker_ops *ops);

/**
 * For a setup() that must not return, because it was called from inside a script, which
 * would then continue. Does everything that follows setup(), as if setup() had returned
 * `result` and stored `state`: processes tasks, cleans up, and ends the process by
 * _exit().
 */
GD_API void gd_worker_continue(struct gd_worker *w, void *state, int result) __attribute__((noreturn));

/* ---- Events ------------------------------------------------------------- */

/** Why a task, a setup or a cleanup did not succeed. */
enum gd_failure {
	GD_FAILURE_NONE = 0,
	GD_FAILURE_ERROR,         /**< the hook returned an error */
	GD_FAILURE_CRASHED,       /**< a signal, or the worker called exit() */
	GD_FAILURE_OUT_OF_MEMORY, /**< killed by the kernel, probably because memory ran out */
	GD_FAILURE_TIMED_OUT,     /**< not done in time, whatever the hook returned later */
	GD_FAILURE_CANCELLED,     /**< by gd_pool_cancel(), a stop or a close */
	GD_FAILURE_NO_WORKER,     /**< no worker is left */
	GD_FAILURE_STUCK,         /**< its process cannot be killed (stuck in the driver) */
	GD_FAILURE_NOT_CARRIED,   /**< the bytes could not be transferred */
};

/** "failed", "crashed", … */
GD_API const char *gd_failure_name(enum gd_failure failure);

/** The id of an event without a task. */
#define GD_NO_TASK UINT64_MAX

/**
 * An event, as passed to a callback. Times are CLOCK_MONOTONIC nanoseconds; 0: did not
 * happen. A message that was sent in process() has its task's id, tag and bytes. Events of
 * setup and cleanup, and messages from other hooks, have no task: their id is GD_NO_TASK.
 */
struct gd_event {
	size_t size;
	uint64_t id; /**< 0, 1, 2… in the order of submission, or GD_NO_TASK */
	void *tag;   /**< as submitted */
	int slot;    /**< worker, or -1 if the task was waiting for one */
	int gpu;     /**< GPU of that worker, or -1 */
	uint64_t queued_ns;
	uint64_t started_ns;
	uint64_t ended_ns;
	struct gd_bytes task; /**< as submitted; no data if there was no memory to keep it */
	/** Success: the result. Failure: the bytes of gd_worker_fail_with(); none after a
	 *  timeout. Message: its bytes. */
	struct gd_bytes result;
	int attempt; /**< 1…; 0 if the task never started */
	enum gd_failure failure;
	int code;         /**< the hook's negative errno value, or -ETIMEDOUT, -ECANCELED, -ENODEV; 0 after a crash */
	int signal;       /**< the signal that ended the worker, or 0 */
	uint64_t address; /**< address of the memory fault, for SIGSEGV and SIGBUS */
	const char *message;  /**< human-readable; "" on success */
	int64_t timeout_ms;   /**< the task's time limit; 0: none */
	const void *internal; /**< for gd_event_hold() */
};

/** A callback returns 0 to continue; any other value stops the run, like the first gd_pool_stop(). */
typedef int gd_callback(void *context, const struct gd_event *event);

/** A result that outlives its callback and its pool. */
struct gd_result;

/**
 * Keeps the event's `result`: a large one (above 2 MiB) without a copy, others as a
 * copy. Call it only during the event's callback. Each call returns a new handle; release
 * it with gd_result_free(). Returns 0 or -ENOMEM.
 */
GD_API int gd_event_hold(const struct gd_event *event, struct gd_result **ret);
/** Returns the bytes, which are valid until gd_result_free(), even after the pool was closed. Aligned for any type. */
GD_API struct gd_bytes gd_result_bytes(const struct gd_result *result);
/** Releases a result; NULL is allowed. May be called by any thread. */
GD_API void gd_result_free(struct gd_result *result);

/* ---- Statistics --------------------------------------------------------- */

enum gd_worker_state {
	GD_WORKER_STATE_STARTING = 0, /**< being started, or setup is running */
	GD_WORKER_STATE_IDLE,
	GD_WORKER_STATE_BUSY,
	GD_WORKER_STATE_ENDING,   /**< cleanup is running */
	GD_WORKER_STATE_FINISHED, /**< ended normally */
	GD_WORKER_STATE_LOST,     /**< setup failed, crashed too often, or cannot be killed: see `message` */
};

/** "starting", "idle", … */
GD_API const char *gd_worker_state_name(enum gd_worker_state state);

struct gd_worker_stats {
	size_t size;
	int slot;
	int gpu;
	enum gd_vendor vendor; /**< vendor of its GPU */
	enum gd_worker_state state;
	int64_t pid;       /**< 0 while there is no process */
	uint64_t has_task; /**< nonzero: task_id and since_ns are valid */
	uint64_t task_id;  /**< the task that it is processing */
	uint64_t since_ns; /**< when that task began */
	uint64_t last_duration_ns;
	uint64_t busy_ns;
	uint64_t completed;
	uint64_t failed;
	uint64_t timeouts;
	uint64_t cancelled;
	uint64_t restarts;
	uint64_t queued;   /**< tasks handed to it and not begun */
	char message[256]; /**< why it was lost (the setup's own message); "" otherwise */
	/** How long the worker and its replacements were not ready because they were being started or set up. */
	uint64_t loading_ns;
};

struct gd_stats {
	size_t size;
	uint64_t expected;  /**< total_tasks; 0: unknown */
	uint64_t submitted; /**< = queued + running + completed + failed + timeouts + cancelled */
	uint64_t queued;    /**< waiting for a worker, or done and waiting for their callback */
	uint64_t running;
	uint64_t completed;
	uint64_t failed;
	uint64_t timeouts;
	uint64_t cancelled;
	uint64_t retries;
	uint64_t setup_failures;
	uint64_t restarts; /**< replacements of workers that died, and recycled workers */
	uint64_t queue_size;
	uint64_t workers;
	uint64_t workers_alive;
	uint64_t start_ns; /**< CLOCK_MONOTONIC */
	uint64_t end_ns;   /**< 0 while the pool is open */
	double tasks_per_second;
	/** Time from the beginning to the end of a task in the worker: upper bound of the
	 *  histogram's bucket, within 7%. */
	uint64_t duration_p50_ns;
	uint64_t duration_p90_ns;
	uint64_t duration_p99_ns;
	uint64_t duration_max_ns;
};

typedef void gd_stats_callback(void *context, const struct gd_stats *stats);

/* ---- Options ------------------------------------------------------------ */

/**
 * A named value for the workers, of any size: all workers map the same copy. If a key
 * occurs twice, the first value counts.
 */
struct gd_setting {
	const char *key;
	const void *value;
	size_t value_size; /**< 0: value is a string */
};

/** Where the output of workers goes. */
enum gd_output {
	GD_OUTPUT_INHERIT = 0,
	GD_OUTPUT_SILENT,
	GD_OUTPUT_FILES, /**< output_dir/worker-SLOT.log, appended to; readable only by the user */
};

/** How a worker is bound to its GPU. */
enum gd_bind {
	GD_BIND_VISIBLE = 0, /**< the worker's environment lets it see its GPU only */
	/** Only GPUQ_GPU is set. GPUs that are given by their numbers (`gpu_ids`, or `gpus`
	 *  as in "0,1" or "0-3") need not exist, and no driver is called for them. */
	GD_BIND_NONE,
};

/** How workers are started, and their limits. Used by pool and dispatcher. */
struct gd_options {
	size_t size; /**< sizeof(struct gd_options) */

	/* The workers: one of these two. */
	/** Hooks of this program, run in forked processes. These processes, including
	 *  replacements, see the program's memory and descriptors as they were when the
	 *  pool was opened. Cannot be used by programs that have several threads (-EBUSY)
	 *  or have initialized CUDA. */
	const struct gd_worker_ops *worker;
	/** A program that calls gd_worker_main(), and its arguments; NULL at the end.
	 *  Searched in $PATH. Inherits the environment, and no descriptors except stdout
	 *  and stderr. Works in every program. */
	const char *const *worker_argv;

	/* The GPUs: a specification (see gd_gpu_list()) or numbers. Neither: "auto". */
	const char *gpus;
	const int *gpu_ids; /**< {2} is the same as "2"; a number may occur twice: two workers on that GPU */
	size_t num_gpu_ids;
	enum gd_bind bind;
	int workers_per_gpu; /**< default 1; at most 1024, and 4096 workers in total */

	const struct gd_setting *settings; /**< for gd_worker_setting() */
	size_t num_settings;
	int64_t base_seed; /**< 42 if this and has_base_seed are 0; see gd_worker_seed() */
	int has_base_seed; /**< nonzero: use base_seed even if it is 0 */

	int queue_size; /**< tasks that wait, in addition to those in workers; default 1024. Memory for
			 *   large tasks is bounded: outside the workers' 4 MiB inboxes, only about
			 *   one task of 64 KiB or more waits per worker */
	/** Number of retries of a task that failed, crashed, timed out or could not be
	 *  transferred, on another worker if there is one; default 0. Only the end of the last
	 *  attempt has a callback. */
	int retries;
	int ordered;           /**< nonzero: callbacks in the order of task ids; holds back up to queue_size results */
	int allow_threads;     /**< nonzero: fork even if there are threads; only for hooks that use no lock */
	int setup_concurrency; /**< how many setups run at the same time, replacements included; default: all */

	/* Recycling: a worker is replaced after a task; tasks that it has not begun go to others. */
	uint64_t max_tasks_per_worker; /**< a worker processes at most this many; default: unlimited */
	/** Anonymous resident memory, checked once a second; default: unlimited. A forked
	 *  worker's memory includes that of your program. Not checked before its first task. */
	uint64_t max_worker_rss_bytes;

	uint64_t total_tasks; /**< for progress; 0: unknown. A dispatcher uses gd_run.total_tasks */

	/* Time limits in milliseconds. */
	/** Default: none. Counts from the beginning of process() to its end, without the wait
	 *  for slow callbacks; in a batch, from one answer to the next. A batch that exceeds
	 *  its time limit is repeated task by task. */
	int64_t task_timeout_ms;
	int64_t grace_ms;           /**< from gd_worker_cancelled() to SIGKILL; default 1000 */
	int64_t setup_timeout_ms;   /**< default: none */
	int64_t cleanup_timeout_ms; /**< default 10000 */
	int64_t kill_wait_ms; /**< how long to wait for a killed process before its slot is given up; default 5000 */

	/** For GD_OUTPUT_FILES; created if missing, its parent is not. -EPERM if other users can
	 *  write to or replace it, or access a log in it, unless GPUQ_TRUST=1 is set. */
	const char *output_dir;
	enum gd_output output;
	/**
	 * Nonzero: each worker gets a task before any worker gets its second one, even
	 * in a short run. While a worker is in its first setup, one task is reserved
	 * for it, but for no longer than the setup of the first ready worker took.
	 */
	int fair_start;
	/** The environment of the program of worker_argv, before the changes that select a GPU:
	 *  "NAME=value" strings with NULL at the end. Default: the environment of this program. */
	const char *const *worker_env;
};

/** Functions that the pool or dispatcher calls. NULL: not called. */
struct gd_callbacks {
	size_t size;   /**< sizeof(struct gd_callbacks) */
	void *context; /**< first argument of each */
	/* Every task ends in exactly one of these four, if they are set. */
	gd_callback *on_success; /**< mandatory */
	gd_callback *on_error;
	gd_callback *on_timeout;
	/** Cancelled tasks. If NULL, on_error gets them; a dispatcher then makes no
	 *  callback for tasks that never began: set on_cancelled if `tag` owns memory. */
	gd_callback *on_cancelled;
	gd_callback *on_task_start; /**< once per attempt, before its end; costs a message per task */
	/** A message of gd_worker_send(): `result` holds the bytes, ended_ns the time. Messages
	 *  are not delayed in ordered pools, and are dropped if this is NULL. `failure` is
	 *  GD_FAILURE_NOT_CARRIED if the bytes could not be received. */
	gd_callback *on_message;
	/** Once for each slot that is lost: its first setup failed, three setups of
	 *  replacements in a row failed, ten workers in a row died idle, or a setup failed
	 *  while the pool was ending (with an error other than -ECANCELED and -EINTR). */
	gd_callback *on_setup_fail;
	gd_callback *on_cleanup_fail;   /**< cleanup returned an error, crashed or timed out */
	gd_stats_callback *on_progress; /**< about ten times a second while there is progress, and at the end */
	gd_stats_callback *on_exit;     /**< exactly once, when all workers have ended; do not use the pool in it */
};

/* ---- Pool --------------------------------------------------------------- */

/**
 * A set of running workers. gd_pool_poll(), gd_pool_wait(), gd_pool_wait_ready() and
 * gd_pool_close() may be called by one thread at a time; all other functions by any
 * thread, until gd_pool_close() is called.
 */
struct gd_pool;

/** A task that is being written. */
struct gd_draft;

/** Options of one task; NULL: all defaults. */
struct gd_task_options {
	size_t size;        /**< sizeof(struct gd_task_options) */
	int64_t timeout_ms; /**< 0: the pool's task_timeout_ms */
	uint64_t nowait;    /**< nonzero: return -EAGAIN instead of waiting for space */
};

/**
 * Checks and copies the options, starts the workers and returns without waiting for
 * their setup: tasks may be submitted at once. -EINVAL: wrong options; -ENODEV: a GPU
 * does not exist; -EBUSY: the workers would be forked, but the program has threads.
 */
GD_API int gd_pool_open(const struct gd_options *options, const struct gd_callbacks *callbacks, struct gd_pool **ret,
	struct gd_error *err);

/**
 * Adds a task. Waits for space in the queue while another thread polls; the polling
 * thread itself (before the first poll: the thread that opened the pool) gets -EAGAIN.
 * -ESHUTDOWN after a stop, -ENODEV when no worker is left, -ENOMEM. After a failure
 * there is no task and no callback. `options` and `ret_id` may be NULL.
 */
GD_API int gd_pool_submit(struct gd_pool *p, const void *data, size_t size, void *tag,
	const struct gd_task_options *options, uint64_t *ret_id);

/**
 * Adds a task without a copy: returns space for `size` bytes, in the worker's inbox if
 * possible. Fill it, then call gd_draft_commit() with the size used (at most `size`) or
 * gd_draft_abandon(). Both release the draft, gd_draft_commit() even if it fails. A
 * thread may hold one draft at a time and only briefly, because a worker may be waiting
 * for it. No draft may be held when gd_pool_close() is called.
 */
GD_API int gd_pool_reserve(
	struct gd_pool *p, size_t size, const struct gd_task_options *options, struct gd_draft **ret, void **ret_data);
GD_API int gd_draft_commit(struct gd_draft *draft, size_t size, void *tag, uint64_t *ret_id);
GD_API void gd_draft_abandon(struct gd_draft *draft);

/**
 * Cancels one task. A waiting task never begins, and the next poll makes its callback. In
 * a running task, gd_worker_cancelled() becomes true; if the task does not end within the
 * grace period, its worker is killed. The callback is made when the task has ended.
 * Returns 0, or -ENOENT if the task does not exist or has ended. A task that ends in the
 * meantime keeps its own result.
 */
GD_API int gd_pool_cancel(struct gd_pool *p, uint64_t id);

/**
 * Returns a descriptor that is readable when gd_pool_poll() should be called (possibly
 * without a callback to make). Use it in any level-triggered event loop; never read from
 * it.
 */
GD_API int gd_pool_fd(const struct gd_pool *p);

enum gd_poll_flags {
	/** Return -EINTR when a signal handler has run on this thread while it waited.
	 *  Callbacks that are already due are made by the next call. A handler that runs
	 *  just before the wait begins does not end it: call gd_pool_interrupt() in the
	 *  handler to make the call return in any case. */
	GD_POLL_SIGNALS = 1 << 0,
	/** Wait even if no task is outstanding: until a callback was made (a task of
	 *  another thread may have ended), the timeout or gd_pool_interrupt(). */
	GD_POLL_IDLE = 1 << 1,
};

/**
 * Makes the callbacks that are due and waits up to timeout_ms (-1: without limit) for the
 * first one. Returns how many were made, counting all callbacks that take an event. Returns
 * 0 at the timeout, after gd_pool_interrupt() or gd_pool_stop(), and when no task is
 * outstanding (unless GD_POLL_IDLE is set). When the callbacks of all tasks have been made,
 * returns -ECANCELED after a stop and -ENODEV when no worker is left. `flags`: bits of enum
 * gd_poll_flags.
 */
GD_API int gd_pool_poll(struct gd_pool *p, int timeout_ms, unsigned flags);

/*
 * Neither signals nor gd_pool_interrupt() make the next two functions return;
 * gd_pool_stop() does, when the tasks have ended.
 */
/** Polls until each worker is ready or lost. Returns how many are ready, or -ETIMEDOUT. */
GD_API int gd_pool_wait_ready(struct gd_pool *p, int timeout_ms);
/** Polls until no task is outstanding. 0, -ETIMEDOUT, -ENODEV when no worker is left, -ECANCELED after a stop. */
GD_API int gd_pool_wait(struct gd_pool *p, int timeout_ms);

/** Makes a waiting gd_pool_poll() return. Safe in signal handlers. */
GD_API void gd_pool_interrupt(struct gd_pool *p);

/**
 * Ends the work in three steps; tasks are no longer accepted. First call: running tasks
 * are finished, waiting tasks are cancelled, nothing is retried, setups are asked to
 * end as by gd_pool_close(). Second call: running tasks are cancelled and killed after
 * the grace period; a task that succeeds meanwhile counts as succeeded. Third call: all
 * workers are killed at once, without cleanup. Takes effect in gd_pool_poll(). Safe in
 * signal handlers.
 */
GD_API void gd_pool_stop(struct gd_pool *p);

/**
 * Announces that no more tasks will be submitted, as far as the caller knows: from now
 * on a worker that ends is replaced only when a task waits for it. May be called by any thread.
 */
GD_API void gd_pool_expect_no_more(struct gd_pool *p);

/** Returns the number of tasks that were submitted, or are being written, and whose callback has not been made. */
GD_API size_t gd_pool_outstanding(const struct gd_pool *p);
/** Returns how many tasks of the same size as the last one can be submitted now without waiting. */
GD_API size_t gd_pool_room(const struct gd_pool *p);

/** Fills *ret, a struct of `size` bytes: sizeof(*ret). */
GD_API void gd_pool_stats(const struct gd_pool *p, struct gd_stats *ret, size_t size);
/** -ENOENT if there is no such slot. */
GD_API int gd_pool_worker_stats(const struct gd_pool *p, int slot, struct gd_worker_stats *ret, size_t size);
/**
 * Copies the first bytes, at most `room`, of the task that a worker is processing, and
 * returns the size of the task; stores its id in *ret_id (may be NULL). -ENOENT: no such
 * slot; -ENODATA: no task.
 */
GD_API int64_t gd_pool_worker_task(const struct gd_pool *p, int slot, void *data, size_t room, uint64_t *ret_id);

/**
 * Cancels the remaining tasks (to finish them, poll until gd_pool_outstanding() is 0),
 * lets the workers clean up, ends all processes they started, makes the last callbacks
 * and releases the pool. In a setup that is still running, gd_worker_cancelled() becomes
 * true, and it has the grace period to return. If it succeeds, its cleanup runs; if it
 * does not end, it is killed, which is not reported as a failed setup. No other thread may
 * use the pool from now on, or be inside gd_pool_submit(); only gd_pool_stop() may be
 * called until on_exit is called. `ret_stats` (of stats_size bytes) may be NULL; the pool
 * may be NULL. -EBUSY: a worker could not be killed; the pool is released nevertheless.
 * -EDEADLK inside a callback; the pool is not released.
 */
GD_API int gd_pool_close(struct gd_pool *p, struct gd_stats *ret_stats, size_t stats_size, struct gd_error *err);

/* ---- Dispatcher --------------------------------------------------------- */

/** Runs streams of tasks, one run at a time. */
struct gd_dispatcher;

/** Receives the generator's task. */
struct gd_feed;

/**
 * Emits one task; copies it. Waits while the queue is full. Returns 1, so that a
 * generator can end with `return gd_feed_emit(…)`; -EALREADY if this call of the
 * generator has already emitted a task; -ESHUTDOWN or -ENODEV if the run is ending.
 * `options` may be NULL.
 */
GD_API int gd_feed_emit(
	struct gd_feed *feed, const void *data, size_t size, void *tag, const struct gd_task_options *options);
/**
 * Emits one task without a copy: returns space for `size` bytes; write it before the
 * generator returns. Returns NULL if the run is ending or memory ran out. The generator
 * should then return -ENOMEM, which a run that is ending ignores.
 */
GD_API void *gd_feed_reserve(struct gd_feed *feed, size_t size, void *tag, const struct gd_task_options *options);

/** One run: its source of tasks, and the settings that differ from the dispatcher's options. */
struct gd_run {
	size_t size; /**< sizeof(struct gd_run) */
	/**
	 * Emits the next task and returns 1; returns 0 at the end. On failure it
	 * returns a negative errno value: tasks emitted before are still processed,
	 * then the run returns that value. A task emitted by a call that returns 0 is
	 * the last one. The run cannot return before the generator does: a generator
	 * that waits for input must also wait for gd_dispatcher_stop_fd().
	 */
	int (*generator)(void *context, struct gd_feed *feed);
	void *generator_context;
	uint64_t total_tasks; /**< for progress; 0: unknown */
	/** Nonzero: call the generator on the thread of gd_dispatcher_run(), where
	 *  gd_feed_emit() may make callbacks. This is faster for short tasks, but no callbacks
	 *  are made while the generator waits. */
	int inline_generator;
	/** Nonzero: this run does not handle SIGINT and SIGTERM. */
	int leave_signals;

	/* Settings of this run that differ from the options. */
	int has_base_seed;                 /**< nonzero: use base_seed even if it is 0 */
	int reserved;                      /**< 0 */
	int64_t task_timeout_ms;           /**< 0: as in the options */
	const struct gd_setting *settings; /**< added to those of the options; replaces settings with the same key */
	size_t num_settings;
	int64_t base_seed; /**< as in the options if this and has_base_seed are 0 */
};

/** Checks and copies the options. Starts nothing. */
GD_API int gd_dispatcher_create(const struct gd_options *options, struct gd_dispatcher **ret, struct gd_error *err);

/**
 * Starts new workers, passes the generator's tasks through them, and returns when every
 * task has ended and all workers are gone. Failed tasks are not a failure of the run:
 * see gd_dispatcher_stats(). on_exit is always called, even if no worker could be
 * started, except if the dispatcher is already running, a size or a reserved field is
 * wrong, or the generator or on_success is missing.
 *
 * SIGINT (Ctrl-C) and SIGTERM are handled during the run if their disposition is the
 * default when the run begins. Each of the first three signals has the effect of a call of
 * gd_dispatcher_stop() for all runs of the process (see gd_pool_stop()); the
 * fourth ends the program by that signal, even if the generator blocks. Signals are
 * counted from the beginning of the first run until no run is left. A handler that the
 * program installs during the run is not replaced. Afterwards, the default is restored.
 *
 * Returns 0; -EINTR if such a signal arrived, whatever else happened; -ECANCELED after
 * gd_dispatcher_stop() or a callback that returned nonzero; -ENODEV if a GPU does not
 * exist or no worker was left; the generator's error; -ENODATA if the generator
 * returned 1 without a task; -EBUSY if this dispatcher is already running, if the
 * program has threads (see gd_options.worker) or if a worker could not be killed.
 */
GD_API int gd_dispatcher_run(
	struct gd_dispatcher *d, const struct gd_run *run, const struct gd_callbacks *callbacks, struct gd_error *err);

/**
 * Stops the run as gd_pool_stop() stops a pool: the first call finishes running tasks,
 * the second cancels them, the third kills the workers. May be called by any thread and by
 * signal handlers. If no run is active, the next one stops at once.
 */
GD_API void gd_dispatcher_stop(struct gd_dispatcher *d);
/**
 * Returns a descriptor for generators that wait. It is readable from a stop, or the loss
 * of the last worker, until the end of the run. Valid until gd_dispatcher_destroy(); never
 * read from it.
 */
GD_API int gd_dispatcher_stop_fd(const struct gd_dispatcher *d);

/** Statistics of the current run or of the last one; see gd_pool_stats(). May be called by any thread. */
GD_API void gd_dispatcher_stats(const struct gd_dispatcher *d, struct gd_stats *ret, size_t size);
GD_API int gd_dispatcher_worker_stats(
	const struct gd_dispatcher *d, int slot, struct gd_worker_stats *ret, size_t size);
/** See gd_pool_worker_task(). */
GD_API int64_t gd_dispatcher_worker_task(
	const struct gd_dispatcher *d, int slot, void *data, size_t room, uint64_t *ret_id);

/** Releases the dispatcher; NULL is allowed. Must not be called during a run. */
GD_API void gd_dispatcher_destroy(struct gd_dispatcher *d);

/* ---- Shown run ---------------------------------------------------------- */

enum gd_show_mode {
	/** On a terminal, a panel that is redrawn in place; plain lines otherwise, and with $NO_COLOR
	 *  or TERM=dumb. */
	GD_SHOW_MODE_AUTO = 0,
	GD_SHOW_MODE_PLAIN, /**< plain lines: when something changed, at most every ten seconds, and at the end */
	GD_SHOW_MODE_OFF,   /**< nothing */
};

struct gd_show {
	size_t size; /**< sizeof(struct gd_show) */
	enum gd_show_mode mode;
	int fd;              /**< where to draw; 0: standard error */
	double refresh_rate; /**< updates per second; default 4 */
	const char *title;   /**< in front of the bar; default: the program's name */
	/**
	 * Names a task from its bytes (the first 4096 of a long one) for the panel: writes
	 * a string of at most `room` bytes including NUL. Called on the panel's thread, a
	 * few times a second. Default: the task's number.
	 */
	void (*name_task)(void *context, const struct gd_bytes *task, char *name, size_t room);
	void *context; /**< first argument of name_task */
	/** Nonzero: do not redirect standard output and error. By default, the output of
	 *  program and workers appears above the panel, line by line. */
	uint64_t leave_output;
};

/**
 * Does the same as gd_dispatcher_run() and shows a panel: a bar with tasks done, failed
 * and cancelled, rate, elapsed time and ETA; for each GPU its worker's task and how long
 * it has run, counts, memory and utilization. Results and errors are those of
 * gd_dispatcher_run(). If `show` is NULL, all defaults apply.
 *
 * Besides gd_worker_main() and gd_launch_print_*(), this is the only function that prints.
 * While a panel is drawn, the cursor is hidden and typed keys are not echoed. If standard
 * output and error are this terminal, they go through a pipe (see leave_output). The
 * terminal is restored before a signal ends or stops the program, and at exit(). The
 * panel has its own thread, created after the workers were forked. There is one panel at
 * a time: a second run is shown as plain lines.
 */
GD_API int gd_dispatcher_run_shown(struct gd_dispatcher *d, const struct gd_run *run,
	const struct gd_callbacks *callbacks, const struct gd_show *show, struct gd_error *err);

#ifdef __cplusplus
}
#endif

#endif
