# SPDX-License-Identifier: MIT
"""tools/run-tests: its last line tells what happened, whatever happened."""
import json
import os
import pathlib
import subprocess
import sys

SOURCE = pathlib.Path(os.environ["GD_SOURCE"])


def run(tmp_path, tests, status=0):
    """run-tests with a stand-in for meson that leaves this log and exits so."""
    build = tmp_path / "build"
    (build / "meson-logs").mkdir(parents=True)
    ready = tmp_path / "ready.json"
    ready.write_text("".join(json.dumps(test) + "\n" for test in tests))
    meson = tmp_path / "meson"
    meson.write_text(f'#!/bin/sh\ncp "{ready}" "{build}/meson-logs/testlog.json"\nexit {status}\n')
    meson.chmod(0o755)
    result = subprocess.run([sys.executable, SOURCE / "tools/run-tests", build, "unit"],
                            env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
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


def test_running_nothing_is_no_success(tmp_path):
    code, lines = run(tmp_path, [])
    assert code == 1
    assert lines[-1] == "0 passed, 1 failed"


def test_meson_failing_without_a_word_is_no_success(tmp_path):
    code, lines = run(tmp_path, [{"name": "c", "result": "OK", "stdout": ""}], status=2)
    assert (code, lines[-1]) == (1, "1 passed, 1 failed")
