# SPDX-License-Identifier: MIT
"""multigpu: worker processes."""
from __future__ import annotations

import fcntl
import importlib.util
import json
import multiprocessing
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import pytest

from gpu_dispatch import _programs
from gpu_dispatch.multigpu import LauncherOrchestrator, ProcessSpawner, ResourceAllocator, Result
from gpu_dispatch.multigpu import spawner as spawner_module
from gpu_dispatch.multigpu._inputs import prepare_inputs
from gpu_dispatch.multigpu._record import Record
from multigpu_lab import LIMIT, Lab


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


def test_a_time_limit_per_file(lab: Lab) -> None:
    _, results = spawn(lab, lab.put("wait.wav", "b.wav"), timeout=1.5)
    by_name = {Path(result["file"]).name: result for result in results}
    assert by_name["b.wav"]["status"] == "success"
    assert by_name["wait.wav"]["error"] == "not finished within 1500 ms"


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), "", "-1s", "soon"])
def test_an_invalid_time_limit_is_refused(lab: Lab, timeout: Any, capfd: pytest.CaptureFixture[str]) -> None:
    lab.put("a.wav")
    assert LauncherOrchestrator().run(lab.input, lab.output, [0], worker_command=lab.command, timeout=timeout) == 2
    assert "timeout" in capfd.readouterr().err


def arguments_of_descendants(pid: int) -> list[str]:
    """As another user sees them. Only descendants: other processes may have the same words in their arguments."""
    table = subprocess.run(["ps", "-ww", "-eo", "pid,ppid,args"], stdout=subprocess.PIPE, check=True, text=True).stdout
    rows = [line.split(None, 2) for line in table.splitlines()[1:]]
    found, parents = [], {str(pid)}
    while children := [row for row in rows if row[1] in parents and row[2:]]:
        found += [row[2] for row in children]
        parents = {row[0] for row in children}
    return found


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


def test_each_gpu_has_a_worker_that_sees_no_other(lab: Lab) -> None:
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


@pytest.mark.parametrize("beside", [(), ("../in/b.wav", "new/../in/a.wav")])
def test_two_dots_after_a_link_are_resolved_as_the_kernel_does(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, beside: tuple[str, ...]
) -> None:
    """gpuq launch gets the folder, or links to files of several folders."""
    worker = lab.directory / "worker.py"
    worker.write_text(worker.read_text().replace('os.environ.get("CUDA_VISIBLE_DEVICES", "")', "file.read_text()"))
    lab.put("a.wav", "b.wav")
    meant = lab.directory / "far/in/a.wav"
    for folder in (meant.parent, lab.directory / "far/below", lab.directory / "here"):
        folder.mkdir(parents=True)
    meant.write_text("meant")
    (lab.directory / "here/link").symlink_to(lab.directory / "far/below")
    monkeypatch.chdir(lab.directory / "here")
    lab.output = Path("link/../out")
    _, results = spawn(lab, [Path("link/../in/a.wav"), *map(Path, beside)], input_dir="link/../in")
    words = {result["file"]: result["error"] or Path(str(result["output_dir"]), "result.txt").read_text() for result in results}
    assert words == {
        "link/../in/a.wav": "meant", **({"../in/b.wav": "x" * 10, "new/../in/a.wav": "no such file"} if beside else {})
    }
    assert (lab.directory / "far/out/launch.jsonl").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="changes the owner of a link: run it as root")
def test_two_dots_after_a_link_of_another_user_do_not_hide_the_link(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    """Only the named folder may be reached through such a link."""
    (lab.directory / "far/below").mkdir(parents=True)
    (lab.directory / "far/in").symlink_to(lab.input)
    (lab.directory / "link").symlink_to("far/below")
    os.lchown(lab.directory / "link", 12345, 12345)
    lab.put("a.wav", "b.wav")
    named = lab.directory / "link/../in"
    _, results = spawn(lab, [named / "a.wav"], input_dir=named)
    assert [result["error"] for result in results] == [None]
    assert "another user chose input folder" in caplog.text
    assert lab.output.stat().st_mode & 0o777 == 0o700
    _, results = spawn(lab, [named / "a.wav", lab.put("c.wav")[0]])
    assert [result["error"] for result in results if "/link/" in result["file"]] == [
        "it is reached through '..' after a link of another user"
    ]


def test_links_are_private_and_leave_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link of another user at a known path does not redirect the cleanup."""
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


def test_files_with_many_extensions_are_not_many_arguments(lab: Lab) -> None:
    """Other users can put any number of them into the input folder, and arguments are limited."""
    files = lab.put(*(f"file.x{number:03}" for number in range(80)))
    with prepare_inputs([str(path) for path in files], str(lab.input)) as inputs:
        assert len(inputs.arguments) < 10
    with prepare_inputs([str(path) for path in files[:3]], str(lab.input)) as inputs:
        assert inputs.arguments[:2] == ["--input-dir", str(lab.input)]
    _, results = spawn(lab, files, input_dir=lab.input)
    assert [result["status"] for result in results] == ["success"] * 80, results[:3]


def test_a_later_run_with_links_knows_what_is_done(lab: Lab) -> None:
    files = lab.put("a.wav", "deep/c.wav")
    assert not any(result["skipped"] for result in spawn(lab, files)[1])
    assert all(result["skipped"] for result in spawn(lab, files)[1])


def test_changed_file_behind_a_link_is_processed_again_alone(lab: Lab) -> None:
    """gpuq launch compares the named folder with that of the earlier run, not the temporary one."""
    files = lab.put("day/a.wav", "day/b.wav", "c.wav")
    spawn(lab, files, input_dir=lab.input)
    files[1].write_bytes(b"changed")
    spawner, results = spawn(lab, [*files, *lab.put("new.wav")], input_dir=lab.input)
    assert {Path(result["file"]).name: result["skipped"] for result in results} == {
        "a.wav": True, "b.wav": False, "c.wav": True, "new.wav": False,
    }  # fmt: skip
    assert spawner.exit_code == 0
    runs = [json.loads(line) for line in (lab.output / "launch.jsonl").read_text().splitlines()]
    assert {run["input"] for run in runs if run["event"] == "run"} == {str(lab.input)}


def test_names_do_not_depend_on_which_files_there_are(lab: Lab) -> None:
    """Another user could add a file in another folder, so that everything is processed again."""
    files = lab.put("day/a.wav", "day/b.wav")
    _, results = spawn(lab, files, input_dir=lab.input)
    assert {result["output_dir"] for result in results} == {str(lab.output / "day" / name) for name in "ab"}
    _, results = spawn(lab, [*files, *lab.put("zz/y.wav")], input_dir=lab.input)
    assert [result["skipped"] for result in results if "day" in result["file"]] == [True, True], results


def test_files_of_another_folder_do_not_replace_results(lab: Lab) -> None:
    spawn(lab, lab.put("day1/a.wav", "day1/sub/b.wav"))
    spawner, results = spawn(lab, lab.put("day2/a.wav", "day2/sub/b.wav", size=11))
    assert spawner.exit_code == 2 and f"from '{lab.input / 'day1'}'" in (results[0]["error"] or ""), results


def test_worker_does_not_inherit_the_name_of_the_input_folder(lab: Lab) -> None:
    worker = lab.directory / "worker.py"
    worker.write_text(worker.read_text().replace('"CUDA_VISIBLE_DEVICES", ""', '"GPUQ_LAUNCH_INPUT", "none"'))
    spawn(lab, lab.put("a.wav", "sub/b.wav"), input_dir=lab.input)
    assert (lab.output / "sub/b/result.txt").read_text() == "none"


def test_settings_are_neither_in_the_process_table_nor_in_the_record(lab: Lab) -> None:
    """Other users can read both."""
    worker = lab.directory / "worker.py"
    worker.write_text(worker.read_text().replace(
        "serve(work)", "serve(lambda file, output_dir, _: work(file, output_dir), setup=lambda setup: (here / 'settings').write_text(repr(setup.settings) + repr(dict(os.environ))))"))
    files = lab.put("wait.wav")
    settings = {"hf_token": "a=TOP SECRET\n!", "empty": "", "model_size": "large-SECRET"}
    spawner = ProcessSpawner(worker_command=lab.command, settings=settings)
    results: Any = multiprocessing.Queue()
    spawner.spawn_workers([0], ResourceAllocator().create_task_queue(files, 1), results, output_dir=lab.output)
    lab.until(lambda: lab.began("wait.wav"))
    processes = "\n".join(arguments_of_descendants(os.getpid()))
    lab.go()
    assert [result["status"] for result in take_all(results)] == ["success"]
    said = (lab.directory / "settings").read_text()
    assert repr(settings["hf_token"]) in said and "'empty': ''" in said and "'model_size': 'large-SECRET'" in said, said
    assert "GPUQ_LAUNCH_SET" not in said, "workers inherit the variables"
    assert "SECRET" not in processes and "--input-dir" in processes
    record = (lab.output / "launch.jsonl").read_text()
    assert "TOP SECRET" not in record and json.loads(record.splitlines()[0])["settings"] == ["model_size=large-SECRET", "hf_token", "empty"]


def interrupt(lab: Lab, files: list[Path], waits_for: str, **options: Any) -> dict[str, Result]:
    """The results of a run that is interrupted while it works on a file."""
    spawner = ProcessSpawner(worker_command=lab.command, **options)
    results: Any = multiprocessing.Queue()
    spawner.spawn_workers([0], ResourceAllocator().create_task_queue(files, 1), results, output_dir=lab.output)
    lab.until(lambda: lab.began(waits_for))
    spawner.terminate_all()
    taken = {Path(result["file"]).name: result for result in take_all(results)}
    assert spawner.wait_for_completion(LIMIT) and spawner.exit_code == 130
    return taken


def test_interrupted_run_reports_no_results_of_other_settings_or_older_files(lab: Lab) -> None:
    files = lab.put("a.wav", "b.wav", "c.wav", "d.wav")
    spawn(lab, files, settings={"tag": "old"})
    spawn(lab, files[1:], settings={"tag": "new"})
    files[2].write_bytes(b"changed")
    shutil.rmtree(lab.output / "d")
    waiting = lab.put("wait.wav", size=1000)  # the largest file is first
    results = interrupt(lab, [*files, *waiting], "wait.wav", settings={"tag": "new"})
    assert {name: result["skipped"] for name, result in results.items()} == {
        "a.wav": False, "b.wav": True, "c.wav": False, "d.wav": False, "wait.wav": False,
    }  # fmt: skip
    assert results["b.wav"]["status"] == "success"
    assert all(results[name]["error"] == "interrupted" for name in ("a.wav", "c.wav", "d.wav", "wait.wav")), results


def test_done_file_with_a_time_after_2262_is_reported(lab: Lab) -> None:
    files = lab.put("a.wav")
    os.utime(files[0], (0, 15_020_726_400))
    if files[0].stat().st_mtime < 9_223_372_036:
        pytest.skip("the file system does not store such a time")
    spawn(lab, files)
    assert [result["skipped"] for result in spawn(lab, files)[1]] == [True]


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


def test_a_lock_on_the_output_folder_does_not_block_a_run(lab: Lab) -> None:
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


@pytest.mark.skipif(os.geteuid() != 0, reason="changes the owner of a file: run it as root")
@pytest.mark.parametrize("when", ["before", "during"])
def test_results_of_another_user_are_not_reported(lab: Lab, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """The other user can write the folder, and adds results until gpuq launch has refused it."""
    lab.output.mkdir()
    record = lab.output / "launch.jsonl"
    forger = lab.directory / "gpuq"
    forger.write_text(
        f"#!/bin/sh\n: >> {record}; chown 65534 {record}\n"
        f"""printf '{{"event":"run","mark":"%s"}}\\n{{"event":"done","file":"a.wav","output":"forged"}}\\n' """
        f"$GPUQ_LAUNCH_MARK >> {record}; exit 2\n"
    )
    forger.chmod(0o755)
    monkeypatch.setenv("GPUQ", str(forger))
    if when == "before":
        record.touch()
        os.chown(record, 65534, 65534)
    spawner, results = spawn(lab, lab.put("a.wav"))
    assert [result["status"] for result in results] == ["error"], results
    assert "belongs to another user" in (results[0]["error"] or "") and spawner.exit_code == 1
    monkeypatch.setenv("GPUQ_TRUST", "1")
    _, results = spawn(lab, lab.put("a.wav"))
    assert [result["status"] for result in results] == ["success"], results


def test_record_that_another_user_leads_to_is_not_reported(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """While gpuq launch checks the output folder, it is a link to that of an earlier run, which has the same files."""
    files = lab.put("a.wav", "b.wav")
    spawner, _ = spawn(lab, files)
    assert spawner.exit_code == 0
    lab.output.rename(lab.directory / "earlier")
    refusing = lab.directory / "gpuq"
    refusing.write_text(f"#!/bin/sh\nln -s earlier {lab.output}; echo 'gpuq: refusing to use it' >&2; exit 2\n")
    refusing.chmod(0o755)
    monkeypatch.setenv("GPUQ", str(refusing))
    spawner, results = spawn(lab, files)
    assert [result["status"] for result in results] == ["error"] * 2, results
    assert [result["error"] for result in results] == ["gpuq: refusing to use it"] * 2
    assert spawner.exit_code == 2


@pytest.mark.parametrize(
    ("message", "reason"), [("gpuq: refusing to use it", "gpuq: refusing to use it"), ("", "gpuq launch ended with code 2")]
)
def test_warning_is_not_the_reason_for_a_missing_result(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, message: str, reason: str
) -> None:
    program = lab.directory / "gpuq"
    warning = "gpuq launch: warning: created output folder"
    program.write_text(f"#!/bin/sh\necho '{message}' >&2; echo '{warning}' >&2; exit 2\n")
    program.chmod(0o755)
    monkeypatch.setenv("GPUQ", str(program))
    _, results = spawn(lab, lab.put("a.wav"))
    assert [result["error"] for result in results] == [reason]


def test_results_of_another_launcher_are_not_reported(tmp_path: Path) -> None:
    path = tmp_path / "launch.jsonl"
    path.write_text('{"event": "run"}\n')
    record = Record(path, "ours")
    with path.open("a") as file:
        file.write('{"event": "run", "mark": "theirs"}\n{"event": "done", "file": "theirs", "output": "theirs"}\n')
    assert list(record.read()) == []
    with path.open("a") as file:
        file.write('{"event": "run", "mark": "ours"}\n{"event": "done", "file": "ours", "output": "ours"}\n')
    assert [event.get("file") for event in record.read()] == [None, "ours"]


def test_file_of_another_folder_that_fails_because_of_its_name_hides_no_result(lab: Lab) -> None:
    (file,) = lab.put("a.wav")
    spawn(lab, [file])
    record = lab.output / "launch.jsonl"
    done = json.loads(record.read_text().splitlines()[-1])
    failed = {**done, "event": "failed", "error": "results of a file with the same name"}
    for key in ("gpu", "attempt", "c"):
        failed.pop(key, None)
    with record.open("a") as lines:
        lines.write(json.dumps({"event": "run", "version": 1, "input": "/other"}) + "\n" + json.dumps(failed) + "\n")
    (result,) = spawn(lab, [file])[1]
    assert result["skipped"] and result["status"] == "success", result


@pytest.mark.skipif(os.geteuid() != 0, reason="changes the owner of a file: run it as root")
@pytest.mark.parametrize("uid, mode", [(65534, 0o644), (0, 0o666)])
def test_skipped_file_has_its_own_result_not_that_of_another_user(lab: Lab, uid: int, mode: int) -> None:
    """mode: other users can write the second file."""
    (file,) = lab.put("a.wav")
    name = Path(file)
    name.parent.chmod(0o1777)
    spawn(lab, [file])
    own = name.rename(lab.directory / "own")
    lab.put("a.wav")
    os.chown(name, uid, uid)
    name.chmod(mode)
    spawn(lab, [file])
    theirs = name.rename(lab.directory / "theirs")
    for path, folder in ((own, "a"), (theirs, "a.wav")):
        path.rename(name)
        (result,) = spawn(lab, [file])[1]
        assert result["skipped"] and result["output_dir"] == str(lab.output / folder), result


@pytest.mark.skipif(os.geteuid() != 0, reason="changes the group of a file: run it as root")
def test_results_that_a_group_can_add_are_not_reported(tmp_path: Path) -> None:
    path = tmp_path / "launch.jsonl"
    path.touch(0o664)
    path.chmod(0o664)
    list(Record(path, "").read())  # root is the only member of its group
    os.chown(path, 0, 65534)
    with pytest.raises(OSError, match="its group can write it"):
        Record(path, "")


@pytest.mark.parametrize(
    "line",
    [
        '{"event": "done", "output": "x"}',
        '{"event": "done", "file": "a"}',
        '{"event": "done", "file": "a", "output": "/tmp/x"}',
        '{"event": "done", "file": "a", "output": "b/../../x"}',
        '{"event": "done", "file": "a", "output": ""}',
        '{"event": "done", "file": "a", "output": "x", "gpu": "y"}',
    ],
)
def test_results_that_gpuq_does_not_write_are_skipped(tmp_path: Path, line: str) -> None:
    path = tmp_path / "launch.jsonl"
    record = Record(path, "ours")
    path.write_text(f'{{"event": "run", "mark": "ours"}}\n{line}\n{{"event": "done", "file": "b", "output": "b"}}\n')
    assert [event.get("file") for event in record.read()] == [None, "b"]


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


@pytest.mark.parametrize("entry", ["first", "last", "current"])
def test_gpuq_of_the_package_is_not_taken_from_other_directories_of_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    """Another user may have put a gpuq there that claims to belong to the package."""
    information = tmp_path / "gpu_dispatch-9.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: gpu_dispatch\nVersion: 9\n")
    (information / "RECORD").write_text("gpuq,,\n")
    (tmp_path / "gpuq").write_text("#!/bin/sh\n")
    (tmp_path / "gpuq").chmod(0o755)
    monkeypatch.delenv("GPUQ", raising=False)
    monkeypatch.chdir(tmp_path)
    planted = [str(tmp_path)]
    monkeypatch.setattr(sys, "path", {"first": planted + sys.path, "last": sys.path + planted, "current": ["", *sys.path]}[entry])
    installed = os.environ.get("GD_INSTALLED")
    assert _programs._of_this_package() == (os.path.join(installed, "bin", "gpuq") if installed else None)
    monkeypatch.setattr(_programs, "_place", str(tmp_path))
    assert _programs._of_this_package() == str(tmp_path / "gpuq")


def test_gpuq_is_not_taken_from_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user may have put a gpuq into the directory to which the program has changed."""
    (tmp_path / "gpuq").write_text("#!/bin/sh\n")
    (tmp_path / "gpuq").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    for relative in ("gpuq", "./gpuq"):
        monkeypatch.setenv("GPUQ", relative)
        with pytest.raises(ValueError, match=f"^\\$GPUQ '{relative}' is not an absolute path$"):
            _programs.find_gpuq()
    monkeypatch.delenv("GPUQ")
    monkeypatch.setattr(_programs, "_of_this_package", lambda: None)
    monkeypatch.setattr(_programs, "_of_this_interpreter", lambda: "/missing/gpuq")
    for entry in ("", "."):
        monkeypatch.setenv("PATH", f"{entry}:/missing")
        with pytest.raises(FileNotFoundError):
            _programs.find_gpuq()
    monkeypatch.setenv("PATH", f".:{tmp_path}")
    assert _programs.find_gpuq() == str(tmp_path / "gpuq")


def test_workers_do_not_get_the_standard_library_of_the_program() -> None:
    """They may run another version of Python."""
    path = spawner_module._environment()["PYTHONPATH"].split(os.pathsep)
    assert os.path.dirname(os.__file__) in sys.path and os.path.dirname(pytest.__path__[0]) in path
    assert not [entry for entry in path if os.path.exists(f"{entry}/os.py") or entry.endswith(("lib-dynload", ".zip"))]


def test_workers_search_the_folders_of_others_not_before_the_standard_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are searched for sitecustomize and json, for example, if they are in PYTHONPATH."""
    monkeypatch.delenv("GPUQ_TRUST", raising=False)
    for name in ("first", "own", "shared"):
        (tmp_path / name).mkdir()
    (tmp_path / "first").chmod(0o1777)
    (tmp_path / "shared").chmod(0o1777)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), *sys.path, str(tmp_path / "own"), str(tmp_path / "shared")])
    path = spawner_module._environment()["PYTHONPATH"].split(os.pathsep)
    assert str(tmp_path / "first") in path and str(tmp_path / "own") in path and str(tmp_path / "shared") not in path
    monkeypatch.setenv("GPUQ_TRUST", "1")
    assert str(tmp_path / "shared") in spawner_module._environment()["PYTHONPATH"].split(os.pathsep)


def test_relative_entries_of_the_path_mean_what_they_mean_to_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user may have planted a usercustomize.py in the directory to which the program has changed."""
    (tmp_path / "home" / "src").mkdir(parents=True)
    (tmp_path / "home" / "src" / "found_by_the_test.py").touch()
    (tmp_path / "shared" / "src").mkdir(parents=True)
    monkeypatch.setattr(sys, "path_importer_cache", dict(sys.path_importer_cache))
    monkeypatch.setattr(sys, "path", ["src", *sys.path, "never_searched", tmp_path])  # Python ignores a Path
    monkeypatch.chdir(tmp_path / "home")
    sys.path_importer_cache.pop("src", None)
    assert importlib.util.find_spec("found_by_the_test") is not None
    monkeypatch.chdir(tmp_path / "shared")
    path = spawner_module._environment()["PYTHONPATH"].split(os.pathsep)
    assert path[0] == str(tmp_path / "home" / "src")
    assert all(os.path.isabs(entry) for entry in path)
    assert not [entry for entry in path if entry.startswith(str(tmp_path / "shared"))]
