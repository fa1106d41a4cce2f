# SPDX-License-Identifier: MIT
"""tools/run-tests: its last line reports the result in all cases."""
import json
import os
import pathlib
import subprocess
import sys

SOURCE = pathlib.Path(os.environ["GD_SOURCE"])


def run(tmp_path, tests, status=0, again=None):
    """run-tests with a fake meson that writes TESTS to its log and exits with STATUS.

    With AGAIN, failed programs are repeated, and these are the records of the repetition.
    """
    build = tmp_path / "build"
    (build / "meson-logs").mkdir(parents=True)
    ready = tmp_path / "ready.json"
    ready.write_text("".join(json.dumps(test) + "\n" for test in tests))
    meson = tmp_path / "meson"
    second = tmp_path / "second.json"
    second.write_text("".join(json.dumps(test) + "\n" for test in again or []))
    meson.write_text('#!/bin/sh\nname=${*##*--logbase }\n'
                     f'log="{build}/meson-logs/${{name%% *}}.json"\n'
                     f'case "$*" in *--suite*) cp "{ready}" "$log"; exit {status} ;; esac\n'
                     f'echo "$*" >>"{tmp_path}/repeated"\ncp "{second}" "$log"\n')
    meson.chmod(0o755)
    result = subprocess.run([sys.executable, SOURCE / "tools/run-tests", build, "unit"],
                            env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}",
                                 "RETRY_FAILED": "0" if again is None else "1"},
                            capture_output=True, text=True, timeout=60, check=False)
    return result.returncode, result.stdout.splitlines()


def test_cases_inside_cmocka_programs_are_counted(tmp_path):
    code, lines = run(tmp_path, [{"name": "gd:unit / text", "result": "OK", "stdout": "",
                                  "stderr": "[==========] 3 test(s) run.\n[  PASSED  ] 3 test(s).\n"}])
    assert (code, lines[-1]) == (0, "3 passed, 0 failed")


def test_cases_inside_pytest_are_counted_and_skipped_ones_named(tmp_path):
    out = "..s  [100%]\n=== short ===\nSKIPPED [1] cli/test_x.py:9: no PoCL here\n2 passed, 1 skipped in 0.31s\n"
    code, lines = run(tmp_path, [{"name": "cli / x", "result": "OK", "stdout": out}])
    assert code == 0
    assert lines == ["skipped: x: cli/test_x.py:9: no PoCL here", "2 passed, 0 failed"]


def test_a_failed_case_makes_it_fail(tmp_path):
    out = "1 failed, 2 passed in 0.31s\n"
    code, lines = run(tmp_path, [{"name": "x", "result": "FAIL", "stdout": out}], status=1)
    assert (code, lines[-1]) == (1, "2 passed, 1 failed")


def test_a_crash_or_a_timeout_counts_as_a_failure(tmp_path):
    tests = [{"name": "a", "result": "TIMEOUT", "stdout": ""}, {"name": "b", "result": "ERROR", "stdout": ""},
             {"name": "c", "result": "OK", "stdout": "no framework"}]
    code, lines = run(tmp_path, tests, status=1)
    assert (code, lines[-1]) == (1, "1 passed, 2 failed")


def test_a_program_that_skips_itself_is_named(tmp_path):
    tests = [{"name": "a", "result": "SKIP", "stdout": "no GPU here\n"}, {"name": "c", "result": "OK", "stdout": ""}]
    code, lines = run(tmp_path, tests)
    assert (code, lines) == (0, ["skipped: a: no GPU here", "1 passed, 0 failed"])


def test_running_nothing_is_not_a_success(tmp_path):
    code, lines = run(tmp_path, [])
    assert code == 1
    assert lines[-1] == "0 passed, 1 failed"


def test_meson_failing_without_output_is_not_a_success(tmp_path):
    code, lines = run(tmp_path, [{"name": "c", "result": "OK", "stdout": ""}], status=2)
    assert (code, lines[-1]) == (1, "1 passed, 1 failed")


FAILED = {"name": "gd:unit / pool", "result": "FAIL", "stdout": "1 failed, 2 passed in 0.31s\n"}


def test_a_program_that_passes_when_repeated_alone_is_reported_as_flaky(tmp_path):
    again = [{"name": "gd:unit / pool", "result": "OK", "stdout": "3 passed in 0.31s\n"}]
    code, lines = run(tmp_path, [FAILED, {"name": "c", "result": "OK", "stdout": ""}], status=1, again=again)
    assert (code, lines[-2:]) == (0, ["flaky: pool failed, then passed alone", "4 passed, 0 failed"])
    assert (tmp_path / "repeated").read_text().split()[-3:] == ["--num-processes", "1", "pool"]


def test_a_program_that_fails_twice_has_failed(tmp_path):
    code, lines = run(tmp_path, [FAILED], status=1, again=[FAILED])
    assert (code, lines[-1]) == (1, "2 passed, 1 failed")


def test_a_program_that_is_not_run_the_second_time_has_failed(tmp_path):
    code, lines = run(tmp_path, [FAILED], status=1, again=[])
    assert (code, lines[-1]) == (1, "2 passed, 1 failed")


def test_nothing_is_repeated_unless_asked(tmp_path):
    code, _ = run(tmp_path, [FAILED], status=1)
    assert code == 1
    assert not (tmp_path / "repeated").exists()


def test_many_failures_are_not_repeated(tmp_path):
    code, _ = run(tmp_path, [FAILED] * 9, status=1, again=[{"name": "pool", "result": "OK", "stdout": ""}])
    assert code == 1
    assert not (tmp_path / "repeated").exists()
