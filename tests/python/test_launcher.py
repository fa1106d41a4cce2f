# SPDX-License-Identifier: MIT
"""gpu_dispatch.launcher as users run it."""
from __future__ import annotations

import glob
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from multigpu_lab import LIMIT, NOT_UTF8, Lab


@pytest.fixture(name="lab")
def make_lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def words(lab: Lab, *more: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "gpu_dispatch.launcher",
        "--input-dir",
        str(lab.input),
        "--output-dir",
        str(lab.output),
        *more,
    ]


def run(lab: Lab, *more: str, code: int = 0) -> tuple[str, str]:
    done = subprocess.run(
        words(lab, *more),
        cwd=lab.directory,
        env={**os.environ, "GPUQ_GPUS": "sim:2"},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout, done.stderr


def test_files_are_done_and_summed_up(lab: Lab) -> None:
    lab.put("a.wav", "b.wav", "c.mp3")
    out, _ = run(
        lab,
        "--gpus",
        "auto",
        "--model-size",
        "base",
        "--language",
        "en",
        "--pattern",
        "*.wav",
        "--worker-command",
        lab.command,
    )
    assert "[2/2]" in out and "2 of 2 files done" in out
    out, _ = run(lab, "--worker-command", lab.command, "--model-size", "large")
    assert "2 of 2 files done" in out and "earlier" not in out, "other settings"
    out, _ = run(lab, "--worker-command", lab.command, "--model-size", "large")
    assert "2 of 2 files done, 2 of them by an earlier run" in out
    out, _ = run(lab, "--worker-command", lab.command, "--force")
    assert "earlier" not in out


def test_a_time_limit_per_file(lab: Lab) -> None:
    lab.put("wait.wav", "b.wav")
    out, err = run(lab, "--worker-command", lab.command, "--timeout", "1500ms", code=1)
    assert "1 of 2 files done" in out and "not finished within" in out, (out, err)


@pytest.mark.parametrize("names", [("é.wav",), ("é.wav", "sub/é.wav")])
def test_names_are_recognized_in_any_locale(
    lab: Lab, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.put(*names)
    for name, value in NOT_UTF8.items():
        monkeypatch.setenv(name, value)
    more = ("--pattern", "**/*.wav", "--worker-command", lab.command)
    assert f"{len(names)} of {len(names)} files done" in run(lab, *more)[0]
    assert "by an earlier run" in run(lab, *more)[0]


def test_failed_files_give_exit_code_1(lab: Lab) -> None:
    lab.put("a.wav", "fail.wav")
    out, _ = run(lab, "--worker-command", lab.command, code=1)
    assert "1 of 2 files done, 1 failed" in out and "ValueError: cannot do fail.wav" in out


@pytest.mark.parametrize(
    "wrong",
    [
        ("--gpus", "7"),
        ("--gpus", "x"),
        ("--unknown",),
        ("--input-dir", "/no/such/folder"),
        ("--set", "x"),
        ("--worker", "a", "--worker-command", "b"),
        ("--worker-command", "/no/such/program"),
        ("--worker", "no-such-worker"),
    ],
)
def test_wrong_usage_gives_exit_code_2(lab: Lab, wrong: tuple[str, ...]) -> None:
    lab.put("a.wav")
    out, err = run(lab, *wrong, code=2)
    assert err or out


def test_no_matching_file_is_not_a_failure(lab: Lab) -> None:
    _, err = run(lab, "--worker-command", lab.command)
    assert "matches '*.wav'" in err


def test_results_below_the_input_folder_are_not_input(lab: Lab) -> None:
    """Also if the output folder is named by a link."""
    lab.put("a.wav", "sub/b.wav")
    worker = lab.directory / "worker.py"
    worker.write_text(worker.read_text().replace("result.txt", "result.wav"))
    (lab.directory / "link").symlink_to(lab.input / "results")
    more = ("--pattern", "**/*.wav", "--worker-command", lab.command, "--output-dir")
    assert "2 of 2 files done" in run(lab, *more, str(lab.input / "results"))[0]
    assert "2 of 2 files done, 2 of them by an earlier run" in run(lab, *more, "link")[0]
    assert "4 of 4 files done" in run(lab, *more, str(lab.input.parent))[0]  # a parent directory hides no file
    _, err = run(lab, *more, str(lab.input), code=2)
    assert "is the input folder, so results would be found as input" in err


def start(lab: Lab, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words(lab, *more),
        cwd=lab.directory,
        env={**os.environ, "GPUQ_GPUS": "sim:1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )


def heed_interrupts() -> None:
    """Shells make programs in the background ignore Ctrl-C, which is inherited."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def line_of(stream: Any, text: str) -> None:
    for line in stream:
        if text in line:
            return
    pytest.fail(f"no line with: {text}")


def has_pending_interrupt(status: str) -> bool:
    masks = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd", "ShdPnd"))]
    return any(mask >> (signal.SIGINT - 1) & 1 for mask in masks)


def children_have_taken_interrupts(parent: int) -> bool:
    """The signal that was passed on to gpuq launch is no longer pending there."""
    for path in glob.glob("/proc/[0-9]*/status"):
        try:
            status = Path(path).read_bytes().decode(errors="replace")
        except OSError:
            continue
        if f"\nPPid:\t{parent}\n" in status and has_pending_interrupt(status):
            return False
    return True


def test_interrupt_lets_running_files_finish_and_gives_130(lab: Lab) -> None:
    lab.put("wait-1.wav", size=20)
    lab.put("b.wav")
    with start(lab, "--worker-command", lab.command) as process:
        lab.until(lambda: lab.began("wait-1.wav"))
        process.send_signal(signal.SIGINT)
        line_of(process.stderr, "press Ctrl-C again to cancel")
        lab.until(lambda: children_have_taken_interrupts(process.pid))
        lab.go()
        out, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    assert "wait-1.wav (GPU 0)" in out and "1 of 2 files done" in out
    assert not lab.began("b.wav")


def test_second_interrupt_cancels_running_files(lab: Lab) -> None:
    lab.put("wait-1.wav")
    with start(lab, "--worker-command", lab.command) as process:
        lab.until(lambda: lab.began("wait-1.wav"))
        process.send_signal(signal.SIGINT)
        line_of(process.stderr, "press Ctrl-C again to cancel")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 130 and "0 of 1 files done" in out


@pytest.mark.parametrize(("reason", "separate"), [("Broken pipe", True), ("No space left on device", True), ("Broken pipe", False)])
def test_files_are_processed_if_the_output_cannot_be_written(lab: Lab, reason: str, separate: bool) -> None:
    """As in `gpu-dispatch-launcher … | head -1`, also with `2>&1`."""
    lab.put("a.wav", "b.wav")
    if reason == "Broken pipe":
        reader, output = os.pipe()
        os.close(reader)
    else:
        output = os.open("/dev/full", os.O_WRONLY)
    environment = {**os.environ, "GPUQ_GPUS": "sim:1"}
    environment.pop("PYTHONUNBUFFERED", None)
    done = subprocess.run(words(lab, "--worker-command", lab.command), cwd=lab.directory, env=environment, stdout=output,
                          stderr=subprocess.PIPE if separate else subprocess.STDOUT, text=True, timeout=LIMIT, check=False)  # fmt: skip
    os.close(output)
    assert (done.returncode, done.stderr) == (1, f"gpu_dispatch: cannot write the output: {reason}\n" if separate else None)
    assert lab.began("a.wav") and lab.began("b.wav")


def test_output_folder_is_only_created_by_gpuq_launch(lab: Lab) -> None:
    """gpuq launch refuses a folder that others can replace, or to which their link leads."""
    lab.put("a.wav")
    shared = lab.directory / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    _, err = run(lab, "--output-dir", str(shared / "new" / "out"), "--worker-command", lab.command, code=2)
    assert "refusing to use output folder" in err and list(shared.iterdir()) == []


def plant(lab: Lab) -> None:
    """Another user's module in the current directory, in place of one of Python."""
    (lab.directory / "argparse.py").write_text("open('planted', 'w')\nfrom optparse import *\n")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="older versions have no -P")
def test_documented_command_imports_nothing_from_the_current_directory(lab: Lab) -> None:
    plant(lab)
    lab.put("a.wav")
    command = words(lab, "--worker-command", lab.command)
    command.insert(1, "-P")
    subprocess.run(command, cwd=lab.directory, env={**os.environ, "GPUQ_GPUS": "sim:1"}, timeout=LIMIT, check=True)
    assert (lab.output / "a/result.txt").exists() and not (lab.directory / "planted").exists()


def test_installed_command_imports_nothing_from_the_current_directory(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The script that pip writes for the entry in pyproject.toml."""
    plant(lab)
    lab.put("a.wav", "fail.wav")
    project = (Path(os.environ["GD_SOURCE"]) / "pyproject.toml").read_text()
    entry = re.search(r'^\[project.scripts\]\ngpu-dispatch-launcher = "([a-z_.]+):([a-z_]+)"$', project, re.M)
    assert entry
    script = tmp_path_factory.mktemp("bin") / "gpu-dispatch-launcher"
    script.write_text(f"import sys\nfrom {entry[1]} import {entry[2]}\nsys.exit({entry[2]}())\n")
    command = [sys.executable, str(script), *words(lab, "--worker-command", lab.command)[3:]]
    done = subprocess.run(command, cwd=lab.directory, env={**os.environ, "GPUQ_GPUS": "sim:1"}, timeout=LIMIT, check=False)
    assert done.returncode == 1 and (lab.output / "a/result.txt").exists()
    assert not (lab.directory / "planted").exists()


@pytest.mark.parametrize("more", [("{}",), ("--{}",), ("--set", "{}"), ("--gpus", "{}"), ("--input-dir", "{}"), ("--pattern", "{}")])
def test_arguments_are_printed_as_text(lab: Lab, more: tuple[str, ...]) -> None:
    """The shell may have expanded a pattern to names of other users' files."""
    code = 0 if more[0] == "--pattern" else 2
    _, err = run(lab, *(word.format("d\x1b]0;PWN\x07\u202e\n") for word in more), code=code)
    assert "d\\x1b]0;PWN\\x07" in err
    assert [c for c in err.replace("\n", "") if not c.isprintable()] == []


def test_help_names_the_options(lab: Lab) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpu_dispatch.launcher", "--help"],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=True,
    )
    for option in (
        "--input-dir",
        "--output-dir",
        "--gpus",
        "--model-size",
        "--language",
        "--pattern",
    ):
        assert option in done.stdout
