/* SPDX-License-Identifier: MIT */
#include "base/code_place.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/shell_words.h"
#include "base/utf8.h"

/* ---- Plain text ----------------------------------------------------------- */

/* Spaces, punctuation, symbols and unassigned characters. All other characters outside ASCII are letters. */
static bool is_sign(uint32_t c)
{
	static const struct {
		uint32_t first, last;
	} signs[] = {
		{0x80, 0xbf},
		{0x1680, 0x1680},
		{0x180e, 0x180e},
		{0x2000, 0x2bff},
		{0x2e00, 0x2e7f},
		{0x3000, 0x3004},
		{0x3008, 0x3020},
		{0xe000, 0xf8ff},
		{0xfe10, 0xfe6f},
		{0xfeff, 0xff0f},
		{0xff1a, 0xff20},
		{0xff3b, 0xff40},
		{0xff5b, 0xff65},
		{0xffe0, 0xffff},
		{0xe0000, UINT32_MAX},
	};
	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
		if (c >= signs[i].first && c <= signs[i].last)
			return true;
	return utf8_is_deceptive(c);
}

bool place_is_plain(const char *text, size_t size)
{
	for (size_t i = 0; i < size;) {
		size_t length = utf8_sequence(text + i, size - i);
		if (length == 0 || (length == 1 && !shell_is_plain(text + i, 1)))
			return false;
		if (length > 1 && is_sign(utf8_decode(text + i, length)))
			return false;
		i += length;
	}
	return true;
}

bool place_is_simple(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (text[i] && strchr(",:=@%", text[i]))
			return false;
	return place_is_plain(text, size);
}

/* Whether a script that does not quote its argument would get an option or another path: "a -o /home/ana/x". */
static bool has_second_word(const char *text, size_t size)
{
	for (size_t i = 0; i + 1 < size; i++)
		if (text[i] == ' ' &&
			(text[i + 1] == '/' || (text[i + 1] == '-' && i + 2 < size && text[i + 2] != ' ')))
			return true;
	return false;
}

bool place_is_ordinary(const char *text, size_t size)
{
	if (has_second_word(text, size))
		return false;
	for (size_t i = 0; i < size;) {
		size_t length = strcspn(text + i, " ()");
		length = length < size - i ? length : size - i;
		if (!place_is_simple(text + i, length))
			return false;
		i += length + 1;
	}
	return true;
}

/*
 * "msl:x", "concat:x", "subfile,,start,0,end,9,,:x": a protocol for ffmpeg and curl, a script for ImageMagick.
 * "user@host:x", "10.0.0.5:x": a file of another machine for tar and scp.
 */
static bool has_scheme(const char *name, size_t size)
{
	for (size_t i = 0; i < size && name[i] != '/'; i++)
		if (name[i] == ':')
			return true;
	return false;
}

bool place_may_begin(const char *name, size_t size)
{
	size_t length = utf8_sequence(name, size);
	return length > 0 && place_is_plain(name, length) && !strchr(",:=@%+-", name[0]) && !has_scheme(name, size);
}

/* ---- Code ----------------------------------------------------------------- */

/*
 * "-c", "-e", "-E", "-S", also after other letters: "-lc", "-ne". The code is the next argument or, with `attached`,
 * the rest of this one.
 */
static bool is_short_code_option(const char *word, bool attached)
{
	if (word[0] != '-')
		return false;
	/* Options of shells and of Python that go before the last one: "zsh -fc CODE", "python3 -Ic CODE". */
	size_t others = strspn(word + 1, "0123456789abefhiklmnopqrstuvwxBCEHIOPST");
	if (others > 0 && strcmp(word + 1 + others, "c") == 0)
		return true;
	for (const char *p = word + 1; *p && strchr("0123456789abceilnopsuvwxES", *p); p++)
		if (strchr("ceES", *p) && (attached || !p[1]))
			return true;
		else if (*p == 'c' && strspn(p + 1, "aefhluvxE") == strlen(p + 1)) /* "sh -cx CODE" */
			return true;
	return false;
}

/* "--wrap", or with `attached` "--wrap=CODE". */
static bool is_long_code_option(const char *word, bool attached)
{
	static const char *const names[] = {"command", "eval", "exec", "execute", "expression", "filter", "on-finish",
		"on-idle", "run", "split-string", "worker-command", "wrap"};
	if (strncmp(word, "--", 2) != 0)
		return false;
	size_t length = strcspn(word + 2, "=");
	if ((word[2 + length] == '=') != attached)
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strlen(names[i]) == length && memcmp(word + 2, names[i], length) == 0)
			return true;
	return false;
}

static bool is_code_option(const char *word, bool attached)
{
	return is_short_code_option(word, attached) || is_long_code_option(word, attached);
}

static bool is_program(const char *word, const char *name)
{
	const char *slash = strrchr(word, '/');
	return strcmp(slash ? slash + 1 : word, name) == 0;
}

static bool is_sox(const char *word)
{
	return is_program(word, "sox") || is_program(word, "soxi") || is_program(word, "play") ||
	       is_program(word, "rec");
}

/*
 * Programs that pass their arguments to a shell, perhaps on another machine, or execute them themselves. Perl's <>,
 * and exiftool before 12.38, execute a name that ends in '|', Ruby's open() executes one that begins with it, and sox
 * passes "http:…" to a shell.
 */
static bool executes_arguments(const char *program)
{
	static const char *const names[] = {"ssh", "autossh", "mosh", "scp", "rsync", "rsh", "pssh", "parallel-ssh",
		"pdsh", "dsh", "clush", "su", "bsub", "qsub", "pueue", "make", "gmake", "bmake", "rake", "snakemake",
		"nextflow", "watch", "parallel", "sem", "niceload", "tmux", "screen", "eval", "perl", "pwsh",
		"exiftool", "sed", "awk", "gawk", "mawk", "nawk", "m4", "ruby"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (is_program(program, names[i]))
			return true;
	return is_sox(program);
}

/*
 * Whether argv[i] is an argument for the start script of a container image, with argv[program] as the program that runs
 * the image: in images that were built from Docker images, this script passes its arguments to "eval".
 */
static bool starts_image(const char *const *argv, size_t program, size_t i)
{
	size_t length = strlen(argv[program]);
	if (program == 0 && length > 4 && strcmp(argv[program] + length - 4, ".sif") == 0)
		return true;
	if (!is_program(argv[program], "apptainer") && !is_program(argv[program], "singularity"))
		return false;
	for (size_t k = program + 1; k < i; k++) {
		if (strcmp(argv[k], "run") == 0 || strcmp(argv[k], "instance") == 0)
			return true;
		if (strcmp(argv[k], "exec") == 0 || strcmp(argv[k], "shell") == 0)
			return false;
	}
	return false;
}

/*
 * Whether argv[i] is the whole command of a job: "gpuq add 'a | b'" takes it for a script, but quotes the words of a
 * longer command. Any option before it may have a value.
 */
static bool is_job(const char *const *argv, size_t program, size_t i)
{
	if (!is_program(argv[program], "gpuq") || strcmp(argv[program + 1], "add") != 0 || argv[i + 1])
		return false;
	size_t k = program + 2;
	while (k < i && argv[k][0] == '-' && strcmp(argv[k], "--") != 0)
		k += strchr(argv[k], '=') ? 1 : 2;
	return k >= i || (k + 1 == i && strcmp(argv[k], "--") == 0);
}

/* "-n", "-i.bak": an option of sed whose value is not the next argument. */
static bool is_sed_flag(const char *word)
{
	size_t flags = strspn(word + 1, "nErsuz");
	return word[0] == '-' && (word[1 + flags] == 'i' || (flags > 0 && !word[1 + flags]));
}

/* Whether argv[i] is a file for sed, the program argv[program]: it follows the script, and is not a second script. */
static bool is_sed_file(const char *const *argv, size_t program, size_t i)
{
	size_t k = program + 1;
	while (k < i && is_sed_flag(argv[k]))
		k++;
	if (k == i)
		return false; /* the script */
	const char *option = argv[k] + strspn(argv[k], "-nErsuz");
	if (argv[k][0] == '-' && strcmp(option, "e") != 0 && strcmp(option, "f") != 0)
		return false;
	/* An unknown option may introduce a second script: "--expr SCRIPT", "-re SCRIPT". */
	return argv[i - 1][0] != '-' || strcmp(argv[i - 1], "--") == 0 || is_sed_flag(argv[i - 1]);
}

/*
 * Whether the program takes an absolute path for the name of a file: sox executes only arguments that begin with '|' or
 * "http:", and sed only its script. sox also expands patterns: see place_pattern_signs().
 */
static bool takes_paths(const char *const *argv, size_t program, size_t i)
{
	if (argv[i][0] != '/')
		return false;
	return is_sox(argv[program]) || (is_program(argv[program], "sed") && is_sed_file(argv, program, i));
}

bool place_is_code(const char *const *argv, size_t i)
{
	if (is_code_option(argv[i], true))
		return true;
	/* Other options can be between: "-c -- CODE". */
	for (size_t k = i; k > 0 && (argv[k - 1][0] == '-' || argv[k - 1][0] == '+'); k--)
		if (is_code_option(argv[k - 1], false))
			return true;
	for (size_t k = 0; k < i; k++)
		if ((executes_arguments(argv[k]) && !takes_paths(argv, k, i)) || starts_image(argv, k, i) ||
			is_job(argv, k, i))
			return true;
	return false;
}

/* ---- Languages ------------------------------------------------------------ */

/* Whether argv[i] is the value of the option: "-o VALUE", "--option VALUE" or "--option=VALUE". */
static bool is_value_of(const char *const *argv, size_t i, const char *option)
{
	size_t length = strlen(option);
	if (strncmp(option, "--", 2) == 0 && strncmp(argv[i], option, length) == 0 && argv[i][length] == '=')
		return true;
	return i > 0 && strcmp(argv[i - 1], option) == 0;
}

/* "-vf", "-af:1", "-filter_complex", "-filter:v:0": filters of ffmpeg; "--vf": those of mpv. */
static bool is_filter(const char *const *argv, size_t i)
{
	static const char *const options[] = {"-vf", "-af", "-lavfi", "-filter", "-filter_complex"};
	if (is_value_of(argv, i, "--vf") || is_value_of(argv, i, "--af") || is_value_of(argv, i, "--lavfi-complex"))
		return true;
	size_t length = i > 0 ? strcspn(argv[i - 1], ":") : 0;
	for (size_t k = 0; k < sizeof(options) / sizeof(options[0]); k++)
		if (strlen(options[k]) == length && memcmp(argv[i - 1], options[k], length) == 0)
			return true;
	return false;
}

/* Whether the program argv[program] interprets argv[i], one of its arguments, as code in a language of its own. */
static bool program_has_language(const char *const *argv, size_t program, size_t i)
{
	static const struct {
		const char *program, *options[7]; /* without options: all arguments */
	} languages[] = {
		{"gst-launch-1.0", {NULL}},
		{"socat", {NULL}},
		{"curl", {"-F", "--form"}},
		{"docker", {"--mount"}},
		{"podman", {"--mount"}},
		{"gdb", {"-ex", "-iex", "--ex", "--iex", "--eval-command", "--init-eval-command"}},
		{"lldb", {"-o", "-O", "-k", "--one-line", "--one-line-before-file"}},
		{"matlab", {"-batch", "-r"}},
		{"node", {"-p", "-pe", "--print"}},
		{"php", {"-r", "-B", "-R", "--run"}},
		{"sbatch", {"--export"}},
		{"srun", {"--export"}},
		{"sqlite3", {"-cmd", "--cmd"}},
		{"tar", {"-I", "-F", "--checkpoint-action", "--info-script", "--rsh-command", "--to-command",
				"--use-compress-program"}},
	};
	for (size_t k = 0; k < sizeof(languages) / sizeof(languages[0]); k++) {
		if (!is_program(argv[program], languages[k].program))
			continue;
		const char *const *options = languages[k].options;
		bool found = !options[0];
		for (size_t o = 0; o < sizeof(languages[k].options) / sizeof(options[0]) && options[o]; o++)
			found |= is_value_of(argv, i, options[o]);
		return found;
	}
	return false;
}

/* "sqlite3 DATABASE SQL" */
static bool is_sql(const char *const *argv, size_t program, size_t i)
{
	if (!is_program(argv[program], "sqlite3"))
		return false;
	for (size_t k = program + 1; k < i; k++)
		if (argv[k][0] != '-')
			return true;
	return false;
}

bool place_is_playlist(const char *const *argv, size_t i)
{
	const char *dot = strrchr(argv[i], '.');
	if (!dot || (strcasecmp(dot, ".m3u") != 0 && strcasecmp(dot, ".pls") != 0))
		return false;
	for (size_t k = 0; k < i; k++)
		if (is_sox(argv[k]))
			return true;
	return false;
}

bool place_is_language(const char *const *argv, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (program_has_language(argv, k, i) || is_sql(argv, k, i))
			return true;
	return is_filter(argv, i);
}

/* ---- Patterns ------------------------------------------------------------- */

const char *place_pattern_signs(const char *const *argv, size_t i)
{
	static const char globs[] = "*?[]{}~\\", all[] = "*?[]{}~\\%";
	static const struct {
		const char *program, *signs;
	} programs[] = {
		{"unzip", globs},
		{"zip", globs},
		{"zipinfo", globs},
		{"7z", globs},
		{"7za", globs},
		{"7zr", globs},
		{"7zz", globs},
		{"curl", "[]{}#"},
		{"ffmpeg", "%"},
		{"ffprobe", "%"},
		{"ffplay", "%"},
		{"yt-dlp", "%"},
		{"youtube-dl", "%"},
		{"vips", "[]%"},
		{"vipsthumbnail", "[]%"},
		{"animate", all},
		{"compare", all},
		{"composite", all},
		{"convert", all},
		{"display", all},
		{"gm", all},
		{"identify", all},
		{"magick", all},
		{"mogrify", all},
		{"montage", all},
	};
	for (size_t k = 0; k < i; k++) {
		if (is_sox(argv[k]))
			return globs;
		for (size_t p = 0; p < sizeof(programs) / sizeof(programs[0]); p++)
			if (is_program(argv[k], programs[p].program))
				return programs[p].signs;
	}
	return "";
}
