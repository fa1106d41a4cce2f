/* SPDX-License-Identifier: MIT */
/*
 * Shared by file_proxy.c, the hooks of the pool's worker, and file_proxy_link.c, the thread that serves the connection.
 *
 * Both use the struct under its lock. The hooks set a request and wake the thread; the thread changes the state and
 * signals `changed`.
 */
#ifndef SLURM_FILE_PROXY_PRIVATE_H
#define SLURM_FILE_PROXY_PRIVATE_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/loop.h"
#include "slurm/file_job.h"
#include "slurm/file_message.h"
#include "slurm/link.h"
#include "slurm/listener.h"

enum file_proxy_state {
	PROXY_WAITS = 0, /* for an attempt */
	PROXY_BOUND,     /* to an attempt that has said hello */
	PROXY_LOST,      /* that attempt is proven dead */
	PROXY_FAILED,    /* there will be no other attempt: see `words` */
};

struct file_proxy {
	/* Constant while the thread runs. */
	int dir_fd;
	size_t worker; /* its number in the launch */
	char journal[PATH_MAX];
	uint64_t number; /* of this proxy: random */
	uint8_t secret[MAC_KEY_SIZE];
	int wake_fd;
	pthread_t thread;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum file_proxy_state state;
	struct file_message hello; /* of the attempt, without bytes */
	bool connected;
	bool ready;       /* the attempt's model is loaded */
	bool busy_before; /* the attempt still has another file, such as that of an earlier proxy */
	char words[512];

	/* The request. */
	struct text task; /* the file, encoded; empty: none */
	uint64_t file;    /* its number, from 1 */
	bool sent;
	bool cancel, end;

	/* The answer. */
	bool answered;
	struct file_message answer;
	struct text bytes; /* of the answer */
	struct text notes; /* messages of gpuq-worker for the launcher: a uint32_t size and the bytes of each */

	/* Used only by the thread. */
	struct loop *loop;
	struct listener *listener;
	struct link *link; /* of the last hello; NULL: none */
	struct loop_source *timer;
	struct file_job job;
	struct text out;
};

/* Listens, writes the address, and starts the thread. */
int file_proxy_link_start(struct file_proxy *p, struct gd_error *err);
/* Makes the thread look at the request. */
void file_proxy_link_wake(struct file_proxy *p);

#endif
