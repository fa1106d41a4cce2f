/* SPDX-License-Identifier: MIT */
#include "launch/template.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/code_place.h"
#include "base/code_word.h"
#include "base/error.h"
#include "base/suggest.h"
#include "base/text.h"

/* Words for the file and its worker; all other words are settings. */
enum word {
	WORD_FILE,
	WORD_STEM,
	WORD_NAME,
	WORD_DIR,
	WORD_OUTPUT,
	WORD_GPU,
	WORD_SEED,
	NUM_WORDS,
};

static const char *const word_names[NUM_WORDS] = {
	[WORD_FILE] = "file",
	[WORD_STEM] = "stem",
	[WORD_NAME] = "name",
	[WORD_DIR] = "dir",
	[WORD_OUTPUT] = "output",
	[WORD_GPU] = "gpu",
	[WORD_SEED] = "seed",
};

/* A part of an argument: plain text, or a word in braces. */
struct token {
	const char *data; /* the text, or the word without its braces */
	size_t size;
	bool is_word;
};

/* 1 and the next token, 0 at the end, -EINVAL at a brace that is neither doubled nor closed. */
static int next_token(const char **p, struct token *ret)
{
	const char *start = *p;
	if (!*start)
		return 0;
	if ((start[0] == '{' || start[0] == '}') && start[1] == start[0]) {
		*ret = (struct token){.data = start, .size = 1};
		*p = start + 2;
		return 1;
	}
	if (*start == '}')
		return -EINVAL;
	if (*start == '{') {
		size_t size = strcspn(start + 1, "{}");
		if (start[1 + size] != '}')
			return -EINVAL;
		*ret = (struct token){.data = start + 1, .size = size, .is_word = true};
		*p = start + size + 2;
		return 1;
	}
	size_t size = strcspn(start, "{}");
	*ret = (struct token){.data = start, .size = size};
	*p = start + size;
	return 1;
}

static bool is_word(const struct token *token, const char *name)
{
	return strlen(name) == token->size && memcmp(name, token->data, token->size) == 0;
}

static int find_word(const struct token *token)
{
	for (int i = 0; i < NUM_WORDS; i++)
		if (is_word(token, word_names[i]))
			return i;
	return -1;
}

/* The last value counts. */
static const char *find_setting(const struct token *token, const struct gd_setting *settings, size_t num_settings)
{
	for (size_t i = num_settings; i > 0; i--)
		if (is_word(token, settings[i - 1].key))
			return settings[i - 1].value;
	return NULL;
}

/* ---- Checking ----------------------------------------------------------- */

static int fail_unknown(
	const struct token *token, const struct gd_setting *settings, size_t num_settings, struct gd_error *err)
{
	cleanup_(freep) char *word = strndup(token->data, token->size);
	cleanup_(freep) const char **known = calloc(NUM_WORDS + num_settings, sizeof(*known));
	cleanup_(text_finish) struct text list = {0};
	if (!word || !known)
		return error_set(err, -ENOMEM, "out of memory");
	if (strcmp(word, "model_size") == 0)
		return error_set(
			err, -EINVAL, "the command contains {model_size}; set a value for the setting model_size");
	if (strcmp(word, "language") == 0)
		return error_set(err, -EINVAL, "the command contains {language}; set a value for the setting language");
	for (size_t i = 0; i < NUM_WORDS + num_settings; i++) {
		known[i] = i < NUM_WORDS ? word_names[i] : settings[i - NUM_WORDS].key;
		text_appendf(&list, "%s{%s}", i ? ", " : "", known[i]);
	}
	const char *meant = suggest(word, known, NUM_WORDS + num_settings);
	if (meant)
		return error_set(err, -EINVAL, "unknown {%s} in the command; did you mean {%s}?", word, meant);
	return error_set(err, -EINVAL,
		"unknown {%s} in the command; use %s, the name of a setting, or {{ }} for literal braces", word,
		text_string(&list));
}

static int check_argument(
	const char *argument, const struct gd_setting *settings, size_t num_settings, struct gd_error *err)
{
	const char *p = argument;
	struct token token;
	int r;
	while ((r = next_token(&p, &token)) > 0)
		if (token.is_word && find_word(&token) < 0 && !find_setting(&token, settings, num_settings))
			return fail_unknown(&token, settings, num_settings, err);
	if (r < 0)
		return error_set(err, -EINVAL, "unmatched brace in '%s'; write {{ and }} for literal braces", argument);
	return 0;
}

int template_check(
	const char *const *argv, const struct gd_setting *settings, size_t num_settings, struct gd_error *err)
{
	for (size_t i = 0; i < num_settings; i++)
		for (int k = 0; k < NUM_WORDS; k++)
			if (strcmp(settings[i].key, word_names[k]) == 0)
				return error_set(err, -EINVAL,
					"the setting '%s' cannot be used: {%s} is predefined in commands; "
					"choose another name",
					word_names[k], word_names[k]);
	for (size_t i = 0; argv[i]; i++) {
		int r = check_argument(argv[i], settings, num_settings, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- Filling ------------------------------------------------------------ */

/* The environment variable that also has the value; NULL: the value cannot be hostile. */
static const char *variable_of(enum word word)
{
	static const char *const variables[NUM_WORDS] = {
		[WORD_FILE] = "GPUQ_FILE",
		[WORD_STEM] = "GPUQ_STEM",
		[WORD_NAME] = "GPUQ_NAME",
		[WORD_DIR] = "GPUQ_DIR",
		[WORD_OUTPUT] = "GPUQ_OUTPUT",
	};
	return variables[word];
}

bool template_has_names(const char *const *argv)
{
	struct token token;
	for (; *argv; argv++)
		for (const char *p = *argv; next_token(&p, &token) > 0;) {
			int word = token.is_word ? find_word(&token) : -1;
			if (word >= 0 && variable_of((enum word)word))
				return true;
		}
	return false;
}

static void append_word(struct text *t, enum word word, const struct template_values *v)
{
	const char *path = v->file->path;
	const char *slash = strrchr(path, '/');
	switch (word) {
	case WORD_FILE:
		text_append_string(t, path);
		break;
	case WORD_STEM:
		text_append_string(t, v->file->stem);
		break;
	case WORD_NAME:
		text_append_string(t, slash + 1);
		break;
	case WORD_DIR:
		text_append(t, path, slash == path ? 1 : (size_t)(slash - path));
		break;
	case WORD_OUTPUT:
		text_append_string(t, v->file->output_dir);
		break;
	case WORD_GPU:
		text_appendf(t, "%d", v->gpu);
		break;
	case WORD_SEED:
		text_appendf(t, "%" PRId64, v->seed);
		break;
	case NUM_WORDS:
		break;
	}
}

/* Characters that any program may use in patterns; see place_pattern_signs(). */
#define PATTERN_SIGNS "*?[]{}~\\%#"

/* The first name of an argument for which something is true. */
struct first {
	bool found;
	enum word word;
};

/* How the names of the file affect an argument. */
struct names {
	struct first doubtful; /* is not plain or begins with a special character */
	struct first odd;      /* is not simple */
	struct first mixed;    /* is not simple, in an argument that may be code: "subtitles={file}" */
	bool special;          /* a name is not plain */
	bool first_sign;       /* the argument begins with a name that begins with a special character */
	char sign;             /* a name begins with this, such as '-', '@' or '|'; 0: no name does */
	bool in_script;        /* the text around the names is not plain */
	struct code_word at;   /* where the next name would be inserted */
	bool has_name;
	char patterns[sizeof(PATTERN_SIGNS)]; /* the special characters of patterns that names contain */
};

static void note_first(struct first *first, bool found, enum word word)
{
	if (found && !first->found)
		*first = (struct first){true, word};
}

/* "%d" or "%03d", but not the '%' of "100% done": ffmpeg and ImageMagick replace only the former. */
static bool has_number(const char *name, size_t size)
{
	for (size_t i = 0; i + 1 < size; i++) {
		size_t k = i + 1;
		while (name[i] == '%' && k + 1 < size && name[k] >= '0' && name[k] <= '9')
			k++;
		if (name[i] == '%' && strchr("%[(dox", name[k]))
			return true;
	}
	return false;
}

static void note_patterns(struct names *n, const char *name, size_t size)
{
	for (const char *sign = PATTERN_SIGNS; *sign; sign++) {
		bool found = *sign == '%' ? has_number(name, size) : memchr(name, *sign, size) != NULL;
		if (found && !strchr(n->patterns, *sign))
			n->patterns[strlen(n->patterns)] = *sign;
	}
}

static void note_name(struct names *n, enum word word, const char *name, size_t size, bool is_first)
{
	bool special = !place_is_plain(name, size), sign = !place_may_begin(name, size);
	bool odd = !place_is_simple(name, size), fine = code_word_add_name(&n->at, name, size);
	note_first(&n->doubtful, special || sign, word);
	note_first(&n->odd, odd, word);
	note_first(&n->mixed, odd && !fine, word);
	note_patterns(n, name, size);
	n->has_name = true;
	n->special |= special;
	n->first_sign |= sign && is_first;
	if (sign && !n->sign)
		n->sign = name[0];
}

/* Text of the command, or a value of the user's own settings. */
static void note_text(struct names *n, const char *text, size_t size)
{
	n->in_script |= !place_is_plain(text, size);
	bool fine = code_word_add_text(&n->at, text, size);
	note_first(&n->mixed, n->odd.found && !fine, n->odd.word);
}

static int append_token(
	struct text *t, struct names *n, const struct token *token, const struct template_values *v, size_t start)
{
	int word = token->is_word ? find_word(token) : -1;
	const char *value = token->is_word ? find_setting(token, v->settings, v->num_settings) : NULL;
	size_t before = t->length;
	if (word >= 0)
		append_word(t, (enum word)word, v);
	else if (value)
		text_append_string(t, value);
	else if (!token->is_word)
		text_append(t, token->data, token->size);
	else
		return -EINVAL;
	if (text_error(t) || t->length == before)
		return text_error(t);
	if (word >= 0 && variable_of((enum word)word))
		note_name(n, (enum word)word, t->data + before, t->length - before, before == start);
	else
		note_text(n, t->data + before, t->length - before);
	return 0;
}

static int append_argument(struct text *t, struct names *n, const char *argument, const struct template_values *v)
{
	const size_t start = t->length;
	struct token token;
	int r;
	while ((r = next_token(&argument, &token)) > 0) {
		r = append_token(t, n, &token, v, start);
		if (r < 0)
			return r;
	}
	text_append_char(t, '\0');
	return r;
}

/* Checks that the names in argv[i] cannot become code or an option. */
static int check_names(const char *const *argv, size_t i, const struct names *n, struct gd_error *err)
{
	const char *word = word_names[n->doubtful.word], *variable = variable_of(n->doubtful.word);
	const char *mixed = word_names[n->mixed.word], *odd = word_names[n->odd.word];
	if (n->special && (n->in_script || place_is_code(argv, i)))
		return error_set(err, -EPERM,
			"its path has special characters, which the command could execute; instead of {%s}, use \"$%s\" in a script in single quotes, as in: bash -c 'cat \"$GPUQ_FILE\" > \"$GPUQ_OUTPUT\"/x'",
			word, variable);
	if (n->mixed.found)
		return error_set(err, -EPERM,
			"its path has characters other than letters, digits and _./+-, which the command could interpret; make {%s} an argument of its own, use --option={%s}, or let the program read the variable %s (with Hydra: 'in=${{oc.env:%s}}')",
			mixed, mixed, variable_of(n->mixed.word), variable_of(n->mixed.word));
	if (n->odd.found && place_is_language(argv, i))
		return error_set(err, -EPERM,
			"its path has characters other than letters, digits and _./+-, which the command could interpret where {%s} is; let the program read the variable %s instead, or rename the file or its folder",
			odd, variable_of(n->odd.word));
	if (n->has_name && place_is_playlist(argv, i))
		return error_set(
			err, -EPERM, "it is a playlist, and SoX would execute text in it; exclude it with --pattern");
	/* The programs in a script are not known; a path with other characters is not inserted there at all. */
	size_t pattern = strcspn(n->patterns, n->in_script ? "%" : place_pattern_signs(argv, i));
	if (n->patterns[pattern])
		return error_set(err, -EPERM,
			"its path contains '%c': the command could take the path for a pattern, and read or write other files; rename the file or its folder",
			n->patterns[pattern]);
	if (!n->first_sign && !(n->sign && n->in_script))
		return 0;
	if (n->sign == '-')
		return error_set(err, -EPERM,
			"its name begins with '-', which the command could take for an option; use {file} or ./{%s}, or \"$%s\" in a script in single quotes",
			word, variable);
	return error_set(err, -EPERM,
		"its name begins with a special character, or with a word and a colon, which the command could interpret; use {file} or ./{%s}, or \"$%s\" in a script in single quotes",
		word, variable);
}

int template_set_variables(const struct template_values *values)
{
	for (enum word word = 0; word < NUM_WORDS; word++) {
		cleanup_(text_finish) struct text value = {0};
		append_word(&value, word, values);
		if (text_error(&value))
			return text_error(&value);
		if (variable_of(word) && setenv(variable_of(word), text_string(&value), 1) < 0)
			return -errno;
	}
	return 0;
}

/* The text consists of the arguments, each with its NUL. One allocation. */
static char **split(const struct text *t, size_t count)
{
	char **argv = malloc((count + 1) * sizeof(*argv) + t->length);
	if (!argv)
		return NULL;
	char *p = (char *)&argv[count + 1];
	if (t->length)
		memcpy(p, t->data, t->length);
	for (size_t i = 0; i < count; i++) {
		argv[i] = p;
		p += strlen(p) + 1;
	}
	argv[count] = NULL;
	return argv;
}

int template_fill(const char *const *argv, const struct template_values *values, char ***ret, struct gd_error *err)
{
	cleanup_(text_finish) struct text t = {0};
	size_t count = 0;
	while (argv[count])
		count++;
	cleanup_(freep) struct names *names = calloc(count + 1, sizeof(*names));
	int r = names ? 0 : -ENOMEM;
	for (size_t i = 0; r == 0 && i < count; i++)
		r = append_argument(&t, &names[i], argv[i], values);
	if (r == 0)
		r = text_error(&t);
	cleanup_(freep) char **filled = r == 0 ? split(&t, count) : NULL;
	if (!filled)
		return error_set(
			err, r < 0 ? r : -ENOMEM, "cannot fill in the command: %s", error_words(r < 0 ? r : -ENOMEM));
	for (size_t i = 0; r == 0 && i < count; i++)
		r = check_names((const char *const *)filled, i, &names[i], err);
	if (r == 0)
		*ret = take_ptr(filled);
	return r;
}
