# SPDX-License-Identifier: MIT
"""The classes of gpu_dispatch.multigpu, over the real gpuq launch with simulated GPUs."""
from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import queue
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import pytest

from gpu_dispatch import _programs
from gpu_dispatch.multigpu import (
    GPUDetector,
    LauncherOrchestrator,
    LoadBalancer,
    ProcessSpawner,
    ResourceAllocator,
    Result,
)
from gpu_dispatch.multigpu import spawner as spawner_module
from gpu_dispatch.multigpu._record import Record
from multigpu_lab import FASTER_WHISPER, LIMIT, Lab


@pytest.fixture(name="lab")
def make_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv("GPUQ_GPUS", "sim:2")
    return Lab(tmp_path)


def take_all(results: Any) -> list[Result]:
    """Everything in a result queue up to the None at its end."""
    taken: list[Result] = []
    while (result := results.get(timeout=LIMIT)) is not None:
        taken.append(result)
    return taken


def spawn(lab: Lab, files: list[Path], **options: Any) -> tuple[ProcessSpawner, list[Result]]:
    spawner = ProcessSpawner(worker_command=lab.command, **options)
    tasks = ResourceAllocator().create_task_queue(files, 2)
    results: Any = multiprocessing.Queue()
    spawner.spawn_workers([0, 1], tasks, results, "base", None, lab.output)
    taken = take_all(results)
    assert spawner.wait_for_completion(LIMIT)
    return spawner, taken


# ---- GPUs ----------------------------------------------------------------------------


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
    with pytest.raises(ValueError, match="no GPU 7"):
        GPUDetector().get_gpu_info(7)


# ---- Files ---------------------------------------------------------------------------


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


# ---- Workers -------------------------------------------------------------------------


def test_each_file_gets_one_result(lab: Lab) -> None:
    files = lab.put("a.wav", "fail.wav", "kill.wav", "c.wav")
    spawner, results = spawn(lab, files)
    by_name = {Path(result["file"]).name: result for result in results}
    assert len(results) == 4 and set(by_name) == {"a.wav", "fail.wav", "kill.wav", "c.wav"}
    done = by_name["a.wav"]
    assert done["status"] == "success" and done["error"] is None and done["gpu_id"] in (0, 1)
    assert done["duration"] == 2.0 and done["processing_time"] >= 0 and not done["skipped"]
    assert done["file"] == str(files[0]) and done["output_dir"] == str(lab.output / "a")
    assert (lab.output / "a" / "result.txt").exists()
    assert by_name["fail.wav"]["status"] == "error"
    assert by_name["fail.wav"]["error"] == "ValueError: cannot do fail.wav"
    assert "SIGKILL" in (by_name["kill.wav"]["error"] or "")
    assert spawner.exit_code == 1


def test_each_gpu_has_a_worker_that_sees_it_alone(lab: Lab) -> None:
    files = lab.put("wait-1.wav", "wait-2.wav")
    spawner = ProcessSpawner(worker_command=lab.command)
    results: Any = multiprocessing.Queue()
    tasks = ResourceAllocator().create_task_queue(files, 2)
    processes = spawner.spawn_workers(
        gpu_ids=[0, 1],
        task_queue=tasks,
        result_queue=results,
        model_size="base",
        language=None,
        output_dir=lab.output,
    )
    lab.until(lambda: lab.began("wait-1.wav") and lab.began("wait-2.wav"))
    assert [process.gpu_id for process in processes] == [0, 1]
    status = spawner.get_process_status()
    assert set(status) == {0, 1} and all(each["alive"] and each["pid"] for each in status.values())
    assert not spawner.wait_for_completion(timeout=0)
    lab.go()
    assert {result["gpu_id"] for result in take_all(results)} == {0, 1}
    assert spawner.wait_for_completion()
    assert spawner.get_process_status()[0] == {
        "pid": processes[0].pid,
        "alive": False,
        "exitcode": 0,
    }
    assert {(lab.output / f"wait-{n}" / "result.txt").read_text() for n in (1, 2)} == {"0", "1"}


def test_files_from_anywhere_keep_their_folders(lab: Lab) -> None:
    elsewhere = lab.directory / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.wav").write_bytes(b"x")
    files = lab.put("a.wav", "b.wav", "deep/c.wav") + [elsewhere / "a.wav"]
    _, results = spawn(lab, files[1:])
    assert all(result["status"] == "success" for result in results), results
    assert (lab.output / "in/b/result.txt").exists() and (
        lab.output / "elsewhere/a/result.txt"
    ).exists()
    assert not (lab.output / "in/a").exists(), "a file that was not in the queue"
    assert {path.name for path in lab.output.iterdir()} <= {
        "in", "elsewhere", "launch.jsonl", "launch.logs", "launch.lock"
    }


def test_links_are_private_and_leave_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link of another user at a known place does not lead the cleanup anywhere."""
    precious = lab.directory / "precious"
    (precious / "empty").mkdir(parents=True)
    (precious / "link").symlink_to("/etc/hostname")
    lab.output.mkdir()
    (lab.output / "launch.links").symlink_to(precious)
    temporary = lab.directory / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    _, results = spawn(lab, lab.put("a.wav", "b.wav", "deep/c.wav"))
    assert all(result["status"] == "success" for result in results), results
    assert (precious / "empty").is_dir() and (precious / "link").is_symlink()
    assert sorted(os.listdir(precious)) == ["empty", "link"]
    assert not list(temporary.iterdir())


def test_a_later_run_with_links_knows_what_is_done(lab: Lab) -> None:
    files = lab.put("a.wav", "deep/c.wav")
    assert not any(result["skipped"] for result in spawn(lab, files)[1])
    assert all(result["skipped"] for result in spawn(lab, files)[1])


def test_strings_duplicates_and_missing_files(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.put("a.wav")
    monkeypatch.chdir(lab.directory)
    tasks: Any = queue.Queue()
    for task in ("in/a.wav", Path("in/a.wav"), "in/missing.wav", None):
        tasks.put(task)
    results: Any = queue.Queue()
    spawner = ProcessSpawner(worker_command=lab.command)
    spawner.spawn_workers([1], tasks, results, output_dir=lab.output)
    taken = take_all(results)
    assert sorted((result["file"], result["status"]) for result in taken) == [
        ("in/a.wav", "success"),
        ("in/a.wav", "success"),
        ("in/missing.wav", "error"),
    ]
    assert spawner.wait_for_completion(LIMIT)


def test_files_that_are_done_are_skipped_and_reported(lab: Lab) -> None:
    files = lab.put("a.wav", "fail.wav")
    spawn(lab, files)
    _, results = spawn(lab, files)
    again = {Path(result["file"]).name: result for result in results}
    assert again["a.wav"]["skipped"] and again["a.wav"]["status"] == "success"
    assert again["a.wav"]["output_dir"] == str(lab.output / "a")
    assert not again["fail.wav"]["skipped"] and again["fail.wav"]["status"] == "error"
    _, results = spawn(lab, files, force=True)
    assert not any(result["skipped"] for result in results)


def test_terminated_run_reports_every_file_and_leaves_nothing(lab: Lab) -> None:
    files = lab.put("wait-1.wav", "wait-2.wav", "z.wav")
    spawner = ProcessSpawner(worker_command=lab.command)
    results: Any = multiprocessing.Queue()
    spawner.spawn_workers(
        [0, 1], ResourceAllocator().create_task_queue(files, 2), results, output_dir=lab.output
    )
    lab.until(lambda: lab.began("wait-1.wav") and lab.began("wait-2.wav"))
    workers = [int((lab.directory / f"began-wait-{n}.wav").read_text()) for n in (1, 2)]
    spawner.terminate_all()
    assert sorted(
        Path(result["file"]).name for result in take_all(results) if result["status"] == "error"
    ) == ["wait-1.wav", "wait-2.wav", "z.wav"]
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)
    assert spawner.exit_code == 130


def test_run_that_waits_for_its_tasks_can_be_terminated(lab: Lab) -> None:
    tasks: Any = queue.Queue()
    results: Any = queue.Queue()
    spawner = ProcessSpawner(worker_command=lab.command)
    processes = spawner.spawn_workers([0], tasks, results, output_dir=lab.output)
    assert processes[0].is_alive() and processes[0].pid is None
    spawner.terminate_all()
    assert take_all(results) == [] and not processes[0].is_alive()


def test_launcher_that_refuses_fails_each_file_with_its_reason(lab: Lab) -> None:
    spawner = ProcessSpawner(worker_command="/no/such/program")
    tasks = ResourceAllocator().create_task_queue(lab.put("a.wav", "b.wav"), 1)
    results: Any = queue.Queue()
    spawner.spawn_workers([0], tasks, results, output_dir=lab.output)
    taken = take_all(results)
    assert len(taken) == 2 and all(
        "/no/such/program" in (result["error"] or "") for result in taken
    )
    assert spawner.exit_code == 2


def test_a_lock_on_the_output_folder_locks_nobody_out(lab: Lab) -> None:
    """Every user who can read the folder can lock it."""
    lab.output.mkdir()
    folder = os.open(lab.output, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        _, results = spawn(lab, lab.put("a.wav"))
    finally:
        os.close(folder)
    assert [result["status"] for result in results] == ["success"], results


@pytest.mark.parametrize("kind", ["fifo", "link"])
def test_record_must_be_a_regular_file(lab: Lab, kind: str) -> None:
    lab.output.mkdir()
    record = lab.output / "launch.jsonl"
    if kind == "fifo":
        os.mkfifo(record)
    else:
        (lab.directory / "other").write_text("")
        record.symlink_to(lab.directory / "other")
    spawner, results = spawn(lab, lab.put("a.wav"))
    assert [result["status"] for result in results] == ["error"]
    assert "launch.jsonl" in (results[0]["error"] or "")
    assert spawner.exit_code == 1


def test_results_of_another_launcher_are_not_reported(tmp_path: Path) -> None:
    path = tmp_path / "launch.jsonl"
    path.write_text('{"event": "run"}\n')
    record = Record(path)
    with path.open("a") as file:
        file.write('{"event": "done", "file": "theirs"}\n')
    assert list(record.read()) == []
    with path.open("a") as file:
        file.write('{"event": "run"}\n{"event": "done", "file": "ours"}\n')
    assert [event.get("file") for event in record.read()] == [None, "ours"]


def test_two_runs_in_one_output_folder_do_not_mix(lab: Lab) -> None:
    files = lab.put("wait-1.wav", "b.wav")
    first, first_results = (
        ProcessSpawner(worker_command=lab.command),
        multiprocessing.Queue(),
    )  # type: Any, Any
    first.spawn_workers(
        [0], ResourceAllocator().create_task_queue(files, 1), first_results, output_dir=lab.output
    )
    lab.until(lambda: lab.began("wait-1.wav"))
    _, results = spawn(lab, files)
    errors = {Path(result["file"]).name: result["error"] or "" for result in results}
    assert "another gpuq launch" in errors["wait-1.wav"]
    done = [result for result in results if result["status"] == "success"]
    assert all(result["skipped"] for result in done), "done by the first run"
    lab.go()
    assert [result["status"] for result in take_all(first_results)] == ["success", "success"]
    assert first.wait_for_completion(LIMIT)


def test_killed_program_takes_its_workers_along(lab: Lab) -> None:
    lab.put("wait-1.wav")
    script = textwrap.dedent(
        f"""
        from pathlib import Path
        from gpu_dispatch.multigpu import LauncherOrchestrator
        LauncherOrchestrator().run(
            {str(lab.input)!r}, {str(lab.output)!r}, [0], worker_command={lab.command!r})
        """
    )
    with subprocess.Popen([sys.executable, "-c", script]) as program:
        lab.until(lambda: lab.began("wait-1.wav"))
        worker = int((lab.directory / "began-wait-1.wav").read_text())
        program.send_signal(signal.SIGKILL)

    def is_gone() -> bool:
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            return True
        return False

    lab.until(is_gone)


def test_gpuq_is_the_named_one_or_that_on_the_path_or_an_error(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUQ", "/named/gpuq")
    assert _programs.find_gpuq() == "/named/gpuq"
    monkeypatch.delenv("GPUQ")
    monkeypatch.setattr(_programs, "_of_this_package", lambda: None)
    monkeypatch.setattr(_programs, "_of_this_interpreter", lambda: "/no/such/gpuq")
    (lab.directory / "gpuq").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(lab.directory))
    assert _programs.find_gpuq() == str(lab.directory / "gpuq")
    (lab.directory / "gpuq").unlink()
    with pytest.raises(FileNotFoundError, match="gpuq is not installed"):
        _programs.find_gpuq()


def test_without_any_worker_the_launcher_says_what_to_install(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(spawner_module, "_plugins", lambda gpuq: [])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    lab.put("a.wav")
    assert LauncherOrchestrator().run(lab.input, lab.output, [0]) == 2
    assert "pip install 'gpu_dispatch[whisper]'" in capsys.readouterr().err


# ---- Figures -------------------------------------------------------------------------


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


# ---- All of it -----------------------------------------------------------------------


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


def test_orchestrator_tells_about_files_and_gpus(lab: Lab) -> None:
    lab.put("a.wav", "b.wav", size=7)
    orchestrator = LauncherOrchestrator()
    assert orchestrator.get_workload_info(lab.input, "*.wav")["total_size"] == 14
    assert [info["id"] for info in orchestrator.get_gpu_info()] == [0, 1]


# ---- faster-whisper ------------------------------------------------------------------


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
        "text": "tiny on auto:0 as default",
        "segments": [
            {"start": 0.0, "end": 1.5, "text": "tiny on auto:0 as default", "confidence": 0.905}
        ],
        "duration": 2.0,
        "model": "tiny",
        "language": "de",
        "confidence": 0.905,
    }
    assert (lab.output / "talk" / "talk.txt").read_text() == "tiny on auto:0 as default\n"


def test_faster_whisper_does_not_import_from_the_current_directory(
    lab: Lab, whisper: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = lab.directory / "shared"
    (planted / "gpu_dispatch").mkdir(parents=True)
    code = f"open({str(lab.directory / 'ran')!r}, 'w').close()\n"
    for name in ("gpu_dispatch/__init__.py", "faster_whisper.py", "json.py"):
        (planted / name).write_text(code)
    monkeypatch.chdir(planted)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    lab.put("talk.wav")
    exit_code = LauncherOrchestrator().run(lab.input, lab.output, [0], model_size="tiny")
    assert not (lab.directory / "ran").exists()
    assert exit_code == 0


def test_faster_whisper_is_resumed_from_another_directory(
    lab: Lab, whisper: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command of the worker, by which a later run knows what is done, has no directories in it."""
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
    assert '"language": "fr"' in text and "base on cpu:0 as int8" in text


INTERFACE = """
import inspect
from faster_whisper import WhisperModel
from faster_whisper.transcribe import Segment, TranscriptionInfo

inspect.signature(WhisperModel).bind(
    "base", device="auto", device_index=0, compute_type="default", cpu_threads=0, download_root=None)
inspect.signature(WhisperModel.transcribe).bind(
    None, "a.wav", language=None, task="transcribe", beam_size=5)
assert {"start", "end", "text", "avg_logprob"} <= set(Segment.__annotations__)
assert {"duration", "language"} <= set(TranscriptionInfo.__annotations__)
"""


@pytest.mark.heavy
def test_real_faster_whisper_has_what_the_worker_uses(lab: Lab) -> None:
    python = Path(os.environ["GD_BUILD"]) / "pypi" / "bin" / "python"
    if subprocess.run([python, "-c", "import faster_whisper"], check=False).returncode:
        pytest.skip("faster-whisper is not installed; tools/pypi does it")
    subprocess.run([python, "-c", INTERFACE], check=True, timeout=LIMIT)
    # Without weights the real model cannot be loaded: the launcher says so.
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
