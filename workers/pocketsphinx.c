/* SPDX-License-Identifier: MIT */
/*
 * Speech recognition with CMU PocketSphinx: on the CPU, in English, with Debian's model. A segment is the speech
 * between two silences.
 *
 * Settings: hmm, lm, dict: the paths of the three parts of a custom model.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <pocketsphinx.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "speech.h"

#ifndef POCKETSPHINX_MODELDIR
#define POCKETSPHINX_MODELDIR "/usr/share/pocketsphinx/model"
#endif
#define FRAME_S 0.01
#define VAD_S   0.3 /* of speech, before it is detected */
#define SLICE   512 /* samples: the resolution of a segment's beginning */
#define WORDS   512
#define MODEL   "en-us"

struct pocketsphinx {
	cmd_ln_t *config;
	ps_decoder_t *decoder;
	mfcc_t *means; /* initial cepstral means of the model */
	char model[64];
	char language[16];
};

/* ---- The model ---------------------------------------------------------- */

/* The path of the setting, or Debian's. */
static int find_part(struct gd_worker *w, const char *key, const char *rest, char path[PATH_MAX])
{
	const char *given = gd_worker_setting(w, key, NULL);
	int n = given ? snprintf(path, PATH_MAX, "%s", given)
		      : snprintf(path, PATH_MAX, "%s/" MODEL "/%s", POCKETSPHINX_MODELDIR, rest);
	if (n < 0 || n >= PATH_MAX)
		return gd_worker_fail(w, -ENAMETOOLONG, "the path of '%s' is too long", key);
	if (access(path, R_OK) == 0)
		return 0;
	int error = errno;
	return gd_worker_fail(w, -error,
		"the model's part '%s' cannot be read: %s; install pocketsphinx-en-us, or use the setting %s=PATH",
		path, strerror(error), key);
}

/* Refuses settings for which there is no model, instead of ignoring them: 0, or -EINVAL with what to do. */
static int check_wishes(const char *language, const char *model, char *words, size_t room)
{
	static const char *const languages[] = {"auto", "en", "en-us", "english"};
	bool english = false;
	for (size_t i = 0; i < sizeof(languages) / sizeof(*languages); i++)
		english |= strcmp(language, languages[i]) == 0;
	/* "base" is the default of gpuq launch. */
	if (strcmp(model, MODEL) != 0 && strcmp(model, "base") != 0)
		snprintf(words, room,
			"pocketsphinx, the installed recognizer, has no model of the size '%.40s'; install whisper.cpp "
			"(library and whisper.h) and build gpu_dispatch again; it looks for ggml-%.40s.bin in "
			"$WHISPER_MODEL_DIR, ~/.cache/whisper, ~/.cache/whisper.cpp, /usr/local/share/whisper.cpp/models and "
			"/usr/share/whisper.cpp/models; or omit the setting model_size",
			model, model);
	else if (!english)
		snprintf(words, room,
			"pocketsphinx has a model for English only, not for '%.40s'; give another one with the setting hmm, the "
			"setting lm and the setting dict, or use another worker",
			language);
	else
		return 0;
	return -EINVAL;
}

/* Called before a run, without loading a model. With a custom model, any setting is accepted. */
static int check(const struct gd_setting *settings, size_t num_settings, struct gd_error *err)
{
	const char *model = MODEL, *language = "en";
	for (size_t i = 0; i < num_settings; i++) {
		if (strcmp(settings[i].key, "hmm") == 0 || strcmp(settings[i].key, "lm") == 0)
			return 0;
		if (strcmp(settings[i].key, "model_size") == 0)
			model = settings[i].value;
		else if (strcmp(settings[i].key, "language") == 0)
			language = settings[i].value;
	}
	err->code = check_wishes(language, model, err->message, sizeof(err->message));
	return err->code;
}

static int load(struct gd_worker *w, void *state)
{
	struct pocketsphinx *r = state;
	char hmm[PATH_MAX], lm[PATH_MAX], dict[PATH_MAX];
	bool own = gd_worker_setting(w, "hmm", NULL) && gd_worker_setting(w, "lm", NULL) &&
		   gd_worker_setting(w, "dict", NULL);
	char words[512];
	int e = own ? 0
		    : check_wishes(gd_worker_setting(w, "language", "en"), gd_worker_setting(w, "model_size", MODEL),
			      words, sizeof(words));
	if (e < 0)
		return gd_worker_fail(w, e, "%s", words);
	if (e == 0)
		e = find_part(w, "hmm", "en-us", hmm);
	if (e == 0)
		e = find_part(w, "lm", "en-us.lm.bin", lm);
	if (e == 0)
		e = find_part(w, "dict", "cmudict-en-us.dict", dict);
	if (e < 0)
		return e;
	snprintf(r->model, sizeof(r->model), "pocketsphinx %s", own ? "(own model)" : MODEL);
	snprintf(r->language, sizeof(r->language), "%s", own ? gd_worker_setting(w, "language", "") : "en");
	r->config =
		cmd_ln_init(NULL, ps_args(), TRUE, "-hmm", hmm, "-lm", lm, "-dict", dict, "-logfn", "/dev/null", NULL);
	r->decoder = r->config ? ps_init(r->config) : NULL;
	if (!r->decoder)
		return gd_worker_fail(w, -EIO, "pocketsphinx cannot load its model from '%.300s'", hmm);
	feat_t *feat = ps_get_feat(r->decoder);
	r->means = calloc((size_t)feat_cepsize(feat), sizeof(*r->means));
	if (!r->means)
		return -ENOMEM;
	cmn_live_get(feat->cmn_struct, r->means);
	return 0;
}

static void unload(void *state)
{
	struct pocketsphinx *r = state;
	if (r->decoder)
		ps_free(r->decoder);
	if (r->config)
		cmd_ln_free_r(r->config);
	free(r->means);
}

/* ---- A recording -------------------------------------------------------- */

/* "about(2)" is the second pronunciation of "about"; "<s>" and "[NOISE]" are not words. */
static bool is_spoken(const char *word)
{
	return word && word[0] != '<' && word[0] != '[' && word[0] != '+';
}

static void append_word(struct text *t, const char *word)
{
	const char *variant = strchr(word, '(');
	if (t->length)
		text_append_char(t, ' ');
	text_append(t, word, variant && variant != word ? (size_t)(variant - word) : strlen(word));
}

/* Takes the words of the ended utterance, which began at this second. */
static int take_utterance(struct pocketsphinx *r, double start, struct transcript *t)
{
	cleanup_(text_finish) struct text text = {0};
	logmath_t *math = ps_get_logmath(r->decoder);
	double sum = 0;
	int words = 0, first = -1, last = 0;
	for (ps_seg_t *s = ps_seg_iter(r->decoder); s; s = ps_seg_next(s)) {
		const char *word = ps_seg_word(s);
		int from, to;
		ps_seg_frames(s, &from, &to);
		if (!is_spoken(word))
			continue;
		append_word(&text, word);
		sum += logmath_exp(math, ps_seg_prob(s, NULL, NULL, NULL));
		words++;
		first = first < 0 ? from : first;
		last = to + 1;
	}
	if (text_error(&text))
		return text_error(&text);
	if (words)
		transcript_add(t, start + first * FRAME_S, start + last * FRAME_S, sum / words, text_string(&text));
	return 0;
}

static void to_16_bit(const float *from, size_t count, int16 *to)
{
	for (size_t i = 0; i < count; i++) {
		float v = from[i] * 32768.0f;
		to[i] = v >= 32767 ? 32767 : v <= -32768 ? -32768 : (int16)lrintf(v);
	}
}

/* The position in the stream, and the start of the current speech. */
struct stream {
	size_t samples;
	bool speaking;
	double since;
};

/* Processes one slice. An utterance ends when the recognizer detects silence. */
static int hear(struct pocketsphinx *r, struct stream *s, const int16 *slice, size_t count, struct transcript *t)
{
	if (ps_process_raw(r->decoder, slice, count, FALSE, FALSE) < 0)
		return -EIO;
	s->samples += count;
	bool speaks = ps_get_in_speech(r->decoder);
	double now = (double)s->samples / AUDIO_RATE;
	if (speaks && !s->speaking)
		s->since = now > VAD_S ? now - VAD_S : 0;
	if (!speaks && s->speaking) {
		int e = ps_end_utt(r->decoder) < 0 ? -EIO : take_utterance(r, s->since, t);
		if (e < 0 || ps_start_utt(r->decoder) < 0)
			return e < 0 ? e : -EIO;
	}
	s->speaking = speaks;
	return 0;
}

static int recognize(struct gd_worker *w, void *state, struct audio *a, struct transcript *t)
{
	struct pocketsphinx *r = state;
	struct stream s = {0};
	const float *block;
	long n = 0;
	int e = 0;
	t->model = r->model;
	t->language = r->language[0] ? r->language : NULL;
	/* Reset the adaptation to the last speaker's microphone: a file must give the same text in any order. */
	cmn_live_set(ps_get_feat(r->decoder)->cmn_struct, r->means);
	if (ps_start_stream(r->decoder) < 0 || ps_start_utt(r->decoder) < 0)
		return gd_worker_fail(w, -EIO, "pocketsphinx cannot start");
	while (e == 0 && (n = audio_read(a, &block)) > 0) {
		for (long at = 0; e == 0 && at < n; at += SLICE) {
			int16 slice[SLICE];
			size_t count = (size_t)(n - at < SLICE ? n - at : SLICE);
			to_16_bit(block + at, count, slice);
			e = hear(r, &s, slice, count, t);
		}
		if (e == 0 && gd_worker_cancelled(w, 0))
			e = -ECANCELED;
	}
	/* Also after a failure: the decoder is reused for the next file. */
	bool ended = ps_end_utt(r->decoder) >= 0;
	if (n < 0)
		return gd_worker_fail(w, (int)n, "the recording is truncated or damaged");
	if (e == 0 && (!ended || take_utterance(r, s.since, t) < 0))
		e = -EIO;
	return e == -ECANCELED ? gd_worker_fail(w, e, "cancelled")
	       : e < 0         ? gd_worker_fail(w, e, "pocketsphinx failed")
			       : 0;
}

const struct speech_recognizer speech_recognizer = {.about = "speech to text by PocketSphinx, English, on the CPU",
	.check = check,
	.state_size = sizeof(struct pocketsphinx),
	.load = load,
	.unload = unload,
	.recognize = recognize};
