# SPDX-License-Identifier: MIT
"""gpuq launch is interrupted or killed: no process is left, and the next run continues."""
import fcntl
import json
import os
import pathlib
import signal

import pytest

from launch_lab import LIMIT, PROGRAM


def test_first_interrupt_finishes_what_runs_and_the_next_run_goes_on(launch):
    launch.put(*(f"wait{n}.wav" for n in range(6)))
    process = launch.start(*PROGRAM)
    launch.wait_for_workers()
    process.send_signal(signal.SIGINT)
    line = process.stderr.readline()
    assert "stopping after 2 running files" in line
    (launch.directory / "go").touch()
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130, (out, err)
    assert len(launch.notes("begin")) == 2 and len(launch.notes("end")) == 2
    assert "2 of 6 files done, 4 left" in out
    assert launch.processes() == []
    summary, _ = launch.summary(*PROGRAM)
    assert (summary["files_done"], summary["files_skipped"]) == (4, 2)
    assert sorted(launch.notes("end")) == [f"wait{n}.wav" for n in range(6)]


@pytest.mark.parametrize("signals", [[signal.SIGINT, signal.SIGINT], [signal.SIGTERM]], ids=["two interrupts", "SIGTERM"])
def test_sigterm_or_second_interrupt_leaves_no_process(launch, signals):
    launch.put(*(f"wait{n}.wav" for n in range(6)))
    process = launch.start(*PROGRAM)
    launch.wait_for_workers()
    process.send_signal(signals[0])
    if len(signals) > 1:  # the kernel merges two pending signals
        assert "stopping after" in process.stderr.readline()
        process.send_signal(signals[1])
    process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    assert launch.notes("end") == []
    assert launch.processes() == []
    (launch.directory / "go").touch()
    summary, _ = launch.summary(*PROGRAM)
    assert (summary["files_done"], summary["files_failed"]) == (6, 0)


def test_sigterm_does_not_say_that_running_files_are_finished(launch):
    launch.put("wait1.wav", "wait2.wav")
    process = launch.start(*PROGRAM)
    launch.wait_for_workers()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    assert "stopping after" not in err


def test_failure_after_an_interrupt_cancels_nothing(launch):
    launch.put("a.wav", "b.wav", "c.wav")
    script = 'echo "begin $1" >> notes; while [ ! -e "go-$1" ]; do sleep 0.01; done; [ "$1" != a ]'
    process = launch.start("--max-failures", "1", "--json", "summary.json", "--", "sh", "-c", script, "x", "{stem}")
    launch.wait_for_workers()
    process.send_signal(signal.SIGINT)
    assert "stopping after 2 running files" in process.stderr.readline()
    (launch.directory / "go-a").touch()
    launch.until(lambda: '"failed"' in (launch.output / "launch.jsonl").read_text())
    (launch.directory / "go-b").touch()
    process.communicate(timeout=LIMIT)
    summary = json.loads((launch.directory / "summary.json").read_text())
    assert (summary["files_done"], summary["files_failed"], summary["files_left"]) == (1, 1, 1)
    assert process.returncode == 130


def test_commands_end_with_the_launcher(launch):
    launch.put("a.wav", "b.wav")
    process = launch.start("--", "sh", "-c", 'echo "begin $1" >> notes; sleep 1000 & wait', "x", "{name}")
    launch.wait_for_workers()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    assert launch.processes() == []


def test_killed_launcher_leaves_no_process_and_loses_nothing(launch):
    launch.put("a.wav", "b.wav", size=100)
    launch.put("wait1.wav", "wait2.wav")
    process = launch.start(*PROGRAM)
    launch.until(lambda: (launch.output / "launch.jsonl").exists() and
                 (launch.output / "launch.jsonl").read_text().count('"done"') == 2 and len(launch.notes("begin")) == 4)
    process.kill()
    process.communicate()
    launch.until(lambda: launch.processes() == [], "the end of all processes")
    (launch.directory / "go").touch()
    summary, _ = launch.summary(*PROGRAM)
    assert (summary["files_done"], summary["files_skipped"]) == (2, 2)


def test_second_launcher_in_one_output_folder_is_refused(launch):
    launch.put("wait.wav")
    process = launch.start(*PROGRAM)
    launch.wait_for_workers(1)
    _, err = launch.run(*PROGRAM, code=1)
    assert f"process {process.pid}" in err
    (launch.directory / "go").touch()
    process.communicate(timeout=LIMIT)
    assert process.returncode == 0


def test_signal_after_the_third_stop_ends_a_launch_that_hangs(launch):
    """It hangs because nobody reads its output."""
    launch.put("a.wav")
    reader, writer = os.pipe()
    os.write(writer, b"x" * fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ))
    process = launch.start("--dry-run", *PROGRAM, stdout=writer)
    folder = pathlib.Path(f"/proc/{process.pid}")
    launch.until(lambda: (folder / "wchan").read_text() in ("pipe_write", "anon_pipe_write"), "the full pipe")
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        launch.until(lambda: "\nShdPnd:\t0000000000000000" in (folder / "status").read_text(), "the handler")
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT) == -signal.SIGINT
    os.close(reader)
    os.close(writer)
