# SPDX-License-Identifier: MIT
"""multigpu: the parts in the order in which a program uses them, and all of them together."""
from __future__ import annotations

import json
import multiprocessing
import os
import queue
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpu_dispatch.multigpu import (
    GPUDetector,
    LauncherOrchestrator,
    LoadBalancer,
    ResourceAllocator,
    Result,
)
from multigpu_lab import FASTER_WHISPER, LIMIT, Lab


@pytest.fixture(name="lab")
def make_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv("GPUQ_GPUS", "sim:2")
    return Lab(tmp_path)


# ---- GPUs -----------------------------------------------------------------------------------


def test_detector_finds_and_checks_gpus(lab: Lab) -> None:
    detector = GPUDetector()
    assert detector.get_available_gpus() == [0, 1]
    assert detector.is_cuda_available() is True
    assert detector.validate_gpus([1, 0]) == (True, None)
    valid, error = detector.validate_gpus([0, 7])
    assert not valid and error and "7" in error
    assert detector.validate_gpus([])[0] is False
    assert detector.validate_gpus([2**40])[0] is False


def test_detector_reads_specifications(lab: Lab) -> None:
    detector = GPUDetector()
    assert detector.parse_gpu_list("auto") == [0, 1]
    assert detector.parse_gpu_list("1,0") == [1, 0]
    for wrong in ("nonsense", "0,,1", "7"):
        with pytest.raises(ValueError):
            detector.parse_gpu_list(wrong)


def test_detector_describes_a_gpu(lab: Lab) -> None:
    info = GPUDetector().get_gpu_info(1)
    assert info["id"] == 1 and info["name"] and info["total_memory"] > 0
    with pytest.raises(ValueError, match="^GPU 7 does not exist; existing GPUs: 0, 1$"):
        GPUDetector().get_gpu_info(7)


# ---- Files ----------------------------------------------------------------------------------


def test_allocator_finds_files(lab: Lab) -> None:
    lab.put("b.wav", "a.wav", "c.mp3", ".hidden.wav", "deep/d.wav")
    allocator = ResourceAllocator()
    assert [path.name for path in allocator.discover_files(lab.input, "*.wav")] == [
        "a.wav",
        "b.wav",
    ]
    assert len(allocator.discover_files(lab.input, "**/*.wav")) == 3
    assert [path.name for path in allocator.discover_files(lab.input, ".*")] == [".hidden.wav"]
    with pytest.raises(FileNotFoundError):
        allocator.discover_files(lab.directory / "missing")
    with pytest.raises(NotADirectoryError):
        allocator.discover_files(lab.input / "a.wav")


def test_entries_that_cannot_be_examined_are_left_out(lab: Lab) -> None:
    """A name of maximum path length, and, except for root, a folder that cannot be entered."""
    (lab.input / "long.wav").symlink_to("x" * 4000)
    closed = lab.directory / "closed"
    closed.mkdir(mode=0)
    (lab.input / "closed.wav").symlink_to(closed / "x")
    (lab.input / "zzz.txt").symlink_to("x" * 4000)
    good = lab.put("a.wav")
    deep = os.open(lab.input, os.O_DIRECTORY)
    for _ in range(1500):  # deeper than Python's recursion limit; longer than PATH_MAX
        os.mkdir("folder", dir_fd=deep)
        below = os.open("folder", os.O_DIRECTORY, dir_fd=deep)
        os.close(deep)
        deep = below
    os.close(deep)
    for pattern in ("*.wav", "**/*.wav"):
        assert ResourceAllocator().discover_files(lab.input, pattern) == good
    assert ResourceAllocator().discover_files(lab.input, "*/*.wav") == []
    assert LauncherOrchestrator().run(lab.input, lab.output, worker_command=lab.command) == 0
    assert lab.began("a.wav")
    subprocess.run(["rm", "-rf", lab.input / "folder"], check=True)  # too deep for shutil.rmtree()


def test_allocator_deals_files_out_largest_first(lab: Lab) -> None:
    files = [lab.put(f"{size}.wav", size=size)[0] for size in (1, 5, 3, 4)]
    shares = ResourceAllocator().distribute_workload(files, num_gpus=2)
    assert [[path.stem for path in share] for share in shares] == [["5", "3"], ["4", "1"]]
    assert ResourceAllocator().distribute_workload([Path("a.wav"), Path("b.wav")], 3)[2] == []
    with pytest.raises(ValueError):
        ResourceAllocator().distribute_workload(files, 0)


def test_task_queue_ends_with_one_none_per_worker(lab: Lab) -> None:
    tasks = ResourceAllocator().create_task_queue(lab.put("a.wav", "b.wav"), num_workers=3)
    taken = [tasks.get(timeout=LIMIT) for _ in range(5)]
    assert taken[2:] == [None, None, None]
    assert {path.name for path in taken[:2] if path} == {"a.wav", "b.wav"}


SPAWN = """
import multiprocessing
import sys
from pathlib import Path
from gpu_dispatch.multigpu import ResourceAllocator

def count(tasks):
    sys.exit(10 + len(list(iter(tasks.get, None))))

if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    tasks = ResourceAllocator().create_task_queue([Path("a.wav"), Path("b.wav")], 1)
    process = multiprocessing.Process(target=count, args=(tasks,))
    process.start()
    process.join()
    sys.exit(process.exitcode)
"""


def test_task_queue_can_be_given_to_a_spawned_process(lab: Lab) -> None:
    script = lab.directory / "program.py"
    script.write_text(SPAWN)
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=LIMIT)
    assert result.returncode == 12, result.stderr


TAKE = """
import multiprocessing, os, sys
from pathlib import Path
from gpu_dispatch.multigpu import ResourceAllocator

os.chdir("shared")
multiprocessing.set_start_method(sys.argv[1])
tasks = ResourceAllocator().create_task_queue([Path("a.wav")], 1)
print(*iter(tasks.get, None), "-I" in multiprocessing.util._args_from_interpreter_flags())
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_making_a_task_queue_imports_no_module_from_the_current_directory(lab: Lab, method: str) -> None:
    """Python may start a process that the queue needs."""
    planted = lab.directory / "shared"
    (planted / "multiprocessing").mkdir(parents=True)
    for name in ("multiprocessing/__init__.py", "linecache.py"):
        (planted / name).write_text(f"open({str(lab.directory / 'ran')!r}, 'w').close()\n")
    (lab.directory / "program.py").write_text(TAKE)
    result = subprocess.run(
        [sys.executable, "program.py", method], cwd=lab.directory, capture_output=True, text=True, timeout=LIMIT
    )
    assert not (lab.directory / "ran").exists()
    assert (result.stdout, result.stderr) == ("a.wav False\n", "")


def test_making_a_task_queue_runs_no_python_from_the_current_directory(lab: Lab) -> None:
    """sys.executable is relative if an entry of PATH is."""
    for place, text in (("bin", None), ("shared/bin", f"#!/bin/sh\ntouch '{lab.directory}/ran'\n")):
        (lab.directory / place).mkdir(parents=True)
        python = lab.directory / place / os.path.basename(sys.executable)
        if text is None:
            python.symlink_to(os.path.realpath(sys.executable))
        else:
            python.write_text(text)
            python.chmod(0o755)
    (lab.directory / "program.py").write_text(TAKE)
    environment = {**os.environ, "PATH": f"bin:{os.environ['PATH']}",
                   "PYTHONPATH": str(Path(sys.modules["gpu_dispatch"].__file__ or "").parent.parent)}
    command = [os.path.basename(sys.executable), "program.py", "spawn"]
    result = subprocess.run(command, cwd=lab.directory, env=environment, capture_output=True, text=True, timeout=LIMIT)
    assert not (lab.directory / "ran").exists()
    assert (result.stdout, result.stderr) == ("a.wav False\n", "")


def test_workload_is_estimated(lab: Lab) -> None:
    files = lab.put("a.wav", size=30) + lab.put("b.wav", size=10)
    workload = ResourceAllocator().estimate_workload(files)
    assert workload == {
        "file_count": 2,
        "total_size": 40,
        "average_size": 20.0,
        "largest_size": 30,
        "smallest_size": 10,
        "largest_file": files[0],
        "smallest_file": files[1],
    }
    assert ResourceAllocator().estimate_workload([])["file_count"] == 0


# ---- Figures --------------------------------------------------------------------------------


def result_of(
    file: str, gpu: int, processing: float, audio: float, error: str | None = None
) -> Result:
    return {
        "status": "error" if error else "success",
        "file": file,
        "gpu_id": gpu,
        "duration": audio,
        "processing_time": processing,
        "error": error,
        "output_dir": None,
        "skipped": False,
    }


def test_balancer_is_empty_at_first() -> None:
    balancer = LoadBalancer(gpu_ids=[0, 1])
    assert balancer.get_overall_rtf() == 0.0 and balancer.get_speedup() == 0.0
    assert set(balancer.get_per_gpu_stats()) == {0, 1}
    balancer.print_summary(0)


def test_balancer_collects_and_sums_up(capsys: pytest.CaptureFixture[str]) -> None:
    results: Any = queue.Queue()
    for result in (
        result_of("a", 0, 1.0, 10.0),
        result_of("b", 1, 3.0, 10.0),
        result_of("c", 1, 0.5, 0.0, "bad"),
        result_of("d", 1, 4.0, 0.0),
    ):
        results.put(result)
    balancer = LoadBalancer(gpu_ids=[0, 1])
    seen: list[tuple[int, int, str]] = []
    collected = balancer.monitor_progress(
        results, 4, lambda n, total, result: seen.append((n, total, result["file"]))
    )
    assert seen == [(1, 4, "a"), (2, 4, "b"), (3, 4, "c"), (4, 4, "d")] and len(collected) == 4
    assert balancer.get_overall_rtf() == pytest.approx(0.2)
    assert balancer.get_speedup() == pytest.approx(8.0, rel=0.2)  # 8 s of work within 1 s
    assert (balancer.success_count, balancer.failure_count) == (3, 1)
    stats = balancer.get_per_gpu_stats()
    assert stats[0] == {
        "files": 1,
        "failed": 0,
        "processing_time": 1.0,
        "duration": 10.0,
        "rtf": 0.1,
        "share": pytest.approx(1 / 3),
    }
    assert stats[1]["failed"] == 1 and stats[1]["files"] == 2
    balancer.print_summary(5)
    out = capsys.readouterr().out
    assert "3 of 5 files done, 1 failed, 1 left" in out and "GPU 1: 2 done, 1 failed" in out
    assert "failed: c: bad" in out


def test_monitoring_ends_early_at_the_end_of_the_results() -> None:
    results: Any = queue.Queue()
    results.put(result_of("a", 0, 1.0, 0.0))
    results.put(None)
    balancer = LoadBalancer(gpu_ids=[0])
    assert len(balancer.monitor_progress(results, 100, balancer.print_progress)) == 1


# ---- All of it ------------------------------------------------------------------------------


def test_orchestrator_runs_the_whole_workflow(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.put("a.wav", "b.wav", "other.mp3")
    orchestrator = LauncherOrchestrator()
    assert orchestrator.validate_setup(input_dir=lab.input, gpus=[0, 1]) == (True, None)
    code = orchestrator.run(
        input_dir=lab.input,
        output_dir=lab.output,
        gpus=[0, 1],
        model_size="base",
        language="en",
        pattern="*.wav",
        worker_command=lab.command,
    )
    assert code == 0
    assert "2 of 2 files done" in capsys.readouterr().out
    assert orchestrator.load_balancer and orchestrator.load_balancer.success_count == 2


def test_orchestrator_refuses_what_cannot_work(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.put("a.wav")
    orchestrator = LauncherOrchestrator()
    valid, error = orchestrator.validate_setup(lab.directory / "missing", [0])
    assert not valid and error and "missing" in error
    assert orchestrator.validate_setup(lab.input, [7])[0] is False
    assert orchestrator.run(lab.directory / "missing", lab.output, [0]) == 2
    assert orchestrator.run(lab.input, lab.output, [7]) == 2
    assert orchestrator.run(lab.input, lab.output, "nonsense") == 2
    assert orchestrator.run(lab.input, lab.output, [0], worker_command="/no/such/program") == 2
    assert orchestrator.run(lab.input, lab.output, [0], pattern="*.none") == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="changes the owner of a link: run it as root")
@pytest.mark.parametrize("shape", ["all behind one link", "beside other files"])
def test_links_of_another_user_below_the_input_folder_are_not_followed(lab: Lab, shape: str) -> None:
    """The named folder itself may be reached through a link of another user."""
    private = lab.directory / "private"
    private.mkdir(mode=0o700)
    (private / "diary.wav").write_text("private")
    (lab.input / "speaker").symlink_to(private)
    named = lab.directory / "named"
    named.symlink_to(lab.input)
    for link in (lab.input / "speaker", named):
        os.lchown(link, 12345, 12345)
    if shape == "beside other files":
        lab.put("own/a.wav")
    code = LauncherOrchestrator().run(
        named, lab.output, pattern="*/*.wav", worker_command=lab.command
    )
    assert code == 1
    assert not lab.began("diary.wav")
    assert lab.began("a.wav") == (shape == "beside other files")


@pytest.mark.parametrize("pattern", ["*.wav", "*/*.wav"])
def test_output_folder_is_private_if_others_can_write_the_input_folder(
    lab: Lab, pattern: str, caplog: pytest.LogCaptureFixture
) -> None:
    """gpuq launch gets the folder, or links to its files."""
    lab.put("a.wav", "sub/b.wav", "sub/c.mp3")
    lab.input.chmod(0o777)
    code = LauncherOrchestrator().run(lab.input, lab.output, pattern=pattern, worker_command=lab.command)
    assert code == 0
    assert lab.output.stat().st_mode & 0o777 == 0o700
    assert "with mode 0700, because other users can change the content" in caplog.text


@pytest.mark.parametrize("pattern", ["*.wav", "*/*.wav"])
def test_output_folder_is_as_usual_if_only_this_user_can_write_the_input_folder(
    lab: Lab, pattern: str, caplog: pytest.LogCaptureFixture
) -> None:
    lab.put("a.wav", "sub/b.wav", "sub/c.mp3")
    named = lab.directory / "named"
    named.symlink_to(lab.input)
    before = os.umask(0o022)
    try:
        code = LauncherOrchestrator().run(named, lab.output, pattern=pattern, worker_command=lab.command)
    finally:
        os.umask(before)
    assert code == 0
    assert lab.output.stat().st_mode & 0o777 == 0o755
    assert not caplog.text


@pytest.mark.skipif(os.geteuid() != 0, reason="changes the owner of a link: run it as root")
@pytest.mark.parametrize("pattern", ["*.wav", "*/*.wav"])
def test_results_of_a_folder_that_another_user_chose_are_private(
    lab: Lab, pattern: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The folder is named by a link of this user to a link of another user."""
    lab.put("a.wav", "sub/b.wav", "sub/c.mp3")
    (lab.directory / "theirs").symlink_to("in")
    os.lchown(lab.directory / "theirs", 12345, 12345)
    (lab.directory / "named").symlink_to("theirs")
    words: dict[str, Any] = {"pattern": pattern, "worker_command": lab.command}
    assert LauncherOrchestrator().run(lab.directory / "named", lab.output, **words) == 0
    assert lab.output.stat().st_mode & 0o777 == 0o700
    assert ("another user chose input folder" in caplog.text) == (pattern == "*/*.wav")


def test_orchestrator_describes_files_and_gpus(lab: Lab) -> None:
    lab.put("a.wav", "b.wav", size=7)
    orchestrator = LauncherOrchestrator()
    assert orchestrator.get_workload_info(lab.input, "*.wav")["total_size"] == 14
    assert [info["id"] for info in orchestrator.get_gpu_info()] == [0, 1]


# ---- faster-whisper -------------------------------------------------------------------------


@pytest.fixture(name="whisper")
def make_whisper(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module with the interface of faster-whisper, as far as the worker uses it."""
    (lab.directory / "site").mkdir()
    (lab.directory / "site" / "faster_whisper.py").write_text(FASTER_WHISPER)
    monkeypatch.syspath_prepend(str(lab.directory / "site"))


def test_faster_whisper_is_the_default_where_it_is_installed(lab: Lab, whisper: None) -> None:
    lab.put("talk.wav")
    assert LauncherOrchestrator().run(lab.input, lab.output, [0, 1], model_size="tiny") == 0
    transcript = json.loads((lab.output / "talk" / "talk.json").read_text())
    assert transcript == {
        "text": "model tiny on auto:0 as default",
        "segments": [
            {"start": 0.0, "end": 1.5, "text": "model tiny on auto:0 as default", "confidence": 0.905}
        ],
        "duration": 2.0,
        "model": "tiny",
        "language": "de",
        "confidence": 0.905,
    }
    assert (lab.output / "talk" / "talk.txt").read_text() == "model tiny on auto:0 as default\n"


def test_results_of_faster_whisper_may_have_names_of_the_maximum_length(lab: Lab, whisper: None) -> None:
    stem = "x" * (255 - len(".json"))
    lab.put(f"{stem}.wav")
    assert LauncherOrchestrator().run(lab.input, lab.output, [0], model_size="tiny") == 0
    assert {path.suffix for path in (lab.output / stem).iterdir()} == {".json", ".txt"}


@pytest.mark.parametrize("interactive", [True, False])
def test_faster_whisper_does_not_import_from_the_current_directory(
    lab: Lab, whisper: None, monkeypatch: pytest.MonkeyPatch, interactive: bool
) -> None:
    planted = lab.directory / "shared"
    (planted / "gpu_dispatch").mkdir(parents=True)
    (planted / "multiprocessing").mkdir()
    code = f"open({str(lab.directory / 'ran')!r}, 'w').close()\n"
    # "-c" of Python 3.13 imports linecache before the code. A queue of multiprocessing starts a process, unless the start method is "fork".
    for name in ("gpu_dispatch/__init__.py", "multiprocessing/__init__.py", "faster_whisper.py", "json.py", "linecache.py"):
        (planted / name).write_text(code)
    default = multiprocessing.context._default_context
    monkeypatch.setattr(default, "_actual_context", multiprocessing.get_context("spawn"))
    monkeypatch.chdir(planted)
    path = [entry for entry in sys.path if entry]
    monkeypatch.setattr(sys, "path", ["", *path] if interactive else path)
    lab.put("talk.wav")
    exit_code = LauncherOrchestrator().run(lab.input, lab.output, [0], model_size="tiny")
    assert not (lab.directory / "ran").exists()
    assert exit_code == 0


def test_faster_whisper_is_resumed_from_another_directory(
    lab: Lab, whisper: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker's command, by which a later run recognizes finished files, contains no directories."""
    lab.put("talk.wav")
    assert LauncherOrchestrator().run(lab.input, lab.output, [0], model_size="tiny") == 0
    written = (lab.output / "talk" / "talk.json").stat().st_mtime_ns
    monkeypatch.chdir(lab.input)
    monkeypatch.syspath_prepend(str(lab.input))
    assert LauncherOrchestrator().run(lab.input, lab.output, [0], model_size="tiny") == 0
    assert (lab.output / "talk" / "talk.json").stat().st_mtime_ns == written


def test_language_and_settings_reach_faster_whisper(lab: Lab, whisper: None) -> None:
    lab.put("talk.wav")
    code = LauncherOrchestrator().run(
        lab.input,
        lab.output,
        [0],
        language="fr",
        settings={"device": "cpu", "compute_type": "int8"},
    )
    assert code == 0
    text = (lab.output / "talk" / "talk.json").read_text()
    assert '"language": "fr"' in text and "model base on cpu:0 as int8" in text


INTERFACE = """
import inspect
from faster_whisper import WhisperModel, download_model
from faster_whisper.transcribe import Segment, TranscriptionInfo

inspect.signature(WhisperModel).bind(
    "base", device="auto", device_index=0, compute_type="default", cpu_threads=0, download_root=None)
inspect.signature(download_model).bind("base", cache_dir=None)
inspect.signature(WhisperModel.transcribe).bind(
    None, "a.wav", language=None, task="transcribe", beam_size=5)
assert {"start", "end", "text", "avg_logprob"} <= set(Segment.__annotations__)
assert {"duration", "language"} <= set(TranscriptionInfo.__annotations__)
"""


@pytest.mark.heavy
def test_real_faster_whisper_has_what_the_worker_uses(lab: Lab) -> None:
    python = Path(os.environ["GD_BUILD"]) / "pypi" / "bin" / "python"
    if subprocess.run([python, "-c", "import faster_whisper"], check=False).returncode:
        pytest.skip("faster-whisper is not installed; tools/pypi installs it")
    subprocess.run([python, "-c", INTERFACE], check=True, timeout=LIMIT)
    # Without weights the real model cannot be loaded: the launcher reports it.
    lab.put("a.wav")
    words = ["--input-dir", str(lab.input), "--output-dir", str(lab.output)]
    words += ["--model-size", "/no/such/model"]
    done = subprocess.run(
        [python, "-m", "gpu_dispatch.launcher", *words, "--gpus", "0"],
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert "/no/such/model" in done.stdout


def test_refused_output_folder_is_reported_once_in_terms_of_the_package(lab: Lab, capfd: pytest.CaptureFixture[str]) -> None:
    lab.put(*(f"{number}.wav" for number in range(12)))
    shared = lab.directory / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    orchestrator = LauncherOrchestrator()
    assert orchestrator.run(lab.input, shared / "out", worker_command=lab.command) == 2
    out, err = capfd.readouterr()
    assert out == "" and err.count("\n") == 1, (out, err)
    assert err.startswith(f"gpu_dispatch: refusing to use output folder '{shared}/out': ") and "--" not in err, err
    assert "choose another output_dir, or set GPUQ_TRUST=1 in the environment if you accept that\n" in err, err
    assert orchestrator.load_balancer and orchestrator.process_spawner
    errors = {result["error"] for result in orchestrator.load_balancer.results}
    assert len(orchestrator.load_balancer.results) == 12 and errors == {orchestrator.process_spawner.refusal}
    assert orchestrator.process_spawner.exit_code == 2


def test_results_of_another_folder_are_reported_once(lab: Lab, capfd: pytest.CaptureFixture[str]) -> None:
    files = lab.put("day1/a.wav", "day1/b.wav", "day2/a.wav", "day2/b.wav")
    orchestrator = LauncherOrchestrator()
    assert orchestrator.run(files[0].parent, lab.output, worker_command=lab.command) == 0
    capfd.readouterr()
    assert orchestrator.run(files[2].parent, lab.output, worker_command=lab.command) == 2
    out, err = capfd.readouterr()
    assert out == "" and err.count("\n") == 1 and "choose another output_dir to keep them, or set force to replace them" in err, (out, err)
    assert orchestrator.run(files[2].parent, lab.output, worker_command=lab.command, force=True) == 0
    assert orchestrator.process_spawner and orchestrator.process_spawner.refusal is None
    assert "2 of 2 files done" in capfd.readouterr().out


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a file of another user")
@pytest.mark.parametrize("others", [("c.wav",), ("fail.wav",)])
def test_skipped_file_says_why(
    lab: Lab, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, others: tuple[str]
) -> None:
    [_, sparse, _] = lab.put("a.wav", "b.wav", *others)
    os.truncate(sparse, 1 << 40)
    os.chown(sparse, 54321, 54321)
    orchestrator = LauncherOrchestrator()
    assert orchestrator.run(lab.input, lab.output, worker_command=lab.command) == 1
    out = capfd.readouterr().out
    assert f"{sparse} (no GPU): FAILED: gpuq launch skipped it; see the warnings" in out, out
    assert f"{1 if 'fail.wav' in others else 2} of 3 files done" in out, out
    assert "'b.wav' is skipped: " in caplog.text and "; set GPUQ_TRUST=1 in the environment to include it" in caplog.text, caplog.text


def test_names_of_files_are_printed_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    from gpu_dispatch.multigpu import balancer

    balancer._print("a\x1b]0;x\x07\u009b2J\u202eb \udcff é 日")
    assert capsys.readouterr().out == "a\\x1b]0;x\\x07\\x9b2J\\u202eb \\udcff é 日\n"
