# SPDX-License-Identifier: MIT
"""`gpuq launch` as a user runs it: real files and real workers."""
import json
import os
import pathlib
import re
import signal
import subprocess

import pytest

from launch_lab import COPY, GPUQ, LIMIT, PROGRAM
from terminal import Terminal

# ---- Function ----------------------------------------------------------------------


def test_each_file_is_worked_on_once_and_its_results_have_a_folder(launch):
    launch.put("a.wav", "deep/b.wav", "c.mp3")
    out, err = launch.run("--recursive", *COPY)
    assert "2 of 2 files done" in out and err == ""
    assert (launch.output / "a/a.wav").read_bytes() == b"x" * 10
    assert (launch.output / "deep/b/b.wav").exists()
    assert not (launch.output / "c").exists()
    out, _ = launch.run("--recursive", *COPY)
    assert "2 files are already done and skipped" in out
    out, _ = launch.run("--recursive", "--force", *COPY)
    assert "2 of 2 files done" in out


def test_summary_for_programs_has_all_fields(launch):
    launch.put("a.wav", "b.wav", "fail.wav")
    summary, _ = launch.summary(*PROGRAM, code=1)
    assert {name: summary[name] for name in ("files_total", "files_done", "files_failed", "files_skipped")} == {
        "files_total": 3, "files_done": 2, "files_failed": 1, "files_skipped": 0}
    assert summary["audio_seconds"] == 5.0
    assert 0 < summary["processing_seconds"] < LIMIT and 0 < summary["wall_seconds"] < LIMIT
    # Both values are rounded to microseconds, which is a large part of the time of such files.
    assert summary["rtf"] == pytest.approx(summary["processing_seconds"] / 5, rel=1e-2, abs=1e-6)
    assert 0 < summary["loading_seconds"] < summary["wall_seconds"]
    working = summary["wall_seconds"] - summary["loading_seconds"]
    assert summary["speedup"] == pytest.approx(summary["processing_seconds"] / working, rel=1e-2, abs=1e-3)
    assert summary["skew"] >= 0
    assert summary["failures"] == [{"file": "fail.wav", "error": "cannot do fail.wav"}]
    assert [gpu["gpu"] for gpu in summary["gpus"]] == [0, 1]
    assert set(summary["gpus"][0]) == {"gpu", "files", "failed", "audio_seconds", "processing_seconds", "share"}
    assert sum(gpu["files"] for gpu in summary["gpus"]) == 2
    assert sum(gpu["share"] for gpu in summary["gpus"]) == pytest.approx(1)


def test_folders_that_are_not_searched_are_reported(launch):
    launch.put("a.wav", "below/b.wav")
    _, err = launch.run(*COPY)
    assert "1 folder in 'in' is not searched; use --recursive to include it" in err
    _, err = launch.run("--recursive", *COPY)
    assert "not searched" not in err


def test_without_libsndfile_files_are_done_and_no_duration_is_known(launch):
    launch.put_wave("a.wav", 3)
    summary, _ = launch.summary(*COPY)
    assert summary["audio_seconds"] == 3.0
    broken = launch.directory / "lib" / "libsndfile.so.1"
    broken.parent.mkdir()
    broken.write_text("not a library")
    summary, _ = launch.summary("--force", *COPY, env={"LD_LIBRARY_PATH": str(broken.parent)})
    assert summary["files_done"] == 1 and summary["audio_seconds"] is None


def test_gpus_option_selects_from_the_simulated_gpus_of_the_variable(launch):
    launch.put("a.wav", "b.wav")
    for spec, gpus in (("auto", [0, 1]), ("all", [0, 1]), ("0-1", [0, 1]), ("1", [1])):
        summary, _ = launch.summary("--force", "--gpus", spec, *PROGRAM)
        assert [gpu["gpu"] for gpu in summary["gpus"]] == gpus, spec


def test_json_on_standard_output_is_the_only_output_there(launch):
    launch.put("a.wav", "fail.wav")
    out, err = launch.run("--json", "-", *PROGRAM, code=1)
    assert json.loads(out)["files_done"] == 1
    assert "1 of 2 files done, 1 failed" in err


def test_settings_reach_the_worker(launch):
    launch.put("a.wav")
    launch.run("--model-size", "large-v3", "--set", "beam=5=6", "--", "sh", "-c", 'echo "$@" > "$0/said"', "{output}",
               "{model_size}", "{language}", "{beam}", "{stem}", "{name}")
    assert (launch.output / "a/said").read_text() == "large-v3 auto 5=6 a a.wav\n"
    assert launch.history()[0]["settings"] == ["model_size=large-v3", "beam", "language=auto"]


def test_settings_can_be_passed_in_variables(launch):
    """They count like --set after all other options, and other commands do not inherit them."""
    launch.put("a.wav")
    launch.run("--model-size", "small", "--set", "beam=1", "--", "sh", "-c", 'echo "$@" > "$0/said"; env > "$0/env"', "{output}", "{model_size}",
               "{beam}", "{x}", env={"GPUQ_LAUNCH_SET_0": "beam=5=6", "GPUQ_LAUNCH_SET_1": "x=", "GPUQ_LAUNCH_SET_2": "model_size=large",
                                     "GPUQ_LAUNCH_SET_4": "beam=7"})
    assert (launch.output / "a/said").read_text() == "large 5=6 \n"
    variables = (launch.output / "a/env").read_text()
    assert "GPUQ_LAUNCH_SET_0" not in variables and "GPUQ_LAUNCH_SET_2" not in variables
    _, err = launch.run("--", "true", code=2, env={"GPUQ_LAUNCH_SET_0": "none"})
    assert "'none': expected KEY=VALUE" in err


def test_audio_seconds_are_read_from_the_files(launch):
    launch.put_wave("a.wav", 1.5)
    launch.put_wave("b.wav", 3)
    summary, _ = launch.summary(*COPY)
    assert summary["audio_seconds"] == pytest.approx(4.5)
    assert summary["rtf"] > 0


def test_dry_run_prints_the_plan_and_changes_nothing(launch):
    launch.put_wave("a.wav", 60)
    launch.put_wave("b.wav", 30)
    launch.put_wave("c.wav", 30)
    out, _ = launch.run("--dry-run", *COPY)
    assert "3 files to do" in out and "2m 00s of audio" in out and "largest: a.wav" in out
    assert out.count("50.0%") == 2 and "unknown duration" in out
    assert not launch.output.exists()
    launch.run(*COPY)
    launch.put_wave("d.wav", 10)
    out, _ = launch.run("--dry-run", *COPY)
    assert "1 file to do" in out and "3 done before" in out and "it will take a" in out
    assert not (launch.output / "d").exists()


def test_dry_run_with_nothing_left_says_how_to_do_it_again(launch):
    launch.put("a.wav")
    launch.run(*COPY)
    out, _ = launch.run("--dry-run", *COPY)
    assert out == "1 file is already done and skipped; use --force to process it again\n"
    assert launch.run(*COPY)[0] == out
    launch.put("b.wav")
    launch.run(*COPY)
    out, _ = launch.run("--dry-run", *COPY)
    assert out == "2 files are already done and skipped; use --force to process them again\n"
    assert launch.run(*COPY)[0] == out


def test_dry_run_of_files_without_audio_estimates_the_time_from_their_size(launch):
    launch.put("a.wav", size=1000)
    slow = ["--gpus", "sim:1", "--", "sh", "-c", "sleep 0.1"]
    assert "no record of an earlier run" in launch.run("--dry-run", *slow)[0]
    launch.run(*slow)
    launch.put("b.wav", size=3600 * 1000 * 10)
    out, _ = launch.run("--dry-run", *slow)
    assert "it will take about " in out and "/s in earlier runs, 1 worker)" in out
    hours = [word for word in out.split("it will take about ")[1].split(" (")[0].split() if word[-1] in "hd"]
    assert hours, out  # 0.1 s or more for 1000 bytes: an hour or more for these


def test_summary_for_a_closed_standard_output_is_refused(launch):
    result = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *launch.words("--json", "-", *COPY)], cwd=launch.directory,
                            env=launch.environment, stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=False)
    assert result.returncode == 2 and "standard output is closed; name the file to write, as in --json FILE" in result.stderr, result


def test_launch_into_an_output_folder_in_use_keeps_the_old_summary(launch):
    launch.put("a.wav", "wait.wav")
    (launch.directory / "summary.json").write_text("old\n")
    first = launch.start(*PROGRAM)
    launch.until(lambda: (launch.output / "launch.lock").exists(), "the lock")
    _, err = launch.run("--json", "summary.json", *PROGRAM, code=1)
    assert "another gpuq launch is using this output folder" in err
    assert (launch.directory / "summary.json").read_text() == "old\n"
    (launch.directory / "go").touch()
    assert first.wait(LIMIT) == 0


def test_summary_does_not_replace_the_record_of_the_launch(launch):
    launch.put("a.wav")
    launch.run(*COPY)
    record = launch.output / "launch.jsonl"
    before = record.read_bytes()
    _, err = launch.run("--json", record, *COPY, code=2)
    assert "it is also the record of this launch" in err
    assert record.read_bytes() == before


def test_dry_run_and_json_are_refused_together(launch):
    launch.put("a.wav")
    _, err = launch.run("--dry-run", "--json", "summary.json", *COPY, code=2)
    assert "--json" in err and "--dry-run" in err
    assert not (launch.directory / "summary.json").exists()


def test_dry_run_needs_no_worker(launch):
    launch.put("a.wav")
    out, _ = launch.run("--dry-run")
    assert "1 file to do" in out


def test_name_with_a_special_beginning_does_not_begin_an_argument(launch):
    """The tool executes '|command', like sox, and 'run:command', like ImageMagick with its own scripts."""
    tool = launch.directory / "tool"
    tool.write_text(f"#!/bin/sh\ncd '{launch.directory}'\ncase $1 in '|'*) eval \"${{1#|}}\" ;; run:*) eval \"${{1#run:}}\" ;; esac\n")
    tool.chmod(0o755)
    launch.put("|touch made;.wav", "run:touch made;.wav", "@x.wav", "user@host:x.wav", "12:30.wav", "a.wav")
    summary, _ = launch.summary("--", str(tool), "{name}", code=1)
    assert {failure["file"] for failure in summary["failures"]} == {"@x.wav", "|touch made;.wav", "run:touch made;.wav", "user@host:x.wav", "12:30.wav"}
    assert all("begins with a special character" in failure["error"] and "./{name}" in failure["error"] for failure in summary["failures"])
    summary, _ = launch.summary("--", str(tool), "./{name}")
    assert summary["files_done"] == 6
    assert not (launch.directory / "made").exists()


def test_advice_of_a_refusal_works_as_it_is_printed(launch):
    """The user pastes it into a shell."""
    launch.put("a b.wav")
    summary, _ = launch.summary("--", "perl", "-ne", "print", "{file}", code=1)
    advice = re.search(r"as in: (bash -c '.*')$", summary["failures"][0]["error"]).group(1)
    line = f"'{GPUQ}' launch --input-dir in --output-dir out -- {advice}"
    subprocess.run(["sh", "-c", line], cwd=launch.directory, env=launch.environment, check=True, timeout=LIMIT, capture_output=True)
    assert (launch.output / "a b/x").read_bytes() == (launch.input / "a b.wav").read_bytes()
    summary, _ = launch.summary("--", "true", "in={file}", code=1)
    advice = re.search(r"with Hydra: ('in=.*')\)$", summary["failures"][0]["error"]).group(1)
    line = f"'{GPUQ}' launch --input-dir in --output-dir out2 -- test {advice} = 'in=${{{{oc.env:GPUQ_FILE}}}}'"
    subprocess.run(["sh", "-c", line], cwd=launch.directory, env=launch.environment, check=True, timeout=LIMIT, capture_output=True)


def test_input_files_of_sed_and_sox_have_any_name(launch):
    sox = launch.directory / "sox"
    sox.write_text("#!/bin/sh\nexec cp -- \"$1\" \"$2\"\n")
    sox.chmod(0o755)
    launch.put("a b.wav", "c (1).wav")
    for command in ((sox, "{file}", "{output}/x.wav"), ("sed", "-n", "1p", "{file}"), ("sed", "-n", "-e", "1p", "{file}")):
        summary, _ = launch.summary("--force", "--", *command)
        assert summary["files_done"] == 2, summary


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


def test_failed_names_of_any_bytes_are_printed_safely(launch):
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


@pytest.mark.parametrize(("name", "folder"), [("in.wav", "in.wav"), ("in/b.wav", "in+b")])
def test_input_folder_is_not_a_folder_for_results(launch, name, folder):
    """The worker would replace the file that it reads, or add results to the input."""
    launch.put(name)
    before = launch.input.joinpath(name).read_bytes()
    for words in ((), ("--force",)):
        launch.run("--output-dir", ".", "--recursive", *words, "--", "sh", "-c", 'echo result > "$0/$1"', "{output}", "{name}")
        assert launch.input.joinpath(name).read_bytes() == before
        assert os.listdir(launch.directory / folder) == [os.path.basename(name)]


def test_record_of_a_run_is_not_input_of_the_next(launch):
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
    shown.shows("running       wait.wav")
    shown.shows("failed: fail.wav: cannot do fail.wav")
    (launch.directory / "go").touch()
    assert shown.wait() == 1
    text = shown.screen.everything()
    assert shown.screen.cursor
    assert text.count("gpuq launch  ") == 1 and re.search(r"━  100%  3/3\n1 failed · .*took ", text), text
    assert text.count("cannot do fail.wav") == 1, text


def test_panel_of_an_empty_watched_folder_claims_no_progress(launch, terminal):
    shown = terminal("--watch", *PROGRAM)
    shown.shows("Watching for new files")
    assert "100%" not in shown.screen.everything() and "0/0" not in shown.screen.everything()
    launch.put("a.wav")
    shown.shows("100%  1/1")
    os.kill(shown.pid, signal.SIGINT)
    assert shown.wait() == 0


# ---- Wrong usage -------------------------------------------------------------------


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


def test_summary_that_cannot_be_written_to_standard_output_is_reported(launch):
    launch.put("a.wav")
    with open("/dev/full", "w") as full:
        _, err = launch.run("--json", "-", *COPY, code=1, stdout=full)
    assert "standard output" in err and "No space left" in err


def test_all_mistakes_are_reported_at_once(launch):
    _, err = launch.run("--input-dir", "nowhere", "--gpus", "7", "--pattern", "a/b", "--", "no-such-program", code=2)
    for word in ("nowhere", "GPU 7", "a/b", "no-such-program"):
        assert word in err


def test_without_a_folder_it_says_what_is_missing(launch):
    result = subprocess.run([GPUQ, "launch"], capture_output=True, text=True, timeout=LIMIT, check=False,
                            env=launch.environment)
    assert result.returncode == 2 and "--input-dir" in result.stderr


def test_missing_launcher_program_exits_2_and_says_so(launch):
    _, err = launch.run(env={"GPUQ_LAUNCH": "/nowhere/gpuq-launch"}, code=2)
    assert err == "gpuq: $GPUQ_LAUNCH '/nowhere/gpuq-launch' cannot be executed: No such file or directory\n"


def test_help_names_every_option_that_the_page_names(launch):
    text, _ = launch.run("--help")
    page = (pathlib.Path(os.environ["GD_SOURCE"]) / "man/gpuq-launch.1.scd").read_text()
    options = {word.rstrip(",.=[") for word in text.split() if word.startswith("--") and len(word) > 2}
    options = {option.split("=")[0] for option in options}
    assert len(options) > 18
    assert [option for option in options - {"--help", "--usage", "--version"} if f"*{option}*" not in page] == []


# ---- Plug-ins ----------------------------------------------------------------------


def test_plug_in_works_on_files_and_is_listed(launch):
    source = launch.directory / "noop.c"
    source.write_text('#include <gpu_dispatch_launch.h>\n'
                      'static int process(struct gd_worker *w, void *s, const struct gd_bytes *t)\n'
                      '{ struct gd_file f; (void)s; int r = gd_file_read(t, &f, sizeof(f)); return r < 0 ? r : gd_worker_file_seconds(w, 1); }\n'
                      'const struct gd_plugin *gd_plugin_get(void)\n'
                      '{ static const struct gd_worker_ops ops = {.size = sizeof(ops), .process = process};\n'
                      '  static const struct gd_plugin plugin = {.size = sizeof(plugin), .version = GD_PLUGIN_VERSION, .ops = &ops};\n'
                      '  return &plugin; }\n')
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
