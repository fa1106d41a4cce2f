/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/units.h"
#include "queue/input/config.h"
#include "queue/journal/trust.h"
#include "support/check.h"
#include "support/scratch.h"

static void parse(const char *yaml, struct config *ret)
{
	struct gd_error err = {0};
	*ret = (struct config){0};
	if (config_parse("c.yaml", yaml, strlen(yaml), ret, &err) != 0)
		fail_msg("%s", err.message);
}

static void refuse(const char *yaml, const char *words)
{
	struct gd_error err = {0};
	struct config c = {.jobs_per_gpu = 77};
	int r = config_parse("c.yaml", yaml, strlen(yaml), &c, &err);
	if (r != -EINVAL)
		fail_msg("accepted (%d): %s", r, yaml);
	assert_int_equal(c.jobs_per_gpu, 77);
	check_contains(err.message, words);
}

static void test_every_setting_is_read(void **state)
{
	(void)state;
	struct config c;
	parse("# a comment\n"
	      "gpu_ids: [0, 2, GPU-abc]\n"
	      "min_free_mem_mb: 8000\n"
	      "poll_interval: 0.5\n"
	      "commands_file: my commands.txt\n"
	      "log_dir: \"./l\\u00f6gs\"\n"
	      "log_access: group\n"
	      "max_log_size: 10M\n"
	      "jobs_file: 2024\n"
	      "jobs_per_gpu: 2\n"
	      "timeout: 2h\n"
	      "retries: 3\n"
	      "max_failures: 10\n"
	      "keep: yes\n"
	      "background: false\n"
	      "json: True\n"
	      "on_finish: 'notify: me # now'\n"
	      "on_idle: wake me\n"
	      "exclusive: on\n"
	      "host_mem: 32G\n"
	      "cpus: 8\n"
	      "cpu_affinity: gpu\n"
	      "idle_warn: 15m\n"
	      "slurm: --gres=gpu:4 --time=4:00:00\n"
	      "max_nodes: 8\n"
	      "slurm_silence: 20\n"
	      "slurm_lease: 10m\n"
	      "slurm_address: login1\n",
		&c);
	assert_int_equal(c.set, (1u << CONFIG_KEYS) - 1);
	assert_string_equal(c.gpus, "0,2,GPU-abc");
	assert_int_equal(c.min_free_mem_bytes, 8000 * UNITS_MB);
	assert_int_equal(c.poll_interval_ms, 500);
	assert_string_equal(c.commands_file, "my commands.txt");
	assert_string_equal(c.log_dir, "./lögs");
	assert_int_equal(c.log_access, LOG_ACCESS_GROUP);
	assert_int_equal(c.max_log_bytes, 10 * UNITS_MB);
	assert_string_equal(c.jobs_file, "2024");
	assert_int_equal(c.jobs_per_gpu, 2);
	assert_int_equal(c.timeout_ms, 7200000);
	assert_int_equal(c.retries, 3);
	assert_int_equal(c.max_failures, 10);
	assert_true(c.keep);
	assert_false(c.background);
	assert_true(c.json);
	assert_string_equal(c.on_finish, "notify: me # now");
	assert_string_equal(c.on_idle, "wake me");
	assert_true(c.exclusive);
	assert_int_equal(c.host_mem_bytes, 32 * UNITS_GB);
	assert_int_equal(c.cpus, 8);
	assert_true(c.cpu_affinity);
	assert_int_equal(c.idle_warn_ms, 15 * 60 * 1000);
	assert_string_equal(c.slurm, "--gres=gpu:4 --time=4:00:00");
	assert_int_equal(c.max_nodes, 8);
	assert_int_equal(c.slurm_silence_ms, 20 * 1000);
	assert_int_equal(c.slurm_lease_ms, 10 * 60 * 1000);
	assert_string_equal(c.slurm_address, "login1");
	config_finish(&c);
}

static void test_the_file_of_the_original_gpu_dispatch_and_an_empty_one_are_read(void **state)
{
	(void)state;
	struct config c;
	parse("gpu_ids:\n  - 0\n  - 1\nmin_free_mem_mb: 6000\npoll_interval: 60\ncommands_file: \"commands.txt\"\n",
		&c);
	assert_string_equal(c.gpus, "0,1");
	config_finish(&c);
	const char *const empty[] = {"", "# nothing\n", "---\n", "{}\n", "---\n...\n"};
	for (size_t i = 0; i < sizeof(empty) / sizeof(empty[0]); i++) {
		parse(empty[i], &c);
		assert_int_equal(c.set, 0);
		config_finish(&c);
	}
	parse("min_free_mem_mb: 12G\ngpus: sim:4x16G\n", &c);
	assert_int_equal(c.min_free_mem_bytes, 12 * UNITS_GB);
	assert_string_equal(c.gpus, "sim:4x16G");
	config_finish(&c);
}

static void test_errors_name_line_and_what_was_expected(void **state)
{
	(void)state;
	refuse("log_access: everybody\n", "c.yaml:1: log_access: 'everybody' is invalid; expected owner, group or all");
	refuse("max_log_size: 10\n", "c.yaml:1: max_log_size: '10' has no unit");
	refuse("host_mem: 32\n", "c.yaml:1: host_mem: '32' has no unit");
	refuse("max_log_size: 100K\n", "c.yaml:1: max_log_size: must be 0 or at least 1 MiB");
	refuse("log_dir: a\nmin_free_mem: 5\n",
		"c.yaml:2: unknown setting 'min_free_mem'; did you mean 'min_free_mem_mb'?");
	refuse("webhook: 5\n", "c.yaml:1: unknown setting 'webhook'; known settings: gpus, min_free_mem_mb");
	refuse("\n\nmin_free_mem_mb: [1]\n", "c.yaml:3: min_free_mem_mb: expected a number of MB");
	refuse("min_free_mem_mb: lots\n", "c.yaml:1: min_free_mem_mb: 'lots' is not a size");
	refuse("poll_interval: 0\n", "c.yaml:1: poll_interval: must be greater than 0");
	refuse("poll_interval: {a: b}\n", "poll_interval: expected a number of seconds");
	refuse("retries: 1.5\n", "c.yaml:1: retries: '1.5' is not a whole number");
	refuse("retries: -1\n", "retries: '-1' is out of range");
	refuse("retries: \"3\"\n", "retries: \"3\" is text; expected a whole number");
	refuse("retries: 99999999999\n", "out of range");
	refuse("keep: maybe\n", "keep: 'maybe' is not a boolean; expected true or false");
	refuse("keep: 'true'\n", "without quotes");
	refuse("log_dir:\n", "c.yaml:1: log_dir: expected the name of a file or folder");
	refuse("log_dir: ~\n", "log_dir: expected the name");
	refuse("log_dir: ''\n", "log_dir: empty value");
	refuse("log_dir: \"a\\0b\"\n", "log_dir: expected");
	refuse("log_dir: a\nkeep: on\nlog_dir: b\n", "c.yaml:3: log_dir: already given in line 1");
	refuse("gpus: all\ngpu_ids: [0]\n",
		"c.yaml:2: gpu_ids: already given in line 1 (gpus and gpu_ids are the same");
	refuse("gpu_ids: [0, x]\n", "c.yaml:1: gpu_ids: 'x' is not a GPU number");
	refuse("gpu_ids: all\n", "for 'all' and the like use gpus");
	refuse("gpu_ids: []\n", "gpu_ids: empty list");
	refuse("gpu_ids: [[0]]\n", "is not a GPU number");
	refuse("gpu_ids: [\"0,1\"]\n", "is not a GPU number");
	refuse("[1, 2]\n", "c.yaml:1: expected lines of the form 'name: value'");
	refuse("just text\n", "c.yaml:1: expected lines");
	refuse("? [a]\n: b\n", "expected the name of a setting");
	refuse("keep: on\n---\nkeep: on\n", "c.yaml:2: a second document");
	refuse("log_dir: &a x\njobs_file: *a\n", "c.yaml:2: aliases");
	refuse("keep: on\n\tlog_dir: x\n", "c.yaml:2: ");
	refuse("log_dir: \"abc\n", "c.yaml:");
	refuse("log_dir: \xff\n", "expected UTF-8");
}

static void test_home_is_expanded_in_paths_alone(void **state)
{
	(void)state;
	struct config c;
	setenv("HOME", "/home/alice", 1);
	parse("log_dir: ~/logs\njobs_file: a~/b\non_finish: ~/hook\n", &c);
	assert_string_equal(c.log_dir, "/home/alice/logs");
	assert_string_equal(c.jobs_file, "a~/b");
	assert_string_equal(c.on_finish, "~/hook"); /* the shell expands it */
	config_finish(&c);
}

static void test_command_line_overrides_file_and_file_overrides_defaults(void **state)
{
	(void)state;
	struct config c = {0}, file, line = {0};
	struct gd_error err;
	assert_int_equal(config_defaults(&c), 0);
	assert_int_equal(c.set, 0);
	assert_int_equal(c.min_free_mem_bytes, 6000 * UNITS_MB);
	assert_int_equal(c.poll_interval_ms, 60000);
	assert_string_equal(c.commands_file, "commands.txt");
	assert_string_equal(c.log_dir, "./logs");
	assert_null(c.jobs_file);

	parse("log_dir: file\njobs_file: file\nretries: 3\nkeep: true\n", &file);
	assert_int_equal(config_set(&line, CONFIG_LOG_DIR, "--log-dir", "line", &err), 0);
	assert_int_equal(config_set(&line, CONFIG_KEEP, "--keep", "false", &err), 0);
	assert_int_equal(config_set(&line, CONFIG_BACKGROUND, "--background", NULL, &err), 0);
	config_overlay(&c, &file);
	config_overlay(&c, &line);
	assert_string_equal(c.log_dir, "line");
	assert_string_equal(c.jobs_file, "file");
	assert_string_equal(c.commands_file, "commands.txt");
	assert_int_equal(c.retries, 3);
	assert_false(c.keep);
	assert_true(c.background);
	assert_true(config_has(&c, CONFIG_RETRIES));
	assert_false(config_has(&c, CONFIG_COMMANDS_FILE));
	assert_null(line.log_dir);

	assert_int_equal(config_set(&c, CONFIG_POLL_INTERVAL, "--poll-interval", "soon", &err), -EINVAL);
	check_contains(err.message, "--poll-interval: 'soon' is not a duration");
	assert_int_equal(config_set(&c, CONFIG_LOG_DIR, "--log-dir", NULL, &err), -EINVAL);
	assert_string_equal(c.log_dir, "line");
	config_finish(&c);
}

static void test_a_file_that_cannot_be_read_is_named(void **state)
{
	(void)state;
	struct config c = {0};
	struct gd_error err;
	assert_int_equal(config_load("missing.yaml", TRUST_FOUND, &c, &err), -ENOENT);
	assert_string_equal(err.message,
		"cannot read configuration 'missing.yaml': No such file or directory; expected a YAML file");
	assert_int_equal(mkdir("folder.yaml", 0700), 0);
	assert_int_equal(config_load("folder.yaml", TRUST_FOUND, &c, &err), -EISDIR);
	assert_int_equal(config_load("/dev/null", TRUST_NAMED, &c, &err), 0);
	assert_int_equal(config_load("/dev/zero", TRUST_NAMED, &c, &err), -EFBIG);
	assert_int_equal(config_load("/dev/null", TRUST_FOUND, &c, &err), -EINVAL);
	check_contains(err.message, "not a regular file; name it with --config");
}

static void test_a_file_that_others_can_write_needs_trust(void **state)
{
	(void)state;
	struct config c = {0};
	struct gd_error err;
	scratch_write_text("c.yaml", "retries: 3\n");
	assert_int_equal(config_load("c.yaml", TRUST_FOUND, &c, &err), 0);
	assert_int_equal(chmod("c.yaml", 0646), 0);
	assert_int_equal(config_load("c.yaml", TRUST_FOUND, &c, &err), -EPERM);
	check_contains(err.message, "'c.yaml': it can be written by everybody");
	check_contains(err.message, "--trust");
	assert_int_equal(config_load("c.yaml", TRUST_ACCEPTED, &c, &err), 0);
	assert_int_equal(c.retries, 3);
	assert_int_equal(config_load("c.yaml", TRUST_NAMED, &c, &err), 0);
	if (geteuid() != 0)
		return;
	/* These need root: another group, another owner. */
	assert_int_equal(chmod("c.yaml", 0664), 0);
	assert_int_equal(chown("c.yaml", 0, 65534), 0);
	assert_int_equal(config_load("c.yaml", TRUST_FOUND, &c, &err), -EPERM);
	check_contains(err.message, "by its group");
	assert_int_equal(chmod("c.yaml", 0600), 0);
	assert_int_equal(chown("c.yaml", 65534, 65534), 0);
	assert_int_equal(config_load("c.yaml", TRUST_FOUND, &c, &err), -EPERM);
	check_contains(err.message, "belongs to another user");
}

static void test_config_is_searched_in_the_directory_then_xdg_then_home(void **state)
{
	(void)state;
	char *path = (char *)"untouched";
	unsetenv("XDG_CONFIG_HOME");
	setenv("HOME", scratch_path(), 1);
	assert_int_equal(config_find(NULL, &path), 0);
	assert_null(path);

	char expected[128];
	assert_int_equal(mkdir(".config", 0700) | mkdir(".config/gpuq", 0700) | mkdir("xdg", 0700), 0);
	assert_int_equal(mkdir("xdg/gpuq", 0700), 0);
	scratch_write_text(".config/gpuq/config.yaml", "");
	scratch_write_text("xdg/gpuq/config.yaml", "");
	assert_int_equal(config_find(NULL, &path), 0);
	snprintf(expected, sizeof(expected), "%s/.config/gpuq/config.yaml", scratch_path());
	assert_string_equal(path, expected);
	free(path);

	snprintf(expected, sizeof(expected), "%s/xdg", scratch_path());
	setenv("XDG_CONFIG_HOME", expected, 1);
	assert_int_equal(config_find(NULL, &path), 0);
	check_contains(path, "/xdg/gpuq/config.yaml");
	free(path);

	scratch_write_text("gpuq.yaml", "");
	assert_int_equal(config_find(NULL, &path), 0);
	assert_string_equal(path, "./gpuq.yaml");
	free(path);
	assert_int_equal(config_find("other.yaml", &path), 0);
	assert_string_equal(path, "other.yaml");
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_setting_is_read),
		cmocka_unit_test(test_the_file_of_the_original_gpu_dispatch_and_an_empty_one_are_read),
		cmocka_unit_test(test_errors_name_line_and_what_was_expected),
		cmocka_unit_test(test_home_is_expanded_in_paths_alone),
		cmocka_unit_test(test_command_line_overrides_file_and_file_overrides_defaults),
		scratch_test(test_a_file_that_cannot_be_read_is_named),
		scratch_test(test_a_file_that_others_can_write_needs_trust),
		scratch_test(test_config_is_searched_in_the_directory_then_xdg_then_home),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
