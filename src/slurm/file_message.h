/* SPDX-License-Identifier: MIT */
/*
 * The messages between the two ends of a launch on a cluster: the proxy (file_proxy.h) on the login node, which is a
 * worker of the launcher's pool, and the worker (file_worker.h) on a GPU of a node, which is an attempt of a job of the
 * launch's queue. They are sent as frames of a tunnel. Both ends are the same program.
 *
 * A file is identified by the proxy's number (random for each process) and a counter. The worker has at most one file
 * at a time. After a connection was lost, the worker's hello names its last file, and its last answer follows. A proxy
 * sends a file again only if the *same* attempt reports in a hello that it has not received it. A file that may still
 * be processed is given to another worker only after the attempt was proven dead: the queue's journal has its end, or a
 * later attempt of the job has said hello.
 */
#ifndef SLURM_FILE_MESSAGE_H
#define SLURM_FILE_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

enum file_message_kind {
	FILE_HELLO = 1,    /* worker: its attempt, node, GPU, and its last file */
	FILE_READY,        /* worker: the model is loaded; repeated in each connection */
	FILE_SETUP_FAILED, /* worker: the model cannot be loaded; bytes: why. The worker exits */
	FILE_TASK,         /* proxy: process this file; bytes: the task */
	FILE_ANSWER,       /* worker: how a file ended; repeated in each connection */
	FILE_NOTE,         /* worker: a message of gpuq-worker for the launcher */
	FILE_CANCEL,       /* proxy: end the file; an answer follows */
	FILE_END,          /* proxy: clean up and exit */
	FILE_PING,         /* worker: requests a pong, to check the connection */
	FILE_PONG,         /* proxy: answers a ping */
};

enum file_outcome {
	FILE_NONE = 0,    /* in a hello: no file yet */
	FILE_RUNNING,     /* in a hello: the file is being processed */
	FILE_DONE,        /* bytes: the result */
	FILE_FAILED,      /* bytes: a message */
	FILE_UNPROCESSED, /* cancelled, or the worker ends; nothing processes the file anymore. Bytes: why */
};

#define FILE_NODE_ROOM 64

/* Members that a kind does not use are 0. */
struct file_message {
	uint32_t kind;
	uint32_t outcome;       /* of the file */
	uint64_t proxy;         /* the proxy that sent the file… */
	uint64_t number;        /* …and the number of the file there, from 1 */
	uint32_t attempt;       /* hello: of the worker's job */
	uint32_t tries;         /* answer: attempts at the file */
	int32_t gpu;            /* hello */
	uint32_t session;       /* hello: counts the connections of the attempt */
	uint64_t processing_ns; /* answer */
	char node[FILE_NODE_ROOM];
	const void *bytes;
	size_t size;
};

/* Replaces the content of `t`; text_error() reports whether memory ran out. */
void file_message_encode(struct text *t, const struct file_message *m);
/* -EBADMSG. The bytes point into data. */
int file_message_decode(const void *data, size_t size, struct file_message *ret);

#endif
