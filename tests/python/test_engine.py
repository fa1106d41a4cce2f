# SPDX-License-Identifier: MIT
"""The extension: tasks and their ends."""
from __future__ import annotations

import pathlib
import signal
import threading
import time
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import workers
from engine_lab import Log, drain, open_pool, poll_until, submit_all
from workers import Naughty

from gpu_dispatch import BaseWorker, GPUNotFound, TaskError, _engine, _failure


@pytest.fixture
def log() -> Log:
    return Log()


# ---- Tasks ----------------------------------------------------------------------------------


def test_keys_are_tags_or_ids(log: Log) -> None:
    pool = open_pool(log)
    tag = object()
    assert pool.submit("a") == 0
    assert pool.submit("b", tag) == 1
    assert pool.submit("c", tag=("x", 1)) == 2
    drain(pool)
    assert log.results == {0: "a", tag: "b", ("x", 1): "c"}
    assert pool.close()["completed"] == 3


def test_wrong_arguments_of_submit(log: Log) -> None:
    pool = open_pool(log)
    wrong: list[Callable[[], object]] = [
        lambda: pool.submit(),  # type: ignore[call-arg]
        lambda: pool.submit(1, 2, 3, True, 5),  # type: ignore[call-arg]
        lambda: pool.submit(1, item=2),  # type: ignore[misc]
        lambda: pool.submit(1, tags=2),  # type: ignore[call-arg]
        lambda: pool.submit(1, timeout_ms="x"),  # type: ignore[arg-type]
    ]
    for call in wrong:
        with pytest.raises(TypeError):
            call()
    with pytest.raises(ValueError):
        pool.submit(1, timeout_ms=-1)
    assert pool.outstanding() == 0
    assert pool.submit(item=1, tag="x", timeout_ms=10_000, nowait=True) == 0
    pool.close()


def test_tags_are_released(log: Log, tmp_path: pathlib.Path) -> None:
    class Tag:
        pass

    pool = open_pool(log, Naughty, setup={"directory": str(tmp_path)})
    tags = [Tag() for _ in range(6)]
    alive = [weakref.ref(tag) for tag in tags]
    log.results = log.failures = log.cancelled = log.timeouts = _Forgetful()
    items = [("echo", 1), ("fail", ""), ("undecodable",), ("hang",), ("echo", 1), ("echo", 1)]
    for tag, item in zip(tags, items):
        pool.submit(item, tag, timeout_ms=300 if item == ("hang",) else 0)
    del tag, tags
    pool.cancel(4)
    drain(pool)
    assert [ref() for ref in alive] == [None] * 6
    last = Tag()
    alive.append(weakref.ref(last))
    pool.submit(("echo", 1), last)
    del last
    pool.close()
    assert alive[-1]() is None


class _Forgetful(dict[Any, Any]):
    def __setitem__(self, key: Any, value: Any) -> None:
        pass


def test_an_item_that_cannot_be_pickled_is_not_a_task(log: Log) -> None:
    pool = open_pool(log)
    with pytest.raises(TypeError, match="stays here"):
        pool.submit(workers.Unpicklable())
    assert pool.outstanding() == 0
    assert pool.submit(1) == 0
    pool.close()


def test_no_room(log: Log, tmp_path: pathlib.Path) -> None:
    pool = open_pool(log, Naughty, queue_size=2, setup={"directory": str(tmp_path)})
    pool.submit(("wait_for", "go"))
    with pytest.raises(BlockingIOError):
        for _ in range(100):
            pool.submit(("echo", 1), nowait=True)
    with pytest.raises(BlockingIOError):
        pool.submit(("echo", 1))  # this is the polling thread
    assert pool.room() == 0
    (tmp_path / "go").touch()
    drain(pool)
    assert pool.room() > 0
    pool.close()


def test_another_thread_waits_for_room(log: Log) -> None:
    pool = open_pool(log, queue_size=2)

    def submit() -> None:
        for number in range(500):
            pool.submit(number)

    thread = threading.Thread(target=submit)
    thread.start()
    while len(log.results) < 500:
        pool.poll(30_000, idle=True)
    thread.join()
    assert log.results == {number: number for number in range(500)}
    pool.close()


def test_feed_keeps_what_found_no_room(log: Log) -> None:
    for item in (5, b"x" * 10_000, numpy.arange(3)):
        pool = open_pool(log, queue_size=3)
        iterator = iter([item] * 100)
        calls = 0
        while not pool.feed(iterator):
            calls += 1
            pool.poll(30_000)
        drain(pool)
        assert calls > 1
        assert pool.close()["completed"] == 100


def test_feed_takes_no_more_than_its_limit(log: Log) -> None:
    pool = open_pool(log)
    iterator = iter(range(10))
    assert pool.feed(iterator, limit=4) is False
    assert next(iterator) == 4
    assert pool.feed(iterator) is True
    drain(pool)
    assert list(log.results.values()) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    with pytest.raises(TypeError, match="iterator"):
        pool.feed([1, 2])  # type: ignore[arg-type]

    def broken() -> Iterator[int]:
        yield 1
        raise LookupError("no more")

    with pytest.raises(LookupError):
        pool.feed(broken())
    pool.close()


@pytest.mark.parametrize("size", [1000, 100_000, 1_500_000, 5_000_000])
def test_arrays_of_any_size(log: Log, size: int) -> None:
    pool = open_pool(log)
    array = numpy.arange(size, dtype="u1")
    submit_all(pool, [{"array": array, "more": array[:5]}] * 3)
    drain(pool)
    for result in log.results.values():
        assert numpy.array_equal(result["array"], array)
        assert result["array"].flags.writeable and result["array"].flags.aligned
    pool.close()


@pytest.mark.parametrize("size", [1000, 5_000_000])
def test_zero_copy_results_are_views_that_outlive_the_pool(log: Log, size: int) -> None:
    pool = open_pool(log, zero_copy=True)
    array = numpy.arange(size, dtype="u1")
    submit_all(pool, [[array], "text"] * 4)
    drain(pool)
    pool.close()
    for result in list(log.results.values())[::2]:
        assert numpy.array_equal(result[0], array)
        assert not result[0].flags.writeable
        assert not result[0].flags.owndata


# ---- Ends -----------------------------------------------------------------------------------


def test_ctrl_c_while_a_result_is_unpickled_is_ctrl_c_and_the_result_arrives(log: Log) -> None:
    workers.Interrupting.trips = 0
    pool = open_pool(log, Naughty)
    pool.submit(("interrupting",))
    with pytest.raises(KeyboardInterrupt):
        drain(pool)
    assert isinstance(log.results[0], workers.Interrupting) and not log.failures
    pool.close()


def test_failures_carry_exception_and_traceback(log: Log) -> None:
    pool = open_pool(log, Naughty)
    pool.submit(("fail", "broken"))
    pool.submit(("die",))
    pool.submit(("undecodable",))
    drain(pool)
    failed, died, undecodable = log.failures[0], log.failures[1], log.failures[2]
    assert (failed.kind, failed.message, failed.attempt, failed.gpu, failed.slot) == (
        "failed", "ValueError: broken", 1, 0, 0,
    )
    assert "do_fail" in failed.payload[1]
    assert (died.kind, died.signal, died.payload) == ("crashed", signal.SIGKILL, None)
    assert undecodable.kind == "undecodable" and isinstance(undecodable.payload, ValueError)
    pool.close()


@pytest.mark.parametrize("payload", [7, "text", (), (b"",), (b"", 1), (1, "text"), (b"", "text", 3), [b"", "text"], {}])
def test_damaged_exception_is_a_failed_task(payload: Any) -> None:
    failure: Any = types.SimpleNamespace(kind="failed", message="ValueError: broken", payload=payload, signal=0)
    error = _failure.exception_of(failure)
    assert isinstance(error, TaskError)
    assert str(error) == "ValueError: broken (the exception itself could not be decoded: it is damaged)"
    assert _failure.traceback_text(failure) == "ValueError: broken"


def test_message_of_a_failure_names_the_exception_not_its_notes(log: Log) -> None:
    pool = open_pool(log, Naughty)
    pool.submit(("fail_with_a_note", "broken", "in shard 3"))
    drain(pool)
    assert log.failures[0].message == "ValueError: broken"
    pool.close()


def test_retries(log: Log) -> None:
    pool = open_pool(log, Naughty, retries=2, gpus=[0, 1])
    pool.submit(("fail", "broken"))
    drain(pool)
    assert log.failures[0].attempt == 3
    assert pool.close()["retries"] == 2


def test_cancelling_a_waiting_and_a_running_task(log: Log, tmp_path: pathlib.Path) -> None:
    pool = open_pool(log, Naughty, setup={"directory": str(tmp_path)})
    first, second = pool.submit(("hang",)), pool.submit(("echo", 2))
    pid_task = pool.submit(("pid",))
    assert pool.cancel(second) is True
    poll_until(pool, (tmp_path / "hangs").exists)
    assert pool.cancel(first) is True
    drain(pool)
    assert set(log.cancelled) == {first, second} and set(log.results) == {pid_task}
    assert "TaskCancelled" in log.cancelled[first].payload[1]
    assert log.cancelled[second].attempt == 0
    assert pool.cancel(first) is False
    assert pool.close()["restarts"] == 0


def test_a_long_task_can_poll_that_it_is_cancelled(log: Log, tmp_path: pathlib.Path) -> None:
    pool = open_pool(log, Naughty, setup={"directory": str(tmp_path)})
    pool.submit(("poll_cancelled",))
    poll_until(pool, (tmp_path / "hangs").exists)
    pool.cancel(0)
    drain(pool)
    assert log.results == {0: "cancelled"}  # it ended by itself, so its return value is a result
    pool.close()


def test_a_worker_that_does_not_react_is_killed_and_replaced(log: Log, tmp_path: pathlib.Path) -> None:
    pool = open_pool(log, Naughty, grace_ms=200, setup={"directory": str(tmp_path)})
    pool.submit(("pid",))
    pool.submit(("stubborn",), timeout_ms=100)
    pool.submit(("pid",))
    drain(pool)
    assert log.timeouts == {1: 0.1}
    assert log.results[0][0] != log.results[2][0]
    assert pool.close()["restarts"] == 1


def test_a_timeout_that_comes_late_hits_no_other_task(log: Log) -> None:
    """Tasks that take about as long as their limit: some are interrupted, some not, none twice."""
    pool = open_pool(log, Sleeper, queue_size=4096)
    for _ in range(400):
        pool.submit(0.002, timeout_ms=2)
        pool.submit(0.0)
    drain(pool)
    stats = pool.close()
    assert stats["completed"] + stats["timeouts"] == 800 and stats["restarts"] == 0
    assert not log.failures
    assert all(number % 2 == 0 for number in log.timeouts)


class Sleeper(BaseWorker):
    def setup(self, gpu_id: int, seed: int) -> None:
        pass

    def process(self, data: float) -> None:
        end = time.perf_counter() + data
        while time.perf_counter() < end:
            pass


# ---- GPUs -----------------------------------------------------------------------------------


def test_simulated_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus, warnings = _engine.gpu_list("sim:2x16G")
    assert [gpu["index"] for gpu in gpus] == [0, 1] and warnings == []
    assert gpus[0]["memory_total_bytes"] == 16 << 30 and gpus[0]["vendor"] == "simulated"
    assert gpus[0]["usable"] is True
    monkeypatch.setenv("GPUQ_GPUS", "sim:3")
    assert _engine.gpu_parse() == [0, 1, 2]
    assert _engine.gpu_parse("1-2") == [1, 2]
    assert len(_engine.gpu_survey()[0]) == 3
    assert _engine.gpu_validate([0, 2]) is None
    assert "7" in (_engine.gpu_validate([0, 7]) or "")
    assert _engine.cuda_available() is False
    with pytest.raises(GPUNotFound):
        _engine.gpu_list("7")
    with pytest.raises(ValueError):
        _engine.gpu_list("nonsense!")
