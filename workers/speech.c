/* SPDX-License-Identifier: MIT */
#include "speech.h"

#include <errno.h>
#include <stdlib.h>

#define WORDS 512

static int cleanup(struct gd_worker *w, void *state)
{
	(void)w;
	speech_recognizer.unload(state);
	free(state);
	return 0;
}

static int setup(struct gd_worker *w, void **ret_state)
{
	void *state = calloc(1, speech_recognizer.state_size);
	if (!state)
		return -ENOMEM;
	int r = speech_recognizer.load(w, state);
	if (r < 0) {
		cleanup(w, state);
		return r;
	}
	*ret_state = state;
	return 0;
}

static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	struct gd_file file;
	struct audio *audio;
	struct transcript t = {0};
	char words[WORDS];
	int r = gd_file_read(task, &file, sizeof(file));
	if (r < 0)
		return gd_worker_fail(w, r, "the task is not a file");
	r = audio_open(file.path, &audio, words, sizeof(words));
	if (r < 0)
		return gd_worker_fail(w, r, "%s", words);
	r = speech_recognizer.recognize(w, state, audio, &t);
	t.seconds = audio_seconds(audio);
	audio_close(audio);
	if (r == 0 && (r = transcript_write(&t, &file, words, sizeof(words))) < 0)
		gd_worker_fail(w, r, "%s", words);
	transcript_finish(&t);
	return r < 0 ? r : gd_worker_file_seconds(w, t.seconds);
}

const struct gd_plugin *gd_plugin_get(void)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(ops), .setup = setup, .process = process, .cleanup = cleanup};
	static struct gd_plugin plugin = {.size = sizeof(plugin), .version = GD_PLUGIN_VERSION, .ops = &ops};
	plugin.about = speech_recognizer.about;
	plugin.check = speech_recognizer.check;
	return &plugin;
}
