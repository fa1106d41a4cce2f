# SPDX-License-Identifier: MIT
"""The extension's Pool and the worker's side of it."""
from __future__ import annotations

import gc
import os
import pathlib
import select
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import workers
from workers import Batches, Echo, Naughty, wait_until

from gpu_dispatch import BaseWorker, GPUNotFound, NoWorkers, PoolClosed, _engine, _spawn


class Log:
    """What the callbacks were told."""

    def __init__(self) -> None:
        self.results: dict[Any, Any] = {}
        self.failures: dict[Any, _engine.Failure] = {}
        self.cancelled: dict[Any, _engine.Failure] = {}
        self.timeouts: dict[Any, float] = {}
        self.setup_failures: list[_engine.Failure] = []
        self.messages: list[Any] = []

    def callbacks(self) -> dict[str, Callable[..., object]]:
        return {
            "on_success": lambda key, value, gpu: self.results.__setitem__(key, value),
            "on_error": lambda key, failure, gpu: self.failures.__setitem__(key, failure),
            "on_cancelled": lambda key, failure, gpu: self.cancelled.__setitem__(key, failure),
            "on_timeout": lambda key, seconds, gpu: self.timeouts.__setitem__(key, seconds),
            "on_setup_fail": lambda gpu, failure: self.setup_failures.append(failure),
            "on_message": lambda message, gpu, slot: self.messages.append((message, gpu, slot)),
        }


def open_pool(log: Log, worker: type[BaseWorker] = Echo, max_batch: int = 1, **options: Any) -> _engine.Pool:
    setup = options.pop("setup", {})
    settings = _spawn.worker_settings(worker(), setup)
    given: dict[str, Any] = {"gpus": [0], "bind": False, **log.callbacks(), **options}
    return _engine.Pool(argv=_spawn.worker_argv(max_batch), settings=settings, **given)


@pytest.fixture
def log() -> Log:
    return Log()


def drain(pool: _engine.Pool) -> None:
    while pool.outstanding() > 0:
        pool.poll(30_000)


def poll_until(pool: _engine.Pool, condition: Callable[[], object]) -> None:
    wait_until(lambda: pool.poll(1, idle=True) >= 0 and condition())


def submit_all(pool: _engine.Pool, items: list[Any]) -> None:
    """Large ones find no room at first."""
    iterator = iter(items)
    while not pool.feed(iterator):
        pool.poll(30_000)


# ---- Tasks -------------------------------------------------------------------


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


def test_what_cannot_be_pickled_is_no_task(log: Log) -> None:
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


def test_feed_takes_no_more_than_it_is_told(log: Log) -> None:
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


# ---- Ends --------------------------------------------------------------------


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
    assert log.results == {0: "cancelled"}  # it ended by itself: what it returned is a result
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


# ---- Batches, messages -------------------------------------------------------


def test_batches(log: Log) -> None:
    pool = open_pool(log, Batches, max_batch=8)
    pool.wait_ready(30_000)
    items = ["bad" if number == 5 else number for number in range(100)]
    assert pool.feed(iter(items))
    drain(pool)
    assert list(log.failures) == [5] and log.failures[5].message == "ValueError: bad"
    assert {key: value[0] for key, value in log.results.items()} == {
        number: number for number in range(100) if number != 5
    }
    assert max(value[1] for value in log.results.values()) > 1
    assert max(value[1] for value in log.results.values()) <= 8
    pool.close()


def test_a_batch_with_too_few_results_fails(log: Log) -> None:
    pool = open_pool(log, Batches, max_batch=8)
    pool.submit("wrong length")
    drain(pool)
    assert "returned 0 results for 1 items" in log.failures[0].message
    pool.close()


def test_an_unreadable_item_of_a_batch_fails_alone(log: Log) -> None:
    pool = open_pool(log, Batches, max_batch=8)
    pool.feed(iter([1, workers.Undecodable(), workers.Unpicklable(), 4]))
    drain(pool)
    assert set(log.failures) == {1, 2} and set(log.results) == {0, 3}
    pool.close()


def test_messages(log: Log) -> None:
    pool = open_pool(log, Naughty, gpus=[3])
    large = numpy.arange(3_000_000)
    pool.submit(("send", {"a": [1, 2]}))
    pool.submit(("send", large))
    pool.submit(("send_elsewhere",))
    drain(pool)
    assert log.messages[0] == ({"a": [1, 2]}, 3, 0)
    assert numpy.array_equal(log.messages[1][0], large)
    assert "main thread" in log.results[2]
    pool.close()


def test_threads_of_a_worker_run_while_it_waits(log: Log, tmp_path: pathlib.Path) -> None:
    pool = open_pool(log, Naughty, setup={"directory": str(tmp_path)})
    pool.submit(("thread_runs",))
    drain(pool)
    wait_until((tmp_path / "thread-begins").exists)
    (tmp_path / "tick").touch()
    wait_until((tmp_path / "tock").exists)
    pool.close()


def test_a_task_knows_its_number_and_attempt(log: Log) -> None:
    pool = open_pool(log, Naughty)
    pool.submit(("echo", 1))
    pool.submit(("task",))
    drain(pool)
    assert log.results[1] == (1, 1)
    pool.close()
    assert _engine.task_id() == -1 and not _engine.cancelled()
    with pytest.raises(RuntimeError, match="not a worker"):
        _engine.send(1)


# ---- Polling -----------------------------------------------------------------


def test_poll_without_tasks_returns_at_once(log: Log) -> None:
    pool = open_pool(log)
    assert pool.poll() == 0
    assert pool.wait_ready(30_000) == 1
    assert pool.poll(0) == 0
    assert pool.poll(1, idle=True) == 0
    pool.close()


def test_interrupt_ends_a_wait(log: Log) -> None:
    pool = open_pool(log)
    pool.interrupt()
    assert pool.poll(-1, idle=True) == 0  # also one that comes before
    polls: list[int] = []
    thread = threading.Thread(target=lambda: polls.append(pool.poll(-1, idle=True)))
    thread.start()
    while thread.is_alive():
        pool.interrupt()
        thread.join(0.01)
    assert polls == [0]
    pool.close()


def test_the_descriptor_becomes_readable(log: Log) -> None:
    pool = open_pool(log)
    pool.submit(1)
    while not log.results:
        assert select.select([pool.fileno()], [], [], 30)[0]
        pool.poll(0)
    pool.close()


def test_the_first_exception_of_a_batch_is_raised_and_all_events_are_seen(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    unraisable: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", lambda args: unraisable.append(args.exc_value))

    def on_success(key: int, value: Any, gpu: int) -> None:
        seen.append(key)
        raise LookupError(key)

    pool = open_pool(log, on_success=on_success)
    pool.feed(iter(range(200)))
    raised: list[LookupError] = []
    while pool.outstanding() > 0:
        try:
            pool.poll(30_000)
        except LookupError as error:
            raised.append(error)
    assert seen == list(range(200))
    assert sorted(error.args[0] for error in raised + unraisable) == seen
    pool.close()


def test_a_callback_may_submit_cancel_and_ask_but_not_poll(log: Log) -> None:
    errors: list[str] = []

    def on_success(key: int, value: Any, gpu: int) -> None:
        log.results[key] = value
        if value < 10:
            pool.submit(value + 1)
        assert pool.stats()["completed"] > 0 and pool.worker_stats()
        forbidden_calls: list[Callable[[], object]] = [pool.poll, pool.close, pool.wait_ready]
        for forbidden in forbidden_calls:
            try:
                forbidden()
            except RuntimeError as error:
                errors.append(str(error))

    pool = open_pool(log, on_success=on_success)
    pool.submit(0)
    drain(pool)
    assert log.results == {number: number for number in range(11)}
    assert len(errors) == 33
    pool.close()


def test_a_stopped_pool(log: Log, tmp_path: pathlib.Path) -> None:
    pool = open_pool(log, Naughty, setup={"directory": str(tmp_path)})
    pool.submit(("wait_for", "go"))
    pool.submit(("echo", 1))
    poll_until(pool, (tmp_path / "go-waits").exists)
    pool.stop()
    with pytest.raises(PoolClosed):
        pool.submit(("echo", 1))
    poll_until(pool, lambda: 1 in log.cancelled)  # the worker may not get it after the first one
    (tmp_path / "go").touch()
    with pytest.raises(PoolClosed):
        while True:
            pool.poll(30_000)
    assert log.results == {0: "go"} and set(log.cancelled) == {1}
    pool.close()


def test_no_worker_left(log: Log) -> None:
    pool = open_pool(log, workers.NoSetup, setup={"bad": [0]})
    pool.submit(1)
    with pytest.raises(NoWorkers):
        while True:
            pool.poll(30_000)
    assert log.failures[0].kind == "no worker"
    assert "no model on 0" in log.setup_failures[0].payload[1]
    with pytest.raises(NoWorkers):
        pool.submit(1)
    assert pool.wait_ready(0) == 0
    pool.close()


# ---- Closing -----------------------------------------------------------------


def test_after_close(log: Log) -> None:
    pool = open_pool(log)
    pool.submit(1)
    drain(pool)
    stats = pool.close()
    assert stats["completed"] == 1 and pool.close() == stats == pool.stats()
    assert pool.closed and pool.worker_stats()[0]["state"] == "finished"
    calls: list[Callable[[], object]] = [
        pool.poll, pool.outstanding, pool.room, pool.fileno, lambda: pool.submit(1), lambda: pool.cancel(0),
    ]
    for call in calls:
        with pytest.raises(PoolClosed):
            call()
    pool.stop()
    pool.interrupt()


def test_close_cancels_what_is_left(log: Log, tmp_path: pathlib.Path) -> None:
    pool = open_pool(log, Naughty, setup={"directory": str(tmp_path)})
    pool.submit(("hang",))
    pool.submit(("echo", 1))
    poll_until(pool, (tmp_path / "hangs").exists)
    assert pool.close()["cancelled"] == 2
    assert set(log.cancelled) == {0, 1}


def test_close_while_other_threads_wait_in_the_pool(log: Log, tmp_path: pathlib.Path) -> None:
    pool = open_pool(log, Naughty, queue_size=1, setup={"directory": str(tmp_path)})
    refused: list[BaseException] = []

    def submit() -> None:
        try:
            while True:
                pool.submit(("hang",))
        except PoolClosed as error:
            refused.append(error)

    def poll() -> None:
        try:
            while True:
                pool.poll(-1, idle=True)
        except PoolClosed as error:
            refused.append(error)

    threads = [threading.Thread(target=target) for target in (submit, submit, poll)]
    for thread in threads:
        thread.start()
    wait_until((tmp_path / "hangs").exists)
    pool.close()
    for thread in threads:
        thread.join()
    assert len(refused) == 3


def test_close_after_two_stops_lets_workers_clean_up_although_a_thread_waits_for_room(
    log: Log, tmp_path: pathlib.Path
) -> None:
    pool = open_pool(log, workers.MarkCleanup, queue_size=1, setup={"directory": str(tmp_path)})
    assert pool.wait_ready(30_000) == 1

    def submit() -> None:
        try:
            while True:
                pool.submit(1)
        except PoolClosed:
            pass

    thread = threading.Thread(target=submit)
    thread.start()
    wait_until(lambda: pool.room() == 0)
    pool.stop()
    pool.stop()
    pool.close()
    thread.join()
    assert os.listdir(tmp_path) == ["cleaned-0"]


def test_a_forgotten_pool_leaves_no_process(log: Log, tmp_path: pathlib.Path) -> None:
    pool = open_pool(log, Naughty, setup={"directory": str(tmp_path)})
    pool.submit(("hang",))
    poll_until(pool, (tmp_path / "hangs").exists)
    pool.poll(0)
    pid = pool.worker_stats()[0]["pid"]
    assert pid > 0
    del pool
    gc.collect()
    assert not os.path.exists(f"/proc/{pid}")
    assert not log.cancelled  # nobody is left to be told


def test_a_forked_child_cannot_use_the_pool(log: Log) -> None:
    pool = open_pool(log)
    pool.submit(1)
    drain(pool)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            pool.submit(2)
        except RuntimeError as error:
            status = 0 if "forked" in str(error) else 2
        pool.stop()
        pool.interrupt()
        del pool
        gc.collect()
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    pool.submit(3)
    drain(pool)
    assert log.results == {0: 1, 1: 3}
    pool.close()


def test_wrong_options(log: Log) -> None:
    with pytest.raises(ValueError, match="queue_size"):
        open_pool(log, queue_size=-1)
    with pytest.raises(ValueError, match="GPU"):
        open_pool(log, gpus=[-1])
    with pytest.raises(TypeError, match="on_error"):
        open_pool(log, on_error=5)
    with pytest.raises(TypeError):
        _engine.Pool()  # type: ignore[call-arg]
    with pytest.raises(GPUNotFound):
        open_pool(log, gpus="7", bind=True)


# ---- GPUs --------------------------------------------------------------------


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
