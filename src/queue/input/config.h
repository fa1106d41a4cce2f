/* SPDX-License-Identifier: MIT */
/*
 * Settings of a run, in layers: defaults < configuration file < command line.
 *
 * Each layer is a struct config of its own with a bit per setting that it gives;
 * config_overlay() lays one over another. File and command line share names,
 * parsers and errors. Start from {0}; release with config_finish().
 *
 *     config_defaults(&c) → config_load() over it → config_set() per option
 */
#ifndef QUEUE_INPUT_CONFIG_H
#define QUEUE_INPUT_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu_dispatch.h"
#include "queue/journal/trust.h"
#include "queue/keeper/attempt_log.h"

enum config_key {
	CONFIG_GPUS, /* gpus, and gpu_ids: a list, kept as a specification too */
	CONFIG_MIN_FREE_MEM,
	CONFIG_POLL_INTERVAL,
	CONFIG_COMMANDS_FILE,
	CONFIG_LOG_DIR,
	CONFIG_LOG_ACCESS,
	CONFIG_MAX_LOG_SIZE,
	CONFIG_JOBS_FILE,
	CONFIG_JOBS_PER_GPU,
	CONFIG_TIMEOUT,
	CONFIG_RETRIES,
	CONFIG_MAX_FAILURES,
	CONFIG_KEEP,
	CONFIG_BACKGROUND,
	CONFIG_JSON,
	CONFIG_ON_FINISH,
	CONFIG_ON_IDLE,
	CONFIG_EXCLUSIVE,
	CONFIG_HOST_MEM,
	CONFIG_CPUS,
	CONFIG_CPU_AFFINITY,
	CONFIG_IDLE_WARN,
	CONFIG_SLURM,
	CONFIG_MAX_NODES,
	CONFIG_SLURM_SILENCE,
	CONFIG_SLURM_LEASE,
	CONFIG_SLURM_ADDRESS,
	CONFIG_KEYS,
};

struct config {
	unsigned set;                /* bits 1u << enum config_key: what this layer gives */
	char *gpus;                  /* NULL: auto */
	uint64_t min_free_mem_bytes; /* 6000 MB; see config_min_free_mem_mb() */
	uint64_t poll_interval_ms;   /* 60 s; at least 1 ms */
	char *commands_file;         /* commands.txt */
	char *log_dir;               /* ./logs */
	enum log_access log_access;  /* the owner alone */
	uint64_t max_log_bytes;      /* 0: no limit; otherwise at least 1 MiB */
	char *jobs_file;             /* NULL: cli/queue_choice.c finds the queue */
	int64_t jobs_per_gpu;        /* 0: as many as their memory allows */
	uint64_t timeout_ms;         /* 0: none */
	int64_t retries;             /* 0 */
	int64_t max_failures;        /* 0: no limit */
	bool keep;
	bool background;
	bool json;
	char *on_finish; /* NULL: none */
	char *on_idle;   /* the same */
	/* Needs of the jobs that are added with these settings, unless they state their own. */
	bool exclusive;
	uint64_t host_mem_bytes; /* 0: not declared */
	int64_t cpus;            /* 0: not declared */
	uint64_t idle_warn_ms;   /* 0: never */
	bool cpu_affinity;       /* jobs run on the CPUs next to their GPUs */
	/* The queue on a cluster. */
	char *slurm; /* options for sbatch; NULL: jobs run on this machine */
	int64_t max_nodes;
	uint64_t slurm_silence_ms, slurm_lease_ms;
	char *slurm_address; /* NULL: the address that is routed towards the nodes */
};

static inline bool config_has(const struct config *c, enum config_key key)
{
	return c->set & (1u << key);
}

/* As a need: -1 where nobody gave it, which means the default threshold. */
int64_t config_min_free_mem_mb(const struct config *c);

/* What holds where nobody says otherwise; no bit is set. `c` is {0} before. */
int config_defaults(struct config *c);
void config_finish(struct config *c);

/* Takes over what `over` gives, and leaves it empty. */
void config_overlay(struct config *c, struct config *over);

/*
 * One setting as text, as on a command line: `option` ("--poll-interval") is
 * what the error calls it. For yes/no settings NULL means yes.
 */
int config_set(struct config *c, enum config_key key, const char *option, const char *value, struct gd_error *err);

/*
 * Reads a file as one layer. -ENOENT and the like when it cannot be read, -EPERM
 * when it was not named and another user can write it, -EINVAL for what stands in
 * it; the words begin with "FILE:LINE: " where a line is to blame.
 */
int config_load(const char *path, enum trust_choice choice, struct config *ret, struct gd_error *err);

/* The same from memory; `name` is for the words. */
int config_parse(const char *name, const void *data, size_t size, struct config *ret, struct gd_error *err);

/*
 * Which file: `option` (of --config) if there is one, else ./gpuq.yaml, else
 * gpuq/config.yaml in $XDG_CONFIG_HOME or ~/.config; NULL where there is none.
 * Only the first need not exist: config_load() will say so. Release with free().
 */
int config_find(const char *option, char **ret);

#endif
