# SPDX-License-Identifier: MIT
"""Pool: its workers and its arguments."""
from __future__ import annotations

import logging
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from gpu_dispatch import BaseWorker, GPUNotFound, NoWorkers, Pool, TaskTimedOut, _spawn
from poolworkers import Actor, Batcher, BrokenSetup, ExitingSetup
from waiting import DEADLINE_SECONDS, eventually


# ---- workers --------------------------------------------------------------------------------


def test_wait_ready_and_stats(pool: Pool) -> None:
    assert pool.wait_ready(DEADLINE_SECONDS) == 2
    stats = pool.stats()
    assert stats["workers_alive"] == 2
    assert [worker["gpu"] for worker in stats["per_worker"]] == [0, 1]


def test_wait_ready_out_of_time() -> None:
    with Pool(Actor, "sim:1") as pool:
        with pytest.raises(TimeoutError):
            pool.wait_ready(0.000001)


def test_a_failed_setup_is_reported_as_the_cause(caplog: pytest.LogCaptureFixture) -> None:
    with Pool(BrokenSetup, "sim:2") as pool:
        with pytest.raises(NoWorkers, match="setup") as caught:
            pool.wait_ready(DEADLINE_SECONDS)
        assert isinstance(caught.value.__cause__, RuntimeError)
        assert caught.value.__cause__.args == ("no model",)
        with pytest.raises(RuntimeError):
            pool.submit(1).result(DEADLINE_SECONDS)
    assert "no model" in caplog.text


def test_tasks_that_wait_for_a_broken_setup_fail() -> None:
    with Pool(BrokenSetup, "sim:1") as pool:
        futures = [pool.submit(n) for n in range(5)]
        for future in futures:
            error = future.exception(DEADLINE_SECONDS)
            assert isinstance(error, NoWorkers)
            assert isinstance(error.__cause__, RuntimeError)


def test_a_worker_is_replaced_after_its_number_of_tasks() -> None:
    with Pool(Actor, "sim:1", max_tasks_per_worker=3) as pool:
        pids = [pool.submit(("pid", None)).result() for _ in range(9)]
    assert len(set(pids)) == 3


def test_batches() -> None:
    with Pool(Batcher, "sim:1", max_batch=8) as pool:
        results = list(pool.map(range(500)))
        assert [value for value, _ in results] == [2 * n for n in range(500)]
        assert max(size for _, size in results) <= 8
        assert pool.submit(4).result()[0] == 8
        errors = list(pool.map([1, "bad", 3], errors="return"))
        assert errors[0][0] == 2 and errors[2][0] == 6
        assert isinstance(errors[1], ValueError) and errors[1].args == ("bad",)
        assert isinstance(pool.submit("crash").exception(), ValueError)
        assert pool.submit("short").exception() is not None
        assert pool.submit(5).result()[0] == 10


def test_max_batch_needs_process_batch() -> None:
    with pytest.raises(TypeError, match="process_batch"):
        Pool(Actor, "sim:1", max_batch=4)


def test_time_limit_is_heeded_while_records_are_sent(caplog: pytest.LogCaptureFixture) -> None:
    """Logging handlers swallow exceptions, but not the one that ends the task. The worker survives."""
    caplog.set_level(logging.INFO, "gpu_dispatch.worker")
    with Pool(Actor, "sim:1", grace=600) as pool:
        for _ in range(5):
            with pytest.raises(TaskTimedOut):
                pool.submit(("log_forever", None), timeout=0.05).result(DEADLINE_SECONDS)
    assert pool.stats()["restarts"] == 0


def test_log_records_reach_the_parent(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "gpu_dispatch.worker")
    with Pool(Actor, "sim:1") as pool:
        text = "long " * 1_000_000
        for item in (("log_info", "short"), ("log_info", text), ("log_exception", "reason")):
            pool.submit(item).result()
        pool.submit(("log_in_thread", "from a thread")).result()
    short, long, failed, threaded, last = caplog.records
    assert short.getMessage() == "a short record" and short.levelno == logging.INFO
    assert short.__dict__["color"] == "green" and short.__dict__["gpu"] == 0
    assert short.process != os.getpid() and short.filename == "poolworkers.py"
    assert long.getMessage() == f"a {text} record"
    assert failed.exc_text is not None and "ValueError: reason" in failed.exc_text
    assert threaded.getMessage() == "from a thread" and last.getMessage() == "main thread"


def test_log_records_of_threads_come_before_the_end_of_their_task(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Pool(Actor, "sim:1") as pool:
        for number, text in enumerate(("succeed", "fail")):
            pool.submit(("log_in_thread_only", text)).exception()
            assert [record.getMessage() for record in caplog.records][number:] == [text]


def test_a_callback_that_exits_does_not_end_the_pool_s_thread(
    pool: Pool, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    called: list[str] = []

    def leave(_: object) -> None:
        called.append("first")
        sys.exit(3)

    for _ in range(2):
        future = pool.submit(("block", str(fifo)))
        future.add_done_callback(leave)
        future.add_done_callback(lambda _: called.append("second"))
        fifo.write_text("go on")
        eventually(lambda: called == ["first", "second"])
        called.clear()
    assert "SystemExit: 3" in caplog.text


def test_log_records_below_the_level_are_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "gpu_dispatch.worker")
    with Pool(Actor, "sim:1") as pool:
        pool.submit(("log_info", "x")).result()
    assert not caplog.records


@pytest.mark.parametrize("zero_copy", [False, True])
def test_arrays(zero_copy: bool) -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(1_000_000, dtype="float32").reshape(1000, 1000)
    with Pool(Actor, "sim:1", zero_copy=zero_copy) as pool:
        result = pool.submit(("echo", array)).result()
        results = list(pool.map([("echo", array[n]) for n in range(100)]))
    assert (result == array).all()
    assert all((results[n] == array[n]).all() for n in range(100))
    assert result.flags.writeable is not zero_copy


# ---- arguments ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"task_timeout": 0},
        {"task_timeout": float("nan")},
        {"task_timeout": 1e12},
        {"grace": float("inf")},
        {"setup_timeout": 1e300},
        {"cleanup_timeout": -1},
        {"workers_per_gpu": 0},
        {"queue_size": 0},
        {"max_tasks_per_worker": 0},
        {"gpus": []},
    ],
)
def test_wrong_options(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(ValueError, match=f"^{name} "):
        Pool(Actor, **(dict[str, Any](gpus="sim:1") | options))


def test_gpus_must_be_text_or_a_list() -> None:
    with pytest.raises(TypeError, match="^gpus must be a string or a list of numbers, not 0$"):
        Pool(Actor, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("timeout", [1e12, float("inf")])
def test_long_times_to_wait(pool: Pool, timeout: float) -> None:
    with pytest.raises(ValueError, match="^timeout must be"):
        pool.submit(("echo", 1), timeout=timeout)
    assert pool.submit(("echo", 1)).result(timeout) == 1
    assert list(pool.map([("echo", 1)], timeout=timeout)) == [1]
    assert pool.wait_ready(timeout) == 2
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda: results.append(pool.submit(("echo", 1)).result(timeout)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [1] * 4


def test_a_setup_that_exits_is_named() -> None:
    with Pool(ExitingSetup, "sim:1") as pool:
        with pytest.raises(NoWorkers) as caught:
            pool.wait_ready()
    assert str(caught.value.__cause__) == "setup() raised SystemExit(3)"


def test_wrong_classes_and_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError):
        Pool(int, "sim:1")  # type: ignore[arg-type]

    class Abstract(BaseWorker):
        pass

    with pytest.raises(TypeError):
        Pool(Abstract, "sim:1")
    monkeypatch.setenv("GPUQ_GPUS", "sim:2")
    with pytest.raises(GPUNotFound):
        Pool(Actor, [5])


def test_workers_import_nothing_from_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user may have planted modules there; "-c" of Python 3.13 imports linecache before the code."""
    for name in ("linecache.py", "json.py"):
        (tmp_path / name).write_text("open('planted', 'w').close()\n")
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.chdir(tmp_path)
    with Pool(Actor, "sim:1") as pool:
        assert pool.submit(("echo", 1)).result(DEADLINE_SECONDS) == 1
    assert not (tmp_path / "planted").exists()
    assert sys.version_info < (3, 11) or "-P" in _spawn.worker_argv()
