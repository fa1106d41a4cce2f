/* SPDX-License-Identifier: MIT */
/*
 * Settings of a run, in layers: defaults < configuration file < command line.
 *
 * Each layer is a struct config with a bit for each setting that it sets;
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
	CONFIG_GPUS, /* gpus, or gpu_ids: a list, converted to the text form of gpus */
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
	unsigned set;                /* bits 1u << enum config_key: settings that this layer sets */
	char *gpus;                  /* NULL: auto */
	uint64_t min_free_mem_bytes; /* 6000 MB; see config_min_free_mem_mb() */
	uint64_t poll_interval_ms;   /* 60 s; at least 1 ms */
	char *commands_file;         /* commands.txt */
	char *log_dir;               /* ./logs; if not set, cli/log_dir.h uses "logs" next to the journal instead */
	enum log_access log_access;  /* default: only the owner */
	uint64_t max_log_bytes;      /* 0: no limit; otherwise at least 1 MiB */
	char *jobs_file;             /* NULL: cli/queue_choice.c chooses the queue */
	int64_t jobs_per_gpu;        /* 0: as many as fit by memory */
	uint64_t timeout_ms;         /* 0: none */
	int64_t retries;             /* 0 */
	int64_t max_failures;        /* 0: no limit */
	bool keep;
	bool background;
	bool json;
	char *on_finish; /* NULL: none */
	char *on_idle;   /* the same */
	/* Default needs of jobs that are added with these settings. */
	bool exclusive;
	uint64_t host_mem_bytes; /* 0: not declared */
	int64_t cpus;            /* 0: not declared */
	uint64_t idle_warn_ms;   /* 0: never */
	bool cpu_affinity;       /* jobs run on the CPUs next to their GPUs */
	/* Settings for Slurm clusters. */
	char *slurm; /* options for sbatch; NULL: jobs run on this machine */
	int64_t max_nodes;
	uint64_t slurm_silence_ms, slurm_lease_ms;
	char *slurm_address; /* NULL: the address on the route to the nodes */
};

static inline bool config_has(const struct config *c, enum config_key key)
{
	return c->set & (1u << key);
}

/* The setting as a need of a job: -1 if it is not set, which means the default threshold. */
int64_t config_min_free_mem_mb(const struct config *c);

/* Fills in the default values and sets no bit. `c` must be {0}. */
int config_defaults(struct config *c);
void config_finish(struct config *c);

/* Moves the settings that are set in `over` into `c`; `over` is empty afterwards. */
void config_overlay(struct config *c, struct config *over);

/*
 * Sets one setting from its text. `option` ("--poll-interval") is its name in error messages. For yes/no settings a
 * NULL value means yes.
 */
int config_set(struct config *c, enum config_key key, const char *option, const char *value, struct gd_error *err);

/*
 * Reads a file as one layer. -ENOENT and similar errors if it cannot be read, -EPERM if the user did not name it and
 * another user can write it, -EINVAL for mistakes in it; the message begins with "FILE:LINE: " if a line is wrong.
 */
int config_load(const char *path, enum trust_choice choice, struct config *ret, struct gd_error *err);

/* The same from memory; `name` is for messages. */
int config_parse(const char *name, const void *data, size_t size, struct config *ret, struct gd_error *err);

/* The configuration file of the current directory. */
#define CONFIG_HERE "./gpuq.yaml"

/*
 * Finds the configuration file: `option` (the value of --config) if not NULL, else CONFIG_HERE, else gpuq/config.yaml
 * in $XDG_CONFIG_HOME or ~/.config; NULL if there is none. Only `option` is not checked for existence: config_load()
 * reports a missing file. Release with free().
 */
int config_find(const char *option, char **ret);
/* The same without `option` and ./gpuq.yaml. */
int config_find_personal(char **ret);

#endif
