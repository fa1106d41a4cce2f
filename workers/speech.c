/* SPDX-License-Identifier: MIT */
#include "speech.h"

#define WORDS 512

int speech_process(struct gd_worker *w, void *state, const struct gd_bytes *task, speech_recognise *recognise,
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
	r = recognise(w, state, audio, t);
	t->seconds = audio_seconds(audio);
	audio_close(audio);
	if (r == 0 && (r = transcript_write(t, &file, words, sizeof(words))) < 0)
		gd_fail(w, r, "%s", words);
	transcript_finish(t);
	return r < 0 ? r : gd_file_done(w, t->seconds);
}
