/* SPDX-License-Identifier: MIT */
#include "speech.h"

#include <errno.h>
#include <stdlib.h>

#define WORDS 512

int speech_setup(struct gd_worker *w, const struct speech_ops *ops, void **ret_state)
{
	void *state = calloc(1, ops->state_size);
	if (!state)
		return -ENOMEM;
	int r = ops->load(w, state);
	if (r < 0) {
		speech_cleanup(ops, state);
		return r;
	}
	*ret_state = state;
	return 0;
}

int speech_cleanup(const struct speech_ops *ops, void *state)
{
	ops->unload(state);
	free(state);
	return 0;
}

int speech_process(struct gd_worker *w, const struct speech_ops *ops, void *state, const struct gd_bytes *task,
	struct transcript *t)
{
	struct gd_file file;
	struct audio *audio;
	char words[WORDS];
	int r = gd_file_read(task, &file);
	if (r < 0)
		return gd_fail(w, r, "the task is no file");
	r = audio_open(file.path, &audio, words, sizeof(words));
	if (r < 0)
		return gd_fail(w, r, "%s", words);
	r = ops->recognize(w, state, audio, t);
	t->seconds = audio_seconds(audio);
	audio_close(audio);
	if (r == 0 && (r = transcript_write(t, &file, words, sizeof(words))) < 0)
		gd_fail(w, r, "%s", words);
	transcript_finish(t);
	return r < 0 ? r : gd_file_done(w, t->seconds);
}
