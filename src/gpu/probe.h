/* SPDX-License-Identifier: MIT */
/*
 * Queries GPUs in a separate process, because driver calls hang on broken cards, and a driver must not be loaded in a
 * process that forks workers. Calling sequence: gpu_probe_open() → wait for gpu_probe_fd() to be readable →
 * gpu_probe_read() until it returns 0 → gpu_probe_list() → … → gpu_probe_close()
 *
 * A probe keeps the last answer of each card. A card that does not answer in time becomes GD_GPU_HEALTH_NOT_ANSWERING
 * and keeps its known identity. It is queried again when its call returns, or by another thread if the call does not
 * return; the other cards are not affected. If this fails for a long time, the probe ends (-EPIPE), because another
 * process may succeed. A card that reported Xid 79 (fallen off the bus) stays lost as long as the probe is open.
 *
 * For simulated GPUs there is no process; everything else is the same. Not thread-safe. The probe does not touch
 * SIGCHLD or other children; the caller may ignore SIGCHLD or wait for all children.
 */
#ifndef GPU_PROBE_H
#define GPU_PROBE_H

#include <sys/types.h>

#include "gpu/set.h"
#include "gpu/spec.h"

struct gpu_probe;

/* In every field zero means the default. */
struct gpu_probe_options {
	const char *spec;   /* the GPUs that gpu_probe_list() selects; NULL: "auto" */
	unsigned period_ms; /* how often all cards are asked; 0: once, when the probe is opened */
	unsigned answer_ms; /* how long a driver may take; 5000 */
	bool events;        /* report Xids */
	/*
	 * NULL, or the gpu_probe_machine() of another process, whose GPUs are queried: $GPUQ_GPUS, CUDA_VISIBLE_DEVICES
	 * and similar variables of this process are then ignored.
	 */
	const char *machine;
	/* "auto" and "all" select cards that do not answer, too; they come last. For programs that wait for such cards.
	 */
	bool silent;
	/* NULL, or the list of an earlier probe, for the identity of cards that do not answer this one. Copied. */
	const struct gd_gpu_list *last;
};

enum gpu_news_kind {
	GPU_NEWS_CARD = 1, /* a card has answered, or has been given up */
	GPU_NEWS_XID,      /* an error of a card */
	GPU_NEWS_ROUND,    /* after the opening, each card has answered or been given up; simulated: each period */
};

struct gpu_news {
	enum gpu_news_kind kind;
	int index;    /* of the card */
	unsigned xid; /* NVIDIA's number of the error */
};

/* Starts the probe, which queries all cards. Waits until the process runs, but not for a driver. */
int gpu_probe_open(const struct gpu_probe_options *options, struct gpu_probe **ret, struct gd_error *err);

/* Readable when gpu_probe_read() has an event. For poll() only. */
int gpu_probe_fd(const struct gpu_probe *p);

/*
 * Returns 1 and the next event; 0 if there is none yet. -EPIPE if the probe has ended (a driver crashed it, or it was
 * killed): close it and open another.
 */
int gpu_probe_read(struct gpu_probe *p, struct gpu_news *ret);

/* The selected GPUs as far as they have answered; see gd_gpu_list(). Complete after the first GPU_NEWS_ROUND. */
int gpu_probe_list(const struct gpu_probe *p, struct gd_gpu_list **ret, struct gd_error *err);

/* Selects other GPUs of the same machine from now on; the probe continues. */
int gpu_probe_select(struct gpu_probe *p, const char *spec, struct gd_error *err);

/* The machine whose GPUs are queried, as one word for gpu_probe_options. */
void gpu_probe_machine(const struct gpu_probe *p, char ret[GPU_MACHINE_SIZE]);

/* The PID of the probe process; 0 for simulated GPUs. */
pid_t gpu_probe_pid(const struct gpu_probe *p);

/* Kills and reaps the process, which takes at most a second, or ten if the process gets no CPU time. NULL is
 * allowed. */
void gpu_probe_close(struct gpu_probe *p);

/*
 * Returns all GPUs of the machine with their current state, without those that the environment hides: opens a probe,
 * waits for one round, closes it. The selection of `options->spec` is parsed and returned, but not applied.
 */
int gpu_probe_once(
	const struct gpu_probe_options *options, struct gpu_spec *ret_spec, struct gpu_set *ret, struct gd_error *err);

#endif
