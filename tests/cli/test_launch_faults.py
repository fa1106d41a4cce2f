# SPDX-License-Identifier: MIT
"""gpuq launch when workers die, files vanish and disks are full."""
import errno
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import pytest

from launch_lab import COPY, GPUQ, LIMIT, PROGRAM, Launch

FAULTS = pathlib.Path(os.environ["GD_BUILD"]) / "tests/cli/libfaults.so"


def test_worker_killed_mid_file_costs_that_file_alone(launch):
    launch.put("kill.wav", *(f"{n}.wav" for n in range(8)))
    summary, _ = launch.summary(*PROGRAM, code=1)
    assert (summary["files_done"], summary["files_failed"]) == (8, 1)
    assert summary["failures"][0]["file"] == "kill.wav"
    assert launch.processes() == []


def test_worker_killed_from_outside_fails_only_its_file(launch):
    launch.put("wait.wav", "a.wav", "b.wav")
    process = launch.start("--json", "summary.json", *PROGRAM)
    launch.until(lambda: "wait.wav" in launch.notes("begin") and len(launch.notes("end")) == 2)
    for pid in launch.notes("setup"):
        os.kill(int(pid), signal.SIGKILL)
    process.communicate(timeout=LIMIT)
    assert process.returncode == 1
    summary = json.loads((launch.directory / "summary.json").read_text())
    assert (summary["files_done"], [failure["file"] for failure in summary["failures"]]) == (2, ["wait.wav"])


def test_file_whose_worker_was_killed_is_tried_again(launch):
    launch.put("once.wav", "a.wav")
    summary, _ = launch.summary("--retries", "1", *PROGRAM)
    assert summary["files_done"] == 2
    assert launch.notes("begin").count("once.wav") == 2


@pytest.mark.parametrize("count", [1, 50])
def test_all_workers_failing_at_setup_end_it_with_the_reason(launch, count):
    launch.put(*(f"{n}.wav" for n in range(count)))
    summary, err = launch.summary("--set", "broken=yes", "--model-size", "huge", *PROGRAM, code=1)
    assert "no worker is left: " in err and "no model called huge" in err
    assert (summary["files_done"], summary["files_failed"], summary["files_left"]) == (0, 0, count)
    assert launch.notes("begin") == []


def test_timeouts_count_as_failures_and_max_failures_ends_the_launch(launch):
    launch.put(*(f"{n}.wav" for n in range(40)))
    summary, err = launch.summary("--timeout", "50ms", "--max-failures", "2", "--", "sleep", "1000", code=1)
    assert summary["files_failed"] >= 2 and summary["files_left"] > 0
    assert "--max-failures" in err
    assert launch.processes() == []


def test_files_that_vanish_fail_alone(launch):
    launch.put("a.wav", size=100)
    launch.put(*(f"{n}.wav" for n in range(9)), size=50)
    launch.put("late.wav", size=1)
    summary, _ = launch.summary("--gpus", "sim:1", "--", "rm", "-f", "in/late.wav", code=1)
    assert summary["files_done"] == 10
    assert summary["failures"] == [{"file": "late.wav", "error": "the file no longer exists"}]


def test_files_that_are_empty_or_not_audio_are_given_to_the_worker(launch):
    launch.put("empty.wav", size=0)
    launch.put("rubbish.wav", size=5000)
    (launch.input / "cut.wav").write_bytes(b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0")
    summary, _ = launch.summary("--", "test", "-s", "{file}", code=1)
    assert (summary["files_done"], summary["files_failed"]) == (2, 1)
    assert summary["failures"][0]["file"] == "empty.wav"
    assert summary["audio_seconds"] is None and summary["rtf"] is None
    launch.run("--dry-run", "--force", *COPY)


def test_unreadable_files_and_folders_are_reported_and_the_rest_is_done(tmp_path):
    del tmp_path  # only root may enter it
    directory = pathlib.Path(tempfile.mkdtemp(prefix="gpuq-test-"))
    launch = Launch(directory)
    try:
        launch.put("good.wav", "secret.wav", "locked/x.wav")
        (launch.input / "secret.wav").chmod(0)
        (launch.input / "locked").chmod(0)
        options = {}
        if os.geteuid() == 0:
            for path in [directory, *directory.rglob("*")]:
                os.chown(path, 65534, 65534)
            options = {"user": 65534, "group": 65534, "extra_groups": []}
            # Use programs that the user can access: the build folder may be private to root.
            programs = directory / "programs"
            programs.mkdir()
            for name in ("gpuq", "gpuq-launch", "gpuq-probe", "gpuq-worker"):
                shutil.copy(pathlib.Path(GPUQ).parent / name, programs)
            launch.program = programs / "gpuq"
        summary, err = launch.summary("--recursive", *COPY, code=1, **options)
        assert summary["files_done"] == 1
        assert summary["failures"] == [{"file": "secret.wav", "error": "Permission denied"}]
        assert "'locked' is skipped: Permission denied" in err
    finally:
        launch.end()
        (launch.input / "locked").chmod(0o700)
        shutil.rmtree(directory)


def faulty(launch, passing, failing):
    """The environment in which, after `passing` writes of gpuq-launch into launch.jsonl, `failing`
    writes find the disk full."""
    path = launch.directory / "counter"
    path.write_bytes(struct.pack("qq", passing, failing))
    return {"LD_PRELOAD": str(FAULTS), "FAULT_CALL": "write", "FAULT_ERRNO": str(errno.ENOSPC), "FAULT_COUNTER": str(path),
            "FAULT_FILE": "launch.jsonl", "ASAN_OPTIONS": "verify_asan_link_order=0"}


def test_disk_full_for_a_while_is_reported_once_and_nothing_is_lost(launch):
    launch.put(*(f"{n}.wav" for n in range(12)))
    out, err = launch.run(*COPY, env=faulty(launch, 1, 1))
    assert err.count("No space left on device") == 1, (out, err)
    assert "launch.jsonl" in err
    assert [line["event"] for line in launch.history()].count("done") == 12
    out, _ = launch.run(*COPY)
    assert "12 files are already done" in out


def test_disk_full_to_the_end_is_an_error_and_the_work_is_done_again(launch):
    launch.put(*(f"{n}.wav" for n in range(12)))
    out, err = launch.run(*COPY, env=faulty(launch, 0, 1 << 40), code=1)
    assert "12 of 12 files done" in out
    assert "results could not be recorded" in err and "No space left on device" in err
    summary, _ = launch.summary(*COPY)
    assert summary["files_done"] == 12


# A libsndfile that prints, and crashes on files that begin with "K".
DECODER = r"""
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>
struct info { int64_t frames; int samplerate, channels, format, sections, seekable; };
void *sf_open_fd(int fd, int mode, struct info *info, int close_fd)
{
	char first = 0;
	fprintf(stderr, "LIBRARY MESSAGE\n");
	printf("LIBRARY MESSAGE\n");
	fflush(stdout);
	if (pread(fd, &first, 1, 0) == 1 && first == 'K')
		raise(SIGSEGV);
	info->frames = 3000;
	info->samplerate = 1000;
	return info;
}
int sf_close(void *file) { return 0; }
"""


def test_decoder_that_crashes_costs_one_duration_and_never_runs_in_the_launcher(launch):
    library = launch.directory / "lib"
    library.mkdir()
    subprocess.run(["cc", "-w", "-shared", "-fPIC", "-x", "c", "-", "-o", library / "libsndfile.so.1"], input=DECODER, text=True, check=True,
                   timeout=LIMIT)
    launch.put("a-wait.wav", "b-wait.wav", "c.wav", "d.wav")
    (launch.input / "c.wav").write_bytes(b"K" * 10)
    words = ("--json", "summary.json", "--worker-command", f"{sys.executable} worker.py")
    (launch.directory / "worker.py").write_text((launch.directory / "worker.py").read_text().replace(", duration=2.5", ""))
    process = launch.start(*words, env={"LD_LIBRARY_PATH": str(library)})
    launch.wait_for_workers()
    reading = [pid for pid in launch.processes() if b"--read-durations" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert "libsndfile" not in pathlib.Path(f"/proc/{process.pid}/maps").read_text()
    assert process.pid not in reading
    (launch.directory / "go").touch()
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, err
    summary = json.loads((launch.directory / "summary.json").read_text())
    assert summary["files_done"] == 4 and summary["audio_seconds"] == 9.0
    assert "LIBRARY MESSAGE" not in out + err
    launch.until(lambda: not launch.processes(), "the end of all processes")


def put_ffprobe(launch, script):
    """An ffprobe that writes a line to `probed`, then runs the script; the environment to use it."""
    tools = launch.directory / "tools"
    tools.mkdir()
    (tools / "ffprobe").write_text(f"#!/bin/sh\necho >>probed\n{script}\n")
    (tools / "ffprobe").chmod(0o755)
    worker = launch.directory / "worker.py"
    worker.write_text(worker.read_text().replace(", duration=2.5", ""))
    return {"PATH": f"{tools}:{os.environ['PATH']}"}


def count_probed(launch):
    path = launch.directory / "probed"
    return len(path.read_text()) if path.exists() else 0


def test_files_do_not_wait_for_a_decoder_and_their_durations_are_counted_later(launch):
    """Another user can write a file that keeps ffprobe busy."""
    env = put_ffprobe(launch, "until [ -e answer ]; do sleep 0.01; done; echo 7.5")
    launch.put("a.m4a", "b.m4a", "c.m4a", "d.m4a")
    launch.put("z-wait.m4a", size=1)
    process = launch.start("--json", "summary.json", "--gpus", "sim:1", "--pattern", "*", *PROGRAM, env=env)
    launch.until(lambda: process.poll() is not None or launch.notes("begin").count("z-wait.m4a"), "the last file")
    launch.until(lambda: process.poll() is not None or len(launch.history()) == 5, "the results of the other files")
    assert process.poll() is None and count_probed(launch) == 1
    (launch.directory / "answer").touch()
    launch.until(lambda: process.poll() is not None or count_probed(launch) == 5, "the durations")
    (launch.directory / "go").touch()
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, err
    summary = json.loads((launch.directory / "summary.json").read_text())
    assert summary["files_done"] == 5 and summary["audio_seconds"] == 5 * 7.5
    assert summary["rtf"] == pytest.approx(summary["processing_seconds"] / (5 * 7.5), rel=1e-2)


@pytest.mark.parametrize("words", [("--watch", *PROGRAM), ("--dry-run",)])
def test_interrupt_does_not_wait_for_a_decoder(launch, words):
    env = put_ffprobe(launch, "exec sleep 1000")
    launch.put("a.m4a", "b.m4a")
    process = launch.start("--pattern", "*", *words, env=env)
    launch.until(lambda: process.poll() is not None or count_probed(launch), "ffprobe")
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode in (0, 130) and time.monotonic() - begin < 3, (process.returncode, err)
    launch.until(lambda: not launch.processes(), "the end of all processes")


def test_decoder_that_is_slow_for_several_files_is_not_used_anymore(launch):
    """The CPU time for each file is limited."""
    env = put_ffprobe(launch, "while :; do :; done")
    launch.put(*(f"{i}.m4a" for i in range(10)))
    out, err = launch.run("--pattern", "*", "--dry-run", env=env)
    assert "10 files to do" in out and count_probed(launch) == 3, (out, err)
    assert err.count("no more durations are read") == 1, err


def test_durations_of_other_recordings_come_from_ffprobe(launch):
    tools = launch.directory / "tools"
    tools.mkdir()
    (tools / "ffprobe").write_text("#!/bin/sh\necho \"$*\" >>probed\necho 7.5\n")
    (tools / "ffprobe").chmod(0o755)
    launch.put("a.m4a", "b.webm", "c.txt")
    summary, _ = launch.summary("--pattern", "*", *COPY, env={"PATH": f"{tools}:{os.environ['PATH']}"})
    assert summary["files_done"] == 3 and summary["audio_seconds"] == 15.0
    probed = (launch.directory / "probed").read_text()
    assert f"file:{launch.input.resolve()}/a.m4a" in probed and "-protocol_whitelist file -format_whitelist aac," in probed
    assert "c.txt" not in probed  # no process for files that are not recordings


def test_output_that_cannot_be_written_fails_the_file(launch):
    launch.put("a.wav", size=100_000)
    launch.put("b.wav", size=1_000)
    summary, _ = launch.summary("--", "sh", "-c", 'ulimit -f 20; exec cp -- "$1" "$2"', "x", "{file}", "{output}/", code=1)
    assert summary["files_done"] == 1
    assert summary["failures"][0]["file"] == "a.wav"


def test_output_folder_that_is_a_file_fails_that_file(launch):
    launch.put("a.wav", "b.wav")
    launch.output.mkdir()
    (launch.output / "a").write_text("in the way")
    summary, _ = launch.summary(*COPY, code=1)
    assert summary["files_done"] == 1
    assert "Not a directory" in summary["failures"][0]["error"]


def test_rubbish_in_the_history_is_skipped_with_a_warning(launch):
    launch.put("a.wav")
    launch.run(*COPY)
    with (launch.output / "launch.jsonl").open("ab") as file:
        file.write(b"rubbish\n\xff\0\n{\"event\":\"done\",\"file\":\"a.wav\"")
    out, err = launch.run(*COPY)
    assert "1 file is already done" in out
    assert "3 bad lines skipped, the first is line 3" in err


def test_results_of_another_input_folder_are_kept(launch):
    launch.put("a.wav")
    launch.run(*COPY)
    (launch.directory / "in").rename(launch.directory / "old")
    launch.input.mkdir()
    launch.put("a.wav", size=99)
    (launch.directory / "old").rename(launch.directory / "in2")
    (launch.directory / "in").rename(launch.directory / "new")
    _, err = launch.run("--input-dir", "new", *COPY, code=2)
    assert "--force" in err and "--output-dir" in err
    launch.run("--input-dir", "new", "--force", *COPY)
    assert (launch.output / "a/a.wav").stat().st_size == 99


@pytest.mark.parametrize("folder", ["in", "out"])
def test_folder_that_is_renamed_during_a_launch_is_not_used_at_its_old_path(launch, folder):
    """Another user may have the old path, for example in /tmp."""
    launch.put("wait1.wav", "wait2.wav", size=1000)
    launch.put("b.wav")
    process = launch.start("--max-failures", "100", *PROGRAM)  # nothing is handed out in advance
    launch.wait_for_workers()
    (launch.directory / folder).rename(launch.directory / "kept")
    (launch.directory / folder).mkdir()
    (launch.directory / folder / "b.wav").write_text("another file")
    (launch.directory / "go").touch()
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 1, (out, err)
    assert ("the input folder was renamed or replaced" if folder == "in" else "one of its parent folders was renamed or replaced") in out, (out, err)
    assert "b.wav" not in launch.notes("begin")
    assert sorted(p.name for p in (launch.directory / folder).iterdir()) == ["b.wav"]
