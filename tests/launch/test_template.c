/* SPDX-License-Identifier: MIT */
/* Words in a command, filled in and mistyped. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "launch/template.h"

static const struct gd_setting settings[] = {{.key = "model_size", .value = "base"}, {.key = "language", .value = "en"},
	{.key = "beam", .value = "5"}, {.key = "beam", .value = "7"}, {.key = "none", .value = ""},
	{.key = "odd", .value = "{file} $x 'y'"}};
#define NUM_SETTINGS (sizeof(settings) / sizeof(settings[0]))

static char **fill(const char *const *argv, const struct gd_file *file)
{
	const struct template_values values = {
		.file = file, .gpu = 3, .seed = -45, .settings = settings, .num_settings = NUM_SETTINGS};
	char **filled = NULL;
	assert_int_equal(template_check(argv, settings, NUM_SETTINGS, NULL), 0);
	assert_int_equal(template_fill(argv, &values, &filled, NULL), 0);
	return filled;
}

static const struct gd_file usual = {.path = "/a b/-c\n.wav", .output_dir = "/out/-c\n", .stem = "-c\n"};

static void test_every_placeholder_is_filled_in(void **state)
{
	(void)state;
	const char *const argv[] = {"./{stem}", "./{name}", "{dir}", "{output}/{stem}.txt", "{gpu}{seed}",
		"{model_size}", "-l{language}", "--file={file}", NULL};
	char **filled = fill(argv, &usual);
	assert_string_equal(filled[0], "./-c\n");
	assert_string_equal(filled[1], "./-c\n.wav");
	assert_string_equal(filled[2], "/a b");
	assert_string_equal(filled[3], "/out/-c\n/-c\n.txt");
	assert_string_equal(filled[4], "3-45");
	assert_string_equal(filled[5], "base");
	assert_string_equal(filled[6], "-len");
	assert_string_equal(filled[7], "--file=/a b/-c\n.wav");
	assert_null(filled[8]);
	free(filled);
}

static void test_doubled_braces_become_single_and_empty_arguments_stay(void **state)
{
	(void)state;
	const char *const argv[] = {"", "{{file}}", "}}{{{{", "{{{gpu}}}", "", NULL};
	char **filled = fill(argv, &usual);
	assert_string_equal(filled[0], "");
	assert_string_equal(filled[1], "{file}");
	assert_string_equal(filled[2], "}{{");
	assert_string_equal(filled[3], "{3}");
	assert_string_equal(filled[4], "");
	assert_null(filled[5]);
	free(filled);
}

static void test_values_are_not_expanded_again_and_the_last_setting_counts(void **state)
{
	(void)state;
	const char *const argv[] = {"{odd}", "{beam}", NULL};
	char **filled = fill(argv, &usual);
	assert_string_equal(filled[0], "{file} $x 'y'");
	assert_string_equal(filled[1], "7");
	free(filled);
}

static void test_file_in_the_root_has_the_root_for_a_folder(void **state)
{
	(void)state;
	const char *const argv[] = {"{dir}", "{name}", NULL};
	char **filled = fill(argv, &(struct gd_file){.path = "/x", .output_dir = "/", .stem = "x"});
	assert_string_equal(filled[0], "/");
	assert_string_equal(filled[1], "x");
	free(filled);
}

static void assert_wrong(const char *argument, size_t num_settings, const char *words)
{
	const char *const argv[] = {"x", argument, NULL};
	struct gd_error err = {0};
	assert_int_equal(template_check(argv, settings, num_settings, &err), -EINVAL);
	if (!strstr(err.message, words))
		fail_msg("'%s' not in '%s'", words, err.message);
	char **filled = NULL;
	const struct template_values values = {.file = &usual, .settings = settings, .num_settings = num_settings};
	assert_int_equal(template_fill(argv, &values, &filled, NULL), -EINVAL);
	assert_null(filled);
}

static void test_unknown_word_or_unpaired_brace_is_an_error_that_names_it(void **state)
{
	(void)state;
	assert_wrong("{flie}", NUM_SETTINGS, "unknown {flie} in the command; did you mean {file}?");
	assert_wrong("{beem}", NUM_SETTINGS, "did you mean {beam}?");
	assert_wrong("{print $1}", 0, "unknown {print $1} in the command; use {file}, {stem}, {name}");
	assert_wrong("{}", 0, "unknown {} in the command");
	assert_wrong("{file", 0, "unmatched brace in '{file'");
	assert_wrong("{fi{le}}", 0, "unmatched brace");
	assert_wrong("file}", 0, "write {{ and }}");
	assert_wrong("{model_size}", 0, "the setting model_size");
	assert_wrong("{language}", 1, "the setting language");
}

static void test_setting_that_a_word_hides_is_an_error(void **state)
{
	(void)state;
	const struct gd_setting hidden[] = {{.key = "a", .value = "1"}, {.key = "file", .value = "2"}};
	const char *const argv[] = {"x", NULL};
	struct gd_error err = {0};
	assert_int_equal(template_check(argv, hidden, 2, &err), -EINVAL);
	assert_non_null(strstr(err.message, "the setting 'file'"));
}

/* ---- Names as code ---------------------------------------------------------- */

/* template_fill()'s code for a file of that name; the message of a refusal is in `why`. */
static int fill_name(const char *const *argv, const char *name, struct gd_error *why)
{
	char path[128], output[128];
	snprintf(path, sizeof(path), "/in/%s.wav", name);
	snprintf(output, sizeof(output), "/out/%s", name);
	const struct gd_file file = {.path = path, .output_dir = output, .stem = name};
	const struct template_values values = {.file = &file, .settings = settings, .num_settings = NUM_SETTINGS};
	char **filled = NULL;
	int r = template_fill(argv, &values, &filled, why);
	free(filled);
	return r;
}

static void fills(int code, const char *const *argv, const char *name)
{
	struct gd_error why = {0};
	int r = fill_name(argv, name, &why);
	if (r != code)
		fail_msg("%s %s … with '%s': %d, not %d (%s)", argv[0], argv[1], name, r, code, why.message);
}

#define MAX_WORDS 8
typedef const char *command[MAX_WORDS];

static const char *const special_names[] = {"a b", "a\tb", "a\nb", "a'b", "a\"b", "a\\b", "a$b", "a`b", "a;b", "a|b",
	"a&b", "a<b", "a>b", "a(b", "a)b", "a{b", "a}b", "a*b", "a?b", "a[b", "a]b", "a~b", "a#b", "a!b", "a^b",
	"a\x7f", "a\xff", "a\xc2\xa0", "a\xe2\x80\x9c", "a\xe3\x80\x80", "a\xef\xbc\x9b"};
#define NUM_SPECIAL (sizeof(special_names) / sizeof(special_names[0]))

static void test_special_names_are_not_put_into_code(void **state)
{
	(void)state;
	static const command commands[] = {
		{"sh", "-c", "cat {file}"},
		{"sh", "-c", "wc<{file}"},
		{"sh", "-c", "cat \"{file}\" > '{output}/x'"},
		{"sh", "-c", "{file}"},
		{"bash", "-lc", "{file}"},
		{"zsh", "-fc", "{file}"},
		{"python3", "-Ic", "{file}"},
		{"bash", "-c", "--", "{file}"},
		{"bash", "-c", "+x", "-e", "--", "{file}"},
		{"bash", "-o", "pipefail", "-c", "tar xf {file} | cat"},
		{"bash", "-c", "echo $(( {stem} % 4 ))"},
		{"sh", "-c", "trap \"rm -f {output}/part\" EXIT; wait"},
		{"sh", "-c", "python3 - <<EOF\nprint(\"{file}\")\nEOF"},
		{"python3", "-c", "open('{file}')"},
		{"python3", "-copen('{file}')"},
		{"perl", "-e", "print {file}"},
		{"perl", "-ne/{stem}/", "x"},
		{"perl", "-ne", "print", "{file}"},
		{"tool", "-0777ne", "{stem}"},
		{"timeout", "9", "fish", "-c", "cp {file} x"},
		{"sbatch", "--wrap", "{file}"},
		{"sbatch", "--wrap", "cp {file} x"},
		{"sbatch", "--wrap=python3 infer.py {file}"},
		{"sbatch", "--wrap={file}"},
		{"script", "--command={file}", "/dev/null"},
		{"flock", "/dev/null", "-c", "{file}"},
		{"env", "-S", "tar xf {file}"},
		{"env", "-S{file}"},
		{"ssh", "host", "cat", "{file}"},
		{"nice", "/usr/bin/ssh", "host", "cat", "{file}"},
		{"make", "FILE={file}"},
		{"sed", "s,INPUT,{file},"},
		{"sed", "{file}", "x"}, /* "/in/e touch x": the command e after an address */
		{"sed", "-n", "{file}"},
		{"sed", "-l", "5", "{file}"},
		{"sed", "-n", "p", "-e", "{file}"},
		{"sed", "-n", "p", "{name}"},
		{"sed", "-n", "p", "--expression={file}"},
		{"ssh", "host", "sed", "-n", "p", "{file}"},
		{"ssh", "host", "sox", "{file}"},
		{"perl", "-ne", "print", "{file}"}, /* executes a name that ends in '|' */
		{"exiftool", "{file}"},
		{"awk", "{file}", "x"},
		{"python3", "x.py", "-c", "{file}"},
		{"awk", "/{stem}/", "x"},
		{"sox", "{name}", "{output}/x.wav"},
		{"nice", "/usr/bin/play", "./{name}"},
		{"ruby", "x.rb", "--in={name}"},
		{"gpuq", "add", "{file}"},
		{"nice", "/usr/bin/gpuq", "add", "--mem", "8G", "--exclusive", "{name}"},
		{"gpuq", "add", "--mem=8G", "--", "./{name}"},
		{"gpuq", "add", "--on-finish", "{file}", "x"},
		{"gpuq", "run", "--on-idle={output}/x"},
		{"gpuq", "launch", "--input-dir", "x", "--worker-command", "{file}"},
		{"tool", "--title=my {stem}"},
		{"tool", "{odd}{stem}"},
		{"tool", "{{{stem}}}"},
	};
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		for (size_t k = 0; k < NUM_SPECIAL; k++)
			fills(-EPERM, commands[i], special_names[k]);
		fills(0, commands[i], "Take_2.b+g-h");
		fills(0, commands[i], "\xc3\xa4\xe9\x9f\xb3\xd0\xb6");
	}
}

static void test_any_name_goes_into_arguments_that_are_not_code(void **state)
{
	(void)state;
	static const command commands[] = {
		{"whisper-cli", "-f", "{file}", "-of", "{output}/{stem}"},
		{"python3", "infer.py", "--in={file}", "--out", "{output}/{stem}.txt"},
		{"sh", "-c", "cp -- \"$1\" \"$2\"", "sh", "{file}", "{output}/"},
		{"sh", "-c", "cp -- \"$0\" /x", "{file}"},
		{"docker", "run", "-v", "{dir}:/in", "image", "/in/{name}"},
		{"ffmpeg", "-i", "{file}", "-acodec", "flac", "{output}/{stem}.flac"},
		{"tool", "-file", "{file}", "-source", "{file}"},
		{"gpuq", "add", "--mem", "8G", "process", "{file}"},
		{"gpuq", "add", "--name", "{stem}", "--", "process", "--in", "{file}"},
		{"gpuq", "exec", "{output}/x", "--in", "{file}"},
		{"sed", "-n", "1p", "{file}"},
		{"nice", "sed", "s/a/b/", "{file}"},
		{"sed", "-Ei.old", "s/a/b/", "--", "{output}/x", "/in/{name}"},
	};
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		for (size_t k = 0; k < NUM_SPECIAL; k++)
			fills(0, commands[i], special_names[k]);
}

/* Otherwise sox and ImageMagick read and write other files than these. */
static void test_programs_that_expand_patterns_get_no_pattern(void **state)
{
	(void)state;
	static const struct {
		command words;
		const char *signs;
	} commands[] = {
		{{"sox", "{file}", "{output}/x.wav", "rate", "16k"}, "*?[]{}~\\"},
		{{"sox", "/in/x.wav", "{output}/{stem}.wav"}, "*?[]{}~\\"},
		{{"nice", "/usr/bin/soxi", "-D", "{file}"}, "*?[]{}~\\"},
		{{"convert", "{file}", "{output}/x.png"}, "*?[]{}~\\%"},
		{{"ffmpeg", "-i", "{file}", "{output}/%04d.png"}, "%"},
		{{"ffmpeg", "-i", "/in/x", "{output}/x.png"}, "%"},
		{{"curl", "-T", "{file}", "https://x/"}, "[]{}#"},
		{{"sh", "-c", "ffmpeg -i {file} {output}/x.png"}, "%"},
	};
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		for (const char *sign = commands[i].signs; *sign; sign++) {
			char name[] = {'a', *sign, 'd', '\0'};
			fills(-EPERM, commands[i].words, name);
		}
		fills(0, commands[i].words, "a,b");
	}
	fills(0, commands[0].words, "a b (1) 100%");
	fills(0, commands[4].words, "100% done");
	fills(-EPERM, (command){"play", "{output}/{stem}"}, "a.M3U");
	fills(-EPERM, (command){"nice", "sox", "/in/{stem}", "x.wav"}, "a.pls");
	fills(0, (command){"sox", "{file}", "{output}/x.m3u8"}, "a.wav");
	fills(-EPERM, commands[4].words, "clip_%02d");
	fills(0, commands[4].words, "a b [x] {y}");
}

static const char *const odd_names[] = {
	"a,b", "a:b", "a=b", "a@b", "a%b", "a;b", "a<b", "a b", "a\tb", "a!b", "a\\b", "a'b", "a[b]", "a\xff"};
#define NUM_ODD (sizeof(odd_names) / sizeof(odd_names[0]))

static void test_languages_get_simple_names_only(void **state)
{
	(void)state;
	static const command commands[] = {
		{"ffmpeg", "-vf", "subtitles={file}", "{output}/o.mp4"},
		{"ffmpeg", "-vf", "scale=64:64,subtitles=/in/{name}", "o.mp4"},
		{"ffmpeg", "-vf", "drawtext=text={stem}", "o.mp4"},
		{"ffmpeg", "-filter:v", "{stem}", "o.mp4"},
		{"mpv", "--vf=subtitles={file}"},
		{"mpv", "--vf={stem}"},
		{"gst-launch-1.0", "filesrc", "location={file}", "!", "fakesink"},
		{"nice", "/usr/bin/gst-launch-1.0", "filesrc", "{file}"},
		{"curl", "-F", "file=@{file}", "http://host/"},
		{"curl", "-Ftitle={stem}", "http://host/"},
		{"curl", "--form={stem}", "http://host/"},
		{"curl", "-F", "{stem}", "http://host/"},
		{"dd", "if={file}"},
		{"7z", "x", "x.7z", "-o{output}"},
		{"tool", "{stem}_{stem}"},
		{"tool", "--a=--b={file}"},
		{"tool", "-a=/x/{name}"},
		{"tool", "--a,b={file}"},
		{"sqlite3", "x.db", "{stem}"},
		{"sh", "-c", "ffmpeg -vf subtitles={file} x"},
		{"sh", "-c", "ffmpeg -vf subtitles=\"{file}\" x"},
		{"sh", "-c", "ffmpeg -vf \"drawtext=text=Take {stem}\" x"},
		{"sh", "-c", "ffmpeg -vf drawtext=text=Take\\ {stem} x"},
		{"sh", "-c", "# don't\nffmpeg -vf 'text=Take {stem}' x"},
	};
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		for (size_t k = 0; k < NUM_ODD; k++)
			fills(-EPERM, commands[i], odd_names[k]);
		fills(0, commands[i], "Take_2.b+g-h");
		fills(0, commands[i], "\xc3\xa4\xe9\x9f\xb3\xd0\xb6");
	}
}

static void test_words_of_scripts_get_plain_names(void **state)
{
	(void)state;
	static const command commands[] = {
		{"sh", "-c", "cat {file} > {output}/x; wc<{file}"},
		{"sh", "-c", "cat \"{file}\" > '{output}/x-{stem}.txt'"},
		{"sh", "-c", "python3 x.py --in={file} --out=\"{output}\""},
		{"python3", "-c", "open('{file}')"},
		{"ssh", "host", "cat", "{file}"},
	};
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		fills(0, commands[i], "lr=0.1,b@c+e-12");
}

static void test_any_name_goes_into_paths_and_values_of_options(void **state)
{
	(void)state;
	static const command commands[] = {
		{"ffmpeg", "-i", "{file}", "{output}/{stem}.wav"},
		{"tool", "--in_file-2={file}", "--out={output}/x-{stem}.txt"},
		{"tool", "./{name}", "/in/x_{stem}.{language}.txt", "{dir}/{name}", "-I/x/{name}"},
		{"sqlite3", "-batch", "{file}", ".dump"},
		{"tail", "-F", "{file}", "-vframes", "{file}"},
	};
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		for (size_t k = 0; k < NUM_ODD; k++)
			fills(0, commands[i], odd_names[k]);
}

static void test_name_has_no_separator_that_follows_it(void **state)
{
	(void)state;
	static const command volume = {"docker", "run", "-v", "{file}:/in"}, list = {"tool", "--in={file},ro"};
	fills(0, volume, "a b,c=d");
	fills(-EPERM, volume, "a b:c");
	fills(0, list, "a b:c=d");
	fills(-EPERM, list, "a,b");
}

static void test_name_that_begins_with_a_dash_becomes_no_option(void **state)
{
	(void)state;
	static const command refused[] = {
		{"cat", "{name}"}, {"cat", "{stem}.txt"}, {"sh", "-c", "cat {name}"}, {"ssh", "host", "{stem}"}};
	static const command fine[] = {
		{"cat", "{file}", "{output}/{stem}"}, {"cat", "--in={name}"}, {"sh", "-c", "cat {file}"}};
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		fills(-EPERM, refused[i], "-rf");
		fills(0, refused[i], "a-rf");
	}
	for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++)
		fills(0, fine[i], "-rf");
}

static void test_name_that_begins_with_a_special_character_begins_no_argument(void **state)
{
	(void)state;
	static const char *const signs[] = {"@x", "|sh evil;", "+x", "=x", ":x", "%x", ",x", "~x", "!x", "<x", ">x",
		"&x", "#x", "$x", "[x", "{x", "(x", "^x", " x", "\"x", "'x", "\xff", "\xe2\x80\x9cx", "\xc2\xa0x"};
	static const char *const letters[] = {"x@", "7@", "_@", ".@", "\xc3\xa4@", "\xe9\x9f\xb3@"};
	static const command refused[] = {{"gcc", "{name}"}, {"tool", "{stem}.txt"}, {"tool", "{none}{name}"}};
	static const command fine[] = {
		{"gcc", "./{name}"}, {"tool", "{file}", "{output}/{stem}"}, {"tool", "--in={name}"}};
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		for (size_t k = 0; k < sizeof(signs) / sizeof(signs[0]); k++)
			fills(-EPERM, refused[i], signs[k]);
		for (size_t k = 0; k < sizeof(letters) / sizeof(letters[0]); k++)
			fills(0, refused[i], letters[k]);
	}
	for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++)
		for (size_t k = 0; k < sizeof(signs) / sizeof(signs[0]); k++)
			fills(0, fine[i], signs[k]);
	static const command script = {"sh", "-c", "gcc {name}"};
	fills(-EPERM, script, "@x");
	fills(0, script, "x@");
}

static void test_refusal_says_what_to_write_instead(void **state)
{
	(void)state;
	static const command script = {"sh", "-c", "cat {gpu} > {output}/x"}, option = {"cat", "{stem}"},
			     filter = {"ffmpeg", "-vf", "subtitles={file}"}, pipeline = {"socat", "{file}", "-"};
	struct gd_error why = {0};
	assert_int_equal(fill_name(script, "a b", &why), -EPERM);
	assert_string_equal(why.message,
		"its path has special characters, which the command could execute; instead of {output}, use \"$GPUQ_OUTPUT\" in a script in single quotes, as in: bash -c 'cat \"$GPUQ_FILE\" > \"$GPUQ_OUTPUT\"/x'");
	assert_int_equal(fill_name(filter, "a,b", &why), -EPERM);
	assert_string_equal(why.message,
		"its path has characters other than letters, digits and _./+-, which the command could interpret; make {file} an argument of its own, use --option={file}, or let the program read the variable GPUQ_FILE (with Hydra: 'in=${{oc.env:GPUQ_FILE}}')");
	assert_int_equal(fill_name(pipeline, "a,b", &why), -EPERM);
	assert_string_equal(why.message,
		"its path has characters other than letters, digits and _./+-, which the command could interpret where {file} is; let the program read the variable GPUQ_FILE instead, or rename the file or its folder");
	assert_int_equal(fill_name(option, "-n", &why), -EPERM);
	assert_string_equal(why.message,
		"its name begins with '-', which the command could take for an option; use {file} or ./{stem}, or \"$GPUQ_STEM\" in a script in single quotes");
	assert_int_equal(fill_name(option, "@n", &why), -EPERM);
	assert_string_equal(why.message,
		"its name begins with a special character, or with a word and a colon, which the command could interpret; use {file} or ./{stem}, or \"$GPUQ_STEM\" in a script in single quotes");
}

static void test_every_name_is_in_the_environment(void **state)
{
	(void)state;
	const struct template_values values = {.file = &usual};
	assert_int_equal(template_set_variables(&values), 0);
	assert_string_equal(getenv("GPUQ_FILE"), "/a b/-c\n.wav");
	assert_string_equal(getenv("GPUQ_NAME"), "-c\n.wav");
	assert_string_equal(getenv("GPUQ_STEM"), "-c\n");
	assert_string_equal(getenv("GPUQ_DIR"), "/a b");
	assert_string_equal(getenv("GPUQ_OUTPUT"), "/out/-c\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_placeholder_is_filled_in),
		cmocka_unit_test(test_doubled_braces_become_single_and_empty_arguments_stay),
		cmocka_unit_test(test_values_are_not_expanded_again_and_the_last_setting_counts),
		cmocka_unit_test(test_file_in_the_root_has_the_root_for_a_folder),
		cmocka_unit_test(test_unknown_word_or_unpaired_brace_is_an_error_that_names_it),
		cmocka_unit_test(test_setting_that_a_word_hides_is_an_error),
		cmocka_unit_test(test_special_names_are_not_put_into_code),
		cmocka_unit_test(test_any_name_goes_into_arguments_that_are_not_code),
		cmocka_unit_test(test_programs_that_expand_patterns_get_no_pattern),
		cmocka_unit_test(test_languages_get_simple_names_only),
		cmocka_unit_test(test_words_of_scripts_get_plain_names),
		cmocka_unit_test(test_any_name_goes_into_paths_and_values_of_options),
		cmocka_unit_test(test_name_has_no_separator_that_follows_it),
		cmocka_unit_test(test_name_that_begins_with_a_dash_becomes_no_option),
		cmocka_unit_test(test_name_that_begins_with_a_special_character_begins_no_argument),
		cmocka_unit_test(test_refusal_says_what_to_write_instead),
		cmocka_unit_test(test_every_name_is_in_the_environment),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
