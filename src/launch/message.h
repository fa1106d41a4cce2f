/* SPDX-License-Identifier: MIT */
/*
 * Messages between a worker and its persistent program, one JSON object per line: docs/worker-protocol.md.
 */
#ifndef LAUNCH_MESSAGE_H
#define LAUNCH_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json_read.h"
#include "base/text.h"
#include "gpu_dispatch_launch.h"

/* Lines to the program, with their newline. */
void message_put_setup(
	struct text *t, int gpu, int device, int64_t seed, const struct gd_setting *settings, size_t num_settings);
void message_put_task(struct text *t, uint64_t id, const struct gd_file *file);
/*
 * An explanation to append to the error of a file if its path or that of its output folder is not UTF-8: the message
 * then has it only as base64, and a simple worker fails. "" if both are UTF-8.
 */
const char *message_explain_task(const struct gd_file *file);
/* values: the items as a JSON array. */
void message_put_items(struct text *t, uint64_t id, const char *values, size_t size);

enum message_kind {
	MESSAGE_READY = 1,
	MESSAGE_ERROR,  /* of the program as a whole */
	MESSAGE_ANSWER, /* to a task */
	MESSAGE_OTHER,  /* of an unknown type, reserved for later versions */
};

struct message {
	enum message_kind kind;
	int64_t id;
	bool ok;
	double seconds;     /* of audio, or -1 */
	char error[768];    /* printable, on one line */
	bool out_of_memory; /* out of memory was the reason */
	/* Of an answer to items, if present: slices of the line. */
	struct json_value results, errors;
};

/*
 * Reads a line of the program. -EBADMSG if it is not a JSON object or has an invalid member; ret_why is then the
 * reason, as the end of a sentence.
 */
int message_read(const char *line, size_t size, struct message *ret, const char **ret_why);

/* The reason given by an item of `errors`, printable, on one line, like `error` above. 0 or -ENOMEM. */
int message_copy_error(const struct json_value *v, char *to, size_t room);

#endif
