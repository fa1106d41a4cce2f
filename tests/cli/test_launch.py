# SPDX-License-Identifier: MIT
"""`gpuq launch` as people type it: real files, real workers, and everything that goes wrong with them."""
import errno
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import wave

import pytest

import processes
from terminal import Terminal

GPUQ = os.environ["GPUQ"]
FAULTS = pathlib.Path(os.environ["GD_BUILD"]) / "tests/cli/libfaults.so"
LIMIT = 120  # seconds, for anything that takes milliseconds

# A persistent worker that does what the names of files say, and notes what it does.
WORKER = r"""
import base64, json, os, sys, time
def path(task, key): return os.fsdecode(base64.b64decode(task[key + "_b64"])) if key + "_b64" in task else task[key]
def say(**what): print(json.dumps(what), flush=True)
def note(what): open("notes", "a", errors="replace").write(what + "\n")
setup = json.loads(sys.stdin.readline())
note("setup " + str(os.getpid()))
if setup["settings"].get("broken"): say(type="error", error="no model called " + setup["settings"]["model_size"]); sys.exit(1)
say(type="ready")
for line in sys.stdin:
    task = json.loads(line)
    name = os.path.basename(path(task, "file"))
    note("begin " + name)
    if "kill" in name: os.kill(os.getpid(), 9)
    if "once" in name and not os.path.exists("once"): open("once", "w"); os.kill(os.getpid(), 9)
    while "wait" in name and not os.path.exists("go"): time.sleep(0.005)
    if "fail" in name: say(id=task["id"], ok=False, error="cannot do " + name); continue
    open(os.path.join(path(task, "output_dir"), "result.txt"), "w").write("done")
    note("end " + name)
    say(id=task["id"], ok=True, duration=2.5)
"""


class Launch:
    """A folder with files, and gpuq launch over it."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.environment = {**os.environ, "GPUQ_GPUS": "sim:2", "LAUNCH_LAB": str(directory), "PYTHONUNBUFFERED": "1",
                            "TERM": "xterm-256color"}
        self.environment.pop("NO_COLOR", None)
        self.program = GPUQ
        self.input = self.directory / "in"
        self.output = self.directory / "out"
        self.input.mkdir()
        (self.directory / "worker.py").write_text(WORKER)
        self.started = []

    def put(self, *names, size=10):
        for name in names:
            path = os.path.join(os.fsencode(self.input), os.fsencode(name))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(b"x" * size)

    def put_wave(self, name, seconds):
        with wave.open(str(self.input / name), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(8000)
            file.writeframes(b"\0\0" * int(8000 * seconds))

    def words(self, *words):
        return [self.program, "launch", "--input-dir", "in", "--output-dir", "out", *map(str, words)]

    def start(self, *words, **options):
        process = subprocess.Popen(self.words(*words), cwd=self.directory, env={**self.environment, **options.pop("env", {})},
                                   stdin=subprocess.DEVNULL, stdout=options.pop("stdout", subprocess.PIPE),
                                   stderr=options.pop("stderr", subprocess.PIPE), text=True, errors="surrogateescape", **options)
        self.started.append(process)
        return process

    def run(self, *words, code=0, **options):
        process = self.start(*words, **options)
        out, err = process.communicate(timeout=LIMIT)
        if code is not None:
            assert process.returncode == code, (words, process.returncode, out, err)
        return out, err

    def summary(self, *words, code=0, **options):
        """What --json says, and standard error."""
        _, err = self.run("--json", "summary.json", *words, code=code, **options)
        return json.loads((self.directory / "summary.json").read_text()), err

    def notes(self, word):
        path = self.directory / "notes"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.partition(" ")[2] for line in lines if line.startswith(word + " ")]

    def history(self):
        return [json.loads(line) for line in (self.output / "launch.jsonl").read_text().splitlines()]

    def until(self, condition, what="the event"):
        return processes.until(condition, LIMIT, lambda: what)

    def processes(self):
        """PIDs of all processes of this launch, whatever they are."""
        return processes.with_variable("LAUNCH_LAB", self.directory)

    def end(self):
        (self.directory / "go").touch()
        processes.end_started(self.started)


@pytest.fixture(name="launch")
def make_launch(tmp_path):
    made = Launch(tmp_path)
    yield made
    made.end()


PROGRAM = ("--worker-command", f"{sys.executable} worker.py")
COPY = ("--", "cp", "--", "{file}", "{output}/")


# ---- What it does ---------------------------------------------------------------


def test_each_file_is_worked_on_once_and_its_results_have_a_folder(launch):
    launch.put("a.wav", "deep/b.wav", "c.mp3")
    out, err = launch.run("--recursive", *COPY)
    assert "2 of 2 files done" in out and err == ""
    assert (launch.output / "a/a.wav").read_bytes() == b"x" * 10
    assert (launch.output / "deep/b/b.wav").exists()
    assert not (launch.output / "c").exists()
    out, _ = launch.run("--recursive", *COPY)
    assert "2 files are done already and skipped" in out
    out, _ = launch.run("--recursive", "--force", *COPY)
    assert "2 of 2 files done" in out


def test_summary_for_programs_has_all_fields(launch):
    launch.put("a.wav", "b.wav", "fail.wav")
    summary, _ = launch.summary(*PROGRAM, code=1)
    assert {name: summary[name] for name in ("files_total", "files_done", "files_failed", "files_skipped")} == {
        "files_total": 3, "files_done": 2, "files_failed": 1, "files_skipped": 0}
    assert summary["audio_seconds"] == 5.0
    assert 0 < summary["processing_seconds"] < LIMIT and 0 < summary["wall_seconds"] < LIMIT
    # Both are told to the microsecond, which is much of what such files take.
    assert summary["rtf"] == pytest.approx(summary["processing_seconds"] / 5, rel=1e-2, abs=1e-6)
    assert summary["speedup"] == pytest.approx(summary["processing_seconds"] / summary["wall_seconds"], rel=1e-2, abs=1e-3)
    assert summary["skew"] >= 0
    assert summary["failures"] == [{"file": "fail.wav", "error": "cannot do fail.wav"}]
    assert [gpu["gpu"] for gpu in summary["gpus"]] == [0, 1]
    assert set(summary["gpus"][0]) == {"gpu", "files", "failed", "audio_seconds", "processing_seconds", "share"}
    assert sum(gpu["files"] for gpu in summary["gpus"]) == 2
    assert sum(gpu["share"] for gpu in summary["gpus"]) == pytest.approx(1)


def test_json_on_standard_output_stands_there_alone(launch):
    launch.put("a.wav", "fail.wav")
    out, err = launch.run("--json", "-", *PROGRAM, code=1)
    assert json.loads(out)["files_done"] == 1
    assert "1 of 2 files done, 1 failed" in err


def test_settings_reach_the_worker(launch):
    launch.put("a.wav")
    launch.run("--model-size", "large-v3", "--set", "beam=5=6", "--", "sh", "-c", 'echo "$@" > "$0/said"', "{output}",
               "{model_size}", "{language}", "{beam}", "{stem}", "{name}")
    assert (launch.output / "a/said").read_text() == "large-v3 en 5=6 a a.wav\n"


def test_audio_seconds_are_read_from_the_files(launch):
    launch.put_wave("a.wav", 1.5)
    launch.put_wave("b.wav", 3)
    summary, _ = launch.summary(*COPY)
    assert summary["audio_seconds"] == pytest.approx(4.5)
    assert summary["rtf"] > 0


def test_dry_run_tells_and_touches_nothing(launch):
    launch.put_wave("a.wav", 60)
    launch.put_wave("b.wav", 30)
    launch.put_wave("c.wav", 30)
    out, _ = launch.run("--dry-run", *COPY)
    assert "3 files to do" in out and "2m 00s of audio" in out and "largest: a.wav" in out
    assert out.count("50.0%") == 2 and "is not known" in out
    assert not launch.output.exists()
    launch.run(*COPY)
    launch.put_wave("d.wav", 10)
    out, _ = launch.run("--dry-run", *COPY)
    assert "1 file to do" in out and "3 done before" in out and "it will take about" in out
    assert not (launch.output / "d").exists()


def test_dry_run_with_nothing_left_says_how_to_do_it_again(launch):
    launch.put("a.wav")
    launch.run(*COPY)
    out, _ = launch.run("--dry-run", *COPY)
    assert out == "1 file is done already and skipped; --force does it again\n"
    assert launch.run(*COPY)[0] == out
    launch.put("b.wav")
    launch.run(*COPY)
    out, _ = launch.run("--dry-run", *COPY)
    assert out == "2 files are done already and skipped; --force does them again\n"
    assert launch.run(*COPY)[0] == out


def test_dry_run_of_files_that_are_no_audio_tells_the_time_by_their_size(launch):
    launch.put("a.wav", size=1000)
    slow = ["--gpus", "sim:1", "--", "sh", "-c", "sleep 0.1"]
    assert "no earlier run" in launch.run("--dry-run", *slow)[0]
    launch.run(*slow)
    launch.put("b.wav", size=3600 * 1000 * 10)
    out, _ = launch.run("--dry-run", *slow)
    assert "it will take about " in out and "/s in earlier runs, 1 worker)" in out
    hours = [word for word in out.split("it will take about ")[1].split(" (")[0].split() if word[-1] in "hd"]
    assert hours, out  # 0.1 s or more for 1000 bytes: an hour or more for these


def test_dry_run_and_json_are_refused_together(launch):
    launch.put("a.wav")
    _, err = launch.run("--dry-run", "--json", "summary.json", *COPY, code=2)
    assert "--json" in err and "--dry-run" in err
    assert not (launch.directory / "summary.json").exists()


def test_dry_run_needs_no_worker(launch):
    launch.put("a.wav")
    out, _ = launch.run("--dry-run")
    assert "1 file to do" in out


NAMES = ["a b.wav", "-n.wav", "--force.wav", 'quote".wav', "it's.wav", "new\nline.wav", "{file}.wav", "$(touch x).wav",
         "back\\slash.wav", b"\xff\xfe.wav", "ünï.wav", "*.wav", "tab\t.wav", "dir with blank/ x .wav", "\x1b[31m.wav"]


@pytest.mark.parametrize("how", [COPY, PROGRAM], ids=["command", "program"])
def test_files_with_names_of_any_bytes_are_done_once(launch, how):
    launch.put(*NAMES)
    summary, _ = launch.summary("--recursive", *how)
    assert summary["files_done"] == len(NAMES)
    for name in NAMES:
        folder = os.path.join(os.fsencode(launch.output), os.fsencode(name)[:-4])
        assert os.listdir(folder), name
    assert not (launch.directory / "x").exists()
    summary, _ = launch.summary("--recursive", *how)
    assert (summary["files_done"], summary["files_skipped"]) == (0, len(NAMES))


def test_failed_names_of_any_bytes_are_told_safely(launch):
    launch.put(b"\xff\x1b[31m.wav")
    out, _ = launch.run("--json", "summary.json", "--", "false", code=1)
    assert "\x1b" not in out and "\\x1b" in out
    failure = json.loads((launch.directory / "summary.json").read_text())["failures"][0]
    assert failure["file_b64"] == "/xtbMzFtLndhdg=="


def test_two_files_of_one_stem_never_share_a_folder(launch):
    launch.put("b.wav")
    launch.run("--pattern", "*.wav", "--pattern", "*.mp3", *COPY)
    launch.put("b.mp3", "c.mp3", "c.wav")
    for _ in range(2):
        launch.run("--pattern", "*.wav", "--pattern", "*.mp3", "--force", *COPY)
        assert os.listdir(launch.output / "b") == ["b.wav"]
        assert os.listdir(launch.output / "b.mp3") == ["b.mp3"]
        assert os.listdir(launch.output / "c") == ["c.mp3"]
        assert os.listdir(launch.output / "c.wav") == ["c.wav"]


def test_record_of_the_run_is_no_input_of_the_next(launch):
    launch.put("a.txt", "b.txt")
    words = ["--output-dir", "in", "--pattern", "*", "--", "true"]
    launch.run(*words)
    assert (launch.input / "launch.jsonl").exists()
    summary, _ = launch.summary(*words)
    assert (summary["files_total"], summary["files_skipped"]) == (2, 2)


def test_nothing_found_is_explained(launch):
    launch.put("a.mp3", "deep/b.wav")
    _, err = launch.run(*COPY)
    assert "no file in 'in' matches '*.wav'" in err and "a.mp3" in err and "--recursive" in err


def test_progress_is_plain_lines_on_a_pipe(launch):
    launch.put("a.wav", "wait.wav", size=1)
    process = launch.start(*PROGRAM)
    line = process.stdout.readline()
    assert "1 of 2 files" in line or "0 of 2 files" in line
    assert "\r" not in line and "\033" not in line
    (launch.directory / "go").touch()
    out, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 0 and "\r" not in out


@pytest.fixture
def terminal(launch):
    started = []

    def start(*words):
        made = Terminal(launch.words(*words), cwd=launch.directory,
                        env={**launch.environment, "NO_COLOR": ""})
        started.append(made)
        return made

    yield start
    for made in started:
        made.end()


def test_progress_is_a_panel_on_a_terminal(launch, terminal):
    launch.put("a.wav", "fail.wav", "wait.wav")
    shown = terminal(*PROGRAM)
    shown.shows("2/3")
    shown.shows("processing    wait.wav")
    shown.shows("failed: fail.wav: cannot do fail.wav")
    (launch.directory / "go").touch()
    assert shown.wait() == 1
    text = shown.screen.everything()
    assert shown.screen.cursor
    assert text.count("gpuq launch  ") == 1 and re.search(r"━  100%  3/3\n1 failed · .*took ", text), text
    assert "Failed:\n  fail.wav: cannot do fail.wav" in text[text.index("100%"):]


# ---- What people type wrong -------------------------------------------------------


@pytest.mark.parametrize("words, said", [
    (["--input-dir", "nowhere", *COPY], "nowhere"),
    (["--gpus", "7", *COPY], "GPU 7"),
    (["--pattern", "a/*.wav", *COPY], "a/*.wav"),
    (["--balance", "longest", *COPY], "longest-first"),
    (["--set", "x", *COPY], "KEY=VALUE"),
    (["--retries", "-1", *COPY], "--retries"),
    (["--timeout", "soon", *COPY], "--timeout"),
    (["--workers-per-gpu", "0", *COPY], "--workers-per-gpu"),
    (["--", "no-such-program", "{file}"], "no-such-program"),
    (["--", "cp", "{fiel}"], "{file}"),
    (["--worker", "./nowhere.so"], "nowhere.so"),
    (["--worker-command", "  "], "empty"),
    ([*PROGRAM, *COPY], "more than one worker"),
    (["--json", "no/such/folder/x.json", *COPY], "no/such/folder"),
    (["--output-dir", "in/a.wav/x", *COPY], "output folder"),
    (["--no-such-option"], "--no-such-option"),
])
def test_wrong_usage_is_2_and_starts_nothing(launch, words, said):
    launch.put("a.wav")
    out, err = launch.run(*words, code=2)
    assert said in err and out == ""
    assert not launch.output.exists()


def test_wrong_usage_makes_no_summary_and_keeps_an_old_one(launch):
    launch.put("a.wav")
    launch.run("--json", "summary.json", "--gpus", "7", *COPY, code=2)
    assert not (launch.directory / "summary.json").exists()
    (launch.directory / "summary.json").write_text("old")
    launch.run("--json", "summary.json", "--gpus", "7", *COPY, code=2)
    assert (launch.directory / "summary.json").read_text() == "old"


def test_summary_that_does_not_arrive_on_standard_output_is_told(launch):
    launch.put("a.wav")
    with open("/dev/full", "w") as full:
        _, err = launch.run("--json", "-", *COPY, code=1, stdout=full)
    assert "standard output" in err and "No space left" in err


def test_every_mistake_is_told_at_once(launch):
    _, err = launch.run("--input-dir", "nowhere", "--gpus", "7", "--pattern", "a/b", "--", "no-such-program", code=2)
    for word in ("nowhere", "GPU 7", "a/b", "no-such-program"):
        assert word in err


def test_without_a_folder_it_says_what_is_missing(launch):
    result = subprocess.run([GPUQ, "launch"], capture_output=True, text=True, timeout=LIMIT, check=False,
                            env=launch.environment)
    assert result.returncode == 2 and "--input-dir" in result.stderr


def test_missing_launcher_program_exits_2_and_says_so(launch):
    _, err = launch.run(env={"GPUQ_LAUNCH": "/nowhere/gpuq-launch"}, code=2)
    assert "not installed" in err


def test_help_names_every_option_that_the_page_names(launch):
    text, _ = launch.run("--help")
    page = (pathlib.Path(os.environ["GD_SOURCE"]) / "man/gpuq-launch.1.scd").read_text()
    options = {word.rstrip(",.=[") for word in text.split() if word.startswith("--") and len(word) > 2}
    options = {option.split("=")[0] for option in options}
    assert len(options) > 18
    assert [option for option in options - {"--help", "--usage", "--version"} if f"*{option}*" not in page] == []


# ---- Interrupted -------------------------------------------------------------------


def wait_for_workers(launch, count=2):
    launch.until(lambda: len(launch.notes("begin")) >= count, "workers at work")


def test_first_interrupt_finishes_what_runs_and_the_next_run_goes_on(launch):
    launch.put(*(f"wait{n}.wav" for n in range(6)))
    process = launch.start(*PROGRAM)
    wait_for_workers(launch)
    process.send_signal(signal.SIGINT)
    line = process.stderr.readline()
    assert "no new file begins; 2 are being finished" in line
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
    wait_for_workers(launch)
    process.send_signal(signals[0])
    if len(signals) > 1:  # two at a time are one to the kernel
        assert "being finished" in process.stderr.readline()
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
    wait_for_workers(launch)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    assert "being finished" not in err


def test_failure_after_an_interrupt_cancels_nothing(launch):
    launch.put("a.wav", "b.wav", "c.wav")
    script = 'echo "begin $1" >> notes; while [ ! -e "go-$1" ]; do sleep 0.01; done; [ "$1" != a ]'
    process = launch.start("--max-failures", "1", "--json", "summary.json", "--", "sh", "-c", script, "x", "{stem}")
    wait_for_workers(launch)
    process.send_signal(signal.SIGINT)
    assert "2 are being finished" in process.stderr.readline()
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
    wait_for_workers(launch)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    assert launch.processes() == []


def test_killed_launcher_leaves_nobody_and_loses_nothing(launch):
    launch.put("a.wav", "b.wav", size=100)
    launch.put("wait1.wav", "wait2.wav")
    process = launch.start(*PROGRAM)
    launch.until(lambda: (launch.output / "launch.jsonl").exists() and
                 (launch.output / "launch.jsonl").read_text().count('"done"') == 2 and len(launch.notes("begin")) == 4)
    process.kill()
    process.communicate()
    launch.until(lambda: launch.processes() == [], "the end of all")
    (launch.directory / "go").touch()
    summary, _ = launch.summary(*PROGRAM)
    assert (summary["files_done"], summary["files_skipped"]) == (2, 2)


def test_second_launcher_in_one_output_folder_is_refused(launch):
    launch.put("wait.wav")
    process = launch.start(*PROGRAM)
    wait_for_workers(launch, 1)
    _, err = launch.run(*PROGRAM, code=1)
    assert f"process {process.pid}" in err
    (launch.directory / "go").touch()
    process.communicate(timeout=LIMIT)
    assert process.returncode == 0


# ---- Faults -----------------------------------------------------------------------


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
    assert summary["failures"] == [{"file": "late.wav", "error": "the file has vanished"}]


def test_files_that_are_empty_or_not_audio_are_given_to_the_worker(launch):
    launch.put("empty.wav", size=0)
    launch.put("rubbish.wav", size=5000)
    (launch.input / "cut.wav").write_bytes(b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0")
    summary, _ = launch.summary("--", "test", "-s", "{file}", code=1)
    assert (summary["files_done"], summary["files_failed"]) == (2, 1)
    assert summary["failures"][0]["file"] == "empty.wav"
    assert summary["audio_seconds"] == 0 and summary["rtf"] == 0
    launch.run("--dry-run", "--force", *COPY)


def test_unreadable_files_and_folders_are_told_and_the_rest_is_done(tmp_path):
    del tmp_path  # nobody but root may enter it
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
            # With programs that he can get at: the build may stand in a folder that is root's alone.
            programs = directory / "programs"
            programs.mkdir()
            for name in ("gpuq", "gpuq-launch", "gpuq-probe"):
                shutil.copy(pathlib.Path(GPUQ).parent / name, programs)
            launch.program = programs / "gpuq"
        summary, err = launch.summary("--recursive", *COPY, code=1, **options)
        assert summary["files_done"] == 1
        assert summary["failures"] == [{"file": "secret.wav", "error": "Permission denied"}]
        assert "'locked' is left out: Permission denied" in err
    finally:
        launch.end()
        (launch.input / "locked").chmod(0o700)
        shutil.rmtree(directory)


def faulty(launch, passing, failing):
    """The environment in which, after `passing` writes of gpuq-launch into files, `failing` find the disk full."""
    path = launch.directory / "counter"
    path.write_bytes(struct.pack("qq", passing, failing))
    return {"LD_PRELOAD": str(FAULTS), "FAULT_CALL": "write", "FAULT_ERRNO": str(errno.ENOSPC), "FAULT_COUNTER": str(path),
            "ASAN_OPTIONS": "verify_asan_link_order=0"}


def test_disk_full_for_a_while_is_said_once_and_nothing_is_lost(launch):
    launch.put(*(f"{n}.wav" for n in range(12)))
    out, err = launch.run(*COPY, env=faulty(launch, 1, 1))
    assert err.count("No space left on device") == 1, (out, err)
    assert "launch.jsonl" in err
    assert [line["event"] for line in launch.history()].count("done") == 12
    out, _ = launch.run(*COPY)
    assert "12 files are done already" in out


def test_disk_full_to_the_end_is_an_error_and_the_work_is_done_again(launch):
    launch.put(*(f"{n}.wav" for n in range(12)))
    out, err = launch.run(*COPY, env=faulty(launch, 0, 1 << 40), code=1)
    assert "12 of 12 files done" in out
    assert "results could not be recorded" in err and "No space left on device" in err
    summary, _ = launch.summary(*COPY)
    assert summary["files_done"] == 12


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
    assert "1 file is done already" in out
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


# ---- Plug-ins -----------------------------------------------------------------------


def test_plug_in_works_on_files_and_is_listed(launch):
    source = launch.directory / "noop.c"
    source.write_text('#include <gpu_dispatch.h>\n'
                      'static int process(struct gd_worker *w, void *s, const struct gd_bytes *t)\n'
                      '{ struct gd_file f; (void)s; int r = gd_file_read(t, &f); return r < 0 ? r : gd_file_done(w, 1); }\n'
                      'const struct gd_worker_ops gd_worker = {.process = process};\n')
    subprocess.run([*os.environ.get("CC", "cc").split(), "-shared", "-fPIC", "-I",
                    pathlib.Path(os.environ["GD_SOURCE"]) / "include", source, "-o", launch.directory / "noop.so"],
                   check=True, timeout=LIMIT)
    launch.put("a.wav", "b.wav")
    summary, _ = launch.summary("--worker", "./noop.so")
    assert (summary["files_done"], summary["audio_seconds"]) == (2, 2)
    out, _ = launch.run("--list-workers", env={"GPUQ_WORKER_PATH": str(launch.directory)})
    assert "noop" in out
    summary, _ = launch.summary("--force", "--worker", "noop", env={"GPUQ_WORKER_PATH": str(launch.directory)})
    assert summary["files_done"] == 2
